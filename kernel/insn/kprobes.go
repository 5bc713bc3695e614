package insn

import (
	"fmt"
	"syscall"
)

// Emul is how kprobes executes or emulates a probed instruction.
type Emul uint8

// Emulation kinds.
const (
	EmulNone         Emul = iota // not emulated: a copy is single-stepped
	EmulIF                       // cli sti pushf popf: they would use the interrupt flag, which is cleared during single-stepping
	EmulRet                      // c2 c3 ca cb; Linux ignores the immediate: sp += 8
	EmulCall                     // e8
	EmulJmp                      // e9 eb
	EmulJcc                      // 70..7f, 0f 80..8f
	EmulLoop                     // e0..e3: loopne loope loop jrcxz
	EmulCallIndirect             // ff /2, register
	EmulJmpIndirect              // ff /4, register
)

// String returns the kind's name as in testdata/verdicts.tsv.
func (e Emul) String() string {
	names := [...]string{"-", "ifmodifiers", "ret", "call", "jmp", "jcc", "loop", "call_indirect", "jmp_indirect"}
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("Emul(%d)", uint8(e))
}

// legacy1 reports whether i has a one-byte opcode.
func (i *Insn) legacy1() bool { return i.Map == Map1 }

// Mod is ModRM's mod field.
func (i *Insn) Mod() byte { return i.ModRM >> 6 }

// Reg is ModRM's reg field, without REX.R: the opcode's extension in a group.
func (i *Insn) Reg() byte { return i.ModRM >> 3 & 7 }

// RM is ModRM's rm field, without REX.B.
func (i *Insn) RM() byte { return i.ModRM & 7 }

// RIPRelative reports whether the memory operand is relative to rip. Its displacement
// (DispSize bytes at DispOff) must then be adjusted in a copy.
func (i *Insn) RIPRelative() bool { return i.HasModRM && i.ModRM&0xc7 == 0x05 }

// RelBranch returns the displacement of a relative call, jmp, jcc, loop or jrcxz, in
// bytes from the end of the instruction.
func (i *Insn) RelBranch() (rel int64, ok bool) {
	if i.legacy1() && i.Opcode == 0xe8 {
		return i.Imm, true
	}
	return i.RelJump()
}

// RelJump is RelBranch without calls: the jumps that can_optimize looks for. Linux looks at the
// opcode byte only, so a VEX instruction with the opcode of a short jump counts, and its immediate too.
func (i *Insn) RelJump() (rel int64, ok bool) {
	if i.VEX && i.Map != Map0F38 && (i.Opcode&0xf0 == 0x70 || i.Opcode&0xfc == 0xe0) {
		return i.Imm, true
	}
	switch i.emul() {
	case EmulJmp, EmulJcc, EmulLoop:
		return i.Imm, true
	default:
		return 0, false
	}
}

// IndirectJump reports whether i is an indirect jmp, near or far, or the direct far
// jmp (ea). Probes in functions that have one are not optimized.
func (i *Insn) IndirectJump() bool {
	return i.legacy1() && (i.Opcode == 0xea || i.Opcode == 0xff && i.Reg()&6 == 4)
}

// Int3 reports whether i is int3 (cc).
func (i *Insn) Int3() bool { return i.legacy1() && i.Opcode == 0xcc }

// Copyable reports whether a copy of the instruction may be executed in a slot.
// register_kprobe returns EINVAL for the others: int3, forced emulation, and pop ss
// and mov ss, which delay exceptions to after the next instruction.
func Copyable(i Insn) bool {
	if i.ForcedEmul {
		return false
	}
	if !i.legacy1() {
		return true
	}
	return i.Opcode != 0xcc && i.Opcode != 0x17 && (i.Opcode != 0x8e || i.Reg() != 2)
}

// Trap reports whether i is there to trap: int, int1, int3, into, ud0, ud1 or ud2.
func (i *Insn) Trap() bool {
	if i.Map == Map0F && !i.VEX {
		return i.Opcode == 0x0b || i.Opcode == 0xb9 || i.Opcode == 0xff
	}
	return i.legacy1() && (i.Opcode >= 0xcc && i.Opcode <= 0xce || i.Opcode == 0xf1)
}

// CanBoost is can_boost: it reports whether a copy of the instruction may be followed
// by a jump back, in a boosted slot or in a detour. The caller checks the exception
// table (instructions there are never boosted). groups adds what kernels with
// release.BoostGroups boost: shifts, and the groups of test, inc and dec.
func CanBoost(i Insn, groups bool) bool {
	switch {
	case i.VEX: // Linux treats the opcode as a one-byte opcode
	case i.Map == Map0F:
		return boostable0F.has(i.Opcode)
	case i.Map != Map1:
		return false
	}
	if i.Prefixes&(CS|AddrSize) != 0 {
		return false
	}
	if i.Opcode == 0xff {
		return i.Reg() == 4 || groups && i.Reg() < 2
	}
	if groups {
		switch op := i.Opcode; {
		case op >= 0xc0 && op <= 0xc1, op >= 0xd0 && op <= 0xd3:
			return i.Reg() != 6
		case op == 0xf6 || op == 0xf7:
			return i.Reg() != 1
		case op == 0xfe:
			return i.Reg() < 2
		}
	}
	return !unboostable1.has(i.Opcode)
}

// emul is Emulation without the check for unsupported instructions.
func (i *Insn) emul() Emul {
	if i.Map == Map0F && !i.VEX && i.Opcode&0xf0 == 0x80 {
		return EmulJcc
	}
	if !i.legacy1() {
		return EmulNone
	}
	switch op := i.Opcode; op {
	case 0xfa, 0xfb, 0x9c, 0x9d:
		return EmulIF
	case 0xc2, 0xc3, 0xca, 0xcb:
		return EmulRet
	case 0xe8:
		return EmulCall
	case 0xe9, 0xeb:
		return EmulJmp
	case 0xe0, 0xe1, 0xe2, 0xe3:
		return EmulLoop
	case 0xff:
		switch i.Reg() {
		case 2:
			return EmulCallIndirect
		case 4:
			return EmulJmpIndirect
		}
	default:
		if op&0xf0 == 0x70 {
			return EmulJcc
		}
	}
	return EmulNone
}

// Emulation is prepare_emulation. It returns EOPNOTSUPP for instructions that can be
// neither single-stepped nor emulated: far calls and jumps, iret, int3, indirect
// calls and jumps through memory, and 0f 01 /0 with a register operand (vmcall and
// others). Linux 6.1 looks at the opcode byte only, and so takes some VEX
// instructions for one-byte opcodes; this function does not. The second argument, the
// instruction's bytes, is not used.
func Emulation(i Insn, _ []byte) (Emul, error) {
	if i.unsupported() {
		return EmulNone, fmt.Errorf("instruction %#02x cannot be stepped: %w", i.Opcode, syscall.EOPNOTSUPP)
	}
	return i.emul(), nil
}

func (i *Insn) unsupported() bool {
	if i.Map == Map0F && !i.VEX {
		return i.Opcode == 0x01 && i.Mod() == 3 && i.Reg() == 0
	}
	if !i.legacy1() {
		return false
	}
	switch i.Opcode {
	case 0x9a, 0xea, 0xcf, 0xcc:
		return true
	case 0xff:
		switch i.Reg() {
		case 3, 5:
			return true
		case 2, 4:
			return i.Mod() != 3
		}
	}
	return false
}
