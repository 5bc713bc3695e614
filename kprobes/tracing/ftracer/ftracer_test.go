package ftracer

import (
	"strings"
	"sync"
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
