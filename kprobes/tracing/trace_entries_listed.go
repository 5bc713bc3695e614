package tracing

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// listedFormats are the formats of 6.1's events of group ftrace that belong to tracers which
// are not here, or not on Debian's kernels, as testdata/ftrace_group.txtar of package
// integration has them: name and ID, the fields, the print format, and an empty line after it.
//
//go:embed formats.txt
var listedFormats string

// listedClass is the class of such an event. Its files can be read, as tools do that save the
// formats of the group; nothing records it.
type listedClass struct {
	own
	members []field.Field
	format  string
}

func (c listedClass) fields() []field.Field            { return c.members }
func (c listedClass) printFmt() string                 { return c.format }
func (listedClass) print(_ *Array, b, _ []byte) []byte { return append(b, '\n') }

// listedEvents creates these events.
func (t *Tracer) listedEvents() {
	for text := range strings.SplitSeq(listedFormats, "\n\n") {
		name, class, id := parseListed(text)
		if !t.conf.has[release.LaterTracers] {
			switch name {
			case "osnoise", "timerlat", "func_repeats":
				continue
			case "branch":
				spellLengths(class.members)
			}
		}
		t.newEvent("ftrace", name, id, class).Internal = true
	}
}

// parseListed parses one of listedFormats.
func parseListed(text string) (name string, c listedClass, id uint16) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	_, err := fmt.Sscanf(lines[0], "%s %d", &name, &id)
	last := len(lines) - 1
	for _, line := range lines[1:last] {
		f, ferr := field.Parse(line)
		if ferr != nil {
			err = ferr
		}
		c.members = append(c.members, f)
	}
	if err != nil {
		panic(fmt.Sprintf("formats.txt: %v", err))
	}
	c.format = lines[last]
	return name, c, id
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
