// Who handles which interrupt. The lines are the sixteen that a PC has, which nothing raises
// here but code that says `int` with their vector or generic_handle_irq, and the disk's.
#define pr_fmt(fmt) "genirq: " fmt

#include <linux/irq.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/kthread.h>
#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/interrupt.h>
#include <linux/delay.h>
#include <linux/export.h>

static struct irq_desc irq_descs[NR_IRQS_LEGACY + 1];
static DEFINE_MUTEX(request_mutex);

noinline struct irq_desc *irq_to_desc(unsigned int irq)
{
	if (irq < NR_IRQS_LEGACY)
		return &irq_descs[irq];
	return irq == DISK_IRQ ? &irq_descs[NR_IRQS_LEGACY] : NULL;
}

static irqreturn_t irq_default_primary_handler(int irq, void *dev_id)
{
	return IRQ_WAKE_THREAD;
}

// resend handles an interrupt that came while it could not be handled.
static void resend(struct irq_desc *desc)
{
	unsigned long flags;

	if (!READ_ONCE(desc->pending) || !READ_ONCE(desc->action))
		return;
	local_irq_save(flags);
	irq_enter_rcu();
	handle_edge_irq(desc);
	irq_exit_rcu();
	local_irq_restore(flags);
}

// thread_done says that a thread has dealt with what it was woken for.
static void thread_done(struct irq_desc *desc, struct irqaction *action)
{
	bool last = false;

	if (action->flags & IRQF_ONESHOT) {
		raw_spin_lock_irq(&desc->lock);
		last = !--desc->oneshot;
		raw_spin_unlock_irq(&desc->lock);
	}
	if (atomic_dec_and_test(&desc->threads_active))
		wake_up(&desc->wait_for_threads);
	if (last)
		resend(desc);
}

static int irq_thread(void *data)
{
	struct irqaction *action = data;
	struct irq_desc *desc = irq_to_desc(action->irq);

	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (test_and_clear_bit(0, &action->thread_flags)) {
			__set_current_state(TASK_RUNNING);
			action->thread_fn(action->irq, action->dev_id);
			thread_done(desc, action);
		} else if (kthread_should_stop()) {
			__set_current_state(TASK_RUNNING);
			return 0;
		} else {
			schedule();
		}
	}
}

static int setup_irq_thread(struct irqaction *new)
{
	struct task_struct *t = kthread_create(irq_thread, new, "irq/%d-%s", new->irq, new->name);

	if (IS_ERR(t))
		return PTR_ERR(t);
	new->thread = t;
	wake_up_process(t);
	return 0;
}

// may_share reports whether new can have a line together with old.
static bool may_share(const struct irqaction *old, const struct irqaction *new)
{
	if (!(old->flags & new->flags & IRQF_SHARED))
		return false;
	if (new->flags & IRQF_TRIGGER_MASK && (old->flags ^ new->flags) & IRQF_TRIGGER_MASK)
		return false;
	return !((old->flags ^ new->flags) & (IRQF_ONESHOT | IRQF_PERCPU));
}

static int __setup_irq(struct irq_desc *desc, struct irqaction *new)
{
	struct irqaction **at, *old = desc->action;
	int err;

	if (!(new->flags & IRQF_TRIGGER_MASK))
		new->flags |= old ? old->flags & IRQF_TRIGGER_MASK : 0;
	if (new->thread_fn) {
		err = setup_irq_thread(new);
		if (err)
			return err;
	}
	if (old && !may_share(old, new)) {
		if (!(new->flags & IRQF_PROBE_SHARED))
			pr_err("Flags mismatch irq %d. %08x (%s) vs. %08x (%s)\n", new->irq, new->flags, new->name, old->flags, old->name);
		err = -EBUSY;
		goto thread;
	}
	if (new->handler == irq_default_primary_handler && !(new->flags & IRQF_ONESHOT)) {
		pr_err("Threaded irq requested with handler=NULL and !ONESHOT for %s (irq %d)\n", new->name, new->irq);
		err = -EINVAL;
		goto thread;
	}
	raw_spin_lock_irq(&desc->lock);
	for (at = &desc->action; *at; at = &(*at)->next)
		;
	WRITE_ONCE(*at, new);
	if (!old) {
		desc->depth = new->flags & IRQF_NO_AUTOEN ? 1 : 0;
		desc->pending = false;
	}
	raw_spin_unlock_irq(&desc->lock);
	return 0;
thread:
	if (new->thread)
		kthread_stop(new->thread);
	return err;
}

int request_threaded_irq(unsigned int irq, irq_handler_t handler, irq_handler_t thread_fn, unsigned long flags, const char *name, void *dev)
{
	struct irq_desc *desc = irq_to_desc(irq);
	struct irqaction *action;
	int err;

	if ((flags & IRQF_SHARED && (!dev || flags & IRQF_NO_AUTOEN)) || (!(flags & IRQF_SHARED) && flags & IRQF_COND_SUSPEND))
		return -EINVAL;
	if (!desc || (!handler && !thread_fn))
		return -EINVAL;
	action = kzalloc(sizeof(*action), GFP_KERNEL);
	if (!action)
		return -ENOMEM;
	*action = (struct irqaction){
		.handler = handler ?: irq_default_primary_handler, .thread_fn = thread_fn, .flags = flags, .name = name, .dev_id = dev, .irq = irq,
	};
	mutex_lock(&request_mutex);
	err = __setup_irq(desc, action);
	mutex_unlock(&request_mutex);
	if (err)
		kfree(action);
	return err;
}
EXPORT_SYMBOL(request_threaded_irq);

int request_any_context_irq(unsigned int irq, irq_handler_t handler, unsigned long flags, const char *name, void *dev)
{
	return request_threaded_irq(irq, handler, NULL, flags, name, dev);
}
EXPORT_SYMBOL_GPL(request_any_context_irq);

static void wait_until_handled(struct irq_desc *desc)
{
	while (READ_ONCE(desc->inprogress))
		cpu_relax();
}

// free_irq takes the handler with this dev_id away, and returns its name. It waits until no
// handler runs.
const void *free_irq(unsigned int irq, void *dev_id)
{
	struct irq_desc *desc = irq_to_desc(irq);
	struct irqaction **at, *action;
	const char *name;

	if (!desc)
		return NULL;
	WARN(in_interrupt(), "Trying to free IRQ %d from IRQ context!\n", irq);
	mutex_lock(&request_mutex);
	raw_spin_lock_irq(&desc->lock);
	for (at = &desc->action; (action = *at) && action->dev_id != dev_id; at = &action->next)
		;
	if (!action) {
		WARN(1, "Trying to free already-free IRQ %d\n", irq);
		raw_spin_unlock_irq(&desc->lock);
		mutex_unlock(&request_mutex);
		return NULL;
	}
	WRITE_ONCE(*at, action->next);
	if (!desc->action)
		desc->depth = 1;
	raw_spin_unlock_irq(&desc->lock);
	wait_until_handled(desc);
	if (action->thread)
		kthread_stop(action->thread);
	mutex_unlock(&request_mutex);
	name = action->name;
	kfree(action);
	return name;
}
EXPORT_SYMBOL(free_irq);

bool synchronize_hardirq(unsigned int irq)
{
	struct irq_desc *desc = irq_to_desc(irq);

	if (!desc)
		return true;
	wait_until_handled(desc);
	return !atomic_read(&desc->threads_active);
}
EXPORT_SYMBOL(synchronize_hardirq);

void synchronize_irq(unsigned int irq)
{
	struct irq_desc *desc = irq_to_desc(irq);

	if (!desc)
		return;
	wait_until_handled(desc);
	wait_event(desc->wait_for_threads, !atomic_read(&desc->threads_active));
}
EXPORT_SYMBOL(synchronize_irq);

void disable_irq_nosync(unsigned int irq)
{
	struct irq_desc *desc = irq_to_desc(irq);
	unsigned long flags;

	if (!desc)
		return;
	raw_spin_lock_irqsave(&desc->lock, flags);
	desc->depth++;
	raw_spin_unlock_irqrestore(&desc->lock, flags);
}
EXPORT_SYMBOL(disable_irq_nosync);

void disable_irq(unsigned int irq)
{
	disable_irq_nosync(irq);
	synchronize_irq(irq);
}
EXPORT_SYMBOL(disable_irq);

bool disable_hardirq(unsigned int irq)
{
	disable_irq_nosync(irq);
	return synchronize_hardirq(irq);
}
EXPORT_SYMBOL_GPL(disable_hardirq);

void enable_irq(unsigned int irq)
{
	struct irq_desc *desc = irq_to_desc(irq);
	unsigned long flags;

	if (!desc)
		return;
	raw_spin_lock_irqsave(&desc->lock, flags);
	if (!desc->depth)
		WARN(1, "Unbalanced enable for IRQ %d\n", irq);
	else
		desc->depth--;
	raw_spin_unlock_irqrestore(&desc->lock, flags);
}
EXPORT_SYMBOL(enable_irq);

void irq_wake_thread(unsigned int irq, void *dev_id)
{
	struct irq_desc *desc = irq_to_desc(irq);
	struct irqaction *action;
	unsigned long flags;

	if (!desc)
		return;
	raw_spin_lock_irqsave(&desc->lock, flags);
	for (action = desc->action; action; action = action->next)
		if (action->dev_id == dev_id) {
			if (action->thread)
				__irq_wake_thread(desc, action);
			break;
		}
	raw_spin_unlock_irqrestore(&desc->lock, flags);
}
EXPORT_SYMBOL_GPL(irq_wake_thread);

// generic_handle_irq handles an interrupt as if its line had been raised. It is called in an
// interrupt.
int generic_handle_irq(unsigned int irq)
{
	struct irq_desc *desc = irq_to_desc(irq);

	if (!desc)
		return -EINVAL;
	if (WARN_ON_ONCE(!in_hardirq()))
		return -EPERM;
	handle_edge_irq(desc);
	return 0;
}
EXPORT_SYMBOL_GPL(generic_handle_irq);

// generic_handle_irq_safe is generic_handle_irq from any context.
int generic_handle_irq_safe(unsigned int irq)
{
	unsigned long flags;
	int err;

	local_irq_save(flags);
	err = generic_handle_irq(irq);
	local_irq_restore(flags);
	return err;
}
EXPORT_SYMBOL_GPL(generic_handle_irq_safe);

int irq_set_irq_type(unsigned int irq, unsigned int type)
{
	return irq_to_desc(irq) ? 0 : -EINVAL;
}
EXPORT_SYMBOL(irq_set_irq_type);

// probe_irq_on returns the lines that a driver may try to have its device raise: none, since
// no device is here that could. probe_irq_off then has nothing to find.
unsigned long probe_irq_on(void)
{
	unsigned long mask = 0;
	unsigned int i;

	for (i = 0; i < NR_IRQS_LEGACY; i++)
		if (!irq_descs[i].action) {
			irq_descs[i].pending = false;
			mask |= 1UL << i;
		}
	return mask;
}
EXPORT_SYMBOL(probe_irq_on);

// probe_irq_off returns the one line that was raised since probe_irq_on, the negative of the
// first if there were several, or 0.
int probe_irq_off(unsigned long val)
{
	int found = 0, n = 0;
	unsigned int i;

	for (i = 0; i < NR_IRQS_LEGACY; i++)
		if (!irq_descs[i].action && irq_descs[i].pending && !n++)
			found = i;
	return n > 1 ? -found : found;
}
EXPORT_SYMBOL(probe_irq_off);

struct irq_devres {
	unsigned int irq;
	void *dev_id;
};

static void devm_irq_release(struct device *dev, void *res)
{
	struct irq_devres *d = res;

	free_irq(d->irq, d->dev_id);
}

static int devm_irq_match(struct device *dev, void *res, void *data)
{
	struct irq_devres *d = res, *want = data;

	return d->irq == want->irq && d->dev_id == want->dev_id;
}

int devm_request_threaded_irq(struct device *dev, unsigned int irq, irq_handler_t handler, irq_handler_t thread_fn,
			      unsigned long flags, const char *name, void *dev_id)
{
	struct irq_devres *d = devres_alloc(devm_irq_release, sizeof(*d), GFP_KERNEL);
	int err;

	if (!d)
		return -ENOMEM;
	err = request_threaded_irq(irq, handler, thread_fn, flags, name ?: dev_name(dev), dev_id);
	if (err) {
		devres_free(d);
		return err;
	}
	*d = (struct irq_devres){ irq, dev_id };
	devres_add(dev, d);
	return 0;
}
EXPORT_SYMBOL(devm_request_threaded_irq);

void devm_free_irq(struct device *dev, unsigned int irq, void *dev_id)
{
	struct irq_devres d = { irq, dev_id };

	WARN_ON(devres_destroy(dev, devm_irq_release, devm_irq_match, &d));
	free_irq(irq, dev_id);
}
EXPORT_SYMBOL(devm_free_irq);

static int __init irq_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(irq_descs); i++) {
		irq_descs[i].irq = i < NR_IRQS_LEGACY ? i : DISK_IRQ;
		irq_descs[i].depth = 1;
		raw_spin_lock_init(&irq_descs[i].lock);
		init_waitqueue_head(&irq_descs[i].wait_for_threads);
	}
	return 0;
}
early_initcall(irq_init);
