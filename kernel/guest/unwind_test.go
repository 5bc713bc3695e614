package guest_test

import (
	"slices"
	"sync"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
)

// TestUnwind: stack traces go from each function that runs through its callers to the
// beginning of the task, and from interrupts to the interrupted code.
func TestUnwind(t *testing.T) {
	m := boot(t, 2)
	var mu sync.Mutex
	stacks := map[string]int{}
	interrupted := 0
	last := map[string]bool{}
	name := func(addr uint64) string {
		s, _, _ := m.Symbols().Lookup(addr)
		return s.Name
	}
	all := &ftrace.Ops{Function: "function_trace_call", Func: func(tr *abi.Trap) {
		var ips, sps [64]uint64
		n := m.Unwind(tr.Task, tr.Regs.IP, 0, tr.Regs.SP, ips[:], sps[:])
		mu.Lock()
		defer mu.Unlock()
		if n < 2 || ips[0] != tr.Regs.IP || ips[1] != tr.Arg {
			t.Errorf("%s, called from %s: %d frames, the second is %s", name(tr.Regs.IP), name(tr.Arg), n, name(ips[1]))
			return
		}
		if !slices.IsSorted(sps[:n]) {
			t.Errorf("%s: stack pointers %x", name(tr.Regs.IP), sps[:n])
		}
		stacks[name(tr.Regs.IP)]++
		last[name(ips[n-1]-1)] = true
		if slices.ContainsFunc(ips[1:n-1], func(ip uint64) bool { return name(ip-1) == "asm_sysvec_apic_timer_interrupt" }) {
			interrupted++
		}
	}}
	m.SetHandlers(kernel.Handlers{Function: m.Sites().Hit, Ftrace: m.Sites().HitRegs})
	if err := m.Sites().Set(all, m.Sites().All()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		m.call("kfree", m.call("__kmalloc", 100, gfpKernel))
		m.call("msleep", 2)
	}
	if err := m.Sites().Set(all, nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(stacks) < 50 || interrupted == 0 {
		t.Errorf("%d functions were seen, %d in interrupts", len(stacks), interrupted)
	}
	for end := range last {
		if !slices.Contains([]string{"ret_from_fork", "secondary_startup_64", "startup_64", "start_secondary", "x86_64_start_kernel"}, end) {
			t.Errorf("a stack ends in %s", end)
		}
	}
}

// TestUnwindTrampolines: an interrupt may occur in a trampoline that an fentry site
// calls. From each of its instructions, stack traces continue with the traced
// function and its caller.
func TestUnwindTrampolines(t *testing.T) {
	m := boot(t, 1)
	o := &ftrace.Ops{Function: "function_trace_call", Func: func(*abi.Trap) {}}
	if err := m.Sites().Set(o, []uint64{m.sym("kfree")}); err != nil {
		t.Fatal(err)
	}
	caller, regs := m.sym("ftrace_caller"), m.sym("ftrace_regs_caller")
	tramp := m.Sites().Listened()[0].Tramp
	if tramp == 0 || tramp == caller {
		t.Fatalf("the trampoline is at %#x", tramp)
	}
	for _, x := range []struct {
		at, end uint64
		frames  []uint64 // bytes above the return address, in order
	}{
		{caller, m.sym("ftrace_stub"), []uint64{0, 168, 0}},
		{tramp, tramp + m.sym("ftrace_caller_end") - caller + 1, []uint64{0, 168, 0}},
		{regs, caller, []uint64{0, 8, 176, 8, 0}},
	} {
		var seen []uint64
		for ip := x.at; ip < x.end; {
			in, err := x86asm.Decode(m.bytes(ip, 15), 64)
			if err != nil {
				t.Fatalf("at %#x: %v", ip, err)
			}
			if in.Op == x86asm.INT { // padding
				break
			}
			size, ok := m.frame(ip)
			if !ok {
				t.Errorf("%v at %+d of %#x: the stack ends", in, ip-x.at, x.at)
			} else if len(seen) == 0 || seen[len(seen)-1] != size {
				seen = append(seen, size)
			}
			ip += uint64(in.Len)
		}
		if !slices.Equal(seen, x.frames) {
			t.Errorf("%#x: %d bytes are above the return address, want %d", x.at, seen, x.frames)
		}
	}
}

// frame returns the distance from the stack pointer at which Unwind finds the return
// address at ip.
func (m *machine) frame(ip uint64) (size uint64, ok bool) {
	m.t.Helper()
	all := m.Sites().All()
	stack := m.zalloc(256)
	defer m.call("kfree", stack)
	for i := range uint64(256 / 8) {
		m.put64(stack+8*i, all[i]+ftrace.SiteSize)
	}
	var ips [2]uint64
	if n := m.Unwind(0, ip, 0, stack, ips[:], nil); n < 2 || ips[0] != ip {
		return 0, false
	}
	return 8 * uint64(slices.Index(all, ips[1]-ftrace.SiteSize)), true
}
