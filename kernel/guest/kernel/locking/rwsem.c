/* rwsem.c: count is the number of readers, or -1 for a writer; waiters are served in order. */
#include <linux/sched.h>

struct rwsem_waiter { struct list_head list; struct task_struct *task; bool write, granted; };

void __init_rwsem(struct rw_semaphore *sem, const char *name, struct lock_class_key *key)
{
	atomic_long_set(&sem->count, 0);
	atomic_long_set(&sem->owner, 0);
	raw_spin_lock_init(&sem->wait_lock);
	INIT_LIST_HEAD(&sem->wait_list);
}
EXPORT_SYMBOL(__init_rwsem);

static bool rwsem_grant(struct rw_semaphore *sem, bool write)
{
	long c = atomic_long_read(&sem->count);

	if (write ? c != 0 : c < 0)
		return false;
	atomic_long_set(&sem->count, write ? -1 : c + 1);
	return true;
}

/* Grants the lock to the first waiter, and if it is a reader to the readers after it.
 * Called with wait_lock held. */
static void rwsem_mark_wake(struct rw_semaphore *sem)
{
	struct rwsem_waiter *w;
	struct task_struct *task;

	while (!list_empty(&sem->wait_list)) {
		w = list_first_entry(&sem->wait_list, struct rwsem_waiter, list);
		if (!rwsem_grant(sem, w->write))
			return;
		list_del(&w->list);
		task = w->task;
		smp_store_release(&w->granted, true);
		wake_up_process(task);
	}
}

static int rwsem_down_slowpath(struct rw_semaphore *sem, bool write, int state)
{
	struct rwsem_waiter w = { .task = current, .write = write };
	int ret = 0;

	raw_spin_lock(&sem->wait_lock);
	if (list_empty(&sem->wait_list) && rwsem_grant(sem, write)) {
		raw_spin_unlock(&sem->wait_lock);
		return 0;
	}
	list_add_tail(&w.list, &sem->wait_list);
	for (;;) {
		set_current_state(state);
		if (w.granted)
			break;
		if (signal_pending_state(state, current)) {
			list_del(&w.list);
			rwsem_mark_wake(sem);
			ret = -EINTR;
			break;
		}
		raw_spin_unlock(&sem->wait_lock);
		schedule();
		raw_spin_lock(&sem->wait_lock);
	}
	__set_current_state(TASK_RUNNING);
	raw_spin_unlock(&sem->wait_lock);
	return ret;
}

static int rwsem_trylock(struct rw_semaphore *sem, bool write)
{
	int ok;

	raw_spin_lock(&sem->wait_lock);
	ok = list_empty(&sem->wait_list) && rwsem_grant(sem, write);
	raw_spin_unlock(&sem->wait_lock);
	return ok;
}

static void rwsem_release(struct rw_semaphore *sem, bool write)
{
	raw_spin_lock(&sem->wait_lock);
	atomic_long_add(write ? 1 : -1, &sem->count);
	if (atomic_long_read(&sem->count) == 0)
		rwsem_mark_wake(sem);
	raw_spin_unlock(&sem->wait_lock);
}

void down_read(struct rw_semaphore *sem)
{
	might_sleep();
	if (!rwsem_trylock(sem, false))
		rwsem_down_slowpath(sem, false, TASK_UNINTERRUPTIBLE);
}
EXPORT_SYMBOL(down_read);

int down_read_killable(struct rw_semaphore *sem)
{
	might_sleep();
	return rwsem_trylock(sem, false) ? 0 : rwsem_down_slowpath(sem, false, TASK_KILLABLE);
}
EXPORT_SYMBOL(down_read_killable);

int down_read_trylock(struct rw_semaphore *sem)
{
	return rwsem_trylock(sem, false);
}
EXPORT_SYMBOL(down_read_trylock);

void down_write(struct rw_semaphore *sem)
{
	might_sleep();
	if (!rwsem_trylock(sem, true))
		rwsem_down_slowpath(sem, true, TASK_UNINTERRUPTIBLE);
	atomic_long_set(&sem->owner, (long)current);
}
EXPORT_SYMBOL(down_write);

int down_write_killable(struct rw_semaphore *sem)
{
	int ret;

	might_sleep();
	ret = rwsem_trylock(sem, true) ? 0 : rwsem_down_slowpath(sem, true, TASK_KILLABLE);
	if (!ret)
		atomic_long_set(&sem->owner, (long)current);
	return ret;
}
EXPORT_SYMBOL(down_write_killable);

int down_write_trylock(struct rw_semaphore *sem)
{
	int ok = rwsem_trylock(sem, true);

	if (ok)
		atomic_long_set(&sem->owner, (long)current);
	return ok;
}
EXPORT_SYMBOL(down_write_trylock);

void up_read(struct rw_semaphore *sem)
{
	rwsem_release(sem, false);
}
EXPORT_SYMBOL(up_read);

void up_write(struct rw_semaphore *sem)
{
	atomic_long_set(&sem->owner, 0);
	rwsem_release(sem, true);
}
EXPORT_SYMBOL(up_write);

int down_read_interruptible(struct rw_semaphore *sem)
{
	might_sleep();
	return rwsem_trylock(sem, false) ? 0 : rwsem_down_slowpath(sem, false, TASK_INTERRUPTIBLE);
}
EXPORT_SYMBOL(down_read_interruptible);

/* The writer goes on as a reader, with the readers that wait before the next writer. */
void downgrade_write(struct rw_semaphore *sem)
{
	atomic_long_set(&sem->owner, 0);
	raw_spin_lock(&sem->wait_lock);
	atomic_long_set(&sem->count, 1);
	rwsem_mark_wake(sem);
	raw_spin_unlock(&sem->wait_lock);
}
EXPORT_SYMBOL(downgrade_write);
