package tracing

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
// set_ftrace_filter. Guarded by Tracer.mu.
type arrayFunctions struct {
	tracing         bool // the current tracer is function
	stacks          bool // func_stack_trace
	filter, notrace functionSet
	listener        FunctionListener // nil until it is first used
	stackListener   FunctionListener
	probes          []*functionProbe // the newest first
}

func (f *arrayFunctions) set(notrace bool) *functionSet {
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
	return f.filter.wantedBut(a.tracer, &f.notrace)
}

// updateFunctions makes the tracer listen to the functions that it traces. The caller
// holds mu.
func (a *Array) updateFunctions() error {
	f, functions := &a.functions, a.tracer.conf.Functions
	if functions == nil {
		return nil
	}
	if f.listener == nil {
		listen := func(function string, stack bool) FunctionListener {
			hit := func(trap *abi.Trap) { a.functionHit(trap, stack) }
			return functions.Listen(FunctionHandler{Function: function, Hit: hit, Allocated: a != a.tracer.global})
		}
		f.listener, f.stackListener = listen("function_trace_call", false), listen("function_stack_trace_call", true)
	}
	current := f.listener
	switch {
	case a.graph.on.Load():
		if a.graph.listener == nil {
			a.graph.listener = functions.Listen(FunctionHandler{Function: "ftrace_graph_func", Hit: a.graphHit, Allocated: a != a.tracer.global, Last: !a.tracer.conf.has[release.GraphInList]})
		}
		current = a.graph.listener
	case f.stacks:
		current = f.stackListener
	}
	for _, l := range []FunctionListener{f.listener, f.stackListener, a.graph.listener} {
		if l == nil || l == current {
			continue
		}
		if err := l.Set(nil); err != nil {
			return err
		}
	}
	return current.Set(a.traced())
}

// functionTracer switches the function tracer on or off. The caller holds mu.
func (a *Array) functionTracer(on bool) error {
	a.functions.tracing = on
	return a.updateFunctions()
}

// typeFunction is TRACE_FN.
const typeFunction = 1

// functionHit is function_trace_call. It runs in handler context.
func (a *Array) functionHit(trap *abi.Trap, stack bool) {
	t := a.tracer
	pid := t.currentPID(trap)
	if !a.recording() || !a.has(optFunctionTrace) || a.ignoresFunctions(pid) {
		return
	}
	en := t.newEntry(trap, typeFunction)
	if en == nil {
		return
	}
	defer t.discard(trap)
	en.Buf[2], en.Buf[3] = t.traceContextHere(trap)
	en.Word(trap.Regs.IP)
	en.Word(trap.Arg)
	if a.recordOwn(trap, en, pid) && stack {
		a.recordStack(trap, t.unwindFunction(trap), a.now(), en.Buf[2], en.Buf[3])
	}
}

// functionClass is the class of the event function of group ftrace.
type functionClass struct{}

func (functionClass) enable() error { return nil }
func (functionClass) disable()      {}

func (functionClass) fields() []field.Field {
	return []field.Field{field.New("unsigned long ip", 8, 8, false), field.New("unsigned long parent_ip", 16, 8, false)}
}

func (functionClass) printFmt() string {
	return `" %ps <-- %ps", (void *)REC->ip, (void *)REC->parent_ip`
}

// print is trace_fn_trace.
func (functionClass) print(a *Array, b, entry []byte) []byte {
	b = a.appendSymbol(b, binary.LittleEndian.Uint64(entry[8:]), false)
	if a.has(optPrintParent) {
		b = a.appendSymbol(append(b, " <-"...), binary.LittleEndian.Uint64(entry[16:]), false)
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
		name: "traceon", idle: func(e *functionProbeEntry) bool { return e.array.recording() },
		hit: func(e *functionProbeEntry, _ *abi.Trap) { e.array.buffer.SetOn(true) },
	},
	{
		name: "traceoff", idle: func(e *functionProbeEntry) bool { return !e.array.recording() },
		hit: func(e *functionProbeEntry, _ *abi.Trap) { e.array.buffer.SetOn(false) },
	},
	{
		name: "stacktrace", idle: func(e *functionProbeEntry) bool { return !e.array.recording() },
		hit: func(e *functionProbeEntry, trap *abi.Trap) {
			e.array.saveName(trap)
			flags, preempt := e.array.tracer.traceContextHere(trap)
			e.array.recordStack(trap, e.array.tracer.unwindFunction(trap), e.array.now(), flags, preempt)
		},
	},
	{
		name: "snapshot", needs: (*Array).allocSnapshot,
		hit: func(e *functionProbeEntry, trap *abi.Trap) {
			e.array.takeSnapshot(snapshotHit{trap, false}, false)
		},
	},
	{
		name: "dump", fixed: true, always: 1,
		hit: func(e *functionProbeEntry, trap *abi.Trap) { e.array.tracer.dump(-1) },
	},
	{
		name: "cpudump", fixed: true, always: -1,
		hit: func(e *functionProbeEntry, trap *abi.Trap) { e.array.tracer.dump(trap.CPU) },
	},
	{
		name: "enable_event", event: true, idle: func(e *functionProbeEntry) bool { return e.file.flags.Load()&fileSoftDisabled == 0 },
		hit: func(e *functionProbeEntry, _ *abi.Trap) { e.file.flags.And(^uint32(fileSoftDisabled)) },
	},
	{
		name: "disable_event", event: true, idle: func(e *functionProbeEntry) bool { return e.file.flags.Load()&fileSoftDisabled != 0 },
		hit: func(e *functionProbeEntry, _ *abi.Trap) { e.file.flags.Or(fileSoftDisabled) },
	},
}

// functionProbe is ftrace_func_probe: a command, with counts or without, on a set of
// functions.
type functionProbe struct {
	array    *Array
	command  *functionCommand
	counted  bool
	listener FunctionListener
	entries  atomic.Pointer[map[uint64]*functionProbeEntry] // by site; replaced whole
}

// functionProbeEntry is the command on one function.
type functionProbeEntry struct {
	array *Array
	file  *EventFile
	count atomic.Int64 // how many more times it acts; negative means without limit
}

// functionCommand handles a line with a command. param is the text after the command,
// or nil if there is none. The caller holds mu.
func (a *Array) functionCommand(c *functionCommand, pattern string, param *string) error {
	var file *EventFile
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
		p.listener = a.tracer.conf.Functions.Listen(FunctionHandler{Function: "function_trace_probe_call", Hit: p.hit, Allocated: true})
	}
	return p.add(m, file, count)
}

// commandEvent splits GROUP:EVENT off the front of a parameter.
func (a *Array) commandEvent(param *string) (*EventFile, *string, error) {
	if param == nil {
		return nil, nil, fmt.Errorf("no event: %w", syscall.EINVAL)
	}
	group, rest, _ := strings.Cut(*param, ":")
	name, rest, counted := strings.Cut(rest, ":")
	e := a.tracer.namesInUse[eventName{group, name}]
	if e == nil || e.Internal {
		return nil, nil, fmt.Errorf("no event %s/%s: %w", group, name, syscall.EINVAL)
	}
	if !counted {
		return a.files[e], nil, nil
	}
	return a.files[e], &rest, nil
}

// add adds the command to the matching functions that do not have it. It fails with
// EINVAL if there are none.
func (p *functionProbe) add(m functionMatch, file *EventFile, count int64) error {
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
			if err := file.setSoft(true); err != nil {
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
		sites = slices.Collect(maps.Keys(entries)) // those of modules that have gone, too
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
			if serr := e.file.setSoft(false); err == nil {
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
			line += ":" + e.file.Group + ":" + e.file.Name
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

// newFunctionEvent creates the event for the entries of functionHit.
func (t *Tracer) newFunctionEvent() {
	if t.conf.Functions != nil {
		t.newEvent("ftrace", "function", typeFunction, functionClass{}).Internal = true
	}
}

// recordOwn writes an entry of the function tracer to a's buffer. It runs in handler
// context.
func (a *Array) recordOwn(trap *abi.Trap, en *entry, pid int32) bool {
	t := a.tracer
	binary.LittleEndian.PutUint32(en.Buf[4:], uint32(pid))
	if !a.buffer.Commit(trap.CPU, a.clock.Load().read(t, trap.Now()), en.Buf[:en.N]) {
		return false
	}
	if a.has(optRecordTGID) {
		t.saveTGID(trap)
	}
	a.saveName(trap)
	return true
}

// saveName saves the name of the task. It runs in handler context.
func (a *Array) saveName(trap *abi.Trap) {
	if !a.has(optRecordCmd) {
		return
	}
	c := &a.tracer.cpus[trap.CPU]
	if trap.Mem.ReadAt(trap.Task+abi.TaskComm, c.read[:]) != nil {
		c.read = cmdlines.Comm{}
	}
	a.tracer.saveCmdline(c, a.tracer.currentPID(trap))
}

// stopFunctions stops the function tracer and the commands of an array that is being
// removed.
func (a *Array) stopFunctions() error {
	f := &a.functions
	f.tracing = false
	a.graph.on.Store(false)
	if err := a.measureSleep(a.tracerOptions[graphSleepTime].Load()); err != nil {
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
