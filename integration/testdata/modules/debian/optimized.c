// SPDX-License-Identifier: MIT
/* optimized has probes that can become jumps and ones that cannot. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>

/* The place optimized_at takes five bytes that are one instruction. */
noinline int optimized_target(int n);
extern char optimized_at[];
noinline int optimized_target(int n)
{
	int r;

	asm volatile("nop\n.globl optimized_at\noptimized_at: movl $7, %0\n\tnopl 8(%%rax,%%rax,1)\n\tnop\n" : "=r"(r));
	return r + n;
}

static volatile int hits;	/* the compiler does not know of the handler */

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	hits += 100;
}

static struct kprobe jump = { .pre_handler = pre };
static struct kprobe slow = { .pre_handler = pre, .post_handler = post };

static int __init optimized_init(void)
{
	int err;

	jump.addr = slow.addr = (kprobe_opcode_t *)optimized_at;
	err = register_kprobe(&jump);
	if (err)
		return err;
	pr_info("opcode %#x, flags %#x\n", jump.opcode, jump.flags);
	msleep(500);
	pr_info("result %d\n", optimized_target(1));
	pr_info("hits %d, flags %#x\n", hits, jump.flags);
	return 0;
}

static void __exit optimized_exit(void)
{
	hits = 0;
	pr_info("second: %d\n", register_kprobe(&slow));
	pr_info("result %d\n", optimized_target(2));
	pr_info("hits %d\n", hits);
	unregister_kprobe(&slow);
	unregister_kprobe(&jump);
	hits = 0;
	pr_info("result %d\n", optimized_target(3));
	pr_info("hits %d\n", hits);
}

module_init(optimized_init);
module_exit(optimized_exit);
MODULE_LICENSE("Dual MIT/GPL");
