/* core.c: schedule(), and adding tasks to run queues and removing them. */
#include "sched.h"
#include <linux/smp.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/string.h>
#include <linux/kthread.h>
#include <linux/random.h>
#include <linux/mm.h>
#include <linux/interrupt.h>
#include <linux/uaccess.h>
#include <linux/syscalls.h>
#include <linux/host.h>
#include <trace/events/sched.h>

DEFINE_PER_CPU_ALIGNED(struct rq, runqueues);
DEFINE_PER_CPU(int, __preempt_count) = (int)(PREEMPT_NEED_RESCHED | 1);
EXPORT_SYMBOL(__preempt_count);
static DEFINE_PER_CPU(struct task_struct *, idle_threads);
DEFINE_STATIC_KEY_TRUE(sched_feat_ttwu_queue);
DEFINE_STATIC_KEY_FALSE(sched_schedstats);

void rcu_tasks_qs(struct task_struct *t);
struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next);

noinline void update_rq_clock(struct rq *rq)
{
	rq->clock = sched_clock();
	rq->clock_task = rq->clock;
}

noinline void enqueue_task(struct rq *rq, struct task_struct *p, int flags)
{
	update_rq_clock(rq);
	enqueue_task_fair(rq, p, flags);
}

notrace void dequeue_task(struct rq *rq, struct task_struct *p, int flags)
{
	update_rq_clock(rq);
	dequeue_task_fair(rq, p, flags);
}

void activate_task(struct rq *rq, struct task_struct *p, int flags)
{
	enqueue_task(rq, p, flags);
	p->on_rq = TASK_ON_RQ_QUEUED;
}

void deactivate_task(struct rq *rq, struct task_struct *p, int flags)
{
	p->on_rq = 0;
	dequeue_task(rq, p, flags);
}

static inline void __set_task_cpu(struct task_struct *p, unsigned int cpu)
{
	p->se.cfs_rq = &cpu_rq(cpu)->cfs;
	WRITE_ONCE(p->thread_info.cpu, cpu);
	p->wake_cpu = cpu;
}

void set_task_cpu(struct task_struct *p, unsigned int new_cpu)
{
	trace_sched_migrate_task(p, new_cpu);
	if (task_cpu(p) != new_cpu)
		p->se.nr_migrations++;
	__set_task_cpu(p, new_cpu);
}

/* Makes the CPU of rq call schedule() soon. Called with the queue's lock held. */
void resched_curr(struct rq *rq)
{
	struct task_struct *curr = rq->curr;
	int cpu = rq->cpu;

	if (test_tsk_thread_flag(curr, TIF_NEED_RESCHED))
		return;
	set_tsk_thread_flag(curr, TIF_NEED_RESCHED);
	if (cpu == smp_processor_id())
		set_preempt_need_resched();
	else
		smp_send_reschedule(cpu);
}

noinline void check_preempt_curr(struct rq *rq, struct task_struct *p, int flags)
{
	if (rq->curr == rq->idle)
		resched_curr(rq);
	else
		check_preempt_wakeup(rq, p, flags);
}

void ttwu_do_wakeup(struct rq *rq, struct task_struct *p, int wake_flags, struct rq_flags *rf)
{
	check_preempt_curr(rq, p, wake_flags);
	WRITE_ONCE(p->__state, TASK_RUNNING);
	trace_sched_wakeup(p);
}

noinline void ttwu_do_activate(struct rq *rq, struct task_struct *p, int wake_flags, struct rq_flags *rf)
{
	activate_task(rq, p, ENQUEUE_WAKEUP);
	ttwu_do_wakeup(rq, p, wake_flags, rf);
}

/* Locks p's queue, which changes if an idle CPU takes p meanwhile. */
noinline struct rq *__task_rq_lock(struct task_struct *p, struct rq_flags *rf)
{
	for (;;) {
		struct rq *rq = task_rq(p);

		rq_lock(rq);
		if (likely(rq == task_rq(p)))
			return rq;
		rq_unlock(rq);
	}
}

/* p is still on its queue: only its state must be set. */
static int ttwu_runnable(struct task_struct *p, int wake_flags)
{
	struct rq_flags rf;
	struct rq *rq = __task_rq_lock(p, &rf);
	int ret = 0;

	if (p->on_rq) {
		update_rq_clock(rq);
		ttwu_do_wakeup(rq, p, wake_flags, &rf);
		ret = 1;
	}
	rq_unlock(rq);
	return ret;
}

static void ttwu_queue(struct task_struct *p, int cpu, int wake_flags)
{
	struct rq *rq = cpu_rq(cpu);
	struct rq_flags rf;

	rq_lock(rq);
	rq->ttwu_count++;
	ttwu_do_activate(rq, p, wake_flags, &rf);
	if (cpu != smp_processor_id())
		host_task_waits(cpu, rq->curr);
	rq_unlock(rq);
}

static int select_task_rq(struct task_struct *p, int cpu, int wake_flags)
{
	if (p->nr_cpus_allowed > 1)
		cpu = select_task_rq_fair(p, cpu, wake_flags);
	else
		cpu = cpumask_first(&p->cpus_mask);
	if (unlikely(!cpumask_test_cpu(cpu, &p->cpus_mask) || !cpu_online(cpu)))
		cpu = cpumask_first(&p->cpus_mask);
	return cpu;
}

/* Wakes up p if it sleeps in one of the given states. Returns 1 if it did. */
int try_to_wake_up(struct task_struct *p, unsigned int state, int wake_flags)
{
	unsigned long flags;
	int cpu, success = 0;

	preempt_disable();
	if (p == current) {
		if (READ_ONCE(p->__state) & state) {
			success = 1;
			trace_sched_waking(p);
			WRITE_ONCE(p->__state, TASK_RUNNING);
			trace_sched_wakeup(p);
		}
		goto out;
	}
	raw_spin_lock_irqsave(&p->pi_lock, flags);
	smp_mb();
	if (!(READ_ONCE(p->__state) & state))
		goto unlock;
	success = 1;
	trace_sched_waking(p);
	smp_rmb();
	if (READ_ONCE(p->on_rq) && ttwu_runnable(p, wake_flags))
		goto unlock;
	/* p may still run on its stack. */
	while (smp_load_acquire(&p->on_cpu))
		cpu_relax();
	cpu = select_task_rq(p, p->wake_cpu, wake_flags);
	if (task_cpu(p) != cpu)
		set_task_cpu(p, cpu);
	ttwu_queue(p, cpu, wake_flags);
unlock:
	raw_spin_unlock_irqrestore(&p->pi_lock, flags);
out:
	preempt_enable();
	return success;
}

int wake_up_process(struct task_struct *p)
{
	return try_to_wake_up(p, TASK_NORMAL, 0);
}
EXPORT_SYMBOL(wake_up_process);

int wake_up_state(struct task_struct *p, unsigned int state)
{
	return try_to_wake_up(p, state, 0);
}

/*
 * Waits until p has left its CPU, as a thread that is about to sleep does. Returns 0 if it
 * is in another state than match_state, which 0 stands for any of.
 */
unsigned long wait_task_inactive(struct task_struct *p, unsigned int match_state)
{
	for (;;) {
		unsigned long flags, ncsw = 0;
		unsigned int queued;
		struct rq_flags rf;
		struct rq *rq;

		while (smp_load_acquire(&p->on_cpu)) {
			if (match_state && READ_ONCE(p->__state) != match_state)
				return 0;
			cpu_relax();
		}
		raw_spin_lock_irqsave(&p->pi_lock, flags);
		rq = __task_rq_lock(p, &rf);
		trace_sched_wait_task(p);
		queued = p->on_cpu || p->on_rq;
		if (!match_state || READ_ONCE(p->__state) == match_state)
			ncsw = p->nvcsw | LONG_MIN;
		rq_unlock(rq);
		raw_spin_unlock_irqrestore(&p->pi_lock, flags);
		if (!ncsw || !queued)
			return ncsw;
		schedule_timeout_uninterruptible(1); /* it was preempted on its way */
	}
}

void kick_process(struct task_struct *p)
{
	int cpu = task_cpu(p);

	if (cpu != smp_processor_id() && cpu_rq(cpu)->curr == p)
		smp_send_reschedule(cpu);
}

noinline void __sched_fork(unsigned long clone_flags, struct task_struct *p)
{
	p->on_rq = 0;
	memset(&p->se, 0, sizeof(p->se));
	p->se.load.weight = NICE_0_LOAD;
	INIT_LIST_HEAD(&p->se.group_node);
	p->nvcsw = p->nivcsw = 0;
	p->yields = p->overran = 0;
}

int sched_fork(unsigned long clone_flags, struct task_struct *p)
{
	__sched_fork(clone_flags, p);
	p->__state = TASK_NEW;
	p->prio = current->normal_prio;
	p->on_cpu = 0;
	return 0;
}

void sched_cgroup_fork(struct task_struct *p, struct kernel_clone_args *kargs)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&p->pi_lock, flags);
	__set_task_cpu(p, smp_processor_id());
	task_fork_fair(p);
	raw_spin_unlock_irqrestore(&p->pi_lock, flags);
}

void sched_post_fork(struct task_struct *p)
{
}

void wake_up_new_task(struct task_struct *p)
{
	unsigned long flags;
	struct rq *rq;

	raw_spin_lock_irqsave(&p->pi_lock, flags);
	WRITE_ONCE(p->__state, TASK_RUNNING);
	__set_task_cpu(p, select_task_rq(p, task_cpu(p), 0));
	rq = task_rq(p);
	rq_lock(rq);
	activate_task(rq, p, ENQUEUE_INITIAL);
	trace_sched_wakeup_new(p);
	check_preempt_curr(rq, p, 0);
	rq_unlock(rq);
	raw_spin_unlock_irqrestore(&p->pi_lock, flags);
}

/* Runs on the new task's stack. */
static noinline __noclone struct rq *finish_task_switch(struct task_struct *prev) __asm__("finish_task_switch.isra.0");
static noinline __noclone struct rq *finish_task_switch(struct task_struct *prev)
{
	struct rq *rq = this_rq();
	unsigned int prev_state = READ_ONCE(prev->__state);

	smp_store_release(&prev->on_cpu, 0);
	rq_unlock(rq);
	local_irq_enable();
	/* A Tasks RCU grace period may have begun after rcu_note_context_switch. */
	smp_mb();
	if (unlikely(READ_ONCE(prev->rcu_tasks_holdout)) && !READ_ONCE(prev->on_rq))
		rcu_tasks_qs(prev);
	if (unlikely(prev_state == TASK_DEAD)) {
		hypercall1(HC_TASK_DEAD, prev);
		put_task_struct(prev);
	}
	return rq;
}

/* The first thing that a new task does. */
asmlinkage void schedule_tail(struct task_struct *prev)
{
	finish_task_switch(prev);
	preempt_enable();
	if (current->set_child_tid)
		*current->set_child_tid = current->pid;
}

static __always_inline struct rq *context_switch(struct rq *rq, struct task_struct *prev, struct task_struct *next)
{
	next->on_cpu = 1;
	barrier();
	prev = __switch_to_asm(prev, next);
	barrier();
	return finish_task_switch(prev);
}

static noinline void __schedule_bug(struct task_struct *prev)
{
	pr_err("BUG: scheduling while atomic: %s/%d/0x%08x\n", prev->comm, prev->pid, preempt_count());
	hypercall2(HC_BUG, NULL, BUG_ATOMIC);
	dump_stack();
	hypercall2(HC_BUG, NULL, BUG_ATOMIC_TAINT);
}

static inline void schedule_debug(struct task_struct *prev)
{
	if (unlikely(preempt_count() != PREEMPT_OFFSET)) {
		__schedule_bug(prev);
		this_cpu_write(__preempt_count, PREEMPT_OFFSET | PREEMPT_NEED_RESCHED);
	}
}

static struct task_struct *pick_next_task(struct rq *rq, struct task_struct *prev, struct rq_flags *rf)
{
	struct task_struct *next = pick_next_task_fair(rq, prev, rf);

	if (next)
		return next;
	if (prev != rq->idle)
		put_prev_task_fair(rq, prev);
	return pick_next_task_idle(rq);
}

static notrace void __schedule(bool preempt)
{
	struct task_struct *prev, *next;
	struct rq_flags rf;
	unsigned long prev_state;
	bool voluntary = false;
	struct rq *rq;

	rq = this_rq();
	prev = rq->curr;
	schedule_debug(prev);
	local_irq_disable();
	rcu_note_context_switch(preempt);
	rq_lock(rq);
	update_rq_clock(rq);
	prev_state = READ_ONCE(prev->__state);
	if (!preempt) {
		prev->yields++;
		prev->overran = 0;
	}
	if (!preempt && prev_state) {
		if (signal_pending_state(prev_state, prev))
			WRITE_ONCE(prev->__state, TASK_RUNNING);
		else
			deactivate_task(rq, prev, DEQUEUE_SLEEP);
		voluntary = true;
	}
	next = pick_next_task(rq, prev, &rf);
	clear_tsk_thread_flag(prev, TIF_NEED_RESCHED);
	clear_preempt_need_resched();
	if (likely(prev != next)) {
		rq->nr_switches++;
		rq->curr = next;
		if (voluntary)
			prev->nvcsw++;
		else
			prev->nivcsw++;
		trace_sched_switch(preempt, prev, next, prev_state);
		context_switch(rq, prev, next);
	} else {
		rq_unlock(rq);
		local_irq_enable();
	}
}

void wq_worker_sleeping(struct task_struct *task);
void wq_worker_running(struct task_struct *task);

void schedule(void)
{
	struct task_struct *tsk = current;

	if (tsk->__state && (tsk->flags & PF_WQ_WORKER))
		wq_worker_sleeping(tsk);
	do {
		preempt_disable();
		__schedule(false);
		preempt_enable_no_resched();
	} while (need_resched());
	if (tsk->flags & PF_WQ_WORKER)
		wq_worker_running(tsk);
}
EXPORT_SYMBOL(schedule);

/* Called by the idle task, which runs with preemption off. */
void schedule_idle(void)
{
	do {
		__schedule(false);
	} while (need_resched());
}

void schedule_preempt_disabled(void)
{
	preempt_enable_no_resched();
	schedule();
	preempt_disable();
}

static noinline notrace void preempt_schedule_common(void)
{
	do {
		preempt_disable();
		__schedule(true);
		preempt_enable_no_resched();
	} while (need_resched());
}

/* Called at the end of an interrupt of preemptible code. */
void preempt_schedule_irq(void)
{
	do {
		preempt_disable();
		local_irq_enable();
		__schedule(true);
		local_irq_disable();
		preempt_enable_no_resched();
	} while (need_resched());
}

int __cond_resched(void)
{
	current->yields++;
	if (should_resched(0)) {
		preempt_schedule_common();
		return 1;
	}
	return 0;
}
EXPORT_SYMBOL(__cond_resched);
DEFINE_STATIC_CALL(cond_resched, __cond_resched);
DEFINE_STATIC_CALL(might_resched, __cond_resched);
EXPORT_SYMBOL(__SCT__cond_resched);
EXPORT_SYMBOL(__SCT__might_resched);
/*
 * What the end of a section without preemption calls in a module where somebody is to
 * be switched to. Voluntary preemption waits for the next cond_resched().
 */
DEFINE_STATIC_CALL_NOP(preempt_schedule);
EXPORT_SYMBOL(__SCT__preempt_schedule);
DEFINE_STATIC_CALL_NOP(preempt_schedule_notrace);
EXPORT_SYMBOL(__SCT__preempt_schedule_notrace);

void do_task_dead(void)
{
	set_current_state(TASK_DEAD);
	current->flags |= 0x00008000; /* PF_NOFREEZE */
	preempt_disable();
	__schedule(false);
	BUG();
}

static __noipa void do_sched_yield(void)
{
	preempt_disable();
	local_irq_disable();
	rq_lock(this_rq());
	yield_task_fair(this_rq());
	rq_unlock(this_rq());
	local_irq_enable();
	preempt_enable();
	schedule();
}

void yield(void)
{
	set_current_state(TASK_RUNNING);
	do_sched_yield();
}
EXPORT_SYMBOL(yield);

SYSCALL_DEFINE0(sched_yield)
{
	do_sched_yield();
	return 0;
}

void io_schedule(void)
{
	schedule();
}
EXPORT_SYMBOL(io_schedule);

int default_wake_function(wait_queue_entry_t *curr, unsigned int mode, int wake_flags, void *key)
{
	return try_to_wake_up(curr->private, mode, wake_flags);
}
EXPORT_SYMBOL(default_wake_function);

/* Called in each tick. */
void scheduler_tick(void)
{
	struct rq *rq = this_rq();

	rq_lock(rq);
	update_rq_clock(rq);
	if (rq->curr != rq->idle)
		task_tick_fair(rq, rq->curr, 0);
	calc_global_load_tick(rq);
	trigger_load_balance(rq);
	rq_unlock(rq);
}

int idle_cpu(int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	return rq->curr == rq->idle && !rq->nr_running;
}

bool available_idle_cpu(int cpu)
{
	return idle_cpu(cpu);
}

struct task_struct *idle_task(int cpu)
{
	return per_cpu(idle_threads, cpu);
}

/* The task of the CPU that runs when nothing else does. */
void __init init_idle(struct task_struct *idle, int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	__sched_fork(0, idle);
	idle->__state = TASK_RUNNING;
	idle->se.exec_start = sched_clock();
	idle->flags |= PF_IDLE | PF_KTHREAD | PF_NO_SETAFFINITY;
	__set_task_cpu(idle, cpu);
	idle->cpus_mask.bits[0] = 1UL << cpu;
	idle->nr_cpus_allowed = 1;
	rq->curr = rq->idle = idle;
	idle->on_rq = TASK_ON_RQ_QUEUED;
	idle->on_cpu = 1;
	per_cpu(idle_threads, cpu) = idle;
	snprintf(idle->comm, sizeof(idle->comm), "swapper/%d", cpu);
}

void __init sched_init(void)
{
	unsigned int i;

	for_each_possible_cpu(i) {
		struct rq *rq = cpu_rq(i);

		raw_spin_lock_init(&rq->__lock);
		rq->cpu = i;
		rq->online = 1;
		init_cfs_rq(&rq->cfs);
	}
	init_idle(current, smp_processor_id());
}

/* Moves p to a CPU of new_mask. A running task is moved when it next sleeps or
 * yields. */
int set_cpus_allowed_ptr(struct task_struct *p, const struct cpumask *new_mask)
{
	unsigned long flags, mask = new_mask->bits[0] & cpu_online_mask->bits[0];
	struct rq_flags rf;
	struct rq *rq;

	if (!mask)
		return -EINVAL;
	raw_spin_lock_irqsave(&p->pi_lock, flags);
	p->cpus_mask.bits[0] = new_mask->bits[0];
	p->nr_cpus_allowed = cpumask_weight(new_mask);
	rq = __task_rq_lock(p, &rf);
	if (p->on_rq && rq->curr != p && !cpumask_test_cpu(task_cpu(p), new_mask)) {
		struct rq *dest = cpu_rq(__ffs(mask));

		dequeue_task(rq, p, 0);
		p->on_rq = TASK_ON_RQ_MIGRATING;
		set_task_cpu(p, dest->cpu);
		rq_unlock(rq);
		rq = dest;
		rq_lock(rq);
		activate_task(rq, p, 0);
		check_preempt_curr(rq, p, 0);
	}
	rq_unlock(rq);
	raw_spin_unlock_irqrestore(&p->pi_lock, flags);
	if (p == current && !cpumask_test_cpu(smp_processor_id(), new_mask))
		schedule_timeout_uninterruptible(1); /* will be woken up on an allowed CPU */
	return 0;
}
EXPORT_SYMBOL(set_cpus_allowed_ptr);

long sched_setaffinity(pid_t pid, const struct cpumask *in_mask)
{
	struct task_struct *p = pid ? find_task_by_vpid(pid) : current;

	if (host_mirrors())
		return host_made();
	if (!p)
		return -ESRCH;
	if (p->flags & PF_NO_SETAFFINITY)
		return -EINVAL;
	return set_cpus_allowed_ptr(p, in_mask);
}

/* CPUs that the host has and this machine has not do not matter: the host's kernel decides. */
SYSCALL_DEFINE3(sched_setaffinity, pid_t, pid, unsigned int, len, unsigned long __user *, user_mask_ptr)
{
	struct cpumask mask = {};

	if (!host_mirrors())
		return -ENOSYS;
	if (copy_from_user(&mask, user_mask_ptr, min_t(size_t, len, sizeof(mask))))
		return -EFAULT;
	return sched_setaffinity(pid, &mask);
}

noinline __noclone long sched_getaffinity(pid_t pid, struct cpumask *mask)
{
	return min(host_made(), 0L); /* the call returns the size of the mask */
}

SYSCALL_DEFINE3(sched_getaffinity, pid_t, pid, unsigned int, len, unsigned long __user *, user_mask_ptr)
{
	struct cpumask mask;

	return host_mirrors() ? sched_getaffinity(pid, &mask) : -ENOSYS;
}

/* Reports whether no task waits for this CPU. */
bool single_task_running(void)
{
	return this_rq()->nr_running == 1;
}

/* Returns the number of tasks on all queues. */
unsigned int nr_running(void)
{
	unsigned int cpu, n = 0;

	for_each_online_cpu(cpu)
		n += cpu_rq(cpu)->nr_running;
	return n;
}

u64 nr_context_switches(void)
{
	unsigned int cpu;
	u64 n = 0;

	for_each_possible_cpu(cpu)
		n += cpu_rq(cpu)->nr_switches;
	return n;
}

/* The policy of a kernel thread. The scheduler here has one class: they change what is
 * shown of the task, and what probes see of it. */
void sched_set_fifo(struct task_struct *p)
{
	p->policy = SCHED_FIFO;
	p->rt_priority = MAX_RT_PRIO / 2;
	p->prio = p->normal_prio = MAX_RT_PRIO - 1 - p->rt_priority;
}
EXPORT_SYMBOL_GPL(sched_set_fifo);

void sched_set_fifo_low(struct task_struct *p)
{
	p->policy = SCHED_FIFO;
	p->rt_priority = 1;
	p->prio = p->normal_prio = MAX_RT_PRIO - 1 - p->rt_priority;
}
EXPORT_SYMBOL_GPL(sched_set_fifo_low);

void sched_set_normal(struct task_struct *p, int nice)
{
	p->policy = SCHED_NORMAL;
	p->rt_priority = 0;
	p->prio = p->normal_prio = p->static_prio = DEFAULT_PRIO + nice;
}
EXPORT_SYMBOL_GPL(sched_set_normal);
