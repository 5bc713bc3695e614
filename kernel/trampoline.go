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
	t := template{name: "ftrace_caller", call: "ftrace_call", op: "ftrace_op"}
	if regs {
		t = template{name: "ftrace_regs_caller", call: "ftrace_regs_call"}
	}
	return m.copyCaller(t, 0, m.symbol(function), 0)
}

// opsTrampoline is the same for a module's ftrace_ops: see ftrace.Callers.
func (m *Machine) opsTrampoline(over uint64, function string, target, op uint64, regs bool) (uint64, error) {
	t := template{name: "ftrace_caller", call: "ftrace_call", op: "ftrace_op"}
	if regs {
		t = template{name: "ftrace_ops_regs_caller", call: "ftrace_ops_regs_call", op: "ftrace_ops_regs_op"}
	}
	if function != "" {
		target = m.symbol(function)
	}
	return m.copyCaller(t, over, target, op)
}

// template are the symbols of a function that is copied: its call, and the instruction
// that loads the address of the ftrace_ops; "" if there is none.
type template struct{ name, call, op string }

// copyCaller copies a template to memory of its own, or over another copy of it. The
// address of the ftrace_ops is put behind the copy.
func (m *Machine) copyCaller(t template, over, target, op uint64) (uint64, error) {
	const callLen, loadLen, ret = 5, 7, 0xc3
	from, end, call, load := m.symbol(t.name), m.symbol(t.name+"_end"), m.symbol(t.call), m.symbol(t.op)
	if from == 0 || target == 0 || call < from || call+callLen > end || t.op != "" && (load < from || load+loadLen > end) {
		return 0, fmt.Errorf("the guest lacks the symbols for a copy of %s: %w", t.name, syscall.ENOENT)
	}
	code := make([]byte, end-from, end-from+1+8)
	if err := m.Read(from, code); err != nil {
		return 0, err
	}
	code = append(code, ret)
	n := uint64(len(code))
	if t.op != "" {
		binary.LittleEndian.PutUint32(code[load-from+3:], uint32(n-(load-from+loadLen)))
		code = binary.LittleEndian.AppendUint64(code, op)
	}
	addr := over
	if addr == 0 {
		var err error
		if addr, err = m.AllocSlot(len(code)); err != nil {
			return 0, err
		}
		m.addCopy(textCopy{abi.Range{Start: addr, End: addr + n}, from})
	}
	off := call - from
	code[off] = 0xe8
	binary.LittleEndian.PutUint32(code[off+1:], uint32(target-(addr+off+callLen)))
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
