// Package emit encodes x86-64 instructions: the few forms of them that the
// translator makes.
package emit

import "encoding/binary"

// Reg is a general register of the processor, by its number.
type Reg uint8

// Registers.
const (
	AX Reg = iota
	CX
	DX
	BX
	SP
	BP
	SI
	DI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
	none Reg = 0xff
)

// Arg is what ModRM names: a register or a memory operand.
type Arg struct {
	mem         bool
	base, index Reg
	scale       uint8
	disp        int32
}

// R is register r as an operand.
func R(r Reg) Arg { return Arg{base: r, index: none} }

// M is the memory at base plus disp.
func M(base Reg, disp int32) Arg { return Arg{mem: true, base: base, index: none, disp: disp} }

// X is the memory at base + index<<scale + disp. The index is not SP.
func X(base, index Reg, scale uint8, disp int32) Arg {
	return Arg{mem: true, base: base, index: index, scale: scale, disp: disp}
}

// Abs is X without a base.
func Abs(index Reg, scale uint8, disp int32) Arg {
	return Arg{mem: true, base: none, index: index, scale: scale, disp: disp}
}

// Code is instructions being made.
type Code struct{ B []byte }

// Len is the number of bytes made so far.
func (c *Code) Len() int { return len(c.B) }

// Bytes appends b as it is.
func (c *Code) Bytes(b ...byte) { c.B = append(c.B, b...) }

// Imm32 appends a little-endian word.
func (c *Code) Imm32(v uint32) { c.B = binary.LittleEndian.AppendUint32(c.B, v) }

// Imm64 appends a little-endian doubleword.
func (c *Code) Imm64(v uint64) { c.B = binary.LittleEndian.AppendUint64(c.B, v) }

// Imm appends the immediate of an instruction of width w: of 4 bytes at most.
func (c *Code) Imm(v uint64, w uint8) {
	for range min(w, 4) {
		c.B = append(c.B, byte(v))
		v >>= 8
	}
}

// Op appends an instruction with ModRM: the bytes of its opcode (one, or two or
// three with their escape), the width in bytes, the reg field (a register or an
// extension of the opcode) and the operand. Width 1 is for byte registers.
func (c *Code) Op(w uint8, opcode uint32, reg Reg, rm Arg) { c.op(w, 0, opcode, reg, rm, w == 1) }

// OpByteRM is Op of an instruction whose operand, not reg, is a byte.
func (c *Code) OpByteRM(w uint8, opcode uint32, reg Reg, rm Arg) { c.op(w, 0, opcode, reg, rm, true) }

// OpPrefix is Op with a mandatory prefix (0xf0, 0xf2, 0xf3).
func (c *Code) OpPrefix(prefix byte, w uint8, opcode uint32, reg Reg, rm Arg) {
	c.op(w, prefix, opcode, reg, rm, w == 1)
}

func (c *Code) op(w uint8, prefix byte, opcode uint32, reg Reg, rm Arg, bytes bool) {
	if prefix != 0 {
		c.B = append(c.B, prefix)
	}
	if w == 2 {
		c.B = append(c.B, 0x66)
	}
	if rex := rexOf(w, reg, rm, bytes); rex != 0 {
		c.B = append(c.B, rex)
	}
	switch {
	case opcode > 0xffff:
		c.B = append(c.B, byte(opcode>>16), byte(opcode>>8), byte(opcode))
	case opcode > 0xff:
		c.B = append(c.B, byte(opcode>>8), byte(opcode))
	default:
		c.B = append(c.B, byte(opcode))
	}
	c.modRM(reg, rm)
}

func rexOf(w uint8, reg Reg, rm Arg, bytes bool) byte {
	var rex byte
	if w == 8 {
		rex |= 0x48
	}
	if reg >= 8 {
		rex |= 0x44
	}
	if rm.index != none && rm.index >= 8 {
		rex |= 0x42
	}
	if rm.base != none && rm.base >= 8 {
		rex |= 0x41
	}
	if bytes && (reg >= 4 || !rm.mem && rm.base >= 4) {
		rex |= 0x40
	}
	return rex
}

func (c *Code) modRM(reg Reg, rm Arg) {
	r := byte(reg) & 7 << 3
	if !rm.mem {
		c.B = append(c.B, 0xc0|r|byte(rm.base)&7)
		return
	}
	if rm.base == none {
		c.B = append(c.B, r|4, rm.scale<<6|byte(rm.index)&7<<3|5)
		c.Imm32(uint32(rm.disp))
		return
	}
	mod, base := byte(0x80), byte(rm.base)&7
	switch {
	case rm.disp == 0 && base != 5:
		mod = 0
	case rm.disp == int32(int8(rm.disp)):
		mod = 0x40
	}
	switch {
	case rm.index != none:
		c.B = append(c.B, mod|r|4, rm.scale<<6|byte(rm.index)&7<<3|base)
	case base == 4:
		c.B = append(c.B, mod|r|4, 0x24)
	default:
		c.B = append(c.B, mod|r|base)
	}
	switch mod {
	case 0x40:
		c.B = append(c.B, byte(rm.disp))
	case 0x80:
		c.Imm32(uint32(rm.disp))
	}
}

// MovImm sets a register to v, and leaves the flags as they are.
func (c *Code) MovImm(r Reg, v uint64) {
	switch {
	case v == uint64(uint32(v)):
		if r >= 8 {
			c.B = append(c.B, 0x41)
		}
		c.B = append(c.B, 0xb8|byte(r)&7)
		c.Imm32(uint32(v))
	case v == uint64(int64(int32(v))):
		c.Op(8, 0xc7, 0, R(r))
		c.Imm32(uint32(v))
	default:
		c.B = append(c.B, 0x48|byte(r)>>3, 0xb8|byte(r)&7)
		c.Imm64(v)
	}
}

// Jcc appends a conditional jump, and returns where its 32-bit distance stands.
func (c *Code) Jcc(cc uint8) int {
	c.B = append(c.B, 0x0f, 0x80|cc&15, 0, 0, 0, 0)
	return len(c.B) - 4
}

// Jmp appends a jump, and returns where its 32-bit distance stands.
func (c *Code) Jmp() int {
	c.B = append(c.B, 0xe9, 0, 0, 0, 0)
	return len(c.B) - 4
}

// Lea appends a lea of an address in the code, and returns where its 32-bit distance stands.
func (c *Code) Lea(r Reg) int {
	c.B = append(c.B, 0x48|byte(r)>>3<<2, 0x8d, byte(r)&7<<3|5, 0, 0, 0, 0)
	return len(c.B) - 4
}

// JmpAligned is Jmp with a distance that is aligned to 4 bytes, so that it can be
// changed while the instruction is executed. Code begins at such an address.
func (c *Code) JmpAligned() int {
	for (len(c.B)+1)&3 != 0 {
		c.B = append(c.B, 0x90)
	}
	return c.Jmp()
}

// Here makes the jump or lea whose distance stands at pos lead here.
func (c *Code) Here(pos int) {
	binary.LittleEndian.PutUint32(c.B[pos:], uint32(len(c.B)-pos-4))
}

// To makes the jump whose distance stands at pos lead to to.
func (c *Code) To(pos, to int) { binary.LittleEndian.PutUint32(c.B[pos:], uint32(to-pos-4)) }

// Bswap reverses the bytes of a register of 4 or 8.
func (c *Code) Bswap(w uint8, r Reg) {
	if rex := rexOf(w, 0, R(r), false); rex != 0 {
		c.B = append(c.B, rex)
	}
	c.B = append(c.B, 0x0f, 0xc8|byte(r)&7)
}
