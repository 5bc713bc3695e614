package guest_test

import (
	"sync/atomic"
	"testing"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// TestFtraceCaller arms a function's fentry site and checks the registers that the
// handler sees, and that its changes take effect.
func TestFtraceCaller(t *testing.T) {
	m := boot(t, 1)
	site := m.sym("calc_load") // (load, exp, active)
	want := m.call("calc_load", 2048, 1884, 0)
	var hits atomic.Int32
	var seen abi.Regs
	var parent, top, preempt uint64
	m.SetHandlers(kernel.Handlers{Ftrace: func(t *abi.Trap) {
		hits.Add(1)
		seen, parent, preempt = *t.Regs, t.Arg, uint64(t.Preempt)
		top, _ = t.Mem.ReadU64(t.Regs.SP)
		t.Regs.DI *= 2
		t.Regs.IP = site + 5
	}})
	if err := m.Sites().Arm(site); err != nil {
		t.Fatal(err)
	}
	if got := m.call("calc_load", 2048, 1884, 0); got != 2*want {
		t.Errorf("with a doubled argument: %d, want %d", got, 2*want)
	}
	if hits.Load() != 1 || seen.IP != site || seen.DI != 2048 || seen.SI != 1884 || seen.DX != 0 || seen.OrigAX != 0 {
		t.Errorf("%d hits, regs %+v", hits.Load(), seen)
	}
	if top != parent || parent == 0 {
		t.Errorf("the return address on the stack is %#x, the handler saw %#x", top, parent)
	}
	if preempt != 1 {
		t.Errorf("preempt_count %#x in the handler, want 1", preempt)
	}
	// All registers and flags are preserved.
	m.SetHandlers(kernel.Handlers{Ftrace: func(t *abi.Trap) { t.Regs.IP = site + 5 }})
	for range 100 {
		if got := m.call("calc_load", 2048, 1884, 0); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	}
	// A handler may skip the function and set its return value.
	ret := m.sym("ftrace_stub")
	m.SetHandlers(kernel.Handlers{Ftrace: func(t *abi.Trap) {
		t.Regs.AX = 4711
		t.Regs.IP = ret
	}})
	if got := m.call("calc_load", 2048, 1884, 0); got != 4711 {
		t.Errorf("sent to its return: %d, want 4711", got)
	}
	if err := m.Sites().Disarm(site); err != nil {
		t.Fatal(err)
	}
	if got := m.call("calc_load", 2048, 1884, 0); got != want {
		t.Errorf("disarmed: %d, want %d", got, want)
	}
}

// TestRethookTrampoline lets a function return through the trampoline.
func TestRethookTrampoline(t *testing.T) {
	m := boot(t, 1)
	site, trampoline := m.sym("calc_load"), m.sym("arch_rethook_trampoline")
	want := m.call("calc_load", 2048, 1884, 0)
	var real, slot uint64
	var back abi.Regs
	var frame uint64
	m.SetHandlers(kernel.Handlers{
		Ftrace: func(t *abi.Trap) {
			slot = t.Regs.SP
			real, _ = t.Mem.ReadU64(slot)
			_ = t.Mem.WriteU64(slot, trampoline)
			t.Regs.IP = site + 5
		},
		Rethook: func(t *abi.Trap) {
			back, frame = *t.Regs, t.RegsAddr+abi.RegsSize
			_ = t.Mem.WriteU64(frame, real)
			t.Regs.AX++
		},
	})
	if err := m.Sites().Arm(site); err != nil {
		t.Fatal(err)
	}
	if got := m.call("calc_load", 2048, 1884, 0); got != want+1 {
		t.Errorf("returned %d, want %d", got, want+1)
	}
	if back.AX != want || back.IP != trampoline || frame != slot || back.SP != slot+8 || back.CS != abi.KernelCS || back.OrigAX != ^uint64(0) {
		t.Errorf("frame %#x (slot %#x), regs %+v", frame, slot, back)
	}
}

// TestOptimizedCallback calls the function that detours call.
func TestOptimizedCallback(t *testing.T) {
	m := boot(t, 1)
	regs := m.zalloc(abi.RegsSize)
	m.put64(regs+80, 7) // ax
	var op uint64
	m.SetHandlers(kernel.Handlers{Optimized: func(t *abi.Trap) {
		op = t.Arg
		t.Regs.AX *= 6
	}})
	words := m.zalloc(16) // struct optimized_kprobe: no handlers of the guest
	m.put64(words+8, 0x1234)
	m.call("optimized_callback", words, regs)
	if op != 0x1234 || m.u64(regs+80) != 42 {
		t.Errorf("op %#x, ax %d", op, m.u64(regs+80))
	}
}
