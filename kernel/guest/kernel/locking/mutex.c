/* mutex.c: mutexes. The owner field is the owner's task_struct, with the low bit set
 * if there are waiters. */
#include <linux/sched.h>

#define MUTEX_FLAG_WAITERS 1UL

struct mutex_waiter { struct list_head list; struct task_struct *task; };

void __mutex_init(struct mutex *lock, const char *name, struct lock_class_key *key)
{
	atomic_long_set(&lock->owner, 0);
	raw_spin_lock_init(&lock->wait_lock);
	INIT_LIST_HEAD(&lock->wait_list);
	atomic_set(&lock->osq.tail, 0);
}
EXPORT_SYMBOL(__mutex_init);

static bool __mutex_trylock(struct mutex *lock)
{
	long owner = atomic_long_read(&lock->owner);

	do {
		if (owner & ~MUTEX_FLAG_WAITERS)
			return false;
	} while (!atomic_long_try_cmpxchg(&lock->owner, &owner, (long)current | (owner & MUTEX_FLAG_WAITERS)));
	return true;
}

static bool __mutex_trylock_fast(struct mutex *lock)
{
	return atomic_long_cmpxchg(&lock->owner, 0, (long)current) == 0;
}

static int __mutex_lock_common(struct mutex *lock, unsigned int state)
{
	struct mutex_waiter waiter = { .task = current };
	int ret = 0;

	raw_spin_lock(&lock->wait_lock);
	list_add_tail(&waiter.list, &lock->wait_list);
	atomic_long_or(MUTEX_FLAG_WAITERS, &lock->owner);
	for (;;) {
		set_current_state(state);
		if (__mutex_trylock(lock))
			break;
		if (signal_pending_state(state, current)) {
			ret = -EINTR;
			break;
		}
		raw_spin_unlock(&lock->wait_lock);
		schedule();
		raw_spin_lock(&lock->wait_lock);
	}
	__set_current_state(TASK_RUNNING);
	list_del(&waiter.list);
	if (list_empty(&lock->wait_list))
		atomic_long_and(~MUTEX_FLAG_WAITERS, &lock->owner);
	raw_spin_unlock(&lock->wait_lock);
	return ret;
}

static noinline void __mutex_lock_slowpath(struct mutex *lock)
{
	__mutex_lock_common(lock, TASK_UNINTERRUPTIBLE);
}

static noinline int __mutex_lock_interruptible_slowpath(struct mutex *lock)
{
	return __mutex_lock_common(lock, TASK_INTERRUPTIBLE);
}

static noinline int __mutex_lock_killable_slowpath(struct mutex *lock)
{
	return __mutex_lock_common(lock, TASK_KILLABLE);
}

void mutex_lock(struct mutex *lock)
{
	might_sleep();
	if (!__mutex_trylock_fast(lock))
		__mutex_lock_slowpath(lock);
}
EXPORT_SYMBOL(mutex_lock);

/* Returns -EINTR if interrupted by a signal. */
int mutex_lock_interruptible(struct mutex *lock)
{
	might_sleep();
	if (__mutex_trylock_fast(lock))
		return 0;
	return __mutex_lock_interruptible_slowpath(lock);
}
EXPORT_SYMBOL(mutex_lock_interruptible);

int mutex_lock_killable(struct mutex *lock)
{
	might_sleep();
	if (__mutex_trylock_fast(lock))
		return 0;
	return __mutex_lock_killable_slowpath(lock);
}
EXPORT_SYMBOL(mutex_lock_killable);

int mutex_trylock(struct mutex *lock)
{
	return __mutex_trylock(lock);
}
EXPORT_SYMBOL(mutex_trylock);

static noinline void __mutex_unlock_slowpath(struct mutex *lock)
{
	struct task_struct *next = NULL;

	raw_spin_lock(&lock->wait_lock);
	atomic_long_and(MUTEX_FLAG_WAITERS, &lock->owner);
	if (!list_empty(&lock->wait_list))
		next = list_first_entry(&lock->wait_list, struct mutex_waiter, list)->task;
	if (next)
		wake_up_process(next);
	raw_spin_unlock(&lock->wait_lock);
}

void mutex_unlock(struct mutex *lock)
{
	if (atomic_long_cmpxchg(&lock->owner, (long)current, 0) == (long)current)
		return;
	__mutex_unlock_slowpath(lock);
}
EXPORT_SYMBOL(mutex_unlock);

bool mutex_is_locked(struct mutex *lock)
{
	return (atomic_long_read(&lock->owner) & ~MUTEX_FLAG_WAITERS) != 0;
}
EXPORT_SYMBOL(mutex_is_locked);
