package cpu

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// The hook sees each int3 once. Run goes on where it says, looks at a kick and
// at the flags that it leaves, and ends where it does not want the int3.
func TestHookOfInt3(t *testing.T) {
	code := []byte{0x90, 0xcc, 0x90, 0xcc, 0xf4} // nop; int3; nop; int3; hlt
	for _, budget := range []uint64{1, 100} {
		c := machine(t, code...)
		var at []uint64
		want := true
		c.SetHook(func(r Reason) bool {
			at = append(at, c.RIP-textVA)
			return want && r == Trap
		})
		until := func() Exit {
			for {
				if e, _ := c.Run(budget); e.Reason != Budget {
					return e
				}
			}
		}
		if e := until(); e.Reason != Halt || len(at) != 2 || at[0] != 2 || at[1] != 4 || c.TSC != 5 {
			t.Errorf("budget %d: %+v, hook at %d, %d retired", budget, e, at, c.TSC)
		}
		c.RIP, at, want = textVA, nil, false
		if e := until(); e.Reason != Trap || e.Vector != abi.VecBP || len(at) != 1 || c.RIP != textVA+2 {
			t.Errorf("budget %d: %+v at %#x, hook at %d", budget, e, c.RIP, at)
		}
		if e := until(); e.Reason != Trap || len(at) != 2 { // the next is asked for again
			t.Errorf("budget %d: %+v, hook at %d", budget, e, at)
		}
	}
	for name, tc := range map[string]struct {
		act    func(c *CPU)
		reason Reason
		vector uint8
	}{
		"kick":   {(*CPU).Kick, Kick, 0},
		"irq":    {func(c *CPU) { c.WantIRQ(true); c.RFlags |= flagIF }, IRQWindow, 0},
		"tf":     {func(c *CPU) { c.RFlags |= flagTF }, Trap, abi.VecDB},
		"goes":   {func(c *CPU) { c.RIP = textVA + 4 }, Halt, 0},
		"no irq": {func(c *CPU) { c.WantIRQ(true) }, Halt, 0},
	} {
		c := machine(t, code...)
		c.SetHook(func(Reason) bool { tc.act(c); return true })
		if e, _ := c.Run(100); e.Reason != tc.reason || e.Vector != tc.vector {
			t.Errorf("%s: %+v at %#x", name, e, c.RIP)
		}
	}
}
