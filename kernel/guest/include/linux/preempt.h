/* preempt.h: this CPU's preempt_count. */
#ifndef _LINUX_PREEMPT_H
#define _LINUX_PREEMPT_H
#include <linux/percpu.h>
#define PREEMPT_MASK	0x000000ff
#define SOFTIRQ_MASK	0x0000ff00
#define HARDIRQ_MASK	0x000f0000
#define NMI_MASK	0x00f00000
#define PREEMPT_OFFSET	0x1
#define SOFTIRQ_OFFSET	0x100
#define SOFTIRQ_DISABLE_OFFSET (2 * SOFTIRQ_OFFSET)
#define HARDIRQ_OFFSET	0x10000
#define NMI_OFFSET	0x100000
/* The top bit is need_resched, inverted, so that one test checks both. */
#define PREEMPT_NEED_RESCHED 0x80000000
DECLARE_PER_CPU(int, __preempt_count);
static __always_inline int preempt_count(void) { return this_cpu_read(__preempt_count) & ~PREEMPT_NEED_RESCHED; }
static __always_inline void __preempt_count_add(int v) { this_cpu_add(__preempt_count, v); }
static __always_inline void __preempt_count_sub(int v) { this_cpu_sub(__preempt_count, v); }
#define preempt_count_add(v) __preempt_count_add(v)
#define preempt_count_sub(v) __preempt_count_sub(v)
#define preempt_disable() do { __preempt_count_add(1); barrier(); } while (0)
#define preempt_enable() do { barrier(); __preempt_count_sub(1); } while (0)
#define preempt_enable_no_resched() preempt_enable()
#define preempt_disable_notrace() preempt_disable()
#define preempt_enable_notrace() preempt_enable()
#define hardirq_count() (preempt_count() & HARDIRQ_MASK)
#define softirq_count() (preempt_count() & SOFTIRQ_MASK)
#define nmi_count() (preempt_count() & NMI_MASK)
#define irq_count() (preempt_count() & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_MASK))
#define in_interrupt() irq_count()
#define in_nmi() nmi_count()
#define in_hardirq() hardirq_count()
#define in_irq() hardirq_count()
#define in_softirq() softirq_count()
#define in_serving_softirq() (softirq_count() & SOFTIRQ_OFFSET)
#define in_task() (!(preempt_count() & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET)))
#define in_atomic() (preempt_count() != 0)
#define preemptible() (preempt_count() == 0 && !irqs_disabled())
static __always_inline void set_preempt_need_resched(void) { this_cpu_and(__preempt_count, ~PREEMPT_NEED_RESCHED); }
static __always_inline void clear_preempt_need_resched(void) { this_cpu_or(__preempt_count, PREEMPT_NEED_RESCHED); }
static __always_inline bool should_resched(int off) { return this_cpu_read(__preempt_count) == off; }
#ifdef MODULE
#define PREEMPT_BITS	8
#define SOFTIRQ_BITS	8
#define HARDIRQ_BITS	4
#define NMI_BITS	4
#define PREEMPT_SHIFT	0
#define SOFTIRQ_SHIFT	8
#define HARDIRQ_SHIFT	16
#define NMI_SHIFT	20
#define PREEMPT_DISABLE_OFFSET PREEMPT_OFFSET
#define PREEMPT_LOCK_OFFSET PREEMPT_DISABLE_OFFSET
#define SOFTIRQ_LOCK_OFFSET (SOFTIRQ_DISABLE_OFFSET + PREEMPT_LOCK_OFFSET)
#define preempt_count_inc() preempt_count_add(1)
#define preempt_count_dec() preempt_count_sub(1)
#define preempt_count_dec_and_test() ({ preempt_count_sub(1); should_resched(0); })
#define preempt_enable_no_resched_notrace() preempt_enable_no_resched()
#define sched_preempt_enable_no_resched() preempt_enable_no_resched()
#define in_atomic_preempt_off() (preempt_count() != PREEMPT_DISABLE_OFFSET)
#define preempt_disable_nested() do { } while (0)
#define preempt_enable_nested() do { } while (0)
/* 0 in a task, 1 in a soft interrupt, 2 in an interrupt, 3 in an NMI. */
static __always_inline unsigned char interrupt_context_level(void)
{
	return in_nmi() ? 3 : in_hardirq() ? 2 : in_serving_softirq() ? 1 : 0;
}
#endif
#endif
