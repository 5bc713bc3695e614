// Package calls has the system calls that exec sees to as a table: which the guest makes as well, how the two
// kernels number them, who tells the guest of them, what their arguments point to, and which of them open files or wait for them. It does
// nothing itself.
package calls

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Row is a system call that the guest makes, too.
type Row struct {
	Host  uint64 // its number on this machine
	Guest uint64 // its number on x86-64
	By    Teller // who tells the guest of it
	Args  [6]Argument

	Opens func(args [6]uint64) bool // reports whether the result is a descriptor; nil means that it never is
	Pair  int                       // 1 + the argument that points to two new descriptors, or 0
	Waits WaitKind                  // how it names the descriptors that it waits for

	Except func(args [6]uint64) bool // reports whether the supervisor tells of it although By says otherwise; nil means that it never does
	Sleeps bool                      // when a signal ends the call, it returns errRestartBlock
	Stops  bool                      // a stop of the thread ends the call with EINTR (signal(7))
}

// Teller says who tells the guest of a call.
type Teller int

// The tellers.
const (
	Tracer     Teller = iota // the thread that stops the command's threads at their calls
	Supervisor               // which the host's kernel notifies before it makes the call
	Either                   // the tracer if all is known of the call at once, otherwise the supervisor, and the tracer tells of its end
)

// Told reports whether the host's kernel notifies the supervisor of the call, whatever its arguments are.
func (c *Row) Told() bool { return c.By != Tracer }

// Plain reports whether all that the supervisor tells of a call are its arguments: of forks, exits and signals. Where the
// host's kernel reports forks and exits, the tracer tells of these calls in its place (mirror.New).
func (c *Row) Plain() bool { return c.By == Supervisor && c.Name() < 0 }

// OpensFile reports whether a call opens a file by its name.
func (c *Row) OpensFile() bool { return c.By == Either && c.Opens != nil }

// Ends reports whether a call gives up its descriptor, or a part of what that is for.
func (c *Row) Ends() bool { return c.Guest == abi.SysClose || c.Guest == abi.SysShutdown }

// Changes reports whether a call that has returned ret on a socket of TCP may have changed, or may have met, another
// state of the socket or another address than it had before.
func (c *Row) Changes(ret int64) bool {
	const errRestart = 512
	switch c.Guest {
	case abi.SysBind, abi.SysListen, abi.SysConnect, abi.SysShutdown:
		return true
	case abi.SysClose, abi.SysAccept, abi.SysAccept4: // the descriptor is gone; the result is another one
		return false
	}
	if ret == 0 {
		return slices.ContainsFunc(c.Args[:], func(a Argument) bool { return a.Kind == IsOut || a.Kind == IsOutVector || a.Kind == IsOutMessage })
	}
	return ret < 0 && ret > -errRestart && ret != -int64(unix.EAGAIN) && ret != -int64(unix.EINTR)
}

// Argument says what an argument is.
type Argument struct {
	Kind Kind
	Size int // of memory: the argument with its size, or with a pointer to that, or the size in bytes of a record
}

// Kind says what an argument is.
type Kind int

// The kinds of arguments.
const (
	IsValue       Kind = iota
	IsFD               // a descriptor
	IsDir              // the descriptor of the directory in which a name is looked up
	IsName             // a file's name
	IsLink             // the same; it is not followed if it is a symbolic link
	IsText             // another string, such as a second name
	IsOpenFlags        // flags of open(2)
	IsAtFlags          // flags, of which AT_SYMLINK_NOFOLLOW says that the name is not followed
	IsIn               // memory that the call reads
	IsOut              // memory that the call writes; the result is the number of bytes
	IsInRecord         // memory of a certain size that the call reads
	IsOutRecord        // the same that the call writes if it succeeds
	IsInOutRecord      // the same that it reads, and writes if it succeeds
	IsOutSized         // memory that the call writes if it succeeds; its size is an int to which another argument points
	IsInVector         // an array of struct iovec, with memory that the call reads
	IsOutVector
	IsInMessage // a struct msghdr, with memory that the call reads
	IsOutMessage
	IsInMessages // an array of struct mmsghdr, with memory that the call reads
	IsOutMessages
	IsOutItems // an array, of which the call writes as many items as it returns; its length is the argument after it
	IsInItems  // an array that the call reads and writes; its length is the argument after it
	IsBits     // a set of bits that the call reads and writes; how many is the first argument
	IsTimeout  // a timespec that futex(2) reads for some operations
)

// The arguments of the rows below.
var (
	value   = Argument{}
	fd      = Argument{Kind: IsFD}
	dirFD   = Argument{Kind: IsDir}
	name    = Argument{Kind: IsName}
	link    = Argument{Kind: IsLink}
	flags   = Argument{Kind: IsOpenFlags}
	atFlags = Argument{Kind: IsAtFlags}
	text    = Argument{Kind: IsText}
	bits    = Argument{Kind: IsBits}
)

func outItems(bytes int) Argument    { return Argument{IsOutItems, bytes} }
func inItems(bytes int) Argument     { return Argument{IsInItems, bytes} }
func in(size int) Argument           { return Argument{IsIn, size} }
func out(size int) Argument          { return Argument{IsOut, size} }
func outRecord(bytes int) Argument   { return Argument{IsOutRecord, bytes} }
func inRecord(bytes int) Argument    { return Argument{IsInRecord, bytes} }
func inOutRecord(bytes int) Argument { return Argument{IsInOutRecord, bytes} }
func outSized(size int) Argument     { return Argument{IsOutSized, size} }
func inVector(length int) Argument   { return Argument{IsInVector, length} }
func outVector(length int) Argument  { return Argument{IsOutVector, length} }

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
	sizeofStatx    = 256
	SizeofTimespec = 16
	SizeofPair     = 8 // two descriptors
	sizeofUtsname  = 6 * 65
	sizeofRlimit   = 16
	SizeofInt      = 4
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
	SizeofMsghdr     = 56
	SizeofMmsghdr    = 64
	sizeofMqAttr     = 64
	sizeofOpenHow    = 24
	sizeofSigevent   = 64
)

// table are all calls that the guest makes, too. The filter asks for those of which the supervisor is notified
// in this order.
var table = slices.Concat([]Row{
	{Host: unix.SYS_OPENAT, Guest: abi.SysOpenat, By: Either, Args: [6]Argument{dirFD, name, flags, value}, Opens: always},
	{Host: unix.SYS_OPENAT2, Guest: abi.SysOpenat2, By: Either, Args: [6]Argument{dirFD, name, inRecord(sizeofOpenHow), value}, Opens: always},
	{Host: unix.SYS_CHDIR, Guest: abi.SysChdir, By: Either, Args: [6]Argument{name}},
	{Host: unix.SYS_SYMLINKAT, Guest: abi.SysSymlinkat, By: Either, Args: [6]Argument{text, dirFD, link}},
	{Host: unix.SYS_UNLINKAT, Guest: abi.SysUnlinkat, By: Either, Args: [6]Argument{dirFD, link, value}},
	{Host: unix.SYS_MKDIRAT, Guest: abi.SysMkdirat, By: Either, Args: [6]Argument{dirFD, link, value}},
	{Host: unix.SYS_EXECVE, Guest: abi.SysExecve, By: Supervisor, Args: [6]Argument{name, value, value}},
	{Host: unix.SYS_EXECVEAT, Guest: abi.SysExecveat, By: Supervisor, Args: [6]Argument{dirFD, name, value, value, value}},
	{Host: unix.SYS_CLONE, Guest: abi.SysClone, By: Supervisor},
	{Host: unix.SYS_CLONE3, Guest: abi.SysClone3, By: Supervisor},
	{Host: unix.SYS_EXIT, Guest: abi.SysExit, By: Supervisor},
	{Host: unix.SYS_EXIT_GROUP, Guest: abi.SysExitGroup, By: Supervisor},
	{Host: unix.SYS_KILL, Guest: abi.SysKill, By: Supervisor},
	{Host: unix.SYS_TKILL, Guest: abi.SysTkill, By: Supervisor},
	{Host: unix.SYS_TGKILL, Guest: abi.SysTgkill, By: Supervisor},

	{Host: unix.SYS_READ, Guest: abi.SysRead, Args: [6]Argument{fd, out(2), value}},
	{Host: unix.SYS_WRITE, Guest: abi.SysWrite, Args: [6]Argument{fd, in(2), value}},
	{Host: unix.SYS_PREAD64, Guest: abi.SysPread64, Args: [6]Argument{fd, out(2), value, value}},
	{Host: unix.SYS_PWRITE64, Guest: abi.SysPwrite64, Args: [6]Argument{fd, in(2), value, value}},
	{Host: unix.SYS_CLOSE, Guest: abi.SysClose, Args: [6]Argument{fd}},
	{Host: unix.SYS_LSEEK, Guest: abi.SysLseek, Args: [6]Argument{fd, value, value}},
	{Host: unix.SYS_READV, Guest: abi.SysReadv, Args: [6]Argument{fd, outVector(2), value}},
	{Host: unix.SYS_WRITEV, Guest: abi.SysWritev, Args: [6]Argument{fd, inVector(2), value}},
	{Host: unix.SYS_PREADV, Guest: abi.SysPreadv, Args: [6]Argument{fd, outVector(2), value, value, value}},
	{Host: unix.SYS_PWRITEV, Guest: abi.SysPwritev, Args: [6]Argument{fd, inVector(2), value, value, value}},
	{Host: unix.SYS_PREADV2, Guest: abi.SysPreadv2, Args: [6]Argument{fd, outVector(2), value, value, value, value}},
	{Host: unix.SYS_PWRITEV2, Guest: abi.SysPwritev2, Args: [6]Argument{fd, inVector(2), value, value, value, value}},

	{Host: unix.SYS_FSTAT, Guest: abi.SysNewfstat, Args: [6]Argument{fd, outRecord(abi.SizeofStat)}},
	{Host: sysFstatat, Guest: abi.SysNewfstatat, Args: [6]Argument{dirFD, name, outRecord(abi.SizeofStat), atFlags}},
	{Host: unix.SYS_STATX, Guest: abi.SysStatx, Args: [6]Argument{dirFD, name, atFlags, value, outRecord(sizeofStatx)}},
	{Host: unix.SYS_FACCESSAT, Guest: abi.SysFaccessat, Args: [6]Argument{dirFD, name, value}},
	{Host: unix.SYS_FACCESSAT2, Guest: abi.SysFaccessat2, Args: [6]Argument{dirFD, name, value, atFlags}},
	{Host: unix.SYS_READLINKAT, Guest: abi.SysReadlinkat, Args: [6]Argument{dirFD, link, out(3), value}},
	{Host: unix.SYS_GETDENTS64, Guest: abi.SysGetdents64, Args: [6]Argument{fd, out(2), value}},

	{Host: unix.SYS_DUP, Guest: abi.SysDup, Args: [6]Argument{fd}, Opens: always},
	{Host: unix.SYS_DUP3, Guest: abi.SysDup3, Args: [6]Argument{fd, fd, value}},
	{Host: unix.SYS_FCNTL, Guest: abi.SysFcntl, Args: [6]Argument{fd, value, value}, Opens: duplicates},
	{Host: unix.SYS_PIPE2, Guest: abi.SysPipe2, Args: [6]Argument{outRecord(SizeofPair), value}, Pair: 1},

	{Host: unix.SYS_FSYNC, Guest: abi.SysFsync, Args: [6]Argument{fd}},
	{Host: unix.SYS_FDATASYNC, Guest: abi.SysFdatasync, Args: [6]Argument{fd}},
	{Host: unix.SYS_TRUNCATE, Guest: abi.SysTruncate, Args: [6]Argument{name, value}},
	{Host: unix.SYS_FTRUNCATE, Guest: abi.SysFtruncate, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_FCHMOD, Guest: abi.SysFchmod, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_FCHMODAT, Guest: abi.SysFchmodat, Args: [6]Argument{dirFD, name, value}},
	{Host: unix.SYS_FCHOWN, Guest: abi.SysFchown, Args: [6]Argument{fd, value, value}},
	{Host: unix.SYS_FCHOWNAT, Guest: abi.SysFchownat, Args: [6]Argument{dirFD, name, value, value, atFlags}},
	{Host: unix.SYS_UTIMENSAT, Guest: abi.SysUtimensat, Args: [6]Argument{dirFD, name, inRecord(2 * SizeofTimespec), atFlags}},

	{Host: unix.SYS_GETPID, Guest: abi.SysGetpid},
	{Host: unix.SYS_GETTID, Guest: abi.SysGettid},
	{Host: unix.SYS_GETPPID, Guest: abi.SysGetppid},
	{Host: unix.SYS_GETUID, Guest: abi.SysGetuid},
	{Host: unix.SYS_GETGID, Guest: abi.SysGetgid},
	{Host: unix.SYS_GETEUID, Guest: abi.SysGeteuid},
	{Host: unix.SYS_GETEGID, Guest: abi.SysGetegid},
	{Host: unix.SYS_UMASK, Guest: abi.SysUmask, Args: [6]Argument{value}},
	{Host: unix.SYS_UNAME, Guest: abi.SysNewuname, Args: [6]Argument{outRecord(sizeofUtsname)}},
	{Host: unix.SYS_GETRANDOM, Guest: abi.SysGetrandom, Args: [6]Argument{out(1), value, value}},
	{Host: unix.SYS_PRLIMIT64, Guest: abi.SysPrlimit64, Args: [6]Argument{value, value, inRecord(sizeofRlimit), outRecord(sizeofRlimit)}},
	{Host: unix.SYS_IOCTL, Guest: abi.SysIoctl, Args: [6]Argument{fd, value, value}},
	{Host: unix.SYS_SCHED_YIELD, Guest: abi.SysSchedYield},

	{Host: unix.SYS_SOCKET, Guest: abi.SysSocket, Args: [6]Argument{value, value, value}, Opens: always},
	{Host: unix.SYS_SOCKETPAIR, Guest: abi.SysSocketpair, Args: [6]Argument{value, value, value, outRecord(SizeofPair)}, Pair: 4},
	{Host: unix.SYS_BIND, Guest: abi.SysBind, Args: [6]Argument{fd, in(2), value}},
	{Host: unix.SYS_LISTEN, Guest: abi.SysListen, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_ACCEPT, Guest: abi.SysAccept, Args: [6]Argument{fd, outSized(2), inOutRecord(SizeofInt)}, Opens: always, Stops: true},
	{Host: unix.SYS_ACCEPT4, Guest: abi.SysAccept4, Args: [6]Argument{fd, outSized(2), inOutRecord(SizeofInt), value}, Opens: always, Stops: true},
	{Host: unix.SYS_CONNECT, Guest: abi.SysConnect, Args: [6]Argument{fd, in(2), value}, Stops: true},
	{Host: unix.SYS_SENDTO, Guest: abi.SysSendto, Args: [6]Argument{fd, in(2), value, value, in(5), value}, Stops: true},
	{Host: unix.SYS_RECVFROM, Guest: abi.SysRecvfrom, Args: [6]Argument{fd, out(2), value, value, outSized(5), inOutRecord(SizeofInt)}, Stops: true},
	{Host: unix.SYS_SENDMSG, Guest: abi.SysSendmsg, Args: [6]Argument{fd, {Kind: IsInMessage}, value}, Stops: true},
	{Host: unix.SYS_RECVMSG, Guest: abi.SysRecvmsg, Args: [6]Argument{fd, {Kind: IsOutMessage}, value}, Stops: true},
	{Host: unix.SYS_SHUTDOWN, Guest: abi.SysShutdown, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_GETSOCKNAME, Guest: abi.SysGetsockname, Args: [6]Argument{fd, outSized(2), inOutRecord(SizeofInt)}},
	{Host: unix.SYS_GETPEERNAME, Guest: abi.SysGetpeername, Args: [6]Argument{fd, outSized(2), inOutRecord(SizeofInt)}},
	{Host: unix.SYS_SETSOCKOPT, Guest: abi.SysSetsockopt, Args: [6]Argument{fd, value, value, in(4), value}},
	{Host: unix.SYS_GETSOCKOPT, Guest: abi.SysGetsockopt, Args: [6]Argument{fd, value, value, outSized(4), inOutRecord(SizeofInt)}},

	{Host: unix.SYS_NANOSLEEP, Guest: abi.SysNanosleep, Args: [6]Argument{inRecord(SizeofTimespec), value}, Sleeps: true},
	{Host: unix.SYS_CLOCK_NANOSLEEP, Guest: abi.SysClockNanosleep, Args: [6]Argument{value, value, inRecord(SizeofTimespec), value}, Sleeps: true},
	{Host: unix.SYS_PPOLL, Guest: abi.SysPpoll, Args: [6]Argument{inItems(SizeofPollFD), value, inRecord(SizeofTimespec), inRecord(sizeofSigset), value}, Waits: WaitsArray},
	{Host: unix.SYS_PSELECT6, Guest: abi.SysPselect6, Args: [6]Argument{value, bits, bits, bits, inRecord(SizeofTimespec), value}, Waits: WaitsSets},
	{Host: unix.SYS_EPOLL_CREATE1, Guest: abi.SysEpollCreate1, Args: [6]Argument{value}, Opens: always},
	{Host: unix.SYS_EPOLL_CTL, Guest: abi.SysEpollCtl, Args: [6]Argument{fd, value, value, inRecord(SizeofEpollEvent)}, Waits: WaitsTarget},
	{Host: unix.SYS_EPOLL_PWAIT, Guest: abi.SysEpollPwait, Args: [6]Argument{fd, outItems(SizeofEpollEvent), value, value, inRecord(sizeofSigset), value}, Waits: WaitsEvents, Stops: true},
	{Host: unix.SYS_EPOLL_PWAIT2, Guest: abi.SysEpollPwait2, Args: [6]Argument{fd, outItems(SizeofEpollEvent), value, inRecord(SizeofTimespec), inRecord(sizeofSigset), value}, Waits: WaitsEvents, Stops: true},
	{Host: unix.SYS_EVENTFD2, Guest: abi.SysEventfd2, Args: [6]Argument{value, value}, Opens: always},
	{Host: unix.SYS_TIMERFD_CREATE, Guest: abi.SysTimerfdCreate, Args: [6]Argument{value, value}, Opens: always},
	{Host: unix.SYS_TIMERFD_SETTIME, Guest: abi.SysTimerfdSettime, Args: [6]Argument{fd, value, inRecord(sizeofItimerspec), outRecord(sizeofItimerspec)}},
	{Host: unix.SYS_TIMERFD_GETTIME, Guest: abi.SysTimerfdGettime, Args: [6]Argument{fd, outRecord(sizeofItimerspec)}},
	{Host: unix.SYS_SIGNALFD4, Guest: abi.SysSignalfd4, Args: [6]Argument{fd, inRecord(sizeofSigset), value, value}, Opens: always},
	{Host: unix.SYS_INOTIFY_INIT1, Guest: abi.SysInotifyInit1, Args: [6]Argument{value}, Opens: always},
	{Host: unix.SYS_INOTIFY_ADD_WATCH, Guest: abi.SysInotifyAddWatch, Args: [6]Argument{fd, text, value}},
	{Host: unix.SYS_INOTIFY_RM_WATCH, Guest: abi.SysInotifyRmWatch, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_FUTEX, Guest: abi.SysFutex, Args: [6]Argument{inRecord(SizeofInt), value, value, {Kind: IsTimeout}, value, value}},

	{Host: unix.SYS_SENDMMSG, Guest: abi.SysSendmmsg, Args: [6]Argument{fd, {IsInMessages, 2}, value, value}, Stops: true},
	{Host: unix.SYS_RECVMMSG, Guest: abi.SysRecvmmsg, Args: [6]Argument{fd, {IsOutMessages, 2}, value, value, value}, Stops: true},

	{Host: unix.SYS_SENDFILE, Guest: abi.SysSendfile64, Args: [6]Argument{fd, fd, inOutRecord(sizeofPos), value}},
	{Host: unix.SYS_SPLICE, Guest: abi.SysSplice, Args: [6]Argument{fd, inOutRecord(sizeofPos), fd, inOutRecord(sizeofPos), value, value}},
	{Host: unix.SYS_TEE, Guest: abi.SysTee, Args: [6]Argument{fd, fd, value, value}},
	{Host: unix.SYS_COPY_FILE_RANGE, Guest: abi.SysCopyFileRange, Args: [6]Argument{fd, inOutRecord(sizeofPos), fd, inOutRecord(sizeofPos), value, value}},
	{Host: unix.SYS_FLOCK, Guest: abi.SysFlock, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_FADVISE64, Guest: abi.SysFadvise64, Args: [6]Argument{fd, value, value, value}},
	{Host: unix.SYS_FALLOCATE, Guest: abi.SysFallocate, Args: [6]Argument{fd, value, value, value}},
	{Host: unix.SYS_STATFS, Guest: abi.SysStatfs, Args: [6]Argument{name, outRecord(sizeofStatfs)}},
	{Host: unix.SYS_FSTATFS, Guest: abi.SysFstatfs, Args: [6]Argument{fd, outRecord(sizeofStatfs)}},
	{Host: unix.SYS_SETXATTR, Guest: abi.SysSetxattr, Args: [6]Argument{name, text, in(3), value, value}},
	{Host: unix.SYS_LSETXATTR, Guest: abi.SysLsetxattr, Args: [6]Argument{link, text, in(3), value, value}},
	{Host: unix.SYS_FSETXATTR, Guest: abi.SysFsetxattr, Args: [6]Argument{fd, text, in(3), value, value}},
	{Host: unix.SYS_GETXATTR, Guest: abi.SysGetxattr, Args: [6]Argument{name, text, out(3), value}},
	{Host: unix.SYS_LGETXATTR, Guest: abi.SysLgetxattr, Args: [6]Argument{link, text, out(3), value}},
	{Host: unix.SYS_FGETXATTR, Guest: abi.SysFgetxattr, Args: [6]Argument{fd, text, out(3), value}},
	{Host: unix.SYS_LISTXATTR, Guest: abi.SysListxattr, Args: [6]Argument{name, out(2), value}},
	{Host: unix.SYS_LLISTXATTR, Guest: abi.SysLlistxattr, Args: [6]Argument{link, out(2), value}},
	{Host: unix.SYS_FLISTXATTR, Guest: abi.SysFlistxattr, Args: [6]Argument{fd, out(2), value}},
	{Host: unix.SYS_REMOVEXATTR, Guest: abi.SysRemovexattr, Args: [6]Argument{name, text}},
	{Host: unix.SYS_LREMOVEXATTR, Guest: abi.SysLremovexattr, Args: [6]Argument{link, text}},
	{Host: unix.SYS_FREMOVEXATTR, Guest: abi.SysFremovexattr, Args: [6]Argument{fd, text}},
	{Host: unix.SYS_MKNODAT, Guest: abi.SysMknodat, Args: [6]Argument{dirFD, link, value, value}},
	{Host: unix.SYS_LINKAT, Guest: abi.SysLinkat, Args: [6]Argument{dirFD, link, dirFD, text, value}},
	{Host: unix.SYS_RENAMEAT2, Guest: abi.SysRenameat2, Args: [6]Argument{dirFD, link, dirFD, text, value}},
	{Host: unix.SYS_FCHDIR, Guest: abi.SysFchdir, Args: [6]Argument{fd}},
	{Host: unix.SYS_MOUNT, Guest: abi.SysMount, Args: [6]Argument{text, name, text, value, text}},
	{Host: unix.SYS_UMOUNT2, Guest: abi.SysUmount, Args: [6]Argument{text, value}},
	{Host: unix.SYS_PTRACE, Guest: abi.SysPtrace, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_CHROOT, Guest: abi.SysChroot, Args: [6]Argument{text}},
	{Host: unix.SYS_GETCWD, Guest: abi.SysGetcwd, Args: [6]Argument{out(1), value}},
	{Host: unix.SYS_SYNC, Guest: abi.SysSync},
	{Host: unix.SYS_SYNCFS, Guest: abi.SysSyncfs, Args: [6]Argument{fd}},
	{Host: unix.SYS_SYNC_FILE_RANGE, Guest: abi.SysSyncFileRange, Args: [6]Argument{fd, value, value, value}},
	{Host: unix.SYS_READAHEAD, Guest: abi.SysReadahead, Args: [6]Argument{fd, value, value}},
	{Host: unix.SYS_CLOSE_RANGE, Guest: abi.SysCloseRange, Args: [6]Argument{value, value, value}},

	{Host: unix.SYS_MMAP, Guest: abi.SysMmap, Args: [6]Argument{value, value, value, value, fd, value}},
	{Host: unix.SYS_MUNMAP, Guest: abi.SysMunmap, Args: [6]Argument{value, value}},
	{Host: unix.SYS_MPROTECT, Guest: abi.SysMprotect, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MREMAP, Guest: abi.SysMremap, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_MADVISE, Guest: abi.SysMadvise, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MSYNC, Guest: abi.SysMsync, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MINCORE, Guest: abi.SysMincore, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MLOCK, Guest: abi.SysMlock, Args: [6]Argument{value, value}},
	{Host: unix.SYS_MUNLOCK, Guest: abi.SysMunlock, Args: [6]Argument{value, value}},
	{Host: unix.SYS_BRK, Guest: abi.SysBrk, Args: [6]Argument{value}},
	{Host: unix.SYS_MEMBARRIER, Guest: abi.SysMembarrier, Args: [6]Argument{value, value, value}},

	{Host: unix.SYS_RT_SIGACTION, Guest: abi.SysRtSigaction, Args: [6]Argument{value, inRecord(sizeofSigaction), outRecord(sizeofSigaction), value}},
	{Host: unix.SYS_RT_SIGPROCMASK, Guest: abi.SysRtSigprocmask, Args: [6]Argument{value, inRecord(sizeofSigset), outRecord(sizeofSigset), value}},
	{Host: unix.SYS_RT_SIGPENDING, Guest: abi.SysRtSigpending, Args: [6]Argument{outRecord(sizeofSigset), value}},
	{Host: unix.SYS_RT_SIGTIMEDWAIT, Guest: abi.SysRtSigtimedwait, Args: [6]Argument{inRecord(sizeofSigset), outRecord(sizeofSiginfo), inRecord(SizeofTimespec), value}, Stops: true},
	{Host: unix.SYS_RT_SIGSUSPEND, Guest: abi.SysRtSigsuspend, Args: [6]Argument{inRecord(sizeofSigset), value}},
	{Host: unix.SYS_RT_SIGQUEUEINFO, Guest: abi.SysRtSigqueueinfo, Args: [6]Argument{value, value, inRecord(sizeofSiginfo)}},
	{Host: unix.SYS_RT_TGSIGQUEUEINFO, Guest: abi.SysRtTgsigqueueinfo, Args: [6]Argument{value, value, value, inRecord(sizeofSiginfo)}},
	{Host: unix.SYS_SIGALTSTACK, Guest: abi.SysSigaltstack, Args: [6]Argument{inRecord(sizeofStack), outRecord(sizeofStack)}},
	{Host: unix.SYS_SETITIMER, Guest: abi.SysSetitimer, Args: [6]Argument{value, inRecord(sizeofItimerval), outRecord(sizeofItimerval)}},
	{Host: unix.SYS_GETITIMER, Guest: abi.SysGetitimer, Args: [6]Argument{value, outRecord(sizeofItimerval)}},
	{Host: unix.SYS_TIMER_CREATE, Guest: abi.SysTimerCreate, Args: [6]Argument{value, value, outRecord(SizeofInt)}},
	{Host: unix.SYS_TIMER_SETTIME, Guest: abi.SysTimerSettime, Args: [6]Argument{value, value, inRecord(sizeofItimerspec), outRecord(sizeofItimerspec)}},
	{Host: unix.SYS_TIMER_GETTIME, Guest: abi.SysTimerGettime, Args: [6]Argument{value, outRecord(sizeofItimerspec)}},
	{Host: unix.SYS_TIMER_GETOVERRUN, Guest: abi.SysTimerGetoverrun, Args: [6]Argument{value}},
	{Host: unix.SYS_TIMER_DELETE, Guest: abi.SysTimerDelete, Args: [6]Argument{value}},
	{Host: unix.SYS_CLOCK_GETRES, Guest: abi.SysClockGetres, Args: [6]Argument{value, outRecord(SizeofTimespec)}},
	{Host: unix.SYS_CLOCK_SETTIME, Guest: abi.SysClockSettime, Args: [6]Argument{value, inRecord(SizeofTimespec)}},
	{Host: unix.SYS_SETTIMEOFDAY, Guest: abi.SysSettimeofday, Args: [6]Argument{inRecord(sizeofTimeval), value}},

	{Host: unix.SYS_SETUID, Guest: abi.SysSetuid, Args: [6]Argument{value}},
	{Host: unix.SYS_SETGID, Guest: abi.SysSetgid, Args: [6]Argument{value}},
	{Host: unix.SYS_SETREUID, Guest: abi.SysSetreuid, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETREGID, Guest: abi.SysSetregid, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETRESUID, Guest: abi.SysSetresuid, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SETRESGID, Guest: abi.SysSetresgid, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SETFSUID, Guest: abi.SysSetfsuid, Args: [6]Argument{value}},
	{Host: unix.SYS_SETFSGID, Guest: abi.SysSetfsgid, Args: [6]Argument{value}},
	{Host: unix.SYS_GETRESUID, Guest: abi.SysGetresuid, Args: [6]Argument{outRecord(SizeofInt), outRecord(SizeofInt), outRecord(SizeofInt)}},
	{Host: unix.SYS_GETRESGID, Guest: abi.SysGetresgid, Args: [6]Argument{outRecord(SizeofInt), outRecord(SizeofInt), outRecord(SizeofInt)}},
	{Host: unix.SYS_GETGROUPS, Guest: abi.SysGetgroups, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETGROUPS, Guest: abi.SysSetgroups, Args: [6]Argument{value, value}},
	{Host: unix.SYS_CAPGET, Guest: abi.SysCapget, Args: [6]Argument{value, value}},
	{Host: unix.SYS_CAPSET, Guest: abi.SysCapset, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETPGID, Guest: abi.SysSetpgid, Args: [6]Argument{value, value}},
	{Host: unix.SYS_GETPGID, Guest: abi.SysGetpgid, Args: [6]Argument{value}},
	{Host: unix.SYS_SETSID, Guest: abi.SysSetsid},
	{Host: unix.SYS_GETSID, Guest: abi.SysGetsid, Args: [6]Argument{value}},
	{Host: unix.SYS_PERSONALITY, Guest: abi.SysPersonality, Args: [6]Argument{value}},
	{Host: unix.SYS_WAITID, Guest: abi.SysWaitid, Args: [6]Argument{value, value, outRecord(sizeofSiginfo), value, outRecord(sizeofRusage)}},
	{Host: unix.SYS_GETRUSAGE, Guest: abi.SysGetrusage, Args: [6]Argument{value, outRecord(sizeofRusage)}},
	{Host: unix.SYS_TIMES, Guest: abi.SysTimes, Args: [6]Argument{outRecord(sizeofTms)}},
	{Host: unix.SYS_SYSINFO, Guest: abi.SysSysinfo, Args: [6]Argument{outRecord(sizeofSysinfo)}},
	{Host: unix.SYS_GETPRIORITY, Guest: abi.SysGetpriority, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETPRIORITY, Guest: abi.SysSetpriority, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SCHED_SETAFFINITY, Guest: abi.SysSchedSetaffinity, Args: [6]Argument{value, value, in(1)}},
	{Host: unix.SYS_SCHED_GETAFFINITY, Guest: abi.SysSchedGetaffinity, Args: [6]Argument{value, value, out(1)}},
	{Host: unix.SYS_SCHED_SETPARAM, Guest: abi.SysSchedSetparam, Args: [6]Argument{value, inRecord(SizeofInt)}},
	{Host: unix.SYS_SCHED_GETPARAM, Guest: abi.SysSchedGetparam, Args: [6]Argument{value, outRecord(SizeofInt)}},
	{Host: unix.SYS_SCHED_SETSCHEDULER, Guest: abi.SysSchedSetscheduler, Args: [6]Argument{value, value, inRecord(SizeofInt)}},
	{Host: unix.SYS_SCHED_GETSCHEDULER, Guest: abi.SysSchedGetscheduler, Args: [6]Argument{value}},
	{Host: unix.SYS_SCHED_GET_PRIORITY_MAX, Guest: abi.SysSchedGetPriorityMax, Args: [6]Argument{value}},
	{Host: unix.SYS_SCHED_GET_PRIORITY_MIN, Guest: abi.SysSchedGetPriorityMin, Args: [6]Argument{value}},
	{Host: unix.SYS_SCHED_SETATTR, Guest: abi.SysSchedSetattr, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SCHED_GETATTR, Guest: abi.SysSchedGetattr, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_SET_TID_ADDRESS, Guest: abi.SysSetTidAddress, Args: [6]Argument{value}},
	{Host: unix.SYS_SET_ROBUST_LIST, Guest: abi.SysSetRobustList, Args: [6]Argument{value, value}},
	{Host: unix.SYS_GET_ROBUST_LIST, Guest: abi.SysGetRobustList, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_RSEQ, Guest: abi.SysRseq, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_WAIT4, Guest: abi.SysWait4, Args: [6]Argument{value, outRecord(SizeofInt), value, outRecord(sizeofRusage)}},

	{Host: unix.SYS_PRCTL, Guest: abi.SysPrctl, Args: [6]Argument{value, value, value, value, value}, Except: toldPrctl},
	{Host: unix.SYS_MQ_OPEN, Guest: abi.SysMqOpen, Args: [6]Argument{text, value, value, inRecord(sizeofMqAttr)}},
	{Host: unix.SYS_MQ_UNLINK, Guest: abi.SysMqUnlink, Args: [6]Argument{text}},
	{Host: unix.SYS_MQ_TIMEDSEND, Guest: abi.SysMqTimedsend, Args: [6]Argument{value, in(2), value, value, inRecord(SizeofTimespec)}},
	{Host: unix.SYS_MQ_TIMEDRECEIVE, Guest: abi.SysMqTimedreceive, Args: [6]Argument{value, out(2), value, outRecord(SizeofInt), inRecord(SizeofTimespec)}},
	{Host: unix.SYS_MQ_NOTIFY, Guest: abi.SysMqNotify, Args: [6]Argument{value, inRecord(sizeofSigevent)}},
	{Host: unix.SYS_MQ_GETSETATTR, Guest: abi.SysMqGetsetattr, Args: [6]Argument{value, inRecord(sizeofMqAttr), outRecord(sizeofMqAttr)}},
	{Host: unix.SYS_VHANGUP, Guest: abi.SysVhangup},
	{Host: unix.SYS_PIDFD_SEND_SIGNAL, Guest: abi.SysPidfdSendSignal, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_PIDFD_OPEN, Guest: abi.SysPidfdOpen, Args: [6]Argument{value, value}},
	{Host: unix.SYS_PIDFD_GETFD, Guest: abi.SysPidfdGetfd, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_PKEY_MPROTECT, Guest: abi.SysPkeyMprotect, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_PKEY_ALLOC, Guest: abi.SysPkeyAlloc, Args: [6]Argument{value, value}},
	{Host: unix.SYS_PKEY_FREE, Guest: abi.SysPkeyFree, Args: [6]Argument{value}},
	{Host: unix.SYS_SHMGET, Guest: abi.SysShmget, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SHMAT, Guest: abi.SysShmat, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SHMCTL, Guest: abi.SysShmctl, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SHMDT, Guest: abi.SysShmdt, Args: [6]Argument{value}},
	{Host: unix.SYS_SEMGET, Guest: abi.SysSemget, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SEMOP, Guest: abi.SysSemop, Args: [6]Argument{value, value, value}, Stops: true},
	{Host: unix.SYS_SEMCTL, Guest: abi.SysSemctl, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_SEMTIMEDOP, Guest: abi.SysSemtimedop, Args: [6]Argument{value, value, value, value}, Stops: true},
	{Host: unix.SYS_MSGGET, Guest: abi.SysMsgget, Args: [6]Argument{value, value}},
	{Host: unix.SYS_MSGSND, Guest: abi.SysMsgsnd, Args: [6]Argument{value, value, value, value}, Stops: true},
	{Host: unix.SYS_MSGRCV, Guest: abi.SysMsgrcv, Args: [6]Argument{value, value, value, value, value}, Stops: true},
	{Host: unix.SYS_MSGCTL, Guest: abi.SysMsgctl, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MEMFD_CREATE, Guest: abi.SysMemfdCreate, Args: [6]Argument{text, value}},
	{Host: unix.SYS_UNSHARE, Guest: abi.SysUnshare, Args: [6]Argument{value}},
	{Host: unix.SYS_SETNS, Guest: abi.SysSetns, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETHOSTNAME, Guest: abi.SysSethostname, Args: [6]Argument{text, value}},
	{Host: unix.SYS_SETDOMAINNAME, Guest: abi.SysSetdomainname, Args: [6]Argument{text, value}},
	{Host: unix.SYS_MLOCKALL, Guest: abi.SysMlockall, Args: [6]Argument{value}},
	{Host: unix.SYS_MUNLOCKALL, Guest: abi.SysMunlockall},
	{Host: unix.SYS_MLOCK2, Guest: abi.SysMlock2, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SCHED_RR_GET_INTERVAL, Guest: abi.SysSchedRrGetInterval, Args: [6]Argument{value, value}},
	{Host: unix.SYS_VMSPLICE, Guest: abi.SysVmsplice, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_NAME_TO_HANDLE_AT, Guest: abi.SysNameToHandleAt, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_OPEN_BY_HANDLE_AT, Guest: abi.SysOpenByHandleAt, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_PROCESS_VM_READV, Guest: abi.SysProcessVMReadv, Args: [6]Argument{value, value, value, value, value, value}},
	{Host: unix.SYS_PROCESS_VM_WRITEV, Guest: abi.SysProcessVMWritev, Args: [6]Argument{value, value, value, value, value, value}},
	{Host: unix.SYS_KCMP, Guest: abi.SysKcmp, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_IOPRIO_SET, Guest: abi.SysIoprioSet, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_IOPRIO_GET, Guest: abi.SysIoprioGet, Args: [6]Argument{value, value}},
	{Host: unix.SYS_ADD_KEY, Guest: abi.SysAddKey, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_REQUEST_KEY, Guest: abi.SysRequestKey, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_KEYCTL, Guest: abi.SysKeyctl, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_FANOTIFY_INIT, Guest: abi.SysFanotifyInit, Args: [6]Argument{value, value}},
	{Host: unix.SYS_FANOTIFY_MARK, Guest: abi.SysFanotifyMark, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_PIVOT_ROOT, Guest: abi.SysPivotRoot, Args: [6]Argument{text, text}},
	{Host: unix.SYS_ADJTIMEX, Guest: abi.SysAdjtimex, Args: [6]Argument{value}},
	{Host: unix.SYS_CLOCK_ADJTIME, Guest: abi.SysClockAdjtime, Args: [6]Argument{value, value}},
	{Host: unix.SYS_IO_SETUP, Guest: abi.SysIoSetup, Args: [6]Argument{value, value}},
	{Host: unix.SYS_IO_DESTROY, Guest: abi.SysIoDestroy, Args: [6]Argument{value}},
	{Host: unix.SYS_IO_GETEVENTS, Guest: abi.SysIoGetevents, Args: [6]Argument{value, value, value, value, value}, Stops: true},
	{Host: unix.SYS_IO_SUBMIT, Guest: abi.SysIoSubmit, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_IO_CANCEL, Guest: abi.SysIoCancel, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_IO_PGETEVENTS, Guest: abi.SysIoPgetevents, Args: [6]Argument{value, value, value, value, value, value}, Stops: true},
	{Host: unix.SYS_REMAP_FILE_PAGES, Guest: abi.SysRemapFilePages, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_MBIND, Guest: abi.SysMbind, Args: [6]Argument{value, value, value, value, value, value}},
	{Host: unix.SYS_SET_MEMPOLICY, Guest: abi.SysSetMempolicy, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_GET_MEMPOLICY, Guest: abi.SysGetMempolicy, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_MIGRATE_PAGES, Guest: abi.SysMigratePages, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_MOVE_PAGES, Guest: abi.SysMovePages, Args: [6]Argument{value, value, value, value, value, value}},
	{Host: unix.SYS_ACCT, Guest: abi.SysAcct, Args: [6]Argument{value}},
	{Host: unix.SYS_SWAPON, Guest: abi.SysSwapon, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SWAPOFF, Guest: abi.SysSwapoff, Args: [6]Argument{value}},
	{Host: unix.SYS_USERFAULTFD, Guest: abi.SysUserfaultfd, Args: [6]Argument{value}},
	{Host: unix.SYS_SECCOMP, Guest: abi.SysSeccomp, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_PROCESS_MADVISE, Guest: abi.SysProcessMadvise, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_OPEN_TREE, Guest: abi.SysOpenTree, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MOVE_MOUNT, Guest: abi.SysMoveMount, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_FSOPEN, Guest: abi.SysFsopen, Args: [6]Argument{value, value}},
	{Host: unix.SYS_FSCONFIG, Guest: abi.SysFsconfig, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_FSMOUNT, Guest: abi.SysFsmount, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_FSPICK, Guest: abi.SysFspick, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_QUOTACTL, Guest: abi.SysQuotactl, Args: [6]Argument{value, value, value, value}},
}, oldRows)

// Rows has the rows by their numbers on this machine.
var Rows = func() map[uint64]*Row {
	rows := map[uint64]*Row{}
	for i := range table {
		rows[table[i].Host] = &table[i]
	}
	return rows
}()

// Told are the rows of calls of which the supervisor is notified, whatever their arguments are.
var Told = func() (told []*Row) {
	for i := range table {
		if table[i].Told() {
			told = append(told, &table[i])
		}
	}
	return told
}()

// Numbers returns the numbers on x86-64 of the calls that are mirrored.
func Numbers() []uint64 {
	var all []uint64
	for _, c := range table {
		if c.By != Supervisor {
			all = append(all, c.Guest)
		}
	}
	return all
}

// Arg returns the index of the first argument of one of some kinds, or -1.
func (c *Row) Arg(kinds ...Kind) int {
	return slices.IndexFunc(c.Args[:], func(a Argument) bool { return slices.Contains(kinds, a.Kind) })
}

// Name returns the index of the argument with the name of the file that the call is about, or -1. To look a name up may take long.
func (c *Row) Name() int { return c.Arg(IsName, IsLink) }

// Dir returns the descriptor of the directory in which the name is looked up, or AT_FDCWD.
func (c *Row) Dir(args [6]uint64) int {
	if i := c.Arg(IsDir); i >= 0 {
		return int(int32(args[i]))
	}
	return unix.AT_FDCWD
}

// Link reports whether the name is not followed if it is that of a symbolic link.
func (c *Row) Link(args [6]uint64) bool {
	if i := c.Arg(IsAtFlags); i >= 0 && args[i]&unix.AT_SYMLINK_NOFOLLOW != 0 {
		return true
	}
	return c.Arg(IsLink) >= 0
}

// Quiet reports whether the supervisor is not notified of a call that opens a file, where it knows that the
// serving process sees to it: a file that the supervisor would answer with is none of these. Those are
// directories, and files of a directory that are not followed if they are links. The flags of openat2(2) are
// in memory, which a filter does not see.
func (c *Row) Quiet(args [6]uint64) bool {
	i := c.Arg(IsOpenFlags)
	switch {
	case i < 0:
		return false
	case args[i]&unix.O_DIRECTORY != 0:
		return true
	default:
		return args[i]&unix.O_NOFOLLOW != 0 && c.Dir(args) != unix.AT_FDCWD
	}
}

// WaitKind says how a call names the descriptors that it waits for.
type WaitKind int

// How a call names the descriptors that it waits for.
const (
	WaitsNot    WaitKind = iota
	WaitsArray           // an array of struct pollfd, and its length
	WaitsSets            // the number of bits of three sets, and these
	WaitsTarget          // the third argument, if epoll_ctl(2) does something with it
	WaitsEvents          // those of the epoll file that is the first argument
)

// SizeofPollFD and SizeofEpollEvent are sizes in bytes of x86-64's structures.
const (
	SizeofPollFD     = 8
	SizeofEpollEvent = 12
)
