/* semaphore.c: counting semaphores. up() passes the semaphore to the first waiter in
 * the list. */
#include <linux/sched.h>
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/semaphore.h>

struct semaphore_waiter {
	struct list_head list;
	struct task_struct *task;
	bool up;
};

/* Called with the lock held, which it releases while it waits. */
static int down_slow(struct semaphore *sem, long state, long timeout)
{
	struct semaphore_waiter waiter = { .task = current };
	int err = 0;

	list_add_tail(&waiter.list, &sem->wait_list);
	while (!waiter.up && !err) {
		if (signal_pending_state(state, current)) {
			err = -EINTR;
		} else if (timeout <= 0) {
			err = -ETIME;
		} else {
			__set_current_state(state);
			raw_spin_unlock_irq(&sem->lock);
			timeout = schedule_timeout(timeout);
			raw_spin_lock_irq(&sem->lock);
		}
	}
	if (waiter.up)
		return 0;
	list_del(&waiter.list);
	return err;
}

static int down_common(struct semaphore *sem, long state, long timeout)
{
	unsigned long flags;
	int err = 0;

	might_sleep();
	raw_spin_lock_irqsave(&sem->lock, flags);
	if (sem->count)
		sem->count--;
	else
		err = down_slow(sem, state, timeout);
	raw_spin_unlock_irqrestore(&sem->lock, flags);
	return err;
}

void down(struct semaphore *sem)
{
	down_common(sem, TASK_UNINTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
}
EXPORT_SYMBOL(down);

int down_interruptible(struct semaphore *sem)
{
	return down_common(sem, TASK_INTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
}
EXPORT_SYMBOL(down_interruptible);

int down_killable(struct semaphore *sem)
{
	return down_common(sem, TASK_KILLABLE, MAX_SCHEDULE_TIMEOUT);
}
EXPORT_SYMBOL(down_killable);

int down_timeout(struct semaphore *sem, long timeout)
{
	return down_common(sem, TASK_UNINTERRUPTIBLE, timeout);
}
EXPORT_SYMBOL(down_timeout);

/* Returns 0 if it was acquired, unlike other trylocks. */
int down_trylock(struct semaphore *sem)
{
	unsigned long flags;
	int busy;

	raw_spin_lock_irqsave(&sem->lock, flags);
	busy = !sem->count;
	if (!busy)
		sem->count--;
	raw_spin_unlock_irqrestore(&sem->lock, flags);
	return busy;
}
EXPORT_SYMBOL(down_trylock);

void up(struct semaphore *sem)
{
	struct semaphore_waiter *first;
	unsigned long flags;

	raw_spin_lock_irqsave(&sem->lock, flags);
	first = list_first_entry_or_null(&sem->wait_list, struct semaphore_waiter, list);
	if (first) {
		list_del(&first->list);
		first->up = true;
		wake_up_process(first->task);
	} else {
		sem->count++;
	}
	raw_spin_unlock_irqrestore(&sem->lock, flags);
}
EXPORT_SYMBOL(up);
