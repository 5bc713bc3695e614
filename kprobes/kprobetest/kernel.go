// Package kprobetest provides a fake kernel for tests of probes: bytes of text, a
// list of symbols, and a clock that the test advances. It does not execute code.
package kprobetest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Addresses.
const (
	Text     = abi.TextBase
	TextSize = 1 << 16
	Slots    = abi.SlotsBase // executable memory for slots and detours
	SlotSize = 1 << 20
	Stack    = abi.DirectMap + 0x10000
	StackEnd = Stack + abi.ThreadSize
)

// Kernel implements all interfaces of package kprobes except Optimizer. Tests set the
// exported fields before they use it.
type Kernel struct {
	Symtab     []abi.Symbol
	Sites      map[uint64]bool // fentry
	Jumps      []abi.Range
	Calls      []abi.Range // static calls
	Locks      []abi.Range // SMP alternatives
	Bugs       map[uint64]bool
	Ex         map[uint64]bool
	Entry      abi.Range
	Thunks     abi.Range
	Black      []abi.Range
	Gone       []abi.Range // freed text
	Processors int
	OnRCUTasks func() // called by SynchronizeRCUTasks

	mu       sync.RWMutex
	text     []byte
	slots    []byte
	stack    []byte
	nextSlot uint64
	live     map[uint64]uint64   // slots in use, with their sizes
	freed    map[uint64][]uint64 // freed slots, by size; reused when no other is left
	log      []string
	now      int64
	timers   []*timer
	Pokes    int // batches
	failPoke bool
}

type timer struct {
	at int64
	f  func()
}

// New returns a kernel with two CPUs. Its text is filled with int3 and nops; Func
// adds functions.
func New() *Kernel {
	k := &Kernel{
		Sites: map[uint64]bool{}, Bugs: map[uint64]bool{}, Ex: map[uint64]bool{},
		Processors: 2, text: make([]byte, TextSize), slots: make([]byte, SlotSize),
		stack: make([]byte, abi.ThreadSize), live: map[uint64]uint64{}, freed: map[uint64][]uint64{},
	}
	for i := range k.text {
		k.text[i] = 0xcc
	}
	return k
}

// Func writes code at an offset from the start of text, adds a symbol of that size,
// and returns the address.
func (k *Kernel) Func(off uint64, name string, code ...byte) uint64 {
	copy(k.text[off:], code)
	k.Symtab = append(k.Symtab, abi.Symbol{Addr: Text + off, Size: uint64(len(code)), Type: 't', Name: name})
	slices.SortStableFunc(k.Symtab, func(a, b abi.Symbol) int { return cmp.Compare(a.Addr, b.Addr) })
	return Text + off
}

// Site marks an fentry site.
func (k *Kernel) Site(addr uint64) { k.Sites[addr] = true }

// Bytes returns n bytes of text.
func (k *Kernel) Bytes(addr uint64, n int) []byte {
	b := make([]byte, n)
	if err := k.Read(addr, b); err != nil {
		panic(err)
	}
	return b
}

func (k *Kernel) view(addr uint64, n int) ([]byte, error) {
	for _, m := range []struct {
		base uint64
		b    []byte
	}{{Text, k.text}, {Slots, k.slots}, {Stack, k.stack}} {
		if off := addr - m.base; addr >= m.base && off+uint64(n) <= uint64(len(m.b)) {
			return m.b[off : off+uint64(n)], nil
		}
	}
	return nil, fmt.Errorf("%d bytes at %#x: %w", n, addr, syscall.EFAULT)
}

// Read is Text.Read.
func (k *Kernel) Read(addr uint64, p []byte) error { return k.ReadAt(addr, p) }

// ReadAt is Memory.ReadAt.
func (k *Kernel) ReadAt(addr uint64, p []byte) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	b, err := k.view(addr, len(p))
	copy(p, b)
	return err
}

// WriteAt is Memory.WriteAt.
func (k *Kernel) WriteAt(addr uint64, p []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, err := k.view(addr, len(p))
	copy(b, p)
	return err
}

// ReadU64 is Memory.ReadU64.
func (k *Kernel) ReadU64(addr uint64) (uint64, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	b, err := k.view(addr, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// WriteU64 is Memory.WriteU64.
func (k *Kernel) WriteU64(addr, v uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, err := k.view(addr, 8)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(b, v)
	return nil
}

// FailPokes sets whether Poke fails with EFAULT.
func (k *Kernel) FailPokes(fail bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failPoke = fail
}

// Poke is Text.Poke.
func (k *Kernel) Poke(patches ...abi.Patch) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failPoke {
		return fmt.Errorf("poke: %w", syscall.EFAULT)
	}
	k.Pokes++
	for _, p := range patches {
		b, err := k.view(p.Addr, len(p.Bytes))
		if err != nil {
			return err
		}
		copy(b, p.Bytes)
	}
	return nil
}

// LookupName is Symbols.LookupName.
func (k *Kernel) LookupName(name string) []abi.Symbol {
	var found []abi.Symbol
	for _, s := range k.Symtab {
		if s.Name == name || s.Module != "" && s.Module+":"+s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// Lookup is Symbols.Lookup. Unlike in kallsyms, symbols do not extend up to the next
// one.
func (k *Kernel) Lookup(addr uint64) (abi.Symbol, uint64, bool) {
	for _, s := range k.Symtab {
		if s.Addr <= addr && addr < s.Addr+s.Size {
			return s, addr - s.Addr, true
		}
	}
	return abi.Symbol{}, 0, false
}

func overlaps(rs []abi.Range, start, end uint64) bool {
	return slices.ContainsFunc(rs, func(r abi.Range) bool { return r.Overlaps(start, end) })
}

// Add32 is Memory.Add32.
func (k *Kernel) Add32(addr uint64, d uint32) (uint32, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, err := k.view(addr, 4)
	if err != nil {
		return 0, err
	}
	v := binary.LittleEndian.Uint32(b) + d
	binary.LittleEndian.PutUint32(b, v)
	return v, nil
}

// Add64 is Memory.Add64.
func (k *Kernel) Add64(addr, d uint64) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, err := k.view(addr, 8)
	if err != nil {
		return 0, err
	}
	v := binary.LittleEndian.Uint64(b) + d
	binary.LittleEndian.PutUint64(b, v)
	return v, nil
}

// KernelText and the methods below implement Tables.
func (k *Kernel) KernelText(addr uint64) bool {
	return Text <= addr && addr < Text+TextSize && !overlaps(k.Gone, addr, addr+1)
}

// JumpLabel reports whether a range of Jumps overlaps [start, end).
func (k *Kernel) JumpLabel(start, end uint64) bool { return overlaps(k.Jumps, start, end) }

// StaticCall reports whether a range of Calls overlaps [start, end).
func (k *Kernel) StaticCall(start, end uint64) bool { return overlaps(k.Calls, start, end) }

// SMPLock reports whether a range of Locks overlaps [start, end).
func (k *Kernel) SMPLock(start, end uint64) bool { return overlaps(k.Locks, start, end) }

// Bug looks addr up in Bugs.
func (k *Kernel) Bug(addr uint64) bool { return k.Bugs[addr] }

// ExTable looks addr up in Ex.
func (k *Kernel) ExTable(addr uint64) bool { return k.Ex[addr] }

// EntryText looks addr up in Entry.
func (k *Kernel) EntryText(addr uint64) bool { return k.Entry.Contains(addr) }

// Thunk looks addr up in Thunks.
func (k *Kernel) Thunk(addr uint64) bool { return k.Thunks.Contains(addr) }

// FtraceSite looks addr up in Sites.
func (k *Kernel) FtraceSite(addr uint64) bool { return k.Sites[addr] }

// FtraceOverlap looks the range up in Sites.
func (k *Kernel) FtraceOverlap(start, end uint64) bool {
	for a := range k.Sites {
		if a < end && start < a+5 {
			return true
		}
	}
	return false
}

// Blacklist returns Black.
func (k *Kernel) Blacklist() []abi.Range { return k.Black }

// Sites5 implements kprobes.Ftrace. It writes e8 and zeros for a call.
type Sites5 struct{ K *Kernel }

// Arm writes a call to a site.
func (s Sites5) Arm(addr uint64) error {
	return s.K.Poke(abi.Patch{Addr: addr, Bytes: []byte{0xe8, 0, 0, 0, 0}})
}

// ArmIPModify is Arm.
func (s Sites5) ArmIPModify(addr uint64) error { return s.Arm(addr) }

// Disarm writes a nop to a site.
func (s Sites5) Disarm(addr uint64) error {
	return s.K.Poke(abi.Patch{Addr: addr, Bytes: []byte(abi.Nop5)})
}

// Alloc is Slots.Alloc.
func (k *Kernel) Alloc(n int) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	size := uint64(n+15) &^ 15
	a := Slots + k.nextSlot
	switch old := k.freed[size]; {
	case k.nextSlot+size <= SlotSize:
		k.nextSlot += size
	case len(old) > 0:
		a, k.freed[size] = old[0], old[1:]
	default:
		return 0, fmt.Errorf("no slots left: %w", syscall.ENOMEM)
	}
	k.live[a] = size
	return a, nil
}

// Free is Slots.Free. It panics if the slot is not in use.
func (k *Kernel) Free(addr uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	size, ok := k.live[addr]
	if !ok {
		panic(fmt.Sprintf("slot %#x is not in use", addr))
	}
	delete(k.live, addr)
	k.freed[size] = append(k.freed[size], addr)
}

// SlotsInUse returns the number of slots in use.
func (k *Kernel) SlotsInUse() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.live)
}

// CPUs is Machine.CPUs.
func (k *Kernel) CPUs() int { return k.Processors }

// SynchronizeRCU returns at once.
func (k *Kernel) SynchronizeRCU() {}

// SynchronizeRCUTasks calls OnRCUTasks.
func (k *Kernel) SynchronizeRCUTasks() {
	if k.OnRCUTasks != nil {
		k.OnRCUTasks()
	}
}

// Now is Machine.Now.
func (k *Kernel) Now() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// AfterFunc is Machine.AfterFunc. f runs in Advance.
func (k *Kernel) AfterFunc(d time.Duration, f func()) func() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &timer{at: k.now + int64(d), f: f}
	k.timers = append(k.timers, t)
	return func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		before := len(k.timers)
		k.timers = slices.DeleteFunc(k.timers, func(u *timer) bool { return u == t })
		return len(k.timers) < before
	}
}

// Advance advances the clock by d and runs the functions that are due, in order.
func (k *Kernel) Advance(d time.Duration) {
	end := k.Now() + int64(d)
	for t := k.due(end); t != nil; t = k.due(end) {
		t.f()
	}
	k.mu.Lock()
	k.now = end
	k.mu.Unlock()
}

func (k *Kernel) due(end int64) *timer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.timers) == 0 {
		return nil
	}
	i := 0
	for j, t := range k.timers {
		if t.at < k.timers[i].at {
			i = j
		}
	}
	t := k.timers[i]
	if t.at > end {
		return nil
	}
	k.timers = slices.Delete(k.timers, i, i+1)
	k.now = max(k.now, t.at)
	return t
}

// Printk is Machine.Printk.
func (k *Kernel) Printk(_ int, format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log = append(k.log, fmt.Sprintf(format, args...))
}

// Log returns the lines printed since the last call of Log.
func (k *Kernel) Log() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.log
	k.log = nil
	return l
}

// Config returns a configuration for kprobes.New, without an optimizer.
func (k *Kernel) Config() kprobes.Config {
	return kprobes.Config{Text: k, Symbols: k, Tables: k, Ftrace: Sites5{k}, Slots: k, Machine: k}
}

// Trap returns the trap of an int3 at addr on a CPU, with the stack pointer in the
// middle of the stack.
func (k *Kernel) Trap(cpu int, addr uint64) *abi.Trap {
	return &abi.Trap{
		CPU: cpu, Vector: abi.VecBP, Mem: k, Task: abi.DirectMap + uint64(cpu+1)*0x4000,
		Regs: &abi.Regs{IP: addr + 1, SP: Stack + 0x2000, Flags: abi.FlagIF | 2, CS: abi.KernelCS, SS: abi.KernelSS, OrigAX: ^uint64(0)},
	}
}
