package abi

// A hypercall is the instruction vmcall (0f 01 c1) in core kernel text, with its
// number in rax and arguments in rdi, rsi, rdx, r10, r8. The result is in rax; all
// other registers are preserved. kernel/guest/include/asm/host.h defines the same
// numbers for C.
//
// Arguments are untrusted: addresses are translated and lengths are bounded. Invalid
// ones give -EINVAL or -EFAULT.
const (
	HCPrintk      = 1  // (buf, len, level, flags): write a record to the log; no newline at its end
	HCClock       = 2  // () → nanoseconds since boot (ktime_get)
	HCWallClock   = 3  // () → nanoseconds since 1970
	HCSetTimer    = 4  // (ns): raise VecTimer on this vCPU when HCClock reaches ns; 0 disarms
	HCSendIPI     = 5  // (cpu, vector): raise vector on a vCPU
	HCStartCPU    = 6  // (cpu, entry, stack): start a vCPU at entry with rsp=stack, rdi=cpu
	HCMap         = 7  // (va, pa, pages, perm): map pages; perm: 1 write, 2 execute (refused: only Go makes executable pages)
	HCUnmap       = 8  // (va, pages)
	HCNext        = 9  // (call): ask for the host task's next call. → 1: call is filled in; 0, or an error when the host does not know the task yet: there is none, sleep until woken; -1: exit
	HCDone        = 10 // (call, alone): the call has returned call.ret; alone: no other task waits for the CPU
	HCFileOp      = 11 // (call, op): start the host's part of a file operation. When done, Go sets call.op_done to 1 and wakes up the task
	HCPopWake     = 12 // () → a task_struct to wake up, or 0. VecAsyncPF's handler repeats it until it returns 0
	HCPanicBegin  = 13 // (buf, n): the first line of a panic; returns whether the guest shows its stack
	HCPanic       = 14 // (buf, len): panic with this message; the machine stops
	HCBooted      = 15 // (array, n): init is done; array holds the addresses of n host_call structs: khostd's, then those of load/0, load/1, ...
	HCRandom      = 16 // () → 64 random bits (seeded when deterministic)
	HCTaskDead    = 17 // (task): a task has ended and its memory will be reused; its pending call fails with EIO
	HCFunction    = 18 // (ip, parentIP, regs, after) → next: an fentry site was hit whose listeners need no registers; in the pt_regs at regs only those that the trampoline saves are set. Those behind the ftrace_ops after (0: from the first) are called, up to a module's, which the caller calls and asks again: next is its address, or 0 at the end
	HCTracepoint  = 19 // (tracepoint, record, len): an enabled tracepoint was hit; the record begins with 8 bytes for struct trace_entry
	HCOptimized   = 20 // (op, regs): optimized_callback, called by a detour
	HCFtrace      = 21 // (ip, parentIP, regs, after) → next: kprobe_ftrace_handler; ip is the fentry site's address. The rest is as with HCFunction
	HCRethook     = 22 // (regs): arch_rethook_trampoline_callback; Go writes the return address where the trampoline pops it
	HCBug         = 23 // (regs, kind): 0 BUG, 1 WARN, 2 unexpected page fault, 3 another trap: Go logs what Linux prints; then the guest kills the task or goes on
	HCProbe       = 24 // (request): register_kprobe and the like, see ProbeNr. When done, Go sets request.done to 1 and wakes up the current task
	HCStack       = 25 // (): dump_stack: Go logs the current task and the stack trace as Linux prints them
	HCEntry       = 32 // (entry): a name of the guest's own has appeared or gone in a filesystem that the host shows; see EntryOp
	HCGraphReturn = 33 // (slot): ftrace_return_to_handler; Go writes the return address into the slot, where return_to_handler pops it
	HCDisk        = 34 // (request): do a request to the disk (see DiskType), and raise VecDisk; 0: return the disk's size in sectors
	HCLookupName  = 35 // (name, n) → address: kallsyms_lookup_name; 0 if there is no such symbol
	HCSymbolAt    = 36 // (i, addr, buf, size): write the address, a u64, and the name, with a NUL and cut to size, of the core kernel's i-th symbol
	HCStackSave   = 31 // (store, size, skip) → n: stack_trace_save: store at most size return addresses, without those of the calling function and of skip more
	HCSymbol      = 30 // (addr, buf, kind, size) → length: format an address as %pS (kind 'S'), %ps or %pB do, cut to size
)

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

// Values of HCTracepoint's tracepoint for trace_printk: the record has an address after its
// header, and more.
const (
	TraceBinary = 1 // the address of the format and its arguments (__trace_bprintk)
	TraceString = 2 // the address of a string (__trace_bputs)
	TraceText   = 3 // text with a zero at its end (__trace_printk, __trace_puts)
	TraceFormat = 4 // a format of a module: its address, then its text
	TraceOn     = 5 // tracing_on; these three have 0 in the place of the address, and nothing after it
	TraceOff    = 6 // tracing_off
	TraceIsOn   = 7 // tracing_is_on: Go stores 0 or 1 in the place of the address
)

// Layout of struct probe_request, bytes.
const (
	ProbeNr   = 0  // u64: Probe*
	ProbeAddr = 8  // u64: struct kprobe, struct kretprobe, or an array of addresses of such
	ProbeArg  = 16 // u64: length of the array; for RetprobeRegister, address of the memory for the instances
	ProbeRet  = 24 // s64: 0 or -errno
	ProbeDone = 32 // u32: 1 when done (release store by Go)
)

// Values of ProbeNr, the requested function.
const (
	ProbeRegister      = 1
	ProbeUnregister    = 2 // an array
	ProbeEnable        = 3 // of return probes too
	ProbeDisable       = 4
	RetprobeRegister   = 5
	RetprobeUnregister = 6 // an array
	JprobeRegister     = 7 // in releases that have jprobes
	JprobesRegister    = 8 // an array

	// Other requests of the same form.
	KeyUpdate  = 16 // patch the branches of the static key at ProbeAddr; ProbeArg: 1 if it is true
	CallUpdate = 17 // patch the static call whose key is at ProbeAddr; ProbeArg: its trampoline, or 0

	ModuleEvent = 18 // the module whose struct is at ProbeAddr has entered the state ProbeArg (enum module_state)

	FtraceRegister   = 19 // the ftrace_ops at ProbeAddr
	FtraceUnregister = 20
	FtraceSet        = 21 // change a filter: ProbeAddr is the address of a struct ftrace_request

	TracepointUpdate = 22 // let the kernel's tracepoint at ProbeAddr call the function ProbeArg for the probes of modules; 0 if it has none
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

// Values of FtraceKind.
const (
	FtraceFilter    = 0 // change the filter by a pattern
	FtraceNotrace   = 1
	FtraceAddIPs    = 2 // add addresses to the filter
	FtraceRemoveIPs = 3
	FtraceFree      = 4 // free the filters
)

// Requests to a host task. call.nr is the number of an x86-64 system call (SYS_read,
// SYS_openat, ...), which do_syscall_64 runs as if user space had made it, or one of
// these.
const (
	HostCallFunc  = 0x10000 // call the function at args[0] with args[1..5], count times: ret is the last result
	HostNewTask   = 0x10001 // args: pid, tgid, address of comm, 1 + the only vCPU it may run on or 0; ret: host_call of a new host task (no kernel_clone)
	HostExitTask  = 0x10002 // the task ends without do_exit: the host's process goes on, the guest only forgets it
	HostFilpClose = 0x10003 // filp_close of the file behind descriptor args[0]; the descriptor stays (FLUSH)
	HostRelease   = 0x10004 // close the descriptor args[0] and drop the last reference to its file (RELEASE)
	HostNop       = 0x10005 // no operation: shows that the task runs
	HostKilled    = 0x10006 // do_group_exit(args[0]): the host's process was killed by a signal; with args[1] another thread has ended it with that code
	HostFileMode  = 0x10007 // f_mode (FMode*) of the file behind descriptor args[0]
	HostForget    = 0x10009 // close the descriptors of the table args[0]
	HostPoll      = 0x10008 // the events (EPOLL*) for which the file behind descriptor args[0] is ready; with args[2], when they are no longer args[1]
)

// Bits of HCPopWake's result beside the task: its caller on the host has got a signal, or
// was killed by one. The sleeps that this ends on Linux end.
const (
	WakeInterrupt = 1
	WakeKill      = 2
	WakeBits      = 3
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

// Values of EntryOp.
const (
	EntryAdd    = 1
	EntryRemove = 2 // with all that is below it
	EntryMove   = 3
)

// Values of HCFileOp's op: file operations that the host carries out.
const (
	OpOpen    = 1
	OpRead    = 2
	OpWrite   = 3
	OpStat    = 4
	OpReaddir = 5
	OpFlush   = 6
	OpRelease = 7
	OpMade    = 11 // wait for the host's kernel to make the call; the result is that of the call
	OpCalled  = 10 // the function that the operation has the task call (CallFunc) has returned CallOpRet
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
	MirrorFileSize = 304 // of the description of one file; there are MirrorFiles of them
	MirrorFiles    = 2   // descriptors that a call is about
	MirrorPolled   = 608 // u64: kernel address of the descriptors that it waits for (Polled*), or 0
	MirrorPolledN  = 616 // u64: their number
	MirrorReady    = 640 // u64: EPOLL* for which the descriptor that it waits by is ready
	MirrorSize     = 664 // the other fields are used by the guest only
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
	MirrorName  = 48 // "/" and the last part of its path, or a name such as pipe:[1], with a NUL at the end
)

// Values of CallFOps: which of the guest's file_operations an opened file has.
const (
	FOpsSeq       = 0  // seq_read and friends: list, blacklist, trace, kallsyms
	FOpsDebugBool = 1  // debugfs: full_proxy_read → read_enabled_file_bool
	FOpsProcSys   = 2  // proc_sys_read → proc_sys_call_handler
	FOpsTracefs   = 3  // simple tracefs files
	FOpsProbes    = 4  // kprobe_events: probes_open, probes_write
	FOpsDev       = 5  // character device: devkmsg_read, devkmsg_write
	FOpsDir       = 6  // directories: dcache_readdir and the like
	FOpsMarker    = 8  // trace_marker: tracing_mark_write
	FOpsRawMarker = 9  // trace_marker_raw: tracing_mark_raw_write
	FOpsGuest     = 10 // a file of the guest's own: all of it is guest code
	FOpsOther     = 7  // a file that kprobefs does not serve: the guest knows of it only what the call says
)

// CallTIDAny is a CallTID that lets the guest choose the pid.
const CallTIDAny = 0xffffffff

// CallModeNone is the CallMode of a path that does not exist, in a call with
// FOpsOther.
const CallModeNone = 0xffffffff

// Layout of boot_params, whose direct-map address is in rsi when startup_64 begins.
const (
	BootMagic   = 0   // u64: BootMagicValue
	BootCPUs    = 8   // u64
	BootRAM     = 16  // u64: bytes that the guest may use, from physical 0 (memory above is managed by Go)
	BootWall    = 24  // u64: nanoseconds since 1970
	BootSeed    = 32  // u64
	BootCmdline = 40  // char[256]
	BootRelease = 296 // char[64]: uname -r
	BootVersion = 360 // char[256]: linux_banner
	BootPtrKey  = 616 // u64[2]: key with which %p hashes addresses
	BootSize    = 1024

	BootMagicValue = 0x6b70726f62656673 // "kprobefs"
	BootParamsPA   = 0x10000            // their physical address
)

// Flags of HCPrintk.
const (
	PrintkOpen = 1 << iota // the text does not end its line
	PrintkCont             // the text goes on with a line of the same task that has not ended (KERN_CONT)
	PrintkDev              // a struct dev_printk_info follows the text
)
