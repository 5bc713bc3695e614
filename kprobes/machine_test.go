package kprobes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
)

// machine is a running kernel.
type machine struct {
	*kprobefs.Kernel
	t   *testing.T
	ctx context.Context
}

// onEachRelease runs a test on a machine of each release.
func onEachRelease(t *testing.T, test func(t *testing.T, m *machine)) {
	for _, name := range kprobefs.ReleaseNames() {
		t.Run(name, func(t *testing.T) { test(t, bootRelease(t, name)) })
	}
}

// allow switches the optimizer on or off. It returns false if jumps is true and the
// release has none.
func (m *machine) allow(jumps bool) bool {
	if !m.Kprobes.HasOptprobes() {
		return !jumps
	}
	m.Kprobes.SetOptimization(jumps)
	return true
}

// inside returns the offset of a function's first instruction after endbr64 and the
// fentry site.
func (m *machine) inside(name string) uint32 {
	m.t.Helper()
	for _, off := range m.starts(name) {
		if off >= 5 {
			return off
		}
	}
	m.t.Fatalf("%s is short", name)
	return 0
}

func boot(t *testing.T) *machine { return bootRelease(t, kprobefs.DefaultRelease) }

// bootRelease boots a release with the given lines of its configuration.
func bootRelease(t *testing.T, name string, lines ...string) *machine {
	t.Helper()
	r, err := kprobefs.ParseRelease(name)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := kprobefs.ParseConfig(r.Config, lines)
	if err != nil {
		t.Fatal(err)
	}
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2, Release: r, Config: conf})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("panic %q, log:\n%s", s.Machine.Panic(), dmesg(s))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &machine{Kernel: s, t: t, ctx: ctx}
}

func (m *machine) addr(name string) uint64 {
	m.t.Helper()
	syms := m.Machine.Symbols().LookupName(name)
	if len(syms) == 0 {
		m.t.Fatalf("no symbol %s", name)
	}
	return syms[0].Addr
}

func (m *machine) call(name string, args ...uint64) uint64 {
	m.t.Helper()
	v, err := m.Machine.Call(m.ctx, name, args...)
	if err != nil {
		m.t.Fatal(err)
	}
	return v
}

// starts returns the offsets of a function's instructions.
func (m *machine) starts(name string) []uint32 {
	m.t.Helper()
	sym := m.Machine.Symbols().LookupName(name)[0]
	text := make([]byte, sym.Size)
	err := m.Kprobes.Original(sym.Addr, text)
	if err != nil {
		m.t.Fatal(err)
	}
	var offs []uint32
	for pos := 0; pos < len(text) && text[pos] != 0xcc; {
		offs = append(offs, uint32(pos))
		in, err := insn.Decode(text[pos:])
		if err != nil {
			m.t.Fatal(err)
		}
		pos += in.Len
	}
	return offs
}

// empty waits until only n slots are in use: others are freed after the optimizer's
// next run and a grace period. It waits ten seconds at most, which allows for a busy
// machine; the test then finds the slots in use.
func (m *machine) empty(n int) {
	m.settle()
	for end := time.Now().Add(10 * time.Second); m.Machine.SlotsInUse() != n && time.Now().Before(end); {
		time.Sleep(kprobes.OptimizeDelay)
		m.settle()
	}
}

// settle waits until the optimizer has no work left.
func (m *machine) settle() {
	if m.Kprobes.HasOptprobes() {
		m.Kprobes.WaitOptimizer()
	}
}

var pureCalls = []struct {
	name string
	args []uint64
}{
	{"int_sqrt", []uint64{1<<40 + 12345}},
	{"gcd", []uint64{123456789012, 987654321098}},
	{"int_pow", []uint64{7, 13}},
	{"hex_to_bin", []uint64{'c'}},
}

// TestEveryInstruction probes all instructions of a function that can be probed, with
// breakpoints and with jumps. Its results must stay the same.
func TestEveryInstruction(t *testing.T) { onEachRelease(t, testEveryInstruction) }

func testEveryInstruction(t *testing.T, m *machine) {
	for _, c := range pureCalls {
		for _, jumps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/jumps=%v", c.name, jumps), func(t *testing.T) {
				m.t = t
				m.allow(jumps)
				want := m.call(c.name, c.args...)
				var hits atomic.Uint64
				var ps []*kprobes.Kprobe
				for i, off := range m.starts(c.name) {
					if jumps && i%3 == 2 {
						continue // leave space for jumps
					}
					p := &kprobes.Kprobe{SymbolName: c.name, Offset: off, PreHandler: func(*kprobes.Hit) int { hits.Add(1); return 0 }}
					if err := m.Kprobes.Register(p); err != nil {
						t.Fatalf("+%#x: %v", off, err)
					}
					ps = append(ps, p)
				}
				m.settle()
				for range 20 {
					if got := m.call(c.name, c.args...); got != want {
						t.Fatalf("got %d, want %d", got, want)
					}
				}
				m.Kprobes.UnregisterAll(ps)
				m.settle()
				after := hits.Load()
				if after < 20*2 {
					t.Errorf("%d hits", after)
				}
				if got := m.call(c.name, c.args...); got != want || hits.Load() != after {
					t.Errorf("without probes: %d, %d more hits", got, hits.Load()-after)
				}
			})
		}
	}
}

// TestExactHits: N calls on each of two vCPUs are 2N hits, for each way of arming a
// probe.
func TestExactHits(t *testing.T) { onEachRelease(t, testExactHits) }

func testExactHits(t *testing.T, m *machine) {
	const n = 20000
	for _, tc := range []struct {
		name   string
		offset uint32
		jumps  bool
		flag   kprobes.Flags
	}{
		{"ftrace", 0, true, kprobes.FlagFtrace},
		{"int3", m.inside("int_pow"), false, 0},
		{"jump", m.inside("int_pow"), true, kprobes.FlagOptimized},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m.t = t
			if !m.allow(tc.jumps) {
				return // 2.6 has breakpoints only
			}
			var hits [2]uint64
			p := &kprobes.Kprobe{SymbolName: "int_pow", Offset: tc.offset, PreHandler: func(h *kprobes.Hit) int { hits[h.CPU]++; return 0 }}
			if err := m.Kprobes.Register(p); err != nil {
				t.Fatal(err)
			}
			defer m.Kprobes.Unregister(p)
			m.settle()
			if i := m.Kprobes.Points()[0]; i.Flags&(kprobes.FlagFtrace|kprobes.FlagOptimized) != tc.flag {
				t.Fatalf("the point is %v, %v", i.Flags, i.NotJump)
			}
			done := make(chan error, 2)
			for cpu := range 2 {
				go func() {
					v, err := m.Machine.CallOn(m.ctx, cpu, m.addr("int_pow"), n, 3, 4)
					if err == nil && v != 81 {
						err = fmt.Errorf("int_pow(3, 4) = %d", v)
					}
					done <- err
				}()
			}
			if err := errors.Join(<-done, <-done); err != nil {
				t.Fatal(err)
			}
			if hits != [2]uint64{n, n} || p.Missed() != 0 {
				t.Errorf("hits %v, missed %d; want %d on each", hits, p.Missed(), n)
			}
		})
	}
}

// TestChangePath: handlers change a function's argument, its return value, and skip
// it.
func TestChangePath(t *testing.T) { onEachRelease(t, testChangePath) }

func testChangePath(t *testing.T, m *machine) {
	arg := &kprobes.Kprobe{SymbolName: "int_sqrt", PreHandler: func(h *kprobes.Hit) int { h.Regs.DI = 49; return 0 }}
	if err := m.Kprobes.Register(arg); err != nil {
		t.Fatal(err)
	}
	if got := m.call("int_sqrt", 100); got != 7 {
		t.Errorf("with another argument: %d", got)
	}
	ret := &kprobes.Retprobe{
		Kprobe:  kprobes.Kprobe{SymbolName: "int_sqrt"},
		Handler: func(_ *kprobes.Instance, h *kprobes.Hit) int { h.Regs.AX *= 1000; return 0 },
	}
	if err := m.Kprobes.RegisterRetprobe(ret); err != nil {
		t.Fatal(err)
	}
	if got := m.call("int_sqrt", 100); got != 7000 {
		t.Errorf("with another result: %d", got)
	}
	m.Kprobes.UnregisterRetprobe(ret)
	m.Kprobes.Unregister(arg)
	skip := &kprobes.Kprobe{SymbolName: "int_sqrt", PreHandler: func(h *kprobes.Hit) int {
		ip, err := h.Mem.ReadU64(h.Regs.SP)
		if err != nil {
			return 0
		}
		h.Regs.IP, h.Regs.AX = ip, 42
		h.Regs.SP += 8
		return 1
	}}
	if err := m.Kprobes.Register(skip); err != nil {
		t.Fatal(err)
	}
	// ftrace_regs_caller continues at regs->ip with an unchanged stack, so a function
	// can be skipped only by a handler of an int3.
	m.Kprobes.Unregister(skip)
	skip = &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: m.inside("int_sqrt"), PreHandler: skip.PreHandler, PostHandler: func(*kprobes.Hit, uint64) {}}
	if err := m.Kprobes.Register(skip); err != nil {
		t.Fatal(err)
	}
	defer m.Kprobes.Unregister(skip)
	if got := m.call("int_sqrt", 100); got != 42 {
		t.Errorf("skipped: %d", got)
	}
}

// TestChangeMemory: a handler changes memory that the probed function reads.
func TestChangeMemory(t *testing.T) { onEachRelease(t, testChangeMemory) }

func testChangeMemory(t *testing.T, m *machine) {
	text := m.call("__kmalloc", 16, 0xcc0)
	result := text + 8
	for _, offset := range m.starts("kstrtoull")[:2] {
		if err := errors.Join(m.Machine.Mem().WriteAt(text, []byte("12\x00")), m.Machine.Mem().WriteU64(result, 0)); err != nil {
			t.Fatal(err)
		}
		p := &kprobes.Kprobe{SymbolName: "kstrtoull", Offset: offset, PreHandler: func(h *kprobes.Hit) int {
			if err := h.Mem.WriteAt(h.Regs.DI, []byte("4711\x00")); err != nil {
				t.Error(err)
			}
			return 0
		}}
		wantErr(t, m.Kprobes.Register(p), 0)
		m.settle()
		ret := m.call("kstrtoull", text, 10, result)
		if v, err := m.Machine.Mem().ReadU64(result); err != nil || v != 4711 || ret != 0 {
			t.Errorf("+%d: kstrtoull gives %d, %d (%v)", offset, ret, v, err)
		}
		wantErr(t, m.Kprobes.Unregister(p), 0)
	}
}

// TestWholeKernel registers a probe at each symbol that can be probed, and at the
// instruction after its fentry nop, and runs the kernel with them.
func TestWholeKernel(t *testing.T) { onEachRelease(t, testWholeKernel) }

func testWholeKernel(t *testing.T, m *machine) {
	var hits atomic.Uint64
	var ps []*kprobes.Kprobe
	errnos := map[syscall.Errno]int{}
	seen := map[uint64]bool{}
	for _, s := range m.Machine.Symbols().All() {
		if s.Type|0x20 != 't' {
			continue
		}
		for _, off := range []uint32{0, 5} {
			if !m.Kprobes.Has(release.InsnBoundary) && !m.begins(s, off) {
				continue // it would be registered, and a hit would be fatal
			}
			p := &kprobes.Kprobe{Addr: s.Addr, Offset: off, PreHandler: func(*kprobes.Hit) int { hits.Add(1); return 0 }}
			if seen[s.Addr+uint64(off)] {
				continue
			}
			seen[s.Addr+uint64(off)] = true
			var errno syscall.Errno
			if err := m.Kprobes.Register(p); errors.As(err, &errno) {
				errnos[errno]++
			} else if err != nil {
				t.Errorf("%s+%d: %v", s.Name, off, err)
			} else {
				ps = append(ps, p)
			}
		}
	}
	t.Logf("%d probes, refused: %v", len(ps), errnos)
	m.settle()
	for range 50 {
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Fatalf("int_sqrt is %d", got)
		}
	}
	jumps := 0
	for _, i := range m.Kprobes.Points() {
		if i.Flags&kprobes.FlagOptimized != 0 {
			jumps++
		}
	}
	m.Kprobes.UnregisterAll(ps)
	m.settle()
	if hits.Load() < 100 || (jumps < len(ps)/20) != (!m.Kprobes.HasOptprobes()) {
		t.Errorf("%d hits, %d jumps", hits.Load(), jumps)
	}
	if got := m.call("int_sqrt", 100); got != 10 {
		t.Errorf("afterwards int_sqrt is %d", got)
	}
}

// begins reports whether an instruction of a function begins at off.
func (m *machine) begins(s abi.Symbol, off uint32) bool {
	text := make([]byte, int(off)+insn.MaxLen)
	err := m.Kprobes.Original(s.Addr, text)
	at := uint32(0)
	for at < off && err == nil {
		var in insn.Insn
		in, err = insn.Decode(text[at:])
		at += uint32(in.Len)
	}
	return err == nil && at == off
}

// text returns the guest's text.
func (m *machine) text() []byte {
	m.t.Helper()
	r := m.Machine.Image().Text
	b := make([]byte, r.End-r.Start)
	if err := m.Machine.Read(r.Start, b); err != nil {
		m.t.Fatal(err)
	}
	return b
}

// TestChurn registers and unregisters probes in the scheduler, the timers and the
// allocator while both vCPUs execute them. Calls must return the right results, and
// the text must be restored.
func TestChurn(t *testing.T) { onEachRelease(t, testChurn) }

func testChurn(t *testing.T, m *machine) {
	before, slots := m.text(), m.Machine.SlotsInUse()
	stop := make(chan struct{})
	done := make(chan error, 2)
	for cpu := range 2 {
		go func() { done <- m.load(cpu, stop) }()
	}
	r := rand.New(rand.NewSource(1))
	var places []*kprobes.Kprobe
	for _, f := range []string{"schedule", "__schedule", "msleep", "try_to_wake_up", "schedule_timeout", "__kmalloc", "kfree", "int_pow", "ktime_get"} {
		for _, off := range m.starts(f) {
			places = append(places, &kprobes.Kprobe{SymbolName: f, Offset: off})
		}
	}
	var hits atomic.Uint64
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for n := 0; n < rounds || hits.Load() < 100 && n < 1000*rounds; n++ {
		var ps []*kprobes.Kprobe
		for range 30 {
			at := places[r.Intn(len(places))]
			p := &kprobes.Kprobe{SymbolName: at.SymbolName, Offset: at.Offset, PreHandler: func(*kprobes.Hit) int { hits.Add(1); return 0 }}
			if r.Intn(5) == 0 {
				p.PostHandler = func(*kprobes.Hit, uint64) {}
			}
			if m.Kprobes.Register(p) == nil {
				ps = append(ps, p)
			}
		}
		rp := &kprobes.Retprobe{
			Kprobe:  kprobes.Kprobe{SymbolName: []string{"schedule_timeout", "int_pow", "__kmalloc"}[r.Intn(3)]},
			Handler: func(*kprobes.Instance, *kprobes.Hit) int { hits.Add(1); return 0 },
		}
		if err := m.Kprobes.RegisterRetprobe(rp); err != nil {
			t.Fatal(err)
		}
		switch r.Intn(4) {
		case 0:
			m.Kprobes.SetEnabled(false)
			m.Kprobes.SetEnabled(true)
		case 1:
			m.allow(false)
			m.allow(true)
		case 2:
			m.settle()
		}
		m.Kprobes.UnregisterRetprobe(rp)
		m.Kprobes.UnregisterAll(ps)
	}
	close(stop)
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
	m.empty(slots)
	if hits.Load() < 100 {
		t.Errorf("%d hits", hits.Load())
	}
	if !bytes.Equal(m.text(), before) {
		t.Error("the text is not restored")
	}
	if n := m.Machine.SlotsInUse(); n != slots {
		t.Errorf("%d slots are still in use", n)
	}
}

// load keeps a vCPU busy with functions that compute, allocate and sleep.
func (m *machine) load(cpu int, stop chan struct{}) error {
	call := func(name string, n uint64, args ...uint64) (uint64, error) {
		return m.Machine.CallOn(m.ctx, cpu, m.Machine.Symbols().LookupName(name)[0].Addr, n, args...)
	}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if v, err := call("int_pow", 100, 3, 5); err != nil || v != 243 {
			return fmt.Errorf("int_pow(3, 5) is %d: %w", v, err)
		}
		p, err := call("__kmalloc", 1, 100, 0xcc0)
		if err != nil || p == 0 {
			return fmt.Errorf("__kmalloc gives %#x: %w", p, err)
		}
		if _, err := call("kfree", 1, p); err != nil {
			return err
		}
		if _, err := call("msleep", 1, 1); err != nil {
			return err
		}
	}
}

// dmesg returns the guest's log.
func dmesg(s *kprobefs.Kernel) string {
	var b strings.Builder
	log := s.Machine.Log()
	first, next := log.Bounds()
	for seq := first; seq < next; seq++ {
		if r, ok, _, _ := log.Get(seq); ok {
			fmt.Fprintf(&b, "[%12.6f] %s\n", float64(r.Time)/1e9, r.Text)
		}
	}
	return b.String()
}

// TestDeadTask: the instance of a task that ends inside a hooked call is freed.
func TestDeadTask(t *testing.T) { onEachRelease(t, testDeadTask) }

func testDeadTask(t *testing.T, m *machine) {
	var entries atomic.Uint64
	rp := &kprobes.Retprobe{
		Kprobe: kprobes.Kprobe{SymbolName: "do_exit"}, MaxActive: 1,
		EntryHandler: func(*kprobes.Instance, *kprobes.Hit) int { entries.Add(1); return 0 },
		Handler:      func(*kprobes.Instance, *kprobes.Hit) int { t.Error("do_exit returned"); return 0 },
	}
	if err := m.Kprobes.RegisterRetprobe(rp); err != nil {
		t.Fatal(err)
	}
	defer m.Kprobes.UnregisterRetprobe(rp)
	for i := range uint64(5) {
		task := m.call("kthread_create_on_node", m.addr("int_sqrt"), 100, 0, m.addr("linux_banner"))
		if task == 0 || task > 1<<64-4096 {
			t.Fatalf("kthread_create_on_node gives %#x", task)
		}
		m.call("wake_up_process", task)
		for range 200 {
			if entries.Load() == i+1 {
				break
			}
			m.call("msleep", 2)
		}
		m.call("msleep", 20)
	}
	if entries.Load() != 5 || rp.Missed() != 0 {
		t.Errorf("%d entries, %d missed", entries.Load(), rp.Missed())
	}
}

// TestForkAndExec: return probes in the path of fork and execve see each call return
// once, in the task that made it. The child and the new program do not return through
// the trampoline.
func TestForkAndExec(t *testing.T) { onEachRelease(t, testForkAndExec) }

func testForkAndExec(t *testing.T, m *machine) {
	const rounds = 5
	var mu sync.Mutex
	got := map[string][]int64{}
	wrong := 0
	var rps []*kprobes.Retprobe
	fork := "kernel_clone"
	if len(m.Machine.Symbols().LookupName(fork)) == 0 {
		fork = "do_fork"
	}
	for _, name := range []string{fork, "copy_process", "bprm_execve", "begin_new_exec"} {
		if len(m.Machine.Symbols().LookupName(name)) == 0 {
			t.Fatalf("no %s", name)
		}
		active := 1
		if name == "copy_process" {
			active = 4 // on a busy machine two threads make the shell's task, and one fails
		}
		rps = append(rps, m.registerRet(&kprobes.Retprobe{
			Kprobe: kprobes.Kprobe{SymbolName: name}, MaxActive: active,
			Handler: func(ri *kprobes.Instance, h *kprobes.Hit) int {
				mu.Lock()
				defer mu.Unlock()
				got[name] = append(got[name], int64(h.Regs.ReturnValue()))
				if ri.Task != h.Task {
					wrong++
				}
				return 0
			},
		}))
	}
	shell := host.Caller{TID: 4000, PID: 4000, Comm: func() string { return "shell" }}
	path := "/bin/true"
	for i := range rounds {
		child := host.Caller{TID: 5000 + i, PID: 5000 + i, Comm: shell.Comm}
		if pid, err := m.Machine.Host().Fork(m.ctx, shell, host.Fork{Nr: abi.SysFork, Child: child}); err != nil || pid != int64(child.PID) {
			t.Fatalf("fork gives %d, %v", pid, err)
		}
		exec := host.Syscall{Nr: abi.SysExecve, Mode: syscall.S_IFREG | 0o755, Head: [][]byte{append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)}}
		exec.Text[0], exec.Vector[1] = &path, []string{"true"}
		if ret, err := m.Machine.Host().Other(m.ctx, child, exec); err != nil || ret != 0 {
			t.Fatalf("execve gives %d, %v", ret, err)
		}
		if err := m.Machine.Host().Exit(m.ctx, child, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i, rp := range rps {
		name := rp.Kprobe.SymbolName
		mu.Lock()
		returns := slices.Clone(got[name])
		mu.Unlock()
		want := []int64{5000, 5001, 5002, 5003, 5004}
		if i > 0 {
			want = make([]int64, rounds)
		}
		if name == "copy_process" { // it returns tasks; the first one is the shell's
			returns = slices.DeleteFunc(returns, func(task int64) bool { return task == -int64(syscall.EEXIST) })
			if len(returns) == rounds+1 {
				returns = want
			}
		}
		if !slices.Equal(returns, want) || rp.Missed() != 0 || wrong != 0 {
			t.Errorf("%s returned %d, want %d; %d missed, %d in another task", name, returns, want, rp.Missed(), wrong)
		}
	}
}
