package module

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// Sizes of Elf64_Sym and of struct mod_kallsyms, bytes.
const (
	symLen      = 24
	kallsymsLen = 32
)

// symtab is one of the tables of symbols that a module has in its memory (struct
// mod_kallsyms): all of them until init is done, or those that stay. It lies in an area,
// from off on: entries, names, letters.
type symtab struct {
	area  area
	off   uint64
	index []int // of the symbols in the ELF file's table
	names []byte
}

func (t *symtab) strtab() uint64  { return t.off + symLen*uint64(len(t.index)) }
func (t *symtab) typetab() uint64 { return t.strtab() + uint64(len(t.names)) }
func (t *symtab) end() uint64     { return t.typetab() + uint64(len(t.index)) }

// table returns the section with the object's symbols and the one with their names, or nil.
func (o *object) table() (syms, names *section) {
	i := slices.IndexFunc(o.sections, func(s section) bool { return s.Type == elf.SHT_SYMTAB })
	if i < 0 || int(o.sections[i].Link) >= len(o.sections) || len(o.sections[i].data) < symLen*(len(o.symbols)+1) {
		return nil, nil
	}
	return &o.sections[i], &o.sections[o.sections[i].Link]
}

// loaded reports whether a section comes into the module's memory.
func (s *section) loaded() bool {
	return s.Flags&elf.SHF_ALLOC != 0 && s.Name != ".modinfo" && s.Name != "__versions"
}

// isCore is is_core_symbol: the symbol stays when init is done. With textOnly, symbols of
// data do not.
func (o *object) isCore(s *elf.Symbol, textOnly bool) bool {
	if s.Name == "" || s.Section == elf.SHN_UNDEF || int(s.Section) >= len(o.sections) {
		return false
	}
	sec := &o.sections[s.Section]
	return sec.loaded() && !strings.HasPrefix(sec.Name, ".init") && (!textOnly || sec.Flags&elf.SHF_EXECINSTR != 0)
}

// planSymbols finds room for the tables at the end of the areas core and init
// (layout_symtab). With textOnly, symbols of data are not kept.
func (o *object) planSymbols(at *[areas]placed, core, init area, textOnly bool) {
	_, names := o.table()
	if names == nil {
		return
	}
	o.all = symtab{area: init, names: slices.Clone(names.data)}
	o.core = symtab{area: core, names: []byte{0}}
	for i := range len(o.symbols) + 1 {
		o.all.index = append(o.all.index, i)
		if i == 0 {
			o.core.index = append(o.core.index, 0)
		} else if s := &o.symbols[i-1]; o.isCore(s, textOnly) {
			o.core.index = append(o.core.index, i)
			o.core.names = append(append(o.core.names, s.Name...), 0)
		}
	}
	for _, t := range []*symtab{&o.all, &o.core} {
		a := &at[t.area]
		t.off = (a.size + 7) &^ 7
		a.size = t.end()
	}
	o.kallsyms = (at[init].size + 7) &^ 7
	at[init].size = o.kallsyms + kallsymsLen
}

// placeSymbols sets the addresses of the sections that the table of all symbols is made of.
func (o *object) placeSymbols(at *[areas]placed) {
	if syms, names := o.table(); len(o.all.index) > 0 {
		start := at[o.all.area].start
		syms.addr, names.addr = start+o.all.off, start+o.all.strtab()
	}
}

// fillSymbols writes the tables (add_kallsyms), once the symbols are resolved.
func (o *object) fillSymbols(at *[areas]placed) {
	syms, _ := o.table()
	if len(o.all.index) == 0 {
		return
	}
	for _, t := range []*symtab{&o.all, &o.core} {
		to, name := at[t.area].bytes, uint32(1)
		copy(to[t.strtab():], t.names)
		for n, i := range t.index {
			entry := to[t.off+symLen*uint64(n):][:symLen]
			copy(entry, syms.data[symLen*i:])
			to[t.typetab()+uint64(n)] = '?'
			if i == 0 {
				to[t.typetab()] = 'U'
				continue
			}
			binary.LittleEndian.PutUint64(entry[8:], o.values[i])
			to[t.typetab()+uint64(n)] = o.elfType(&o.symbols[i-1])
			if t == &o.core {
				binary.LittleEndian.PutUint32(entry, name)
				name += uint32(len(o.symbols[i-1].Name)) + 1
			}
		}
	}
	copy(at[o.all.area].bytes[o.kallsyms:], words(o.kallsymsWords(at, &o.all)...))
}

// kallsymsWords are the members of struct mod_kallsyms.
func (o *object) kallsymsWords(at *[areas]placed, t *symtab) []uint64 {
	if len(t.index) == 0 {
		return make([]uint64, 4)
	}
	start := at[t.area].start
	return []uint64{start + t.off, uint64(len(t.index)), start + t.strtab(), start + t.typetab()}
}

// elfType is elf_type: nm's letter for any symbol, in lower case where it is not exported.
func (o *object) elfType(s *elf.Symbol) byte {
	weak := elf.ST_BIND(s.Info) == elf.STB_WEAK
	switch {
	case weak && elf.ST_TYPE(s.Info) == elf.STT_OBJECT:
		return 'v'
	case weak:
		return 'w'
	case s.Section == elf.SHN_UNDEF:
		return 'U'
	case s.Section == elf.SHN_ABS, int(s.Section) < len(o.sections) && o.sections[s.Section].Name == percpuSection:
		return 'a'
	case int(s.Section) >= len(o.sections):
		return '?'
	case o.sections[s.Section].Flags&elf.SHF_ALLOC == 0:
		return 'n'
	}
	return o.letter(s)
}

// words returns numbers of eight bytes as the guest has them.
func words(list ...uint64) []byte {
	var b []byte
	for _, w := range list {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}
