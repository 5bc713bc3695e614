package kernel

import (
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// tracepointKey is the offset of the static key in struct tracepoint, in bytes.
const tracepointKey = 8

// Tracepoint returns the address of a tracepoint of the kernel.
func (m *Machine) Tracepoint(name string) (addr uint64, ok bool) {
	addr = m.symbol(tracepointPrefix + name)
	return addr, addr != 0
}

// tracepointPrefix begins the names of the guest's struct tracepoints.
const tracepointPrefix = "__tracepoint_"

// isTracepoint reports whether one of the kernel's own tracepoints is at addr. Some have no site.
func (m *Machine) isTracepoint(addr uint64) bool {
	s, off, ok := m.allSyms.Lookup(addr)
	return ok && off == 0 && strings.HasPrefix(s.Name, tracepointPrefix)
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

// SetRawTracepoint makes the sites call the machine with the tracepoint's arguments
// (Handlers.RawTracepoint), or ends that. It fails with EINVAL when there is no such tracepoint.
func (m *Machine) SetRawTracepoint(addr uint64, on bool) error {
	return m.useTracepoint(addr, tracepointRaw, on)
}

// The machine's listeners of a tracepoint: TP_EVENT, TP_STUB and TP_RAW of the guest's
// tracepoint.h.
const (
	tracepointEvent = 1 << iota
	tracepointStub
	tracepointRaw
)

// Offsets in the guest's struct tracepoint, and its length, in bytes.
const (
	tracepointCallKey  = 24
	tracepointTramp    = 32
	tracepointIterator = 40 // the function that calls all listeners
	tracepointCalls    = 72 // the functions for the event and for the stub
	tracepointProbes   = 88 // that for the probes of modules; 0 if there are none
	tracepointUsers    = 96
	tracepointLen      = 104
)

// useTracepoint adds or removes a listener of the machine.
func (m *Machine) useTracepoint(addr uint64, who uint32, on bool) error {
	return m.changeTracepoint(addr, func(tp []byte) {
		users := binary.LittleEndian.Uint32(tp[tracepointUsers:]) &^ who
		if on {
			users |= who
		}
		binary.LittleEndian.PutUint32(tp[tracepointUsers:], users)
	})
}

// UpdateTracepoint lets the sites of the kernel's tracepoint at addr call probes, the
// guest's function for the probes of modules; 0 says that there are none. It fails with
// EINVAL when there is no such tracepoint.
func (m *Machine) UpdateTracepoint(addr, probes uint64) error {
	return m.changeTracepoint(addr, func(tp []byte) {
		binary.LittleEndian.PutUint64(tp[tracepointProbes:], probes)
	})
}

// changeTracepoint lets change write to the listeners in a struct tracepoint, and then
// directs the sites as tracepoint_add_func and tracepoint_remove_func do: to the one
// listener or to the iterator. They call the iterator too once they are nops, for tasks
// that are already past the branch.
func (m *Machine) changeTracepoint(addr uint64, change func(tp []byte)) error {
	m.keyMu.Lock()
	defer m.keyMu.Unlock()
	b := make([]byte, tracepointLen)
	if err := m.mem.ReadAt(addr, b); err != nil {
		return err
	}
	change(b)
	users, probes := binary.LittleEndian.Uint32(b[tracepointUsers:]), binary.LittleEndian.Uint64(b[tracepointProbes:])
	on := users != 0 || probes != 0
	branches := m.branches(addr+tracepointKey, on)
	if branches == nil && !m.isTracepoint(addr) {
		return fmt.Errorf("no branch has the static key %#x: %w", addr+tracepointKey, syscall.EINVAL)
	}
	call := binary.LittleEndian.Uint64(b[tracepointIterator:])
	switch {
	case users == 0 && probes != 0:
		call = probes
	case probes == 0 && (users == tracepointEvent || users == tracepointStub):
		call = binary.LittleEndian.Uint64(b[tracepointCalls+8*(users-1):])
	}
	if err := m.mem.WriteAt(addr+tracepointProbes, b[tracepointProbes:tracepointUsers+4]); err != nil {
		return err
	}
	key := binary.LittleEndian.Uint64(b[tracepointCallKey:])
	if err := m.mem.WriteU64(key, call); err != nil {
		return err
	}
	var count uint32
	if on {
		count = 1
	}
	if err := m.mem.Store32(addr+tracepointKey, count); err != nil {
		return err
	}
	patches := m.staticCalls(key, binary.LittleEndian.Uint64(b[tracepointTramp:]), call)
	return m.Poke(append(patches, branches...)...)
}

// branches returns what makes all branches of a static key, in the kernel and in
// modules, of a key that is true or false.
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
	return m.Poke(m.staticCalls(key, trampoline, to)...)
}

// staticCalls returns what directs a static call to the function to: its trampoline, if
// that is not 0, and all its calls.
func (m *Machine) staticCalls(key, trampoline, to uint64) (patches []abi.Patch) {
	if trampoline != 0 {
		patches = append(patches, abi.Patch{Addr: trampoline, Bytes: m.staticCall(image.StaticCall{Addr: trampoline, Tail: true}, to)})
	}
	for _, c := range m.tab.StaticCalls(key) {
		patches = append(patches, abi.Patch{Addr: c.Addr, Bytes: m.staticCall(c, to)})
	}
	return patches
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
