#ifndef _TRACE_SCHED_H
#define _TRACE_SCHED_H
#include <linux/tracepoint.h>
struct task_struct;
struct pid;
struct linux_binprm;
DECLARE_TRACE(sched_kthread_stop, TP_PROTO(struct task_struct *t), TP_ARGS(t))
DECLARE_TRACE(sched_kthread_stop_ret, TP_PROTO(int ret), TP_ARGS(ret))
DECLARE_TRACE(sched_wait_task, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE(sched_waking, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE_ITER(sched_wakeup, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE_ITER(sched_wakeup_new, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE_ITER(sched_switch, TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state),
	      TP_ARGS(preempt, prev, next, prev_state))
DECLARE_TRACE(sched_migrate_task, TP_PROTO(struct task_struct *p, int dest_cpu), TP_ARGS(p, dest_cpu))
DECLARE_TRACE(sched_process_free, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE(sched_process_exit, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE(sched_process_wait, TP_PROTO(struct pid *pid), TP_ARGS(pid))
DECLARE_TRACE(sched_process_fork, TP_PROTO(struct task_struct *parent, struct task_struct *child), TP_ARGS(parent, child))
DECLARE_TRACE(sched_process_exec, TP_PROTO(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm), TP_ARGS(p, old_pid, bprm))
#if GUEST_LINUX >= 612
DECLARE_TRACE(sched_prepare_exec, TP_PROTO(struct task_struct *task, struct linux_binprm *bprm), TP_ARGS(task, bprm))
DECLARE_TRACE(sched_stat_runtime, TP_PROTO(struct task_struct *tsk, u64 runtime), TP_ARGS(tsk, runtime))
#else
DECLARE_TRACE(sched_stat_runtime, TP_PROTO(struct task_struct *tsk, u64 runtime, u64 vruntime), TP_ARGS(tsk, runtime, vruntime))
#endif
/* Without kernel.sched_schedstats there are no hits of these. */
DECLARE_TRACE(sched_stat_wait, TP_PROTO(struct task_struct *tsk, u64 delay), TP_ARGS(tsk, delay))
DECLARE_TRACE(sched_stat_sleep, TP_PROTO(struct task_struct *tsk, u64 delay), TP_ARGS(tsk, delay))
DECLARE_TRACE(sched_stat_iowait, TP_PROTO(struct task_struct *tsk, u64 delay), TP_ARGS(tsk, delay))
DECLARE_TRACE(sched_stat_blocked, TP_PROTO(struct task_struct *tsk, u64 delay), TP_ARGS(tsk, delay))
#endif
