package tracing

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// EventSwitches are the events of an array, each with its file, and the files that switch
// several of them: set_event, events/enable, and a subsystem's.
//
// Tracer.mu guards it, but for the list of subsystems, which is replaced as a whole and is
// read without a lock. The exported methods take that lock.
type EventSwitches struct {
	tracer *Tracer
	sizes  *BufferSizes // the buffer grows when an event is switched on

	files      map[*Event]*EventFile
	systems    atomic.Pointer[[]Subsystem]
	staticOn   bool // see EnableAllText
	clearTrace bool // an event that had been enabled was deleted: its entries must be dropped
}

// show adds the file of a new event to what Subsystems returns, the newest of a subsystem, which may be new
// too.
func (w *EventSwitches) show(of Subsystem, f *EventFile) {
	w.files[f.Event] = f
	systems := slices.Clone(*w.systems.Load())
	i := slices.IndexFunc(systems, func(s Subsystem) bool { return s.Name == of.Name })
	if i < 0 {
		i = len(systems)
		systems = append(systems, of)
	}
	// Who has the list of before sees its length only.
	systems[i].Events = append(systems[i].Events, f)
	w.systems.Store(&systems)
}

// hide takes the event out of what Subsystems returns, and its subsystem if that has no other.
func (w *EventSwitches) hide(group string, f *EventFile) {
	systems := slices.Clone(*w.systems.Load())
	i := slices.IndexFunc(systems, func(s Subsystem) bool { return s.Name == group })
	if i < 0 {
		return
	}
	events := systems[i].Events
	switch k, found := slices.BinarySearchFunc(events, f.Gen, func(f *EventFile, gen uint64) int { return byGen(f.Event, gen) }); {
	case found && k == 0: // who has the list of before keeps it
		events = events[1:]
	case found:
		events = slices.Concat(events[:k], events[k+1:])
	}
	if systems[i].Events = events; len(events) == 0 {
		systems = slices.Delete(systems, i, i+1)
	}
	w.systems.Store(&systems)
}

// addAll gives a new array a file for each event of another one.
func (w *EventSwitches) addAll(of []Subsystem, newFile func(*Event) *EventFile) {
	systems := slices.Clone(of)
	for i, s := range systems {
		files := make([]*EventFile, len(s.Events))
		for k, f := range s.Events {
			files[k] = newFile(f.Event)
			w.files[f.Event] = files[k]
		}
		systems[i].Events = files
	}
	w.systems.Store(&systems)
}

// forgetEvents begins without any events.
func (w *EventSwitches) forgetEvents() {
	w.files = map[*Event]*EventFile{}
	w.systems.Store(&[]Subsystem{})
}

// forget takes an event out that was deleted.
func (w *EventSwitches) forget(e *Event) {
	f := w.files[e]
	w.clearTrace = w.clearTrace || f.wasEnabled
	w.hide(e.Group, f)
	delete(w.files, e)
}

// findFile is __find_event_file, or, without own, find_event_file, which does not find
// events of group ftrace.
func (w *EventSwitches) findFile(group, event string, own bool) *EventFile {
	e := w.tracer.namesInUse[eventName{group, event}]
	if e == nil || e.Internal && !own {
		return nil
	}
	return w.files[e]
}

// Subsystems returns the directories below events, the oldest first.
func (w *EventSwitches) Subsystems() []Subsystem { return *w.systems.Load() }

// newestFirst returns all events in the kernel's order.
func (w *EventSwitches) newestFirst() []*EventFile {
	var all []*EventFile
	for _, s := range w.Subsystems() {
		all = append(all, s.Events...)
	}
	slices.SortFunc(all, func(a, b *EventFile) int { return int(b.Gen) - int(a.Gen) })
	return slices.DeleteFunc(all, func(f *EventFile) bool { return f.Internal })
}

// AvailableEvents returns the lines of available_events, the newest event first.
func (w *EventSwitches) AvailableEvents() []string {
	return eventLines(w.newestFirst(), func(*EventFile) bool { return true })
}

// SetEvents returns the lines of set_event: the enabled events.
func (w *EventSwitches) SetEvents() []string {
	return eventLines(w.newestFirst(), (*EventFile).Enabled)
}

func eventLines(events []*EventFile, want func(*EventFile) bool) []string {
	var lines []string
	for _, e := range events {
		if want(e) {
			lines = append(lines, e.Group+":"+e.Name+"\n")
		}
	}
	return lines
}

// SystemEnableText returns the text of a subsystem's file enable. It fails with ENODEV
// if the subsystem is gone.
func (w *EventSwitches) SystemEnableText(name string) (string, error) {
	var on []bool
	found := false
	for _, s := range w.Subsystems() {
		for _, e := range s.Events {
			found = found || s.Name == name
			if s.Name == name && !e.Internal {
				on = append(on, e.Enabled())
			}
		}
	}
	switch {
	case !found:
		return "", fmt.Errorf("subsystem %s is gone: %w", name, syscall.ENODEV)
	case on == nil:
		return "?\n", nil // group ftrace has no events that can be enabled
	}
	return enableText(on), nil
}

// EnableSystem handles a write to a subsystem's file enable.
func (w *EventSwitches) EnableSystem(name string, data []byte) error {
	return w.switchTo(data, func(on bool) error { return w.setEvents("", name, "", on) })
}

// switchTo handles a write of 0 or 1 to a file enable: it calls set with the tracer's lock, after the buffer has its
// full size if something is switched on.
func (w *EventSwitches) switchTo(data []byte, set func(on bool) error) error {
	on, err := enableValue(data)
	if err != nil {
		return err
	}
	w.tracer.mu.Lock()
	defer w.tracer.mu.Unlock()
	if err := w.sizes.expandFor(on); err != nil {
		return err
	}
	return set(on)
}

// EnableAllText returns the text of events/enable. Linux counts its static events
// there. In a kernel without tracepoints, one imaginary event stands for them, which
// only events/enable and the ":" of set_event switch.
func (w *EventSwitches) EnableAllText() string {
	w.tracer.mu.Lock()
	defer w.tracer.mu.Unlock()
	var on []bool
	if len(w.tracer.tracepoints) == 0 {
		on = append(on, w.staticOn)
	}
	for _, e := range w.newestFirst() {
		on = append(on, e.Enabled())
	}
	return enableText(on)
}

// EnableAll handles a write to events/enable.
func (w *EventSwitches) EnableAll(data []byte) error { return w.switchTo(data, w.setAll) }

func (w *EventSwitches) setAll(on bool) error {
	w.staticOn = on
	if err := w.setEvents("", "", "", on); err != nil && len(w.tracer.namesInUse) > 0 {
		return err
	}
	return nil
}

// ClearSetEvent disables all events, as an open of set_event with O_TRUNC does.
func (w *EventSwitches) ClearSetEvent() {
	w.tracer.mu.Lock()
	defer w.tracer.mu.Unlock()
	_ = w.setAll(false)
}

// WriteSetEvent handles the first word of a write to set_event and returns how many
// bytes it consumed: "EVENT", "GROUP", "GROUP:EVENT", "GROUP:" or "*:EVENT", with "!"
// in front to disable. It fails with EINVAL if the word matches no event.
func (w *EventSwitches) WriteSetEvent(data []byte) (int, error) {
	w.tracer.mu.Lock()
	defer w.tracer.mu.Unlock()
	word, used, err := nextWord(data, eventWordSize)
	name, off := strings.CutPrefix(word, "!")
	if err := w.sizes.expandFor(!off); err != nil {
		return 0, err
	}
	if err == nil && word != "" {
		err = w.setNamed(name, !off)
	}
	if err != nil {
		return 0, fmt.Errorf("set_event %q: %w", word, err)
	}
	return used, nil
}

// eventWordSize is EVENT_BUF_SIZE and a NUL.
const eventWordSize = 128

// setNamed is ftrace_set_clr_event.
func (w *EventSwitches) setNamed(name string, on bool) error {
	group, event, found := strings.Cut(name, ":")
	switch {
	case name == "":
		return fmt.Errorf("no event: %w", syscall.EINVAL)
	case !found:
		return w.setEvents(name, "", "", on)
	}
	if group == "*" {
		group = ""
	}
	if event == "*" {
		event = ""
	}
	if group == "" && event == "" {
		return w.setAll(on)
	}
	return w.setEvents("", group, event, on)
}

// setEvents is __ftrace_set_clr_event: either names an event or a group, and "" matches
// any. It fails with EINVAL if nothing matches. It tries all that match and returns the
// first error.
func (w *EventSwitches) setEvents(either, group, event string, on bool) error {
	result := fmt.Errorf("no such event: %w", syscall.EINVAL)
	found := false
	for _, e := range w.newestFirst() {
		if either != "" && e.Name != either && e.Group != either || group != "" && e.Group != group || event != "" && e.Name != event {
			continue
		}
		err := e.set(on)
		if !found {
			result, found = err, true
		} else if result == nil {
			result = err
		}
	}
	return result
}

// systemFilterText is the constant text of a subsystem's file filter.
const systemFilterText = `### global filter ###
# Use this to set filters for multiple events.
# Only events with the given fields will be affected.
# If no events are modified, an error message will be displayed here
`

// SystemFilterText returns the text of a subsystem's file filter. It fails with ENODEV
// if the subsystem is gone.
func (w *EventSwitches) SystemFilterText(name string) (string, error) {
	if _, err := w.SystemEnableText(name); err != nil {
		return "", err
	}
	return systemFilterText, nil
}

// SetSystemFilter handles a write to a subsystem's file filter, which sets the filter
// of each event. The files of events that refuse it show the reason; the write succeeds
// nevertheless. It fails with EINVAL for a page or more, with ENODEV if the subsystem is
// gone, and with ENOMEM if there is no memory for the filter of one of the events; the
// events before that one have theirs.
func (w *EventSwitches) SetSystemFilter(name string, data []byte) error {
	text, err := filterText(data)
	if err != nil {
		return err
	}
	w.tracer.mu.Lock()
	defer w.tracer.mu.Unlock()
	s := w.tracer.subsystems[name]
	if s == nil {
		return fmt.Errorf("subsystem %s is gone: %w", name, syscall.ENODEV)
	}
	for _, e := range s.events {
		if !e.Internal {
			if err := w.files[e].setFromSystem(text); err != nil {
				return err
			}
		}
	}
	return nil
}
