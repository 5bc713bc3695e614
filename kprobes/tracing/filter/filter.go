// Package filter is kernel/trace/trace_events_filter.c: it parses the text of a filter
// over the members of an entry into a predicate over the entry's bytes, and matches
// names with patterns such as "vfs_*".
//
// It knows members (package field), the CPU and the task of a hit. It does not know
// events, arrays or files. Passes runs in handler context and allocates nothing.
package filter

import (
	"bytes"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// Filter is event_filter: the text of an event's file filter and, unless the text
// was refused, the parsed filter.
type Filter struct {
	Text string // what the file shows
	root *node  // nil lets all entries pass
}

// node is an operator of a filter (&& or ||) with its operands, or a predicate.
type node struct {
	op       byte // '&', '|', or 0 for a predicate
	not      bool
	operands []*node
	pred     predicate
}

// predicate compares one field of an entry with a value.
type predicate struct {
	field operand
	op    string
	value uint64
	size  uint64 // if not 0, the field is compared with the addresses from value on
	cpus  []bool // if not nil, the field is compared with this set of CPUs
	match Pattern
	user  bool // the string is in user memory
}

// Subject is a hit as filters and triggers see it.
type Subject struct {
	Entry   []byte
	CPU     int
	Comm    *[abi.TaskCommLen]byte // the task's name
	Trap    *abi.Trap              // for strings that an entry points to; if nil, these match nothing
	Pointed *[MaxPointed]byte      // memory to read them into

	// For triggers: the time of the array's clock, and whether that counts nanoseconds.
	Time        int64
	Nanoseconds bool
}

// MaxPointed is how many bytes of such a string are compared.
const MaxPointed = 256

// Refused is what the file filter holds after the text was refused: its text tells
// why, and all entries pass.
func Refused(text string, err *Error) *Filter {
	return &Filter{Text: err.show(text)}
}

// Passes reports whether the filter holds for a hit; a nil Filter holds for all. It runs in
// handler context.
func (f *Filter) Passes(s *Subject) bool {
	return f == nil || f.root == nil || f.root.holds(s)
}

func (n *node) holds(s *Subject) bool {
	switch n.op {
	case '&':
		for _, x := range n.operands {
			if !x.holds(s) {
				return n.not
			}
		}
		return !n.not
	case '|':
		for _, x := range n.operands {
			if x.holds(s) {
				return !n.not
			}
		}
		return n.not
	}
	return n.pred.holds(s) != n.not
}

func (p *predicate) holds(s *Subject) bool {
	switch p.field.source {
	case fromComm:
		return p.match.Matches(s.Comm[:abi.TaskCommLen-1]) == (p.op != "!=")
	case fromCPU:
		if p.cpus != nil {
			return p.holdsCPU(uint64(s.CPU))
		}
		return compareSigned(int64(s.CPU), p.op, int64(int32(p.value)))
	case fromMember:
	}
	if p.size > 0 {
		return (p.field.Load(s.Entry)-p.value < p.size) == (p.op == "==")
	}
	switch p.field.kind {
	case field.DataLocText:
		text, n := field.StringAt(s.Entry, p.field.Offset)
		text = text[:max(n-1, 0)]
		return p.match.Matches(text) == (p.op != "!=")
	case field.CharArray:
		room := s.Entry[p.field.Offset:]
		if p.field.Size > 0 { // 0 means the whole string
			room = room[:min(p.field.Size, len(room))]
		}
		return p.match.Matches(room) == (p.op != "!=")
	case field.TextPointer:
		return p.holdsPointed(s)
	case field.Array: // which the kernel cannot compare
		return p.op == "!="
	case field.Integer, field.DataLoc:
	}
	v, want := p.field.Load(s.Entry), p.field.Extend(p.value)
	if p.cpus != nil {
		return p.holdsCPU(v)
	}
	if p.field.Signed {
		return compareSigned(int64(v), p.op, int64(want))
	}
	return compareUnsigned(v, p.op, want)
}

// holdsCPU is do_filter_scalar_cpumask: a set of one CPU is compared as a number, and what
// is no CPU's number matches nothing.
func (p *predicate) holdsCPU(v uint64) bool {
	switch {
	case v >= uint64(len(p.cpus)):
		return false
	case p.op == "&":
		return p.cpus[v]
	}
	return p.op == "!="
}

// holdsPointed is filter_pred_pchar: the field is the address of a kernel string, or, with
// .ustring, of one in user memory. A string that cannot be read matches nothing.
func (p *predicate) holdsPointed(s *Subject) bool {
	if s.Trap == nil || s.Pointed == nil {
		return false
	}
	b := s.Pointed
	addr := p.field.Load(s.Entry)
	if addr>>47 == 0 != p.user || !abi.ReadString(s.Trap.Mem, addr, b[:]) {
		return false
	}
	n := bytes.IndexByte(b[:], 0)
	if n < 0 {
		n = len(b)
	}
	return p.match.Matches(b[:n]) == (p.op != "!=")
}

func compareSigned(v int64, op string, want int64) bool {
	switch op {
	case "<":
		return v < want
	case "<=":
		return v <= want
	case ">":
		return v > want
	case ">=":
		return v >= want
	}
	return compareUnsigned(uint64(v), op, uint64(want))
}

func compareUnsigned(v uint64, op string, want uint64) bool {
	switch op {
	case "==":
		return v == want
	case "!=":
		return v != want
	case "<":
		return v < want
	case "<=":
		return v <= want
	case ">":
		return v > want
	case ">=":
		return v >= want
	case "&":
		return v&want != 0
	}
	return false
}

func (f *operand) isText() bool {
	return f.source == fromComm || f.kind == field.DataLocText || f.kind == field.CharArray || f.kind == field.TextPointer
}
