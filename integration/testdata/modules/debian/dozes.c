// SPDX-License-Identifier: MIT
/* dozes has a probe whose handler sleeps, and a thread that hits it. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/string.h>

static char *how = "pre";
module_param(how, charp, 0444);
static char *by = "msleep";
module_param(by, charp, 0444);
static int times = 1;
module_param(times, int, 0444);

static int other_hits;

noinline int dozes_target(int n);
noinline int dozes_target(int n)
{
	return n + 1;
}

noinline int dozes_other(int n);
noinline int dozes_other(int n)
{
	return n + 2;
}

noinline void dozes_sleep(const char *here);
noinline void dozes_sleep(const char *here)
{
	if (strcmp(how, here))
		return;
	pr_info("%s: preempt_count %x, irqs %s\n", here, preempt_count(), irqs_disabled() ? "off" : "on");
	if (!strcmp(by, "schedule"))
		schedule();
	else if (!strcmp(by, "yield"))
		yield();
	else
		msleep(20);
	pr_info("%s: slept, preempt_count %x, irqs %s\n", here, preempt_count(), irqs_disabled() ? "off" : "on");
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	dozes_sleep("pre");
	dozes_sleep("inside");
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	dozes_sleep("post");
}

static int entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	dozes_sleep("entry");
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	dozes_sleep("return");
	return 0;
}

static int count(struct kprobe *p, struct pt_regs *regs)
{
	other_hits++;
	return 0;
}

static struct kprobe kp = { .addr = (kprobe_opcode_t *)dozes_target, .pre_handler = pre };
static struct kretprobe rp = { .kp.addr = (kprobe_opcode_t *)dozes_target, .entry_handler = entry, .handler = returned };
static struct kprobe other = { .addr = (kprobe_opcode_t *)dozes_other, .pre_handler = count };

static int dozes(void *unused)
{
	int i;

	for (i = 0; i < times; i++)
		pr_info("target: %d\n", dozes_target(1));
	return 0;
}

static int goes_on(void *unused)
{
	pr_info("other: %d, %d hits, %lu missed, target's missed %lu and %lu\n", dozes_other(1), other_hits, other.nmissed, kp.nmissed, rp.kp.nmissed);
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

static bool is_return(void)
{
	return !strcmp(how, "entry") || !strcmp(how, "return");
}

static int __init dozes_init(void)
{
	int err;

	if (!strcmp(how, "post") || !strcmp(how, "inside")) /* with one, a breakpoint stays */
		kp.post_handler = post;
	if (!strcmp(how, "inside"))
		kp.addr = (kprobe_opcode_t *)((char *)dozes_target + 5);
	err = is_return() ? register_kretprobe(&rp) : register_kprobe(&kp);
	pr_info("register: %d, %d\n", err, register_kprobe(&other));
	err = run(dozes, "dozer", 0);
	if (!err)
		err = run(goes_on, "other", 0);
	if (!err)
		err = run(goes_on, "other", 1);
	return err;
}

static void __exit dozes_exit(void)
{
	if (is_return())
		unregister_kretprobe(&rp);
	else
		unregister_kprobe(&kp);
	unregister_kprobe(&other);
	pr_info("unregistered\n");
}

module_init(dozes_init);
module_exit(dozes_exit);
MODULE_LICENSE("Dual MIT/GPL");
