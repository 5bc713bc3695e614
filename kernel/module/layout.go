package module

import (
	"debug/elf"
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// area is one piece of a module's memory. Linux has two, core and init, each
// with text, read-only data and data on pages of their own.
type area int

const (
	coreText area = iota
	coreRodata
	coreData
	initText
	initData
	areas
	noArea area = -1
)

// placed is where an area lies.
type placed struct {
	start uint64
	size  uint64 // bytes that sections take
	bytes []byte // contents, before they are given to the machine
}

func (p *placed) pages() uint64 { return (p.size + abi.PageSize - 1) / abi.PageSize }

// layout sorts the sections that take memory into areas and gives each its
// offset there. ENOEXEC: sizes that cannot be; ENOMEM: per-CPU data, for which
// modules have no room here.
func (o *object) layout(at *[areas]placed) error {
	for i := range o.sections {
		s := &o.sections[i]
		if s.Flags&elf.SHF_ALLOC == 0 || s.Name == ".modinfo" || s.Name == "__versions" || strings.HasPrefix(s.Name, ".note") {
			continue
		}
		if s.Name == ".data..percpu" && s.Size > 0 {
			return fmt.Errorf("%d bytes of per-CPU data in a module: %w", s.Size, syscall.ENOMEM)
		}
		s.area = areaOf(s)
		a := &at[s.area]
		align := max(s.Addralign, 1)
		if align&(align-1) != 0 || align > abi.PageSize || s.Size > maxSize || a.size > maxSize {
			return fmt.Errorf("section %s: %#x bytes aligned to %#x: %w", s.Name, s.Size, align, syscall.ENOEXEC)
		}
		if s.Type != elf.SHT_NOBITS && uint64(len(s.data)) != s.Size {
			return fmt.Errorf("section %s has %#x of %#x bytes: %w", s.Name, len(s.data), s.Size, syscall.ENOEXEC)
		}
		s.off = (a.size + align - 1) &^ (align - 1)
		a.size = s.off + s.Size
	}
	return nil
}

// areaOf is where a section belongs, by its flags and its name as Linux does.
func areaOf(s *section) area {
	init := strings.HasPrefix(s.Name, ".init")
	switch {
	case s.Flags&elf.SHF_EXECINSTR != 0 && init:
		return initText
	case s.Flags&elf.SHF_EXECINSTR != 0:
		return coreText
	case init:
		return initData
	case s.Flags&elf.SHF_WRITE != 0:
		return coreData
	}
	return coreRodata
}

// place gives areas and sections their addresses and the areas their contents.
func (o *object) place(at *[areas]placed, base [areas]uint64) {
	for i := range at {
		at[i].start = base[i]
		at[i].bytes = make([]byte, at[i].size)
	}
	for i := range o.sections {
		s := &o.sections[i]
		if s.area == noArea {
			continue
		}
		s.addr = at[s.area].start + s.off
		copy(at[s.area].bytes[s.off:], s.data)
	}
}
