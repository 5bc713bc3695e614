package bpf

import "fmt"

var aluNames = [16]string{"+=", "-=", "*=", "/=", "|=", "&=", "<<=", ">>=", "neg", "%=", "^=", "=", "s>>=", "endian", "", ""}

var jmpNames = [16]string{"jmp", "==", ">", ">=", "&", "!=", "s>", "s>=", "call", "exit", "<", "<=", "s<", "s<=", "", ""}

var sizeNames = map[uint8]string{sizeW: "u32", sizeH: "u16", sizeB: "u8", sizeDW: "u64"}

// text612 is text with what 6.12 has more: quotients, moves and loads with a sign, swaps, and jumps whose distance has 32 bits.
func (i insn) text612(next insn) string {
	reg := "r"
	if i.class() == classALU {
		reg = "w"
	}
	switch c := i.class(); {
	case i.code == longJump:
		return fmt.Sprintf("gotol pc%+d", i.imm)
	case i.isSwap():
		return fmt.Sprintf("r%d = bswap%d r%d", i.dst, i.imm, i.dst)
	case c == classLDX && i.mode() == modeMEMSX:
		return fmt.Sprintf("r%d = *(s%d *)(r%d %+d)", i.dst, 8*i.size(), i.src, i.off)
	case c != classALU && c != classALU64:
	case i.signed() && i.fromRegister():
		return fmt.Sprintf("%s%d s%s %s%d", reg, i.dst, aluNames[i.op()>>4], reg, i.src)
	case i.signed():
		return fmt.Sprintf("%s%d s%s %d", reg, i.dst, aluNames[i.op()>>4], i.imm)
	case i.extends() == 8 || i.extends() == 16 || i.extends() == 32:
		return fmt.Sprintf("%s%d = (s%d)%s%d", reg, i.dst, i.off, reg, i.src)
	}
	return i.text(next)
}

// text is print_bpf_insn: an instruction in the words of the verifier's log. next is the second half of a
// 64-bit immediate.
func (i insn) text(next insn) string {
	short := i.class() == classALU || i.class() == classJMP32
	reg := func(n uint8) string {
		if short {
			return fmt.Sprintf("w%d", n)
		}
		return fmt.Sprintf("r%d", n)
	}
	size := sizeNames[i.code&0x18]
	switch i.class() {
	case classALU, classALU64:
		switch {
		case i.op() == aluEND:
			to := "le"
			if i.fromRegister() {
				to = "be"
			}
			return fmt.Sprintf("r%d = %s%d r%d", i.dst, to, i.imm, i.dst)
		case i.op() == aluNEG:
			return fmt.Sprintf("%s = -%s", reg(i.dst), reg(i.dst))
		case i.fromRegister():
			return fmt.Sprintf("%s %s %s", reg(i.dst), aluNames[i.op()>>4], reg(i.src))
		}
		return fmt.Sprintf("%s %s %d", reg(i.dst), aluNames[i.op()>>4], i.imm)
	case classLDX:
		return fmt.Sprintf("r%d = *(%s *)(r%d %+d)", i.dst, size, i.src, i.off)
	case classST:
		return fmt.Sprintf("*(%s *)(r%d %+d) = %d", size, i.dst, i.off, i.imm)
	case classSTX:
		if i.mode() == modeAtomic {
			return i.atomicText(size)
		}
		return fmt.Sprintf("*(%s *)(r%d %+d) = r%d", size, i.dst, i.off, i.src)
	case classLD:
		if i.wideLoad() {
			return fmt.Sprintf("r%d = 0x%x", i.dst, uint64(uint32(i.imm))|uint64(uint32(next.imm))<<32)
		}
		return fmt.Sprintf("BUG_ld_%02x", i.code)
	}
	switch i.op() {
	case jmpCALL:
		if i.src == pseudoCall {
			return fmt.Sprintf("call pc%+d", i.imm)
		}
		if i.src != 0 {
			return fmt.Sprintf("call unknown#%d", i.imm)
		}
		return fmt.Sprintf("call %s#%d", helperName(i.imm), i.imm)
	case jmpEXIT:
		return "exit"
	case jmpJA:
		if i.code != longJump { // which 6.1 shows as if it had a condition
			return fmt.Sprintf("goto pc%+d", i.off)
		}
	}
	if i.fromRegister() {
		return fmt.Sprintf("if %s %s %s goto pc%+d", reg(i.dst), jmpNames[i.op()>>4], reg(i.src), i.off)
	}
	return fmt.Sprintf("if %s %s 0x%x goto pc%+d", reg(i.dst), jmpNames[i.op()>>4], uint32(i.imm), i.off)
}

func (i insn) atomicText(size string) string {
	at := fmt.Sprintf("(%s *)(r%d %+d)", size, i.dst, i.off)
	ops := map[int32]string{aluADD: "add", aluAND: "and", aluOR: "or", aluXOR: "xor"}
	bits := map[string]string{"u64": "64", "u32": ""}[size]
	switch {
	case i.imm == atomicCMPXCHG:
		return fmt.Sprintf("r0 = atomic%s_cmpxchg(%s, r0, r%d)", bits, at, i.src)
	case i.imm == atomicXCHG:
		return fmt.Sprintf("r%d = atomic%s_xchg(%s, r%d)", i.src, bits, at, i.src)
	case ops[i.imm&^atomicFetch] == "":
		return fmt.Sprintf("BUG_%02x", i.code)
	case i.imm&atomicFetch != 0:
		return fmt.Sprintf("r%d = atomic%s_fetch_%s(%s, r%d)", i.src, bits, ops[i.imm&^atomicFetch], at, i.src)
	}
	return fmt.Sprintf("lock *%s %s r%d", at, aluNames[uint8(i.imm)>>4], i.src)
}
