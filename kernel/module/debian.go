package module

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Sections of a module that was built with a distribution's headers.
const (
	descSection   = ".gnu.linkonce.this_module"
	percpuSection = ".data..percpu"
)

// Struct says how the guest's struct module is laid out, which its own code fills in. Sizes
// and offsets are in bytes.
type Struct struct {
	Size int // of struct module
	Refs int // atomic_t: 1, and one for each reference, the loader's among them; 0 while it is unloaded
	// Pieces says that the module's memory is several pieces (mem) instead of two
	// (core_layout and init_layout).
	Pieces bool
}

// Offsets in struct module that are the same in all.
const (
	modState = 0 // enum module_state
	modList  = 8 // struct list_head
)

// states are the values of enum module_state.
var states = map[State]uint32{Live: 0, Coming: 1, Going: 2}

// section returns the section with that name, or nil if there is none or it is empty.
func (o *object) section(name string) *section {
	i := slices.IndexFunc(o.sections, func(s section) bool { return s.Name == name && s.Size > 0 })
	if i < 0 {
		return nil
	}
	return &o.sections[i]
}

// describe finds the module's struct module, if it has one. The struct must have the
// kernel's size.
func (m *module) describe(o *object, of Struct) error {
	s := o.section(descSection)
	if s == nil {
		return nil
	}
	if s.Size != uint64(of.Size) || s.area != coreData {
		return fmt.Errorf("a struct module of %d bytes; the kernel's has %d", s.Size, of.Size)
	}
	m.desc = s.addr
	binary.LittleEndian.PutUint32(m.at[coreData].bytes[s.off+modState:], states[Coming])
	return nil
}

// taintBits returns mod->taints for a module's taint letters.
func taintBits(letters string) (bits uint64) {
	for i := range len(letters) {
		switch letters[i] {
		case 'P':
			bits |= 1 << 0 // TAINT_PROPRIETARY_MODULE
		case 'F':
			bits |= 1 << 1 // TAINT_FORCED_MODULE
		case 'O':
			bits |= 1 << 12 // TAINT_OOT_MODULE
		case 'E':
			bits |= 1 << 13 // TAINT_UNSIGNED_MODULE
		}
	}
	return bits
}

// allocPercpu allocates the module's per-CPU variables, at the same offset in each CPU's
// area. It returns ENOMEM if there is no room.
func (l *Loader) allocPercpu(ctx context.Context, m *module, o *object) error {
	s := o.section(percpuSection)
	if s == nil {
		return nil
	}
	if s.Size > maxSize {
		return fmt.Errorf("%s: %d bytes of per-CPU data: %w", m.name, s.Size, syscall.ENOMEM)
	}
	off, err := l.conf.Call(context.WithoutCancel(ctx), "insmod", l.conf.Func("__alloc_percpu"), s.Size, max(s.Addralign, 1))
	if err == nil && off == 0 {
		err = fmt.Errorf("%s: %d bytes of per-CPU data: %w", m.name, s.Size, syscall.ENOMEM)
	}
	if err != nil {
		return err
	}
	m.percpu, s.addr, s.own = off, off, slices.Clone(s.data)
	return nil
}

// fillPercpu initializes the variables of each CPU.
func (l *Loader) fillPercpu(m *module, o *object) error {
	s := o.section(percpuSection)
	if s == nil {
		return nil
	}
	mem := l.conf.Memory
	offsets, ok := l.conf.Export("__per_cpu_offset")
	ids, found := l.conf.Export("nr_cpu_ids")
	if !ok || !found {
		return fmt.Errorf("%s: the kernel has no per-CPU areas: %w", m.name, syscall.ENOEXEC)
	}
	var n [4]byte
	if err := mem.ReadAt(ids, n[:]); err != nil {
		return err
	}
	for cpu := range uint64(binary.LittleEndian.Uint32(n[:])) {
		area, err := mem.ReadU64(offsets + 8*cpu)
		if err == nil {
			err = mem.WriteAt(area+m.percpu, s.own)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dismiss removes the module from the guest's list.
func (l *Loader) dismiss(ctx context.Context, m *module) {
	if m.listed {
		// If the call cannot be made the guest has died, or has no memory for a task.
		_, _ = l.conf.Call(ctx, "rmmod", l.conf.Func("free_module"), m.desc)
		l.mu.Lock()
		m.listed = false
		l.mu.Unlock()
	}
	l.freePercpu(ctx, m)
}

func (l *Loader) freePercpu(ctx context.Context, m *module) {
	if m.percpu != 0 {
		_, _ = l.conf.Call(ctx, "rmmod", l.conf.Func("free_percpu"), m.percpu)
		m.percpu = 0
	}
}

// setState writes the state into struct module, where the module's own code may read
// it. A module that has unmapped its struct is not told.
func (l *Loader) setState(m *module, s State) {
	if m.desc != 0 {
		_ = l.conf.Memory.WriteAt(m.desc+modState, binary.LittleEndian.AppendUint32(nil, states[s]))
	}
}

// refs returns the number of references, users' among them. The caller holds mu.
func (l *Loader) refs(m *module) int {
	var b [4]byte
	if m.desc == 0 || !m.listed || l.conf.Memory.ReadAt(m.desc+uint64(l.conf.Struct.Refs), b[:]) != nil {
		return m.refs + len(m.users)
	}
	n := int(int32(binary.LittleEndian.Uint32(b[:]))) - 1
	for _, u := range m.users {
		if u.desc == 0 || !u.listed { // the guest does not count it
			n++
		}
	}
	return n
}

// hidden reports whether the module has taken its struct module off the kernel's list.
func (l *Loader) hidden(m *module) bool {
	const poison = 0xdead000000000122 // LIST_POISON2
	if m.desc == 0 || m.state != Live {
		return false
	}
	prev, err := l.conf.Memory.ReadU64(m.desc + modList + 8)
	return err == nil && (prev == poison || prev == m.desc+modList)
}

// stop drops the module's own reference (try_stop_module). It returns false if there are
// others.
func (l *Loader) stop(m *module) bool {
	if m.desc == 0 {
		return true
	}
	left, err := l.conf.Memory.Add32(m.desc+uint64(l.conf.Struct.Refs), ^uint32(0))
	if err == nil && left != 0 {
		l.unstop(m)
		return false
	}
	return true
}

func (l *Loader) unstop(m *module) {
	if m.desc != 0 {
		_, _ = l.conf.Memory.Add32(m.desc+uint64(l.conf.Struct.Refs), 1)
		l.setState(m, m.state)
	}
}

// patch changes the module's text as Linux does on bare metal: it applies alternatives,
// and replaces jumps to the return thunk by returns.
func (m *module) patch(o *object) error {
	src := source{m, o}
	if err := m.alternatives(src); err != nil {
		return err
	}
	addr, b, _ := src.Table(".return_sites")
	for off := 0; off+4 <= len(b); off += 4 {
		site := addr + uint64(off) + uint64(int64(int32(binary.LittleEndian.Uint32(b[off:]))))
		text := m.code(site, 5)
		if text == nil {
			return fmt.Errorf("a return at %#x, which is not text", site)
		}
		if text[0] == 0xe9 {
			copy(text, []byte{0xc3, 0xcc, 0xcc, 0xcc, 0xcc})
		}
	}
	return nil
}

// Size of an entry of .altinstructions (struct alt_instr) in bytes, and the flag of a
// replacement that is for processors without the feature.
const (
	altLen = 12
	altNot = 1 << 15
)

// featureAlways is X86_FEATURE_ALWAYS. Of all other features alternatives choose the
// code for processors without them, which is only slower.
const featureAlways = 3*32 + 21

// alternatives is apply_alternatives.
func (m *module) alternatives(src source) error {
	addr, b, _ := src.Table(".altinstructions")
	for off := 0; off+altLen <= len(b); off += altLen {
		e := b[off : off+altLen]
		at := addr + uint64(off)
		site := at + uint64(int64(int32(binary.LittleEndian.Uint32(e))))
		from := at + 4 + uint64(int64(int32(binary.LittleEndian.Uint32(e[4:]))))
		feature, size, n := binary.LittleEndian.Uint16(e[8:]), uint64(e[10]), uint64(e[11])
		text, with := m.code(site, size), m.code(from, n)
		if text == nil || with == nil || n > size {
			return fmt.Errorf("an alternative of %d bytes at %#x for %d at %#x", n, from, size, site)
		}
		if (feature&^altNot == featureAlways) == (feature&altNot != 0) {
			continue
		}
		copy(text, with)
		if n == 5 && (with[0] == 0xe8 || with[0] == 0xe9) { // a relative call or jump
			to := from + uint64(int64(int32(binary.LittleEndian.Uint32(with[1:]))))
			binary.LittleEndian.PutUint32(text[1:], uint32(to-site))
		}
		nops(text[n:])
	}
	return nil
}

// longNops are the no-operations of 1 to 8 bytes that Linux writes.
var longNops = [...]string{
	"\x90", "\x66\x90", "\x0f\x1f\x00", "\x0f\x1f\x40\x00", abi.Nop5, "\x66\x0f\x1f\x44\x00\x00",
	"\x0f\x1f\x80\x00\x00\x00\x00", "\x0f\x1f\x84\x00\x00\x00\x00\x00",
}

// nops fills text with no-operations, as few as there can be.
func nops(text []byte) {
	for len(text) > 0 {
		n := min(len(text), len(longNops))
		copy(text, longNops[n-1])
		text = text[n:]
	}
}
