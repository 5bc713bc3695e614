package optimizer

import (
	"bytes"
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kprobes"
)

// callbackName is the guest function that a detour calls: (op, pt_regs *).
const callbackName = "optimized_callback"

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

// The opcodes for op and call: movabs $op,%rdi and call rel32.
const (
	loadSize = 10
	callSize = 5
)

// detourSize bounds the length of a detour in bytes.
func detourSize(region int) int {
	return len(entry) + loadSize + callSize + len(exit) + region + jumpSize
}

// build makes the detour of the region at addr, in a buffer at the address at. The
// callback's op argument is the probed address.
func build(addr uint64, region []byte, ins []insn.Insn, at, callback uint64) (*kprobes.Detour, error) {
	code := append(bytes.Clone(entry), 0x48, 0xbf) // movabs $op,%rdi
	code = binary.LittleEndian.AppendUint64(code, addr)
	call, err := kprobes.Jump(at+uint64(len(code)), callback)
	if err != nil {
		return nil, err
	}
	call[0] = 0xe8
	code = append(code, call...)
	code = append(code, exit...)
	copied := at + uint64(len(code))
	if code, err = copyRegion(code, addr, region, ins, at); err != nil {
		return nil, err
	}
	back, err := kprobes.Jump(at+uint64(len(code)), addr+uint64(len(region)))
	if err != nil {
		return nil, err
	}
	jump, err := kprobes.Jump(addr, at)
	if err != nil {
		return nil, err
	}
	return &kprobes.Detour{Region: region, Jump: jump, Addr: at, Code: append(code, back...), Copied: copied}, nil
}

// copyRegion appends the instructions of the region, relocated from addr to their
// place in the detour at the address at.
func copyRegion(code []byte, addr uint64, orig []byte, ins []insn.Insn, at uint64) ([]byte, error) {
	pos := 0
	for _, in := range ins {
		var err error
		code, err = kprobes.Relocate(code, orig[pos:pos+in.Len], in, addr+uint64(pos), at+uint64(len(code)))
		if err != nil {
			return nil, err
		}
		pos += in.Len
	}
	return code, nil
}
