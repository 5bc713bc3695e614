/*
 * kprobe_fields.c: logs the fields of struct kprobe and struct kretprobe step by
 * step. It can be built with Linux's headers too, to compare its output.
 */
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/printk.h>

#ifndef __noipa
#define __noipa __attribute__((__noipa__))
#endif

static unsigned long hits, seen;

/* kprobe_fields_at is a two-byte instruction that begins with 0x89. */
static __noipa long kprobe_fields_inner(long n)
{
	long v;

	asm volatile("kprobe_fields_at: .byte 0x89, 0xc0\n\tmov $5, %%eax\n\tmov $7, %%ecx" : "=a" (v) : : "rcx");
	return n + v;
}

static __noipa long kprobe_fields_outer(long n)
{
	barrier();
	return n ^ 1;
}

/* Recursive, so that return probes nest. */
static __noipa long kprobe_fields_deep(long n)
{
	long v = n ? kprobe_fields_deep(n - 1) : 0;

	barrier();
	return v + 1;
}

extern kprobe_opcode_t kprobe_fields_at[];

static int count(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	hits++;
}

static struct kprobe at = { .addr = kprobe_fields_at, .pre_handler = count };
static struct kprobe too = { .addr = kprobe_fields_at, .pre_handler = count, .post_handler = after };
static struct kprobe entry = { .symbol_name = "kprobe_fields_inner", .pre_handler = count };

static void tell(const char *what, struct kprobe *p, int err)
{
	hits = 0;
	kprobe_fields_inner(1);
	pr_info("fields: %s: %d, flags %x, opcode %x, %s, nmissed %lu, hits %lu\n", what, err, p->flags, p->opcode,
		!p->addr ? "nowhere" : p->addr == kprobe_fields_at ? "at" : "elsewhere", p->nmissed, hits);
}

/* The states of a probe, with a second one. */
static void life(struct kprobe *p, bool named)
{
	tell("registered", p, register_kprobe(p));
	tell("disabled", p, disable_kprobe(p));
	tell("enabled", p, enable_kprobe(p));
	unregister_kprobe(p);
	tell("unregistered", p, 0);
	if (named)
		tell("again, with both", p, register_kprobe(p));
	if (named)
		p->addr = NULL;
	tell("again", p, register_kprobe(p));
	tell("enabled", p, enable_kprobe(p));
	tell("twice", p, register_kprobe(p));
	unregister_kprobe(p);
	unregister_kprobe(p);
	tell("unregistered twice", p, 0);
	p->addr = named ? NULL : kprobe_fields_at;
	p->flags = 0;
	p->opcode = 0;
}

static void two(void)
{
	tell("first", &too, register_kprobe(&too));
	tell("second", &at, register_kprobe(&at));
	tell("first disabled", &too, disable_kprobe(&too));
	tell("second disabled", &at, disable_kprobe(&at));
	tell("first enabled", &too, enable_kprobe(&too));
	unregister_kprobe(&too);
	tell("first gone", &too, 0);
	tell("second left", &at, 0);
	unregister_kprobe(&at);
	tell("second gone", &at, 0);
	at.flags = too.flags = 0;
}

/* Its handler hits three probes, whose miss counts it then reads. */
static struct kretprobe inner_ret;

static int come(struct kprobe *p, struct pt_regs *regs)
{
	kprobe_fields_inner(1);
	kprobe_fields_deep(0);
	seen = 100 * at.nmissed + 10 * entry.nmissed + inner_ret.kp.nmissed;
	return 0;
}

static struct kprobe outer = { .symbol_name = "kprobe_fields_outer", .pre_handler = come };

static int enter(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static int leave(struct kretprobe_instance *ri, struct pt_regs *regs)
{
#if GUEST_LINUX < 601
	struct kretprobe *rp = ri->rp;
#else
	struct kretprobe *rp = get_kretprobe(ri);
#endif

	seen = 10 * seen + rp->nmissed;
	if (rp != &inner_ret)
		seen = 999;
	return 0;
}

static int leave_by_inner(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	kprobe_fields_inner(2);
	seen = 10 * seen + entry.nmissed;
	return 0;
}

static struct kretprobe inner_ret = {
	.kp.symbol_name = "kprobe_fields_deep", .entry_handler = enter, .handler = leave, .maxactive = 2,
};

static struct kretprobe outer_ret = { .kp.symbol_name = "kprobe_fields_outer", .handler = leave_by_inner, .maxactive = 1 };

static void missed(void)
{
	pr_info("fields: missed: %d %d %d\n", register_kprobe(&at), register_kprobe(&entry), register_kretprobe(&inner_ret));
	pr_info("fields: outer %d\n", register_kprobe(&outer));
	kprobe_fields_outer(1);
	pr_info("fields: the handler sees %lu, now %lu %lu %lu %lu\n", seen, at.nmissed, entry.nmissed, inner_ret.kp.nmissed, outer.nmissed);
	at.nmissed = 40;
	kprobe_fields_outer(1);
	pr_info("fields: the handler sees %lu, now %lu %lu %lu\n", seen, at.nmissed, entry.nmissed, inner_ret.kp.nmissed);
	unregister_kprobe(&outer);

	seen = hits = 0;
	kprobe_fields_deep(4);
	pr_info("fields: deep: %lu entries, nmissed %d, handlers see %lu\n", hits, inner_ret.nmissed, seen);
	inner_ret.nmissed = 10;
	kprobe_fields_deep(2);
	pr_info("fields: deep: nmissed %d\n", inner_ret.nmissed);
	disable_kretprobe(&inner_ret);
	kprobe_fields_deep(2);
	pr_info("fields: deep: nmissed %d, flags %x\n", inner_ret.nmissed, inner_ret.kp.flags);
	enable_kretprobe(&inner_ret);
	unregister_kretprobe(&inner_ret);
	pr_info("fields: deep: nmissed %d, flags %x\n", inner_ret.nmissed, inner_ret.kp.flags);
	inner_ret.kp.addr = NULL;
	pr_info("fields: again: %d\n", register_kretprobe(&inner_ret));
	kprobe_fields_deep(3);
	pr_info("fields: deep: nmissed %d, flags %x\n", inner_ret.nmissed, inner_ret.kp.flags);
	unregister_kretprobe(&inner_ret);

	seen = 0;
	pr_info("fields: outer %d\n", register_kretprobe(&outer_ret));
	kprobe_fields_outer(1);
	kprobe_fields_outer(1);
	pr_info("fields: return handlers see %lu\n", seen);
	unregister_kretprobe(&outer_ret);
	unregister_kprobe(&entry);
	unregister_kprobe(&at);
	pr_info("fields: at the end %lu %lu %lu\n", at.nmissed, entry.nmissed, inner_ret.kp.nmissed);
}

static int __init fields_init(void)
{
	life(&at, false);
	life(&entry, true);
	two();
	missed();
	return 0;
}

static void __exit fields_exit(void)
{
}

module_init(fields_init);
module_exit(fields_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tells what stands in the fields of probes");
