package dynevent

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

const eprobeGroup = "eprobes"

type eventName struct{ group, name string }

// traceEprobe is trace_eprobe: an event that is hit when another event is, and fetches
// its arguments from that event's entry. It is attached to the other event as a trigger
// of the global array.
type traceEprobe struct {
	event
	reg      *Registry
	attached event
	args     []probe.Arg
	argsSize int
	filter   *filter.Filter
	detach   func() // removes the trigger; nil while the event is off
}

var (
	_ Class    = eprobeClass{}
	_ dynEvent = (*traceEprobe)(nil)
)

// createEprobe is trace_eprobe_create: "e[:[GROUP/][EVENT]] GROUP.EVENT [ARG...] [if
// FILTER]". It returns false if the line is not such a definition. The caller holds mu.
func (r *Registry) createEprobe(line string) (bool, error) {
	argv := kstrtox.ArgvSplit(line)
	if argv[0][0] != 'e' || len(argv) < 2 {
		return false, nil
	}
	fail := func(derr *probe.Error) error { return r.refuse("event_probe", derr, argv) }
	ep := &traceEprobe{reg: r}
	group, name := eprobeGroup, ""
	if derr := r.parseName(argv[0], strings.IndexByte(argv[0], ':'), &group, &name); derr != nil {
		return true, fail(derr)
	}
	attachedGroup, attachedName, derr := r.conf.Rules.ParseEventName(argv[1], 0)
	if derr != nil {
		_ = fail(derr.InWord(1))
	}
	if derr != nil || attachedGroup == "" || attachedName == "" {
		return true, fail(probe.NewError(errNoEventInfo, 1, 0))
	}
	if name == "" {
		name = attachedName
	}
	return true, r.addEprobe(ep, eventName{group, name}, eventName{attachedGroup, attachedName}, argv, fail)
}

// addEprobe is the second half of trace_eprobe_create, after both names are known.
func (r *Registry) addEprobe(ep *traceEprobe, name, attached eventName, argv []string, fail func(*probe.Error) error) error {
	ep.attached = r.attachable(attached)
	if ep.attached.Event == nil {
		return fail(probe.NewError(errBadAttachEvent, 1, 0))
	}
	words := argv[2:]
	if i := slices.Index(words, "if"); i >= 0 {
		if err := ep.parseFilter(words[i+1:], i+3, fail); err != nil {
			return err
		}
		words = words[:i]
	}
	d := probe.Definition{Fields: ep.attached.Members(), Rules: r.conf.Rules}
	derr, err := d.ParseArgs(words)
	switch {
	case err != nil:
		return err
	case derr != nil:
		if before := d.Preceding(derr); before != nil {
			_ = fail(before)
		}
		return fail(derr)
	case r.conf.Events.Find(name.group, name.name) != nil:
		return fail(probe.NewError(errEventExists, 0, 0))
	}
	ep.args, ep.argsSize = d.Args, d.ArgsSize
	if err := probe.Resolve(ep.args, r.conf.Symbols); err != nil {
		return err
	}
	if !ep.create(r, name.group, name.name, eprobeClass{ep}) {
		return fmt.Errorf("eprobe %s: %w", name.name, syscall.ENODEV)
	}
	r.list = append(r.list, ep)
	return nil
}

// attachable is find_and_get_event: an eprobe cannot be attached to kprobes, uprobes,
// eprobes and the events of group ftrace.
func (r *Registry) attachable(name eventName) event {
	e := r.conf.Events.Find(name.group, name.name)
	if e == nil || e.IgnoresEnable() {
		return event{}
	}
	switch classOf(e).(type) {
	case *kprobeEvent, eprobeClass, *uprobeEvent:
		return event{}
	}
	return event{e, name.group, name.name}
}

// hasEprobes reports whether an eprobe is attached to the event.
func (r *Registry) hasEprobes(e Event) bool {
	return slices.ContainsFunc(r.list, func(d dynEvent) bool {
		ep, ok := d.(*traceEprobe)
		return ok && ep.attached.Event == e
	})
}

// parseFilter is trace_eprobe_parse_filter; index is the first word's.
func (ep *traceEprobe) parseFilter(words []string, index int, fail func(*probe.Error) error) error {
	if len(words) == 0 {
		return fail(probe.NewError(errNoEventFilter, index, 0))
	}
	text := strings.Join(words, " ")
	parsed, err := ep.reg.conf.Filters.Parse(text, ep.attached.Members())
	if err != nil {
		ep.reg.conf.Events.LogError("event filter parse error", err.Text, text, err.Pos)
		return fmt.Errorf("filter %q: %s: %w", text, err.Text, syscall.EINVAL)
	}
	ep.filter = parsed
	return nil
}

// line returns the eprobe's line of dynamic_events.
func (ep *traceEprobe) line() string {
	return fmt.Sprintf("e:%s/%s %s.%s%s\n", ep.group, ep.name, ep.attached.group, ep.attached.name, probe.Texts(ep.args))
}

// matches is eprobe_dyn_event_match: the attached event and the first arguments may
// follow the name.
func (ep *traceEprobe) matches(group, event string, argv []string) bool {
	place := ep.attached.group + "/" + ep.attached.name
	if dot := ep.attached.group + "." + ep.attached.name; len(argv) > 0 && argv[0] == dot {
		place = dot
	}
	return ep.named(group, event) && probe.Matches(argv, place, ep.args)
}

func (ep *traceEprobe) release() error {
	if err := ep.busy(); err != nil {
		return err
	}
	ep.reg.conf.Events.Forget(ep.Event)
	return nil
}

// eprobeClass is the Class of a traceEprobe.
type eprobeClass struct{ *traceEprobe }

// Kind implements Class.
func (c eprobeClass) Kind() Kind { return Eprobe }

// Fields implements Class.
func (c eprobeClass) Fields() []field.Field { return probe.Fields(c.args, field.HeaderSize) }

// PrintFmt implements Class.
func (c eprobeClass) PrintFmt() string {
	format, values := probe.PrintFmt(c.args)
	return `"` + format + `"` + values
}

// Print is print_eprobe_event.
func (c eprobeClass) Print(_ Printer, b, entry []byte) []byte {
	b = append(append(append(b, c.name...), ": ("...), c.attached.group...)
	b = append(append(append(b, '.'), c.attached.name...), ')')
	return append(probe.AppendArgs(b, entry, c.args, field.HeaderSize, c.reg.conf.Symbols), '\n')
}

// Enable is enable_eprobe: it adds the trigger to the attached event.
func (c eprobeClass) Enable() (err error) {
	c.traceEprobe.detach, err = c.attached.Attach(c.filter, c.hit)
	return err
}

// Disable is disable_eprobe.
func (c eprobeClass) Disable() {
	if detach := c.detach; detach != nil {
		c.traceEprobe.detach = nil
		detach()
	}
}

// hit is __eprobe_trace_func: it is called at a hit of the attached event, with the entry
// of that event. It runs in handler context.
func (ep *traceEprobe) hit(trap *abi.Trap, entry []byte) {
	if trap == nil {
		return
	}
	en := ep.BeginInside(trap, 1)
	if en == nil {
		return
	}
	en.Attached = entry
	if en.StoreArgs(trap, ep.args, ep.argsSize) {
		ep.Commit(trap)
	} else {
		ep.Discard(trap)
	}
}
