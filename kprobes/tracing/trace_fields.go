package tracing

import (
	"fmt"
	"strings"

	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// appendFields is print_event_fields, for the option fields: it prints the members of
// the entry by name instead of the event's print format.
func (e *Event) appendFields(b, entry []byte) []byte {
	if e.Internal {
		return fmt.Appendf(b, "UNKNOWN TYPE %d\n", e.ID)
	}
	b = append(append(b, e.Name...), ':')
	fields := e.entryMembers()
	for _, f := range e.fields {
		name, _, _ := strings.Cut(f.Decl[strings.LastIndexByte(f.Decl, ' ')+1:], "[")
		b = append(append(append(b, ' '), name...), '=')
		b = appendMember(b, entry, fields[name])
	}
	return append(b, '\n')
}

// appendMember is print_fields for one member.
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
