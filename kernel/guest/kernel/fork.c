/* fork.c: new tasks. */
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/kthread.h>
#include <linux/fdtable.h>
#include <linux/fs_struct.h>
#include <linux/random.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <linux/string.h>
#include <trace/events/sched.h>
#include <trace/events/task.h>
#include <linux/host.h>

DEFINE_RWLOCK(tasklist_lock);
int nr_threads, max_threads = 8192;
unsigned long total_forks;
static struct kmem_cache *task_struct_cachep, *signal_cachep, *sighand_cachep;

int arch_dup_task_struct(struct task_struct *dst, struct task_struct *src);
int copy_thread(struct task_struct *p, const struct kernel_clone_args *args);
void sched_cgroup_fork(struct task_struct *p, struct kernel_clone_args *kargs);
void release_thread(struct task_struct *dead_task);

/*
 * Stacks are in the vmalloc area, where no page is mapped after each: an overflow faults.
 * Stacks of tasks that have ended are kept for new ones, and freed by new ones if they are
 * many, since tasks are freed where vfree cannot be called.
 */
#define NR_CACHED_STACKS 16
struct cached_stack { struct cached_stack *next; };
static struct cached_stack *cached_stacks;
static int nr_cached_stacks;
static DEFINE_SPINLOCK(cached_stacks_lock);

/* Takes a stack if more than keep are there. */
static void *take_stack(int keep)
{
	struct cached_stack *s = NULL;
	unsigned long flags;

	spin_lock_irqsave(&cached_stacks_lock, flags);
	if (nr_cached_stacks > keep) {
		s = cached_stacks;
		cached_stacks = s->next;
		nr_cached_stacks--;
	}
	spin_unlock_irqrestore(&cached_stacks_lock, flags);
	return s;
}

static void thread_stack_free(struct task_struct *tsk)
{
	struct cached_stack *s = tsk->stack;
	unsigned long flags;

	spin_lock_irqsave(&cached_stacks_lock, flags);
	s->next = cached_stacks;
	cached_stacks = s;
	nr_cached_stacks++;
	spin_unlock_irqrestore(&cached_stacks_lock, flags);
}

static int alloc_thread_stack_node(struct task_struct *tsk, int node)
{
	int i;

	for (i = 0; i < 2; i++)
		vfree(take_stack(NR_CACHED_STACKS));
	tsk->stack = take_stack(0);
	if (tsk->stack)
		memset(tsk->stack, 0, THREAD_SIZE);
	else
		tsk->stack = __vmalloc_node_range(THREAD_SIZE, THREAD_ALIGN, GFP_KERNEL | __GFP_ZERO, __builtin_return_address(0));
	return tsk->stack ? 0 : -ENOMEM;
}

static void free_task(struct task_struct *tsk)
{
	if (tsk->kthread)
		free_kthread_struct(tsk);
	kfree(tsk->host_call);
	if (tsk->stack)
		thread_stack_free(tsk);
	kmem_cache_free(task_struct_cachep, tsk);
}

static void __put_signal_struct(struct signal_struct *sig)
{
	if (refcount_dec_and_test(&sig->sigcnt))
		kmem_cache_free(signal_cachep, sig);
}

static void __put_task_struct_rcu(struct callback_head *rcu)
{
	struct task_struct *tsk = container_of(rcu, struct task_struct, rcu);

	trace_sched_process_free(tsk);
	free_task(tsk);
}

/* The last reference was dropped. An interrupt may still use the task, so it is freed
 * by RCU. */
void __put_task_struct(struct task_struct *tsk)
{
	exit_creds(tsk);
	if (tsk->signal)
		__put_signal_struct(tsk->signal);
	call_rcu(&tsk->rcu, __put_task_struct_rcu);
}
EXPORT_SYMBOL(__put_task_struct);

static struct task_struct *dup_task_struct(struct task_struct *orig, int node)
{
	struct task_struct *tsk = kmem_cache_alloc_node(task_struct_cachep, GFP_KERNEL, node);

	if (!tsk)
		return NULL;
	if (arch_dup_task_struct(tsk, orig))
		goto free_tsk;
	tsk->stack = NULL;
	tsk->kthread = NULL;
	if (alloc_thread_stack_node(tsk, node))
		goto free_tsk;
	tsk->stack_canary = get_random_u64() & ~0xffUL;
	tsk->thread_info.flags = 0;
	refcount_set(&tsk->usage, 2);	/* references: the scheduler's and the reaper's */
	tsk->on_cpu = 0;
	tsk->cpus_ptr = &tsk->cpus_mask;
	init_llist_head(&tsk->kretprobe_instances);
	init_llist_head(&tsk->rethooks);
	tsk->worker_private = NULL;
	tsk->host_call = NULL;
	tsk->task_works = NULL;
	tsk->journal_info = NULL;
	tsk->pagefault_disabled = 0;
	return tsk;
free_tsk:
	kmem_cache_free(task_struct_cachep, tsk);
	return NULL;
}

static noinline void mm_init(struct mm_struct *mm, struct task_struct *p)
{
	memset(mm, 0, sizeof(*mm));
	INIT_LIST_HEAD(&mm->mm_list);
	INIT_LIST_HEAD(&mm->mmlist);
	atomic_set(&mm->mm_users, 1);
	atomic_set(&mm->mm_count, 1);
	init_rwsem(&mm->mmap_lock);
	spin_lock_init(&mm->page_table_lock);
	mm->owner = p;
	mm->task_size = TASK_SIZE;
}

static struct kmem_cache *mm_cachep;

void mm_place(struct mm_struct *mm);

struct mm_struct *mm_alloc(void)
{
	struct mm_struct *mm = kmem_cache_alloc(mm_cachep, GFP_KERNEL);

	if (!mm)
		return NULL;
	mm_init(mm, current);
	mm_place(mm);
	return mm;
}

noinline void __mmdrop(struct mm_struct *mm)
{
	kmem_cache_free(mm_cachep, mm);
}

static noinline notrace void __mmput(struct mm_struct *mm)
{
#if GUEST_LINUX >= 612
	if (mm->merge & MERGE_ABLE)
		__ksm_exit(mm);
#endif
	exit_mmap(mm);
	mmdrop(mm);
}

void mmput(struct mm_struct *mm)
{
	might_sleep();
	if (atomic_dec_and_test(&mm->mm_users))
		__mmput(mm);
}
EXPORT_SYMBOL(mmput);

static int copy_mm(unsigned long clone_flags, struct task_struct *tsk)
{
	struct mm_struct *mm = current->mm;

	tsk->mm = tsk->active_mm = NULL;
	tsk->min_flt = tsk->maj_flt = 0;
	if (!mm)
		return 0;
	if (clone_flags & CLONE_VM) {
		atomic_inc(&mm->mm_users);
	} else {
		mm = dup_mm(tsk, mm);
		if (!mm)
			return -ENOMEM;
	}
	tsk->mm = tsk->active_mm = mm;
	return 0;
}

static int copy_fs(unsigned long clone_flags, struct task_struct *tsk)
{
	struct fs_struct *fs = current->fs;

	if (!fs)
		return 0;
	if (clone_flags & CLONE_FS) {
		spin_lock(&fs->lock);
		fs->users++;
		spin_unlock(&fs->lock);
		return 0;
	}
	tsk->fs = copy_fs_struct(fs);
	return tsk->fs ? 0 : -ENOMEM;
}

static int copy_files(unsigned long clone_flags, struct task_struct *tsk)
{
	struct files_struct *oldf = current->files, *newf;
	int error = 0;

	if (!oldf)
		return 0;
	if (clone_flags & CLONE_FILES) {
		atomic_inc(&oldf->count);
		return 0;
	}
	newf = dup_fd(oldf, ~0U, &error);
	if (!newf)
		return error;
	tsk->files = newf;
	return 0;
}

static int copy_sighand(unsigned long clone_flags, struct task_struct *tsk)
{
	struct sighand_struct *sig;

	if (clone_flags & CLONE_SIGHAND) {
		refcount_inc(&current->sighand->count);
		return 0;
	}
	sig = kmem_cache_alloc(sighand_cachep, GFP_KERNEL);
	if (!sig)
		return -ENOMEM;
	tsk->sighand = sig;
	refcount_set(&sig->count, 1);
	spin_lock_init(&sig->siglock);
	init_waitqueue_head(&sig->signalfd_wqh);
	memcpy(sig->action, current->sighand->action, sizeof(sig->action));
	return 0;
}

void __cleanup_sighand(struct sighand_struct *sighand)
{
	if (refcount_dec_and_test(&sighand->count))
		kmem_cache_free(sighand_cachep, sighand);
}

static int copy_signal(unsigned long clone_flags, struct task_struct *tsk)
{
	struct signal_struct *sig;

	if (clone_flags & CLONE_THREAD) {
		refcount_inc(&tsk->signal->sigcnt);
		atomic_inc(&tsk->signal->live);
		tsk->signal->nr_threads++;
		return 0;
	}
	sig = kmem_cache_zalloc(signal_cachep, GFP_KERNEL);
	tsk->signal = sig;
	if (!sig)
		return -ENOMEM;
	refcount_set(&sig->sigcnt, 1);
	atomic_set(&sig->live, 1);
	sig->nr_threads = 1;
	INIT_LIST_HEAD(&sig->thread_head);
	init_waitqueue_head(&sig->wait_chldexit);
	memcpy(sig->rlim, current->signal->rlim, sizeof(sig->rlim));
	return 0;
}

static void copy_comm_and_times(struct task_struct *p)
{
	p->utime = p->stime = p->gtime = p->utimescaled = 0;
	p->start_time = ktime_get();
	p->start_boottime = p->start_time;
	p->nvcsw = p->nivcsw = 0;
	p->rcu_tasks_holdout = 0;
}

static void init_task_lists(struct task_struct *p)
{
	INIT_LIST_HEAD(&p->children);
	INIT_LIST_HEAD(&p->sibling);
	INIT_LIST_HEAD(&p->ptraced);
	INIT_LIST_HEAD(&p->ptrace_entry);
	INIT_LIST_HEAD(&p->thread_group);
	INIT_LIST_HEAD(&p->tasks);
	INIT_LIST_HEAD(&p->pending.list);
	p->pending.signal = 0;
	spin_lock_init(&p->alloc_lock);
	raw_spin_lock_init(&p->pi_lock);
	p->vfork_done = NULL;
	p->set_child_tid = p->clear_child_tid = NULL;
	p->exit_state = 0;
}

/* Adds the new task to the lists. */
static void link_task(struct task_struct *p, struct pid *pid, u64 clone_flags)
{
	write_lock_irq(&tasklist_lock);
	if (clone_flags & (CLONE_PARENT | CLONE_THREAD)) {
		p->real_parent = current->real_parent;
		p->exit_signal = clone_flags & CLONE_THREAD ? -1 : current->group_leader->exit_signal;
	} else {
		p->real_parent = current;
	}
	p->parent = p->real_parent;
	p->thread_pid = pid;
	if (!(clone_flags & CLONE_THREAD)) {
		p->signal->pids[PIDTYPE_TGID] = pid;
		list_add_tail(&p->sibling, &p->real_parent->children);
		attach_pid(p, PIDTYPE_TGID);
	}
	list_add_tail(&p->tasks, &init_task.tasks);
	list_add_tail(&p->thread_node, &p->signal->thread_head);
	attach_pid(p, PIDTYPE_PID);
	nr_threads++;
	total_forks++;
	write_unlock_irq(&tasklist_lock);
}

/* Allocates a pid. A task that stands for a thread of the host gets the thread's ID.
 * */
static struct pid *new_pid(struct kernel_clone_args *args)
{
	pid_t tid = host_chosen_tid();
	struct pid *pid = tid > 0 ? alloc_pid(&init_pid_ns, &tid, 1) : NULL;

	return IS_ERR_OR_NULL(pid) ? alloc_pid(&init_pid_ns, args->set_tid, args->set_tid_size) : pid;
}

struct task_struct *copy_process(struct pid *pid, int trace, int node, struct kernel_clone_args *args)
{
	const u64 clone_flags = args->flags;
	struct task_struct *p;
	int retval;

	if ((clone_flags & CLONE_THREAD) && !(clone_flags & CLONE_SIGHAND))
		return ERR_PTR(-EINVAL);
	if ((clone_flags & CLONE_SIGHAND) && !(clone_flags & CLONE_VM))
		return ERR_PTR(-EINVAL);
	spin_lock_irq(&current->sighand->siglock);
	recalc_sigpending();
	spin_unlock_irq(&current->sighand->siglock);
	if (signal_pending(current) && !args->idle)
		return ERR_PTR(-ERESTARTNOINTR);
	p = dup_task_struct(current, node);
	if (!p)
		return ERR_PTR(-ENOMEM);
	p->flags &= ~(PF_KTHREAD | PF_WQ_WORKER | PF_IDLE | PF_NO_SETAFFINITY);
	if (args->kthread || args->idle)
		p->flags |= PF_KTHREAD;
	p->flags |= PF_FORKNOEXEC;
	init_task_lists(p);
	retval = -EAGAIN;
	if (nr_threads >= max_threads)
		goto bad_fork_free;
	retval = copy_creds(p, clone_flags);
	if (retval < 0)
		goto bad_fork_free;
	copy_comm_and_times(p);
	retval = sched_fork(clone_flags, p);
	if (!retval)
		retval = copy_files(clone_flags, p);
	if (retval)
		goto bad_fork_creds;
	retval = copy_fs(clone_flags, p);
	if (retval)
		goto bad_fork_files;
	retval = copy_sighand(clone_flags, p);
	if (retval)
		goto bad_fork_fs;
	retval = copy_signal(clone_flags, p);
	if (retval)
		goto bad_fork_sighand;
	retval = copy_mm(clone_flags, p);
	if (retval)
		goto bad_fork_signal;
	retval = copy_thread(p, args);
	if (retval)
		goto bad_fork_mm;
	if (args->kthread && !set_kthread_struct(p)) {
		retval = -ENOMEM;
		goto bad_fork_mm;
	}
	if (pid != &init_struct_pid) {
		pid = new_pid(args);
		if (IS_ERR(pid)) {
			retval = PTR_ERR(pid);
			goto bad_fork_mm;
		}
	}
	p->pid = pid_nr(pid);
	if (clone_flags & CLONE_THREAD) {
		p->group_leader = current->group_leader;
		p->tgid = current->tgid;
	} else {
		p->group_leader = p;
		p->tgid = p->pid;
	}
	p->exit_signal = args->exit_signal;
	sched_cgroup_fork(p, args);
	if (args->idle)
		return p;
	host_fork(p);
	link_task(p, pid, clone_flags);
	sched_post_fork(p);
	trace_task_newtask(p, clone_flags);
	return p;

bad_fork_mm:
	if (p->mm)
		mmput(p->mm);
bad_fork_signal:
	__put_signal_struct(p->signal);
bad_fork_sighand:
	__cleanup_sighand(p->sighand);
bad_fork_fs:
	if (p->fs)
		exit_fs(p);
bad_fork_files:
	if (p->files)
		exit_files(p);
bad_fork_creds:
	exit_creds(p);
bad_fork_free:
	free_task(p);
	return ERR_PTR(retval);
}

static int wait_for_vfork_done(struct task_struct *child, struct completion *vfork)
{
	int killed = wait_for_completion_killable(vfork);

	if (killed) {
		task_lock(child);
		child->vfork_done = NULL;
		task_unlock(child);
	}
	put_task_struct(child);
	return killed;
}

/*
 * Makes a task, starts it and returns its pid or -errno. In older releases this is
 * do_fork, with that function's arguments.
 */
#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
static __always_inline pid_t clone_task(struct kernel_clone_args *args)
#else
pid_t kernel_clone(struct kernel_clone_args *args)
#endif
{
	u64 clone_flags = args->flags;
	struct completion vfork;
	struct pid *pid;
	struct task_struct *p;
	pid_t nr;

	p = copy_process(NULL, 0, -1, args);
	if (IS_ERR(p))
		return PTR_ERR(p);
	trace_sched_process_fork(current, p);
	pid = get_task_pid(p, PIDTYPE_PID);
	nr = pid_vnr(pid);
	if (clone_flags & CLONE_PARENT_SETTID)
		put_user(nr, args->parent_tid);
	if (host_chosen_tid())
		clone_flags &= ~CLONE_VFORK;	/* the host's process does the waiting */
	if (clone_flags & CLONE_VFORK) {
		p->vfork_done = &vfork;
		init_completion(&vfork);
		get_task_struct(p);
	}
	wake_up_new_task(p);
	if (clone_flags & CLONE_VFORK)
		wait_for_vfork_done(p, &vfork);
	put_pid(pid);
	return nr;
}

#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
/* A kernel thread: its function is passed as the stack. The first one becomes a
 * program. */
static void kernel_args(struct kernel_clone_args *args, unsigned long fn, unsigned long arg)
{
	args->fn = (int (*)(void *))fn;
	args->fn_arg = (void *)arg;
	args->kthread = current->pid || args->flags & CLONE_FILES;
	args->stack = args->stack_size = 0;
}
#endif

#ifdef KERNEL_2_6
/* regs are the child's initial registers. */
noinline long do_fork(unsigned long clone_flags, unsigned long stack_start, struct pt_regs *regs,
		      unsigned long stack_size, int __user *parent_tidptr, int __user *child_tidptr)
{
	struct kernel_clone_args args = {
		.flags = clone_flags & ~CSIGNAL, .exit_signal = clone_flags & CSIGNAL, .stack = stack_start,
		.stack_size = stack_size, .parent_tid = parent_tidptr, .child_tid = child_tidptr, .tls = regs->r8,
	};

	if (regs != task_pt_regs(current))
		kernel_args(&args, regs->si, regs->di);
	return clone_task(&args);
}

static pid_t fork_by(struct kernel_clone_args *args)
{
	struct pt_regs *regs = task_pt_regs(current), of_kernel = { .si = (unsigned long)args->fn, .di = (unsigned long)args->fn_arg };

	if (args->flags & CLONE_SETTLS)
		regs->r8 = args->tls;
	return do_fork(args->flags | args->exit_signal, args->fn ? 0 : args->stack ?: regs->sp,
		       args->fn ? &of_kernel : regs, args->stack_size, args->parent_tid, args->child_tid);
}
#elif defined(KERNEL_4_15)
noinline long do_fork(unsigned long clone_flags, unsigned long stack_start, unsigned long stack_size,
		      int __user *parent_tidptr, int __user *child_tidptr, unsigned long tls)
{
	struct kernel_clone_args args = {
		.flags = clone_flags & ~CSIGNAL, .exit_signal = clone_flags & CSIGNAL, .stack = stack_start,
		.stack_size = stack_size, .parent_tid = parent_tidptr, .child_tid = child_tidptr, .tls = tls,
	};

	if ((long)stack_start < 0)
		kernel_args(&args, stack_start, stack_size);
	return clone_task(&args);
}

static pid_t fork_by(struct kernel_clone_args *args)
{
	return do_fork(args->flags | args->exit_signal, args->fn ? (unsigned long)args->fn : args->stack,
		       args->fn ? (unsigned long)args->fn_arg : args->stack_size, args->parent_tid, args->child_tid, args->tls);
}
#endif
#if defined(KERNEL_2_6) || defined(KERNEL_4_15)
#define kernel_clone fork_by
#endif

pid_t kernel_thread(int (*fn)(void *), void *arg, unsigned long flags)
{
	struct kernel_clone_args args = {
		.flags = ((lower_32_bits(flags) | CLONE_VM | CLONE_UNTRACED) & ~CSIGNAL),
		.exit_signal = (lower_32_bits(flags) & CSIGNAL),
		.fn = fn, .fn_arg = arg, .kthread = 1,
	};

	return kernel_clone(&args);
}

pid_t user_mode_thread(int (*fn)(void *), void *arg, unsigned long flags)
{
	struct kernel_clone_args args = {
		.flags = ((lower_32_bits(flags) | CLONE_VM | CLONE_UNTRACED) & ~CSIGNAL),
		.exit_signal = (lower_32_bits(flags) & CSIGNAL),
		.fn = fn, .fn_arg = arg,
	};

	return kernel_clone(&args);
}

static int idle_dummy(void *dummy)
{
	return 0;
}

struct task_struct * __init fork_idle(int cpu)
{
	struct kernel_clone_args args = { .flags = CLONE_VM, .fn = idle_dummy, .kthread = 1, .idle = 1 };
	struct task_struct *task = copy_process(&init_struct_pid, 0, 0, &args);

	if (!IS_ERR(task))
		init_idle(task, cpu);
	return task;
}

#undef __SYSCALL_INLINE
#define __SYSCALL_INLINE __SYSCALL_OUTLINE

SYSCALL_DEFINE0(fork)
{
	struct kernel_clone_args args = { .exit_signal = SIGCHLD };

	return kernel_clone(&args);
}

SYSCALL_DEFINE0(vfork)
{
	struct kernel_clone_args args = { .flags = CLONE_VFORK | CLONE_VM, .exit_signal = SIGCHLD };

	return kernel_clone(&args);
}

SYSCALL_DEFINE5(clone, unsigned long, clone_flags, unsigned long, newsp, int __user *, parent_tidptr,
		int __user *, child_tidptr, unsigned long, tls)
{
	struct kernel_clone_args args = {
		.flags = lower_32_bits(clone_flags) & ~CSIGNAL,
		.child_tid = child_tidptr, .parent_tid = parent_tidptr,
		.exit_signal = lower_32_bits(clone_flags) & CSIGNAL,
		.stack = newsp, .tls = tls,
	};

	return kernel_clone(&args);
}

/* Arguments of clone3. */
struct clone_args {
	u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	u64 set_tid, set_tid_size, cgroup;
};
#define CLONE_ARGS_SIZE_VER0 64

SYSCALL_DEFINE2(clone3, struct clone_args __user *, uargs, size_t, size)
{
	struct clone_args u = { 0 };
	struct kernel_clone_args args;

	if (size < CLONE_ARGS_SIZE_VER0)
		return -EINVAL;
	if (size > sizeof(u))
		return -E2BIG;
	if (copy_from_user(&u, uargs, size))
		return -EFAULT;
	if (u.exit_signal & ~(u64)CSIGNAL || u.flags & CSIGNAL || u.set_tid_size || !u.stack != !u.stack_size)
		return -EINVAL;
	args = (struct kernel_clone_args){
		.flags = u.flags, .child_tid = (int __user *)u.child_tid, .parent_tid = (int __user *)u.parent_tid,
		.exit_signal = u.exit_signal, .stack = u.stack ? u.stack + u.stack_size : 0, .stack_size = u.stack_size, .tls = u.tls,
	};
	return kernel_clone(&args);
}

void __set_task_comm(struct task_struct *tsk, const char *buf, bool exec)
{
	task_lock(tsk);
	trace_task_rename(tsk, buf);
	strscpy(tsk->comm, buf, sizeof(tsk->comm));
	task_unlock(tsk);
}

char *__get_task_comm(char *buf, size_t buf_size, struct task_struct *tsk)
{
	task_lock(tsk);
	strscpy(buf, tsk->comm, buf_size);
	task_unlock(tsk);
	return buf;
}
EXPORT_SYMBOL(__get_task_comm);

static void sighand_ctor(void *data)
{
	struct sighand_struct *sighand = data;

	spin_lock_init(&sighand->siglock);
}

void __init fork_init(void)
{
	task_struct_cachep = kmem_cache_create("task_struct", sizeof(struct task_struct), 64, SLAB_PANIC | SLAB_ACCOUNT, NULL);
	sighand_cachep = kmem_cache_create("sighand_cache", sizeof(struct sighand_struct), 64, SLAB_PANIC, sighand_ctor);
	signal_cachep = kmem_cache_create("signal_cache", sizeof(struct signal_struct), 64, SLAB_PANIC, NULL);
	mm_cachep = kmem_cache_create("mm_struct", sizeof(struct mm_struct), 64, SLAB_PANIC, NULL);
}
