package emit

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

	// AH is the second byte of AX. It stands in instructions on bytes only, and beside
	// none of SI to R15.
	AH Reg = 0x10 | 4

	none Reg = 0xff
)

// extended says whether the register's number needs a bit of REX.
func (r Reg) extended() bool { return r != none && r&8 != 0 }

// low are the bits of the register's number that ModRM, SIB and opcodes have.
func (r Reg) low() byte { return byte(r) & 7 }

// needsREX says whether the register's lowest byte is named by REX only: without it, the
// number is the register's number, which AH to BH have, too.
func (r Reg) needsREX() bool { return SP <= r && r <= DI }

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

// Cond is a condition, by the number that jcc, setcc and cmovcc have for it.
type Cond uint8

// Conditions, by the names that Intel's manual gives them. C is the same as B.
const (
	O  Cond = 0
	C  Cond = 2
	AE Cond = 3
	E  Cond = 4
	NE Cond = 5
	L  Cond = 12
)
