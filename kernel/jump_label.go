package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// tracepointKey is the offset of the static key in struct tracepoint, bytes.
const tracepointKey = 8

// Tracepoint gives the address of a tracepoint of the core kernel that is passed
// somewhere.
func (m *Machine) Tracepoint(name string) (addr uint64, ok bool) {
	addr = m.symbol("__tracepoint_" + name)
	return addr, slices.ContainsFunc(m.img.Jumps, func(j image.Jump) bool { return j.Key == addr+tracepointKey })
}

// SetTracepoint makes the sites of the tracepoint at addr call the machine
// (Handlers.Tracepoint), or makes them nops again. EINVAL: no such tracepoint.
func (m *Machine) SetTracepoint(addr uint64, on bool) error {
	return m.setStaticKey(addr+tracepointKey, on)
}

// setStaticKey is static_key_enable and static_key_disable: all branches of the
// key are patched at once, and its count says so.
func (m *Machine) setStaticKey(key uint64, on bool) error {
	m.keyMu.Lock()
	defer m.keyMu.Unlock()
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

// branch is what the site of a jump label holds.
func branch(j image.Jump, jump bool) []byte {
	switch {
	case j.Len == 2 && jump:
		return []byte{0xeb, byte(j.Target - (j.Code + 2))}
	case j.Len == 2:
		return []byte{0x66, 0x90}
	case jump:
		return binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(j.Target-(j.Code+5)))
	}
	return []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}
}
