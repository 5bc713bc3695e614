package kprobes_test

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Tests of statements in the documents on kprobes that need a running kernel.
// docs/reference/coverage.md names the statements.

func (m *machine) register(p *kprobes.Kprobe) *kprobes.Kprobe {
	m.t.Helper()
	if err := m.Kprobes.Register(p); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { wantErr(m.t, m.Kprobes.Unregister(p), 0) })
	return p
}

func (m *machine) registerRet(rp *kprobes.Retprobe) *kprobes.Retprobe {
	m.t.Helper()
	if err := m.Kprobes.RegisterRetprobe(rp); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { wantErr(m.t, m.Kprobes.UnregisterRetprobe(rp), 0) })
	return rp
}

// TestContext: the context that handlers run in, as measured on Linux 6.1. After an
// int3 in_nmi is true and preempt_count 110000; otherwise only preemption is off.
func TestContext(t *testing.T) { onEachRelease(t, testContext) }

func testContext(t *testing.T, m *machine) {
	type context struct {
		ip              uint64 // relative to the probed address
		cs, ss, origAX  uint64
		preempt         uint32
		interruptsSaved bool // IF of the probed code's flags
	}
	const minus1 = ^uint64(0)
	of := func(h *kprobes.Hit) context {
		r := h.Regs
		return context{r.IP - h.Probe.Addr, r.CS, r.SS, r.OrigAX, h.Preempt, r.Flags&abi.FlagIF != 0}
	}
	inner, k := m.inside("int_sqrt"), m.Kprobes
	next := uint64(m.starts("int_sqrt")[slices.Index(m.starts("int_sqrt"), inner)+1])
	for _, tc := range []struct {
		name   string
		offset uint32
		jumps  bool
		pre    context
		post   context
	}{
		{"int3", inner, false, context{1, 0x10, 0x18, minus1, 0x110000, true}, context{cs: 0x10, ss: 0x18, origAX: minus1, preempt: 0x110000, interruptsSaved: true}},
		{"optimized", inner, true, context{1, 0x10, 0x18, minus1, 1, true}, context{}},
		{"ftrace", 0, true, context{1, 0x10, 0x18, 0, 1, true}, context{5, 0x10, 0x18, 0, 1, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m.t = t
			if tc.name == "int3" && !k.Has(release.Int3NMI) {
				tc.pre.preempt, tc.post.preempt = 1, 1
			}
			if !m.allow(tc.jumps) {
				return // 2.6 has breakpoints only
			}
			var pre, post context
			p := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: tc.offset, PreHandler: func(h *kprobes.Hit) int { pre = of(h); return 0 }}
			if tc.post != (context{}) {
				p.PostHandler = func(h *kprobes.Hit, flags uint64) {
					post = of(h)
					if flags != 0 {
						t.Errorf("flags %#x", flags)
					}
				}
			}
			m.register(p)
			m.settle()
			if got := m.call("int_sqrt", 100); got != 10 {
				t.Errorf("int_sqrt(100) is %d", got)
			}
			if tc.name == "int3" {
				tc.post.ip = next - uint64(inner)
			}
			if pre != tc.pre || post != tc.post {
				t.Errorf("pre  %+v\nwant %+v\npost %+v\nwant %+v", pre, tc.pre, post, tc.post)
			}
		})
	}
	t.Run("return", func(t *testing.T) {
		m.t = t
		var got context
		var ip, value, task uint64
		m.registerRet(&kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, Handler: func(ri *kprobes.Instance, h *kprobes.Hit) int {
			got, ip, value, task = of(h), ri.RetAddr, h.Regs.ReturnValue(), ri.Task-h.Task
			want := ri.RetAddr
			switch {
			case !k.Has(release.TrampolineCode):
				want = m.addr("kretprobe_trampoline") + 1
			case !k.Has(release.ReturnIP):
				want = m.addr("kretprobe_trampoline")
			}
			if h.Regs.IP != want || h.IRQsOff == k.Has(release.ReturnsIRQsOn) {
				t.Errorf("ip %#x, want %#x; interrupts off: %v", h.Regs.IP, want, h.IRQsOff)
			}
			return 1 // ignored
		}})
		if v := m.call("int_sqrt", 100); v != 10 || value != 10 || task != 0 {
			t.Errorf("int_sqrt(100) is %d, the handler saw %d", v, value)
		}
		if !m.Machine.Tables().KernelText(ip) || got.preempt&(abi.NMIOffset|abi.HardirqOffset) != 0 || got.preempt == 0 && !k.Has(release.TrampolineCode) || !got.interruptsSaved {
			t.Errorf("returned to %#x in %+v", ip, got)
		}
	})
}

// TestChangePathOfEach: if a pre-handler sets the instruction pointer and returns 1,
// execution continues there after int3 and ftrace hits, without single-step or
// post-handler. If the probe is optimized this has no effect, unless a post-handler
// or the sysctl suppresses optimization.
func TestChangePathOfEach(t *testing.T) { onEachRelease(t, testChangePathOfEach) }

func testChangePathOfEach(t *testing.T, m *machine) {
	inner := m.inside("int_sqrt")
	ret := m.addr("int_sqrt") // address of the ret
	for _, off := range m.starts("int_sqrt") {
		var b [1]byte
		if m.Machine.Read(m.addr("int_sqrt")+uint64(off), b[:]) == nil && b[0] == 0xc3 {
			ret += uint64(off)
			break
		}
	}
	for _, tc := range []struct {
		name   string
		offset uint32
		knob   bool
		post   bool
		want   uint64
	}{
		{"ftrace", 0, true, false, 42},
		{"ftrace, post", 0, true, true, 42},
		{"int3", inner, false, false, 42},
		{"int3, post", inner, true, true, 42},
		{"optimized", inner, true, false, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m.t = t
			if !m.allow(tc.knob) && tc.want == 10 {
				return // 2.6 has breakpoints only
			}
			posts := 0
			p := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: tc.offset, PreHandler: func(h *kprobes.Hit) int {
				h.Regs.IP = ret
				if tc.want == 42 {
					h.Regs.AX = 42
				}
				return 1
			}}
			if tc.post {
				p.PostHandler = func(*kprobes.Hit, uint64) { posts++ }
			}
			m.register(p)
			m.settle()
			if got := m.call("int_sqrt", 100); got != tc.want || posts != 0 {
				t.Errorf("int_sqrt(100) is %d, want %d; %d post-handlers", got, tc.want, posts)
			}
		})
	}
}

// TestConcurrentHandlers: a handler may run on several vCPUs at the same time.
func TestConcurrentHandlers(t *testing.T) { onEachRelease(t, testConcurrentHandlers) }

func testConcurrentHandlers(t *testing.T, m *machine) {
	var inside atomic.Int32
	met := [2]bool{}
	m.register(&kprobes.Kprobe{SymbolName: "int_pow", Offset: m.inside("int_pow"), PostHandler: func(*kprobes.Hit, uint64) {}, PreHandler: func(h *kprobes.Hit) int {
		inside.Add(1)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
			if inside.Load() >= 2 {
				met[h.CPU] = true
				break
			}
		}
		return 0
	}})
	done := make(chan error, 2)
	for cpu := range 2 {
		go func() { _, err := m.Machine.CallOn(m.ctx, cpu, m.addr("int_pow"), 1, 3, 4); done <- err }()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if met != [2]bool{true, true} {
		t.Errorf("handlers that ran at the same time as another: %v", met)
	}
}

// TestInterruptHandlers: probes in interrupt handlers are hit in hardirq context.
func TestInterruptHandlers(t *testing.T) { onEachRelease(t, testInterruptHandlers) }

func testInterruptHandlers(t *testing.T, m *machine) {
	var hits [2]atomic.Uint64
	var outside atomic.Uint64
	for i, name := range []string{"hrtimer_interrupt", "tick_sched_timer"} {
		m.register(&kprobes.Kprobe{SymbolName: name, PreHandler: func(h *kprobes.Hit) int {
			hits[i].Add(1)
			if h.Regs.Flags&abi.FlagIF != 0 || h.Preempt&0xf0000 == 0 { // preempt_count's hardirq bits
				outside.Add(1)
			}
			return 0
		}})
	}
	for range 20 {
		m.call("msleep", 1)
	}
	if hits[0].Load() == 0 || hits[1].Load() == 0 || outside.Load() != 0 {
		t.Errorf("%d and %d hits, %d outside of interrupts", hits[0].Load(), hits[1].Load(), outside.Load())
	}
}

// TestInlinedCopies: a probe changes only the named function, not copies of it that the
// compiler has inlined.
func TestInlinedCopies(t *testing.T) { onEachRelease(t, testInlinedCopies) }

func testInlinedCopies(t *testing.T, m *machine) {
	before := m.text()
	p := m.register(&kprobes.Kprobe{SymbolName: "int_pow"})
	after := m.text()
	at := p.Addr - m.Machine.Image().Text.Start
	if !bytes.Equal(before[:at], after[:at]) || !bytes.Equal(before[at+5:], after[at+5:]) || bytes.Equal(before, after) {
		t.Error("text was changed at another place, or not at all")
	}
}

// TestBacktrace: while a hooked call runs, the return address on its stack is
// the trampoline's.
func TestBacktrace(t *testing.T) { onEachRelease(t, testBacktrace) }

func testBacktrace(t *testing.T, m *machine) {
	m.registerRet(&kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}})
	var seen uint64
	m.register(&kprobes.Kprobe{SymbolName: "int_sqrt", Offset: m.inside("int_sqrt"), PreHandler: func(h *kprobes.Hit) int {
		seen, _ = h.Mem.ReadU64(h.Regs.SP)
		return 0
	}})
	trampoline := "arch_rethook_trampoline"
	if !m.Kprobes.Has(release.TrampolineCode) || !m.Kprobes.Has(release.ReturnIP) {
		trampoline = "kretprobe_trampoline"
	}
	if got := m.call("int_sqrt", 100); got != 10 || seen != m.addr(trampoline) {
		t.Errorf("int_sqrt(100) is %d and returns to %#x", got, seen)
	}
}

// TestInstances: the entry and return handlers of a call share an instance's data,
// with calls on both vCPUs. Calls beyond maxactive are counted as missed and the
// entry handler is not called.
func TestInstances(t *testing.T) { onEachRelease(t, testInstances) }

func testInstances(t *testing.T, m *machine) {
	const n = 2000
	var returns, wrong atomic.Uint64
	rp := m.registerRet(&kprobes.Retprobe{
		Kprobe: kprobes.Kprobe{SymbolName: "int_sqrt"}, DataSize: 1,
		EntryHandler: func(ri *kprobes.Instance, h *kprobes.Hit) int {
			ri.Data[0] = byte(h.Regs.DI / 100)
			return int(h.Regs.DI & 1) // odd arguments are not hooked
		},
		Handler: func(ri *kprobes.Instance, h *kprobes.Hit) int {
			returns.Add(1)
			if uint64(ri.Data[0])*100 != h.Regs.ReturnValue()*h.Regs.ReturnValue() || ri.Retprobe.DataSize != 1 {
				wrong.Add(1)
			}
			return 0
		},
	})
	done := make(chan error, 2)
	for cpu, arg := range []uint64{100, 10000} {
		go func() {
			_, err1 := m.Machine.CallOn(m.ctx, cpu, m.addr("int_sqrt"), n, arg)
			_, err2 := m.Machine.CallOn(m.ctx, cpu, m.addr("int_sqrt"), n, 121)
			done <- errors.Join(err1, err2)
		}()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if returns.Load() != 2*n || wrong.Load() != 0 || rp.Missed() != 0 {
		t.Errorf("%d returns, %d with another's data, %d missed", returns.Load(), wrong.Load(), rp.Missed())
	}

	var entered atomic.Uint64
	sleeper := m.registerRet(&kprobes.Retprobe{
		Kprobe: kprobes.Kprobe{SymbolName: "msleep"}, MaxActive: 1,
		EntryHandler: func(*kprobes.Instance, *kprobes.Hit) int { entered.Add(1); return 0 },
	})
	for cpu := range 2 {
		go func() { _, err := m.Machine.CallOn(m.ctx, cpu, m.addr("msleep"), 1, 200); done <- err }()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if entered.Load() != 1 || sleeper.Missed() != 1 || sleeper.Kprobe.Missed() != 0 {
		t.Errorf("two sleepers: %d entered, %d missed", entered.Load(), sleeper.Missed())
	}
}

// TestRetprobeSwitches: handlers of a return probe run only while it is enabled and
// kprobes/enabled is 1.
func TestRetprobeSwitches(t *testing.T) { onEachRelease(t, testRetprobeSwitches) }

func testRetprobeSwitches(t *testing.T, m *machine) {
	var returns int
	rp := m.registerRet(&kprobes.Retprobe{
		Kprobe:  kprobes.Kprobe{SymbolName: "int_sqrt", Flags: kprobes.FlagDisabled},
		Handler: func(*kprobes.Instance, *kprobes.Hit) int { returns++; return 0 },
	})
	for _, tc := range []struct {
		what string
		do   func() error
		more int
	}{
		{"registered disabled", func() error { return nil }, 0},
		{"enabled", func() error { return m.Kprobes.EnableRetprobe(rp) }, 1},
		{"all off", func() error { return m.Kprobes.SetEnabled(false) }, 0},
		{"all on", func() error { return m.Kprobes.SetEnabled(true) }, 1},
		{"disabled", func() error { return m.Kprobes.DisableRetprobe(rp) }, 0},
		{"all off and on while disabled", func() error { return errors.Join(m.Kprobes.SetEnabled(false), m.Kprobes.SetEnabled(true)) }, 0},
	} {
		before := returns
		if err := tc.do(); err != nil {
			t.Fatal(err)
		}
		if got := m.call("int_sqrt", 100); got != 10 || returns-before != tc.more {
			t.Errorf("%s: int_sqrt(100) is %d, %d returns seen, want %d", tc.what, got, returns-before, tc.more)
		}
	}
}

// TestBadAddresses: addresses of a running kernel that cannot be probed.
func TestBadAddresses(t *testing.T) {
	m := boot(t)
	text := m.Machine.Image().Text
	padding := uint64(0)
	for _, s := range m.Machine.Symbols().All() { // after a function, before the next
		var b [1]byte
		if s.Size%16 != 0 && s.Type == 'T' && m.Machine.Read(s.Addr+s.Size, b[:]) == nil && b[0] == 0xcc {
			padding = s.Addr + s.Size
			break
		}
	}
	for _, tc := range []struct {
		name string
		p    *kprobes.Kprobe
		want []syscall.Errno
	}{
		{"neither", &kprobes.Kprobe{}, []syscall.Errno{syscall.EINVAL}},
		{"both", &kprobes.Kprobe{Addr: text.Start, SymbolName: "int_sqrt"}, []syscall.Errno{syscall.EINVAL}},
		{"user", &kprobes.Kprobe{Addr: abi.UserBase}, []syscall.Errno{syscall.ENOENT}},
		{"1", &kprobes.Kprobe{Addr: 1}, []syscall.Errno{syscall.ENOENT}},
		{"-1", &kprobes.Kprobe{Addr: 1<<64 - 1}, []syscall.Errno{syscall.ENOENT}},
		{"data", &kprobes.Kprobe{SymbolName: "jiffies"}, []syscall.Errno{syscall.EINVAL}},
		{"rodata", &kprobes.Kprobe{SymbolName: "linux_banner"}, []syscall.Errno{syscall.EINVAL}},
		{"direct map", &kprobes.Kprobe{Addr: abi.DirectMap + 0x1000000}, []syscall.Errno{syscall.ENOENT, syscall.EINVAL}},
		{"instruction slots", &kprobes.Kprobe{Addr: abi.ModulesBase}, []syscall.Errno{syscall.ENOENT, syscall.EINVAL}},
		{"_etext", &kprobes.Kprobe{SymbolName: "_etext"}, []syscall.Errno{syscall.EINVAL}},
		{"padding", &kprobes.Kprobe{Addr: padding}, []syscall.Errno{syscall.EINVAL, syscall.EILSEQ}},
		{"inside an instruction", &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 1}, []syscall.Errno{syscall.EILSEQ}},
		{"far offset", &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 1<<31 - 1}, []syscall.Errno{syscall.ENOENT}},
		{"exc_int3", &kprobes.Kprobe{SymbolName: "exc_int3"}, []syscall.Errno{syscall.EINVAL}},
		{"exc_page_fault", &kprobes.Kprobe{SymbolName: "exc_page_fault"}, []syscall.Errno{syscall.EINVAL}},
		{"do_user_addr_fault", &kprobes.Kprobe{SymbolName: "do_user_addr_fault"}, []syscall.Errno{syscall.EINVAL}},
		{"kprobe_int3_handler", &kprobes.Kprobe{SymbolName: "kprobe_int3_handler"}, []syscall.Errno{syscall.EINVAL}},
		{"optimized_callback", &kprobes.Kprobe{SymbolName: "optimized_callback"}, []syscall.Errno{syscall.EINVAL}},
		{"notifier_call_chain", &kprobes.Kprobe{SymbolName: "notifier_call_chain"}, []syscall.Errno{syscall.EINVAL}},
	} {
		err := m.Kprobes.Register(tc.p)
		if !slices.ContainsFunc(tc.want, func(e syscall.Errno) bool { return errors.Is(err, e) }) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if n := len(m.Kprobes.Points()); n != 0 {
		t.Errorf("%d points are left", n)
	}
	wantErr(t, m.Kprobes.RegisterRetprobe(&kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "__switch_to"}}), syscall.EINVAL)
}

// TestPanicOnMachine: if a handler panics on a vCPU, its probe is disabled and the
// kernel goes on.
func TestPanicOnMachine(t *testing.T) { onEachRelease(t, testPanicOnMachine) }

func testPanicOnMachine(t *testing.T, m *machine) {
	var hits atomic.Uint64
	p := m.register(&kprobes.Kprobe{SymbolName: "int_sqrt", PreHandler: func(h *kprobes.Hit) int {
		hits.Add(1)
		return new([2]int)[h.CPU+2]
	}})
	for range 3 {
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Fatalf("int_sqrt(100) is %d", got)
		}
	}
	for end := time.Now().Add(10 * time.Second); p.State()&kprobes.FlagDisabled == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if hits.Load() != 1 || p.State()&kprobes.FlagDisabled == 0 || !bytes.Contains([]byte(dmesg(m.Kernel)), []byte("panicked")) {
		t.Errorf("%d hits, flags %#x, log\n%s", hits.Load(), p.State(), dmesg(m.Kernel))
	}
}

// soaking reports whether this is the long run, "make soak".
func soaking() bool { return os.Getenv("KPROBEFS_SOAK") != "" }

// manyLimit is the time allowed for registering or unregistering manyProbes. Usually
// a probe takes 0.2 ms: 20 s for all of them with a load of 14 on two CPUs. If each
// registration walked a list of all probes, it would take a millisecond and more.
const manyLimit = 2 * time.Minute

// Test100000: 100,000 probes at once, on all instructions that can be probed.
func Test100000(t *testing.T) {
	const total = manyProbes
	m := boot(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	ps := m.everywhere(total)
	if len(ps) < total {
		t.Fatalf("%d probes", len(ps))
	}
	took := time.Since(start)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (after.HeapAlloc - before.HeapAlloc) / uint64(total)
	if got := m.call("int_sqrt", 100); got != 10 {
		t.Errorf("int_sqrt(100) is %d", got)
	}
	start = time.Now()
	wantErr(t, m.Kprobes.UnregisterAll(ps), 0)
	t.Logf("%d probes: registered in %v, unregistered in %v, %d bytes each", total, took, time.Since(start), each)
	if unregistered := time.Since(start); took > manyLimit || unregistered > manyLimit || each > 4096 {
		t.Errorf("registered in %v, unregistered in %v, %d bytes each: that is too much", took, unregistered, each)
	}
	m.settle()
	if n := len(m.Kprobes.Points()); n != 0 {
		t.Errorf("%d points are left", n)
	}
	if got := m.call("int_sqrt", 100); got != 10 {
		t.Errorf("afterwards int_sqrt(100) is %d", got)
	}
}

// everywhere registers n probes on consecutive instructions of the guest's text,
// starting over at its end.
func (m *machine) everywhere(n int) []*kprobes.Kprobe {
	var ps []*kprobes.Kprobe
	for len(ps) < n {
		had := len(ps)
		for _, s := range m.Machine.Symbols().All() {
			if s.Type != 'T' || s.Size == 0 {
				continue
			}
			ps = m.probeAll(ps, s, n)
		}
		if len(ps) == had {
			break
		}
	}
	return ps
}

// probeAll registers probes on all instructions of a function, until there are n
// probes.
func (m *machine) probeAll(ps []*kprobes.Kprobe, s abi.Symbol, n int) []*kprobes.Kprobe {
	text := make([]byte, s.Size)
	err := m.Kprobes.Original(s.Addr, text)
	if err != nil {
		return ps
	}
	for off := 0; off < len(text) && len(ps) < n; {
		in, err := insn.Decode(text[off:])
		if err != nil {
			break
		}
		p := &kprobes.Kprobe{Addr: s.Addr, Offset: uint32(off)}
		if m.Kprobes.Register(p) == nil {
			ps = append(ps, p)
		}
		off += in.Len
	}
	return ps
}
