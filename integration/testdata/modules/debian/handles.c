// SPDX-License-Identifier: MIT
/* handles has handlers that come to memory that is not there, with fixups. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/uaccess.h>

noinline long handles_target(long n);
noinline long handles_target(long n)
{
	asm volatile(".globl handles_inside\nhandles_inside: nop; nop; nop" : "+r"(n));
	return n + 1;
}

static long none = -1;

static void peek(const char *where)
{
	char bytes[8] = "";
	long v = 5, a, b, c, d;
	unsigned long left;

	a = copy_from_kernel_nofault(&v, (void *)8, sizeof(v));
	b = copy_from_kernel_nofault(&v, &none, sizeof(v));
	c = copy_from_kernel_nofault(bytes, "handles", sizeof(bytes));
	d = copy_from_user_nofault(&v, (void __user *)8, sizeof(v));
	pagefault_disable();
	left = __copy_from_user_inatomic(&v, (void __user *)0x10000, sizeof(v));
	pagefault_enable();
	pr_info("%s: %ld %ld %ld %ld %lu, %s\n", where, a, b, c, d, left, bytes);
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	peek("pre-handler");
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	peek("post-handler");
}

static int entered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	peek("entry handler");
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	peek("return handler");
	WARN_ON(regs_return_value(regs) != 2);
	return 0;
}

static struct kprobe inside = { .symbol_name = "handles_inside", .pre_handler = pre, .post_handler = post };
static struct kprobe entry = { .symbol_name = "handles_target", .pre_handler = pre };
static struct kretprobe ret = { .kp.symbol_name = "handles_target", .handler = returned, .entry_handler = entered };

static int __init handles_init(void)
{
	pr_info("registered %d %d %d\n", register_kprobe(&inside), register_kprobe(&entry), register_kretprobe(&ret));
	pr_info("result %ld\n", handles_target(1));
	return 0;
}

static void __exit handles_exit(void)
{
	unregister_kretprobe(&ret);
	unregister_kprobe(&entry);
	unregister_kprobe(&inside);
}

module_init(handles_init);
module_exit(handles_exit);
MODULE_LICENSE("Dual MIT/GPL");
