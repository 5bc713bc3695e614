/* jprobe_target.c: functions with arguments on the stack, and handlers of jprobes for
 * them. For releases that have jprobes. */
#define KPROBES_BEFORE_5_11
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/errno.h>

struct jprobe_target_args {
	long v[5];
};

/* Recorded by the handlers, and the address that jprobe_target_faults reads. */
long jprobe_target_seen[8];
long *jprobe_target_bad = (long *)0xffffc8fffffff000;

/* Eight arguments: two are on the stack. */
__noipa long jprobe_target_sum(long a, long b, long c, long d, long e, long f, long g, long h)
{
	barrier();
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

/* The callee owns its arguments; this one changes those on the stack. */
__noipa long jprobe_target_sum_seen(long a, long b, long c, long d, long e, long f, long g, long h)
{
	long seen[8] = { a, b, c, d, e, f, g, h };
	int i;

	for (i = 0; i < 8; i++)
		jprobe_target_seen[i] = seen[i];
	*(volatile long *)&g = -1;
	*(volatile long *)&h = -1;
	jprobe_return();
	return 0;
}

/* A structure by value: forty bytes on the stack. */
__noipa long jprobe_target_fold(struct jprobe_target_args args, long last)
{
	long sum = last;
	int i;

	for (i = 0; i < 5; i++) {
		sum = sum * 10 + args.v[i];
		barrier();
	}
	return sum;
}

__noipa long jprobe_target_fold_seen(struct jprobe_target_args args, long last)
{
	int i;

	for (i = 0; i < 5; i++) {
		jprobe_target_seen[i] = args.v[i];
		*(volatile long *)&args.v[i] = -1;
	}
	jprobe_target_seen[5] = last;
	jprobe_return();
	return 0;
}

/* Calls jprobe_target_sum with something on its own stack. */
__noipa long jprobe_target_call(long from)
{
	struct jprobe_target_args args = { { from, from + 1, from + 2, from + 3, from + 4 } };

	return jprobe_target_fold(args, 7);
}

__noipa long jprobe_target_call_sum(long from)
{
	return jprobe_target_sum(from, from + 1, from + 2, from + 3, from + 4, from + 5, from + 6, from + 7);
}

/* A handler that does not call jprobe_return. */
__noipa long jprobe_target_forgets(struct jprobe_target_args args, long last)
{
	jprobe_target_seen[0]++;
	return 4711;
}

/* A handler that reads memory that may be unmapped, and calls a function that may be
 * probed. */
__noipa long jprobe_target_faults(struct jprobe_target_args args, long last)
{
	jprobe_target_seen[6] = *(volatile long *)jprobe_target_bad;
	jprobe_target_seen[7] = jprobe_target_sum(1, 1, 1, 1, 1, 1, 1, 1);
	jprobe_return();
	return 0;
}

/* Jprobes registered by this module, one by one or both at once. */
static struct jprobe jprobe_target_jps[2] = {
	{ .kp.symbol_name = "jprobe_target_sum", .entry = JPROBE_ENTRY(jprobe_target_sum_seen) },
	{ .kp.symbol_name = "jprobe_target_fold", .entry = JPROBE_ENTRY(jprobe_target_fold_seen) },
};
static struct jprobe *jprobe_target_all[2] = { &jprobe_target_jps[0], &jprobe_target_jps[1] };

int jprobe_target_register(int i)
{
	return i < 2 ? register_jprobe(&jprobe_target_jps[i]) : register_jprobes(jprobe_target_all, i - 2);
}

int jprobe_target_unregister(int i)
{
	if (i < 2)
		unregister_jprobe(&jprobe_target_jps[i]);
	else
		unregister_jprobes(jprobe_target_all, i - 2);
	jprobe_target_jps[0].kp.addr = jprobe_target_jps[1].kp.addr = NULL;	/* for reuse */
	jprobe_target_jps[0].kp.flags = jprobe_target_jps[1].kp.flags = 0;
	return 0;
}

int jprobe_target_disable(int i)
{
	return disable_jprobe(&jprobe_target_jps[i]);
}

int jprobe_target_enable(int i)
{
	return enable_jprobe(&jprobe_target_jps[i]);
}

/* A probe whose pre-handler reads jprobe_target_bad, with a fault handler that
 * continues after the read. */
static long jprobe_target_read(void)
{
	long v = -1;

	asm volatile("jprobe_target_reads: mov (%1), %0\njprobe_target_goes_on:" : "+r" (v) : "r" (jprobe_target_bad));
	return v;
}

static int jprobe_target_pre(struct kprobe *p, struct pt_regs *regs)
{
	jprobe_target_seen[0] = jprobe_target_read();
	return 0;
}

static int jprobe_target_fault(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	extern char jprobe_target_reads[], jprobe_target_goes_on[];

	jprobe_target_seen[1] = trapnr;
	jprobe_target_seen[2] = p->nmissed;
	if (regs->ip != (unsigned long)jprobe_target_reads)
		return 0;
	regs->ip = (unsigned long)jprobe_target_goes_on;
	return 1;
}

static struct kprobe jprobe_target_faulty = {
	.symbol_name	= "int_sqrt",
	.pre_handler	= jprobe_target_pre,
	.fault_handler	= jprobe_target_fault,
};

int jprobe_target_plant(void)
{
	jprobe_target_faulty.addr = NULL;
	return register_kprobe(&jprobe_target_faulty);
}

int jprobe_target_pull(void)
{
	unregister_kprobe(&jprobe_target_faulty);
	return 0;
}

static int __init jprobe_target_init(void)
{
	return 0;
}

static void __exit jprobe_target_exit(void)
{
}

module_init(jprobe_target_init);
module_exit(jprobe_target_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Functions to put jprobes on, and handlers");
