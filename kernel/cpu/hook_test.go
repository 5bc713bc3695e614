package cpu

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// hookFunc is a hook.
type hookFunc func(Reason) bool

func (f hookFunc) OnHit(r Reason) bool { return f(r) }

// The hook sees each int3 once. Run goes on where it says, looks at a kick and
// at the flags that it leaves, and ends where it does not want the int3.
func TestHookOfInt3(t *testing.T) {
	code := []byte{0x90, 0xcc, 0x90, 0xcc, 0xf4} // nop; int3; nop; int3; hlt
	for _, budget := range []uint64{1, 100} {
		c := machine(t, code...)
		var at []uint64
		want := true
		c.SetHook(hookFunc(func(r Reason) bool {
			at = append(at, c.RIP-textVA)
			return want && r == Trap
		}))
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
		"irq":    {func(c *CPU) { c.WantIRQ(true); c.RFlags |= abi.FlagIF }, IRQWindow, 0},
		"tf":     {func(c *CPU) { c.RFlags |= abi.FlagTF }, Trap, abi.VecDB},
		"goes":   {func(c *CPU) { c.RIP = textVA + 4 }, Halt, 0},
		"no irq": {func(c *CPU) { c.WantIRQ(true) }, Halt, 0},
	} {
		c := machine(t, code...)
		c.SetHook(hookFunc(func(Reason) bool { tc.act(c); return true }))
		if e, _ := c.Run(100); e.Reason != tc.reason || e.Vector != tc.vector {
			t.Errorf("%s: %+v at %#x", name, e, c.RIP)
		}
	}
}

// TestHookOfVmcall: the hook sees each vmcall once, answered or not, and Run ends behind one
// that it leaves alone, or goes on where the hook has gone.
func TestHookOfVmcall(t *testing.T) {
	code := []byte{
		0x48, 0xff, 0xc0, 0x0f, 0x01, 0xc1, 0x48, 0xff, 0xc3, 0x72, 0xf5, // 1: inc %rax; vmcall; inc %rbx; jb 1b
		0x48, 0x39, 0xc1, 0x75, 0xf0, 0xf4, // cmp %rax,%rcx; jne 1b; hlt
	}
	const turns, refused = 300, 3 // of three vmcalls one is left alone; one goes to the hlt
	const hlt = textVA + 16
	for _, budget := range []uint64{1, 1 << 20} {
		c := machine(t, code...)
		seen, ends, gone := uint64(0), uint64(0), false
		c.SetHook(hookFunc(func(r Reason) bool {
			if seen++; r != Hypercall || c.RIP != textVA+6 || seen != c.R[0] {
				t.Fatalf("budget %d: reason %d at %#x, seen %d times, rax %d", budget, r, c.RIP, seen, c.R[0])
			}
			if gone = seen == turns/2+1; gone {
				c.RIP = hlt
			}
			return seen%refused != 0 || gone
		}))
		c.R[1] = turns
		run := func() {
			for {
				switch e, _ := c.Run(budget); e.Reason {
				case Budget:
				case Hypercall:
					if ends++; c.RIP != textVA+6 {
						t.Fatalf("budget %d: it ends at %#x", budget, c.RIP)
					}
				case Halt:
					return
				default:
					t.Fatalf("budget %d: %+v", budget, e)
				}
			}
		}
		run()
		if !gone || c.R[3] != turns/2 {
			t.Fatalf("budget %d: it halts after %d vmcalls", budget, c.R[3])
		}
		c.RIP = textVA
		run()
		if seen != turns || ends != turns/refused || c.R[0] != turns || c.R[3] != turns-1 {
			t.Errorf("budget %d: %d were seen, %d left alone, rax %d, rbx %d", budget, seen, ends, c.R[0], c.R[3])
		}
	}
}

// TestCall has the hook call functions, by Call and where that does not come to the end by
// Run: both together retire each instruction once, and a fault is where it belongs.
func TestCall(t *testing.T) {
	code := []byte{
		0x50, 0x58, 0x0f, 0x01, 0xc1, 0x48, 0xff, 0xc9, 0x75, 0xf6, 0xf4, // 1: push %rax; pop %rax; vmcall; dec %rcx; jne 1b; hlt
		0xf4,                         // 11: end: hlt
		0x48, 0x83, 0xc0, 0x01, 0xc3, // 12: one: add $1,%rax; ret
		0xe8, 0xf6, 0xff, 0xff, 0xff, 0xe8, 0xf1, 0xff, 0xff, 0xff, 0xc3, // 17: two: call one; call one; ret
		0x48, 0x83, 0xc0, 0x01, 0x48, 0xa3, 0, 0, 0, 0, 0, 0, 0, 0, 0xc3, // 28: wild: add $1,%rax; mov %rax,0; ret
		0x48, 0x83, 0xc0, 0x01, 0xc2, 0x08, 0x00, // 43: pops: add $1,%rax; ret $8
		0x48, 0x83, 0xc0, 0x01, 0xf4, // 50: stops: add $1,%rax; hlt
	}
	const end, turns, turn = textVA + 11, 300, 5
	for _, tc := range []struct {
		name        string
		fn          uint64
		adds, count uint64
		reason      Reason
		at          uint64 // where RIP is then
		called      bool   // Call comes to the end once all is translated
	}{
		{"one", 12, 1, 3, Halt, end + 1, true},
		{"two", 17, 2, 8, Halt, end + 1, true},
		{"wild", 28, 1, 1, Trap, textVA + 32, false},
		{"pops", 43, 1, 3, Halt, end + 1, false},
		{"stops", 50, 1, 2, Halt, textVA + 55, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := machine(t, code...)
			done, sum := false, uint64(0)
			c.SetHook(hookFunc(func(Reason) bool {
				var s Suspended
				c.Suspend(&s)
				c.R[4] -= 8
				if err := c.mem.WriteU64(c.R[4], end); err != nil {
					t.Fatal(err)
				}
				c.R[0] = 0
				c.GoOn(textVA+tc.fn, 0)
				var n, more uint64
				e := Exit{Reason: Halt}
				if done, n = c.Call(end); !done {
					e, more = c.Run(100)
				}
				if n+more != tc.count || c.R[0] != tc.adds || e.Reason != tc.reason || c.RIP != tc.at {
					t.Errorf("%d and %d retired, rax %d, %+v at %#x", n, more, c.R[0], e, c.RIP)
				}
				sum += n + more
				c.Resume(&s)
				return true
			}))
			c.R[1] = turns
			run(t, c, 1<<20, Halt, turn*turns+1)
			if c.TSC != sum+turn*turns+1 {
				t.Errorf("the counter says %d, and %d were retired in calls", c.TSC, sum)
			}
			if want := tc.called && testEngine == Native; done != want {
				t.Errorf("done is %t, want %t", done, want)
			}
		})
	}
}
