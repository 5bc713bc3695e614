// Package trigger is kernel/trace/trace_events_trigger.c: what happens at the hits of an
// event besides recording them, a line of the file trigger for each.
//
// Triggers belong to an event in one array. Write parses a command and adds or removes
// a trigger; Lines shows them. At a hit, recording calls Active (File.SetActive), which is
// replaced as a whole at each change. A trigger is a row of commands, a hist trigger
// (package hist) or the callback of an eprobe.
//
// What triggers switch they reach through File; they know neither events nor buffers.
package trigger

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
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/hist"
)

// File is an event in one array.
type File interface {
	// Title returns the names of the event's group and of the event.
	Title() (group, event string)
	// Members returns the members of the event's entries by name.
	Members() map[string]*field.Member
	// Array returns the array; it is comparable.
	Array() hist.Array
	// Target returns the triggers of another event in this array, or nil.
	Target(group, event string) *Triggers
	// SetSoft says that a trigger starts or stops needing the event's hits.
	SetSoft(on bool) error
	// SetActive replaces what is called at hits; nil if there are no triggers.
	SetActive(a *Active)
	// AllocSnapshot allocates the array's snapshot unless there is one.
	AllocSnapshot() error

	// The following run in handler context.

	// Recorded reports whether hits are recorded, SetRecorded switches that.
	Recorded() bool
	SetRecorded(on bool)
	// Recording reports whether the array records, SetRecording switches that.
	Recording() bool
	SetRecording(on bool)
	// Snapshot takes a snapshot. inEntry says that the entry of the hit is reserved, with
	// preemption off.
	Snapshot(trap *abi.Trap, inEntry bool)
	// RecordStack records the stack of a hit as an entry of its own.
	RecordStack(s *filter.Subject)
	// Stack returns the stack of a hit of the event, without the functions that record it.
	// The result is valid until the vCPU's next hit.
	Stack(trap *abi.Trap) []uint64
}

// Config is what the triggers of all events share.
type Config struct {
	Has     *release.Set
	Hists   *hist.Hists
	Filters *filter.Rules
	// SynchronizeRCU returns when every handler that was running has returned.
	SynchronizeRCU func()
}

// Triggers are the triggers of an event in one array. The caller of its methods holds
// event_mutex.
type Triggers struct {
	File
	conf *Config
	list []*trigger // in the order in which they run and are shown

	active atomic.Pointer[Active] // as given to File.SetActive
}

var _ hist.File = (*Triggers)(nil)

// New returns the triggers of a file, which has none yet.
func New(c *Config, f File) *Triggers { return &Triggers{File: f, conf: c} }

// commandType is event_trigger_type: a file accepts only one trigger of each type.
type commandType byte

const (
	typeOnOff commandType = iota
	typeSnapshot
	typeStacktrace
	typeEnableEvent
	typeEnableHist
	typeHist
)

// command is event_command: the first word of a line of the file trigger.
type command struct {
	name string
	typ  commandType
	// parse creates and adds a trigger, or, if remove is set, removes one. args is the
	// text after the command.
	parse func(ts *Triggers, c *command, args string, remove bool) error
	// needs prepares what the command needs of the array; it may be nil.
	needs func(f File) error
	// after acts after the hit has been recorded or filtered out, in handler context.
	after func(f File, s *filter.Subject)
	// hit acts, in handler context. It is nil for histograms. inEntry says that the entry
	// of the hit is reserved.
	hit func(t *trigger, trap *abi.Trap, inEntry bool)
	// idle says that the command has nothing to do, so the count is not decremented.
	idle func(t *trigger) bool
}

// commands are listed in the order in which they are tried and in which an empty file
// names them.
var commands = [...]*command{
	{name: "traceon", typ: typeOnOff, parse: parseTrigger, idle: isOn, hit: func(t *trigger, _ *abi.Trap, _ bool) { t.file.SetRecording(true) }},
	{name: "traceoff", typ: typeOnOff, parse: parseTrigger, idle: isOff, hit: func(t *trigger, _ *abi.Trap, _ bool) { t.file.SetRecording(false) }},
	{name: "snapshot", typ: typeSnapshot, parse: parseTrigger, needs: File.AllocSnapshot, hit: func(t *trigger, trap *abi.Trap, inEntry bool) { t.file.Snapshot(trap, inEntry) }},
	{name: "stacktrace", typ: typeStacktrace, parse: parseTrigger, after: File.RecordStack},
	{name: "enable_event", typ: typeEnableEvent, parse: parseEnableTrigger, idle: isRecorded, hit: func(t *trigger, _ *abi.Trap, _ bool) { t.target.SetRecorded(true) }},
	{name: "disable_event", typ: typeEnableEvent, parse: parseEnableTrigger, idle: isNotRecorded, hit: func(t *trigger, _ *abi.Trap, _ bool) { t.target.SetRecorded(false) }},
	{name: "enable_hist", typ: typeEnableHist, parse: parseEnableTrigger, hit: func(t *trigger, _ *abi.Trap, _ bool) { t.target.pauseHists(false) }},
	{name: "disable_hist", typ: typeEnableHist, parse: parseEnableTrigger, hit: func(t *trigger, _ *abi.Trap, _ bool) { t.target.pauseHists(true) }},
	{name: "hist", typ: typeHist, parse: parseHist},
}

func isOn(t *trigger) bool          { return t.file.Recording() }
func isOff(t *trigger) bool         { return !isOn(t) }
func isRecorded(t *trigger) bool    { return t.target.Recorded() }
func isNotRecorded(t *trigger) bool { return !isRecorded(t) }

// unlimited is the count of a trigger without one.
const unlimited = math.MaxUint64

// trigger is event_trigger_data: a line of the file trigger, or an eprobe that is on.
type trigger struct {
	command *command // nil for a histogram and an eprobe
	file    File
	count   atomic.Uint64  // how many more times it acts
	filter  *filter.Filter // nil matches all hits
	target  *Triggers      // of enable_event, disable_event, enable_hist and disable_hist

	hist   *hist.Trigger                      // of a hist trigger, which has its own filter
	eprobe func(trap *abi.Trap, entry []byte) // of an eprobe; the file does not show it
}

// is reports whether the trigger is one of that type.
func (t *trigger) is(typ commandType) bool { return t.command != nil && t.command.typ == typ }

// Active is what recording calls at the hits of an event with triggers. It never changes.
type Active struct {
	list  []*trigger
	entry bool
}

// NeedsEntry is EVENT_FILE_FL_TRIGGER_COND: it reports whether a trigger needs the entry
// of the hit. Otherwise all run before there is an entry.
func (a *Active) NeedsEntry() bool { return a.entry }

// Run is event_triggers_call. It runs in handler context. s is nil if there is no entry.
// post says that After must be called after the recording.
func (a *Active) Run(trap *abi.Trap, s *filter.Subject) (post bool) {
	for _, t := range a.list {
		switch {
		case t.hist != nil:
			t.hist.Hit(s)
		case s != nil && !t.filter.Passes(s):
		case t.eprobe != nil:
			t.eprobe(s.Trap, s.Entry)
		case t.command.after != nil:
			post = true
		default:
			t.hit(trap, s != nil)
		}
	}
	return post
}

// After is event_triggers_post_call. It runs in handler context.
func (a *Active) After(s *filter.Subject) {
	for _, t := range a.list {
		if t.command != nil && t.command.after != nil && t.filter.Passes(s) && t.counts() {
			t.command.after(t.file, s)
		}
	}
}

func (t *trigger) hit(trap *abi.Trap, inEntry bool) {
	if t.command.idle != nil && t.command.idle(t) {
		return
	}
	if t.counts() {
		t.command.hit(t, trap, inEntry)
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

// Lines returns the lines of the file trigger, or the names of the commands if there is no
// trigger.
func (ts *Triggers) Lines() []string {
	var lines []string
	for _, t := range ts.list {
		if t.eprobe == nil {
			lines = append(lines, t.text())
		}
	}
	if lines == nil {
		return []string{ts.conf.available()}
	}
	return lines
}

// commands returns the commands of the release.
func (c *Config) commands() []*command {
	if c.Has[release.HistTriggers] {
		return commands[:]
	}
	return slices.DeleteFunc(slices.Clone(commands[:]), func(c *command) bool {
		return c.typ == typeHist || c.typ == typeEnableHist
	})
}

// available is the text of a file without triggers.
func (c *Config) available() string {
	text := "# Available triggers:\n#"
	for _, c := range c.commands() {
		text += " " + c.name
	}
	return text + "\n"
}

// text is event_trigger_print.
func (t *trigger) text() string {
	if t.hist != nil {
		return t.hist.Text()
	}
	text := t.command.name
	if t.target != nil {
		group, event := t.target.Title()
		text += ":" + group + ":" + event
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

// Write handles the text of a write to the file trigger, which is one command:
// "COMMAND[:ARGS] [if FILTER]" adds a trigger, with "!" in front it removes one. It
// fails with EINVAL if there is no such command or its arguments are invalid, with
// EEXIST if the file has a trigger of its type, and with ERANGE if the count needs more
// than 64 bits.
func (ts *Triggers) Write(text string) error {
	text = kstrtox.Strip(text)
	word, args := text, ""
	if i := strings.IndexAny(text, ": \t"); i >= 0 {
		word, args = text[:i], kstrtox.SkipSpaces(text[i+1:])
	}
	name, remove := strings.CutPrefix(word, "!")
	for _, c := range ts.conf.commands() {
		if c.name == name {
			return c.parse(ts, c, args, remove)
		}
	}
	return fmt.Errorf("no trigger %q: %w", name, syscall.EINVAL)
}

func parseHist(ts *Triggers, _ *command, args string, remove bool) error {
	return ts.conf.Hists.Parse(ts, args, remove)
}

// errTrigger returns EINVAL for an error that the kernel does not describe.
func errTrigger(args string) error {
	return fmt.Errorf("trigger argument %q: %w", args, syscall.EINVAL)
}

// parseTrigger is event_trigger_parse: "[:COUNT] [if FILTER]". A removal only compares
// the command.
func parseTrigger(ts *Triggers, c *command, args string, remove bool) error {
	if remove {
		ts.remove(func(t *trigger) bool { return t.is(c.typ) })
		return nil
	}
	count, filter := "", args
	if kstrtox.DigitFirst(args) {
		count, filter = cutBlank(args)
	}
	t := &trigger{command: c, file: ts.File}
	if err := t.parseCount(count); err != nil {
		return err
	}
	if err := ts.parseFilter(t, filter); err != nil {
		return err
	}
	for _, old := range ts.list {
		if old.is(c.typ) {
			return fmt.Errorf("a trigger %s: %w", old.command.name, syscall.EEXIST)
		}
	}
	if c.needs != nil {
		if err := c.needs(ts.File); err != nil {
			return err
		}
	}
	return ts.add(t)
}

// parseEnableTrigger is event_enable_trigger_parse: "SYSTEM:EVENT[:COUNT] [if
// FILTER]".
func parseEnableTrigger(ts *Triggers, c *command, args string, remove bool) error {
	what, filter := cutBlank(args)
	group, event, found := strings.Cut(what, ":")
	event, count, _ := strings.Cut(event, ":")
	target := ts.Target(group, event)
	if !found || target == nil {
		return errTrigger(args)
	}
	same := func(t *trigger) bool { return t.is(c.typ) && t.target == target }
	if remove {
		ts.remove(same)
		return nil
	}
	t := &trigger{command: c, file: ts.File, target: target}
	if err := t.parseCount(count); err != nil {
		return err
	}
	if err := ts.parseFilter(t, filter); err != nil {
		return err
	}
	if slices.ContainsFunc(ts.list, same) {
		return fmt.Errorf("a trigger on %s: %w", what, syscall.EEXIST)
	}
	if err := target.SetSoft(true); err != nil {
		return err
	}
	if err := ts.add(t); err != nil {
		_ = target.SetSoft(false)
		return err
	}
	return nil
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

// parseFilter is set_trigger_filter: "if FILTER", or nothing.
func (ts *Triggers) parseFilter(t *trigger, text string) (err error) {
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
	t.filter, err = ts.ParseFilter(rest)
	return err
}

// ParseFilter parses the filter of a trigger. Only some releases report an error in it in
// error_log.
func (ts *Triggers) ParseFilter(text string) (*filter.Filter, error) {
	parsed, err := ts.conf.Filters.Parse(text, ts.Members())
	if err == nil {
		return parsed, nil
	}
	if ts.conf.Has[release.LogTriggerFilter] {
		ts.Array().LogError("event filter parse error", err.Text, text, err.Pos)
	}
	return nil, fmt.Errorf("filter %q: %w", text, err)
}

// add is register_trigger: it puts the file's event into soft mode. The newest trigger
// comes first.
func (ts *Triggers) add(t *trigger) error {
	if err := ts.SetSoft(true); err != nil {
		return err
	}
	ts.set(slices.Insert(slices.Clone(ts.list), 0, t))
	return nil
}

// Add adds a histogram. They are listed in the order of their creation, after all other
// triggers.
func (ts *Triggers) Add(h *hist.Trigger) error {
	if err := ts.SetSoft(true); err != nil {
		return err
	}
	ts.set(append(slices.Clone(ts.list), &trigger{file: ts.File, hist: h}))
	return nil
}

// Remove removes a histogram; when it returns, no hit is using it.
func (ts *Triggers) Remove(h *hist.Trigger) {
	ts.remove(func(t *trigger) bool { return t.hist == h })
}

// Attach adds the trigger of an eprobe: hit is called in handler context with the entry of
// each hit that passes the filter. detach removes the trigger.
func (ts *Triggers) Attach(f *filter.Filter, hit func(trap *abi.Trap, entry []byte)) (detach func(), err error) {
	t := &trigger{file: ts.File, filter: f, eprobe: hit}
	if err := ts.add(t); err != nil {
		return nil, err
	}
	return func() { ts.remove(func(x *trigger) bool { return x == t }) }, nil
}

// remove is unregister_trigger: it removes the first trigger that matches.
func (ts *Triggers) remove(fits func(*trigger) bool) {
	i := slices.IndexFunc(ts.list, fits)
	if i < 0 {
		return
	}
	t := ts.list[i]
	ts.set(slices.Delete(slices.Clone(ts.list), i, i+1))
	_ = ts.SetSoft(false)
	if t.target != nil {
		_ = t.target.SetSoft(false)
	}
	ts.conf.SynchronizeRCU()
}

// Clear removes the hist triggers, as an open of the file trigger with O_TRUNC does,
// unless another trigger refers to one of them. Other triggers stay.
func (ts *Triggers) Clear() { ts.conf.Hists.Clear(ts) }

// Drop removes all triggers of a file that is about to be removed.
func (ts *Triggers) Drop() {
	ts.set(nil)
	ts.conf.Hists.Drop(ts)
}

// Hists returns the text of the file hist: the table of each hist trigger.
func (ts *Triggers) Hists() string { return ts.conf.Hists.Tables(ts) }

func (ts *Triggers) set(list []*trigger) {
	ts.list = list
	if len(list) == 0 {
		ts.active.Store(nil)
		ts.SetActive(nil)
		return
	}
	a := &Active{list: list}
	for _, t := range list {
		a.entry = a.entry || t.filter != nil || t.command == nil || t.command.after != nil
	}
	ts.active.Store(a)
	ts.SetActive(a)
}

// pauseHists is hist_enable_trigger: it pauses or continues the file's histograms. It
// runs in handler context.
func (ts *Triggers) pauseHists(pause bool) {
	if a := ts.active.Load(); a != nil {
		for _, t := range a.list {
			if t.hist != nil {
				t.hist.Pause(pause)
			}
		}
	}
}
