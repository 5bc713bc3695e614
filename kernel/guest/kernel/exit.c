/* exit.c: exit and wait. */
#include <linux/sched.h>
#include <linux/host.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/fdtable.h>
#include <linux/fs_struct.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <linux/interrupt.h>
#include <trace/events/sched.h>

#define WNOHANG 1
struct wait_opts {
	int wo_flags;
	pid_t wo_pid;	/* -1 for any child */
	int wo_stat;
	struct rusage *wo_rusage;
	wait_queue_entry_t child_wait;
	int notask_error;
};
extern int nr_threads;
void __cleanup_sighand(struct sighand_struct *sighand);
void exit_thread(struct task_struct *tsk);
void exit_signals(struct task_struct *tsk);
bool do_notify_parent(struct task_struct *tsk, int sig);
void do_task_dead(void) __noreturn;
void task_work_run(void);
void host_task_exit(struct task_struct *tsk, long code);
void release_thread(struct task_struct *dead_task);
void exit_rcu(void);
void __wake_up_parent(struct task_struct *p, struct task_struct *parent);

static void __unhash_process(struct task_struct *p, bool group_dead)
{
	nr_threads--;
	detach_pid(p, PIDTYPE_PID);
	if (group_dead) {
		if (thread_group_leader(p))
			detach_pid(p, PIDTYPE_TGID);
		list_del_init(&p->sibling);
	}
	list_del_rcu(&p->tasks);
	list_del_rcu(&p->thread_node);
}

static void __exit_signal(struct task_struct *tsk)
{
	struct sighand_struct *sighand = tsk->sighand;
	bool group_dead = thread_group_leader(tsk);

	spin_lock(&sighand->siglock);
	tsk->signal->utime += tsk->utime;
	tsk->signal->stime += tsk->stime;
	tsk->signal->nr_threads--;
	__unhash_process(tsk, group_dead);
	tsk->sighand = NULL;
	spin_unlock(&sighand->siglock);
	__cleanup_sighand(sighand);
	clear_tsk_thread_flag(tsk, TIF_SIGPENDING);
}

/* Frees a zombie that nobody will wait for any more. */
void release_task(struct task_struct *p)
{
	write_lock_irq(&tasklist_lock);
	__exit_signal(p);
	write_unlock_irq(&tasklist_lock);
	release_thread(p);
	put_task_struct(p);
}

noinline void mm_release(struct task_struct *tsk, struct mm_struct *mm)
{
	struct completion *vfork;

	if (tsk->clear_child_tid) {
		put_user(0, tsk->clear_child_tid);
		tsk->clear_child_tid = NULL;
	}
	task_lock(tsk);
	vfork = tsk->vfork_done;
	tsk->vfork_done = NULL;
	if (vfork)
		complete(vfork);
	task_unlock(tsk);
}

noinline void exit_mm_release(struct task_struct *tsk, struct mm_struct *mm)
{
	mm_release(tsk, mm);
}

void exec_mm_release(struct task_struct *tsk, struct mm_struct *mm)
{
	mm_release(tsk, mm);
}

static void exit_mm(void)
{
	struct mm_struct *mm = current->mm;

	exit_mm_release(current, mm);
	if (!mm)
		return;
	task_lock(current);
	current->mm = NULL;
	current->active_mm = NULL;
	task_unlock(current);
	mmput(mm);
}

/* Reparents children of a dead task to init. */
static void forget_original_parent(struct task_struct *father)
{
	struct task_struct *p, *n, *reaper = find_task_by_vpid(1) ?: &init_task;

	list_for_each_entry_safe(p, n, &father->children, sibling) {
		p->real_parent = p->parent = reaper;
		list_move_tail(&p->sibling, &reaper->children);
		if (p->exit_state == EXIT_ZOMBIE)
			__wake_up_parent(p, reaper);
	}
}

static bool exit_notify(struct task_struct *tsk, int group_dead)
{
	bool autoreap = true;

	write_lock_irq(&tasklist_lock);
	forget_original_parent(tsk);
	tsk->exit_state = EXIT_ZOMBIE;
	if (thread_group_leader(tsk))
		autoreap = do_notify_parent(tsk, tsk->exit_signal);
	if (autoreap)
		tsk->exit_state = EXIT_DEAD;
	write_unlock_irq(&tasklist_lock);
	return autoreap;
}

static void check_exit_context(struct task_struct *tsk)
{
#if defined(KERNEL_2_6) || defined(KERNEL_4_15)	/* newer ones check it where tasks are killed */
	if (unlikely(in_interrupt()))
		panic("Aiee, killing interrupt handler!");
#endif
	if (unlikely(!tsk->pid))
		panic("Attempted to kill the idle task!");
}

void __noreturn do_exit(long code)
{
	struct task_struct *tsk = current;
	int group_dead;
	bool autoreap;

	check_exit_context(tsk);
	WARN_ON(irqs_disabled());
	exit_signals(tsk);
	group_dead = atomic_dec_and_test(&tsk->signal->live);
	if (group_dead && is_global_init(tsk))
		panic("Attempted to kill init! exitcode=0x%08x", tsk->signal->group_exit_code ?: (int)code);
	tsk->exit_code = code;
	exit_mm();
	trace_sched_process_exit(tsk);
	if (group_dead)
		host_close_files(true);
	exit_files(tsk);
	exit_fs(tsk);
	task_work_run();
	exit_thread(tsk);
	autoreap = exit_notify(tsk, group_dead);
	host_task_exit(tsk, code);
	if (autoreap)
		release_task(tsk);
	do_task_dead();
}

/* Ends a task that cannot continue, after correcting preempt_count and the like. */
void __noreturn make_task_dead(int signr)
{
	struct task_struct *tsk = current;

	if (unlikely(in_interrupt()))
		panic("Aiee, killing interrupt handler!");
	if (unlikely(!tsk->pid))
		panic("Attempted to kill the idle task!");
	if (irqs_disabled()) {
		pr_info("note: %s[%d] exited with irqs disabled\n", tsk->comm, tsk->pid);
		local_irq_enable();
	}
	if (in_atomic()) {
		pr_info("note: %s[%d] exited with preempt_count %d\n", tsk->comm, tsk->pid, preempt_count());
		this_cpu_write(__preempt_count, this_cpu_read(__preempt_count) & PREEMPT_NEED_RESCHED);
	}
	exit_rcu();
	__set_current_state(TASK_RUNNING);
	if (unlikely(tsk->flags & PF_EXITING)) {
		pr_err("Fixing recursive fault but reboot is needed!\n");
		do_task_dead();
	}
	do_exit(signr);
}

void __noreturn do_group_exit(int exit_code)
{
	struct signal_struct *sig = current->signal;

	if (sig->flags & SIGNAL_GROUP_EXIT)
		exit_code = sig->group_exit_code;
	else {
		sig->group_exit_code = exit_code;
		sig->flags = SIGNAL_GROUP_EXIT;
	}
	do_exit(exit_code);
}

SYSCALL_DEFINE1(exit, int, error_code)
{
	do_exit((error_code & 0xff) << 8);
}

SYSCALL_DEFINE1(exit_group, int, error_code)
{
	do_group_exit((error_code & 0xff) << 8);
	return 0;
}

int child_wait_callback(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct wait_opts *wo = container_of(wait, struct wait_opts, child_wait);
	struct task_struct *p = key;

	if (wo->wo_pid > 0 && p->pid != wo->wo_pid)
		return 0;
	return default_wake_function(wait, mode, sync, key);
}

void __wake_up_parent(struct task_struct *p, struct task_struct *parent)
{
	__wake_up_sync_key(&parent->signal->wait_chldexit, TASK_INTERRUPTIBLE, p);
}

static int wait_task_zombie(struct wait_opts *wo, struct task_struct *p)
{
	pid_t pid = p->pid;

	if (cmpxchg(&p->exit_state, EXIT_ZOMBIE, EXIT_DEAD) != EXIT_ZOMBIE)
		return 0;
	read_unlock(&tasklist_lock);
	wo->wo_stat = p->signal->flags & SIGNAL_GROUP_EXIT ? p->signal->group_exit_code : p->exit_code;
	current->signal->cutime += p->utime;
	current->signal->cstime += p->stime;
	release_task(p);
	return pid;
}

/* Returns the pid of a reaped child, with tasklist_lock released, or 0 to continue
 * the search. */
noinline int wait_consider_task(struct wait_opts *wo, int ptrace, struct task_struct *p)
{
	if (wo->wo_pid > 0 && p->pid != wo->wo_pid)
		return 0;
	if (p->exit_state == EXIT_DEAD)
		return 0;
	wo->notask_error = 0;
	if (p->exit_state == EXIT_ZOMBIE)
		return wait_task_zombie(wo, p);
	return 0;
}

static int do_wait_thread(struct wait_opts *wo, struct task_struct *tsk)
{
	struct task_struct *p;
	int ret;

	list_for_each_entry(p, &tsk->children, sibling) {
		ret = wait_consider_task(wo, 0, p);
		if (ret)
			return ret;
	}
	return 0;
}

long do_wait(struct wait_opts *wo)
{
	long retval;

	trace_sched_process_wait(wo->wo_pid > 0 ? find_vpid(wo->wo_pid) : NULL);
	init_waitqueue_func_entry(&wo->child_wait, child_wait_callback);
	wo->child_wait.private = current;
	add_wait_queue(&current->signal->wait_chldexit, &wo->child_wait);
	for (;;) {
		wo->notask_error = -ECHILD;
		set_current_state(TASK_INTERRUPTIBLE);
		read_lock(&tasklist_lock);
		retval = do_wait_thread(wo, current);
		if (retval)
			break;
		read_unlock(&tasklist_lock);
		retval = wo->notask_error;
		if (retval || (wo->wo_flags & WNOHANG) || host_mirrors()) /* the host's kernel waits */
			break;
		if (signal_pending(current)) {
			retval = -ERESTARTSYS;
			break;
		}
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	retval = host_result(retval);
	remove_wait_queue(&current->signal->wait_chldexit, &wo->child_wait);
	return retval;
}

/* Returns the pid of an ended child, 0 with WNOHANG if none has ended, or -ECHILD. */
__noipa long kernel_wait4(pid_t upid, int *stat_addr, int options, struct rusage *ru)
{
	struct wait_opts wo = { .wo_flags = options, .wo_pid = upid };
	long ret;

	if (upid < -1 || upid == 0)
		return -EINVAL;
	ret = do_wait(&wo);
	if (ret > 0 && stat_addr && !host_mirrors() && put_user(wo.wo_stat, stat_addr))
		ret = -EFAULT;
	return ret;
}

#undef __SYSCALL_INLINE
#define __SYSCALL_INLINE __SYSCALL_OUTLINE
SYSCALL_DEFINE4(wait4, pid_t, upid, int __user *, stat_addr, int, options, struct rusage *, ru)
{
	return kernel_wait4(upid, stat_addr, options, ru);
}
#undef __SYSCALL_INLINE
#define __SYSCALL_INLINE __always_inline
