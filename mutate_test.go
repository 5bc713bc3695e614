package kprobefs_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"testing"
)

// editSize is the number of bytes that describe an edit: one for its kind, two for
// the place, one for the field, four for the value.
const editSize = 8

// maxEdits is the maximum number of edits of an object. With more, nearly all objects
// would be refused.
const maxEdits = 4

// Sizes and offsets of ELF64's tables.
const (
	headerShoff   = 0x28 // e_shoff, in the file's header
	sectionHeader = 64
	relaEntry     = 24
	symbolEntry   = 24
)

// mutator edits a relocatable object. Most edits change fields of table entries, so
// that they get past the ELF parser and test the loader.
type mutator struct {
	b        []byte
	sections []*elf.Section
	shoff    uint64
}

// mutate returns a copy of the object b with edits.
func mutate(tb testing.TB, b, edits []byte) []byte {
	tb.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		tb.Fatal(err)
	}
	m := &mutator{b: slices.Clone(b), sections: f.Sections, shoff: binary.LittleEndian.Uint64(b[headerShoff:])}
	for range maxEdits {
		if len(edits) < editSize {
			break
		}
		e := edit{edits[0], binary.LittleEndian.Uint16(edits[1:]), edits[3], binary.LittleEndian.Uint32(edits[4:])}
		edits = edits[editSize:]
		m.do(e)
	}
	return m.b
}

// edit is one change.
type edit struct {
	kind  byte
	where uint16
	field byte
	value uint32
}

func (m *mutator) do(e edit) {
	switch e.kind % 8 {
	case 0, 1:
		m.relocation(e)
	case 2:
		m.symbol(e)
	case 3, 4:
		if s, at := m.place(e, elf.SHT_PROGBITS, 1); s != nil { // code and data
			m.put(at, e.value, 1<<(e.field%3))
		}
	case 5:
		if s, at := m.place(e, elf.SHT_STRTAB, 1); s != nil {
			m.put(at, e.value, 1)
		}
	case 6:
		m.header(e)
	case 7:
		m.grow(e)
	}
}

// of returns the sections of a type.
func (m *mutator) of(kind elf.SectionType) (list []int) {
	for i, s := range m.sections {
		if s.Type == kind && s.Size > 0 {
			list = append(list, i)
		}
	}
	return list
}

// place chooses a section of a type, and an entry of size bytes in it.
func (m *mutator) place(e edit, kind elf.SectionType, size uint64) (*elf.Section, uint64) {
	list := m.of(kind)
	if len(list) == 0 {
		return nil, 0
	}
	s := m.sections[list[int(e.where)%len(list)]]
	n := s.FileSize / size
	if n == 0 {
		return nil, 0
	}
	return s, s.Offset + uint64(e.where)/uint64(len(list))%n*size
}

// put writes the low bytes of a value.
func (m *mutator) put(at uint64, value uint32, n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(int64(int32(value))))
	copy(m.b[min(at, uint64(len(m.b))):], b[:n])
}

// relocation changes r_offset, the type, the symbol or r_addend.
func (m *mutator) relocation(e edit) {
	s, at := m.place(e, elf.SHT_RELA, relaEntry)
	if s == nil {
		return
	}
	switch e.field % 4 {
	case 0:
		m.put(at, e.value%(1<<12), 8)
	case 1:
		m.put(at+8, e.value%44, 4) // R_X86_64_*
	case 2:
		m.put(at+12, e.value%512, 4)
	case 3:
		m.put(at+16, e.value, 8)
	}
}

// symbol changes st_info, st_shndx, st_value or st_size.
func (m *mutator) symbol(e edit) {
	s, at := m.place(e, elf.SHT_SYMTAB, symbolEntry)
	if s == nil {
		return
	}
	switch e.field % 4 {
	case 0:
		m.put(at+4, e.value, 1)
	case 1:
		m.put(at+6, e.value%uint32(len(m.sections)+2), 2)
	case 2:
		m.put(at+8, e.value%(1<<12), 8)
	case 3:
		m.put(at+16, e.value%(1<<16), 8)
	}
}

// header changes sh_type, sh_flags, sh_size, sh_link, sh_info, sh_addralign or
// sh_entsize of a section.
func (m *mutator) header(e edit) {
	i := int(e.where) % len(m.sections)
	at := m.shoff + uint64(i)*sectionHeader
	switch e.field % 7 {
	case 0:
		m.put(at+4, e.value%20, 4)
	case 1:
		m.put(at+8, e.value%(1<<12), 8)
	case 2:
		m.put(at+32, e.value%uint32(m.sections[i].FileSize+1), 8)
	case 3:
		m.put(at+40, e.value%uint32(len(m.sections)+1), 4)
	case 4:
		m.put(at+44, e.value%uint32(len(m.sections)+1), 4)
	case 5:
		m.put(at+48, 1<<(e.value%14), 8)
	case 6:
		m.put(at+56, e.value%64, 8)
	}
}

// grow moves a section to the end of the file and makes it longer.
func (m *mutator) grow(e edit) {
	i := int(e.where) % len(m.sections)
	s := m.sections[i]
	if s.Type == elf.SHT_NOBITS || s.Type == elf.SHT_NULL {
		return
	}
	for len(m.b)%16 != 0 {
		m.b = append(m.b, 0)
	}
	at := m.shoff + uint64(i)*sectionHeader
	begin := uint64(len(m.b))
	m.b = append(m.b, m.b[s.Offset:s.Offset+s.FileSize]...)
	more := e.value % 4096
	if entry := uint32(s.Entsize); entry > 1 {
		more -= more % entry
	}
	m.b = append(m.b, bytes.Repeat([]byte{e.field}, int(more))...)
	binary.LittleEndian.PutUint64(m.b[at+24:], begin)
	binary.LittleEndian.PutUint64(m.b[at+32:], uint64(len(m.b))-begin)
	s.Offset, s.FileSize = begin, uint64(len(m.b))-begin
}
