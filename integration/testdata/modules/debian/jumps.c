// SPDX-License-Identifier: MIT
/* jumps has a probe that is optimized, and what undoes that. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>

noinline long jumps_target(long n);
noinline long jumps_target(long n)
{
	asm volatile("nop\n.globl jumps_at\njumps_at: mov $7, %%eax\n.globl jumps_next\njumps_next: mov $8, %%eax\n"
		     "mov $9, %%eax" : "+r"(n) : : "rax");
	return n + 1;
}

extern char jumps_at[], jumps_next[];
static volatile int hits;
static volatile unsigned long ip, flags;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	ip = regs->ip;
	flags = irqs_disabled() * 10 + (preempt_count() & 0xff);
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long unused)
{
	hits += 100;
}

static struct kprobe jump = { .symbol_name = "jumps_at", .pre_handler = pre };
static struct kprobe too = { .symbol_name = "jumps_at", .pre_handler = pre };
static struct kprobe slow = { .symbol_name = "jumps_at", .pre_handler = pre, .post_handler = post };
static struct kprobe covered = { .symbol_name = "jumps_at", .offset = 5, .pre_handler = pre };

static void say(const char *what, int err)
{
	long r;

	msleep(400);
	hits = 0;
	r = jumps_target(1);
	pr_info("%s: %d, result %ld, hits %d, ip +%ld, %lu, byte %#x, opcode %#x, flags %#x %#x %#x\n", what, err, r, hits,
		(long)ip - (long)jumps_at, flags, *(u8 *)jumps_at, jump.opcode, jump.flags, too.flags, slow.flags);
}

static int __init jumps_init(void)
{
	say("first", register_kprobe(&jump));
	say("disabled", disable_kprobe(&jump));
	say("enabled", enable_kprobe(&jump));
	say("second", register_kprobe(&too));
	say("with a post-handler", register_kprobe(&slow));
	say("that one disabled", disable_kprobe(&slow));
	unregister_kprobe(&slow);
	say("without", 0);
	say("the next instruction", register_kprobe(&covered));
	unregister_kprobe(&covered);
	say("without", 0);
	return 0;
}

static void __exit jumps_exit(void)
{
	unregister_kprobe(&too);
	say("one", 0);
	unregister_kprobe(&jump);
	say("none", 0);
}

module_init(jumps_init);
module_exit(jumps_exit);
MODULE_LICENSE("Dual MIT/GPL");
