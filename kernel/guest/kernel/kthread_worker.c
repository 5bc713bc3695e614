/* kthread_worker.c: work for one kernel thread, in order. */
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/kernel.h>

void __kthread_init_worker(struct kthread_worker *worker, const char *name, struct lock_class_key *key)
{
	memset(worker, 0, sizeof(*worker));
	raw_spin_lock_init(&worker->lock);
	INIT_LIST_HEAD(&worker->work_list);
	INIT_LIST_HEAD(&worker->delayed_work_list);
}
EXPORT_SYMBOL_GPL(__kthread_init_worker);

/* Takes the first work, or NULL, and says that it runs. */
static struct kthread_work *take(struct kthread_worker *worker)
{
	struct kthread_work *work = NULL;

	raw_spin_lock_irq(&worker->lock);
	if (!list_empty(&worker->work_list)) {
		work = list_first_entry(&worker->work_list, struct kthread_work, node);
		list_del_init(&work->node);
	}
	worker->current_work = work;
	raw_spin_unlock_irq(&worker->lock);
	return work;
}

/* The function of a worker's thread. It ends when it is stopped and there is no work. */
int kthread_worker_fn(void *worker_ptr)
{
	struct kthread_worker *worker = worker_ptr;
	struct kthread_work *work;

	worker->task = current;
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		work = take(worker);
		if (!work && kthread_should_stop())
			break;
		if (!work) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		work->func(work);
		cond_resched();
	}
	__set_current_state(TASK_RUNNING);
	raw_spin_lock_irq(&worker->lock);
	worker->task = NULL;
	raw_spin_unlock_irq(&worker->lock);
	return 0;
}
EXPORT_SYMBOL_GPL(kthread_worker_fn);

static struct kthread_worker *create(int cpu, unsigned int flags, const char *fmt, va_list args)
{
	struct kthread_worker *worker = kzalloc(sizeof(*worker), GFP_KERNEL);
	char name[TASK_COMM_LEN];
	struct task_struct *task;

	if (!worker)
		return ERR_PTR(-ENOMEM);
	__kthread_init_worker(worker, "", NULL);
	vsnprintf(name, sizeof(name), fmt, args);
	task = kthread_create_on_node(kthread_worker_fn, worker, -1, "%s", name);
	if (IS_ERR(task)) {
		kfree(worker);
		return ERR_CAST(task);
	}
	if (cpu >= 0)
		kthread_bind(task, cpu);
	worker->flags = flags;
	worker->task = task;
	wake_up_process(task);
	return worker;
}

struct kthread_worker *kthread_create_worker(unsigned int flags, const char namefmt[], ...)
{
	struct kthread_worker *worker;
	va_list args;

	va_start(args, namefmt);
	worker = create(-1, flags, namefmt, args);
	va_end(args);
	return worker;
}
EXPORT_SYMBOL(kthread_create_worker);

struct kthread_worker *kthread_create_worker_on_cpu(int cpu, unsigned int flags, const char namefmt[], ...)
{
	struct kthread_worker *worker;
	va_list args;

	va_start(args, namefmt);
	worker = create(cpu, flags, namefmt, args);
	va_end(args);
	return worker;
}
EXPORT_SYMBOL(kthread_create_worker_on_cpu);

/* Queues work behind what is queued; the lock is held. */
static void insert(struct kthread_worker *worker, struct kthread_work *work, struct list_head *before)
{
	work->worker = worker;
	list_add_tail(&work->node, before);
	if (!worker->current_work && worker->task)
		wake_up_process(worker->task);
}

/* Reports false if work is queued already, or being cancelled. */
bool kthread_queue_work(struct kthread_worker *worker, struct kthread_work *work)
{
	unsigned long flags;
	bool queued;

	raw_spin_lock_irqsave(&worker->lock, flags);
	queued = list_empty(&work->node) && !work->canceling;
	if (queued)
		insert(worker, work, &worker->work_list);
	raw_spin_unlock_irqrestore(&worker->lock, flags);
	return queued;
}
EXPORT_SYMBOL_GPL(kthread_queue_work);

void kthread_delayed_work_timer_fn(struct timer_list *t)
{
	struct kthread_delayed_work *dwork = from_timer(dwork, t, timer);
	struct kthread_worker *worker = dwork->work.worker;
	unsigned long flags;

	if (WARN_ON_ONCE(!worker))
		return;
	raw_spin_lock_irqsave(&worker->lock, flags);
	if (!list_empty(&dwork->work.node)) {
		list_del_init(&dwork->work.node);
		if (!dwork->work.canceling)
			insert(worker, &dwork->work, &worker->work_list);
	}
	raw_spin_unlock_irqrestore(&worker->lock, flags);
}
EXPORT_SYMBOL(kthread_delayed_work_timer_fn);

/* Queues work now or after a delay; the lock is held. */
static void queue_later(struct kthread_worker *worker, struct kthread_delayed_work *dwork, unsigned long delay)
{
	if (!delay) {
		insert(worker, &dwork->work, &worker->work_list);
		return;
	}
	dwork->work.worker = worker;
	list_add(&dwork->work.node, &worker->delayed_work_list);
	mod_timer(&dwork->timer, jiffies + delay);
}

bool kthread_queue_delayed_work(struct kthread_worker *worker, struct kthread_delayed_work *dwork, unsigned long delay)
{
	unsigned long flags;
	bool queued;

	raw_spin_lock_irqsave(&worker->lock, flags);
	queued = list_empty(&dwork->work.node) && !dwork->work.canceling;
	if (queued)
		queue_later(worker, dwork, delay);
	raw_spin_unlock_irqrestore(&worker->lock, flags);
	return queued;
}
EXPORT_SYMBOL_GPL(kthread_queue_delayed_work);

/* Takes work out of the worker's lists, and its timer away; the lock is held. */
static bool unqueue(struct kthread_worker *worker, struct kthread_work *work, struct timer_list *timer,
		    unsigned long *flags)
{
	if (timer) {
		work->canceling++;
		raw_spin_unlock_irqrestore(&worker->lock, *flags);
		timer_delete_sync(timer);
		raw_spin_lock_irqsave(&worker->lock, *flags);
		work->canceling--;
	}
	if (list_empty(&work->node))
		return false;
	list_del_init(&work->node);
	return true;
}

/* Sets the delay anew, whether the work waits or not: what it did. */
bool kthread_mod_delayed_work(struct kthread_worker *worker, struct kthread_delayed_work *dwork, unsigned long delay)
{
	struct kthread_work *work = &dwork->work;
	unsigned long flags;
	bool waited = false;

	raw_spin_lock_irqsave(&worker->lock, flags);
	if (work->worker)
		waited = unqueue(worker, work, &dwork->timer, &flags);
	if (!work->canceling)
		queue_later(worker, dwork, delay);
	raw_spin_unlock_irqrestore(&worker->lock, flags);
	return waited;
}
EXPORT_SYMBOL_GPL(kthread_mod_delayed_work);

struct flush {
	struct kthread_work work;
	struct completion done;
};

static void flushed(struct kthread_work *work)
{
	complete(&container_of(work, struct flush, work)->done);
}

/* Waits until work that is queued or runs has run. */
void kthread_flush_work(struct kthread_work *work)
{
	struct kthread_worker *worker = work->worker;
	struct flush f = { .work = KTHREAD_WORK_INIT(f.work, flushed) };
	bool wait = true;

	if (!worker)
		return;
	init_completion(&f.done);
	raw_spin_lock_irq(&worker->lock);
	if (!list_empty(&work->node))
		insert(worker, &f.work, work->node.next);
	else if (worker->current_work == work)
		insert(worker, &f.work, worker->work_list.next);
	else
		wait = false;
	raw_spin_unlock_irq(&worker->lock);
	if (wait)
		wait_for_completion(&f.done);
}
EXPORT_SYMBOL_GPL(kthread_flush_work);

static bool cancel(struct kthread_work *work, struct timer_list *timer)
{
	struct kthread_worker *worker = work->worker;
	unsigned long flags;
	bool waited;

	if (!worker)
		return false;
	raw_spin_lock_irqsave(&worker->lock, flags);
	waited = unqueue(worker, work, timer, &flags);
	if (worker->current_work == work) {
		work->canceling++; /* it is not queued again meanwhile */
		raw_spin_unlock_irqrestore(&worker->lock, flags);
		kthread_flush_work(work);
		raw_spin_lock_irqsave(&worker->lock, flags);
		work->canceling--;
	}
	raw_spin_unlock_irqrestore(&worker->lock, flags);
	return waited;
}

/* Reports whether work was queued. It does not run any more. */
bool kthread_cancel_work_sync(struct kthread_work *work)
{
	return cancel(work, NULL);
}
EXPORT_SYMBOL_GPL(kthread_cancel_work_sync);

bool kthread_cancel_delayed_work_sync(struct kthread_delayed_work *dwork)
{
	return cancel(&dwork->work, &dwork->timer);
}
EXPORT_SYMBOL_GPL(kthread_cancel_delayed_work_sync);

/* Waits until all work that is queued now has run. */
void kthread_flush_worker(struct kthread_worker *worker)
{
	struct flush f = { .work = KTHREAD_WORK_INIT(f.work, flushed) };

	init_completion(&f.done);
	kthread_queue_work(worker, &f.work);
	wait_for_completion(&f.done);
}
EXPORT_SYMBOL_GPL(kthread_flush_worker);

void kthread_destroy_worker(struct kthread_worker *worker)
{
	struct task_struct *task = worker->task;

	if (WARN_ON(!task))
		return;
	kthread_flush_worker(worker);
	kthread_stop(task);
	WARN_ON(!list_empty(&worker->delayed_work_list));
	WARN_ON(!list_empty(&worker->work_list));
	kfree(worker);
}
EXPORT_SYMBOL(kthread_destroy_worker);
