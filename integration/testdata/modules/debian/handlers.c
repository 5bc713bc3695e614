// SPDX-License-Identifier: MIT
/* handlers has a probe at a function's entry and one inside of it. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>

static char symbol[KSYM_NAME_LEN] = "handlers_target";
module_param_string(symbol, symbol, KSYM_NAME_LEN, 0644);

/* A function of its own, so that its arguments are known. */
noinline int handlers_target(int a, long b);
noinline int handlers_target(int a, long b)
{
	barrier();
	return a + (int)b;
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("pre at %pS: %ld %ld, interrupts %s, preempt %d\n", (void *)regs->ip, regs->di, regs->si,
		irqs_disabled() ? "off" : "on", preempt_count() & 0xff);
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	pr_info("post: flags %#lx, offset %#x\n", flags, p->offset);
}

static struct kprobe entry = { .symbol_name = symbol, .pre_handler = pre };
static struct kprobe inside = { .symbol_name = symbol, .pre_handler = pre, .post_handler = post, .offset = 5 };

static int __init handlers_init(void)
{
	int err = register_kprobe(&entry);

	if (err) {
		pr_info("entry: %d\n", err);
		return err;
	}
	err = register_kprobe(&inside);
	if (err) {
		pr_info("inside: %d\n", err);
		unregister_kprobe(&entry);
		return err;
	}
	pr_info("registered, at the entry %d\n", entry.addr == (kprobe_opcode_t *)handlers_target);
	pr_info("sum %d\n", handlers_target(2, 40));
	disable_kprobe(&entry);
	pr_info("sum %d\n", handlers_target(3, 50));
	enable_kprobe(&entry);
	pr_info("again: %d %d\n", register_kprobe(&entry), register_kprobe(&inside));
	return 0;
}

static void __exit handlers_exit(void)
{
	unregister_kprobe(&inside);
	unregister_kprobe(&entry);
	pr_info("sum %d, missed %lu %lu\n", handlers_target(4, 60), entry.nmissed, inside.nmissed);
}

module_init(handlers_init);
module_exit(handlers_exit);
MODULE_LICENSE("Dual MIT/GPL");
