package kernel

import (
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Read copies the present contents of kernel memory. It fails with EFAULT where nothing is mapped.
func (m *Machine) Read(addr uint64, p []byte) error { return m.mem.ReadAt(addr, p) }

// maxStop is how many patches one stop of the machine writes, so that vCPUs wait
// only a fraction of a millisecond.
const maxStop = 1024

// Poke does what text_poke does: it writes the patches while no vCPU executes guest
// code. It writes all of them, or none when one is outside executable memory
// (EFAULT). Many patches take several stops and are written in order.
func (m *Machine) Poke(patches ...abi.Patch) error {
	for _, p := range patches {
		if err := m.checkText(p); err != nil {
			return err
		}
	}
	var err error
	for some := range slices.Chunk(patches, maxStop) {
		m.StopMachine(func() {
			for _, p := range some {
				if e := m.mem.PokeText(p.Addr, p.Bytes); e != nil && err == nil {
					err = e
				}
			}
		})
	}
	return err
}

func (m *Machine) checkText(p abi.Patch) error {
	if len(p.Bytes) == 0 {
		return nil
	}
	for _, a := range [...]uint64{p.Addr, p.Addr + uint64(len(p.Bytes)) - 1} {
		if _, perm, ok := m.mem.Lookup(a); !ok || perm&mem.Exec == 0 {
			return fmt.Errorf("text_poke at %#x, which is not text: %w", a, syscall.EFAULT)
		}
	}
	return nil
}

// slotAlign is the alignment of slots and detours, in bytes.
const slotAlign = 16

// slots hands out executable memory of the module area, like the pages of
// insn_slot and optinsn_slot that module_alloc provides: pieces of a page, first fit.
type slots struct {
	m    *Machine
	pool *host.Pool

	mu    sync.Mutex
	pages []*slotPage
	next  uint64 // where the next page will be mapped
}

type slotPage struct {
	addr uint64
	used [abi.PageSize / slotAlign]uint8 // a piece's first unit holds its size in units, its other units 255
	free int
}

// AllocSlot returns n bytes of executable memory (1 to PageSize - 2*slotAlign: the
// largest piece is 254 units), filled with int3. It fails with EINVAL for other sizes,
// and with ENOMEM when guest memory is used up.
func (m *Machine) AllocSlot(n int) (uint64, error) { return m.slots.alloc(n) }

// FreeSlot frees memory from AllocSlot and fills it with int3. No vCPU may be
// executing in it.
func (m *Machine) FreeSlot(addr uint64) { m.slots.release(addr) }

// SlotsInUse counts the allocated pieces, except ftrace's trampolines, which are
// never freed.
func (m *Machine) SlotsInUse() int {
	s := &m.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	n := -m.trampolines()
	for _, p := range s.pages {
		for _, u := range p.used {
			if u != 0 && u != 255 {
				n++
			}
		}
	}
	return n
}

func (s *slots) alloc(n int) (uint64, error) {
	units := (n + slotAlign - 1) / slotAlign
	if n <= 0 || units > len(slotPage{}.used)-2 {
		return 0, fmt.Errorf("an executable slot cannot have %d bytes: %w", n, syscall.EINVAL)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pages {
		if a, ok := p.take(units); ok {
			return a, nil
		}
	}
	p, err := s.grow()
	if err != nil {
		return 0, err
	}
	a, _ := p.take(units)
	return a, nil
}

func (s *slots) grow() (*slotPage, error) {
	pa, err := s.pool.Alloc(1)
	if err != nil {
		return nil, err
	}
	ram := s.m.mem.Phys(pa, abi.PageSize)
	for i := range ram {
		ram[i] = 0xcc
	}
	p := &slotPage{addr: s.next, free: len(slotPage{}.used)}
	if err := s.m.mem.Map(p.addr, pa, 1, mem.Read|mem.Exec); err != nil {
		s.pool.Free(pa, 1)
		return nil, err
	}
	s.next += 2 * abi.PageSize // leaves an unmapped page between
	s.pages = append(s.pages, p)
	return p, nil
}

func (p *slotPage) take(units int) (uint64, bool) {
	if p.free < units {
		return 0, false
	}
	run := 0
	for i, u := range p.used {
		if u != 0 {
			run = 0
			continue
		}
		if run++; run < units {
			continue
		}
		first := i - units + 1
		p.used[first] = uint8(units)
		for j := first + 1; j <= i; j++ {
			p.used[j] = 255
		}
		p.free -= units
		return p.addr + uint64(first*slotAlign), true
	}
	return 0, false
}

func (s *slots) release(addr uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pages {
		if addr < p.addr || addr >= p.addr+abi.PageSize {
			continue
		}
		first := int(addr-p.addr) / slotAlign
		units := int(p.used[first])
		if units == 0 || units == 255 {
			return
		}
		fill := make([]byte, units*slotAlign)
		for i := range fill {
			fill[i] = 0xcc
		}
		_ = s.m.Poke(abi.Patch{Addr: addr, Bytes: fill}) // the page belongs to the slots and is executable
		for j := first; j < first+units; j++ {
			p.used[j] = 0
		}
		p.free += units
		return
	}
}
