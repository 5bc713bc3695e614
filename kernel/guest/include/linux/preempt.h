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
#define irq_count() (preempt_count() & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_MASK))
#define in_interrupt() irq_count()
#define in_hardirq() hardirq_count()
#define in_softirq() softirq_count()
#define in_task() (!(preempt_count() & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET)))
#define in_atomic() (preempt_count() != 0)
#define preemptible() (preempt_count() == 0 && !irqs_disabled())
static __always_inline void set_preempt_need_resched(void) { this_cpu_and(__preempt_count, ~PREEMPT_NEED_RESCHED); }
static __always_inline void clear_preempt_need_resched(void) { this_cpu_or(__preempt_count, PREEMPT_NEED_RESCHED); }
static __always_inline bool should_resched(int off) { return this_cpu_read(__preempt_count) == off; }
#endif
