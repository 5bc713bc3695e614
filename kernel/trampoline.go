package kernel

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/trampoline"
)

// trampoline does what create_trampoline does: it copies ftrace_caller, or
// ftrace_regs_caller if regs is set, and directs the call in it to another function. The
// copy is never freed, because a task may stay in it for long. It fails with ENOENT when
// the guest lacks a symbol that it needs. Sites' lock serializes the calls.
func (m *Machine) trampoline(function string, regs bool) (uint64, error) {
	c := trampoline.Ftrace
	if regs {
		c = trampoline.FtraceRegs
	}
	return m.copyCaller(c, 0, m.symbol(function), 0)
}

// opsTrampoline is the same for a module's ftrace_ops: see ftrace.Callers.
func (m *Machine) opsTrampoline(over uint64, function string, target, op uint64, regs bool) (uint64, error) {
	c := trampoline.Ftrace
	if regs {
		c = trampoline.FtraceOpsRegs
	}
	if function != "" {
		target = m.symbol(function)
	}
	return m.copyCaller(c, over, target, op)
}

// copyCaller copies a function of the guest to memory of its own, or over another copy of it.
func (m *Machine) copyCaller(c trampoline.Caller, over, target, op uint64) (uint64, error) {
	t, err := c.Find(m.symbol)
	if err != nil {
		return 0, err
	}
	if target == 0 {
		return 0, fmt.Errorf("the guest lacks a function for a copy of %s: %w", c.Name, syscall.ENOENT)
	}
	text := make([]byte, t.End-t.Start)
	if err := m.Read(t.Start, text); err != nil {
		return 0, err
	}
	addr := over
	if over == 0 {
		if addr, err = m.AllocSlot(t.Extent()); err != nil {
			return 0, err
		}
	}
	code, err := t.Copy(text, addr, target, op)
	if err != nil {
		if over == 0 {
			m.FreeSlot(addr)
		}
		return 0, err
	}
	if over == 0 {
		m.addCopy(textCopy{abi.Range{Start: addr, End: addr + uint64(t.Size())}, t.Start})
	}
	return addr, m.Poke(abi.Patch{Addr: addr, Bytes: code})
}

func (m *Machine) addCopy(c textCopy) {
	var copies []textCopy
	if had := m.copies.Load(); had != nil {
		copies = slices.Clone(*had)
	}
	copies = append(copies, c)
	m.copies.Store(&copies)
}

// textCopy is a trampoline with the address that it was copied from.
type textCopy struct {
	abi.Range
	from uint64
}

// trampolines returns their number.
func (m *Machine) trampolines() int {
	if copies := m.copies.Load(); copies != nil {
		return len(*copies)
	}
	return 0
}

// original returns the address in kernel text that the byte at addr was copied from,
// when addr is in a trampoline; the unwinder knows the original's stack frame. It
// returns other addresses unchanged.
func (m *Machine) original(addr uint64) uint64 {
	if addr < abi.SlotsBase {
		return addr
	}
	if copies := m.copies.Load(); copies != nil {
		for _, c := range *copies {
			if c.Contains(addr) {
				return c.from + addr - c.Start
			}
		}
	}
	return addr
}
