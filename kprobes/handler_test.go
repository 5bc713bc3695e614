package kprobes_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
)

// TestFromHandler: functions that may sleep fail when a handler calls them, and
// change nothing.
func TestFromHandler(t *testing.T) {
	w := newWorld(t)
	other := &kprobes.Kprobe{SymbolName: "vfs_read"}
	ret := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}}
	var errs []error
	var self *kprobes.Kprobe
	self = w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 15, PreHandler: func(h *kprobes.Hit) int {
		errs = append(errs,
			w.k.Register(other, h), w.k.RegisterAll([]*kprobes.Kprobe{other}, h),
			w.k.RegisterRetprobe(ret, h), w.k.RegisterRetprobes([]*kprobes.Retprobe{ret}, h),
			w.k.Unregister(self, h), w.k.UnregisterAll([]*kprobes.Kprobe{self}, h),
			w.k.UnregisterRetprobe(ret, h), w.k.UnregisterRetprobes([]*kprobes.Retprobe{ret}, h),
			w.k.Enable(self, h), w.k.Disable(self, h), w.k.EnableRetprobe(ret, h), w.k.DisableRetprobe(ret, h))
		return 0
	}})
	before := w.list()
	w.k.Int3(w.Trap(0, self.Addr))
	if len(errs) != 12 {
		t.Fatalf("%d calls were made", len(errs))
	}
	for i, err := range errs {
		if !errors.Is(err, syscall.EDEADLK) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if other.Addr != 0 || ret.Kprobe.Addr != 0 || ret.MaxActive != 0 || self.State()&kprobes.FlagDisabled != 0 || w.list() != before {
		t.Errorf("something changed: %+v %q", ret, w.list())
	}
	if err := w.k.Disable(self, nil); err != nil {
		t.Errorf("outside of handlers: %v", err)
	}
}

// TestNilHandlers: any or all handlers may be nil.
func TestNilHandlers(t *testing.T) {
	w := newWorld(t)
	w.k.SetOptimization(false)
	p := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 15})
	rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read", PostHandler: func(*kprobes.Hit, uint64) {}}}
	if err := w.k.RegisterRetprobe(rp); err != nil {
		t.Fatal(err)
	}
	if rp.Kprobe.PostHandler != nil {
		t.Error("a return probe keeps its kprobe's post-handler")
	}
	tr := w.Trap(0, p.Addr)
	w.k.Int3(tr)
	stepOnce(t, w, tr, 7)
	if tr.Regs.IP != p.Addr+7 {
		t.Errorf("continues at %#x", tr.Regs.IP)
	}
	callAndReturn(t, w, 0)
}

// callAndReturn makes a call of vfs_read on a vCPU, and its return.
func callAndReturn(t *testing.T, w *world, cpu int) *abi.Trap {
	t.Helper()
	tr := w.Trap(cpu, 0)
	slot := tr.Regs.SP
	w.WriteU64(slot, 0xabc)
	tr.Regs.IP = vfsReadAt
	w.k.Ftrace(tr)
	if v, _ := w.ReadU64(slot); v == trampoline {
		tr.RegsAddr = slot - abi.RegsSize
		w.k.Rethook(tr)
	}
	if v, _ := w.ReadU64(slot); v != 0xabc {
		t.Errorf("the call returns to %#x", v)
	}
	return tr
}

// TestPanics: if a handler panics, its probe is disabled and the panic is logged.
// Execution continues with unchanged registers, and the probe can be enabled again.
func TestPanics(t *testing.T) {
	oops := func() { panic("boom") }
	pre := func(*kprobes.Hit) int { oops(); return 1 }
	post := func(*kprobes.Hit, uint64) { oops() }
	ret := func(*kprobes.Instance, *kprobes.Hit) int { oops(); return 0 }
	step := func(t *testing.T, w *world) {
		tr := w.Trap(0, vfsReadAt+15)
		w.k.Int3(tr)
		stepOnce(t, w, tr, 7)
		if tr.Regs.IP != vfsReadAt+22 {
			t.Errorf("continues at %#x", tr.Regs.IP)
		}
	}
	entry := func(t *testing.T, w *world) { callAndReturn(t, w, 0) }
	for _, tc := range []struct {
		name string
		p    *kprobes.Kprobe
		rp   *kprobes.Retprobe
		hit  func(*testing.T, *world)
	}{
		{"pre", &kprobes.Kprobe{Offset: 15, PreHandler: pre}, nil, step},
		{"post", &kprobes.Kprobe{Offset: 15, PostHandler: post}, nil, step},
		{"ftrace", &kprobes.Kprobe{PreHandler: pre}, nil, entry},
		{"ftrace post", &kprobes.Kprobe{PostHandler: post}, nil, entry},
		{"optimized", &kprobes.Kprobe{Offset: 5, PreHandler: pre}, nil, func(_ *testing.T, w *world) {
			tr := w.Trap(0, readInner)
			tr.Arg = readInner
			w.k.Optimized(tr)
		}},
		{"return entry", nil, &kprobes.Retprobe{EntryHandler: ret, MaxActive: 1}, entry},
		{"return", nil, &kprobes.Retprobe{Handler: ret, MaxActive: 1}, entry},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.k.SetOptimization(false)
			p := tc.p
			if tc.rp != nil {
				p = &tc.rp.Kprobe
			}
			p.SymbolName = "vfs_read"
			if tc.rp != nil {
				wantErr(t, w.k.RegisterRetprobe(tc.rp), 0)
			} else {
				w.register(t, p)
			}
			said := func() int {
				return len(slices.DeleteFunc(w.Log(), func(l string) bool { return !strings.Contains(l, "boom") }))
			}
			tc.hit(t, w)
			tc.hit(t, w) // its handlers are not called any more
			if n := said(); n != 1 {
				t.Errorf("%d panics in the log", n)
			}
			w.Advance(0)
			if p.State()&kprobes.FlagDisabled == 0 || !strings.Contains(w.list(), "[DISABLED]") {
				t.Errorf("flags %#x, list %q", p.State(), w.list())
			}
			w.Advance(1 << 30)
			if got := fmt.Sprintf("% x", w.Bytes(vfsReadAt, len(vfsRead))); got != fmt.Sprintf("% x", vfsRead) {
				t.Errorf("still armed: %s", got)
			}
			wantErr(t, w.k.Enable(p), 0)
			tc.hit(t, w)
			if n := said(); n != 1 {
				t.Errorf("enabled again: %d panics in the log", n)
			}
			wantErr(t, w.k.Unregister(p), 0)
			w.Advance(1 << 30) // the disabling queued by the second panic finds no probe
			if tc.rp != nil && tc.rp.Missed() != 0 {
				t.Errorf("%d calls missed: an instance is lost", tc.rp.Missed())
			}
		})
	}
}

// TestHitAllocatesNothing: memory is allocated only by registering and unregistering.
func TestHitAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	n := 0
	count := func(*kprobes.Hit) int { n++; return 0 }
	p := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 15, PreHandler: count, PostHandler: func(*kprobes.Hit, uint64) { n++ }})
	w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5, PreHandler: count})
	rp := &kprobes.Retprobe{
		Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, DataSize: 16,
		EntryHandler: func(*kprobes.Instance, *kprobes.Hit) int { n++; return 0 },
		Handler:      func(*kprobes.Instance, *kprobes.Hit) int { n++; return 0 },
	}
	wantErr(t, w.k.RegisterRetprobe(rp), 0)
	tr := w.Trap(0, 0)
	regs := *tr.Regs
	allocs := testing.AllocsPerRun(100, func() {
		*tr.Regs = regs
		tr.Regs.IP = p.Addr + 1
		w.k.Int3(tr)
		tr.Regs.IP += 8
		w.k.Int3(tr)
		*tr.Regs, tr.Arg = regs, readInner
		w.k.Optimized(tr)
		*tr.Regs = regs
		tr.Regs.IP = vfsReadAt
		w.WriteU64(regs.SP, 0xabc)
		w.k.Ftrace(tr)
		tr.RegsAddr = regs.SP - abi.RegsSize
		w.k.Rethook(tr)
	})
	if allocs != 0 || n != 101*5 {
		t.Errorf("%v allocations a run, %d handlers", allocs, n)
	}
}

// TestReturnsTwice: if a call returns a second time, there is no return address for
// it, and the log says so as on 6.1. A call that never returns keeps its instance.
func TestReturnsTwice(t *testing.T) {
	w := newWorld(t)
	returns := 0
	rp := &kprobes.Retprobe{
		Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, MaxActive: 1,
		Handler: func(*kprobes.Instance, *kprobes.Hit) int { returns++; return 0 },
	}
	wantErr(t, w.k.RegisterRetprobe(rp), 0)
	tr := callAndReturn(t, w, 0)
	w.Log()
	w.k.Rethook(tr)
	log := strings.Join(w.Log(), "\n")
	if returns != 1 || !strings.Contains(log, "Return address not found") {
		t.Errorf("%d returns, log %q", returns, log)
	}
	never := w.Trap(0, 0)
	never.Regs.IP, never.Regs.SP = vfsReadAt, kprobetest.Stack+0x3000
	w.k.Ftrace(never)
	callAndReturn(t, w, 1)
	if returns != 1 || rp.Missed() != 1 {
		t.Errorf("while a call does not return: %d returns, %d missed", returns, rp.Missed())
	}
}

// TestRetprobeBatch: as with kprobes, all probes are registered or none, and
// unregistering clears the address of those that are not registered.
func TestRetprobeBatch(t *testing.T) {
	w := newWorld(t)
	w.Func(0x2000, "other", 0x90, 0xc3)
	named := func(names ...string) (rps []*kprobes.Retprobe) {
		for _, n := range names {
			rps = append(rps, &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: n}})
		}
		return rps
	}
	rps := named("vfs_read", "nofunc", "other")
	wantErr(t, w.k.RegisterRetprobes(rps), syscall.ENOENT)
	w.wantList(t, "bad entry")
	if rps[0].Kprobe.Addr != vfsReadAt || rps[2].Kprobe.Addr != 0 {
		t.Errorf("addresses %#x %#x", rps[0].Kprobe.Addr, rps[2].Kprobe.Addr)
	}
	wantErr(t, w.k.RegisterRetprobes(nil), syscall.EINVAL)
	rps = named("vfs_read", "other")
	wantErr(t, w.k.RegisterRetprobes(rps), 0)
	bad := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{Addr: vfsReadAt}}
	wantErr(t, w.k.UnregisterRetprobes([]*kprobes.Retprobe{rps[0], bad, rps[1]}), 0)
	w.wantList(t, "unregistered")
	if bad.Kprobe.Addr != 0 || rps[0].Kprobe.Addr == 0 {
		t.Errorf("addresses %#x %#x", bad.Kprobe.Addr, rps[0].Kprobe.Addr)
	}
	wantErr(t, w.k.UnregisterRetprobe(rps[0]), 0)
	if rps[0].Kprobe.Addr != 0 {
		t.Error("unregistered twice: the address stays")
	}
}

// TestUserFlags: KPROBE_FLAG_DISABLED is the only flag that callers may pass.
func TestUserFlags(t *testing.T) {
	w := newWorld(t)
	hits := 0
	p := w.register(t, &kprobes.Kprobe{
		SymbolName: "vfs_read", Flags: kprobes.FlagDisabled | kprobes.FlagGone | kprobes.FlagOptimized,
		PreHandler: func(*kprobes.Hit) int { hits++; return 0 },
	})
	if got := p.State(); got != kprobes.FlagDisabled|kprobes.FlagFtrace|kprobes.FlagOnFuncEntry {
		t.Errorf("flags %#x", got)
	}
	callAndReturn(t, w, 0)
	for range 2 {
		wantErr(t, w.k.Enable(p), 0)
	}
	callAndReturn(t, w, 0)
	for range 2 {
		wantErr(t, w.k.Disable(p), 0)
	}
	callAndReturn(t, w, 0)
	if hits != 1 {
		t.Errorf("%d hits", hits)
	}
}
