package bpf

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// btfTypeSize is the size of struct btf_type, bytes.
const btfTypeSize = 12

// addedField is a member of a structure, or an argument of a function, of WithIterators. Its type is named as a type
// of the kernel, or one that was added.
type addedField struct {
	name string
	of   string
	byte uint32
}

// addedStruct is a structure that iterators show.
type addedStruct struct {
	name   string
	size   uint32
	fields []addedField
}

// iterStructs are the structures that programs of iterators see and that the guest has none of: maps, programs and
// iterations are not in its memory. They have 6.1's sizes, and the members that others ask for most at 6.1's places.
var iterStructs = []addedStruct{
	{"bpf_map", 256, []addedField{
		{"inner_map_meta", "*bpf_map", 8},
		{"map_type", "unsigned int", 24},
		{"key_size", "unsigned int", 28},
		{"value_size", "unsigned int", 32},
		{"max_entries", "unsigned int", 36},
		{"map_extra", "u64", 40},
		{"map_flags", "unsigned int", 48},
		{"id", "unsigned int", 68},
		{"btf_key_type_id", "unsigned int", 76},
		{"btf_value_type_id", "unsigned int", 80},
		{"name", "char[16]", 104},
		{"refcnt", "atomic64_t", 128},
		{"usercnt", "atomic64_t", 136},
		{"frozen", "bool", 233},
	}},
	{"bpf_prog", 72, []addedField{
		{"type", "unsigned int", 4}, {"expected_attach_type", "unsigned int", 8}, {"len", "unsigned int", 12}, {"tag", "u8[8]", 20}, {"aux", "*bpf_prog_aux", 56},
	}},
	{"bpf_prog_aux", 1040, []addedField{
		{"refcnt", "atomic64_t", 0},
		{"used_map_cnt", "unsigned int", 8},
		{"id", "unsigned int", 32},
		{"attach_btf_id", "unsigned int", 44},
		{"dst_prog", "*bpf_prog", 112},
		{"sleepable", "bool", 140},
		{"attach_func_name", "*char", 152},
		{"load_time", "u64", 880},
		{"verified_insns", "unsigned int", 888},
		{"name", "char[16]", 912},
	}},
	// What bpftool asks for before it lists maps of operations.
	{"bpf_map_info", 88, []addedField{
		{"type", "unsigned int", 0},
		{"id", "unsigned int", 4},
		{"key_size", "unsigned int", 8},
		{"value_size", "unsigned int", 12},
		{"max_entries", "unsigned int", 16},
		{"map_flags", "unsigned int", 20},
		{"name", "char[16]", 24},
		{"ifindex", "unsigned int", 40},
		{"btf_vmlinux_value_type_id", "unsigned int", 44},
		{"netns_dev", "u64", 48},
		{"netns_ino", "u64", 56},
		{"btf_id", "unsigned int", 64},
		{"btf_key_type_id", "unsigned int", 68},
		{"btf_value_type_id", "unsigned int", 72},
		{"map_extra", "u64", 80},
	}},
	{"bpf_iter_meta", 24, []addedField{{"", "seq|*seq_file", 0}, {"session_id", "u64", 8}, {"seq_num", "u64", 16}}},
}

// btfAdder adds types to a kernel's.
type btfAdder struct {
	types, names []byte
	next         uint32
	known        map[string]uint32 // by name; "*NAME" is a pointer, "NAME[N]" an array, and "MEMBER|NAME" a union of that member and 8 bytes
}

// WithIterators returns a kernel's types in BTF with its iterators': a function bpf_iter_NAME for each, what it
// gets, and the structures of that which are not there. It fails for types that cannot be read.
func WithIterators(raw []byte) ([]byte, error) {
	c := btfCheck{data: raw, log: &verifierLog{}}
	section, err := c.header()
	if err == nil {
		err = c.read(section)
	}
	if err != nil {
		return nil, fmt.Errorf("the kernel's types: %w", err)
	}
	a := btfAdder{types: append([]byte(nil), section...), names: append([]byte(nil), c.strings...), next: uint32(len(c.types)), known: map[string]uint32{}}
	for id, t := range c.types {
		if t != nil && (t.kind == btfInt || t.kind == btfStruct || t.kind == btfTypedef) {
			a.known[c.nameAt(t.name)] = uint32(id)
		}
	}
	for n, s := range iterStructs { // they refer to one another
		a.known[s.name] = a.next + uint32(n)
	}
	var later []byte
	last := a.next + uint32(len(iterStructs))
	heads := a
	heads.next = last
	heads.types = nil
	for _, s := range iterStructs {
		later = append(later, heads.structure(s)...)
	}
	a.names, a.next = heads.names, heads.next
	a.types = append(append(a.types, later...), heads.types...)
	for _, t := range iterTargets {
		a.iterator(t)
	}
	out := append([]byte(nil), raw[:btfHeader]...)
	f := fields(out)
	f.u32(4, btfHeader)
	f.u32(8, 0)
	f.u32(12, uint32(len(a.types)))
	f.u32(16, uint32(len(a.types)))
	f.u32(20, uint32(len(a.names)))
	return append(append(out, a.types...), a.names...), nil
}

// iterator adds the function of a target and the structure with what it gets.
func (a *btfAdder) iterator(t *iterTarget) {
	arg := "*" + t.shows
	a.add(a.structure(addedStruct{"bpf_iter__" + t.name, 16, []addedField{{"", "meta|*bpf_iter_meta", 0}, {"", t.arg + "|" + arg, 8}}}))
	proto := a.add(a.function(addedField{"meta", "*bpf_iter_meta", 0}, addedField{t.arg, arg, 0}))
	a.add(a.head(iterPrefix+t.name, btfFunc, 0, proto))
}

// name returns where a name is in the strings, which it adds.
func (a *btfAdder) name(s string) uint32 {
	if s == "" {
		return 0
	}
	at := uint32(len(a.names))
	a.names = append(append(a.names, s...), 0)
	return at
}

// head is a struct btf_type.
func (a *btfAdder) head(name string, kind, count, of uint32) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, btfTypeSize), a.name(name))
	b = binary.LittleEndian.AppendUint32(b, kind<<24|count)
	return binary.LittleEndian.AppendUint32(b, of)
}

// add adds a type, and returns its number.
func (a *btfAdder) add(b []byte) uint32 {
	a.types = append(a.types, b...)
	a.next++
	return a.next - 1
}

// structure is a structure; what its members refer to is added before.
func (a *btfAdder) structure(s addedStruct) []byte {
	b := a.head(s.name, btfStruct, uint32(len(s.fields)), s.size)
	for _, f := range s.fields {
		b = a.member(b, f.name, a.id(f.of), f.byte)
	}
	return b
}

func (a *btfAdder) member(b []byte, name string, of, byteOff uint32) []byte {
	b = binary.LittleEndian.AppendUint32(b, a.name(name))
	b = binary.LittleEndian.AppendUint32(b, of)
	return binary.LittleEndian.AppendUint32(b, 8*byteOff)
}

// function is the type of a function that returns an int.
func (a *btfAdder) function(args ...addedField) []byte {
	b := a.head("", btfFuncProto, uint32(len(args)), a.id("int"))
	for _, f := range args {
		b = binary.LittleEndian.AppendUint32(b, a.name(f.name))
		b = binary.LittleEndian.AppendUint32(b, a.id(f.of))
	}
	return b
}

// id returns the number of a type by its name, and adds it if it is a pointer, an array or a union. A type that the kernel has
// not got is void.
func (a *btfAdder) id(name string) uint32 {
	if id, ok := a.known[name]; ok {
		return id
	}
	id := uint32(0)
	if member, of, is := strings.Cut(name, "|"); is {
		b := a.member(a.head("", btfUnion, 2, 8), member, a.id(of), 0)
		id = a.add(a.member(b, "", a.id("u64"), 0))
	} else if name[0] == '*' {
		id = a.add(a.head("", btfPtr, 0, a.id(name[1:])))
	} else if of, count, is := strings.Cut(name, "["); is {
		b := binary.LittleEndian.AppendUint32(a.head("", btfArray, 0, 0), a.id(of))
		b = binary.LittleEndian.AppendUint32(b, a.id("unsigned int"))
		n := uint32(0)
		_, _ = fmt.Sscanf(count, "%d]", &n)
		id = a.add(binary.LittleEndian.AppendUint32(b, n))
	}
	a.known[name] = id
	return id
}
