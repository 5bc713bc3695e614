/*
 * kprobe_says_old.c: what handlers of the releases before 5.10 find, and what happens
 * when they fault. The probes are hit when the module is removed.
 */
#define KPROBES_BEFORE_5_11
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/gcd.h>

static int *volatile nowhere = (int *)8;
static unsigned long how;

/* 0: handlers say where they are; DUMP: they dump the stack, too; otherwise the handler
 * of this number writes to unmapped memory. */
enum { DUMP = 1, BEFORE, AFTER, RETURNED };

void kprobe_says_how(unsigned long n)
{
	how = n;
}

static noinline void look(const char *name, unsigned long number)
{
	pr_info("says: %s: preempt_count %x, irqs off %d\n", name, preempt_count(), irqs_disabled());
	if (how == DUMP)
		dump_stack();
	if (how == number)
		*nowhere = 1;
}

static int before(struct kprobe *p, struct pt_regs *regs)
{
	look("before", BEFORE);
	return 0;
}

static void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	look("after", AFTER);
}

static int fault(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	pr_info("says: fault %d, preempt_count %x\n", trapnr, preempt_count());
	return 0;	/* it is not handled */
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	look("returned", RETURNED);
	return 0;
}

/* Not at the entry: there it would be a call of ftrace on 4.15. */
static struct kprobe lone = {
	.symbol_name = "gcd", .offset = 5, .pre_handler = before, .post_handler = after, .fault_handler = fault,
};
static struct kretprobe back = { .handler = returned, .kp = { .symbol_name = "int_sqrt", .fault_handler = fault } };
static struct kprobe trampoline = { .symbol_name = "kretprobe_trampoline", .pre_handler = before };

/* Places that are not text of the kernel. */
static const unsigned long places[] = { 0x400000, 0x1000, 8, 0x7fffffffe000, 1UL << 63, -1UL, -4095UL };

static int __init begin(void)
{
	struct kprobe p;
	int i, err = register_kprobe(&lone) ?: register_kretprobe(&back);

	if (err)
		return err;
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		memset(&p, 0, sizeof(p));
		p.addr = (kprobe_opcode_t *)places[i];
		pr_info("says: at %lx: %d\n", places[i], register_kprobe(&p));
	}
	pr_info("says: at the trampoline: %d\n", register_kprobe(&trampoline));
	return 0;
}

static void __exit end(void)
{
	unsigned long divisor = gcd(12, 18), root = int_sqrt(49);

	pr_info("says: gcd %lu, int_sqrt %lu\n", divisor, root);
	unregister_kretprobe(&back);
	unregister_kprobe(&lone);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
