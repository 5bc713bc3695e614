package tracing

import (
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingmap"
)

// The error_log texts for definitions of synthetic events that are refused.
const (
	synthErrName       = "Illegal name"
	synthErrCommand    = "Command must be of the form: <name> field[;field] ..."
	synthErrDynCommand = "Command must be of the form: s or -:[synthetic/]<name> field[;field] ..."
	synthErrExists     = "Event already exists"
	synthErrTooMany    = "Too many fields"
	synthErrIncomplete = "Incomplete type"
	synthErrType       = "Invalid type"
	synthErrField      = "Invalid field"
	synthErrArray      = "Invalid array specification"
)

// synthGroup is SYNTH_SYSTEM.
const synthGroup = "synthetic"

// synthSlot is the size of a number in an entry.
const synthSlot = 8

// synthEvent is synth_event: an event that actions of hist triggers hit.
type synthEvent struct {
	*Event
	tracer *Tracer
	fields []synthField
	fixed  int // bytes of an entry without its dynamic strings
	refs   int // number of actions that hit it; guarded by Tracer.mu
}

// synthField is synth_field.
type synthField struct {
	name, typ string
	size      int
	signed    bool
	text      bool
	dynamic   bool // a string of any length, at the end of the entry
	stack     bool // long[]
	offset    int
}

var (
	_ eventClass = synthClass{}
	_ dynEvent   = (*synthEvent)(nil)
)

// synthTypes are the sizes and formats of the types that a field may have.
var synthTypes = map[string]struct {
	size   int
	format string
}{
	"s64": {8, "%lld"}, "u64": {8, "%llu"}, "s32": {4, "%d"}, "u32": {4, "%u"}, "s16": {2, "%d"}, "u16": {2, "%u"},
	"s8": {1, "%d"}, "u8": {1, "%u"}, "char": {1, "%d"}, "unsigned char": {1, "%u"}, "int": {4, "%d"},
	"unsigned int": {4, "%u"}, "long": {8, "%ld"}, "unsigned long": {8, "%lu"}, "bool": {1, "%d"}, "pid_t": {4, "%d"},
	"gfp_t": {4, "%x"},
}

// synthEvent returns the synthetic event of that name, or nil.
func (t *Tracer) synthEvent(name string) *synthEvent {
	for _, d := range t.dynamic {
		if s, ok := d.(*synthEvent); ok && s.Name == name {
			return s
		}
	}
	return nil
}

// synthParser parses the definition of a synthetic event.
type synthParser struct {
	tracer  *Tracer
	command string // the command as error_log shows it
}

func (p *synthParser) fail(text, at string) error { return p.failWith(syscall.EINVAL, text, at) }

func (p *synthParser) failWith(errno syscall.Errno, text, at string) error {
	p.tracer.global.logError("synthetic_events", text, p.command, max(strings.Index(p.command, at), 0))
	return fmt.Errorf("%s: %s (%q): %w", p.command, text, at, errno)
}

// WriteSyntheticEvents handles a write to synthetic_events: a line "NAME TYPE
// FIELD;..." defines an event, "!NAME" deletes it.
func (t *Tracer) WriteSyntheticEvents(data []byte) (int, error) {
	return t.runCommands(data, func(line string) error {
		line = kstrtox.SkipSpaces(line)
		if line == "" {
			return nil
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		p := &synthParser{t, line}
		name, fields, found := cutAtBlank(line)
		switch {
		case line[0] == '!':
			return t.deleteSynth(name[1:])
		case !found:
			return p.fail(synthErrCommand, "")
		}
		return p.create(line, name, fields)
	})
}

// createSynth is create_synth_event: "s:[synthetic/]NAME TYPE FIELD;...". It returns
// false if the line is not such a definition. The caller holds mu.
func (t *Tracer) createSynth(line string) (bool, error) {
	line = kstrtox.SkipSpaces(line)
	rest, ok := strings.CutPrefix(line, "s:")
	if !ok {
		return false, nil
	}
	p := &synthParser{t, line}
	_, fields, found := cutAtBlank(rest)
	if !found {
		return true, p.fail(synthErrCommand, "")
	}
	if strings.Contains(rest, "/") {
		if rest, ok = strings.CutPrefix(rest, synthGroup+"/"); !ok {
			return true, p.fail(synthErrDynCommand, "")
		}
	}
	name, _, _ := cutAtBlank(rest)
	return true, p.create(rest, name, fields)
}

// cutAtBlank splits s at its first blank or tab; found reports whether it has one.
func cutAtBlank(s string) (before, after string, found bool) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, "", false
	}
	return s[:i], kstrtox.SkipSpaces(s[i:]), true
}

func (t *Tracer) deleteSynth(name string) error {
	s := t.synthEvent(name)
	if s == nil {
		return fmt.Errorf("no synthetic event %q: %w", name, syscall.ENOENT)
	}
	defer t.resetCleared()
	return t.removeDynamic(s)
}

// create is check_command and __create_synth_event.
func (p *synthParser) create(command, name, fields string) error {
	first, _, _ := strings.Cut(command, ";")
	switch {
	case len(kstrtox.ArgvSplit(first)) < 3:
		return p.fail(synthErrCommand, "")
	case !probe.GoodName(name, false):
		return p.fail(synthErrName, name)
	case p.tracer.synthEvent(name) != nil:
		return p.failWith(syscall.EEXIST, synthErrExists, name)
	}
	s := &synthEvent{tracer: p.tracer}
	for _, part := range strings.Split(fields, ";") {
		for argv := kstrtox.ArgvSplit(part); len(argv) > 0; {
			f, used, err := p.parseField(argv)
			if err != nil {
				return err
			}
			if len(s.fields) == synthFieldsMax {
				return p.fail(synthErrTooMany, "")
			}
			s.fields = append(s.fields, f)
			argv = argv[used:]
		}
	}
	if len(s.fields) == 0 {
		return p.fail(synthErrCommand, "")
	}
	return p.tracer.addSynth(s, name)
}

// parseField is parse_synth_field: a field is two words, or three with "unsigned".
func (p *synthParser) parseField(argv []string) (f synthField, used int, err error) {
	prefix, used := "", 2
	if argv[0] == "unsigned" {
		if len(argv) < 3 {
			return f, 0, p.fail(synthErrIncomplete, argv[0])
		}
		prefix, used = "unsigned ", 3
	}
	if len(argv) < used {
		return f, 0, p.fail(synthErrField, argv[0])
	}
	typ, name := argv[used-2], argv[used-1]
	base, _, isArray := strings.Cut(name, "[")
	if !probe.GoodName(base, false) {
		return f, 0, p.fail(synthErrName, name)
	}
	f = synthField{name: base, typ: prefix + typ + name[len(base):]}
	ok := f.shape()
	switch {
	case !ok && isArray:
		return f, 0, p.fail(synthErrArray, name)
	case !ok || f.size == 0:
		return f, 0, p.fail(synthErrType, typ)
	}
	return f, used, nil
}

// shape is synth_field_size and sets what follows from the type. It returns false for a
// string with an invalid length; size is 0 if there is no such type.
func (f *synthField) shape() bool {
	f.signed = !strings.HasPrefix(f.typ, "u") && f.typ != "gfp_t" || strings.Contains(f.typ, "long[")
	if known, ok := synthTypes[f.typ]; ok {
		f.size = known.size
		return true
	}
	_, length, isText := strings.Cut(f.typ, "char[")
	if !isText {
		f.stack = strings.Contains(f.typ, "long[")
		if f.dynamic = f.stack; f.stack {
			f.size = synthSlot
		}
		return true
	}
	length, rest, closed := strings.Cut(length, "]")
	if !closed || rest != "" || len(length) > 3 {
		return false
	}
	f.text = true
	n, err := uint64(0), error(nil)
	if length != "" {
		n, err = kstrtox.ParseUint(length, 0, tracingmap.TextSize)
	}
	if f.size = int(n); n == 0 {
		f.size, f.dynamic = synthSlot, true
	}
	return err == nil
}

// takes is check_synth_field: whether a variable can be the value of the field.
func (f *synthField) takes(v *histField) bool {
	switch {
	case f.text && f.dynamic && strings.Contains(v.typ, "char["):
		return true
	case f.stack && v.typ == histStackType:
		return true
	case f.typ == v.typ && !f.dynamic:
		return true
	}
	return f.size == v.size && (f.text || f.signed == v.signed)
}

// addSynth creates the event: numbers have 8 bytes each, strings the maximum length or
// a place at the end of the entry.
func (t *Tracer) addSynth(s *synthEvent, name string) error {
	at := field.HeaderSize
	for i := range s.fields {
		f := &s.fields[i]
		f.offset = at
		if f.text && !f.dynamic {
			at += tracingmap.TextSize
		} else {
			at += synthSlot
		}
	}
	s.fixed = at - field.HeaderSize
	if s.Event = t.newEvent(synthGroup, name, 0, synthClass{s}); s.Event == nil {
		return fmt.Errorf("synthetic event %s: %w", name, syscall.ENODEV)
	}
	t.dynamic = append(t.dynamic, s)
	return nil
}

// definition returns the event's line of synthetic_events.
func (s *synthEvent) definition() string {
	var fields []string
	for _, f := range s.fields {
		fields = append(fields, f.typ+" "+f.name)
	}
	return s.Name + "\t" + strings.Join(fields, "; ")
}

// SyntheticEvents returns the lines of synthetic_events, the oldest first.
func (t *Tracer) SyntheticEvents() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, d := range t.dynamic {
		if s, ok := d.(*synthEvent); ok {
			lines = append(lines, s.definition()+"\n")
		}
	}
	return lines
}

// synthClass is the eventClass of a synthEvent.
type synthClass struct{ *synthEvent }

func (s synthClass) fields() []field.Field {
	var fields []field.Field
	for _, f := range s.synthEvent.fields {
		decl := f.typ + " " + f.name
		switch {
		case f.dynamic:
			decl = "__data_loc " + decl
		case f.text:
			base, _, _ := strings.Cut(f.typ, "[")
			decl = base + " " + f.name + "[]"
		}
		fields = append(fields, field.New(decl, f.offset, f.size, f.signed))
	}
	return fields
}

func (s synthClass) printFmt() string {
	format, values := "", ""
	for i, f := range s.synthEvent.fields {
		if i > 0 {
			format += ", "
		}
		format += f.name + "=" + f.format()
		switch {
		case f.stack:
			values += ", __get_stacktrace(" + f.name + ")"
		case f.dynamic:
			values += ", __get_str(" + f.name + ")"
		default:
			values += ", REC->" + f.name
		}
	}
	return `"` + format + `"` + values
}

func (f *synthField) format() string {
	if f.text || f.stack {
		return "%s"
	}
	return synthTypes[f.typ].format
}

// print is print_synth_event.
func (s synthClass) print(_ *Array, b, entry []byte) []byte {
	b = append(append(b, s.Name...), ": "...)
	for i := range s.synthEvent.fields {
		f := &s.synthEvent.fields[i]
		b = append(append(b, f.name...), '=')
		switch {
		case f.stack && s.tracer.conf.has[release.CommonStacktrace]:
			b = s.tracer.appendSynthStack(b, entry, f.offset)
			continue
		case f.dynamic:
			text, n := field.StringAt(entry, f.offset)
			b = append(b, field.CutNUL(text[:n])...)
		case f.text:
			b = append(b, field.CutNUL(entry[f.offset:f.offset+min(f.size, tracingmap.TextSize)])...)
		default:
			b = f.appendNumber(b, entry[f.offset:f.offset+f.size])
		}
		if i < len(s.synthEvent.fields)-1 {
			b = append(b, ' ')
		}
	}
	return append(b, '\n')
}

// appendSynthStack appends a stack: hist_stack of 6.12.
func (t *Tracer) appendSynthStack(b, entry []byte, offset int) []byte {
	b = append(b, "STACK:\n"...)
	stack := field.StackAt(entry, offset)
	for i := 8; i+8 <= len(stack); i += 8 {
		ip := binary.LittleEndian.Uint64(stack[i:])
		sym, off, ok := t.conf.Symbols.Lookup(ip)
		b = append(output.AppendSprint(append(b, "=> "...), sym, off, ip, ok), '\n')
	}
	return b
}

func (f *synthField) appendNumber(b, data []byte) []byte {
	m := field.Number{Size: f.size, Signed: f.signed}
	v := m.Load(data)
	switch {
	case f.typ == "gfp_t":
		return fmt.Appendf(b, "%x", v)
	case f.signed:
		return fmt.Appendf(b, "%d", int64(v))
	}
	return fmt.Appendf(b, "%d", v)
}

func (s synthClass) enable() error { return nil }
func (s synthClass) disable()      {}

// put is trace_event_raw_event_synth: it fills in the entry of a hit, in handler
// context. It returns false if the entry does not fit on a page.
func (s *synthEvent) put(en *entry, h *histHit, args []*histField) bool {
	base := en.N
	if base+s.fixed+len(s.fields)*tracingmap.TextSize > len(en.Buf) && base+s.fixed > len(en.Buf) {
		return false
	}
	clear(en.Buf[base : base+s.fixed])
	en.N += s.fixed
	for i := range s.fields {
		f := &s.fields[i]
		at := base - field.HeaderSize + f.offset
		switch {
		case f.stack && s.tracer.conf.has[release.CommonStacktrace]:
			if en.N+8+histStackSize > len(en.Buf) {
				return false
			}
			n := h.putStack(en.Buf[en.N:], args[i])
			en.DataLoc(at, n)
		case f.dynamic:
			text := h.text(args[i])
			n := min(len(text), tracingmap.TextSize-1)
			if en.N+n+1 > len(en.Buf) {
				return false
			}
			copy(en.Buf[en.N:], text[:n])
			en.Buf[en.N+n] = 0
			en.DataLoc(at, n+1)
		case f.text:
			text := h.text(args[i])
			copy(en.Buf[at:at+tracingmap.TextSize-1], text)
		default:
			binary.LittleEndian.PutUint64(en.Buf[at:], h.refs[args[i].refIdx])
		}
	}
	return true
}

// busy returns EBUSY if the event is on or actions refer to it.
func (s *synthEvent) busy() error {
	if s.refs > 0 || s.eprobes > 0 || s.wanted() {
		return s.busyError()
	}
	return nil
}

// matches compares group and event only; a deletion may have anything after the name.
func (s *synthEvent) matches(group, event string, _ []string) bool {
	return (group == "" || group == synthGroup) && event == s.Name
}

func (s *synthEvent) line() string { return "s:" + synthGroup + "/" + s.definition() + "\n" }

func (s *synthEvent) release() error {
	if err := s.busy(); err != nil {
		return err
	}
	s.tracer.forgetEvent(s.Event)
	return nil
}
