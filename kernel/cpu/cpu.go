// Package cpu is a virtual CPU: Run executes the guest's code, x86-64 machine code in
// 64-bit kernel mode, always at privilege level 0, and says why it ended and how many
// instructions were retired. It never waits; what is not an instruction's own work is an
// Exit.
//
// It has three rooms below it: decode makes instructions from bytes, interp interprets
// them, and native translates blocks that are entered often to code of the host. Neither
// engine knows the other. Both work on one core.CPU, and this package has interp enter what
// native has made (translator). Which of them there are, an Engine says; Run, its exits and
// its counts are the same with each.
package cpu

import (
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/interp"
	"github.com/kprobefs/kprobefs/kernel/cpu/native"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Table is where a descriptor table lies.
type Table = core.Table

// State is what a processor is made of.
type State = core.State

// Reason is why Run ended.
type Reason = core.Reason

// Exit is why and how Run ended.
type Exit = core.Exit

// Watch is memory whose accesses end Run.
type Watch = interp.Watch

// Suspended is what Suspend has set aside.
type Suspended = interp.Suspended

// Reasons.
const (
	Budget    = core.Budget
	Halt      = core.Halt
	Pause     = core.Pause
	Hypercall = core.Hypercall
	Trap      = core.Trap
	Kick      = core.Kick
	IRQWindow = core.IRQWindow

	Breakpoint = core.Breakpoint
	Watchpoint = core.Watchpoint
)

// CPU is one vCPU. Only Kick and WantIRQ may be called while it is in Run.
type CPU struct {
	interp.CPU
	mem   *mem.Memory
	cache *Cache
}

// New returns vCPU id of the machine with memory m, in the state in which a
// 64-bit kernel starts: interrupts off, everything else zero. It fails if the host has
// no memory for its TLBs.
func New(m *mem.Memory, id int, cache *Cache) (*CPU, error) {
	c := &CPU{mem: m, cache: cache}
	if err := c.Init(m, id, cache.blocks); err != nil {
		return nil, err
	}
	if cache.hot != nil {
		cache.hot.code.Join(&c.CPU.CPU)
	}
	return c, nil
}

// Call is a short Run inside the hook, of a function that is translated: it executes from
// RIP up to the hlt at end, and reports whether it has come there; RIP is then behind it.
// If not, Run goes on. n is how many instructions were retired, as for Run; they do not
// count for the Run that has called the hook.
func (c *CPU) Call(end uint64) (done bool, n uint64) {
	hot := c.cache.hot
	if hot == nil {
		return false, 0
	}
	v := &c.CPU.CPU
	at := hot.code.Known(v, c.RIP)
	if at == 0 || !c.Prepare() {
		return false, 0
	}
	left := c.Left
	for at != 0 {
		c.LendFlags()
		exit := hot.code.Enter(v, at)
		c.TakeFlags()
		t := hot.translated(exit)
		o := t.block.Op(exit.Inst())
		at = 0
		switch exit.Kind() {
		case native.Slow:
			c.Left += t.n - o.Retired() + 1
			c.RIP = o.RIP()
			done = o.Code == decode.RET && o.Imm == 0 && c.returnsTo(end)
		case native.NoLeft:
			c.RIP = t.block.RIP()
		case native.Hypercall, native.Breakpoint:
			c.Left++
			c.RIP = o.RIP()
		default:
			c.RIP = o.Imm
			at = hot.code.Link(t.code, exit.Inst())
		}
	}
	n = uint64(left - c.Left)
	c.TSC += n
	return done, n
}

// returnsTo executes a ret and the hlt that it leads to, if that is at end. (The ret has left
// translated code, since there is none for a block that has only a hlt.)
func (c *CPU) returnsTo(end uint64) bool {
	const rsp, word, hltLen = 4, 8, 1
	p := c.Window(c.R[rsp], word)
	if p == nil || *(*uint64)(p) != end {
		return false
	}
	c.R[rsp] += word
	c.RIP = end + hltLen
	c.Left -= 2
	return true
}
