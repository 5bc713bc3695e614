package cpu

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/guest"
)

// A super does what its instructions do one by one, wherever the stack is and
// whatever the flags; where memory is not there, it faults at the one that wants
// it.
func TestSupers(t *testing.T) {
	onInterp(t)
	r := rand.New(rand.NewPCG(1, 2))
	for i, s := range supers {
		done := 0
		for range 60 {
			text := bytes.Clone(s.want)
			for i, any := range s.any {
				text[i] |= any & byte(r.Uint32())
			}
			if superAt(append(text, 0xf4), s.ops+1) != s {
				t.Fatalf("%d is not told by its bytes", i)
			}
			fast, slow := machine(t, append(text, 0xf4)...), machine(t, append(text, 0xf4)...)
			top := superStack(r)
			seed := r.Uint64()
			for _, c := range []*CPU{fast, slow} {
				superState(c, rand.New(rand.NewPCG(seed, 0)), top)
			}
			state := fast.State
			for range 2 { // the second time with what the first one looked up
				if done += superOnce(t, fast, slow, s.ops); t.Failed() {
					t.Fatalf("super %d, rsp %#x, flags %#x", i, top, state.RFlags)
				}
				fast.State, slow.State = state, state
			}
		}
		if done < 20 {
			t.Errorf("super %d was done at once only %d times", i, done)
		}
	}
}

// superStack is a stack pointer anywhere, often near the end of a page.
func superStack(r *rand.Rand) uint64 {
	sp := dataVA + 0x4000 + r.Uint64N(0x800)
	if r.IntN(3) == 0 {
		sp = dataVA + 0x4000 + r.Uint64N(0x200) - 0x100
	}
	if r.IntN(6) == 0 { // where memory begins or ends
		sp = dataVA + r.Uint64N(0x200)
		if r.IntN(2) == 0 {
			sp += pages<<12 - 0x180
		}
	}
	if r.IntN(8) > 0 {
		sp &^= 7
	}
	return sp
}

func superState(c *CPU, r *rand.Rand, sp uint64) {
	ram := c.mem.Phys(dataPA, pages<<12)
	flags := func() uint64 {
		f := r.Uint64()&flagMask&^(flagTF|flagIF) | flagFixed
		if r.IntN(8) == 0 {
			f |= flagIF
		}
		return f
	}
	for i := range c.R {
		c.R[i] = r.Uint64()
	}
	c.R[4] = sp
	c.R[7] = superStack(r)
	c.R[1] = r.Uint64N(3)
	for o := c.lookup(c.RIP).next(); !ends(o); o = o.next() {
		if o.seg == regGS {
			c.GSBase = superStack(r) - o.disp
		}
	}
	c.RFlags = flags()
	for i := range ram {
		ram[i] = byte(r.Uint32())
	}
	for _, off := range []uint64{ptFlags, ptSS} { // what popf takes
		if at := sp + off - dataVA; at < pages<<12-8 {
			binary.LittleEndian.PutUint64(ram[at:], flags())
		}
	}
}

// superOnce runs both to their end and compares; 1 when fast did it in one go.
func superOnce(t *testing.T, fast, slow *CPU, ops int) (atOnce int) {
	t.Helper()
	ram := fast.mem.Phys(dataPA, pages<<12)
	state, before := fast.State, bytes.Clone(ram)
	o := fast.lookup(fast.RIP).next()
	if n := o.fn(fast, o); n != nil {
		if atOnce = 1; n != o.after(uintptr(ops)) && ops != 0 {
			t.Error("it does not go on behind its ops")
		}
		fast.State, fast.ccOp = state, ccNone
		copy(ram, before)
	}
	want, n := fast.Run(100)
	var got Exit
	var m uint64
	for got.Reason == Budget {
		e, k := slow.Run(1)
		got, m = e, m+k
	}
	if got != want || n != m {
		t.Errorf("at once %+v, %d retired; one by one %+v, %d", want, n, got, m)
	}
	if fast.State != slow.State {
		t.Errorf("at once\n%+v, one by one\n%+v", fast.State, slow.State)
	}
	if !bytes.Equal(ram, slow.mem.Phys(dataPA, pages<<12)) {
		t.Error("memory differs")
	}
	return atOnce
}

// A whole way through a trampoline and its callback, with a hook that works on
// the saved registers, is what its instructions are one by one.
func TestSupersTogether(t *testing.T) {
	onInterp(t)
	preempt := uint64(dataVA + 0x100)
	rel32 := func(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	r := rand.New(rand.NewPCG(3, 4))
	for _, way := range [][4]int{{0, 7, 8, 1}, {2, 6, 8, 3}, {4, 9, 10, 5}} {
		in, disable, enable, out := supers[way[0]].want, supers[way[1]].want, supers[way[2]].want, supers[way[3]].want
		for range 30 {
			callee := append(bytes.Clone(disable), enable...)
			if way[2] == 10 {
				callee = append(append(append(bytes.Clone(disable), 0x0f, 0x01, 0xc1), enable...), 0xc3)
			}
			code := append(append(bytes.Clone(in), 0xe8), rel32(len(out)+1)...)
			code = append(append(append(code, out...), 0xf4), callee...)
			fast, slow := machine(t, code...), machine(t, code...)
			top, seed := superStack(r), r.Uint64()
			hits := [2]int{}
			for i, c := range []*CPU{fast, slow} {
				superState(c, rand.New(rand.NewPCG(seed, 0)), top)
				c.GSBase = preempt - textVA
				c.SetHook(func(why Reason) bool {
					hits[i]++
					if why != Hypercall || seed%8 == 0 {
						return false
					}
					c.R[0] = 0
					if p := c.Window(c.R[4]+8, ptSize); p != nil {
						*word(p, 80) ^= 0x5555
					}
					return true
				})
			}
			state := fast.State
			for range 2 {
				superOnce(t, fast, slow, 0)
				if hits[0] == 0 != (hits[1] == 0) || t.Failed() {
					t.Fatalf("way %v, rsp %#x, hits %v", way, top, hits)
				}
				fast.State, slow.State = state, state
			}
		}
	}
}

// The guest's trampolines and callbacks are executed by supers: whoever changes
// them, or the compiler's flags, changes super.go too.
func TestSupersOfGuest(t *testing.T) {
	onInterp(t)
	f, err := elf.NewFile(bytes.NewReader(guest.Image("6.1")))
	if err != nil {
		t.Fatal(err)
	}
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ftrace_regs_caller", "arch_rethook_trampoline", "optimized_callback", "kprobe_ftrace_handler", "arch_rethook_trampoline_callback"} {
		i := slices.IndexFunc(syms, func(s elf.Symbol) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("no %s", name)
		}
		text := make([]byte, syms[i].Size)
		section := f.Sections[syms[i].Section]
		if _, err := section.ReadAt(text, int64(syms[i].Value-section.Addr)); err != nil {
			t.Fatal(err)
		}
		n := 0
		for off := range text {
			if superAt(text[off:], 100) != nil {
				n++
			}
		}
		if n != 2 { // a way in and a way out
			t.Errorf("%s has %d, not 2", name, n)
		}
	}
}

// onInterp has a test use the interpreter only: no other engine has supers.
func onInterp(t *testing.T) {
	t.Helper()
	if testEngine != Interp {
		t.Skip("supers are of the interpreter")
	}
}
