// Package tracertest has what tests of packages below a tracer share: a tracer over the
// fake kernel of package tracingtest. The tests of package tracing itself cannot use it.
package tracertest

import (
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// New returns a tracer over a fake kernel.
func New(t testing.TB) (*tracing.Tracer, *tracingtest.Kernel) {
	t.Helper()
	f := tracingtest.New()
	return tracing.New(tracing.Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Unwinder: f, Modules: f, Files: f, Host: f, Memory: tracingtest.NewMemory(f)}), f
}

// Define writes lines to kprobe_events.
func Define(t testing.TB, tr *tracing.Tracer, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := tr.Definitions().WriteKprobeEvents([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// File returns the file of an event in the global array, or nil.
func File(tr *tracing.Tracer, group, event string) *tracing.EventFile {
	for _, s := range tr.Global().Subsystems() {
		for _, f := range s.Events {
			if f.Group == group && f.Name == event {
				return f
			}
		}
	}
	return nil
}

// TriggerFile returns a tracer with two events of the group kprobes, a and b, and the
// file of a.
func TriggerFile(t testing.TB) (*tracing.Tracer, *tracing.EventFile) {
	t.Helper()
	tr, _ := New(t)
	Define(t, tr, "p:a vfs_read n=%di", "p:b vfs_write")
	return tr, File(tr, "kprobes", "a")
}

// WriteTrigger writes a line to the trigger file of an event.
func WriteTrigger(t testing.TB, f *tracing.EventFile, line string) {
	t.Helper()
	if err := f.WriteTrigger([]byte(line)); err != nil {
		t.Fatal(err)
	}
}
