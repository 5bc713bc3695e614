package cpu

import (
	"sync"
	"testing"
)

// TestLocked has two vCPUs count in one memory with each kind of locked
// instruction: nothing may be lost, whatever the width and alignment.
func TestLocked(t *testing.T) {
	for _, tt := range []struct {
		name  string
		code  []byte // adds 1 to the counter at rdi
		addr  uint64
		width uint
	}{
		{"inc 32", []byte{0xf0, 0xff, 0x07}, dataVA, 32},
		{"inc 64", []byte{0xf0, 0x48, 0xff, 0x07}, dataVA, 64},
		{"inc 8", []byte{0xf0, 0xfe, 0x07}, dataVA + 5, 8},
		{"inc 16 not aligned", []byte{0xf0, 0x66, 0xff, 0x07}, dataVA + 5, 16},
		{"add 64 not aligned", []byte{0xf0, 0x48, 0x83, 0x07, 0x01}, dataVA + 5, 64},
		{"add 64 across pages", []byte{0xf0, 0x48, 0x83, 0x07, 0x01}, dataVA + 4096 - 3, 64},
		{"sub 32", []byte{0xf0, 0x83, 0x2f, 0xff}, dataVA, 32},
		// mov $1,%ebx; lock xadd %ebx,(%rdi)
		{"xadd", []byte{0xbb, 1, 0, 0, 0, 0xf0, 0x0f, 0xc1, 0x1f}, dataVA, 32},
		// mov (%rdi),%eax; 1: lea 1(%rax),%ebx; lock cmpxchg %ebx,(%rdi); jne 1b
		{"cmpxchg", []byte{0x8b, 0x07, 0x8d, 0x58, 0x01, 0xf0, 0x0f, 0xb1, 0x1f, 0x75, 0xf7}, dataVA, 32},
		// 1: mov $1,%ebx; xchg %ebx,8(%rdi); test %ebx,%ebx; jne 1b; incl (%rdi); movl $0,8(%rdi)
		{"xchg as a lock", []byte{
			0xbb, 1, 0, 0, 0, 0x87, 0x5f, 8, 0x85, 0xdb, 0x75, 0xf4,
			0xff, 0x07, 0xc7, 0x47, 8, 0, 0, 0, 0,
		}, dataVA, 32},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// mov $n,%ecx; 1: CODE; dec %ecx; jne 1b; hlt
			n := uint64(20_000)
			code := append([]byte{0xb9, byte(n), byte(n >> 8), 0, 0}, tt.code...)
			code = append(code, 0xff, 0xc9, 0x75, byte(-len(tt.code)-4), 0xf4)
			a := machine(t, code...)
			b := newCPU(t, a.mem, 1, a.cache)
			b.RIP, b.R[4] = textVA, stackVA+0x1000
			var wg sync.WaitGroup
			for _, c := range []*CPU{a, b} {
				c.R[7] = tt.addr
				wg.Go(func() {
					if e, _ := c.Run(1 << 40); e.Reason != Halt {
						t.Errorf("%+v at %#x", e, c.RIP)
					}
				})
			}
			wg.Wait()
			v, err := a.mem.ReadU64(tt.addr)
			if v &= ^uint64(0) >> (64 - tt.width); err != nil || v != 2*n&(1<<tt.width-1) {
				t.Errorf("counted %d of %d", v, 2*n)
			}
		})
	}
}

// TestPokeBetweenRuns pokes code that two vCPUs execute, with both out of Run:
// each goes on with the new bytes.
func TestPokeBetweenRuns(t *testing.T) {
	// 1: mov $0,%eax; add %rax,%rbx; inc %rcx; jmp 1b
	a := machine(t, 0xb8, 0, 0, 0, 0, 0x48, 0x01, 0xc3, 0x48, 0xff, 0xc1, 0xeb, 0xf3)
	b := newCPU(t, a.mem, 1, a.cache)
	b.RIP = textVA
	for i := range uint64(50) {
		if err := a.mem.PokeText(textVA+1, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, c := range []*CPU{a, b} {
			wg.Go(func() { c.Run(4000) })
		}
		wg.Wait()
		for _, c := range []*CPU{a, b} {
			if want := 1000 * (i * (i + 1) / 2); c.R[3] != want || c.R[1] != 1000*(i+1) {
				t.Fatalf("poke %d: sum %d, want %d", i, c.R[3], want)
			}
		}
	}
}
