package main

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// mirroredCall is a call that is mirrored.
type mirroredCall struct {
	host  uint64 // its number on this machine
	guest uint64 // its number on x86-64
	args  [6]argument
	opens func(args [6]uint64) bool // reports whether the result is a descriptor; nil means that it never is
	pair  int                       // 1 + the argument that points to two new descriptors, or 0
	waits waitKind                  // how it names the descriptors that it waits for

	except func(args [6]uint64) bool // reports whether the supervisor sees to the call; nil means that it never does
	sleeps bool                      // when a signal ends the call, it returns errRestartBlock
}

// argument says what an argument is.
type argument struct {
	kind argKind
	size int // of memory: the argument with its size, or with a pointer to that, or the size in bytes of a record
}

type argKind int

const (
	isValue       argKind = iota
	isFD                  // a descriptor
	isDir                 // the descriptor of the directory in which a name is looked up
	isName                // a file's name
	isLink                // the same; it is not followed if it is a symbolic link
	isText                // another string, such as a second name
	isAtFlags             // flags, of which AT_SYMLINK_NOFOLLOW says that the name is not followed
	isIn                  // memory that the call reads
	isOut                 // memory that the call writes; the result is the number of bytes
	isInRecord            // memory of a certain size that the call reads
	isOutRecord           // the same that the call writes if it succeeds
	isInOutRecord         // the same that it reads, and writes if it succeeds
	isOutSized            // memory that the call writes if it succeeds; its size is an int to which another argument points
	isInVector            // an array of struct iovec, with memory that the call reads
	isOutVector
	isInMessage // a struct msghdr, with memory that the call reads
	isOutMessage
	isInMessages // an array of struct mmsghdr, with memory that the call reads
	isOutMessages
	isOutItems // an array, of which the call writes as many items as it returns; its length is the argument after it
	isInItems  // an array that the call reads and writes; its length is the argument after it
	isBits     // a set of bits that the call reads and writes; how many is the first argument
	isTimeout  // a timespec that futex(2) reads for some operations
)

// The arguments of the rows below.
var (
	value   = argument{}
	fd      = argument{kind: isFD}
	dirFD   = argument{kind: isDir}
	name    = argument{kind: isName}
	link    = argument{kind: isLink}
	atFlags = argument{kind: isAtFlags}
	text    = argument{kind: isText}
	bits    = argument{kind: isBits}
)

func outItems(bytes int) argument    { return argument{isOutItems, bytes} }
func inItems(bytes int) argument     { return argument{isInItems, bytes} }
func in(size int) argument           { return argument{isIn, size} }
func out(size int) argument          { return argument{isOut, size} }
func outRecord(bytes int) argument   { return argument{isOutRecord, bytes} }
func inRecord(bytes int) argument    { return argument{isInRecord, bytes} }
func inOutRecord(bytes int) argument { return argument{isInOutRecord, bytes} }
func outSized(size int) argument     { return argument{isOutSized, size} }
func inVector(length int) argument   { return argument{isInVector, length} }
func outVector(length int) argument  { return argument{isOutVector, length} }

// duplicates reports whether an fcntl(2) makes a descriptor.
func duplicates(args [6]uint64) bool {
	return args[1] == unix.F_DUPFD || args[1] == unix.F_DUPFD_CLOEXEC
}

// toldPrctl reports whether the supervisor tells of a prctl(2).
func toldPrctl(args [6]uint64) bool {
	return args[0] == unix.PR_SET_NAME || args[0] == unix.PR_SET_MEMORY_MERGE
}

func always([6]uint64) bool { return true }

// Sizes in bytes of x86-64's structures.
const (
	sizeofStat     = 144
	sizeofStatx    = 256
	sizeofTimespec = 16
	sizeofPair     = 8 // two descriptors
	sizeofUtsname  = 6 * 65
	sizeofRlimit   = 16
	sizeofInt      = 4
	sizeofRusage   = 144

	sizeofSigset     = 8
	sizeofSigaction  = 32
	sizeofSiginfo    = 128
	sizeofStack      = 24
	sizeofItimerval  = 32
	sizeofItimerspec = 32
	sizeofTimeval    = 16
	sizeofStatfs     = 120
	sizeofSysinfo    = 112
	sizeofTms        = 32
	sizeofPos        = 8
	sizeofMsghdr     = 56
	sizeofMmsghdr    = 64
	sizeofMqAttr     = 64
	sizeofSigevent   = 64
)

// mirroredCalls are all calls that are mirrored, but for those of toldCalls.
var mirroredCalls = append([]mirroredCall{
	{host: unix.SYS_READ, guest: abi.SysRead, args: [6]argument{fd, out(2), value}},
	{host: unix.SYS_WRITE, guest: abi.SysWrite, args: [6]argument{fd, in(2), value}},
	{host: unix.SYS_PREAD64, guest: abi.SysPread64, args: [6]argument{fd, out(2), value, value}},
	{host: unix.SYS_PWRITE64, guest: abi.SysPwrite64, args: [6]argument{fd, in(2), value, value}},
	{host: unix.SYS_CLOSE, guest: abi.SysClose, args: [6]argument{fd}},
	{host: unix.SYS_LSEEK, guest: abi.SysLseek, args: [6]argument{fd, value, value}},
	{host: unix.SYS_READV, guest: abi.SysReadv, args: [6]argument{fd, outVector(2), value}},
	{host: unix.SYS_WRITEV, guest: abi.SysWritev, args: [6]argument{fd, inVector(2), value}},
	{host: unix.SYS_PREADV, guest: abi.SysPreadv, args: [6]argument{fd, outVector(2), value, value, value}},
	{host: unix.SYS_PWRITEV, guest: abi.SysPwritev, args: [6]argument{fd, inVector(2), value, value, value}},
	{host: unix.SYS_PREADV2, guest: abi.SysPreadv2, args: [6]argument{fd, outVector(2), value, value, value, value}},
	{host: unix.SYS_PWRITEV2, guest: abi.SysPwritev2, args: [6]argument{fd, inVector(2), value, value, value, value}},

	{host: unix.SYS_FSTAT, guest: abi.SysNewfstat, args: [6]argument{fd, outRecord(sizeofStat)}},
	{host: sysFstatat, guest: abi.SysNewfstatat, args: [6]argument{dirFD, name, outRecord(sizeofStat), atFlags}},
	{host: unix.SYS_STATX, guest: abi.SysStatx, args: [6]argument{dirFD, name, atFlags, value, outRecord(sizeofStatx)}},
	{host: unix.SYS_FACCESSAT, guest: abi.SysFaccessat, args: [6]argument{dirFD, name, value}},
	{host: unix.SYS_FACCESSAT2, guest: abi.SysFaccessat2, args: [6]argument{dirFD, name, value, atFlags}},
	{host: unix.SYS_READLINKAT, guest: abi.SysReadlinkat, args: [6]argument{dirFD, link, out(3), value}},
	{host: unix.SYS_GETDENTS64, guest: abi.SysGetdents64, args: [6]argument{fd, out(2), value}},

	{host: unix.SYS_DUP, guest: abi.SysDup, args: [6]argument{fd}, opens: always},
	{host: unix.SYS_DUP3, guest: abi.SysDup3, args: [6]argument{fd, fd, value}},
	{host: unix.SYS_FCNTL, guest: abi.SysFcntl, args: [6]argument{fd, value, value}, opens: duplicates},
	{host: unix.SYS_PIPE2, guest: abi.SysPipe2, args: [6]argument{outRecord(sizeofPair), value}, pair: 1},

	{host: unix.SYS_FSYNC, guest: abi.SysFsync, args: [6]argument{fd}},
	{host: unix.SYS_FDATASYNC, guest: abi.SysFdatasync, args: [6]argument{fd}},
	{host: unix.SYS_TRUNCATE, guest: abi.SysTruncate, args: [6]argument{name, value}},
	{host: unix.SYS_FTRUNCATE, guest: abi.SysFtruncate, args: [6]argument{fd, value}},
	{host: unix.SYS_FCHMOD, guest: abi.SysFchmod, args: [6]argument{fd, value}},
	{host: unix.SYS_FCHMODAT, guest: abi.SysFchmodat, args: [6]argument{dirFD, name, value}},
	{host: unix.SYS_FCHOWN, guest: abi.SysFchown, args: [6]argument{fd, value, value}},
	{host: unix.SYS_FCHOWNAT, guest: abi.SysFchownat, args: [6]argument{dirFD, name, value, value, atFlags}},
	{host: unix.SYS_UTIMENSAT, guest: abi.SysUtimensat, args: [6]argument{dirFD, name, inRecord(2 * sizeofTimespec), atFlags}},

	{host: unix.SYS_GETPID, guest: abi.SysGetpid},
	{host: unix.SYS_GETTID, guest: abi.SysGettid},
	{host: unix.SYS_GETPPID, guest: abi.SysGetppid},
	{host: unix.SYS_GETUID, guest: abi.SysGetuid},
	{host: unix.SYS_GETGID, guest: abi.SysGetgid},
	{host: unix.SYS_GETEUID, guest: abi.SysGeteuid},
	{host: unix.SYS_GETEGID, guest: abi.SysGetegid},
	{host: unix.SYS_UMASK, guest: abi.SysUmask, args: [6]argument{value}},
	{host: unix.SYS_UNAME, guest: abi.SysNewuname, args: [6]argument{outRecord(sizeofUtsname)}},
	{host: unix.SYS_GETRANDOM, guest: abi.SysGetrandom, args: [6]argument{out(1), value, value}},
	{host: unix.SYS_PRLIMIT64, guest: abi.SysPrlimit64, args: [6]argument{value, value, inRecord(sizeofRlimit), outRecord(sizeofRlimit)}},
	{host: unix.SYS_IOCTL, guest: abi.SysIoctl, args: [6]argument{fd, value, value}},
	{host: unix.SYS_SCHED_YIELD, guest: abi.SysSchedYield},

	{host: unix.SYS_SOCKET, guest: abi.SysSocket, args: [6]argument{value, value, value}, opens: always},
	{host: unix.SYS_SOCKETPAIR, guest: abi.SysSocketpair, args: [6]argument{value, value, value, outRecord(sizeofPair)}, pair: 4},
	{host: unix.SYS_BIND, guest: abi.SysBind, args: [6]argument{fd, in(2), value}},
	{host: unix.SYS_LISTEN, guest: abi.SysListen, args: [6]argument{fd, value}},
	{host: unix.SYS_ACCEPT, guest: abi.SysAccept, args: [6]argument{fd, outSized(2), inOutRecord(sizeofInt)}, opens: always},
	{host: unix.SYS_ACCEPT4, guest: abi.SysAccept4, args: [6]argument{fd, outSized(2), inOutRecord(sizeofInt), value}, opens: always},
	{host: unix.SYS_CONNECT, guest: abi.SysConnect, args: [6]argument{fd, in(2), value}},
	{host: unix.SYS_SENDTO, guest: abi.SysSendto, args: [6]argument{fd, in(2), value, value, in(5), value}},
	{host: unix.SYS_RECVFROM, guest: abi.SysRecvfrom, args: [6]argument{fd, out(2), value, value, outSized(5), inOutRecord(sizeofInt)}},
	{host: unix.SYS_SENDMSG, guest: abi.SysSendmsg, args: [6]argument{fd, {kind: isInMessage}, value}},
	{host: unix.SYS_RECVMSG, guest: abi.SysRecvmsg, args: [6]argument{fd, {kind: isOutMessage}, value}},
	{host: unix.SYS_SHUTDOWN, guest: abi.SysShutdown, args: [6]argument{fd, value}},
	{host: unix.SYS_GETSOCKNAME, guest: abi.SysGetsockname, args: [6]argument{fd, outSized(2), inOutRecord(sizeofInt)}},
	{host: unix.SYS_GETPEERNAME, guest: abi.SysGetpeername, args: [6]argument{fd, outSized(2), inOutRecord(sizeofInt)}},
	{host: unix.SYS_SETSOCKOPT, guest: abi.SysSetsockopt, args: [6]argument{fd, value, value, in(4), value}},
	{host: unix.SYS_GETSOCKOPT, guest: abi.SysGetsockopt, args: [6]argument{fd, value, value, outSized(4), inOutRecord(sizeofInt)}},

	{host: unix.SYS_NANOSLEEP, guest: abi.SysNanosleep, args: [6]argument{inRecord(sizeofTimespec), value}, sleeps: true},
	{host: unix.SYS_CLOCK_NANOSLEEP, guest: abi.SysClockNanosleep, args: [6]argument{value, value, inRecord(sizeofTimespec), value}, sleeps: true},
	{host: unix.SYS_PPOLL, guest: abi.SysPpoll, args: [6]argument{inItems(sizeofPollFD), value, inRecord(sizeofTimespec), inRecord(sizeofSigset), value}, waits: waitsArray},
	{host: unix.SYS_PSELECT6, guest: abi.SysPselect6, args: [6]argument{value, bits, bits, bits, inRecord(sizeofTimespec), value}, waits: waitsSets},
	{host: unix.SYS_EPOLL_CREATE1, guest: abi.SysEpollCreate1, args: [6]argument{value}, opens: always},
	{host: unix.SYS_EPOLL_CTL, guest: abi.SysEpollCtl, args: [6]argument{fd, value, value, inRecord(sizeofEpollEvent)}, waits: waitsTarget},
	{host: unix.SYS_EPOLL_PWAIT, guest: abi.SysEpollPwait, args: [6]argument{fd, outItems(sizeofEpollEvent), value, value, inRecord(sizeofSigset), value}, waits: waitsEvents},
	{host: unix.SYS_EPOLL_PWAIT2, guest: abi.SysEpollPwait2, args: [6]argument{fd, outItems(sizeofEpollEvent), value, inRecord(sizeofTimespec), inRecord(sizeofSigset), value}, waits: waitsEvents},
	{host: unix.SYS_EVENTFD2, guest: abi.SysEventfd2, args: [6]argument{value, value}, opens: always},
	{host: unix.SYS_TIMERFD_CREATE, guest: abi.SysTimerfdCreate, args: [6]argument{value, value}, opens: always},
	{host: unix.SYS_TIMERFD_SETTIME, guest: abi.SysTimerfdSettime, args: [6]argument{fd, value, inRecord(sizeofItimerspec), outRecord(sizeofItimerspec)}},
	{host: unix.SYS_TIMERFD_GETTIME, guest: abi.SysTimerfdGettime, args: [6]argument{fd, outRecord(sizeofItimerspec)}},
	{host: unix.SYS_SIGNALFD4, guest: abi.SysSignalfd4, args: [6]argument{fd, inRecord(sizeofSigset), value, value}, opens: always},
	{host: unix.SYS_INOTIFY_INIT1, guest: abi.SysInotifyInit1, args: [6]argument{value}, opens: always},
	{host: unix.SYS_INOTIFY_ADD_WATCH, guest: abi.SysInotifyAddWatch, args: [6]argument{fd, text, value}},
	{host: unix.SYS_INOTIFY_RM_WATCH, guest: abi.SysInotifyRmWatch, args: [6]argument{fd, value}},
	{host: unix.SYS_FUTEX, guest: abi.SysFutex, args: [6]argument{inRecord(sizeofInt), value, value, {kind: isTimeout}, value, value}},

	{host: unix.SYS_SENDMMSG, guest: abi.SysSendmmsg, args: [6]argument{fd, {isInMessages, 2}, value, value}},
	{host: unix.SYS_RECVMMSG, guest: abi.SysRecvmmsg, args: [6]argument{fd, {isOutMessages, 2}, value, value, value}},

	{host: unix.SYS_SENDFILE, guest: abi.SysSendfile64, args: [6]argument{fd, fd, inOutRecord(sizeofPos), value}},
	{host: unix.SYS_SPLICE, guest: abi.SysSplice, args: [6]argument{fd, inOutRecord(sizeofPos), fd, inOutRecord(sizeofPos), value, value}},
	{host: unix.SYS_TEE, guest: abi.SysTee, args: [6]argument{fd, fd, value, value}},
	{host: unix.SYS_COPY_FILE_RANGE, guest: abi.SysCopyFileRange, args: [6]argument{fd, inOutRecord(sizeofPos), fd, inOutRecord(sizeofPos), value, value}},
	{host: unix.SYS_FLOCK, guest: abi.SysFlock, args: [6]argument{fd, value}},
	{host: unix.SYS_FADVISE64, guest: abi.SysFadvise64, args: [6]argument{fd, value, value, value}},
	{host: unix.SYS_FALLOCATE, guest: abi.SysFallocate, args: [6]argument{fd, value, value, value}},
	{host: unix.SYS_STATFS, guest: abi.SysStatfs, args: [6]argument{name, outRecord(sizeofStatfs)}},
	{host: unix.SYS_FSTATFS, guest: abi.SysFstatfs, args: [6]argument{fd, outRecord(sizeofStatfs)}},
	{host: unix.SYS_SETXATTR, guest: abi.SysSetxattr, args: [6]argument{name, text, in(3), value, value}},
	{host: unix.SYS_LSETXATTR, guest: abi.SysLsetxattr, args: [6]argument{link, text, in(3), value, value}},
	{host: unix.SYS_FSETXATTR, guest: abi.SysFsetxattr, args: [6]argument{fd, text, in(3), value, value}},
	{host: unix.SYS_GETXATTR, guest: abi.SysGetxattr, args: [6]argument{name, text, out(3), value}},
	{host: unix.SYS_LGETXATTR, guest: abi.SysLgetxattr, args: [6]argument{link, text, out(3), value}},
	{host: unix.SYS_FGETXATTR, guest: abi.SysFgetxattr, args: [6]argument{fd, text, out(3), value}},
	{host: unix.SYS_LISTXATTR, guest: abi.SysListxattr, args: [6]argument{name, out(2), value}},
	{host: unix.SYS_LLISTXATTR, guest: abi.SysLlistxattr, args: [6]argument{link, out(2), value}},
	{host: unix.SYS_FLISTXATTR, guest: abi.SysFlistxattr, args: [6]argument{fd, out(2), value}},
	{host: unix.SYS_REMOVEXATTR, guest: abi.SysRemovexattr, args: [6]argument{name, text}},
	{host: unix.SYS_LREMOVEXATTR, guest: abi.SysLremovexattr, args: [6]argument{link, text}},
	{host: unix.SYS_FREMOVEXATTR, guest: abi.SysFremovexattr, args: [6]argument{fd, text}},
	{host: unix.SYS_MKNODAT, guest: abi.SysMknodat, args: [6]argument{dirFD, link, value, value}},
	{host: unix.SYS_LINKAT, guest: abi.SysLinkat, args: [6]argument{dirFD, link, dirFD, text, value}},
	{host: unix.SYS_RENAMEAT2, guest: abi.SysRenameat2, args: [6]argument{dirFD, link, dirFD, text, value}},
	{host: unix.SYS_FCHDIR, guest: abi.SysFchdir, args: [6]argument{fd}},
	{host: unix.SYS_MOUNT, guest: abi.SysMount, args: [6]argument{text, name, text, value, text}},
	{host: unix.SYS_UMOUNT2, guest: abi.SysUmount, args: [6]argument{text, value}},
	{host: unix.SYS_PTRACE, guest: abi.SysPtrace, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_CHROOT, guest: abi.SysChroot, args: [6]argument{text}},
	{host: unix.SYS_GETCWD, guest: abi.SysGetcwd, args: [6]argument{out(1), value}},
	{host: unix.SYS_SYNC, guest: abi.SysSync},
	{host: unix.SYS_SYNCFS, guest: abi.SysSyncfs, args: [6]argument{fd}},
	{host: unix.SYS_SYNC_FILE_RANGE, guest: abi.SysSyncFileRange, args: [6]argument{fd, value, value, value}},
	{host: unix.SYS_READAHEAD, guest: abi.SysReadahead, args: [6]argument{fd, value, value}},
	{host: unix.SYS_CLOSE_RANGE, guest: abi.SysCloseRange, args: [6]argument{value, value, value}},

	{host: unix.SYS_MMAP, guest: abi.SysMmap, args: [6]argument{value, value, value, value, fd, value}},
	{host: unix.SYS_MUNMAP, guest: abi.SysMunmap, args: [6]argument{value, value}},
	{host: unix.SYS_MPROTECT, guest: abi.SysMprotect, args: [6]argument{value, value, value}},
	{host: unix.SYS_MREMAP, guest: abi.SysMremap, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_MADVISE, guest: abi.SysMadvise, args: [6]argument{value, value, value}},
	{host: unix.SYS_MSYNC, guest: abi.SysMsync, args: [6]argument{value, value, value}},
	{host: unix.SYS_MINCORE, guest: abi.SysMincore, args: [6]argument{value, value, value}},
	{host: unix.SYS_MLOCK, guest: abi.SysMlock, args: [6]argument{value, value}},
	{host: unix.SYS_MUNLOCK, guest: abi.SysMunlock, args: [6]argument{value, value}},
	{host: unix.SYS_BRK, guest: abi.SysBrk, args: [6]argument{value}},
	{host: unix.SYS_MEMBARRIER, guest: abi.SysMembarrier, args: [6]argument{value, value, value}},

	{host: unix.SYS_RT_SIGACTION, guest: abi.SysRtSigaction, args: [6]argument{value, inRecord(sizeofSigaction), outRecord(sizeofSigaction), value}},
	{host: unix.SYS_RT_SIGPROCMASK, guest: abi.SysRtSigprocmask, args: [6]argument{value, inRecord(sizeofSigset), outRecord(sizeofSigset), value}},
	{host: unix.SYS_RT_SIGPENDING, guest: abi.SysRtSigpending, args: [6]argument{outRecord(sizeofSigset), value}},
	{host: unix.SYS_RT_SIGTIMEDWAIT, guest: abi.SysRtSigtimedwait, args: [6]argument{inRecord(sizeofSigset), outRecord(sizeofSiginfo), inRecord(sizeofTimespec), value}},
	{host: unix.SYS_RT_SIGSUSPEND, guest: abi.SysRtSigsuspend, args: [6]argument{inRecord(sizeofSigset), value}},
	{host: unix.SYS_RT_SIGQUEUEINFO, guest: abi.SysRtSigqueueinfo, args: [6]argument{value, value, inRecord(sizeofSiginfo)}},
	{host: unix.SYS_RT_TGSIGQUEUEINFO, guest: abi.SysRtTgsigqueueinfo, args: [6]argument{value, value, value, inRecord(sizeofSiginfo)}},
	{host: unix.SYS_SIGALTSTACK, guest: abi.SysSigaltstack, args: [6]argument{inRecord(sizeofStack), outRecord(sizeofStack)}},
	{host: unix.SYS_SETITIMER, guest: abi.SysSetitimer, args: [6]argument{value, inRecord(sizeofItimerval), outRecord(sizeofItimerval)}},
	{host: unix.SYS_GETITIMER, guest: abi.SysGetitimer, args: [6]argument{value, outRecord(sizeofItimerval)}},
	{host: unix.SYS_TIMER_CREATE, guest: abi.SysTimerCreate, args: [6]argument{value, value, outRecord(sizeofInt)}},
	{host: unix.SYS_TIMER_SETTIME, guest: abi.SysTimerSettime, args: [6]argument{value, value, inRecord(sizeofItimerspec), outRecord(sizeofItimerspec)}},
	{host: unix.SYS_TIMER_GETTIME, guest: abi.SysTimerGettime, args: [6]argument{value, outRecord(sizeofItimerspec)}},
	{host: unix.SYS_TIMER_GETOVERRUN, guest: abi.SysTimerGetoverrun, args: [6]argument{value}},
	{host: unix.SYS_TIMER_DELETE, guest: abi.SysTimerDelete, args: [6]argument{value}},
	{host: unix.SYS_CLOCK_GETRES, guest: abi.SysClockGetres, args: [6]argument{value, outRecord(sizeofTimespec)}},
	{host: unix.SYS_CLOCK_SETTIME, guest: abi.SysClockSettime, args: [6]argument{value, inRecord(sizeofTimespec)}},
	{host: unix.SYS_SETTIMEOFDAY, guest: abi.SysSettimeofday, args: [6]argument{inRecord(sizeofTimeval), value}},

	{host: unix.SYS_SETUID, guest: abi.SysSetuid, args: [6]argument{value}},
	{host: unix.SYS_SETGID, guest: abi.SysSetgid, args: [6]argument{value}},
	{host: unix.SYS_SETREUID, guest: abi.SysSetreuid, args: [6]argument{value, value}},
	{host: unix.SYS_SETREGID, guest: abi.SysSetregid, args: [6]argument{value, value}},
	{host: unix.SYS_SETRESUID, guest: abi.SysSetresuid, args: [6]argument{value, value, value}},
	{host: unix.SYS_SETRESGID, guest: abi.SysSetresgid, args: [6]argument{value, value, value}},
	{host: unix.SYS_SETFSUID, guest: abi.SysSetfsuid, args: [6]argument{value}},
	{host: unix.SYS_SETFSGID, guest: abi.SysSetfsgid, args: [6]argument{value}},
	{host: unix.SYS_GETRESUID, guest: abi.SysGetresuid, args: [6]argument{outRecord(sizeofInt), outRecord(sizeofInt), outRecord(sizeofInt)}},
	{host: unix.SYS_GETRESGID, guest: abi.SysGetresgid, args: [6]argument{outRecord(sizeofInt), outRecord(sizeofInt), outRecord(sizeofInt)}},
	{host: unix.SYS_GETGROUPS, guest: abi.SysGetgroups, args: [6]argument{value, value}},
	{host: unix.SYS_SETGROUPS, guest: abi.SysSetgroups, args: [6]argument{value, value}},
	{host: unix.SYS_CAPGET, guest: abi.SysCapget, args: [6]argument{value, value}},
	{host: unix.SYS_CAPSET, guest: abi.SysCapset, args: [6]argument{value, value}},
	{host: unix.SYS_SETPGID, guest: abi.SysSetpgid, args: [6]argument{value, value}},
	{host: unix.SYS_GETPGID, guest: abi.SysGetpgid, args: [6]argument{value}},
	{host: unix.SYS_SETSID, guest: abi.SysSetsid},
	{host: unix.SYS_GETSID, guest: abi.SysGetsid, args: [6]argument{value}},
	{host: unix.SYS_PERSONALITY, guest: abi.SysPersonality, args: [6]argument{value}},
	{host: unix.SYS_WAITID, guest: abi.SysWaitid, args: [6]argument{value, value, outRecord(sizeofSiginfo), value, outRecord(sizeofRusage)}},
	{host: unix.SYS_GETRUSAGE, guest: abi.SysGetrusage, args: [6]argument{value, outRecord(sizeofRusage)}},
	{host: unix.SYS_TIMES, guest: abi.SysTimes, args: [6]argument{outRecord(sizeofTms)}},
	{host: unix.SYS_SYSINFO, guest: abi.SysSysinfo, args: [6]argument{outRecord(sizeofSysinfo)}},
	{host: unix.SYS_GETPRIORITY, guest: abi.SysGetpriority, args: [6]argument{value, value}},
	{host: unix.SYS_SETPRIORITY, guest: abi.SysSetpriority, args: [6]argument{value, value, value}},
	{host: unix.SYS_SCHED_SETAFFINITY, guest: abi.SysSchedSetaffinity, args: [6]argument{value, value, in(1)}},
	{host: unix.SYS_SCHED_GETAFFINITY, guest: abi.SysSchedGetaffinity, args: [6]argument{value, value, out(1)}},
	{host: unix.SYS_SCHED_SETPARAM, guest: abi.SysSchedSetparam, args: [6]argument{value, inRecord(sizeofInt)}},
	{host: unix.SYS_SCHED_GETPARAM, guest: abi.SysSchedGetparam, args: [6]argument{value, outRecord(sizeofInt)}},
	{host: unix.SYS_SCHED_SETSCHEDULER, guest: abi.SysSchedSetscheduler, args: [6]argument{value, value, inRecord(sizeofInt)}},
	{host: unix.SYS_SCHED_GETSCHEDULER, guest: abi.SysSchedGetscheduler, args: [6]argument{value}},
	{host: unix.SYS_SCHED_GET_PRIORITY_MAX, guest: abi.SysSchedGetPriorityMax, args: [6]argument{value}},
	{host: unix.SYS_SCHED_GET_PRIORITY_MIN, guest: abi.SysSchedGetPriorityMin, args: [6]argument{value}},
	{host: unix.SYS_SCHED_SETATTR, guest: abi.SysSchedSetattr, args: [6]argument{value, value, value}},
	{host: unix.SYS_SCHED_GETATTR, guest: abi.SysSchedGetattr, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_SET_TID_ADDRESS, guest: abi.SysSetTidAddress, args: [6]argument{value}},
	{host: unix.SYS_SET_ROBUST_LIST, guest: abi.SysSetRobustList, args: [6]argument{value, value}},
	{host: unix.SYS_GET_ROBUST_LIST, guest: abi.SysGetRobustList, args: [6]argument{value, value, value}},
	{host: unix.SYS_RSEQ, guest: abi.SysRseq, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_WAIT4, guest: abi.SysWait4, args: [6]argument{value, outRecord(sizeofInt), value, outRecord(sizeofRusage)}},

	{host: unix.SYS_PRCTL, guest: abi.SysPrctl, args: [6]argument{value, value, value, value, value}, except: toldPrctl},
	{host: unix.SYS_MQ_OPEN, guest: abi.SysMqOpen, args: [6]argument{text, value, value, inRecord(sizeofMqAttr)}},
	{host: unix.SYS_MQ_UNLINK, guest: abi.SysMqUnlink, args: [6]argument{text}},
	{host: unix.SYS_MQ_TIMEDSEND, guest: abi.SysMqTimedsend, args: [6]argument{value, in(2), value, value, inRecord(sizeofTimespec)}},
	{host: unix.SYS_MQ_TIMEDRECEIVE, guest: abi.SysMqTimedreceive, args: [6]argument{value, out(2), value, outRecord(sizeofInt), inRecord(sizeofTimespec)}},
	{host: unix.SYS_MQ_NOTIFY, guest: abi.SysMqNotify, args: [6]argument{value, inRecord(sizeofSigevent)}},
	{host: unix.SYS_MQ_GETSETATTR, guest: abi.SysMqGetsetattr, args: [6]argument{value, inRecord(sizeofMqAttr), outRecord(sizeofMqAttr)}},
	{host: unix.SYS_VHANGUP, guest: abi.SysVhangup},
	{host: unix.SYS_PIDFD_SEND_SIGNAL, guest: abi.SysPidfdSendSignal, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_PIDFD_OPEN, guest: abi.SysPidfdOpen, args: [6]argument{value, value}},
	{host: unix.SYS_PIDFD_GETFD, guest: abi.SysPidfdGetfd, args: [6]argument{value, value, value}},
	{host: unix.SYS_PKEY_MPROTECT, guest: abi.SysPkeyMprotect, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_PKEY_ALLOC, guest: abi.SysPkeyAlloc, args: [6]argument{value, value}},
	{host: unix.SYS_PKEY_FREE, guest: abi.SysPkeyFree, args: [6]argument{value}},
	{host: unix.SYS_SHMGET, guest: abi.SysShmget, args: [6]argument{value, value, value}},
	{host: unix.SYS_SHMAT, guest: abi.SysShmat, args: [6]argument{value, value, value}},
	{host: unix.SYS_SHMCTL, guest: abi.SysShmctl, args: [6]argument{value, value, value}},
	{host: unix.SYS_SHMDT, guest: abi.SysShmdt, args: [6]argument{value}},
	{host: unix.SYS_SEMGET, guest: abi.SysSemget, args: [6]argument{value, value, value}},
	{host: unix.SYS_SEMOP, guest: abi.SysSemop, args: [6]argument{value, value, value}},
	{host: unix.SYS_SEMCTL, guest: abi.SysSemctl, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_SEMTIMEDOP, guest: abi.SysSemtimedop, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_MSGGET, guest: abi.SysMsgget, args: [6]argument{value, value}},
	{host: unix.SYS_MSGSND, guest: abi.SysMsgsnd, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_MSGRCV, guest: abi.SysMsgrcv, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_MSGCTL, guest: abi.SysMsgctl, args: [6]argument{value, value, value}},
	{host: unix.SYS_MEMFD_CREATE, guest: abi.SysMemfdCreate, args: [6]argument{text, value}},
	{host: unix.SYS_UNSHARE, guest: abi.SysUnshare, args: [6]argument{value}},
	{host: unix.SYS_SETNS, guest: abi.SysSetns, args: [6]argument{value, value}},
	{host: unix.SYS_SETHOSTNAME, guest: abi.SysSethostname, args: [6]argument{text, value}},
	{host: unix.SYS_SETDOMAINNAME, guest: abi.SysSetdomainname, args: [6]argument{text, value}},
	{host: unix.SYS_MLOCKALL, guest: abi.SysMlockall, args: [6]argument{value}},
	{host: unix.SYS_MUNLOCKALL, guest: abi.SysMunlockall},
	{host: unix.SYS_MLOCK2, guest: abi.SysMlock2, args: [6]argument{value, value, value}},
	{host: unix.SYS_SCHED_RR_GET_INTERVAL, guest: abi.SysSchedRrGetInterval, args: [6]argument{value, value}},
	{host: unix.SYS_VMSPLICE, guest: abi.SysVmsplice, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_NAME_TO_HANDLE_AT, guest: abi.SysNameToHandleAt, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_OPEN_BY_HANDLE_AT, guest: abi.SysOpenByHandleAt, args: [6]argument{value, value, value}},
	{host: unix.SYS_PROCESS_VM_READV, guest: abi.SysProcessVMReadv, args: [6]argument{value, value, value, value, value, value}},
	{host: unix.SYS_PROCESS_VM_WRITEV, guest: abi.SysProcessVMWritev, args: [6]argument{value, value, value, value, value, value}},
	{host: unix.SYS_KCMP, guest: abi.SysKcmp, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_IOPRIO_SET, guest: abi.SysIoprioSet, args: [6]argument{value, value, value}},
	{host: unix.SYS_IOPRIO_GET, guest: abi.SysIoprioGet, args: [6]argument{value, value}},
	{host: unix.SYS_ADD_KEY, guest: abi.SysAddKey, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_REQUEST_KEY, guest: abi.SysRequestKey, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_KEYCTL, guest: abi.SysKeyctl, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_FANOTIFY_INIT, guest: abi.SysFanotifyInit, args: [6]argument{value, value}},
	{host: unix.SYS_FANOTIFY_MARK, guest: abi.SysFanotifyMark, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_PIVOT_ROOT, guest: abi.SysPivotRoot, args: [6]argument{text, text}},
	{host: unix.SYS_ADJTIMEX, guest: abi.SysAdjtimex, args: [6]argument{value}},
	{host: unix.SYS_CLOCK_ADJTIME, guest: abi.SysClockAdjtime, args: [6]argument{value, value}},
	{host: unix.SYS_IO_SETUP, guest: abi.SysIoSetup, args: [6]argument{value, value}},
	{host: unix.SYS_IO_DESTROY, guest: abi.SysIoDestroy, args: [6]argument{value}},
	{host: unix.SYS_IO_GETEVENTS, guest: abi.SysIoGetevents, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_IO_SUBMIT, guest: abi.SysIoSubmit, args: [6]argument{value, value, value}},
	{host: unix.SYS_IO_CANCEL, guest: abi.SysIoCancel, args: [6]argument{value, value, value}},
	{host: unix.SYS_IO_PGETEVENTS, guest: abi.SysIoPgetevents, args: [6]argument{value, value, value, value, value, value}},
	{host: unix.SYS_REMAP_FILE_PAGES, guest: abi.SysRemapFilePages, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_MBIND, guest: abi.SysMbind, args: [6]argument{value, value, value, value, value, value}},
	{host: unix.SYS_SET_MEMPOLICY, guest: abi.SysSetMempolicy, args: [6]argument{value, value, value}},
	{host: unix.SYS_GET_MEMPOLICY, guest: abi.SysGetMempolicy, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_MIGRATE_PAGES, guest: abi.SysMigratePages, args: [6]argument{value, value, value, value}},
	{host: unix.SYS_MOVE_PAGES, guest: abi.SysMovePages, args: [6]argument{value, value, value, value, value, value}},
	{host: unix.SYS_ACCT, guest: abi.SysAcct, args: [6]argument{value}},
	{host: unix.SYS_SWAPON, guest: abi.SysSwapon, args: [6]argument{value, value}},
	{host: unix.SYS_SWAPOFF, guest: abi.SysSwapoff, args: [6]argument{value}},
	{host: unix.SYS_USERFAULTFD, guest: abi.SysUserfaultfd, args: [6]argument{value}},
	{host: unix.SYS_SECCOMP, guest: abi.SysSeccomp, args: [6]argument{value, value, value}},
	{host: unix.SYS_PROCESS_MADVISE, guest: abi.SysProcessMadvise, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_OPEN_TREE, guest: abi.SysOpenTree, args: [6]argument{value, value, value}},
	{host: unix.SYS_MOVE_MOUNT, guest: abi.SysMoveMount, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_FSOPEN, guest: abi.SysFsopen, args: [6]argument{value, value}},
	{host: unix.SYS_FSCONFIG, guest: abi.SysFsconfig, args: [6]argument{value, value, value, value, value}},
	{host: unix.SYS_FSMOUNT, guest: abi.SysFsmount, args: [6]argument{value, value, value}},
	{host: unix.SYS_FSPICK, guest: abi.SysFspick, args: [6]argument{value, value, value}},
	{host: unix.SYS_QUOTACTL, guest: abi.SysQuotactl, args: [6]argument{value, value, value, value}},
}, oldMirroredCalls...)

// mirroredRows has the rows by their numbers on this machine.
var mirroredRows = func() map[uint64]*mirroredCall {
	rows := map[uint64]*mirroredCall{}
	for i := range mirroredCalls {
		rows[mirroredCalls[i].host] = &mirroredCalls[i]
	}
	return rows
}()

// mirroredNumbers returns the numbers on x86-64 of the calls that are mirrored.
func mirroredNumbers() []uint64 {
	var all []uint64
	for _, c := range tracedCalls {
		if slices.Contains(toldCalls, uint64(c.host)) {
			all = append(all, c.guest)
		}
	}
	for _, c := range mirroredCalls {
		all = append(all, c.guest)
	}
	return all
}

// maxMirrored is how many bytes of a call's data the guest gets.
const maxMirrored = 16 << 10

// maxVectorLen is UIO_MAXIOV, the largest number of parts that a call takes.
const maxVectorLen = 1024

// callMemory collects what the arguments of a thread's call point to.
type callMemory struct {
	host.Memory
	tid     int
	written []writtenPart
	// present, if not nil, returns how many of n bytes from addr on can be read without
	// waiting. Then nothing else is read, and absent says that something was not.
	present func(addr uint64, n int) int
	absent  bool
}

// writtenPart is memory that a call may write.
type writtenPart struct {
	at, size int
	addr     uint64
	record   bool // it is written whole, or not at all
	item     int  // the result counts items of this size, in bytes; 0 where it counts bytes
}

// add makes room for size bytes of the thread's memory, of which the first have the content b.
func (m *callMemory) add(b []byte, size int) (at int) {
	m.Data = append(m.Data, make([]byte, -len(m.Data)&7)...)
	at = len(m.Data)
	m.Data = append(m.Data, b[:min(len(b), size)]...)
	m.Data = append(m.Data, make([]byte, size-min(len(b), size))...)
	return at
}

// left limits a size to the room that is left.
func (m *callMemory) left(size uint64) int {
	return int(min(size, uint64(max(maxMirrored-len(m.Data), 0))))
}

// tail is how much is read of the memory after that which a call reads, in bytes: a probe
// may read a string there, which ends somewhere.
const tail = 256

// read adds memory that the call reads, and reports whether there is any.
func (m *callMemory) read(addr, size uint64) (at int, ok bool) {
	n := m.left(size)
	if n == 0 || addr == 0 {
		return 0, false
	}
	b := m.get(addr, n, n+tail)
	if len(b) == 0 {
		return 0, false
	}
	return m.add(b, max(n, len(b))), true
}

// get reads n bytes of the program's memory, or up to most.
func (m *callMemory) get(addr uint64, n, most int) []byte {
	if m.present != nil {
		if most = m.present(addr, most); most < n {
			m.absent = true
			return nil
		}
	}
	return proc.ReadMemory(m.tid, addr, make([]byte, most))
}

// write adds memory that the call writes.
func (m *callMemory) write(addr, size uint64, record bool) (at int, ok bool) {
	n := m.left(size)
	if n == 0 || addr == 0 {
		return 0, false
	}
	at = m.add(nil, n)
	m.written = append(m.written, writtenPart{at: at, size: n, addr: addr, record: record})
	return at, true
}

// readRecord adds a record that the call reads and writes.
func (m *callMemory) readRecord(addr, size uint64) (at int, ok bool) {
	n := m.left(size)
	if at, ok = m.read(addr, uint64(n)); ok {
		m.written = append(m.written, writtenPart{at: at, size: n, addr: addr, record: true})
	}
	return at, ok
}

// writeSized adds memory that the call writes, whose size is an int in the program's memory.
func (m *callMemory) writeSized(addr, size uint64) (at int, ok bool) {
	if addr == 0 || size == 0 {
		return 0, false
	}
	b := m.get(size, sizeofInt, sizeofInt)
	if len(b) < sizeofInt {
		return 0, false
	}
	return m.write(addr, uint64(binary.NativeEndian.Uint32(b)), true)
}

// message adds a struct msghdr and the memory that it refers to.
func (m *callMemory) message(addr uint64, writes bool) (at int, ok bool) {
	b := m.get(addr, sizeofMsghdr, sizeofMsghdr)
	if len(b) < sizeofMsghdr {
		return 0, false
	}
	at = m.add(b, sizeofMsghdr)
	m.messageParts(b, at, addr, writes)
	return at, true
}

// messages adds an array of struct mmsghdr, of n messages, and the memory that they refer to.
func (m *callMemory) messages(addr, n uint64, writes bool) (at int, ok bool) {
	const most = 64
	size := int(min(n, most)) * sizeofMmsghdr
	b := m.get(addr, size, size)
	if size == 0 || len(b) < size {
		return 0, false
	}
	at = m.add(b, size)
	for i := 0; i < size; i += sizeofMmsghdr {
		m.messageParts(b[i:], at+i, addr+uint64(i), writes)
		m.written = append(m.written, writtenPart{at: at + i + sizeofMsghdr, size: sizeofInt, addr: addr + uint64(i) + sizeofMsghdr, record: true})
	}
	return at, true
}

// messageParts adds what the struct msghdr b refers to, which is at place at, and at addr in
// the program.
func (m *callMemory) messageParts(b []byte, at int, addr uint64, writes bool) {
	// Where the fields of struct msghdr are.
	const name, nameLen, iov, iovLen, control, controlLen = 0, 8, 16, 24, 32, 40
	field := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	part := func(off int, n uint64) {
		to, ok := 0, false
		if writes {
			to, ok = m.write(field(off), n, true)
		} else {
			to, ok = m.read(field(off), n)
		}
		if ok {
			m.Refs = append(m.Refs, host.Ref{At: at + off, To: to})
		}
	}
	if to, ok := m.vector(field(iov), field(iovLen), writes); ok {
		m.Refs = append(m.Refs, host.Ref{At: at + iov, To: to})
	}
	part(name, uint64(binary.NativeEndian.Uint32(b[nameLen:])))
	part(control, field(controlLen))
	if writes {
		m.written = append(m.written, writtenPart{at: at + nameLen, size: sizeofInt, addr: addr + nameLen, record: true},
			writtenPart{at: at + controlLen, size: sizeofMsghdr - controlLen, addr: addr + controlLen, record: true})
	}
}

// vector adds an array of struct iovec and the memory that it refers to.
func (m *callMemory) vector(addr, length uint64, writes bool) (at int, ok bool) {
	const size = 16
	if length == 0 || length > maxVectorLen {
		return 0, false
	}
	n := int(length * size)
	b := m.get(addr, n, n)
	if len(b) < n {
		return 0, false
	}
	at = m.add(b, len(b))
	for i := 0; i < len(b); i += size {
		base, n := binary.NativeEndian.Uint64(b[i:]), binary.NativeEndian.Uint64(b[i+8:])
		var to int
		if writes {
			to, ok = m.write(base, n, false)
		} else {
			to, ok = m.read(base, n)
		}
		if !ok {
			to = at // the guest's own address, of which it uses nothing
		}
		if base != 0 {
			m.Refs = append(m.Refs, host.Ref{At: at + i, To: to})
		}
	}
	return at, true
}

// items adds an array of n items of a size in bytes, of which the call writes as many as it
// returns, or with read all.
func (m *callMemory) items(addr, size, n uint64, read bool) (at int, ok bool) {
	n = min(n, maxMirrored/size)
	if read {
		return m.readRecord(addr, n*size)
	}
	if at, ok = m.write(addr, n*size, false); ok {
		m.written[len(m.written)-1].item = int(size)
	}
	return at, ok
}

// futexTimes reports whether the fourth argument of a futex(2) points to a time.
func futexTimes(op uint64) bool {
	const wait, lockPI, waitBitset, waitRequeuePI, lockPI2 = 0, 6, 9, 11, 13
	const private, realtime = 128, 256
	switch uint32(op) &^ (private | realtime) {
	case wait, lockPI, waitBitset, waitRequeuePI, lockPI2:
		return true
	}
	return false
}

// named reports whether an argument is a file's name. To look that up may take long.
func (c *mirroredCall) named() bool {
	return slices.ContainsFunc(c.args[:], func(a argument) bool { return a.kind == isName || a.kind == isLink })
}

// arguments adds what the arguments of a call point to.
func (m *callMemory) arguments(row *mirroredCall, args [6]uint64) {
	for i, a := range row.args {
		m.argument(a, i, args)
	}
}

// argument adds what an argument points to.
func (m *callMemory) argument(a argument, i int, args [6]uint64) {
	var at int
	var ok bool
	switch a.kind {
	case isIn:
		at, ok = m.read(args[i], args[a.size])
	case isOut:
		at, ok = m.write(args[i], args[a.size], false)
	case isInRecord:
		at, ok = m.read(args[i], uint64(a.size))
	case isOutRecord:
		at, ok = m.write(args[i], uint64(a.size), true)
	case isInOutRecord:
		at, ok = m.readRecord(args[i], uint64(a.size))
	case isOutSized:
		at, ok = m.writeSized(args[i], args[a.size])
	case isInVector, isOutVector:
		at, ok = m.vector(args[i], args[a.size], a.kind == isOutVector)
	case isInMessage, isOutMessage:
		at, ok = m.message(args[i], a.kind == isOutMessage)
	case isOutItems:
		at, ok = m.items(args[i], uint64(a.size), args[i+1], false)
	case isInItems:
		at, ok = m.items(args[i], uint64(a.size), args[i+1], true)
	case isBits:
		at, ok = m.readRecord(args[i], (uint64(uint32(args[0]))+63)/64*8)
	case isTimeout:
		if futexTimes(args[1]) {
			at, ok = m.read(args[i], sizeofTimespec)
		}
	case isInMessages, isOutMessages:
		at, ok = m.messages(args[i], args[a.size], a.kind == isOutMessages)
	case isName, isLink, isText:
		var text []byte
		if text = readString(m.tid, args[i]); text != nil {
			at, ok = m.add(append(text, 0), len(text)+1), true
		}
	case isValue, isFD, isDir, isAtFlags:
	}
	if ok {
		m.Args[i] = 1 + at
	}
}

// changed returns what the call has written: ret bytes in all, or whole records.
func (m *callMemory) changed(ret int64) (all []host.Written) {
	for _, w := range m.written {
		n := int64(w.size)
		switch {
		case w.item > 0:
			n = min(n, ret*int64(w.item))
		case !w.record:
			n = min(n, ret)
			ret -= n
		}
		if ret < 0 || n <= 0 {
			continue
		}
		all = append(all, host.Written{At: w.at, Data: m.get(w.addr, int(n), int(n))})
	}
	return all
}

// awaitChanged is changed in another thread than the tracing one, which may wait for memory.
func (m *callMemory) awaitChanged(ret int64) []host.Written {
	m.present = nil
	return m.changed(ret)
}

// path resolves the name among the arguments: mode is that of the file. ours reports whether
// it is below one of dirs.
func (c *mirroredCall) path(at view, tid int, args [6]uint64, dirs []string) (mode uint64, ours bool) {
	of := tracedCall{name: -1, dir: -1}
	for i, a := range c.args {
		switch {
		case a.kind == isDir && of.name < 0:
			of.dir = i
		case a.kind == isName || a.kind == isLink:
			of.name, of.made = i, of.made || a.kind == isLink
		case a.kind == isAtFlags:
			of.made = of.made || args[i]&unix.AT_SYMLINK_NOFOLLOW != 0
		}
	}
	if of.name < 0 {
		return 0, false
	}
	text := readString(tid, args[of.name])
	if len(text) == 0 {
		return 0, false
	}
	path, mode := hostPath(at, tid, &of, args, string(text), dirs)
	return mode, below(path, dirs)
}
