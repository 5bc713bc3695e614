package optimizer_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
	"github.com/kprobefs/kprobefs/optimizer"
)

type world struct {
	*kprobetest.Kernel
	k *kprobes.Kprobes
	o *optimizer.Optimizer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	m := kprobetest.New()
	m.Func(0x200, "optimized_callback", 0xc3)
	w := &world{Kernel: m, o: optimizer.New(optimizer.Config{Symbols: m, Tables: m, Slots: m})}
	c := m.Config()
	c.Optimizer = w.o
	c.Linux = release.Linux4_15
	w.k = kprobes.New(c)
	return w
}

func (w *world) register(t testing.TB, addr uint64) *kprobes.Kprobe {
	t.Helper()
	p := &kprobes.Kprobe{Addr: addr}
	if err := w.k.Register(p); err != nil {
		t.Fatal(err)
	}
	return p
}

// refusal returns why the point at addr cannot be optimized.
func (w *world) refusal(addr uint64) error {
	for _, i := range w.k.Points() {
		if i.Addr == addr {
			return i.NotJump
		}
	}
	return errors.New("no such point")
}

func TestRefusals(t *testing.T) {
	const at = kprobetest.Text + 0x1000
	nops := []byte{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}
	code := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	for _, tc := range []struct {
		name   string
		code   []byte
		off    uint64
		setup  func(m *kprobetest.Kernel)
		reason optimizer.Reason // 0 if it is optimized
		where  uint64           // from the function's start
	}{
		{name: "good", code: nops},
		{name: "good to the last byte", code: nops, off: 3},
		{name: "too short", code: nops, off: 4, reason: optimizer.TooShort},
		{name: "entry text", code: nops, setup: func(m *kprobetest.Kernel) { m.Entry = abi.Range{Start: at, End: at + 8} }, reason: optimizer.EntryText},
		{name: "exception table", code: nops, setup: func(m *kprobetest.Kernel) { m.Ex[at+7] = true }, reason: optimizer.ExTable, where: 7},
		{name: "undecodable", code: code(nops, []byte{0x0f, 0x38, 0xf7, 0xc0}), reason: optimizer.Undecodable, where: 8},
		{name: "jmp *rax", code: code(nops, []byte{0xff, 0xe0}), reason: optimizer.IndirectJump, where: 8},
		{name: "jmp *mem", code: code(nops, []byte{0xff, 0x25, 0, 0, 0, 0}), reason: optimizer.IndirectJump, where: 8},
		{name: "call *rax is fine", code: code(nops, []byte{0xff, 0xd0})},
		{
			name: "jmp to a thunk", code: code(nops, []byte{0xe9, 0, 1, 0, 0}), reason: optimizer.IndirectJump, where: 8,
			setup: func(m *kprobetest.Kernel) { m.Thunks = abi.Range{Start: at + 0x10d, End: at + 0x10e} },
		},
		{
			name:  "call of a thunk is fine",
			code:  code(nops, []byte{0xe8, 0, 1, 0, 0}),
			setup: func(m *kprobetest.Kernel) { m.Thunks = abi.Range{Start: at + 0x10d, End: at + 0x10e} },
		},
		{name: "inside an instruction", code: code([]byte{0x41, 0x55}, nops), off: 1, reason: optimizer.NotBoundary, where: 1},
		{name: "jump to the start is fine", code: code(nops, []byte{0xeb, 0xf6})},
		{name: "jump to +1", code: code(nops, []byte{0xeb, 0xf7}), reason: optimizer.JumpInto, where: 8},
		{name: "jump to +5", code: code(nops, []byte{0x75, 0xfb}), reason: optimizer.JumpInto, where: 8},
		{name: "jump to +6 is fine", code: code(nops, []byte{0x75, 0xfc})},
		{name: "loop to +2", code: code(nops, []byte{0xe2, 0xf8}), reason: optimizer.JumpInto, where: 8},
		{name: "call to +2 is fine", code: code(nops, []byte{0xe8, 0xf5, 0xff, 0xff, 0xff})},
		{name: "call in the region", code: code([]byte{0x90, 0xe8, 0, 1, 0, 0}, nops), reason: optimizer.NotBoostable, where: 1},
		{name: "mov ss in the region", code: code([]byte{0x90, 0x8e, 0xd0}, nops), reason: optimizer.NotCopyable, where: 1},
		{name: "shift in the region", code: code([]byte{0xc1, 0xe0, 3}, nops), reason: optimizer.NotBoostable},
		{name: "ftrace site", code: code(nops, nops), setup: func(m *kprobetest.Kernel) { m.Site(at + 4) }, reason: optimizer.FtraceSite},
		{name: "ftrace site behind", code: code(nops, nops), setup: func(m *kprobetest.Kernel) { m.Site(at + 5) }},
		{name: "lock prefix", code: nops, setup: func(m *kprobetest.Kernel) { m.Locks = []abi.Range{{Start: at + 2, End: at + 3}} }, reason: optimizer.SMPLock},
		{name: "jump label", code: nops, setup: func(m *kprobetest.Kernel) { m.Jumps = []abi.Range{{Start: at + 4, End: at + 6}} }, reason: optimizer.JumpLabel},
		{name: "static call", code: nops, setup: func(m *kprobetest.Kernel) { m.Calls = []abi.Range{{Start: at + 1, End: at + 6}} }, reason: optimizer.StaticCall},
		{name: "no callback", code: nops, setup: func(m *kprobetest.Kernel) { m.Symtab = m.Symtab[1:] }, reason: optimizer.NoCallback},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.Func(0x1000, "f", tc.code...)
			if tc.setup != nil {
				tc.setup(w.Kernel)
			}
			p := w.register(t, at+tc.off)
			w.Advance(time.Second)
			err := w.refusal(p.Addr)
			var r *optimizer.Refusal
			if tc.reason == 0 {
				if err != nil || w.Bytes(p.Addr, 1)[0] != 0xe9 {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !errors.As(err, &r) || r.Reason != tc.reason || tc.where != 0 && r.Addr != at+tc.where {
				t.Fatalf("got %v, want %v", err, tc.reason)
			}
			if b := w.Bytes(p.Addr, 1)[0]; b != 0xcc {
				t.Errorf("text is %#x", b)
			}
		})
	}
}

// TestErrnos checks the errnos of docs/reference/linux/x86-kprobes.md section 3.
func TestErrnos(t *testing.T) {
	for reason, want := range map[optimizer.Reason]syscall.Errno{
		optimizer.TooShort: syscall.EILSEQ, optimizer.IndirectJump: syscall.EILSEQ,
		optimizer.NotBoostable: syscall.EINVAL, optimizer.JumpLabel: syscall.EBUSY, optimizer.TooFar: syscall.ERANGE,
	} {
		if err := error(&optimizer.Refusal{Reason: reason}); !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	if got := (&optimizer.Refusal{Reason: optimizer.ExTable, Addr: 0x10}).Error(); got != "the function has an exception table entry, at 0x10" {
		t.Error(got)
	}
}

// TestDetour checks that a detour is as docs/reference/linux/x86-kprobes.md section 3
// describes it.
func TestDetour(t *testing.T) {
	w := newWorld(t)
	at := w.Func(0x1000, "f", 0x53, 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0x5b, 0xc3) // push rbx; mov 0x10(%rip),rax
	w.register(t, at)
	w.Advance(time.Second)
	rel := func(addr uint64) uint64 {
		return addr + 4 + uint64(int64(int32(binary.LittleEndian.Uint32(w.Bytes(addr, 4)))))
	}
	detour := rel(at + 1)
	if detour < kprobetest.Slots || detour >= kprobetest.Slots+kprobetest.SlotSize {
		t.Fatalf("the jump leads to %#x", detour)
	}
	want := "6a 18 54 9c 48 83 ec 18 57 56 52 51 50 41 50 41 51 41 52 41 53 53 55 41 54 41 55 41 56 41 57 48 89 e6 fc 48 bf"
	if got := fmt.Sprintf("% x", w.Bytes(detour, 37)); got != want {
		t.Errorf("it begins with\n%s, want\n%s", got, want)
	}
	op := binary.LittleEndian.Uint64(w.Bytes(detour+37, 8))
	if words := w.Bytes(op, kprobes.OpSize); binary.LittleEndian.Uint64(words) != 0 || binary.LittleEndian.Uint64(words[8:]) != at {
		t.Errorf("op leads to % x, which is not 0 and %#x", words, at)
	}
	if to := rel(detour + 46); w.Bytes(detour+45, 1)[0] != 0xe8 || to != kprobetest.Text+0x200 {
		t.Errorf("it calls %#x", to)
	}
	want = "48 8b 94 24 90 00 00 00 48 89 94 24 a0 00 00 00 41 5f 41 5e 41 5d 41 5c 5d 5b 41 5b 41 5a 41 59 41 58 58 59 5a 5e 5f 48 83 c4 28 9d"
	if got := fmt.Sprintf("% x", w.Bytes(detour+50, 44)); got != want {
		t.Errorf("it continues with\n%s, want\n%s", got, want)
	}
	out := detour + 50 + 44
	if got := fmt.Sprintf("% x", w.Bytes(out, 4)); got != "53 48 8b 05" {
		t.Errorf("its copies begin with %s", got)
	}
	if to := rel(out + 4); to != at+8+0x10 {
		t.Errorf("the copied operand is at %#x, want %#x", to, at+0x18)
	}
	if to := rel(out + 9); w.Bytes(out+8, 1)[0] != 0xe9 || to != at+8 {
		t.Errorf("it jumps back to %#x, want %#x", to, at+8)
	}
	if i := w.k.Points()[0]; i.Detour != out || i.NotJump != nil {
		t.Errorf("%+v", i)
	}
}

// TestGracePeriod: a probe that is queued during a grace period does not get its jump at
// the end of that one, and the bytes after its breakpoint are unchanged until then.
func TestGracePeriod(t *testing.T) {
	w := newWorld(t)
	nops := []byte(strings.Repeat("\x90", 8))
	first, second := w.Func(0x1000, "f", nops...), w.Func(0x2000, "g", nops...)
	w.register(t, first)
	waits := 0
	w.OnRCUTasks = func() {
		if waits++; waits == 1 {
			if b := w.Bytes(first, 2); b[0] != 0xcc {
				t.Errorf("during the grace period the text is % x", b)
			}
			w.register(t, second)
		}
	}
	w.Advance(kprobes.OptimizeDelay)
	if a, b := w.Bytes(first, 1)[0], w.Bytes(second, 1)[0]; a != 0xe9 || b != 0xcc {
		t.Errorf("after one grace period: %#x %#x", a, b)
	}
	w.Advance(kprobes.OptimizeDelay)
	if b := w.Bytes(second, 1)[0]; b != 0xe9 || waits != 2 {
		t.Errorf("after %d: %#x", waits, b)
	}
}

// TestStaleJumpInRegion: when a probe gets a jump, the jump of a probe inside its region
// that was just unregistered or disabled is removed first, since int3s that continue
// in a detour return there.
func TestStaleJumpInRegion(t *testing.T) {
	for name, stop := range map[string]func(w *world, p *kprobes.Kprobe) error{
		"unregistered": func(w *world, p *kprobes.Kprobe) error { w.k.Unregister(p); return nil },
		"disabled":     func(w *world, p *kprobes.Kprobe) error { return w.k.Disable(p) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			at := w.Func(0x1000, "f", []byte(strings.Repeat("\x90", 12))...)
			inner := w.register(t, at+2)
			w.Advance(kprobes.OptimizeDelay)
			if err := stop(w, inner); err != nil {
				t.Fatal(err)
			}
			if b := w.Bytes(at+2, 1)[0]; b != 0xe9 {
				t.Fatalf("the inner jump has been removed already: %#x", b)
			}
			w.register(t, at)
			if got := fmt.Sprintf("% x", w.Bytes(at, 8)); got != "cc 90 90 90 90 90 90 90" {
				t.Errorf("text is %s", got)
			}
			w.Advance(kprobes.OptimizeDelay)
			if b := w.Bytes(at, 8); b[0] != 0xe9 || b[5] != 0x90 || b[6] != 0x90 {
				t.Errorf("text is % x", b)
			}
		})
	}
}

// TestDisabledInGracePeriod: a probe that is disabled or switched off during the grace period does
// not get its jump.
func TestDisabledInGracePeriod(t *testing.T) {
	for name, stop := range map[string]func(w *world, p *kprobes.Kprobe) error{
		"disabled": func(w *world, p *kprobes.Kprobe) error { return w.k.Disable(p) },
		"gone":     func(w *world, p *kprobes.Kprobe) error { w.k.Unregister(p); return nil },
		"blocked":  func(w *world, p *kprobes.Kprobe) error { return w.k.Register(&kprobes.Kprobe{Addr: p.Addr + 2}) },
		"post": func(w *world, p *kprobes.Kprobe) error {
			return w.k.Register(&kprobes.Kprobe{Addr: p.Addr, PostHandler: func(*kprobes.Hit, uint64) {}})
		},
		"enabled=0": func(w *world, p *kprobes.Kprobe) error {
			go w.k.SetEnabled(false) // waits for the optimizer, and so for this test
			for w.k.Enabled() {
				time.Sleep(time.Millisecond)
			}
			return nil
		},
		"module out": func(w *world, p *kprobes.Kprobe) error { w.k.Kill(p.Addr, p.Addr+8); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.register(t, w.Func(0x1000, "f", []byte(strings.Repeat("\x90", 12))...))
			done := false
			w.OnRCUTasks = func() {
				if !done {
					done = true
					if err := stop(w, p); err != nil {
						t.Error(err)
					}
				}
			}
			w.Advance(time.Second)
			if b := w.Bytes(kprobetest.Text+0x1000, 1)[0]; b == 0xe9 || !done {
				t.Errorf("text is %#x", b)
			}
		})
	}
}

// TestMany registers probes at every second byte of a long function and unregisters
// them in another order. The text must be restored and all slots freed.
func TestMany(t *testing.T) {
	w := newWorld(t)
	before := w.SlotsInUse()
	code := []byte(strings.Repeat("\x41\x57", 100))
	at := w.Func(0x1000, "f", code...)
	var ps []*kprobes.Kprobe
	for i := range 100 {
		ps = append(ps, w.register(t, at+uint64(2*i)))
		if i%7 == 0 {
			w.Advance(kprobes.OptimizeDelay)
		}
	}
	for i := range ps {
		switch p := ps[i*37%100]; i % 3 {
		case 0:
			w.k.Unregister(p)
		case 1:
			if err := errors.Join(w.k.Disable(p), w.k.Enable(p)); err != nil {
				t.Fatal(err)
			}
			w.Advance(kprobes.OptimizeDelay)
		case 2:
			w.k.SetOptimization(i%2 == 0)
		}
	}
	w.k.SetOptimization(true)
	w.k.UnregisterAll(ps)
	w.Advance(time.Second)
	if got := string(w.Bytes(at, len(code))); got != string(code) {
		t.Errorf("text is % x", got)
	}
	if n := w.SlotsInUse(); n != before {
		t.Errorf("%d slots are still in use", n-before)
	}
}
