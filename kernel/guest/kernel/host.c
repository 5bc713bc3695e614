/*
 * host.c: tasks that stand for threads of the host. Instead of user mode they have a
 * loop that gets the next call from the host, executes it as a system call or a
 * function call, and reports the result.
 */
#include <linux/sched.h>
#include <linux/host.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/fdtable.h>
#include <linux/hostfs.h>
#include <linux/fs.h>
#include <linux/fs_struct.h>
#include <linux/string.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include <linux/interrupt.h>

typedef u64 (*host_func_t)(u64, u64, u64, u64, u64);
void entry_SYSCALL_64(struct pt_regs *regs, int nr);
long host_filp_close(unsigned int fd) __weak;
long host_release(unsigned int fd) __weak;
long host_file_mode(unsigned int fd) __weak;
long host_poll(unsigned int fd, unsigned int seen, bool wait) __weak;
void host_mirror_begin(struct host_call *call) __weak;
void do_task_dead(void) __noreturn;
void task_work_run(void);
void rcu_tasks_qs(struct task_struct *t);

/*
 * The descriptors of a process of the host. All tasks that stand for its threads
 * share them. A task of another process shares them for the time of a call on an
 * inherited file that this process has opened.
 */
struct host_files {
	struct hlist_node node;
	u64 owner;	/* the process's ID on the host */
	struct files_struct *files;	/* the list holds a reference */
};

#define HOST_FILES_BUCKETS 256
static struct hlist_head host_files[HOST_FILES_BUCKETS];
static DEFINE_SPINLOCK(host_files_lock);
static unsigned int nr_host_files, sweep_host_files = 64;
static struct host_files host_files_unknown;	/* for processes that the host cannot tell apart */
static u64 host_calls[NR_CPUS + 1];

struct host_call *current_host_call(void)
{
	return current->host_call;
}

/* The host's part asks the waiting task to call a function. */
static void host_file_op_func(struct host_call *call)
{
	u64 (*fn)(u64, u64) = (u64 (*)(u64, u64))call->func[0];

	u64 nr = call->nr;

	smp_store_release(&call->op_done, 0);
	call->nr = HOST_CALL_FUNC;	/* the function must not look names up by the call */
	call->op_ret = fn(call->func[1], call->func[2]);
	call->nr = nr;
	hypercall2(HC_FILE_OP, call, FILE_OP_CALLED);
}

ssize_t host_file_op(struct host_call *call, int op, u64 a, u64 b)
{
	ssize_t ret;
	u32 done;

	call->op_arg[0] = a;
	call->op_arg[1] = b;
	call->op = op;
	smp_store_release(&call->op_done, 0);
	ret = hypercall2(HC_FILE_OP, call, op);
	if (ret < 0)
		return ret;
	for (;;) {
		set_current_state(op == FILE_OP_MADE && !signal_pending(current) ? TASK_INTERRUPTIBLE : TASK_KILLABLE);
		done = smp_load_acquire(&call->op_done);
		if (done == 1) {
			ret = call->op_ret;
			break;
		}
		if (done) {
			__set_current_state(TASK_RUNNING);
			host_file_op_func(call);
			continue;
		}
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return ret;
}

static u64 host_call_func(struct host_call *call)
{
	host_func_t fn = (host_func_t)call->args[0];
	u64 i, ret = 0;

	for (i = 0; i < READ_ONCE(call->count); i++) {	/* the host sets it to 0 when the caller no longer waits */
		ret = fn(call->args[1], call->args[2], call->args[3], call->args[4], call->args[5]);
		cond_resched();
		rcu_tasks_qs(current);	/* as on a return to user mode */
	}
	return ret;
}

static u64 host_syscall(struct host_call *call)
{
	struct pt_regs *regs = task_pt_regs(current);

	memset(regs, 0, sizeof(*regs));
	regs->di = call->args[0];
	regs->si = call->args[1];
	regs->dx = call->args[2];
	regs->r10 = call->args[3];
	regs->r8 = call->args[4];
	regs->r9 = call->args[5];
	regs->orig_ax = call->nr;
	regs->cs = __USER_CS;
	regs->ss = __USER_DS;
	regs->flags = 0x202;
	entry_SYSCALL_64(regs, call->nr);
	return regs->ax;
}

static u64 host_new_task(struct host_call *call);

/* Moves tables without tasks and without open files to gone. Called with
 * host_files_lock held. */
static __always_inline void take_unused_files(struct hlist_head *gone)
{
	struct host_files *t;
	struct hlist_node *next;
	unsigned int i;

	for (i = 0; i < HOST_FILES_BUCKETS; i++)
		hlist_for_each_entry_safe(t, next, &host_files[i], node) {
			if (atomic_read(&t->files->count) > 1 || host_files_used(t->files))
				continue;
			hlist_del(&t->node);
			hlist_add_head(&t->node, gone);
			nr_host_files--;
		}
	sweep_host_files = 2 * nr_host_files + 64;
}

static void free_host_files(struct host_files *t)
{
	put_files_struct(t->files);
	kfree(t);
}

/* Called with host_files_lock held, so that the table is not freed before its count
 * is increased. */
static struct host_files *find_host_files(u64 owner)
{
	struct host_files *t;

	hlist_for_each_entry(t, &host_files[owner % HOST_FILES_BUCKETS], node)
		if (t->owner == owner) {
			atomic_inc(&t->files->count);
			return t;
		}
	return NULL;
}

static struct host_files *alloc_host_files(u64 owner)
{
	struct host_files *t = kzalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return NULL;
	t->owner = owner;
	t->files = host_files_new();
	if (!t->files) {
		kfree(t);
		return NULL;
	}
	return t;
}

/* Returns the table of a process with a new reference, or NULL if there is no memory.
 * */
static __always_inline struct host_files *get_host_files(u64 owner)
{
	struct host_files *t, *fresh;
	struct hlist_head gone = HLIST_HEAD_INIT;
	struct hlist_node *next;

	if (!owner) {
		atomic_inc(&host_files_unknown.files->count);
		return &host_files_unknown;
	}
	spin_lock(&host_files_lock);
	t = find_host_files(owner);
	spin_unlock(&host_files_lock);
	if (t)
		return t;
	fresh = alloc_host_files(owner);
	if (!fresh)
		return NULL;
	spin_lock(&host_files_lock);
	t = find_host_files(owner);
	if (!t) {
		if (nr_host_files >= sweep_host_files)
			take_unused_files(&gone);
		t = fresh;
		fresh = NULL;
		atomic_inc(&t->files->count);
		hlist_add_head(&t->node, &host_files[owner % HOST_FILES_BUCKETS]);
		nr_host_files++;
	}
	spin_unlock(&host_files_lock);
	if (fresh)
		free_host_files(fresh);
	hlist_for_each_entry_safe(fresh, next, &gone, node)
		free_host_files(fresh);
	return t;
}

/* Makes the current task use the descriptors of a process of the host. Returns 0 or
 * -ENOMEM. */
static int use_host_files(struct host_call *call, u64 owner)
{
	struct files_struct *old = current->files;
	struct host_files *t;

	if (call->table && call->table->owner == owner)
		return 0;
	t = get_host_files(owner);
	if (!t)
		return -ENOMEM;
	task_lock(current);
	current->files = t->files;
	task_unlock(current);
	call->table = t;
	if (old)
		put_files_struct(old);
	return 0;
}

/* Closes the descriptors of a process that ends, of which its mirrored calls have told. */
static void close_exit_files(struct host_call *call)
{
	u64 owner = current->signal->host_files;
	unsigned int fd;

	current->signal->host_files = 0;
	if (!owner || use_host_files(call, owner))
		return;
	for (fd = 0; fd < current->files->fdt->max_fds; fd++)
		if (current->files->fdt->fd[fd])
			host_drop(fd);
}

/* Closes the descriptors without which the task's new program does. */
static void close_exec_files(struct host_call *call)
{
	struct host_files *t;

	if (!call->files)
		return;
	spin_lock(&host_files_lock);
	t = find_host_files(call->files | MIRROR_TABLE);
	spin_unlock(&host_files_lock);
	if (!t)
		return;
	put_files_struct(t->files);
	if (use_host_files(call, t->owner))
		return;
	do_close_on_exec(current->files);
	use_host_files(call, call->files);
}

void host_close_files(bool ends)
{
	if (current->host_call && ends)
		close_exit_files(current->host_call);
	else if (current->host_call)
		close_exec_files(current->host_call);
}

/* Gives a new process the sockets of the one that has made it. What else it has is learned when
 * it is used. */
static void share_sockets(struct task_struct *p)
{
	struct host_call *call = current->host_call;
	struct host_files *from, *to;
	struct file *file, *old;
	unsigned int fd;

	spin_lock(&host_files_lock);
	from = find_host_files(call->files | MIRROR_TABLE);
	spin_unlock(&host_files_lock);
	if (!from)
		return;
	to = get_host_files(p->tgid | MIRROR_TABLE);
	for (fd = 0; to && fd < from->files->fdt->max_fds; fd++) {
		file = from->files->fdt->fd[fd];
		if (!file || !S_ISSOCK(file->f_inode->i_mode))
			continue;
		get_file(file);
		old = host_install(to->files, fd, file);
		if (!IS_ERR_OR_NULL(old))
			fput(old);
		else if (IS_ERR(old))
			fput(file);
		else if (test_bit(fd, from->files->fdt->close_on_exec))
			__set_bit(fd, to->files->fdt->close_on_exec);
		p->signal->host_files = to->owner;
	}
	if (to)
		put_files_struct(to->files);
	put_files_struct(from->files);
}

/* Reports whether a call may open, use or close descriptors. */
static bool host_needs_files(struct host_call *call)
{
	return call->nr < HOST_CALL_FUNC || call->nr == HOST_FILP_CLOSE || call->nr == HOST_RELEASE ||
	       call->nr == HOST_FILE_MODE || call->nr == HOST_POLL;
}

void host_interrupt(struct task_struct *p, bool kill)
{
	struct host_call *call = READ_ONCE(p->host_call);

	if (!call)
		return;
	WRITE_ONCE(call->interrupted, true);
	if (kill)
		p->pending.signal |= 1ULL << (SIGKILL - 1);
	signal_wake_up(p, kill);
}

/* Runs a call. Returns false if the task must exit. */
static bool host_run(struct host_call *call)
{
	if (host_needs_files(call)) {
		call->ret = use_host_files(call, call->files);
		if (call->ret)
			return true;
	}
	switch (call->nr) {
	case HOST_CALL_FUNC:
		call->ret = host_call_func(call);
		break;
	case HOST_NEW_TASK:
		call->ret = host_new_task(call);
		break;
	case HOST_EXIT_TASK:
		call->ret = 0;
		return false;
	case HOST_FILP_CLOSE:
		call->ret = host_filp_close ? host_filp_close(call->args[0]) : -ENOSYS;
		break;
	case HOST_RELEASE:
		call->ret = host_release ? host_release(call->args[0]) : -ENOSYS;
		break;
	case HOST_FILE_MODE:
		call->ret = host_file_mode ? host_file_mode(call->args[0]) : -ENOSYS;
		break;
	case HOST_POLL:
		call->ret = host_poll ? host_poll(call->args[0], call->args[1], call->args[2]) : -ENOSYS;
		break;
	case HOST_FORGET:
		current->signal->host_files = call->args[0];
		call->ret = 0;
		break;
	case HOST_KILLED:
		if (call->args[1]) {
			current->signal->group_exit_code = call->args[1];
			current->signal->flags |= SIGNAL_GROUP_EXIT;
		}
		do_group_exit(call->args[0]);
	case HOST_NOP:
		call->ret = 0;
		break;
	default:
		if (call->nr >= 0x10000) {
			call->ret = -ENOSYS;
			break;
		}
		if (call->mirror)
			host_mirror_begin(call);
		call->ret = host_syscall(call);
	}
	return true;
}

/*
 * Sleeps until the host has a call. Returns false if the task must exit. HC_NEXT
 * returns an error while the host does not know the task yet.
 */
static bool host_next(struct host_call *call)
{
	long r;

	for (;;) {
		if (signal_pending(current))
			flush_signals(current);
		set_current_state(TASK_INTERRUPTIBLE);
		r = hypercall1(HC_NEXT, call);
		if (r == 1 || r == -1)
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	if (call->interrupted) {	/* what interrupted the call before this one came late */
		WRITE_ONCE(call->interrupted, false);
		flush_signals(current);
	}
	return r == 1;
}

/*
 * Reports the end of a call. If no other task waits, the host may leave the CPU as it is
 * until it has the next call, an interrupt comes, or a task is woken here
 * (host_task_waits).
 */
static void host_done(struct host_call *call, bool more)
{
	local_irq_disable();
	WRITE_ONCE(call->between, true);
	smp_mb();
	hypercall2(HC_DONE, call, more && single_task_running());
	local_irq_enable();
}

/* Called after a task was added to the queue of a CPU on which curr runs. */
void host_task_waits(int cpu, struct task_struct *curr)
{
	struct host_call *call = READ_ONCE(curr->host_call);

	smp_mb();
	if (call && READ_ONCE(call->between))
		smp_send_reschedule(cpu);
}

static void host_loop(struct host_call *call)
{
	bool more = true;

	while (more && host_next(call)) {
		WRITE_ONCE(call->between, false);
		more = host_run(call);
		host_done(call, more);
		cond_resched();
	}
}

static struct host_call *alloc_host_call(struct task_struct *p)
{
	struct host_call *call = kzalloc(sizeof(*call), GFP_KERNEL);

	if (!call)
		return NULL;
	call->task = (u64)p;
	p->host_call = call;
	return call;
}

/* Returns the pid that the host wants for the task created by this call, -1 for any,
 * or 0 if the task is not the host's. */
pid_t host_chosen_tid(void)
{
	struct host_call *call = current->host_call;

	return call && call->nr < HOST_CALL_FUNC ? call->tid : 0;
}

void host_fork(struct task_struct *p)
{
	struct host_call *call = current->host_call;
	u64 quiet;

	if (!host_chosen_tid())
		return;
	call->child = (u64)alloc_host_call(p);
	if (p->tgid == host_chosen_tid() && call->files) {
		quiet = call->quiet;
		WRITE_ONCE(call->quiet, 1);
		share_sockets(p);
		WRITE_ONCE(call->quiet, quiet);
	}
}

/* Forgets a host thread. It does not call do_exit, since the thread may still live.
 * */
static void __noreturn host_forget(void)
{
	struct task_struct *tsk = current;
	struct mm_struct *mm = tsk->mm;

	tsk->flags |= PF_EXITING;
	if (mm) {
		task_lock(tsk);
		tsk->mm = tsk->active_mm = NULL;
		task_unlock(tsk);
		mmput(mm);
	}
	exit_files(tsk);
	exit_fs(tsk);
	tsk->exit_state = EXIT_DEAD;
	release_task(tsk);
	do_task_dead();
}

/* Called by do_exit. If the call was to end the task, it is done; after an oops it
 * fails on the host. */
void host_task_exit(struct task_struct *tsk, long code)
{
	struct host_call *call = tsk->host_call;

	if (!call || ((code & 0x7f) && call->nr != HOST_KILLED))
		return;
	call->ret = 0;
	hypercall1(HC_DONE, call);
}


/* The loop of a host task. */
void host_user_mode(void)
{
	struct host_call *call = current->host_call;

	if (!call)
		call = alloc_host_call(current);
	/* fork has copied the parent's descriptors. They are dropped: files that were
	 * open in two tables would never be released. */
	if (call && !use_host_files(call, 0))
		host_loop(call);
	host_forget();
}

/*
 * args: pid, tgid, comm, and 1 + the only CPU that it may run on, or 0. If fork has
 * already made a task with this pid, that one is used.
 */
static u64 host_new_task(struct host_call *call)
{
	pid_t tid = call->args[0];
	struct kernel_clone_args args = {
		.flags = CLONE_FILES, .set_tid = &tid, .set_tid_size = tid > 0,
	};
	struct task_struct *p = tid > 0 ? find_task_by_vpid(tid) : NULL;
	struct host_call *nc;

	if (p && p->host_call && !p->host_call->id)
		return (u64)p->host_call;
	p = copy_process(NULL, 0, -1, &args);
	if (IS_ERR(p) && PTR_ERR(p) == -EEXIST) {
		args.set_tid_size = 0;	/* the ID belongs to a kernel thread */
		p = copy_process(NULL, 0, -1, &args);
	}
	if (IS_ERR(p))
		return (u64)p;
	nc = alloc_host_call(p);
	p->mm = p->active_mm = mm_alloc();
	if (p->mm)
		p->mm->owner = p;
	p->cpus_mask = *cpu_possible_mask;
	if (call->args[3])
		p->cpus_mask.bits[0] = 1UL << (call->args[3] - 1);
	p->nr_cpus_allowed = cpumask_weight(&p->cpus_mask);
	if (tid > 0) {
		p->pid = tid;
		p->tgid = call->args[1] ?: tid;
	}
	strscpy(p->comm, (const char *)call->args[2], TASK_COMM_LEN);
	wake_up_new_task(p);
	return nc ? (u64)nc : (u64)-ENOMEM;
}

static int host_thread(void *unused)
{
	host_loop(current->host_call);
	return 0;
}

static struct host_call * __init spawn_host_thread(int cpu, const char *name)
{
	struct task_struct *p = cpu < 0 ? kthread_create(host_thread, NULL, "%s", name)
					: kthread_create_on_cpu(host_thread, NULL, cpu, name);
	struct host_call *call;

	if (IS_ERR(p))
		panic("cannot create %s", name);
	call = alloc_host_call(p);
	if (!call)
		panic("no memory for %s", name);
	return call;
}

/* Starts khostd and a load/N for each CPU, and tells the host the addresses of their
 * calls. */
void __init host_init(void)
{
	unsigned int cpu;

	host_files_unknown.files = host_files_new();
	if (!host_files_unknown.files)
		panic("no memory for the host's descriptors");
	host_calls[0] = (u64)spawn_host_thread(-1, "khostd");
	for_each_online_cpu(cpu)
		host_calls[1 + cpu] = (u64)spawn_host_thread(cpu, "load/%u");
	hypercall2(HC_BOOTED, host_calls, 1 + num_online_cpus());
	/* The host knows their calls from here on. */
	for (cpu = 0; cpu <= num_online_cpus(); cpu++)
		wake_up_process((struct task_struct *)((struct host_call *)host_calls[cpu])->task);
}
