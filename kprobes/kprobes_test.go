package kprobes_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
	"github.com/kprobefs/kprobefs/optimizer"
)

// vfsRead begins as Debian 6.1's vfs_read does.
var vfsRead = []byte{
	0x0f, 0x1f, 0x44, 0x00, 0x00, // fentry
	0x41, 0x57, // push %r15
	0x41, 0x56, // push %r14
	0x41, 0x55, // push %r13
	0x41, 0x54, // push %r12
	0x55, 0x53, // push %rbp, %rbx
	0x48, 0x8b, 0x05, 0x10, 0x00, 0x00, 0x00, // mov 0x10(%rip),%rax
	0xe8, 0x00, 0x00, 0x00, 0x00, // call
	0x5b, 0x5d, 0xc3,
}

const (
	vfsReadAt  = kprobetest.Text + 0x1000
	readInner  = vfsReadAt + 5
	trampoline = kprobetest.Text + 0x100
)

type world struct {
	*kprobetest.Kernel
	k *kprobes.Kprobes
	o *optimizer.Optimizer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	m := kprobetest.New()
	m.Func(0x100, "arch_rethook_trampoline", 0x90)
	m.Func(0x200, "optimized_callback", 0xc3)
	m.Func(0x300, "__switch_to", 0x55, 0x5d, 0xc3)
	m.Site(m.Func(0x1000, "vfs_read", vfsRead...))
	w := &world{Kernel: m, o: optimizer.New(optimizer.Config{Symbols: m, Tables: m, Slots: m})}
	c := m.Config()
	c.Optimizer = w.o
	w.k = kprobes.New(c)
	return w
}

func (w *world) register(t testing.TB, p *kprobes.Kprobe) *kprobes.Kprobe {
	t.Helper()
	if err := w.k.Register(p); err != nil {
		t.Fatal(err)
	}
	return p
}

// list returns the text of kprobes/list without the addresses.
func (w *world) list() string {
	var b []byte
	for i := range kprobes.Buckets {
		for line := range bytes.Lines(w.k.AppendList(nil, i, false)) {
			b = append(b, line[18:]...)
		}
	}
	return string(b)
}

func (w *world) wantList(t testing.TB, when string, lines ...string) {
	t.Helper()
	want := ""
	for _, l := range lines {
		want += l + "\n"
	}
	if got := w.list(); got != want {
		t.Errorf("%s: list is\n%swant\n%s", when, got, want)
	}
}

func (w *world) wantText(t testing.TB, when string, addr uint64, want string) {
	t.Helper()
	b := w.Bytes(addr, 5)
	if want == "jump" {
		if b[0] != 0xe9 {
			t.Errorf("%s: text is % x, want a jump", when, b)
		}
	} else if got := fmt.Sprintf("% x", b); !strings.HasPrefix(got, want) {
		t.Errorf("%s: text is %s, want %s", when, got, want)
	}
}

func TestRegisterErrors(t *testing.T) {
	w := newWorld(t)
	w.Func(0x2000, "short", 0x90, 0xc3)
	w.Func(0x2010, "ud", 0x0f, 0x0b, 0x90)
	w.Func(0x2020, "key", 0x0f, 0x1f, 0x44, 0, 0, 0x90)
	w.Func(0x2030, "static", 0xe8, 0, 0, 0, 0, 0x90)
	w.Func(0x2040, "nmi_handle", 0x90)
	w.Func(0x2050, "nmi_handle.part.0", 0x90)
	w.Func(0x2060, "far", 0xff, 0x28)
	w.Func(0x2070, "movss", 0x8e, 0xd0)
	w.Func(0x2080, "bad", 0x0f, 0x38, 0xf7, 0xc0, 0x90)
	w.Func(0x2090, "__pfx_short", 0x90)
	w.Func(0x20a0, "vmcall", 0x0f, 0x01, 0xc1)
	w.Func(0x20b0, "ibt", 0xf3, 0x0f, 0x1e, 0xfa, 0x90)
	w.Symtab = append(w.Symtab, abi.Symbol{Addr: kprobetest.Stack, Size: 8, Type: 'd', Name: "data"})
	w.Bugs[kprobetest.Text+0x2010] = true
	w.Jumps = []abi.Range{{Start: kprobetest.Text + 0x2020, End: kprobetest.Text + 0x2025}}
	w.Calls = []abi.Range{{Start: kprobetest.Text + 0x2030, End: kprobetest.Text + 0x2035}}
	w.Black = []abi.Range{{Start: kprobetest.Text + 0x2040, End: kprobetest.Text + 0x2041}}
	for _, tc := range []struct {
		name   string
		symbol string
		addr   uint64
		offset uint32
		want   error
		at     uint64
	}{
		{name: "neither", want: syscall.EINVAL},
		{name: "both", symbol: "short", addr: vfsReadAt, want: syscall.EINVAL},
		{name: "unknown", symbol: "nofunc", want: syscall.ENOENT},
		{name: "no symbol at the address", addr: 0x400000, want: syscall.ENOENT},
		{name: "offset behind everything", symbol: "short", offset: 0x7fffffff, want: syscall.ENOENT},
		{name: "inside the fentry nop", symbol: "vfs_read", offset: 1, want: syscall.EILSEQ},
		{name: "inside a push", symbol: "vfs_read", offset: 6, want: syscall.EILSEQ},
		{name: "behind an undecodable byte", symbol: "bad", offset: 4, want: syscall.EILSEQ},
		{name: "data", symbol: "data", want: syscall.EINVAL},
		{name: "blacklisted", symbol: "nmi_handle", want: syscall.EINVAL},
		{name: "part of a blacklisted one", symbol: "nmi_handle.part.0", want: syscall.EINVAL},
		{name: "jump label", symbol: "key", want: syscall.EINVAL},
		{name: "behind a jump label", symbol: "key", offset: 5},
		{name: "static call", symbol: "static", want: syscall.EINVAL},
		{name: "BUG", symbol: "ud", want: syscall.EINVAL},
		{name: "inside a BUG", symbol: "ud", offset: 1, want: syscall.EILSEQ},
		{name: "__pfx_", symbol: "__pfx_short", want: syscall.EINVAL},
		{name: "far jump", symbol: "far", want: syscall.EOPNOTSUPP},
		{name: "mov ss", symbol: "movss", want: syscall.EINVAL},
		{name: "vmcall", symbol: "vmcall", want: syscall.EOPNOTSUPP},
		{name: "endbr64", symbol: "ibt", at: kprobetest.Text + 0x20b4},
		{name: "entry", symbol: "vfs_read"},
		{name: "an offset into another function", symbol: "short", offset: 0x40, want: syscall.EINVAL},
		{name: "an address and an offset", addr: vfsReadAt, offset: 5, at: readInner},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &kprobes.Kprobe{SymbolName: tc.symbol, Addr: tc.addr, Offset: tc.offset}
			err := w.k.Register(p)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if tc.at != 0 && p.Addr != tc.at {
				t.Errorf("probe at %#x, want %#x", p.Addr, tc.at)
			}
			if err == nil {
				w.k.Unregister(p)
			}
		})
	}
	w.Advance(time.Second)
	if n := w.SlotsInUse(); n != 0 {
		t.Errorf("%d slots are still in use", n)
	}
}

// TestStates follows docs/reference/linux/control-files.md section 2.
func TestStates(t *testing.T) {
	const orig = "41 57 41 56 41"
	w := newWorld(t)
	p := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5, Flags: kprobes.FlagDisabled})
	check := func(when, flags, text string) {
		t.Helper()
		w.wantList(t, when, "k  vfs_read+0x5    "+flags)
		w.wantText(t, when, readInner, text)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check("registered disabled", "[DISABLED]", orig)
	must(w.k.Enable(p))
	check("enabled", "[OPTIMIZED]", "cc 57 41 56 41")
	w.Advance(kprobes.OptimizeDelay - 1)
	check("before the delay", "[OPTIMIZED]", "cc 57 41 56 41")
	w.Advance(1)
	check("after the delay", "[OPTIMIZED]", "jump")
	must(w.k.Disable(p))
	check("disabled", "[DISABLED][OPTIMIZED]", "jump")
	w.Advance(kprobes.OptimizeDelay)
	check("disabled, after the delay", "[DISABLED]", orig)
	must(w.k.Enable(p))
	w.Advance(kprobes.OptimizeDelay)
	w.k.SetOptimization(false)
	check("optimization=0", "", "cc 57 41 56 41")
	w.k.SetOptimization(true)
	check("optimization=1", "[OPTIMIZED]", "cc 57 41 56 41")
	w.Advance(kprobes.OptimizeDelay)
	check("optimization=1, after the delay", "[OPTIMIZED]", "jump")
	must(w.k.SetEnabled(false))
	check("enabled=0", "", orig)
	must(w.k.SetEnabled(true))
	check("enabled=1", "[OPTIMIZED]", "cc 57 41 56 41")
	w.Advance(kprobes.OptimizeDelay)
	check("enabled=1, after the delay", "[OPTIMIZED]", "jump")
	must(w.k.SetEnabled(false))
	w.k.SetOptimization(false)
	check("both off", "", orig)
	must(w.k.SetEnabled(true))
	check("enabled=1 with optimization=0", "", "cc 57 41 56 41")
	w.k.SetOptimization(true)
	w.Advance(kprobes.OptimizeDelay)

	// Unregister while optimized, and within the optimizer's delay.
	w.k.Unregister(p)
	w.wantList(t, "unregistered")
	w.wantText(t, "unregistered", readInner, "jump")
	q := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5})
	check("revived", "[OPTIMIZED]", "jump")
	w.Advance(time.Second)
	check("revived, later", "[OPTIMIZED]", "jump")
	w.k.Unregister(q)
	w.Advance(time.Second)
	w.wantText(t, "gone", readInner, orig)
	if n := w.SlotsInUse(); n != 0 {
		t.Errorf("%d slots are still in use", n)
	}
	want := []string{
		"kprobes: kprobe jump-optimization is enabled. All kprobes are optimized if possible.",
		"kprobes: kprobe jump-optimization is disabled. All kprobes are based on software breakpoint.",
		"kprobes: kprobe jump-optimization is enabled. All kprobes are optimized if possible.",
		"kprobes: Kprobes globally disabled",
		"kprobes: Kprobes globally enabled",
		"kprobes: Kprobes globally disabled",
		"kprobes: kprobe jump-optimization is disabled. All kprobes are based on software breakpoint.",
		"kprobes: Kprobes globally enabled",
		"kprobes: kprobe jump-optimization is enabled. All kprobes are optimized if possible.",
	}
	if got := w.Log(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestInnerProbe: a probe inside an optimized region removes the jump for good; see
// the rows "2nd probe inside region" and "inner disabled or removed".
func TestInnerProbe(t *testing.T) {
	w := newWorld(t)
	outer := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5})
	w.Advance(time.Second)
	inner := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 7, Flags: kprobes.FlagDisabled})
	w.wantText(t, "inner registered", readInner, "jump")
	if err := w.k.Enable(inner); err != nil {
		t.Fatal(err)
	}
	w.wantText(t, "inner enabled", readInner, "cc 57 cc 56 41")
	state := func(p *kprobes.Kprobe) string {
		for _, i := range w.k.Points() {
			if i.Addr == p.Addr {
				return i.Flags.String()
			}
		}
		return "none"
	}
	if got := state(outer) + " " + state(inner); got != " [OPTIMIZED]" {
		t.Errorf("outer and inner are %q", got)
	}
	w.Advance(time.Second)
	w.wantText(t, "inner optimized", readInner, "cc 57 e9")
	if err := w.k.Disable(inner); err != nil {
		t.Fatal(err)
	}
	w.Advance(time.Second)
	w.wantText(t, "inner disabled", readInner, "cc 57 41 56 41")
	w.k.Unregister(inner)
	w.Advance(time.Second)
	w.wantText(t, "inner removed", readInner, "cc 57 41 56 41")
	if err := errors.Join(w.k.Disable(outer), w.k.Enable(outer)); err != nil {
		t.Fatal(err)
	}
	w.Advance(time.Second)
	w.wantText(t, "outer revived", readInner, "jump")
}

// TestPostHandlerBlocks: a second probe with a post-handler removes the jump, even if
// that probe is disabled. The jump is made again when it is unregistered.
func TestPostHandlerBlocks(t *testing.T) {
	w := newWorld(t)
	w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5})
	w.Advance(time.Second)
	q := w.register(t, &kprobes.Kprobe{
		SymbolName: "vfs_read", Offset: 5, Flags: kprobes.FlagDisabled,
		PostHandler: func(*kprobes.Hit, uint64) {},
	})
	w.wantText(t, "post-handler", readInner, "cc 57 41 56 41")
	w.wantList(t, "post-handler", "k  vfs_read+0x5    [DISABLED]", "k  vfs_read+0x5    ")
	w.k.Unregister(q)
	w.wantList(t, "without", "k  vfs_read+0x5    [OPTIMIZED]")
	w.Advance(time.Second)
	w.wantText(t, "without", readInner, "jump")
}

// TestKnobOff follows docs/reference/linux/control-files.md section 2.
func TestKnobOff(t *testing.T) {
	w := newWorld(t)
	w.Func(0x2000, "loop", 0xff, 0xc9, 0x75, 0xfc, 0xc3) // not optimizable
	plain := w.register(t, &kprobes.Kprobe{SymbolName: "loop", Flags: kprobes.FlagDisabled})
	opt := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5, Flags: kprobes.FlagDisabled})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.k.SetEnabled(false))
	must(w.k.Enable(plain))
	must(w.k.Enable(opt))
	fresh := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 9})
	if got := plain.State().String() + " " + opt.State().String() + " " + fresh.State().String(); got != "[DISABLED]  " {
		t.Errorf("with the knob off: %q", got)
	}
	must(w.k.SetEnabled(true))
	w.Advance(time.Second)
	w.wantText(t, "plain", plain.Addr, "ff c9")
	w.wantText(t, "aggregate", opt.Addr, "41 57")
	w.wantText(t, "registered meanwhile", fresh.Addr, "jump")
	for _, p := range []*kprobes.Kprobe{plain, opt} {
		must(w.k.Disable(p))
		must(w.k.Enable(p))
	}
	w.wantText(t, "plain repaired", plain.Addr, "cc c9")
	w.wantText(t, "aggregate repaired", opt.Addr, "cc 57")
}

func TestUnregister(t *testing.T) {
	w := newWorld(t)
	p := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read"})
	if err := w.k.Register(p); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("registered again: %v", err)
	}
	w.k.Unregister(p)
	if p.Addr != vfsReadAt || p.State()&kprobes.FlagDisabled == 0 {
		t.Errorf("after one: addr %#x flags %#x", p.Addr, p.State())
	}
	w.k.Unregister(p)
	if p.Addr != 0 {
		t.Errorf("after two: addr %#x", p.Addr)
	}
	w.k.Unregister(p)
	w.register(t, p)
	q := &kprobes.Kprobe{Addr: p.Addr}
	if err := w.k.Enable(q); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("enable of an unregistered one: %v", err)
	}
	if err := w.k.Disable(q); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("disable of an unregistered one: %v", err)
	}
	w.wantText(t, "armed", vfsReadAt, "e8")
	w.k.Unregister(p)
	w.wantText(t, "disarmed", vfsReadAt, "0f 1f 44 00 00")
}

func TestBatch(t *testing.T) {
	w := newWorld(t)
	ps := []*kprobes.Kprobe{{SymbolName: "vfs_read"}, {SymbolName: "nofunc"}, {SymbolName: "vfs_read", Offset: 5}}
	if err := w.k.RegisterAll(ps); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("bad entry: %v", err)
	}
	w.wantList(t, "bad entry")
	if ps[0].Addr != vfsReadAt || ps[2].Addr != 0 {
		t.Errorf("addresses %#x %#x", ps[0].Addr, ps[2].Addr)
	}
	if err := w.k.RegisterAll(nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("none: %v", err)
	}
	p := &kprobes.Kprobe{SymbolName: "vfs_read"}
	if err := w.k.RegisterAll([]*kprobes.Kprobe{p, p}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("twice: %v", err)
	}
	w.wantList(t, "twice")
	good := []*kprobes.Kprobe{{SymbolName: "vfs_read"}, {SymbolName: "vfs_read", Offset: 5}}
	if err := w.k.RegisterAll(good); err != nil {
		t.Fatal(err)
	}
	bad := &kprobes.Kprobe{Addr: vfsReadAt}
	w.k.UnregisterAll([]*kprobes.Kprobe{good[0], bad, good[1]})
	w.wantList(t, "unregistered")
	if bad.Addr != 0 {
		t.Errorf("bad entry keeps its address %#x", bad.Addr)
	}
}

// TestListOrder checks the formula of docs/reference/linux/control-files.md section 1.
func TestListOrder(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		w.Func(uint64(0x3000+16*i), fmt.Sprintf("f%d", i), 0x90, 0xc3)
		w.register(t, &kprobes.Kprobe{SymbolName: fmt.Sprintf("f%d", i)})
	}
	second := w.register(t, &kprobes.Kprobe{SymbolName: "f7", Flags: kprobes.FlagDisabled})
	last, bucket, seen := -1, -1, 0
	for i := range kprobes.Buckets {
		for _, r := range w.k.Bucket(nil, i) {
			seen++
			if got := int(r.Addr * 0x61C8864680B583EB >> 58); got != i {
				t.Errorf("%#x is in bucket %d, want %d", r.Addr, i, got)
			}
			n := int(r.Addr-kprobetest.Text-0x3000) / 16
			if bucket == i && n > last {
				t.Errorf("f%d comes after f%d", n, last)
			}
			if r.Addr == second.Addr && n != last && r.Flags != kprobes.FlagDisabled {
				t.Error("of two probes at an address, the newer one is not listed first")
			}
			last, bucket = n, i
		}
	}
	if seen != 201 {
		t.Errorf("%d lines", seen)
	}
}

func TestListLines(t *testing.T) {
	sym := abi.Symbol{Name: "vfs_read"}
	mod := abi.Symbol{Name: "kpt_rec", Module: "kpt"}
	for _, tc := range []struct {
		r    kprobes.Record
		hide bool
		want string
	}{
		{kprobes.Record{Addr: 0xffffffff81363795, Symbol: sym, Offset: 5, Known: true}, false, "ffffffff81363795  k  vfs_read+0x5    \n"},
		{kprobes.Record{Addr: 0xffffffff81363790, Ret: true, Symbol: sym, Known: true, Flags: kprobes.FlagFtrace | kprobes.FlagDisabled}, true, "0000000000000000  r  vfs_read+0x0    [DISABLED][FTRACE]\n"},
		{kprobes.Record{Addr: 0xffffffffc0201030, Symbol: mod, Known: true, Flags: kprobes.FlagOptimized}, false, "ffffffffc0201030  k  kpt_rec+0x0  kpt [OPTIMIZED]\n"},
		{kprobes.Record{Addr: 0xffffffffc0201030, Flags: kprobes.FlagGone | kprobes.FlagFtrace}, true, "0000000000000000  k  0xffffffffc0201030 [GONE][FTRACE]\n"},
	} {
		if got := string(tc.r.Append(nil, tc.hide)); got != tc.want {
			t.Errorf("got %q want %q", got, tc.want)
		}
	}
	w := newWorld(t)
	w.Black = []abi.Range{{Start: vfsReadAt, End: vfsReadAt + 0x20}}
	if got, want := string(w.k.Blacklist()[0].Append(nil, false)), "0xffffffff81001000-0xffffffff81001020\tvfs_read\n"; got != want {
		t.Errorf("got %q want %q", got, want)
	}
}

// TestGone follows docs/reference/linux/control-files.md section 2.
func TestGone(t *testing.T) {
	w := newWorld(t)
	old := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read"})
	jump := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5})
	w.Advance(time.Second)
	w.k.Kill(vfsReadAt, vfsReadAt+0x100)
	for _, p := range []*kprobes.Kprobe{old, jump} {
		if err := w.k.Enable(p); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("enable: %v", err)
		}
		if err := w.k.Disable(p); err != nil {
			t.Errorf("disable: %v", err)
		}
	}
	if got := old.State() | jump.State(); got != 0x19 {
		t.Errorf("flags %#x", got)
	}
	w.Poke(abi.Patch{Addr: vfsReadAt, Bytes: vfsRead}) // the module is loaded again
	fresh := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read"})
	again := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5})
	w.wantText(t, "new probe", vfsReadAt, "e8")
	var lines string
	for _, l := range strings.Split(w.list(), "\n") {
		if strings.Contains(l, "+0x0") {
			lines += l + "\n"
		}
	}
	if want := "k  vfs_read+0x0    [FTRACE]\nk  vfs_read+0x0    [GONE][FTRACE]\n"; lines != want {
		t.Errorf("list is %q, want %q", lines, want)
	}
	w.Advance(time.Second)
	w.wantText(t, "new probe", readInner, "jump")
	w.k.UnregisterAll([]*kprobes.Kprobe{old, jump, fresh, again})
	w.Advance(time.Second)
	w.wantList(t, "all unregistered")
	if n := w.SlotsInUse(); n != 0 {
		t.Errorf("%d slots are still in use", n)
	}
}

// TestGoneUnused: text is freed before the optimizer has removed the jumps of
// unregistered probes. No point and no slot must be left.
func TestGoneUnused(t *testing.T) {
	w := newWorld(t)
	first := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5})
	second := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 13})
	stays := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 22})
	w.Advance(time.Second)
	w.k.UnregisterAll([]*kprobes.Kprobe{first, second})
	w.k.Kill(vfsReadAt, vfsReadAt+0x100)
	points := w.k.TableSize()
	for _, pt := range w.k.Points() {
		if pt.Addr != stays.Addr || pt.Flags&kprobes.FlagGone == 0 {
			t.Errorf("a point at %#x, flags %v", pt.Addr, pt.Flags)
		}
	}
	w.k.Unregister(stays)
	w.Advance(time.Second)
	if n := w.SlotsInUse(); n != 0 || points != 1 {
		t.Errorf("%d points, %d slots in use", points, n)
	}
}

// wantErr checks that err wraps the errno want, or that it is nil if want is 0.
func wantErr(t testing.TB, err error, want syscall.Errno) {
	t.Helper()
	if want == 0 && err == nil {
		return
	}
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// TestRegisteredAgain: registering a registered probe that was given by address and
// offset fails and does not change its address.
func TestRegisteredAgain(t *testing.T) {
	w := newWorld(t)
	p := w.register(t, &kprobes.Kprobe{Addr: vfsReadAt, Offset: 5})
	if err := w.k.Register(p); !errors.Is(err, syscall.EINVAL) || p.Addr != readInner {
		t.Errorf("registered again: %v, at %#x", err, p.Addr)
	}
	if err := w.k.Unregister(p); err != nil {
		t.Error(err)
	}
	if points := w.k.Points(); len(points) != 0 {
		t.Errorf("%d points are left", len(points))
	}
}
