package cpu

import "testing"

// A run of moves to or from the stack is one operation where it lies in one
// page, and the same as one move after the other everywhere.
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
