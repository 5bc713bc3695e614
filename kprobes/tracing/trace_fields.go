package tracing

import (
	"fmt"
	"strings"
)

// appendFields is print_event_fields, for the option fields: it prints the members of
// the entry by name instead of the event's print format.
func (e *Event) appendFields(b, entry []byte) []byte {
	if e.Internal {
		return fmt.Appendf(b, "UNKNOWN TYPE %d\n", e.ID)
	}
	b = append(append(b, e.Name...), ':')
	fields := e.eventFields()
	for _, f := range e.fields {
		name, _, _ := strings.Cut(f.decl[strings.LastIndexByte(f.decl, ' ')+1:], "[")
		b = append(append(append(b, ' '), name...), '=')
		b = fields[name].appendRaw(b, entry)
	}
	return append(b, '\n')
}

// appendRaw is print_fields for one member.
func (f *eventField) appendRaw(b, entry []byte) []byte {
	if f.isText() {
		return append(b, f.text(entry)...)
	}
	if f.offset+f.size > len(entry) {
		return append(b, "<OVERFLOW>"...)
	}
	v := getNumber(entry[f.offset : f.offset+f.size])
	switch {
	case f.size == 8 && strings.Contains(f.typ, "*"):
		return fmt.Appendf(b, "(0x%016x)", v)
	case f.size == 8:
		return fmt.Appendf(b, "0x%x (%d)", v, int64(v))
	case f.size == 4:
		return fmt.Appendf(b, "0x%x (%d)", v, int32(v))
	case f.size == 2:
		return fmt.Appendf(b, "0x%x (%d)", v, v)
	case f.size == 1:
		if v >= 0x20 && v < 0x7f || v >= 0xa0 { // isprint, Latin 1
			b = append(b, '\'', byte(v), '\'')
		}
		return fmt.Appendf(b, "(%d)", v)
	}
	return append(b, "<INVALID-SIZE>"...)
}
