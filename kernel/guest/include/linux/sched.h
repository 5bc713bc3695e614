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
#define THREAD_ALIGN THREAD_SIZE
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
/* Layouts of sched_avg, sched_entity, task_struct and signal_struct: the fields lie where
 * 6.1 has them. Fields of our own are where 6.1 has some that are not used here. */
struct sched_avg {
	u64 last_update_time;
	u64 __sums[2];
	u32 __util_sum, period_contrib;		/* 28 */
	unsigned long __avgs[2], util_avg;	/* 48 */
	u64 __util_est;
};
struct sched_entity {
	struct load_weight load;
	char __run_node[24];
	struct list_head group_node;	/* 40: node in the run queue, which is sorted by vruntime */
	unsigned int on_rq;		/* 56 */
	u64 exec_start, sum_exec_runtime, vruntime, prev_sum_exec_runtime; /* 64 */
	u64 nr_migrations;		/* 96 */
	int depth;
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq, *my_q;		/* 120: the queue that it belongs to; there are no groups */
	char __before_avg[192 - 136];
	struct sched_avg avg;		/* 192 */
};
static_assert(offsetof(struct sched_entity, cfs_rq) == 120 && offsetof(struct sched_entity, avg) == 192 && sizeof(struct sched_entity) == 256, "struct sched_entity");
struct sighand_struct;
struct signal_struct;
struct files_struct;
struct fs_struct;
struct nsproxy;
struct mm_struct;
struct vm_area_struct;
struct rq;
struct cfs_rq;
struct host_call;
struct kernel_clone_args;
struct sigpending { struct list_head list; u64 signal; };
struct restart_block { unsigned long arch_data; long (*fn)(struct restart_block *); u64 expires; };

struct blk_plug;
struct task_struct {
	struct thread_info thread_info;		/* 0 */
	unsigned int __state;			/* 24 */
	void *stack;				/* 32 */
	refcount_t usage;			/* 40 */
	unsigned int flags;			/* 44: PF_* */
	unsigned int ptrace;
	int on_cpu;				/* 52 */
	struct llist_node wake_entry;		/* 56 */
	char __before_recent[96 - 64];
	int recent_used_cpu, wake_cpu, on_rq, prio, static_prio, normal_prio; /* 96 */
	unsigned int rt_priority;		/* 120 */
	struct sched_entity se;			/* 128 */
	unsigned int did_exec, sched_reset_on_fork; /* ours, in rt */
	struct host_call *host_call;		/* ours */
	char __before_policy[972 - 400];
	unsigned int policy;			/* 972 */
	int nr_cpus_allowed;			/* 976 */
	const cpumask_t *cpus_ptr, *user_cpus_ptr; /* 984 */
	union { cpumask_t cpus_mask; char __cpus_mask[1024]; }; /* 1000 */
	char __before_tasks_rcu[2072 - 2024];
	unsigned long rcu_tasks_nvcsw;		/* 2072 */
	int __rcu_tasks_flags, rcu_tasks_holdout; /* 6.1's is a byte at 2080 */
	char __before_tasks[2192 - 2088];
	struct list_head tasks;			/* 2192 */
	char __before_mm[2272 - 2208];
	struct mm_struct *mm, *active_mm;	/* 2272, 2280 */
	char __rss_stat[2308 - 2288];
	int exit_state, exit_code, exit_signal;	/* 2308 */
	char __before_personality[2336 - 2320];
	unsigned int personality;		/* 2336 */
	char __before_flags[2352 - 2340];
	unsigned long atomic_flags;		/* 2352 */
	struct restart_block restart_block;	/* 2360 */
	char __before_pid[2416 - 2384];
	pid_t pid, tgid;			/* 2416, 2420 */
	unsigned long stack_canary;		/* 2424 */
	struct task_struct *real_parent, *parent; /* 2432, 2440 */
	struct list_head children, sibling;	/* 2448, 2464 */
	struct task_struct *group_leader;	/* 2480 */
	struct list_head ptraced, ptrace_entry;
	struct pid *thread_pid;			/* 2520 */
	struct hlist_node pid_links[4];		/* 2528 */
	struct list_head thread_group, thread_node; /* 2592, 2608 */
	struct completion *vfork_done;		/* 2624 */
	int *set_child_tid, *clear_child_tid;	/* 2632 */
	void *worker_private;			/* 2648 */
	u64 utime, stime, gtime;		/* 2656 */
	u64 utimescaled;			/* ours, in prev_cputime */
	char __before_nvcsw[2760 - 2688];
	unsigned long nvcsw, nivcsw;		/* 2760 */
	u64 start_time, start_boottime;		/* 2776 */
	unsigned long min_flt, maj_flt;		/* 2792 */
	char __before_cred[2944 - 2808];
	const struct cred *ptracer_cred, *real_cred, *cred; /* 2944.. */
	void *cached_requested_key;
	char comm[TASK_COMM_LEN];		/* 2976 */
	unsigned long yields;			/* 2992: number of voluntary yields, even if no other task was runnable */
	unsigned int overran;			/* it has run for too long while others wait: an interrupt switches it away */
	struct blk_plug *plug;			/* 3008 */
	char __before_fs[3040 - 3016];
	struct fs_struct *fs;			/* 3040 */
	struct files_struct *files;		/* 3048 */
	void *io_uring;
	struct nsproxy *nsproxy;		/* 3064 */
	struct signal_struct *signal;		/* 3072 */
	struct sighand_struct *sighand;		/* 3080 */
	u64 blocked, real_blocked, saved_sigmask; /* 3088 */
	struct sigpending pending;		/* 3112 */
	char __before_works[3160 - 3136];
	struct callback_head *task_works;	/* 3160 */
	char __before_exec_id[3232 - 3168];
	u64 parent_exec_id, self_exec_id;	/* 3232 */
	spinlock_t alloc_lock;			/* 3248 */
	raw_spinlock_t pi_lock;			/* 3252 */
	char __before_journal[3296 - 3256];
	void *journal_info;			/* 3296 */
	char __before_ioac[3368 - 3304];
	struct task_io_accounting { u64 rchar, wchar, syscr, syscw; } ioac; /* 3368 */
	char __before_rcu[4968 - 3400];
	struct callback_head rcu;		/* 4968 */
	char __before_recursion[5080 - 4984];
	unsigned long trace_recursion;		/* 5080 */
	char __before_pagefault[5144 - 5088];
	int pagefault_disabled;			/* 5144 */
	struct kthread *kthread;		/* ours, in oom_reaper_list */
	char __before_rethooks[5304 - 5160];
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
__TS(thread, 5376); __TS(recent_used_cpu, 96); __TS(on_rq, 104); __TS(prio, 108); __TS(rt_priority, 120); __TS(se, 128);
__TS(policy, 972); __TS(nr_cpus_allowed, 976); __TS(cpus_ptr, 984); __TS(cpus_mask, 1000); __TS(rcu_tasks_nvcsw, 2072);
__TS(tasks, 2192); __TS(exit_state, 2308); __TS(personality, 2336); __TS(atomic_flags, 2352); __TS(restart_block, 2360);
__TS(pid_links, 2528); __TS(thread_node, 2608); __TS(vfork_done, 2624); __TS(worker_private, 2648); __TS(gtime, 2672);
__TS(nvcsw, 2760); __TS(min_flt, 2792); __TS(blocked, 3088); __TS(pending, 3112); __TS(task_works, 3160);
__TS(parent_exec_id, 3232); __TS(alloc_lock, 3248); __TS(pi_lock, 3252); __TS(journal_info, 3296); __TS(ioac, 3368);
__TS(rcu, 4968); __TS(trace_recursion, 5080); __TS(pagefault_disabled, 5144);
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
unsigned long wait_task_inactive(struct task_struct *p, unsigned int match_state);
bool single_task_running(void);
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
#if GUEST_LINUX >= 612
	const char *name;
	int exit_signal;
	u32 kthread : 1, io_thread : 1, user_worker : 1, no_files : 1;
#else
	int exit_signal;
#endif
	unsigned long stack, stack_size, tls;
	pid_t *set_tid;
	size_t set_tid_size;
#if GUEST_LINUX >= 612
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
#define SIGURG 23
#define SIGIO 29
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
/* For what a task wants to look into another one, and with which of its ids. */
#define PTRACE_MODE_READ 0x01
#define PTRACE_MODE_ATTACH 0x02
#define PTRACE_MODE_FSCREDS 0x08
#define PTRACE_MODE_REALCREDS 0x10
#define PTRACE_MODE_ATTACH_REALCREDS (PTRACE_MODE_ATTACH | PTRACE_MODE_REALCREDS)
bool ptrace_may_access(struct task_struct *task, unsigned int mode);
struct mm_struct *mm_access(struct task_struct *task, unsigned int mode);
struct k_sigaction { void *handler; unsigned long flags; void *restorer; u64 mask; };
/* A signal that a task takes on its way to user mode. */
struct ksignal { struct k_sigaction ka; struct kernel_siginfo info; int sig; };
bool get_signal(struct ksignal *ksig);
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
	struct task_struct *curr_target;	/* 56 */
	struct sigpending shared_pending;	/* 64 */
	char __multiprocess[8];
	int group_exit_code;			/* 96 */
	char __before_flags[116 - 100];
	unsigned int flags;			/* 116 */
	u64 host_files;				/* ours: the table of descriptors to close at the end of the last thread */
	char __before_pids[360 - 128];
	struct pid *pids[4];			/* 360 */
	char __before_leader[408 - 392];
	int leader;				/* 408 */
	struct tty_struct *tty;			/* 416: the controlling terminal; there are none */
	char __before_utime[440 - 424];
	u64 utime, stime, cutime, cstime;	/* 440 */
	char __before_rlim[688 - 472];
	unsigned long rlim[16][2];		/* 688 */
	char __tail[1112 - 944];
};
static_assert(offsetof(struct signal_struct, thread_head) == 16, "struct signal_struct");
static_assert(offsetof(struct signal_struct, shared_pending) == 64, "struct signal_struct");
static_assert(offsetof(struct signal_struct, flags) == 116, "struct signal_struct");
static_assert(offsetof(struct signal_struct, pids) == 360, "struct signal_struct");
static_assert(offsetof(struct signal_struct, utime) == 440, "struct signal_struct");
static_assert(offsetof(struct signal_struct, rlim) == 688, "struct signal_struct");
static_assert(sizeof(struct signal_struct) == 1112, "struct signal_struct");
#define SIGNAL_GROUP_EXIT 4
enum pid_type_sig { __SIG_PIDTYPE };
int send_sig(int sig, struct task_struct *p, int priv);
int send_sig_info(int sig, struct kernel_siginfo *info, struct task_struct *p);
int do_send_sig_info(int sig, struct kernel_siginfo *info, struct task_struct *p, enum pid_type type);
#define SCHED_NORMAL 0
#define SCHED_FIFO 1
#define MAX_RT_PRIO 100
#define DEFAULT_PRIO 120
void sched_set_fifo(struct task_struct *p);
void sched_set_fifo_low(struct task_struct *p);
void sched_set_normal(struct task_struct *p, int nice);
int kill_pid(struct pid *pid, int sig, int priv);
int kill_pid_info(int sig, struct kernel_siginfo *info, struct pid *pid);
void recalc_sigpending(void);
void signal_wake_up_state(struct task_struct *t, unsigned int state);
static inline void signal_wake_up(struct task_struct *t, bool fatal) { signal_wake_up_state(t, fatal ? TASK_WAKEKILL : 0); }
struct sighand_struct *__lock_task_sighand(struct task_struct *tsk, unsigned long *flags);
void flush_signals(struct task_struct *t);
#define SIG_DFL ((void *)0)
#define SIG_IGN ((void *)1)
#define SIG_KTHREAD ((void *)2)
#define SIG_KTHREAD_KERNEL ((void *)3)
void kernel_sigaction(int sig, void *action);
static inline void allow_signal(int sig) { kernel_sigaction(sig, SIG_KTHREAD); }
static inline void allow_kernel_signal(int sig) { kernel_sigaction(sig, SIG_KTHREAD_KERNEL); }
static inline void disallow_signal(int sig) { kernel_sigaction(sig, SIG_IGN); }

#define for_each_process(p) for (p = list_entry(init_task.tasks.next, struct task_struct, tasks); \
	p != &init_task; p = list_entry(p->tasks.next, struct task_struct, tasks))
extern rwlock_t tasklist_lock;
static inline bool thread_group_leader(struct task_struct *p) { return p->exit_signal >= 0; }
#define get_task_comm(buf, tsk) __get_task_comm(buf, sizeof(buf), tsk)
static inline int task_nice(const struct task_struct *p) { return p->static_prio - 120; }
#define next_task(p) list_entry((p)->tasks.next, struct task_struct, tasks)
#define for_each_thread(p, t) list_for_each_entry(t, &(p)->signal->thread_head, thread_node)
#define for_each_process_thread(p, t) for_each_process(p) for_each_thread(p, t)
static inline pid_t task_ppid_nr(const struct task_struct *t) { return t->real_parent->tgid; }
#ifdef MODULE
#define PF_VCPU 0x00000001
#define PF_SUPERPRIV 0x00000100
#define PF_DUMPCORE 0x00000200
#define PF_SIGNALED 0x00000400
#define PF_MEMALLOC 0x00000800
#define PF_NPROC_EXCEEDED 0x00001000
#define PF_USED_MATH 0x00002000
#define PF_NOFREEZE 0x00008000
#define PF_KSWAPD 0x00020000
#define PF_MEMALLOC_NOFS 0x00040000
#define PF_MEMALLOC_NOIO 0x00080000
#define PF_RANDOMIZE 0x00400000
#define task_thread_info(task) (&(task)->thread_info)
static inline int test_and_set_tsk_thread_flag(struct task_struct *t, int f) { return test_and_set_bit(f, &t->thread_info.flags); }
static inline int test_and_clear_tsk_thread_flag(struct task_struct *t, int f) { return test_and_clear_bit(f, &t->thread_info.flags); }
static inline void update_tsk_thread_flag(struct task_struct *t, int f, bool value)
{
	if (value)
		set_tsk_thread_flag(t, f);
	else
		clear_tsk_thread_flag(t, f);
}
#endif
#endif
