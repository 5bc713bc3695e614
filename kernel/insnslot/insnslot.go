// Package insnslot hands out executable memory, as the pages of insn_slot and optinsn_slot
// that module_alloc provides: pieces of a page, first fit. Slots that are not used are filled
// with int3.
package insnslot

import (
	"bytes"
	"fmt"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Align is the alignment of slots and detours, in bytes.
const Align = 16

const units = abi.PageSize / Align // in a page

// Pages allocates RAM.
type Pages interface {
	Alloc(n int) (pa uint64, err error) // n pages
	Free(pa uint64, n int)
}

// Cache is the slots of one machine.
type Cache struct {
	mem  *mem.Memory
	ram  Pages
	poke func(...abi.Patch) error

	mu    sync.Mutex
	pages []*page
	next  uint64 // where the next page will be mapped
}

type page struct {
	addr uint64
	used [units]uint8 // a piece's first unit holds its size in units, its other units 255
	free int
}

// New returns the slots from the address base on. poke writes text while no vCPU executes.
func New(m *mem.Memory, ram Pages, base uint64, poke func(...abi.Patch) error) *Cache {
	return &Cache{mem: m, ram: ram, poke: poke, next: base}
}

// InUse counts the allocated pieces.
func (c *Cache) InUse() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pages {
		for _, u := range p.used {
			if u != 0 && u != 255 {
				n++
			}
		}
	}
	return n
}

// Alloc returns n bytes of executable memory (1 to PageSize - 2*Align: the largest piece is
// 254 units), filled with int3. It fails with EINVAL for other sizes, and with ENOMEM when
// memory is used up.
func (c *Cache) Alloc(n int) (uint64, error) {
	size := (n + Align - 1) / Align
	if n <= 0 || size > units-2 {
		return 0, fmt.Errorf("an executable slot cannot have %d bytes: %w", n, syscall.EINVAL)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pages {
		if a, ok := p.take(size); ok {
			return a, nil
		}
	}
	p, err := c.grow()
	if err != nil {
		return 0, err
	}
	a, _ := p.take(size)
	return a, nil
}

func (c *Cache) grow() (*page, error) {
	pa, err := c.ram.Alloc(1)
	if err != nil {
		return nil, err
	}
	ram := c.mem.Phys(pa, abi.PageSize)
	for i := range ram {
		ram[i] = int3
	}
	p := &page{addr: c.next, free: units}
	if err := c.mem.Map(p.addr, pa, 1, mem.Read|mem.Exec); err != nil {
		c.ram.Free(pa, 1)
		return nil, err
	}
	c.next += 2 * abi.PageSize // leaves an unmapped page between
	c.pages = append(c.pages, p)
	return p, nil
}

const int3 = 0xcc

func (p *page) take(size int) (uint64, bool) {
	if p.free < size {
		return 0, false
	}
	run := 0
	for i, u := range p.used {
		if u != 0 {
			run = 0
			continue
		}
		if run++; run < size {
			continue
		}
		first := i - size + 1
		p.used[first] = uint8(size)
		for j := first + 1; j <= i; j++ {
			p.used[j] = 255
		}
		p.free -= size
		return p.addr + uint64(first*Align), true
	}
	return 0, false
}

// Free frees memory from Alloc and fills it with int3. No vCPU may be executing in it. Another
// address has no effect.
func (c *Cache) Free(addr uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pages {
		if addr < p.addr || addr >= p.addr+abi.PageSize {
			continue
		}
		first := int(addr-p.addr) / Align
		size := int(p.used[first])
		if size == 0 || size == 255 {
			return
		}
		_ = c.poke(abi.Patch{Addr: addr, Bytes: bytes.Repeat([]byte{int3}, size*Align)}) // the page belongs to the slots and is executable
		for j := first; j < first+size; j++ {
			p.used[j] = 0
		}
		p.free += size
		return
	}
}
