// SPDX-License-Identifier: MIT
/* detours has several probes at a place where a jump leads to their handlers. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>

noinline int detours_target(int n);
extern char detours_at[];
noinline int detours_target(int n)
{
	int r;

	asm volatile("nop\n.globl detours_at\ndetours_at: movl $7, %0\n\tnopl 8(%%rax,%%rax,1)\n\tnop\n" : "=r"(r));
	return r + n;
}

/* A second place, which the handlers come to. */
noinline int detours_inner(int n);
extern char detours_in[];
noinline int detours_inner(int n)
{
	int r;

	asm volatile("nop\n.globl detours_in\ndetours_in: movl $9, %0\n\tnopl 8(%%rax,%%rax,1)\n\tnop\n" : "=r"(r));
	return r + n;
}

/* What the handlers of a call did: their letters. */
static char did[16];
static int n_did;
static bool show;

static int note(char c, struct kprobe *p, struct pt_regs *regs)
{
	if (n_did < sizeof(did) - 1)
		did[n_did++] = c;
	detours_inner(1);
	if (show) {
		pr_info("%c: ip +%ld, cs %#lx, orig_ax %ld, sp %d\n", c, (long)(regs->ip - (unsigned long)p->addr), regs->cs & 0xffff, (long)regs->orig_ax, (void *)regs->sp > (void *)regs);
	}
	return 0;
}

static int pre_a(struct kprobe *p, struct pt_regs *regs) { return note('a', p, regs); }
static int pre_b(struct kprobe *p, struct pt_regs *regs) { return note('b', p, regs); }
static int pre_c(struct kprobe *p, struct pt_regs *regs) { regs->ip = 0; return note('c', p, regs); }
static int pre_in(struct kprobe *p, struct pt_regs *regs) { return note('i', p, regs); }

static struct kprobe a = { .pre_handler = pre_a };
static struct kprobe b = { .pre_handler = pre_b };
static struct kprobe c = { .pre_handler = pre_c };
static struct kprobe none;
static struct kprobe in = { .pre_handler = pre_in };

static void call(const char *what)
{
	int ret;

	memset(did, 0, sizeof(did));
	n_did = 0;
	ret = detours_target(1);
	pr_info("%s: %d, handlers %s, missed %lu %lu %lu, inside %lu\n", what, ret, did, a.nmissed, b.nmissed, c.nmissed, in.nmissed);
}

static int __init detours_init(void)
{
	a.addr = b.addr = c.addr = none.addr = (kprobe_opcode_t *)detours_at;
	in.addr = (kprobe_opcode_t *)detours_in;
	pr_info("register: %d %d\n", register_kprobe(&a), register_kprobe(&in));
	msleep(500);
	call("one");
	pr_info("register: %d %d\n", register_kprobe(&b), register_kprobe(&none));
	pr_info("register: %d\n", register_kprobe(&c));
	call("three");
	pr_info("disable: %d\n", disable_kprobe(&b));
	call("two");
	pr_info("enable: %d\n", enable_kprobe(&b));
	unregister_kprobe(&a);
	call("without the first");
	unregister_kprobe(&c);
	call("without the last");
	pr_info("register: %d\n", register_kprobe(&a));
	call("again");
	pr_info("disable: %d %d %d\n", disable_kprobe(&a), disable_kprobe(&b), disable_kprobe(&none));
	call("none");
	pr_info("enable: %d\n", enable_kprobe(&a));
	msleep(500);
	n_did = 0;
	detours_inner(1);
	pr_info("the inner one alone: %s\n", did);
	show = true;
	disable_kprobe(&in);
	call("shown");
	show = false;
	enable_kprobe(&in);
	msleep(500);
	return 0;
}

static void __exit detours_exit(void)
{
	unregister_kprobe(&a);
	unregister_kprobe(&b);
	unregister_kprobe(&none);
	unregister_kprobe(&in);
}

module_init(detours_init);
module_exit(detours_exit);
MODULE_LICENSE("Dual MIT/GPL");
