package tracing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
)

// triggerType is event_trigger_type: a file accepts only one trigger of each type.
type triggerType byte

const (
	triggerOnOff triggerType = iota
	triggerSnapshot
	triggerStacktrace
	triggerEnableEvent
	triggerEnableHist
	triggerHist
	triggerEprobe
)

// triggerCommand is event_command: the first word of a line of the file trigger.
type triggerCommand struct {
	name string
	typ  triggerType
	// needsEntry says that the command reads the entry of the hit, so that it runs
	// after the entry is filled in.
	needsEntry bool
	// parse creates and adds a trigger, or, if remove is set, removes one. args is the
	// text after the command. The caller holds Tracer.mu.
	parse func(f *EventFile, c *triggerCommand, args string, remove bool) error
	// needs prepares what the command needs of the array; it may be nil.
	needs func(a *Array) error
	// after acts after the hit has been recorded or filtered out, in handler context.
	after func(f *EventFile, s *subject)
	// hit acts, in handler context. It is nil for histograms.
	hit func(t *trigger, h triggerHit)
	// idle says that the command has nothing to do, so the count is not decremented.
	idle func(t *trigger) bool
}

// triggerCommands are listed in the order in which they are tried and in which an empty
// file names them.
var triggerCommands = [...]*triggerCommand{
	{name: "traceon", typ: triggerOnOff, parse: parseTrigger, idle: isOn, hit: func(t *trigger, _ triggerHit) { t.file.array.buffer.SetOn(true) }},
	{name: "traceoff", typ: triggerOnOff, parse: parseTrigger, idle: isOff, hit: func(t *trigger, _ triggerHit) { t.file.array.buffer.SetOn(false) }},
	{name: "snapshot", typ: triggerSnapshot, parse: parseTrigger, needs: (*Array).allocSnapshot, hit: func(t *trigger, h triggerHit) { t.file.array.takeSnapshot(h, false) }},
	{name: "stacktrace", typ: triggerStacktrace, parse: parseTrigger, after: (*EventFile).stackTrigger},
	{name: "enable_event", typ: triggerEnableEvent, parse: parseEnableTrigger, idle: isRecorded, hit: record},
	{name: "disable_event", typ: triggerEnableEvent, parse: parseEnableTrigger, idle: isNotRecorded, hit: dontRecord},
	{name: "enable_hist", typ: triggerEnableHist, parse: parseEnableTrigger, hit: func(t *trigger, _ triggerHit) { t.target.pauseHists(false) }},
	{name: "disable_hist", typ: triggerEnableHist, parse: parseEnableTrigger, hit: func(t *trigger, _ triggerHit) { t.target.pauseHists(true) }},
	{name: "hist", typ: triggerHist, needsEntry: true, parse: parseHistTrigger},
}

func isOn(t *trigger) bool  { return t.file.array.On() }
func isOff(t *trigger) bool { return !isOn(t) }

func isRecorded(t *trigger) bool          { return t.target.flags.Load()&fileSoftDisabled == 0 }
func isNotRecorded(t *trigger) bool       { return !isRecorded(t) }
func record(t *trigger, _ triggerHit)     { t.target.flags.And(^uint32(fileSoftDisabled)) }
func dontRecord(t *trigger, _ triggerHit) { t.target.flags.Or(fileSoftDisabled) }

// unlimited is the count of a trigger without one.
const unlimited = math.MaxUint64

// trigger is event_trigger_data: a line of the file trigger.
type trigger struct {
	command *triggerCommand
	file    *EventFile
	count   atomic.Uint64  // how many more times it acts
	filter  *filter.Filter // nil matches all hits
	target  *EventFile     // of enable_event, disable_event, enable_hist and disable_hist

	eprobe *traceEprobe // the eprobe that the trigger runs; the file does not show it

	hist   *histData   // of a hist trigger; triggers of one name share it
	name   string      // name= of a hist trigger
	paused atomic.Bool // pause: it does nothing
}

// fileTriggers are the triggers of a file. Changes replace the whole struct under
// Tracer.mu.
type fileTriggers struct {
	list []*trigger
	// cond is EVENT_FILE_FL_TRIGGER_COND: one of them needs the entry. Otherwise all
	// run before there is an entry.
	cond bool
}

// triggerHit is the hit at which a trigger or a command runs.
type triggerHit struct {
	trap *abi.Trap
	held bool // the entry is reserved, with preemption off
}

// run is event_triggers_call. It runs in handler context. s is nil if there is no
// entry. post says that after must be called after the recording.
func (ts *fileTriggers) run(trap *abi.Trap, s *subject) (post bool) {
	h := triggerHit{trap, s != nil}
	for _, t := range ts.list {
		switch {
		case t.paused.Load() || s != nil && !t.filter.Passes(&s.Subject):
		case t.command.after != nil:
			post = true
		case t.eprobe != nil:
			t.eprobe.hit(s)
		case t.hist != nil:
			t.file.tracer.hitHist(t.hist, s)
		default:
			t.hit(h)
		}
	}
	return post
}

// after is event_triggers_post_call. It runs in handler context.
func (ts *fileTriggers) after(s *subject) {
	for _, t := range ts.list {
		if t.command.after != nil && t.filter.Passes(&s.Subject) && t.counts() {
			t.command.after(t.file, s)
		}
	}
}

func (t *trigger) hit(h triggerHit) {
	if t.command.idle != nil && t.command.idle(t) {
		return
	}
	if t.counts() {
		t.command.hit(t, h)
	}
}

// counts decrements the trigger's count; it returns false if the count is used up.
func (t *trigger) counts() bool {
	for {
		switch n := t.count.Load(); {
		case n == 0:
			return false
		case n == unlimited || t.count.CompareAndSwap(n, n-1):
			return true
		}
	}
}

// stackTrigger is stacktrace_trigger. A task's system call, which no vCPU runs, has no
// stack.
func (f *EventFile) stackTrigger(s *subject) {
	a := f.array
	if !isTask(s.Trap) && a.recording() {
		if a.has(optRecordCmd) {
			a.tracer.saveCmdline(a.tracer.scratch(s.Trap), a.tracer.currentPID(s.Trap))
		}
		a.recordStack(s.Trap, a.tracer.unwindHandler(s.Trap, f.Event), a.now(), s.Entry[2], s.Entry[3])
	}
}

// Triggers returns the lines of the file trigger, or the names of the commands if it
// has no trigger. It fails with ENODEV if the event is gone.
func (f *EventFile) Triggers() ([]string, error) {
	f.tracer.mu.Lock()
	defer f.tracer.mu.Unlock()
	if f.gone.Load() {
		return nil, f.goneError()
	}
	var lines []string
	for _, t := range f.triggerList() {
		if t.eprobe == nil {
			lines = append(lines, t.text())
		}
	}
	if lines == nil {
		return []string{f.tracer.availableTriggers()}, nil
	}
	return lines, nil
}

// triggerCommands returns the commands of the release.
func (t *Tracer) triggerCommands() []*triggerCommand {
	if t.conf.has[release.HistTriggers] {
		return triggerCommands[:]
	}
	return slices.DeleteFunc(slices.Clone(triggerCommands[:]), func(c *triggerCommand) bool {
		return c.typ == triggerHist || c.typ == triggerEnableHist
	})
}

func (t *Tracer) availableTriggers() string {
	text := "# Available triggers:\n#"
	for _, c := range t.triggerCommands() {
		text += " " + c.name
	}
	return text + "\n"
}

func (f *EventFile) triggerList() []*trigger {
	if ts := f.triggers.Load(); ts != nil {
		return ts.list
	}
	return nil
}

// text is event_trigger_print.
func (t *trigger) text() string {
	if t.hist != nil {
		return t.histText()
	}
	text := t.command.name
	if t.target != nil {
		text += ":" + t.target.Group + ":" + t.target.Name
	}
	if n := t.count.Load(); n == unlimited {
		text += ":unlimited"
	} else {
		text += fmt.Sprintf(":count=%d", int64(n))
	}
	if t.filter != nil {
		text += " if " + t.filter.Text
	}
	return text + "\n"
}

// WriteTrigger handles a write to the file trigger, which is one command:
// "COMMAND[:ARGS] [if FILTER]" adds a trigger, with "!" in front it removes one. It
// fails with EINVAL if there is no such command or its arguments are invalid, with
// EEXIST if the file has a trigger of its type, with ERANGE if the count needs more
// than 64 bits, and with ENODEV if the event is gone.
func (f *EventFile) WriteTrigger(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if len(data) >= abi.PageSize {
		return fmt.Errorf("a trigger of %d bytes: %w", len(data), syscall.EINVAL)
	}
	text := kstrtox.Strip(kstrtox.CString(data))
	f.tracer.mu.Lock()
	defer f.tracer.mu.Unlock()
	if f.gone.Load() {
		return f.goneError()
	}
	word, args := text, ""
	if i := strings.IndexAny(text, ": \t"); i >= 0 {
		word, args = text[:i], kstrtox.SkipSpaces(text[i+1:])
	}
	name, remove := strings.CutPrefix(word, "!")
	for _, c := range f.tracer.triggerCommands() {
		if c.name == name {
			return c.parse(f, c, args, remove)
		}
	}
	return fmt.Errorf("no trigger %q: %w", name, syscall.EINVAL)
}

// errTrigger returns EINVAL for an error that the kernel does not describe.
func errTrigger(args string) error {
	return fmt.Errorf("trigger argument %q: %w", args, syscall.EINVAL)
}

// parseTrigger is event_trigger_parse: "[:COUNT] [if FILTER]". A removal only compares
// the command.
func parseTrigger(f *EventFile, c *triggerCommand, args string, remove bool) error {
	if remove {
		f.removeTrigger(func(t *trigger) bool { return t.command.typ == c.typ })
		return nil
	}
	count, filter := "", args
	if kstrtox.DigitFirst(args) {
		count, filter = cutBlank(args)
	}
	t := &trigger{command: c, file: f}
	if err := t.parseCount(count); err != nil {
		return err
	}
	if err := t.parseFilter(filter); err != nil {
		return err
	}
	for _, old := range f.triggerList() {
		if old.command.typ == c.typ {
			return fmt.Errorf("a trigger %s: %w", old.command.name, syscall.EEXIST)
		}
	}
	if c.needs != nil {
		if err := c.needs(f.array); err != nil {
			return err
		}
	}
	return f.addTrigger(t)
}

// parseEnableTrigger is event_enable_trigger_parse: "SYSTEM:EVENT[:COUNT] [if
// FILTER]".
func parseEnableTrigger(f *EventFile, c *triggerCommand, args string, remove bool) error {
	what, filter := cutBlank(args)
	group, event, found := strings.Cut(what, ":")
	event, count, _ := strings.Cut(event, ":")
	target := f.array.findFile(group, event)
	if !found || target == nil {
		return errTrigger(args)
	}
	same := func(t *trigger) bool { return t.command.typ == c.typ && t.target == target }
	if remove {
		f.removeTrigger(same)
		return nil
	}
	t := &trigger{command: c, file: f, target: target}
	if err := t.parseCount(count); err != nil {
		return err
	}
	if err := t.parseFilter(filter); err != nil {
		return err
	}
	if slices.ContainsFunc(f.triggerList(), same) {
		return fmt.Errorf("a trigger on %s: %w", what, syscall.EEXIST)
	}
	if err := target.setSoft(true); err != nil {
		return err
	}
	if err := f.addTrigger(t); err != nil {
		_ = target.setSoft(false)
		return err
	}
	return nil
}

// findFile is find_event_file.
func (a *Array) findFile(group, event string) *EventFile {
	for e, f := range a.files {
		if e.Group == group && e.Name == event && !e.Internal {
			return f
		}
	}
	return nil
}

// findAnyFile is __find_event_file, which also finds events of group ftrace.
func (a *Array) findAnyFile(group, event string) *EventFile {
	e := a.tracer.namesInUse[eventName{group, event}]
	return a.files[e]
}

// cutBlank splits s at its first blanks or tabs, which belong to neither part.
func cutBlank(s string) (before, after string) {
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], kstrtox.SkipSpaces(s[i+1:])
	}
	return s, ""
}

// parseCount is event_trigger_parse_num; anything after a colon is ignored.
func (t *trigger) parseCount(text string) error {
	t.count.Store(unlimited)
	text, _, _ = strings.Cut(text, ":")
	if text == "" {
		return nil
	}
	n, err := kstrtox.ParseUint(text, 0, math.MaxUint64)
	if err != nil {
		return fmt.Errorf("count: %w", err)
	}
	t.count.Store(n)
	return nil
}

// parseFilter is set_trigger_filter: "if FILTER", or nothing. An error in the filter is
// reported as an errno only.
func (t *trigger) parseFilter(text string) error {
	if text == "" {
		return nil
	}
	word, rest := text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		word, rest = text[:i], text[i+1:]
	}
	if word != "if" || rest == "" {
		return errTrigger(text)
	}
	parsed, err := filter.Parse(rest, t.file.entryMembers())
	if err != nil {
		if t.file.tracer.conf.has[release.LogTriggerFilter] {
			t.file.array.logError("event filter parse error", err.Text, rest, err.Pos)
		}
		return fmt.Errorf("filter %q: %w", rest, err)
	}
	t.filter = parsed
	return nil
}

// addTrigger is register_trigger: it puts the file's event into soft mode. Histograms
// are listed in the order of their creation, after all others, of which the newest is
// first.
func (f *EventFile) addTrigger(t *trigger) error {
	if err := f.setSoft(true); err != nil {
		return err
	}
	list := slices.Clone(f.triggerList())
	if t.hist != nil {
		t.hist.shared++
		f.array.timestamps.Add(t.hist.stamps())
		list = append(list, t)
	} else {
		list = slices.Insert(list, 0, t)
	}
	f.setTriggers(list)
	return nil
}

// removeTrigger is unregister_trigger: it removes the first trigger that matches.
func (f *EventFile) removeTrigger(fits func(*trigger) bool) {
	list := slices.Clone(f.triggerList())
	i := slices.IndexFunc(list, fits)
	if i < 0 {
		return
	}
	t := list[i]
	f.setTriggers(slices.Delete(list, i, i+1))
	_ = f.setSoft(false)
	if h := t.hist; h != nil {
		f.array.timestamps.Add(-h.stamps())
		if h.shared--; h.shared == 0 {
			h.dropActions()
		}
	}
	if t.target != nil {
		_ = t.target.setSoft(false)
	}
	f.tracer.conf.Machine.SynchronizeRCU()
}

func (f *EventFile) setTriggers(list []*trigger) {
	if len(list) == 0 {
		f.triggers.Store(nil)
		return
	}
	ts := &fileTriggers{list: list}
	for _, t := range list {
		ts.cond = ts.cond || t.filter != nil || t.command.needsEntry || t.command.after != nil
	}
	f.triggers.Store(ts)
}

// pauseHists is hist_enable_trigger: it pauses or continues the file's histograms. It
// runs in handler context.
func (f *EventFile) pauseHists(pause bool) {
	for _, t := range f.triggerList() {
		if t.hist != nil {
			t.paused.Store(pause)
		}
	}
}
