package module

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// area is one part of a module's memory. Linux has two, core and init, each with text,
// read-only data, data and symbols on separate pages. From 6.4 on each area is a piece of
// memory of its own, and the symbols are among the data.
type area int

// The order is as in the guest's struct load_info.
const (
	coreText area = iota
	coreRodata
	coreAfterInit // read only once init is done
	coreData
	coreSymbols
	initText
	initRodata
	initAfterInit
	initData
	initSymbols
	areas
	noArea area = -1
)

// isInit reports whether the area is freed when init is done.
func (a area) isInit() bool { return a >= initText }

// placed is an area with its address.
type placed struct {
	start uint64
	size  uint64 // bytes used by sections
	bytes []byte // contents, until they are mapped
}

func (p *placed) pages() uint64 { return (p.size + abi.PageSize - 1) / abi.PageSize }

// layout assigns each section that occupies memory to an area and to an offset there.
// pieces says that symbols are among the data, textOnly that symbols of data are not kept. It
// returns ENOEXEC for invalid sizes.
func (o *object) layout(at *[areas]placed, pieces, textOnly bool) error {
	for i := range o.sections {
		s := &o.sections[i]
		if !s.loaded() || s.Name == percpuSection { // for that see allocPercpu
			continue
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
	if pieces {
		o.planSymbols(at, coreData, initData, textOnly)
	} else {
		o.planSymbols(at, coreSymbols, initSymbols, textOnly)
	}
	return nil
}

// maxArgs is the maximum length of all arguments of a module in bytes.
const maxArgs = 2 << 20

// areaOf returns the area of a section. It depends on flags and name, as on Linux.
func areaOf(s *section) area {
	from := coreText
	if strings.HasPrefix(s.Name, ".init") {
		from = initText
	}
	switch {
	case s.Flags&elf.SHF_EXECINSTR != 0:
		return from + coreText
	case s.Flags&elf.SHF_WRITE == 0:
		return from + coreRodata
	case slices.Contains(afterInit, s.Name):
		return from + coreAfterInit
	}
	return from + coreData
}

// afterInit are the sections that are written until init is done.
var afterInit = []string{".data..ro_after_init", "__jump_table"}

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
	o.placeSymbols(at)
}

// listed returns the sections that /sys/module shows.
func (o *object) listed() []Section {
	var list []Section
	for i := range o.sections {
		s := &o.sections[i]
		if s.Size == 0 || s.addr == 0 || s.Name == percpuSection {
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
