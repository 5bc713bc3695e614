package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// trampoline does what create_trampoline does: it copies ftrace_caller, or
// ftrace_regs_caller if regs is set, and directs the call at ftrace_call to another
// function. The copy is never freed, because a task may stay in it for long. It fails
// with ENOENT when the guest lacks a symbol that it needs. Sites' lock serializes
// the calls.
func (m *Machine) trampoline(function string, regs bool) (uint64, error) {
	const callLen, ret = 5, 0xc3
	name, at := "ftrace_caller", "ftrace_call"
	if regs {
		name, at = "ftrace_regs_caller", "ftrace_regs_call"
	}
	from, end := m.symbol(name), m.symbol(name+"_end")
	target, call := m.symbol(function), m.symbol(at)
	if from == 0 || target == 0 || call < from || call+callLen > end {
		return 0, fmt.Errorf("the guest lacks the symbols for a trampoline to %s: %w", function, syscall.ENOENT)
	}
	code := make([]byte, end-from, end-from+1)
	if err := m.Read(from, code); err != nil {
		return 0, err
	}
	code = append(code, ret)
	addr, err := m.AllocSlot(len(code))
	if err != nil {
		return 0, err
	}
	off := call - from
	code[off] = 0xe8
	binary.LittleEndian.PutUint32(code[off+1:], uint32(target-(addr+off+callLen)))
	if err := m.Poke(abi.Patch{Addr: addr, Bytes: code}); err != nil {
		return 0, err
	}
	var copies []textCopy
	if had := m.copies.Load(); had != nil {
		copies = slices.Clone(*had)
	}
	copies = append(copies, textCopy{abi.Range{Start: addr, End: addr + uint64(len(code))}, from})
	m.copies.Store(&copies)
	return addr, nil
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
