package tracing

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
)

const eprobeGroup = "eprobes"

// traceEprobe is trace_eprobe: an event that is hit when another event is, and fetches
// its arguments from that event's entry. It is attached to the other event as a trigger
// of the global array.
type traceEprobe struct {
	*Event
	tracer   *Tracer
	attached *Event
	args     []probeArg
	argsSize int
	filter   *filter.Filter
	trigger  *trigger // while the event is on
}

var (
	_ eventClass = eprobeClass{}
	_ dynEvent   = (*traceEprobe)(nil)
)

// eprobeCommand is the trigger command of eprobes; no file shows it.
var eprobeCommand = &triggerCommand{name: "eprobe", typ: triggerEprobe, needsEntry: true}

// createEprobe is trace_eprobe_create: "e[:[GROUP/][EVENT]] GROUP.EVENT [ARG...] [if
// FILTER]". It returns false if the line is not such a definition. The caller holds mu.
func (t *Tracer) createEprobe(line string) (bool, error) {
	argv := kstrtox.ArgvSplit(line)
	if argv[0][0] != 'e' || len(argv) < 2 {
		return false, nil
	}
	fail := func(derr *definitionError) error { return t.refuse("event_probe", derr, argv) }
	ep := &traceEprobe{tracer: t}
	group, name := eprobeGroup, ""
	if colon := strings.IndexByte(argv[0], ':'); colon >= 0 {
		g, n, derr := t.conf.parseEventName(argv[0][colon+1:], colon+1)
		if derr != nil {
			return true, fail(derr)
		}
		name = n
		if g != "" {
			group = g
		}
	}
	attachedGroup, attachedName, derr := t.conf.parseEventName(argv[1], 0)
	if derr != nil {
		derr.index = 1
		_ = fail(derr)
	}
	if derr != nil || attachedGroup == "" || attachedName == "" {
		return true, fail(&definitionError{errNoEventInfo, 1, 0})
	}
	if name == "" {
		name = attachedName
	}
	return true, t.addEprobe(ep, eventName{group, name}, eventName{attachedGroup, attachedName}, argv, fail)
}

// addEprobe is the second half of trace_eprobe_create, after both names are known.
func (t *Tracer) addEprobe(ep *traceEprobe, name, attached eventName, argv []string, fail func(*definitionError) error) error {
	ep.attached = t.attachable(attached)
	if ep.attached == nil {
		return fail(&definitionError{errBadAttachEvent, 1, 0})
	}
	words := argv[2:]
	if i := slices.Index(words, "if"); i >= 0 {
		if err := ep.parseFilter(words[i+1:], i+3, fail); err != nil {
			return err
		}
		words = words[:i]
	}
	d := definition{fields: ep.attached.entryMembers(), conf: &t.conf}
	derr, err := d.parseArgs(words)
	switch {
	case err != nil:
		return err
	case derr != nil:
		if d.first != nil {
			_ = fail(&definitionError{*d.first, derr.index, derr.offset})
		}
		return fail(derr)
	case t.namesInUse[name] != nil:
		return fail(&definitionError{errEventExists, 0, 0})
	}
	ep.args, ep.argsSize = d.args, d.argsSize
	for i := range ep.args {
		if err := ep.args[i].code.resolve(t.conf.Symbols); err != nil {
			return err
		}
	}
	if ep.Event = t.newEvent(name.group, name.name, 0, eprobeClass{ep}); ep.Event == nil {
		return fmt.Errorf("eprobe %s: %w", name.name, syscall.ENODEV)
	}
	ep.attached.eprobes++
	t.dynamic = append(t.dynamic, ep)
	return nil
}

// attachable is find_and_get_event: an eprobe cannot be attached to kprobes, uprobes,
// eprobes and the events of group ftrace.
func (t *Tracer) attachable(name eventName) *Event {
	e := t.namesInUse[name]
	if e == nil || e.Internal {
		return nil
	}
	switch e.class.(type) {
	case *kprobeEvent, eprobeClass, *uprobeEvent:
		return nil
	}
	return e
}

// parseFilter is trace_eprobe_parse_filter; index is that of the first word.
func (ep *traceEprobe) parseFilter(words []string, index int, fail func(*definitionError) error) error {
	if len(words) == 0 {
		return fail(&definitionError{errNoEventFilter, index, 0})
	}
	text := strings.Join(words, " ")
	parsed, err := filter.Parse(text, ep.attached.entryMembers())
	if err != nil {
		ep.tracer.global.logError("event filter parse error", err.Text, text, err.Pos)
		return fmt.Errorf("filter %q: %s: %w", text, err.Text, syscall.EINVAL)
	}
	ep.filter = parsed
	return nil
}

// resolveField is trace_eprobe_tp_arg_update: it looks up the field that the argument
// starts with.
func (c *fetchCode) resolveField(fields map[string]*field.Member) *argError {
	if c.source != fetchField {
		return nil
	}
	f := fields[c.symbol]
	switch {
	case f != nil && f.Offset >= field.HeaderSize:
		c.field = f
	case c.symbol == "comm" || c.symbol == "COMM":
		c.source = fetchComm
	default:
		return failArg(errBadAttachArg, 0)
	}
	return nil
}

// line returns the eprobe's line of dynamic_events.
func (ep *traceEprobe) line() string {
	return fmt.Sprintf("e:%s/%s %s.%s%s\n", ep.Group, ep.Name, ep.attached.Group, ep.attached.Name, definitions(ep.args))
}

// matches is eprobe_dyn_event_match: the attached event and the first arguments may
// follow the name.
func (ep *traceEprobe) matches(group, event string, argv []string) bool {
	place := ep.attached.Group + "/" + ep.attached.Name
	if dot := ep.attached.Group + "." + ep.attached.Name; len(argv) > 0 && argv[0] == dot {
		place = dot
	}
	return ep.named(group, event) && matchesProbe(argv, place, ep.args)
}

func (ep *traceEprobe) release() error {
	if err := ep.busy(); err != nil {
		return err
	}
	ep.tracer.forgetEvent(ep.Event)
	ep.attached.eprobes--
	return nil
}

// eprobeClass is the eventClass of a traceEprobe.
type eprobeClass struct{ *traceEprobe }

func (c eprobeClass) fields() []field.Field { return argFields(c.args, field.HeaderSize) }

func (c eprobeClass) printFmt() string {
	format, values := argsPrintFmt(c.args)
	return `"` + format + `"` + values
}

// print is print_eprobe_event.
func (c eprobeClass) print(a *Array, b, entry []byte) []byte {
	b = append(append(append(b, c.Name...), ": ("...), c.attached.Group...)
	b = append(append(append(b, '.'), c.attached.Name...), ')')
	return append(a.tracer.appendArgs(b, entry, c.args, field.HeaderSize), '\n')
}

// enable is enable_eprobe: it adds the trigger to the attached event.
func (c eprobeClass) enable() error {
	file := c.tracer.global.files[c.attached]
	t := &trigger{command: eprobeCommand, file: file, filter: c.filter, eprobe: c.traceEprobe}
	if err := file.addTrigger(t); err != nil {
		return err
	}
	c.trigger = t
	return nil
}

func (c eprobeClass) disable() {
	t := c.trigger
	c.trigger = nil
	if t != nil {
		t.file.removeTrigger(func(x *trigger) bool { return x == t })
	}
}

// hit is __eprobe_trace_func; s is the hit of the attached event. It runs in handler
// context.
func (ep *traceEprobe) hit(s *subject) {
	if s.Trap == nil {
		return
	}
	en := ep.beginInside(s.Trap, 1)
	if en == nil {
		return
	}
	en.attached = s.Entry
	if ep.tracer.storeArgs(en, s.Trap, ep.args, ep.argsSize) {
		ep.commit(s.Trap, en)
	} else {
		ep.tracer.discard(s.Trap)
	}
}

// hasField reports whether the $NAME of an eprobe is a field of its event.
func (d *definition) hasField(name string) bool {
	c := fetchCode{source: fetchField, symbol: name}
	return c.resolveField(d.fields) == nil
}
