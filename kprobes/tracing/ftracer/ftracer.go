// Package ftracer has the tracers that listen to functions: function, function_graph, the
// commands of set_ftrace_filter, and the stack tracer; and the sets of functions that their
// files select. Its files are named after the files of kernel/trace.
//
// Tracers is what exists once: the fentry sites, the calls that function_graph waits for, the
// deepest stack. An Array is what they keep for each trace_array: its filters, its commands,
// and which of the two tracers runs. A hit comes from a Listener, in handler context, and
// becomes an entry of the Trace that the Array belongs to. What a Trace does with it, and what
// a line of the file trace has before its text, is not known here.
//
// Config.Mutex (event_mutex) is held by the methods that set something, and taken by the methods of
// files. Handlers take no lock but TryLock on the deepest stack's.
package ftracer

import (
	"sync"
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// Config is what Tracers are built from.
type Config struct {
	// Mutex is event_mutex.
	Mutex *sync.Mutex
	// Has is what the kernel's release does.
	Has     *release.Set
	Symbols probe.Symbols
	CPUs    int
	// Names are the names of tasks, for the lines of function_graph.
	Names *cmdlines.Names
	// Functions are the fentry sites. If it is nil, functions cannot be traced.
	Functions Functions
	// Unwind writes a kernel stack into ips, and its stack pointers into sps (tracing.Unwinder).
	Unwind func(task, ip, past, sp uint64, ips, sps []uint64) int
	// Printk is the kernel's log.
	Printk func(level int, format string, args ...any)
	// Room returns ENOMEM if there is no memory for what is made of a text of n bytes.
	Room func(n int) error
	// Dump is ftrace_dump of a vCPU, or of all if cpu is -1. It runs in handler context.
	Dump func(cpu int)
	// WatchSwitches has SchedSwitch called at hits of sched_switch for one user more, or for
	// one less if d is -1. The mutex is held.
	WatchSwitches func(d int) error
}

// Trace is a trace_array as its function tracers see it.
type Trace interface {
	recorder
	commanded
	lines
}

// recorder is what hits need of a Trace. The methods run in handler context.
type recorder interface {
	// Recording reports whether hits are recorded now.
	Recording() bool
	// TracesFunctions is the option function-trace.
	TracesFunctions() bool
	// IgnoresFunctions is ftrace_ignore_pid.
	IgnoresFunctions(pid int32) bool
	// Begin starts an entry of the event with an ID, with the hit's flags; it returns nil if
	// the vCPU has too many. Discard ends what Begin began.
	Begin(trap *abi.Trap, id uint16) *probe.Entry
	Discard(trap *abi.Trap)
	// Commit writes the entry, and saves the name of its task. It returns false if there was
	// no room.
	Commit(trap *abi.Trap, en *probe.Entry, pid int32) bool
	// RecordStack records the stack of a function that is entered, as an entry with these flags.
	RecordStack(trap *abi.Trap, flags, preempt byte)
}

// commanded is what the commands of set_ftrace_filter act on.
type commanded interface {
	SetRecording(on bool)
	// RecordStackAlone is RecordStack where no entry comes before it: the task's name is saved.
	RecordStackAlone(trap *abi.Trap)
	// AllocSnapshot makes room for snapshots; the mutex is held. Snapshot takes one.
	AllocSnapshot() error
	Snapshot(trap *abi.Trap)
	// Event returns the file of an event, or nil if there is none that can be enabled. The
	// mutex is held.
	Event(group, name string) EventFile
}

// lines is what lines of the file trace show of a Trace.
type lines interface {
	// PrintsParent, ContextInfo and LatencyFormat are options.
	PrintsParent() bool
	ContextInfo() bool
	LatencyFormat() bool
	// IsEntry reports whether data are an entry of an event, at least as long as its fields say.
	IsEntry(data []byte) bool
	// AppendText appends what a line has after its columns, or only the message of a print.
	AppendText(b, entry []byte) []byte
	AppendSymbol(b []byte, addr uint64, offset bool) []byte
	// AppendTitle appends the header of latency-format.
	AppendTitle(b []byte, entries, overrun uint64) []byte
	// AppendFlags appends the columns of latency-format.
	AppendFlags(b []byte, flags, preempt byte) []byte
}

// EventFile is an event on which a command acts.
type EventFile interface {
	Title() (group, event string)
	// Recorded reports whether hits are recorded while the event is enabled softly.
	Recorded() bool
	SetRecorded(on bool)
	SetSoft(on bool) error
}

// Tracers is what the function tracers of all arrays share.
type Tracers struct {
	conf   Config
	mu     *sync.Mutex // Config.Mutex
	global *Array

	graph     graphTracing
	stacks    stackTracer
	threshold atomic.Uint64 // tracing_thresh, ns
}

// New returns tracers that trace nothing.
func New(c Config) *Tracers {
	t := &Tracers{conf: c, mu: c.Mutex}
	if c.Functions != nil {
		t.graph.trampoline = t.symbolAddr("return_to_handler")
	}
	t.setGraph()
	return t
}

// Array is what the function tracers keep for a trace_array.
type Array struct {
	tracer  *Tracers
	trace   Trace
	options [optionCount]atomic.Bool // changed under the mutex

	functions arrayFunctions
	graph     arrayGraph
}

// NewArray returns what belongs to a trace. The first one is the global array's.
func (t *Tracers) NewArray(of Trace) *Array {
	a := &Array{tracer: t, trace: of}
	for i, o := range Options {
		a.options[i].Store(o.on)
	}
	if t.global == nil {
		t.global = a
	}
	return a
}

// Event is an event of group ftrace whose entries the tracers write.
type Event struct {
	Name  string
	ID    uint16
	Class Class
}

// Class is all that differs between these events.
type Class interface {
	// Fields returns the members of an entry after the common ones.
	Fields() []field.Field
	// PrintFmt returns what the file format shows as print fmt.
	PrintFmt() string
	// Print appends the part of a line of a's trace that follows the time.
	Print(a *Array, b, entry []byte) []byte
}

// Events returns the events, of which there are none if functions cannot be traced.
func (t *Tracers) Events() []Event {
	if t.conf.Functions == nil {
		return nil
	}
	return []Event{
		{"function", TypeFunction, functionClass{}},
		{"funcgraph_entry", typeGraphEnt, graphClass{enter: true}},
		{"funcgraph_exit", typeGraphRet, graphClass{depthFirst: t.conf.Has[release.GraphDepthFirst]}},
	}
}

// Kind is struct tracer: a value of current_tracer.
type Kind struct {
	Name string
	set  func(a *Array, on bool) error
}

// Kinds are the tracers, in the order of available_tracers.
var Kinds = [...]Kind{{GraphName, (*Array).graphTracer}, {"function", (*Array).functionTracer}}

// GraphName is the tracer whose lines have a form of their own (NewGraphPrinter).
const GraphName = "function_graph"

// Supports reports whether the array's kernel has a tracer; instances have function_graph since 6.12.
func (a *Array) Supports(k Kind) bool {
	c := &a.tracer.conf
	return c.Functions != nil && (k.Name != GraphName || a == a.tracer.global || c.Has[release.GraphInstances])
}

// Set starts or stops a tracer. The caller holds the mutex.
func (a *Array) Set(k Kind, on bool) error { return k.set(a, on) }

// Option is tracer_opt: an option of one tracer.
type Option struct {
	Tracer, Name string
	// set is set_flag; if it is nil, the option accepts any value.
	set func(a *Array, on bool) error
	on  bool // at first
}

// Indices of Options.
const (
	graphOverrun = iota
	graphCPUColumn
	graphOverhead
	graphProc
	graphDuration
	graphAbstime
	graphIRQs
	graphTail
	graphSleepTime
	funcStackTrace
	optionCount
)

// Options are the options of the tracers.
var Options = [optionCount]Option{
	graphOverrun:   {Tracer: GraphName, Name: "funcgraph-overrun"},
	graphCPUColumn: {Tracer: GraphName, Name: "funcgraph-cpu", on: true},
	graphOverhead:  {Tracer: GraphName, Name: "funcgraph-overhead", on: true},
	graphProc:      {Tracer: GraphName, Name: "funcgraph-proc"},
	graphDuration:  {Tracer: GraphName, Name: "funcgraph-duration", on: true},
	graphAbstime:   {Tracer: GraphName, Name: "funcgraph-abstime"},
	graphIRQs:      {Tracer: GraphName, Name: "funcgraph-irqs", on: true},
	graphTail:      {Tracer: GraphName, Name: "funcgraph-tail"},
	graphSleepTime: {Tracer: GraphName, Name: "sleep-time", on: true, set: (*Array).measureSleep},
	funcStackTrace: {Tracer: "function", Name: "func_stack_trace", set: (*Array).traceStacks},
}

// Option returns an option by its index in Options.
func (a *Array) Option(i int) bool { return a.options[i].Load() }

// SetOption is set_tracer_option: the tracer is asked even if the option has that value. The
// caller holds the mutex.
func (a *Array) SetOption(i int, on bool) error {
	if set := Options[i].set; set != nil {
		if err := set(a, on); err != nil {
			return err
		}
	}
	a.options[i].Store(on)
	return nil
}

func (t *Tracers) say(err error) {
	if err != nil {
		t.conf.Printk(4, "ftrace: %v", err)
	}
}

// inHardirq reports whether a hit is in an interrupt's handler.
func inHardirq(trap *abi.Trap) bool { return trap.Preempt&abi.HardirqMask != 0 }
