// SPDX-License-Identifier: MIT
/* deaths has a probe whose handler comes to memory that is not there, and a thread that hits it. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/string.h>

static char *how = "pre";
module_param(how, charp, 0444);

static int *volatile pointer;
static int other_hits;

noinline int deaths_target(int n);
noinline int deaths_target(int n)
{
	return n + 1;
}

noinline int deaths_other(int n);
noinline int deaths_other(int n)
{
	return n + 2;
}

noinline void deaths_fault(const char *here);
noinline void deaths_fault(const char *here)
{
	if (!strcmp(how, here))
		*pointer = 1;
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("pre-handler\n");
	deaths_fault("pre");
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	pr_info("post-handler\n");
	deaths_fault("post");
}

static int entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	pr_info("entry-handler\n");
	deaths_fault("entry");
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	pr_info("return handler\n");
	deaths_fault("return");
	return 0;
}

static int count(struct kprobe *p, struct pt_regs *regs)
{
	other_hits++;
	return 0;
}

static struct kprobe kp = { .addr = (kprobe_opcode_t *)deaths_target, .pre_handler = pre, .post_handler = post };
static struct kretprobe rp = { .kp.addr = (kprobe_opcode_t *)deaths_target, .entry_handler = entry, .handler = returned };
static struct kprobe other = { .addr = (kprobe_opcode_t *)deaths_other, .pre_handler = count };

static int dies(void *unused)
{
	pr_info("target: %d\n", deaths_target(1));
	return 0;
}

static int goes_on(void *unused)
{
	pr_info("other: %d, %d hits, %lu missed, target's missed %lu and %lu\n", deaths_other(1), other_hits, other.nmissed, kp.nmissed, rp.kp.nmissed);
	return 0;
}

static int run(int (*thread)(void *), const char *name, unsigned int cpu)
{
	struct task_struct *t = kthread_create(thread, NULL, name);

	if (IS_ERR(t))
		return PTR_ERR(t);
	kthread_bind(t, cpu);
	get_task_struct(t);
	wake_up_process(t);
	/* Until all is said about its last schedule(). */
	while (READ_ONCE(t->__state) != TASK_DEAD || READ_ONCE(t->on_cpu))
		msleep(10);
	pr_info("%s is over, code %d\n", name, t->exit_code);
	put_task_struct(t);
	return 0;
}

static int __init deaths_init(void)
{
	int err;

	if (!strcmp(how, "entry") || !strcmp(how, "return"))
		err = register_kretprobe(&rp);
	else
		err = register_kprobe(&kp);
	pr_info("register: %d, %d\n", err, register_kprobe(&other));
	err = run(dies, "dier", 0);
	if (!err) /* how the other CPU goes on */
		err = run(goes_on, "other", 1);
	return err;
}

static void __exit deaths_exit(void)
{
	if (!strcmp(how, "entry") || !strcmp(how, "return"))
		unregister_kretprobe(&rp);
	else
		unregister_kprobe(&kp);
	unregister_kprobe(&other);
	pr_info("unregistered\n");
}

module_init(deaths_init);
module_exit(deaths_exit);
MODULE_LICENSE("Dual MIT/GPL");
