package tracing

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

func newTestTracer(t testing.TB) (*Tracer, *tracingtest.Kernel) {
	t.Helper()
	f := tracingtest.New()
	return New(Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Module: f.ModuleLoaded}), f
}

// errnos are the results in tables of tests.
var errnos = map[string]error{"ok": nil, "EINVAL": syscall.EINVAL}

var errorStamp = regexp.MustCompile(`^\[ *\d+\.\d{6}\] `)

// fakeFunctions has fentry sites that nobody hits.
type fakeFunctions struct{ sites []uint64 }

type fakeListener struct{}

func (fakeListener) Set([]uint64) error { return nil }

func (f fakeFunctions) All() []uint64                           { return f.sites }
func (f fakeFunctions) Listen(FunctionHandler) FunctionListener { return fakeListener{} }
func (f fakeFunctions) Listened() []ListenedFunction            { return nil }
func (f fakeFunctions) Touched() []ListenedFunction             { return nil }

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

// TestInvalidFunctions: the site of a function that has no symbol, because it was weak and another one has
// replaced it, is listed, and is in no filter.
func TestInvalidFunctions(t *testing.T) {
	for _, tc := range []struct {
		linux release.Version
		want  string
	}{{release.Linux5_10, "vfs_open vfs_open vfs_read"}, {release.Linux6_1, "vfs_open __ftrace_invalid_address___16 vfs_read"}} {
		f := tracingtest.New()
		open := f.Symbol("vfs_open")
		tr := New(Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Linux: tc.linux, Functions: fakeFunctions{[]uint64{open + 4, open + 16, f.Symbol("vfs_read")}}})
		if got := strings.Join(strings.Fields(strings.Join(tr.AvailableFunctions(), "")), " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.linux, got, tc.want)
		}
		n := strings.Count(tc.want, "vfs_open")
		if got := tr.FindFunctions("vfs_open"); len(got) != n {
			t.Errorf("%s: vfs_open is %#x", tc.linux, got)
		}
		if got := tr.FindFunctions("__ftrace*"); len(got) != 0 {
			t.Errorf("%s: %#x", tc.linux, got)
		}
	}
}
