// Package mem implements the guest's RAM and its single address space.
//
// RAM is one mmap'ed region outside of the Go heap. The garbage collector does not
// scan it, and vCPU goroutines read and write it as processors do: plain accesses are
// plain Go accesses of the same width, locked ones use sync/atomic. Virtual addresses
// are translated by a four-level table of atomic words that is walked without a lock.
//
// A page is writable or executable, never both. Executable pages are changed by
// PokeText only, and functions set by OnText are called for each change, so that
// decoded instructions can be dropped.
//
// Lock order: mu (changes of the page table), then splitMu (accesses that do not fit
// into an atomic word).
package mem

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Perm are the permissions of a page.
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

// Memory is the RAM of one machine and the address space that all its vCPUs share.
type Memory struct {
	whole []byte // RAM between two guards
	ram   []byte
	base  unsafe.Pointer
	root  pml4
	epoch atomic.Uint64

	mu     sync.Mutex
	onText []func(pa, n uint64)

	splitMu sync.Mutex
}

// guard is how many bytes before and behind RAM, and before and behind what an engine
// finds it with, cannot be accessed: an engine that left them would fault, not read or
// change the program's own memory.
const guard = 1 << 20

// New returns a memory of size bytes (a multiple of the page size), zeroed and with
// nothing mapped. The host allocates pages when they are first accessed.
func New(size uint64) (*Memory, error) {
	if size == 0 || size&PageMask != 0 || size > 1<<40 {
		return nil, fmt.Errorf("memory of %#x bytes: %w", size, syscall.EINVAL)
	}
	whole, ram, err := guarded(int(size))
	if err != nil {
		return nil, err
	}
	return &Memory{whole: whole, ram: ram, base: unsafe.Pointer(unsafe.SliceData(ram))}, nil
}

// guarded maps n bytes (a multiple of the page size) between two guards: inside of
// whole.
func guarded(n int) (whole, inside []byte, err error) {
	whole, err = unix.Mmap(-1, 0, guard+n+guard, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("memory of %#x bytes: %w", n, err)
	}
	inside = whole[guard : guard+n : guard+n]
	if err := unix.Mprotect(inside, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, nil, fmt.Errorf("memory of %#x bytes: %w", n, errors.Join(err, unix.Munmap(whole)))
	}
	return whole, inside, nil
}

// Guarded returns n bytes (a multiple of the page size) of the host's memory, zeroed,
// that lie between two guards as RAM does. The guest does not see them: they are what an
// engine finds RAM with. They stay mapped as long as m is in use, also after Close, since
// a vCPU that has stopped may still be told to forget a page.
func (m *Memory) Guarded(n int) ([]byte, error) {
	whole, inside, err := guarded(n)
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(m, func(whole []byte) { _ = unix.Munmap(whole) }, whole)
	return inside, nil
}

// Close unmaps the RAM. The memory must not be used afterwards.
func (m *Memory) Close() error {
	whole := m.whole
	m.whole, m.ram, m.base = nil, nil, nil
	if whole == nil {
		return nil
	}
	return unix.Munmap(whole)
}

// Discard frees the RAM's pages. The memory stays mapped in the process and reads as
// zeros.
func (m *Memory) Discard() error { return unix.Madvise(m.ram, unix.MADV_DONTNEED) }

// Size returns the size of the RAM in bytes.
func (m *Memory) Size() uint64 { return uint64(len(m.ram)) }

// Base returns the host address of physical address 0. A vCPU's TLB adds to it.
func (m *Memory) Base() unsafe.Pointer { return m.base }

// Epoch is incremented when an existing mapping changes. A TLB filled in an older
// epoch must be flushed.
func (m *Memory) Epoch() uint64 { return m.epoch.Load() }

// OnText has f called for each change of executable bytes, with their physical
// address and length: by PokeText, and when an executable page is unmapped or
// remapped.
func (m *Memory) OnText(f func(pa, n uint64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onText = append(m.onText, f)
}

// Phys returns the n bytes of RAM at physical address pa, not a copy, or nil if not
// all of the range is RAM.
func (m *Memory) Phys(pa, n uint64) []byte {
	size := m.Size()
	if pa > size || n > size-pa {
		return nil
	}
	return m.ram[pa : pa+n : pa+n]
}
