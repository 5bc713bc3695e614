package guest_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
)

// TestUnwind: at each function that runs, the stack leads from it through its
// caller to where the task began; through interrupts to what they came over.
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
