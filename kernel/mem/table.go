package mem

import (
	"fmt"
	"sync/atomic"
	"syscall"
)

// A page table entry is the physical address with the page's Perm in the low bits, or
// 0 if no page is mapped.
type (
	pml4 [512]atomic.Pointer[pdpt]
	pdpt [512]atomic.Pointer[pd]
	pd   [512]atomic.Pointer[pt]
	pt   [512]atomic.Uint64
)

// Canonical reports whether va is a canonical address: bits 47 to 63 are equal.
func Canonical(va uint64) bool { return uint64(int64(va<<16)>>16) == va }

// entry returns va's page table entry, or nil if its table does not exist.
func (m *Memory) entry(va uint64) *atomic.Uint64 {
	l3 := m.root[va>>39&511].Load()
	if l3 == nil {
		return nil
	}
	l2 := l3[va>>30&511].Load()
	if l2 == nil {
		return nil
	}
	l1 := l2[va>>21&511].Load()
	if l1 == nil {
		return nil
	}
	return &l1[va>>12&511]
}

// makeEntry returns va's page table entry and creates missing tables. m.mu is held.
func (m *Memory) makeEntry(va uint64) *atomic.Uint64 {
	l3 := child(&m.root[va>>39&511])
	l2 := child(&l3[va>>30&511])
	l1 := child(&l2[va>>21&511])
	return &l1[va>>12&511]
}

func child[T any](p *atomic.Pointer[T]) *T {
	t := p.Load()
	if t == nil {
		t = new(T)
		p.Store(t)
	}
	return t
}

// Lookup translates va to a physical address and the page's permissions.
func (m *Memory) Lookup(va uint64) (pa uint64, p Perm, ok bool) {
	if !Canonical(va) {
		return 0, 0, false
	}
	e := m.entry(va)
	if e == nil {
		return 0, 0, false
	}
	v := e.Load()
	if v == 0 {
		return 0, 0, false
	}
	return v&^PageMask | va&PageMask, Perm(v & 7), true
}

// Map maps the given number of pages at va to the RAM at pa. It returns EINVAL if an
// address is not page aligned, or if pages would be both writable and executable, or
// not readable. Executable pages may be changed only while no vCPU is in Run. When
// other mappings are changed, a vCPU may use the old one until it enters Run again.
func (m *Memory) Map(va, pa, pages uint64, p Perm) error {
	size := m.Size()
	switch {
	case (va|pa)&PageMask != 0, pages == 0, pages > size>>PageShift, pa > size, pages<<PageShift > size-pa,
		!Canonical(va), !Canonical(va + pages<<PageShift - 1), va+pages<<PageShift-1 < va,
		p&^7 != 0, p&Read == 0, p&Write != 0 && p&Exec != 0:
		return fmt.Errorf("map %d pages at %#x to %#x with %#x: %w", pages, va, pa, p, syscall.EINVAL)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range pages {
		m.set(va+i<<PageShift, pa+i<<PageShift|uint64(p))
	}
	return nil
}

// Unmap unmaps the given number of pages at va. Pages that are not mapped are
// skipped.
func (m *Memory) Unmap(va, pages uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; pages > 0; pages-- {
		if e := m.entry(va); e != nil && Canonical(va) {
			if e.Load() != 0 {
				m.set(va, 0)
			}
		} else if va&(1<<21-1) == 0 && pages > 512 {
			va, pages = va+511<<PageShift, pages-511
		}
		va += PageSize
	}
}

// set changes a page's entry, increments the epoch and calls OnText's functions if
// needed. m.mu is held.
func (m *Memory) set(va, v uint64) {
	old := m.makeEntry(va).Swap(v)
	if old == 0 || old == v {
		return
	}
	m.epoch.Add(1)
	if old&uint64(Exec) != 0 {
		m.textChanged(old&^PageMask, PageSize)
	}
}

func (m *Memory) textChanged(pa, n uint64) {
	for _, f := range m.onText {
		f(pa, n)
	}
}
