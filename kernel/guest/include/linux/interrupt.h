/* interrupt.h: softirqs and tasklets. */
#ifndef _LINUX_INTERRUPT_H
#define _LINUX_INTERRUPT_H
#include <linux/preempt.h>
#include <linux/irqflags.h>
#include <linux/llist.h>
#include <linux/bitops.h>
#include <linux/atomic.h>
#include <linux/irq.h>
enum { HI_SOFTIRQ, TIMER_SOFTIRQ, NET_TX_SOFTIRQ, NET_RX_SOFTIRQ, BLOCK_SOFTIRQ, IRQ_POLL_SOFTIRQ,
       TASKLET_SOFTIRQ, SCHED_SOFTIRQ, HRTIMER_SOFTIRQ, RCU_SOFTIRQ, NR_SOFTIRQS };
struct softirq_action { void (*action)(struct softirq_action *); };
void open_softirq(int nr, void (*action)(struct softirq_action *));
void raise_softirq(unsigned int nr);
void raise_softirq_irqoff(unsigned int nr);
void __do_softirq(void);
void do_softirq(void);
void irq_enter_rcu(void);
void irq_exit_rcu(void);
#ifdef MODULE
#include <linux/preempt.h>
static __always_inline void __local_bh_disable_ip(unsigned long ip, unsigned int cnt)
{
	preempt_count_add(cnt);
	barrier();
}
#else
void __local_bh_disable_ip(unsigned long ip, unsigned int cnt);
#endif
void __local_bh_enable_ip(unsigned long ip, unsigned int cnt);
#define local_bh_disable() __local_bh_disable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET)
#define local_bh_enable() __local_bh_enable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET)
struct irq_work { struct llist_node llnode; atomic_t flags; void (*func)(struct irq_work *); };
bool irq_work_queue(struct irq_work *work);
void irq_work_sync(struct irq_work *work);

static inline void init_irq_work(struct irq_work *work, void (*func)(struct irq_work *))
{
	*work = (struct irq_work){ .func = func };
}

void irq_work_run(void);

/* A function that runs in a softirq, not before all that disabled it have enabled it. */
struct tasklet_struct {
	struct tasklet_struct *next;
	unsigned long state;
	atomic_t count; /* how often it is disabled */
	bool use_callback;
	union {
		void (*func)(unsigned long data);
		void (*callback)(struct tasklet_struct *t);
	};
	unsigned long data;
};
enum { TASKLET_STATE_SCHED, TASKLET_STATE_RUN };
#define DECLARE_TASKLET(name, cb) struct tasklet_struct name = { .count = ATOMIC_INIT(0), .callback = cb, .use_callback = true }
#define DECLARE_TASKLET_DISABLED(name, cb) struct tasklet_struct name = { .count = ATOMIC_INIT(1), .callback = cb, .use_callback = true }
#define DECLARE_TASKLET_OLD(name, fn) struct tasklet_struct name = { .count = ATOMIC_INIT(0), .func = fn }
#define from_tasklet(var, t, field) container_of(t, __typeof__(*var), field)
void __tasklet_schedule(struct tasklet_struct *t);
void __tasklet_hi_schedule(struct tasklet_struct *t);
void tasklet_setup(struct tasklet_struct *t, void (*callback)(struct tasklet_struct *));
void tasklet_init(struct tasklet_struct *t, void (*func)(unsigned long), unsigned long data);
void tasklet_kill(struct tasklet_struct *t);
void tasklet_unlock(struct tasklet_struct *t);
void tasklet_unlock_wait(struct tasklet_struct *t);
void tasklet_unlock_spin_wait(struct tasklet_struct *t);
static inline void tasklet_schedule(struct tasklet_struct *t)
{ if (!test_and_set_bit(TASKLET_STATE_SCHED, &t->state)) __tasklet_schedule(t); }
static inline void tasklet_hi_schedule(struct tasklet_struct *t)
{ if (!test_and_set_bit(TASKLET_STATE_SCHED, &t->state)) __tasklet_hi_schedule(t); }
static inline void tasklet_disable_nosync(struct tasklet_struct *t) { atomic_inc(&t->count); }
static inline void tasklet_disable(struct tasklet_struct *t) { atomic_inc(&t->count); tasklet_unlock_wait(t); }
static inline void tasklet_enable(struct tasklet_struct *t) { atomic_dec(&t->count); }
#endif
