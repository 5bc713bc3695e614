package decode

// A row says what some encodings mean.
type row struct {
	op       byte  // the first opcode in its map
	n        int   // how many opcodes it is for, 1 if 0
	step     uint8 // from one to the next, 1 if 0
	exts     uint8 // the values of ModRM's reg field that it is for, as a set of bits; 0 means all
	firstExt uint8 // the value that adds nothing
	mod      mod
	modrm    byte // the only value of ModRM, if not 0
	prefix   prefix
	adds     adds

	code  Code
	enc   enc
	w     width
	src   width // of the source, if it is another; Imm has it
	imm   imm
	value uint64 // of iConst
	form  uint8  // bits of Inst.Form beside the encoding's
	a, b  uint8
	rep   bool // f2 and f3 repeat it

	vexMap, pp byte // of rows of VEX
}

// enc says which operands there are.
type enc uint8

const (
	eNone  enc = iota
	eMR        // op r/m, reg
	eRM        // op reg, r/m
	eM         // op r/m
	eMSrc      // op r/m, which is the source
	eMExt      // op r/m, ModRM's reg field without REX
	eExtM      // op ModRM's reg field without REX, r/m
	eO         // op register of the opcode
	eOSrc      // the same, which is the source
	eOA        // op register of the opcode, rax
	eCR        // op general register, control register: no memory
	eRC        // op control register, general register
	eMOffs     // memory at an absolute address
	eV         // op reg, r/m with vvvv; with toExt op vvvv, r/m
	eModRM     // ModRM is read, and names nothing
)

// width is how wide an operation or an operand is: a number of bytes, or what depends on
// prefixes.
type width uint8

const (
	w1  width = 1
	w2  width = 2
	w4  width = 4
	w8  width = 8
	wV  width = 16 + iota // 2, 4 or 8: 66, nothing, REX.W
	w64                   // 8; 2 with 66
	wY                    // 4; 8 with REX.W or VEX.W
	wD                    // 4; 2 with 66
)

// imm is an immediate.
type imm uint8

const (
	iNone  imm = iota
	iB         // a signed byte
	iZ         // of the operation's width, 4 bytes at most, signed
	iV         // of the operation's width
	iUB        // a byte
	iUW        // two bytes
	iCount     // a byte, as counts of shifts are masked
	iConst     // row.value: there is none in the code
	iSkip      // a byte that means nothing here
	iEnter     // two bytes, and a third for A
)

// mod is what ModRM must name.
type mod uint8

const (
	_ mod = iota
	memory
	register
)

// prefix is which prefixes a row is for.
type prefix uint8

const (
	_ prefix = iota
	p66
	pF2
	pF3
	pNoRep
	pNone
	pREXB
	pVvvv0
)

// adds says to what a row adds the number of the opcode in its range, or, with toExt, that
// of ModRM's reg field.
type adds uint8

const (
	_ adds = iota
	toCode
	toExt
	toA
	toImm
)

// An opcodeMap has the rows of each opcode; modrm tells whether ModRM follows it.
type opcodeMap struct {
	rows  [256][]*row
	modrm [256]bool
}

// mapOf makes a map of rows. ModRM follows also the opcodes of extra, which are UD.
func mapOf(rows []row, extra ...byte) (m opcodeMap) {
	for i := range rows {
		r := &rows[i]
		for k := range max(1, r.n) {
			op := r.op + byte(k)*max(1, r.step)
			m.rows[op] = append(m.rows[op], r)
			switch r.enc {
			case eNone, eO, eOSrc, eOA, eMOffs:
			default:
				m.modrm[op] = true
			}
		}
	}
	for _, op := range extra {
		m.modrm[op] = true
	}
	return m
}

// Flags are status flags, in bits of their own.
type Flags uint8

// The status flags.
const (
	CF Flags = 1 << iota
	PF
	AF
	ZF
	SF
	OF
	Status = CF | PF | AF | ZF | SF | OF
)

// Properties are what holds for all instructions of a Code.
type Properties struct {
	Reads  Flags // what it depends on
	Writes Flags // what it sets, whatever its operands; shifts by 0 set nothing
	Locks  bool  // LOCK may stand before it
	Ends   bool  // nothing after it would be executed
	Faults bool  // it may fault without a memory operand
}

// PropertiesOf returns what holds for all instructions of a code.
func PropertiesOf(c Code) *Properties {
	if c >= Codes {
		return &Properties{}
	}
	return &properties[c]
}
