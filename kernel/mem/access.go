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

// mapped says whether every page of [va, va+n) is mapped and has none of the
// bits of not.
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

// each calls f for the piece of RAM behind each page of [va, va+n), which is
// mapped; i is the piece's offset from va.
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

// ReadAt fills p with what is at va. A page that is not mapped gives EFAULT and
// leaves p alone.
func (m *Memory) ReadAt(va uint64, p []byte) error {
	n := uint64(len(p))
	if !m.mapped(va, n, 0) {
		return fault("read", va)
	}
	m.each(va, n, func(ram []byte, i uint64) { copy(p[i:], ram) })
	return nil
}

// WriteAt writes p at va, to read-only pages as well. A page that is not mapped,
// or executable (PokeText is for those), gives EFAULT and changes nothing.
func (m *Memory) WriteAt(va uint64, p []byte) error {
	n := uint64(len(p))
	if !m.mapped(va, n, Exec) {
		return fault("write", va)
	}
	m.each(va, n, func(ram []byte, i uint64) { copy(ram, p[i:]) })
	return nil
}

// PokeText writes p at va whatever the pages allow, and has decoded copies of
// executable ones dropped. All vCPUs are out of Run. EFAULT: not mapped.
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

// ptr is where the n bytes at va lie in the host, when they are mapped, in one
// page, aligned to n, and without the bits of not.
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

// ReadU64 reads the little-endian word at va; when that is aligned, in one piece.
func (m *Memory) ReadU64(va uint64) (uint64, error) {
	if p := m.ptr(va, 8, 0); p != nil {
		return atomic.LoadUint64((*uint64)(p)), nil
	}
	var b [8]byte
	err := m.ReadAt(va, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// WriteU64 writes the little-endian word at va; when that is aligned, in one
// piece. EFAULT as WriteAt.
func (m *Memory) WriteU64(va, v uint64) error {
	if p := m.ptr(va, 8, Exec); p != nil {
		atomic.StoreUint64((*uint64)(p), v)
		return nil
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return m.WriteAt(va, b[:])
}

// Load32 reads the aligned 32-bit word at va in one piece.
func (m *Memory) Load32(va uint64) (uint32, error) {
	p := m.ptr(va, 4, 0)
	if p == nil {
		return 0, fault("load", va)
	}
	return atomic.LoadUint32((*uint32)(p)), nil
}

// Store32 writes the aligned 32-bit word at va in one piece, after all that the
// caller wrote before (smp_store_release).
func (m *Memory) Store32(va uint64, v uint32) error {
	p := m.ptr(va, 4, Exec)
	if p == nil {
		return fault("store", va)
	}
	atomic.StoreUint32((*uint32)(p), v)
	return nil
}

// Add32 adds d to the aligned 32-bit word at va, and returns the sum.
func (m *Memory) Add32(va uint64, d uint32) (uint32, error) {
	p := m.ptr(va, 4, Exec)
	if p == nil {
		return 0, fault("add", va)
	}
	return atomic.AddUint32((*uint32)(p), d), nil
}

// Add64 adds d to the aligned 64-bit word at va, and returns the sum.
func (m *Memory) Add64(va, d uint64) (uint64, error) {
	p := m.ptr(va, 8, Exec)
	if p == nil {
		return 0, fault("add", va)
	}
	return atomic.AddUint64((*uint64)(p), d), nil
}

// Split runs f while no other split access of any vCPU runs: for locked
// accesses that cross an 8-byte word, and 16-byte ones.
func (m *Memory) Split(f func()) {
	m.splitMu.Lock()
	defer m.splitMu.Unlock()
	f()
}
