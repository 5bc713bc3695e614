package cpu

import (
	"sync"
	"testing"
)

// TestTranslatedIsEntered executes a loop, all of whose turns but the first are
// translated code.
func TestTranslatedIsEntered(t *testing.T) {
	c := onNative(t, machine(t, countDown...))
	c.R[1] = 1000
	run(t, c, 1<<20, Halt, 2001)
	if n := len(*c.cache.hot.all.Load()); n == 0 {
		t.Error("nothing was translated")
	}
}

// countDown is 1: dec %rcx; jne 1b; hlt.
var countDown = []byte{0x48, 0xff, 0xc9, 0x75, 0xfb, 0xf4}

func onNative(t *testing.T, c *CPU) *CPU {
	t.Helper()
	if testEngine != Native {
		t.Skip("of the native engine")
	}
	return c
}

// TestCodeIsGivenBack has two vCPUs translate more than there is room for, again and
// again: what they compute stays right, and the memory is used anew.
func TestCodeIsGivenBack(t *testing.T) {
	// Blocks of add $1,%rax; jmp to the next one; the last is a hlt.
	var code []byte
	const blocks = 2000
	for range blocks {
		code = append(code, 0x48, 0x83, 0xc0, 1, 0xeb, 0)
	}
	const limit = 16 << 10
	a := onNative(t, machineWith(t, limit, append(code, 0xf4)...))
	b := newCPU(t, a.mem, 1, a.cache)
	var wg sync.WaitGroup
	for _, c := range []*CPU{a, b} {
		wg.Go(func() {
			for i := range 150 {
				c.RIP, c.R[0] = textVA, 0
				if e, n := c.Run(1 << 40); e.Reason != Halt || c.R[0] != blocks || n != 2*blocks+1 {
					t.Errorf("turn %d: %+v, rax %d, %d retired", i, e, c.R[0], n)
					return
				}
			}
		})
	}
	wg.Wait()
	if full := a.cache.hot.Phase().Load(); full < 4 || full&1 != 0 && a.Running.Load() {
		t.Errorf("the memory was full or emptied %d times", full)
	}
	if used := a.cache.hot.code.Used(); used > limit {
		t.Errorf("%d bytes of code", used)
	}
}

// TestTranslationDies pokes a loop's text: what it was translated to is not executed
// any more, also where other translated code leads to it.
func TestTranslationDies(t *testing.T) {
	// 1: call f; dec %rcx; jne 1b; hlt; f: add $1,%rax; ret
	c := onNative(t, machine(t, 0xe8, 6, 0, 0, 0, 0x48, 0xff, 0xc9, 0x75, 0xf6, 0xf4, 0x48, 0x83, 0xc0, 1, 0xc3))
	want := uint64(0)
	for add := range byte(20) {
		if err := c.mem.PokeText(textVA+14, []byte{add}); err != nil {
			t.Fatal(err)
		}
		c.RIP, c.R[1] = textVA, 100
		run(t, c, 1<<20, Halt, 501)
		if want += 100 * uint64(add); c.R[0] != want {
			t.Fatalf("with add %d: rax %d, want %d", add, c.R[0], want)
		}
	}
}
