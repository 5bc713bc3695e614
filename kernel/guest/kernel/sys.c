/* sys.c: small system calls. The one file that is built with jump tables: see the Makefile. */
#include <linux/sched.h>
#include <linux/fs_struct.h>
#include <linux/syscalls.h>
#include <linux/utsname.h>
#include <linux/host.h>
#include <linux/uaccess.h>
#include <linux/string.h>
#include <linux/mm.h>
#include <asm/traps.h>
#include <asm/host.h>

struct uts_namespace init_uts_ns = { .name = { .sysname = "Linux", .nodename = "(none)", .machine = "x86_64", .domainname = "(none)" },
	.ns = { .inum = PROC_UTS_INIT_INO, .count = REFCOUNT_INIT(1) } };
EXPORT_SYMBOL_GPL(init_uts_ns);
DECLARE_RWSEM(uts_sem);
struct rlimit64 { u64 rlim_cur, rlim_max; };

SYSCALL_DEFINE0(getpid) { return task_tgid_nr(current); }
SYSCALL_DEFINE0(gettid) { return task_pid_nr(current); }
SYSCALL_DEFINE0(getppid) { return task_tgid_nr(current->real_parent); }
SYSCALL_DEFINE0(getuid) { return current_uid().val; }
SYSCALL_DEFINE0(getgid) { return current->cred->gid.val; }
SYSCALL_DEFINE0(geteuid) { return current->cred->euid.val; }
SYSCALL_DEFINE0(getegid) { return current->cred->egid.val; }

SYSCALL_DEFINE1(umask, int, mask)
{
	int old = current->fs->umask;

	WRITE_ONCE(current->fs->umask, mask & 0777);
	return old;
}

#undef __SYSCALL_INLINE
#define __SYSCALL_INLINE __SYSCALL_OUTLINE
SYSCALL_DEFINE1(newuname, struct new_utsname __user *, name)
{
	struct new_utsname tmp;

	down_read(&uts_sem);
	memcpy(&tmp, &init_uts_ns.name, sizeof(tmp));
	up_read(&uts_sem);
	return copy_to_user(name, &tmp, sizeof(tmp)) ? -EFAULT : 0;
}
#undef __SYSCALL_INLINE
#define __SYSCALL_INLINE __always_inline

SYSCALL_DEFINE3(getcpu, unsigned int __user *, cpup, unsigned int __user *, nodep, void __user *, unused)
{
	int err = 0;

	if (cpup)
		err |= put_user(raw_smp_processor_id(), cpup);
	if (nodep)
		err |= put_user(0, nodep);
	return err ? -EFAULT : 0;
}

/* The largest value of each resource, in the order of
 * include/uapi/asm-generic/resource.h. */
static long rlimit_check(unsigned int resource, const struct rlimit64 *rlim)
{
	if (resource >= 16)
		return -EINVAL;
	return rlim->rlim_cur > rlim->rlim_max ? -EINVAL : 0;
}

static __noipa int do_prlimit(struct task_struct *tsk, unsigned int resource, struct rlimit64 *new_rlim, struct rlimit64 *old_rlim)
{
	unsigned long *rlim = tsk->signal->rlim[resource];

	task_lock(tsk);
	if (old_rlim)
		*old_rlim = (struct rlimit64){ rlim[0], rlim[1] };
	if (new_rlim) {
		rlim[0] = new_rlim->rlim_cur;
		rlim[1] = new_rlim->rlim_max;
	}
	task_unlock(tsk);
	return 0;
}

SYSCALL_DEFINE4(prlimit64, pid_t, pid, unsigned int, resource, const struct rlimit64 __user *, new_rlim,
		struct rlimit64 __user *, old_rlim)
{
	struct task_struct *tsk = pid ? find_task_by_vpid(pid) : current;
	struct rlimit64 old, new = { 0, 0 };
	long ret;

	if (!tsk)
		return -ESRCH;
	if (new_rlim && copy_from_user(&new, new_rlim, sizeof(new)))
		return -EFAULT;
	ret = rlimit_check(resource, &new);
	if (!ret)
		ret = do_prlimit(tsk, resource, new_rlim ? &new : NULL, &old);
	if (!ret && old_rlim && copy_to_user(old_rlim, &old, sizeof(old)))
		ret = -EFAULT;
	return ret;
}

static noinline long prctl_get_name(char __user *to)
{
	char comm[TASK_COMM_LEN] = "";

	__get_task_comm(comm, sizeof(comm), current);
	return copy_to_user(to, comm, sizeof(comm)) ? -EFAULT : 0;
}

static noinline long prctl_set_name(const char __user *from)
{
	char comm[TASK_COMM_LEN] = "";

	if (strncpy_from_user(comm, from, sizeof(comm) - 1) < 0)
		return -EFAULT;
	set_task_comm(current, comm);
	return 0;
}

#if GUEST_LINUX >= 612
static noinline long prctl_set_merge(struct mm_struct *mm, bool merge)
{
	long err = mmap_write_lock_killable(mm);

	if (err)
		return -EINTR;
	err = merge ? ksm_enable_merge_any(mm) : ksm_disable_merge_any(mm);
	mmap_write_unlock(mm);
	return err;
}
#endif

#undef __SYSCALL_INLINE
#define __SYSCALL_INLINE __SYSCALL_OUTLINE
SYSCALL_DEFINE5(prctl, int, option, unsigned long, arg2, unsigned long, arg3, unsigned long, arg4, unsigned long, arg5)
{
	struct task_struct *me = current;

	if (host_mirrors())
		return host_made();
	switch (option) {
	case 1: /* PR_SET_PDEATHSIG */
		if (arg2 > _NSIG)
			return -EINVAL;
		me->self_exec_id = arg2;
		return 0;
	case 2: /* PR_GET_PDEATHSIG */
		return put_user((int)me->self_exec_id, (int __user *)arg2);
	case 3: /* PR_GET_DUMPABLE */
		return me->personality & 1;
	case 4: /* PR_SET_DUMPABLE */
		if (arg2 > 1)
			return -EINVAL;
		me->personality = (me->personality & ~1U) | arg2;
		return 0;
	case 7: /* PR_GET_KEEPCAPS */
		return (me->cred->securebits >> 4) & 1;
	case 13: /* PR_GET_TIMING */
		return 0;
	case 14: /* PR_SET_TIMING */
		return arg2 ? -EINVAL : 0;
	case 15: /* PR_SET_NAME */
		return prctl_set_name((const char __user *)arg2);
	case 16: /* PR_GET_NAME */
		return prctl_get_name((char __user *)arg2);
	case 21: /* PR_GET_SECCOMP */
		return 0;
	case 25: /* PR_GET_TSC */
		return put_user(1, (int __user *)arg2);
	case 30: /* PR_GET_TIMERSLACK */
		return 50000;
#if GUEST_LINUX >= 612
	case 67: /* PR_SET_MEMORY_MERGE */
		return arg3 || arg4 || arg5 ? -EINVAL : prctl_set_merge(me->mm, arg2);
	case 68: /* PR_GET_MEMORY_MERGE */
		return arg2 || arg3 || arg4 || arg5 ? -EINVAL : !!(me->mm->merge & MERGE_ANY);
#endif
	default:
		return -EINVAL;
	}
}
#undef __SYSCALL_INLINE
#define __SYSCALL_INLINE __always_inline

void __init uts_init(void)
{
	strscpy(init_uts_ns.name.release, boot_params + BOOT_RELEASE, 65);
	strscpy(init_uts_ns.name.version, boot_params + BOOT_VERSION, 65);
}
