package module

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// maxSize is the largest size of a section and of an area, in bytes.
const maxSize = 16 << 20

// section is a section of a relocatable object and its place in memory.
type section struct {
	*elf.SectionHeader
	data []byte // nil for SHT_NOBITS
	area area
	off  uint64 // offset in its area
	addr uint64 // set by place; 0 if the section is not loaded
	own  []byte // contents of a section outside of the areas: per-CPU variables
}

// object is a parsed relocatable ELF file. Only its offsets and sizes have been
// checked, against the size of the file.
type object struct {
	sections []section
	symbols  []elf.Symbol // symbols[i] is symbol i+1 of the ELF file
	values   []uint64     // of the symbols by their ELF index, once they are resolved
	info     map[string]string
	args     string // what its parameters are set to
	all      symtab // its symbols in memory, and those that stay when init is done
	core     symtab
	kallsyms uint64            // the offset of struct mod_kallsyms in the area of all
	crcs     map[string]uint32 // of the symbols that it uses (__versions), or nil
}

// parse reads a .ko file. The sections' data refer to b. It returns ENOEXEC if b is
// not a valid relocatable object for x86-64.
func parse(b []byte) (*object, error) {
	o, err := parseELF(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", syscall.ENOEXEC, err)
	}
	return o, nil
}

func parseELF(b []byte) (*object, error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || f.Machine != elf.EM_X86_64 || f.Type != elf.ET_REL {
		return nil, fmt.Errorf("%v %v %v, not an x86-64 relocatable object", f.Class, f.Machine, f.Type)
	}
	o := &object{info: map[string]string{}}
	for _, s := range f.Sections {
		sec := section{SectionHeader: &s.SectionHeader, area: noArea}
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			if s.Offset > uint64(len(b)) || s.FileSize > uint64(len(b))-s.Offset {
				return nil, fmt.Errorf("section %s: %#x bytes at %#x of a file of %#x", s.Name, s.FileSize, s.Offset, len(b))
			}
			sec.data = b[s.Offset : s.Offset+s.FileSize]
		}
		if s.Flags&elf.SHF_COMPRESSED != 0 {
			return nil, fmt.Errorf("section %s is compressed", s.Name)
		}
		o.sections = append(o.sections, sec)
	}
	if o.symbols, err = f.Symbols(); err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, err
	}
	o.readInfo()
	o.readVersions()
	return o, nil
}

// readInfo reads .modinfo: zero-terminated strings "key=value". If a key occurs more
// than once, the first one counts.
func (o *object) readInfo() {
	i := slices.IndexFunc(o.sections, func(s section) bool { return s.Name == ".modinfo" })
	if i < 0 {
		return
	}
	for word := range bytes.SplitSeq(o.sections[i].data, []byte{0}) {
		k, v, ok := strings.Cut(string(word), "=")
		if _, dup := o.info[k]; ok && !dup {
			o.info[k] = v
		}
	}
}

// define returns the address of a symbol that the object defines.
func (o *object) define(s *elf.Symbol) (uint64, error) {
	switch {
	case s.Section == elf.SHN_ABS:
		return s.Value, nil
	case s.Section == elf.SHN_COMMON:
		return 0, fmt.Errorf("%s is a common symbol", s.Name)
	case int(s.Section) >= len(o.sections):
		return 0, fmt.Errorf("%s is in section %d of %d", s.Name, s.Section, len(o.sections))
	}
	sec := &o.sections[s.Section]
	if sec.addr == 0 {
		return 0, nil // in a section that is not loaded
	}
	if s.Value > sec.Size {
		return 0, fmt.Errorf("%s is at offset %#x of %s, whose size is %#x", s.Name, s.Value, sec.Name, sec.Size)
	}
	return sec.addr + s.Value, nil
}

// symbol returns the address of a defined symbol by name, and whether there is one.
func (o *object) symbol(name string) (uint64, bool) {
	for i := range o.symbols {
		s := &o.symbols[i]
		if s.Name == name && s.Section != elf.SHN_UNDEF {
			addr, err := o.define(s)
			return addr, err == nil && addr != 0
		}
	}
	return 0, false
}
