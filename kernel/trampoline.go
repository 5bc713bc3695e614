package kernel

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// trampoline is create_trampoline: a copy of ftrace_caller whose call, at
// ftrace_call, is of another function. It is never given back: a task may be in
// it for long. ENOENT: the guest has not got what it takes.
func (m *Machine) trampoline(function string) (uint64, error) {
	const callLen, ret = 5, 0xc3
	from, end := m.symbol("ftrace_caller"), m.symbol("ftrace_caller_end")
	target, call := m.symbol(function), m.symbol("ftrace_call")
	if from == 0 || target == 0 || call < from || call+callLen > end {
		return 0, fmt.Errorf("a trampoline for %s: %w", function, syscall.ENOENT)
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
	at := call - from
	code[at] = 0xe8
	binary.LittleEndian.PutUint32(code[at+1:], uint32(target-(addr+at+callLen)))
	return addr, m.Poke(abi.Patch{Addr: addr, Bytes: code})
}
