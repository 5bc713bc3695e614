package abi

// Layout of a request to the disk, bytes.
const (
	DiskType     = 0  // u32: 0 read, 1 write
	DiskCount    = 4  // u32: how many segments, at most DiskMaxSegments
	DiskSector   = 8  // u64: the first one, of 512 bytes
	DiskStatus   = 16 // u32: 0, or 1 for an error; written by Go
	DiskUsed     = 20 // u32: 1 when done; written by Go
	DiskSegments = 24 // addresses and sizes, u64 each

	DiskMaxSegments = 32
)

// Layout of struct probe_request, bytes.
const (
	ProbeNr   = 0  // u64: Probe*
	ProbeAddr = 8  // u64: struct kprobe, struct kretprobe, or an array of addresses of such
	ProbeArg  = 16 // u64: length of the array; for RetprobeRegister, address of the memory for the instances
	ProbeRet  = 24 // s64: 0 or -errno
	ProbeDone = 32 // u32: 1 when done (release store by Go)
)

// Layout of struct ftrace_request, bytes. All fields are u64.
const (
	FtraceOps   = 0  // address of the ftrace_ops; 0 for the function tracer's
	FtraceKind  = 8  // Ftrace* below
	FtraceBuf   = 16 // address of a pattern or of addresses; may be 0
	FtraceLen   = 24 // int: its length in bytes; of addresses, their number
	FtraceReset = 32 // int: not 0 if the filter is emptied first
	FtraceSize  = 40
)

// Bits of f_mode.
const (
	FModeLseek  = 0x4
	FModeStream = 0x200000
)

// Layout of struct host_entry, bytes. All fields are u64.
const (
	EntryOp      = 0  // EntryAdd, EntryRemove or EntryMove
	EntryPath    = 8  // address of the absolute path
	EntryPathLen = 16 // bytes
	EntryLink    = 24 // address of a symbolic link's target, or of the old path in EntryMove
	EntryLinkLen = 32 // bytes
	EntryIno     = 40
	EntryMode    = 48 // S_IFMT and permissions
	EntryUID     = 56
	EntryGID     = 64
	EntrySize    = 72 // st_size, bytes
	EntryLen     = 80
)

// Layout of struct host_call, bytes. Each host task has one, in guest kernel memory.
// It belongs to the guest from the HCNext that returns 1 until HCDone.
const (
	CallID     = 0   // u64: the request's number, or 0
	CallNr     = 8   // u64: system call or Host*
	CallArgs   = 16  // u64[6]
	CallCount  = 64  // u64: repetitions of HostCallFunc
	CallRet    = 72  // u64: result
	CallBuf    = 80  // u64: kernel address of the bounce buffer for the data of a read or write
	CallBufLen = 88  // u64: its size, bytes
	CallOpDone = 96  // u32: 1 when the file operation is done, 2 when the task must call CallFunc (release store by Go, then a wake-up)
	CallOp     = 100 // u32: which operation, Op*
	CallOpRet  = 104 // s64: its result: bytes in CallBuf, or -errno
	CallOpArg  = 112 // u64[2]: the operation's count and position
	CallTask   = 128 // u64: the task_struct it belongs to
	CallMode   = 136 // u64: S_IF* and mode of the file that the path in args names
	CallFOps   = 144 // u64: the opened file's file_operations, FOps*
	CallTID    = 152 // u64: the host's pid of the task that this call creates, CallTIDAny, or 0 for a task without one
	CallChild  = 160 // u64: the struct host_call of the task that this call has created, or 0
	CallFunc   = 168 // u64[3]: a function that the file operation has the task call, and its arguments
	CallFiles  = 192 // u64: the host's process whose descriptor table the call uses, 0 if not known
	CallMirror = 200 // u64: kernel address of a mirrored call's description (Mirror*), or 0
	CallSize   = 208

	// The fields from CallSize on belong to the task, not to one call; those not
	// listed here are used by the guest only.
	CallCPUs  = 216 // u64: mask of vCPUs on which the task may run from its next wake-up on, 0 for no change
	CallCPU   = 224 // u64: the preferred one of them
	CallQuiet = 232 // u64: not 0 while what the task executes is not the host's doing, and no probe sees it
)

// Layout of struct host_mirror, bytes: a call that the host's kernel makes while the
// guest's task waits in it.
const (
	MirrorFileSize = 368 // of the description of one file; there are MirrorFiles of them
	MirrorFiles    = 2   // descriptors that a call is about
	MirrorPolled   = 736 // u64: kernel address of the descriptors that it waits for (Polled*), or 0
	MirrorPolledN  = 744 // u64: their number
	MirrorReady    = 768 // u64: EPOLL* for which the descriptor that it waits by is ready
	MirrorRefused  = 776 // s64: the error with which a program has refused the call, which the host's kernel does not make then, or 0
	MirrorCwd      = 784 // u64: kernel address of the path from which a name is looked up, or 0
	MirrorSize     = 808 // the other fields are used by the guest only
)

// Layout of struct host_polled, bytes: the description of a file, and what it is ready for.
const (
	PolledReady = MirrorFileSize // u64: EPOLL*
	PolledSize  = MirrorFileSize + 8
)

// Layout of a file in struct host_mirror, bytes.
const (
	MirrorFD    = 0  // s64: the descriptor, or -1
	MirrorFile  = 8  // u64: identifies the descriptor's file, or 0: it is not open
	MirrorMode  = 16 // u64: its type and permissions
	MirrorRdev  = 24 // u64: dev_t of a device: major << 20 | minor
	MirrorFlags = 32 // u64: its O_* flags
	MirrorPos   = 40 // u64: its position
	MirrorName  = 48 // its path, or "/" and the last part of that, or a name such as pipe:[1], with a NUL at the end
	MirrorSock  = 304
)

// Layout of struct host_sock, bytes: what the host's kernel says of a socket of TCP, at MirrorSock of a file.
const (
	SockState    = 0  // u32: TCP_*, or 0: nothing is said
	SockUnread   = 4  // u32: bytes that the program has not read
	SockSport    = 8  // its port and the other side's, in network order
	SockDport    = 10 //
	SockSrtt     = 12 // u32: tcp_sock.srtt_us
	SockSaddr    = 16 // its address and the other side's; one of IPv4 is in the first 4 bytes
	SockDaddr    = 32 //
	SockAcked    = 48 // u64: tcp_sock.bytes_acked
	SockReceived = 56 // u64: tcp_sock.bytes_received
	SockSize     = 64
)

// SizeofStat is the size of x86-64's struct stat, bytes.
const SizeofStat = 144

// CallTIDAny is a CallTID that lets the guest choose the pid.
const CallTIDAny = 0xffffffff

// Layout of boot_params, whose direct-map address is in rsi when startup_64 begins.
const (
	BootSize = 1024

	BootParamsPA = 0x10000 // their physical address
)
