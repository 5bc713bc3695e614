package calls

import (
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// ReadlinkCalls are readlink(2) and readlinkat(2).
var ReadlinkCalls = []uint32{unix.SYS_READLINK, unix.SYS_READLINKAT}

// x32 is a bit in the call numbers of the x32 ABI, which the host's kernel may support.
const x32 = 0x40000000

// KernelNumbers are the system call tables, the native one first.
var KernelNumbers = []KernelCalls{
	{unix.AUDIT_ARCH_X86_64, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_PERF_EVENT_OPEN, x32 | unix.SYS_BPF},
	{unix.AUDIT_ARCH_I386, 336, 357},
}

// ForeignCalls are the calls about the kernel, and of PlaceForeign, in the other tables.
var ForeignCalls = []Foreign{
	{unix.AUDIT_ARCH_I386, 103, unix.SYS_SYSLOG, UnameShape{}},
	{unix.AUDIT_ARCH_I386, 128, unix.SYS_INIT_MODULE, UnameShape{}},
	{unix.AUDIT_ARCH_I386, 350, unix.SYS_FINIT_MODULE, UnameShape{}},
	{unix.AUDIT_ARCH_I386, 129, unix.SYS_DELETE_MODULE, UnameShape{}},
	{unix.AUDIT_ARCH_I386, 122, unix.SYS_UNAME, UnameShape{}},
	{unix.AUDIT_ARCH_I386, 109, unix.SYS_UNAME, oldUname},
	{unix.AUDIT_ARCH_I386, 59, unix.SYS_UNAME, oldoldUname},
	{unix.AUDIT_ARCH_I386, 21, unix.SYS_MOUNT, UnameShape{}},
	{unix.AUDIT_ARCH_I386, 430, unix.SYS_FSOPEN, UnameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_SYSLOG, unix.SYS_SYSLOG, UnameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_INIT_MODULE, unix.SYS_INIT_MODULE, UnameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_FINIT_MODULE, unix.SYS_FINIT_MODULE, UnameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_DELETE_MODULE, unix.SYS_DELETE_MODULE, UnameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_UNAME, unix.SYS_UNAME, UnameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_MOUNT, unix.SYS_MOUNT, UnameShape{}},
	{unix.AUDIT_ARCH_X86_64, x32 | unix.SYS_FSOPEN, unix.SYS_FSOPEN, UnameShape{}},
}

const sysFstatat = unix.SYS_NEWFSTATAT

// SysCreat is the number of creat(2).
const SysCreat = unix.SYS_CREAT

// oldRows are calls that newer architectures lack.
var oldRows = []Row{
	{Host: unix.SYS_OPEN, Guest: abi.SysOpen, For: opening, By: Either, Args: [6]Argument{name, flags, value}, Opens: always},
	{Host: unix.SYS_CREAT, Guest: abi.SysCreat, For: opening, By: Either, Args: [6]Argument{name, value}, Opens: always},
	{Host: unix.SYS_SYMLINK, Guest: abi.SysSymlink, For: naming, By: Either, Args: [6]Argument{text, link}},
	{Host: unix.SYS_UNLINK, Guest: abi.SysUnlink, For: naming, By: Either, Args: [6]Argument{link}},
	{Host: unix.SYS_MKDIR, Guest: abi.SysMkdir, For: naming, By: Either, Args: [6]Argument{link, value}},
	{Host: unix.SYS_FORK, Guest: abi.SysFork, By: Supervisor},
	{Host: unix.SYS_VFORK, Guest: abi.SysVfork, By: Supervisor},
	{Host: unix.SYS_RMDIR, Guest: abi.SysRmdir, For: naming, By: Either, Args: [6]Argument{link}},

	{Host: unix.SYS_STAT, Guest: abi.SysNewstat, For: attributes, Args: [6]Argument{name, outRecord(abi.SizeofStat)}},
	{Host: unix.SYS_LSTAT, Guest: abi.SysNewlstat, For: attributes, Args: [6]Argument{link, outRecord(abi.SizeofStat)}},
	{Host: unix.SYS_ACCESS, Guest: abi.SysAccess, For: attributes, Args: [6]Argument{name, value}},
	{Host: unix.SYS_READLINK, Guest: abi.SysReadlink, For: attributes, Args: [6]Argument{link, out(2), value}},
	{Host: unix.SYS_DUP2, Guest: abi.SysDup2, For: descriptors, Args: [6]Argument{fd, fd}},
	{Host: unix.SYS_PIPE, Guest: abi.SysPipe, For: descriptors, Args: [6]Argument{outRecord(SizeofPair)}, Pair: 1},
	{Host: unix.SYS_POLL, Guest: abi.SysPoll, For: waiting, Args: [6]Argument{inItems(SizeofPollFD), value, value}, Waits: WaitsArray},
	{Host: unix.SYS_SELECT, Guest: abi.SysSelect, For: waiting, Args: [6]Argument{value, bits, bits, bits, inOutRecord(sizeofTimeval)}, Waits: WaitsSets},
	{Host: unix.SYS_EPOLL_CREATE, Guest: abi.SysEpollCreate, For: waiting, Args: [6]Argument{value}, Opens: always},
	{Host: unix.SYS_EPOLL_WAIT, Guest: abi.SysEpollWait, For: waiting, Args: [6]Argument{fd, outItems(SizeofEpollEvent), value, value}, Waits: WaitsEvents, Stops: true},
	{Host: unix.SYS_EVENTFD, Guest: abi.SysEventfd, For: nameless, Args: [6]Argument{value}, Opens: always},
	{Host: unix.SYS_SIGNALFD, Guest: abi.SysSignalfd, For: nameless, Args: [6]Argument{fd, inRecord(sizeofSigset), value}, Opens: always},
	{Host: unix.SYS_INOTIFY_INIT, Guest: abi.SysInotifyInit, For: nameless, Opens: always},
	{Host: unix.SYS_MKNOD, Guest: abi.SysMknod, For: naming, Args: [6]Argument{link, value, value}},
	{Host: unix.SYS_LINK, Guest: abi.SysLink, For: naming, Args: [6]Argument{link, text}},
	{Host: unix.SYS_RENAME, Guest: abi.SysRename, For: naming, Args: [6]Argument{link, text}},
	{Host: unix.SYS_RENAMEAT, Guest: abi.SysRenameat, For: naming, Args: [6]Argument{dirFD, link, dirFD, text}},
	{Host: unix.SYS_PAUSE, Guest: abi.SysPause, For: timers},
	{Host: unix.SYS_ALARM, Guest: abi.SysAlarm, For: timers, Args: [6]Argument{value}},
	{Host: unix.SYS_GETPGRP, Guest: abi.SysGetpgrp, For: users},
	{Host: unix.SYS_GETRLIMIT, Guest: abi.SysGetrlimit, For: limits, Args: [6]Argument{value, outRecord(sizeofRlimit)}},
	{Host: unix.SYS_SETRLIMIT, Guest: abi.SysSetrlimit, For: limits, Args: [6]Argument{value, inRecord(sizeofRlimit)}},
	{Host: unix.SYS_ARCH_PRCTL, Guest: abi.SysArchPrctl, For: limits, Args: [6]Argument{value, value}},
	{Host: unix.SYS_CHMOD, Guest: abi.SysChmod, For: changing, Args: [6]Argument{name, value}},
	{Host: unix.SYS_CHOWN, Guest: abi.SysChown, For: changing, Args: [6]Argument{name, value, value}},
	{Host: unix.SYS_UTIME, Guest: abi.SysUtime, For: changing, Args: [6]Argument{text, value}},
	{Host: unix.SYS_UTIMES, Guest: abi.SysUtimes, For: changing, Args: [6]Argument{text, inRecord(2 * sizeofTimeval)}},
	{Host: unix.SYS_FUTIMESAT, Guest: abi.SysFutimesat, For: changing, Args: [6]Argument{value, text, inRecord(2 * sizeofTimeval)}},
	{Host: unix.SYS_USTAT, Guest: abi.SysUstat, For: attributes, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SYSFS, Guest: abi.SysSysfs, For: naming, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_IOPL, Guest: abi.SysIopl, For: limits, Args: [6]Argument{value}},
	{Host: unix.SYS_IOPERM, Guest: abi.SysIoperm, For: limits, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MODIFY_LDT, Guest: abi.SysModifyLdt, For: limits, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_LCHOWN, Guest: abi.SysLchown, For: changing, Args: [6]Argument{link, value, value}},
}
