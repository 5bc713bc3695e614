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

// setStaticKey does what static_key_enable and static_key_disable do: it sets the key's
// count and patches all its branches at once. The caller holds keyMu.
func (m *Machine) setStaticKey(key uint64, on bool) error {
	patches := m.branches(key, on)
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

// branches returns what makes all branches of a static key, in the kernel and in
// modules, those of a key that is true or false.
func (m *Machine) branches(key uint64, on bool) (patches []abi.Patch) {
	for _, j := range m.tab.Jumps(key) {
		patches = append(patches, abi.Patch{Addr: j.Code, Bytes: branch(j, on != j.Branch)})
	}
	return patches
}

// UpdateBranches is jump_label_update: it patches all branches of a static key, whose
// count the guest's code sets.
func (m *Machine) UpdateBranches(key uint64, on bool) error {
	m.keyMu.Lock()
	defer m.keyMu.Unlock()
	return m.Poke(m.branches(key, on)...)
}

// UpdateStaticCall is __static_call_update: it directs the trampoline and all calls of a
// static call to the function that the guest's code has written into its key. It fails
// with EFAULT if the key cannot be read or the trampoline is not text.
func (m *Machine) UpdateStaticCall(key, trampoline uint64) error {
	m.keyMu.Lock()
	defer m.keyMu.Unlock()
	to, err := m.mem.ReadU64(key)
	if err != nil {
		return err
	}
	var patches []abi.Patch
	if trampoline != 0 {
		patches = append(patches, abi.Patch{Addr: trampoline, Bytes: m.staticCall(image.StaticCall{Addr: trampoline, Tail: true}, to)})
	}
	for _, c := range m.tab.StaticCalls(key) {
		patches = append(patches, abi.Patch{Addr: c.Addr, Bytes: m.staticCall(c, to)})
	}
	return m.Poke(patches...)
}

// staticCall returns the bytes of a static call's site for the function to, which may be
// 0: then nothing is called.
func (m *Machine) staticCall(c image.StaticCall, to uint64) []byte {
	op := byte(0xe8)
	switch {
	case c.Tail && to == 0:
		return []byte{0xc3, 0xcc, 0xcc, 0xcc, 0xcc}
	case c.Tail:
		op = 0xe9
	case to == 0:
		return []byte(abi.Nop5)
	case to == m.symbol("__static_call_return0"):
		return []byte{0x2e, 0x2e, 0x2e, 0x31, 0xc0} // xor %eax,%eax
	}
	return binary.LittleEndian.AppendUint32([]byte{op}, uint32(to-(c.Addr+5)))
}

// AddSites makes a module's branches and static calls what their keys say now, as
// jump_label_add_module and static_call_add_module do. It is called once Tables has the
// sites. It fails with EFAULT if a key is not in memory.
func (m *Machine) AddSites(s *image.Sites) error {
	m.keyMu.Lock()
	defer m.keyMu.Unlock()
	var patches []abi.Patch
	for _, j := range s.Jumps {
		count, err := m.mem.Load32(j.Key)
		if err != nil {
			return err
		}
		patches = append(patches, abi.Patch{Addr: j.Code, Bytes: branch(j, (int32(count) > 0) != j.Branch)})
	}
	for _, c := range s.StaticCalls {
		to, err := m.mem.ReadU64(c.Key)
		if err != nil {
			return err
		}
		patches = append(patches, abi.Patch{Addr: c.Addr, Bytes: m.staticCall(c, to)})
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
