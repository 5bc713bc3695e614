package main

import (
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// oldCalls are calls that newer architectures lack.
var oldCalls = []tracedCall{
	{unix.SYS_OPEN, abi.SysOpen, 0, -1, -1, false, 0},
	{unix.SYS_CREAT, abi.SysCreat, 0, -1, -1, false, 0},
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

// foreignCalls are the calls of answeredCalls and placeForeign in the other tables.
var foreignCalls = []foreignCall{
	{unix.AUDIT_ARCH_I386, 103, unix.SYS_SYSLOG, unameShape{}},
	{unix.AUDIT_ARCH_I386, 128, unix.SYS_INIT_MODULE, unameShape{}},
	{unix.AUDIT_ARCH_I386, 350, unix.SYS_FINIT_MODULE, unameShape{}},
	{unix.AUDIT_ARCH_I386, 129, unix.SYS_DELETE_MODULE, unameShape{}},
	{unix.AUDIT_ARCH_I386, 122, unix.SYS_UNAME, unameShape{}},
	{unix.AUDIT_ARCH_I386, 109, unix.SYS_UNAME, oldUname},
	{unix.AUDIT_ARCH_I386, 59, unix.SYS_UNAME, oldoldUname},
	{unix.AUDIT_ARCH_I386, 21, unix.SYS_MOUNT, unameShape{}},
	{unix.AUDIT_ARCH_I386, 430, unix.SYS_FSOPEN, unameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_SYSLOG, unix.SYS_SYSLOG, unameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_INIT_MODULE, unix.SYS_INIT_MODULE, unameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_FINIT_MODULE, unix.SYS_FINIT_MODULE, unameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_DELETE_MODULE, unix.SYS_DELETE_MODULE, unameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_UNAME, unix.SYS_UNAME, unameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_MOUNT, unix.SYS_MOUNT, unameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_FSOPEN, unix.SYS_FSOPEN, unameShape{}},
}

// openCalls are the calls that open files.
var openCalls = []uint64{unix.SYS_OPEN, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_CREAT}

// toldCalls are the mirrored calls of which the supervisor tells: those of tracedCalls
// that name files, but for execve.
var toldCalls = []uint64{
	unix.SYS_OPEN, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_CREAT, unix.SYS_CHDIR, unix.SYS_SYMLINK, unix.SYS_SYMLINKAT,
	unix.SYS_UNLINK, unix.SYS_UNLINKAT, unix.SYS_MKDIR, unix.SYS_MKDIRAT, unix.SYS_RMDIR,
}

// oldEndedByStop are calls that a stop ends and that newer architectures lack.
var oldEndedByStop = map[int]bool{unix.SYS_EPOLL_WAIT: true}

const sysFstatat, sysCreat = unix.SYS_NEWFSTATAT, unix.SYS_CREAT

// oldMirroredCalls are calls that newer architectures lack.
var oldMirroredCalls = []mirroredCall{
	{host: unix.SYS_STAT, guest: abi.SysNewstat, args: [6]argument{name, outRecord(sizeofStat)}},
	{host: unix.SYS_LSTAT, guest: abi.SysNewlstat, args: [6]argument{link, outRecord(sizeofStat)}},
	{host: unix.SYS_ACCESS, guest: abi.SysAccess, args: [6]argument{name, value}},
	{host: unix.SYS_READLINK, guest: abi.SysReadlink, args: [6]argument{link, out(2), value}},
	{host: unix.SYS_DUP2, guest: abi.SysDup2, args: [6]argument{fd, fd}},
	{host: unix.SYS_PIPE, guest: abi.SysPipe, args: [6]argument{outRecord(sizeofPair)}, pair: 1},
	{host: unix.SYS_POLL, guest: abi.SysPoll, args: [6]argument{inItems(sizeofPollFD), value, value}, waits: waitsArray},
	{host: unix.SYS_SELECT, guest: abi.SysSelect, args: [6]argument{value, bits, bits, bits, inOutRecord(sizeofTimeval)}, waits: waitsSets},
	{host: unix.SYS_EPOLL_CREATE, guest: abi.SysEpollCreate, args: [6]argument{value}, opens: always},
	{host: unix.SYS_EPOLL_WAIT, guest: abi.SysEpollWait, args: [6]argument{fd, outItems(sizeofEpollEvent), value, value}, waits: waitsEvents},
	{host: unix.SYS_EVENTFD, guest: abi.SysEventfd, args: [6]argument{value}, opens: always},
	{host: unix.SYS_SIGNALFD, guest: abi.SysSignalfd, args: [6]argument{fd, inRecord(sizeofSigset), value}, opens: always},
	{host: unix.SYS_INOTIFY_INIT, guest: abi.SysInotifyInit, opens: always},
	{host: unix.SYS_MKNOD, guest: abi.SysMknod, args: [6]argument{link, value, value}},
	{host: unix.SYS_LINK, guest: abi.SysLink, args: [6]argument{link, text}},
	{host: unix.SYS_RENAME, guest: abi.SysRename, args: [6]argument{link, text}},
	{host: unix.SYS_RENAMEAT, guest: abi.SysRenameat, args: [6]argument{dirFD, link, dirFD, text}},
	{host: unix.SYS_PAUSE, guest: abi.SysPause},
	{host: unix.SYS_ALARM, guest: abi.SysAlarm, args: [6]argument{value}},
	{host: unix.SYS_GETPGRP, guest: abi.SysGetpgrp},
	{host: unix.SYS_GETRLIMIT, guest: abi.SysGetrlimit, args: [6]argument{value, outRecord(sizeofRlimit)}},
	{host: unix.SYS_SETRLIMIT, guest: abi.SysSetrlimit, args: [6]argument{value, inRecord(sizeofRlimit)}},
	{host: unix.SYS_ARCH_PRCTL, guest: abi.SysArchPrctl, args: [6]argument{value, value}},
	{host: unix.SYS_CHMOD, guest: abi.SysChmod, args: [6]argument{name, value}},
	{host: unix.SYS_CHOWN, guest: abi.SysChown, args: [6]argument{name, value, value}},
	{host: unix.SYS_UTIME, guest: abi.SysUtime, args: [6]argument{text, value}},
	{host: unix.SYS_UTIMES, guest: abi.SysUtimes, args: [6]argument{text, inRecord(2 * sizeofTimeval)}},
	{host: unix.SYS_FUTIMESAT, guest: abi.SysFutimesat, args: [6]argument{value, text, inRecord(2 * sizeofTimeval)}},
	{host: unix.SYS_USTAT, guest: abi.SysUstat, args: [6]argument{value, value}},
	{host: unix.SYS_SYSFS, guest: abi.SysSysfs, args: [6]argument{value, value, value}},
	{host: unix.SYS_IOPL, guest: abi.SysIopl, args: [6]argument{value}},
	{host: unix.SYS_IOPERM, guest: abi.SysIoperm, args: [6]argument{value, value, value}},
	{host: unix.SYS_MODIFY_LDT, guest: abi.SysModifyLdt, args: [6]argument{value, value, value}},
	{host: unix.SYS_LCHOWN, guest: abi.SysLchown, args: [6]argument{link, value, value}},
}

// setResult sets what the call returns at whose end a thread has stopped.
func setResult(tid int, ret int64) error {
	const rax = 80 // in struct user
	return ptrace(unix.PTRACE_POKEUSR, tid, rax, uintptr(ret))
}
