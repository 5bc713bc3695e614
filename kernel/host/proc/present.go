package proc

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// Present returns how many of n bytes of a process's memory from addr on are in RAM, up to the first that is not, by its file
// pagemap, which is open as fd.
func Present(fd int, addr uint64, n int) int {
	if n <= 0 {
		return 0
	}
	const entry, inRAM = 8, 1 << 63
	page := uint64(os.Getpagesize())
	first, last := addr/page, (addr+uint64(n)-1)/page
	b := make([]byte, (last-first+1)*entry)
	got, err := unix.Pread(fd, b, int64(first*entry))
	if err != nil {
		return 0
	}
	end := addr / page * page
	for ; got >= entry && binary.NativeEndian.Uint64(b)&inRAM != 0; b, got = b[entry:], got-entry {
		end += page
	}
	return int(min(max(end, addr)-addr, uint64(n)))
}

// Memory is memory of a thread's process as far as it can be read without waiting. A page that is not in RAM may be one of a file
// whose server is a program that is held, or one for which userfaultfd(2) asks the program itself.
type Memory struct {
	TID     int // the thread
	pagemap int
}

// OpenMemory opens a thread's memory.
func OpenMemory(tid int) (*Memory, error) {
	fd, err := unix.Open(Path(tid, "pagemap"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: Path(tid, "pagemap"), Err: err}
	}
	return &Memory{tid, fd}, nil
}

// Close closes it.
func (m *Memory) Close() { _ = unix.Close(m.pagemap) }

// Read fills b with what is at an address, as far as that is in RAM, and returns what has been filled.
func (m *Memory) Read(addr uint64, b []byte) []byte {
	const top = 1 << 47 // of user space
	if addr >= top {
		return nil
	}
	return ReadMemory(m.TID, addr, b[:Present(m.pagemap, addr, min(len(b), int(top-addr)))])
}
