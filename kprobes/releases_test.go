package kprobes_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Tests of bad input on a running kernel of each release.

// TestPanicsOfEach: a handler sets the instruction pointer and panics. The panic is
// reported, the probe disarmed, and the call returns its result.
func TestPanicsOfEach(t *testing.T) {
	onEachRelease(t, func(t *testing.T, m *machine) {
		var hits atomic.Int64
		boom := func() { hits.Add(1); panic(fmt.Sprint("boom ", hits.Load())) }
		lost := func(h *kprobes.Hit) { h.Regs.IP, h.Regs.SP = 0x1234, 8; boom() }
		pre := func(h *kprobes.Hit) int { lost(h); return 0 }
		ret := func(_ *kprobes.Instance, h *kprobes.Hit) int { lost(h); return 0 }
		inner := m.inside("int_sqrt")
		at := func(off uint32) *kprobes.Kprobe { return &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: off} }
		cases := map[string]any{}
		for _, where := range []uint32{0, inner} {
			p := at(where)
			p.PreHandler = pre
			cases[fmt.Sprint("pre +", where)] = p
			q := at(where)
			q.PostHandler = func(h *kprobes.Hit, _ uint64) { lost(h) }
			cases[fmt.Sprint("post +", where)] = q
			if !m.Kprobes.Has(release.NoFaultHandlers) {
				r := at(where)
				r.PreHandler = func(h *kprobes.Hit) int { h.Load(unmapped); return 0 }
				r.FaultHandler = func(*kprobes.Hit, int) int { boom(); return 1 }
				cases[fmt.Sprint("fault +", where)] = r
			}
		}
		cases["return"] = &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, Handler: ret}
		cases["entry"] = &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, EntryHandler: ret}
		if !m.Kprobes.Has(release.NoJprobes) {
			cases["jprobe"] = &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, Handler: lost}
		}
		for name, x := range cases {
			for _, jumps := range []bool{false, true} {
				if m.Kprobes.HasOptprobes() {
					m.Kprobes.SetOptimization(jumps)
				}
				hits.Store(0)
				var p *kprobes.Kprobe
				var err error
				var away func() error
				switch x := x.(type) {
				case *kprobes.Kprobe:
					p, err = x, m.Kprobes.Register(x)
					away = func() error { return m.Kprobes.Unregister(x) }
				case *kprobes.Retprobe:
					p, err = &x.Kprobe, m.Kprobes.RegisterRetprobe(x)
					away = func() error { return m.Kprobes.UnregisterRetprobe(x) }
				case *kprobes.Jprobe:
					p, err = &x.Kprobe, m.Kprobes.RegisterJprobe(x)
					away = func() error { return m.Kprobes.UnregisterJprobe(x) }
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				m.settle()
				for range 3 {
					if got := m.call("int_sqrt", 100); got != 10 {
						t.Errorf("%s, jumps %v: int_sqrt(100) = %d", name, jumps, got)
					}
				}
				for end := time.Now().Add(10 * time.Second); p.State()&kprobes.FlagDisabled == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
				}
				m.settle()
				var b [1]byte
				wantErr(t, m.Machine.Read(p.Addr, b[:]), 0)
				if hits.Load() != 1 || p.State()&kprobes.FlagDisabled == 0 || b[0] == 0xcc || b[0] == 0xe9 || b[0] == 0xe8 {
					t.Errorf("%s, jumps %v: %d hits, flags %v, text %x", name, jumps, hits.Load(), p.State(), b)
				}
				if n := strings.Count(dmesg(m.Kernel), "panicked and is disabled: boom 1"); n == 0 {
					t.Errorf("%s: not reported", name)
				}
				wantErr(t, away(), 0)
				p.Addr = 0
			}
		}
	})
}

// TestFromHandlerOfEach: functions that may sleep fail in handlers of all kinds, and
// change nothing.
func TestFromHandlerOfEach(t *testing.T) {
	onEachRelease(t, func(t *testing.T, m *machine) {
		k := m.Kprobes
		fresh := &kprobes.Kprobe{SymbolName: "gcd"}
		freshRet := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "gcd"}}
		freshJ := &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: "gcd"}, Handler: func(*kprobes.Hit) {}}
		off := m.register(&kprobes.Kprobe{SymbolName: "int_pow", Flags: kprobes.FlagDisabled})
		on := m.register(&kprobes.Kprobe{SymbolName: "int_pow", Offset: m.inside("int_pow")})
		m.settle()
		before := m.lines()
		var calls, wrong atomic.Int64
		var what string
		try := func(h *kprobes.Hit) int {
			for i, err := range []error{
				k.Register(fresh, h), k.RegisterAll([]*kprobes.Kprobe{fresh, fresh}, h), k.RegisterRetprobe(freshRet, h), k.RegisterRetprobes([]*kprobes.Retprobe{freshRet}, h),
				k.RegisterJprobe(freshJ, h), k.RegisterJprobes([]*kprobes.Jprobe{freshJ}, h), k.Unregister(on, h), k.UnregisterAll([]*kprobes.Kprobe{on, off}, h),
				k.Unregister(h.Probe, h), k.Disable(h.Probe, h), k.Enable(h.Probe, h),
				k.UnregisterRetprobe(freshRet, h), k.UnregisterRetprobes([]*kprobes.Retprobe{freshRet}, h), k.UnregisterJprobe(freshJ, h), k.UnregisterJprobes([]*kprobes.Jprobe{freshJ}, h),
				k.Enable(off, h), k.Disable(on, h), k.EnableRetprobe(freshRet, h), k.DisableRetprobe(freshRet, h), k.EnableJprobe(freshJ, h), k.DisableJprobe(freshJ, h),
			} {
				calls.Add(1)
				if !errors.Is(err, syscall.EDEADLK) {
					wrong.Add(1)
					what = fmt.Sprint(i, err)
				}
			}
			return 0
		}
		tryRet := func(_ *kprobes.Instance, h *kprobes.Hit) int { return try(h) }
		p := &kprobes.Kprobe{SymbolName: "int_sqrt", PreHandler: try}
		q := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: m.inside("int_sqrt"), PreHandler: try}
		q.PostHandler = func(h *kprobes.Hit, _ uint64) { try(h) }
		wantErr(t, k.RegisterAll([]*kprobes.Kprobe{p, q}), 0)
		rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, Handler: tryRet, EntryHandler: tryRet}
		wantErr(t, k.RegisterRetprobe(rp), 0)
		want := int64(5)
		jp := &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, Handler: func(h *kprobes.Hit) { try(h) }}
		if !m.Kprobes.Has(release.NoJprobes) {
			wantErr(t, k.RegisterJprobe(jp), 0)
			want++
		}
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Errorf("int_sqrt(100) = %d", got)
		}
		if calls.Load() != 21*want || wrong.Load() != 0 {
			t.Errorf("%d calls, want %d; %d wrong: %s", calls.Load(), 21*want, wrong.Load(), what)
		}
		wantErr(t, k.UnregisterAll([]*kprobes.Kprobe{p, q}), 0)
		wantErr(t, k.UnregisterRetprobe(rp), 0)
		if !m.Kprobes.Has(release.NoJprobes) {
			wantErr(t, k.UnregisterJprobe(jp), 0)
		}
		m.settle()
		if m.lines() != before || fresh.Addr != 0 || freshRet.Kprobe.Addr != 0 || freshJ.Kprobe.Addr != 0 {
			t.Errorf("list %q, was %q", m.lines(), before)
		}
	})
}

// TestBadAddressesOfEach: addresses that cannot be probed in any release, or only in
// some: up to 4.15 the inside of an instruction, from 5.10 on __switch_to. A refused
// probe leaves no point, and the kernel goes on.
func TestBadAddressesOfEach(t *testing.T) {
	const einval, enoent, eilseq = syscall.EINVAL, syscall.ENOENT, syscall.EILSEQ
	onEachRelease(t, func(t *testing.T, m *machine) {
		nowhere := map[bool]syscall.Errno{false: einval, true: enoent}[m.Kprobes.Has(release.SymbolNeeded)]
		inside := map[bool]syscall.Errno{false: 0, true: eilseq}[m.Kprobes.Has(release.InsnBoundary)]
		switchTo := map[bool]syscall.Errno{false: einval, true: 0}[m.Kprobes.Has(release.ProbesSwitchTo)]
		pageFault := map[bool]string{false: "do_page_fault", true: "exc_page_fault"}[m.Kprobes.Has(release.InsnBoundary)]
		last, lastRet, middle := enoent, enoent, m.inside("int_sqrt")+1
		switch {
		case m.Kprobes.Has(release.SymbolNeeded):
		case m.Kprobes.Has(release.AddrErrno):
			last, lastRet = syscall.EPERM, syscall.EPERM
		default:
			last = einval
		}
		for _, tc := range []struct {
			name      string
			at        *kprobes.Kprobe
			want, ret syscall.Errno // for a kprobe, and for a return probe
		}{
			{"neither", &kprobes.Kprobe{}, einval, einval},
			{"both", &kprobes.Kprobe{SymbolName: "gcd", Addr: m.addr("gcd")}, einval, einval},
			{"no such name", &kprobes.Kprobe{SymbolName: "nofunc"}, enoent, enoent},
			{"data", &kprobes.Kprobe{SymbolName: "jiffies"}, einval, einval},
			{"rodata", &kprobes.Kprobe{SymbolName: "linux_banner"}, einval, einval},
			{"1", &kprobes.Kprobe{Addr: 1}, nowhere, enoent},
			{"user space", &kprobes.Kprobe{Addr: 0x400000}, nowhere, enoent},
			{"user space of tasks", &kprobes.Kprobe{Addr: abi.UserBase}, nowhere, enoent},
			{"not canonical", &kprobes.Kprobe{Addr: 1 << 47}, nowhere, enoent},
			{"direct map", &kprobes.Kprobe{Addr: abi.DirectMap + 0x1000000}, nowhere, enoent},
			{"instruction slots", &kprobes.Kprobe{Addr: abi.ModulesBase}, nowhere, enoent},
			{"the last address", &kprobes.Kprobe{Addr: ^uint64(0)}, last, lastRet},
			{"far behind a function", &kprobes.Kprobe{SymbolName: "gcd", Offset: 1<<32 - 1}, nowhere, enoent},
			{"inside an instruction", &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: middle}, inside, einval},
			{"padding", &kprobes.Kprobe{Addr: m.padding()}, map[bool]syscall.Errno{false: einval, true: eilseq}[m.Kprobes.Has(release.NoTrapProbes)], einval},
			{"int3's handler", &kprobes.Kprobe{SymbolName: "exc_int3"}, einval, einval},
			{"page faults'", &kprobes.Kprobe{SymbolName: pageFault}, einval, einval},
			{"kprobes'", &kprobes.Kprobe{SymbolName: "kprobe_int3_handler"}, einval, einval},
			{"notifiers", &kprobes.Kprobe{SymbolName: "notifier_call_chain"}, einval, einval},
			{"__switch_to", &kprobes.Kprobe{SymbolName: "__switch_to"}, switchTo, einval},
		} {
			p := tc.at
			rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: p.SymbolName, Addr: p.Addr, Offset: p.Offset}}
			if e := m.Kprobes.Register(p); e == nil != (tc.want == 0) || e != nil && !errors.Is(e, tc.want) {
				t.Errorf("%s: %v, want %v", tc.name, e, tc.want)
			}
			if e := m.Kprobes.RegisterRetprobe(rp); !errors.Is(e, tc.ret) {
				t.Errorf("%s, return probe: %v, want %v", tc.name, e, tc.ret)
			}
			if tc.want == 0 {
				wantErr(t, m.Kprobes.Unregister(p), 0)
			}
			m.settle()
			if n := len(m.Kprobes.Points()); n != 0 {
				t.Fatalf("%s: %d points are left", tc.name, n)
			}
		}
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Errorf("int_sqrt(100) = %d", got)
		}
	})
}

// padding returns the address of an int3 between two functions that can be probed.
func (m *machine) padding() uint64 {
	m.t.Helper()
	for _, s := range m.Machine.Symbols().All() {
		starts := []uint32(nil)
		if s.Name == "int_sqrt" || s.Name == "gcd" || s.Name == "int_pow" {
			starts = m.starts(s.Name)
		}
		if n := len(starts); n > 0 {
			end := s.Addr + uint64(starts[n-1]) + 1 // a ret
			var b [1]byte
			if m.Machine.Read(end, b[:]) == nil && b[0] == 0xcc {
				return end
			}
		}
	}
	m.t.Fatal("no padding")
	return 0
}
