package tracing

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// traceClock is one of trace_clocks: a source of time stamps.
type traceClock struct {
	name string
	inNS bool // shown as seconds.microseconds, not as a plain number
	read func(t *Tracer, now int64) int64
}

// traceClocks are listed in the order of the file trace_clock. The machine has a single
// clock, so all that count nanoseconds since boot agree here.
var traceClocks = [...]traceClock{
	{"local", true, boottime},
	{"global", true, boottime},
	{"counter", false, func(t *Tracer, _ int64) int64 { return t.counter.Add(1) }},
	{"uptime", false, func(_ *Tracer, now int64) int64 { return now / 1e7 }}, // USER_HZ
	{"perf", true, boottime},
	{"mono", true, boottime},
	{"mono_raw", true, boottime},
	{"boot", true, boottime},
	{"tai", true, func(t *Tracer, now int64) int64 { return now + t.conf.TAIOffset }},
	{"x86-tsc", false, boottime}, // the time-stamp counter counts nanoseconds
}

// defaultClock is the one that Debian's kernel uses if the TSC is not known to be
// stable, as on the reference kernel.
const defaultClock = 1 // global

func (t *Tracer) defaultClock() int {
	if t.conf.has[release.LocalClock] {
		return 0
	}
	return defaultClock
}

func boottime(_ *Tracer, now int64) int64 { return now }

// TraceClock returns the text of the file trace_clock: all clocks, the current one in
// brackets.
func (a *Array) TraceClock() string {
	var names []string
	for i := range traceClocks {
		name := traceClocks[i].name
		if !a.tracer.hasClock(name) {
			continue
		}
		if &traceClocks[i] == a.clock.Load() {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ") + "\n"
}

func (t *Tracer) hasClock(name string) bool { return name != "tai" || t.conf.has[release.ClockTAI] }

// SetTraceClock handles a write to trace_clock. It fails with EINVAL for an unknown
// clock. It empties the buffer, because the old stamps cannot be compared with new
// ones.
func (a *Array) SetTraceClock(data []byte) error {
	if len(data) >= 64 {
		return fmt.Errorf("a clock's name of %d bytes: %w", len(data), syscall.EINVAL)
	}
	return a.setClock(kstrtox.Strip(kstrtox.CString(data)))
}

// setClock is tracing_set_clock.
func (a *Array) setClock(name string) error {
	for i := range traceClocks {
		if traceClocks[i].name == name && a.tracer.hasClock(name) {
			a.clock.Store(&traceClocks[i])
			a.reset()
			a.now() // resetting the snapshot reads the clock too, which advances the clock "counter"
			return nil
		}
	}
	return fmt.Errorf("no trace clock %q: %w", name, syscall.EINVAL)
}

type clockPointer = atomic.Pointer[traceClock]
