package abi

// A hypercall is vmcall (0f 01 c1) in core kernel text with its number in rax
// and arguments in rdi, rsi, rdx, r10, r8; the result comes back in rax, all
// other registers keep their values. kernel/guest/include/asm/host.h has the
// same numbers for the guest's C code.
//
// Go treats every argument as hostile: an address is translated, a length
// bounded, and nonsense gives -EINVAL or -EFAULT in rax.
const (
	HCPrintk     = 1  // (buf, len, level): one record for the log, no newline at its end
	HCClock      = 2  // () → nanoseconds since boot (ktime_get)
	HCWallClock  = 3  // () → nanoseconds since 1970
	HCSetTimer   = 4  // (ns): VecTimer on this vCPU once HCClock reaches ns; 0 disarms
	HCSendIPI    = 5  // (cpu, vector): raise vector on a vCPU
	HCStartCPU   = 6  // (cpu, entry, stack): a vCPU begins at entry with rsp=stack, rdi=cpu
	HCMap        = 7  // (va, pa, pages, perm): map pages; perm: 1 write, 2 execute (refused: only Go makes executable pages)
	HCUnmap      = 8  // (va, pages)
	HCNext       = 9  // (call): the host task asks for its next call. → 1: call is filled in; 0 (or an error, when the host does not know the task yet): none, sleep until woken; -1: exit
	HCDone       = 10 // (call): the call is over, call.ret is what it returned
	HCFileOp     = 11 // (call, op): start the host's part of a file operation. It ends with call.op_done = 1 and a wake-up
	HCPopWake    = 12 // () → a task_struct to wake, 0: no more. Called in VecAsyncPF's handler until it gives 0
	HCPanic      = 14 // (buf, len): the guest gives up; the machine stops
	HCBooted     = 15 // (array, n): init is done; array holds the n addresses of host_call structs: the manager, then load/0, load/1, ...
	HCRandom     = 16 // () → 64 random bits (seeded when deterministic)
	HCTaskDead   = 17 // (task): a task ends and its memory will be used again; a call under way on it fails with EIO
	HCFunction   = 18 // (ip, parentIP, regs): a listener of an fentry site that looks at no registers; of the pt_regs at regs only what the trampoline keeps is set
	HCTracepoint = 19 // (tracepoint, record, len): a tracepoint with a listener was passed; the record begins with 8 bytes for struct trace_entry
	HCOptimized  = 20 // (op, regs): optimized_callback, called by a detour
	HCFtrace     = 21 // (ip, parentIP, regs): kprobe_ftrace_handler; ip is the fentry site's address
	HCRethook    = 22 // (regs): arch_rethook_trampoline_callback; Go puts the return address where the trampoline pops it
	HCBug        = 23 // (regs, kind): 0 BUG, 1 WARN, 2 unexpected page fault, 3 another trap: Go logs what Linux prints (the guest then kills the task or goes on)
	HCProbe      = 24 // (request): register_kprobe and the like, see ProbeNr. It ends by request.done = 1 and a wake-up of the current task
	HCStack      = 25 // (): dump_stack: Go logs who is running and the stack, as Linux prints them
	HCSymbol     = 30 // (addr, buf, kind, size) → bytes: what %pS ('S'), %ps or %pB shows of an address, as far as it fits
)

// Layout of struct probe_request, bytes.
const (
	ProbeNr   = 0  // u64: Probe*
	ProbeAddr = 8  // u64: struct kprobe, struct kretprobe, or an array of addresses of such
	ProbeArg  = 16 // u64: how many there are; for RetprobeRegister the memory of the instances
	ProbeRet  = 24 // s64: 0 or -errno
	ProbeDone = 32 // u32: 1 when it is over (release store by Go)
)

// What is asked for: ProbeNr.
const (
	ProbeRegister      = 1
	ProbeUnregister    = 2 // an array
	ProbeEnable        = 3 // of return probes too
	ProbeDisable       = 4
	RetprobeRegister   = 5
	RetprobeUnregister = 6 // an array
	JprobeRegister     = 7 // of releases that have jprobes
	JprobesRegister    = 8 // an array
)

// What a host task is asked to do: call.nr is a system call number of x86-64
// (SYS_read, SYS_openat, ...), run by do_syscall_64 as if user space had made
// it, or one of these.
const (
	HostCallFunc  = 0x10000 // call the function at args[0] with args[1..5], count times: ret is the last result
	HostNewTask   = 0x10001 // args: pid, tgid, address of comm, 1 + the only vCPU it may run on or 0; ret: host_call of a new host task (no kernel_clone)
	HostExitTask  = 0x10002 // the task ends (do_exit is not called: the host's process is merely forgotten)
	HostFilpClose = 0x10003 // filp_close of the file behind descriptor args[0]; the descriptor stays (FLUSH)
	HostRelease   = 0x10004 // the descriptor args[0] is given back and its file's last reference dropped (RELEASE)
	HostNop       = 0x10005 // nothing: proves that the task runs
	HostKilled    = 0x10006 // do_group_exit(args[0]): the host's process was killed by a signal
)

// File operations that the guest leaves to the host: HCFileOp's op.
const (
	OpOpen    = 1
	OpRead    = 2
	OpWrite   = 3
	OpStat    = 4
	OpReaddir = 5
	OpFlush   = 6
	OpRelease = 7
	OpCalled  = 10 // the function that the operation asked for has returned, with CallOpRet
)

// Layout of struct host_call, bytes. It lies in kernel memory of the guest, one
// for each host task, and belongs to the guest between HCNext's 1 and HCDone.
const (
	CallID     = 0   // u64: the request's number, 0: none
	CallNr     = 8   // u64: system call or Host*
	CallArgs   = 16  // u64[6]
	CallCount  = 64  // u64: repetitions of HostCallFunc
	CallRet    = 72  // u64: result
	CallBuf    = 80  // u64: kernel address of the bounce buffer, which holds the data of a read or write
	CallBufLen = 88  // u64: its size, bytes
	CallOpDone = 96  // u32: 1 when the file operation is over, 2 when CallFunc is to be called (release store by Go, then a wake-up)
	CallOp     = 100 // u32: which operation, Op*
	CallOpRet  = 104 // s64: its result: bytes in CallBuf, or -errno
	CallOpArg  = 112 // u64[2]: the operation's count and position
	CallTask   = 128 // u64: the task_struct it belongs to
	CallMode   = 136 // u64: S_IF* and mode of the file that the path in args names
	CallFOps   = 144 // u64: which file operations the opened file gets: FOps*
	CallTID    = 152 // u64: the host's pid of the task that this call creates, CallTIDAny, or 0 for a task without one
	CallChild  = 160 // u64: the struct host_call of the task that this call has made, or 0
	CallFunc   = 168 // u64[3]: a function that the operation has the task call, and its arguments
	CallFiles  = 192 // u64: the host's process whose descriptors the call is about, 0: one that is not known
	CallSize   = 200

	// What follows is not of one call. From 200 on there is what is the guest's own.
	CallCPUs = 208 // u64: the vCPUs on which the task may run from its next wake-up on, 0: as it is
	CallCPU  = 216 // u64: and the one that is best
)

// Which of the guest's file_operations an opened file uses: CallFOps.
const (
	FOpsSeq       = 0 // seq_read and friends: list, blacklist, trace, kallsyms
	FOpsDebugBool = 1 // debugfs: full_proxy_read → read_enabled_file_bool
	FOpsProcSys   = 2 // proc_sys_read → proc_sys_call_handler
	FOpsTracefs   = 3 // simple tracefs files
	FOpsProbes    = 4 // kprobe_events: probes_open, probes_write
	FOpsDev       = 5 // character device: devkmsg_read, devkmsg_write
	FOpsDir       = 6 // directories: dcache_readdir and the like
	FOpsMarker    = 8 // trace_marker: tracing_mark_write
	FOpsRawMarker = 9 // trace_marker_raw: tracing_mark_raw_write
	FOpsOther     = 7 // no file of ours: what the call says of it is all there is
)

// CallTIDAny has the guest choose the pid of the host's task.
const CallTIDAny = 0xffffffff

// CallModeNone is CallMode of a path that names nothing, in a call with FOpsOther.
const CallModeNone = 0xffffffff

// Layout of boot_params, whose direct-map address is in rsi when startup_64 begins.
const (
	BootMagic   = 0   // u64: BootMagicValue
	BootCPUs    = 8   // u64
	BootRAM     = 16  // u64: bytes that the guest may use, from physical 0 (Go keeps what lies above)
	BootWall    = 24  // u64: nanoseconds since 1970
	BootSeed    = 32  // u64
	BootCmdline = 40  // char[256]
	BootRelease = 296 // char[64]: uname -r
	BootVersion = 360 // char[256]: linux_banner
	BootPtrKey  = 616 // u64[2]: what %p hashes addresses with
	BootSize    = 1024

	BootMagicValue = 0x6b70726f62656673 // "kprobefs"
	BootParamsPA   = 0x10000            // where they stand, physical
)
