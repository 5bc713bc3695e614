package trampoline

import (
	"bytes"
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// entry saves pt_regs as an int3 would, except for what the callback corrects: ip, cs
// and orig_ax are not set, and sp is 8 too low.
var entry = []byte{
	0x6a, abi.KernelSS, // push $__KERNEL_DS
	0x54,                   // push %rsp
	0x9c,                   // pushf
	0x48, 0x83, 0xec, 0x18, // sub $24,%rsp: cs, ip, orig_ax
	0x57, 0x56, 0x52, 0x51, 0x50, // push rdi rsi rdx rcx rax
	0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53, // r8 r9 r10 r11
	0x53, 0x55, // rbx rbp
	0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, // r12 r13 r14 r15
	0x48, 0x89, 0xe6, // mov %rsp,%rsi
	0xfc, // cld, because the callback is C
}

// exit restores them. It moves the flags to the highest word, so that they are popped
// last and the stack is as before.
var exit = []byte{
	0x48, 0x8b, 0x94, 0x24, abi.RegsFlags, 0, 0, 0, // mov 144(%rsp),%rdx
	0x48, 0x89, 0x94, 0x24, abi.RegsSS, 0, 0, 0, // mov %rdx,160(%rsp)
	0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, // pop r15 r14 r13 r12
	0x5d, 0x5b, // rbp rbx
	0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, // r11 r10 r9 r8
	0x58, 0x59, 0x5a, 0x5e, 0x5f, // rax rcx rdx rsi rdi
	0x48, 0x83, 0xc4, 40, // add $40,%rsp: orig_ax, ip, cs, flags, sp
	0x9d, // popf
}

// loadOp begins movabs $op,%rdi; the 8 bytes of op follow.
var loadOp = []byte{0x48, 0xbf}

// DetourSize is the length of Detour's code in bytes.
func DetourSize() int { return len(entry) + len(loadOp) + 8 + BranchSize + len(exit) }

// Detour returns the first part of a detour buffer at the address at: it saves the
// registers, calls callback (Optimized) with op and pt_regs, and restores them. The probed
// instructions and the jump back follow it. It fails with ERANGE when the callback is too
// far.
func Detour(at, op, callback uint64) ([]byte, error) {
	code := append(bytes.Clone(entry), loadOp...)
	code = binary.LittleEndian.AppendUint64(code, op)
	call, err := branch(opCall, at+uint64(len(code)), callback)
	if err != nil {
		return nil, err
	}
	return append(append(code, call...), exit...), nil
}
