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
	FlagOptimized   Flags = 4    // of an aggregate: a jump is in the text, or is queued
	FlagFtrace      Flags = 8    // at an fentry site
	FlagOnFuncEntry Flags = 0x10 // at the entry of a function
)

// Hit is the argument of a handler: the registers, memory, CPU and task of the trap,
// and the probe that was hit. The vCPU reuses it for the next hit, so a handler must
// not keep it.
//
// In a pre-handler Regs.IP is the probe's address plus one, whether the text has an
// int3, a jump or an fentry call there. In a post-handler it is the address of the
// next instruction, and in a return handler the return address.
type Hit struct {
	*abi.Trap
	Probe *Kprobe
	hits  *Hits
}

// PreHandler is kprobe.pre_handler. It runs on a vCPU in handler context (see
// docs/glossary.md). A result other than 0 says that it has changed Regs.IP: then
// there is no single step, no post-handler and no further handler of that address.
// The result is ignored when the probe is optimized.
type PreHandler func(h *Hit) int

// PostHandler is kprobe.post_handler; flags is always 0.
type PostHandler func(h *Hit, flags uint64)

// FaultHandler is kprobe.fault_handler, on releases that have it. It is called for an
// exception in a pre- or post-handler of the probe, or (up to 4.15) in the copy of the
// probed instruction. trapnr is the exception's vector: 14 is a page fault, 13 a general
// protection fault, 0 a divide error. A result of 1 says that it is resolved.
//
// After a fault of the copy, h.Regs are those at the probed instruction. If the handler
// does not change Regs.IP, the instruction is executed again; otherwise execution
// continues there, and no post-handler runs. After a fault of a handler, h is that
// handler's Hit; see Load for what follows.
type FaultHandler func(h *Hit, trapnr int) int

// BreakHandler is kprobe.break_handler, on releases that have it. After a pre-handler
// has returned 1, execution continues where the handler directed it, as for any probe.
// When the task then reaches an int3 that belongs to no probe, the break handler is
// called, with Regs.IP one past the int3. A result of 1 says that it expected this int3
// and has restored the registers; the probed instruction is then executed.
type BreakHandler func(h *Hit) int

// Kprobe is struct kprobe. The caller sets the exported fields before Register.
// Register sets Addr, and a second Unregister clears it. Several goroutines may use
// a registered one only through the methods of Kprobes.
type Kprobe struct {
	Addr       uint64 // either Addr or
	SymbolName string // "symbol" or "module:symbol"
	Offset     uint32 // bytes, added to either
	Flags      Flags  // FlagDisabled or 0, the initial value of State

	PreHandler  PreHandler
	PostHandler PostHandler // prevents optimization

	Mirror Mirror // may be nil

	// Struct is the address of a struct kprobe of the guest whose pre-handler is what
	// PreHandler calls, or 0. If all probes of an optimized address have one, the guest's
	// optimized_callback calls the handlers, and no Go code runs at a hit. It needs a Mirror.
	Struct uint64

	// These fields have no effect on 6.1 (release.NoFaultHandlers, NoBreakHandlers).
	FaultHandler FaultHandler
	BreakHandler BreakHandler // prevents optimization; at most one per address

	flags  atomic.Uint32
	missed atomic.Uint64
	ret    *Retprobe // the return probe whose entry probe this is
	jp     *Jprobe   // the jprobe that contains this
}

// Mirror learns at once what changes in a probe. It updates the struct of the guest
// code that registered the probe. Its methods must not wait; those that count run on
// vCPUs in handler context, several at a time.
type Mirror interface {
	SetFlags(f Flags)   // State is now f
	SetNext(at uint64)  // the Struct of the next probe at the address is at, or 0: kprobe.list.next
	SetOpcode(b byte)   // the probe has an instruction (it is not at an fentry site) whose first byte is b: kprobe.opcode
	Missed(n uint64)    // n more missed hits; 0 resets the count
	RetMissed(n uint64) // the same for the return probe
}

// breaks reports whether p handles int3s of code that runs because of it.
func (p *Kprobe) breaks() bool { return p.BreakHandler != nil || p.jp != nil }

// State returns the present kprobe.flags. FlagOptimized is never set in it, because
// it belongs to the aggregate (PointInfo).
func (p *Kprobe) State() Flags { return Flags(p.flags.Load()) &^ flagBroken }

// Missed is kprobe.nmissed: the hits while another probe's handler ran and, on
// releases with fault handlers, the faults of the probe's handlers.
func (p *Kprobe) Missed() uint64 { return p.missed.Load() }

// Retprobe returns the return probe whose entry probe p is, or nil.
func (p *Kprobe) Retprobe() *Retprobe { return p.ret }

func (p *Kprobe) has(f Flags) bool { return Flags(p.flags.Load())&f != 0 }

// disabled is kprobe_disabled: it is also true for a gone probe.
func (p *Kprobe) disabled() bool { return p.has(FlagDisabled | FlagGone) }

// set and clear change State. The caller holds the probes' lock.
func (p *Kprobe) set(f Flags)   { p.flags.Or(uint32(f)); p.showFlags() }
func (p *Kprobe) clear(f Flags) { p.flags.And(^uint32(f)); p.showFlags() }

func (p *Kprobe) showFlags() {
	if p.Mirror != nil {
		p.Mirror.SetFlags(p.State())
	}
}

// begin sets the state with which a registration starts.
func (p *Kprobe) begin() {
	p.flags.Store(uint32(p.Flags & FlagDisabled))
	p.missed.Store(0)
	if p.Mirror != nil {
		p.Mirror.Missed(0)
	}
	p.showFlags()
}

// showOpcode reports kprobe.opcode, which arch_copy_kprobe and copy_kprobe set.
func (p *Kprobe) showOpcode(pt *point) {
	if code := pt.code.Load(); code != nil && p.Mirror != nil {
		p.Mirror.SetOpcode(code.orig[0])
	}
}

// miss counts a hit that is not handled.
func (p *Kprobe) miss() {
	p.missed.Add(1)
	if p.Mirror != nil {
		p.Mirror.Missed(1)
	}
}

// RetHandler is kretprobe.handler and kretprobe.entry_handler. An entry handler's
// result other than 0 prevents the hook of the return; a return handler's result is
// ignored.
type RetHandler func(ri *Instance, h *Hit) int

// Retprobe is struct kretprobe. The caller sets the exported fields before
// RegisterRetprobe, which overwrites Kprobe's handlers.
type Retprobe struct {
	Kprobe       Kprobe
	Handler      RetHandler
	EntryHandler RetHandler
	MaxActive    int    // number of calls hooked at a time; if <= 0, RegisterRetprobe sets it to max(10, 2*CPUs), without CONFIG_PREEMPTION up to 5.10 to the number of CPUs
	DataSize     uint64 // bytes of Instance.Data; at most 4096
	Struct       uint64 // address of the struct of the guest code that registers it; 0 for a Go caller

	missed atomic.Uint64
	pool   *instancePool // of the present registration
}

// resetMissed and miss do the same as Kprobe's.
func (rp *Retprobe) resetMissed() {
	rp.missed.Store(0)
	if m := rp.Kprobe.Mirror; m != nil {
		m.RetMissed(0)
	}
}

func (rp *Retprobe) miss() {
	rp.missed.Add(1)
	if m := rp.Kprobe.Mirror; m != nil {
		m.RetMissed(1)
	}
}

// Missed is kretprobe.nmissed: the number of entries without a free instance.
func (rp *Retprobe) Missed() uint64 { return rp.missed.Load() }

// Instance is struct kretprobe_instance: one hooked call.
type Instance struct {
	Retprobe *Retprobe // nil for an instance of a Rethook
	Index    int       // position among the MaxActive instances
	RetAddr  uint64    // the original word in the return slot; 0 in the entry handler
	Task     uint64    // task_struct of the calling task
	Data     []byte    // DataSize bytes, kept from entry to return

	// The part that realReturn looks at. The vCPU that runs the task changes it, and another
	// vCPU may unwind the task's stack at that time: see taskHooks.
	frame atomic.Uint64 // address of the return slot
	real  atomic.Uint64 // RetAddr
	next  atomic.Pointer[Instance]

	pool *instancePool
	part *poolPart // of the pool, which it returns to
}

// hooked notes the call that ri is for. It stores what differs only: a function is often called
// again by the same caller, and an atomic store costs more than a load.
func (ri *Instance) hooked(frame, real uint64) {
	ri.RetAddr = real
	if ri.frame.Load() != frame {
		ri.frame.Store(frame)
	}
	if ri.real.Load() != real {
		ri.real.Store(real)
	}
}

// link makes next the instance after ri.
func (ri *Instance) link(next *Instance) {
	if ri.next.Load() != next {
		ri.next.Store(next)
	}
}
