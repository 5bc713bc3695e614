// Package field describes the bytes of an entry: which members it has (the lines of an
// event's file format), what kind each is, and how its number or string is read from
// the entry.
//
// It knows entries as bytes with struct trace_entry at their start. It does not know
// events, or what filters, histograms and lines of trace make of the members. What runs
// in handler context (Load, Extend, Text, StringAt, Uint, PutUint, PutDataLoc) allocates
// nothing and takes malformed entries.
package field

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// HeaderSize is the size of struct trace_entry, with which each entry begins, bytes.
const HeaderSize = 8

// Bits of trace_entry.flags.
const (
	FlagIRQsOff       = 0x01
	FlagNeedResched   = 0x04
	FlagHardirq       = 0x08
	FlagSoftirq       = 0x10
	FlagPreemptNeeded = 0x20
	FlagNMI           = 0x40
	FlagBHOff         = 0x80
)

// Number is a number in an entry: Size bytes, at most 8, at Offset.
type Number struct {
	Offset, Size int
	Signed       bool
}

// Load returns the number in an entry, extended to 64 bits. Bytes that the entry does
// not have count as 0; it must reach to Offset.
func (n Number) Load(entry []byte) uint64 {
	var b [8]byte
	copy(b[:n.Size], entry[n.Offset:])
	return n.Extend(binary.LittleEndian.Uint64(b[:]))
}

// Extend truncates v to the number's size and extends it according to its signedness.
func (n Number) Extend(v uint64) uint64 {
	shift := 64 - 8*n.Size
	if n.Signed {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}

// Within reports whether the entry is long enough for the number.
func (n Number) Within(entry []byte) bool { return n.Offset+n.Size <= len(entry) }

// Field is ftrace_event_field: a member of an entry as the file format declares it.
type Field struct {
	Decl string // type and name, as "unsigned long ip" or "char buf[16]"
	Number
}

// New returns a field; decl is its type and name, offset and size are in bytes.
func New(decl string, offset, size int, signed bool) Field {
	return Field{decl, Number{offset, size, signed}}
}

// Common are the members of struct trace_entry.
var Common = [...]Field{
	New("unsigned short common_type", 0, 2, false),
	New("unsigned char common_flags", 2, 1, false),
	New("unsigned char common_preempt_count", 3, 1, false),
	New("int common_pid", 4, 4, true),
}

// String returns the field's line of the file format.
func (f Field) String() string {
	signed := 0
	if f.Signed {
		signed = 1
	}
	return fmt.Sprintf("\tfield:%s;\toffset:%d;\tsize:%d;\tsigned:%d;\n", f.Decl, f.Offset, f.Size, signed)
}

// Parse is the inverse of String, without the newline.
func Parse(line string) (f Field, _ error) {
	parts := strings.Split(strings.TrimPrefix(line, "\tfield:"), ";\t")
	if len(parts) != 4 {
		return f, fmt.Errorf("field %q has %d parts", line, len(parts))
	}
	var signed int
	_, err := fmt.Sscanf(strings.Join(parts[1:], " "), "offset:%d size:%d signed:%d;", &f.Offset, &f.Size, &signed)
	f.Decl, f.Signed = parts[0], signed == 1
	if err != nil {
		return f, fmt.Errorf("field %q: %w", line, err)
	}
	return f, nil
}

// Name returns the field's name without its type and the array brackets.
func (f Field) Name() string {
	name := f.Decl[strings.LastIndexByte(f.Decl, ' ')+1:]
	name, _, _ = strings.Cut(name, "[")
	return name
}

// PlainChar reports whether the field is a char or an array of them.
func (f Field) PlainChar() bool {
	return strings.HasPrefix(f.Decl, "char ") || strings.HasPrefix(f.Decl, "__data_loc char[] ")
}

// Member returns the field as filters, histograms and eprobes use it.
func (f Field) Member() *Member {
	i := strings.LastIndexByte(f.Decl, ' ')
	m := &Member{Number: f.Number, Name: f.Decl[i+1:], Type: f.Decl[:i]}
	name, array, isArray := strings.Cut(m.Name, "[")
	switch {
	case strings.HasPrefix(m.Type, "__data_loc ") && strings.Contains(m.Type, "char"):
		m.Kind = DataLocText
	case strings.HasPrefix(m.Type, "__data_loc "):
		m.Kind = DataLoc
	case strings.HasPrefix(f.Decl, "const char * ") || strings.HasPrefix(f.Decl, "char * "):
		m.Kind = TextPointer
	case isArray && (m.Type == "char" || m.Type == "unsigned char"):
		m.Kind = CharArray
		m.Type = fmt.Sprintf("%s[%d]", m.Type, f.Size)
	case isArray:
		m.Kind = Array
		m.Type += "[" + array
	}
	m.Name = name
	return m
}

// Kind is what a member of an entry holds.
type Kind byte

// The kinds.
const (
	Integer     Kind = iota
	DataLocText      // a __data_loc: offset and length of a string in the entry
	DataLoc          // a __data_loc of something else, such as a stack
	CharArray        // a char NAME[SIZE]
	TextPointer      // a char *: the address of a string
	Array            // an array of something else
)

// Member is a field with its type and name taken apart, as filters, histograms and
// eprobes name it.
type Member struct {
	Name, Type string // Type is as hist triggers compare it: "char[16]", "__data_loc char[]"
	Kind       Kind
	Number
}

// Members returns the common fields and others by name.
func Members(others []Field) map[string]*Member {
	byName := map[string]*Member{}
	for _, f := range append(Common[:], others...) {
		m := f.Member()
		byName[m.Name] = m
	}
	return byName
}

// IsText reports whether the entry has the member's bytes as a string: a char array or a
// __data_loc.
func (m *Member) IsText() bool {
	return m.Kind == DataLocText || m.Kind == DataLoc || m.Kind == CharArray
}

// IsStack reports whether the member is a stack: a long[] of a synthetic event.
func (m *Member) IsStack() bool { return m.Kind == DataLoc && strings.Contains(m.Type, "long[") }

// Text returns the string in a member of an entry, without its NUL, or nil if the entry
// is too short for it.
func (m *Member) Text(entry []byte) []byte {
	if !m.Within(entry) {
		return nil
	}
	if m.Kind == DataLocText || m.Kind == DataLoc {
		s, n := StringAt(entry, m.Offset)
		return CutNUL(s[:n])
	}
	return CutNUL(entry[m.Offset : m.Offset+m.Size])
}

// dataLocOffset is the offset part of a __data_loc; the rest is the length.
const dataLocOffset = 0xffff

// PutDataLoc writes a __data_loc of n bytes at offset of the entry to b.
func PutDataLoc(b []byte, offset, n int) {
	binary.LittleEndian.PutUint32(b, uint32(n)<<16|uint32(offset)&dataLocOffset)
}

// PutUint fills b with a little-endian number.
func PutUint(b []byte, v uint64) {
	if len(b) == 8 { // the usual case
		binary.LittleEndian.PutUint64(b, v)
		return
	}
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
}

// Uint returns the little-endian number that b holds; b has at most 8 bytes.
func Uint(b []byte) (v uint64) {
	if len(b) == 8 {
		return binary.LittleEndian.Uint64(b)
	}
	for i := range b {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}

// StringAt returns the entry from the start of the string that a __data_loc refers to,
// and the string's length with the NUL. n is 0 if the string could not be read or the
// entry is malformed.
func StringAt(entry []byte, at int) (from []byte, n int) {
	if at+4 > len(entry) {
		return nil, 0
	}
	loc := binary.LittleEndian.Uint32(entry[at:])
	start, n := int(loc&dataLocOffset), int(loc>>16)
	if start+n > len(entry) {
		return nil, 0
	}
	return entry[start:], n
}

// StackAt returns the stack in a member of an entry, its length first.
func StackAt(entry []byte, offset int) []byte {
	from, n := StringAt(entry, offset)
	return from[:n]
}

// CutNUL returns b up to its first NUL.
func CutNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}
