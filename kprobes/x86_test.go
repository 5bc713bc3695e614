package kprobes_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
)

// stepOnce finishes a single-step: the int3 after a copy of n bytes.
func stepOnce(t *testing.T, w *world, tr *abi.Trap, n uint64) {
	t.Helper()
	slot := tr.Regs.IP
	if slot < kprobetest.Slots || tr.Regs.Flags&abi.FlagIF != 0 {
		t.Fatalf("ip %#x flags %#x: not stepping", slot, tr.Regs.Flags)
	}
	if b := w.Bytes(slot+n, 1); b[0] != 0xcc {
		t.Fatalf("no int3 after the copy: %x", b)
	}
	tr.Regs.IP = slot + n + 1
	if !w.k.Int3(tr) {
		t.Fatal("the second int3 was not handled")
	}
}

func TestStep(t *testing.T) {
	w := newWorld(t)
	var log []string
	p := w.register(t, &kprobes.Kprobe{
		SymbolName: "vfs_read", Offset: 15,
		PreHandler: func(h *kprobes.Hit) int {
			log = append(log, fmt.Sprintf("pre +%#x", h.Regs.IP-vfsReadAt))
			return 0
		},
		PostHandler: func(h *kprobes.Hit, flags uint64) {
			log = append(log, fmt.Sprintf("post +%#x flags %d IF %v", h.Regs.IP-vfsReadAt, flags, h.Regs.Flags&abi.FlagIF != 0))
		},
	})
	tr := w.Trap(0, p.Addr)
	if !w.k.Int3(tr) {
		t.Fatal("not taken")
	}
	// mov 0x10(%rip),%rax must still reach the same operand.
	slot := tr.Regs.IP
	disp := int32(binary.LittleEndian.Uint32(w.Bytes(slot+3, 4)))
	if got, want := slot+7+uint64(int64(disp)), p.Addr+7+0x10; got != want {
		t.Errorf("operand at %#x, want %#x", got, want)
	}
	stepOnce(t, w, tr, 7)
	if tr.Regs.IP != p.Addr+7 || tr.Regs.Flags&abi.FlagIF == 0 {
		t.Errorf("continues at %#x with flags %#x", tr.Regs.IP, tr.Regs.Flags)
	}
	if want := []string{"pre +0x10", "post +0x16 flags 0 IF true"}; !slices.Equal(log, want) {
		t.Errorf("log %q, want %q", log, want)
	}
}

func TestBoost(t *testing.T) {
	m := kprobetest.New()
	m.Func(0x1000, "f", 0x48, 0x89, 0xf8, 0xc3)
	c := m.Config()
	c.NoPreempt = true
	k := kprobes.New(c)
	p := &kprobes.Kprobe{SymbolName: "f"}
	if err := k.Register(p); err != nil {
		t.Fatal(err)
	}
	tr := m.Trap(0, p.Addr)
	k.Int3(tr)
	b := m.Bytes(tr.Regs.IP, 8)
	back := tr.Regs.IP + 8 + uint64(int64(int32(binary.LittleEndian.Uint32(b[4:]))))
	if b[3] != 0xe9 || back != p.Addr+3 || tr.Regs.Flags&abi.FlagIF == 0 {
		t.Errorf("copy % x leads to %#x, want %#x", b, back, p.Addr+3)
	}
}

func TestEmulate(t *testing.T) {
	const sp = kprobetest.Stack + 0x2000
	type regs = abi.Regs
	const f = abi.FlagIF | 2
	for _, tc := range []struct {
		name string
		code []byte
		in   regs // IP is set by the test
		want regs // IP is relative to the instruction
		top  uint64
	}{
		{"cli", []byte{0xfa}, regs{Flags: f}, regs{Flags: 2, IP: 1, SP: sp}, 0},
		{"sti", []byte{0xfb}, regs{Flags: 2}, regs{Flags: f, IP: 1, SP: sp}, 0},
		{"pushf", []byte{0x9c}, regs{Flags: f}, regs{Flags: f, IP: 1, SP: sp - 8}, f},
		{"popf", []byte{0x9d}, regs{Flags: f}, regs{Flags: 0x77, IP: 1, SP: sp + 8}, 0},
		{"ret", []byte{0xc3}, regs{Flags: f}, regs{Flags: f, IP: 0x77, SP: sp + 8}, 0},
		{"ret imm", []byte{0xc2, 0x10, 0}, regs{Flags: f}, regs{Flags: f, IP: 0x77, SP: sp + 8}, 0},
		{"call", []byte{0xe8, 0xf6, 0xff, 0xff, 0xff}, regs{Flags: f}, regs{Flags: f, IP: ^uint64(4), SP: sp - 8}, 5},
		{"jmp", []byte{0xe9, 1, 0, 0, 0}, regs{Flags: f}, regs{Flags: f, IP: 6, SP: sp}, 0},
		{"jmp short", []byte{0xeb, 0xfe}, regs{Flags: f}, regs{Flags: f, IP: 0, SP: sp}, 0},
		{"je taken", []byte{0x74, 0x10}, regs{Flags: f | abi.FlagZF}, regs{Flags: f | abi.FlagZF, IP: 0x12, SP: sp}, 0},
		{"je not", []byte{0x74, 0x10}, regs{Flags: f}, regs{Flags: f, IP: 2, SP: sp}, 0},
		{"jne near", []byte{0x0f, 0x85, 0, 1, 0, 0}, regs{Flags: f}, regs{Flags: f, IP: 0x106, SP: sp}, 0},
		{"jo", []byte{0x70, 1}, regs{Flags: abi.FlagOF}, regs{Flags: abi.FlagOF, IP: 3, SP: sp}, 0},
		{"jae", []byte{0x73, 1}, regs{Flags: abi.FlagCF}, regs{Flags: abi.FlagCF, IP: 2, SP: sp}, 0},
		{"ja", []byte{0x77, 1}, regs{Flags: abi.FlagZF}, regs{Flags: abi.FlagZF, IP: 2, SP: sp}, 0},
		{"js", []byte{0x78, 1}, regs{Flags: abi.FlagSF}, regs{Flags: abi.FlagSF, IP: 3, SP: sp}, 0},
		{"jnp", []byte{0x7b, 1}, regs{Flags: abi.FlagPF}, regs{Flags: abi.FlagPF, IP: 2, SP: sp}, 0},
		{"jl", []byte{0x7c, 1}, regs{Flags: abi.FlagSF}, regs{Flags: abi.FlagSF, IP: 3, SP: sp}, 0},
		{"jl overflow", []byte{0x7c, 1}, regs{Flags: abi.FlagSF | abi.FlagOF}, regs{Flags: abi.FlagSF | abi.FlagOF, IP: 2, SP: sp}, 0},
		{"jg", []byte{0x7f, 1}, regs{Flags: abi.FlagOF}, regs{Flags: abi.FlagOF, IP: 2, SP: sp}, 0},
		{"jle", []byte{0x7e, 1}, regs{Flags: abi.FlagZF}, regs{Flags: abi.FlagZF, IP: 3, SP: sp}, 0},
		{"loop", []byte{0xe2, 5}, regs{CX: 2}, regs{CX: 1, IP: 7, SP: sp}, 0},
		{"loop done", []byte{0xe2, 5}, regs{CX: 1}, regs{CX: 0, IP: 2, SP: sp}, 0},
		{"loope", []byte{0xe1, 5}, regs{CX: 2, Flags: abi.FlagZF}, regs{CX: 1, Flags: abi.FlagZF, IP: 7, SP: sp}, 0},
		{"loopne", []byte{0xe0, 5}, regs{CX: 2, Flags: abi.FlagZF}, regs{CX: 1, Flags: abi.FlagZF, IP: 2, SP: sp}, 0},
		{"loop ecx", []byte{0x67, 0xe2, 5}, regs{CX: 1 << 32}, regs{CX: 0xffffffff, IP: 8, SP: sp}, 0},
		{"jrcxz", []byte{0xe3, 5}, regs{}, regs{IP: 7, SP: sp}, 0},
		{"jecxz", []byte{0x67, 0xe3, 5}, regs{CX: 1 << 32}, regs{CX: 1 << 32, IP: 8, SP: sp}, 0},
		{"call rax", []byte{0xff, 0xd0}, regs{AX: 0x123}, regs{AX: 0x123, IP: 0x123, SP: sp - 8}, 2},
		{"call r11", []byte{0x41, 0xff, 0xd3}, regs{R11: 0x123}, regs{R11: 0x123, IP: 0x123, SP: sp - 8}, 3},
		{"jmp rbx", []byte{0xff, 0xe3}, regs{BX: 0x123}, regs{BX: 0x123, IP: 0x123, SP: sp}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			at := w.Func(0x2000, "f", append(tc.code, 0x90, 0x90)...)
			w.WriteU64(sp, 0x77)
			posts := 0
			w.register(t, &kprobes.Kprobe{Addr: at, PostHandler: func(*kprobes.Hit, uint64) { posts++ }})
			tr := w.Trap(0, at)
			tc.in.IP, tc.in.SP = at+1, sp
			*tr.Regs = tc.in
			if !w.k.Int3(tr) {
				t.Fatal("not taken")
			}
			want := tc.want
			absolute := want.IP == 0x77 || want.IP == 0x123
			if !absolute {
				want.IP += at
			}
			if *tr.Regs != want {
				t.Errorf("got  %+v\nwant %+v", *tr.Regs, want)
			}
			if tc.top != 0 {
				top, _ := w.ReadU64(tr.Regs.SP)
				if tc.name != "pushf" {
					tc.top += at
				}
				if top != tc.top {
					t.Errorf("pushed %#x, want %#x", top, tc.top)
				}
			}
			if posts != 1 {
				t.Errorf("%d post-handlers", posts)
			}
		})
	}
}

// TestHandlers follows docs/reference/linux/control-files.md section 3: several kprobes at
// one address, and a pre-handler that returns 1.
func TestHandlers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		offset uint32
		hit    func(w *world, tr *abi.Trap)
		want   []string
		ip     uint64
	}{
		{"int3", 15, func(w *world, tr *abi.Trap) { w.k.Int3(tr) }, []string{"2", "1"}, 0x42},
		{"ftrace", 0, func(w *world, tr *abi.Trap) { tr.Regs.IP--; w.k.Ftrace(tr) }, []string{"2", "1"}, 0x42},
		{"optimized", 5, func(w *world, tr *abi.Trap) { tr.Arg = tr.Regs.IP - 1; w.k.Optimized(tr) }, []string{"2", "1", "0"}, readInner + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			var log []string
			for i := range 3 {
				w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: tc.offset, PreHandler: func(h *kprobes.Hit) int {
					log = append(log, fmt.Sprint(i))
					if h.Regs.IP != h.Probe.Addr+1 {
						t.Errorf("ip is %#x, want one past %#x", h.Regs.IP, h.Probe.Addr)
					}
					if i != 1 {
						return 0
					}
					if tc.name != "optimized" {
						h.Regs.IP = 0x42
					}
					return 1
				}})
			}
			tr := w.Trap(0, vfsReadAt+uint64(tc.offset))
			tc.hit(w, tr)
			if !slices.Equal(log, tc.want) || tr.Regs.IP != tc.ip {
				t.Errorf("handlers %q at %#x, want %q at %#x", log, tr.Regs.IP, tc.want, tc.ip)
			}
			log = nil
			tc.hit(w, w.Trap(0, vfsReadAt+uint64(tc.offset)))
			if !slices.Equal(log, tc.want) {
				t.Errorf("the second time: %q", log)
			}
		})
	}
}

func TestFtraceResume(t *testing.T) {
	w := newWorld(t)
	post := uint64(0)
	p := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", PostHandler: func(h *kprobes.Hit, _ uint64) { post = h.Regs.IP }})
	for _, disabled := range []bool{false, true} {
		if disabled {
			w.k.Disable(p)
			post = vfsReadAt + 5
		}
		tr := w.Trap(0, vfsReadAt)
		tr.Regs.IP = vfsReadAt
		w.k.Ftrace(tr)
		if tr.Regs.IP != vfsReadAt+5 || post != vfsReadAt+5 {
			t.Errorf("continues at %#x, post-handler saw %#x", tr.Regs.IP, post)
		}
	}
}

// TestReenter: a probe that is hit in a handler is single-stepped without calling its
// handlers, and counted as missed. A hit during that single-step is not handled.
func TestReenter(t *testing.T) {
	w := newWorld(t)
	w.Func(0x2000, "inner", 0x48, 0x89, 0xf8, 0x90)
	ran := 0
	inner := w.register(t, &kprobes.Kprobe{SymbolName: "inner", PreHandler: func(*kprobes.Hit) int { ran++; return 0 }})
	site := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", PreHandler: func(*kprobes.Hit) int { ran++; return 0 }})
	outer := w.register(t, &kprobes.Kprobe{
		SymbolName: "vfs_read", Offset: 15, PostHandler: func(*kprobes.Hit, uint64) { ran += 10 },
		PreHandler: func(h *kprobes.Hit) int {
			tr := w.Trap(0, inner.Addr)
			w.k.Int3(tr)
			tr2 := w.Trap(0, inner.Addr)
			if w.k.Int3(tr2) {
				t.Error("a hit during the single-step of a reentered probe was handled")
			}
			stepOnce(t, w, tr, 3)
			if tr.Regs.IP != inner.Addr+3 {
				t.Errorf("reentered probe continues at %#x", tr.Regs.IP)
			}
			tr = w.Trap(0, vfsReadAt)
			tr.Regs.IP = vfsReadAt
			w.k.Ftrace(tr)
			tr = w.Trap(0, inner.Addr)
			tr.Arg = inner.Addr
			w.k.Optimized(tr)
			return 0
		},
	})
	tr := w.Trap(0, outer.Addr)
	w.k.Int3(tr)
	stepOnce(t, w, tr, 7)
	if ran != 10 || inner.Missed() != 2 || site.Missed() != 1 || outer.Missed() != 0 {
		t.Errorf("ran %d missed %d %d %d", ran, inner.Missed(), site.Missed(), outer.Missed())
	}
	other := w.Trap(1, inner.Addr)
	w.k.Int3(other)
	if ran != 11 {
		t.Error("the other CPU's hit was not handled")
	}
}

// TestFault: a fault of a single-stepped copy is reported at the probed address, and
// the probe can be hit again.
func TestFault(t *testing.T) {
	w := newWorld(t)
	p := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 15, PostHandler: func(*kprobes.Hit, uint64) {}})
	for range 2 {
		tr := w.Trap(0, p.Addr)
		w.k.Int3(tr)
		tr.Vector = abi.VecPF
		if w.k.Fault(tr) || tr.Regs.IP != p.Addr || tr.Regs.Flags&abi.FlagIF == 0 {
			t.Errorf("ip %#x flags %#x", tr.Regs.IP, tr.Regs.Flags)
		}
	}
	tr := w.Trap(0, 0x1234)
	if w.k.Fault(tr) || tr.Regs.IP != 0x1235 {
		t.Error("a fault outside of a single-step was changed")
	}
	if p.Missed() != 0 {
		t.Errorf("missed %d", p.Missed())
	}
}

// TestStaleInt3: if the int3 has been removed before it is handled, the instruction
// is executed again. An int3 without a probe is left to the guest.
func TestStaleInt3(t *testing.T) {
	w := newWorld(t)
	p := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 15})
	w.k.Unregister(p)
	tr := w.Trap(0, vfsReadAt+15)
	if !w.k.Int3(tr) || tr.Regs.IP != vfsReadAt+15 {
		t.Errorf("ip %#x", tr.Regs.IP)
	}
	padding := uint64(kprobetest.Text + 0x8000)
	if tr = w.Trap(0, padding); w.k.Int3(tr) {
		t.Error("an int3 of the padding was handled")
	}
}

// TestOptimizedInt3: an int3 at an optimized point whose jump is not yet written
// continues in the detour.
func TestOptimizedInt3(t *testing.T) {
	w := newWorld(t)
	w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5})
	tr := w.Trap(0, readInner)
	w.k.Int3(tr)
	if got := fmt.Sprintf("% x", w.Bytes(tr.Regs.IP, 7)); got != "41 57 41 56 41 55 e9" {
		t.Errorf("continues with %s", got)
	}
	if tr.Regs.Flags&abi.FlagIF == 0 {
		t.Error("interrupts are off")
	}
}

func TestRetprobe(t *testing.T) {
	const slot = kprobetest.Stack + 0x2000
	w := newWorld(t)
	var log []string
	ret := func(name string) kprobes.RetHandler {
		return func(ri *kprobes.Instance, h *kprobes.Hit) int {
			log = append(log, fmt.Sprintf("ret %s %x ax=%d ip=%x sp=%x", name, ri.Data, h.Regs.ReturnValue(), h.Regs.IP, h.Regs.SP-slot))
			h.Regs.AX++
			h.Regs.IP = 1 // ignored
			return 7
		}
	}
	entry := func(name string) kprobes.RetHandler {
		return func(ri *kprobes.Instance, _ *kprobes.Hit) int {
			if ri.RetAddr != 0 {
				t.Errorf("ret_addr %#x in the entry handler", ri.RetAddr)
			}
			copy(ri.Data, name)
			log = append(log, "entry "+name)
			return 0
		}
	}
	r0 := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, Handler: ret("r0"), EntryHandler: entry("r0"), DataSize: 2}
	r1 := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, Handler: ret("r1"), EntryHandler: entry("r1"), DataSize: 2}
	if err := w.k.RegisterRetprobes([]*kprobes.Retprobe{r0, r1}); err != nil {
		t.Fatal(err)
	}
	if r0.MaxActive != 10 {
		t.Errorf("maxactive %d", r0.MaxActive)
	}
	call := func(task uint64) *abi.Trap {
		w.WriteU64(slot, 0xabc)
		tr := w.Trap(0, vfsReadAt)
		tr.Regs.IP, tr.Task = vfsReadAt, task
		w.k.Ftrace(tr)
		if v, _ := w.ReadU64(slot); v != trampoline {
			t.Fatalf("return slot holds %#x", v)
		}
		return tr
	}
	tr := call(1)
	tr.RegsAddr = slot - abi.RegsSize
	tr.Regs.AX = 5
	w.k.Rethook(tr)
	want := []string{
		"entry r1", "entry r0",
		"ret r0 7230 ax=5 ip=abc sp=8",
		// The next handler sees the registers as the previous one left them,
		// including ip.
		"ret r1 7231 ax=6 ip=1 sp=8",
	}
	if !slices.Equal(log, want) {
		t.Errorf("got  %q\nwant %q", log, want)
	}
	if v, _ := w.ReadU64(slot); v != 0xabc || tr.Regs.AX != 7 || tr.Regs.IP != 0xabc {
		t.Errorf("slot %#x ax %d ip %#x", v, tr.Regs.AX, tr.Regs.IP)
	}

	// Unregistered during a call: it returns without calling the handler.
	log = nil
	tr = call(1)
	w.k.UnregisterRetprobes([]*kprobes.Retprobe{r0, r1})
	tr.RegsAddr = slot - abi.RegsSize
	w.k.Rethook(tr)
	if v, _ := w.ReadU64(slot); v != 0xabc || len(log) != 2 {
		t.Errorf("slot %#x log %q", v, log)
	}
}

// TestMaxActive: docs/reference/linux/control-files.md section 3, "one instance,
// five calls deep".
func TestMaxActive(t *testing.T) {
	w := newWorld(t)
	entries, returns := 0, 0
	rp := &kprobes.Retprobe{
		Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, MaxActive: 1,
		EntryHandler: func(*kprobes.Instance, *kprobes.Hit) int { entries++; return 0 },
		Handler:      func(*kprobes.Instance, *kprobes.Hit) int { returns++; return 0 },
	}
	if err := w.k.RegisterRetprobe(rp); err != nil {
		t.Fatal(err)
	}
	first := uint64(0)
	for depth := range uint64(5) {
		tr := w.Trap(0, vfsReadAt)
		tr.Regs.IP = vfsReadAt
		tr.Regs.SP -= 64 * depth
		w.WriteU64(tr.Regs.SP, 0xabc+depth)
		if first == 0 {
			first = tr.Regs.SP
		}
		w.k.Ftrace(tr)
	}
	tr := w.Trap(0, 0)
	tr.RegsAddr = first - abi.RegsSize
	w.k.Rethook(tr)
	if entries != 1 || returns != 1 || rp.Missed() != 4 || rp.Kprobe.Missed() != 0 {
		t.Errorf("entries %d returns %d nmissed %d %d", entries, returns, rp.Missed(), rp.Kprobe.Missed())
	}

	// The instance of a task that dies during the call is freed.
	hit := func() {
		tr := w.Trap(0, vfsReadAt)
		tr.Regs.IP = vfsReadAt
		w.k.Ftrace(tr)
	}
	hit()
	w.k.FlushTask(w.Trap(0, 0).Task)
	hit()
	if entries != 3 || rp.Missed() != 4 {
		t.Errorf("after the flush: entries %d nmissed %d", entries, rp.Missed())
	}
}

func TestRetprobeErrors(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		name string
		rp   *kprobes.Retprobe
		want syscall.Errno
	}{
		{"not at the entry", &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5}}, syscall.EINVAL},
		{"unknown", &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "nofunc"}}, syscall.ENOENT},
		{"__switch_to", &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "__switch_to"}}, syscall.EINVAL},
		{"data", &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, DataSize: 4097}, syscall.E2BIG},
		{"too many", &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, MaxActive: 1<<31 - 1}, syscall.ENOMEM},
		{"too much", &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, MaxActive: 1 << 17, DataSize: 4096}, syscall.ENOMEM},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantErr(t, w.k.RegisterRetprobe(tc.rp), tc.want)
		})
	}
	w.register(t, &kprobes.Kprobe{SymbolName: "__switch_to"}) // a plain one is accepted
}

// TestConcurrent hits probes on all CPUs while they are registered and unregistered.
func TestConcurrent(t *testing.T) {
	w := newWorld(t)
	w.Func(0x2000, "inner", 0x48, 0x89, 0xf8, 0x90)
	stop := make(chan struct{})
	done := make(chan struct{})
	for cpu := range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			tr := w.Trap(cpu, 0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				hitAll(w, tr)
			}
		}()
	}
	hits := make([]uint64, 2)
	handler := func(h *kprobes.Hit) int { hits[h.CPU]++; return 0 }
	end := time.Now().Add(300 * time.Millisecond)
	for time.Now().Before(end) {
		ps := []*kprobes.Kprobe{
			{SymbolName: "inner", PreHandler: handler},
			{SymbolName: "vfs_read", PreHandler: handler},
			{SymbolName: "vfs_read", Offset: 5, PreHandler: handler},
			{SymbolName: "inner", PreHandler: handler},
		}
		rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}}
		if err := w.k.RegisterAll(ps); err != nil {
			t.Error(err)
		}
		if err := w.k.RegisterRetprobe(rp); err != nil {
			t.Error(err)
		}
		w.Advance(20 * time.Millisecond)
		w.k.Disable(ps[0])
		w.k.Enable(ps[0])
		w.k.SetEnabled(false)
		w.k.SetEnabled(true)
		w.list()
		w.k.UnregisterRetprobe(rp)
		w.k.UnregisterAll(ps)
		w.Advance(20 * time.Millisecond)
	}
	close(stop)
	<-done
	<-done
	if hits[0]+hits[1] == 0 {
		t.Error("no hit was handled")
	}
}

func hitAll(w *world, tr *abi.Trap) {
	regs := abi.Regs{SP: kprobetest.Stack + 0x1000*uint64(tr.CPU+1), Flags: 0x202}
	for _, addr := range []uint64{kprobetest.Text + 0x2000, readInner} {
		*tr.Regs = regs
		tr.Regs.IP = addr + 1
		w.k.Int3(tr)
		if tr.Regs.Flags&abi.FlagIF == 0 {
			tr.Regs.IP += 4
			w.k.Int3(tr)
		}
		*tr.Regs, tr.Arg = regs, addr
		w.k.Optimized(tr)
	}
	*tr.Regs = regs
	tr.Regs.IP = vfsReadAt
	w.WriteU64(regs.SP, 0xabc)
	w.k.Ftrace(tr)
	if v, _ := w.ReadU64(regs.SP); v == trampoline {
		tr.RegsAddr = regs.SP - abi.RegsSize
		w.k.Rethook(tr)
	}
}

func BenchmarkInt3(b *testing.B) {
	w := newWorld(b)
	w.Func(0x2000, "inner", 0x48, 0x89, 0xf8, 0x90)
	hits := 0
	p := w.register(b, &kprobes.Kprobe{SymbolName: "inner", PreHandler: func(*kprobes.Hit) int { hits++; return 0 }})
	tr := w.Trap(0, p.Addr)
	regs := *tr.Regs
	b.ReportAllocs()
	for b.Loop() {
		*tr.Regs = regs
		w.k.Int3(tr)
		tr.Regs.IP += 4
		w.k.Int3(tr)
	}
}

func BenchmarkFtrace(b *testing.B) {
	w := newWorld(b)
	hits := 0
	w.register(b, &kprobes.Kprobe{SymbolName: "vfs_read", PreHandler: func(*kprobes.Hit) int { hits++; return 0 }})
	tr := w.Trap(0, vfsReadAt)
	b.ReportAllocs()
	for b.Loop() {
		tr.Regs.IP = vfsReadAt
		w.k.Ftrace(tr)
	}
}

func BenchmarkRetprobe(b *testing.B) {
	w := newWorld(b)
	hits := 0
	rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, Handler: func(*kprobes.Instance, *kprobes.Hit) int { hits++; return 0 }}
	if err := w.k.RegisterRetprobe(rp); err != nil {
		b.Fatal(err)
	}
	tr := w.Trap(0, vfsReadAt)
	regs := *tr.Regs
	tr.RegsAddr = regs.SP - abi.RegsSize
	w.WriteU64(regs.SP, 0xabc)
	b.ReportAllocs()
	for b.Loop() {
		*tr.Regs = regs
		tr.Regs.IP = vfsReadAt
		w.k.Ftrace(tr)
		w.k.Rethook(tr)
	}
}
