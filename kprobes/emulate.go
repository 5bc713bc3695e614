package kprobes

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
)

// emulate executes an instruction that must not be single-stepped, on the registers
// of t, whose IP is one past the probed address. It returns false when the copy is to
// be stepped: the instruction is an ordinary one, or the stack is not mapped, and the
// copy's fault is the wanted one.
func emulate(code *slotCode, t *abi.Trap) bool {
	r, in := t.Regs, &code.insn
	next := r.IP - 1 + uint64(in.Len)
	switch code.emul {
	case insn.EmulIF:
		if !emulateIF(in.Opcode, t) {
			return false
		}
		r.IP = next
	case insn.EmulRet:
		return pop(t, &r.IP)
	case insn.EmulCall:
		if !push(t, next) {
			return false
		}
		r.IP = next + uint64(in.Imm)
	case insn.EmulCallIndirect:
		to := *register(r, rmRegister(in))
		if !push(t, next) {
			return false
		}
		r.IP = to
	case insn.EmulJmpIndirect:
		r.IP = *register(r, rmRegister(in))
	case insn.EmulJmp:
		r.IP = next + uint64(in.Imm)
	case insn.EmulJcc:
		r.IP = next
		if condition(in.Opcode&15, r.Flags) {
			r.IP += uint64(in.Imm)
		}
	case insn.EmulLoop:
		r.IP = next
		if loopTaken(in, r) {
			r.IP += uint64(in.Imm)
		}
	default:
		return false
	}
	return true
}

// emulateIF emulates cli, sti, pushf and popf, which must act on the flags of the
// probed code, not on the single step's.
func emulateIF(opcode byte, t *abi.Trap) bool {
	switch opcode {
	case 0xfa:
		t.Regs.Flags &^= abi.FlagIF
	case 0xfb:
		t.Regs.Flags |= abi.FlagIF
	case 0x9c:
		return push(t, t.Regs.Flags)
	case 0x9d:
		return pop(t, &t.Regs.Flags)
	}
	return true
}

func push(t *abi.Trap, v uint64) bool {
	if t.Mem.WriteU64(t.Regs.SP-8, v) != nil {
		return false
	}
	t.Regs.SP -= 8
	return true
}

func pop(t *abi.Trap, to *uint64) bool {
	v, err := t.Mem.ReadU64(t.Regs.SP)
	if err != nil {
		return false
	}
	*to = v
	t.Regs.SP += 8
	return true
}

// rmRegister returns the number of the register operand in ModRM's rm.
func rmRegister(in *insn.Insn) byte { return in.RM() | in.REX&insn.RexB<<3 }

// register returns the general register with the given number in instructions.
func register(r *abi.Regs, n byte) *uint64 {
	return [...]*uint64{
		&r.AX, &r.CX, &r.DX, &r.BX, &r.SP, &r.BP, &r.SI, &r.DI,
		&r.R8, &r.R9, &r.R10, &r.R11, &r.R12, &r.R13, &r.R14, &r.R15,
	}[n&15]
}

// condition evaluates the condition code cc (the low four bits of jcc's opcode).
func condition(cc byte, flags uint64) bool {
	var is bool
	switch less := flags&abi.FlagSF != 0 != (flags&abi.FlagOF != 0); cc >> 1 {
	case 0:
		is = flags&abi.FlagOF != 0
	case 1:
		is = flags&abi.FlagCF != 0
	case 2:
		is = flags&abi.FlagZF != 0
	case 3:
		is = flags&(abi.FlagCF|abi.FlagZF) != 0
	case 4:
		is = flags&abi.FlagSF != 0
	case 5:
		is = flags&abi.FlagPF != 0
	case 6:
		is = less
	case 7:
		is = less || flags&abi.FlagZF != 0
	}
	return is != (cc&1 != 0)
}

// loopTaken decrements rcx (ecx with prefix 67), except for jrcxz, and reports whether the branch is taken.
func loopTaken(in *insn.Insn, r *abi.Regs) bool {
	mask := ^uint64(0)
	if in.Prefixes&insn.AddrSize != 0 {
		mask >>= 32
	}
	if in.Opcode == 0xe3 {
		return r.CX&mask == 0
	}
	r.CX = (r.CX - 1) & mask // a 32-bit result clears the upper half
	zero := r.Flags&abi.FlagZF != 0
	switch in.Opcode {
	case 0xe0:
		return r.CX != 0 && !zero
	case 0xe1:
		return r.CX != 0 && zero
	}
	return r.CX != 0
}
