/* ptrace.c: whether a task may look into another one, and the calls that ask that. The
 * work itself is the host's kernel's. */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/mm.h>
#include <linux/security.h>
#include <linux/sched.h>
#include <linux/syscalls.h>

#define PTRACE_ATTACH 16
#define PTRACE_SEIZE 0x4206
#define CAP_SYS_PTRACE 19

/* Asks the security modules only if the ids of the two are the same, or with CAP_SYS_PTRACE;
 * threads of one process may always. */
static __noipa int __ptrace_may_access(struct task_struct *task, unsigned int mode)
{
	const struct cred *cred = current_cred(), *tcred = task->cred;
	uid_t uid = mode & PTRACE_MODE_FSCREDS ? cred->fsuid.val : cred->uid.val;
	gid_t gid = mode & PTRACE_MODE_FSCREDS ? cred->fsgid.val : cred->gid.val;

	if (task->signal == current->signal)
		return 0;
	if ((uid != tcred->euid.val || uid != tcred->suid.val || uid != tcred->uid.val ||
	     gid != tcred->egid.val || gid != tcred->sgid.val || gid != tcred->gid.val) && !capable(CAP_SYS_PTRACE))
		return -EPERM;
	return security_ptrace_access_check(task, mode);
}

noinline __noclone bool ptrace_may_access(struct task_struct *task, unsigned int mode)
{
	return !__ptrace_may_access(task, mode);
}

static __noipa int ptrace_attach(struct task_struct *task, long request, unsigned long addr, unsigned long flags)
{
	int err = -EPERM;

	if (!(task->flags & PF_KTHREAD) && task->signal != current->signal)
		err = __ptrace_may_access(task, PTRACE_MODE_ATTACH_REALCREDS);
	return host_result(err);
}

SYSCALL_DEFINE4(ptrace, long, request, long, pid, unsigned long, addr, unsigned long, data)
{
	struct task_struct *child;
	long ret;

	if (!request || !host_mirrors())	/* PTRACE_TRACEME */
		return host_only();
	child = find_get_task_by_vpid(pid);
	if (!child)
		return host_made();
	if (request == PTRACE_ATTACH || request == PTRACE_SEIZE)
		ret = ptrace_attach(child, request, addr, data);
	else
		ret = host_made();
	put_task_struct(child);
	return ret;
}

/* Returns the memory of a task with a reference, NULL if it has none, or -EACCES. */
struct mm_struct *mm_access(struct task_struct *task, unsigned int mode)
{
	struct mm_struct *mm;

	task_lock(task);
	mm = task->flags & PF_KTHREAD ? NULL : task->mm;
	if (mm)
		atomic_inc(&mm->mm_users);
	task_unlock(task);
	if (mm && mm != current->mm && !ptrace_may_access(task, mode)) {
		mmput(mm);
		mm = ERR_PTR(-EACCES);
	}
	return mm;
}

static __noipa ssize_t process_vm_rw(pid_t pid, const void __user *lvec, unsigned long liovcnt, const void __user *rvec,
				     unsigned long riovcnt, unsigned long flags, int vm_write)
{
	struct task_struct *task = find_get_task_by_vpid(pid);
	struct mm_struct *mm;
	ssize_t ret;

	if (!task)
		return host_result(-ESRCH);
	mm = mm_access(task, PTRACE_MODE_ATTACH_REALCREDS);
	ret = host_only();
	if (!IS_ERR_OR_NULL(mm))
		mmput(mm);
	put_task_struct(task);
	return ret;
}

SYSCALL_DEFINE6(process_vm_readv, pid_t, pid, const void __user *, lvec, unsigned long, liovcnt, const void __user *, rvec,
		unsigned long, riovcnt, unsigned long, flags)
{
	return process_vm_rw(pid, lvec, liovcnt, rvec, riovcnt, flags, 0);
}

SYSCALL_DEFINE6(process_vm_writev, pid_t, pid, const void __user *, lvec, unsigned long, liovcnt, const void __user *, rvec,
		unsigned long, riovcnt, unsigned long, flags)
{
	return process_vm_rw(pid, lvec, liovcnt, rvec, riovcnt, flags, 1);
}
