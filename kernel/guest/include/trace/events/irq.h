/* irq.h: softirqs, and the vectors of the x86. */
#ifndef _TRACE_IRQ_H
#define _TRACE_IRQ_H
#include <linux/tracepoint.h>
struct irqaction;
DECLARE_TRACE(irq_handler_entry, TP_PROTO(int irq, struct irqaction *action), TP_ARGS(irq, action))
DECLARE_TRACE(irq_handler_exit, TP_PROTO(int irq, struct irqaction *action, int ret), TP_ARGS(irq, action, ret))
DECLARE_TRACE(softirq_raise, TP_PROTO(unsigned int vec_nr), TP_ARGS(vec_nr))
DECLARE_TRACE(softirq_entry, TP_PROTO(unsigned int vec_nr), TP_ARGS(vec_nr))
DECLARE_TRACE(softirq_exit, TP_PROTO(unsigned int vec_nr), TP_ARGS(vec_nr))
DECLARE_TRACE(local_timer_entry, TP_PROTO(int vector), TP_ARGS(vector))
DECLARE_TRACE(local_timer_exit, TP_PROTO(int vector), TP_ARGS(vector))
DECLARE_TRACE(reschedule_entry, TP_PROTO(int vector), TP_ARGS(vector))
DECLARE_TRACE(reschedule_exit, TP_PROTO(int vector), TP_ARGS(vector))
DECLARE_TRACE(call_function_single_entry, TP_PROTO(int vector), TP_ARGS(vector))
DECLARE_TRACE(call_function_single_exit, TP_PROTO(int vector), TP_ARGS(vector))
#endif
