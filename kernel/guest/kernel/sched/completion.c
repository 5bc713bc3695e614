/* completion.c: completions. */
#include <linux/sched.h>

void complete(struct completion *x)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&x->wait.lock, flags);
	if (x->done != UINT_MAX)
		x->done++;
	swake_up_locked(&x->wait);
	raw_spin_unlock_irqrestore(&x->wait.lock, flags);
}
EXPORT_SYMBOL(complete);

void complete_all(struct completion *x)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&x->wait.lock, flags);
	x->done = UINT_MAX;
	while (!list_empty(&x->wait.task_list))
		swake_up_locked(&x->wait);
	raw_spin_unlock_irqrestore(&x->wait.lock, flags);
}
EXPORT_SYMBOL(complete_all);

/* Returns the remaining time, 0 on a timeout, or -ERESTARTSYS on a signal. */
static long do_wait_for_common(struct completion *x, long timeout, int state)
{
	if (!x->done) {
		struct swait_queue wait = { .task = current, .task_list = LIST_HEAD_INIT(wait.task_list) };

		do {
			if (signal_pending_state(state, current)) {
				timeout = -ERESTARTSYS;
				break;
			}
			if (list_empty(&wait.task_list))
				list_add_tail(&wait.task_list, &x->wait.task_list);
			set_current_state(state);
			raw_spin_unlock_irq(&x->wait.lock);
			timeout = schedule_timeout(timeout);
			raw_spin_lock_irq(&x->wait.lock);
		} while (!x->done && timeout);
		__set_current_state(TASK_RUNNING);
		list_del_init(&wait.task_list);
		if (!x->done)
			return timeout;
	}
	if (x->done != UINT_MAX)
		x->done--;
	return timeout ?: 1;
}

static long wait_for_common(struct completion *x, long timeout, int state)
{
	might_sleep();
	raw_spin_lock_irq(&x->wait.lock);
	timeout = do_wait_for_common(x, timeout, state);
	raw_spin_unlock_irq(&x->wait.lock);
	return timeout;
}

void wait_for_completion(struct completion *x)
{
	wait_for_common(x, MAX_SCHEDULE_TIMEOUT, TASK_UNINTERRUPTIBLE);
}
EXPORT_SYMBOL(wait_for_completion);

unsigned long wait_for_completion_timeout(struct completion *x, unsigned long timeout)
{
	return wait_for_common(x, timeout, TASK_UNINTERRUPTIBLE);
}
EXPORT_SYMBOL(wait_for_completion_timeout);

int wait_for_completion_interruptible(struct completion *x)
{
	long t = wait_for_common(x, MAX_SCHEDULE_TIMEOUT, TASK_INTERRUPTIBLE);

	return t == -ERESTARTSYS ? t : 0;
}
EXPORT_SYMBOL(wait_for_completion_interruptible);

int wait_for_completion_killable(struct completion *x)
{
	long t = wait_for_common(x, MAX_SCHEDULE_TIMEOUT, TASK_KILLABLE);

	return t == -ERESTARTSYS ? t : 0;
}
EXPORT_SYMBOL(wait_for_completion_killable);

bool try_wait_for_completion(struct completion *x)
{
	unsigned long flags;
	bool ret = false;

	raw_spin_lock_irqsave(&x->wait.lock, flags);
	if (x->done) {
		ret = true;
		if (x->done != UINT_MAX)
			x->done--;
	}
	raw_spin_unlock_irqrestore(&x->wait.lock, flags);
	return ret;
}
EXPORT_SYMBOL(try_wait_for_completion);

bool completion_done(struct completion *x)
{
	return READ_ONCE(x->done) != 0;
}
EXPORT_SYMBOL(completion_done);

long wait_for_completion_interruptible_timeout(struct completion *x, unsigned long timeout)
{
	return wait_for_common(x, timeout, TASK_INTERRUPTIBLE);
}
EXPORT_SYMBOL(wait_for_completion_interruptible_timeout);

long wait_for_completion_killable_timeout(struct completion *x, unsigned long timeout)
{
	return wait_for_common(x, timeout, TASK_KILLABLE);
}
EXPORT_SYMBOL(wait_for_completion_killable_timeout);

/* The same as wait_for_completion, but for the accounting of waits for I/O. */
void wait_for_completion_io(struct completion *x)
{
	wait_for_common(x, MAX_SCHEDULE_TIMEOUT, TASK_UNINTERRUPTIBLE);
}
EXPORT_SYMBOL(wait_for_completion_io);

unsigned long wait_for_completion_io_timeout(struct completion *x, unsigned long timeout)
{
	return wait_for_common(x, timeout, TASK_UNINTERRUPTIBLE);
}
EXPORT_SYMBOL(wait_for_completion_io_timeout);
