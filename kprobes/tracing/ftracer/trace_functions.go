package ftracer

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
)

// arrayFunctions is the state of an array's function tracer and of the commands in its
// set_ftrace_filter. Guarded by Config.Mutex.
type arrayFunctions struct {
	tracing         bool // the current tracer is function
	stacks          bool // func_stack_trace
	filter, notrace Set
	listener        Listener // nil until it is first used
	stackListener   Listener
	probes          []*functionProbe // the newest first
}

func (f *arrayFunctions) set(notrace bool) *Set {
	if notrace {
		return &f.notrace
	}
	return &f.filter
}

// traced returns the functions that the tracer traces.
func (a *Array) traced() []uint64 {
	f := &a.functions
	if !f.tracing && !a.graph.on.Load() {
		return nil
	}
	return f.filter.WantedBut(a.tracer, &f.notrace)
}

// updateFunctions makes the tracer listen to the functions that it traces. The caller
// holds mu.
func (a *Array) updateFunctions() error {
	f, functions := &a.functions, a.tracer.conf.Functions
	if functions == nil {
		return nil
	}
	if f.listener == nil {
		listen := func(function string, stack bool) Listener {
			hit := func(trap *abi.Trap) { a.functionHit(trap, stack) }
			return functions.Listen(Handler{Function: function, Hit: hit, Allocated: a != a.tracer.global})
		}
		f.listener, f.stackListener = listen("function_trace_call", false), listen("function_stack_trace_call", true)
	}
	current := f.listener
	switch {
	case a.graph.on.Load():
		if a.graph.listener == nil {
			a.graph.listener = functions.Listen(Handler{Function: "ftrace_graph_func", Hit: a.graphHit, Allocated: a != a.tracer.global, Last: !a.tracer.conf.Has[release.GraphInList]})
		}
		current = a.graph.listener
	case f.stacks:
		current = f.stackListener
	}
	for _, l := range []Listener{f.listener, f.stackListener, a.graph.listener} {
		if l == nil || l == current {
			continue
		}
		if err := l.Set(nil); err != nil {
			return err
		}
	}
	return current.Set(a.traced())
}

// traceStacks is the option func_stack_trace. The caller holds mu.
func (a *Array) traceStacks(on bool) error {
	a.functions.stacks = on
	return a.updateFunctions()
}

// functionTracer switches the function tracer on or off. The caller holds mu.
func (a *Array) functionTracer(on bool) error {
	a.functions.tracing = on
	return a.updateFunctions()
}

// IDs of events of group ftrace: enum trace_type.
const (
	TypeFunction = 1
	TypeStack    = 4
)

// functionHit is function_trace_call. It runs in handler context.
func (a *Array) functionHit(trap *abi.Trap, stack bool) {
	pid := cmdlines.PID(trap)
	if !a.trace.Recording() || !a.trace.TracesFunctions() || a.trace.IgnoresFunctions(pid) {
		return
	}
	en := a.trace.Begin(trap, TypeFunction)
	if en == nil {
		return
	}
	defer a.trace.Discard(trap)
	en.Word(trap.Regs.IP)
	en.Word(trap.Arg)
	if a.trace.Commit(trap, en, pid) && stack {
		a.trace.RecordStack(trap, en.Buf[2], en.Buf[3])
	}
}

// functionClass is the class of the event function of group ftrace.
type functionClass struct{}

// Fields implements Class.
func (functionClass) Fields() []field.Field {
	return []field.Field{field.New("unsigned long ip", 8, 8, false), field.New("unsigned long parent_ip", 16, 8, false)}
}

// PrintFmt implements Class.
func (functionClass) PrintFmt() string {
	return `" %ps <-- %ps", (void *)REC->ip, (void *)REC->parent_ip`
}

// Print is trace_fn_trace.
func (functionClass) Print(a *Array, b, entry []byte) []byte {
	b = a.trace.AppendSymbol(b, binary.LittleEndian.Uint64(entry[8:]), false)
	if a.trace.PrintsParent() {
		b = a.trace.AppendSymbol(append(b, " <-"...), binary.LittleEndian.Uint64(entry[16:]), false)
	}
	return append(b, '\n')
}

// functionCommand is ftrace_func_command: the command of a line "FUNCTION:NAME[:PARAM]"
// in set_ftrace_filter, which runs when the function is entered.
type functionCommand struct {
	name string
	// event says that PARAM starts with GROUP:EVENT, the event that the command acts
	// on.
	event bool
	// fixed says that PARAM is ignored. The command then acts always times, or without
	// limit if always is negative.
	fixed  bool
	always int64
	// needs prepares what the command needs of the array; it may be nil.
	needs func(a *Array) error
	// idle says that the command has nothing to do, so the count is not decremented. It
	// may be nil.
	idle func(e *functionProbeEntry) bool
	// hit acts, in handler context.
	hit func(e *functionProbeEntry, trap *abi.Trap)
}

var functionCommands = []*functionCommand{
	{
		name: "traceon", idle: func(e *functionProbeEntry) bool { return e.array.trace.Recording() },
		hit: func(e *functionProbeEntry, _ *abi.Trap) { e.array.trace.SetRecording(true) },
	},
	{
		name: "traceoff", idle: func(e *functionProbeEntry) bool { return !e.array.trace.Recording() },
		hit: func(e *functionProbeEntry, _ *abi.Trap) { e.array.trace.SetRecording(false) },
	},
	{
		name: "stacktrace", idle: func(e *functionProbeEntry) bool { return !e.array.trace.Recording() },
		hit: func(e *functionProbeEntry, trap *abi.Trap) {
			e.array.trace.RecordStackAlone(trap)
		},
	},
	{
		name: "snapshot", needs: func(a *Array) error { return a.trace.AllocSnapshot() },
		hit: func(e *functionProbeEntry, trap *abi.Trap) {
			e.array.trace.Snapshot(trap)
		},
	},
	{
		name: "dump", fixed: true, always: 1,
		hit: func(e *functionProbeEntry, trap *abi.Trap) { e.array.tracer.conf.Dump(-1) },
	},
	{
		name: "cpudump", fixed: true, always: -1,
		hit: func(e *functionProbeEntry, trap *abi.Trap) { e.array.tracer.conf.Dump(trap.CPU) },
	},
	{
		name: "enable_event", event: true, idle: func(e *functionProbeEntry) bool { return e.file.Recorded() },
		hit: func(e *functionProbeEntry, _ *abi.Trap) { e.file.SetRecorded(true) },
	},
	{
		name: "disable_event", event: true, idle: func(e *functionProbeEntry) bool { return !e.file.Recorded() },
		hit: func(e *functionProbeEntry, _ *abi.Trap) { e.file.SetRecorded(false) },
	},
}

// functionProbe is ftrace_func_probe: a command, with counts or without, on a set of
// functions.
type functionProbe struct {
	array    *Array
	command  *functionCommand
	counted  bool
	listener Listener
	entries  atomic.Pointer[map[uint64]*functionProbeEntry] // by site; replaced whole
}

// functionProbeEntry is the command on one function.
type functionProbeEntry struct {
	array *Array
	file  EventFile
	count atomic.Int64 // how many more times it acts; negative means without limit
}

// functionCommand handles a line with a command. param is the text after the command,
// or nil if there is none. The caller holds mu.
func (a *Array) functionCommand(c *functionCommand, pattern string, param *string) error {
	var file EventFile
	if c.event {
		var err error
		if file, param, err = a.commandEvent(param); err != nil {
			return err
		}
	}
	pattern, remove := strings.CutPrefix(pattern, "!")
	m := a.tracer.newFunctionMatch(pattern)
	counted := param != nil
	if c.fixed {
		counted, param = c.always >= 0, nil
	}
	i := slices.IndexFunc(a.functions.probes, func(p *functionProbe) bool { return p.command == c && p.counted == counted })
	if remove {
		if i < 0 {
			return fmt.Errorf("no such %s: %w", c.name, syscall.ENODEV)
		}
		return a.functions.probes[i].remove(m)
	}
	count := int64(-1)
	if c.fixed {
		count = c.always
	}
	if param != nil && *param != "" {
		n, err := kstrtox.ParseUint(*param, 0, 1<<63-1)
		if err != nil {
			return fmt.Errorf("count %q: %w", *param, syscall.EINVAL)
		}
		count = int64(n)
	}
	if param != nil && *param == "" && c.event {
		return fmt.Errorf("no count: %w", syscall.EINVAL)
	}
	if c.needs != nil {
		if err := c.needs(a); err != nil {
			return err
		}
	}
	var p *functionProbe
	if i >= 0 {
		p = a.functions.probes[i]
	} else {
		p = &functionProbe{array: a, command: c, counted: counted}
		p.entries.Store(&map[uint64]*functionProbeEntry{})
		p.listener = a.tracer.conf.Functions.Listen(Handler{Function: "function_trace_probe_call", Hit: p.hit, Allocated: true})
	}
	return p.add(m, file, count)
}

// commandEvent splits GROUP:EVENT off the front of a parameter.
func (a *Array) commandEvent(param *string) (EventFile, *string, error) {
	if param == nil {
		return nil, nil, fmt.Errorf("no event: %w", syscall.EINVAL)
	}
	group, rest, _ := strings.Cut(*param, ":")
	name, rest, counted := strings.Cut(rest, ":")
	file := a.trace.Event(group, name)
	if file == nil {
		return nil, nil, fmt.Errorf("no event %s/%s: %w", group, name, syscall.EINVAL)
	}
	if !counted {
		return file, nil, nil
	}
	return file, &rest, nil
}

// add adds the command to the matching functions that do not have it. It fails with
// EINVAL if there are none.
func (p *functionProbe) add(m functionMatch, file EventFile, count int64) error {
	entries := maps.Clone(*p.entries.Load())
	before := len(entries)
	for _, site := range p.array.tracer.findFunctions(m) {
		if entries[site] == nil {
			e := &functionProbeEntry{array: p.array, file: file}
			e.count.Store(count)
			entries[site] = e
		}
	}
	if len(entries) == before {
		return fmt.Errorf("no function to add %s to: %w", p.command.name, syscall.EINVAL)
	}
	for range len(entries) - before {
		if file != nil {
			if err := file.SetSoft(true); err != nil {
				return err
			}
		}
	}
	if before == 0 {
		p.array.functions.probes = append([]*functionProbe{p}, p.array.functions.probes...)
	}
	return p.store(entries)
}

// remove removes the command from the matching functions. It fails with EINVAL if none
// has it.
func (p *functionProbe) remove(m functionMatch) error {
	entries := maps.Clone(*p.entries.Load())
	var gone []*functionProbeEntry
	sites := p.array.tracer.findFunctions(m)
	if m.index == 0 && m.name.Covers(nil) {
		sites = slices.Collect(maps.Keys(entries)) // of modules that have gone, too
	}
	for _, site := range sites {
		if e := entries[site]; e != nil {
			gone = append(gone, e)
			delete(entries, site)
		}
	}
	if len(gone) == 0 {
		return fmt.Errorf("no function to remove %s from: %w", p.command.name, syscall.EINVAL)
	}
	if len(entries) == 0 {
		f := &p.array.functions
		f.probes = slices.DeleteFunc(f.probes, func(x *functionProbe) bool { return x == p })
	}
	err := p.store(entries)
	for _, e := range gone {
		if e.file != nil {
			if serr := e.file.SetSoft(false); err == nil {
				err = serr
			}
		}
	}
	return err
}

func (p *functionProbe) store(entries map[uint64]*functionProbeEntry) error {
	p.entries.Store(&entries)
	return p.listener.Set(slices.Sorted(maps.Keys(entries)))
}

// hit is function_trace_probe_call. It runs in handler context.
func (p *functionProbe) hit(trap *abi.Trap) {
	e := (*p.entries.Load())[trap.Regs.IP]
	if e == nil || p.command.idle != nil && p.command.idle(e) {
		return
	}
	for {
		n := e.count.Load()
		if n == 0 {
			return
		}
		if n < 0 || e.count.CompareAndSwap(n, n-1) {
			break
		}
	}
	p.command.hit(e, trap)
}

// lines returns the command's lines of set_ftrace_filter.
func (p *functionProbe) lines() []string {
	var lines []string
	entries := *p.entries.Load()
	for _, site := range slices.Sorted(maps.Keys(entries)) {
		e := entries[site]
		line := strings.TrimSuffix(p.array.tracer.functionLine(site), "\n") + ":" + p.command.name
		if e.file != nil {
			group, name := e.file.Title()
			line += ":" + group + ":" + name
		}
		if p.counted {
			line += fmt.Sprintf(":count=%d\n", e.count.Load())
		} else {
			line += ":unlimited\n"
		}
		lines = append(lines, line)
	}
	return lines
}

// Stop stops the function tracers and the commands of an array that is being removed. The
// caller holds the mutex.
func (a *Array) Stop() error {
	f := &a.functions
	f.tracing = false
	a.graph.on.Store(false)
	if err := a.measureSleep(a.options[graphSleepTime].Load()); err != nil {
		return err
	}
	for _, p := range slices.Clone(f.probes) {
		if err := p.remove(functionMatch{name: filter.NewPattern("*")}); err != nil {
			return err
		}
	}
	if f.listener == nil {
		return nil
	}
	return a.updateFunctions()
}
