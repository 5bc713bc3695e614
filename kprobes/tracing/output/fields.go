package output

import (
	"fmt"
	"strings"

	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// AppendMembers is print_fields: the members of an entry by name.
func AppendMembers(b, entry []byte, fields []field.Field) []byte {
	for _, f := range fields {
		m := f.Member()
		b = append(append(append(b, ' '), m.Name...), '=')
		b = appendMember(b, entry, m)
	}
	return append(b, '\n')
}

// appendMember appends the value of one member.
func appendMember(b, entry []byte, f *field.Member) []byte {
	if f.IsText() {
		return append(b, f.Text(entry)...)
	}
	if !f.Within(entry) {
		return append(b, "<OVERFLOW>"...)
	}
	v := field.Uint(entry[f.Offset : f.Offset+f.Size])
	switch {
	case f.Size == 8 && strings.Contains(f.Type, "*"):
		return fmt.Appendf(b, "(0x%016x)", v)
	case f.Size == 8:
		return fmt.Appendf(b, "0x%x (%d)", v, int64(v))
	case f.Size == 4:
		return fmt.Appendf(b, "0x%x (%d)", v, int32(v))
	case f.Size == 2:
		return fmt.Appendf(b, "0x%x (%d)", v, v)
	case f.Size == 1:
		if v >= 0x20 && v < 0x7f || v >= 0xa0 { // isprint, Latin 1
			b = append(b, '\'', byte(v), '\'')
		}
		return fmt.Appendf(b, "(%d)", v)
	}
	return append(b, "<INVALID-SIZE>"...)
}
