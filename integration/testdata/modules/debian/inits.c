// SPDX-License-Identifier: MIT
/* inits has probes in its init text, which is freed, and functions that take no probe. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>

noinline noinstr int inits_quiet(int n);
noinline noinstr int inits_quiet(int n)
{
	return n + 1;
}

noinline int inits_unseen(int n);
noinline int inits_unseen(int n)
{
	return n + 2;
}
NOKPROBE_SYMBOL(inits_unseen);

noinline int __kprobes inits_old(int n);
noinline int __kprobes inits_old(int n)
{
	return n + 3;
}

noinline int inits_stays(int n);
noinline int inits_stays(int n)
{
	return n + 4;
}

static noinline int __init inits_part(int n)
{
	return inits_stays(n) + 5;
}

static int hits;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static struct kprobe part = { .symbol_name = "inits_part", .pre_handler = pre };
static struct kprobe stays = { .symbol_name = "inits_stays", .pre_handler = pre };

static void __init try(const char *symbol)
{
	struct kprobe kp = { .symbol_name = symbol, .pre_handler = pre };

	pr_info("%s: %d\n", symbol, register_kprobe(&kp));
}

static int __init inits_init(void)
{
	try("inits_quiet");
	try("inits_unseen");
	try("inits_old");
	pr_info("part: %d\n", register_kprobe(&part));
	pr_info("stays: %d\n", register_kprobe(&stays));
	pr_info("result: %d, hits: %d\n", inits_part(1), hits);
	pr_info("gone: %d %d\n", !!(part.flags & KPROBE_FLAG_GONE), !!(stays.flags & KPROBE_FLAG_GONE));
	return 0;
}

static void __exit inits_exit(void)
{
	hits = 0;
	pr_info("result: %d, hits: %d\n", inits_stays(1) + inits_quiet(0) + inits_unseen(0) + inits_old(0), hits);
	pr_info("gone: %d %d\n", !!(part.flags & KPROBE_FLAG_GONE), !!(stays.flags & KPROBE_FLAG_GONE));
	pr_info("disable: %d\n", disable_kprobe(&part));
	pr_info("enable: %d\n", enable_kprobe(&part));
	unregister_kprobe(&part);
	unregister_kprobe(&stays);
	pr_info("again: %d\n", register_kprobe(&part));
}

module_init(inits_init);
module_exit(inits_exit);
MODULE_LICENSE("Dual MIT/GPL");
