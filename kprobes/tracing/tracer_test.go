package tracing

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

func newTestTracer(t testing.TB) (*Tracer, *tracingtest.Kernel) {
	t.Helper()
	f := tracingtest.New()
	return New(Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Unwinder: f, Modules: f, Files: f, Host: f, Memory: tracingtest.NewMemory(f)}), f
}

// errnos are the results in tables of tests.
var errnos = map[string]error{"ok": nil, "EINVAL": syscall.EINVAL}

var errorStamp = regexp.MustCompile(`^\[ *\d+\.\d{6}\] `)

// fakeFunctions has fentry sites that nobody hits.
type fakeFunctions struct{ sites []uint64 }

type fakeListener struct{}

func (fakeListener) Set([]uint64) error { return nil }

func (f fakeFunctions) All() []uint64                           { return f.sites }
func (f fakeFunctions) Listen(ftracer.Handler) ftracer.Listener { return fakeListener{} }
func (f fakeFunctions) Listened() []ftracer.Listened            { return nil }
func (f fakeFunctions) Touched() []ftracer.Listened             { return nil }

// write writes lines to kprobe_events one by one, each of which must succeed.
func write(t testing.TB, tr *Tracer, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if n, err := tr.definitions.WriteKprobeEvents([]byte(line + "\n")); err != nil || n != len(line)+1 {
			t.Fatalf("write %q: %d, %v", line, n, err)
		}
	}
}

func (t *Tracer) event(group, name string) *EventFile {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.global.files[t.namesInUse[eventName{group, name}]]
}

func traceText(tr *Tracer) string {
	var b []byte
	for r, more := tr.global.Trace(-1), true; more; {
		b, more = r.Next(b)
	}
	return string(b)
}

// traceLines returns the trace without its header.
func traceLines(tr *Tracer) []string {
	_, text, _ := strings.Cut(traceText(tr), "|         |\n")
	return strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
}
