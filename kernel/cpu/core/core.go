// Package core is what a virtual CPU is made of for whoever executes its code: the
// registers, the TLB, the budget, and the exits of Run. The interpreter and translated
// code work on one CPU of this package, each where the other has left it; translated code
// knows its members by their offsets.
//
// It executes nothing.
package core

import (
	"sync/atomic"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Table is where a descriptor table lies: GDTR or IDTR.
type Table struct {
	Base  uint64
	Limit uint64
}

// State is what a processor is made of: flat, without pointers. It begins with what
// decode.Inst numbers as registers.
type State struct {
	R      [16]uint64 // rax rcx rdx rbx rsp rbp rsi rdi r8..r15
	zero   uint64     // decode.RegZero
	FSBase uint64     // decode.RegFS
	GSBase uint64     // decode.RegGS

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

// Place is what operand i of an address holds: a register, decode.RegZero, RegFS or RegGS.
func (s *State) Place(i uint8) uint64 { return (*[32]uint64)(unsafe.Pointer(s))[i&31] }

// Interruptible says whether an interrupt may be delivered now: IF is set, and
// no sti or mov ss has just been executed.
func (s *State) Interruptible() bool { return s.RFlags&abi.FlagIF != 0 && !s.Shadow }

// GoOn sets where to go on and with which flags.
func (s *State) GoOn(ip, flags uint64) {
	s.RIP = ip
	s.RFlags = flags&FlagMask | FlagFixed
}

// Flags that package abi has no name for, and sets of flags.
const (
	FlagIOPL = 3 << 12
	FlagNT   = 1 << 14
	FlagRF   = 1 << 16
	FlagAC   = 1 << 18
	FlagID   = 1 << 21

	FlagFixed  = 1 << 1
	FlagStatus = abi.FlagCF | abi.FlagPF | abi.FlagAF | abi.FlagZF | abi.FlagSF | abi.FlagOF
	// FlagMask is what popf and iret can write at privilege level 0.
	FlagMask = FlagStatus | abi.FlagTF | abi.FlagIF | abi.FlagDF | FlagIOPL | FlagNT | FlagAC | FlagID
)

// Bits of a page fault's error code.
const (
	FaultPresent = 1
	FaultWrite   = 2
	FaultFetch   = 16
)

// Reason is why Run ended.
type Reason uint8

// Reasons.
const (
	Budget     Reason = iota // the budget is used up
	Halt                     // hlt; RIP is after it
	Pause                    // pause: a loop that waits for another vCPU; RIP is after it
	Hypercall                // vmcall; RIP is after it
	Trap                     // Vector, Code and Addr say which
	Kick                     // Kick was called
	IRQWindow                // WantIRQ, and interrupts are enabled
	Breakpoint               // RIP is at a breakpoint of a debugger, whose instruction has not been executed
	Watchpoint               // the instruction before RIP has accessed the watched memory at Addr; Code is the number of the watchpoint
)

// Exit is why and how Run ended.
type Exit struct {
	Reason  Reason
	Vector  uint8
	HasCode bool
	Code    uint64 // error code
	Addr    uint64 // CR2 of a page fault; for #GP the address of the operand that is not canonical, 0 for other reasons
}

// CPU is what both engines work on.
type CPU struct {
	State
	Left    int64 // instructions left in this chunk of the budget
	TLB     TLB
	Aside   Aside       // of translated code
	Running atomic.Bool // in Run
}

const (
	targetBits = 9
	// TargetMask is how many pairs of targets there are, less one.
	TargetMask = 1<<targetBits - 1
	// TargetShift is by how much the hash of Pair shifts.
	TargetShift = targetBits
)

// NoRIP is the address that an empty entry i has, in Targets and in tables with its hash: one
// that belongs to another entry. So whatever address guest code jumps to, it is not found in
// an empty entry.
func NoRIP(i int) uint64 {
	if i == 0 {
		return 1
	}
	return 0
}

// Aside is what translated code keeps beside the State.
type Aside struct {
	Flags   uint16    // the status flags as lahf and seto give them: in the upper byte, and OF in bit 0
	Tmp     [2]uint64 // to put something aside
	Resume  uintptr   // where code that was left at a vmcall goes on
	Targets [1 << targetBits][2]Target
	Gen     uint64        // of the translated code, when Targets was cleared
	Acked   atomic.Uint64 // its phase, when that was last seen
}

// Target remembers where the code at RIP is translated to.
type Target struct {
	RIP  uint64
	Code uintptr
}

// Pair is where the target at rip is kept: it is one of the two, or none.
func (a *Aside) Pair(rip uint64) *[2]Target {
	return &a.Targets[(rip^rip>>TargetShift)&TargetMask]
}

// Target returns the code for rip, or 0 if there is none.
func (a *Aside) Target(rip uint64) uintptr {
	p := a.Pair(rip)
	for i := range p {
		if p[i].RIP == rip {
			return p[i].Code
		}
	}
	return 0
}

// SetTarget keeps the code for rip, instead of the one of the two that was there first.
func (a *Aside) SetTarget(rip uint64, code uintptr) {
	p := a.Pair(rip)
	if p[0].RIP != rip {
		p[0], p[1] = Target{RIP: rip}, p[0]
	}
	p[0].Code = code
}

// ForgetTargets empties Targets.
func (a *Aside) ForgetTargets() {
	for i := range a.Targets {
		empty := Target{RIP: NoRIP(i)}
		a.Targets[i] = [2]Target{empty, empty}
	}
}
