package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// tracepointKey is the offset of the static key in struct tracepoint, in bytes.
const tracepointKey = 8

// Tracepoint returns the address of a tracepoint that has call sites in the core
// kernel.
func (m *Machine) Tracepoint(name string) (addr uint64, ok bool) {
	addr = m.symbol("__tracepoint_" + name)
	return addr, slices.ContainsFunc(m.img.Jumps, func(j image.Jump) bool { return j.Key == addr+tracepointKey })
}

// SetTracepoint makes the sites of the tracepoint at addr call the machine
// (Handlers.Tracepoint), or turns them back into nops. It fails with EINVAL when
// there is no such tracepoint.
func (m *Machine) SetTracepoint(addr uint64, on bool) error {
	return m.useTracepoint(addr, tracepointEvent, on)
}

// SetProbestub makes the sites call __probestub_NAME, an empty function that exists
// to be probed. It fails with EINVAL when the guest's tracepoints have no stubs.
func (m *Machine) SetProbestub(addr uint64, on bool) error {
	if !m.stubs {
		return fmt.Errorf("the tracepoint at %#x has no stub: %w", addr, syscall.EINVAL)
	}
	return m.useTracepoint(addr, tracepointStub, on)
}

// The listeners of a tracepoint: TP_EVENT and TP_STUB of the guest's tracepoint.h.
const (
	tracepointEvent = 1 << iota
	tracepointStub
)

// Offsets in struct tracepoint of a guest with stubs, in bytes.
const (
	tracepointFunc  = 24 // the function that a site calls; the three possible ones follow
	tracepointCalls = 32 // for the event, the stub, and both
	tracepointUsers = 56
)

// useTracepoint does what tracepoint_add_func and tracepoint_remove_func do.
func (m *Machine) useTracepoint(addr uint64, who uint32, on bool) error {
	key := addr + tracepointKey
	m.keyMu.Lock()
	defer m.keyMu.Unlock()
	if !m.stubs {
		return m.setStaticKey(key, on)
	}
	was, err := m.mem.Load32(addr + tracepointUsers)
	if err != nil {
		return err
	}
	users := was &^ who
	if on {
		users |= who
	}
	if users == 0 { // a task that is already past the site calls the old function
		if err := m.setStaticKey(key, false); err != nil {
			return err
		}
		return m.mem.Store32(addr+tracepointUsers, 0)
	}
	call, err := m.mem.ReadU64(addr + tracepointCalls + 8*uint64(users-1))
	if err != nil {
		return err
	}
	if err := m.mem.Store32(addr+tracepointUsers, users); err != nil {
		return err
	}
	if err := m.mem.WriteU64(addr+tracepointFunc, call); err != nil {
		return err
	}
	if was != 0 {
		return nil
	}
	return m.setStaticKey(key, true)
}

// setStaticKey does what static_key_enable and static_key_disable do: it patches all
// branches of the key at once and sets its count. The caller holds keyMu.
func (m *Machine) setStaticKey(key uint64, on bool) error {
	var patches []abi.Patch
	for _, j := range m.img.Jumps {
		if j.Key == key {
			patches = append(patches, abi.Patch{Addr: j.Code, Bytes: branch(j, on != j.Branch)})
		}
	}
	if patches == nil {
		return fmt.Errorf("no branch has the static key %#x: %w", key, syscall.EINVAL)
	}
	var count [4]byte
	if on {
		count[0] = 1
	}
	if err := m.mem.WriteAt(key, count[:]); err != nil {
		return err
	}
	return m.Poke(patches...)
}

// branch returns the bytes for the site of a jump label.
func branch(j image.Jump, jump bool) []byte {
	switch {
	case j.Len == 2 && jump:
		return []byte{0xeb, byte(j.Target - (j.Code + 2))}
	case j.Len == 2:
		return []byte{0x66, 0x90}
	case jump:
		return binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(j.Target-(j.Code+5)))
	}
	return []byte(abi.Nop5)
}
