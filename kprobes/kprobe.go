package kprobes

import (
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Flags is kprobe.flags.
type Flags uint32

// The bits of kprobe.flags, with Linux's values.
const (
	FlagGone        Flags = 1    // the code is no longer there
	FlagDisabled    Flags = 2    // temporarily disabled
	FlagOptimized   Flags = 4    // of an aggregate: a jump stands there, or is queued to
	FlagFtrace      Flags = 8    // at an fentry site
	FlagOnFuncEntry Flags = 0x10 // at the entry of a function
)

// Hit is what a handler gets: the registers, memory, CPU and task of the trap,
// and the probe that was hit. It belongs to the vCPU and is used again for the
// next hit: a handler must not keep it.
//
// In a pre-handler Regs.IP is the probe's address plus one, whether the point
// is an int3, a jump or an fentry call; in a post-handler it is the address of
// the next instruction; in a return handler it is the return address.
type Hit struct {
	*abi.Trap
	Probe *Kprobe
	k     *Kprobes
}

// PreHandler is kprobe.pre_handler. It runs on a vCPU in atomic context. A
// result other than 0 says that it changed Regs.IP itself: no step, no
// post-handler and no further handlers of that address (ignored when the point
// is an optimized jump).
type PreHandler func(h *Hit) int

// PostHandler is kprobe.post_handler; flags is always 0.
type PostHandler func(h *Hit, flags uint64)

// FaultHandler is kprobe.fault_handler of releases that have it: an exception was
// raised by a pre- or post-handler of the probe, or (up to 4.15) by the copy of its
// instruction.
// trapnr is its vector: 14 a page fault, 13 a general protection fault, 0 a divide
// error. A result of 1 says that it is dealt with.
//
// When the copy has faulted, h.Regs are those at the probed instruction, which is
// executed again if the handler has left Regs.IP alone; else execution goes on
// there, and no post-handler runs. When a handler has faulted, h is the one that
// the handler got; what it then does, Load and Caught say.
type FaultHandler func(h *Hit, trapnr int) int

// BreakHandler is kprobe.break_handler of releases that have it. A pre-handler
// of such a probe that returns 1 has led the CPU to code of its own, and the probe
// goes on being handled until that comes to an int3 that is no probe's: then the
// break handler is called, with Regs.IP one past it. 1: it was the one waited for,
// the handler has restored the registers, and the probed instruction is executed.
type BreakHandler func(h *Hit) int

// Kprobe is struct kprobe. The exported fields are the caller's to fill in
// before Register; Register sets Addr, and the second Unregister clears it.
// Only the functions of Kprobes may be called on it from several goroutines.
type Kprobe struct {
	Addr       uint64 // either Addr or
	SymbolName string // "symbol" or "module:symbol"
	Offset     uint32 // bytes, added to either
	Flags      Flags  // FlagDisabled, or 0: what Register starts with. See State

	PreHandler  PreHandler
	PostHandler PostHandler // prevents optimization

	// Not on 6.1 (Features).
	FaultHandler FaultHandler
	BreakHandler BreakHandler // prevents optimization; one at an address

	flags  atomic.Uint32
	missed atomic.Uint64
	ret    *Retprobe // whose entry this is
	jp     *Jprobe   // which this is
}

// breaks says whether p wants the int3s of what runs for it.
func (p *Kprobe) breaks() bool { return p.BreakHandler != nil || p.jp != nil }

// State is kprobe.flags as they are now. FlagOptimized is never set in it, since
// it belongs to the point (PointInfo).
func (p *Kprobe) State() Flags { return Flags(p.flags.Load()) &^ flagBroken }

// Missed is kprobe.nmissed: hits while another probe's handler ran, and, on releases
// with fault handlers, faults of the probe's own handlers.
func (p *Kprobe) Missed() uint64 { return p.missed.Load() }

// Retprobe gives the return probe whose entry probe p is, or nil.
func (p *Kprobe) Retprobe() *Retprobe { return p.ret }

func (p *Kprobe) has(f Flags) bool { return Flags(p.flags.Load())&f != 0 }

// disabled is kprobe_disabled: a gone probe counts.
func (p *Kprobe) disabled() bool { return p.has(FlagDisabled | FlagGone) }
func (p *Kprobe) set(f Flags)    { p.flags.Or(uint32(f)) }
func (p *Kprobe) clear(f Flags)  { p.flags.And(^uint32(f)) }

// RetHandler is kretprobe.handler and kretprobe.entry_handler. The result of an
// entry handler other than 0 says that the return is not to be hooked; that of
// a return handler is ignored.
type RetHandler func(ri *Instance, h *Hit) int

// Retprobe is struct kretprobe. The exported fields are the caller's to fill in
// before RegisterRetprobe; Kprobe's handlers are overwritten by it.
type Retprobe struct {
	Kprobe       Kprobe
	Handler      RetHandler
	EntryHandler RetHandler
	MaxActive    int    // calls hooked at a time; <= 0: max(10, 2*CPUs), or what Features say, written back
	DataSize     uint64 // bytes of Instance.Data; at most 4096
	Struct       uint64 // where guest code that registers it has its struct; 0: it is Go's

	missed atomic.Uint64
	pool   *instancePool // of this registration
}

// Missed is kretprobe.nmissed: entries without a free instance.
func (rp *Retprobe) Missed() uint64 { return rp.missed.Load() }

// Instance is struct kretprobe_instance: one hooked call.
type Instance struct {
	Retprobe *Retprobe // nil: it is a Rethook's
	Index    int       // which of the MaxActive it is
	RetAddr  uint64    // what stood in the return slot; 0 in the entry handler
	Task     uint64    // task_struct of the call
	Data     []byte    // DataSize bytes, kept from entry to return

	frame uint64 // address of the return slot
	next  *Instance
	pool  *instancePool
}
