package tracing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// Array is a trace_array: the global one, or an instance.
//
// The sizes of its buffer and the switches of its events are types of their own.
type Array struct {
	BufferSizes
	EventSwitches

	tracer    *Tracer
	buffer    *ring.Buffer
	snapshots snapshots
	pids      pidFilters
	clock     clockPointer
	errors    errorLog

	timestamps atomic.Int32 // no_filter_buffering_ref: number of histograms that use time stamps

	// The instance's name; "" for the global array.
	Name string
	// Gen differs between successive instances of the same name.
	Gen uint64

	options
	nopAccept atomic.Bool  // the option test_nop_accept; changed under Tracer.mu
	timeStart atomic.Int64 // when the buffer was last emptied: time 0 of latency-format

	// Guarded by Tracer.mu.
	users      int     // trace_array.ref: open files, histograms with variables, and triggers of other arrays that name it
	gone       bool    // the instance was removed
	cpumask    []bool  // tracing_cpumask
	percent    uint64  // buffer_percent
	maxLatency uint64  // tracing_max_latency, ns
	readers    readers // who has trace or trace_pipe open

	ftrace  *ftracer.Array
	current atomic.Pointer[ftracer.Kind] // changed under Tracer.mu
}

func (t *Tracer) newArray(pages, clock int) *Array {
	cpus := t.conf.Machine.CPUs()
	a := &Array{
		tracer: t, buffer: ring.New(cpus, pages, ring.PageSize), readers: newReaders(cpus),
		cpumask: slices.Repeat([]bool{true}, cpus), percent: 50,
	}
	a.snapshots.main = a.buffer
	a.BufferSizes = BufferSizes{tracer: t, main: a.buffer, snapshot: &a.snapshots.buffer, readers: &a.readers, expanded: &t.expanded}
	a.ftrace = t.ftrace.NewArray(functionTrace{a})
	a.clock.Store(&traceClocks[clock])
	a.options.set(defaultOptions, true)
	a.EventSwitches = EventSwitches{tracer: t, sizes: &a.BufferSizes}
	a.forgetEvents()
	a.current.Store(nopTracer)
	return a
}

// Global returns the array whose files are in the tracing directory itself.
func (t *Tracer) Global() *Array { return t.global }

// Off is tracing_off: the global array records no more until tracing_on is written.
func (t *Tracer) Off() { t.global.buffer.SetOn(false) }

// Buffer returns the array's ring buffer.
func (a *Array) Buffer() *ring.Buffer { return a.buffer }

// recording reports whether hits are recorded now: tracing_on is 1, and no reader of trace
// pauses the recording.
func (a *Array) recording() bool { return a.buffer.Recording() }

// On returns what tracing_on shows.
func (a *Array) On() bool { return a.recording() }

// SetOn handles a write to tracing_on: any number except 0 switches recording on. It
// fails with EINVAL if data is not a number, and with ERANGE if it needs more than 64
// bits.
func (a *Array) SetOn(data []byte) error {
	v, err := kstrtox.FromUser(data)
	if err != nil {
		return fmt.Errorf("tracing_on: %w", err)
	}
	a.setOn(v != 0)
	return nil
}

func (a *Array) setOn(on bool) {
	a.buffer.SetOn(on)
	if c := &a.tracer.conf; on || c.has[release.PipesWake] && !c.has[release.PipesSleepOn] {
		a.buffer.Wake() // some readers return when recording stops
	}
}

// ClearTrace empties the buffer of a vCPU, or of all if cpu is -1, as an open of trace
// with O_TRUNC does.
func (a *Array) ClearTrace(cpu int) {
	a.buffer.Reset(cpu)
	if cpu < 0 {
		a.timeStart.Store(a.now())
	}
}

// reset is tracing_reset_online_cpus.
func (a *Array) reset() { a.ClearTrace(-1) }

// now returns the time of the array's clock.
func (a *Array) now() int64 { return a.clock.Load().read(a.tracer, a.tracer.conf.Machine.Now()) }

// checkRoom returns ENOMEM if the tracer may not hold more additional bytes. Whatever lasts
// longer than the write that makes it asks here, or it would use up the reserves that are left
// for giving memory back (memcg.Limit.Small).
func (t *Tracer) checkRoom(more int) error {
	if more <= 0 {
		return nil
	}
	if err := t.conf.Limit.Room(more); err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	return nil
}

// checkText is checkRoom for what is made of a text of n bytes: a filter, a trigger or a list
// of functions. The shortest term of a filter, "a<1||", becomes a node of some 250 bytes.
func (t *Tracer) checkText(n int) error { return t.checkRoom(textRoom + 64*n) }

// textRoom is what such a thing takes besides, in bytes.
const textRoom = 4 << 10

// FreeBuffer is tracing_free_buffer_release: the buffer shrinks to its minimum, and
// with the option disable_on_free recording stops.
func (a *Array) FreeBuffer() {
	if a.has(optDisableOnFree) {
		a.setOn(false)
	}
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	_ = a.resize(-1, 0) // shrinking needs no memory
}

// Stats returns the text of a vCPU's file stats.
func (a *Array) Stats(cpu int) string {
	s := a.buffer.Stats(cpu)
	var b []byte
	for _, c := range []struct {
		name  string
		value uint64
	}{{"entries", s.Entries}, {"overrun", s.Overrun}, {"commit overrun", 0}, {"bytes", s.Bytes}} {
		b = fmt.Appendf(b, "%s: %d\n", c.name, c.value)
	}
	if a.clock.Load().inNS {
		b = append(output.AppendSeconds(append(b, "oldest event ts: "...), s.Oldest), '\n')
		b = append(output.AppendSeconds(append(b, "now ts: "...), a.now()), '\n')
	} else {
		b = fmt.Appendf(b, "oldest event ts: %d\nnow ts: %d\n", s.Oldest, a.now())
	}
	return string(fmt.Appendf(b, "dropped events: %d\nread events: %d\n", s.Dropped, s.Read))
}

// CPUMask returns the text of tracing_cpumask.
func (a *Array) CPUMask() string {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	groups := make([]uint32, (len(a.cpumask)+31)/32)
	for i, on := range a.cpumask {
		groups[i/32] |= uint32(bit(on)) << (i % 32)
	}
	digits := (len(a.cpumask)-1)%32/4 + 1
	text := fmt.Sprintf("%0*x", digits, groups[len(groups)-1])
	for i := len(groups) - 2; i >= 0; i-- {
		text += fmt.Sprintf(",%08x", groups[i])
	}
	return text + "\n"
}

// SetCPUMask handles a write to tracing_cpumask: hits of vCPUs outside the mask are not
// recorded. It fails with EINVAL if a group contains anything but hexadecimal digits,
// and with EOVERFLOW if a group has more than 8 digits, if there are more groups than
// the vCPUs need, or if a bit names a vCPU that does not exist.
func (a *Array) SetCPUMask(data []byte) error {
	mask, err := parseCPUMask(kstrtox.CString(data), len(a.cpumask))
	if err != nil {
		return fmt.Errorf("tracing_cpumask: %w", err)
	}
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	a.cpumask = mask
	for i, on := range mask {
		a.buffer.SetCPU(i, on)
		if s := a.snapshots.buffer.Load(); s != nil {
			s.SetCPU(i, on)
		}
	}
	return nil
}

// parseCPUMask is bitmap_parse: groups of up to 8 hexadecimal digits, separated by
// commas or blanks, the lowest last, up to the first newline. An empty mask selects no
// vCPU.
func parseCPUMask(s string, cpus int) ([]bool, error) {
	mask := make([]bool, (cpus+31)/32*32)
	fail := func(errno syscall.Errno) ([]bool, error) { return nil, fmt.Errorf("mask %q: %w", s, errno) }
	text, _, _ := strings.Cut(s, "\n")
	separates := func(c byte) bool { return c == ',' || kstrtox.IsSpace(c) }
	for end, group := len(text), 0; ; group++ {
		for end > 0 && separates(text[end-1]) {
			end--
		}
		if end == 0 {
			break
		}
		if group*32 == len(mask) {
			return fail(syscall.EOVERFLOW)
		}
		digits := 0
		for ; end > 0 && !separates(text[end-1]); digits++ {
			d := kstrtox.Digit(text[end-1])
			switch {
			case d >= 16:
				return fail(syscall.EINVAL)
			case digits == 8:
				return fail(syscall.EOVERFLOW)
			}
			for k := range 4 {
				mask[group*32+digits*4+k] = d>>k&1 != 0
			}
			end--
		}
	}
	if slices.Contains(mask[cpus:], true) {
		return fail(syscall.EOVERFLOW)
	}
	return mask[:cpus], nil
}

// BufferPercent returns the text of buffer_percent: how full a buffer must be before
// poll(2) reports trace_pipe_raw as readable.
func (a *Array) BufferPercent() string {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	return fmt.Sprintf("%d\n", a.percent)
}

// SetBufferPercent handles a write to buffer_percent. It fails with EINVAL above 100.
func (a *Array) SetBufferPercent(data []byte) error {
	return a.setNumber(data, 100, func(v uint64) { a.percent = v })
}

// MaxLatency returns the text of tracing_max_latency in microseconds, kept as 64 bits of
// nanoseconds.
func (a *Array) MaxLatency() string {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	return fmt.Sprintf("%d\n", a.maxLatency/1000)
}

// SetMaxLatency handles a write to tracing_max_latency. It fails with EINVAL if data is
// not a number.
func (a *Array) SetMaxLatency(data []byte) error {
	return a.setNumber(data, math.MaxUint64, func(v uint64) { a.maxLatency = v * 1000 })
}

func (a *Array) setNumber(data []byte, most uint64, set func(uint64)) error {
	v, err := kstrtox.FromUser(data)
	if err == nil && v > most {
		err = fmt.Errorf("%d is more than %d: %w", v, most, syscall.EINVAL)
	}
	if err != nil {
		return err
	}
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	set(v)
	return nil
}

// TimestampMode returns the text of timestamp_mode.
func (a *Array) TimestampMode() string { return "[delta] absolute\n" }
