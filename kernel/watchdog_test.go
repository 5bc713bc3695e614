package kernel

import (
	"context"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// TestCondemnedInInterrupt: a task that is to be killed is not killed in an interrupt, which
// would be the end of the kernel, unless that is where it was found.
func TestCondemnedInInterrupt(t *testing.T) {
	m := boot(t, 1)
	v := m.cpus[0]
	hits := 0
	at := m.hitting(func(tr *abi.Trap) {
		hits++
		tr.AddPreempt(abi.HardirqOffset)
		defer tr.AddPreempt(-abi.HardirqOffset)
		for _, inIRQ := range []bool{false, true} {
			c := &condemned{task: tr.Task, inIRQ: inIRQ}
			v.condemned.Store(c)
			ip, flags, di := v.cpu.RIP, v.cpu.RFlags, v.cpu.R[rdi]
			v.endCondemned()
			if waits := v.condemned.Load() == c; waits == inIRQ {
				t.Errorf("found in an interrupt %v: waits %v", inIRQ, waits)
			}
			if killed := v.cpu.RIP == m.symbol("rewind_stack_and_make_dead"); killed != inIRQ {
				t.Errorf("found in an interrupt %v: killed %v", inIRQ, killed)
			}
			v.condemned.Store(nil)
			v.cpu.RIP, v.cpu.RFlags, v.cpu.R[rdi] = ip, flags, di
		}
	})
	if _, err := m.CallOn(context.Background(), 0, at, 1); err != nil {
		t.Fatal(err)
	}
	if hits != 1 {
		t.Errorf("%d hits", hits)
	}
}
