/* sched.h: run queues: one for each CPU. */
#ifndef _KERNEL_SCHED_H
#define _KERNEL_SCHED_H
#include <linux/sched.h>
#include <linux/percpu.h>
#include <linux/jump_label.h>
/* The fields lie where 6.1 has them. */
struct cfs_rq {
	struct load_weight load;
	unsigned int nr_running, h_nr_running;	/* 16 */
	unsigned int idle_nr_running, idle_h_nr_running;
	u64 exec_clock, min_vruntime;		/* 32 */
	struct list_head tasks_timeline;	/* 48: entities by vruntime, without curr */
	struct sched_entity *curr;		/* 64 */
};
static_assert(offsetof(struct cfs_rq, nr_running) == 16 && offsetof(struct cfs_rq, curr) == 64, "struct cfs_rq");
struct rq_flags { unsigned long flags; };
struct rq {
	raw_spinlock_t __lock;
	unsigned int nr_running;
	u64 nr_switches;
	struct cfs_rq cfs;
	struct task_struct *curr, *idle;
	u64 clock, clock_task;
	int cpu, online;
	unsigned long calc_load_update;
	unsigned int ttwu_count, sched_count;
	unsigned int nr_iowait;
	u64 idle_stamp;
};
DECLARE_PER_CPU(struct rq, runqueues);
#define cpu_rq(cpu) (&per_cpu(runqueues, (cpu)))
#define this_rq() this_cpu_ptr(&runqueues)
#define task_rq(p) cpu_rq(task_cpu(p))
#define rq_lock(rq) raw_spin_lock(&(rq)->__lock)
#define rq_unlock(rq) raw_spin_unlock(&(rq)->__lock)
#define task_of(e) container_of(e, struct task_struct, se)
#define ENQUEUE_WAKEUP 1
#define ENQUEUE_INITIAL 2
#define DEQUEUE_SLEEP 1
#define TASK_ON_RQ_QUEUED 1
#define TASK_ON_RQ_MIGRATING 2
struct rq *__task_rq_lock(struct task_struct *p, struct rq_flags *rf);
void update_rq_clock(struct rq *rq);
void enqueue_task(struct rq *rq, struct task_struct *p, int flags);
void dequeue_task(struct rq *rq, struct task_struct *p, int flags);
void activate_task(struct rq *rq, struct task_struct *p, int flags);
void deactivate_task(struct rq *rq, struct task_struct *p, int flags);
void check_preempt_curr(struct rq *rq, struct task_struct *p, int flags);
void enqueue_task_fair(struct rq *rq, struct task_struct *p, int flags);
void dequeue_task_fair(struct rq *rq, struct task_struct *p, int flags);
void check_preempt_wakeup(struct rq *rq, struct task_struct *p, int wake_flags);
struct task_struct *pick_next_task_fair(struct rq *rq, struct task_struct *prev, struct rq_flags *rf);
void put_prev_task_fair(struct rq *rq, struct task_struct *prev);
void set_next_task_fair(struct rq *rq, struct task_struct *p, bool first);
void task_tick_fair(struct rq *rq, struct task_struct *curr, int queued);
void task_fork_fair(struct task_struct *p);
void yield_task_fair(struct rq *rq);
void update_curr(struct cfs_rq *cfs_rq);
int select_task_rq_fair(struct task_struct *p, int prev_cpu, int wake_flags);
void trigger_load_balance(struct rq *rq);
int sched_balance_newidle(struct rq *this_rq, struct rq_flags *rf);
void init_cfs_rq(struct cfs_rq *cfs_rq);
struct task_struct *pick_next_task_idle(struct rq *rq);
void set_next_task_idle(struct rq *rq, struct task_struct *next, bool first);
bool available_idle_cpu(int cpu);
int idle_cpu(int cpu);
void set_task_cpu(struct task_struct *p, unsigned int new_cpu);
void calc_global_load_tick(struct rq *this_rq);
#endif
