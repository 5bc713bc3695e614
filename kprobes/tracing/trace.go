// Package tracing is the part of Linux's tracing that kprobes need: events
// defined by writing to kprobe_events, the ring buffer that their hits go to,
// and the text that the files of tracefs show of both. Its files are named as
// those of kernel/trace that they stand for.
//
// What there is once is the Tracer: the events, the definitions, the names of
// tasks. What an instance has too is an Array (trace_array): a ring buffer with
// its clock and switches, and for each event an EventFile, which says whether
// this array wants the event's hits and which of them. The files of tracing
// itself are those of the array Tracer.Global.
//
// An Event (trace_event_call) has a number, a format and an eventClass, which is
// all that is different between the kinds of events: the fields and the text of
// an entry, and what is to be done when the first EventFile wants hits, and when
// none does any more. A kind of event is a file of this package that makes
// Events with Tracer.newEvent, and whose hits call, in atomic Go:
//
//	if en := event.begin(trap); en != nil { // somebody wants the hit
//		en.word(...)                // the fields after the common ones
//		event.commit(trap, en)      // or tracer.discard(en)
//	}
//
// commit goes through the EventFiles that are on: triggers, filter, pids, and
// then the array's buffer. Nothing there allocates or takes a lock but those of the
// vCPU's own buffer, of which readers take only one, for a page at a time.
//
// A definition (trace_kprobe.go) becomes a kprobe or kretprobe of package
// kprobes and joins an Event (trace_events.go). Its arguments
// (trace_probe_args.go) are small programs (trace_probe_tmpl.go). A hit runs them
// and writes an entry in the kernel's binary format to the pages of its vCPU
// (ring_buffer.go); readers copy pages and turn them into text
// (trace_output.go), or take entries out of them as text (trace_pipe.go).
//
// A file's triggers (trace_events_trigger.go) run at its hits. Those of hist
// (trace_events_hist.go) count hits in a table of their own (tracing_map.go), keep
// variables there that others read, and by their actions hit synthetic events
// (trace_events_synth.go), which are Events as others are.
//
// Lock order: Tracer.mu (event_mutex), then package kprobes' lock; errorLog.mu,
// cmdlines.mu and cpuBuffer.writing are each taken last, but for cpuBuffer.mu, which
// comes after writing.
package tracing

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Kprobes is what tracing needs of package kprobes; *kprobes.Kprobes has it.
type Kprobes interface {
	Register(p *kprobes.Kprobe, by ...*kprobes.Hit) error
	Unregister(p *kprobes.Kprobe, by ...*kprobes.Hit) error
	RegisterRetprobe(rp *kprobes.Retprobe, by ...*kprobes.Hit) error
	UnregisterRetprobe(rp *kprobes.Retprobe, by ...*kprobes.Hit) error
	Enable(p *kprobes.Kprobe, by ...*kprobes.Hit) error
	Disable(p *kprobes.Kprobe, by ...*kprobes.Hit) error
	OnFuncEntry(addr uint64, name string, offset uint32) error
	NewRethook(calls int, dataSize uint64, exit func(*kprobes.Instance, *abi.Trap)) (*kprobes.Rethook, error)
	Callers(t *abi.Trap) []string
}

// Symbols is kallsyms. Its look-ups take no lock.
type Symbols interface {
	LookupName(name string) []abi.Symbol // "symbol" or "module:symbol"
	Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool)
}

// Sites knows the fentry sites: which functions tracing may touch.
type Sites interface {
	FtraceOverlap(start, end uint64) bool
}

// Machine is time and the log.
type Machine interface {
	CPUs() int
	Now() int64 // nanoseconds since boot
	// SynchronizeRCU returns when every handler that was running has returned.
	SynchronizeRCU()
	Printk(level int, format string, args ...any)
}

// Config is what a Tracer is built from.
type Config struct {
	Kprobes Kprobes
	Symbols Symbols
	Sites   Sites
	Machine Machine
	// Module says whether a module of that name is loaded; nil: none ever is.
	Module func(name string) bool
	// Release is uname -r.
	Release string
	Features
	// PtrKey makes the hashed addresses that Linux prints for %p; 0: they show as
	// (____ptrval____), as on Linux before its random numbers are ready.
	PtrKey uint64
	// Tracepoints are those of the kernel; nil: it has none, and so no static events.
	Tracepoints Tracepoints
	// Syscalls are the names of the kernel's system calls by number ("openat"); "":
	// it has not got it.
	Syscalls []string
	// Functions are the fentry sites; nil: functions cannot be traced.
	Functions Functions
	// Unwind gives the kernel stack of a task from the instruction that begins past
	// bytes before ip, and from a stack pointer on, innermost first, and if sps is not
	// nil the stack pointers; nil: it is not known. Atomic.
	Unwind func(task, ip, past, sp uint64, ips, sps []uint64) int
	// UnwindCallback is the same from where the vCPU's code calls the machine.
	UnwindCallback func(cpu int, task uint64, ips []uint64) int
	// BTF gives the types of the kernel's functions; nil: it has none, as 6.1. With
	// them there are the arguments NAME, NAME->FIELD, $arg*, %pd and %pD, return probes
	// have the function's arguments, and what has a type need not be given one.
	BTF func() *btf.Types
	// Memory is the kernel's, for strings that entries point to.
	Memory abi.Memory
	// TAIOffset is what trace clock "tai" adds to the time since boot, ns.
	TAIOffset int64
	// Dirs is told which directories below events have come and gone; nil: nobody is.
	Dirs func(ctx context.Context, changes []DirChange)
	// TaskCPU is the vCPU of the guest's task whose write(2) ctx belongs to; nil: 0.
	TaskCPU func(ctx context.Context) int
	// TSC turns the time since boot into the time-stamp counter; nil: 1 GHz.
	TSC func(now int64) uint64
	// RegularFile says whether a path of the host's is that of a regular file, for
	// uprobe_events; nil: there are no files.
	RegularFile func(path string) (bool, error)
}

const (
	// initialPages is a vCPU's buffer before tracing is first used.
	initialPages = 2
	// expandedSize is TRACE_BUF_SIZE_DEFAULT, bytes: what it grows to then.
	expandedSize = 1441792
	maxEventType = 1<<16 - 1
)

// Tracer is what all arrays share.
type Tracer struct {
	conf     Config
	global   *Array
	counter  atomic.Int64 // trace clock "counter"
	cmdlines cmdlines
	tgids    tgids
	cpus     []cpuScratch

	tasksMu sync.Mutex // guards tasks
	tasks   cpuScratch // of the triggers of trace_marker, which run on no vCPU

	listening atomic.Int64 // event files that are on

	mu          sync.Mutex // event_mutex: guards all below, and what is below Event, EventFile and Array
	arrays      []*Array   // the global one first
	probes      []*traceKprobe
	uprobesTold bool       // the log has said that uprobes have no hits
	dynamic     []dynEvent // these and the others that dynamic_events shows
	nextType    int
	expanded    bool        // tracing was used, the global array's buffer has its full size
	dumping     atomic.Bool // dump runs
	savesNames  atomic.Bool // an event is on in an array that has the option record-cmd
	threshold   uint64      // tracing_thresh, ns
	namesInUse  map[eventName]*Event
	subsystems  map[string]*subsystem
	generations uint64

	dirs []DirChange

	events atomic.Pointer[eventTable] // by number, for readers of the buffer

	tracepoints map[uint64]*tracepoint // by address; fixed
	probestubs  map[uint64]bool        // of which tracepoints an fprobe is at the stub; guarded by mu
	stacks      stackTracer
}

// DirChange is a directory below events that was made or removed: a
// subsystem's, or, if Event is not empty, an event's.
type DirChange struct {
	Made          bool
	System, Event string
}

// maxDirs bounds how many changes are remembered.
const maxDirs = 1024

// dirChanged needs mu.
func (t *Tracer) dirChanged(made bool, system, event string) {
	if t.conf.Dirs != nil && !t.conf.Eventfs && len(t.dirs) < maxDirs {
		t.dirs = append(t.dirs, DirChange{made, system, event})
	}
}

// SettleDirs tells Config.Dirs what has changed, in the caller's context: the
// end of a write that may have defined or deleted events.
func (t *Tracer) SettleDirs(ctx context.Context) {
	t.mu.Lock()
	changes := t.dirs
	t.dirs = nil
	t.mu.Unlock()
	if len(changes) > 0 {
		t.conf.Dirs(ctx, changes)
	}
}

// Features are those of the release.
func (t *Tracer) Features() Features { return t.conf.Features }

// Features are those of the release.
func (a *Array) Features() Features { return a.tracer.conf.Features }

// Listening says whether the hits of any event are wanted.
func (t *Tracer) Listening() bool { return t.listening.Load() > 0 }

// cpuScratch is what the trap side of one vCPU keeps between hits.
type cpuScratch struct {
	pid  int32
	name comm // as last saved for pid
	read comm

	entries [maxNesting]entry // at hand: those from depth on are free
	depth   int
	hists   [maxNesting]histHit
	stack   [maxStack]uint64
	_       [64]byte
}

// maxNesting is how many entries of a vCPU may be in the making at once: a hit's
// own, and those of the events that its triggers make.
const maxNesting = 4

// New gives a tracer without events, switched on.
func New(c Config) *Tracer {
	t := &Tracer{
		conf:       c,
		cpus:       make([]cpuScratch, c.Machine.CPUs()),
		nextType:   int(c.static().first),
		namesInUse: map[eventName]*Event{},
		subsystems: map[string]*subsystem{},
	}
	t.events.Store(&eventTable{})
	t.cmdlines.resize(c.cmdlinesFor(savedCmdlines))
	t.global = t.newArray(initialPages, t.defaultClock())
	if t.conf.FieldsOption {
		t.global.options.Or(uint64(optPrintkDest))
	}
	t.arrays = []*Array{t.global}
	t.ownEvents()
	t.newStaticEvents()
	t.newFunctionEvent()
	return t
}

// writeBufferSize is WRITE_BUFSIZE: commands are taken in pieces of it.
const writeBufferSize = 4096

// runCommands is trace_parse_run_command: it runs each line of data, without
// its comment, and returns how many bytes were done. The first line that fails
// ends it with that line's error, whatever came before.
func (t *Tracer) runCommands(data []byte, run func(line string) error) (int, error) {
	done := 0
	for done < len(data) {
		chunk := cString(data[done:min(len(data), done+writeBufferSize-1)])
		for first := true; ; first = false {
			line, _, whole := strings.Cut(chunk, "\n")
			size := len(line) + 1
			if !whole {
				size--
				if done+size < len(data) {
					if !first {
						break // the line goes on in the next piece
					}
					t.conf.Machine.Printk(4, "Line length is too long: Should be less than %d", writeBufferSize-2)
					return 0, fmt.Errorf("a line of more than %d bytes: %w", writeBufferSize-2, syscall.EINVAL)
				}
			}
			line, _, _ = strings.Cut(line, "#")
			if err := run(line); err != nil {
				return 0, err
			}
			done += size
			if done >= len(data) {
				break
			}
			chunk = chunk[size:]
		}
	}
	return done, nil
}
