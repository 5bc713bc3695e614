package tracing

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
)

// nopName is the tracer that does nothing, which is current at first.
const nopName = "nop"

// nopTracer is the value of Array.current for it.
var nopTracer = &ftracer.Kind{Name: nopName}

// printsGraph reports whether lines have function_graph's form now.
func (a *Array) printsGraph() bool { return a.currentTracer() == ftracer.GraphName }

// tracers returns what current_tracer can be, in the order of available_tracers.
func (a *Array) tracers() []*ftracer.Kind {
	var list []*ftracer.Kind
	for i := range ftracer.Kinds {
		if k := &ftracer.Kinds[i]; a.ftrace.Supports(*k) {
			list = append(list, k)
		}
	}
	return append(list, nopTracer)
}

// AvailableTracers returns the text of available_tracers.
func (a *Array) AvailableTracers() string {
	var names []string
	for _, k := range a.tracers() {
		names = append(names, k.Name)
	}
	return strings.Join(names, " ") + "\n"
}

// CurrentTracer returns the text of current_tracer.
func (a *Array) CurrentTracer() string { return a.currentTracer() + "\n" }

func (a *Array) currentTracer() string { return a.current.Load().Name }

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
	for _, k := range a.tracers() {
		if k.Name == name {
			return a.setTracer(k)
		}
	}
	return fmt.Errorf("no tracer %q: %w", name, syscall.EINVAL)
}

// setTracer is tracing_set_tracer. The caller holds mu.
func (a *Array) setTracer(k *ftracer.Kind) error {
	old := a.current.Load()
	if old == k {
		return nil
	}
	a.current.Store(nopTracer)
	if old != nopTracer {
		if err := a.ftrace.Set(*old, false); err != nil {
			return err
		}
		a.tracer.conf.Machine.SynchronizeRCU()
	}
	a.ClearTrace(-1)
	if k != nopTracer {
		if err := a.ftrace.Set(*k, true); err != nil {
			return err
		}
	}
	a.current.Store(k)
	return nil
}
