// Locks for many readers, which count themselves on their CPU as long as nobody writes. A
// writer sends them here, waits until all know of it, and then for those that are in.
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/percpu-rwsem.h>
#include <linux/sched.h>
#include <linux/wait_bit.h>

int __percpu_init_rwsem(struct percpu_rw_semaphore *sem, const char *name, struct lock_class_key *key)
{
	*sem = (struct percpu_rw_semaphore){};
	sem->read_count = alloc_percpu(unsigned int);
	if (!sem->read_count)
		return -ENOMEM;
	init_waitqueue_head(&sem->rss.gp_wait);
	init_waitqueue_head(&sem->waiters);
	return 0;
}
EXPORT_SYMBOL_GPL(__percpu_init_rwsem);

void percpu_free_rwsem(struct percpu_rw_semaphore *sem)
{
	free_percpu(sem->read_count);
	sem->read_count = NULL;
}
EXPORT_SYMBOL_GPL(percpu_free_rwsem);

// rcuwait_wake_up wakes the writer that waits for the readers.
int rcuwait_wake_up(struct rcuwait *w)
{
	smp_mb();
	wake_up_var(w);
	return 1;
}
EXPORT_SYMBOL_GPL(rcuwait_wake_up);

// __percpu_down_read counts a reader while a writer may be there. It is called with
// preemption disabled.
bool __percpu_down_read(struct percpu_rw_semaphore *sem, bool try)
{
	for (;;) {
		this_cpu_inc(*sem->read_count);
		smp_mb();
		if (!atomic_read(&sem->block))
			return true;
		this_cpu_add(*sem->read_count, -1);
		rcuwait_wake_up(&sem->writer);
		if (try)
			return false;
		preempt_enable();
		wait_var_event(&sem->block, !atomic_read(&sem->block));
		preempt_disable();
	}
}
EXPORT_SYMBOL_GPL(__percpu_down_read);

static bool nobody_reads(struct percpu_rw_semaphore *sem)
{
	unsigned int sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += *per_cpu_ptr(sem->read_count, cpu);
	return !sum;
}

noinline void percpu_down_write(struct percpu_rw_semaphore *sem)
{
	wait_var_event(&sem->block, !atomic_cmpxchg(&sem->block, 0, 1));
	WRITE_ONCE(sem->rss.gp_state, 1);
	synchronize_rcu();
	wait_var_event(&sem->writer, nobody_reads(sem));
}
EXPORT_SYMBOL_GPL(percpu_down_write);

void percpu_up_write(struct percpu_rw_semaphore *sem)
{
	WRITE_ONCE(sem->rss.gp_state, 0);
	smp_mb();
	atomic_set(&sem->block, 0);
	smp_mb();
	wake_up_var(&sem->block);
}
EXPORT_SYMBOL_GPL(percpu_up_write);
