/* fair.c: fair scheduling. Run queues are lists sorted by virtual run time; the first
 * task runs next. */
#include "sched.h"
#include <linux/smp.h>
#include <trace/events/sched.h>

#define SCHED_LATENCY 6000000ULL	/* ns: period in which each task runs once */
#define SCHED_MIN_GRANULARITY 750000ULL
#define SCHED_WAKEUP_GRANULARITY 1000000ULL
#define SCHED_OVERRUN 50000000ULL	/* a task that runs longer than this while others wait is switched away by an interrupt */

void init_cfs_rq(struct cfs_rq *cfs_rq)
{
	INIT_LIST_HEAD(&cfs_rq->tasks_timeline);
	cfs_rq->min_vruntime = (u64)(-(1LL << 20));
}

static inline bool entity_before(const struct sched_entity *a, const struct sched_entity *b)
{
	return (s64)(a->vruntime - b->vruntime) < 0;
}

static inline u64 max_vruntime(u64 max, u64 v)
{
	return (s64)(v - max) > 0 ? v : max;
}

static struct rq *rq_of(struct cfs_rq *cfs_rq)
{
	return container_of(cfs_rq, struct rq, cfs);
}

static noinline struct sched_entity *__pick_first_entity(struct cfs_rq *cfs_rq)
{
	return list_first_entry_or_null(&cfs_rq->tasks_timeline, struct sched_entity, group_node);
}

static noinline void __enqueue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	struct sched_entity *pos;

	list_for_each_entry(pos, &cfs_rq->tasks_timeline, group_node)
		if (entity_before(se, pos))
			break;
	list_add_tail(&se->group_node, &pos->group_node);
}

static noinline void __dequeue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	list_del_init(&se->group_node);
}

void update_min_vruntime(struct cfs_rq *cfs_rq)
{
	struct sched_entity *first = __pick_first_entity(cfs_rq), *curr = cfs_rq->curr;
	u64 v = cfs_rq->min_vruntime;

	if (curr && curr->on_rq)
		v = first && entity_before(first, curr) ? first->vruntime : curr->vruntime;
	else if (first)
		v = first->vruntime;
	cfs_rq->min_vruntime = max_vruntime(cfs_rq->min_vruntime, v);
}

/* Converts run time to virtual time for a weight. */
noinline u64 __calc_delta(u64 delta_exec, unsigned long weight, struct load_weight *lw)
{
	return lw->weight == weight ? delta_exec : delta_exec * weight / (lw->weight ?: 1);
}

void update_curr(struct cfs_rq *cfs_rq)
{
	struct sched_entity *curr = cfs_rq->curr;
	u64 now = rq_of(cfs_rq)->clock_task, delta;

	if (!curr)
		return;
	delta = now - curr->exec_start;
	if ((s64)delta <= 0)
		return;
	curr->exec_start = now;
	curr->sum_exec_runtime += delta;
	task_of(curr)->stime += delta;
	curr->vruntime += __calc_delta(delta, NICE_0_LOAD, &curr->load);
	update_min_vruntime(cfs_rq);
#if GUEST_LINUX >= 612
	trace_sched_stat_runtime(task_of(curr), delta);
#else
	trace_sched_stat_runtime(task_of(curr), delta, curr->vruntime);
#endif
}

noinline u64 sched_slice(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	u64 slice = SCHED_LATENCY / max(cfs_rq->nr_running, 1U);

	return max(slice, (u64)SCHED_MIN_GRANULARITY);
}

noinline void place_entity(struct cfs_rq *cfs_rq, struct sched_entity *se, int initial)
{
	u64 vruntime = cfs_rq->min_vruntime;

	if (initial)
		vruntime += sched_slice(cfs_rq, se);
	else
		vruntime -= SCHED_LATENCY / 2;
	se->vruntime = max_vruntime(se->vruntime, vruntime);
}

noinline __noclone void enqueue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se, int flags)
{
	update_curr(cfs_rq);
	if (flags & ENQUEUE_WAKEUP)
		place_entity(cfs_rq, se, 0);
	else if (flags & ENQUEUE_INITIAL)
		place_entity(cfs_rq, se, 1);
	else
		se->vruntime = max_vruntime(se->vruntime, cfs_rq->min_vruntime);
	if (se != cfs_rq->curr)
		__enqueue_entity(cfs_rq, se);
	se->on_rq = 1;
	cfs_rq->h_nr_running = ++cfs_rq->nr_running;
}

noinline void dequeue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se, int flags)
{
	update_curr(cfs_rq);
	if (se != cfs_rq->curr)
		__dequeue_entity(cfs_rq, se);
	se->on_rq = 0;
	cfs_rq->h_nr_running = --cfs_rq->nr_running;
	update_min_vruntime(cfs_rq);
}

void enqueue_task_fair(struct rq *rq, struct task_struct *p, int flags)
{
	enqueue_entity(&rq->cfs, &p->se, flags);
	rq->nr_running++;
}

void dequeue_task_fair(struct rq *rq, struct task_struct *p, int flags)
{
	dequeue_entity(&rq->cfs, &p->se, flags);
	rq->nr_running--;
}

noinline void set_next_entity(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	if (se->on_rq)
		__dequeue_entity(cfs_rq, se);
	se->exec_start = rq_of(cfs_rq)->clock_task;
	cfs_rq->curr = se;
	se->prev_sum_exec_runtime = se->sum_exec_runtime;
}

noinline void put_prev_entity(struct cfs_rq *cfs_rq, struct sched_entity *prev)
{
	if (prev->on_rq) {
		update_curr(cfs_rq);
		__enqueue_entity(cfs_rq, prev);
	}
	cfs_rq->curr = NULL;
}

void put_prev_task_fair(struct rq *rq, struct task_struct *prev)
{
	put_prev_entity(&rq->cfs, &prev->se);
}

void set_next_task_fair(struct rq *rq, struct task_struct *p, bool first)
{
	set_next_entity(&rq->cfs, &p->se);
}

struct sched_entity *pick_next_entity(struct cfs_rq *cfs_rq, struct sched_entity *curr)
{
	struct sched_entity *left = __pick_first_entity(cfs_rq);

	if (!left || (curr && curr->on_rq && entity_before(curr, left)))
		left = curr && curr->on_rq ? curr : left;
	return left;
}

/* Picks the next task. Returns NULL if there is none on this queue and none can be
 * taken from others. */
struct task_struct *pick_next_task_fair(struct rq *rq, struct task_struct *prev, struct rq_flags *rf)
{
	struct cfs_rq *cfs_rq = &rq->cfs;
	struct sched_entity *se;

	if (!rq->nr_running && !sched_balance_newidle(rq, rf))
		return NULL;
	update_curr(cfs_rq);
	se = pick_next_entity(cfs_rq, cfs_rq->curr);
	if (!se)
		return NULL;
	if (se != cfs_rq->curr) {
		if (prev != rq->idle)
			put_prev_task_fair(rq, prev);
		set_next_task_fair(rq, task_of(se), true);
	}
	return task_of(se);
}

void yield_task_fair(struct rq *rq)
{
	struct sched_entity *se = rq->cfs.curr;
	struct sched_entity *last;

	if (!se || list_empty(&rq->cfs.tasks_timeline))
		return;
	last = list_last_entry(&rq->cfs.tasks_timeline, struct sched_entity, group_node);
	if (entity_before(se, last))
		se->vruntime = last->vruntime;
	resched_curr(rq);
}

void check_preempt_wakeup(struct rq *rq, struct task_struct *p, int wake_flags)
{
	struct sched_entity *se = &rq->curr->se;

	update_curr(&rq->cfs);
	if ((s64)(se->vruntime - p->se.vruntime) > (s64)SCHED_WAKEUP_GRANULARITY)
		resched_curr(rq);
}

void check_preempt_tick(struct cfs_rq *cfs_rq, struct sched_entity *curr)
{
	u64 ran = curr->sum_exec_runtime - curr->prev_sum_exec_runtime;

	if (ran > sched_slice(cfs_rq, curr))
		resched_curr(rq_of(cfs_rq));
	if (ran > SCHED_OVERRUN)
		task_of(curr)->overran = 1;
}

void task_tick_fair(struct rq *rq, struct task_struct *curr, int queued)
{
	update_curr(&rq->cfs);
	if (rq->cfs.nr_running > 1)
		check_preempt_tick(&rq->cfs, &curr->se);
}

void task_fork_fair(struct task_struct *p)
{
	p->se.vruntime = current->se.vruntime;
}

/* Returns an allowed idle CPU, preferably the one on which p slept. */
static int select_idle_sibling(struct task_struct *p, int prev)
{
	unsigned int cpu;

	if (cpumask_test_cpu(prev, &p->cpus_mask) && available_idle_cpu(prev))
		return prev;
	for_each_online_cpu(cpu)
		if (cpumask_test_cpu(cpu, &p->cpus_mask) && available_idle_cpu(cpu))
			return cpu;
	return -1;
}

/* Selects a CPU for p: an idle one, or the one with the fewest waiting tasks. */
int select_task_rq_fair(struct task_struct *p, int prev_cpu, int wake_flags)
{
	unsigned int cpu, least = ~0U;
	int best = select_idle_sibling(p, prev_cpu);

	if (best >= 0)
		return best;
	best = prev_cpu;
	for_each_online_cpu(cpu) {
		if (!cpumask_test_cpu(cpu, &p->cpus_mask))
			continue;
		if (cpu_rq(cpu)->nr_running < least || (cpu_rq(cpu)->nr_running == least && cpu == prev_cpu)) {
			least = cpu_rq(cpu)->nr_running;
			best = cpu;
		}
	}
	return best;
}

static noinline bool can_migrate_task(struct task_struct *p, int cpu)
{
	return !p->on_cpu && cpumask_test_cpu(cpu, &p->cpus_mask);
}

static bool can_help(struct rq *rq, int cpu)
{
	struct sched_entity *se;

	list_for_each_entry(se, &rq->cfs.tasks_timeline, group_node)
		if (can_migrate_task(task_of(se), cpu))
			return true;
	return false;
}

/* Called in the tick of a CPU with waiting tasks: wakes up an idle CPU, which takes
 * one of them. */
void trigger_load_balance(struct rq *rq)
{
	unsigned int cpu;

	if (rq->nr_running < 2)
		return;
	for_each_online_cpu(cpu) {
		struct rq *idle = cpu_rq(cpu);

		if (idle == rq || !idle_cpu(cpu) || !can_help(rq, cpu) || !raw_spin_trylock(&idle->__lock))
			continue;
		if (idle->curr == idle->idle)
			resched_curr(idle);
		raw_spin_unlock(&idle->__lock);
		return;
	}
}

/* Takes one waiting task from src. Both queues are locked. */
static int detach_one_task(struct rq *src, struct rq *dst)
{
	struct sched_entity *se;
	struct task_struct *p;

	list_for_each_entry(se, &src->cfs.tasks_timeline, group_node) {
		p = task_of(se);
		if (!can_migrate_task(p, dst->cpu))
			continue;
		p->on_rq = TASK_ON_RQ_MIGRATING; /* a wake-up of the task waits for the lock */
		dequeue_task(src, p, 0);
		p->se.vruntime += dst->cfs.min_vruntime - src->cfs.min_vruntime;
		set_task_cpu(p, dst->cpu);
		activate_task(dst, p, 0);
		return 1;
	}
	return 0;
}

/* A CPU that is about to be idle takes a waiting task from another one. Returns the
 * number of tasks taken. */
int sched_balance_newidle(struct rq *this_rq, struct rq_flags *rf)
{
	unsigned int cpu;
	int pulled = 0;

	for_each_online_cpu(cpu) {
		struct rq *src = cpu_rq(cpu);

		if (src == this_rq || READ_ONCE(src->nr_running) < 2)
			continue;
		if (!raw_spin_trylock(&src->__lock))
			continue;
		pulled = detach_one_task(src, this_rq);
		raw_spin_unlock(&src->__lock);
		if (pulled)
			break;
	}
	return pulled;
}
