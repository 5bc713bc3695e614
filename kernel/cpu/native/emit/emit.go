// Package emit is an assembler for the x86-64 instructions that the translator makes: a
// method of Code for each, which appends its bytes. The operand that is written stands
// first, as in Intel's manual, after the width of the operation in bytes (1, 2, 4 or 8).
//
// Where an instruction has several encodings, the method's name ends as the manual's
// column Op/En: RM (a register, from a register or memory), MR (the other way round),
// MI (a register or memory, with an immediate).
package emit

import "encoding/binary"

// Code is instructions being made.
type Code struct{ B []byte }

// Len is the number of bytes made so far.
func (c *Code) Len() int { return len(c.B) }

// ALU is one of the eight operations of arithmetic and logic, by its number in opcodes.
type ALU uint8

// The operations. Cmp writes nothing but the flags.
const (
	Add ALU = iota
	Or
	Adc
	Sbb
	And
	Sub
	Xor
	Cmp
)

// ALURM appends "op r, m".
func (c *Code) ALURM(op ALU, w uint8, r Reg, m Arg) { c.op(w, sized(uint32(op)<<3|3, w), r, m) }

// ALUMR appends "op m, r".
func (c *Code) ALUMR(op ALU, w uint8, m Arg, r Reg) { c.op(w, sized(uint32(op)<<3|1, w), r, m) }

// ALUMI appends "op m, v" with the shortest immediate that is v.
func (c *Code) ALUMI(op ALU, w uint8, m Arg, v uint64) {
	if w > 1 && v == uint64(int64(int8(v))) {
		c.op(w, 0x83, Reg(op), m)
		c.u8(byte(v))
		return
	}
	c.op(w, sized(0x81, w), Reg(op), m)
	c.imm(v, w)
}

// ALUMI32 is ALUMI with an immediate of four bytes, whatever it is.
func (c *Code) ALUMI32(op ALU, w uint8, m Arg, v uint32) {
	c.op(w, 0x81, Reg(op), m)
	c.u32(v)
}

// ALUAX appends "op ax, v", which has an encoding of its own without ModRM.
func (c *Code) ALUAX(op ALU, w uint8, v uint32) {
	c.short(w, sized(uint32(op)<<3|5, w))
	c.imm(uint64(v), w)
}

// TestMR appends "test m, r".
func (c *Code) TestMR(w uint8, m Arg, r Reg) { c.op(w, sized(0x85, w), r, m) }

// TestMI appends "test m, v".
func (c *Code) TestMI(w uint8, m Arg, v uint64) {
	c.op(w, sized(0xf7, w), 0, m)
	c.imm(v, w)
}

// TestAX appends "test ax, v", without ModRM.
func (c *Code) TestAX(w uint8, v uint32) {
	c.short(w, sized(0xa9, w))
	c.imm(uint64(v), w)
}

// Unary is an operation of one operand, by its opcode and what ModRM adds to it.
type Unary uint16

// The operations. Mul, IMul1 and Div work on DX:AX.
const (
	Inc   Unary = 0xff << 3
	Dec   Unary = 0xff<<3 | 1
	Not   Unary = 0xf7<<3 | 2
	Neg   Unary = 0xf7<<3 | 3
	Mul   Unary = 0xf7<<3 | 4
	IMul1 Unary = 0xf7<<3 | 5
	Div   Unary = 0xf7<<3 | 6
)

// Unary appends "op m".
func (c *Code) Unary(op Unary, w uint8, m Arg) { c.op(w, sized(uint32(op>>3), w), Reg(op&7), m) }

// Shift is one of the shifts and rotations, by its number in ModRM.
type Shift uint8

// The shifts. The first two are rotations; rcl and rcr are not made.
const (
	Rol Shift = 0
	Shl Shift = 4
	Shr Shift = 5
)

// ShiftMI appends "op m, n".
func (c *Code) ShiftMI(op Shift, w uint8, m Arg, n byte) {
	c.op(w, 0xc1, Reg(op), m)
	c.u8(n)
}

// ShiftM1 appends "op m, 1", in the encoding without an immediate.
func (c *Code) ShiftM1(op Shift, w uint8, m Arg) { c.op(w, 0xd1, Reg(op), m) }

// ShiftMC appends "op m, cl".
func (c *Code) ShiftMC(op Shift, w uint8, m Arg) { c.op(w, 0xd3, Reg(op), m) }

// IMulRM appends "imul r, m".
func (c *Code) IMulRM(w uint8, r Reg, m Arg) { c.op(w, 0x0faf, r, m) }

// IMulRMI appends "imul r, m, v".
func (c *Code) IMulRMI(w uint8, r Reg, m Arg, v uint32) {
	c.op(w, 0x69, r, m)
	c.u32(v)
}

// Bit is bt, bts, btr or btc, by its number in ModRM.
type Bit uint8

// Bt tests a bit. The numbers after it set, reset and complement the bit, too.
const Bt Bit = 4

// BitMR appends "op m, r".
func (c *Code) BitMR(op Bit, w uint8, m Arg, r Reg) { c.op(w, 0x0f83|uint32(op)<<3, r, m) }

// BitMI appends "op m, n".
func (c *Code) BitMI(op Bit, w uint8, m Arg, n byte) {
	c.op(w, 0x0fba, Reg(op), m)
	c.u8(n)
}

// Popcnt appends "popcnt r, m".
func (c *Code) Popcnt(w uint8, r Reg, m Arg) {
	c.u8(0xf3)
	c.op(w, 0x0fb8, r, m)
}

// Bswap reverses the bytes of a register of 4 or 8.
func (c *Code) Bswap(w uint8, r Reg) {
	if rex := rexOf(w, 0, R(r), false); rex != 0 {
		c.u8(rex)
	}
	c.u8(0x0f, 0xc8|r.low())
}

// Cwd fills DX with the sign of AX: cdq, cqo.
func (c *Code) Cwd(w uint8) { c.short(w, 0x99) }

// MovRM appends "mov r, m".
func (c *Code) MovRM(w uint8, r Reg, m Arg) { c.op(w, sized(0x8b, w), r, m) }

// MovMR appends "mov m, r".
func (c *Code) MovMR(w uint8, m Arg, r Reg) { c.op(w, sized(0x89, w), r, m) }

// MovMI appends "mov m, v". Of 8 bytes, v is sign-extended from 4.
func (c *Code) MovMI(w uint8, m Arg, v uint64) {
	c.op(w, sized(0xc7, w), 0, m)
	c.imm(v, w)
}

// MovImm sets a register to v by the shortest encoding, and leaves the flags as they are.
func (c *Code) MovImm(r Reg, v uint64) {
	switch {
	case v == uint64(uint32(v)):
		if r.extended() {
			c.u8(0x41)
		}
		c.u8(0xb8 | r.low())
		c.u32(uint32(v))
	case v == uint64(int64(int32(v))):
		c.MovMI(8, R(r), v)
	default:
		c.u8(rexOf(8, 0, R(r), false), 0xb8|r.low())
		c.B = binary.LittleEndian.AppendUint64(c.B, v)
	}
}

// Movzx appends "movzx r, m" with a source of from bytes, 1 or 2.
func (c *Code) Movzx(w uint8, r Reg, m Arg, from uint8) { c.extend(w, 0x0fb6, r, m, from) }

// Movsx appends "movsx r, m" with a source of from bytes: 1, 2, or 4, then w is 8.
func (c *Code) Movsx(w uint8, r Reg, m Arg, from uint8) {
	if from == 4 {
		c.op(w, 0x63, r, m)
		return
	}
	c.extend(w, 0x0fbe, r, m, from)
}

func (c *Code) extend(w uint8, opcode uint32, r Reg, m Arg, from uint8) {
	if from == 1 {
		c.opBytes(w, opcode, r, m, true)
		return
	}
	c.opBytes(w, opcode|1, r, m, false)
}

// Lea appends "lea r, m".
func (c *Code) Lea(w uint8, r Reg, m Arg) { c.op(w, 0x8d, r, m) }

// LeaCode appends a lea of an address in the code, and returns where its 32-bit distance stands.
func (c *Code) LeaCode(r Reg) (pos int) {
	c.u8(rexOf(8, r, R(0), false), 0x8d, r.low()<<3|5)
	return c.distance()
}

// Set appends "setcc m".
func (c *Code) Set(cc Cond, m Arg) { c.op(1, 0x0f90|uint32(cc), 0, m) }

// Cmov appends "cmovcc r, m".
func (c *Code) Cmov(cc Cond, w uint8, r Reg, m Arg) { c.op(w, 0x0f40|uint32(cc), r, m) }

// Lahf copies the flags but OF to AH.
func (c *Code) Lahf() { c.u8(0x9f) }

// Sahf copies AH to the flags but OF.
func (c *Code) Sahf() { c.u8(0x9e) }

// Lock makes the instruction that follows an atomic one.
func (c *Code) Lock() { c.u8(0xf0) }

// Xchg appends "xchg m, r", which is atomic if m is memory.
func (c *Code) Xchg(w uint8, m Arg, r Reg) { c.op(w, 0x87, r, m) }

// Xadd appends "xadd m, r".
func (c *Code) Xadd(w uint8, m Arg, r Reg) { c.op(w, 0x0fc1, r, m) }

// Cmpxchg appends "cmpxchg m, r", which compares with AX.
func (c *Code) Cmpxchg(w uint8, m Arg, r Reg) { c.op(w, 0x0fb1, r, m) }

// Ret appends a ret.
func (c *Code) Ret() { c.u8(0xc3) }

// JmpTo appends a jump to the address in m.
func (c *Code) JmpTo(m Arg) { c.op(4, 0xff, 4, m) }

// Jcc appends a conditional jump, and returns where its 32-bit distance stands.
func (c *Code) Jcc(cc Cond) (pos int) {
	c.u8(0x0f, 0x80|byte(cc))
	return c.distance()
}

// Jmp appends a jump, and returns where its 32-bit distance stands.
func (c *Code) Jmp() (pos int) {
	c.u8(0xe9)
	return c.distance()
}

// JmpAligned is Jmp with a distance that is aligned to 4 bytes, so that it can be
// changed while the instruction is executed. Code begins at such an address.
func (c *Code) JmpAligned() (pos int) {
	for (len(c.B)+1)&3 != 0 {
		c.u8(0x90) // nop
	}
	return c.Jmp()
}

// Call appends a call, and returns where its 32-bit distance stands.
func (c *Code) Call() (pos int) {
	c.u8(0xe8)
	return c.distance()
}

// Here makes the jump, call or lea whose distance stands at pos lead here.
func (c *Code) Here(pos int) { c.To(pos, len(c.B)) }

// To makes the jump, call or lea whose distance stands at pos lead to to.
func (c *Code) To(pos, to int) { binary.LittleEndian.PutUint32(c.B[pos:], uint32(to-pos-4)) }
