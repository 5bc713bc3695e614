package main

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// pageMaps says which memory of processes can be read without waiting, by /proc/PID/pagemap.
// A page that is not in RAM may be one of a file whose server is a program that is held,
// or one for which userfaultfd(2) asks the program itself.
type pageMaps struct {
	open map[int]int // descriptors by process
}

// maxPageMaps is how many processes' files are kept open.
const maxPageMaps = 256

// present returns how many of n bytes from addr on are in RAM, up to the first that is not.
func (p *pageMaps) present(pid int, addr uint64, n int) int {
	fd, ok := p.of(pid)
	if !ok || n <= 0 {
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

func (p *pageMaps) of(pid int) (fd int, ok bool) {
	if fd, ok = p.open[pid]; ok {
		return fd, true
	}
	fd, err := unix.Open(proc.Path(pid, "pagemap"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	if len(p.open) >= maxPageMaps {
		for other := range p.open {
			p.forget(other)
		}
	}
	p.open[pid] = fd
	return fd, true
}

// forget is called when a process ends, or has a new program: an open file is about the
// memory that there was when it was opened.
func (p *pageMaps) forget(pid int) {
	if fd, ok := p.open[pid]; ok {
		unix.Close(fd)
		delete(p.open, pid)
	}
}
