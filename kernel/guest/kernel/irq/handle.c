// Calling the handlers of devices' interrupts.
#include <linux/irq.h>
#include <linux/kernel.h>
#include <trace/events/irq.h>

noinline __noclone irqreturn_t __handle_irq_event_percpu(struct irq_desc *desc)
{
	struct irqaction *action = READ_ONCE(desc->action);
	irqreturn_t res;

	if (!action)
		return IRQ_NONE;
	trace_irq_handler_entry(desc->irq, action);
	res = action->handler(desc->irq, action->dev_id);
	trace_irq_handler_exit(desc->irq, action, res);
	return res;
}

static __noipa irqreturn_t handle_irq_event_percpu(struct irq_desc *desc)
{
	return __handle_irq_event_percpu(desc);
}

noinline __noclone irqreturn_t handle_irq_event(struct irq_desc *desc)
{
	return handle_irq_event_percpu(desc);
}

noinline __noclone void handle_edge_irq(struct irq_desc *desc)
{
	handle_irq_event(desc);
}
