/*
 * tree.c: RCU. A reader increments its task's nesting count and is not switched away.
 * A grace period ends when each CPU has passed a quiescent state: a task switch, a
 * tick outside of readers, or idle. The thread rcu_preempt drives grace periods.
 */
#include <linux/slab.h>
#include <linux/sched.h>
#include <linux/kthread.h>
#include <linux/interrupt.h>
#include <linux/smp.h>
#include <trace/events/rcu.h>

struct rcu_data { bool idle, need_qs; int nesting; };
struct rcu_state {
	raw_spinlock_t lock;
	unsigned long gp_seq;
	unsigned long qsmask;			/* CPUs without a quiescent state so far */
	struct callback_head *next, **next_tail; /* wait for the next grace period */
	struct callback_head *done, **done_tail; /* their grace period has ended */
	wait_queue_head_t gp_wq;
	unsigned long n_queued, n_invoked;
};
static DEFINE_PER_CPU(struct rcu_data, rcu_data);
static struct rcu_state rcu_state;
static struct task_struct *rcu_gp_task;

void __rcu_read_lock(void)
{
	preempt_disable();
	this_cpu_inc(rcu_data.nesting);
	preempt_enable();
}
EXPORT_SYMBOL(__rcu_read_lock);

void __rcu_read_unlock(void)
{
	preempt_disable();
	this_cpu_dec(rcu_data.nesting);
	preempt_enable();
}
EXPORT_SYMBOL(__rcu_read_unlock);

/* Reports whether this CPU is in a reader, which must not be switched away. */
bool rcu_preempt_depth(void)
{
	return this_cpu_read(rcu_data.nesting) > 0;
}

/* The current task is killed at an arbitrary place. */
void exit_rcu(void)
{
	this_cpu_write(rcu_data.nesting, 0);
}

static void rcu_report_qs(unsigned int cpu)
{
	unsigned long flags;
	bool last;

	raw_spin_lock_irqsave(&rcu_state.lock, flags);
	rcu_state.qsmask &= ~(1UL << cpu);
	per_cpu(rcu_data, cpu).need_qs = false;
	last = !rcu_state.qsmask;
	raw_spin_unlock_irqrestore(&rcu_state.lock, flags);
	if (last)
		wake_up_process(rcu_gp_task);
}

static struct task_struct *rcu_tasks_waiter;

/* A quiescent state of Tasks RCU for the current task. */
void rcu_tasks_qs(struct task_struct *t)
{
	struct task_struct *waiter;

	if (likely(!t->rcu_tasks_holdout))
		return;
	WRITE_ONCE(t->rcu_tasks_holdout, 0);
	smp_mb();
	waiter = READ_ONCE(rcu_tasks_waiter);
	if (waiter)
		wake_up_process(waiter);
}

/* Called at a task switch, a quiescent state. */
void rcu_note_context_switch(bool preempt)
{
	trace_rcu_utilization("Start context switch");
	if (!preempt)
		rcu_tasks_qs(current);
	if (this_cpu_read(rcu_data.need_qs))
		rcu_report_qs(smp_processor_id());
	trace_rcu_utilization("End context switch");
}

/* Called in the tick, which is a quiescent state unless it has interrupted a reader.
 * */
void rcu_sched_clock_irq(int user)
{
	trace_rcu_utilization("Start scheduler-tick");
	if (this_cpu_read(rcu_data.need_qs) && !this_cpu_read(rcu_data.nesting) && preempt_count() == HARDIRQ_OFFSET)
		rcu_report_qs(smp_processor_id());
	trace_rcu_utilization("End scheduler-tick");
}

void rcu_idle_enter(void)
{
	this_cpu_write(rcu_data.idle, true);
	smp_mb();
	if (this_cpu_read(rcu_data.need_qs))
		rcu_report_qs(smp_processor_id());
}

void rcu_idle_exit(void)
{
	this_cpu_write(rcu_data.idle, false);
	smp_mb();
}

/* No function lies so low: it is how far behind its object's start a head of kfree_rcu() lies. */
#define KVFREE_OFFSETS 4096

void call_rcu(struct callback_head *head, rcu_callback_t func)
{
	unsigned long flags;

	head->func = func;
	head->next = NULL;
	raw_spin_lock_irqsave(&rcu_state.lock, flags);
	*rcu_state.next_tail = head;
	rcu_state.next_tail = &head->next;
	rcu_state.n_queued++;
	raw_spin_unlock_irqrestore(&rcu_state.lock, flags);
	if (rcu_gp_task)
		wake_up_process(rcu_gp_task);
}
EXPORT_SYMBOL(call_rcu);

/* kfree_rcu() and kvfree_rcu(): with a head, func is its offset; without one it is the object. */
void kvfree_call_rcu(struct callback_head *head, rcu_callback_t func)
{
	if (head) {
		call_rcu(head, func);
		return;
	}
	synchronize_rcu();
	kvfree((void *)func);
}
EXPORT_SYMBOL_GPL(kvfree_call_rcu);

/* Requests a quiescent state from each CPU that is not idle. */
static noinline void rcu_gp_init(void)
{
	unsigned int cpu;

	raw_spin_lock_irq(&rcu_state.lock);
	rcu_state.gp_seq++;
	rcu_state.qsmask = 0;
	for_each_online_cpu(cpu) {
		rcu_state.qsmask |= 1UL << cpu;
		per_cpu(rcu_data, cpu).need_qs = true;
	}
	raw_spin_unlock_irq(&rcu_state.lock);
	smp_mb();
}

/* Idle CPUs have no readers, except in short interrupts. */
static void rcu_gp_fqs(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (READ_ONCE(per_cpu(rcu_data, cpu).need_qs) && READ_ONCE(per_cpu(rcu_data, cpu).idle) &&
		    !READ_ONCE(per_cpu(rcu_data, cpu).nesting))
			rcu_report_qs(cpu);
}

static noinline void rcu_gp_fqs_loop(void)
{
	while (READ_ONCE(rcu_state.qsmask)) {
		rcu_gp_fqs();
		set_current_state(TASK_IDLE);
		if (READ_ONCE(rcu_state.qsmask))
			schedule_timeout(1);
		__set_current_state(TASK_RUNNING);
	}
}

static noinline void rcu_gp_cleanup(struct callback_head *waited, struct callback_head **tail)
{
	raw_spin_lock_irq(&rcu_state.lock);
	rcu_state.gp_seq++;
	if (waited) {
		*rcu_state.done_tail = waited;
		rcu_state.done_tail = tail;
	}
	raw_spin_unlock_irq(&rcu_state.lock);
	raise_softirq(RCU_SOFTIRQ);
}

static int rcu_gp_kthread(void *unused)
{
	struct callback_head *list, **tail;

	for (;;) {
		set_current_state(TASK_IDLE);
		if (!READ_ONCE(rcu_state.next)) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		raw_spin_lock_irq(&rcu_state.lock);
		list = rcu_state.next;
		tail = rcu_state.next_tail;
		rcu_state.next = NULL;
		rcu_state.next_tail = &rcu_state.next;
		raw_spin_unlock_irq(&rcu_state.lock);
		rcu_gp_init();
		rcu_gp_fqs_loop();
		rcu_gp_cleanup(list, tail);
	}
	return 0;
}

void rcu_do_batch(void)
{
	struct callback_head *list, *next;

	raw_spin_lock_irq(&rcu_state.lock);
	list = rcu_state.done;
	rcu_state.done = NULL;
	rcu_state.done_tail = &rcu_state.done;
	raw_spin_unlock_irq(&rcu_state.lock);
	for (; list; list = next) {
		next = list->next;
		if ((unsigned long)list->func < KVFREE_OFFSETS)
			kvfree((char *)list - (unsigned long)list->func);
		else
			list->func(list);
		rcu_state.n_invoked++;
	}
}

noinline void rcu_core(void)
{
	if (READ_ONCE(rcu_state.done))
		rcu_do_batch();
}

static void rcu_core_si(struct softirq_action *h)
{
	rcu_core();
}

struct rcu_synchronize { struct callback_head head; struct completion completion; };

void wakeme_after_rcu(struct callback_head *head)
{
	complete(&container_of(head, struct rcu_synchronize, head)->completion);
}

static noinline void __wait_rcu_gp(void (*crf)(struct callback_head *, rcu_callback_t))
{
	struct rcu_synchronize rs;

	init_completion(&rs.completion);
	crf(&rs.head, wakeme_after_rcu);
	wait_for_completion(&rs.completion);
}

/* Waits for a grace period. */
noinline void synchronize_rcu(void)
{
	might_sleep();
	__wait_rcu_gp(call_rcu);
}
EXPORT_SYMBOL(synchronize_rcu);

void synchronize_rcu_expedited(void)
{
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(synchronize_rcu_expedited);

/* A cookie for poll_state_synchronize_rcu: the grace period after the one under way. */
unsigned long get_state_synchronize_rcu(void)
{
	smp_mb();
	return READ_ONCE(rcu_state.gp_seq) + 3;
}
EXPORT_SYMBOL_GPL(get_state_synchronize_rcu);

bool poll_state_synchronize_rcu(unsigned long cookie)
{
	bool done = (long)(READ_ONCE(rcu_state.gp_seq) - cookie) >= 0;

	smp_mb();
	return done;
}
EXPORT_SYMBOL_GPL(poll_state_synchronize_rcu);

void cond_synchronize_rcu(unsigned long cookie)
{
	if (!poll_state_synchronize_rcu(cookie))
		synchronize_rcu();
}
EXPORT_SYMBOL_GPL(cond_synchronize_rcu);

bool notrace rcu_is_watching(void)
{
	return !this_cpu_read(rcu_data.idle) || in_interrupt();
}
EXPORT_SYMBOL_GPL(rcu_is_watching);

/* Callbacks run in order: when one that is queued now has run, all earlier ones have
 * run. */
void rcu_barrier(void)
{
	__wait_rcu_gp(call_rcu);
}
EXPORT_SYMBOL(rcu_barrier);

unsigned long get_completed_gp_seq(void)
{
	return READ_ONCE(rcu_state.gp_seq) / 2;
}

/*
 * Tasks RCU: waits until each running or runnable task has voluntarily switched. Idle
 * tasks are ignored.
 */
static bool task_is_holdout(struct task_struct *t)
{
	return READ_ONCE(t->rcu_tasks_holdout) && READ_ONCE(t->on_rq) &&
	       t->rcu_tasks_nvcsw == READ_ONCE(t->nvcsw);
}

static bool check_holdouts(void)
{
	struct task_struct *t;
	bool any = false;

	read_lock(&tasklist_lock);
	for_each_process(t) {
		if (!t->rcu_tasks_holdout)
			continue;
		if (task_is_holdout(t))
			any = true;
		else
			t->rcu_tasks_holdout = 0;
	}
	read_unlock(&tasklist_lock);
	return any;
}

static DEFINE_MUTEX(rcu_tasks_mutex);

void synchronize_rcu_tasks(void)
{
	struct task_struct *t;

	mutex_lock(&rcu_tasks_mutex);
	synchronize_rcu();
	WRITE_ONCE(rcu_tasks_waiter, current);
	read_lock(&tasklist_lock);
	for_each_process(t) {
		if (t == current || !READ_ONCE(t->on_rq) || is_idle_task(t))
			continue;
		t->rcu_tasks_nvcsw = READ_ONCE(t->nvcsw);
		WRITE_ONCE(t->rcu_tasks_holdout, 1);
	}
	read_unlock(&tasklist_lock);
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (!check_holdouts())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	WRITE_ONCE(rcu_tasks_waiter, NULL);
	synchronize_rcu();
	mutex_unlock(&rcu_tasks_mutex);
}
EXPORT_SYMBOL(synchronize_rcu_tasks);

void __init rcu_init(void)
{
	raw_spin_lock_init(&rcu_state.lock);
	rcu_state.next_tail = &rcu_state.next;
	rcu_state.done_tail = &rcu_state.done;
	open_softirq(RCU_SOFTIRQ, rcu_core_si);
}

static int __init rcu_spawn_gp_kthread(void)
{
	struct task_struct *t = kthread_run(rcu_gp_kthread, NULL, "rcu_preempt");

	if (IS_ERR(t))
		return PTR_ERR(t);
	rcu_gp_task = t;
	return 0;
}
early_initcall(rcu_spawn_gp_kthread);
