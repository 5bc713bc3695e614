package cpu

import (
	"bytes"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
)

// saveAll is as code that saves the registers and flags, and gives them back.
var saveAll = []byte{
	0x6a, 0x18, // push $24
	0x54,                   // push %rsp
	0x9c,                   // pushf
	0x48, 0x83, 0xec, 0x18, // sub $24,%rsp
	0x57,       // push %rdi
	0x41, 0x57, // push %r15
	0x48, 0x8d, 0x54, 0x24, 0x30, // lea 48(%rsp),%rdx
	0x48, 0x89, 0x54, 0x24, 0x10, // mov %rdx,16(%rsp)
	0x48, 0xc7, 0x44, 0x24, 0x18, 0x78, 0x56, 0x34, 0x92, // movq $0x92345678,24(%rsp)
	0x8b, 0x4c, 0x24, 0x1c, // mov 28(%rsp),%ecx
	0x45, 0x31, 0xff, // xor %r15d,%r15d
	0x41, 0x5f, // pop %r15
	0x5f,                   // pop %rdi
	0x48, 0x83, 0xc4, 0x18, // add $24,%rsp
	0x9d, // popf
	0x58, // pop %rax
	0x5b, // pop %rbx
	0xf4,
}

// A run of accesses to the stack is the same as one instruction after the other,
// wherever it lies and whatever the flags are.
func TestStackRuns(t *testing.T) {
	const n = 18
	for name, rsp := range map[string]uint64{
		"one page": dataVA + 0x100, "end of a page": dataVA + 0x1000, "two pages": dataVA + 0x1010,
		"the first word in another page": dataVA + 0x1038, "inside a word": dataVA + 0x100c, "no memory": dataVA + 0x20,
	} {
		t.Run(name, func(t *testing.T) {
			fast, slow := machine(t, saveAll...), machine(t, saveAll...)
			for turn := range uint64(8) { // the first ones look pages up, later ones are translated
				for _, c := range []*CPU{fast, slow} {
					c.RIP, c.R[4], c.RFlags = textVA, rsp, core.FlagFixed|turn*0x93&core.FlagStatus
					c.R[7], c.R[15] = 0x7777+turn, 0xffff+turn
				}
				e1, n1 := fast.Run(100)
				e2, n2 := slow.Run(1)
				for e2.Reason == Budget {
					e, k := slow.Run(1)
					e2, n2 = e, n2+k
				}
				if e1 != e2 || n1 != n2 || fast.State != slow.State || e1.Reason == Halt && n1 != n {
					t.Fatalf("turn %d: at once %+v, %d: %+v; one by one %+v, %d: %+v", turn, e1, n1, fast.State, e2, n2, slow.State)
				}
				if d := bytes.Compare(fast.mem.Phys(dataPA, pages<<12), slow.mem.Phys(dataPA, pages<<12)); d != 0 {
					t.Fatalf("turn %d: memory differs", turn)
				}
			}
		})
	}
}

// A run of moves to or from the stack is the same as one move after the other.
func TestSaveAndRestoreRuns(t *testing.T) {
	code := []byte{
		0x4c, 0x89, 0x3c, 0x24, // mov %r15,(%rsp)
		0x4c, 0x89, 0x74, 0x24, 0x08, // mov %r14,8(%rsp)
		0x48, 0x89, 0x64, 0x24, 0x10, // mov %rsp,16(%rsp)
		0x48, 0x89, 0x5c, 0x24, 0x18, // mov %rbx,24(%rsp)
		0x48, 0x89, 0x44, 0x24, 0x28, // mov %rax,40(%rsp): a gap
		0x48, 0x8b, 0x04, 0x24, // mov (%rsp),%rax
		0x48, 0x8b, 0x4c, 0x24, 0x08, // mov 8(%rsp),%rcx
		0x48, 0x8b, 0x54, 0x24, 0x10, // mov 16(%rsp),%rdx
		0x48, 0x8b, 0x74, 0x24, 0x18, // mov 24(%rsp),%rsi
		0x48, 0x8b, 0x7c, 0x24, 0x28, // mov 40(%rsp),%rdi
		0xf4,
	}
	for name, rsp := range map[string]uint64{
		"one page": dataVA + 0x100, "end of a page": dataVA + 0x1000 - 0x30, "two pages": dataVA + 0xff0, "inside a word": dataVA + 0xffc,
	} {
		t.Run(name, func(t *testing.T) {
			fast, slow := machine(t, code...), machine(t, code...)
			for _, c := range []*CPU{fast, slow} {
				c.R[4] = rsp
				c.R[0], c.R[3], c.R[14], c.R[15] = 0x1111, 0x3333, 0xeeee, 0xffff
			}
			for range 2 { // the second time with what the first one looked up
				fast.RIP, slow.RIP = textVA, textVA
				run(t, fast, 100, Halt, 11)
				for range 10 {
					run(t, slow, 1, Budget, 1)
				}
				run(t, slow, 1, Halt, 1)
			}
			if fast.State != slow.State {
				t.Errorf("at once %+v, one by one %+v", fast.State, slow.State)
			}
			if r := fast.R; r[1] != 0xeeee || r[2] != rsp || r[6] != 0x3333 {
				t.Errorf("registers %x", r)
			}
		})
	}
}
