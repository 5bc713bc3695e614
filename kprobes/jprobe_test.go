package kprobes_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
)

// bootJprobes boots a release that has jprobes and loads the module jprobe_target.
func bootJprobes(t *testing.T, release string) *machine {
	t.Helper()
	m := bootRelease(t, release)
	m.loadModule("jprobe_target")
	return m
}

func (m *machine) loadModule(name string) {
	m.t.Helper()
	ko, err := os.ReadFile("../kernel/guest/modules/" + name + ".ko")
	if err == nil {
		_, err = m.Modules.Load(m.ctx, ko)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// seen returns and clears what the module's handlers have recorded.
func (m *machine) seen() (vs [8]int64) {
	m.t.Helper()
	at := m.addr("jprobe_target_seen")
	for i := range vs {
		v, err := m.Machine.Mem().ReadU64(at + 8*uint64(i))
		if err == nil {
			err = m.Machine.Mem().WriteU64(at+8*uint64(i), 0)
		}
		if err != nil {
			m.t.Fatal(err)
		}
		vs[i] = int64(v)
	}
	return vs
}

func (m *machine) jprobe(symbol, entry string) *kprobes.Jprobe {
	m.t.Helper()
	addr, err := m.Kprobes.JprobeEntry(entry)
	if err != nil {
		m.t.Fatal(err)
	}
	jp := &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: symbol}, Entry: addr}
	if err := m.Kprobes.RegisterJprobe(jp); err != nil {
		m.t.Fatal(err)
	}
	return jp
}

// lines returns kprobes/list without addresses.
func (m *machine) lines() string {
	var b []byte
	for i := range kprobes.Buckets {
		for _, r := range m.Kprobes.Bucket(nil, i) {
			b = append(b, r.Append(nil, false)[18:]...)
		}
	}
	return string(b)
}

// TestJprobe: the handler is guest code with the function's signature. It sees the
// arguments in registers and on the stack; its changes to them are undone before the
// function runs.
func TestJprobe(t *testing.T) {
	m := bootJprobes(t, "2.6.25")
	for _, tc := range []struct {
		name, probed, entry, call string
		arg, want                 uint64
		seen                      [8]int64
	}{
		{"eight arguments", "jprobe_target_sum", "jprobe_target_sum_seen", "jprobe_target_call_sum", 10, 528, [8]int64{10, 11, 12, 13, 14, 15, 16, 17}},
		{"a structure", "jprobe_target_fold", "jprobe_target_fold_seen", "jprobe_target_call", 1, 712345, [8]int64{1, 2, 3, 4, 5, 7}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m.t = t
			if got := m.call(tc.call, tc.arg); got != tc.want {
				t.Fatalf("without a probe: %d", got)
			}
			jp := m.jprobe(tc.probed, tc.entry)
			if want := tc.probed + "+0x0  jprobe_target\n"; m.lines() != "j  "+want {
				t.Errorf("list is %q", m.lines())
			}
			for range 3 {
				if got := m.call(tc.call, tc.arg); got != tc.want {
					t.Errorf("probed: %d", got)
				}
				if got := m.seen(); got != tc.seen {
					t.Errorf("the handler saw %d", got)
				}
			}
			if err := m.Kprobes.UnregisterJprobe(jp); err != nil {
				t.Fatal(err)
			}
			if got := m.call(tc.call, tc.arg); got != tc.want || m.seen() != [8]int64{} || m.lines() != "" {
				t.Errorf("unregistered: %d, list %q", got, m.lines())
			}
		})
	}
	m.empty1()
}

// empty1 waits until all slots are free except the one with the release's own code.
func (m *machine) empty1() {
	m.t.Helper()
	if n := m.Machine.SlotsInUse(); n != 1 {
		m.t.Errorf("%d slots in use", n)
	}
}

// TestJprobeGo: the handler is a Go function. It runs with interrupts and preemption
// off, and its changes to registers are undone.
func TestJprobeGo(t *testing.T) {
	m := bootJprobes(t, "2.6.32")
	var log []string
	jp := &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: "jprobe_target_sum"}, Handler: func(h *kprobes.Hit) {
		var args []uint64
		for i := range 6 {
			args = append(args, h.Regs.Arg(i))
		}
		for i := range 2 {
			v, err := h.StackArg(i)
			if err != nil {
				t.Error(err)
			}
			args = append(args, v)
			if err := h.Write(h.Regs.SP+8*uint64(i+1), make([]byte, 8)); err != nil {
				t.Error(err)
			}
		}
		log = append(log, fmt.Sprint(args, h.Preempt, h.Regs.Flags&abi.FlagIF, h.Regs.IP-h.Probe.Addr))
		*h.Regs = abi.Regs{IP: 1, SP: 2}
	}}
	if err := m.Kprobes.RegisterJprobe(jp); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := m.call("jprobe_target_call_sum", 10); got != 528 {
			t.Errorf("probed: %d", got)
		}
	}
	if want := "[10 11 12 13 14 15 16 17] 1 0 1"; !slices.Equal(log, []string{want, want}) {
		t.Errorf("the handler saw %q", log)
	}
	if v, err := m.Machine.Call(m.ctx, "jprobe_target_call_sum", 1); err != nil || v == 0 {
		t.Error(v, err)
	}
	jp.Kprobe.PostHandler = nil
	if err := m.Kprobes.UnregisterJprobe(jp); err != nil {
		t.Fatal(err)
	}
	panics := &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: "jprobe_target_sum"}, Handler: func(*kprobes.Hit) { panic("boom") }}
	if err := m.Kprobes.RegisterJprobe(panics); err != nil {
		t.Fatal(err)
	}
	if got := m.call("jprobe_target_call_sum", 10); got != 528 || !strings.Contains(dmesg(m.Kernel), "panicked and is disabled: boom") {
		t.Errorf("a handler that panics: %d, log %s", got, dmesg(m.Kernel))
	}
	for end := time.Now().Add(10 * time.Second); panics.Kprobe.State()&kprobes.FlagDisabled == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not disabled")
		}
	}
	wantErr(t, m.Kprobes.UnregisterJprobe(panics), 0) // waits until the disabling has finished
}

// TestJprobeCalls: each call on both vCPUs is a hit, and preempt_count is restored.
func TestJprobeCalls(t *testing.T) {
	const n = 5000
	m := bootJprobes(t, "2.6.32")
	var hits, after [2]uint64
	jp := &kprobes.Jprobe{
		Kprobe:  kprobes.Kprobe{SymbolName: "jprobe_target_sum", PostHandler: func(h *kprobes.Hit, _ uint64) { after[h.CPU]++ }},
		Handler: func(h *kprobes.Hit) { hits[h.CPU]++ },
	}
	if err := m.Kprobes.RegisterJprobe(jp); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	for cpu := range 2 {
		go func() {
			v, err := m.Machine.CallOn(m.ctx, cpu, m.addr("jprobe_target_call_sum"), n, 10)
			if err == nil && v != 528 {
				err = fmt.Errorf("%d", v)
			}
			done <- err
		}()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if hits != [2]uint64{n, n} || after != hits || jp.Kprobe.Missed() != 0 {
		t.Errorf("%d hits, %d post-handlers, missed %d", hits, after, jp.Kprobe.Missed())
	}
	pre := &kprobes.Kprobe{SymbolName: "int_sqrt", PreHandler: func(h *kprobes.Hit) int {
		if h.Preempt&abi.PreemptMask != 1 { // its own breakpoint's
			t.Errorf("preempt_count %#x", h.Preempt)
		}
		return 0
	}}
	if err := m.Kprobes.Register(pre); err != nil {
		t.Fatal(err)
	}
	m.call("int_sqrt", 100)
}

// TestJprobeErrors: probes that register_jprobe refuses.
func TestJprobeErrors(t *testing.T) {
	m := bootJprobes(t, "2.6.32")
	entry := m.addr("jprobe_target_sum_seen")
	handler := func(*kprobes.Hit) {}
	type place = kprobes.Kprobe
	for _, tc := range []struct {
		name string
		jp   *kprobes.Jprobe
		want error
	}{
		{"not the entry", &kprobes.Jprobe{Kprobe: place{SymbolName: "vfs_read", Offset: 5}, Entry: entry}, syscall.EINVAL},
		{"no handler", &kprobes.Jprobe{Kprobe: place{SymbolName: "vfs_read"}}, syscall.EINVAL},
		{"two handlers", &kprobes.Jprobe{Kprobe: place{SymbolName: "vfs_read"}, Entry: entry, Handler: handler}, syscall.EINVAL},
		{"a handler in data", &kprobes.Jprobe{Kprobe: place{SymbolName: "vfs_read"}, Entry: m.addr("jprobe_target_seen")}, syscall.EINVAL},
		{"an unknown function", &kprobes.Jprobe{Kprobe: place{SymbolName: "nofunc"}, Entry: entry}, syscall.ENOENT},
		{"symbol and address", &kprobes.Jprobe{Kprobe: place{SymbolName: "vfs_read", Addr: m.addr("vfs_read")}, Entry: entry}, syscall.EINVAL},
		{"__switch_to", &kprobes.Jprobe{Kprobe: place{SymbolName: "__switch_to"}, Handler: handler}, syscall.EINVAL},
		{"where jprobes end", &kprobes.Jprobe{Kprobe: place{SymbolName: "jprobe_return"}, Handler: handler}, syscall.EINVAL},
		{"kprobes' own code", &kprobes.Jprobe{Kprobe: place{SymbolName: "exc_int3"}, Handler: handler}, syscall.EINVAL},
		{"good", &kprobes.Jprobe{Kprobe: place{SymbolName: "vfs_read"}, Handler: handler}, nil},
		{"another one there", &kprobes.Jprobe{Kprobe: place{SymbolName: "vfs_read"}, Handler: handler}, syscall.EEXIST},
	} {
		if err := m.Kprobes.RegisterJprobe(tc.jp); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if _, err := m.Kprobes.JprobeEntry("nofunc"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("JPROBE_ENTRY(nofunc): %v", err)
	}
	for _, release := range []string{"4.15", "6.1"} {
		m := bootRelease(t, release)
		err := m.Kprobes.RegisterJprobe(&kprobes.Jprobe{Kprobe: place{SymbolName: "vfs_read"}, Handler: handler})
		if _, e := m.Kprobes.JprobeEntry("vfs_read"); !errors.Is(err, syscall.ENOSYS) || !errors.Is(e, syscall.ENOSYS) {
			t.Errorf("%s: %v, %v", release, err, e)
		}
	}
}

// TestJprobeBatch: register_jprobes registers all probes or none, unregister_jprobes
// clears the address of those that are not registered; enable_jprobe and
// disable_jprobe do the same as for kprobes.
func TestJprobeBatch(t *testing.T) {
	m := bootJprobes(t, "2.6.32")
	hits := 0
	named := func(names ...string) (jps []*kprobes.Jprobe) {
		for _, n := range names {
			jps = append(jps, &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: n}, Handler: func(*kprobes.Hit) { hits++ }})
		}
		return jps
	}
	jps := named("int_sqrt", "nofunc", "gcd")
	wantErr(t, m.Kprobes.RegisterJprobes(jps), syscall.ENOENT)
	if m.lines() != "" || jps[2].Kprobe.Addr != 0 {
		t.Errorf("a bad one: %q", m.lines())
	}
	wantErr(t, m.Kprobes.RegisterJprobes(nil), syscall.EINVAL)
	jps = named("int_sqrt", "gcd")
	wantErr(t, m.Kprobes.RegisterJprobes(jps), 0)
	m.call("int_sqrt", 9)
	wantErr(t, m.Kprobes.DisableJprobe(jps[0]), 0)
	if !strings.Contains(m.lines(), "j  int_sqrt+0x0    [DISABLED]\n") {
		t.Errorf("list %q", m.lines())
	}
	m.call("int_sqrt", 9)
	wantErr(t, m.Kprobes.EnableJprobe(jps[0]), 0)
	m.call("int_sqrt", 9)
	if hits != 2 {
		t.Errorf("%d hits", hits)
	}
	bad := named("gcd")[0]
	bad.Kprobe.Addr = m.addr("gcd")
	wantErr(t, m.Kprobes.UnregisterJprobes([]*kprobes.Jprobe{jps[0], bad, jps[1]}), 0)
	if m.lines() != "" || bad.Kprobe.Addr != 0 {
		t.Errorf("unregistered: %q, %#x", m.lines(), bad.Kprobe.Addr)
	}
	wantErr(t, m.Kprobes.EnableJprobe(jps[0]), syscall.EINVAL)
	wantErr(t, m.Kprobes.DisableJprobe(jps[0]), syscall.EINVAL)
	m.call("int_sqrt", 9)
	if hits != 2 {
		t.Errorf("%d hits", hits)
	}
}

// TestJprobeWithOtherProbes: a kprobe, a jprobe and a return probe are registered at the
// same function. The jprobe's handler runs last, in any order of registration.
func TestJprobeWithOtherProbes(t *testing.T) {
	m := bootJprobes(t, "2.6.32")
	var log []string
	say := func(s string) { log = append(log, s) }
	jp := &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, Handler: func(*kprobes.Hit) { say("j") }}
	wantErr(t, m.Kprobes.RegisterJprobe(jp), 0)
	p := &kprobes.Kprobe{
		SymbolName: "int_sqrt",
		PreHandler: func(*kprobes.Hit) int { say("k"); return 0 }, PostHandler: func(*kprobes.Hit, uint64) { say("post") },
	}
	wantErr(t, m.Kprobes.Register(p), 0)
	rp := &kprobes.Retprobe{
		Kprobe:       kprobes.Kprobe{SymbolName: "int_sqrt"},
		EntryHandler: func(*kprobes.Instance, *kprobes.Hit) int { say("entry"); return 0 },
		Handler: func(_ *kprobes.Instance, h *kprobes.Hit) int {
			say(fmt.Sprint("return ", h.Regs.ReturnValue()))
			return 0
		},
	}
	wantErr(t, m.Kprobes.RegisterRetprobe(rp), 0)
	if want := "r  int_sqrt+0x0    \nk  int_sqrt+0x0    \nj  int_sqrt+0x0    \n"; m.lines() != want {
		t.Errorf("list is %q", m.lines())
	}
	for range 2 {
		log = nil
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Errorf("int_sqrt(100) = %d", got)
		}
		if want := []string{"entry", "k", "j", "post", "return 10"}; !slices.Equal(log, want) {
			t.Errorf("handlers %q, want %q", log, want)
		}
	}
}

// TestJprobeReenter: a probe that is hit in the handler counts a miss, and its
// handlers do not run.
func TestJprobeReenter(t *testing.T) {
	m := bootJprobes(t, "2.6.32")
	m.set("jprobe_target_bad", m.addr("jprobe_target_seen"))
	hits := 0
	p := &kprobes.Kprobe{SymbolName: "jprobe_target_sum", PreHandler: func(*kprobes.Hit) int { hits++; return 0 }}
	wantErr(t, m.Kprobes.Register(p), 0)
	m.jprobe("jprobe_target_fold", "jprobe_target_faults")
	if got := m.call("jprobe_target_call", 1); got != 712345 {
		t.Errorf("jprobe_target_call(1) = %d", got)
	}
	if got := m.seen(); hits != 0 || p.Missed() != 1 || got[7] != 36 {
		t.Errorf("%d hits, %d missed, the handler got %d", hits, p.Missed(), got[7])
	}
}

func (m *machine) set(symbol string, v uint64) {
	m.t.Helper()
	if err := m.Machine.Mem().WriteU64(m.addr(symbol), v); err != nil {
		m.t.Fatal(err)
	}
}

// TestJprobeWithoutReturn: a handler that returns without jprobe_return ends the call. The
// log says so when the next probe is hit; the kernel goes on.
func TestJprobeWithoutReturn(t *testing.T) {
	m := bootJprobes(t, "2.6.32")
	jp := m.jprobe("jprobe_target_fold", "jprobe_target_forgets")
	if got := m.call("jprobe_target_call", 1); got != 4711 {
		t.Errorf("jprobe_target_call(1) = %d", got)
	}
	hits := 0
	p := &kprobes.Kprobe{SymbolName: "int_sqrt", PreHandler: func(h *kprobes.Hit) int { hits++; return 0 }}
	wantErr(t, m.Kprobes.Register(p), 0)
	for range 3 {
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Errorf("int_sqrt(100) = %d", got)
		}
	}
	if hits != 3 || !strings.Contains(dmesg(m.Kernel), "returned without jprobe_return()") {
		t.Errorf("%d hits, log %s", hits, dmesg(m.Kernel))
	}
	wantErr(t, m.Kprobes.UnregisterJprobe(jp), 0)
	if got := m.call("jprobe_target_call", 1); got != 712345 {
		t.Errorf("afterwards: %d", got)
	}
}

// TestJprobeFaults: a fault in the handler calls the fault handler, or ends the task.
func TestJprobeFaults(t *testing.T) {
	m := bootJprobes(t, "2.6.32")
	var nrs []int
	jp := &kprobes.Jprobe{
		Kprobe: kprobes.Kprobe{SymbolName: "jprobe_target_fold", FaultHandler: func(h *kprobes.Hit, nr int) int {
			nrs = append(nrs, nr)
			text := make([]byte, 16)
			if err := h.Mem.ReadAt(h.Regs.IP, text); err != nil {
				t.Error(err)
			}
			in, err := insn.Decode(text)
			if err != nil {
				t.Error(err)
			}
			h.Regs.IP += uint64(in.Len)
			return 1
		}},
		Entry: m.addr("jprobe_target_faults"),
	}
	wantErr(t, m.Kprobes.RegisterJprobe(jp), 0)
	for _, bad := range []uint64{0xffffc8fffffff000, 1 << 60} {
		m.set("jprobe_target_bad", bad)
		if got := m.call("jprobe_target_call", 1); got != 712345 {
			t.Errorf("jprobe_target_call(1) = %d", got)
		}
	}
	if want := []int{14, 13}; !slices.Equal(nrs, want) {
		t.Errorf("traps %v, want %v", nrs, want)
	}
}

// TestJprobeStack: 64 bytes of the stack are restored, or less at the stack's end.
func TestJprobeStack(t *testing.T) {
	w := newOldWorld(t, release.Linux2_6_32)
	w.Func(0x2000, "f", 0x90, 0xc3)
	jp := &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: "f"}, Handler: func(h *kprobes.Hit) {
		for at := h.Regs.SP; at < min(h.Regs.SP+2*kprobes.MaxStackSize, kprobetest.StackEnd); at += 8 {
			h.Store(at, ^uint64(0))
		}
	}}
	wantErr(t, w.k.RegisterJprobe(jp), 0)
	for _, sp := range []uint64{kprobetest.Stack + 0x2000, kprobetest.StackEnd - 24} {
		for at := sp; at < min(sp+2*kprobes.MaxStackSize, kprobetest.StackEnd); at += 8 {
			wantErr(t, w.WriteU64(at, at), 0)
		}
		tr := w.Trap(0, jp.Kprobe.Addr)
		tr.Regs.SP = sp
		before := *tr.Regs
		w.k.Int3(tr)
		if tr.Regs.Flags&abi.FlagIF != 0 {
			t.Errorf("the handler has interrupts on: %#x", tr.Regs.Flags)
		}
		for _, at := range []uint64{tr.Regs.IP, w.k.JprobeReturn()} {
			if tr.Regs.IP = at + 1; !w.k.Int3(tr) {
				t.Fatalf("the int3 at %#x was not handled", at)
			}
		}
		stepOnce(t, w, tr, 1)
		before.IP = jp.Kprobe.Addr + 1
		if *tr.Regs != before {
			t.Errorf("registers %+v, want %+v", *tr.Regs, before)
		}
		for at := sp; at < min(sp+2*kprobes.MaxStackSize, kprobetest.StackEnd); at += 8 {
			want := at
			if at >= sp+kprobes.MaxStackSize {
				want = ^uint64(0)
			}
			if v, err := w.ReadU64(at); err != nil || v != want {
				t.Errorf("the word at sp+%d is %#x (%v), want %#x", at-sp, v, err, want)
			}
		}
	}
}
