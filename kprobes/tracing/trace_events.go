package tracing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/trigger"
)

type eventName struct{ group, name string }

// Event is trace_event_call: the part of an event that all arrays share. The exported
// fields never change.
type Event struct {
	Group, Name string
	ID          uint16 // common_type of its entries
	Gen         uint64 // differs between successive events of the same name
	Hidden      bool   // it has no directory, because a file has its name
	Internal    bool   // TRACE_EVENT_FL_IGNORE_ENABLE: it can be neither enabled nor filtered (group ftrace)

	tracer *Tracer
	class  eventClass
	fields []field.Field                // of the class
	size   int                          // minimum size of an entry, bytes
	files  atomic.Pointer[[]*EventFile] // the enabled ones; replaced under Tracer.mu
	perf   atomic.Pointer[perfUsers]    // of perf_event_open(2); the same

	programs atomic.Pointer[[]bpf.Attached] // tp_event.prog_array; replaced, never changed
	gone     atomic.Bool

	kind dynevent.Kind
}

// entryMembers returns the members of the event's entries by name.
func (e *Event) entryMembers() map[string]*field.Member { return field.Members(e.fields) }

// eventClass is what differs between kinds of events: trace_event_class and
// trace_event_functions.
type eventClass interface {
	// fields returns the members of an entry after commonFields. It is called once.
	fields() []field.Field
	// printFmt returns what the file format shows after "print fmt: ".
	printFmt() string
	// print appends the part of a line of a's trace that follows the time, with its
	// newline. The entry is at least as long as its fields say; its contents are not to
	// be trusted otherwise.
	print(a *Array, b, entry []byte) []byte
	// enable is called when the first EventFile is enabled, disable when the last one
	// is disabled; Tracer.mu is held. disable need not wait for handlers.
	enable() error
	disable()
}

// EventFile is trace_event_file: an event in one array.
type EventFile struct {
	*Event
	array  *Array
	flags  atomic.Uint32 // fileFlags; changed under Tracer.mu
	filter atomic.Pointer[filter.Filter]
	atHit  atomic.Pointer[hitTriggers] // the triggers; nil if there are none

	// Guarded by Tracer.mu.
	triggers   *trigger.Triggers
	softRefs   int // sm_ref: users that need the hits but no records
	wasEnabled bool
}

// Bits of EventFile.flags.
const (
	fileEnabled      = 1 << iota // the event is on
	fileSoftMode                 // a trigger or command needs the hits
	fileSoftDisabled             // hits are not recorded
)

// Subsystem is a directory below events of one array.
type Subsystem struct {
	Name   string
	Gen    uint64
	Hidden bool         // it has no directory, because a file has its name
	Events []*EventFile // the oldest first
}

// subsystem is event_subsystem: it exists as long as it has events.
type subsystem struct {
	gen    uint64
	hidden bool
	events []*Event
}

// The names of files in events and in the directory of a subsystem. An event or group
// of such a name works, but gets no directory.
var (
	eventsFiles = [...]string{"enable", "header_event", "header_page"}
	systemFiles = [...]string{"enable", "filter"}
)

// eventTable finds events by ID for the readers of the buffer, which take no lock. The
// Tracer's mu serializes changes.
type eventTable [1 << 8]atomic.Pointer[eventPage]

type eventPage [1 << 8]atomic.Pointer[Event]

// get returns the event with an ID, or nil.
func (t *eventTable) get(id uint16) *Event {
	if page := t[id>>8].Load(); page != nil {
		return page[id&0xff].Load()
	}
	return nil
}

// set makes e the event with an ID; nil takes that event away.
func (t *eventTable) set(id uint16, e *Event) {
	page := t[id>>8].Load()
	if page == nil {
		page = new(eventPage)
		t[id>>8].Store(page)
	}
	page[id&0xff].Store(e)
}

// Enabled reports whether hits of the event come to this array, even if it does not record
// them.
func (f *EventFile) Enabled() bool { return f.flags.Load()&fileEnabled != 0 }

// wanted reports whether the event is on in any array, even if none records it, or perf
// uses it.
func (e *Event) wanted() bool {
	files := e.files.Load()
	return files != nil && len(*files) > 0 || e.perf.Load() != nil
}

// newEvent is trace_add_event_call: it creates the event with an ID (id, or a new one
// if that is 0) and its file in each array. The class must not be called before. It
// returns nil if no ID is left. The caller holds mu.
func (t *Tracer) newEvent(group, name string, id uint16, class eventClass) *Event {
	if id == 0 {
		var ok bool
		if id, ok = t.newEventType(); !ok {
			return nil
		}
	}
	t.generations++
	e := t.makeEvent(group, name, id, class)
	e.Gen = t.generations
	s := t.subsystems[group]
	if s == nil {
		s = &subsystem{gen: t.generations, hidden: !t.conf.has[release.Eventfs] && slices.Contains(eventsFiles[:], group)}
		t.subsystems[group] = s
		if !s.hidden {
			t.dirChanged(true, group, "")
		}
	}
	switch {
	case s.hidden:
		t.conf.Machine.Printk(4, "Failed to create system directory %s", group)
	case strings.Contains(name, "/") && t.conf.has[release.Eventfs]:
		e.Hidden = true
	case (slices.Contains(systemFiles[:], name) || strings.Contains(name, "/")) && !t.conf.has[release.Eventfs]:
		e.Hidden = true
		t.conf.Machine.Printk(4, "Could not create tracefs '%s' directory", name)
	}
	if !s.hidden && !e.Hidden {
		t.dirChanged(true, group, name)
	}
	s.events = append(s.events, e)
	t.namesInUse[eventName{group, name}] = e
	for _, a := range t.arrays {
		a.show(Subsystem{Name: group, Gen: s.gen, Hidden: s.hidden}, a.newFile(e))
	}
	t.events.set(id, e)
	return e
}

// makeEvent creates an event that nobody can find yet.
func (t *Tracer) makeEvent(group, name string, id uint16, class eventClass) *Event {
	e := &Event{Group: group, Name: name, ID: id, tracer: t, class: class, fields: class.fields(), size: field.HeaderSize}
	if c, ok := class.(definedClass); ok {
		e.kind = c.Kind()
	}
	for _, f := range e.fields {
		e.size = max(e.size, f.Offset+f.Size)
	}
	return e
}

// newLocalEvent creates an event that only perf uses. Its entries have the ID 0, and filters know
// none of their fields.
func (t *Tracer) newLocalEvent(group, name string, class eventClass) *Event {
	e := t.makeEvent(group, name, 0, class)
	e.fields = nil
	return e
}

// newEventType returns the ID of a new event: the next one, or the lowest free one
// after all have been used.
func (t *Tracer) newEventType() (uint16, bool) {
	if t.nextType <= maxEventType && !t.conf.has[release.ReuseIDs] {
		t.nextType++
		return uint16(t.nextType - 1), true
	}
	for id := int(t.conf.firstEvent()); id <= maxEventType; id++ {
		if t.events.get(uint16(id)) == nil {
			return uint16(id), true
		}
	}
	return 0, false
}

// forgetEvent is trace_remove_event_call for an event that is off in all arrays.
func (t *Tracer) forgetEvent(e *Event) {
	e.gone.Store(true)
	delete(t.namesInUse, eventName{e.Group, e.Name})
	s := t.subsystems[e.Group]
	if i, found := slices.BinarySearchFunc(s.events, e.Gen, byGen); found {
		s.events = slices.Delete(s.events, i, i+1)
	}
	t.dirChanged(false, e.Group, e.Name)
	if len(s.events) == 0 {
		delete(t.subsystems, e.Group)
		t.dirChanged(false, e.Group, "")
	}
	for _, a := range t.arrays {
		a.forget(e)
	}
	t.events.set(e.ID, nil)
}

// byGen compares an event with a generation: subsystems have their events in that order.
func byGen(e *Event, gen uint64) int { return cmp.Compare(e.Gen, gen) }

// EnableText returns the text of the event's file enable: 0 or 1, and "*" if triggers
// need the event. It fails with ENODEV if the event is gone.
func (f *EventFile) EnableText() (string, error) {
	if f.gone.Load() {
		return "", f.goneError()
	}
	text, flags := "0", f.flags.Load()
	if flags&(fileEnabled|fileSoftDisabled) == fileEnabled {
		text = "1"
	}
	if flags&(fileSoftMode|fileSoftDisabled) != 0 {
		text += "*"
	}
	return text + "\n", nil
}

func (e *Event) goneError() error {
	return fmt.Errorf("%s/%s is gone: %w", e.Group, e.Name, syscall.ENODEV)
}

// enableText returns 1, 0, or X if some events are on and some are off.
func enableText(on []bool) string {
	switch {
	case !slices.Contains(on, true):
		return "0\n"
	case !slices.Contains(on, false):
		return "1\n"
	}
	return "X\n"
}

// Enable handles a write to the event's file enable: 0 or 1. It fails with EINVAL for
// anything else, and with ENODEV if the event is gone.
func (f *EventFile) Enable(data []byte) error {
	return f.array.switchTo(data, func(on bool) error {
		if f.gone.Load() {
			return f.goneError()
		}
		return f.set(on)
	})
}

func enableValue(data []byte) (bool, error) {
	v, err := kstrtox.FromUser(data)
	if err == nil && v > 1 {
		err = fmt.Errorf("%d is neither 0 nor 1: %w", v, syscall.EINVAL)
	}
	return v == 1, err
}

// set is ftrace_event_enable_disable: it starts or stops the recording of hits. An
// event that is in soft mode stays on when recording stops. The caller holds mu.
func (f *EventFile) set(on bool) error {
	soft := f.flags.Load()&fileSoftMode != 0
	switch {
	case on:
		f.flags.And(^uint32(fileSoftDisabled))
		return f.start()
	case soft:
		f.flags.Or(fileSoftDisabled)
	default:
		f.stop()
		f.flags.And(^uint32(fileSoftDisabled))
	}
	return nil
}

// setSoft is __ftrace_event_enable_disable with soft_disable: a trigger starts or stops
// needing the event's hits. They are recorded only if the file enable says so. The
// caller holds mu.
func (f *EventFile) setSoft(on bool) error {
	if !on {
		if f.softRefs--; f.softRefs > 0 {
			return nil
		}
		f.flags.And(^uint32(fileSoftMode))
		if f.flags.Load()&fileSoftDisabled != 0 {
			f.stop()
			f.flags.And(^uint32(fileSoftDisabled))
		}
		return nil
	}
	if f.softRefs++; f.softRefs > 1 {
		return nil
	}
	f.flags.Or(fileSoftMode)
	if f.flags.Load()&fileEnabled == 0 {
		f.flags.Or(fileSoftDisabled)
	}
	return f.start()
}

// start turns the event on for the file.
func (f *EventFile) start() error {
	if f.flags.Load()&fileEnabled != 0 {
		return nil
	}
	first := !f.wanted()
	f.flags.Or(fileEnabled)
	f.change(func(files []*EventFile) []*EventFile { return append(files, f) })
	if first {
		if err := f.class.enable(); err != nil {
			f.flags.And(^uint32(fileEnabled))
			f.change(f.without)
			f.tracer.conf.Machine.Printk(6, "event trace: Could not enable event %s", f.Name)
			return fmt.Errorf("enable %s/%s: %w", f.Group, f.Name, err)
		}
	}
	f.wasEnabled = true
	f.tracer.updateSaving()
	return nil
}

// stop turns it off; when it returns, no handler is using the file.
func (f *EventFile) stop() {
	if f.flags.Load()&fileEnabled == 0 {
		return
	}
	f.flags.And(^uint32(fileEnabled))
	f.change(f.without)
	if !f.wanted() {
		f.class.disable()
	}
	f.tracer.updateSaving()
	f.tracer.conf.Machine.SynchronizeRCU()
}

// updateSaving updates savesNames: tracing_start_cmdline_record.
func (t *Tracer) updateSaving() {
	saves := false
	for _, a := range t.arrays {
		if !a.has(optRecordCmd) {
			continue
		}
		for _, f := range a.files {
			saves = saves || f.Enabled()
		}
	}
	t.savesNames.Store(saves)
}

func (f *EventFile) without(files []*EventFile) []*EventFile {
	return slices.DeleteFunc(files, func(x *EventFile) bool { return x == f })
}

// change replaces the list of enabled files.
func (e *Event) change(do func([]*EventFile) []*EventFile) {
	var files []*EventFile
	if old := e.files.Load(); old != nil {
		files = slices.Clone(*old)
	}
	before := len(files)
	files = do(files)
	e.files.Store(&files)
	e.listens(len(files) - before)
}

// listens counts more, or fewer, users of the event's hits.
func (e *Event) listens(more int) {
	e.tracer.listen(int64(more), e.kind != dynevent.Kprobe && e.kind != dynevent.Kretprobe)
}

// Format returns the text of the event's file format. It fails with ENODEV if the event
// is gone.
func (e *Event) Format() (string, error) {
	if e.gone.Load() {
		return "", e.goneError()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nID: %d\nformat:\n", e.Name, e.ID)
	for _, f := range field.Common {
		b.WriteString(f.String())
	}
	b.WriteByte('\n')
	for _, f := range e.fields {
		if e.tracer.conf.has[release.UnsignedChar] && f.PlainChar() && !e.dynamic() {
			f.Signed = false
		}
		b.WriteString(f.String())
	}
	b.WriteByte('\n')
	fmt.Fprintf(&b, "print fmt: %s\n", e.class.printFmt())
	return b.String(), nil
}

// dynamic reports whether the event was defined by a write.
func (e *Event) dynamic() bool { return e.kind != dynevent.NotDynamic }

// IDText returns the text of the event's file id. It fails with ENODEV if the event is
// gone.
func (e *Event) IDText() (string, error) {
	if e.gone.Load() {
		return "", e.goneError()
	}
	return fmt.Sprintf("%d\n", e.ID), nil
}
