// irq.h: interrupts of devices. Layouts of what modules see are 6.1's.
#ifndef _LINUX_IRQ_H
#define _LINUX_IRQ_H

#include <linux/types.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <asm/host.h>

typedef enum { IRQ_NONE, IRQ_HANDLED, IRQ_WAKE_THREAD } irqreturn_t;
typedef irqreturn_t (*irq_handler_t)(int irq, void *dev_id);
#define IRQ_RETVAL(x) ((x) ? IRQ_HANDLED : IRQ_NONE)

#define IRQF_TRIGGER_NONE 0
#define IRQF_TRIGGER_RISING 1
#define IRQF_TRIGGER_FALLING 2
#define IRQF_TRIGGER_HIGH 4
#define IRQF_TRIGGER_LOW 8
#define IRQF_TRIGGER_MASK 15
#define IRQF_SHARED 0x80
#define IRQF_PROBE_SHARED 0x100
#define __IRQF_TIMER 0x200
#define IRQF_PERCPU 0x400
#define IRQF_NOBALANCING 0x800
#define IRQF_IRQPOLL 0x1000
#define IRQF_ONESHOT 0x2000
#define IRQF_NO_SUSPEND 0x4000
#define IRQF_FORCE_RESUME 0x8000
#define IRQF_NO_THREAD 0x10000
#define IRQF_EARLY_RESUME 0x20000
#define IRQF_COND_SUSPEND 0x40000
#define IRQF_NO_AUTOEN 0x80000
#define IRQF_TIMER (__IRQF_TIMER | IRQF_NO_SUSPEND | IRQF_NO_THREAD)

struct irqaction {
	irq_handler_t handler;
	void *dev_id, *percpu_dev_id;
	struct irqaction *next; // that shares the line
	irq_handler_t thread_fn;
	struct task_struct *thread;
	struct irqaction *secondary;
	unsigned int irq, flags; // IRQF_*
	unsigned long thread_flags, thread_mask;
	const char *name;
	void *dir;
} __aligned(64);
static_assert(offsetof(struct irqaction, name) == 80, "struct irqaction");
static_assert(sizeof(struct irqaction) == 128, "struct irqaction");

// An irq_desc is one line.
struct irq_desc {
	raw_spinlock_t lock;	   // what follows
	struct irqaction *action;  // those that share it, in the order of their requests
	unsigned int irq, depth;   // how often it is disabled; 1 without an action
	bool inprogress, pending;  // the handlers run; it came while it was disabled or they ran
	unsigned int oneshot;	   // threads that have to end before it may come again
	unsigned int unhandled;
	atomic_t threads_active;
	wait_queue_head_t wait_for_threads;
	atomic64_t count;
};

#define NR_IRQS_LEGACY 16

// vector_to_irq returns the line that a vector is of, or -1.
static inline int vector_to_irq(unsigned int vector)
{
	if (vector == DISK_VECTOR)
		return DISK_IRQ;
	return vector >= ISA_IRQ_VECTOR(0) && vector < ISA_IRQ_VECTOR(NR_IRQS_LEGACY) ? (int)(vector - ISA_IRQ_VECTOR(0)) : -1;
}

int request_threaded_irq(unsigned int irq, irq_handler_t handler, irq_handler_t thread_fn, unsigned long flags, const char *name, void *dev);
int request_any_context_irq(unsigned int irq, irq_handler_t handler, unsigned long flags, const char *name, void *dev);
const void *free_irq(unsigned int irq, void *dev);
void disable_irq(unsigned int irq);
void disable_irq_nosync(unsigned int irq);
bool disable_hardirq(unsigned int irq);
void enable_irq(unsigned int irq);
void synchronize_irq(unsigned int irq);
bool synchronize_hardirq(unsigned int irq);
void irq_wake_thread(unsigned int irq, void *dev_id);
int generic_handle_irq(unsigned int irq);
int generic_handle_irq_safe(unsigned int irq);
int irq_set_irq_type(unsigned int irq, unsigned int type);
struct device;
int devm_request_threaded_irq(struct device *dev, unsigned int irq, irq_handler_t handler, irq_handler_t thread_fn, unsigned long flags, const char *name, void *dev_id);
void devm_free_irq(struct device *dev, unsigned int irq, void *dev_id);
unsigned long probe_irq_on(void);
int probe_irq_off(unsigned long val);
static inline int request_irq(unsigned int irq, irq_handler_t handler, unsigned long flags, const char *name, void *dev)
{ return request_threaded_irq(irq, handler, NULL, flags, name, dev); }
static inline int devm_request_irq(struct device *dev, unsigned int irq, irq_handler_t handler, unsigned long flags, const char *name, void *dev_id)
{ return devm_request_threaded_irq(dev, irq, handler, NULL, flags, name, dev_id); }

irqreturn_t handle_irq_event(struct irq_desc *desc);
void handle_edge_irq(struct irq_desc *desc);
void __irq_wake_thread(struct irq_desc *desc, struct irqaction *action);
struct irq_desc *irq_to_desc(unsigned int irq);

#endif
