package tracing

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// tracerKind is struct tracer: a value of current_tracer.
type tracerKind struct {
	name string
	// set starts or stops the tracer; it may be nil. Tracer.mu is held.
	set func(a *Array, on bool) error
}

// tracers are in the order of available_tracers; the last one is current at first.
var tracers = [...]tracerKind{
	{graphName, (*Array).graphTracer},
	{"function", (*Array).functionTracer},
	{nopName, nil},
}

const (
	graphName = "function_graph"
	nopName   = "nop"
)

// hasTracer reports whether the array's kernel supports a tracer; instances have
// function_graph since 6.12.
func (a *Array) hasTracer(name string) bool {
	c := &a.tracer.conf
	switch name {
	case graphName:
		return c.Functions != nil && (a == a.tracer.global || c.has[release.GraphInstances])
	case "function":
		return c.Functions != nil
	default:
		return true
	}
}

// AvailableTracers returns the text of available_tracers.
func (a *Array) AvailableTracers() string {
	var names []string
	for _, k := range tracers {
		if a.hasTracer(k.name) {
			names = append(names, k.name)
		}
	}
	return strings.Join(names, " ") + "\n"
}

// CurrentTracer returns the text of current_tracer.
func (a *Array) CurrentTracer() string { return a.currentTracer() + "\n" }

func (a *Array) currentTracer() string { return a.current.Load().name }

// SetCurrentTracer handles a write to current_tracer. It fails with EINVAL if there is
// no such tracer. The entries of the previous tracer are dropped.
func (a *Array) SetCurrentTracer(data []byte) error {
	const longest = 100 // MAX_TRACER_SIZE
	name := kstrtox.Strip(kstrtox.CString(data[:min(len(data), longest)]))
	if !a.tracer.conf.has[release.TracerAfterBlanks] && name != "" && kstrtox.IsSpace(data[0]) {
		return fmt.Errorf("%q is no tracer: %w", data, syscall.EINVAL)
	}
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	if err := a.expandFor(name != nopName); err != nil {
		return err
	}
	for _, k := range tracers {
		if k.name == name && a.hasTracer(name) {
			return a.setTracer(&k)
		}
	}
	return fmt.Errorf("no tracer %q: %w", name, syscall.EINVAL)
}

// setTracer is tracing_set_tracer. The caller holds mu.
func (a *Array) setTracer(k *tracerKind) error {
	old := a.current.Load()
	if old.name == k.name {
		return nil
	}
	a.current.Store(&tracers[len(tracers)-1])
	if old.set != nil {
		if err := old.set(a, false); err != nil {
			return err
		}
		a.tracer.conf.Machine.SynchronizeRCU()
	}
	a.ClearTrace(-1)
	if k.set != nil {
		if err := k.set(a, true); err != nil {
			return err
		}
	}
	a.current.Store(k)
	return nil
}
