package tracing

import (
	"encoding/binary"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// maxNameLen is MAX_EVENT_NAME_LEN: the size of a name with its NUL.
const maxNameLen = 64

// parseEventName is traceprobe_parse_event_name: "EVENT", "GROUP/EVENT", "GROUP.EVENT"
// or "GROUP/", for which a name is generated. offset is the position of s in the
// command's first word.
func (c *config) parseEventName(s string, offset int) (group, event string, err *definitionError) {
	fail := func(e probeError) (string, string, *definitionError) {
		return "", "", &definitionError{e, 0, offset}
	}
	slash := strings.IndexByte(s, '/')
	if slash < 0 && c.has[release.GroupNames] {
		slash = strings.IndexByte(s, '.')
	}
	if slash >= 0 {
		group = s[:slash]
		switch {
		case group == "":
			return fail(errNoGroupName)
		case len(group)+1 > maxNameLen:
			return fail(errGroupTooLong)
		case !goodName(group, c.has[release.GroupNames]):
			return fail(errBadGroupName)
		}
		s, offset = s[slash+1:], offset+slash+1
	}
	switch {
	case s == "" && slash >= 0 && c.has[release.GroupNames]:
		return group, "", nil
	case s == "":
		return fail(errNoEventName)
	case len(s) > maxNameLen || len(s) == maxNameLen && c.has[release.GroupNames]:
		return fail(errEventTooLong)
	case !goodName(s, false):
		return fail(errBadEventName)
	}
	return group, s, nil
}

// goodName is is_good_name, C's rule for identifiers, or, with dash,
// is_good_system_name, which also allows '-'.
func goodName(s string, dash bool) bool {
	for i := range len(s) {
		c := s[i]
		letter := kstrtox.IsAlpha(c) || c == '_' || dash && c == '-'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return s != ""
}

// splitSymbolOffset is traceprobe_split_symbol_offset: SYM, SYM+N or SYM-N.
func splitSymbolOffset(s string) (symbol string, offset int64, err error) {
	i := strings.IndexAny(s, "+-")
	if i < 0 {
		return s, 0, nil
	}
	offset, err = kstrtox.ParseInt(s[i:], 0)
	return s[:i], offset, err
}

// sanitizeEventName makes a valid name of a symbol that contains ':' or '.', and, on
// releases with fprobes, of a pattern.
func (c *config) sanitizeEventName(s string) string {
	if s == "" {
		return s
	}
	rest := s[1:] // the first byte stays
	if c.has[release.Fprobes] {
		rest = strings.ReplaceAll(rest, "*", "_")
	}
	return s[:1] + strings.NewReplacer(":", "_", ".", "_").Replace(rest)
}

// probeEvent is the part that events of kprobes, uprobes and fprobes have in common;
// they differ in the location of their probes.
type probeEvent struct {
	*Event
	ret      bool       // entries have __probe_func and __probe_ret_ip, not __probe_ip
	args     []probeArg // those of its first probe; all probes have the same names and types
	argsSize int
}

// headSize returns the size of an entry before the arguments.
func (ev *probeEvent) headSize() int {
	if ev.ret {
		return field.HeaderSize + 16
	}
	return field.HeaderSize + 8
}

func (ev *probeEvent) fields() []field.Field {
	head := []field.Field{field.New("unsigned long __probe_ip", 8, 8, false)}
	if ev.ret {
		head = []field.Field{field.New("unsigned long __probe_func", 8, 8, false), field.New("unsigned long __probe_ret_ip", 16, 8, false)}
	}
	return append(head, argFields(ev.args, ev.headSize())...)
}

func (ev *probeEvent) printFmt() string {
	format, values := argsPrintFmt(ev.args)
	if ev.ret {
		return `"(%lx <- %lx)` + format + `", REC->__probe_func, REC->__probe_ret_ip` + values
	}
	return `"(%lx)` + format + `", REC->__probe_ip` + values
}

// print is print_kprobe_event, print_kretprobe_event and the fprobe versions.
func (ev *probeEvent) print(a *Array, b, entry []byte) []byte {
	b = append(append(b, ev.Name...), ": ("...)
	ip := binary.LittleEndian.Uint64(entry[8:])
	if ev.ret {
		b = a.appendSymbol(b, binary.LittleEndian.Uint64(entry[16:]), true)
		b = a.appendSymbol(append(b, " <- "...), ip, false)
	} else {
		b = a.appendSymbol(b, ip, true)
	}
	b = a.tracer.appendArgs(append(b, ')'), entry, ev.args, ev.headSize())
	return append(b, '\n')
}

// record adds the arguments to an entry and commits it.
func (ev *probeEvent) record(en *entry, trap *abi.Trap, args []probeArg) {
	if !ev.tracer.storeArgs(en, trap, args, ev.argsSize) {
		ev.tracer.discard(trap)
		return
	}
	ev.commit(trap, en)
}

// definitions returns the arguments as the listing shows them, each after a blank.
func definitions(args []probeArg) (text string) {
	for i := range args {
		text += " " + args[i].definition()
	}
	return text
}

// matchesProbe is trace_kprobe_match and the like: the words after the name in a
// deletion, if any, must equal what the listing shows.
func matchesProbe(argv []string, place string, args []probeArg) bool {
	if len(argv) == 0 {
		return true
	}
	if argv[0] != place || len(argv)-1 > len(args) {
		return false
	}
	for i, word := range argv[1:] {
		if word != args[i].definition() {
			return false
		}
	}
	return true
}
