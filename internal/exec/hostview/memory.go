package hostview

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Writable reports whether /proc/TID/maps shows all of size bytes at addr as writable.
func Writable(maps string, addr, size uint64) bool {
	end := addr + size
	if end < addr {
		return false
	}
	for line := range strings.Lines(maps) { // in the order of the addresses
		m, ok := proc.ParseMapping(line)
		if !ok || m.End <= addr {
			continue
		}
		if m.Start > addr || m.Perms[1] != 'w' {
			return false
		}
		if m.End >= end {
			return true
		}
		addr = m.End
	}
	return false
}

// PageMaps says which memory of processes can be read without waiting, by /proc/PID/pagemap.
// A page that is not in RAM may be one of a file whose server is a program that is held,
// or one for which userfaultfd(2) asks the program itself.
type PageMaps struct {
	Open map[int]int // descriptors by process
}

// maxPageMaps is how many processes' files are kept open.
const maxPageMaps = 256

// Present returns how many of n bytes from addr on are in RAM, up to the first that is not.
func (p *PageMaps) Present(pid int, addr uint64, n int) int {
	fd, ok := p.of(pid)
	if !ok {
		return 0
	}
	return proc.Present(fd, addr, n)
}

// EachInRAM calls f with each run of pages in RAM between two addresses that begin pages: where it is,
// and its size in bytes. It fails with EAGAIN, wrapped, if a page has been swapped out.
func (p *PageMaps) EachInRAM(pid int, from, to uint64, f func(addr uint64, n int) error) error {
	fd, ok := p.of(pid)
	if !ok {
		return unix.ESRCH
	}
	const entry, most, inRAM, swapped = 8, 512, 1 << 63, 1 << 62
	page := uint64(os.Getpagesize())
	buf := make([]byte, most*entry)
	for from < to {
		b := buf
		got, err := unix.Pread(fd, b[:min(most, (to-from)/page)*entry], int64(from/page*entry))
		if err != nil || got < entry {
			return errors.Join(unix.ESRCH, err)
		}
		start := from
		for ; got >= entry; b, got = b[entry:], got-entry {
			switch e := binary.NativeEndian.Uint64(b); {
			case e&inRAM != 0:
				from += page
				continue
			case e&swapped != 0:
				return unix.EAGAIN
			}
			if from > start {
				if err := f(start, int(from-start)); err != nil {
					return err
				}
			}
			from += page
			start = from
		}
		if from > start {
			if err := f(start, int(from-start)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *PageMaps) of(pid int) (fd int, ok bool) {
	if fd, ok = p.Open[pid]; ok {
		return fd, true
	}
	fd, err := unix.Open(proc.Path(pid, "pagemap"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	if len(p.Open) >= maxPageMaps {
		for other := range p.Open {
			p.Forget(other)
		}
	}
	p.Open[pid] = fd
	return fd, true
}

// Forget is called when a process ends, or has a new program: an open file is about the
// memory that there was when it was opened.
func (p *PageMaps) Forget(pid int) {
	if fd, ok := p.Open[pid]; ok {
		unix.Close(fd)
		delete(p.Open, pid)
	}
}

// maxVector is the largest size in bytes of the strings of argv and envp that are sent.
const maxVector = 32 << 10

// ReadString reads a string of at most PATH_MAX bytes. It returns nil if it cannot be read.
func ReadString(tid int, addr uint64) []byte {
	b := proc.ReadMemory(tid, addr, make([]byte, unix.PathMax))
	text, _, ended := bytes.Cut(b, []byte{0})
	if !ended && len(b) < unix.PathMax {
		return nil
	}
	return text
}

// ReadVector reads a NULL-terminated array of strings of at most PATH_MAX bytes.
func ReadVector(tid int, addr uint64) [][]byte {
	if addr == 0 {
		return nil
	}
	all, text := [][]byte{}, window{tid: tid}
	for size := 0; size < maxVector; {
		const many = 64
		pointers := proc.ReadMemory(tid, addr, make([]byte, 8*many))
		addr += 8 * many
		for range many {
			if len(pointers) < 8 || binary.NativeEndian.Uint64(pointers) == 0 || size >= maxVector {
				return all
			}
			one := text.read(binary.NativeEndian.Uint64(pointers))
			if one == nil {
				return all
			}
			all = append(all, one)
			size += len(one) + 1
			pointers = pointers[8:]
		}
	}
	return all
}

// window is a part of a thread's memory, in which its next string is likely to be, too.
type window struct {
	tid  int
	from uint64
	b    []byte
}

// read is ReadString.
func (w *window) read(addr uint64) []byte {
	if text := w.cut(addr); text != nil {
		return text
	}
	const page, pages = 4096, 1 + unix.PathMax/4096
	w.from = addr &^ (page - 1)
	w.b = proc.ReadMemory(w.tid, w.from, make([]byte, pages*page))
	return w.cut(addr)
}

// cut returns the string at an address, or nil if the end of it is not in the window.
func (w *window) cut(addr uint64) []byte {
	if addr < w.from || addr-w.from >= uint64(len(w.b)) {
		return nil
	}
	b := w.b[addr-w.from:]
	text, _, ended := bytes.Cut(b[:min(len(b), unix.PathMax)], []byte{0})
	if !ended && len(text) < unix.PathMax {
		return nil
	}
	return text
}

// MappedAt returns where /proc/TID/maps shows an offset of a file as code, or 0.
func MappedAt(maps string, ino, offset uint64) uint64 {
	for line := range strings.Lines(maps) {
		m, ok := proc.ParseMapping(line)
		if ok && m.Ino == ino && m.Perms[2] == 'x' && offset >= m.Offset && offset-m.Offset < m.End-m.Start {
			return m.Start + offset - m.Offset
		}
	}
	return 0
}
