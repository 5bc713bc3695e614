package bpf

import (
	"crypto/sha1"
	"encoding/binary"
)

// insnSize is the size of struct bpf_insn in bytes.
const insnSize = 8

// insn is struct bpf_insn: one instruction of a program.
type insn struct {
	code     uint8
	dst, src uint8
	off      int16
	imm      int32
}

// class returns the BPF_CLASS of the instruction's code.
func (i insn) class() uint8 { return i.code & 7 }

// op returns the BPF_OP of an arithmetic or jump instruction.
func (i insn) op() uint8 { return i.code & 0xf0 }

// longJump is the jump that has its distance in imm. It is 6.6's, and Debian's 6.1 has it too.
const longJump = classJMP32 | jmpJA

// distance returns how far a jump goes.
func (i insn) distance() int {
	if i.code == longJump {
		return int(i.imm)
	}
	return int(i.off)
}

// signed reports whether a quotient or a remainder has a sign: BPF_SDIV, BPF_SMOD. off says it.
func (i insn) signed() bool { return i.off == 1 && (i.op() == aluDIV || i.op() == aluMOD) }

// extends returns from how many bits a move between registers extends the sign, or 0.
func (i insn) extends() int {
	if i.op() != aluMOV || !i.fromRegister() {
		return 0
	}
	return int(i.off)
}

// isSwap reports whether an instruction swaps bytes whatever the processor's order is (BPF_BSWAP), which 6.6 has.
func (i insn) isSwap() bool { return i.code == classALU64|aluEND }

// mode returns the BPF_MODE of a load or store.
func (i insn) mode() uint8 { return i.code & 0xe0 }

// fromRegister reports whether the second operand is the register src (BPF_X) rather than imm.
func (i insn) fromRegister() bool { return i.code&srcX != 0 }

// size returns how many bytes a load or store accesses.
func (i insn) size() int {
	switch i.code & 0x18 {
	case sizeW:
		return 4
	case sizeH:
		return 2
	case sizeB:
		return 1
	}
	return 8
}

// Classes of instructions (BPF_CLASS).
const (
	classLD = iota
	classLDX
	classST
	classSTX
	classALU
	classJMP
	classJMP32
	classALU64
)

// Sizes and modes of loads and stores (BPF_SIZE, BPF_MODE).
const (
	sizeW  = 0x00
	sizeH  = 0x08
	sizeB  = 0x10
	sizeDW = 0x18

	modeIMM    = 0x00
	modeABS    = 0x20
	modeIND    = 0x40
	modeMEM    = 0x60
	modeMEMSX  = 0x80
	modeAtomic = 0xc0

	srcX = 0x08
)

// Operations of arithmetic instructions (BPF_OP).
const (
	aluADD  = 0x00
	aluSUB  = 0x10
	aluMUL  = 0x20
	aluDIV  = 0x30
	aluOR   = 0x40
	aluAND  = 0x50
	aluLSH  = 0x60
	aluRSH  = 0x70
	aluNEG  = 0x80
	aluMOD  = 0x90
	aluXOR  = 0xa0
	aluMOV  = 0xb0
	aluARSH = 0xc0
	aluEND  = 0xd0
)

// Operations of jumps (BPF_OP).
const (
	jmpJA   = 0x00
	jmpJEQ  = 0x10
	jmpJGT  = 0x20
	jmpJGE  = 0x30
	jmpJSET = 0x40
	jmpJNE  = 0x50
	jmpJSGT = 0x60
	jmpJSGE = 0x70
	jmpCALL = 0x80
	jmpEXIT = 0x90
	jmpJLT  = 0xa0
	jmpJLE  = 0xb0
	jmpJSLT = 0xc0
	jmpJSLE = 0xd0
)

// Operations of atomic stores, in imm.
const (
	atomicFetch   = 0x01
	atomicXCHG    = 0xe0 | atomicFetch
	atomicCMPXCHG = 0xf0 | atomicFetch
)

// fetches reports whether an instruction is an atomic store that gives the old value to a register.
func (i insn) fetches() bool {
	return i.class() == classSTX && i.mode() == modeAtomic && i.imm&atomicFetch != 0
}

// Values of src in a 64-bit immediate load and in a call.
const (
	pseudoMapFD       = 1
	pseudoMapValue    = 2
	pseudoBTFID       = 3
	pseudoFunc        = 4
	pseudoMapIdx      = 5
	pseudoMapIdxValue = 6

	pseudoCall      = 1
	pseudoKfuncCall = 2
)

// The registers that have a name: the result and the frame.
const (
	r0       = 0
	r10      = 10
	maxReg   = 11
	numArgs  = 5
	firstArg = 1
)

// decode splits a program into its instructions. Its length is a multiple of insnSize.
func decode(b []byte) []insn {
	prog := make([]insn, len(b)/insnSize)
	for i := range prog {
		w := b[i*insnSize:]
		prog[i] = insn{
			code: w[0], dst: w[1] & 0xf, src: w[1] >> 4,
			off: int16(binary.LittleEndian.Uint16(w[2:])), imm: int32(binary.LittleEndian.Uint32(w[4:])),
		}
	}
	return prog
}

// wideLoad reports whether an instruction is the first half of a 64-bit immediate load.
func (i insn) wideLoad() bool { return i.code == classLD|modeIMM|sizeDW }

// tag is bpf_prog_calc_tag: what identifies a program in names and listings, a SHA-1 of its
// instructions without the numbers of its maps.
func tag(b []byte) [8]byte {
	b = append([]byte{}, b...)
	for i := 0; i+2*insnSize <= len(b); i += insnSize {
		if b[i] != classLD|modeIMM|sizeDW {
			continue
		}
		if src := b[i+1] >> 4; src == pseudoMapFD || src == pseudoMapValue {
			clear(b[i+4 : i+8])
			clear(b[i+12 : i+16])
		}
		i += insnSize
	}
	sum := sha1.Sum(b)
	return [8]byte(sum[:8])
}
