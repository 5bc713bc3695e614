package module

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// area is one part of a module's memory. Linux has two, core and init, each with
// text, read-only data and data on separate pages.
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

// placed is an area with its address.
type placed struct {
	start uint64
	size  uint64 // bytes used by sections
	bytes []byte // contents, until they are mapped
}

func (p *placed) pages() uint64 { return (p.size + abi.PageSize - 1) / abi.PageSize }

// layout assigns each section that occupies memory to an area and to an offset there.
// It returns ENOEXEC for invalid sizes.
func (o *object) layout(at *[areas]placed) error {
	for i := range o.sections {
		s := &o.sections[i]
		if s.Flags&elf.SHF_ALLOC == 0 || s.Name == ".modinfo" || s.Name == "__versions" {
			continue
		}
		if s.Name == percpuSection {
			continue // see allocPercpu
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
	if len(o.args) > maxArgs {
		return fmt.Errorf("%d bytes of arguments: %w", len(o.args), syscall.EINVAL)
	}
	if o.section(descSection) != nil {
		data := &at[coreData]
		o.argsOff = data.size
		data.size += uint64(len(o.args)) + 1
	}
	return nil
}

// maxArgs is the maximum length of all arguments of a module in bytes.
const maxArgs = 2 << 20

// areaOf returns the area of a section. It depends on flags and name, as on Linux.
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

// place sets the addresses of areas and sections, and copies the sections' contents.
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
	if o.section(descSection) != nil {
		copy(at[coreData].bytes[o.argsOff:], o.args)
	}
}

// listed returns the sections that /sys/module shows.
func (o *object) listed() []Section {
	var list []Section
	for i := range o.sections {
		s := &o.sections[i]
		if s.Flags&elf.SHF_ALLOC == 0 || s.Size == 0 || s.addr == 0 {
			continue
		}
		sec := Section{Name: s.Name, Addr: s.addr}
		if s.Type == elf.SHT_NOTE {
			sec.Note = slices.Clone(s.data)
		}
		list = append(list, sec)
	}
	return list
}

// symtabSize returns how much memory Linux has for the symbols of the core areas (with
// CONFIG_KALLSYMS_ALL), in bytes: entries of symbols, their names and letters, on pages of
// their own. Here they are not in the guest's memory.
func (o *object) symtabSize() uint64 {
	const entry = 24 + 1
	size := uint64(entry + 1)
	for i := range o.symbols {
		s := &o.symbols[i]
		if s.Name == "" || s.Section == elf.SHN_UNDEF || int(s.Section) >= len(o.sections) {
			continue
		}
		if sec := &o.sections[s.Section]; sec.Flags&elf.SHF_ALLOC != 0 && !strings.HasPrefix(sec.Name, ".init") {
			size += entry + uint64(len(s.Name)) + 1
		}
	}
	return (size + abi.PageSize - 1) &^ (abi.PageSize - 1)
}
