package emit

import "encoding/binary"

func (c *Code) u8(b ...byte) { c.B = append(c.B, b...) }

func (c *Code) u32(v uint32) { c.B = binary.LittleEndian.AppendUint32(c.B, v) }

// imm appends the immediate of an operation of width w, which has 4 bytes at most.
func (c *Code) imm(v uint64, w uint8) {
	for range min(w, 4) {
		c.B = append(c.B, byte(v))
		v >>= 8
	}
}

// distance appends a distance that is not known yet, and returns where it stands.
func (c *Code) distance() (pos int) {
	c.u32(0)
	return len(c.B) - 4
}

// sized is the form of an opcode for a width: its lowest bit is clear if it is on bytes.
func sized(opcode uint32, w uint8) uint32 {
	if w == 1 {
		return opcode &^ 1
	}
	return opcode
}

// op appends an instruction with ModRM: its opcode (one byte, or two with 0x0f before
// it), the width in bytes, ModRM's reg field (a register or what extends the opcode) and
// the operand.
func (c *Code) op(w uint8, opcode uint32, reg Reg, rm Arg) { c.opBytes(w, opcode, reg, rm, w == 1) }

// opBytes is op of an instruction of which one operand or both are bytes, whatever w is.
func (c *Code) opBytes(w uint8, opcode uint32, reg Reg, rm Arg, bytes bool) {
	if w == 2 {
		c.u8(0x66)
	}
	if rex := rexOf(w, reg, rm, bytes); rex != 0 {
		c.u8(rex)
	}
	if opcode > 0xff {
		c.u8(byte(opcode >> 8))
	}
	c.u8(byte(opcode))
	c.modRM(reg, rm)
}

// short appends an instruction without ModRM.
func (c *Code) short(w uint8, opcode uint32) {
	switch w {
	case 2:
		c.u8(0x66)
	case 8:
		c.u8(0x48)
	}
	c.u8(byte(opcode))
}

// rexOf is the REX prefix of an instruction, or 0 if it needs none. What extends the opcode
// counts as a register: one REX too many changes nothing.
func rexOf(w uint8, reg Reg, rm Arg, bytes bool) byte {
	var rex byte
	if w == 8 {
		rex |= 0x48
	}
	if reg.extended() {
		rex |= 0x44
	}
	if rm.index.extended() {
		rex |= 0x42
	}
	if rm.base.extended() {
		rex |= 0x41
	}
	if bytes && reg != AH && rm.base != AH && (reg.needsREX() || !rm.mem && rm.base.needsREX()) {
		rex |= 0x40
	}
	return rex
}

// modRM appends ModRM, and SIB and displacement if the operand needs them.
func (c *Code) modRM(reg Reg, rm Arg) {
	r := reg.low() << 3
	if !rm.mem {
		c.u8(0xc0 | r | rm.base.low())
		return
	}
	if rm.base == none {
		c.u8(r|4, rm.scale<<6|rm.index.low()<<3|5)
		c.u32(uint32(rm.disp))
		return
	}
	mod, base := byte(0x80), rm.base.low()
	switch {
	case rm.disp == 0 && base != BP.low():
		mod = 0
	case rm.disp == int32(int8(rm.disp)):
		mod = 0x40
	}
	switch {
	case rm.index != none:
		c.u8(mod|r|4, rm.scale<<6|rm.index.low()<<3|base)
	case base == SP.low():
		c.u8(mod|r|4, 0x24)
	default:
		c.u8(mod | r | base)
	}
	switch mod {
	case 0x40:
		c.u8(byte(rm.disp))
	case 0x80:
		c.u32(uint32(rm.disp))
	}
}
