// Package decode reads x86-64 machine code: integer instructions in 64-bit mode. What an
// encoding means, and what holds for all encodings of an
// instruction, are tables (table.go). It has no x87 and vector instructions: these are
// UD, as in a kernel outside kernel_fpu_begin.
//
// It has its own reading of prefixes and operands and not x86asm's, which gives no error
// for prefixed unknowns, loses signs of displacements and lengths of some VEX forms, and
// lacks a dozen instructions that kernels use.
package decode

// Bits of Inst.Form: where the operands are.
const (
	DstMem  = 1 << iota
	SrcMem  // the source is the memory operand
	SrcImm  // the source is Imm
	ThreeOp // imul r, r/m, imm; shld and shrd by Imm
	ByCL    // shld, shrd, shifts by cl
	HasMem
	Indirect // jmp, call: target from an operand
)

// Bits of Inst.Flags.
const (
	Locked = 1 << iota
	RepE   // f3
	RepNE  // f2
	Addr32
	StackSeg // faults of the memory operand's address are #SS
	VEX
)

// Places in a register file that are no registers. RegZero always reads 0, so that every
// address is base + index<<scale + displacement + segment.
const (
	RegZero = 16
	RegFS   = 17
	RegGS   = 18
	RegHigh = 32 // + 0..3: ah, ch, dh, bh
)

// maxLen is the length of the longest instruction in bytes.
const maxLen = 15

// An Inst is one decoded instruction. It has at most one memory operand.
type Inst struct {
	Imm   uint64 // immediate, sign-extended to 64 bits; branches: the target; VEX: the register of vvvv
	Disp  uint64 // displacement; RIP-relative: the address
	Code  Code
	W     uint8 // width of the operation in bytes
	Form  uint8
	A     uint8 // destination register
	B     uint8 // source register
	Base  uint8
	Index uint8
	Scale uint8 // shift of the index
	Seg   uint8 // RegFS, RegGS or RegZero
	Len   uint8 // bytes
	Flags uint8
}

// nothing is an instruction without operands.
var nothing = Inst{Base: RegZero, Index: RegZero, Seg: RegZero}

// Decode reads the instruction at rip, with which b begins. What is no instruction is
// UD; one that is too long is GP. short says that b ended first: the Inst is then void.
func Decode(b []byte, rip uint64) (in Inst, short bool) {
	d := decoder{b: b[:min(len(b), maxLen)], in: nothing}
	d.prefixes()
	d.opcode()
	if d.over {
		if len(d.b) == maxLen {
			long := nothing
			long.Code, long.Len = GP, maxLen
			return long, false
		}
		return Inst{}, true
	}
	d.in.Len = uint8(d.i)
	d.relative(rip + uint64(d.i))
	if d.lock {
		if !PropertiesOf(d.in.Code).Locks || d.in.Form&DstMem == 0 {
			d.in.Code = UD
		}
		d.in.Flags |= Locked
	}
	return d.in, false
}

// relative adds the address of the next instruction to what is relative to it.
func (d *decoder) relative(end uint64) {
	if d.ripDisp {
		d.in.Disp += end
		if d.in.Flags&Addr32 != 0 {
			d.in.Disp = uint64(uint32(d.in.Disp))
		}
	}
	switch d.in.Code {
	case JMP, JCC, CALL, LOOP:
		if d.in.Form&Indirect == 0 {
			d.in.Imm += end
		}
	}
}

// decoder is what is known while an instruction is read.
type decoder struct {
	b    []byte
	i    int
	over bool // ran past the end of b

	rex     byte
	op66    bool
	rep     byte // 0, f2, f3: the last one
	lock    bool
	modrm   byte
	ripDisp bool
	vexW    bool
	row     *row // what the encoding means
	in      Inst
}

func (d *decoder) u8() byte {
	if d.i >= len(d.b) {
		d.over = true
		return 0
	}
	d.i++
	return d.b[d.i-1]
}

func (d *decoder) le(n int) uint64 {
	var v uint64
	for i := range n {
		v |= uint64(d.u8()) << (8 * i)
	}
	return v
}

// Mask has the bits of a width of 1, 2, 4 or 8 bytes.
func Mask(w uint8) uint64 { return ^uint64(0) >> (64 - 8*uint(w)&127) }

// SignExtend extends the low w bytes of v to 64 bits.
func SignExtend(v uint64, w uint8) uint64 {
	switch w {
	case 1:
		return uint64(int8(v))
	case 2:
		return uint64(int16(v))
	case 4:
		return uint64(int32(v))
	}
	return v
}

// signed reads n bytes and sign-extends them.
func (d *decoder) signed(n uint8) uint64 { return SignExtend(d.le(int(n)), n) }

func (d *decoder) prefixes() {
	for {
		if d.i >= len(d.b) {
			d.over = true
			return
		}
		switch p := d.b[d.i]; {
		case p == 0x66:
			d.op66 = true
		case p == 0x67:
			d.in.Flags |= Addr32
		case p == 0xf0:
			d.lock = true
		case p == 0xf2, p == 0xf3:
			d.rep = p
		case p == 0x64:
			d.in.Seg = RegFS
		case p == 0x65:
			d.in.Seg = RegGS
		case p == 0x2e, p == 0x36, p == 0x3e, p == 0x26:
		case p&0xf0 == 0x40:
			d.rex = p
			d.i++
			if d.i < len(d.b) && IsPrefix(d.b[d.i]) { // a REX that stands too early counts for nothing
				d.rex = 0
				continue
			}
			return
		default:
			return
		}
		d.i++
	}
}

// IsPrefix says whether b is a prefix of instructions: a legacy one or REX.
func IsPrefix(b byte) bool {
	switch b {
	case 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x64, 0x65, 0x2e, 0x36, 0x3e, 0x26:
		return true
	}
	return b&0xf0 == 0x40
}

func (d *decoder) reg() uint8 { return d.modrm>>3&7 | d.rex&4<<1 }
func (d *decoder) rm() uint8  { return d.modrm&7 | d.rex&1<<3 }
func (d *decoder) ext() uint8 { return d.modrm >> 3 & 7 }
func (d *decoder) mod3() bool { return d.modrm >= 0xc0 }

// byteReg turns a register number of an operand of w bytes into its place.
func (d *decoder) byteReg(r, w uint8) uint8 {
	if w == 1 && d.rex == 0 && d.in.Flags&VEX == 0 && r >= 4 && r < 8 {
		return RegHigh + r - 4
	}
	return r
}

// fetchModRM reads ModRM, SIB and displacement.
func (d *decoder) fetchModRM() {
	d.modrm = d.u8()
	if d.mod3() {
		return
	}
	in := &d.in
	in.Form |= HasMem
	mod, rm := d.modrm>>6, d.modrm&7
	switch {
	case rm == 4:
		d.fetchSIB(mod)
	case rm == 5 && mod == 0:
		in.Disp = d.signed(4)
		d.ripDisp = true
	default:
		in.Base = d.rm()
	}
	switch mod {
	case 1:
		in.Disp = d.signed(1)
	case 2:
		in.Disp = d.signed(4)
	}
	if (in.Base == 4 || in.Base == 5) && in.Seg == RegZero {
		in.Flags |= StackSeg
	}
}

func (d *decoder) fetchSIB(mod byte) {
	sib := d.u8()
	if x := sib>>3&7 | d.rex&2<<2; x != 4 {
		d.in.Index, d.in.Scale = x, sib>>6
	}
	if sib&7 == 5 && mod == 0 {
		d.in.Disp = d.signed(4)
	} else {
		d.in.Base = sib&7 | d.rex&1<<3
	}
}

// opcode reads the opcode, finds its row, and reads what that says.
func (d *decoder) opcode() {
	b := d.u8()
	m := &oneByte
	switch {
	case d.over:
		return
	case b == 0xc4 || b == 0xc5:
		d.vex(b)
		return
	case b == 0x0f:
		m, b = &map0f, d.u8()
		switch b {
		case 0x38:
			m, b = &map0f38, d.u8()
		case 0x3a:
			m, b = &map0f3a, d.u8()
		}
	}
	if !d.over {
		d.read(m, b)
	}
}

// read reads an instruction of an opcode of a map.
func (d *decoder) read(m *opcodeMap, b byte) {
	if m.modrm[b] {
		d.fetchModRM()
	}
	for _, r := range m.rows[b] {
		if r.fits(d) {
			d.operands(r, (b-r.op)/max(1, r.step))
			return
		}
	}
	d.in.Code = UD
}

// fits says whether the row is for the instruction whose opcode and ModRM were read.
func (r *row) fits(d *decoder) bool {
	switch {
	case r.modrm != 0 && d.modrm != r.modrm,
		r.exts != 0 && r.exts>>d.ext()&1 == 0,
		r.mod == memory && d.mod3(), r.mod == register && !d.mod3():
		return false
	}
	switch r.prefix {
	case p66:
		return d.op66
	case pF2:
		return d.rep == 0xf2
	case pF3:
		return d.rep == 0xf3
	case pNoRep:
		return d.rep == 0
	case pNone:
		return !d.op66 && d.rep == 0
	case pREXB:
		return d.rex&1 != 0
	case pVvvv0:
		return d.in.Imm == 0
	}
	return true
}

// width is the width of a row's operation in bytes.
func (d *decoder) width(w width) uint8 {
	switch w {
	case wV:
		return d.operandSize()
	case w64:
		if d.op66 && d.rex&8 == 0 {
			return 2
		}
		return 8
	case wY:
		if d.rex&8 != 0 || d.vexW {
			return 8
		}
		return 4
	case wD:
		return min(4, d.operandSize())
	case w1, w2, w4, w8:
	}
	return uint8(w)
}

// operandSize is the size of an instruction that is not of byte size.
func (d *decoder) operandSize() uint8 {
	switch {
	case d.rex&8 != 0:
		return 8
	case d.op66:
		return 2
	}
	return 4
}

// operands reads what row r says of its n'th opcode.
func (d *decoder) operands(r *row, n uint8) {
	in := &d.in
	d.row = r
	if r.adds == toExt {
		n = d.ext() - r.firstExt
	}
	in.Code, in.W = r.code, d.width(r.w)
	in.Form |= r.form
	in.A, in.B = r.a, r.b
	d.registers(r)
	d.immediate(r)
	switch r.adds {
	case toCode, toExt:
		in.Code += Code(n)
	case toA:
		in.A += n
	case toImm:
		in.Imm += uint64(n)
	}
	if r.rep {
		switch d.rep {
		case 0xf3:
			in.Flags |= RepE
		case 0xf2:
			in.Flags |= RepNE
		}
	}
}

// registers reads the operands that are registers or memory.
func (d *decoder) registers(r *row) {
	in := &d.in
	low := d.b[d.i-1]&7 | d.rex&1<<3 // of an opcode without ModRM
	src := in.W
	if r.src != 0 {
		src = d.width(r.src)
		in.Imm = uint64(src)
	}
	switch r.enc {
	case eNone, eModRM:
	case eMR:
		d.dst()
		in.B = d.byteReg(d.reg(), in.W)
	case eRM:
		in.A = d.byteReg(d.reg(), in.W)
		d.source(src)
	case eM:
		d.dst()
	case eMSrc:
		d.source(in.W)
	case eMExt:
		d.dst()
		in.B = d.ext()
	case eExtM:
		d.source(in.W)
		in.A = d.ext()
	case eO:
		in.A = d.byteReg(low, in.W)
	case eOSrc:
		in.B = low
	case eOA:
		in.A, in.B = low, 0
	case eCR:
		d.noMemory()
		in.A, in.B = d.rm(), d.reg()
	case eRC:
		d.noMemory()
		in.A, in.B = d.reg(), d.rm()
	case eMOffs:
		in.Form |= HasMem
		in.Disp = d.le(8 >> (in.Flags & Addr32 / Addr32))
	case eV:
		v := uint8(in.Imm)
		in.A = d.reg()
		if r.adds == toExt { // the destination is vvvv
			in.A = v
		}
		d.source(in.W)
	}
}

// dst makes r/m the destination.
func (d *decoder) dst() {
	if d.mod3() {
		d.in.A = d.byteReg(d.rm(), d.in.W)
	} else {
		d.in.Form |= DstMem
	}
}

// source makes r/m the source, of w bytes.
func (d *decoder) source(w uint8) {
	if d.mod3() {
		d.in.B = d.byteReg(d.rm(), w)
	} else {
		d.in.Form |= SrcMem
	}
}

// noMemory takes r/m as a register whatever ModRM says, as moves of control registers do.
func (d *decoder) noMemory() {
	d.in.Form &^= HasMem
	d.in.Base, d.in.Index, d.in.Scale, d.in.Disp, d.ripDisp = RegZero, RegZero, 0, 0, false
	d.in.Flags &^= StackSeg
}

// immediate reads what follows the operands.
func (d *decoder) immediate(r *row) {
	in := &d.in
	switch r.imm {
	case iNone:
	case iB:
		in.Imm = d.signed(1)
	case iZ:
		in.Imm = d.signed(min(in.W, 4))
	case iV:
		if in.W == 8 {
			in.Imm = d.le(8)
		} else {
			in.Imm = d.signed(in.W)
		}
	case iUB:
		in.Imm = uint64(d.u8())
	case iUW:
		in.Imm = d.le(2)
	case iCount:
		in.Imm = uint64(d.u8()) & (max(32, 8*uint64(in.W)) - 1)
	case iConst:
		in.Imm = r.value
	case iSkip:
		d.u8()
	case iEnter:
		in.Imm = d.le(2)
		in.A = d.u8()
	}
}

// vex reads a VEX prefix and what follows.
func (d *decoder) vex(b byte) {
	if d.rex != 0 || d.op66 || d.rep != 0 || d.lock {
		d.lock = false
		d.in.Code = UD
		return
	}
	d.in.Flags |= VEX
	m, p := byte(1), d.u8()
	if b == 0xc4 {
		m = p & 31
		d.rex = ^p >> 5 & 7
		p = d.u8()
		d.vexW = p&0x80 != 0
	} else {
		d.rex = ^p >> 5 & 4
	}
	opcode := d.u8()
	d.in.Code = UD
	if m == 0 || m > 3 || m == 1 && opcode == 0x77 { // vzeroupper has no ModRM
		return
	}
	d.fetchModRM()
	v := ^p >> 3 & 15
	imm := uint64(v)
	if m == 3 {
		imm = uint64(d.u8())
	}
	d.in.Imm = uint64(v)
	if l := p >> 2 & 1; l != 0 || d.over {
		return
	}
	for i := range vexRows {
		r := &vexRows[i]
		if r.vexMap == m && r.op == opcode && r.pp == p&3 && r.fits(d) {
			d.operands(r, 0)
			d.in.Imm = imm
			return
		}
	}
}
