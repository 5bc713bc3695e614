/*
 * kprobe_handlers.c: handlers for probes that a test registers by calling
 * register_kprobe. They record to kprobe_handlers_seen.
 */
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/timer.h>
#include <linux/gcd.h>

struct seen {
	u64 pre, post, entry, ret;	/* calls */
	u64 ip, flags, preempt, p;	/* of the last call */
	u64 frame, missed, task, irqs_off;
	s64 err;
} kprobe_handlers_seen;

/* Handlers run on several CPUs at once. */
#define COUNT(what) __atomic_fetch_add(&kprobe_handlers_seen.what, 1, __ATOMIC_RELAXED)

static void see(struct pt_regs *regs, void *p)
{
	kprobe_handlers_seen.ip = regs->ip;
	kprobe_handlers_seen.preempt = preempt_count();
	kprobe_handlers_seen.p = (u64)p;
	kprobe_handlers_seen.task = (u64)current;
	kprobe_handlers_seen.irqs_off = irqs_disabled();
}

int kprobe_handlers_pre(struct kprobe *p, struct pt_regs *regs)
{
	COUNT(pre);
	see(regs, p);
	kprobe_handlers_seen.missed = p->nmissed;
	return 0;
}

void kprobe_handlers_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	COUNT(post);
	see(regs, p);
	kprobe_handlers_seen.flags = flags;
}

/* Changes the argument. */
int kprobe_handlers_change(struct kprobe *p, struct pt_regs *regs)
{
	regs->di = 49;
	return 0;
}

/* Skips the function and returns 42. */
int kprobe_handlers_skip(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += 8;
	regs->ax = 42;
	return 1;
}

/* Hits a probe, and tries to register one. */
int kprobe_handlers_nest(struct kprobe *p, struct pt_regs *regs)
{
	static struct kprobe other;

	COUNT(pre);
	kprobe_handlers_seen.frame = int_sqrt(144);
	other.symbol_name = "int_pow";
	kprobe_handlers_seen.err = register_kprobe(&other);
	return 0;
}

int kprobe_handlers_print(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("kprobe_handlers: at %s+%u\n", p->symbol_name, p->offset);
	dump_stack();
	return 0;
}

/* Never returns. */
int kprobe_handlers_spin(struct kprobe *p, struct pt_regs *regs)
{
	COUNT(pre);
	for (;;)
		barrier();
}

int kprobe_handlers_fault(struct kprobe *p, struct pt_regs *regs)
{
	volatile int *nowhere = (int *)regs->di;	/* 100 */

	return *nowhere;
}

int kprobe_handlers_sleep(struct kprobe *p, struct pt_regs *regs)
{
	msleep(1);
	return 0;
}

int kprobe_handlers_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	COUNT(entry);
	*(u64 *)ri->data = regs->di;
	return regs->di == 7;
}

/* Adds 1000 times the argument to the result. */
int kprobe_handlers_ret(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	COUNT(ret);
	see(regs, get_kretprobe(ri));
	kprobe_handlers_seen.frame = ri->node.frame - regs->sp + 8;
	kprobe_handlers_seen.flags = get_kretprobe_retaddr(ri);
	regs->ax += 1000 * *(u64 *)ri->data;
	return 0;
}

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Handlers for a test");
