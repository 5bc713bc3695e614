// Who handles which interrupt. There is one line, of the disk.
#include <linux/irq.h>
#include <linux/slab.h>
#include <linux/errno.h>
#include <asm/host.h>

static struct irq_desc irq_desc = { .irq = DISK_IRQ };

struct irq_desc *irq_to_desc(unsigned int irq)
{
	return irq == irq_desc.irq ? &irq_desc : NULL;
}

int request_threaded_irq(unsigned int irq, irq_handler_t handler, irq_handler_t thread_fn, unsigned long flags, const char *name, void *dev)
{
	struct irq_desc *desc = irq_to_desc(irq);
	struct irqaction *action;

	if (!desc || !handler)
		return -EINVAL;
	if (desc->action)
		return -EBUSY;
	action = kzalloc(sizeof(*action), GFP_KERNEL);
	if (!action)
		return -ENOMEM;
	*action = (struct irqaction){ .handler = handler, .dev_id = dev, .name = name, .irq = irq };
	WRITE_ONCE(desc->action, action);
	return 0;
}
