// Calling the handlers of devices' interrupts.
#include <linux/irq.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <trace/events/irq.h>

// __irq_wake_thread has an action's thread run. A thread that was woken and has not run since
// is not woken again.
void __irq_wake_thread(struct irq_desc *desc, struct irqaction *action)
{
	if (test_and_set_bit(0, &action->thread_flags))
		return;
	atomic_inc(&desc->threads_active);
	if (action->flags & IRQF_ONESHOT)
		desc->oneshot++;
	wake_up_process(action->thread);
}

noinline __noclone irqreturn_t __handle_irq_event_percpu(struct irq_desc *desc)
{
	irqreturn_t all = IRQ_NONE, res;
	struct irqaction *action;

	for (action = READ_ONCE(desc->action); action; action = READ_ONCE(action->next)) {
		trace_irq_handler_entry(desc->irq, action);
		res = action->handler(desc->irq, action->dev_id);
		trace_irq_handler_exit(desc->irq, action, res);
		if (WARN_ONCE(!irqs_disabled(), "irq %u handler %pS enabled interrupts\n", desc->irq, action->handler))
			local_irq_disable();
		if (res == IRQ_WAKE_THREAD) {
			if (action->thread_fn)
				__irq_wake_thread(desc, action);
			else
				pr_warn("IRQ %d device %s returned IRQ_WAKE_THREAD but no thread function available.", desc->irq, action->name);
		}
		all |= res;
	}
	return all;
}

static __noipa irqreturn_t handle_irq_event_percpu(struct irq_desc *desc)
{
	return __handle_irq_event_percpu(desc);
}

// handle_irq_event calls the handlers of a line that is locked.
noinline __noclone irqreturn_t handle_irq_event(struct irq_desc *desc)
{
	irqreturn_t ret;

	desc->pending = false;
	desc->inprogress = true;
	raw_spin_unlock(&desc->lock);
	ret = handle_irq_event_percpu(desc);
	raw_spin_lock(&desc->lock);
	desc->inprogress = false;
	return ret;
}

// handle_edge_irq handles an interrupt. One that comes while its handlers run is handled
// afterwards; one that comes while the line is disabled is lost (interrupts.txtar).
noinline __noclone void handle_edge_irq(struct irq_desc *desc)
{
	raw_spin_lock(&desc->lock);
	if (desc->inprogress || !desc->action || (desc->oneshot && !desc->depth)) {
		desc->pending = true;
	} else if (!desc->depth) {
		atomic64_inc(&desc->count);
		do {
			handle_irq_event(desc);
		} while (desc->pending && !desc->depth && desc->action && !desc->oneshot);
	}
	raw_spin_unlock(&desc->lock);
}
