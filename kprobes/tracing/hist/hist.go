// Package hist is kernel/trace/trace_events_hist.c: hist triggers. Hists parses the
// command of a trigger (parse.go, expr.go, action.go), counts hits in a table (package
// tracingmap) with variables that other histograms read, runs actions, and makes the text
// of the files trigger (text.go) and hist (show.go).
//
// It does not know events, arrays or other triggers. Parsing and showing reach them
// through the interfaces File and Array. A hit needs only the record (filter.Subject), the
// scratch memory of its vCPU (Config.Scratch) and, for keys and variables that are stacks,
// File.Stack; an action may hit a synthetic event of package dynevent. Hits run in handler
// context: they allocate nothing, and the only lock that they take is one table's.
package hist

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingmap"
)

// File is the file of triggers of an event in one array.
type File interface {
	// Title returns the names of the event's group and of the event.
	Title() (group, event string)
	// Members returns the members of the event's entries by name.
	Members() map[string]*field.Member
	// Array returns the array; it is comparable.
	Array() Array
	// ParseFilter parses the filter of a trigger: the text after "if".
	ParseFilter(text string) (*filter.Filter, error)
	// Add adds a trigger, whose Hit is then called at each hit of the event, and Remove
	// removes it. When Remove returns, Hit is not running.
	Add(t *Trigger) error
	Remove(t *Trigger)
	// Stack returns the stack of a hit of the event, without the functions that record it.
	// It runs in handler context. The result is valid until the vCPU's next hit.
	Stack(trap *abi.Trap) []uint64
}

// Array is a trace_array.
type Array interface {
	// File returns the file of an event in this array, or nil. Events of group ftrace are
	// found only if own is set.
	File(group, event string, own bool) File
	// LogError adds a command to error_log, with a caret below the column.
	LogError(subsystem, text, command string, column int)
	// SetClock sets the clock of the array.
	SetClock(name string) error
	// Hold adds n to the number of histograms for which an instance cannot be removed.
	Hold(n int)
	// CountTimestamps adds n to the number of histograms that use time stamps.
	CountTimestamps(n int32)
	// HoldSnapshot allocates the snapshot for an action, which then is all that may take
	// one, until FreeSnapshot. It fails with EBUSY if another one does.
	HoldSnapshot() error
	FreeSnapshot()
	// Snapshot takes a snapshot in handler context.
	Snapshot(trap *abi.Trap)
}

// Config is what Hists is built from.
type Config struct {
	Has     *release.Set
	Symbols probe.Symbols
	// Syscalls are the names of the kernel's system calls by number, "" for numbers without
	// one.
	Syscalls []string
	// Synth returns the synthetic event of that name, or nil.
	Synth func(name string) *dynevent.SynthEvent
	// Room returns an error if there is no memory for so many more bytes.
	Room func(bytes int) error
	// Scratch returns memory for a hit that no other hit uses until this one is over. It
	// runs in handler context.
	Scratch func(trap *abi.Trap) *Hit
}

// Hists are the histograms of a tracer. The caller of its methods holds event_mutex.
type Hists struct {
	conf Config
	all  []*Trigger // the oldest first
}

// New returns Hists without triggers.
func New(c Config) *Hists { return &Hists{conf: c} }

// Limits of a histogram.
const (
	maxVals     = 3 // TRACING_MAP_VALS_MAX, including hitcount
	maxKeys     = 3
	maxVars     = 16
	maxSort     = 2
	defaultBits = 11 // TRACING_MAP_BITS_DEFAULT: 2048 elements
	minBits     = 7
	maxBits     = 17
	stackDepth  = dynevent.StackSize / 8
	maxKeySize  = tracingmap.TextSize + dynevent.StackSize
	divShift    = 20 // HIST_DIV_SHIFT
	maxOps      = 3  // operators of an expression
)

// commonStack is the field name of a hit's own stack.
const commonStack = "common_stacktrace"

// The error_log texts for hist triggers that are refused.
const (
	errDuplicateVar   = "Variable already defined"
	errVarNotUnique   = "Variable name not unique, need to use fully qualified name (subsys.event.var) for variable"
	errTooManyVars    = "Too many variables defined"
	errMalformed      = "Malformed assignment"
	errNamedMismatch  = "Named hist trigger doesn't match existing named trigger (includes variables)"
	errExists         = "Hist trigger already exists"
	errNotThere       = "Can't clear or continue a nonexistent hist trigger"
	errNoHitcount     = "Non-hitcount value is required for 'nohitcount'"
	errClock          = "Couldn't set trace_clock"
	errModifier       = "Invalid field modifier"
	errTooManyOps     = "Too many subexpressions (3 max)"
	errTimestamps     = "Timestamp units in expression don't match"
	errRefKey         = "Using variable references in keys not supported"
	errVarNotFound    = "Couldn't find variable"
	errFieldNotFound  = "Couldn't find field"
	errEmpty          = "Empty assignment"
	errSortModifier   = "Invalid sort modifier"
	errEmptySort      = "Empty sort field"
	errTooManySort    = "Too many sort fields (Max = 2)"
	errSortField      = "Sort field must be a key or a val"
	errStringOperand  = "String type can not be an operand in expression"
	errExpectNumber   = "Expecting numeric literal"
	errUnaryMinus     = "Unary minus not supported in sub-expressions"
	errDivisionByZero = "Division by zero"
)

// flagSet is hist_field_flags.
type flagSet uint32

const (
	flagHitcount flagSet = 1 << iota
	flagKey
	flagString
	flagHex
	flagSym
	flagSymOffset
	flagExecname
	flagSyscall
	flagStacktrace
	flagLog2
	flagTimestamp
	flagUsecs
	flagVar
	flagExpr
	flagVarRef
	flagCPU
	flagAlias
	flagBucket
	flagConst
	flagPercent
	flagGraph
)

// modifiers are listed in the order in which a field shows them.
var modifiers = [...]struct {
	flag flagSet
	name string
}{
	{flagHex, "hex"},
	{flagSym, "sym"},
	{flagSymOffset, "sym-offset"},
	{flagExecname, "execname"},
	{flagSyscall, "syscall"},
	{flagLog2, "log2"},
	{flagBucket, "buckets"},
	{flagUsecs, "usecs"},
	{flagStacktrace, "stacktrace"},
	{flagPercent, "percent"},
	{flagGraph, "graph"},
}

// histField is hist_field: a key, a value, a variable, or an operand of an expression.
type histField struct {
	flags  flagSet
	event  *field.Member // nil if it is not a member of the entry
	cpu    string        // the alias that was written for common_cpu
	name   string        // of an expression or a reference
	typ    string
	size   int
	signed bool
	offset int // of a key: its offset in the element's key

	varName string // the variable that is assigned; only with flagVar
	varIdx  int
	textIdx int // of a string variable: the index of its text in the element

	op       byte // + - * / or '_': unary minus
	operands [2]*histField
	constant uint64
	mult     uint64 // division by a constant is a multiplication by this; 0 if it is a real division
	buckets  uint64

	ref           *histogram // of a reference: the histogram that sets the variable
	refVar        *histField
	refIdx        int // index in histogram.refs
	once          bool
	system, group string // qualifiers of the name
}

// sortKey is a sort key.
type sortKey struct {
	idx        int // index in fields without the variables
	descending bool
}

// histogram is hist_trigger_data: a hist trigger and its table, unless it shares the
// table of another trigger of its name.
type histogram struct {
	hists   *Hists
	file    File
	attrs   attributes
	fields  []*histField // hitcount, values, variables, keys
	nVals   int          // number of fields before the keys
	nVars   int
	nTexts  int
	keySize int
	sort    []sortKey
	refs    []*histField
	actions []*action

	fieldVars []fieldVar // set at each hit, for actions
	saveVars  []fieldVar // set by save()
	timed     bool       // it uses time stamps
	usecs     bool
	remove    bool

	bytes      int        // size of the table
	snapshots  Array      // the array whose snapshots its action takes, or nil
	fieldHists []*Trigger // created on other events for onmatch's parameters

	table  *tracingmap.Map
	held   bool // see hold
	shared int  // number of triggers that use it; guarded by event_mutex
}

// stamps returns how many users of time stamps the histogram counts as: 0 or 1.
func (d *histogram) stamps() int32 {
	if d.timed {
		return 1
	}
	return 0
}

// hold says whether the instance can be removed, which it cannot while it has a histogram
// with variables: save_hist_vars.
func (d *histogram) hold(on bool) {
	switch {
	case on == d.held:
		return
	case on:
		d.file.Array().Hold(1)
	default:
		d.file.Array().Hold(-1)
	}
	d.held = on
}

// hasVars reports whether the histogram has variables, or references to them.
func (d *histogram) hasVars() bool {
	return len(d.fieldVars) > 0 || slices.ContainsFunc(d.fields, func(f *histField) bool { return f.flags&(flagVar|flagVarRef) != 0 })
}

// attributes is hist_trigger_attrs: the parts of the command.
type attributes struct {
	keys, vals, sort, name, clock string
	hasVals, hasSort              bool
	assignments                   []string
	actions                       []string
	bits                          int
	pause, cont, clear            bool
	noHitcount                    bool // the table does not show hitcount
	vars                          []assignment
}

// assignment is VAR=EXPRESSION.
type assignment struct{ name, expr string }

// findVar returns the variable of that name that the trigger sets.
func (d *histogram) findVar(name string) *histField {
	for _, f := range d.fields {
		if f.flags&flagVar != 0 && f.varName == name {
			return f
		}
	}
	return nil
}

// maxBytes is the limit for the tables of all histograms.
const maxBytes = 512 << 20

// makeTable is tracing_map_init: it allocates the whole table, so that hits need no
// memory. It fails with ENOMEM if all tables together would be too large.
func (d *histogram) makeTable() error {
	vars := 0
	number := func(f *histField) {
		f.varIdx = vars
		vars++
	}
	for _, f := range d.fields[:d.nVals] {
		if f.flags&flagVar != 0 {
			number(f)
		}
	}
	for _, v := range d.fieldVars {
		number(v.field)
	}
	for _, v := range d.saveVars {
		number(v.field)
	}
	for _, x := range d.actions {
		if x.track != nil {
			number(x.track)
		}
	}
	size := tracingmap.Bytes(d.attrs.bits, d.keySize, d.nVals, vars, d.nTexts)
	if have := d.hists.bytes(); size > maxBytes-have {
		return fmt.Errorf("a table of %d bytes beside %d: %w", size, have, syscall.ENOMEM)
	}
	if err := d.hists.conf.Room(size); err != nil {
		return err
	}
	d.table = tracingmap.New(d.attrs.bits, d.keySize, d.nVals, vars, d.nTexts)
	d.bytes = size
	return nil
}
