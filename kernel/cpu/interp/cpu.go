// Package interp interprets x86-64 machine code: integer instructions in 64-bit
// kernel mode, always at privilege level 0. It is the reference for what an instruction
// does, and the engine of hosts that cannot execute translated code.
//
// Code is decoded once, into blocks: straight runs of ops from an address to
// the next jump that is always taken, within one page. A Cache holds the blocks
// for all vCPUs of a machine and forgets those whose bytes are poked. Each op
// names the Go function that executes it, its handler. What kernels are made of
// has handlers that give up (by returning nil) on anything unusual; exec executes
// every instruction with all its faults. Blocks are linked to each other as their
// branches are taken. A Translator may execute those that are entered often in a way of
// its own; what that is, this package does not know.
//
// Run executes guest instructions and nothing else. It never waits; everything
// that is not an instruction's own work is an Exit, but for what the hook, which
// sees each int3 and vmcall first, has dealt with.
//
// Flags are lazy: an instruction leaves its result and a source operand, and
// whoever needs a flag works it out.
//
// Left out: x87 and vector instructions (#UD, as in a kernel outside
// kernel_fpu_begin), user mode, segmentation beyond the FS and GS bases, and
// I/O ports (they read all ones).
package interp

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

const (
	jcBits = 11
	jcMask = 1<<jcBits - 1
)

// jcEntry remembers where the code at rip is decoded.
type jcEntry struct {
	rip  uint64
	head *Op
}

// CPU is one vCPU. Only Kick and WantIRQ may be called while it is in Run.
type CPU struct {
	core.CPU

	// Lazy flags, valid while ccOp is not ccNone.
	ccRes, ccSrc uint64
	ccOp         uint8

	br     uint8 // why an op returned nil
	single bool  // stepping
	asked  bool  // the hook has left the int3 of exit alone
	more   int64 // instructions left in the budget after Left
	total  int64 // the budget

	hook    Hook
	exit    core.Exit
	kick    atomic.Uint32
	wantIRQ atomic.Bool
	epoch   uint64
	mem     *mem.Memory
	cache   *Cache
	ram     unsafe.Pointer
	id      int
	scratch [16]byte // an access that crosses pages, put together
	flt     fault    // the fault that unwinds the instruction

	watches   []Watch // nil if there are none
	touched   int     // which of them the instruction in hand has accessed, or -1
	touchedAt uint64  // and where

	jc [1 << jcBits]jcEntry
}

// Init makes c vCPU id of the machine with memory m, in the state in which a
// 64-bit kernel starts: interrupts off, everything else zero. It fails if the host has
// no memory for its TLBs.
func (c *CPU) Init(m *mem.Memory, id int, cache *Cache) error {
	c.mem, c.id, c.cache, c.ram = m, id, cache, m.Base()
	if err := c.TLB.Open(m); err != nil {
		return err
	}
	c.RFlags = flagFixed
	c.CR0 = 0x80050033
	c.CR4 = 0x20
	c.EFER = 0xd01
	c.PAT = 0x0007040600070406
	c.APICBase = 0xfee00900
	if id != 0 {
		c.APICBase = 0xfee00800
	}
	c.DR[6], c.DR[7] = 0xffff0ff0, 0x400
	c.TSCAux = uint64(id)
	c.Seg[segCS], c.Seg[segSS] = abi.KernelCS, abi.KernelSS
	c.Seed = uint64(id)*abi.Golden64 + 1
	for i := range c.jc {
		c.jc[i].rip = core.NoRIP(i)
	}
	return nil
}

// ID is the vCPU's number.
func (c *CPU) ID() int { return c.id }

// A Hook looks at an int3 (Trap) and a vmcall (Hypercall) before Run ends there, on the
// vCPU, with the registers and flags as they would be then; at a vmcall the flags of
// arithmetic may be old ones, and RIP must stay. True: it is dealt with, and Run goes on at
// RIP as if it had been entered again. The hook must not wait, nor change mappings or text.
// To run other code first, it may Suspend.
type Hook interface {
	OnHit(core.Reason) bool
}

// SetHook gives Run its Hook.
func (c *CPU) SetHook(h Hook) { c.hook = h }

// Hit asks the hook about an int3 or a vmcall, which RIP is behind.
func (c *CPU) Hit(r core.Reason) bool { return c.hook != nil && c.hook.OnHit(r) }

// Kick has Run end soon: within some thousand instructions, also inside a REP.
// A vCPU that is not in Run returns from its next Run at once. Any goroutine may
// call it.
func (c *CPU) Kick() { c.kick.Store(1) }

// WantIRQ asks that Run end with IRQWindow as soon as interrupts are enabled.
func (c *CPU) WantIRQ(on bool) { c.wantIRQ.Store(on) }

// FlushTLB forgets all translations of addresses.
func (c *CPU) FlushTLB() { c.TLB.Flush() }

// FlushPage forgets the translation of the page of va.
func (c *CPU) FlushPage(va uint64) { c.TLB.FlushPage(va) }

// Budgets are signed inside.
const maxBudget = math.MaxInt64 / 2
