package main

import "golang.org/x/sys/unix"

// oldCalls are calls that newer architectures lack.
var oldCalls = []tracedCall{
	{unix.SYS_OPEN, 2, 0, -1, -1, false, 0},
	{unix.SYS_SYMLINK, 88, 1, -1, 0, true, 0},
	{unix.SYS_UNLINK, 87, 0, -1, -1, true, 0},
	{unix.SYS_MKDIR, 83, 0, -1, -1, true, 0},
	{unix.SYS_FORK, guestFork, -1, -1, -1, false, 0},
	{unix.SYS_VFORK, guestVfork, -1, -1, -1, false, 0},
	{unix.SYS_RMDIR, 84, 0, -1, -1, true, 0},
}

// x32 is a bit in the call numbers of the x32 ABI, which the host's kernel may support.
const x32 = 0x40000000

// kernelNumbers are the system call tables, the native one first.
var kernelNumbers = []kernelCalls{
	{unix.AUDIT_ARCH_X86_64, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_PERF_EVENT_OPEN, x32 | unix.SYS_BPF},
	{unix.AUDIT_ARCH_I386, 336, 357},
}
