package kprobefs_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
)

// caller calls the guest's functions that register probes. Handlers belong to the
// module kprobe_handlers.
type caller struct {
	*kprobefs.Kernel
	t *testing.T
}

func newCaller(t *testing.T) *caller { return newCallerOn(t, kprobefs.DefaultRelease) }

func newCallerOn(t *testing.T, rel string) *caller {
	t.Helper()
	r, err := kprobefs.ParseRelease(rel)
	if err != nil {
		t.Fatal(err)
	}
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2, Release: r, Config: r.Config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	load(t, s, moduleFor(rel, "kprobe_handlers"))
	return &caller{s, t}
}

// onEachCaller runs a test on each release.
func onEachCaller(t *testing.T, test func(t *testing.T, c *caller)) {
	for _, rel := range kprobefs.ReleaseNames() {
		t.Run(rel, func(t *testing.T) { test(t, newCallerOn(t, rel)) })
	}
}

// inside returns the offset of a function's first instruction after endbr64 and the
// fentry site.
func (c *caller) inside(name string) uint64 {
	const site = 5
	for _, at := range c.Machine.Image().Mcount {
		if sym, off, _ := c.Machine.Symbols().Lookup(at); sym.Name == name {
			return off + site
		}
	}
	c.t.Fatalf("%s has no fentry site", name)
	return 0
}

// call calls a guest function and returns its int result.
func (c *caller) call(name string, args ...uint64) int64 {
	c.t.Helper()
	v, err := c.Machine.Call(context.Background(), name, args...)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	return int64(int32(v))
}

// does calls a guest function and checks that it returns -want.
func (c *caller) does(want syscall.Errno, name string, args ...uint64) {
	c.t.Helper()
	if got := c.call(name, args...); got != -int64(want) {
		c.t.Errorf("%s: %d, want %d", name, got, -int64(want))
	}
}

// dies calls a guest function, which must end its task with an oops.
func (c *caller) dies(name string, args ...uint64) {
	c.t.Helper()
	if v, err := c.Machine.Call(context.Background(), name, args...); !errors.Is(err, syscall.EIO) {
		c.t.Errorf("%s: %d, %v, want the task's death", name, int32(v), err)
	}
}

func (c *caller) symbol(name string) uint64 {
	c.t.Helper()
	syms := c.Machine.Symbols().LookupName(name)
	if len(syms) == 0 {
		c.t.Fatalf("no symbol %s", name)
	}
	return syms[0].Addr
}

func (c *caller) alloc(n int) uint64 {
	v, err := c.Machine.Call(context.Background(), "__kmalloc", uint64(n), 0xdc0) // GFP_KERNEL | __GFP_ZERO
	if err != nil || v == 0 {
		c.t.Fatal(v, err)
	}
	return v
}

func (c *caller) get(at uint64) uint64 {
	c.t.Helper()
	v, err := c.Machine.Mem().ReadU64(at)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

func (c *caller) get32(at uint64) uint32 { return uint32(c.get(at&^7) >> (8 * (at & 7))) }

func (c *caller) put(at, v uint64) {
	c.t.Helper()
	if err := c.Machine.Mem().WriteU64(at, v); err != nil {
		c.t.Fatal(err)
	}
}

// Offsets in struct kprobe and struct kretprobe of 6.1, bytes.
const (
	kpMissed, kpAddr, kpSymbol, kpOffset, kpPre, kpPost, kpFlags = 32, 40, 48, 56, 64, 72, 120
	rpHandler, rpEntry, rpMaxActive, rpMissed, rpDataSize        = 128, 136, 144, 148, 152
)

// kprobe allocates and fills a struct kprobe, with space for a struct kretprobe.
func (c *caller) kprobe(symbol string, offset uint64, pre, post string) uint64 {
	c.t.Helper()
	at, name := c.alloc(168), c.alloc(64)
	if err := c.Machine.Mem().WriteAt(name, append([]byte(symbol), 0)); err != nil {
		c.t.Fatal(err)
	}
	c.put(at+kpSymbol, name)
	c.put(at+kpOffset, offset)
	for off, f := range map[uint64]string{kpPre: pre, kpPost: post} {
		if f != "" {
			c.put(at+off, c.symbol("kprobe_handlers_"+f))
		}
	}
	return at
}

func (c *caller) kretprobe(symbol string, maxactive, size uint64) uint64 {
	at := c.kprobe(symbol, 0, "", "")
	c.put(at+rpHandler, c.symbol("kprobe_handlers_ret"))
	c.put(at+rpEntry, c.symbol("kprobe_handlers_entry"))
	c.put(at+rpMaxActive, maxactive)
	c.put(at+rpDataSize, size)
	return at
}

// seen is the module's struct seen.
type seen struct {
	Pre, Post, Entry, Ret        uint64
	IP, Flags, Preempt, P        uint64
	Frame, Missed, Task, IRQsOff uint64
	ErrOrNil                     uint64
}

func (c *caller) seen() (s seen) {
	b := make([]byte, binary.Size(s))
	if err := c.Machine.Mem().ReadAt(c.symbol("kprobe_handlers_seen"), b); err != nil {
		c.t.Fatal(err)
	}
	_, err := binary.Decode(b, binary.LittleEndian, &s)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// TestGuestHandlers: probes registered by guest code call its handlers with their
// struct and the registers, for each way of arming, and the handlers' changes take
// effect.
func TestGuestHandlers(t *testing.T) {
	c := newCaller(t)
	sqrt := c.symbol("int_sqrt")
	next := c.symbol("int_sqrt") + uint64(5)
	for _, tc := range []struct {
		name    string
		offset  uint64
		post    string
		jumps   bool
		preempt uint64
		irqsOff uint64
		flag    string
	}{
		{"ftrace", 0, "post", true, 1, 0, "[FTRACE]"},
		{"int3", 5, "post", false, 0x110000, 1, ""},
		{"jump", 5, "", true, 1, 0, "[OPTIMIZED]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c.t = t
			c.Kprobes.SetOptimization(tc.jumps)
			before := c.seen()
			p := c.kprobe("int_sqrt", tc.offset, "pre", tc.post)
			c.does(0, "register_kprobe", p)
			c.Kprobes.WaitOptimizer()
			if got := list(c.Kernel); !strings.Contains(got, fmt.Sprintf("int_sqrt+0x%x", tc.offset)) || !strings.Contains(got, tc.flag) {
				t.Errorf("list has %q", got)
			}
			if got := c.call("int_sqrt", 100); got != 10 {
				t.Errorf("int_sqrt(100) is %d", got)
			}
			s := c.seen()
			posts := uint64(len(tc.post) / len("post"))
			ip := sqrt + tc.offset + 1
			if posts == 1 && tc.offset == 0 {
				ip = next
			} else if posts == 1 {
				ip = s.IP // address of the next instruction
			}
			if s.Pre != before.Pre+1 || s.Post != before.Post+posts || s.P != p || s.IP != ip || s.Preempt != tc.preempt || s.IRQsOff != tc.irqsOff || s.Flags != 0 {
				t.Errorf("saw %+v, before %+v; ip %#x, want %#x", s, before, s.IP, ip)
			}
			if got := c.get(p + kpAddr); got != sqrt+tc.offset {
				t.Errorf("addr %#x", got)
			}
			c.does(0, "disable_kprobe", p)
			c.call("int_sqrt", 100)
			if f := c.get32(p + kpFlags); f&2 == 0 || c.seen().Pre != s.Pre {
				t.Errorf("disabled: flags %#x, %d hits", f, c.seen().Pre-s.Pre)
			}
			c.does(0, "enable_kprobe", p)
			c.call("int_sqrt", 100)
			if f := c.get32(p + kpFlags); f&2 != 0 || c.seen().Pre != s.Pre+1 {
				t.Errorf("enabled: flags %#x, %d hits", f, c.seen().Pre-s.Pre)
			}
			c.does(syscall.EINVAL, "register_kprobe", p) // symbol and address
			c.call("unregister_kprobe", p)
			if got := c.get(p + kpAddr); got != sqrt+tc.offset || list(c.Kernel) != "" {
				t.Errorf("unregistered: addr %#x, list %q", got, list(c.Kernel))
			}
			c.does(syscall.EINVAL, "enable_kprobe", p)
			c.does(syscall.EINVAL, "disable_kprobe", p)
			c.call("unregister_kprobe", p)
			if got := c.get(p + kpAddr); got != 0 {
				t.Errorf("unregistered twice: addr %#x", got)
			}
		})
	}
}

// TestGuestHandlersChange: handlers change registers and the instruction pointer.
func TestGuestHandlersChange(t *testing.T) { onEachCaller(t, testGuestHandlersChange) }

func testGuestHandlersChange(t *testing.T, c *caller) {
	for _, tc := range []struct {
		handler string
		offset  uint64
		want    int64
	}{
		{"change", 0, 7},
		{"change", c.inside("int_sqrt"), 7},
		{"skip", c.inside("int_sqrt"), 42},
	} {
		p := c.kprobe("int_sqrt", tc.offset, tc.handler, "post") // the post-handler prevents optimization
		c.does(0, "register_kprobe", p)
		posts := c.seen().Post
		if got := c.call("int_sqrt", 100); got != tc.want {
			t.Errorf("%s at +%d: int_sqrt(100) is %d, want %d", tc.handler, tc.offset, got, tc.want)
		}
		if got := c.seen().Post - posts; (got == 1) != (tc.handler == "change") {
			t.Errorf("%s: %d post-handlers", tc.handler, got)
		}
		c.call("unregister_kprobe", p)
	}
}

// TestGuestHandlersNest: a probe on a function that a handler calls counts a miss. A
// handler cannot wait for a registration.
func TestGuestHandlersNest(t *testing.T) { onEachCaller(t, testGuestHandlersNest) }

func testGuestHandlersNest(t *testing.T, c *caller) {
	for _, offset := range []uint64{0, c.inside("int_sqrt")} {
		inner := c.kprobe("int_sqrt", offset, "pre", "post")
		ret := c.kretprobe("int_sqrt", 1, 8)
		outer := c.kprobe("gcd", offset, "nest", "")
		for _, p := range []uint64{inner, outer} {
			c.does(0, "register_kprobe", p)
		}
		c.does(0, "register_kretprobe", ret)
		before := c.seen()
		if got := c.call("gcd", 12, 18); got != 6 {
			t.Errorf("gcd(12, 18) is %d", got)
		}
		s := c.seen()
		if s.Pre != before.Pre+1 || s.Post != before.Post || s.Entry != before.Entry || s.Ret != before.Ret || s.Frame != 12 || int32(s.ErrOrNil) != -int32(syscall.EDEADLK) {
			t.Errorf("+%d: saw %+v, before %+v", offset, s, before)
		}
		if got := c.call("int_sqrt", 100); got != 10+100*1000 {
			t.Errorf("int_sqrt(100) with a return probe is %d", got)
		}
		if s := c.seen(); s.Missed != 1 || s.Entry != before.Entry+1 || s.Ret != before.Ret+1 {
			t.Errorf("+%d: nmissed %d, %+v", offset, s.Missed, s)
		}
		for _, p := range []uint64{inner, outer} {
			c.call("unregister_kprobe", p)
		}
		c.call("unregister_kretprobe", ret)
		if n, m := c.get(inner+kpMissed), c.get32(ret+rpMissed); n != 1 || m != 0 || c.get(ret+kpMissed) != 1 {
			t.Errorf("nmissed %d, of the return probe %d and %d", n, c.get(ret+kpMissed), m)
		}
	}
	if got := list(c.Kernel); got != "" {
		t.Errorf("list has %q", got)
	}
}

// TestGuestRetprobe: entry and return handlers in guest code get an instance. Except
// on 5.10, and up to 2.6.32, they run with interrupts on, and with preemption off.
func TestGuestRetprobe(t *testing.T) {
	for _, rel := range kprobefs.ReleaseNames() {
		t.Run(rel, func(t *testing.T) { testGuestRetprobe(t, rel) })
	}
}

func testGuestRetprobe(t *testing.T, rel string) {
	c := newCallerOn(t, rel)
	room := map[bool]uint32{false: 2, true: 10}[c.Kprobes.Has(release.MaxActiveTwicePerCPU)]
	load(t, c.Kernel, moduleFor(rel, "kprobe_target"))
	p := c.kretprobe("int_sqrt", 0, 8)
	c.does(0, "register_kretprobe", p)
	if got := c.get32(p + rpMaxActive); got != room {
		t.Errorf("maxactive is %d", got)
	}
	if got := c.call("int_sqrt", 144); got != 12+144*1000 {
		t.Errorf("int_sqrt(144) is %d", got)
	}
	s := c.seen()
	ip, off := s.Flags, uint64(0) // Flags is the return address
	if !c.Kprobes.Has(release.TrampolineCode) {
		ip = c.symbol("kretprobe_trampoline") + 1
	}
	if !c.Kprobes.Has(release.ReturnsOutsideTrap) {
		off = 1
	}
	if !c.Kprobes.Has(release.ReturnsIRQsOn) {
		ip, off = c.symbol("kretprobe_trampoline"), 1
	}
	if s.Entry != 1 || s.Ret != 1 || s.P != p || s.IP != ip || s.Frame != 0 || s.Flags < abi.TextBase || s.Preempt != 1 || s.IRQsOff != off {
		t.Errorf("saw %+v, want ip %#x", s, ip)
	}
	if got := c.call("int_sqrt", 7); got != 2 || c.seen().Entry != 2 || c.seen().Ret != 1 {
		t.Errorf("not hooked: %d, %+v", got, c.seen())
	}
	c.does(0, "disable_kprobe", p)
	c.does(0, "enable_kprobe", p)
	c.does(syscall.EINVAL, "register_kretprobe", p)
	c.call("unregister_kretprobe", p)
	c.call("unregister_kretprobe", p)
	if got := c.get(p + kpAddr); got != 0 {
		t.Errorf("unregistered twice: addr %#x", got)
	}

	deep := c.kretprobe("kprobe_target_fact", 3, 0x10)
	c.does(0, "register_kretprobe", deep)
	before := c.seen()
	// fact(6): the calls with 6, 5 and 4 are hooked, and 1000 times the argument is
	// added to their results.
	if got, want := c.call("kprobe_target_fact", 6), int64(6*(5*(4*6+4000)+5000)+6000); got != want {
		t.Errorf("fact(6) is %d, want %d", got, want)
	}
	c.call("unregister_kretprobe", deep)
	if s := c.seen(); s.Entry != before.Entry+3 || s.Ret != before.Ret+3 || c.get32(deep+rpMissed) != 3 {
		t.Errorf("saw %+v, missed %d", s, c.get32(deep+rpMissed))
	}
	big := c.kretprobe("int_sqrt", 1, 4097)
	c.does(syscall.E2BIG, "register_kretprobe", big)
	c.does(syscall.EINVAL, "register_kretprobe", c.kretprobe("__switch_to", 1, 0))
}

// TestGuestBatch: all probes are registered or none, unregistering clears the address
// of those that are not registered. register_kprobe reads what it is given, so a task that
// gives it a bad pointer dies, as on Linux, and nothing else happens.
func TestGuestBatch(t *testing.T) { onEachCaller(t, testGuestBatch) }

func testGuestBatch(t *testing.T, c *caller) {
	array := func(ps ...uint64) uint64 {
		at := c.alloc(8 * len(ps))
		for i, p := range ps {
			c.put(at+8*uint64(i), p)
		}
		return at
	}
	one, two, bad := c.kprobe("int_sqrt", 0, "pre", ""), c.kprobe("int_pow", c.inside("int_pow"), "pre", ""), c.kprobe("nofunc", 0, "pre", "")
	c.does(syscall.ENOENT, "register_kprobes", array(one, bad, two), 3)
	if got := list(c.Kernel); got != "" || c.get(one+kpAddr) == 0 || c.get(two+kpAddr) != 0 {
		t.Errorf("list has %q", got)
	}
	c.does(syscall.EINVAL, "register_kprobes", array(one), 0)
	for _, p := range []uint64{one, two} {
		c.put(p+kpAddr, 0)
	}
	c.does(0, "register_kprobes", array(one, two), 2)
	c.put(bad+kpAddr, 1)
	c.call("unregister_kprobes", array(one, bad, two), 3)
	if got := list(c.Kernel); got != "" || c.get(bad+kpAddr) != 0 || c.get(one+kpAddr) == 0 {
		t.Errorf("list has %q", got)
	}
	r1, r2 := c.kretprobe("int_sqrt", 0, 8), c.kretprobe("int_pow", 0, 8)
	c.does(0, "register_kretprobes", array(r1, r2), 2)
	if got := strings.Count(list(c.Kernel), "  r  "); got != 2 {
		t.Errorf("%d return probes", got)
	}
	c.call("unregister_kretprobes", array(r1, r2), 2)
	c.dies("register_kprobe", 1<<47)
	c.dies("register_kprobe", 0)
	c.does(syscall.EINVAL, "enable_kprobe", 12345)
	wild := c.kprobe("int_sqrt", 0, "pre", "")
	c.put(wild+kpSymbol, 8)
	c.dies("register_kprobe", wild)
	if got := list(c.Kernel); got != "" {
		t.Errorf("list has %q", got)
	}
}

// TestGuestHandlerSpins: a handler that does not return is aborted, its probe is
// disabled, and the kernel goes on.
func TestGuestHandlerSpins(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as a handler may run")
	}
	c := newCaller(t)
	p := c.kprobe("int_sqrt", c.inside("int_sqrt"), "spin", "post")
	c.does(0, "register_kprobe", p)
	for range 2 {
		if got := c.call("int_sqrt", 100); got != 10 {
			t.Errorf("int_sqrt(100) is %d", got)
		}
	}
	if s := c.seen(); s.Pre != 1 || s.Post != 0 {
		t.Errorf("saw %+v", s)
	}
	c.call("unregister_kprobe", p)
}

// TestGuestHandlerDies: a handler at an fentry site or at a return that faults ends its
// task. The others go on; the CPU keeps the probe as its current one, so that hits there
// are missed (integration's scripts deaths are the same on Linux).
func TestGuestHandlerDies(t *testing.T) {
	for _, place := range []string{"entry", "return"} {
		t.Run(place, func(t *testing.T) {
			c := newCaller(t)
			var p uint64
			if place == "return" {
				p = c.kretprobe("int_sqrt", 4, 0)
				c.put(p+rpHandler, c.symbol("kprobe_handlers_fault"))
				c.does(0, "register_kretprobe", p)
			} else {
				p = c.kprobe("int_sqrt", 0, "fault", "post")
				c.does(0, "register_kprobe", p)
			}
			if _, err := c.Machine.Call(context.Background(), "int_sqrt", 100); !errors.Is(err, host.ErrDied) {
				t.Errorf("the call whose task dies: %v", err)
			}
			for range 2 {
				if got := c.call("int_sqrt", 100); got != 10 {
					t.Errorf("int_sqrt(100) is %d", got)
				}
			}
			if got := c.get(p + kpMissed); got != 2 {
				t.Errorf("%d hits missed after that, want 2", got)
			}
			if s := c.seen(); s.Post != 0 || list(c.Kernel) == "" {
				t.Errorf("saw %+v; listed is %q", s, list(c.Kernel))
			}
			log := strings.Join(says(c.Kernel, ""), "\n")
			for _, want := range []string{"BUG: kernel NULL pointer dereference", "RIP: 0010:kprobe_handlers_fault+", " exited with preempt_count 1"} {
				if !strings.Contains(log, want) {
					t.Errorf("no %q in the log:\n%s", want, log)
				}
			}
			if got := c.Machine.Panic(); got != "" {
				t.Errorf("panic %q", got)
			}
			c.Machine.SynchronizeRCU()
			if place == "return" {
				c.call("unregister_kretprobe", p)
			} else {
				c.call("unregister_kprobe", p)
			}
			if got := list(c.Kernel); got != "" {
				t.Errorf("listed is %q", got)
			}
		})
	}
}

// TestGuestHandlerFaults: a handler that faults inside a breakpoint makes the machine
// panic, as an oops in an interrupt does. The machine can be closed then.
func TestGuestHandlerFaults(t *testing.T) {
	const place = 5
	c := newCaller(t)
	c.does(0, "register_kprobe", c.kprobe("int_sqrt", place, "fault", "post"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		<-c.Machine.Died()
		cancel()
	}()
	_, _ = c.Machine.Call(ctx, "int_sqrt", 100) // it may return as if there were no probe
	<-ctx.Done()
	if got := c.Machine.Panic(); !strings.Contains(got, "Fatal exception in interrupt") {
		t.Errorf("panic %q", got)
	}
	if got := strings.Join(says(c.Kernel, "BUG: "), "\n"); !strings.Contains(got, "RIP: 0010:kprobe_handlers_fault+") {
		t.Errorf("the log has %q", got)
	}
	var words []string
	for _, r := range c.Machine.PanicLog() {
		words = append(words, r.Text)
	}
	text := strings.Join(words, "\n")
	for _, want := range []string{" Comm: ", "Call Trace:\n", "\n int_sqrt+", "\nKernel panic - not syncing: Fatal exception in interrupt", "\n---[ end Kernel panic - not syncing: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the log:\n%s", want, text)
		}
	}
	c.Machine.SynchronizeRCU() // returns, since no task runs any more
	if !standsStill(c.Machine) {
		t.Error("the dead machine still executes instructions")
	}
}

// standsStill reports whether the machine stops executing. Instructions that were
// executed before it died are counted a moment later, when the vCPUs leave Run. A
// machine that goes on executes some million instructions in each pause.
func standsStill(m *kernel.Machine) bool {
	for range 50 {
		n := m.Retired()
		time.Sleep(20 * time.Millisecond)
		if m.Retired() == n {
			return true
		}
	}
	return false
}

// TestGuestHandlersPrintk: a handler of a probe in printk calls printk, as the
// documents warn. The nested hit does not call the handler.
func TestGuestHandlersPrintk(t *testing.T) { onEachCaller(t, testGuestHandlersPrintk) }

func testGuestHandlersPrintk(t *testing.T, c *caller) {
	text := c.alloc(16)
	if err := c.Machine.Mem().WriteAt(text, []byte("outer\n\x00")); err != nil {
		t.Fatal(err)
	}
	printk := "_printk"
	if len(c.Machine.Symbols().LookupName(printk)) == 0 {
		printk = "printk"
	}
	p, inner := c.kprobe(printk, 0, "print", ""), c.kprobe("vprintk", c.inside("vprintk"), "print", "post")
	c.does(0, "register_kprobe", p)
	c.does(0, "register_kprobe", inner)
	c.call(printk, text)
	var got []string
	for _, l := range says(c.Kernel, "kprobe_handlers: at") {
		if l != "" && !strings.HasPrefix(l, " ") && !strings.HasPrefix(l, "C") && !strings.HasPrefix(l, "Pid:") { // lines of stack traces
			got = append(got, l)
		}
	}
	want := []string{
		fmt.Sprintf("kprobe_handlers: at %s+0", printk), fmt.Sprintf("kprobe_handlers: at vprintk+%d", c.inside("vprintk")), "outer",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
	c.call("unregister_kprobe", p)
	if n := c.get(p + kpMissed); n != 2 {
		t.Errorf("nmissed %d, want 2", n)
	}
}

// TestGuestHandlersAtOnce: handlers in guest code, for each way of arming, run and
// print on both vCPUs at the same time, while text is patched. Each hit is handled or
// counted in nmissed.
func TestGuestHandlersAtOnce(t *testing.T) { onEachCaller(t, testGuestHandlersAtOnce) }

func testGuestHandlersAtOnce(t *testing.T, c *caller) {
	const calls = 10000
	post := c.kprobe("int_pow", c.inside("int_pow"), "pre", "post") // a breakpoint
	entry := c.kprobe("int_pow", 0, "pre", "")
	jump := c.kprobe("int_sqrt", c.inside("int_sqrt"), "pre", "")
	ret := c.kretprobe("int_sqrt", 2, 8)
	print := c.kprobe("gcd", 0, "print", "")
	for _, p := range []uint64{post, entry, jump, print} {
		c.does(0, "register_kprobe", p)
	}
	c.does(0, "register_kretprobe", ret)
	if c.Kprobes.HasOptprobes() {
		c.Kprobes.WaitOptimizer()
	}
	done := make(chan error, 2)
	for cpu := range 2 {
		go func() {
			var err error
			for _, f := range []struct {
				name string
				n    uint64
				args []uint64
				want uint64
			}{
				{"int_pow", calls, []uint64{3, 4}, 81},
				{"int_sqrt", calls, []uint64{100}, 100010},
				{"gcd", 50, []uint64{12, 18}, 6},
			} {
				v, e := c.Machine.CallOn(context.Background(), cpu, c.symbol(f.name), f.n, f.args...)
				if e == nil && v != f.want {
					e = fmt.Errorf("%s gives %d, not %d", f.name, v, f.want)
				}
				err = errors.Join(err, e)
			}
			done <- err
		}()
	}
	disturb := &kprobes.Kprobe{SymbolName: "hex_to_bin"}
	for running := 2; running > 0; {
		select {
		case err := <-done:
			if running--; err != nil {
				t.Error(err)
			}
		default:
			disturb.Addr = 0
			if err := errors.Join(c.Kprobes.Register(disturb), c.Kprobes.Unregister(disturb)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, p := range []uint64{post, entry, jump, print} {
		c.call("unregister_kprobe", p)
	}
	c.call("unregister_kretprobe", ret)
	s := c.seen()
	missed := c.get(post+kpMissed) + c.get(entry+kpMissed) + c.get(jump+kpMissed)
	if s.Pre+missed != 3*2*calls || s.Post != 2*calls || missed != 0 {
		t.Errorf("%d pre-handlers, %d post-handlers, %d missed", s.Pre, s.Post, missed)
	}
	if n := uint64(c.get32(ret + rpMissed)); s.Entry != 2*calls || s.Ret != 2*calls || n != 0 {
		t.Errorf("%d entries, %d returns, %d missed", s.Entry, s.Ret, n)
	}
	if got := list(c.Kernel); got != "" {
		t.Errorf("list has %q", got)
	}
}

// says returns the lines of the log, from the first one that begins with from on.
func says(s *kprobefs.Kernel, from string) (lines []string) {
	log := s.Machine.Log()
	first, next := log.Bounds()
	for seq := first; seq < next; seq++ {
		if r, ok, _, _ := log.Get(seq); ok && (len(lines) > 0 || strings.HasPrefix(r.Text, from)) {
			lines = append(lines, r.Text)
		}
	}
	return lines
}

// forkAndOpen does what the examples probe: a shell forks, and opens a file that does
// not exist.
func forkAndOpen(t *testing.T, s *kprobefs.Kernel) {
	t.Helper()
	ctx := context.Background()
	shell := host.Caller{TID: 4000, PID: 4000, Comm: func() string { return "shell" }}
	if pid, err := s.Machine.Host().Fork(ctx, shell, host.Fork{Nr: abi.SysFork, Child: host.Caller{TID: 4001, PID: 4001}}); pid != 4001 || err != nil {
		t.Fatalf("fork gives %d, %v", pid, err)
	}
	absent := host.Call{Nr: abi.SysOpenat, Path: "/sys/kernel/debug/kprobes/nofile", Mode: syscall.S_IFREG | 0o600}
	ret, _, err := s.Machine.Host().Do(ctx, shell, absent, func(context.Context, host.Op) (int, error) {
		return 0, syscall.ENOENT
	})
	if ret != -int64(syscall.ENOENT) || err != nil {
		t.Errorf("open: %d, %v", ret, err)
	}
}

// TestExamples: the documents' example modules log what the documents show: registers
// and stack of a fork, return values of failing opens.
func TestExamples(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	load(t, s, "kprobe_example")
	load(t, s, "kretprobe_example")
	forkAndOpen(t, s)
	for _, name := range []string{"kretprobe_example", "kprobe_example"} {
		if err := s.Modules.Delete(ctx, name); err != nil {
			t.Error(err)
		}
	}
	got := strings.Join(says(s, "kprobe registered"), "\n") + "\n"
	if !regexp.MustCompile(`^` + strings.TrimSpace(`
kprobe registered
Planted return probe at ([0-9a-f]{16})
pre_handler: p->addr=0x([0-9a-f]{16}), ip=[0-9a-f]{16}, flags=0x[0-9a-f]+
CPU: \d PID: 4000 Comm: shell Tainted: G           OE      6.1.0-56-amd64 #1
Call Trace:
 <TASK>
 dump_stack_lvl\+0x[0-9a-f]+/0x[0-9a-f]+
 before\+0x[0-9a-f]+/0x[0-9a-f]+ \[kprobe_example\]
 aggr_pre_handler\+0x1/0x[0-9a-f]+
 kernel_clone\+0x1/0x[0-9a-f]+
 __do_sys_fork\+0x[0-9a-f]+/0x[0-9a-f]+
( .*
)* </TASK>
post_handler: p->addr=0x([0-9a-f]{16}), ip=[0-9a-f]{16}, flags=0x0
do_sys_openat2 returns -2
kretprobe unregistered after 1 calls
Missed probing 0 instances of do_sys_openat2
kprobe unregistered, 0 missed
`) + "\n$").MatchString(got) {
		t.Errorf("the modules log\n%s", got)
	}
}
