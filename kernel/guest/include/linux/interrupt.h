/* interrupt.h: softirqs and tasklets. */
#ifndef _LINUX_INTERRUPT_H
#define _LINUX_INTERRUPT_H
#include <linux/preempt.h>
#include <linux/irqflags.h>
#include <linux/llist.h>
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
void __local_bh_disable_ip(unsigned long ip, unsigned int cnt);
void __local_bh_enable_ip(unsigned long ip, unsigned int cnt);
#define local_bh_disable() __local_bh_disable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET)
#define local_bh_enable() __local_bh_enable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET)
struct irq_work { struct llist_node llnode; atomic_t flags; void (*func)(struct irq_work *); };
bool irq_work_queue(struct irq_work *work);
void irq_work_run(void);
#endif
