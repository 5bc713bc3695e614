package anoninode

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Memory is memory that a descriptor can show where it is mapped: a memfd. It is a perf.Memory.
type Memory struct {
	fd int
	b  []byte
}

// NewMemory returns memory without a size.
func NewMemory() (*Memory, error) {
	fd, err := unix.MemfdCreate("perf", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	return &Memory{fd: fd}, nil
}

// FD returns the descriptor of the memory, or -1 after Close.
func (m *Memory) FD() int { return m.fd }

// Grow gives the memory its size, which stays. All pages are made now, and nobody can take them away: a
// write to a page that is missing would end this process.
func (m *Memory) Grow(size int) ([]byte, error) {
	if err := unix.Ftruncate(m.fd, int64(size)); err != nil {
		return nil, err
	}
	if err := unix.Fallocate(m.fd, 0, 0, int64(size)); err != nil {
		return nil, fmt.Errorf("%w: %w", syscall.ENOMEM, err)
	}
	if _, err := unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(m.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	m.b = b
	return b, err
}

// File returns another descriptor of the memory.
func (m *Memory) File() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "memory"), nil
}

// Close frees the memory.
func (m *Memory) Close() {
	if m.b != nil {
		_ = unix.Munmap(m.b)
		m.b = nil
	}
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
		m.fd = -1
	}
}
