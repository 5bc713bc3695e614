// SPDX-License-Identifier: MIT
/* posts: a probe with a post-handler at an fentry site, in the kernel and in the module. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>

noinline long posts_target(long n);
noinline long posts_target(long n)
{
	barrier();
	return n * 3;
}

static volatile int pres, last;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pres++;
	last = regs->ip - (unsigned long)p->addr;
	return 0;
}

noinline long posts_other(long n);
noinline long posts_other(long n)
{
	barrier();
	return n + 1000;
}

/* The call goes on in another function. */
static int skip(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)posts_other;
	return 1;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	pr_info("post: ip is %s\n", regs->ip - (unsigned long)p->addr == 5 ? "behind the site" : "elsewhere");
}

static struct kprobe own = { .symbol_name = "posts_target", .pre_handler = pre, .post_handler = post };
static struct kprobe other = { .symbol_name = "posts_target", .pre_handler = pre };
static struct kprobe skips = { .symbol_name = "posts_target", .pre_handler = skip };

static int __init posts_init(void)
{
	int err = register_kprobe(&own);
	long r;

	if (err)
		return err;
	pr_info("flags %#x\n", own.flags);
	r = posts_target(5);
	pr_info("result %ld, hits %d, ip is +%d\n", r, pres, last);
	err = register_kprobe(&other);
	pr_info("another: %d, flags %#x\n", err, other.flags);
	r = posts_target(6);
	pr_info("result %ld, hits %d\n", r, pres);
	unregister_kprobe(&own);
	r = posts_target(7);
	pr_info("result %ld, hits %d\n", r, pres);
	unregister_kprobe(&other);
	pr_info("one that skips: %d\n", register_kprobe(&skips));
	pr_info("result %ld\n", posts_target(8));
	unregister_kprobe(&skips);
	pr_info("result %ld\n", posts_target(9));
	return 0;
}

static void __exit posts_exit(void)
{
}

module_init(posts_init);
module_exit(posts_exit);
MODULE_LICENSE("Dual MIT/GPL");
