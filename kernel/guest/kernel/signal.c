/* signal.c: signals end sleeps and kill tasks. There is no user code that could
 * handle them. */
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/host.h>
#include <linux/security.h>
#include <linux/string.h>
#include <trace/events/signal.h>

static bool sig_pending_in(u64 set, int sig)
{
	return (set >> (sig - 1)) & 1;
}

struct sighand_struct *__lock_task_sighand(struct task_struct *tsk, unsigned long *flags)
{
	struct sighand_struct *sighand;

	rcu_read_lock();
	sighand = rcu_dereference(tsk->sighand);
	if (sighand)
		spin_lock_irqsave(&sighand->siglock, *flags);
	rcu_read_unlock();
	return sighand;
}

static noinline bool recalc_sigpending_tsk(struct task_struct *t)
{
	if ((t->pending.signal | t->signal->shared_pending.signal) & ~t->blocked) {
		set_tsk_thread_flag(t, TIF_SIGPENDING);
		return true;
	}
	return false;
}

void recalc_sigpending(void)
{
	if (!recalc_sigpending_tsk(current))
		clear_tsk_thread_flag(current, TIF_SIGPENDING);
}
EXPORT_SYMBOL(recalc_sigpending);

void signal_wake_up_state(struct task_struct *t, unsigned int state)
{
	set_tsk_thread_flag(t, TIF_SIGPENDING);
	if (!wake_up_state(t, state | TASK_INTERRUPTIBLE))
		kick_process(t);
}

/* Signals that are ignored by default. */
static bool sig_ignored(struct task_struct *t, int sig)
{
	return sig == SIGCHLD || sig == 23 || sig == 28 || sig == 18;
}

/*
 * A kernel thread takes only what it has allowed (allow_signal), or what the kernel sends
 * if it has allowed that (allow_kernel_signal); SIGKILL wakes it.
 */
static bool kthread_ignored(struct task_struct *t, int sig, bool force)
{
	void *handler = t->sighand->action[sig - 1].handler;

	return sig != SIGKILL && handler != SIG_KTHREAD && !(handler == SIG_KTHREAD_KERNEL && force);
}

/*
 * A process of the host sends a signal to another one, or to itself. Its effect is
 * the host's: here the task sees it and goes on, and ends when the host reports its
 * end. Tasks that are not the host's ignore it.
 */
static bool host_sends(void)
{
	struct host_call *call = current->host_call;

	return call && (call->nr == __NR_kill || call->nr == __NR_tkill || call->nr == __NR_tgkill);
}

bool prepare_signal(int sig, struct task_struct *p, bool force)
{
	if (host_sends() && !p->host_call)
		return false;
	if (p->signal->flags & SIGNAL_GROUP_EXIT)
		return sig == SIGKILL;
	if (p->flags & PF_KTHREAD)
		return !kthread_ignored(p, sig, force);
	return !sig_ignored(p, sig);
}

void complete_signal(int sig, struct task_struct *p, enum pid_type type)
{
	bool fatal = sig == SIGKILL || !sig_pending_in(p->blocked, sig);

	if (p->flags & PF_EXITING)
		return;
	if (p->flags & PF_KTHREAD && sig != SIGKILL) {
		if (!sig_pending_in(p->blocked, sig))
			signal_wake_up(p, 0);
		return;
	}
	if (host_sends()) {
		p->pending.signal &= ~(1ULL << (SIGKILL - 1));
		signal_wake_up(p, 0);
	} else if (fatal) {
		p->pending.signal |= 1ULL << (SIGKILL - 1);
		signal_wake_up(p, 1);
	} else {
		signal_wake_up(p, sig == SIGKILL);
	}
}

int __send_signal_locked(int sig, struct kernel_siginfo *info, struct task_struct *t, enum pid_type type, bool force)
{
	struct sigpending *pending = type != PIDTYPE_PID ? &t->signal->shared_pending : &t->pending;
	int result = TRACE_SIGNAL_IGNORED;

	if (!prepare_signal(sig, t, force))
		goto ret;
	result = TRACE_SIGNAL_ALREADY_PENDING;
	if (sig_pending_in(pending->signal, sig))
		goto ret;
	result = TRACE_SIGNAL_DELIVERED;
	pending->signal |= 1ULL << (sig - 1);
	complete_signal(sig, t, type);
ret:
	trace_signal_generate(sig, info, t, type != PIDTYPE_PID, result);
	return 0;
}

noinline __noclone int send_signal_locked(int sig, struct kernel_siginfo *info, struct task_struct *t, enum pid_type type)
{
	return __send_signal_locked(sig, info, t, type, info == SEND_SIG_PRIV);
}

noinline __noclone int do_send_sig_info(int sig, struct kernel_siginfo *info, struct task_struct *p, enum pid_type type)
{
	unsigned long flags;
	int ret = -ESRCH;

	if (__lock_task_sighand(p, &flags)) {
		ret = send_signal_locked(sig, info, p, type);
		spin_unlock_irqrestore(&p->sighand->siglock, flags);
	}
	return ret;
}

int send_sig_info(int sig, struct kernel_siginfo *info, struct task_struct *p)
{
	if (sig < 0 || sig > _NSIG)
		return -EINVAL;
	return do_send_sig_info(sig, info, p, PIDTYPE_PID);
}
EXPORT_SYMBOL(send_sig_info);

int send_sig(int sig, struct task_struct *p, int priv)
{
	return send_sig_info(sig, priv ? SEND_SIG_PRIV : SEND_SIG_NOINFO, p);
}
EXPORT_SYMBOL(send_sig);

noinline __noclone int check_kill_permission(int sig, struct kernel_siginfo *info, struct task_struct *t)
{
	const struct cred *cred = current_cred(), *tcred = t->cred;

	if (sig < 0 || sig > _NSIG)
		return -EINVAL;
	if (cred->euid.val != 0 && cred->euid.val != tcred->uid.val && cred->uid.val != tcred->uid.val)
		return -EPERM;
	return security_task_kill(t, info, sig, NULL);
}

int group_send_sig_info(int sig, struct kernel_siginfo *info, struct task_struct *p, enum pid_type type)
{
	int ret = check_kill_permission(sig, info, p);

	if (!ret && sig)
		ret = do_send_sig_info(sig, info, p, type);
	return ret;
}

noinline __noclone int kill_pid_info(int sig, struct kernel_siginfo *info, struct pid *pid)
{
	struct task_struct *p;
	int error = -ESRCH;

	rcu_read_lock();
	p = pid_task(pid, PIDTYPE_PID);
	if (p)
		error = group_send_sig_info(sig, info, p, PIDTYPE_TGID);
	rcu_read_unlock();
	return error;
}

/* priv: the kernel sends it. */
int kill_pid(struct pid *pid, int sig, int priv)
{
	return kill_pid_info(sig, priv ? SEND_SIG_PRIV : SEND_SIG_NOINFO, pid);
}
EXPORT_SYMBOL(kill_pid);

static __noipa int kill_something_info(int sig, struct kernel_siginfo *info, pid_t pid)
{
	int ret;

	if (pid <= 0)
		return -ESRCH;	/* there are no process groups */
	rcu_read_lock();
	ret = kill_pid_info(sig, info, find_vpid(pid));
	rcu_read_unlock();
	return ret;
}

static void user_siginfo(struct kernel_siginfo *info, int sig, int code)
{
	memset(info, 0, sizeof(*info));
	info->si_signo = sig;
	info->si_code = code;
	info->si_pid = task_tgid_nr(current);
	info->si_uid = current_cred()->uid.val;
}

SYSCALL_DEFINE2(kill, pid_t, pid, int, sig)
{
	struct kernel_siginfo info;

	user_siginfo(&info, sig, SI_USER);
	return kill_something_info(sig, &info, pid);
}

/* Sends a signal to a thread, of any process if tgid is 0. */
static __noipa int do_send_specific(pid_t tgid, pid_t pid, int sig, struct kernel_siginfo *info)
{
	struct task_struct *p;
	int error = -ESRCH;

	rcu_read_lock();
	p = find_task_by_vpid(pid);
	if (p && (!tgid || task_tgid_nr(p) == tgid)) {
		error = check_kill_permission(sig, info, p);
		if (!error && sig && do_send_sig_info(sig, info, p, PIDTYPE_PID) == -EINVAL)
			error = -EINVAL;	/* ESRCH: the thread is exiting, which counts as sent */
	}
	rcu_read_unlock();
	return error;
}

static __noipa int do_tkill(pid_t tgid, pid_t pid, int sig)
{
	struct kernel_siginfo info;

	user_siginfo(&info, sig, SI_TKILL);
	return do_send_specific(tgid, pid, sig, &info);
}

SYSCALL_DEFINE2(tkill, pid_t, pid, int, sig)
{
	return pid <= 0 ? -EINVAL : do_tkill(0, pid, sig);
}

SYSCALL_DEFINE3(tgkill, pid_t, tgid, pid_t, pid, int, sig)
{
	return pid <= 0 || tgid <= 0 ? -EINVAL : do_tkill(tgid, pid, sig);
}

/*
 * Takes the lowest signal that is pending. A task that is to be killed ends here. Returns
 * false: a handler, and what else a signal does to a program, is the host's; the signals go
 * away when the task's next call begins.
 */
bool get_signal(struct ksignal *ksig)
{
	u64 pending;

	if (fatal_signal_pending(current) && !(current->host_call && current->host_call->interrupted))
		do_group_exit(SIGKILL);
	spin_lock_irq(&current->sighand->siglock);
	pending = (current->pending.signal | current->signal->shared_pending.signal) & ~current->blocked;
	spin_unlock_irq(&current->sighand->siglock);
	ksig->sig = __builtin_ffsll(pending);
	return false;
}

/* Discards all pending signals of the task. */
void flush_signals(struct task_struct *t)
{
	unsigned long flags;

	spin_lock_irqsave(&t->sighand->siglock, flags);
	clear_tsk_thread_flag(t, TIF_SIGPENDING);
	t->pending.signal = 0;
	t->signal->shared_pending.signal = 0;
	spin_unlock_irqrestore(&t->sighand->siglock, flags);
}
EXPORT_SYMBOL(flush_signals);

/*
 * What the current task does with a signal from now on. Signals that it now ignores are
 * no longer pending.
 */
void kernel_sigaction(int sig, void *action)
{
	u64 bit = 1ULL << (sig - 1);

	spin_lock_irq(&current->sighand->siglock);
	current->sighand->action[sig - 1].handler = action;
	if (action == SIG_IGN) {
		current->signal->shared_pending.signal &= ~bit;
		current->pending.signal &= ~bit;
		recalc_sigpending();
	}
	spin_unlock_irq(&current->sighand->siglock);
}
EXPORT_SYMBOL(kernel_sigaction);

void flush_signal_handlers(struct task_struct *t, int force_default)
{
	int i;

	for (i = 0; i < _NSIG; i++)
		t->sighand->action[i].handler = NULL;
}

void exit_signals(struct task_struct *tsk)
{
	tsk->flags |= PF_EXITING;
}

/* Notifies the parent that a child has ended. Returns true if nobody will wait for
 * the child. */
bool do_notify_parent(struct task_struct *tsk, int sig)
{
	struct task_struct *parent = tsk->parent;
	bool autoreap = parent == &init_task || (parent->flags & PF_KTHREAD) || parent->pid == 1;
	void __wake_up_parent(struct task_struct *p, struct task_struct *parent);
	unsigned long flags;

	if (__lock_task_sighand(parent, &flags)) {
		if (sig > 0)
			__send_signal_locked(sig, SEND_SIG_NOINFO, parent, PIDTYPE_TGID, false);
		__wake_up_parent(tsk, parent);
		spin_unlock_irqrestore(&parent->sighand->siglock, flags);
	}
	return autoreap || tsk->host_call;
}
