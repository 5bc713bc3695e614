package ftracer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// IDs of the events of the tracer function_graph.
const (
	typeGraphRet = 10
	typeGraphEnt = 11
)

// graphTracing is what the tracers function_graph of all arrays share.
type graphTracing struct {
	tasks      kprobes.TaskTable[graphTask] // a task without an entry has never had traced calls
	trampoline uint64                       // return_to_handler; 0 if the guest has none
	maxDepth   atomic.Uint32
	notrace    atomic.Pointer[map[uint64]bool] // sites in set_graph_notrace
	functions  atomic.Pointer[map[uint64]bool] // sites in set_graph_function

	// The sets as their files show them. Guarded by Config.Mutex.
	function, without Set
}

// arrayGraph is the state of an array's function_graph tracer.
type arrayGraph struct {
	on       atomic.Bool   // it is the current tracer
	round    atomic.Uint32 // how often it was started
	measures bool          // it is a user of WatchSwitches; guarded by Config.Mutex
	listener Listener
}

// maxGraph is FTRACE_RETFUNC_DEPTH: how many calls of a task are traced at a time.
const maxGraph = 50

// graphTask are the calls of one task whose returns function_graph waits for: the stack
// ret_stack. Only hits of the task itself change it; unwinders read the atomic parts.
type graphTask struct {
	n     atomic.Int32
	calls [maxGraph]graphCall
	left  int64 // when the task was switched from, ns; 0 if it runs
	pid   atomic.Int32
	views []graphView
}

// graphCall is ftrace_ret_stack.
type graphCall struct {
	slot, ret atomic.Uint64 // where the return address is, and what it was
	function  uint64
	began     int64
	array     *Array
	round     uint32
	depth     int
	overrun   uint32
}

// graphView is what one array knows of a task.
type graphView struct {
	array     *Array
	round     uint32
	depth     int    // calls that it has hooked
	overrun   uint32 // calls that were too deep
	within    bool   // in a function of set_graph_function,
	withinAt  int    // which has this depth
	withinIRQ bool   // and was entered in an interrupt
	silent    bool   // in a function of set_graph_notrace
}

// view returns what a knows of the task since its tracer was started.
func (t *graphTask) view(a *Array) *graphView {
	round := a.graph.round.Load()
	for i := range t.views {
		if v := &t.views[i]; v.array == a {
			if v.round != round {
				*v = graphView{array: a, round: round}
			}
			return v
		}
	}
	t.views = append(t.views, graphView{array: a, round: round})
	return &t.views[len(t.views)-1]
}

// find returns the newest call whose return address is in slot.
func (t *graphTask) find(slot uint64) int {
	for i := int(t.n.Load()) - 1; i >= 0; i-- {
		if t.calls[i].slot.Load() == slot {
			return i
		}
	}
	return -1
}

// GraphReal returns the address to which a function returns, for an unwinder that has
// found addr in a slot of the task's stack: another one if function_graph has replaced
// it. It takes no lock.
func (t *Tracers) GraphReal(task, slot, addr uint64) uint64 {
	if addr == 0 || addr != t.graph.trampoline {
		return addr
	}
	g := t.graph.tasks.Of(task)
	if g == nil {
		return addr
	}
	for i := g.find(slot); i >= 0; i-- {
		c := &g.calls[i]
		if c.slot.Load() != slot {
			break
		}
		if addr = c.ret.Load(); addr != t.graph.trampoline {
			break
		}
	}
	return addr
}

// ReturnsToGraph reports whether ip is return_to_handler, where stack traces end.
func (t *Tracers) ReturnsToGraph(ip uint64) bool { return ip != 0 && ip == t.graph.trampoline }

// FlushGraph forgets the calls of a task that has died in them. It takes no lock.
func (t *Tracers) FlushGraph(task uint64) {
	if g := t.graph.tasks.Of(task); g != nil {
		g.n.Store(0)
		g.views, g.left = nil, 0
	}
}

// graphHit is function_graph_enter: a traced function was entered. It runs in handler
// context.
func (a *Array) graphHit(trap *abi.Trap) {
	t := a.tracer
	if t.graph.trampoline == 0 || !a.graph.on.Load() {
		return
	}
	g := t.graph.tasks.Make(trap.Task)
	v := g.view(a)
	n := g.n.Load()
	if int(n) == maxGraph {
		v.overrun++
		return
	}
	depth := v.depth
	if !a.graphEntry(trap, g, v, depth) {
		return
	}
	slot := trap.Regs.SP
	ret, err := trap.Mem.ReadU64(slot)
	if err != nil || trap.Mem.WriteU64(slot, t.graph.trampoline) != nil {
		return
	}
	c := &g.calls[n]
	c.slot.Store(slot)
	c.ret.Store(ret)
	c.function, c.began, c.array, c.round, c.depth, c.overrun = trap.Regs.IP, trap.Now(), a, v.round, depth, v.overrun
	v.depth++
	g.n.Store(n + 1)
}

// graphEntry is trace_graph_entry: it records the entry, and reports whether the return
// is to be seen.
func (a *Array) graphEntry(trap *abi.Trap, g *graphTask, v *graphView, depth int) bool {
	t := a.tracer
	function := trap.Regs.IP
	if v.silent {
		return false
	}
	if without := t.graph.notrace.Load(); without != nil && (*without)[function] {
		v.silent = true
		return true // for the return, which ends it
	}
	pid := cmdlines.PID(trap)
	if a.trace.IgnoresFunctions(pid) || !a.graphWants(trap, v, function, depth) {
		return false
	}
	g.pid.Store(pid)
	if t.threshold.Load() != 0 {
		return true // only returns are recorded
	}
	if !a.trace.Recording() {
		return false
	}
	en := a.trace.Begin(trap, typeGraphEnt)
	if en == nil {
		return false
	}
	defer a.trace.Discard(trap)
	if t.conf.Has[release.PreemptCount] {
		en.Buf[3] = min(en.Buf[3]+1, 0xf) // ftrace_graph_func disables preemption
	}
	en.Word(function)
	en.Word(uint64(uint32(depth)))
	en.N -= 4 // the struct is packed
	return a.trace.Commit(trap, en, pid)
}

// graphWants is ftrace_graph_ignore_func and ftrace_graph_ignore_irqs, negated.
func (a *Array) graphWants(trap *abi.Trap, v *graphView, function uint64, depth int) bool {
	graph := &a.tracer.graph
	if limit := graph.maxDepth.Load(); limit != 0 && depth >= int(min(limit, math.MaxInt32)) {
		return false
	}
	if only := graph.functions.Load(); only != nil && len(*only) > 0 && !v.within {
		if !(*only)[function] {
			return false
		}
		v.within, v.withinAt, v.withinIRQ = true, depth, inHardirq(trap)
	}
	return a.options[graphIRQs].Load() || v.within && v.withinIRQ || !inHardirq(trap)
}

// GraphReturn is ftrace_return_to_handler: a function whose entry was seen has returned
// to return_to_handler. It stores where to go on in the slot of the return address: 0 if
// that is not known, because guest code went to return_to_handler by itself. It runs in
// handler context.
func (t *Tracers) GraphReturn(trap *abi.Trap) {
	slot := trap.Arg
	var ret uint64
	if g := t.graph.tasks.Of(trap.Task); g != nil {
		for i := g.find(slot); i >= 0; i = g.find(slot) {
			c := &g.calls[i]
			ret = c.ret.Load()
			a := c.array
			if v := g.view(a); v.round == c.round {
				v.depth = c.depth
				a.graphReturn(trap, v, c)
			}
			g.n.Store(int32(i)) // also those above, which will not return any more
			if ret != t.graph.trampoline {
				break
			}
		}
	}
	_ = trap.Mem.WriteU64(slot, ret) // return_to_handler has just written there
}

// graphReturn is trace_graph_return.
func (a *Array) graphReturn(trap *abi.Trap, v *graphView, c *graphCall) {
	t := a.tracer
	if v.within && v.withinAt == c.depth {
		v.within = false
	}
	if v.silent {
		v.silent = false
		return
	}
	now := trap.Now()
	if least := t.threshold.Load(); !a.graph.on.Load() || !a.trace.Recording() || least != 0 && uint64(now-c.began) < least {
		return
	}
	en := a.trace.Begin(trap, typeGraphRet)
	if en == nil {
		return
	}
	defer a.trace.Discard(trap)
	en.Word(c.function)
	if t.conf.Has[release.GraphDepthFirst] {
		en.Word(uint64(uint32(c.depth)) | uint64(c.overrun)<<32)
	} else {
		en.Word(uint64(c.overrun))
	}
	en.Word(uint64(c.began))
	en.Word(uint64(now))
	if !t.conf.Has[release.GraphDepthFirst] {
		en.Word(uint64(uint32(c.depth)))
		en.N -= 4
	}
	a.trace.Commit(trap, en, cmdlines.PID(trap))
}

// SchedSwitch is ftrace_graph_probe_sched_switch, for the option sleep-time: the times of
// the calls of a task that runs again leave out how long it did not. It runs in handler context.
func (t *Tracers) SchedSwitch(trap *abi.Trap, next int32) {
	now := trap.Now()
	if g := t.graph.tasks.Of(trap.Task); g != nil {
		g.left = now
	}
	for task, g := range t.graph.tasks.All() {
		if g.pid.Load() != next || g.left == 0 || task == trap.Task {
			continue
		}
		for i := range g.calls[:g.n.Load()] {
			if c := &g.calls[i]; !c.array.options[graphSleepTime].Load() {
				c.began += now - g.left
			}
		}
		g.left = 0
	}
}

// graphTracer switches the tracer function_graph on or off. The caller holds mu.
func (a *Array) graphTracer(on bool) error {
	if on {
		a.graph.round.Add(1)
	}
	a.graph.on.Store(on)
	if err := a.measureSleep(a.options[graphSleepTime].Load()); err != nil {
		return err
	}
	return a.updateFunctions()
}

// measureSleep has SchedSwitch called while an array needs it: sleepTime is the option
// sleep-time. The caller holds mu.
func (a *Array) measureSleep(sleepTime bool) error {
	t := a.tracer
	wants := a.graph.on.Load() && !sleepTime
	if wants == a.graph.measures {
		return nil
	}
	a.graph.measures = wants
	if wants {
		return t.conf.WatchSwitches(1)
	}
	return t.conf.WatchSwitches(-1)
}

// setGraph makes the functions of set_graph_function and set_graph_notrace those that are
// looked at. The caller holds mu.
func (t *Tracers) setGraph() {
	function, without := t.graph.function.sites, t.graph.without.sites
	t.graph.functions.Store(&function)
	t.graph.notrace.Store(&without)
}

// EditGraph opens set_graph_function, or set_graph_notrace, for writing.
func (t *Tracers) EditGraph(notrace, truncate bool) *Edit {
	e := t.editFunctions(nil, t.graphSet(notrace), truncate, func() error { t.setGraph(); return nil })
	e.plain = true
	return e
}

func (t *Tracers) graphSet(notrace bool) *Set {
	if notrace {
		return &t.graph.without
	}
	return &t.graph.function
}

// GraphFunctions returns the lines of set_graph_function or set_graph_notrace.
func (t *Tracers) GraphFunctions(notrace bool) []string {
	empty := "#### all functions enabled ####\n"
	if notrace {
		empty = "#### no functions disabled ####\n"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	set := t.graphSet(notrace)
	return set.lines(t, slices.Sorted(maps.Keys(set.sites)), empty, true)
}

// changeGraph is ftrace_graph_set_hash: a word of set_graph_function. It fails with
// EINVAL if it changes nothing.
func (s *Set) changeGraph(t *Tracers, word string) error {
	pattern, remove := strings.CutPrefix(word, "!")
	var found []uint64
	if !kstrtox.DigitFirst(pattern) {
		found = t.FindFunctions(pattern)
	}
	if remove {
		found = slices.DeleteFunc(found, func(site uint64) bool { return !s.sites[site] })
	}
	return s.edit(pattern, found, remove)
}

// MaxGraphDepth returns the text of max_graph_depth.
func (t *Tracers) MaxGraphDepth() string { return fmt.Sprintf("%d\n", int32(t.graph.maxDepth.Load())) }

// SetMaxGraphDepth handles a write to max_graph_depth: 0 means without limit. It fails
// with EINVAL if data is not a number.
func (t *Tracers) SetMaxGraphDepth(data []byte) error {
	v, err := kstrtox.FromUser(data)
	if err != nil {
		return fmt.Errorf("max_graph_depth: %w", err)
	}
	t.graph.maxDepth.Store(uint32(v))
	return nil
}

// Threshold returns the text of tracing_thresh in microseconds, kept as 64 bits of
// nanoseconds: how long a call lasts that function_graph shows.
func (t *Tracers) Threshold() string {
	return fmt.Sprintf("%d\n", t.threshold.Load()/1000)
}

// SetThreshold handles a write to tracing_thresh. It fails with EINVAL if data is not a
// number.
func (t *Tracers) SetThreshold(data []byte) error {
	v, err := kstrtox.FromUser(data)
	if err != nil {
		return fmt.Errorf("tracing_thresh: %w", err)
	}
	t.threshold.Store(v * 1000)
	return nil
}

// graphClass is the class of the events funcgraph_entry and funcgraph_exit.
type graphClass struct {
	enter      bool
	depthFirst bool
}

// Fields implements Class.
func (c graphClass) Fields() []field.Field {
	function := field.New("unsigned long func", 8, 8, false)
	switch {
	case c.enter:
		return []field.Field{function, field.New("int depth", 16, 4, true)}
	case c.depthFirst:
		return []field.Field{
			function, field.New("int depth", 16, 4, true), field.New("unsigned int overrun", 20, 4, false),
			field.New("unsigned long long calltime", 24, 8, false), field.New("unsigned long long rettime", 32, 8, false),
		}
	default:
		return []field.Field{
			function, field.New("unsigned long overrun", 16, 8, false), field.New("unsigned long long calltime", 24, 8, false),
			field.New("unsigned long long rettime", 32, 8, false), field.New("int depth", 40, 4, true),
		}
	}
}

// PrintFmt implements Class.
func (c graphClass) PrintFmt() string {
	if c.enter {
		return `"--> %ps (%d)", (void *)REC->func, REC->depth`
	}
	return `"<-- %ps (%d) (start: %llx  end: %llx) over: %d", (void *)REC->func, REC->depth, REC->calltime, REC->rettime, REC->depth`
}

// Print is print_graph_function_event: a line without what the lines before have told.
func (c graphClass) Print(a *Array, b, entry []byte) []byte {
	b, _ = a.NewGraphPrinter().Append(b, ring.Record{Data: entry}, noFollowers{})
	return b
}

type noFollowers struct{}

func (noFollowers) After() (r ring.Record, ok bool) { return r, false }
func (noFollowers) Take()                           {}
