/*
 * workqueue.c: a pool of kworkers for each CPU, and an unbound one. One worker of a
 * pool runs at a time; when it sleeps, another one continues.
 */
#include <linux/sched.h>
#include <linux/workqueue.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <trace/events/workqueue.h>

struct worker_pool {
	raw_spinlock_t lock;
	int cpu;			/* -1 if unbound */
	struct list_head worklist, idle_list;
	int nr_workers, nr_idle, nr_running;
	bool creating;
};
struct worker {
	struct list_head entry;		/* in idle_list */
	struct task_struct *task;
	struct worker_pool *pool;
	struct work_struct *current_work;
	bool idle, sleeping;
	int id;
	char desc[24];			/* 48: the name of the workqueue whose work it executes */
	work_func_t current_func;	/* 72 */
};
static_assert(offsetof(struct worker, desc) == 48 && offsetof(struct worker, current_func) == 72, "kernel/oops.go reads these");
struct workqueue_struct {
	char name[24];
	unsigned int flags;
	atomic_t nr_in_flight;
	wait_queue_head_t flush_wait;
	unsigned long nr_executed;
};
/* work->data: bit 0 pending, the rest the workqueue. */
#define WORK_STRUCT_PENDING 1UL

static DEFINE_PER_CPU(struct worker_pool, cpu_worker_pools);
static struct worker_pool unbound_pool;
struct workqueue_struct *system_wq, *system_unbound_wq, *system_long_wq, *system_highpri_wq, *system_freezable_wq;
EXPORT_SYMBOL(system_wq);
EXPORT_SYMBOL_GPL(system_unbound_wq);
EXPORT_SYMBOL_GPL(system_long_wq);
EXPORT_SYMBOL_GPL(system_highpri_wq);
EXPORT_SYMBOL_GPL(system_freezable_wq);
static DECLARE_WAIT_QUEUE_HEAD(flush_done);

/* Work that was never queued has something else there than a workqueue's address. */
static struct workqueue_struct *get_work_wq(struct work_struct *work)
{
	long data = atomic_long_read(&work->data);

	return data < 0 ? (void *)(data & ~WORK_STRUCT_PENDING) : NULL;
}

static noinline void init_worker_pool(struct worker_pool *pool, int cpu)
{
	raw_spin_lock_init(&pool->lock);
	pool->cpu = cpu;
	INIT_LIST_HEAD(&pool->worklist);
	INIT_LIST_HEAD(&pool->idle_list);
}

static struct worker_pool *get_pool(int cpu, struct workqueue_struct *wq)
{
	if (wq == system_unbound_wq)
		return &unbound_pool;
	if (cpu == WORK_CPU_UNBOUND)
		cpu = smp_processor_id();
	return per_cpu_ptr(&cpu_worker_pools, cpu);
}

static void wake_up_worker(struct worker_pool *pool)
{
	struct worker *w = list_first_entry_or_null(&pool->idle_list, struct worker, entry);

	if (w)
		wake_up_process(w->task);
}

noinline void insert_work(struct worker_pool *pool, struct work_struct *work)
{
	list_add_tail(&work->entry, &pool->worklist);
	if (!pool->nr_running)
		wake_up_worker(pool);
}

static void __queue_work(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	struct worker_pool *pool = get_pool(cpu, wq);
	unsigned long flags;

	atomic_long_set(&work->data, (long)wq | WORK_STRUCT_PENDING);
	atomic_inc(&wq->nr_in_flight);
	raw_spin_lock_irqsave(&pool->lock, flags);
	trace_workqueue_queue_work(cpu, work, wq, wq->name, pool->cpu);
	trace_workqueue_activate_work(work);
	insert_work(pool, work);
	raw_spin_unlock_irqrestore(&pool->lock, flags);
}

/* Returns false if the work was pending already. */
bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	bool ret = false;
	unsigned long flags;

	local_irq_save(flags);
	if (!test_and_set_bit(WORK_STRUCT_PENDING_BIT, (unsigned long *)&work->data)) {
		__queue_work(cpu, wq, work);
		ret = true;
	}
	local_irq_restore(flags);
	return ret;
}
EXPORT_SYMBOL(queue_work_on);

void delayed_work_timer_fn(struct timer_list *t)
{
	struct delayed_work *dwork = from_timer(dwork, t, timer);

	__queue_work(dwork->cpu, dwork->wq, &dwork->work);
}
EXPORT_SYMBOL(delayed_work_timer_fn);

static noinline void __queue_delayed_work(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork, unsigned long delay)
{
	if (!delay) {
		__queue_work(cpu, wq, &dwork->work);
		return;
	}
	dwork->wq = wq;
	dwork->cpu = cpu;
	dwork->timer.expires = jiffies + delay;
	if (cpu != WORK_CPU_UNBOUND)
		add_timer_on(&dwork->timer, cpu);
	else
		add_timer(&dwork->timer);
}

bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork, unsigned long delay)
{
	struct work_struct *work = &dwork->work;
	bool ret = false;
	unsigned long flags;

	local_irq_save(flags);
	if (!test_and_set_bit(WORK_STRUCT_PENDING_BIT, (unsigned long *)&work->data)) {
		__queue_delayed_work(cpu, wq, dwork, delay);
		ret = true;
	}
	local_irq_restore(flags);
	return ret;
}
EXPORT_SYMBOL(queue_delayed_work_on);

static struct worker_pool *all_pools(int i)
{
	return (unsigned int)i == nr_cpu_ids ? &unbound_pool : per_cpu_ptr(&cpu_worker_pools, i);
}

/* Removes a work from its pool's list. */
static bool remove_queued(struct work_struct *work)
{
	struct work_struct *pos;
	unsigned long flags;
	unsigned int i;

	for (i = 0; i <= nr_cpu_ids; i++) {
		struct worker_pool *pool = all_pools(i);

		raw_spin_lock_irqsave(&pool->lock, flags);
		list_for_each_entry(pos, &pool->worklist, entry) {
			if (pos != work)
				continue;
			list_del_init(&work->entry);
			atomic_dec(&get_work_wq(work)->nr_in_flight);
			raw_spin_unlock_irqrestore(&pool->lock, flags);
			return true;
		}
		raw_spin_unlock_irqrestore(&pool->lock, flags);
	}
	return false;
}

static bool work_is_running(struct work_struct *work);

/* Returns true if the work was pending. */
static bool try_to_grab_pending(struct work_struct *work, bool is_dwork)
{
	if (is_dwork && del_timer(&to_delayed_work(work)->timer)) {
		clear_bit(WORK_STRUCT_PENDING_BIT, (unsigned long *)&work->data);
		return true;
	}
	if (work_pending(work) && remove_queued(work)) {
		clear_bit(WORK_STRUCT_PENDING_BIT, (unsigned long *)&work->data);
		return true;
	}
	return false;
}

bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork, unsigned long delay)
{
	bool was_pending = try_to_grab_pending(&dwork->work, true);

	queue_delayed_work_on(cpu, wq, dwork, delay);
	return was_pending;
}
EXPORT_SYMBOL(mod_delayed_work_on);

bool cancel_delayed_work(struct delayed_work *dwork)
{
	return try_to_grab_pending(&dwork->work, true);
}
EXPORT_SYMBOL(cancel_delayed_work);

#define MAX_WORKERS 64
static struct worker *workers[MAX_WORKERS];
static int nr_workers;
static DEFINE_RAW_SPINLOCK(workers_lock);

static bool work_is_running(struct work_struct *work)
{
	int i;

	for (i = 0; i < READ_ONCE(nr_workers); i++)
		if (READ_ONCE(workers[i]->current_work) == work)
			return true;
	return false;
}

/* Waits until the work has run. Returns false if it was idle. */
bool flush_work(struct work_struct *work)
{
	if (!work_pending(work) && !work_is_running(work))
		return false;
	wait_event(flush_done, !work_pending(work) && !work_is_running(work));
	return true;
}
EXPORT_SYMBOL(flush_work);

bool flush_delayed_work(struct delayed_work *dwork)
{
	unsigned long flags;

	local_irq_save(flags);
	if (del_timer_sync(&dwork->timer))
		__queue_work(dwork->cpu, dwork->wq, &dwork->work);
	local_irq_restore(flags);
	return flush_work(&dwork->work);
}
EXPORT_SYMBOL(flush_delayed_work);

static noinline bool __cancel_work_timer(struct work_struct *work, bool is_dwork)
{
	bool ret = try_to_grab_pending(work, is_dwork);

	flush_work(work);
	return ret;
}

bool cancel_work_sync(struct work_struct *work)
{
	return __cancel_work_timer(work, false);
}
EXPORT_SYMBOL(cancel_work_sync);

bool cancel_delayed_work_sync(struct delayed_work *dwork)
{
	return __cancel_work_timer(&dwork->work, true);
}
EXPORT_SYMBOL(cancel_delayed_work_sync);

/* Takes work back that has not begun; it may be running. */
bool cancel_work(struct work_struct *work)
{
	return try_to_grab_pending(work, false);
}
EXPORT_SYMBOL(cancel_work);

/* Says, as of some moment, whether the work is queued (1), running (2), or both. */
unsigned int work_busy(struct work_struct *work)
{
	unsigned int ret = work_pending(work) ? 1 : 0;

	return work_is_running(work) ? ret | 2 : ret;
}
EXPORT_SYMBOL_GPL(work_busy);

void __flush_workqueue(struct workqueue_struct *wq)
{
	wait_event(flush_done, atomic_read(&wq->nr_in_flight) == 0);
}
EXPORT_SYMBOL(__flush_workqueue);

static noinline void process_one_work(struct worker *worker, struct work_struct *work)
{
	struct worker_pool *pool = worker->pool;
	struct workqueue_struct *wq = get_work_wq(work);
	work_func_t func = work->func;

	worker->current_work = work;
	worker->current_func = func;
	memcpy(worker->desc, wq->name, sizeof(worker->desc));
	list_del_init(&work->entry);
	smp_wmb();
	atomic_long_set(&work->data, (long)wq);
	raw_spin_unlock_irq(&pool->lock);
	trace_workqueue_execute_start(work);
	func(work);
	trace_workqueue_execute_end(work, func);
	cond_resched();
	raw_spin_lock_irq(&pool->lock);
	worker->current_work = NULL;
	worker->current_func = NULL;
	wq->nr_executed++;
	atomic_dec(&wq->nr_in_flight);
	wake_up_all(&flush_done);
}

static int create_worker(struct worker_pool *pool);

/* Keeps an idle worker for when the running ones sleep. */
static void manage_workers(struct worker *worker)
{
	struct worker_pool *pool = worker->pool;

	if (pool->nr_idle || pool->creating || pool->nr_workers >= 4)
		return;
	pool->creating = true;
	raw_spin_unlock_irq(&pool->lock);
	create_worker(pool);
	raw_spin_lock_irq(&pool->lock);
	pool->creating = false;
}

static void worker_leave_idle(struct worker *worker)
{
	list_del_init(&worker->entry);
	worker->idle = false;
	worker->pool->nr_idle--;
	worker->pool->nr_running++;
}

static noinline void worker_enter_idle(struct worker *worker)
{
	worker->pool->nr_running--;
	worker->idle = true;
	worker->pool->nr_idle++;
	list_add(&worker->entry, &worker->pool->idle_list);
}

static int worker_thread(void *__worker)
{
	struct worker *worker = __worker;
	struct worker_pool *pool = worker->pool;

	current->worker_private = worker;
	for (;;) {
		raw_spin_lock_irq(&pool->lock);
		if (!list_empty(&pool->worklist)) {
			worker_leave_idle(worker);
			manage_workers(worker);
			current->flags |= PF_WQ_WORKER;
			while (!list_empty(&pool->worklist))
				process_one_work(worker, list_first_entry(&pool->worklist, struct work_struct, entry));
			current->flags &= ~PF_WQ_WORKER;
			worker_enter_idle(worker);
		}
		__set_current_state(TASK_IDLE);
		raw_spin_unlock_irq(&pool->lock);
		schedule();
	}
	return 0;
}

/* Called by schedule(): a worker sleeps in a work's function. */
void wq_worker_sleeping(struct task_struct *task)
{
	struct worker *worker = task->worker_private;
	struct worker_pool *pool = worker->pool;
	unsigned long flags;

	if (worker->sleeping)
		return;
	worker->sleeping = true;
	raw_spin_lock_irqsave(&pool->lock, flags);
	pool->nr_running--;
	if (!pool->nr_running && !list_empty(&pool->worklist))
		wake_up_worker(pool);
	raw_spin_unlock_irqrestore(&pool->lock, flags);
}

void wq_worker_running(struct task_struct *task)
{
	struct worker *worker = task->worker_private;
	unsigned long flags;

	if (!worker->sleeping)
		return;
	raw_spin_lock_irqsave(&worker->pool->lock, flags);
	worker->pool->nr_running++;
	raw_spin_unlock_irqrestore(&worker->pool->lock, flags);
	worker->sleeping = false;
}

static void register_worker(struct worker *worker)
{
	raw_spin_lock_irq(&workers_lock);
	workers[nr_workers] = worker;
	smp_wmb();
	nr_workers++;
	raw_spin_unlock_irq(&workers_lock);
}

static int create_worker(struct worker_pool *pool)
{
	struct worker *worker;

	if (nr_workers >= MAX_WORKERS)
		return -EAGAIN;
	worker = kzalloc(sizeof(*worker), GFP_KERNEL);
	if (!worker)
		return -ENOMEM;
	worker->pool = pool;
	worker->id = pool->nr_workers;
	if (pool->cpu >= 0)
		worker->task = kthread_create_on_node(worker_thread, worker, 0, "kworker/%d:%d", pool->cpu, worker->id);
	else
		worker->task = kthread_create_on_node(worker_thread, worker, 0, "kworker/u%d:%d", nr_cpu_ids * 2, worker->id);
	if (IS_ERR(worker->task)) {
		int err = PTR_ERR(worker->task);

		kfree(worker);
		return err;
	}
	if (pool->cpu >= 0)
		kthread_bind(worker->task, pool->cpu);
	register_worker(worker);
	raw_spin_lock_irq(&pool->lock);
	pool->nr_workers++;
	pool->nr_running++;
	worker_enter_idle(worker);
	raw_spin_unlock_irq(&pool->lock);
	wake_up_process(worker->task);
	return 0;
}

struct workqueue_struct *alloc_workqueue(const char *fmt, unsigned int flags, int max_active, ...)
{
	struct workqueue_struct *wq = kzalloc(sizeof(*wq), GFP_KERNEL);
	va_list args;

	if (!wq)
		return NULL;
	va_start(args, max_active);
	vsnprintf(wq->name, sizeof(wq->name), fmt, args);
	va_end(args);
	wq->flags = flags;
	init_waitqueue_head(&wq->flush_wait);
	return wq;
}
EXPORT_SYMBOL(alloc_workqueue);

void destroy_workqueue(struct workqueue_struct *wq)
{
	flush_workqueue(wq);
	kfree(wq);
}
EXPORT_SYMBOL(destroy_workqueue);

void __init workqueue_init_early(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		init_worker_pool(per_cpu_ptr(&cpu_worker_pools, cpu), cpu);
	init_worker_pool(&unbound_pool, -1);
	system_wq = alloc_workqueue("events", 0, 0);
	system_long_wq = alloc_workqueue("events_long", 0, 0);
	system_unbound_wq = alloc_workqueue("events_unbound", 2, 0);
	system_highpri_wq = alloc_workqueue("events_highpri", 0, 0);
	system_freezable_wq = alloc_workqueue("events_freezable", 0, 0);
}

void __init workqueue_init(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		create_worker(per_cpu_ptr(&cpu_worker_pools, cpu));
	create_worker(&unbound_pool);
}
