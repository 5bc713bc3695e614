package kprobes_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Tests of statements in the documents of 2.6.25, 2.6.32 and 4.15 that are no longer
// true on 6.1.

// TestTrampolineProbe: a hooked call returns to a nop with a probe of kprobes itself,
// which kprobes/list does not show. Handlers of return probes run there, newest probe
// first. It stays armed while all probes are switched off.
func TestTrampolineProbe(t *testing.T) {
	const n = 2000
	m := bootRelease(t, "4.15", "CONFIG_OPTPROBES=n")
	trampoline := m.addr("kretprobe_trampoline")
	var text, orig [1]byte
	err := errors.Join(m.Machine.Read(trampoline, text[:]), m.Kprobes.Original(trampoline, orig[:]))
	if err != nil || text[0] != 0xcc || orig[0] != 0x90 || m.lines() != "" {
		t.Errorf("%v, % x, % x, list %q", err, text, orig, m.lines())
	}
	var log []string
	say := func(s string) kprobes.RetHandler {
		return func(ri *kprobes.Instance, h *kprobes.Hit) int {
			log = append(log, fmt.Sprint(s, h.Regs.ReturnValue()))
			if h.Regs.IP != trampoline+1 || h.Vector != 0 || h.Preempt != 1 || ri.RetAddr == 0 {
				t.Errorf("ip %#x, vector %d, preempt_count %#x, returns to %#x", h.Regs.IP, h.Vector, h.Preempt, ri.RetAddr)
			}
			h.Regs.AX++
			return 1
		}
	}
	first := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, Handler: say("first ")}
	wantErr(t, m.Kprobes.RegisterRetprobe(first), 0)
	second := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, Handler: say("second ")}
	wantErr(t, m.Kprobes.RegisterRetprobe(second), 0)
	var slot uint64
	m.register(&kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 5, PreHandler: func(h *kprobes.Hit) int {
		slot, _ = h.Mem.ReadU64(h.Regs.SP)
		return 0
	}})
	if got := m.call("int_sqrt", 100); got != 12 || slot != trampoline || !slices.Equal(log, []string{"first 10", "second 11"}) {
		t.Errorf("int_sqrt(100) = %d, returned to %#x, handlers %q", got, slot, log)
	}
	wantErr(t, m.Kprobes.UnregisterRetprobes([]*kprobes.Retprobe{first, second}), 0)

	var returns atomic.Uint64
	rp := m.registerRet(&kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "msleep"}, Handler: func(*kprobes.Instance, *kprobes.Hit) int {
		returns.Add(1)
		return 0
	}})
	done := make(chan error, 2)
	entered := make(chan bool, 1)
	m.register(&kprobes.Kprobe{SymbolName: "msleep", Offset: 5, PreHandler: func(*kprobes.Hit) int {
		select {
		case entered <- true:
		default:
		}
		return 0
	}})
	go func() { _, err := m.Machine.CallOn(m.ctx, 0, m.addr("msleep"), 1, 50); done <- err }()
	<-entered
	wantErr(t, m.Kprobes.SetEnabled(false), 0)
	if err := <-done; err != nil || returns.Load() != 1 || rp.Missed() != 0 {
		t.Errorf("switched off during the calls: %v, %d returns, %d missed", err, returns.Load(), rp.Missed())
	}
	wantErr(t, m.Kprobes.SetEnabled(true), 0)

	returns.Store(0)
	m.registerRet(&kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_pow"}, MaxActive: 4, Handler: func(*kprobes.Instance, *kprobes.Hit) int {
		returns.Add(1)
		return 0
	}})
	for cpu := range 2 {
		go func() { _, err := m.Machine.CallOn(m.ctx, cpu, m.addr("int_pow"), n, 3, 4); done <- err }()
	}
	if err := errors.Join(<-done, <-done); err != nil || returns.Load() != 2*n {
		t.Errorf("%v, %d returns, want %d", err, returns.Load(), 2*n)
	}
}

// TestTrampolineInBacktrace: in a stack trace inside a hooked call, the trampoline
// replaces the caller; the frames after it are shown.
func TestTrampolineInBacktrace(t *testing.T) {
	m := bootRelease(t, "4.15", "CONFIG_OPTPROBES=n")
	stack := func(hooked bool) (names []string) {
		if hooked {
			rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "gcd"}}
			wantErr(t, m.Kprobes.RegisterRetprobe(rp), 0)
			defer func() { wantErr(t, m.Kprobes.UnregisterRetprobe(rp), 0) }()
		}
		var ips [16]uint64
		n := 0
		p := &kprobes.Kprobe{SymbolName: "gcd", Offset: 5, PreHandler: func(h *kprobes.Hit) int {
			n = m.Machine.Unwind(h.Task, h.Regs.IP-1, 0, h.Regs.SP, ips[:], nil)
			return 0
		}}
		wantErr(t, m.Kprobes.Register(p), 0)
		defer func() { wantErr(t, m.Kprobes.Unregister(p), 0) }()
		m.call("lcm", 4, 6)
		for _, ip := range ips[:n] {
			sym, _, _ := m.Machine.Symbols().Lookup(ip)
			names = append(names, sym.Name)
		}
		return names
	}
	plain, hooked := stack(false), stack(true)
	if len(plain) < 3 || plain[1] != "lcm" {
		t.Fatalf("the stack is %q", plain)
	}
	plain[1] = "kretprobe_trampoline"
	if !slices.Equal(plain, hooked) {
		t.Errorf("the stack is %q, want %q", hooked, plain)
	}
}

// TestKretprobeBUG: if a call returns a second time, the log names the return probe
// and its address.
func TestKretprobeBUG(t *testing.T) {
	w := newOldWorld(t, release.Linux4_15)
	returns := 0
	rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, Handler: func(*kprobes.Instance, *kprobes.Hit) int { returns++; return 0 }}
	wantErr(t, w.k.RegisterRetprobe(rp), 0)
	tr := w.Trap(0, 0)
	slot := tr.Regs.SP
	wantErr(t, w.WriteU64(slot, 0xabc), 0)
	tr.Regs.IP = vfsReadAt
	w.k.Ftrace(tr)
	to, err := w.ReadU64(slot)
	if err != nil || to == 0xabc {
		t.Fatalf("not hooked: %#x, %v", to, err)
	}
	back := func() bool { tr.Regs.IP, tr.Regs.SP = to+1, slot+8; return w.k.Int3(tr) }
	if !back() || tr.Regs.IP != 0xabc || tr.Regs.SP != slot+8 {
		t.Errorf("continues at %#x with sp %#x", tr.Regs.IP, tr.Regs.SP)
	}
	w.Log()
	want := fmt.Sprintf("kretprobe BUG!: Processing kretprobe %016s @ %016x", fmt.Sprintf("%p", rp)[2:], uint64(vfsReadAt))
	if back() || returns != 1 {
		t.Errorf("a second return was handled, %d returns", returns)
	}
	if log := w.Log(); !slices.Equal(log, []string{want}) {
		t.Errorf("log %q, want %q", log, want)
	}
	rp.Struct = 0xffffffffc0001000 // of a module
	if back(); !slices.Equal(w.Log(), []string{fmt.Sprintf("kretprobe BUG!: Processing kretprobe ffffffffc0001000 @ %016x", uint64(vfsReadAt))}) {
		t.Error("the log does not name its struct")
	}
}

// TestKretprobeBUGOnMachine: a task that reaches the trampoline without a hooked call
// dies, and the kernel goes on. 6.1's message was seen on Linux. An oops shows the place
// twice: the second time as the first oops since boot.
func TestKretprobeBUGOnMachine(t *testing.T) {
	for _, tc := range []struct {
		release, trampoline string
		says                string
	}{
		{"4.15", "kretprobe_trampoline", "kretprobe BUG!: Processing kretprobe 0000000000000000 @ 0000000000000000\n"},
		{"5.10", "kretprobe_trampoline", "int3: 0000 [#1] SMP NOPTI\n"},
		{"6.1", "arch_rethook_trampoline", "rethook: rethook: Return address not found! Maybe there is a bug in the kernel\n"},
		{"6.1", "arch_rethook_trampoline", "kernel BUG at kernel/trace/rethook.c:300!\n"},
	} {
		m := bootRelease(t, tc.release)
		m.registerRet(&kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "gcd"}}) // so that the trampoline exists
		_, err := m.Machine.CallOn(m.ctx, 0, m.addr(tc.trampoline), 1)
		log := dmesg(m.Kernel)
		if !strings.Contains(log, tc.says) || strings.Count(strings.ReplaceAll(log, "RIP: 0010:", "RIP: "), "RIP: "+tc.trampoline+"+") != 2 {
			t.Errorf("%s: %v, log\n%s", tc.release, err, log)
		}
		if v, err := m.Machine.CallOn(m.ctx, 1, m.addr("int_sqrt"), 1, 100); v != 10 || err != nil {
			t.Errorf("%s: the other CPU: int_sqrt(100) = %d, %v", tc.release, v, err)
		}
	}
}

// TestOldMaxActive: the default is NR_CPUS instances without CONFIG_PREEMPT and
// max(10, 2*NR_CPUS) with it. Up to 4.15 NR_CPUS is the configured number; later
// releases use the number of possible CPUs, here two.
func TestOldMaxActive(t *testing.T) {
	for _, tc := range []struct {
		release, config string
		want            int
	}{
		{"2.6.25", "", 2},
		{"2.6.25", "NR_CPUS=7", 7},
		{"2.6.25", "CONFIG_PREEMPT=y", 10},
		{"2.6.25", "CONFIG_PREEMPT=y NR_CPUS=7", 14},
		{"2.6.32", "CONFIG_PREEMPT=n", 2},
		{"2.6.32", "CONFIG_PREEMPT=y NR_CPUS=5", 10},
		{"2.6.32", "NR_CPUS=1", 1},
		{"4.15", "CONFIG_PREEMPT=n", 2},
		{"4.15", "CONFIG_PREEMPT=y", 10},
		{"4.15", "NR_CPUS=64", 64},
		{"5.10", "", 2},
		{"5.10", "CONFIG_PREEMPT=y", 10},
		{"5.10", "NR_CPUS=7", 2},
		{"6.1", "CONFIG_PREEMPT=n", 10},
		{"6.1", "NR_CPUS=7", 10},
		{"6.12", "CONFIG_PREEMPT=n", 10},
	} {
		m := bootRelease(t, tc.release, strings.Fields(tc.config)...)
		for _, asked := range []int{0, -1, -1 << 31} {
			rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, MaxActive: asked}
			wantErr(t, m.Kprobes.RegisterRetprobe(rp), 0)
			if rp.MaxActive != tc.want {
				t.Errorf("%s, %s, %d asked for: %d, want %d", tc.release, tc.config, asked, rp.MaxActive, tc.want)
			}
			wantErr(t, m.Kprobes.UnregisterRetprobe(rp), 0)
		}
	}
}

// TestOldAddresses: older releases do not check for instruction boundaries, nor for
// __switch_to.
func TestOldAddresses(t *testing.T) {
	for _, release := range []string{"2.6.25", "2.6.32", "4.15"} {
		m := bootRelease(t, release)
		p := &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 6, Flags: kprobes.FlagDisabled}
		if slices.Contains(m.starts("vfs_read"), p.Offset) {
			t.Fatal("an instruction begins at this address")
		}
		wantErr(t, m.Kprobes.Register(p), 0)
		wantErr(t, m.Kprobes.Unregister(p), 0)
		wantErr(t, m.Kprobes.Register(&kprobes.Kprobe{SymbolName: "__switch_to"}), syscall.EINVAL)
		wantErr(t, m.Kprobes.Register(&kprobes.Kprobe{SymbolName: "__switch_to", Offset: m.starts("__switch_to")[1]}), syscall.EINVAL)
	}
	w := newOldWorld(t, release.Linux4_15)
	w.Func(0x2080, "bad", 0x0f, 0x38, 0xf7, 0xc0, 0x90)
	bad := w.register(t, &kprobes.Kprobe{SymbolName: "bad"})
	tr := w.Trap(0, bad.Addr)
	if w.k.Int3(tr); fmt.Sprintf("% x", w.Bytes(tr.Regs.IP, 5)) != "0f 38 f7 c0 90" {
		t.Errorf("the copy is % x", w.Bytes(tr.Regs.IP, 5))
	}
	tr.Vector = abi.VecUD
	if w.k.Fault(tr) || tr.Regs.IP != bad.Addr {
		t.Errorf("its fault is at %#x", tr.Regs.IP)
	}
}

// TestOldInsideProbe: a probe inside an instruction is not optimized, since a probe
// at the instruction itself continues after it.
func TestOldInsideProbe(t *testing.T) {
	for _, release := range []string{"2.6.25", "2.6.32", "4.15"} {
		m := bootRelease(t, release)
		starts, hits := m.starts("int_sqrt"), 0
		for i, at := range starts[1 : len(starts)-1] {
			if starts[i+2]-at < 2 {
				continue
			}
			inside := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: at + 1}
			outside := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: at, PreHandler: func(*kprobes.Hit) int { hits++; return 0 }}
			wantErr(t, m.Kprobes.RegisterAll([]*kprobes.Kprobe{inside, outside}), 0)
			m.settle()
			if got := m.call("int_sqrt", 100); got != 10 {
				t.Errorf("%s: probed at and after +%#x: int_sqrt(100) = %d", release, at, got)
			}
			wantErr(t, m.Kprobes.UnregisterAll([]*kprobes.Kprobe{outside, inside}), 0)
			m.settle()
			if got := m.call("int_sqrt", 100); got != 10 {
				t.Errorf("%s: without probes at +%#x: int_sqrt(100) = %d", release, at, got)
			}
		}
		if hits < 10 {
			t.Errorf("%s: %d hits", release, hits)
		}
	}
}

// TestBreakHandler: a pre-handler sets the instruction pointer to an int3, whose hit
// calls the break handler; then the probed instruction is executed. An address can
// have one such probe, and it is not optimized.
func TestBreakHandler(t *testing.T) {
	m := bootRelease(t, "4.15")
	pad := m.addr("int_sqrt") - 1
	var text [1]byte
	if err := m.Machine.Read(pad, text[:]); err != nil || text[0] != 0xcc {
		t.Fatalf("no int3 before int_sqrt: %#x, %v", text, err)
	}
	var saved abi.Regs
	breaks, posts := 0, 0
	p := m.register(&kprobes.Kprobe{
		SymbolName:  "int_sqrt",
		Offset:      5,
		PreHandler:  func(h *kprobes.Hit) int { saved = *h.Regs; h.Regs.IP = pad; return 1 },
		PostHandler: nil,
		BreakHandler: func(h *kprobes.Hit) int {
			breaks++
			if h.Regs.IP != pad+1 || h.Preempt == 0 {
				t.Errorf("ip %#x, preempt %#x", h.Regs.IP, h.Preempt)
			}
			*h.Regs = saved
			return 1
		},
	})
	other := m.register(&kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 5, PreHandler: func(*kprobes.Hit) int { posts++; return 0 }})
	m.settle()
	for _, i := range m.Kprobes.Points() {
		if i.Flags&kprobes.FlagOptimized != 0 {
			t.Error("it is optimized")
		}
	}
	for range 3 {
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Errorf("int_sqrt(100) = %d", got)
		}
	}
	if breaks != 3 || posts != 3 || p.Missed()+other.Missed() != 0 {
		t.Errorf("%d breaks, %d hits of the other", breaks, posts)
	}
	again := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 5, BreakHandler: p.BreakHandler}
	wantErr(t, m.Kprobes.Register(again), syscall.EEXIST)
	wantErr(t, boot(t).Kprobes.Register(&kprobes.Kprobe{SymbolName: "gcd", BreakHandler: p.BreakHandler}), syscall.ENOSYS)
}

// TestOldList: the columns of kprobes/list in each release.
func TestOldList(t *testing.T) {
	for release, want := range map[string]string{
		"2.6.25": "k  int_sqrt+0x0   \n",
		"2.6.32": "k  int_sqrt+0x0    [DISABLED]\n",
		"4.15":   "k  int_sqrt+0x0    [DISABLED]\n",
	} {
		m := bootRelease(t, release, "CONFIG_KPROBES_ON_FTRACE=n")
		m.register(&kprobes.Kprobe{SymbolName: "int_sqrt", Flags: kprobes.FlagDisabled})
		if got := m.lines(); got != want {
			t.Errorf("%s: %q, want %q", release, got, want)
		}
	}
	m := bootRelease(t, "4.15", "CONFIG_PREEMPT=y")
	m.register(&kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 5})
	if want := "k  int_sqrt+0x5    \n"; m.lines() != want {
		t.Errorf("4.15 with preemption: %q, want %q", m.lines(), want)
	}
	m = bootRelease(t, "4.15")
	m.register(&kprobes.Kprobe{SymbolName: "int_sqrt"})
	m.register(&kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 5})
	for _, want := range []string{"k  int_sqrt+0x0    [FTRACE]\n", "k  int_sqrt+0x5    [OPTIMIZED]\n"} {
		if !strings.Contains(m.lines(), want) {
			t.Errorf("4.15: %q, want %q", m.lines(), want)
		}
	}
}

// TestOldInnerProbe: a probe in another one's region prevents its optimization only
// while the inner probe is enabled (on 6.1 for good: TestInnerProbe).
func TestOldInnerProbe(t *testing.T) {
	m := bootRelease(t, "4.15")
	starts := m.starts("int_sqrt")
	outer := m.register(&kprobes.Kprobe{SymbolName: "int_sqrt", Offset: starts[1]})
	optimized := func(when string, want bool) {
		t.Helper()
		m.settle()
		for _, i := range m.Kprobes.Points() {
			var text [1]byte
			if err := m.Machine.Read(i.Addr, text[:]); err != nil {
				t.Fatal(err)
			}
			if got := i.Flags&kprobes.FlagOptimized != 0; i.Addr == outer.Addr && (got != want || (text[0] == 0xe9) != want) {
				t.Errorf("%s: optimized is %v, text %#x", when, got, text)
			}
		}
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Errorf("%s: int_sqrt(100) = %d", when, got)
		}
	}
	optimized("alone", true)
	if starts[2] >= starts[1]+5 {
		t.Fatalf("no instruction in the region: %#x", starts)
	}
	for range 2 {
		inner := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: starts[2]}
		wantErr(t, m.Kprobes.Register(inner), 0)
		optimized("with an inner probe", false)
		wantErr(t, m.Kprobes.Disable(inner), 0)
		optimized("the inner probe is disabled", true)
		wantErr(t, m.Kprobes.Enable(inner), 0)
		optimized("and enabled", false)
		wantErr(t, m.Kprobes.Unregister(inner), 0)
		optimized("and gone", true)
	}
}
