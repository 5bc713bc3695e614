// Package cpu executes x86-64 machine code: integer instructions in 64-bit
// kernel mode, always at privilege level 0.
//
// Code is decoded once, into blocks: straight runs of ops from an address to
// the next jump that is always taken, within one page. A Cache holds the blocks
// for all vCPUs of a machine and forgets those whose bytes are poked. Each op
// names the Go function that executes it, its handler. What kernels are made of
// has handlers that give up (by returning nil) on anything unusual; exec executes
// every instruction with all its faults. Blocks are linked to each other as their
// branches are taken, and those that are hot are translated to code of the host
// where that is possible (Engine).
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
package cpu

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Table is where a descriptor table lies: GDTR or IDTR.
type Table struct {
	Base  uint64
	Limit uint64
}

// State is what a processor is made of: flat, without pointers.
type State struct {
	R      [16]uint64 // rax rcx rdx rbx rsp rbp rsi rdi r8..r15
	zero   uint64     // regZero
	FSBase uint64     // regFS
	GSBase uint64     // regGS

	RIP, RFlags             uint64
	KernelGSBase            uint64
	CR0, CR2, CR3, CR4, CR8 uint64
	DR                      [8]uint64
	IDT, GDT                Table
	Seg                     [6]uint16 // es cs ss ds fs gs
	TR, LDT                 uint16
	TSS                     uint64 // base of the task state segment
	EFER                    uint64
	Star, LStar, CStar      uint64
	SFMask, TSCAux          uint64
	SysenterMSR             [3]uint64
	PAT, MiscEnable         uint64
	SpecCtrl, APICBase      uint64
	TSC                     uint64 // grows by one with each instruction retired
	Seed                    uint64 // of rdrand
	Shadow                  bool   // the next instruction comes before any interrupt (sti, mov ss)
}

// Reason is why Run ended.
type Reason uint8

// Reasons.
const (
	Budget    Reason = iota // the budget is used up
	Halt                    // hlt; RIP is after it
	Pause                   // pause: a loop that waits for another vCPU; RIP is after it
	Hypercall               // vmcall; RIP is after it
	Trap                    // Vector, Code and Addr say which
	Kick                    // Kick was called
	IRQWindow               // WantIRQ, and interrupts are enabled
)

// Exit is why and how Run ended.
type Exit struct {
	Reason  Reason
	Vector  uint8
	HasCode bool
	Code    uint64 // error code
	Addr    uint64 // CR2 of a page fault; for #GP the address of the operand that is not canonical, 0 for other reasons
}

const (
	tlbBits  = 8
	tlbMask  = 1<<tlbBits - 1
	jcBits   = 11
	jcMask   = 1<<jcBits - 1
	slotBits = 8
	slotMask = 1<<slotBits - 1
	njcBits  = 10
	njcMask  = 1<<njcBits - 1
)

// tlbEntry: virtual page tag (1: none), and what to add to an address in it to
// get the host's address.
type tlbEntry struct{ tag, off uint64 }

// tlb is one of a vCPU's two TLBs, for reads and for writes. They lie together between
// guards, since the guest's addresses are what they are indexed with.
type tlb [1 << tlbBits]tlbEntry

// slot is the TLB entry that an access used last. limit is how far behind tag the
// access may begin, so that it does not leave the page; 0: the slot is empty.
type slot struct{ tag, off, limit, _ uint64 }

// slotLimit is the limit for accesses of up to 8 bytes.
const slotLimit = 4096 - 7

// njcEntry remembers where the code at rip is translated to.
type njcEntry struct {
	rip  uint64
	code uintptr
}

// jcEntry remembers where the code at rip is decoded.
type jcEntry struct {
	rip  uint64
	head *op
}

// CPU is one vCPU. Only Kick and WantIRQ may be called while it is in Run.
type CPU struct {
	State

	// Lazy flags, valid while ccOp is not ccNone.
	ccRes, ccSrc uint64
	ccOp         uint8

	br     uint8 // why an op returned nil
	left   int64 // instructions left in this chunk of the budget
	more   int64 // and after it
	total  int64 // the budget
	single bool  // stepping
	ram    unsafe.Pointer

	rtlb, wtlb *tlb
	jc         [1 << jcBits]jcEntry

	// Of translated code: the status flags as lahf and seto give them, words to
	// put something aside, for each access the TLB entry that it used last, and
	// where indirect branches lead.
	nf             uint16
	tmp, tmp2      uint64
	rslots, wslots [1 << slotBits]slot
	njc            [1 << njcBits]njcEntry
	njcGen         uint64        // of the cache, when njc was cleared
	running        atomic.Bool   // in Run
	acked          atomic.Uint64 // translations.full, when it was last seen
	after          *op           // where the interpreter goes on

	exit    Exit
	hook    func(Reason) bool
	asked   bool // the hook has left the int3 of exit alone
	kick    atomic.Uint32
	wantIRQ atomic.Bool
	mem     *mem.Memory
	cache   *Cache
	epoch   uint64
	id      int
	scratch [16]byte // an access that crosses pages, put together
	flt     fault    // the fault that unwinds the instruction
}

// New returns vCPU id of the machine with memory m, in the state in which a
// 64-bit kernel starts: interrupts off, everything else zero. It fails if the host has
// no memory for its TLBs.
func New(m *mem.Memory, id int, cache *Cache) (*CPU, error) {
	b, err := m.Guarded(int(unsafe.Sizeof([2]tlb{})))
	if err != nil {
		return nil, fmt.Errorf("TLBs of a vCPU: %w", err)
	}
	tlbs := (*[2]tlb)(unsafe.Pointer(unsafe.SliceData(b)))
	c := &CPU{mem: m, id: id, cache: cache, ram: m.Base(), rtlb: &tlbs[0], wtlb: &tlbs[1]}
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
	c.FlushTLB()
	cache.join(c)
	for i := range c.jc {
		c.jc[i].rip = noRIP
	}
	c.clearNJC()
	return c, nil
}

// noRIP is the address of no instruction.
const noRIP = 1 << 62

func (c *CPU) clearNJC() {
	for i := range c.njc {
		c.njc[i].rip = noRIP
	}
}

// ID is the vCPU's number.
func (c *CPU) ID() int { return c.id }

// SetHook gives Run what looks at an int3 (Trap) and a vmcall (Hypercall) before
// it ends there, on the vCPU, with the registers and flags as they would be
// then; at a vmcall the flags of arithmetic may be old ones, and RIP must stay.
// True: it is dealt with, and Run goes on at RIP as if it had been entered
// again. The hook must not wait, nor change mappings or text. A vmcall that it
// leaves alone it may see twice. To run other code first, it may Suspend.
func (c *CPU) SetHook(f func(Reason) bool) { c.hook = f }

// Kick has Run end soon: within some thousand instructions, also inside a REP.
// A vCPU that is not in Run returns from its next Run at once. Any goroutine may
// call it.
func (c *CPU) Kick() { c.kick.Store(1) }

// WantIRQ asks that Run end with IRQWindow as soon as interrupts are enabled.
func (c *CPU) WantIRQ(on bool) { c.wantIRQ.Store(on) }

// Interruptible says whether an interrupt may be delivered now: IF is set, and
// no sti or mov ss has just been executed.
func (c *CPU) Interruptible() bool { return c.RFlags&abi.FlagIF != 0 && !c.Shadow }

// FlushTLB forgets all translations.
func (c *CPU) FlushTLB() {
	for i := range c.rtlb {
		c.rtlb[i].tag, c.wtlb[i].tag = 1, 1
	}
	c.flushSlots()
}

func (c *CPU) flushSlots() {
	for i := range c.rslots {
		c.rslots[i].limit, c.wslots[i].limit = 0, 0
	}
}

// FlushPage forgets the translation of the page of va.
func (c *CPU) FlushPage(va uint64) {
	c.rtlb[va>>12&tlbMask].tag = 1
	c.wtlb[va>>12&tlbMask].tag = 1
	c.flushSlots()
}

// Regs copies the registers to r; OrigAX stays as it is.
func (c *CPU) Regs(r *abi.Regs) {
	x := &c.R
	r.AX, r.CX, r.DX, r.BX, r.SP, r.BP, r.SI, r.DI = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
	r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15 = x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15]
	r.IP, r.Flags, r.CS, r.SS = c.RIP, c.RFlags, abi.KernelCS, abi.KernelSS
}

// SetRegs takes the registers from r, all but CS and SS.
func (c *CPU) SetRegs(r *abi.Regs) {
	x := &c.R // word by word: a wider copy would wait for the narrow stores
	x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7] = r.AX, r.CX, r.DX, r.BX, r.SP, r.BP, r.SI, r.DI
	x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15] = r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15
	c.GoOn(r.IP, r.Flags)
}

// GoOn sets where to go on and with which flags, as SetRegs does.
func (c *CPU) GoOn(ip, flags uint64) {
	c.RIP = ip
	c.RFlags = flags&flagMask | flagFixed
}

// x is the register file with regZero, regFS and regGS.
func (c *CPU) x(i uint8) uint64 { return (*[32]uint64)(unsafe.Pointer(c))[i&31] }

// Budgets are signed inside.
const maxBudget = math.MaxInt64 / 2
