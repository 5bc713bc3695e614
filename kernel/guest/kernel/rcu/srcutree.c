/* srcutree.c: sleepable RCU. */
#include <linux/kernel.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/srcu.h>

static unsigned long srcu_count(struct srcu_struct *ssp, int idx, bool unlocks)
{
	unsigned long sum = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct srcu_data *d = per_cpu_ptr(ssp->sda, cpu);

		sum += READ_ONCE((unlocks ? d->srcu_unlock_count : d->srcu_lock_count)[idx]);
	}
	return sum;
}

/* Reports whether a set has no readers. The unlocks are counted first: a reader that
 * enters meanwhile must not hide one that has not left. */
static bool srcu_readers_gone(struct srcu_struct *ssp, int idx)
{
	unsigned long unlocks = srcu_count(ssp, idx, true);

	smp_mb();
	return srcu_count(ssp, idx, false) == unlocks;
}

int __srcu_read_lock(struct srcu_struct *ssp)
{
	int idx = READ_ONCE(ssp->srcu_idx) & 1;

	this_cpu_add(ssp->sda->srcu_lock_count[idx], 1UL);
	smp_mb();
	return idx;
}
EXPORT_SYMBOL_GPL(__srcu_read_lock);

void __srcu_read_unlock(struct srcu_struct *ssp, int idx)
{
	smp_mb();
	this_cpu_add(ssp->sda->srcu_unlock_count[idx], 1UL);
}
EXPORT_SYMBOL_GPL(__srcu_read_unlock);

static void srcu_wait_readers(struct srcu_struct *ssp, int idx)
{
	while (!srcu_readers_gone(ssp, idx))
		schedule_timeout_uninterruptible(1);
}

/* Waits for a grace period: for readers that took the number of the other set before it
 * was last changed, and for readers of the present one. */
static void srcu_advance(struct srcu_struct *ssp)
{
	int idx;

	mutex_lock(&ssp->srcu_gp_mutex);
	idx = ssp->srcu_idx & 1;
	smp_mb();
	srcu_wait_readers(ssp, !idx);
	WRITE_ONCE(ssp->srcu_idx, ssp->srcu_idx + 1);
	smp_mb();
	srcu_wait_readers(ssp, idx);
	mutex_unlock(&ssp->srcu_gp_mutex);
}

void synchronize_srcu(struct srcu_struct *ssp)
{
	might_sleep();
	srcu_advance(ssp);
}
EXPORT_SYMBOL_GPL(synchronize_srcu);

void synchronize_srcu_expedited(struct srcu_struct *ssp)
{
	synchronize_srcu(ssp);
}
EXPORT_SYMBOL_GPL(synchronize_srcu_expedited);

/* Invokes the callbacks that were queued before the grace period, in order. */
static void srcu_invoke_callbacks(struct work_struct *work)
{
	struct srcu_struct *ssp = container_of(work, struct srcu_struct, work);
	struct callback_head *list, *next;

	spin_lock_irq(&ssp->lock);
	list = ssp->cbs;
	ssp->cbs = NULL;
	ssp->cbs_tail = &ssp->cbs;
	spin_unlock_irq(&ssp->lock);
	if (!list)
		return;
	srcu_advance(ssp);
	for (; list; list = next) {
		next = list->next;
		local_bh_disable();
		list->func(list);
		local_bh_enable();
	}
}

void call_srcu(struct srcu_struct *ssp, struct callback_head *head, rcu_callback_t func)
{
	unsigned long flags;

	head->func = func;
	head->next = NULL;
	spin_lock_irqsave(&ssp->lock, flags);
	*ssp->cbs_tail = head;
	ssp->cbs_tail = &head->next;
	spin_unlock_irqrestore(&ssp->lock, flags);
	queue_work(system_wq, &ssp->work);
}
EXPORT_SYMBOL_GPL(call_srcu);

struct srcu_synchronize { struct callback_head head; struct completion done; };

static void srcu_barrier_cb(struct callback_head *head)
{
	complete(&container_of(head, struct srcu_synchronize, head)->done);
}

/* Waits until all callbacks that were queued before have been invoked. */
void srcu_barrier(struct srcu_struct *ssp)
{
	struct srcu_synchronize s;

	init_completion(&s.done);
	call_srcu(ssp, &s.head, srcu_barrier_cb);
	wait_for_completion(&s.done);
}
EXPORT_SYMBOL_GPL(srcu_barrier);

int init_srcu_struct(struct srcu_struct *ssp)
{
	ssp->srcu_idx = 0;
	mutex_init(&ssp->srcu_gp_mutex);
	spin_lock_init(&ssp->lock);
	ssp->cbs = NULL;
	ssp->cbs_tail = &ssp->cbs;
	INIT_WORK(&ssp->work, srcu_invoke_callbacks);
	ssp->sda = alloc_percpu(struct srcu_data);
	return ssp->sda ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_GPL(init_srcu_struct);

/* Frees what init_srcu_struct has allocated. It leaves a domain that has readers or
 * callbacks. */
void cleanup_srcu_struct(struct srcu_struct *ssp)
{
	if (!ssp->sda || WARN_ON(!srcu_readers_gone(ssp, 0) || !srcu_readers_gone(ssp, 1)))
		return;
	flush_work(&ssp->work);
	if (WARN_ON(READ_ONCE(ssp->cbs)))
		return;
	free_percpu(ssp->sda);
	ssp->sda = NULL;
}
EXPORT_SYMBOL_GPL(cleanup_srcu_struct);

/* Initializes the domains that a module defines with DEFINE_SRCU: all or none. */
int srcu_module_coming(struct module *mod)
{
	unsigned int i;

	for (i = 0; i < mod->num_srcu_structs; i++) {
		if (!WARN_ON_ONCE(init_srcu_struct(mod->srcu_struct_ptrs[i])))
			continue;
		while (i--)
			cleanup_srcu_struct(mod->srcu_struct_ptrs[i]);
		return -ENOMEM;
	}
	return 0;
}

void srcu_module_going(struct module *mod)
{
	unsigned int i;

	for (i = 0; i < mod->num_srcu_structs; i++)
		cleanup_srcu_struct(mod->srcu_struct_ptrs[i]);
}
