// Package mem is the guest's RAM and its one address space.
//
// RAM is a single mmap'ed region outside the Go heap, so that the garbage
// collector never looks at it and several vCPU goroutines can read and write it
// as processors do: plain accesses are plain Go accesses of that width, locked
// ones go through sync/atomic. Virtual pages point into RAM through a four-level
// table of atomic words that is walked without a lock.
//
// Text is special. A page is writable or executable, never both, and only
// PokeText changes an executable one; whoever keeps decoded instructions is told
// of each change (OnText).
//
// Locks: mu (the tables' shape), then splitMu (accesses that no atomic word can
// hold).
package mem

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Perm is what a page allows, as bits.
type Perm uint8

// Bits of Perm.
const (
	Read  Perm = 1
	Write Perm = 2
	Exec  Perm = 4
)

// Sizes of a page.
const (
	PageShift = 12
	PageSize  = 1 << PageShift
	PageMask  = PageSize - 1
)

// Memory is the RAM of one machine and the mapping that all its vCPUs share.
type Memory struct {
	ram   []byte
	base  unsafe.Pointer
	root  pml4
	epoch atomic.Uint64

	mu     sync.Mutex
	onText []func(pa, n uint64)

	splitMu sync.Mutex
}

// New returns a memory of size bytes (a multiple of the page size), all zero
// and with nothing mapped. The host gives pages as they are first touched.
func New(size uint64) (*Memory, error) {
	if size == 0 || size&PageMask != 0 || size > 1<<40 {
		return nil, fmt.Errorf("memory of %#x bytes: %w", size, syscall.EINVAL)
	}
	ram, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("memory of %#x bytes: %w", size, err)
	}
	return &Memory{ram: ram, base: unsafe.Pointer(unsafe.SliceData(ram))}, nil
}

// Close gives the RAM back to the host. Nothing may use the memory afterwards.
func (m *Memory) Close() error {
	ram := m.ram
	m.ram, m.base = nil, nil
	if ram == nil {
		return nil
	}
	return unix.Munmap(ram)
}

// Discard gives the pages back to the host; the memory stays, full of zeros, and
// with it the addresses that it takes in the process.
func (m *Memory) Discard() error { return unix.Madvise(m.ram, unix.MADV_DONTNEED) }

// Size is how many bytes of RAM there are.
func (m *Memory) Size() uint64 { return uint64(len(m.ram)) }

// Base is where physical address 0 lies in the host: what a vCPU's TLB adds to.
func (m *Memory) Base() unsafe.Pointer { return m.base }

// Epoch grows whenever a mapping that existed changes. A TLB filled in an older
// epoch must be flushed.
func (m *Memory) Epoch() uint64 { return m.epoch.Load() }

// OnText has f called with the physical range of each change of executable
// bytes: by PokeText, and when an executable page is unmapped or mapped anew.
func (m *Memory) OnText(f func(pa, n uint64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onText = append(m.onText, f)
}

// Phys is a view of n bytes of RAM from physical address pa; nil when the range
// is not all RAM.
func (m *Memory) Phys(pa, n uint64) []byte {
	size := m.Size()
	if pa > size || n > size-pa {
		return nil
	}
	return m.ram[pa : pa+n : pa+n]
}
