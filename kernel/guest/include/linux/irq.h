// irq.h: interrupts of devices.
#ifndef _LINUX_IRQ_H
#define _LINUX_IRQ_H

#include <linux/types.h>
#include <linux/spinlock.h>

typedef enum { IRQ_NONE, IRQ_HANDLED } irqreturn_t;
typedef irqreturn_t (*irq_handler_t)(int irq, void *dev_id);

struct irqaction {
	irq_handler_t handler;
	void *dev_id;
	const char *name;
	unsigned int irq;
};

struct irq_desc {
	struct irqaction *action;
	unsigned int irq;
};

int request_threaded_irq(unsigned int irq, irq_handler_t handler, irq_handler_t thread_fn, unsigned long flags, const char *name, void *dev);
#define request_irq(irq, handler, flags, name, dev) request_threaded_irq(irq, handler, NULL, flags, name, dev)
void handle_edge_irq(struct irq_desc *desc);
irqreturn_t handle_irq_event(struct irq_desc *desc);
struct irq_desc *irq_to_desc(unsigned int irq);

#endif
