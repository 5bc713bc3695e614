package guest_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// machine is a booted guest whose functions a test calls.
type machine struct {
	*kernel.Machine
	t testing.TB
}

func boot(t testing.TB, cpus int) *machine {
	t.Helper()
	return bootClock(t, cpus, nil)
}

// bootClock boots with a clock; nil means the real one.
func bootClock(t testing.TB, cpus int, clock kernel.Clock) *machine {
	t.Helper()
	return bootRelease(t, "6.1", cpus, clock)
}

// bootRelease boots the image of a release.
func bootRelease(t testing.TB, release string, cpus int, clock kernel.Clock) *machine {
	t.Helper()
	m, err := kernel.Boot(kernel.Options{
		Image: guest.Image(release), CPUs: cpus, Clock: clock,
		Release: release + ".0-test", Version: "Linux version " + release + ".0-test", Cmdline: "quiet",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &machine{m, t}
}

// call runs a guest function on vCPU 0's kernel thread.
func (m *machine) call(sym string, args ...uint64) uint64 {
	m.t.Helper()
	v, err := m.Call(context.Background(), sym, args...)
	reached.Store(sym, true)
	if err != nil {
		m.t.Fatalf("%s: %v", sym, err)
	}
	return v
}

// want is call with an expected result.
func (m *machine) want(want uint64, sym string, args ...uint64) {
	m.t.Helper()
	if got := m.call(sym, args...); got != want {
		m.t.Errorf("%s(%#x) = %#x, want %#x", sym, args, got, want)
	}
}

func (m *machine) sym(name string) uint64 {
	m.t.Helper()
	s := m.Symbols().LookupName(name)
	if len(s) == 0 {
		m.t.Fatalf("the guest has no symbol %s", name)
	}
	return s[0].Addr
}

// zalloc returns n bytes of zeroed guest memory.
func (m *machine) zalloc(n int) uint64 {
	m.t.Helper()
	const gfpZeroed = 0xcc0 | 0x100
	a := m.call("__kmalloc", uint64(n), gfpZeroed)
	if a == 0 {
		m.t.Fatal("no memory")
	}
	return a
}

// cstr stores a string in guest memory.
func (m *machine) cstr(s string) uint64 {
	m.t.Helper()
	a := m.zalloc(len(s) + 1)
	m.put(a, append([]byte(s), 0))
	return a
}

func (m *machine) put(a uint64, p []byte) {
	m.t.Helper()
	if err := m.Mem().WriteAt(a, p); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) bytes(a uint64, n int) []byte {
	m.t.Helper()
	p := make([]byte, n)
	if err := m.Mem().ReadAt(a, p); err != nil {
		m.t.Fatalf("%#x: %v", a, err)
	}
	return p
}

func (m *machine) u64(a uint64) uint64 {
	m.t.Helper()
	return binary.LittleEndian.Uint64(m.bytes(a, 8))
}

func (m *machine) u32(a uint64) uint32 {
	m.t.Helper()
	return binary.LittleEndian.Uint32(m.bytes(a, 4))
}

func (m *machine) put64(a, v uint64) {
	m.t.Helper()
	m.put(a, binary.LittleEndian.AppendUint64(nil, v))
}

func (m *machine) string(a uint64) string {
	m.t.Helper()
	var b []byte
	for {
		c := m.bytes(a+uint64(len(b)), 1)[0]
		if c == 0 {
			return string(b)
		}
		b = append(b, c)
	}
}

// task is a separate task of the guest, for calls that sleep.
type task struct {
	*host.Task
	m *machine
}

func (m *machine) task(name string) *task {
	m.t.Helper()
	k, err := m.Host().Kthread(context.Background(), name)
	if err != nil {
		m.t.Fatal(err)
	}
	return &task{k, m}
}

func (k *task) call(sym string, args ...uint64) uint64 {
	k.m.t.Helper()
	v, err := k.Func(context.Background(), k.m.sym(sym), 1, args...)
	if err != nil {
		k.m.t.Fatalf("%s: %v", sym, err)
	}
	return v
}

// start calls a function that will sleep. The channel gets its result.
func (k *task) start(sym string, args ...uint64) <-chan uint64 {
	c, addr := make(chan uint64, 1), k.m.sym(sym)
	go func() {
		if v, err := k.Func(context.Background(), addr, 1, args...); err == nil {
			c <- v
		}
	}()
	return c
}

// syscall makes a system call of the task by its __x64_sys_ function.
func (k *task) syscall(name string, args ...uint64) int64 {
	k.m.t.Helper()
	regs := k.m.zalloc(abi.RegsSize)
	for i, off := range []uint64{112, 104, 96, 56, 72, 64} { // di, si, dx, r10, r8, r9
		if i < len(args) {
			k.m.put64(regs+off, args[i])
		}
	}
	ret := int64(k.call("__x64_sys_"+name, regs))
	k.m.call("kfree", regs)
	return ret
}

// eventually waits until ok returns true, or fails the test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %v", what, patience)
		}
	}
}

// patience is the time limit for guest code, also under the race detector on a busy
// machine.
const patience = time.Minute

func wait(t *testing.T, what string, c <-chan uint64) uint64 {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: still waits after %v", what, patience)
		return 0
	}
}

// sleeps reports whether the task has reached a sleep in the given state. A task
// without a call sleeps interruptibly too: there the state must last.
func (k *task) sleeps(state uint32) bool {
	if state == 1 {
		time.Sleep(30 * time.Millisecond)
	}
	return k.m.u32(k.TaskAddr()+abi.TaskState) == state
}

// TestImage checks the properties of the ELF file that tools and probes need.
func TestImage(t *testing.T) {
	img, err := image.Load(guest.Image("6.1.0-50-amd64"))
	if err != nil {
		t.Fatal(err)
	}
	if guest.Image("5.1") != nil || guest.Image("6.10") != nil {
		t.Error("Image returned an image for an unknown release")
	}
	if img.Text.Start != abi.TextBase || img.Entry != abi.TextBase {
		t.Errorf("text at %#x, entry %#x, want both %#x", img.Text.Start, img.Entry, uint64(abi.TextBase))
	}
	text := func(addr uint64, n int) []byte {
		for _, s := range img.Segments {
			if addr >= s.Addr && addr+uint64(n) <= s.Addr+uint64(len(s.Data)) {
				return s.Data[addr-s.Addr:][:n]
			}
		}
		t.Fatalf("%#x is in no segment", addr)
		return nil
	}
	names := map[string][]abi.Symbol{}
	byAddr := map[uint64]abi.Symbol{}
	for _, s := range img.Symbols {
		names[s.Name] = append(names[s.Name], s)
		byAddr[s.Addr] = s
		if strings.HasPrefix(s.Name, ".L") {
			t.Errorf("local label %s is a symbol", s.Name)
		}
	}
	for _, site := range img.Mcount {
		if string(text(site, 5)) != "\x0f\x1f\x44\x00\x00" {
			t.Errorf("fentry site %#x is % x", site, text(site, 5))
		}
		if _, ok := byAddr[site]; !ok {
			t.Errorf("fentry site %#x is not a function's first instruction", site)
		}
	}
	if len(img.Mcount) < 600 {
		t.Errorf("%d fentry sites, want 600", len(img.Mcount))
	}
	for _, want := range strings.Fields(`T:kernel_clone T:do_exit T:vfs_read T:vfs_open T:vfs_write T:vfs_symlink
		t:do_sys_openat2 T:do_sys_open T:getname T:kfree T:dput T:schedule T:__switch_to D:init_task T:_text T:_stext
		D:_sdata T:_etext D:jiffies T:start_kernel T:kthreadd T:__memcpy T:__x64_sys_read`) {
		kind, name, _ := strings.Cut(want, ":")
		s := names[name]
		if len(s) != 1 || !strings.EqualFold(string(s[0].Type), kind) {
			t.Errorf("%s: %v, want one of type %s", name, s, kind)
		}
	}
	for _, suffix := range []string{".isra.0", ".part.0", ".cold", ".constprop.0"} {
		if !anyName(names, func(n string) bool { return strings.HasSuffix(n, suffix) }) {
			t.Errorf("no symbol ends in %s", suffix)
		}
	}
	for what, n := range map[string]int{
		"jump labels": len(img.Jumps), "static calls": len(img.StaticCalls), "BUG sites": len(img.Bugs),
		"exception entries": len(img.ExTable), "lock prefixes": len(img.SMPLocks), "blacklisted functions": len(img.NoKprobe),
	} {
		if n == 0 {
			t.Errorf("no %s", what)
		}
	}
	if got := text(names["ftrace_stub"][0].Addr, 2); got[0] != 0xc3 || got[1] != 0xcc {
		t.Errorf("ftrace_stub is % x, want a ret and int3 padding", got)
	}
	prctl := names["__do_sys_prctl"][0]
	if !strings.Contains(string(text(prctl.Addr, int(prctl.Size))), "\xff\x24") { // jmp *table(,reg,8)
		t.Error("__do_sys_prctl has no jump table")
	}
}

func anyName(names map[string][]abi.Symbol, ok func(string) bool) bool {
	for n := range names {
		if ok(n) {
			return true
		}
	}
	return false
}

func TestBoot(t *testing.T) {
	for _, cpus := range []int{1, 2, 4} {
		m := boot(t, cpus)
		m.want(12, "int_sqrt", 144)
		for cpu := range cpus {
			v, err := m.CallOn(context.Background(), cpu, m.sym("int_pow"), 3, 3, 4)
			if err != nil || v != 81 {
				t.Errorf("int_pow on vCPU %d: %d, %v", cpu, v, err)
			}
		}
		_, n := m.Log().Bounds()
		if n < 3 {
			t.Errorf("%d lines in the log", n)
		}
	}
}

// TestIdle: a guest without work executes nothing after the work of boot is done.
func TestIdle(t *testing.T) {
	m := boot(t, 2)
	m.want(12, "int_sqrt", 144)
	eventually(t, "300 ms of idleness", func() bool {
		before := m.Retired()
		time.Sleep(300 * time.Millisecond)
		return m.Retired()-before <= 100000
	})
}
