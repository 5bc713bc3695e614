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
	Host  uint64  // its number on this machine
	Guest uint64  // its number on x86-64
	For   Subject // what it is for; 0 if By is Supervisor
	By    Teller  // who tells the guest of it
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

// Subject is what calls are for: a line of docs/reference/mirrored-calls.md, which "make mirrored-calls" writes.
type Subject int

// subjects are the lines, in their order.
var subjects = [...]string{
	opening:     "opening and closing",
	reading:     "reading and writing",
	copying:     "from file to file",
	waiting:     "waiting for files",
	attributes:  "names and attributes",
	xattrs:      "extended attributes",
	naming:      "names",
	nameless:    "files without a name",
	descriptors: "descriptors",
	changing:    "changing files",
	sockets:     "sockets",
	memory:      "memory",
	threads:     "threads",
	timers:      "signals and timers",
	users:       "users, groups, sessions",
	limits:      "scheduling and limits",
	processes:   "processes and waiting",
	ipc:         "message queues, System V IPC",
	keys:        "keys, asynchronous I/O",
	machine:     "the machine",
}

const (
	_ Subject = iota // for calls that the supervisor tells of: the page says how
	opening
	reading
	copying
	waiting
	attributes
	xattrs
	naming
	nameless
	descriptors
	changing
	sockets
	memory
	threads
	timers
	users
	limits
	processes
	ipc
	keys
	machine
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
	{Host: unix.SYS_OPENAT, Guest: abi.SysOpenat, For: opening, By: Either, Args: [6]Argument{dirFD, name, flags, value}, Opens: always},
	{Host: unix.SYS_OPENAT2, Guest: abi.SysOpenat2, For: opening, By: Either, Args: [6]Argument{dirFD, name, inRecord(sizeofOpenHow), value}, Opens: always},
	{Host: unix.SYS_CHDIR, Guest: abi.SysChdir, For: naming, By: Either, Args: [6]Argument{name}},
	{Host: unix.SYS_SYMLINKAT, Guest: abi.SysSymlinkat, For: naming, By: Either, Args: [6]Argument{text, dirFD, link}},
	{Host: unix.SYS_UNLINKAT, Guest: abi.SysUnlinkat, For: naming, By: Either, Args: [6]Argument{dirFD, link, value}},
	{Host: unix.SYS_MKDIRAT, Guest: abi.SysMkdirat, For: naming, By: Either, Args: [6]Argument{dirFD, link, value}},
	{Host: unix.SYS_EXECVE, Guest: abi.SysExecve, By: Supervisor, Args: [6]Argument{name, value, value}},
	{Host: unix.SYS_EXECVEAT, Guest: abi.SysExecveat, By: Supervisor, Args: [6]Argument{dirFD, name, value, value, value}},
	{Host: unix.SYS_CLONE, Guest: abi.SysClone, By: Supervisor},
	{Host: unix.SYS_CLONE3, Guest: abi.SysClone3, By: Supervisor},
	{Host: unix.SYS_EXIT, Guest: abi.SysExit, By: Supervisor},
	{Host: unix.SYS_EXIT_GROUP, Guest: abi.SysExitGroup, By: Supervisor},
	{Host: unix.SYS_KILL, Guest: abi.SysKill, By: Supervisor},
	{Host: unix.SYS_TKILL, Guest: abi.SysTkill, By: Supervisor},
	{Host: unix.SYS_TGKILL, Guest: abi.SysTgkill, By: Supervisor},

	{Host: unix.SYS_READ, Guest: abi.SysRead, For: reading, Args: [6]Argument{fd, out(2), value}},
	{Host: unix.SYS_WRITE, Guest: abi.SysWrite, For: reading, Args: [6]Argument{fd, in(2), value}},
	{Host: unix.SYS_PREAD64, Guest: abi.SysPread64, For: reading, Args: [6]Argument{fd, out(2), value, value}},
	{Host: unix.SYS_PWRITE64, Guest: abi.SysPwrite64, For: reading, Args: [6]Argument{fd, in(2), value, value}},
	{Host: unix.SYS_CLOSE, Guest: abi.SysClose, For: opening, Args: [6]Argument{fd}},
	{Host: unix.SYS_LSEEK, Guest: abi.SysLseek, For: reading, Args: [6]Argument{fd, value, value}},
	{Host: unix.SYS_READV, Guest: abi.SysReadv, For: reading, Args: [6]Argument{fd, outVector(2), value}},
	{Host: unix.SYS_WRITEV, Guest: abi.SysWritev, For: reading, Args: [6]Argument{fd, inVector(2), value}},
	{Host: unix.SYS_PREADV, Guest: abi.SysPreadv, For: reading, Args: [6]Argument{fd, outVector(2), value, value, value}},
	{Host: unix.SYS_PWRITEV, Guest: abi.SysPwritev, For: reading, Args: [6]Argument{fd, inVector(2), value, value, value}},
	{Host: unix.SYS_PREADV2, Guest: abi.SysPreadv2, For: reading, Args: [6]Argument{fd, outVector(2), value, value, value, value}},
	{Host: unix.SYS_PWRITEV2, Guest: abi.SysPwritev2, For: reading, Args: [6]Argument{fd, inVector(2), value, value, value, value}},

	{Host: unix.SYS_FSTAT, Guest: abi.SysNewfstat, For: attributes, Args: [6]Argument{fd, outRecord(abi.SizeofStat)}},
	{Host: sysFstatat, Guest: abi.SysNewfstatat, For: attributes, Args: [6]Argument{dirFD, name, outRecord(abi.SizeofStat), atFlags}},
	{Host: unix.SYS_STATX, Guest: abi.SysStatx, For: attributes, Args: [6]Argument{dirFD, name, atFlags, value, outRecord(sizeofStatx)}},
	{Host: unix.SYS_FACCESSAT, Guest: abi.SysFaccessat, For: attributes, Args: [6]Argument{dirFD, name, value}},
	{Host: unix.SYS_FACCESSAT2, Guest: abi.SysFaccessat2, For: attributes, Args: [6]Argument{dirFD, name, value, atFlags}},
	{Host: unix.SYS_READLINKAT, Guest: abi.SysReadlinkat, For: attributes, Args: [6]Argument{dirFD, link, out(3), value}},
	{Host: unix.SYS_GETDENTS64, Guest: abi.SysGetdents64, For: attributes, Args: [6]Argument{fd, out(2), value}},

	{Host: unix.SYS_DUP, Guest: abi.SysDup, For: descriptors, Args: [6]Argument{fd}, Opens: always},
	{Host: unix.SYS_DUP3, Guest: abi.SysDup3, For: descriptors, Args: [6]Argument{fd, fd, value}},
	{Host: unix.SYS_FCNTL, Guest: abi.SysFcntl, For: descriptors, Args: [6]Argument{fd, value, value}, Opens: duplicates},
	{Host: unix.SYS_PIPE2, Guest: abi.SysPipe2, For: descriptors, Args: [6]Argument{outRecord(SizeofPair), value}, Pair: 1},

	{Host: unix.SYS_FSYNC, Guest: abi.SysFsync, For: changing, Args: [6]Argument{fd}},
	{Host: unix.SYS_FDATASYNC, Guest: abi.SysFdatasync, For: changing, Args: [6]Argument{fd}},
	{Host: unix.SYS_TRUNCATE, Guest: abi.SysTruncate, For: changing, Args: [6]Argument{name, value}},
	{Host: unix.SYS_FTRUNCATE, Guest: abi.SysFtruncate, For: changing, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_FCHMOD, Guest: abi.SysFchmod, For: changing, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_FCHMODAT, Guest: abi.SysFchmodat, For: changing, Args: [6]Argument{dirFD, name, value}},
	{Host: unix.SYS_FCHOWN, Guest: abi.SysFchown, For: changing, Args: [6]Argument{fd, value, value}},
	{Host: unix.SYS_FCHOWNAT, Guest: abi.SysFchownat, For: changing, Args: [6]Argument{dirFD, name, value, value, atFlags}},
	{Host: unix.SYS_UTIMENSAT, Guest: abi.SysUtimensat, For: changing, Args: [6]Argument{dirFD, name, inRecord(2 * SizeofTimespec), atFlags}},

	{Host: unix.SYS_GETPID, Guest: abi.SysGetpid, For: processes},
	{Host: unix.SYS_GETTID, Guest: abi.SysGettid, For: processes},
	{Host: unix.SYS_GETPPID, Guest: abi.SysGetppid, For: processes},
	{Host: unix.SYS_GETUID, Guest: abi.SysGetuid, For: processes},
	{Host: unix.SYS_GETGID, Guest: abi.SysGetgid, For: processes},
	{Host: unix.SYS_GETEUID, Guest: abi.SysGeteuid, For: processes},
	{Host: unix.SYS_GETEGID, Guest: abi.SysGetegid, For: processes},
	{Host: unix.SYS_UMASK, Guest: abi.SysUmask, For: processes, Args: [6]Argument{value}},
	{Host: unix.SYS_UNAME, Guest: abi.SysNewuname, For: processes, Args: [6]Argument{outRecord(sizeofUtsname)}},
	{Host: unix.SYS_GETRANDOM, Guest: abi.SysGetrandom, For: processes, Args: [6]Argument{out(1), value, value}},
	{Host: unix.SYS_PRLIMIT64, Guest: abi.SysPrlimit64, For: processes, Args: [6]Argument{value, value, inRecord(sizeofRlimit), outRecord(sizeofRlimit)}},
	{Host: unix.SYS_IOCTL, Guest: abi.SysIoctl, For: processes, Args: [6]Argument{fd, value, value}},
	{Host: unix.SYS_SCHED_YIELD, Guest: abi.SysSchedYield, For: processes},

	{Host: unix.SYS_SOCKET, Guest: abi.SysSocket, For: sockets, Args: [6]Argument{value, value, value}, Opens: always},
	{Host: unix.SYS_SOCKETPAIR, Guest: abi.SysSocketpair, For: sockets, Args: [6]Argument{value, value, value, outRecord(SizeofPair)}, Pair: 4},
	{Host: unix.SYS_BIND, Guest: abi.SysBind, For: sockets, Args: [6]Argument{fd, in(2), value}},
	{Host: unix.SYS_LISTEN, Guest: abi.SysListen, For: sockets, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_ACCEPT, Guest: abi.SysAccept, For: sockets, Args: [6]Argument{fd, outSized(2), inOutRecord(SizeofInt)}, Opens: always, Stops: true},
	{Host: unix.SYS_ACCEPT4, Guest: abi.SysAccept4, For: sockets, Args: [6]Argument{fd, outSized(2), inOutRecord(SizeofInt), value}, Opens: always, Stops: true},
	{Host: unix.SYS_CONNECT, Guest: abi.SysConnect, For: sockets, Args: [6]Argument{fd, in(2), value}, Stops: true},
	{Host: unix.SYS_SENDTO, Guest: abi.SysSendto, For: sockets, Args: [6]Argument{fd, in(2), value, value, in(5), value}, Stops: true},
	{Host: unix.SYS_RECVFROM, Guest: abi.SysRecvfrom, For: sockets, Args: [6]Argument{fd, out(2), value, value, outSized(5), inOutRecord(SizeofInt)}, Stops: true},
	{Host: unix.SYS_SENDMSG, Guest: abi.SysSendmsg, For: sockets, Args: [6]Argument{fd, {Kind: IsInMessage}, value}, Stops: true},
	{Host: unix.SYS_RECVMSG, Guest: abi.SysRecvmsg, For: sockets, Args: [6]Argument{fd, {Kind: IsOutMessage}, value}, Stops: true},
	{Host: unix.SYS_SHUTDOWN, Guest: abi.SysShutdown, For: sockets, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_GETSOCKNAME, Guest: abi.SysGetsockname, For: sockets, Args: [6]Argument{fd, outSized(2), inOutRecord(SizeofInt)}},
	{Host: unix.SYS_GETPEERNAME, Guest: abi.SysGetpeername, For: sockets, Args: [6]Argument{fd, outSized(2), inOutRecord(SizeofInt)}},
	{Host: unix.SYS_SETSOCKOPT, Guest: abi.SysSetsockopt, For: sockets, Args: [6]Argument{fd, value, value, in(4), value}},
	{Host: unix.SYS_GETSOCKOPT, Guest: abi.SysGetsockopt, For: sockets, Args: [6]Argument{fd, value, value, outSized(4), inOutRecord(SizeofInt)}},

	{Host: unix.SYS_NANOSLEEP, Guest: abi.SysNanosleep, For: processes, Args: [6]Argument{inRecord(SizeofTimespec), value}, Sleeps: true},
	{Host: unix.SYS_CLOCK_NANOSLEEP, Guest: abi.SysClockNanosleep, For: processes, Args: [6]Argument{value, value, inRecord(SizeofTimespec), value}, Sleeps: true},
	{Host: unix.SYS_PPOLL, Guest: abi.SysPpoll, For: waiting, Args: [6]Argument{inItems(SizeofPollFD), value, inRecord(SizeofTimespec), inRecord(sizeofSigset), value}, Waits: WaitsArray},
	{Host: unix.SYS_PSELECT6, Guest: abi.SysPselect6, For: waiting, Args: [6]Argument{value, bits, bits, bits, inRecord(SizeofTimespec), value}, Waits: WaitsSets},
	{Host: unix.SYS_EPOLL_CREATE1, Guest: abi.SysEpollCreate1, For: waiting, Args: [6]Argument{value}, Opens: always},
	{Host: unix.SYS_EPOLL_CTL, Guest: abi.SysEpollCtl, For: waiting, Args: [6]Argument{fd, value, value, inRecord(SizeofEpollEvent)}, Waits: WaitsTarget},
	{Host: unix.SYS_EPOLL_PWAIT, Guest: abi.SysEpollPwait, For: waiting, Args: [6]Argument{fd, outItems(SizeofEpollEvent), value, value, inRecord(sizeofSigset), value}, Waits: WaitsEvents, Stops: true},
	{Host: unix.SYS_EPOLL_PWAIT2, Guest: abi.SysEpollPwait2, For: waiting, Args: [6]Argument{fd, outItems(SizeofEpollEvent), value, inRecord(SizeofTimespec), inRecord(sizeofSigset), value}, Waits: WaitsEvents, Stops: true},
	{Host: unix.SYS_EVENTFD2, Guest: abi.SysEventfd2, For: nameless, Args: [6]Argument{value, value}, Opens: always},
	{Host: unix.SYS_TIMERFD_CREATE, Guest: abi.SysTimerfdCreate, For: nameless, Args: [6]Argument{value, value}, Opens: always},
	{Host: unix.SYS_TIMERFD_SETTIME, Guest: abi.SysTimerfdSettime, For: nameless, Args: [6]Argument{fd, value, inRecord(sizeofItimerspec), outRecord(sizeofItimerspec)}},
	{Host: unix.SYS_TIMERFD_GETTIME, Guest: abi.SysTimerfdGettime, For: nameless, Args: [6]Argument{fd, outRecord(sizeofItimerspec)}},
	{Host: unix.SYS_SIGNALFD4, Guest: abi.SysSignalfd4, For: nameless, Args: [6]Argument{fd, inRecord(sizeofSigset), value, value}, Opens: always},
	{Host: unix.SYS_INOTIFY_INIT1, Guest: abi.SysInotifyInit1, For: nameless, Args: [6]Argument{value}, Opens: always},
	{Host: unix.SYS_INOTIFY_ADD_WATCH, Guest: abi.SysInotifyAddWatch, For: nameless, Args: [6]Argument{fd, text, value}},
	{Host: unix.SYS_INOTIFY_RM_WATCH, Guest: abi.SysInotifyRmWatch, For: nameless, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_FUTEX, Guest: abi.SysFutex, For: threads, Args: [6]Argument{inRecord(SizeofInt), value, value, {Kind: IsTimeout}, value, value}},

	{Host: unix.SYS_SENDMMSG, Guest: abi.SysSendmmsg, For: sockets, Args: [6]Argument{fd, {IsInMessages, 2}, value, value}, Stops: true},
	{Host: unix.SYS_RECVMMSG, Guest: abi.SysRecvmmsg, For: sockets, Args: [6]Argument{fd, {IsOutMessages, 2}, value, value, value}, Stops: true},

	{Host: unix.SYS_SENDFILE, Guest: abi.SysSendfile64, For: copying, Args: [6]Argument{fd, fd, inOutRecord(sizeofPos), value}},
	{Host: unix.SYS_SPLICE, Guest: abi.SysSplice, For: copying, Args: [6]Argument{fd, inOutRecord(sizeofPos), fd, inOutRecord(sizeofPos), value, value}},
	{Host: unix.SYS_TEE, Guest: abi.SysTee, For: copying, Args: [6]Argument{fd, fd, value, value}},
	{Host: unix.SYS_COPY_FILE_RANGE, Guest: abi.SysCopyFileRange, For: copying, Args: [6]Argument{fd, inOutRecord(sizeofPos), fd, inOutRecord(sizeofPos), value, value}},
	{Host: unix.SYS_FLOCK, Guest: abi.SysFlock, For: changing, Args: [6]Argument{fd, value}},
	{Host: unix.SYS_FADVISE64, Guest: abi.SysFadvise64, For: changing, Args: [6]Argument{fd, value, value, value}},
	{Host: unix.SYS_FALLOCATE, Guest: abi.SysFallocate, For: changing, Args: [6]Argument{fd, value, value, value}},
	{Host: unix.SYS_STATFS, Guest: abi.SysStatfs, For: attributes, Args: [6]Argument{name, outRecord(sizeofStatfs)}},
	{Host: unix.SYS_FSTATFS, Guest: abi.SysFstatfs, For: attributes, Args: [6]Argument{fd, outRecord(sizeofStatfs)}},
	{Host: unix.SYS_SETXATTR, Guest: abi.SysSetxattr, For: xattrs, Args: [6]Argument{name, text, in(3), value, value}},
	{Host: unix.SYS_LSETXATTR, Guest: abi.SysLsetxattr, For: xattrs, Args: [6]Argument{link, text, in(3), value, value}},
	{Host: unix.SYS_FSETXATTR, Guest: abi.SysFsetxattr, For: xattrs, Args: [6]Argument{fd, text, in(3), value, value}},
	{Host: unix.SYS_GETXATTR, Guest: abi.SysGetxattr, For: xattrs, Args: [6]Argument{name, text, out(3), value}},
	{Host: unix.SYS_LGETXATTR, Guest: abi.SysLgetxattr, For: xattrs, Args: [6]Argument{link, text, out(3), value}},
	{Host: unix.SYS_FGETXATTR, Guest: abi.SysFgetxattr, For: xattrs, Args: [6]Argument{fd, text, out(3), value}},
	{Host: unix.SYS_LISTXATTR, Guest: abi.SysListxattr, For: xattrs, Args: [6]Argument{name, out(2), value}},
	{Host: unix.SYS_LLISTXATTR, Guest: abi.SysLlistxattr, For: xattrs, Args: [6]Argument{link, out(2), value}},
	{Host: unix.SYS_FLISTXATTR, Guest: abi.SysFlistxattr, For: xattrs, Args: [6]Argument{fd, out(2), value}},
	{Host: unix.SYS_REMOVEXATTR, Guest: abi.SysRemovexattr, For: xattrs, Args: [6]Argument{name, text}},
	{Host: unix.SYS_LREMOVEXATTR, Guest: abi.SysLremovexattr, For: xattrs, Args: [6]Argument{link, text}},
	{Host: unix.SYS_FREMOVEXATTR, Guest: abi.SysFremovexattr, For: xattrs, Args: [6]Argument{fd, text}},
	{Host: unix.SYS_MKNODAT, Guest: abi.SysMknodat, For: naming, Args: [6]Argument{dirFD, link, value, value}},
	{Host: unix.SYS_LINKAT, Guest: abi.SysLinkat, For: naming, Args: [6]Argument{dirFD, link, dirFD, text, value}},
	{Host: unix.SYS_RENAMEAT2, Guest: abi.SysRenameat2, For: naming, Args: [6]Argument{dirFD, link, dirFD, text, value}},
	{Host: unix.SYS_FCHDIR, Guest: abi.SysFchdir, For: naming, Args: [6]Argument{fd}},
	{Host: unix.SYS_MOUNT, Guest: abi.SysMount, For: naming, Args: [6]Argument{text, name, text, value, text}},
	{Host: unix.SYS_UMOUNT2, Guest: abi.SysUmount, For: naming, Args: [6]Argument{text, value}},
	{Host: unix.SYS_PTRACE, Guest: abi.SysPtrace, For: processes, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_CHROOT, Guest: abi.SysChroot, For: naming, Args: [6]Argument{text}},
	{Host: unix.SYS_GETCWD, Guest: abi.SysGetcwd, For: attributes, Args: [6]Argument{out(1), value}},
	{Host: unix.SYS_SYNC, Guest: abi.SysSync, For: changing},
	{Host: unix.SYS_SYNCFS, Guest: abi.SysSyncfs, For: changing, Args: [6]Argument{fd}},
	{Host: unix.SYS_SYNC_FILE_RANGE, Guest: abi.SysSyncFileRange, For: changing, Args: [6]Argument{fd, value, value, value}},
	{Host: unix.SYS_READAHEAD, Guest: abi.SysReadahead, For: reading, Args: [6]Argument{fd, value, value}},
	{Host: unix.SYS_CLOSE_RANGE, Guest: abi.SysCloseRange, For: opening, Args: [6]Argument{value, value, value}},

	{Host: unix.SYS_MMAP, Guest: abi.SysMmap, For: memory, Args: [6]Argument{value, value, value, value, fd, value}},
	{Host: unix.SYS_MUNMAP, Guest: abi.SysMunmap, For: memory, Args: [6]Argument{value, value}},
	{Host: unix.SYS_MPROTECT, Guest: abi.SysMprotect, For: memory, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MREMAP, Guest: abi.SysMremap, For: memory, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_MADVISE, Guest: abi.SysMadvise, For: memory, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MSYNC, Guest: abi.SysMsync, For: memory, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MINCORE, Guest: abi.SysMincore, For: memory, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MLOCK, Guest: abi.SysMlock, For: memory, Args: [6]Argument{value, value}},
	{Host: unix.SYS_MUNLOCK, Guest: abi.SysMunlock, For: memory, Args: [6]Argument{value, value}},
	{Host: unix.SYS_BRK, Guest: abi.SysBrk, For: memory, Args: [6]Argument{value}},
	{Host: unix.SYS_MEMBARRIER, Guest: abi.SysMembarrier, For: memory, Args: [6]Argument{value, value, value}},

	{Host: unix.SYS_RT_SIGACTION, Guest: abi.SysRtSigaction, For: timers, Args: [6]Argument{value, inRecord(sizeofSigaction), outRecord(sizeofSigaction), value}},
	{Host: unix.SYS_RT_SIGPROCMASK, Guest: abi.SysRtSigprocmask, For: timers, Args: [6]Argument{value, inRecord(sizeofSigset), outRecord(sizeofSigset), value}},
	{Host: unix.SYS_RT_SIGPENDING, Guest: abi.SysRtSigpending, For: timers, Args: [6]Argument{outRecord(sizeofSigset), value}},
	{Host: unix.SYS_RT_SIGTIMEDWAIT, Guest: abi.SysRtSigtimedwait, For: timers, Args: [6]Argument{inRecord(sizeofSigset), outRecord(sizeofSiginfo), inRecord(SizeofTimespec), value}, Stops: true},
	{Host: unix.SYS_RT_SIGSUSPEND, Guest: abi.SysRtSigsuspend, For: timers, Args: [6]Argument{inRecord(sizeofSigset), value}},
	{Host: unix.SYS_RT_SIGQUEUEINFO, Guest: abi.SysRtSigqueueinfo, For: timers, Args: [6]Argument{value, value, inRecord(sizeofSiginfo)}},
	{Host: unix.SYS_RT_TGSIGQUEUEINFO, Guest: abi.SysRtTgsigqueueinfo, For: timers, Args: [6]Argument{value, value, value, inRecord(sizeofSiginfo)}},
	{Host: unix.SYS_SIGALTSTACK, Guest: abi.SysSigaltstack, For: timers, Args: [6]Argument{inRecord(sizeofStack), outRecord(sizeofStack)}},
	{Host: unix.SYS_SETITIMER, Guest: abi.SysSetitimer, For: timers, Args: [6]Argument{value, inRecord(sizeofItimerval), outRecord(sizeofItimerval)}},
	{Host: unix.SYS_GETITIMER, Guest: abi.SysGetitimer, For: timers, Args: [6]Argument{value, outRecord(sizeofItimerval)}},
	{Host: unix.SYS_TIMER_CREATE, Guest: abi.SysTimerCreate, For: timers, Args: [6]Argument{value, value, outRecord(SizeofInt)}},
	{Host: unix.SYS_TIMER_SETTIME, Guest: abi.SysTimerSettime, For: timers, Args: [6]Argument{value, value, inRecord(sizeofItimerspec), outRecord(sizeofItimerspec)}},
	{Host: unix.SYS_TIMER_GETTIME, Guest: abi.SysTimerGettime, For: timers, Args: [6]Argument{value, outRecord(sizeofItimerspec)}},
	{Host: unix.SYS_TIMER_GETOVERRUN, Guest: abi.SysTimerGetoverrun, For: timers, Args: [6]Argument{value}},
	{Host: unix.SYS_TIMER_DELETE, Guest: abi.SysTimerDelete, For: timers, Args: [6]Argument{value}},
	{Host: unix.SYS_CLOCK_GETRES, Guest: abi.SysClockGetres, For: timers, Args: [6]Argument{value, outRecord(SizeofTimespec)}},
	{Host: unix.SYS_CLOCK_SETTIME, Guest: abi.SysClockSettime, For: timers, Args: [6]Argument{value, inRecord(SizeofTimespec)}},
	{Host: unix.SYS_SETTIMEOFDAY, Guest: abi.SysSettimeofday, For: timers, Args: [6]Argument{inRecord(sizeofTimeval), value}},

	{Host: unix.SYS_SETUID, Guest: abi.SysSetuid, For: users, Args: [6]Argument{value}},
	{Host: unix.SYS_SETGID, Guest: abi.SysSetgid, For: users, Args: [6]Argument{value}},
	{Host: unix.SYS_SETREUID, Guest: abi.SysSetreuid, For: users, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETREGID, Guest: abi.SysSetregid, For: users, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETRESUID, Guest: abi.SysSetresuid, For: users, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SETRESGID, Guest: abi.SysSetresgid, For: users, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SETFSUID, Guest: abi.SysSetfsuid, For: users, Args: [6]Argument{value}},
	{Host: unix.SYS_SETFSGID, Guest: abi.SysSetfsgid, For: users, Args: [6]Argument{value}},
	{Host: unix.SYS_GETRESUID, Guest: abi.SysGetresuid, For: users, Args: [6]Argument{outRecord(SizeofInt), outRecord(SizeofInt), outRecord(SizeofInt)}},
	{Host: unix.SYS_GETRESGID, Guest: abi.SysGetresgid, For: users, Args: [6]Argument{outRecord(SizeofInt), outRecord(SizeofInt), outRecord(SizeofInt)}},
	{Host: unix.SYS_GETGROUPS, Guest: abi.SysGetgroups, For: users, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETGROUPS, Guest: abi.SysSetgroups, For: users, Args: [6]Argument{value, value}},
	{Host: unix.SYS_CAPGET, Guest: abi.SysCapget, For: users, Args: [6]Argument{value, value}},
	{Host: unix.SYS_CAPSET, Guest: abi.SysCapset, For: users, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETPGID, Guest: abi.SysSetpgid, For: users, Args: [6]Argument{value, value}},
	{Host: unix.SYS_GETPGID, Guest: abi.SysGetpgid, For: users, Args: [6]Argument{value}},
	{Host: unix.SYS_SETSID, Guest: abi.SysSetsid, For: users},
	{Host: unix.SYS_GETSID, Guest: abi.SysGetsid, For: users, Args: [6]Argument{value}},
	{Host: unix.SYS_PERSONALITY, Guest: abi.SysPersonality, For: limits, Args: [6]Argument{value}},
	{Host: unix.SYS_WAITID, Guest: abi.SysWaitid, For: processes, Args: [6]Argument{value, value, outRecord(sizeofSiginfo), value, outRecord(sizeofRusage)}},
	{Host: unix.SYS_GETRUSAGE, Guest: abi.SysGetrusage, For: limits, Args: [6]Argument{value, outRecord(sizeofRusage)}},
	{Host: unix.SYS_TIMES, Guest: abi.SysTimes, For: limits, Args: [6]Argument{outRecord(sizeofTms)}},
	{Host: unix.SYS_SYSINFO, Guest: abi.SysSysinfo, For: limits, Args: [6]Argument{outRecord(sizeofSysinfo)}},
	{Host: unix.SYS_GETPRIORITY, Guest: abi.SysGetpriority, For: limits, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETPRIORITY, Guest: abi.SysSetpriority, For: limits, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SCHED_SETAFFINITY, Guest: abi.SysSchedSetaffinity, For: limits, Args: [6]Argument{value, value, in(1)}},
	{Host: unix.SYS_SCHED_GETAFFINITY, Guest: abi.SysSchedGetaffinity, For: limits, Args: [6]Argument{value, value, out(1)}},
	{Host: unix.SYS_SCHED_SETPARAM, Guest: abi.SysSchedSetparam, For: limits, Args: [6]Argument{value, inRecord(SizeofInt)}},
	{Host: unix.SYS_SCHED_GETPARAM, Guest: abi.SysSchedGetparam, For: limits, Args: [6]Argument{value, outRecord(SizeofInt)}},
	{Host: unix.SYS_SCHED_SETSCHEDULER, Guest: abi.SysSchedSetscheduler, For: limits, Args: [6]Argument{value, value, inRecord(SizeofInt)}},
	{Host: unix.SYS_SCHED_GETSCHEDULER, Guest: abi.SysSchedGetscheduler, For: limits, Args: [6]Argument{value}},
	{Host: unix.SYS_SCHED_GET_PRIORITY_MAX, Guest: abi.SysSchedGetPriorityMax, For: limits, Args: [6]Argument{value}},
	{Host: unix.SYS_SCHED_GET_PRIORITY_MIN, Guest: abi.SysSchedGetPriorityMin, For: limits, Args: [6]Argument{value}},
	{Host: unix.SYS_SCHED_SETATTR, Guest: abi.SysSchedSetattr, For: limits, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SCHED_GETATTR, Guest: abi.SysSchedGetattr, For: limits, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_SET_TID_ADDRESS, Guest: abi.SysSetTidAddress, For: threads, Args: [6]Argument{value}},
	{Host: unix.SYS_SET_ROBUST_LIST, Guest: abi.SysSetRobustList, For: threads, Args: [6]Argument{value, value}},
	{Host: unix.SYS_GET_ROBUST_LIST, Guest: abi.SysGetRobustList, For: threads, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_RSEQ, Guest: abi.SysRseq, For: threads, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_WAIT4, Guest: abi.SysWait4, For: processes, Args: [6]Argument{value, outRecord(SizeofInt), value, outRecord(sizeofRusage)}},

	{Host: unix.SYS_PRCTL, Guest: abi.SysPrctl, For: processes, Args: [6]Argument{value, value, value, value, value}, Except: toldPrctl},
	{Host: unix.SYS_MQ_OPEN, Guest: abi.SysMqOpen, For: ipc, Args: [6]Argument{text, value, value, inRecord(sizeofMqAttr)}},
	{Host: unix.SYS_MQ_UNLINK, Guest: abi.SysMqUnlink, For: ipc, Args: [6]Argument{text}},
	{Host: unix.SYS_MQ_TIMEDSEND, Guest: abi.SysMqTimedsend, For: ipc, Args: [6]Argument{value, in(2), value, value, inRecord(SizeofTimespec)}},
	{Host: unix.SYS_MQ_TIMEDRECEIVE, Guest: abi.SysMqTimedreceive, For: ipc, Args: [6]Argument{value, out(2), value, outRecord(SizeofInt), inRecord(SizeofTimespec)}},
	{Host: unix.SYS_MQ_NOTIFY, Guest: abi.SysMqNotify, For: ipc, Args: [6]Argument{value, inRecord(sizeofSigevent)}},
	{Host: unix.SYS_MQ_GETSETATTR, Guest: abi.SysMqGetsetattr, For: ipc, Args: [6]Argument{value, inRecord(sizeofMqAttr), outRecord(sizeofMqAttr)}},
	{Host: unix.SYS_VHANGUP, Guest: abi.SysVhangup, For: machine},
	{Host: unix.SYS_PIDFD_SEND_SIGNAL, Guest: abi.SysPidfdSendSignal, For: processes, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_PIDFD_OPEN, Guest: abi.SysPidfdOpen, For: processes, Args: [6]Argument{value, value}},
	{Host: unix.SYS_PIDFD_GETFD, Guest: abi.SysPidfdGetfd, For: processes, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_PKEY_MPROTECT, Guest: abi.SysPkeyMprotect, For: memory, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_PKEY_ALLOC, Guest: abi.SysPkeyAlloc, For: memory, Args: [6]Argument{value, value}},
	{Host: unix.SYS_PKEY_FREE, Guest: abi.SysPkeyFree, For: memory, Args: [6]Argument{value}},
	{Host: unix.SYS_SHMGET, Guest: abi.SysShmget, For: ipc, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SHMAT, Guest: abi.SysShmat, For: ipc, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SHMCTL, Guest: abi.SysShmctl, For: ipc, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SHMDT, Guest: abi.SysShmdt, For: ipc, Args: [6]Argument{value}},
	{Host: unix.SYS_SEMGET, Guest: abi.SysSemget, For: ipc, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SEMOP, Guest: abi.SysSemop, For: ipc, Args: [6]Argument{value, value, value}, Stops: true},
	{Host: unix.SYS_SEMCTL, Guest: abi.SysSemctl, For: ipc, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_SEMTIMEDOP, Guest: abi.SysSemtimedop, For: ipc, Args: [6]Argument{value, value, value, value}, Stops: true},
	{Host: unix.SYS_MSGGET, Guest: abi.SysMsgget, For: ipc, Args: [6]Argument{value, value}},
	{Host: unix.SYS_MSGSND, Guest: abi.SysMsgsnd, For: ipc, Args: [6]Argument{value, value, value, value}, Stops: true},
	{Host: unix.SYS_MSGRCV, Guest: abi.SysMsgrcv, For: ipc, Args: [6]Argument{value, value, value, value, value}, Stops: true},
	{Host: unix.SYS_MSGCTL, Guest: abi.SysMsgctl, For: ipc, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MEMFD_CREATE, Guest: abi.SysMemfdCreate, For: nameless, Args: [6]Argument{text, value}},
	{Host: unix.SYS_UNSHARE, Guest: abi.SysUnshare, For: processes, Args: [6]Argument{value}},
	{Host: unix.SYS_SETNS, Guest: abi.SysSetns, For: processes, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SETHOSTNAME, Guest: abi.SysSethostname, For: machine, Args: [6]Argument{text, value}},
	{Host: unix.SYS_SETDOMAINNAME, Guest: abi.SysSetdomainname, For: machine, Args: [6]Argument{text, value}},
	{Host: unix.SYS_MLOCKALL, Guest: abi.SysMlockall, For: memory, Args: [6]Argument{value}},
	{Host: unix.SYS_MUNLOCKALL, Guest: abi.SysMunlockall, For: memory},
	{Host: unix.SYS_MLOCK2, Guest: abi.SysMlock2, For: memory, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_SCHED_RR_GET_INTERVAL, Guest: abi.SysSchedRrGetInterval, For: limits, Args: [6]Argument{value, value}},
	{Host: unix.SYS_VMSPLICE, Guest: abi.SysVmsplice, For: copying, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_NAME_TO_HANDLE_AT, Guest: abi.SysNameToHandleAt, For: attributes, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_OPEN_BY_HANDLE_AT, Guest: abi.SysOpenByHandleAt, For: opening, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_PROCESS_VM_READV, Guest: abi.SysProcessVMReadv, For: processes, Args: [6]Argument{value, value, value, value, value, value}},
	{Host: unix.SYS_PROCESS_VM_WRITEV, Guest: abi.SysProcessVMWritev, For: processes, Args: [6]Argument{value, value, value, value, value, value}},
	{Host: unix.SYS_KCMP, Guest: abi.SysKcmp, For: processes, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_IOPRIO_SET, Guest: abi.SysIoprioSet, For: limits, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_IOPRIO_GET, Guest: abi.SysIoprioGet, For: limits, Args: [6]Argument{value, value}},
	{Host: unix.SYS_ADD_KEY, Guest: abi.SysAddKey, For: keys, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_REQUEST_KEY, Guest: abi.SysRequestKey, For: keys, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_KEYCTL, Guest: abi.SysKeyctl, For: keys, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_FANOTIFY_INIT, Guest: abi.SysFanotifyInit, For: nameless, Args: [6]Argument{value, value}},
	{Host: unix.SYS_FANOTIFY_MARK, Guest: abi.SysFanotifyMark, For: nameless, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_PIVOT_ROOT, Guest: abi.SysPivotRoot, For: naming, Args: [6]Argument{text, text}},
	{Host: unix.SYS_ADJTIMEX, Guest: abi.SysAdjtimex, For: timers, Args: [6]Argument{value}},
	{Host: unix.SYS_CLOCK_ADJTIME, Guest: abi.SysClockAdjtime, For: timers, Args: [6]Argument{value, value}},
	{Host: unix.SYS_IO_SETUP, Guest: abi.SysIoSetup, For: keys, Args: [6]Argument{value, value}},
	{Host: unix.SYS_IO_DESTROY, Guest: abi.SysIoDestroy, For: keys, Args: [6]Argument{value}},
	{Host: unix.SYS_IO_GETEVENTS, Guest: abi.SysIoGetevents, For: keys, Args: [6]Argument{value, value, value, value, value}, Stops: true},
	{Host: unix.SYS_IO_SUBMIT, Guest: abi.SysIoSubmit, For: keys, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_IO_CANCEL, Guest: abi.SysIoCancel, For: keys, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_IO_PGETEVENTS, Guest: abi.SysIoPgetevents, For: keys, Args: [6]Argument{value, value, value, value, value, value}, Stops: true},
	{Host: unix.SYS_REMAP_FILE_PAGES, Guest: abi.SysRemapFilePages, For: memory, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_MBIND, Guest: abi.SysMbind, For: memory, Args: [6]Argument{value, value, value, value, value, value}},
	{Host: unix.SYS_SET_MEMPOLICY, Guest: abi.SysSetMempolicy, For: memory, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_GET_MEMPOLICY, Guest: abi.SysGetMempolicy, For: memory, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_MIGRATE_PAGES, Guest: abi.SysMigratePages, For: memory, Args: [6]Argument{value, value, value, value}},
	{Host: unix.SYS_MOVE_PAGES, Guest: abi.SysMovePages, For: memory, Args: [6]Argument{value, value, value, value, value, value}},
	{Host: unix.SYS_ACCT, Guest: abi.SysAcct, For: machine, Args: [6]Argument{value}},
	{Host: unix.SYS_SWAPON, Guest: abi.SysSwapon, For: machine, Args: [6]Argument{value, value}},
	{Host: unix.SYS_SWAPOFF, Guest: abi.SysSwapoff, For: machine, Args: [6]Argument{value}},
	{Host: unix.SYS_USERFAULTFD, Guest: abi.SysUserfaultfd, For: nameless, Args: [6]Argument{value}},
	{Host: unix.SYS_SECCOMP, Guest: abi.SysSeccomp, For: processes, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_PROCESS_MADVISE, Guest: abi.SysProcessMadvise, For: memory, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_OPEN_TREE, Guest: abi.SysOpenTree, For: naming, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_MOVE_MOUNT, Guest: abi.SysMoveMount, For: naming, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_FSOPEN, Guest: abi.SysFsopen, For: naming, Args: [6]Argument{value, value}},
	{Host: unix.SYS_FSCONFIG, Guest: abi.SysFsconfig, For: naming, Args: [6]Argument{value, value, value, value, value}},
	{Host: unix.SYS_FSMOUNT, Guest: abi.SysFsmount, For: naming, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_FSPICK, Guest: abi.SysFspick, For: naming, Args: [6]Argument{value, value, value}},
	{Host: unix.SYS_QUOTACTL, Guest: abi.SysQuotactl, For: changing, Args: [6]Argument{value, value, value, value}},
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

// Link reports whether the name is not followed if it names a symbolic link.
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
	WaitsEvents          // the ones of the epoll file that is the first argument
)

// SizeofPollFD and SizeofEpollEvent are sizes in bytes of x86-64's structures.
const (
	SizeofPollFD     = 8
	SizeofEpollEvent = 12
)
