/*
 * trace_recursion.h: bits of a task that tell whether a listener's function is being
 * called in a context (normal, softirq, interrupt, NMI) already.
 */
#ifndef _LINUX_TRACE_RECURSION_H
#define _LINUX_TRACE_RECURSION_H
#include <linux/preempt.h>
#include <linux/sched.h>

/* The first bit for each caller. The contexts follow each other, then one bit that lets
 * a hit through while preempt_count does not yet tell of an interrupt. */
#define TRACE_FTRACE_START	0
#define TRACE_LIST_START	5
#define TRACE_CTX_TRANSITION	4

static __always_inline int trace_get_context_bit(void)
{
	unsigned int pc = preempt_count();

	return pc & NMI_MASK ? 0 : pc & HARDIRQ_MASK ? 1 : pc & SOFTIRQ_OFFSET ? 2 : 3;
}

/* Returns the bit that was set, with preemption disabled, or -1. */
static __always_inline int trace_test_and_set_recursion(unsigned long ip, unsigned long pip, int start)
{
	unsigned long busy = READ_ONCE(current->trace_recursion);
	int bit = start + trace_get_context_bit();

	if (busy & (1UL << bit)) {
		bit = start + TRACE_CTX_TRANSITION;
		if (busy & (1UL << bit))
			return -1;
	}
	WRITE_ONCE(current->trace_recursion, busy | 1UL << bit);
	preempt_disable_notrace();
	return bit;
}

static __always_inline void trace_clear_recursion(int bit)
{
	preempt_enable_notrace();
	WRITE_ONCE(current->trace_recursion, current->trace_recursion & ~(1UL << bit));
}

static __always_inline int ftrace_test_recursion_trylock(unsigned long ip, unsigned long parent_ip)
{
	return trace_test_and_set_recursion(ip, parent_ip, TRACE_FTRACE_START);
}

static __always_inline void ftrace_test_recursion_unlock(int bit)
{
	trace_clear_recursion(bit);
}
#endif
