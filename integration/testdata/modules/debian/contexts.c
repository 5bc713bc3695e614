// SPDX-License-Identifier: MIT
/* contexts says what the handlers of return probes find, in calls that nest and in calls that outlive the probe. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/completion.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>

noinline long contexts_target(long a, long b);
noinline long contexts_target(long a, long b)
{
	barrier();
	return a * 10 + b;
}

noinline long contexts_caller(long n);
noinline long contexts_caller(long n)
{
	return contexts_target(n, n + 1) + 1000;
}

static DECLARE_COMPLETION(waits);
static DECLARE_COMPLETION(over);
static DECLARE_COMPLETION(goes_on);

noinline long contexts_sleeps(long n);
noinline long contexts_sleeps(long n)
{
	complete(&waits);
	wait_for_completion(&goes_on);
	return n;
}

struct note {
	char kind;
	long a, b;
	u8 rest[40];
};

static int entered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct note *n = (struct note *)ri->data;

	pr_info("entered: %pS, called by %pS, data %d, aligned %d, rp %d\n", (void *)regs->ip, (void *)get_kretprobe_retaddr(ri),
		n->rest[39], IS_ALIGNED((unsigned long)n, 8), get_kretprobe(ri) != NULL);
	n->kind = 'c';
	n->a = regs->di;
	n->b = regs->si;
	n->rest[39] = 77;
	return regs->di == 13;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct note *n = (struct note *)ri->data;

	pr_info("returned: %c %ld %ld %d gives %ld, to %pS, ip %pS, interrupts %s, preempt %d\n", n->kind, n->a, n->b, n->rest[39],
		regs_return_value(regs), (void *)get_kretprobe_retaddr(ri), (void *)regs->ip,
		irqs_disabled() ? "off" : "on", preempt_count() & 0xff);
	n->rest[39] = 0;
	if (n->a == 5)
		regs_set_return_value(regs, 500);
	return 0;
}

static int slept(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	pr_info("the sleeper returns, rp %d\n", get_kretprobe(ri) != NULL);
	return 0;
}

static struct kretprobe target = {
	.kp.symbol_name = "contexts_target", .handler = returned, .entry_handler = entered,
	.data_size = sizeof(struct note), .maxactive = 1,
};
static struct kretprobe sleeps = { .kp.symbol_name = "contexts_sleeps", .handler = slept, .maxactive = 3 };
static struct kretprobe bare = { .kp.symbol_name = "contexts_target" };
static struct kretprobe big = { .kp.symbol_name = "contexts_target", .handler = returned, .data_size = KRETPROBE_MAX_DATA_SIZE + 1 };

static int sleeper(void *unused)
{
	pr_info("the sleeper got %ld\n", contexts_sleeps(42));
	complete(&over);
	return 0;
}

static int __init contexts_init(void)
{
	struct task_struct *t;

	pr_info("register %d, max %d, post %d\n", register_kretprobe(&target), target.maxactive, target.kp.post_handler != NULL);
	pr_info("result %ld\n", contexts_caller(3));
	pr_info("result %ld\n", contexts_caller(13));
	pr_info("result %ld\n", contexts_caller(5));
	pr_info("missed %d\n", target.nmissed);
	pr_info("without a handler %d, data too large %d\n", register_kretprobe(&bare), register_kretprobe(&big));
	pr_info("result %ld\n", contexts_caller(3));
	unregister_kretprobe(&bare);
	pr_info("sleeps %d\n", register_kretprobe(&sleeps));
	t = kthread_run(sleeper, NULL, "sleeper");
	if (IS_ERR(t))
		return PTR_ERR(t);
	wait_for_completion(&waits);
	unregister_kretprobe(&sleeps);
	complete(&goes_on);
	wait_for_completion(&over);
	return 0;
}

static void __exit contexts_exit(void)
{
	unregister_kretprobe(&target);
	pr_info("result %ld\n", contexts_caller(5));
}

module_init(contexts_init);
module_exit(contexts_exit);
MODULE_LICENSE("Dual MIT/GPL");
