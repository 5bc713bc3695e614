package tracing

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

const eprobeGroup = "eprobes"

// traceEprobe is trace_eprobe: an event that is hit when another event is, and fetches
// its arguments from that event's entry. It is attached to the other event as a trigger
// of the global array.
type traceEprobe struct {
	*Event
	tracer   *Tracer
	attached *Event
	args     []probe.Arg
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
	fail := func(derr *probe.Error) error { return t.refuse("event_probe", derr, argv) }
	ep := &traceEprobe{tracer: t}
	group, name := eprobeGroup, ""
	if colon := strings.IndexByte(argv[0], ':'); colon >= 0 {
		g, n, derr := t.conf.rules().ParseEventName(argv[0][colon+1:], colon+1)
		if derr != nil {
			return true, fail(derr)
		}
		name = n
		if g != "" {
			group = g
		}
	}
	attachedGroup, attachedName, derr := t.conf.rules().ParseEventName(argv[1], 0)
	if derr != nil {
		_ = fail(derr.InWord(1))
	}
	if derr != nil || attachedGroup == "" || attachedName == "" {
		return true, fail(probe.NewError(errNoEventInfo, 1, 0))
	}
	if name == "" {
		name = attachedName
	}
	return true, t.addEprobe(ep, eventName{group, name}, eventName{attachedGroup, attachedName}, argv, fail)
}

// addEprobe is the second half of trace_eprobe_create, after both names are known.
func (t *Tracer) addEprobe(ep *traceEprobe, name, attached eventName, argv []string, fail func(*probe.Error) error) error {
	ep.attached = t.attachable(attached)
	if ep.attached == nil {
		return fail(probe.NewError(errBadAttachEvent, 1, 0))
	}
	words := argv[2:]
	if i := slices.Index(words, "if"); i >= 0 {
		if err := ep.parseFilter(words[i+1:], i+3, fail); err != nil {
			return err
		}
		words = words[:i]
	}
	d := probe.Definition{Fields: ep.attached.entryMembers(), Rules: t.conf.rules()}
	derr, err := d.ParseArgs(words)
	switch {
	case err != nil:
		return err
	case derr != nil:
		if before := d.Preceding(derr); before != nil {
			_ = fail(before)
		}
		return fail(derr)
	case t.namesInUse[name] != nil:
		return fail(probe.NewError(errEventExists, 0, 0))
	}
	ep.args, ep.argsSize = d.Args, d.ArgsSize
	if err := probe.Resolve(ep.args, t.conf.Symbols); err != nil {
		return err
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
func (ep *traceEprobe) parseFilter(words []string, index int, fail func(*probe.Error) error) error {
	if len(words) == 0 {
		return fail(probe.NewError(errNoEventFilter, index, 0))
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

// line returns the eprobe's line of dynamic_events.
func (ep *traceEprobe) line() string {
	return fmt.Sprintf("e:%s/%s %s.%s%s\n", ep.Group, ep.Name, ep.attached.Group, ep.attached.Name, probe.Texts(ep.args))
}

// matches is eprobe_dyn_event_match: the attached event and the first arguments may
// follow the name.
func (ep *traceEprobe) matches(group, event string, argv []string) bool {
	place := ep.attached.Group + "/" + ep.attached.Name
	if dot := ep.attached.Group + "." + ep.attached.Name; len(argv) > 0 && argv[0] == dot {
		place = dot
	}
	return ep.named(group, event) && probe.Matches(argv, place, ep.args)
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

func (c eprobeClass) fields() []field.Field { return probe.Fields(c.args, field.HeaderSize) }

func (c eprobeClass) printFmt() string {
	format, values := probe.PrintFmt(c.args)
	return `"` + format + `"` + values
}

// print is print_eprobe_event.
func (c eprobeClass) print(a *Array, b, entry []byte) []byte {
	b = append(append(append(b, c.Name...), ": ("...), c.attached.Group...)
	b = append(append(append(b, '.'), c.attached.Name...), ')')
	return append(probe.AppendArgs(b, entry, c.args, field.HeaderSize, a.tracer.conf.Symbols), '\n')
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
	en.Attached = s.Entry
	if en.StoreArgs(s.Trap, ep.args, ep.argsSize) {
		ep.commit(s.Trap, en)
	} else {
		ep.tracer.discard(s.Trap)
	}
}
