package guest_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
)

// TestFunctionSites: listeners with and without registers share sites. They see the
// function and its caller, and the functions' results stay the same.
func TestFunctionSites(t *testing.T) {
	m := boot(t, 2)
	sites := m.Sites()
	var probed, a, b atomic.Int64
	sites.OnKprobe(func(tr *abi.Trap) {
		probed.Add(1)
		tr.Regs.IP += ftrace.SiteSize
	})
	m.SetHandlers(kernel.Handlers{Ftrace: sites.HitRegs, Function: sites.Hit})
	kfree, alloc := m.sym("kfree"), m.sym("__kmalloc")
	listener := func(name string, n *atomic.Int64) *ftrace.Ops {
		return &ftrace.Ops{Function: name, Func: func(tr *abi.Trap) {
			n.Add(1)
			ret, err := tr.Mem.ReadU64(tr.Regs.SP)
			if err != nil || ret != tr.Arg {
				t.Errorf("%s: %#x is on the stack, the caller is %#x", name, ret, tr.Arg)
			}
			if _, _, ok := m.Symbols().Lookup(tr.Arg); !ok || tr.Regs.IP != kfree && tr.Regs.IP != alloc {
				t.Errorf("%s: %#x called from %#x", name, tr.Regs.IP, tr.Arg)
			}
			tr.Regs.IP = 0 // ignored
		}}
	}
	one, two := listener("function_trace_call", &a), listener("function_trace_probe_call", &b)
	text := func(addr uint64) []byte { return m.bytes(addr, ftrace.SiteSize) }
	idle := text(kfree)
	set := func(o *ftrace.Ops, addrs ...uint64) {
		t.Helper()
		if err := sites.Set(o, addrs); err != nil {
			t.Fatal(err)
		}
	}
	arm := func(f func(uint64) error) {
		t.Helper()
		if err := f(kfree); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, wantProbed, wantA, wantB int64) {
		t.Helper()
		probed.Store(0)
		a.Store(0)
		b.Store(0)
		for range 10 {
			p := m.call("__kmalloc", 64, gfpKernel)
			m.put64(p, 1)
			m.call("kfree", p)
		}
		for _, x := range []struct {
			name      string
			got, want int64
		}{{"kprobe", probed.Load(), wantProbed}, {"first", a.Load(), wantA}, {"second", b.Load(), wantB}} {
			if x.got < x.want || x.want == 0 && x.got > 0 {
				t.Errorf("%s: %s was called %d times, want %d", what, x.name, x.got, x.want)
			}
		}
	}
	check("idle", 0, 0, 0)
	set(one, kfree, alloc)
	check("one", 0, 20, 0)
	set(two, kfree)
	check("two", 0, 20, 10)
	arm(sites.Arm)
	check("two and a kprobe", 10, 20, 10)
	listed := sites.Listened()
	if len(listed) != 2 {
		t.Fatalf("%d sites with listeners: %+v", len(listed), listed)
	}
	for _, s := range listed {
		if s.Addr == kfree && (s.Count != 3 || !s.Regs || s.Tramp != 0) || s.Addr == alloc && (s.Count != 1 || s.Regs || s.Tramp == 0) {
			t.Errorf("listed: %+v", s)
		}
	}
	set(two)
	set(one, alloc)
	check("apart", 10, 10, 0)
	if err := sites.SetEnabled(false); err != nil {
		t.Fatal(err)
	}
	check("switched off", 0, 0, 0)
	set(two, alloc)
	if err := sites.SetEnabled(true); err != nil {
		t.Fatal(err)
	}
	check("switched on", 10, 10, 10)
	set(one)
	set(two)
	arm(sites.Disarm)
	check("idle again", 0, 0, 0)
	if got := text(kfree); !bytes.Equal(got, idle) || len(sites.Listened()) != 0 {
		t.Errorf("in the end the site holds % x, %+v", got, sites.Listened())
	}
}
