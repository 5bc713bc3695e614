// System calls of which only the function itself is here, or one that has the same arguments.
// The host's kernel makes them.
#include <linux/host.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <linux/errno.h>

#define HOST_SYSCALL(name) __SYSCALL_HEAD(name); __SYSCALL_HEAD(name) { return host_only(); }

// HOST_SYSCALL_BY is the same for a call that one function with its arguments makes.
#define HOST_SYSCALL_BY(name, func)									\
static __noipa long func(long a, long b, long c)							\
{													\
	return host_only();										\
}													\
__SYSCALL_HEAD(name); __SYSCALL_HEAD(name) { return func(regs->di, regs->si, regs->dx); }

// Signals and timers.
HOST_SYSCALL(rt_sigaction)
HOST_SYSCALL(rt_sigprocmask)
HOST_SYSCALL(rt_sigpending)
HOST_SYSCALL(rt_sigtimedwait)
HOST_SYSCALL(rt_sigqueueinfo)
HOST_SYSCALL(rt_sigsuspend)
HOST_SYSCALL(rt_tgsigqueueinfo)
HOST_SYSCALL(sigaltstack)
HOST_SYSCALL(pause)
HOST_SYSCALL(alarm)
HOST_SYSCALL(setitimer)
HOST_SYSCALL(getitimer)
HOST_SYSCALL(timer_create)
HOST_SYSCALL(timer_settime)
HOST_SYSCALL(timer_gettime)
HOST_SYSCALL(timer_getoverrun)
HOST_SYSCALL(timer_delete)
HOST_SYSCALL(clock_settime)
HOST_SYSCALL(clock_getres)
HOST_SYSCALL(settimeofday)

// Users, groups, sessions.
HOST_SYSCALL_BY(setuid, __sys_setuid)
HOST_SYSCALL_BY(setgid, __sys_setgid)
HOST_SYSCALL_BY(setreuid, __sys_setreuid)
HOST_SYSCALL_BY(setregid, __sys_setregid)
HOST_SYSCALL_BY(setresuid, __sys_setresuid)
HOST_SYSCALL_BY(setresgid, __sys_setresgid)
HOST_SYSCALL_BY(setfsuid, __sys_setfsuid)
HOST_SYSCALL_BY(setfsgid, __sys_setfsgid)
HOST_SYSCALL(getresuid)
HOST_SYSCALL(getresgid)
HOST_SYSCALL(getgroups)
HOST_SYSCALL(setgroups)
HOST_SYSCALL(capget)
HOST_SYSCALL(capset)
HOST_SYSCALL(setpgid)
HOST_SYSCALL_BY(getpgid, do_getpgid)
HOST_SYSCALL(getpgrp)
HOST_SYSCALL(setsid)
HOST_SYSCALL(getsid)
HOST_SYSCALL(personality)

// Processes.
HOST_SYSCALL(waitid)
HOST_SYSCALL(getrusage)
HOST_SYSCALL(times)
HOST_SYSCALL(sysinfo)
HOST_SYSCALL(getrlimit)
HOST_SYSCALL(setrlimit)
HOST_SYSCALL(getpriority)
HOST_SYSCALL(setpriority)
HOST_SYSCALL(sched_setparam)
HOST_SYSCALL(sched_getparam)
HOST_SYSCALL(sched_setscheduler)
HOST_SYSCALL(sched_getscheduler)
HOST_SYSCALL(sched_get_priority_max)
HOST_SYSCALL(sched_get_priority_min)
HOST_SYSCALL(sched_setattr)
HOST_SYSCALL(sched_getattr)
HOST_SYSCALL(set_tid_address)
HOST_SYSCALL(set_robust_list)
HOST_SYSCALL(get_robust_list)
HOST_SYSCALL(rseq)
HOST_SYSCALL(membarrier)
HOST_SYSCALL(arch_prctl)

// Memory.
HOST_SYSCALL(mremap)
HOST_SYSCALL(msync)
HOST_SYSCALL(mincore)
HOST_SYSCALL(mlock)
HOST_SYSCALL(munlock)

// Files.
HOST_SYSCALL(getcwd)
HOST_SYSCALL(fchdir)
HOST_SYSCALL(chroot)
HOST_SYSCALL(umount)
HOST_SYSCALL(sync)
HOST_SYSCALL(syncfs)
HOST_SYSCALL(sync_file_range)
HOST_SYSCALL(readahead)
HOST_SYSCALL(inotify_add_watch)
HOST_SYSCALL(inotify_rm_watch)
HOST_SYSCALL_BY(close_range, __close_range)

// Message queues, System V IPC.
static __noipa int do_mq_open(const char __user *u_name, int oflag, umode_t mode, void *attr)
{
	return host_only();
}

SYSCALL_DEFINE4(mq_open, const char __user *, u_name, int, oflag, umode_t, mode, void __user *, u_attr)
{
	long attr[8];

	if (u_attr && copy_from_user(attr, u_attr, sizeof(attr)))
		return -EFAULT;
	return do_mq_open(u_name, oflag, mode, u_attr ? attr : NULL);
}
HOST_SYSCALL(mq_unlink)
HOST_SYSCALL(mq_timedsend)
HOST_SYSCALL(mq_timedreceive)
HOST_SYSCALL(mq_notify)
HOST_SYSCALL(mq_getsetattr)
HOST_SYSCALL(shmget)
HOST_SYSCALL(shmat)
HOST_SYSCALL(shmctl)
HOST_SYSCALL(shmdt)
HOST_SYSCALL(semget)
HOST_SYSCALL(semop)
HOST_SYSCALL(semctl)
HOST_SYSCALL(semtimedop)
HOST_SYSCALL(msgget)
HOST_SYSCALL(msgsnd)
HOST_SYSCALL(msgrcv)
HOST_SYSCALL(msgctl)

// Processes by descriptor, namespaces, the machine.
HOST_SYSCALL(pidfd_open)
HOST_SYSCALL(pidfd_getfd)
HOST_SYSCALL(pidfd_send_signal)
HOST_SYSCALL(process_madvise)
HOST_SYSCALL(kcmp)
HOST_SYSCALL(unshare)
HOST_SYSCALL(setns)
HOST_SYSCALL(seccomp)
HOST_SYSCALL(sethostname)
HOST_SYSCALL(setdomainname)
HOST_SYSCALL(vhangup)
HOST_SYSCALL(acct)
HOST_SYSCALL(swapon)
HOST_SYSCALL(swapoff)
HOST_SYSCALL(iopl)
HOST_SYSCALL(ioperm)
HOST_SYSCALL(modify_ldt)
HOST_SYSCALL(adjtimex)
HOST_SYSCALL(clock_adjtime)
HOST_SYSCALL(sched_rr_get_interval)
HOST_SYSCALL(ioprio_get)
HOST_SYSCALL(ioprio_set)

// Keys, memory and its nodes.
HOST_SYSCALL(add_key)
HOST_SYSCALL(request_key)
HOST_SYSCALL(keyctl)
HOST_SYSCALL(pkey_alloc)
HOST_SYSCALL(pkey_free)
HOST_SYSCALL(mlock2)
HOST_SYSCALL(mlockall)
HOST_SYSCALL(munlockall)
HOST_SYSCALL(remap_file_pages)
HOST_SYSCALL(mbind)
HOST_SYSCALL(set_mempolicy)
HOST_SYSCALL(get_mempolicy)
HOST_SYSCALL(migrate_pages)
HOST_SYSCALL(move_pages)
HOST_SYSCALL(memfd_create)
HOST_SYSCALL(userfaultfd)

// Files, mounts and their events.
HOST_SYSCALL(utime)
HOST_SYSCALL(utimes)
HOST_SYSCALL(futimesat)
HOST_SYSCALL(vmsplice)
HOST_SYSCALL(name_to_handle_at)
HOST_SYSCALL(open_by_handle_at)
HOST_SYSCALL(fanotify_init)
HOST_SYSCALL(fanotify_mark)
HOST_SYSCALL(pivot_root)
HOST_SYSCALL(ustat)
HOST_SYSCALL(sysfs)
HOST_SYSCALL(quotactl)
HOST_SYSCALL(open_tree)
HOST_SYSCALL(move_mount)
HOST_SYSCALL(fsopen)
HOST_SYSCALL(fsconfig)
HOST_SYSCALL(fsmount)
HOST_SYSCALL(fspick)
HOST_SYSCALL(io_setup)
HOST_SYSCALL(io_destroy)
HOST_SYSCALL(io_getevents)
HOST_SYSCALL(io_submit)
HOST_SYSCALL(io_cancel)
HOST_SYSCALL(io_pgetevents)

// Modules, the log, BPF and perf: the machine answers these calls of programs.
HOST_SYSCALL(init_module)
HOST_SYSCALL(finit_module)
HOST_SYSCALL(delete_module)
HOST_SYSCALL(bpf)
HOST_SYSCALL(perf_event_open)

// kernel/printk/printk.c
int do_syslog(int type, char __user *buf, int len, int source);
__noipa int do_syslog(int type, char __user *buf, int len, int source)
{
	return host_only();
}

__SYSCALL_HEAD(syslog);
__SYSCALL_HEAD(syslog)
{
	return do_syslog(regs->di, (char __user *)regs->si, regs->dx, 0);
}
