package kprobes_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
)

const (
	unmapped     = 0xffffc8fffffff000
	nonCanonical = 1 << 60
)

// TestFaultHandler: a fault of the single-stepped copy calls the fault handler with
// the vector. The handler corrects the registers, so that the instruction is executed
// again, or continues at another address.
func TestFaultHandler(t *testing.T) {
	m := bootRelease(t, "4.15")
	name := m.addr("linux_banner") // begins with 'L'
	for _, tc := range []struct {
		name, symbol string
		args         []uint64
		nr           int
		handle       func(h *kprobes.Hit)
		want         uint64
	}{
		{"page fault", "strlen", []uint64{unmapped}, abi.VecPF, func(h *kprobes.Hit) { h.Regs.DI = name }, m.call("strlen", name)},
		{"general protection", "strlen", []uint64{nonCanonical}, abi.VecGP, func(h *kprobes.Hit) { h.Regs.DI = name }, m.call("strlen", name)},
		{"divide error", "mul_u64_u64_div_u64", []uint64{6, 7, 0}, abi.VecDE, func(h *kprobes.Hit) { h.Regs.CX = 2 }, 21},
		{"elsewhere", "strlen", []uint64{unmapped}, abi.VecPF, func(h *kprobes.Hit) {
			ret, err := h.Mem.ReadU64(h.Regs.SP)
			if err != nil {
				t.Error(err)
			}
			h.Regs.IP, h.Regs.AX = ret, 99
			h.Regs.SP += 8
		}, 99},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m.t = t
			var nrs []int
			posts := 0
			for _, off := range m.starts(tc.symbol) {
				p := &kprobes.Kprobe{SymbolName: tc.symbol, Offset: off, PostHandler: func(*kprobes.Hit, uint64) { posts++ }}
				p.FaultHandler = func(h *kprobes.Hit, nr int) int {
					if h.Regs.IP != h.Probe.Addr || h.Regs.Flags&abi.FlagIF == 0 {
						t.Errorf("ip %#x, flags %#x", h.Regs.IP, h.Regs.Flags)
					}
					if nr == abi.VecPF && h.Addr != unmapped {
						t.Errorf("the fault's address is %#x", h.Addr)
					}
					nrs = append(nrs, nr)
					tc.handle(h)
					return 1
				}
				m.register(p)
			}
			for range 2 {
				if got := m.call(tc.symbol, tc.args...); got != tc.want {
					t.Errorf("%s gives %d, want %d", tc.symbol, got, tc.want)
				}
			}
			if !slices.Equal(nrs, []int{tc.nr, tc.nr}) || posts == 0 && tc.name != "elsewhere" {
				t.Errorf("traps %v, %d post-handlers", nrs, posts)
			}
		})
	}
}

// TestFaultUnhandled: if the fault handler returns 0, the kernel handles the fault as
// one of the probed instruction: by a fixup, or with an oops.
func TestFaultUnhandled(t *testing.T) {
	m := bootRelease(t, "4.15", "CONFIG_OPTPROBES=n") // a detour is not single-stepped
	asked := 0
	faults := func(*kprobes.Hit, int) int { asked++; return 0 }
	for _, off := range m.starts("__copy_nofault") {
		m.register(&kprobes.Kprobe{SymbolName: "__copy_nofault", Offset: off, FaultHandler: faults})
	}
	to := m.addr("linux_proc_banner") // not written, since the read fails first
	if got := int64(m.call("copy_from_kernel_nofault", to, unmapped, 8)); got != -int64(syscall.EFAULT) || asked == 0 {
		t.Errorf("copy_from_kernel_nofault gives %d, the handler was asked %d times", got, asked)
	}
	asked = 0
	m.register(&kprobes.Kprobe{SymbolName: "strlen", FaultHandler: faults})
	if _, err := m.Machine.Call(m.ctx, "strlen", unmapped); asked != 1 { // its task dies
		t.Errorf("strlen: %v, asked %d times", err, asked)
	}
	if log := dmesg(m.Kernel); !strings.Contains(log, "BUG: unable to handle kernel paging request at ") || !strings.Contains(log, "RIP: 0010:strlen+0x0/") {
		t.Errorf("log %s", log)
	}
}

// TestFaultInHandler: if a handler accesses unmapped memory or divides by zero, the
// fault handler is called. If it returns 0, the handler is aborted and its probe
// disabled.
func TestFaultInHandler(t *testing.T) {
	zero := 0
	var none *int
	for _, tc := range []struct {
		name string
		does func(h *kprobes.Hit, w *world)
		nr   int
		goes bool // the handler continues after the fault is handled
	}{
		{"load", func(h *kprobes.Hit, _ *world) { h.Load(0x1000) }, abi.VecPF, true},
		{"store", func(h *kprobes.Hit, _ *world) { h.Store(0x1000, 1) }, abi.VecPF, true},
		{"bad address", func(h *kprobes.Hit, _ *world) { h.Load(nonCanonical) }, abi.VecGP, true},
		{"divide", func(*kprobes.Hit, *world) { zero = 1 / zero }, abi.VecDE, false},
		{"nil", func(*kprobes.Hit, *world) { zero = *none }, abi.VecPF, false},
	} {
		for _, where := range []string{"pre", "post", "return", "entry"} {
			for _, handled := range []int{0, 1} {
				t.Run(fmt.Sprint(tc.name, " ", where, " ", handled), func(t *testing.T) {
					w := newOldWorld(t, release.Linux5_10)
					var nrs []int
					done := 0
					does := func(h *kprobes.Hit) int { tc.does(h, w); done++; return 0 }
					fault := func(_ *kprobes.Hit, nr int) int { nrs = append(nrs, nr); return handled }
					p, rp := &kprobes.Kprobe{SymbolName: "vfs_read", FaultHandler: fault}, (*kprobes.Retprobe)(nil)
					switch where {
					case "pre":
						p.PreHandler = does
					case "post":
						p.PostHandler = func(h *kprobes.Hit, _ uint64) { does(h) }
					default:
						rp = &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read", FaultHandler: fault}}
						p = &rp.Kprobe
						if rp.Handler = func(_ *kprobes.Instance, h *kprobes.Hit) int { return does(h) }; where == "entry" {
							rp.Handler, rp.EntryHandler = nil, rp.Handler
						}
					}
					if rp != nil {
						wantErr(t, w.k.RegisterRetprobe(rp), 0)
					} else {
						w.register(t, p)
					}
					callAndReturn(t, w, 0)
					if !slices.Equal(nrs, []int{tc.nr}) || (done == 1) != (handled == 1 && tc.goes) {
						t.Errorf("traps %v, the handler went on %d times", nrs, done)
					}
					w.Advance(0)
					if disabled := p.State()&kprobes.FlagDisabled != 0; disabled != (handled == 0) {
						t.Errorf("flags %#x, log %q", p.State(), w.Log())
					}
				})
			}
		}
	}
}

// newOldWorld returns newWorld as a release, without jump optimization.
func newOldWorld(t testing.TB, v release.Version) *world {
	t.Helper()
	w := newWorld(t)
	names := release.Rename(v)
	for i := range w.Symtab {
		w.Symtab[i].Name = cmp.Or(names[w.Symtab[i].Name], w.Symtab[i].Name)
	}
	c := w.Config()
	c.Linux = v
	w.k = kprobes.New(c)
	return w
}

// TestFaultNested: a fault in a fault handler does not call it again. If a probe that
// is hit in another probe's handler faults when single-stepped, its own fault handler
// is called.
func TestFaultNested(t *testing.T) {
	w := newOldWorld(t, release.Linux4_15)
	asked := 0
	p := w.register(t, &kprobes.Kprobe{
		SymbolName: "vfs_read", Offset: 15, PreHandler: func(h *kprobes.Hit) int { h.Load(0x1000); return 0 },
		FaultHandler: func(h *kprobes.Hit, _ int) int { asked++; h.Load(0x2000); return 1 },
	})
	w.k.Int3(w.Trap(0, p.Addr))
	if asked != 1 || !strings.Contains(strings.Join(w.Log(), "\n"), "0000000000002000") {
		t.Errorf("asked %d times, log %q", asked, w.Log())
	}
	var inner *kprobes.Kprobe
	asked = 0
	inner = w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 13, FaultHandler: func(h *kprobes.Hit, nr int) int {
		asked++
		if nr != abi.VecPF || h.Regs.IP != inner.Addr {
			t.Errorf("trap %d at %#x", nr, h.Regs.IP)
		}
		return 1
	}})
	outer := w.register(t, &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 14, PreHandler: func(*kprobes.Hit) int {
		tr := w.Trap(1, inner.Addr)
		w.k.Int3(tr)
		slot := tr.Regs.IP
		tr.Regs.IP, tr.Vector = slot, abi.VecPF
		if !w.k.Fault(tr) || tr.Regs.IP != slot || tr.Regs.Flags&abi.FlagIF != 0 {
			t.Errorf("continues at %#x with flags %#x, want %#x", tr.Regs.IP, tr.Regs.Flags, slot)
		}
		stepOnce(t, w, tr, 1)
		return 0
	}})
	tr := w.Trap(1, outer.Addr)
	w.k.Int3(tr)
	if asked != 1 || inner.Missed() != 1 || tr.Regs.IP < kprobetest.Slots {
		t.Errorf("asked %d times, missed %d, ip %#x", asked, inner.Missed(), tr.Regs.IP)
	}
}

// TestFaultAccess: faults in Hit.Read and Hit.Write have a fixup.
func TestFaultAccess(t *testing.T) {
	w := newOldWorld(t, release.Linux5_10)
	asked := 0
	p := w.register(t, &kprobes.Kprobe{
		SymbolName: "vfs_read", Offset: 15,
		PreHandler: func(h *kprobes.Hit) int {
			b := make([]byte, 4)
			for _, err := range []error{h.Read(0x1000, b), h.Write(0x1000, b)} {
				if !errors.Is(err, syscall.EFAULT) {
					t.Errorf("unmapped memory: %v", err)
				}
			}
			h.Store(h.Regs.SP, 0x0807060504030201)
			if err := errors.Join(h.Write(h.Regs.SP+8, []byte{9}), h.Read(h.Regs.SP+2, b)); err != nil || h.Load(h.Regs.SP+4)>>32 != 9 || b[0] != 3 {
				t.Errorf("%v, %#x, % x", err, h.Load(h.Regs.SP+4), b)
			}
			return 0
		},
		FaultHandler: func(*kprobes.Hit, int) int { asked++; return 0 },
	})
	w.k.Int3(w.Trap(0, p.Addr))
	if asked != 2 || p.State()&kprobes.FlagDisabled != 0 || p.Missed() != 2 {
		t.Errorf("asked %d times, missed %d, log %q", asked, p.Missed(), w.Log())
	}
	wantErr(t, newWorld(t).k.Register(&kprobes.Kprobe{SymbolName: "vfs_read", FaultHandler: p.FaultHandler}), syscall.ENOSYS)
}

// TestFault510: as seen by a module on Debian's 5.10, the fault handler is called for
// faults in handlers, which nmissed counts, and not for faults of the single-stepped
// copy.
func TestFault510(t *testing.T) {
	w := newOldWorld(t, release.Linux5_10)
	var nrs []int
	p := w.register(t, &kprobes.Kprobe{
		SymbolName: "vfs_read", Offset: 15,
		PreHandler: func(h *kprobes.Hit) int {
			if err := h.Read(unmapped, make([]byte, 8)); !errors.Is(err, syscall.EFAULT) {
				t.Error(err)
			}
			return 0
		},
		FaultHandler: func(_ *kprobes.Hit, nr int) int { nrs = append(nrs, nr); return 0 },
	})
	tr := w.Trap(0, p.Addr)
	w.k.Int3(tr)
	tr.Vector = abi.VecPF
	if w.k.Fault(tr) || tr.Regs.IP != p.Addr || !slices.Equal(nrs, []int{abi.VecPF}) || p.Missed() != 1 {
		t.Errorf("ip %#x, traps %v, missed %d", tr.Regs.IP, nrs, p.Missed())
	}
}
