// SPDX-License-Identifier: MIT
/* halts switches the recording of the trace off at the third hit of its probe. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>

static int hits;

noinline int halts_target(int n);
noinline int halts_target(int n)
{
	barrier();
	return n + 1;
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	trace_printk("hit %d\n", ++hits);
	if (hits == 3)
		tracing_off();
	return 0;
}

static struct kprobe kp = { .addr = (kprobe_opcode_t *)halts_target, .pre_handler = pre };

static int __init halts_init(void)
{
	int i, err = register_kprobe(&kp);

	if (err)
		return err;
	pr_info("on %d\n", tracing_is_on());
	for (i = 0; i < 5; i++)
		halts_target(i);
	pr_info("%d hits, on %d\n", hits, tracing_is_on());
	tracing_on();
	pr_info("on %d\n", tracing_is_on());
	halts_target(i);
	tracing_off();
	return 0;
}

static void __exit halts_exit(void)
{
	unregister_kprobe(&kp);
	tracing_on();
	pr_info("on %d\n", tracing_is_on());
}

module_init(halts_init);
module_exit(halts_exit);
MODULE_LICENSE("Dual MIT/GPL");
