// Package abi defines the interface between the guest kernel, the machine that runs
// it and the probes: Linux 6.1's pt_regs, constants of its x86-64 build, layouts of
// structures in guest memory, and the hypercalls by which the guest's C code calls
// Go.
//
// What C needs too is in numbers.txt and syscalls.txt, from which go generate writes numbers.go,
// syscalls.go and the guest's headers.
//
// It imports no other package of kprobefs, and has no state.
package abi

//go:generate go run ./generate

import (
	"bytes"
	"unsafe"
)

// Regs is pt_regs of x86-64, field for field and in memory order: 21 words,
// 168 bytes.
type Regs struct {
	R15, R14, R13, R12, BP, BX    uint64
	R11, R10, R9, R8              uint64
	AX, CX, DX, SI, DI            uint64
	OrigAX, IP, CS, Flags, SP, SS uint64
}

// Bytes returns the registers as they lie in memory. They share it.
func (r *Regs) Bytes() []byte { return (*[RegsSize]byte)(unsafe.Pointer(r))[:] }

// RegsSize is sizeof(struct pt_regs) in bytes.
const RegsSize = 168

// Offsets in pt_regs, bytes.
const (
	RegsIP    = 128
	RegsCS    = 136
	RegsFlags = 144
	RegsSP    = 152
	RegsSS    = 160
)

// Set makes r the registers of kernel code at ip; OrigAX stays as it is. x has them in the
// order of their numbers: rax rcx rdx rbx rsp rbp rsi rdi r8 to r15.
func (r *Regs) Set(x *[16]uint64, ip, flags uint64) {
	r.AX, r.CX, r.DX, r.BX, r.SP, r.BP, r.SI, r.DI = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
	r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15 = x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15]
	r.IP, r.Flags, r.CS, r.SS = ip, flags, KernelCS, KernelSS
}

// Get puts the registers into x, in that order, and returns where to go on and the flags.
func (r *Regs) Get(x *[16]uint64) (ip, flags uint64) {
	// Word by word: a wider copy would wait for the narrow stores.
	x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7] = r.AX, r.CX, r.DX, r.BX, r.SP, r.BP, r.SI, r.DI
	x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15] = r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15
	return r.IP, r.Flags
}

// ReturnValue is regs_return_value: the return value of the function that has just
// returned.
func (r *Regs) ReturnValue() uint64 { return r.AX }

// Arg returns the n-th (from 0) integer argument of a function that has just been
// entered: di, si, dx, cx, r8, r9. It returns 0 for further ones, which are on the
// stack.
func (r *Regs) Arg(n int) uint64 {
	switch n {
	case 0:
		return r.DI
	case 1:
		return r.SI
	case 2:
		return r.DX
	case 3:
		return r.CX
	case 4:
		return r.R8
	case 5:
		return r.R9
	}
	return 0
}

// Symbol is one line of kallsyms.
type Symbol struct {
	Addr   uint64 // first byte
	Size   uint64 // bytes up to the next symbol with a higher address, as kallsyms computes it
	Type   byte   // nm's letter: t T d D b B r R A V W ...
	Name   string
	Module string // "" for the core kernel
}

// Range is the address range [Start, End).
type Range struct{ Start, End uint64 }

// Contains reports whether addr is in the range.
func (r Range) Contains(addr uint64) bool { return r.Start <= addr && addr < r.End }

// Overlaps reports whether any byte of [start, end) is in the range.
func (r Range) Overlaps(start, end uint64) bool { return r.Start < end && start < r.End }

// Patch is one change of kernel text: Bytes are written at Addr.
type Patch struct {
	Addr  uint64
	Bytes []byte
}

// Memory is guest memory as a trap handler in Go sees it, addressed by kernel virtual
// addresses. Read-only pages can be written too, but text cannot (EFAULT): it is
// written by Poke. If an address is not mapped, the error is syscall.EFAULT and
// nothing is transferred.
type Memory interface {
	ReadAt(addr uint64, p []byte) error
	WriteAt(addr uint64, p []byte) error
	ReadU64(addr uint64) (uint64, error)
	WriteU64(addr uint64, v uint64) error
}

// TaskSizeMax is TASK_SIZE_MAX: where user space ends.
const TaskSizeMax = 0x7ffffffff000

// ReadString is strncpy_from_kernel_nofault: it reads a string into b; a longer string
// has no NUL in b. It returns false if the memory cannot be read.
func ReadString(m Memory, addr uint64, b []byte) bool {
	for i := 0; i < len(b); {
		n := min(len(b)-i, int(PageSize-addr%PageSize), 64)
		if m.ReadAt(addr, b[i:i+n]) != nil {
			return false
		}
		if bytes.IndexByte(b[i:i+n], 0) >= 0 {
			return true
		}
		i, addr = i+n, addr+uint64(n)
	}
	return true
}

// Trap describes a breakpoint, a fault or a callback from guest text to its handler
// in Go. Each vCPU has one Trap that it reuses, so no pointer to it may be kept. The
// vCPU goes on with the registers that the handler leaves in Regs.
type Trap struct {
	CPU       int    // the vCPU's number, from 0
	Vector    uint8  // VecBP, VecPF, ...; 0 in callbacks
	ErrorCode uint64 // as pushed by the processor
	Addr      uint64 // CR2 of a page fault
	Regs      *Regs  // as pushed by the processor: after an int3, IP is one past it
	RegsAddr  uint64 // guest address of Regs in a callback (optimized_callback, ftrace, rethook), where Regs are in guest memory; 0 in a trap
	Arg       uint64 // the callback's second argument (for optimized_callback, the op pointer that the detour loads)
	Next      uint64 // at a listened fentry site with Regs: the address to continue at, before the handler, which may set it
	Op        uint64 // at a listened fentry site: the ftrace_ops behind which the handler begins, and when it returns the one that the guest calls next; 0 for none
	Task      uint64 // address of the current task_struct
	Data      []byte // a tracepoint's record, in guest memory; valid until the handler returns
	Mem       Memory
	Preempt   uint32       // the guest's preempt_count as the handler would see it on Linux
	IRQsOff   bool         // the handler runs with interrupts off, even if they were on before
	Now       func() int64 // nanoseconds since boot
	Busy      bool         // guest code calls a probe's handlers on the CPU: current_kprobe is set
	Quiet     bool         // the task prepares a call of the host: no handler runs (CallQuiet)
	Caller    Caller       // the function that calls the handlers of a breakpoint's probes on Linux

	// Gone is set when a handler of the guest has ended its task by an oops. The CPU is in
	// another task then: Regs and the stack must not be used any more, and nothing that
	// belongs to the hit is ended.
	Gone bool

	// Away is set when a handler of the guest has called the scheduler. The CPU is in
	// another task then, but Regs and the stack are still as at the hit. No other
	// handler of the guest is called in this hit.
	Away bool

	// AddPreempt changes the guest's preempt_count on this vCPU. It is nil without a guest.
	AddPreempt func(n int32)
}

// Caller names the function that calls a handler when a breakpoint has been hit. Stack
// traces in handlers that are guest code show it.
type Caller uint8

// The callers.
const (
	CallerAggr   Caller = iota // aggr_pre_handler: one of several probes, or one that could be optimized
	CallerKprobe               // the breakpoint's handler itself: kprobe_handler up to 2.6.32
	CallerPost                 // what runs after the step: post_kprobe_handler up to 2.6.32
	CallerReturn               // the handler of the probe at the return trampoline
	Callers                    // the number of callers
)

// Nop5 is the five-byte nop at fentry sites and jump labels that are not in use.
const Nop5 = "\x0f\x1f\x44\x00\x00"

// Hash64 is hash_64 (and hash_ptr). The result has the given number of bits.
func Hash64(v uint64, bits uint) uint64 { return v * 0x61c8864680b583eb >> (64 - bits) }

// Golden64 is 2^64 divided by the golden ratio, the step of SplitMix64.
const Golden64 = 0x9e3779b97f4a7c15

// SplitMix64 advances a generator and returns its next number (Steele, Lea, Flood: Fast
// Splittable Pseudorandom Number Generators, 2014).
func SplitMix64(state *uint64) uint64 {
	*state += Golden64
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Errnos of Linux that package syscall does not name on every system, or that
// never reach user space.
const (
	ENOTSUPP = 524 // inside the kernel only; user space sees EOPNOTSUPP
)

// Constants of Debian's 6.1 build.
const (
	HZ          = 250
	PageSize    = 4096
	PageShift   = 12
	ThreadSize  = 16384
	TaskCommLen = 16

	KernelBase  = 0xffffffff80000000 // virtual address of physical address 0 in the kernel mapping
	TextBase    = 0xffffffff81000000 // _text, _stext; physical 0x1000000
	DirectMap   = 0xffff888000000000 // PAGE_OFFSET: all of RAM
	ModulesBase = 0xffffffffc0000000 // MODULES_VADDR
	SlotsBase   = 0xffffffffe0000000 // upper part of the module area: insn slots, detours
	ModulesEnd  = 0xffffffffff000000
	UserBase    = 0x00007f0000000000 // windows of host tasks, UserWindow bytes each
	UserWindow  = 0x0000000000400000
	KernelCS    = 0x10
	KernelSS    = 0x18
)

// Bits of RFLAGS.
const (
	FlagCF = 1 << 0
	FlagPF = 1 << 2
	FlagAF = 1 << 4
	FlagZF = 1 << 6
	FlagSF = 1 << 7
	FlagTF = 1 << 8
	FlagIF = 1 << 9
	FlagDF = 1 << 10
	FlagOF = 1 << 11
)

// Exception vectors.
const (
	VecDE = 0
	VecDB = 1
	VecBP = 3
	VecUD = 6
	VecDF = 8
	VecGP = 13
	VecPF = 14
)

// Bits of preempt_count.
const (
	PreemptMask   = 0x000000ff
	SoftirqMask   = 0x0000ff00
	HardirqMask   = 0x000f0000
	HardirqOffset = 0x00010000
	NMIMask       = 0x00f00000
	NMIOffset     = 0x00100000
	InterruptMask = SoftirqMask | HardirqMask | NMIMask // in_interrupt()
)

// Offsets in 6.1's task_struct, bytes (shared with kernel/guest's headers).
const (
	TaskStatus     = 16 // thread_info: status and, in the upper half of 8 bytes, cpu
	TaskState      = 24
	TaskStack      = 32
	TaskFlags      = 44
	TaskOnRQ       = 104
	TaskHostCall   = 392 // our own: the struct host_call, or 0
	TaskPID        = 2416
	TaskTGID       = 2420
	TaskRealParent = 2432
	TaskParent     = 2440
	TaskWorker     = 2648 // worker_private
	TaskCred       = 2960
	TaskComm       = 2976
	TaskYields     = 2992 // not in Linux: number of voluntary yields, even if no other task was runnable
	TaskSize       = 9792
)

// CredUID is the offset of uid in struct cred, which gid follows, bytes.
const CredUID = 8
