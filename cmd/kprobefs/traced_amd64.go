package main

import (
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// oldCalls are calls that newer architectures lack.
var oldCalls = []tracedCall{
	{unix.SYS_OPEN, abi.SysOpen, 0, -1, -1, false, 0},
	{unix.SYS_SYMLINK, abi.SysSymlink, 1, -1, 0, true, 0},
	{unix.SYS_UNLINK, abi.SysUnlink, 0, -1, -1, true, 0},
	{unix.SYS_MKDIR, abi.SysMkdir, 0, -1, -1, true, 0},
	{unix.SYS_FORK, abi.SysFork, -1, -1, -1, false, 0},
	{unix.SYS_VFORK, abi.SysVfork, -1, -1, -1, false, 0},
	{unix.SYS_RMDIR, abi.SysRmdir, 0, -1, -1, true, 0},
}

// x32 is a bit in the call numbers of the x32 ABI, which the host's kernel may support.
const x32 = 0x40000000

// kernelNumbers are the system call tables, the native one first.
var kernelNumbers = []kernelCalls{
	{unix.AUDIT_ARCH_X86_64, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_PERF_EVENT_OPEN, x32 | unix.SYS_BPF},
	{unix.AUDIT_ARCH_I386, 336, 357},
}
