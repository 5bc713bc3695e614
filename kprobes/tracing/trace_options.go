package tracing

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
)

// option is a bit of Array.options: TRACE_ITER_*.
type option uint64

// The options that are implemented.
const (
	optPrintParent option = 1 << iota
	optSymOffset
	optSymAddr
	optVerbose
	optRaw
	optHex
	optBin
	optBlock
	optFields // 6.12
	optPrintk
	optAnnotate
	optUserStacktrace
	optSymUserobj
	optPrintkMsgOnly
	optContextInfo
	optLatencyFormat
	optRecordCmd
	optRecordTGID
	optOverwrite
	optDisableOnFree
	optIRQInfo
	optMarkers
	optEventFork
	optPrintkDest // 6.12
	optPauseOnTrace
	optHashPtr
	optFunctionTrace
	optFunctionFork
	optDisplayGraph
	optStacktrace

	defaultOptions = optPrintParent | optPrintk | optAnnotate | optContextInfo | optRecordCmd | optOverwrite |
		optIRQInfo | optMarkers | optHashPtr | optFunctionTrace
	// globalOptions are TOP_LEVEL_TRACE_FLAGS: an instance has no files for them.
	globalOptions = optPrintk | optPrintkMsgOnly | optRecordCmd
	// forkOptions are ZEROED_TRACE_FLAGS: a new instance does not inherit them.
	forkOptions = optEventFork | optFunctionFork | optPrintkDest
	// newOptions do not exist on 6.1.
	newOptions = optFields | optPrintkDest
)

// optionNames is trace_options, in the order of the bits and of the file.
var optionNames = [...]string{
	"print-parent", "sym-offset", "sym-addr", "verbose", "raw", "hex", "bin", "block", "fields", "trace_printk", "annotate",
	"userstacktrace", "sym-userobj", "printk-msg-only", "context-info", "latency-format", "record-cmd", "record-tgid",
	"overwrite", "disable_on_free", "irq-info", "markers", "event-fork", "trace_printk_dest", "pause-on-trace", "hash-ptr", "function-trace",
	"function-fork", "display-graph", "stacktrace",
}

// tracerOption is tracer_opt: an option of one tracer. The file trace_options shows it
// while that tracer is current; the directory options always has it.
type tracerOption struct {
	tracer, name string
	get          func(a *Array) bool
	// set is set_tracer_option; Tracer.mu is held.
	set func(a *Array, on bool) error
}

var tracerOptions = append(functionOptions(),
	tracerOption{nopName, "test_nop_accept", func(a *Array) bool { return a.nopAccept.Load() }, func(a *Array, on bool) error {
		a.tracer.conf.Machine.Printk(7, "nop_test_accept flag set to %d: we accept. Now cat trace_options to see the result", bit(on))
		a.nopAccept.Store(on)
		return nil
	}},
	tracerOption{nopName, "test_nop_refuse", func(*Array) bool { return false }, func(a *Array, on bool) error {
		a.tracer.conf.Machine.Printk(7, "nop_test_refuse flag set to %d: we refuse. Now cat trace_options to see the result", bit(on))
		return fmt.Errorf("test_nop_refuse: %w", syscall.EINVAL)
	}},
)

// functionOptions are the options of the tracers of functions.
func functionOptions() (list []tracerOption) {
	for i, o := range ftracer.Options {
		list = append(list, tracerOption{
			o.Tracer, o.Name,
			func(a *Array) bool { return a.ftrace.Option(i) },
			func(a *Array, on bool) error { return a.ftrace.SetOption(i, on) },
		})
	}
	return list
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// options are the options of an array that are on. They are changed under Tracer.mu, and read
// at hits without it.
type options struct{ on atomic.Uint64 }

func (s *options) has(o option) bool { return option(s.on.Load())&o != 0 }

// inherit gives a new array the options of another one, except those that an array does
// not pass on.
func (s *options) inherit(from *options) { s.on.Store(from.on.Load() &^ uint64(forkOptions)) }

func (s *options) set(o option, on bool) {
	if on {
		s.on.Or(uint64(o))
		return
	}
	s.on.And(^uint64(o))
}

// optionLine returns a line of trace_options.
func optionLine(name string, on bool) string {
	if on {
		return name + "\n"
	}
	return "no" + name + "\n"
}

// TraceOptions returns the text of trace_options: each option, with "no" in front if it
// is off.
func (a *Array) TraceOptions() string {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	var b strings.Builder
	for i, name := range optionNames {
		if !a.tracer.hasOption(1 << i) {
			continue
		}
		b.WriteString(optionLine(name, a.has(1<<i)))
	}
	for _, o := range tracerOptions {
		if o.tracer == a.currentTracer() {
			b.WriteString(optionLine(o.name, o.get(a)))
		}
	}
	return b.String()
}

// WriteTraceOptions handles a write to trace_options: an option, with "no" in front to
// switch it off. It fails with EINVAL if there is no such option, or with the option's
// own error.
func (a *Array) WriteTraceOptions(data []byte) error {
	if len(data) >= 64 {
		return fmt.Errorf("an option of %d bytes: %w", len(data), syscall.EINVAL)
	}
	word := kstrtox.Strip(kstrtox.CString(data))
	name, off := strings.CutPrefix(word, "no")
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	if i := slices.Index(optionNames[:], name); i >= 0 && a.tracer.hasOption(1<<i) {
		return a.setOption(1<<i, !off)
	}
	for _, o := range tracerOptions {
		if o.name == name && o.tracer == a.currentTracer() {
			return o.set(a, !off)
		}
	}
	return fmt.Errorf("no option %q: %w", word, syscall.EINVAL)
}

// setOption is set_tracer_flag. The caller holds mu.
func (a *Array) setOption(o option, on bool) error {
	if a.has(o) == on {
		return nil
	}
	if o == optPrintkDest {
		return a.setPrintkDest(on)
	}
	a.options.set(o, on)
	if act := optionActs[o]; act != nil {
		act(a, on)
	}
	return nil
}

// hasOption reports whether the release has an option.
func (t *Tracer) hasOption(o option) bool {
	return (o != optHashPtr || t.conf.has[release.HashPtrOption]) && (o&newOptions == 0 || t.conf.has[release.FieldsOption])
}

// setPrintkDest is update_printk_trace: trace_printk writes to one array at a time. If
// another array gives that up, it is the global one again. It fails with EINVAL if the
// global array is to give it up without another one having claimed it.
func (a *Array) setPrintkDest(on bool) error {
	t := a.tracer
	to := a
	if !on {
		to = t.global
	}
	if !on && a == t.global {
		return fmt.Errorf("trace_printk must go somewhere: %w", syscall.EINVAL)
	}
	for _, other := range t.arrays {
		other.options.set(optPrintkDest, false)
	}
	to.options.set(optPrintkDest, true)
	return nil
}

// optionActs are run when an option changes.
var optionActs = map[option]func(a *Array, on bool){
	optOverwrite:  func(a *Array, on bool) { a.buffer.SetOverwrite(on) },
	optRecordCmd:  func(a *Array, _ bool) { a.tracer.updateSaving() },
	optRecordTGID: func(a *Array, _ bool) { a.tracer.tgids.Grow() },
	optUserStacktrace: func(a *Array, on bool) {
		if on {
			a.tracer.userTraces.Add(1)
		} else {
			a.tracer.userTraces.Add(-1)
		}
	},
}

// Option is a file of the directory options.
type Option struct {
	Name string

	array  *Array
	bit    option
	tracer int // index in tracerOptions if bit is 0
}

// Options returns the files of the directory options.
func (a *Array) Options() []Option {
	var all []Option
	for i, name := range optionNames {
		if o := option(1) << i; a.tracer.hasOption(o) && (a == a.tracer.global || globalOptions&o == 0) {
			all = append(all, Option{name, a, o, 0})
		}
	}
	names := map[string]bool{}
	for _, k := range a.tracers() {
		names[k.Name] = true
	}
	for i, o := range tracerOptions {
		if names[o.tracer] {
			all = append(all, Option{o.name, a, 0, i})
		}
	}
	return all
}

// Text returns the text of the file: 0 or 1.
func (o Option) Text() string {
	on := o.array.has(o.bit)
	if o.bit == 0 {
		on = tracerOptions[o.tracer].get(o.array)
	}
	return fmt.Sprintf("%d\n", bit(on))
}

// Set handles a write to the file: 0 or 1. It fails with EINVAL for anything else, or
// if the tracer refuses.
func (o Option) Set(data []byte) error {
	on, err := enableValue(data)
	if err != nil {
		return err
	}
	o.array.tracer.mu.Lock()
	defer o.array.tracer.mu.Unlock()
	switch {
	case o.bit != 0:
		return o.array.setOption(o.bit, on)
	case tracerOptions[o.tracer].get(o.array) == on:
		return nil
	}
	return tracerOptions[o.tracer].set(o.array, on)
}
