package tracing

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

//go:embed formats.txt
var listedFormats string

// listedClass is the class of the events of group ftrace that belong to tracers which are not
// here, or not on Debian's kernels. Their files can be read, as tools do that save the formats
// of the group; nothing records them.
type listedClass struct {
	own
	staticFormat
}

func (c listedClass) fields() []field.Field            { return c.members }
func (c listedClass) printFmt() string                 { return c.text }
func (listedClass) print(_ *Array, b, _ []byte) []byte { return append(b, '\n') }

// listedEvents creates these events.
func (t *Tracer) listedEvents() {
	list, err := parseFormats(listedFormats)
	if err != nil {
		panic(err) // it is part of the program
	}
	for _, f := range list {
		if !t.conf.has[release.LaterTracers] {
			switch f.name {
			case "osnoise", "timerlat", "func_repeats":
				continue
			case "branch":
				spellLengths(f.members)
			}
		}
		t.newEvent(f.group, f.name, f.id, listedClass{staticFormat: f}).Internal = true
	}
}

// spellLengths has the lengths of arrays as the macros of older releases show them.
func spellLengths(members []field.Field) {
	for i := range members {
		m := &members[i]
		if head, isArray := strings.CutSuffix(m.Decl, "]"); isArray {
			head, _, _ := strings.Cut(head, "[")
			m.Decl = fmt.Sprintf("%s[%d+1]", head, m.Size-1)
		}
	}
}
