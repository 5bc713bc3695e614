package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// moduleMem does what module_alloc does: it hands out pages of the module area, in
// pieces that are mapped and freed one by one, with an unmapped page after them.
type moduleMem struct {
	mu   sync.Mutex
	live []modulePiece // sorted by address
}

type modulePiece struct {
	addr, pa, pages uint64
}

// AllocModule returns the address of pieces of the given numbers of pages (of abi.PageSize
// bytes) in the module area, one after the other. They hold zeros and are unmapped until
// MapModule. It fails with ENOMEM when the area or the RAM for text is full.
func (m *Machine) AllocModule(pages ...uint64) (uint64, error) {
	mm := &m.modules
	mm.mu.Lock()
	defer mm.mu.Unlock()
	total := uint64(0)
	for _, n := range pages {
		if n == 0 || n > textRAM/abi.PageSize {
			return 0, fmt.Errorf("the guest has no memory for %d pages of a module: %w", n, syscall.ENOMEM)
		}
		total += n
	}
	addr, at := uint64(abi.ModulesBase), 0
	for ; at < len(mm.live) && mm.live[at].addr < addr+(total+1)*abi.PageSize; at++ {
		addr = mm.live[at].addr + (mm.live[at].pages+1)*abi.PageSize
	}
	if addr+total*abi.PageSize > abi.SlotsBase {
		return 0, fmt.Errorf("the module area has no room for %d pages: %w", total, syscall.ENOMEM)
	}
	var pieces []modulePiece
	for next := addr; len(pieces) < len(pages); {
		n := pages[len(pieces)]
		pa, err := m.text.Alloc(int(n))
		if err != nil {
			for _, p := range pieces {
				m.text.Free(p.pa, int(p.pages))
			}
			return 0, err
		}
		clear(m.mem.Phys(pa, n*abi.PageSize))
		pieces = append(pieces, modulePiece{next, pa, n})
		next += n * abi.PageSize
	}
	mm.live = slices.Insert(mm.live, at, pieces...)
	return addr, nil
}

func (mm *moduleMem) find(addr uint64) (int, bool) {
	return slices.BinarySearchFunc(mm.live, addr, func(p modulePiece, a uint64) int { return cmp.Compare(p.addr, a) })
}

// MapModule fills a piece from AllocModule with p, which must fit, and maps it.
// Memory that must not be written is read-only in the direct map too. It fails with
// EINVAL when there is no such piece, or when perm is both writable and executable.
func (m *Machine) MapModule(addr uint64, p []byte, perm image.Perm) error {
	mm := &m.modules
	mm.mu.Lock()
	defer mm.mu.Unlock()
	i, ok := mm.find(addr)
	if !ok || uint64(len(p)) > mm.live[i].pages*abi.PageSize {
		return fmt.Errorf("%d bytes at %#x are not a piece of a module: %w", len(p), addr, syscall.EINVAL)
	}
	at := mm.live[i]
	var err error
	m.StopMachine(func() {
		copy(m.mem.Phys(at.pa, at.pages*abi.PageSize), p)
		if err = m.mem.Map(addr, at.pa, at.pages, mem.Perm(perm)); err == nil && perm&image.Write == 0 {
			err = m.mem.Map(abi.DirectMap+at.pa, at.pa, at.pages, mem.Read)
		}
	})
	return err
}

// FreeModule unmaps and frees a piece. No vCPU may be executing in it.
func (m *Machine) FreeModule(addr uint64) {
	mm := &m.modules
	mm.mu.Lock()
	defer mm.mu.Unlock()
	i, ok := mm.find(addr)
	if !ok {
		return
	}
	at := mm.live[i]
	m.StopMachine(func() {
		m.mem.Unmap(addr, at.pages)
		_ = m.mem.Map(abi.DirectMap+at.pa, at.pa, at.pages, mem.Read|mem.Write) // as it was mapped before
	})
	m.text.Free(at.pa, int(at.pages))
	mm.live = slices.Delete(mm.live, i, i+1)
}
