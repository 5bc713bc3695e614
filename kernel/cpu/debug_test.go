package cpu

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// loopCode adds 10 to 1 in rbx: mov $10,%eax; 1: add %rax,%rbx; dec %eax; jnz 1b; hlt.
var loopCode = []byte{0xb8, 10, 0, 0, 0, 0x48, 0x01, 0xc3, 0xff, 0xc8, 0x75, 0xf9, 0xf4}

// TestBreaks: Run ends before each instruction that has a breakpoint, whatever was decoded or translated before,
// and RunOne goes over it.
func TestBreaks(t *testing.T) {
	for _, c := range []struct {
		name string
		off  uint64
		hits int
	}{
		{"first", 0, 1}, {"head of the loop", 5, 10}, {"in the loop", 8, 10}, {"branch", 10, 10}, {"last", 12, 1}, {"inside an instruction", 6, 0}, {"elsewhere", 0x100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := machine(t, loopCode...)
			for range 3 { // translated
				v.RIP, v.R[3] = textVA, 0
				run(t, v, 1000, Halt, 32)
			}
			plain := v.State
			v.cache.SetBreaks([]uint64{textVA + c.off})
			v.RIP, v.R[3] = textVA, 0
			hits, retired := 0, uint64(0)
			for {
				e, n := v.Run(1000)
				retired += n
				if e.Reason == Halt {
					break
				}
				if e.Reason != Breakpoint || v.RIP != textVA+c.off {
					t.Fatalf("%+v at %#x", e, v.RIP)
				}
				if e, n := v.Run(1000); e.Reason != Breakpoint || n != 0 { // again
					t.Fatalf("%+v, %d retired", e, n)
				}
				hits++
				e, n = v.RunOne()
				if retired += n; n != 1 || e.Reason != Budget && c.off != 12 {
					t.Fatalf("RunOne: %+v, %d retired", e, n)
				}
				if e.Reason == Halt {
					break
				}
			}
			v.TSC = plain.TSC
			if hits != c.hits || retired != 32 || v.State != plain {
				t.Errorf("%d hits, %d retired, %+v", hits, retired, v.State)
			}
			v.cache.SetBreaks(nil)
			v.RIP, v.R[3] = textVA, 0
			run(t, v, 1000, Halt, 32)
		})
	}
}

// TestBreakInShadow: a breakpoint behind sti, and with TF.
func TestBreakInShadow(t *testing.T) {
	v := machine(t, 0xfb, 0x90, 0xf4) // sti; nop; hlt
	v.cache.SetBreaks([]uint64{textVA + 1})
	run(t, v, 100, Breakpoint, 1)
	if !v.Shadow || v.Interruptible() {
		t.Error("the instruction behind sti can be interrupted")
	}
	v.RunOne()
	if v.Shadow || v.RIP != textVA+2 {
		t.Errorf("rip %#x", v.RIP)
	}
	v.RIP = textVA + 1
	v.RFlags |= abi.FlagTF
	run(t, v, 100, Breakpoint, 0)
	if e, n := v.RunOne(); e.Reason != Trap || e.Vector != abi.VecDB || n != 1 {
		t.Errorf("%+v, %d retired", e, n)
	}
}

// TestRunOne: RunOne does what Run does with a budget of one, and is not ended by a kick or an interrupt.
func TestRunOne(t *testing.T) {
	// mov $100,%ecx; rep movsb; push %rax; call 1f; hlt; 1: lock incl (%rsi); pop %rdx; mov 0,%eax
	code := []byte{0xb9, 100, 0, 0, 0, 0xf3, 0xa4, 0x50, 0xe8, 1, 0, 0, 0, 0xf4, 0xf0, 0xff, 0x06, 0x5a, 0x8b, 0x04, 0x25, 0, 0, 0, 0}
	a, b := machine(t, code...), machine(t, code...)
	for _, v := range []*CPU{a, b} {
		v.R[6], v.R[7] = dataVA+200, dataVA+4090
		v.RFlags |= abi.FlagIF
	}
	b.WantIRQ(true)
	for i := range 7 {
		e, n := a.Run(1)
		b.Kick()
		f, m := b.RunOne()
		if e != f || n != m || a.State != b.State {
			t.Fatalf("instruction %d: %+v %d and %+v %d\n%+v\n%+v", i, e, n, f, m, a.State, b.State)
		}
		if i == 6 && (f.Reason != Trap || f.Vector != abi.VecPF || m != 0) {
			t.Errorf("%+v, %d retired", f, m)
		}
	}
	if e, _ := b.Run(100); e.Reason != Kick {
		t.Errorf("the kick is lost: %+v", e)
	}
	a.RIP = 0x1000
	if e, n := a.RunOne(); e.Reason != Trap || e.Vector != abi.VecPF || n != 0 {
		t.Errorf("code that is not mapped: %+v, %d retired", e, n)
	}
}

// TestRunOneHook: an int3 that the hook deals with is one instruction.
func TestRunOneHook(t *testing.T) {
	v := machine(t, 0xcc, 0x90, 0xf4)
	v.SetHook(hookFunc(func(Reason) bool { v.RIP = textVA + 2; return true }))
	if e, n := v.RunOne(); e.Reason != Budget || n != 1 || v.RIP != textVA+2 {
		t.Errorf("%+v, %d retired, rip %#x", e, n, v.RIP)
	}
	v.SetHook(nil)
	v.RIP = textVA
	if e, n := v.RunOne(); e.Reason != Trap || e.Vector != abi.VecBP || n != 1 || v.RIP != textVA+1 {
		t.Errorf("%+v, %d retired, rip %#x", e, n, v.RIP)
	}
}

// TestWatches: Run ends after the instruction that accesses watched memory.
func TestWatches(t *testing.T) {
	const at = dataVA + 0xffc // up to the end of a page
	for _, c := range []struct {
		name   string
		code   []byte
		access mem.Perm
		hit    bool
	}{
		{"store", []byte{0x89, 0x07}, mem.Write, true},                                  // mov %eax,(%rdi)
		{"store, reads are watched", []byte{0x89, 0x07}, mem.Read, false},               //
		{"load", []byte{0x8b, 0x07}, mem.Read, true},                                    // mov (%rdi),%eax
		{"load, writes are watched", []byte{0x8b, 0x07}, mem.Write, false},              //
		{"add", []byte{0x01, 0x07}, mem.Read, true},                                     // add %eax,(%rdi)
		{"lock add", []byte{0xf0, 0x01, 0x07}, mem.Write, true},                         //
		{"byte behind", []byte{0x88, 0x47, 0x04}, mem.Write | mem.Read, false},          // mov %al,4(%rdi)
		{"byte before", []byte{0x88, 0x47, 0xff}, mem.Write | mem.Read, false},          // mov %al,-1(%rdi)
		{"last byte", []byte{0x88, 0x47, 0x03}, mem.Write, true},                        // mov %al,3(%rdi)
		{"across pages", []byte{0x48, 0x89, 0x47, 0x03}, mem.Write, true},               // mov %rax,3(%rdi)
		{"another page", []byte{0x48, 0x89, 0x47, 0x04}, mem.Write, false},              // mov %rax,4(%rdi)
		{"push", []byte{0x50}, mem.Write, true},                                         // push %rax
		{"call", []byte{0xe8, 0, 0, 0, 0}, mem.Write, true},                             //
		{"stos", []byte{0xf3, 0xaa}, mem.Write, true},                                   // rep stosb
		{"movs", []byte{0x48, 0x89, 0xfe, 0xf3, 0xa4}, mem.Read, true},                  // mov %rdi,%rsi; rep movsb
		{"nothing", []byte{0x90}, mem.Read | mem.Write, false},                          //
		{"address only", []byte{0x48, 0x8d, 0x07}, mem.Read | mem.Write, false},         // lea (%rdi),%rax
		{"alias of the page", []byte{0x89, 0x87, 0, 0x10, 0, 0}, mem.Write, false},      // mov %eax,0x1000(%rdi)
		{"store in a warm page", []byte{0x88, 0x47, 0xf0, 0x89, 0x07}, mem.Write, true}, // mov %al,-16(%rdi); mov %eax,(%rdi)
	} {
		t.Run(c.name, func(t *testing.T) {
			code := append(append([]byte{}, c.code...), 0xf4)
			v := machine(t, code...)
			begin := func() { v.RIP, v.R[0], v.R[1], v.R[4], v.R[7] = textVA, 7, 3, at+8, at }
			for range 3 {
				begin()
				if e, _ := v.Run(100); e.Reason != Halt {
					t.Fatalf("%+v", e)
				}
			}
			v.SetWatches([]Watch{{Addr: dataVA + 0x8000, Len: 1, Access: mem.Read | mem.Write}, {Addr: at, Len: 4, Access: c.access}})
			begin()
			if c.name == "push" || c.name == "call" {
				v.R[4] = at + 8 - 4
			}
			e, _ := v.Run(100)
			end := textVA + uint64(len(c.code))
			if !c.hit {
				if e.Reason != Halt {
					t.Errorf("%+v", e)
				}
				return
			}
			if e.Reason != Watchpoint || e.Code != 1 || e.Addr < at || e.Addr >= at+4 || v.RIP != end {
				t.Errorf("%+v at %#x, the end is %#x", e, v.RIP, end)
			}
			if e, n := v.Run(100); e.Reason != Halt || n != 1 {
				t.Errorf("after that %+v, %d retired", e, n)
			}
			v.SetWatches(nil)
			begin()
			if e, _ := v.Run(100); e.Reason != Halt {
				t.Errorf("without it %+v", e)
			}
		})
	}
}
