package dynevent

import (
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
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

// MaxSynthFields is SYNTH_FIELDS_MAX.
const MaxSynthFields = 64

// synthSlot is the size of a number in an entry.
const synthSlot = 8

// SynthEvent is synth_event: an event that actions of hist triggers hit.
type SynthEvent struct {
	event
	reg    *Registry
	fields []synthField
	fixed  int // bytes of an entry without its dynamic strings
	refs   int // number of actions that hit it; guarded by Config.Mutex
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
	_ Class    = synthClass{}
	_ dynEvent = (*SynthEvent)(nil)
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

// Synth returns the synthetic event of that name, or nil.
func (r *Registry) Synth(name string) *SynthEvent {
	for _, d := range r.list {
		if s, ok := d.(*SynthEvent); ok && s.name == name {
			return s
		}
	}
	return nil
}

// synthParser parses the definition of a synthetic event.
type synthParser struct {
	reg     *Registry
	command string // the command as error_log shows it
}

func (p *synthParser) fail(text, at string) error { return p.failWith(syscall.EINVAL, text, at) }

func (p *synthParser) failWith(errno syscall.Errno, text, at string) error {
	p.reg.conf.Events.LogError("synthetic_events", text, p.command, max(strings.Index(p.command, at), 0))
	return fmt.Errorf("%s: %s (%q): %w", p.command, text, at, errno)
}

// WriteSyntheticEvents handles a write to synthetic_events: a line "NAME TYPE
// FIELD;..." defines an event, "!NAME" deletes it.
func (r *Registry) WriteSyntheticEvents(data []byte) (int, error) {
	return r.runCommands(data, func(line string) error {
		line = kstrtox.SkipSpaces(line)
		if line == "" {
			return nil
		}
		r.conf.Mutex.Lock()
		defer r.conf.Mutex.Unlock()
		p := &synthParser{r, line}
		name, fields, found := cutAtBlank(line)
		switch {
		case line[0] == '!':
			return r.deleteSynth(name[1:])
		case !found:
			return p.fail(synthErrCommand, "")
		}
		if err := r.conf.Events.Room(definitionRoom); err != nil {
			return err
		}
		return p.create(line, name, fields)
	})
}

// createSynth is create_synth_event: "s:[synthetic/]NAME TYPE FIELD;...". It returns
// false if the line is not such a definition. The caller holds mu.
func (r *Registry) createSynth(line string) (bool, error) {
	line = kstrtox.SkipSpaces(line)
	rest, ok := strings.CutPrefix(line, "s:")
	if !ok {
		return false, nil
	}
	p := &synthParser{r, line}
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

func (r *Registry) deleteSynth(name string) error {
	s := r.Synth(name)
	if s == nil {
		return fmt.Errorf("no synthetic event %q: %w", name, syscall.ENOENT)
	}
	defer r.conf.Events.ResetCleared()
	return r.removeDynamic(s)
}

// create is check_command and __create_synth_event.
func (p *synthParser) create(command, name, fields string) error {
	first, _, _ := strings.Cut(command, ";")
	switch {
	case len(kstrtox.ArgvSplit(first)) < 3:
		return p.fail(synthErrCommand, "")
	case !probe.GoodName(name, false):
		return p.fail(synthErrName, name)
	case p.reg.Synth(name) != nil:
		return p.failWith(syscall.EEXIST, synthErrExists, name)
	}
	s := &SynthEvent{reg: p.reg}
	for _, part := range strings.Split(fields, ";") {
		for argv := kstrtox.ArgvSplit(part); len(argv) > 0; {
			f, used, err := p.parseField(argv)
			if err != nil {
				return err
			}
			if len(s.fields) == MaxSynthFields {
				return p.fail(synthErrTooMany, "")
			}
			s.fields = append(s.fields, f)
			argv = argv[used:]
		}
	}
	if len(s.fields) == 0 {
		return p.fail(synthErrCommand, "")
	}
	return p.reg.addSynth(s, name)
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

// Name returns the event's name.
func (s *SynthEvent) Name() string { return s.name }

// NumFields returns the number of fields.
func (s *SynthEvent) NumFields() int { return len(s.fields) }

// Takes is check_synth_field: whether a value of that type and size in bytes can be the
// value of field i.
func (s *SynthEvent) Takes(i int, typ string, size int, signed bool) bool {
	f := &s.fields[i]
	switch {
	case f.text && f.dynamic && strings.Contains(typ, "char["):
		return true
	case f.stack && typ == StackType:
		return true
	case f.typ == typ && !f.dynamic:
		return true
	}
	return f.size == size && (f.text || f.signed == signed)
}

// Hold adds d to the number of actions that hit the event; while there are any, it cannot
// be deleted. The caller holds Config.Mutex.
func (s *SynthEvent) Hold(d int) { s.refs += d }

// StackType is the type of a stack trace as a value of a histogram, and StackSize its
// maximum size in bytes.
const (
	StackType = "unsigned long[]"
	StackSize = 16 * 8 // HIST_STACKTRACE_DEPTH
)

// Values are the values for the fields of a synthetic event at one hit, by the index of
// the field.
type Values interface {
	Number(i int) uint64
	// Text returns a string without its NUL.
	Text(i int) []byte
	// PutStack writes a stack into room, which has 8+StackSize bytes, its length first,
	// and returns how many bytes that takes.
	PutStack(i int, room []byte) int
}

// Hit is action_trace: it hits the event inside the hits of depth other events. It runs in
// handler context.
func (s *SynthEvent) Hit(trap *abi.Trap, depth uint32, v Values) {
	en := s.BeginInside(trap, depth)
	if en == nil {
		return
	}
	if s.put(en, v) {
		s.Commit(trap)
	} else {
		s.Discard(trap)
	}
}

// addSynth creates the event: numbers have 8 bytes each, strings the maximum length or
// a place at the end of the entry.
func (r *Registry) addSynth(s *SynthEvent, name string) error {
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
	if !s.create(r, synthGroup, name, synthClass{s}) {
		return fmt.Errorf("synthetic event %s: %w", name, syscall.ENODEV)
	}
	r.list = append(r.list, s)
	return nil
}

// definition returns the event's line of synthetic_events.
func (s *SynthEvent) definition() string {
	var fields []string
	for _, f := range s.fields {
		fields = append(fields, f.typ+" "+f.name)
	}
	return s.name + "\t" + strings.Join(fields, "; ")
}

// SyntheticEvents returns the lines of synthetic_events, the oldest first.
func (r *Registry) SyntheticEvents() []string {
	r.conf.Mutex.Lock()
	defer r.conf.Mutex.Unlock()
	var lines []string
	for _, d := range r.list {
		if s, ok := d.(*SynthEvent); ok {
			lines = append(lines, s.definition()+"\n")
		}
	}
	return lines
}

// synthClass is the Class of a SynthEvent.
type synthClass struct{ *SynthEvent }

// Kind implements Class.
func (s synthClass) Kind() Kind { return Synth }

// Fields implements Class.
func (s synthClass) Fields() []field.Field {
	var fields []field.Field
	for _, f := range s.SynthEvent.fields {
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

// PrintFmt implements Class.
func (s synthClass) PrintFmt() string {
	format, values := "", ""
	for i, f := range s.SynthEvent.fields {
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

// Print is print_synth_event.
func (s synthClass) Print(_ Printer, b, entry []byte) []byte {
	b = append(append(b, s.name...), ": "...)
	for i := range s.SynthEvent.fields {
		f := &s.SynthEvent.fields[i]
		b = append(append(b, f.name...), '=')
		switch {
		case f.stack && s.reg.conf.Has[release.CommonStacktrace]:
			b = s.reg.appendSynthStack(b, entry, f.offset)
			continue
		case f.dynamic:
			text, n := field.StringAt(entry, f.offset)
			b = append(b, field.CutNUL(text[:n])...)
		case f.text:
			b = append(b, field.CutNUL(entry[f.offset:f.offset+min(f.size, tracingmap.TextSize)])...)
		default:
			b = f.appendNumber(b, entry[f.offset:f.offset+f.size])
		}
		if i < len(s.SynthEvent.fields)-1 {
			b = append(b, ' ')
		}
	}
	return append(b, '\n')
}

// appendSynthStack appends a stack: hist_stack of 6.12.
func (r *Registry) appendSynthStack(b, entry []byte, offset int) []byte {
	b = append(b, "STACK:\n"...)
	stack := field.StackAt(entry, offset)
	for i := 8; i+8 <= len(stack); i += 8 {
		ip := binary.LittleEndian.Uint64(stack[i:])
		sym, off, ok := r.conf.Symbols.Lookup(ip)
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

// Enable implements Class: the event is hit by actions only.
func (s synthClass) Enable() error { return nil }

// Disable implements Class.
func (s synthClass) Disable() {}

// put is trace_event_raw_event_synth: it fills in the entry of a hit, in handler
// context. It returns false if the entry does not fit on a page.
func (s *SynthEvent) put(en *probe.Entry, v Values) bool {
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
		case f.stack && s.reg.conf.Has[release.CommonStacktrace]:
			if en.N+8+StackSize > len(en.Buf) {
				return false
			}
			n := v.PutStack(i, en.Buf[en.N:])
			en.DataLoc(at, n)
		case f.dynamic:
			text := v.Text(i)
			n := min(len(text), tracingmap.TextSize-1)
			if en.N+n+1 > len(en.Buf) {
				return false
			}
			copy(en.Buf[en.N:], text[:n])
			en.Buf[en.N+n] = 0
			en.DataLoc(at, n+1)
		case f.text:
			text := v.Text(i)
			copy(en.Buf[at:at+tracingmap.TextSize-1], text)
		default:
			binary.LittleEndian.PutUint64(en.Buf[at:], v.Number(i))
		}
	}
	return true
}

// busy returns EBUSY if the event is on or actions refer to it.
func (s *SynthEvent) busy() error {
	if s.refs > 0 || s.reg.hasEprobes(s.Event) || s.Wanted() {
		return s.busyError()
	}
	return nil
}

// matches compares group and event only; a deletion may have anything after the name.
func (s *SynthEvent) matches(group, event string, _ []string) bool {
	return (group == "" || group == synthGroup) && event == s.name
}

func (s *SynthEvent) line() string { return "s:" + synthGroup + "/" + s.definition() + "\n" }

func (s *SynthEvent) release() error {
	if err := s.busy(); err != nil {
		return err
	}
	s.reg.conf.Events.Forget(s.Event)
	return nil
}
