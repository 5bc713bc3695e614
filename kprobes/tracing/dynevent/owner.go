// Package dynevent is kernel/trace/trace_dynevent.c and the kinds of events that a line
// of dynamic_events defines: kprobes (trace_kprobe.go), uprobes, fprobes, eprobes and
// synthetic events. It parses a definition, registers its probe, lists it and deletes
// it.
//
// A Registry holds the definitions of one tracer. It does not know arrays, buffers,
// files or triggers: the tracer's Events creates the event of a definition, and an Event
// begins and commits the entry of a hit. A Class is what the tracer asks about the
// event: its fields, the text of an entry, and how to switch its probes.
//
// A hit runs in handler context, where nothing is allocated and no lock is taken:
//
//	if en := event.Begin(trap); en != nil { // an array records the hit
//		en.Word(...)                // the fields after the common ones
//		event.Commit(trap)          // or event.Discard(trap)
//	}
//
// Its files are named after the files of kernel/trace that they correspond to.
package dynevent

import (
	"fmt"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// Kind is the kind of a dynamic event.
type Kind byte

// The kinds of events. The zero value is an event that no definition made.
const (
	NotDynamic Kind = iota
	Kprobe
	Kretprobe
	Uprobe
	Fentry // an fprobe at an entry, or at a tracepoint
	Fexit
	Eprobe
	Synth
)

// Class is what differs between kinds of events: trace_event_class and
// trace_event_functions.
type Class interface {
	Kind() Kind
	// Fields returns the members of an entry after the common ones. It is called once.
	Fields() []field.Field
	// PrintFmt returns what the file format shows after "print fmt: ".
	PrintFmt() string
	// Print appends the part of a line of the trace that follows the time, with its
	// newline. The entry is at least as long as its fields say; its contents are not to
	// be trusted otherwise.
	Print(symbols Printer, b, entry []byte) []byte
	// Enable is called when the first array enables the event, Disable when the last one
	// disables it; Config.Mutex is held. Disable need not wait for handlers.
	Enable() error
	Disable()
}

// Probe is a Class whose events are hit at one place.
type Probe interface {
	// Probe returns where it is, as perf would describe it. Config.Mutex is held.
	Probe() Local
}

// Printer writes addresses as the options of an array say.
type Printer interface {
	// AppendSymbol appends the symbol of an address, with the offset in it if that is
	// asked for.
	AppendSymbol(b []byte, addr uint64, offset bool) []byte
}

// Event is an event of the tracer.
type Event interface {
	// Class returns the class with which it was created, or nil if it is not a dynamic
	// event.
	Class() Class
	// IgnoresEnable reports whether it is one of group ftrace, which can be neither
	// enabled nor filtered.
	IgnoresEnable() bool
	// Members returns the members of its entries by name.
	Members() map[string]*field.Member
	// Wanted reports whether it is on in any array.
	Wanted() bool

	// Begin starts the entry of a hit, in handler context. It returns nil if no array
	// records the event. The caller adds the fields and calls Commit or Discard.
	Begin(trap *abi.Trap) *probe.Entry
	// BeginInside is Begin for a hit inside the hits of depth other events.
	BeginInside(trap *abi.Trap, depth uint32) *probe.Entry
	// Commit passes the entry that was started last to the arrays that record the event.
	Commit(trap *abi.Trap)
	// Discard drops the entry that was started last.
	Discard(trap *abi.Trap)

	// Attach makes a trigger of the global array call hit, in handler context, with the
	// entry of each hit of the event that passes the filter. detach removes the trigger.
	Attach(f *filter.Filter, hit func(trap *abi.Trap, entry []byte)) (detach func(), err error)
}

// Events is what the definitions need of the tracer. Config.Mutex is held at each call
// but Room's.
type Events interface {
	// New creates an event with a new ID and its file in each array. It returns nil if no
	// ID is left.
	New(group, name string, class Class) Event
	// NewLocal creates an event that has no ID, no file, and no name for others.
	NewLocal(group, name string, class Class) Event
	// Forget deletes an event that is off in all arrays.
	Forget(e Event)
	// Find returns the event of that name, or nil.
	Find(group, name string) Event
	// ResetCleared drops the entries of deleted events, which can no longer be shown.
	ResetCleared()
	// LogError adds a command to error_log, with a caret below the column.
	LogError(subsystem, text, command string, column int)
	// Room returns an error if there is no memory for so many more bytes.
	Room(bytes int) error
}

// Kprobes registers probes; *kprobes.Kprobes implements it.
type Kprobes interface {
	Register(p *kprobes.Kprobe, by ...*kprobes.Hit) error
	Unregister(p *kprobes.Kprobe, by ...*kprobes.Hit) error
	RegisterRetprobe(rp *kprobes.Retprobe, by ...*kprobes.Hit) error
	UnregisterRetprobe(rp *kprobes.Retprobe, by ...*kprobes.Hit) error
	Enable(p *kprobes.Kprobe, by ...*kprobes.Hit) error
	Disable(p *kprobes.Kprobe, by ...*kprobes.Hit) error
	OnFuncEntry(addr uint64, name string, offset uint32) error
	NewRethook(calls int, dataSize uint64, exit func(*kprobes.Instance, *abi.Trap)) (*kprobes.Rethook, error)
}

// Sites says which functions have a fentry site, that is, which functions tracing may
// modify.
type Sites interface {
	FtraceOverlap(start, end uint64) bool
}

// Tracepoints are the kernel's tracepoints.
type Tracepoints interface {
	// Tracepoint returns the address of a tracepoint of the kernel.
	Tracepoint(name string) (addr uint64, ok bool)
	// SetProbestub makes a tracepoint call the function __probestub_NAME, or stops it.
	SetProbestub(addr uint64, on bool) error
}

// Functions are the fentry sites that fprobes listen to.
type Functions interface {
	// Match returns the sites that set_ftrace_filter selects if the pattern is all that is
	// written to it, by address, and how many the filter then names. A pattern with "!"
	// leaves an empty filter, which names none and selects all. It fails with EINVAL if no
	// function matches.
	Match(pattern string) (sites []uint64, named int, err error)
	// Listen creates a listener that does not listen to any function yet. hit is called
	// in handler context; trap.Regs.IP is the function's site.
	Listen(hit func(trap *abi.Trap)) Listener
}

// Listener is the ftrace_ops of an fprobe.
type Listener interface {
	// Set replaces the functions that it listens to.
	Set(sites []uint64) error
}

// Machine is the kernel log, the number of vCPUs, and what %p shows.
type Machine interface {
	CPUs() int
	Printk(level int, format string, args ...any)
	HashPtr(addr uint64) uint32
}

// Modules are those that are loaded.
type Modules interface {
	Loaded(name string) bool
}

// Host has the files of uprobes.
type Host interface {
	// RegularFile reports whether a path is a regular file.
	RegularFile(path string) (bool, error)
}

// Config is what a Registry is built from.
type Config struct {
	Mutex   *sync.Mutex // event_mutex
	Events  Events
	Kprobes Kprobes
	Symbols probe.Symbols
	Sites   Sites
	Machine Machine
	Modules Modules
	Host    Host
	Has     *release.Set
	Rules   *probe.Rules
	Filters *filter.Rules
	// Functions are nil if functions cannot be traced, Tracepoints if there are none.
	Functions   Functions
	Tracepoints Tracepoints
	// BTF returns the types of the kernel's functions. If it is nil, there are none.
	BTF func() *btf.Types
}

// Registry holds the definitions of a tracer. Config.Mutex guards it.
type Registry struct {
	conf        Config
	list        []dynEvent // all that dynamic_events shows
	kprobes     []*traceKprobe
	probestubs  map[uint64]bool // tracepoints that have an fprobe at their stub
	uprobesTold bool            // the message that uprobes have no hits was logged
}

// New returns a Registry without definitions.
func New(c Config) *Registry {
	return &Registry{conf: c, probestubs: map[uint64]bool{}}
}

// classOf returns the class of an event that may be nil.
func classOf(e Event) Class {
	if e == nil {
		return nil
	}
	return e.Class()
}

// event is an event with its name.
type event struct {
	Event
	group, name string
}

// create creates the event of a definition. It returns false if no ID is left.
func (e *event) create(r *Registry, group, name string, class Class) bool {
	e.Event, e.group, e.name = r.conf.Events.New(group, name, class), group, name
	return e.Event != nil
}

// named reports whether the event has this group and name; "" matches any.
func (e *event) named(group, name string) bool {
	return (group == "" || e.group == group) && (name == "" || e.name == name)
}

// busy returns EBUSY while the event is on in any array.
func (e *event) busy() error {
	if e.Wanted() {
		return e.busyError()
	}
	return nil
}

func (e *event) busyError() error {
	return fmt.Errorf("%s/%s is enabled: %w", e.group, e.name, syscall.EBUSY)
}
