package ftracer

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

func newTracers(v release.Version, functions Functions) *Tracers {
	has := v.Set()
	return New(Config{
		Mutex: new(sync.Mutex), Has: &has, Symbols: tracingtest.New(), CPUs: 2, Names: new(cmdlines.Names), Functions: functions,
		Printk: func(int, string, ...any) {}, Room: func(int) error { return nil },
	})
}

// fakeTrace is a Trace that records everything, and keeps nothing.
type fakeTrace struct{ Trace }

func (fakeTrace) Recording() bool                                { return true }
func (fakeTrace) TracesFunctions() bool                          { return true }
func (fakeTrace) IgnoresFunctions(int32) bool                    { return false }
func (fakeTrace) Begin(*abi.Trap, uint16) *probe.Entry           { return &probe.Entry{N: 8} }
func (fakeTrace) Discard(*abi.Trap)                              {}
func (fakeTrace) Commit(*abi.Trap, *probe.Entry, int32) bool     { return true }
func (fakeTrace) Event(string, string) EventFile                 { return nil }
func (fakeTrace) AppendSymbol(b []byte, _ uint64, _ bool) []byte { return append(b, '?') }

// fakeFunctions has fentry sites that nobody hits.
type fakeFunctions struct{ sites []uint64 }

type fakeListener struct{}

func (fakeListener) Set([]uint64) error { return nil }

func (f fakeFunctions) All() []uint64           { return f.sites }
func (f fakeFunctions) Listen(Handler) Listener { return fakeListener{} }
func (f fakeFunctions) Listened() []Listened    { return nil }
func (f fakeFunctions) Touched() []Listened     { return nil }

// TestInvalidFunctions: the site of a function that has no symbol, because it was weak and another one has
// replaced it, is listed, and is in no filter.
func TestInvalidFunctions(t *testing.T) {
	for _, tc := range []struct {
		linux release.Version
		want  string
	}{{release.Linux5_10, "vfs_open vfs_open vfs_read"}, {release.Linux6_1, "vfs_open __ftrace_invalid_address___16 vfs_read"}} {
		f := tracingtest.New()
		open := f.Symbol("vfs_open")
		tr := newTracers(tc.linux, fakeFunctions{[]uint64{open + 4, open + 16, f.Symbol("vfs_read")}})
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

// heard is what a listener of listening listens to.
type heard struct {
	Handler
	sites []uint64
}

func (h *heard) Set(sites []uint64) error { h.sites = sites; return nil }

// listening has fentry sites, and remembers who listens.
type listening struct {
	fakeFunctions
	all map[string]*heard // by the handler's function
}

func (l *listening) Listen(by Handler) Listener {
	h := &heard{Handler: by}
	l.all[by.Function] = h
	return h
}

// switched is a trace with a switch, which counts its entries.
type switched struct {
	fakeTrace
	on      bool
	entries *int
}

func (s *switched) Recording() bool      { return s.on }
func (s *switched) SetRecording(on bool) { s.on = on }

func (s *switched) Commit(*abi.Trap, *probe.Entry, int32) bool {
	*s.entries++
	return true
}

func newListening(t *testing.T, names ...string) (*Array, *listening, *switched) {
	t.Helper()
	f := tracingtest.New()
	l := &listening{all: map[string]*heard{}}
	for _, name := range names {
		l.sites = append(l.sites, f.Symbol(name))
	}
	trace := &switched{on: true, entries: new(int)}
	return newTracers(release.Linux6_1, l).NewArray(trace), l, trace
}

func writeFilter(t *testing.T, a *Array, notrace bool, text string) error {
	t.Helper()
	e := a.EditFunctions(notrace, false)
	defer e.Close()
	for rest := []byte(text); len(rest) > 0; {
		n, err := e.Write(rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// TestFilter: the tracer function listens to what its two filters leave, from the last close of
// the file on, and to nothing when it is not current.
func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		filter, notrace string
		want            []int
	}{
		{"", "", []int{0, 1, 2}},
		{"vfs_read", "", []int{1}},
		{"vfs_*", "vfs_read", []int{0, 2}},
		{"vfs_*\n!vfs_open", "", []int{1, 2}},
		{"3", "", []int{2}},
		{"vfs_read:mod:none", "", nil},
	} {
		a, l, _ := newListening(t, "vfs_open", "vfs_read", "vfs_write")
		for _, w := range []struct {
			notrace bool
			text    string
		}{{false, tc.filter}, {true, tc.notrace}} {
			if w.text == "" {
				continue
			}
			if err := writeFilter(t, a, w.notrace, w.text+"\n"); err != nil {
				t.Fatalf("%q: %v", w.text, err)
			}
		}
		function := Kinds[1]
		if err := a.Set(function, true); err != nil {
			t.Fatal(err)
		}
		var want []uint64
		for _, i := range tc.want {
			want = append(want, l.sites[i])
		}
		h := l.all["function_trace_call"]
		if !slices.Equal(h.sites, want) {
			t.Errorf("%q without %q: %#x, want %#x", tc.filter, tc.notrace, h.sites, want)
		}
		if err := a.Set(function, false); err != nil || len(h.sites) != 0 {
			t.Errorf("listens to %#x when it is not current, %v", h.sites, err)
		}
	}
}

// TestCommandCount: a command acts as often as its count says, counts only when it has something
// to do, and stops listening when it is removed.
func TestCommandCount(t *testing.T) {
	a, l, trace := newListening(t, "vfs_open", "vfs_read")
	if err := writeFilter(t, a, false, "vfs_read:traceoff:2\n"); err != nil {
		t.Fatal(err)
	}
	h := l.all["function_trace_probe_call"]
	hit := func() {
		trap := graphTrap()
		trap.Regs.IP = l.sites[1]
		h.Hit(trap)
	}
	for i, want := range []bool{false, false, true} {
		trace.on = true
		hit()
		if trace.on != want {
			t.Errorf("hit %d: recording %v", i, trace.on)
		}
		hit() // when there is nothing to do, it does not count
		trace.on = true
	}
	const line = "vfs_read:traceoff:count=0\n"
	if got := a.FunctionFilter(false); !slices.Contains(got, line) {
		t.Errorf("%q, want %q in it", got, line)
	}
	if err := writeFilter(t, a, false, "!vfs_read:traceoff:0\n"); err != nil || len(h.sites) != 0 {
		t.Errorf("removed: %v, listens to %#x", err, h.sites)
	}
	if err := writeFilter(t, a, false, "!vfs_read:traceoff:0\n"); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("removed twice: %v", err)
	}
}

// TestFunctionHit: a hit of the tracer function is an entry unless recording is off.
func TestFunctionHit(t *testing.T) {
	a, l, trace := newListening(t, "vfs_read")
	if err := a.Set(Kinds[1], true); err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{true, false} {
		trace.on, *trace.entries = on, 0
		l.all["function_trace_call"].Hit(graphTrap())
		if got := *trace.entries == 1; got != on {
			t.Errorf("recording %v: %d entries", on, *trace.entries)
		}
	}
}
