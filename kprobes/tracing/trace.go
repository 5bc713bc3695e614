// Package tracing is the part of Linux's tracing that kprobes need: events defined by
// writes to kprobe_events, the ring buffer that stores their hits, and the text that
// the files of tracefs show of both. Its files are named after the files of
// kernel/trace that they correspond to.
//
// The Tracer holds what exists once: the events, the definitions, the names of tasks.
// An Array (trace_array) holds what each instance has: a ring buffer with its clock and
// switches, and for each event an EventFile, which says whether and with which filter
// this array records the event. The files in the tracing directory itself belong to the
// array Tracer.Global.
//
// An Event (trace_event_call) has an ID, a format and an eventClass. The eventClass is
// all that differs between the kinds of events: the fields and the text of an entry,
// and how to start and stop the event when the first EventFile enables it and the last
// one disables it. Static events are files of this package that create Events with
// Tracer.newEvent; events that a write defines belong to package dynevent, which
// reaches the Tracer through trace_dynevent.go. Their hits call, in handler context:
//
//	if en := event.begin(trap); en != nil { // an array records the hit
//		en.Word(...)                // the fields after the common ones
//		event.commit(trap, en)      // or tracer.discard(trap)
//	}
//
// commit goes through the enabled EventFiles: triggers (hitTriggers), filter, pids, and
// then the array's buffer. It allocates nothing and takes no lock except the ones of the
// vCPU's own buffer and of histograms; readers take only one of these, for one page at a
// time. An entry has the kernel's binary format; readers copy pages and turn them into
// text (trace_output.go), or take entries out of them as text (trace_pipe.go).
//
// Code that needs neither Tracer nor Array is in separate packages: ring (the
// buffer's pages), field (the members of an entry), filter, probe (the arguments of
// definitions), dynevent (definitions and their probes), trigger and hist (triggers and
// histograms, which trace_events_trigger.go connects), tracingmap (the table of a
// histogram), ftracer (the tracers of functions, which trace_ftracer.go connects), cmdlines
// (the names of tasks) and output (the text of an entry).
//
// Lock order: Tracer.mu (event_mutex), then package kprobes' lock. errorLog.mu and
// the locks of packages ring, tracingmap and cmdlines are taken last.
package tracing

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/armed"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/memcg"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/hist"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
	"github.com/kprobefs/kprobefs/kprobes/tracing/trigger"
)

// Kprobes is what tracing needs of package kprobes; *kprobes.Kprobes implements it.
type Kprobes interface {
	dynevent.Kprobes
	Via(t *abi.Trap) kprobes.Via
}

// Machine is what executes the kernel; *kernel.Machine implements it.
type Machine interface {
	CPUs() int
	Now() int64 // nanoseconds since boot
	// AfterFunc runs f in a new goroutine after d of the machine's time, unless it is stopped, or the machine closed, before.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	// SynchronizeRCU returns when every handler that was running has returned.
	SynchronizeRCU()
	Printk(level int, format string, args ...any)
	// HashPtr returns the number that %p prints for an address.
	HashPtr(addr uint64) uint32
	// TaskOn returns the task that a vCPU executes, or 0 if there is none.
	TaskOn(vcpu int) uint64
}

// Unwinder walks the kernel's stacks, in handler context; *kernel.Machine and *vm.VM implement it.
type Unwinder interface {
	// Unwind writes the stack of a task into ips, innermost first, and returns its length. The
	// stack starts with the instruction that begins past bytes before ip and with stack pointer
	// sp. If sps is not nil, it gets the stack pointers.
	Unwind(task, ip, past, sp uint64, ips, sps []uint64) int
	// UnwindCallback is Unwind from where the vCPU's code called the machine.
	UnwindCallback(cpu int, task uint64, ips []uint64) int
}

// Modules are those that are loaded.
type Modules interface {
	Loaded(name string) bool
}

// Files is what serves the tracer's files.
type Files interface {
	// DirChanged says that a directory below events was created or removed, in the context of
	// the write that did it: of a subsystem or, if event is not empty, of an event.
	DirChanged(ctx context.Context, made bool, system, event string)
	// TaskCPU returns the vCPU of the guest's task whose write(2) ctx belongs to.
	TaskCPU(ctx context.Context) int
}

// Host is the computer whose user space uses the files.
type Host interface {
	// RegularFile reports whether a path is a regular file, for uprobe_events.
	RegularFile(path string) (bool, error)
	// SharedMemory returns memory that user space can map, for ring buffers of bpf(2).
	SharedMemory() (perf.Memory, error)
	// ReadClock reads a clock (CLOCK_MONOTONIC, ...), in nanoseconds.
	ReadClock(id int32) int64
	// Signal sends the thread for which a task stands a signal, which it has when its call has ended. It is called in handler
	// context. Without thread the signal is for its process.
	Signal(task uint64, nr int, thread bool)
	// CallRefused says that a program has had a function fail with err in the call that a task makes: the host does not make it either.
	// It is called in handler context.
	CallRefused(task uint64, err syscall.Errno)
	// UserStack writes the stack in user space of the thread for which a task stands into ips, innermost first, as
	// perf_callchain_user does, and UserTrace as stack_trace_save_user. They return how many there are, 0 if the thread is in
	// no call. They are called in handler context.
	UserStack(task uint64, ips []uint64) int
	UserTrace(task uint64, ips []uint64) int
	// UserMemory reads memory of such a thread's process, and reports whether all of it could be read without waiting.
	UserMemory(task, addr uint64, b []byte) bool
	// UserFiles returns what finds the build id of a file that such a thread has mapped at an address, and the address's offset in the
	// file.
	UserFiles(task uint64) func(ip uint64) (id [20]byte, offset uint64, ok bool)
	// UserMappings returns what finds the path of a file that a process has mapped at an address, and where the mapping begins. The path is
	// empty where there is none.
	UserMappings(pid int32) func(ip uint64) (path string, start uint64)
	// UserRegs returns the registers in user space of such a thread; without whole only IP and SP are known.
	UserRegs(task uint64) (r abi.Regs, whole, ok bool)
	// EndedTasks returns the tasks that stand for threads which have ended.
	EndedTasks() []uint64
}

// Config is what a Tracer is built from.
type Config struct {
	// These always exist; New panics if one of them is nil.
	Kprobes  Kprobes
	Symbols  probe.Symbols
	Sites    dynevent.Sites
	Machine  Machine
	Unwinder Unwinder
	Modules  Modules
	Files    Files
	Host     Host
	// Memory is the kernel's memory, for strings that entries point to.
	Memory abi.Memory
	// Armed learns when an event is enabled or disabled, and when perf opens or closes one.
	Armed *armed.Changes

	// Release is uname -r.
	Release string
	// Linux is the version whose behaviour it is; 0 means release.Default.
	Linux release.Version
	// Limit bounds the memory that the tracer and others keep for their clients. If it
	// is nil, the limit is 1 GiB.
	Limit *memcg.Limit
	// TAIOffset is what trace clock "tai" adds to the time since boot, in ns.
	TAIOffset int64
	// PerfCPUs are the numbers that perf knows the vCPUs by. If it is nil, they are the
	// vCPUs' own.
	PerfCPUs []int
	// PossibleCPUs is how many CPUs user space takes to be possible: how many values it expects of a
	// per-CPU map's element. 0 means Machine.CPUs.
	PossibleCPUs int

	// Tracepoints are the kernel's tracepoints. A kernel that is only looked at has none, and
	// so no static events.
	Tracepoints Tracepoints
	// Syscalls are the names of the kernel's system calls by number ("openat"), "" for
	// numbers without one.
	Syscalls []string
	// Functions are the fentry sites. They are nil without CONFIG_FUNCTION_TRACER.
	Functions ftracer.Functions
	// BTF returns the types of the kernel's functions. It is nil if there are none, or if the
	// release does not look at them (6.1). With types, definitions may use the arguments NAME,
	// NAME->FIELD, $arg*, %pd and %pD, return probes can fetch the function's arguments, and an
	// argument whose type is known needs no :TYPE.
	BTF func() *btf.Types
	// RawBTF are the kernel's types for bpf(2), or nil if it has none.
	RawBTF []byte
}

// missing returns the name of a field of what always exists that is nil, or "".
func (c *Config) missing() string {
	for _, f := range [...]struct {
		name  string
		value any
	}{
		{"Kprobes", c.Kprobes},
		{"Symbols", c.Symbols},
		{"Sites", c.Sites},
		{"Machine", c.Machine},
		{"Unwinder", c.Unwinder},
		{"Modules", c.Modules},
		{"Files", c.Files},
		{"Host", c.Host},
		{"Memory", c.Memory},
	} {
		if f.value == nil {
			return f.name
		}
	}
	return ""
}

// config is a Config and what follows from its version.
type config struct {
	Config
	has        release.Set
	kretprobed string // release.Kretprobed
	rawDataID  uint16 // release.RawDataID
}

func newConfig(c Config) config {
	return config{c, c.Linux.Set(), release.Kretprobed.Of(c.Linux), release.RawDataID.Of(c.Linux)}
}

const (
	// initialPages is the size of a vCPU's buffer until tracing is first used.
	initialPages = 2
	// expandedSize is TRACE_BUF_SIZE_DEFAULT, bytes: the size of the buffer from then
	// on.
	expandedSize = 1441792
	maxEventType = 1<<16 - 1
)

// Tracer is the state that all arrays share.
type Tracer struct {
	conf     config
	global   *Array
	counter  atomic.Int64 // trace clock "counter"
	cmdlines cmdlines.Names
	tgids    cmdlines.TGIDs
	formats  atomic.Pointer[printkFormats] // of trace_printk in modules; nil if there are none

	formatsMu sync.Mutex // serializes those who add formats

	cpus []cpuScratch

	tasksMu sync.Mutex // guards tasks
	tasks   cpuScratch // for triggers of trace_marker, which do not run on a vCPU

	ftrace        *ftracer.Tracers
	perf          *perf.Set
	bpf           *bpf.System
	bpfEvent      *Event            // bpf_trace_printk, or nil
	perfFunctions []*functionSource // those that are attached; guarded by mu

	listening atomic.Int64 // enabled event files, and users of perf
	elsewhere atomic.Int64 // of these, by events that are not of probes

	userTraces atomic.Int64 // arrays with the option userstacktrace

	mu          sync.Mutex // event_mutex: guards all below, and fields of Event, EventFile and Array
	arrays      []*Array   // the global one first
	definitions *dynevent.Registry
	hists       *hist.Hists
	nextType    int
	expanded    bool        // tracing was used, so the global array's buffer has its full size
	dumping     atomic.Bool // dump is running
	savesNames  atomic.Bool // an event is on in an array that has the option record-cmd
	namesInUse  map[eventName]*Event
	subsystems  map[string]*subsystem
	generations uint64

	dirs []dirChange

	events eventTable // by ID, for readers of the buffer

	tracepoints map[uint64]*tracepoint // by address; fixed
	triggering  trigger.Config
	filters     filter.Rules
}

// dirChange is a call of Files.DirChanged.
type dirChange struct {
	made          bool
	system, event string
}

// maxDirs bounds how many changes are remembered.
const maxDirs = 1024

// dirChanged remembers a change for SettleDirs. The caller holds mu.
func (t *Tracer) dirChanged(made bool, system, event string) {
	if len(t.dirs) < maxDirs {
		t.dirs = append(t.dirs, dirChange{made, system, event})
	}
}

// SettleDirs tells Files the changes, in the context of the caller. It is
// called at the end of a write that may have defined or deleted events.
func (t *Tracer) SettleDirs(ctx context.Context) {
	t.mu.Lock()
	changes := t.dirs
	t.dirs = nil
	t.mu.Unlock()
	for _, c := range changes {
		t.conf.Files.DirChanged(ctx, c.made, c.system, c.event)
	}
}

// Has reports whether this tracer does what a feature says.
func (t *Tracer) Has(f release.Feature) bool { return t.conf.has[f] }

// Has reports whether this array's tracer does what a feature says.
func (a *Array) Has(f release.Feature) bool { return a.tracer.Has(f) }

// HasBTF reports whether the kernel has types for the arguments of functions.
func (t *Tracer) HasBTF() bool { return t.conf.BTF != nil }

// Listening reports whether any event is enabled, or perf uses one.
func (t *Tracer) Listening() bool { return t.listening.Load() > 0 }

// listen counts more, or fewer, users of what is hit, outside the probes if elsewhere is set.
func (t *Tracer) listen(more int64, elsewhere bool) {
	if more == 0 {
		return
	}
	t.listening.Add(more)
	if elsewhere {
		t.elsewhere.Add(more)
	}
	t.conf.Armed.Note()
}

// ListeningElsewhere reports the same of events that are not of a probe.
func (t *Tracer) ListeningElsewhere() bool { return t.elsewhere.Load() > 0 }

// cpuScratch is the state that the trap side of one vCPU keeps between hits.
type cpuScratch struct {
	pid  int32
	name cmdlines.Comm // as last saved for pid
	read cmdlines.Comm

	entries [maxNesting]entry // those from depth on are free
	depth   int
	hists   [maxNesting]hist.Hit
	perf    perf.Hit
	program programHit
	stack   [maxStack]uint64
	user    [maxStack - 1]uint64
	_       [64]byte
}

func (c *cpuScratch) init(symbols probe.Symbols) {
	for i := range c.entries {
		c.entries[i].Symbols = symbols
	}
}

// maxNesting is how many entries of a vCPU may be under construction at once: a
// hit's, and the entries of the events that its triggers hit.
const maxNesting = 4

// New creates a tracer without events, with recording on.
func New(c Config) *Tracer {
	if name := c.missing(); name != "" {
		panic("tracing: no Config." + name)
	}
	if c.Limit == nil {
		c.Limit = memcg.New(1 << 30)
	}
	t := &Tracer{
		conf:       newConfig(c),
		cpus:       make([]cpuScratch, c.Machine.CPUs()),
		namesInUse: map[eventName]*Event{},
		subsystems: map[string]*subsystem{},
	}
	t.filters = filter.Rules{UserStrings: t.conf.has[release.UserStringFilters]}
	if t.conf.has[release.FunctionFilters] {
		t.filters.Symbols, t.filters.CPUs = c.Symbols, c.Machine.CPUs()
	}
	t.tasks.init(c.Symbols)
	for i := range t.cpus {
		t.cpus[i].init(c.Symbols)
	}
	t.ftrace = t.newFtrace()
	t.definitions = t.newDefinitions()
	t.hists = t.newHists()
	t.perf = t.newPerf()
	t.bpf = t.newBPF()
	t.triggering = trigger.Config{Has: &t.conf.has, Hists: t.hists, Filters: &t.filters, SynchronizeRCU: c.Machine.SynchronizeRCU}
	t.nextType = int(t.conf.firstEvent())
	t.cmdlines.Resize(cmdlines.RoomFor(cmdlines.Default, t.conf.has[release.CmdlinesWithPIDs]))
	t.global = t.newArray(initialPages, t.defaultClock())
	if t.conf.has[release.FieldsOption] {
		t.global.options.set(optPrintkDest, true)
	}
	t.arrays = []*Array{t.global}
	t.ownEvents()
	t.newStaticEvents()
	t.newFunctionEvents()
	return t
}

// nextWord is trace_get_user, for files that accept a list of words: one write consumes
// one word and returns how many bytes that was; the program writes the rest again.
// Leading blanks and one trailing blank or NUL are consumed with the word. The word is
// empty if there are only blanks, or at a NUL. It fails with EINVAL if the word and a
// NUL do not fit into size bytes.
func nextWord(data []byte, size int) (word string, used int, err error) {
	i := 0
	for i < len(data) && kstrtox.IsSpace(data[i]) {
		i++
	}
	start := i
	for i < len(data) && !kstrtox.IsSpace(data[i]) && data[i] != 0 {
		i++
	}
	if i-start >= size {
		return "", 0, fmt.Errorf("a word of %d bytes: %w", i-start, syscall.EINVAL)
	}
	return string(data[start:i]), min(i+1, len(data)), nil
}
