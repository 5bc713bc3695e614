/*
 * sched.h: tasks. task_struct has 6.1's size, and 6.1's offsets of the fields that
 * tools and the machine use. The scheduler's own fields are in between.
 */
#ifndef _LINUX_SCHED_H
#define _LINUX_SCHED_H
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/spinlock.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/wait.h>
#include <linux/completion.h>
#include <linux/llist.h>
#include <linux/refcount.h>
#include <linux/ktime.h>
#include <linux/timer.h>
#include <linux/pid.h>
#include <linux/cred.h>
#include <linux/rcupdate.h>
#include <linux/cpumask.h>
#include <asm/ptrace.h>
#include <asm/processor.h>

#define TASK_COMM_LEN 16
#define THREAD_SIZE 16384
#define THREAD_SIZE_ORDER 2
#define TASK_RUNNING 0x0000
#define TASK_INTERRUPTIBLE 0x0001
#define TASK_UNINTERRUPTIBLE 0x0002
#define EXIT_DEAD 0x0010
#define EXIT_ZOMBIE 0x0020
#define TASK_PARKED 0x0040
#define TASK_DEAD 0x0080
#define TASK_WAKEKILL 0x0100
#define TASK_NOLOAD 0x0400
#define TASK_NEW 0x0800
#define TASK_KILLABLE (TASK_WAKEKILL | TASK_UNINTERRUPTIBLE)
#define TASK_IDLE (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)
#define TASK_NORMAL (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)
#define PF_IDLE 0x00000002
#define PF_EXITING 0x00000004
#define PF_WQ_WORKER 0x00000020
#define PF_FORKNOEXEC 0x00000040
#define PF_KTHREAD 0x00200000
#define PF_NO_SETAFFINITY 0x04000000
#define TIF_NOTIFY_RESUME 1
#define TIF_SIGPENDING 2
#define TIF_NEED_RESCHED 3
#define CLONE_VM 0x00000100
#define CLONE_FS 0x00000200
#define CLONE_FILES 0x00000400
#define CLONE_SIGHAND 0x00000800
#define CLONE_VFORK 0x00004000
#define CLONE_PARENT 0x00008000
#define CLONE_THREAD 0x00010000
#define CLONE_SETTLS 0x00080000
#define CLONE_PARENT_SETTID 0x00100000
#define CLONE_CHILD_CLEARTID 0x00200000
#define CLONE_UNTRACED 0x00800000
#define CLONE_CHILD_SETTID 0x01000000
#define CSIGNAL 0x000000ff
#define MAX_SCHEDULE_TIMEOUT LONG_MAX
#define NICE_0_LOAD 1024

struct thread_info { unsigned long flags, syscall_work; u32 status, cpu; };
struct load_weight { unsigned long weight; u32 inv_weight; };
struct sched_entity {
	struct load_weight load;
	struct list_head group_node;	/* node in the run queue, which is sorted by vruntime */
	unsigned int on_rq;
	u64 exec_start, sum_exec_runtime, vruntime, prev_sum_exec_runtime;
	u64 nr_migrations;
	struct sched_avg { u64 last_update_time; unsigned long util_avg; u32 period_contrib; } avg;
};
struct sighand_struct;
struct signal_struct;
struct files_struct;
struct fs_struct;
struct nsproxy;
struct mm_struct;
struct vm_area_struct;
struct rq;
struct host_call;
struct kernel_clone_args;
struct sigpending { struct list_head list; u64 signal; };
struct restart_block { unsigned long arch_data; long (*fn)(struct restart_block *); u64 expires; };

struct task_struct {
	struct thread_info thread_info;		/* 0 */
	unsigned int __state;			/* 24 */
	void *stack;				/* 32 */
	refcount_t usage;			/* 40 */
	unsigned int flags;			/* 44: PF_* */
	unsigned int ptrace;
	int on_cpu;				/* 52 */
	union { struct {
		struct llist_node wake_entry;
		int on_rq, prio, static_prio, normal_prio, recent_used_cpu, wake_cpu;
		struct sched_entity se;
		int nr_cpus_allowed;
		cpumask_t cpus_mask;
		unsigned int policy;
		unsigned long nvcsw, nivcsw;
		raw_spinlock_t pi_lock;
		struct list_head tasks;
		int exit_state, exit_code, exit_signal;
		unsigned int did_exec, sched_reset_on_fork;
		int rcu_tasks_holdout;
		unsigned long rcu_tasks_nvcsw;
		struct completion *vfork_done;
		int *set_child_tid, *clear_child_tid;
		void *worker_private;
		struct host_call *host_call;
		u64 utime, stime;
		unsigned int personality;
		void *journal_info;
		struct task_io_accounting { u64 rchar, wchar, syscr, syscw; } ioac;
	}; char __before_mm[2272 - 56]; };
	struct mm_struct *mm, *active_mm;	/* 2272, 2280 */
	union { struct {
		struct restart_block restart_block;
		unsigned long atomic_flags;
	}; char __before_pid[2416 - 2288]; };
	pid_t pid, tgid;			/* 2416, 2420 */
	unsigned long stack_canary;		/* 2424 */
	struct task_struct *real_parent, *parent; /* 2432, 2440 */
	struct list_head children, sibling;	/* 2448, 2464 */
	struct task_struct *group_leader;	/* 2480 */
	struct list_head ptraced, ptrace_entry;
	struct pid *thread_pid;			/* 2520 */
	union { struct {
		struct hlist_node pid_links[4];
		struct list_head thread_group, thread_node;
		u64 utimescaled, gtime;
	}; char __before_start[2776 - 2528]; };
	u64 start_time, start_boottime;		/* 2776 */
	union { struct {
		unsigned long min_flt, maj_flt;
		struct callback_head *task_works;
	}; char __before_cred[2944 - 2792]; };
	const struct cred *ptracer_cred, *real_cred, *cred; /* 2944.. */
	void *cached_requested_key;
	char comm[TASK_COMM_LEN];		/* 2976 */
	unsigned long yields;			/* 2992: number of voluntary yields, even if no other task was runnable */
	unsigned int overran;			/* it has run for too long while others wait: an interrupt switches it away */
	char __before_fs[3040 - 3004];
	struct fs_struct *fs;			/* 3040 */
	struct files_struct *files;		/* 3048 */
	void *io_uring;
	struct nsproxy *nsproxy;		/* 3064 */
	struct signal_struct *signal;		/* 3072 */
	struct sighand_struct *sighand;		/* 3080 */
	union { struct {
		u64 blocked, real_blocked, saved_sigmask;
		struct sigpending pending;
		spinlock_t alloc_lock;
		u64 parent_exec_id, self_exec_id;
		struct callback_head rcu;
		int pagefault_disabled;
		struct kthread *kthread;
	}; char __before_rethooks[5304 - 3088]; };
	struct llist_head kretprobe_instances;	/* 5304 */
	struct llist_head rethooks;		/* 5312 */
	struct thread_struct thread;		/* 5376 */
};
#define __TS(f, off) static_assert(offsetof(struct task_struct, f) == (off), #f)
__TS(__state, 24); __TS(stack, 32); __TS(flags, 44); __TS(on_cpu, 52); __TS(mm, 2272);
__TS(pid, 2416); __TS(tgid, 2420); __TS(real_parent, 2432); __TS(parent, 2440);
__TS(group_leader, 2480); __TS(thread_pid, 2520); __TS(start_time, 2776); __TS(ptracer_cred, 2944);
__TS(cred, 2960); __TS(comm, 2976); __TS(yields, 2992); __TS(fs, 3040); __TS(files, 3048); __TS(nsproxy, 3064);
__TS(signal, 3072); __TS(sighand, 3080); __TS(kretprobe_instances, 5304); __TS(rethooks, 5312);
__TS(thread, 5376);
static_assert(sizeof(struct task_struct) == 9792, "task_struct");

DECLARE_PER_CPU(struct task_struct *, current_task);
static __always_inline struct task_struct *get_current(void) { return this_cpu_read_stable(current_task); }
#define current get_current()
extern struct task_struct init_task;
extern struct list_head init_stack_dummy;

#define task_stack_page(t) ((t)->stack)
#define task_pt_regs(t) ((struct pt_regs *)((char *)(t)->stack + THREAD_SIZE) - 1)
static inline int task_cpu(const struct task_struct *p) { return READ_ONCE(p->thread_info.cpu); }
static inline bool test_tsk_thread_flag(struct task_struct *t, int f) { return test_bit(f, &t->thread_info.flags); }
static inline void set_tsk_thread_flag(struct task_struct *t, int f) { set_bit(f, &t->thread_info.flags); }
static inline void clear_tsk_thread_flag(struct task_struct *t, int f) { clear_bit(f, &t->thread_info.flags); }
#define test_thread_flag(f) test_tsk_thread_flag(current, f)
#define need_resched() unlikely(test_thread_flag(TIF_NEED_RESCHED))
#define set_current_state(s) smp_store_mb(current->__state, (unsigned int)(s))
#define __set_current_state(s) WRITE_ONCE(current->__state, (s))
#define get_current_state() READ_ONCE(current->__state)
#define task_is_running(t) (READ_ONCE((t)->__state) == TASK_RUNNING)
static inline int signal_pending(struct task_struct *p) { return test_tsk_thread_flag(p, TIF_SIGPENDING); }
static inline int __fatal_signal_pending(struct task_struct *p) { return (p->pending.signal >> (9 - 1)) & 1; }
static inline int fatal_signal_pending(struct task_struct *p) { return signal_pending(p) && __fatal_signal_pending(p); }
static inline int signal_pending_state(unsigned int state, struct task_struct *p)
{
	if (!(state & (TASK_INTERRUPTIBLE | TASK_WAKEKILL)) || !signal_pending(p))
		return 0;
	return (state & TASK_INTERRUPTIBLE) || __fatal_signal_pending(p);
}
static inline pid_t task_pid_nr(struct task_struct *t) { return t->pid; }
static inline pid_t task_tgid_nr(struct task_struct *t) { return t->tgid; }
static inline bool is_global_init(struct task_struct *t) { return t->tgid == 1; }
static inline bool is_idle_task(const struct task_struct *p) { return !!(p->flags & PF_IDLE); }
static inline void task_lock(struct task_struct *p) { spin_lock(&p->alloc_lock); }
static inline void task_unlock(struct task_struct *p) { spin_unlock(&p->alloc_lock); }
static inline struct task_struct *get_task_struct(struct task_struct *t) { refcount_inc(&t->usage); return t; }
void __put_task_struct(struct task_struct *tsk);
static inline void put_task_struct(struct task_struct *t) { if (refcount_dec_and_test(&t->usage)) __put_task_struct(t); }

void schedule(void);
void schedule_preempt_disabled(void);
void yield(void);
DECLARE_STATIC_CALL(cond_resched, __cond_resched);
#define cond_resched() ({ (int)static_call0(cond_resched); })
int wake_up_process(struct task_struct *p);
int wake_up_state(struct task_struct *p, unsigned int state);
int try_to_wake_up(struct task_struct *p, unsigned int state, int wake_flags);
void wake_up_new_task(struct task_struct *p);
int sched_fork(unsigned long clone_flags, struct task_struct *p);
void sched_post_fork(struct task_struct *p);
void sched_exec(void);
void scheduler_tick(void);
void sched_init(void);
void resched_curr(struct rq *rq);
void kick_process(struct task_struct *p);
int set_cpus_allowed_ptr(struct task_struct *p, const struct cpumask *new_mask);
long sched_setaffinity(pid_t pid, const struct cpumask *in_mask);
void __set_task_comm(struct task_struct *tsk, const char *buf, bool exec);
#define set_task_comm(t, b) __set_task_comm(t, b, false)
char *__get_task_comm(char *to, size_t len, struct task_struct *tsk);
void io_schedule(void);
long io_schedule_timeout(long timeout);
void cpu_startup_entry(int state);
void init_idle(struct task_struct *idle, int cpu);
struct task_struct *idle_task(int cpu);

struct kernel_clone_args {
	u64 flags;
	int *pidfd, *child_tid, *parent_tid;
#ifdef KERNEL_6_12
	const char *name;
	int exit_signal;
	u32 kthread : 1, io_thread : 1, user_worker : 1, no_files : 1;
#else
	int exit_signal;
#endif
	unsigned long stack, stack_size, tls;
	pid_t *set_tid;
	size_t set_tid_size;
#ifdef KERNEL_6_12
	int cgroup, idle;
#else
	int cgroup, io_thread, kthread, idle;
#endif
	int (*fn)(void *);
	void *fn_arg;
	void *cgrp, *cset;
	unsigned int kill_seq;
};
static_assert(sizeof(struct kernel_clone_args) == 136, "kernel_clone_args");
pid_t kernel_clone(struct kernel_clone_args *args);
pid_t kernel_thread(int (*fn)(void *), void *arg, unsigned long flags);
pid_t user_mode_thread(int (*fn)(void *), void *arg, unsigned long flags);
struct task_struct *copy_process(struct pid *pid, int trace, int node, struct kernel_clone_args *args);
void do_exit(long code) __noreturn;
void do_group_exit(int exit_code) __noreturn;
void make_task_dead(int signr) __noreturn;
void release_task(struct task_struct *p);
struct rusage;
long kernel_wait4(pid_t upid, int *stat_addr, int options, struct rusage *ru);

/* Signals: a mask of pending ones per task, no handlers. */
#define _NSIG 64
#define SIGHUP 1
#define SIGINT 2
#define SIGKILL 9
#define SIGSEGV 11
#define SIGPIPE 13
#define SIGTERM 15
#define SIGCHLD 17
#define SIGSTOP 19
#define SI_USER 0
#define SI_KERNEL 0x80
#define SI_TKILL (-6)
struct kernel_siginfo {
	int si_signo, si_errno, si_code, __pad;
	pid_t si_pid;
	unsigned int si_uid;
	u64 __rest[3];
};
#define SEND_SIG_NOINFO ((struct kernel_siginfo *)0)
#define SEND_SIG_PRIV ((struct kernel_siginfo *)1)
struct k_sigaction { void *handler; unsigned long flags; void *restorer; u64 mask; };
struct sighand_struct {
	spinlock_t siglock;
	refcount_t count;
	wait_queue_head_t signalfd_wqh;
	struct k_sigaction action[_NSIG];
};
struct signal_struct {
	refcount_t sigcnt;
	atomic_t live;
	int nr_threads;
	struct list_head thread_head;
	wait_queue_head_t wait_chldexit;
	struct sigpending shared_pending;
	int group_exit_code;
	unsigned int flags;
	struct pid *pids[4];
	u64 utime, stime, cutime, cstime;
	unsigned long rlim[16][2];
};
#define SIGNAL_GROUP_EXIT 4
enum pid_type_sig { __SIG_PIDTYPE };
int send_sig(int sig, struct task_struct *p, int priv);
int send_sig_info(int sig, struct kernel_siginfo *info, struct task_struct *p);
int do_send_sig_info(int sig, struct kernel_siginfo *info, struct task_struct *p, enum pid_type type);
int kill_pid_info(int sig, struct kernel_siginfo *info, struct pid *pid);
void recalc_sigpending(void);
void signal_wake_up_state(struct task_struct *t, unsigned int state);
static inline void signal_wake_up(struct task_struct *t, bool fatal) { signal_wake_up_state(t, fatal ? TASK_WAKEKILL : 0); }
struct sighand_struct *__lock_task_sighand(struct task_struct *tsk, unsigned long *flags);
void flush_signals(struct task_struct *t);

#define for_each_process(p) for (p = list_entry(init_task.tasks.next, struct task_struct, tasks); \
	p != &init_task; p = list_entry(p->tasks.next, struct task_struct, tasks))
extern rwlock_t tasklist_lock;
static inline bool thread_group_leader(struct task_struct *p) { return p->exit_signal >= 0; }
#endif
