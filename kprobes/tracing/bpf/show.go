package bpf

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf/btf"
)

// showFlags are BTF_F_COMPACT and its kin.
type showFlags uint64

const (
	showCompact showFlags = 1 << iota // all on one line
	showNoName                        // neither types nor members
	showPtrRaw                        // addresses as they are
	showZero                          // also what is zero

	showAll = showCompact | showNoName | showPtrRaw | showZero
)

// show is struct btf_show: memory as text, by its type.
type show struct {
	flags   showFlags
	hash    func(uint64) uint32 // what %p makes of an address
	out     strings.Builder
	depth   int
	member  string // the name of the member that comes next
	inArray bool   // names are not shown; it ends with an array in an element too
}

// showValue returns what bpf_snprintf_btf makes of memory.
func showValue(t btf.Type, data []byte, flags showFlags, hash func(uint64) uint32) string {
	s := &show{flags: flags, hash: hash}
	s.value(t, data)
	if _, unknown := unqualified(t); !unknown && flags&showCompact == 0 {
		s.out.WriteByte('\n')
	}
	return s.out.String()
}

// unqualified returns a type without its qualifiers and other names, and whether it is of a kind without values.
func unqualified(t btf.Type) (_ btf.Type, unknown bool) {
	switch t = btf.UnderlyingType(t); t.(type) {
	case *btf.Int, *btf.Pointer, *btf.Array, *btf.Struct, *btf.Union, *btf.Enum:
		return t, false
	}
	return t, true
}

// value shows one value. Without showZero, what is zero is left out, but for the whole.
func (s *show) value(t btf.Type, data []byte) {
	under, unknown := unqualified(t)
	if unknown {
		fmt.Fprintf(&s.out, "<unsupported kind:%d>", kindOf(under))
		return
	}
	switch u := under.(type) {
	case *btf.Struct:
		s.aggregate(t, '}', func() { s.members(u.Members, data) })
	case *btf.Union:
		s.aggregate(t, '}', func() { s.members(u.Members, data) })
	case *btf.Array:
		s.aggregate(t, ']', func() { s.elements(u, data) })
	default:
		s.start(t)
		s.out.WriteString(s.scalar(under, data))
		s.end("")
	}
}

// start is btf_show_start_type: the member's name, and the type's.
func (s *show) start(t btf.Type) {
	s.indent()
	s.out.WriteString(s.name(t))
}

// end is btf_show_end_type.
func (s *show) end(text string) {
	s.out.WriteString(text)
	if s.depth > 0 {
		s.out.WriteByte(',')
		s.newline()
	}
}

func (s *show) indent() {
	if s.flags&showCompact == 0 {
		s.out.WriteString(strings.Repeat(" ", s.depth))
	}
}

func (s *show) newline() {
	if s.flags&showCompact == 0 {
		s.out.WriteByte('\n')
	}
}

func (s *show) aggregate(t btf.Type, closing byte, inner func()) {
	s.start(t)
	s.newline()
	s.depth++
	inner()
	s.depth--
	s.indent()
	s.end(string(closing))
}

// members shows those that are not zero.
func (s *show) members(all []btf.Member, data []byte) {
	for _, m := range all {
		s.member = m.Name
		if m.BitfieldSize > 0 {
			s.bits(m, data)
			continue
		}
		part := data[min(len(data), int(m.Offset.Bytes())):]
		if s.empty(m.Type, part) {
			continue
		}
		s.value(m.Type, part)
	}
	s.member = ""
}

// empty reports whether there is nothing to show of a value. Linux walks through it for that, with what the end of an array
// makes it forget.
func (s *show) empty(t btf.Type, data []byte) bool {
	if s.flags&showZero != 0 {
		return false
	}
	if hasArray(t) {
		s.inArray = false
	}
	return !shows(t, data)
}

func hasArray(t btf.Type) bool {
	inside := func(m btf.Member) bool { return hasArray(m.Type) }
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Array:
		return true
	case *btf.Struct:
		return slices.ContainsFunc(u.Members, inside)
	case *btf.Union:
		return slices.ContainsFunc(u.Members, inside)
	}
	return false
}

// bits shows a bitfield: btf_int128_print.
func (s *show) bits(m btf.Member, data []byte) {
	v := bitsOf(m, data)
	if v.Sign() == 0 && s.flags&showZero == 0 {
		return
	}
	s.start(m.Type)
	fmt.Fprintf(&s.out, "0x%x", v)
	s.end("")
}

func bitsOf(m btf.Member, data []byte) *big.Int {
	first, last := m.Offset.Bytes(), (uint32(m.Offset)+uint32(m.BitfieldSize)+7)/8
	v := littleEndian(data[min(len(data), int(first)):min(len(data), int(last))])
	v.Rsh(v, uint(m.Offset%8))
	return v.And(v, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(m.BitfieldSize)), big.NewInt(1)))
}

func littleEndian(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// elements shows an array. Elements of one byte are characters, to the first NUL.
func (s *show) elements(a *btf.Array, data []byte) {
	size, of := spacing(a)
	s.inArray = true
	for n := range int(a.Nelems) {
		part := data[min(len(data), n*size):]
		if of != nil && (len(part) == 0 || part[0] == 0) {
			break
		}
		if s.empty(a.Type, part) {
			continue
		}
		if of != nil {
			s.start(a.Type)
			s.out.WriteString(character(of, part[0]))
			s.end("")
			continue
		}
		s.value(a.Type, part)
	}
	s.inArray = false
}

// spacing returns how far the elements of an array are apart, and their type if they are characters. Linux sees the first of
// an array of pointers, and of one of arrays, again and again (btf_type_has_size).
func spacing(a *btf.Array) (size int, character *btf.Int) {
	under, _ := unqualified(a.Type)
	switch u := under.(type) {
	case *btf.Pointer, *btf.Array:
		return 0, nil
	case *btf.Int:
		if u.Size == 1 {
			return 1, u
		}
	}
	size, _ = btf.Sizeof(under)
	return size, nil
}

// character is how an element of one byte is shown. What is printed is so in ISO 8859-1.
func character(of *btf.Int, c byte) string {
	if c >= 0x20 && c < 0x7f || c >= 0xa0 {
		return string([]byte{'\'', c, '\''})
	}
	return decimal(uint64(c), 1, of.Encoding == btf.Signed)
}

// errPointers is where the addresses begin that stand for an errno (IS_ERR), which are shown as they are.
const errPointers = 1<<64 - 4095

// scalar returns the text of a number, an address or a name of an enum.
func (s *show) scalar(t btf.Type, data []byte) string {
	switch u := t.(type) {
	case *btf.Pointer:
		v := wordOf(data, 8)
		if s.flags&showPtrRaw == 0 && v != 0 && v < errPointers && s.hash != nil {
			v = uint64(s.hash(v))
		}
		return fmt.Sprintf("0x%016x", v)
	case *btf.Enum:
		v := wordOf(data, int(u.Size))
		for _, e := range u.Values {
			if e.Value == v || u.Size < 8 && uint32(e.Value) == uint32(v) {
				return e.Name
			}
		}
		return decimal(v, int(u.Size), u.Signed)
	case *btf.Int:
		if u.Size > 8 {
			return fmt.Sprintf("0x%x", littleEndian(data[:min(len(data), int(u.Size))]))
		}
		return decimal(wordOf(data, int(u.Size)), int(u.Size), u.Encoding == btf.Signed)
	}
	return ""
}

// wordOf reads a number of up to 8 bytes.
func wordOf(data []byte, size int) uint64 {
	var b [8]byte
	copy(b[:min(size, 8)], data)
	return binary.LittleEndian.Uint64(b[:])
}

// decimal returns the text of a number of so many bytes.
func decimal(v uint64, size int, signed bool) string {
	if !signed {
		return fmt.Sprint(v)
	}
	shift := 64 - 8*min(size, 8)
	return fmt.Sprint(int64(v<<shift) >> shift)
}

// shows reports whether there is something to show of a value without showZero: something that is not zero, or a name.
func shows(t btf.Type, data []byte) bool {
	under, unknown := unqualified(t)
	if unknown {
		return true
	}
	switch u := under.(type) {
	case *btf.Struct:
		return anyShows(u.Members, data)
	case *btf.Union:
		return anyShows(u.Members, data)
	case *btf.Array:
		size, of := spacing(u)
		if of != nil {
			return u.Nelems > 0 && len(data) > 0 && data[0] != 0
		}
		for n := range int(u.Nelems) {
			if shows(u.Type, data[min(len(data), n*size):]) {
				return true
			}
		}
		return false
	case *btf.Enum:
		return wordOf(data, int(u.Size)) != 0 || slices.ContainsFunc(u.Values, func(e btf.EnumValue) bool { return e.Value == 0 })
	case *btf.Int:
		return slices.ContainsFunc(data[:min(len(data), int(u.Size))], func(b byte) bool { return b != 0 })
	}
	return wordOf(data, 8) != 0
}

func anyShows(all []btf.Member, data []byte) bool {
	return slices.ContainsFunc(all, func(m btf.Member) bool {
		if m.BitfieldSize > 0 {
			return bitsOf(m, data).Sign() != 0
		}
		return shows(m.Type, data[min(len(data), int(m.Offset.Bytes())):])
	})
}

// name is btf_show_name: the member's name, and the type's with the opening brace of what comes in it. An array's elements
// have none of it.
func (s *show) name(t btf.Type) string {
	if s.inArray {
		return ""
	}
	member, name := s.member, ""
	s.member = ""
	pointers, arrays := "", ""
	for done := false; !done; {
		switch u := t.(type) {
		case *btf.Typedef:
			if name == "" {
				name = u.Name
			}
			t = u.Type
		case *btf.Const:
			t = u.Type
		case *btf.Volatile:
			t = u.Type
		case *btf.Restrict:
			t = u.Type
		case *btf.TypeTag:
			t = u.Type
		case *btf.Pointer:
			pointers += "*"
			t = u.Target
		case *btf.Array:
			arrays += "[]"
			t = u.Type
		default:
			done = true
		}
	}
	prefix, open := "", ""
	switch u := t.(type) {
	case *btf.Struct:
		prefix, open = "struct", "{"
	case *btf.Union:
		prefix, open = "union", "{"
	case *btf.Fwd:
		prefix = "struct"
		if u.Kind == btf.FwdUnion {
			prefix = "union"
		}
	case *btf.Enum:
		prefix = "enum"
	}
	if name == "" {
		name = t.TypeName()
	} else { // a typedef's, which comes without struct, union or enum
		prefix = ""
	}
	switch {
	case pointers != "":
		open = ""
	case arrays != "":
		open = "["
	}
	if s.flags&showNoName != 0 {
		return open
	}
	text := ""
	if member != "" {
		text = "." + member + " = "
	}
	if prefix != "" && name != "" {
		prefix += " "
	}
	if pointers != "" {
		pointers = " " + pointers
	}
	return text + "(" + prefix + name + pointers + arrays + ")" + open
}

// shown returns the text of the memory that a struct btf_ptr names: bpf_btf_printf_prepare.
func (r *run) shown(addr, size, flags uint64) (string, error) {
	if flags&^uint64(showAll) != 0 || size != 16 {
		return "", syscall.EINVAL
	}
	b := r.fetch(addr, 16)
	if b == nil {
		return "", nil
	}
	ptr, id := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
	if int32(id) <= 0 {
		if id == 0 {
			return "", syscall.EINVAL
		}
		return "", syscall.ENOENT
	}
	spec := r.sys.types.parsed()
	if spec == nil {
		return "", syscall.EINVAL
	}
	t, err := spec.TypeByID(btf.TypeID(id))
	if err != nil {
		return "", syscall.ENOENT
	}
	n, err := btf.Sizeof(t)
	if err != nil {
		n = 0
	}
	data := make([]byte, n)
	if own := r.bytes(ptr, n); own != nil {
		copy(data, own)
	} else if n > 0 && (!kernelSpace.allows(ptr, uint64(n)) || r.hit.Trap.Mem.ReadAt(ptr, data) != nil) {
		return "", syscall.ERANGE
	}
	return showValue(t, data, showFlags(flags), r.sys.conf.HashPtr), nil
}

// snprintfBTF is bpf_snprintf_btf. It returns the length of the whole text.
func (r *run) snprintfBTF(a *[numArgs]uint64) uint64 {
	text, err := r.shown(a[2], uint64(uint32(a[3])), a[4])
	if err != nil {
		return errno(err)
	}
	to := r.fetch(a[0], int(uint32(a[1])))
	if len(to) == 0 {
		return 0
	}
	to[copy(to[:len(to)-1], text)] = 0
	return uint64(len(text))
}

// seqPrintfBTF is bpf_seq_printf_btf.
func (r *run) seqPrintfBTF(a *[numArgs]uint64) uint64 {
	q := r.seq(a[0])
	if q == nil {
		return 0
	}
	text, err := r.shown(a[1], uint64(uint32(a[2])), a[3])
	if err != nil {
		return errno(err)
	}
	return errno(q.write([]byte(text)))
}
