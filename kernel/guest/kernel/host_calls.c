// System calls of which only the function itself is here, or one that has the same arguments.
// The host's kernel makes them.
#include <linux/host.h>
#include <linux/syscalls.h>

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
HOST_SYSCALL(ptrace)

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
HOST_SYSCALL(mount)
HOST_SYSCALL(umount)
HOST_SYSCALL(sync)
HOST_SYSCALL(syncfs)
HOST_SYSCALL(sync_file_range)
HOST_SYSCALL(readahead)
HOST_SYSCALL(inotify_add_watch)
HOST_SYSCALL(inotify_rm_watch)
HOST_SYSCALL_BY(close_range, __close_range)
