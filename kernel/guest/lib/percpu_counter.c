// Counters of which each CPU has a part: it is added to the count when it has become as
// large as a batch.
#include <linux/percpu_counter.h>
#include <linux/cpumask.h>
#include <linux/kernel.h>
#include <linux/export.h>

int percpu_counter_batch = 32;
EXPORT_SYMBOL(percpu_counter_batch);

int __percpu_counter_init(struct percpu_counter *fbc, s64 amount, gfp_t gfp, struct lock_class_key *key)
{
	raw_spin_lock_init(&fbc->lock);
	INIT_LIST_HEAD(&fbc->list);
	fbc->count = amount;
	fbc->counters = __alloc_percpu(sizeof(s32), sizeof(s32));
	return fbc->counters ? 0 : -ENOMEM;
}
EXPORT_SYMBOL(__percpu_counter_init);

void percpu_counter_destroy(struct percpu_counter *fbc)
{
	free_percpu(fbc->counters);
	fbc->counters = NULL;
}
EXPORT_SYMBOL(percpu_counter_destroy);

// parts returns what is not in the count, and clears it if that is asked for.
static s64 parts(struct percpu_counter *fbc, bool clear)
{
	s64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		s32 *part = per_cpu_ptr(fbc->counters, cpu);

		sum += *part;
		if (clear)
			*part = 0;
	}
	return sum;
}

void percpu_counter_set(struct percpu_counter *fbc, s64 amount)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&fbc->lock, flags);
	parts(fbc, true);
	fbc->count = amount;
	raw_spin_unlock_irqrestore(&fbc->lock, flags);
}
EXPORT_SYMBOL(percpu_counter_set);

void percpu_counter_add_batch(struct percpu_counter *fbc, s64 amount, s32 batch)
{
	unsigned long flags;
	s64 sum;
	s32 *part;

	local_irq_save(flags);
	part = this_cpu_ptr(fbc->counters);
	sum = *part + amount;
	if (sum >= batch || sum <= -batch) {
		raw_spin_lock(&fbc->lock);
		fbc->count += sum;
		raw_spin_unlock(&fbc->lock);
		sum = 0;
	}
	*part = sum;
	local_irq_restore(flags);
}
EXPORT_SYMBOL(percpu_counter_add_batch);

// percpu_counter_sync adds this CPU's part to the count.
void percpu_counter_sync(struct percpu_counter *fbc)
{
	percpu_counter_add_batch(fbc, 0, 0);
}
EXPORT_SYMBOL(percpu_counter_sync);

noinline s64 __percpu_counter_sum(struct percpu_counter *fbc)
{
	unsigned long flags;
	s64 sum;

	raw_spin_lock_irqsave(&fbc->lock, flags);
	sum = fbc->count + parts(fbc, false);
	raw_spin_unlock_irqrestore(&fbc->lock, flags);
	return sum;
}
EXPORT_SYMBOL(__percpu_counter_sum);

// __percpu_counter_compare returns -1, 0 or 1, and adds up only if the count is close.
int __percpu_counter_compare(struct percpu_counter *fbc, s64 rhs, s32 batch)
{
	s64 far = (s64)batch * num_online_cpus(), is = fbc->count;

	if (is - rhs <= far && rhs - is <= far)
		is = __percpu_counter_sum(fbc);
	return is > rhs ? 1 : is < rhs ? -1 : 0;
}
EXPORT_SYMBOL(__percpu_counter_compare);
