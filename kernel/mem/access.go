package mem

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"
)

func fault(what string, va uint64) error {
	return fmt.Errorf("%s at %#x: %w", what, va, syscall.EFAULT)
}

// mapped reports whether every page of [va, va+n) is mapped and has none of the
// permissions in not.
func (m *Memory) mapped(va, n uint64, not Perm) bool {
	if n == 0 {
		return true
	}
	last := va + n - 1
	if last < va {
		return false
	}
	for page := va &^ PageMask; ; page += PageSize {
		if _, p, ok := m.Lookup(page); !ok || p&not != 0 {
			return false
		}
		if page == last&^PageMask {
			return true
		}
	}
}

// each calls f for the part of RAM behind each page of [va, va+n), which must be
// mapped. i is the part's offset from va.
func (m *Memory) each(va, n uint64, f func(ram []byte, i uint64)) {
	for i := uint64(0); i < n; {
		pa, _, ok := m.Lookup(va + i)
		if !ok {
			return
		}
		piece := min(n-i, PageSize-(va+i)&PageMask)
		f(m.ram[pa:pa+piece], i)
		i += piece
	}
}

// ReadAt reads len(p) bytes at va into p. If a page is not mapped, it returns EFAULT
// and does not change p.
func (m *Memory) ReadAt(va uint64, p []byte) error {
	n := uint64(len(p))
	if !m.mapped(va, n, 0) {
		return fault("read", va)
	}
	m.each(va, n, func(ram []byte, i uint64) { copy(p[i:], ram) })
	return nil
}

// WriteAt writes p at va, to read-only pages too. If a page is not mapped, or is
// executable (use PokeText), it returns EFAULT and writes nothing.
func (m *Memory) WriteAt(va uint64, p []byte) error {
	n := uint64(len(p))
	if !m.mapped(va, n, Exec) {
		return fault("write", va)
	}
	m.each(va, n, func(ram []byte, i uint64) { copy(ram, p[i:]) })
	return nil
}

// PokeText writes p at va, to pages with any permissions, and calls the functions set
// by OnText. No vCPU may be in Run. It returns EFAULT if a page is not mapped.
func (m *Memory) PokeText(va uint64, p []byte) error {
	n := uint64(len(p))
	if !m.mapped(va, n, 0) {
		return fault("poke", va)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.each(va, n, func(ram []byte, i uint64) {
		copy(ram, p[i:])
		pa, _, _ := m.Lookup(va + i)
		m.textChanged(pa, uint64(len(ram)))
	})
	return nil
}

// ptr returns the host address of the n bytes at va, or nil if va is not aligned to n
// or not mapped, or if the page has a permission in not.
func (m *Memory) ptr(va, n uint64, not Perm) unsafe.Pointer {
	if va&(n-1) != 0 {
		return nil
	}
	pa, p, ok := m.Lookup(va)
	if !ok || p&not != 0 {
		return nil
	}
	return unsafe.Add(m.base, pa)
}

// ReadU64 reads the little-endian word at va, atomically if va is aligned.
func (m *Memory) ReadU64(va uint64) (uint64, error) {
	if p := m.ptr(va, 8, 0); p != nil {
		return atomic.LoadUint64((*uint64)(p)), nil
	}
	var b [8]byte
	err := m.ReadAt(va, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// WriteU64 writes the little-endian word at va, atomically if va is aligned. It
// returns EFAULT as WriteAt does.
func (m *Memory) WriteU64(va, v uint64) error {
	if p := m.ptr(va, 8, Exec); p != nil {
		atomic.StoreUint64((*uint64)(p), v)
		return nil
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return m.WriteAt(va, b[:])
}

// Load32 atomically reads the aligned 32-bit word at va.
func (m *Memory) Load32(va uint64) (uint32, error) {
	p := m.ptr(va, 4, 0)
	if p == nil {
		return 0, fault("load", va)
	}
	return atomic.LoadUint32((*uint32)(p)), nil
}

// Store32 atomically writes the aligned 32-bit word at va, with release ordering
// (smp_store_release).
func (m *Memory) Store32(va uint64, v uint32) error {
	p := m.ptr(va, 4, Exec)
	if p == nil {
		return fault("store", va)
	}
	atomic.StoreUint32((*uint32)(p), v)
	return nil
}

// Add32 atomically adds d to the aligned 32-bit word at va, and returns the sum.
func (m *Memory) Add32(va uint64, d uint32) (uint32, error) {
	p := m.ptr(va, 4, Exec)
	if p == nil {
		return 0, fault("add", va)
	}
	return atomic.AddUint32((*uint32)(p), d), nil
}

// Add64 atomically adds d to the aligned 64-bit word at va, and returns the sum.
func (m *Memory) Add64(va, d uint64) (uint64, error) {
	p := m.ptr(va, 8, Exec)
	if p == nil {
		return 0, fault("add", va)
	}
	return atomic.AddUint64((*uint64)(p), d), nil
}

// Split runs f under a lock shared by all vCPUs. It is for locked accesses that cross
// an 8-byte boundary, and accesses of 16 bytes.
func (m *Memory) Split(f func()) {
	m.splitMu.Lock()
	defer m.splitMu.Unlock()
	f()
}
