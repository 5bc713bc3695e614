package optimizer

import (
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kprobes"
)

// callbackName is the guest function that a detour calls: (op, pt_regs *).
const callbackName = "optimized_callback"

// Offsets in pt_regs, bytes.
const (
	regsFlags = 144
	regsSS    = 160
)

// entry saves pt_regs as an int3 would have left them, but for what the
// callback sets right: ip, cs and orig_ax are empty, sp is 8 too low.
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
	0xfc, // cld: the callback is C
}

// exit undoes it. The flags go to the highest word, so that they are popped
// last and leave the stack as it was.
var exit = []byte{
	0x48, 0x8b, 0x94, 0x24, regsFlags, 0, 0, 0, // mov 144(%rsp),%rdx
	0x48, 0x89, 0x94, 0x24, regsSS, 0, 0, 0, // mov %rdx,160(%rsp)
	0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, // pop r15 r14 r13 r12
	0x5d, 0x5b, // rbp rbx
	0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, // r11 r10 r9 r8
	0x58, 0x59, 0x5a, 0x5e, 0x5f, // rax rcx rdx rsi rdi
	0x48, 0x83, 0xc4, 40, // add $40,%rsp: orig_ax, ip, cs, flags, sp
	0x9d, // popf
}

// op and call: movabs $op,%rdi and call rel32.
const (
	loadSize = 10
	callSize = 5
)

// detourSize bounds the length of a detour, bytes.
func detourSize(region int) int {
	return len(entry) + loadSize + callSize + len(exit) + region + jumpSize
}

// prepare decides whether the code at addr can be optimized, and writes its
// detour. out is where the copied instructions begin in it.
func (o *Optimizer) prepare(addr uint64) (op *optimized, out uint64, err error) {
	if err := o.checkFunction(addr); err != nil {
		return nil, 0, err
	}
	orig, ins, err := o.region(addr)
	if err != nil {
		return nil, 0, err
	}
	callback := o.cfg.Symbols.LookupName(callbackName)
	if len(callback) == 0 {
		return nil, 0, refuse(NoCallback, 0)
	}
	detour, err := o.cfg.Slots.Alloc(detourSize(len(orig)))
	if err != nil {
		return nil, 0, &Refusal{Reason: TooFar, Cause: err}
	}
	code, out, jump, err := build(addr, orig, ins, detour, callback[0].Addr)
	if err == nil {
		err = o.cfg.Text.Poke(abi.Patch{Addr: detour, Bytes: code})
	}
	if err != nil {
		o.cfg.Slots.Free(detour)
		return nil, 0, &Refusal{Reason: TooFar, Cause: err}
	}
	return &optimized{detour: detour, orig: orig, jump: jump}, out, nil
}

// build writes the detour of the region orig at addr, to stand at the address
// at, and the jump that leads there. The op that the callback gets is the
// probed address.
func build(addr uint64, orig []byte, ins []insn.Insn, at, callback uint64) (code []byte, out uint64, jump []byte, err error) {
	code = append(code, entry...)
	code = append(code, 0x48, 0xbf) // movabs $op,%rdi
	code = binary.LittleEndian.AppendUint64(code, addr)
	call, err := kprobes.Jump(at+uint64(len(code)), callback)
	if err != nil {
		return nil, 0, nil, err
	}
	call[0] = 0xe8
	code = append(code, call...)
	code = append(code, exit...)
	out = at + uint64(len(code))
	if code, err = copyRegion(code, addr, orig, ins, at); err != nil {
		return nil, 0, nil, err
	}
	back, err := kprobes.Jump(at+uint64(len(code)), addr+uint64(len(orig)))
	if err != nil {
		return nil, 0, nil, err
	}
	jump, err = kprobes.Jump(addr, at)
	return append(code, back...), out, jump, err
}

// copyRegion appends the instructions of the region, moved from addr to where
// the detour at the address at has come to.
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
