// Locks of threads with real-time priorities. The scheduler has one class, so there is no
// priority to inherit.
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/wait_bit.h>

void rt_mutex_base_init(struct rt_mutex_base *rtb)
{
	*rtb = (struct rt_mutex_base){ .wait_lock = __RAW_SPIN_LOCK_UNLOCKED };
}
EXPORT_SYMBOL(rt_mutex_base_init);

void __rt_mutex_init(struct rt_mutex *lock, const char *name, struct lock_class_key *key)
{
	rt_mutex_base_init(&lock->rtmutex);
}
EXPORT_SYMBOL_GPL(__rt_mutex_init);

noinline int rt_mutex_trylock(struct rt_mutex *lock)
{
	return !cmpxchg(&lock->rtmutex.owner, NULL, current);
}
EXPORT_SYMBOL_GPL(rt_mutex_trylock);

void rt_mutex_lock(struct rt_mutex *lock)
{
	wait_var_event(lock, rt_mutex_trylock(lock));
}
EXPORT_SYMBOL_GPL(rt_mutex_lock);

int rt_mutex_lock_interruptible(struct rt_mutex *lock)
{
	return wait_var_event_interruptible(lock, rt_mutex_trylock(lock)) ? -EINTR : 0;
}
EXPORT_SYMBOL_GPL(rt_mutex_lock_interruptible);

int rt_mutex_lock_killable(struct rt_mutex *lock)
{
	might_sleep();
	if (rt_mutex_trylock(lock))
		return 0;
	return ___wait_var_event(lock, rt_mutex_trylock(lock), TASK_KILLABLE, 0, schedule()) ? -EINTR : 0;
}
EXPORT_SYMBOL_GPL(rt_mutex_lock_killable);

void rt_mutex_unlock(struct rt_mutex *lock)
{
	smp_store_release(&lock->rtmutex.owner, NULL);
	smp_mb();
	wake_up_var(lock);
}
EXPORT_SYMBOL_GPL(rt_mutex_unlock);
