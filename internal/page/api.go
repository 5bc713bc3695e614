package page

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/look"
	"github.com/kprobefs/kprobefs/kernel"
)

// aboutView says what the page may do.
type aboutView struct {
	Program string `json:"program"`
	Release string `json:"release"`
	Write   bool   `json:"write"`
}

func (p *Page) about(*http.Request) (aboutView, error) {
	s, err := p.conf.Machine().Status()
	return aboutView{Program: p.conf.Program, Release: s.Release, Write: p.conf.Write}, err
}

// probe is a probe as the page shows it.
type probe struct {
	ID string `json:"id"` // tells it from the others of one list
	look.Probe
	Why string `json:"why"` // it is, or is not, optimized
}

// probesView has the probes and the switches for all of them.
type probesView struct {
	Time         float64 `json:"time"`         // seconds since boot
	Enabled      *bool   `json:"enabled"`      // kprobes/enabled
	Optimization *bool   `json:"optimization"` // sys/debug/kprobes-optimization
	Tracing      *bool   `json:"tracing"`      // tracing/tracing_on
	Probes       []probe `json:"probes"`
}

// The files of the switches.
const (
	enabledFile      = "kprobes/enabled"
	optimizationFile = "sys/debug/kprobes-optimization"
	tracingFile      = "tracing/tracing_on"
	eventsFile       = "tracing/kprobe_events"
)

func (p *Page) listProbes(r *http.Request) (probesView, error) { return p.probesNow(r.Context()) }

func (p *Page) probesNow(ctx context.Context) (probesView, error) {
	return p.probes.get(ctx, p, func(ctx context.Context) (v probesView, err error) {
		s, err := p.conf.Machine().Status()
		if err != nil {
			return v, err
		}
		read := p.reader(ctx)
		all, err := look.Probes(read)
		if err != nil {
			return v, err
		}
		v = probesView{
			Time: seconds(s.Now), Probes: make([]probe, 0, len(all)),
			Enabled: readSwitch(read, enabledFile), Optimization: readSwitch(read, optimizationFile), Tracing: readSwitch(read, tracingFile),
		}
		seen := map[string]int{}
		for _, one := range all {
			id := one.Address + one.Kind
			if strings.Trim(one.Address, "0") == "" { // hidden
				id = one.Place + one.Kind
			}
			if seen[id]++; seen[id] > 1 {
				id += strconv.Itoa(seen[id])
			}
			v.Probes = append(v.Probes, probe{ID: id, Probe: one, Why: v.why(one)})
		}
		return v, nil
	})
}

// readSwitch reads a file that has 0 or 1. It returns nil if the release does not have the file, or
// it may not be read.
func readSwitch(read look.ReadFile, name string) *bool {
	b, err := read(name)
	if err != nil {
		return nil
	}
	on := strings.HasPrefix(string(b), "1")
	return &on
}

// why says in words why a probe is a jump, or is none.
func (v probesView) why(p look.Probe) string {
	has := func(flag string) bool { return slices.Contains(p.Flags, flag) }
	switch {
	case has("gone"):
		return "its code is gone with its module"
	case has("ftrace"):
		return "it is on ftrace's place at the function's start and is called from there, which needs no jump"
	case has("optimized") && p.Detour != "":
		return "optimized: a jump to its detour stands in the text"
	case has("optimized"):
		return "it is about to be optimized"
	case v.Enabled != nil && !*v.Enabled:
		return "all probes are switched off"
	case !p.Armed:
		return "it is not armed, so there is nothing to optimize"
	case v.Optimization == nil:
		return "this kernel does not optimize probes"
	case !*v.Optimization:
		return "optimization is switched off"
	case p.NotJump != "":
		return p.NotJump
	}
	return "it can be optimized, and waits for the optimizer"
}

func seconds(ns int64) float64 { return float64(ns/1000) / 1e6 }

// text is a function with its lines of C.
func (p *Page) text(r *http.Request) ([]look.Function, error) {
	functions, err := p.textNow(r)
	if err == nil {
		p.addSource(r.Context(), functions)
	}
	return functions, err
}

// addSource adds the lines of C, if they are known.
func (p *Page) addSource(ctx context.Context, functions []look.Function) {
	if p.conf.Source != nil {
		p.conf.Source(p.reader(ctx), functions)
	}
}

func (p *Page) textNow(r *http.Request) ([]look.Function, error) {
	name := r.URL.Query().Get("function")
	if name == "" {
		return nil, problemf(http.StatusBadRequest, "name a function: /api/text?function=vfs_read")
	}
	functions, err := look.Functions(p.reader(r.Context()), name)
	if errors.Is(err, syscall.ENOENT) {
		return nil, problemf(http.StatusNotFound, "no function of the kernel, or of a module, has the name %q; /api/functions?prefix=... lists those that there are", shorten(name))
	}
	return functions, err
}

// mostFunctions is how many completions there are at most.
const mostFunctions = 50

func (p *Page) functions(r *http.Request) ([]string, error) {
	names := p.conf.Machine().Functions(r.URL.Query().Get("prefix"), mostFunctions)
	if names == nil {
		names = []string{}
	}
	return names, nil
}

// traceView has entries of the trace, the oldest first.
type traceView struct {
	Entries []look.Entry `json:"entries"`
	Skipped uint64       `json:"skipped"` // older ones that are not shown, about
}

// mostEntries is how many entries are sent at once.
const mostEntries = 400

// traceFilter says which entries are asked for, by patterns.
type traceFilter struct{ event, comm string }

// filterOf reads the filter of a request.
func filterOf(r *http.Request) (f traceFilter, err error) {
	f = traceFilter{event: r.URL.Query().Get("event"), comm: r.URL.Query().Get("comm")}
	for _, pattern := range []string{f.event, f.comm} {
		if _, err := path.Match(pattern, ""); err != nil || len(pattern) > 200 {
			return f, problemf(http.StatusBadRequest, "%q is no pattern: write a name, with * for any characters, ? for one, and [...] for one of several", shorten(pattern))
		}
	}
	return f, nil
}

func (f traceFilter) wants(e look.Entry) bool {
	match := func(pattern, name string) bool {
		ok, _ := path.Match(pattern, name)
		return pattern == "" || ok
	}
	return match(f.event, e.Event) && match(f.comm, e.Comm)
}

// next returns the next entries of a feed that are wanted.
func (f traceFilter) next(feed *kprobefs.TraceFeed) (traceView, error) {
	lines, skipped, err := feed.Next(mostEntries)
	v := traceView{Entries: []look.Entry{}, Skipped: skipped}
	for _, text := range lines {
		if e := look.ParseRecord(text); f.wants(e) {
			v.Entries = append(v.Entries, e)
		}
	}
	return v, err
}

func (p *Page) trace(r *http.Request) (traceView, error) {
	f, err := filterOf(r)
	if err != nil {
		return traceView{}, err
	}
	feed := p.conf.Machine().TraceFeed()
	defer feed.Close()
	return f.next(feed)
}

// machineView is what the machine is doing.
type machineView struct {
	Time         float64       `json:"time"`
	Release      string        `json:"release"`
	Instructions uint64        `json:"instructions"`
	Memory       uint64        `json:"memory"` // the guest's RAM, bytes
	Slots        int           `json:"slots"`
	Panic        string        `json:"panic,omitempty"`
	Stopped      string        `json:"stopped,omitempty"` // why all vCPUs are stopped
	CPUs         []cpuView     `json:"cpus"`
	Tasks        []taskView    `json:"tasks"`
	Modules      []look.Module `json:"modules"`
	Optimizer    *look.Queues  `json:"optimizer"` // null if this kernel does not optimize
	Log          []recordView  `json:"log"`
}

type cpuView struct {
	Idle         bool   `json:"idle"`
	PID          int    `json:"pid"`
	Comm         string `json:"comm"`
	Instructions uint64 `json:"instructions"`

	Runnable int         `json:"runnable"` // tasks that run on it or wait for it
	Waiting  []queued    `json:"waiting"`  // those that wait, the next one first
	Timers   []timerView `json:"timers"`   // that have not expired, the next one first
}

type queued struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
}

type timerView struct {
	Function string  `json:"function"` // that it calls
	Due      float64 `json:"due"`      // seconds since boot
	Wheel    bool    `json:"wheel"`    // a timer of jiffies; else a hrtimer
}

type taskView struct {
	PID    int    `json:"pid"`
	Comm   string `json:"comm"`
	CPU    int    `json:"cpu"`
	State  string `json:"state"`
	InCall bool   `json:"in_call"`
}

type recordView struct {
	Seq   uint64  `json:"seq"`
	Time  float64 `json:"time"`
	Level int     `json:"level"`
	Text  string  `json:"text"`
}

// mostRecords is how many records of the kernel's log are shown.
const mostRecords = 200

func (p *Page) showMachine(r *http.Request) (machineView, error) { return p.machineNow(r.Context()) }

func (p *Page) machineNow(ctx context.Context) (machineView, error) {
	return p.machine.get(ctx, p, func(ctx context.Context) (v machineView, err error) {
		m, read := p.conf.Machine(), p.reader(ctx)
		s, err := m.Status()
		if err != nil {
			return v, err
		}
		v = machineView{
			Time: seconds(s.Now), Release: s.Release, Instructions: s.Instructions, Memory: s.Memory, Slots: s.Slots, Panic: s.Panic, Stopped: s.Stopped,
			CPUs: []cpuView{}, Tasks: []taskView{}, Log: []recordView{},
		}
		for _, c := range s.CPUs {
			v.CPUs = append(v.CPUs, viewOf(c))
		}
		for _, t := range s.Tasks {
			v.Tasks = append(v.Tasks, taskView{PID: t.PID, Comm: t.Comm, CPU: t.CPU, State: taskState(t), InCall: t.InCall})
		}
		for _, l := range m.Log(0, mostRecords) {
			v.Log = append(v.Log, recordView{Seq: l.Seq, Time: seconds(l.Time), Level: l.Level, Text: strings.TrimSuffix(l.Text, "\n")})
		}
		if q, err := look.Optimizer(read); err == nil && readSwitch(read, optimizationFile) != nil {
			v.Optimizer = &q
		}
		v.Modules, err = look.Modules(read)
		return v, err
	})
}

func viewOf(c kernel.CPUStatus) cpuView {
	v := cpuView{Idle: c.Idle, PID: c.PID, Comm: c.Comm, Instructions: c.Instructions, Runnable: c.Runnable, Waiting: []queued{}, Timers: []timerView{}}
	for _, t := range c.Waiting {
		v.Waiting = append(v.Waiting, queued(t))
	}
	for _, t := range c.Timers {
		v.Timers = append(v.Timers, timerView{Function: t.Function, Due: seconds(t.Due), Wheel: t.Wheel})
	}
	return v
}

// taskState names a state as ps(1) does.
func taskState(t kernel.TaskStatus) string {
	switch {
	case t.State == 0 && t.Queued:
		return "runnable"
	case t.State == 0:
		return "running"
	case t.State&1 != 0:
		return "sleeping"
	case t.State&2 != 0:
		return "uninterruptible"
	}
	return fmt.Sprintf("state %#x", t.State)
}

// timelineView has the changes of all probes' states, the oldest first.
type timelineView struct {
	Time    float64      `json:"time"`
	Changes []changeView `json:"changes"`
	Before  int          `json:"before"` // older ones that are not known any more, or not shown
	Writes  []look.Write `json:"writes"` // to the tree's files
	Stops   []stopView   `json:"stops"`  // of all vCPUs together, and when they went on
}

type stopView struct {
	At   float64 `json:"at"`
	What string  `json:"what"`
}

type changeView struct {
	look.Change
	Place string `json:"place"`
}

// mostChanges is how many changes are shown.
const mostChanges = 2000

func (p *Page) showTimeline(r *http.Request) (timelineView, error) { return p.timelineNow(r.Context()) }

func (p *Page) timelineNow(ctx context.Context) (timelineView, error) {
	return p.timeline.get(ctx, p, func(ctx context.Context) (v timelineView, err error) {
		s, err := p.conf.Machine().Status()
		if err != nil {
			return v, err
		}
		probes, err := p.probesNow(ctx)
		if err != nil {
			return v, err
		}
		v = timelineView{Time: seconds(s.Now), Changes: []changeView{}, Stops: []stopView{}}
		for _, h := range s.Stops {
			v.Stops = append(v.Stops, stopView{At: seconds(h.At), What: h.What})
		}
		if v.Writes, err = look.Writes(p.reader(ctx)); err != nil {
			return v, err
		}
		last := ""
		for _, one := range probes.Probes {
			if key := one.Place + one.Address; key != last { // the probes of an address have one history
				last = key
				v.Before += one.Before
				for _, c := range one.History {
					v.Changes = append(v.Changes, changeView{c, one.Place})
				}
			}
		}
		slices.SortStableFunc(v.Changes, func(a, b changeView) int { return cmp.Compare(a.At, b.At) })
		if more := len(v.Changes) - mostChanges; more > 0 {
			v.Changes, v.Before = slices.Clone(v.Changes[more:]), v.Before+more
		}
		return v, nil
	})
}

// maxBody bounds the body of a request, bytes.
const maxBody = 8 << 10

// body reads the JSON object of a request.
func body[T any](w http.ResponseWriter, r *http.Request) (v T, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return v, problemf(http.StatusUnsupportedMediaType, "send a JSON object, with the header \"Content-Type: application/json\"")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return v, problemf(http.StatusRequestEntityTooLarge, "the request is longer than %d bytes", maxBody)
	case err != nil:
		return v, problemf(http.StatusBadRequest, "the request ends too early")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, problemf(http.StatusBadRequest, "the request is not the JSON object that /api/openapi.json describes: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, problemf(http.StatusBadRequest, "the request has something after its JSON object")
	}
	return v, nil
}

// done is the answer to what has been carried out.
type done struct {
	Done bool `json:"done"`
}

// change makes a handler of a function that changes something.
func change[T any](f func(p *Page, m Machine, v T) error) func(*Page, http.ResponseWriter, *http.Request) error {
	return func(p *Page, w http.ResponseWriter, r *http.Request) error {
		v, err := body[T](w, r)
		if err != nil {
			return err
		}
		m := p.conf.Machine()
		if hasDied(m) {
			return problemf(http.StatusServiceUnavailable, "the emulated kernel has panicked and can only be read: start kprobefs again")
		}
		err = f(p, m, v)
		p.changes.Add(1)
		p.news.tell()
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, done{true})
		return nil
	}
}

// onOff is the request to switch something.
type onOff struct {
	On *bool `json:"on"`
}

func (o onOff) write(m Machine, name string) error {
	if o.On == nil {
		return problemf(http.StatusBadRequest, "say {\"on\": true} or {\"on\": false}")
	}
	return written(m.WriteFile(name, digit(*o.On)))
}

func digit(on bool) string {
	if on {
		return "1\n"
	}
	return "0\n"
}

// written says what the errno of a write means.
func written(err error) error {
	if errors.Is(err, syscall.ENOENT) {
		return problemf(http.StatusNotFound, "this kernel does not have the file: %v", err)
	}
	return err
}

func (p *Page) setEnabled(m Machine, v onOff) error      { return v.write(m, enabledFile) }
func (p *Page) setOptimization(m Machine, v onOff) error { return v.write(m, optimizationFile) }
func (p *Page) setTracing(m Machine, v onOff) error      { return v.write(m, tracingFile) }

func (p *Page) clearTrace(m Machine, _ struct{}) error { return m.WriteFile("tracing/trace", "") }

// definition is a line of kprobe_events.
type definition struct {
	Definition string `json:"definition"`
}

// define appends a line to kprobe_events: one that defines an event, no other command.
func (p *Page) define(m Machine, v definition) error {
	line := strings.TrimSpace(v.Definition)
	switch {
	case line == "":
		return problemf(http.StatusBadRequest, "write a definition: p:NAME FUNCTION, or r:NAME FUNCTION for its return")
	case strings.ContainsAny(line, "\n\r\x00"):
		return problemf(http.StatusBadRequest, "write one line: each definition is a request of its own")
	case line[0] != 'p' && line[0] != 'r':
		return problemf(http.StatusBadRequest, "a definition begins with p (a probe) or r (a return probe): p:NAME FUNCTION")
	}
	before := lastError(m)
	err := m.AppendFile(eventsFile, line+"\n")
	if err == nil || errors.Is(err, syscall.ENOENT) && !p.hasTracing(m) {
		return written(err)
	}
	return refusal(line, err, before, lastError(m))
}

// hasTracing reports whether the kernel has the files of tracing: it has not when it is locked down.
func (p *Page) hasTracing(m Machine) bool {
	_, err := m.ReadFileContext(context.Background(), eventsFile)
	return err == nil
}

// refusal is what Linux says to a definition that it does not take: the errno, and the last entry of
// error_log if it is new.
func refusal(line string, err error, before, after string) error {
	pr := &problem{status: http.StatusUnprocessableEntity, text: fmt.Sprintf("the kernel does not take the definition: %v", err), more: map[string]any{}}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		pr.more["errno"] = int(errno)
		pr.text = fmt.Sprintf("the kernel does not take the definition: %v", errno)
	}
	if after == before {
		return pr
	}
	pr.more["log"] = after
	lines := strings.Split(strings.TrimRight(after, "\n"), "\n")
	if _, what, ok := strings.Cut(lines[0], "error: "); ok {
		pr.text = what
	}
	if len(lines) >= 3 {
		command, caret := strings.TrimPrefix(lines[1], "  Command: "), strings.IndexByte(lines[2], '^')-len("  Command: ")
		if caret >= 0 && strings.TrimSpace(command) == line {
			pr.more["caret"] = caret
		}
	}
	return pr
}

// lastError returns the last entry of error_log, or "".
func lastError(m Machine) string {
	b, err := m.ReadFileContext(context.Background(), "tracing/error_log")
	if err != nil {
		return ""
	}
	text := string(b)
	if i := strings.LastIndex(text, "\n["); i >= 0 {
		return text[i+1:]
	}
	return text
}

// event names an event of kprobe_events.
type event struct {
	Event string `json:"event"`
	On    *bool  `json:"on,omitempty"`
}

var eventPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}/[A-Za-z_][A-Za-z0-9_]{0,63}$`)

func (e event) check() error {
	if !eventPath.MatchString(e.Event) {
		return problemf(http.StatusBadRequest, "%q is no event: name it GROUP/EVENT, such as kprobes/mine", shorten(e.Event))
	}
	return nil
}

func (p *Page) enableEvent(m Machine, v event) error {
	if err := v.check(); err != nil {
		return err
	}
	if v.On == nil {
		return onOff{}.write(m, "")
	}
	err := m.WriteFile("tracing/events/"+v.Event+"/enable", digit(*v.On))
	if errors.Is(err, syscall.ENOENT) {
		return noEvent(v.Event)
	}
	return err
}

func (p *Page) removeEvent(m Machine, v event) error {
	if err := v.check(); err != nil {
		return err
	}
	err := m.AppendFile(eventsFile, "-:"+v.Event+"\n")
	switch {
	case errors.Is(err, syscall.ENOENT):
		return noEvent(v.Event)
	case errors.Is(err, syscall.EBUSY):
		return problemf(http.StatusConflict, "the event %s is enabled: switch it off before it is removed", v.Event)
	}
	return err
}

// events tells how the events of a name are defined.
func (p *Page) events(r *http.Request) ([]look.Definition, error) {
	name := r.URL.Query().Get("event")
	if name == "" {
		return nil, problemf(http.StatusBadRequest, "name an event: /api/events?event=mine")
	}
	all, err := look.Definitions(p.reader(r.Context()), name)
	if errors.Is(err, syscall.ENOENT) { // no tracing
		return []look.Definition{}, nil
	}
	return all, err
}

// histograms reads the histograms of an event.
func (p *Page) histograms(r *http.Request) ([]look.Histogram, error) {
	e := event{Event: r.URL.Query().Get("event")}
	if err := e.check(); err != nil {
		return nil, err
	}
	all, err := look.Histograms(p.reader(r.Context()), e.Event)
	if errors.Is(err, syscall.ENOENT) {
		return nil, noEvent(e.Event)
	}
	return all, err
}

func noEvent(name string) error {
	return problemf(http.StatusNotFound, "there is no event %s: tracing/available_events lists those that there are", name)
}
