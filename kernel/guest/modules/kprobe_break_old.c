/*
 * kprobe_break_old.c: probes that change the execution path and have a break handler:
 * an empty one, to prevent optimization, and one that returns from where the
 * pre-handler has led the CPU. For releases that have break handlers.
 */
#define KPROBES_BEFORE_5_11
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/timer.h>

extern kprobe_opcode_t kprobe_break_at[];

/* At the probed instruction only the return address is on the stack. */
asm(".pushsection .text\n"
    ".type kprobe_break_sum, @function\n"
    "kprobe_break_sum: mov %rdi, %rax\n"
    "kprobe_break_at: add $1, %rax\n"
    "	mov $3, %ecx\n"
    "	add $1, %rax\n"
    "	ret\n"
    ".size kprobe_break_sum, . - kprobe_break_sum\n"
    ".popsection");
long kprobe_break_sum(long n);

static unsigned long others, breaks;

static __noipa long kprobe_break_other(long n)
{
	barrier();
	return n;
}

static int count(struct kprobe *p, struct pt_regs *regs)
{
	others++;
	return 0;
}

static struct kprobe other = { .symbol_name = "kprobe_break_other", .offset = 0, .pre_handler = count };

/* Makes the function return 42. */
static int skip(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += 8;
	regs->ax = 42;
	return 1;
}

static int empty(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static struct kprobe skips = { .addr = kprobe_break_at, .pre_handler = skip, .break_handler = empty };

static struct pt_regs saved;

static void away(void)
{
	kprobe_break_other(1);
	asm volatile("kprobe_break_trap: int3");
	unreachable();
}

static int lead(struct kprobe *p, struct pt_regs *regs)
{
	saved = *regs;
	regs->ip = (unsigned long)away;
	return 1;
}

static int back(struct kprobe *p, struct pt_regs *regs)
{
	extern char kprobe_break_trap[];

	if (regs->ip != (unsigned long)kprobe_break_trap + 1)
		return 0;
	breaks++;
	*regs = saved;
	regs->ax += 100;
	return 1;
}

static struct kprobe leads = { .addr = kprobe_break_at, .pre_handler = lead, .break_handler = back };

static void tell(const char *what, struct kprobe *p)
{
	long first = kprobe_break_sum(1), second;

	msleep(1);
	second = kprobe_break_sum(2);
	kprobe_break_other(1);
	pr_info("break: %s: %ld %ld, preempt %x, others %lu, missed %lu, breaks %lu, missed %lu\n", what, first, second,
		preempt_count(), others, other.nmissed, breaks, p->nmissed);
	others = breaks = 0;
}

static int __init break_init(void)
{
	register_kprobe(&other);
	tell("without", &other);
	if (!register_kprobe(&skips))
		tell("empty", &skips);
	pr_info("break: a second one: %d\n", register_kprobe(&leads));
	unregister_kprobe(&skips);
	leads.addr = kprobe_break_at;
	leads.flags = 0;
	if (!register_kprobe(&leads))
		tell("back", &leads);
	unregister_kprobe(&leads);
	tell("gone", &leads);
	unregister_kprobe(&other);
	return 0;
}

static void __exit break_exit(void)
{
}

module_init(break_init);
module_exit(break_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Changes the way, with break handlers");
