// SPDX-License-Identifier: MIT
/* missed reads the miss counts of probes that are registered, in handlers and after them. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>

noinline long missed_inner(long n);
noinline long missed_inner(long n)
{
	asm volatile(".globl missed_inside\nmissed_inside: nop; nop; nop" : "+r"(n));
	return n + 1;
}

noinline long missed_outer(long n);
noinline long missed_outer(long n)
{
	asm volatile(".globl missed_outside\nmissed_outside: nop; nop; nop" : "+r"(n));
	return n + 2;
}

noinline long missed_deep(long n);
noinline long missed_deep(long n)
{
	long below = n ? missed_deep(n - 1) : 0;

	barrier();
	return below + 1;
}

extern char missed_inside[], missed_outside[];
static volatile int hits;

static int count(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	hits += 100;
}

static struct kprobe entry = { .symbol_name = "missed_inner", .pre_handler = count };
static struct kprobe inside = { .pre_handler = count, .post_handler = after };
static struct kprobe other = { .pre_handler = count };

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	hits += 1000;
	return 0;
}

static struct kretprobe deep = { .kp.symbol_name = "missed_deep", .handler = returned, .maxactive = 2 };
static struct kretprobe ret = { .kp.symbol_name = "missed_inner", .handler = returned };

static void say(const char *where)
{
	pr_info("%s: hits %d, entry %lu, inside %lu, other %lu, ret %lu %d, deep %d\n", where, hits, entry.nmissed,
		inside.nmissed, other.nmissed, ret.kp.nmissed, ret.nmissed, deep.nmissed);
}

static int nest_pre(struct kprobe *p, struct pt_regs *regs)
{
	missed_inner(1);
	say("pre-handler");
	return 0;
}

static void nest_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	missed_inner(2);
	say("post-handler");
}

static int nest_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	missed_inner(3);
	say("entry handler");
	return 0;
}

static int nest_ret(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	missed_inner(4);
	say("return handler");
	return 0;
}

static struct kprobe outer = { .pre_handler = nest_pre, .post_handler = nest_post };
static struct kprobe outer_entry = { .symbol_name = "missed_outer", .pre_handler = nest_pre };
static struct kretprobe outer_ret = { .kp.symbol_name = "missed_outer", .entry_handler = nest_entry, .handler = nest_ret };

static void call(const char *what)
{
	hits = 0;
	missed_outer(1);
	say(what);
}

static int __init missed_init(void)
{
	inside.addr = other.addr = (kprobe_opcode_t *)missed_inside;
	outer.addr = (kprobe_opcode_t *)missed_outside;
	pr_info("registered %d %d %d %d %d\n", register_kprobe(&entry), register_kprobe(&inside), register_kprobe(&other),
		register_kretprobe(&ret), register_kretprobe(&deep));
	say("at first");
	pr_info("outer %d\n", register_kprobe(&outer));
	call("an int3 that nests");
	disable_kprobe(&other);
	call("with one of two disabled");
	enable_kprobe(&other);
	unregister_kprobe(&outer);
	pr_info("outer's entry %d\n", register_kprobe(&outer_entry));
	call("an entry that nests");
	unregister_kprobe(&outer_entry);
	pr_info("outer's return %d\n", register_kretprobe(&outer_ret));
	call("a return probe that nests");
	unregister_kretprobe(&outer_ret);
	entry.nmissed = 40;
	hits = 0;
	missed_deep(4);
	say("five calls, two instances");
	deep.nmissed = 7;
	missed_deep(2);
	say("three more");
	disable_kretprobe(&deep);
	missed_deep(5);
	say("disabled");
	enable_kretprobe(&deep);
	missed_deep(5);
	say("enabled");
	return 0;
}

static void __exit missed_exit(void)
{
	unregister_kretprobe(&deep);
	unregister_kretprobe(&ret);
	unregister_kprobe(&other);
	unregister_kprobe(&inside);
	unregister_kprobe(&entry);
	missed_deep(9);
	say("unregistered");
}

module_init(missed_init);
module_exit(missed_exit);
MODULE_LICENSE("Dual MIT/GPL");
