package cpu

// decoder turns the bytes of one instruction into an op. It has its own reading
// of prefixes and operands and not x86asm's, which gives no error for prefixed
// unknowns, loses signs of displacements and lengths of some VEX forms, and
// lacks a dozen instructions that kernels use; TestDecodeLengths compares the two.
type decoder struct {
	b    []byte // what can be fetched, 15 bytes at most
	i    int
	rip  uint64
	over bool // ran past the end of b

	rex      byte
	op66     bool
	rep      byte // 0, f2, f3: the last one
	lock     bool
	modrm    byte
	ripDisp  bool
	hasModRM bool
	o        op
}

// decode gives the op for the instruction that b begins with. short says that b
// ended first: the op is then void.
func decode(b []byte, rip uint64) (o op, short bool) {
	d := decoder{b: b, rip: rip}
	if len(d.b) > 15 {
		d.b = d.b[:15]
	}
	d.o = op{base: regZero, index: regZero, seg: regZero}
	d.prefixes()
	d.opcode()
	if d.over {
		if len(d.b) == 15 { // too long
			return op{code: cGP, base: regZero, index: regZero, seg: regZero, len: 15}, false
		}
		return op{}, true
	}
	d.o.len = uint8(d.i)
	if d.ripDisp {
		d.o.disp += rip + uint64(d.i)
		if d.o.flags&addr32 != 0 {
			d.o.disp = uint64(uint32(d.o.disp))
		}
	}
	switch d.o.code {
	case cJMP, cJCC, cCALL, cLOOP:
		if d.o.form&indirect == 0 {
			d.o.imm += rip + uint64(d.i)
		}
	}
	if d.lock && !d.lockable() {
		d.o.code = cUD
	}
	if d.lock {
		d.o.flags |= locked
	}
	return d.o, false
}

func (d *decoder) lockable() bool {
	if d.o.form&dstMem == 0 {
		return false
	}
	switch d.o.code {
	case cADD, cOR, cADC, cSBB, cAND, cSUB, cXOR, cBTS, cBTR, cBTC, cXCHG, cXADD,
		cCMPXCHG, cCMPXCHG8B, cINC, cDEC, cNOT, cNEG:
		return true
	}
	return false
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

func sext(v uint64, w uint8) uint64 {
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

// imm reads an immediate of w bytes, 4 when w is 8, sign-extended.
func (d *decoder) imm(w uint8) {
	w = min(w, 4)
	d.o.imm = sext(d.le(int(w)), w)
}

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
			d.o.flags |= addr32
		case p == 0xf0:
			d.lock = true
		case p == 0xf2, p == 0xf3:
			d.rep = p
		case p == 0x64:
			d.o.seg = regFS
		case p == 0x65:
			d.o.seg = regGS
		case p == 0x2e, p == 0x36, p == 0x3e, p == 0x26:
		case p&0xf0 == 0x40:
			d.rex = p
			d.i++
			if d.i < len(d.b) && isPrefix(d.b[d.i]) { // a REX that stands too early counts for nothing
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

func isPrefix(b byte) bool {
	switch b {
	case 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x64, 0x65, 0x2e, 0x36, 0x3e, 0x26:
		return true
	}
	return b&0xf0 == 0x40
}

// width is the operand size of an instruction that is not of byte size.
func (d *decoder) width() uint8 {
	switch {
	case d.rex&8 != 0:
		return 8
	case d.op66:
		return 2
	}
	return 4
}

// width64 is that of push, pop, near branches: 8, or 2 with 66.
func (d *decoder) width64() uint8 {
	if d.op66 && d.rex&8 == 0 {
		return 2
	}
	return 8
}

// v is the width that opcode's bit 0 chooses.
func (d *decoder) v(opcode byte) uint8 {
	if opcode&1 == 0 {
		return 1
	}
	return d.width()
}

func (d *decoder) reg() uint8 { return d.modrm>>3&7 | d.rex&4<<1 }
func (d *decoder) rm() uint8  { return d.modrm&7 | d.rex&1<<3 }
func (d *decoder) sub() byte  { return d.modrm >> 3 & 7 }
func (d *decoder) mod3() bool { return d.modrm >= 0xc0 }

// byteReg turns a register number of a byte operand into its place.
func (d *decoder) byteReg(r uint8, w uint8) uint8 {
	if w == 1 && d.rex == 0 && !(d.o.flags&vex != 0) && r >= 4 && r < 8 {
		return regHigh + r - 4
	}
	return r
}

// fetchModRM reads ModRM, SIB and displacement.
func (d *decoder) fetchModRM() {
	d.modrm = d.u8()
	d.hasModRM = true
	if d.mod3() {
		return
	}
	o := &d.o
	o.form |= hasMem
	mod, rm := d.modrm>>6, d.modrm&7
	if rm == 4 {
		sib := d.u8()
		o.scale = sib >> 6
		if x := sib>>3&7 | d.rex&2<<2; x != 4 {
			o.index = x
		} else {
			o.scale = 0
		}
		if sib&7 == 5 && mod == 0 {
			o.disp = sext(d.le(4), 4)
		} else {
			o.base = sib&7 | d.rex&1<<3
		}
	} else if rm == 5 && mod == 0 {
		o.disp = sext(d.le(4), 4)
		d.ripDisp = true
	} else {
		o.base = d.rm()
	}
	switch mod {
	case 1:
		o.disp = sext(uint64(d.u8()), 1)
	case 2:
		o.disp = sext(d.le(4), 4)
	}
	if (o.base == 4 || o.base == 5) && o.seg == regZero {
		o.flags |= stackSeg
	}
}

func (d *decoder) is(c code, w uint8) {
	d.o.code, d.o.w = c, w
}

// rmDst makes r/m the destination.
func (d *decoder) rmDst(w uint8) {
	if d.mod3() {
		d.o.a = d.byteReg(d.rm(), w)
	} else {
		d.o.form |= dstMem
	}
}

// rmSrc makes r/m the source.
func (d *decoder) rmSrc(w uint8) {
	if d.mod3() {
		d.o.b = d.byteReg(d.rm(), w)
	} else {
		d.o.form |= srcMem
	}
}

// mr is `op r/m, reg`: ModRM is still to be read.
func (d *decoder) mr(c code, w uint8) {
	d.fetchModRM()
	d.is(c, w)
	d.rmDst(w)
	d.o.b = d.byteReg(d.reg(), w)
}

// rmr is `op reg, r/m`.
func (d *decoder) rmr(c code, w uint8) {
	d.fetchModRM()
	d.is(c, w)
	d.o.a = d.byteReg(d.reg(), w)
	d.rmSrc(w)
}

// mi is `op r/m, imm` with an immediate of iw bytes; ModRM has been read.
func (d *decoder) mi(c code, w, iw uint8) {
	d.is(c, w)
	d.rmDst(w)
	d.o.form |= srcImm
	d.imm(iw)
}

// m1 is `op r/m`; ModRM has been read.
func (d *decoder) m1(c code, w uint8) {
	d.is(c, w)
	d.rmDst(w)
}

func (d *decoder) ud() { d.is(cUD, 0) }

func (d *decoder) repFlags() {
	switch d.rep {
	case 0xf3:
		d.o.flags |= repE
	case 0xf2:
		d.o.flags |= repNE
	}
}

func (d *decoder) opcode() {
	b := d.u8()
	if d.over {
		return
	}
	switch {
	case b == 0x0f:
		d.opcode0f()
		return
	case b < 0x40 && b&7 < 6:
		d.alu(code(b>>3), b)
		return
	}
	switch {
	case b >= 0x50 && b <= 0x57:
		d.is(cPUSH, d.width64())
		d.o.b = b&7 | d.rex&1<<3
		return
	case b >= 0x58 && b <= 0x5f:
		d.is(cPOP, d.width64())
		d.o.a = b&7 | d.rex&1<<3
		return
	case b >= 0x70 && b <= 0x7f:
		d.is(cJCC, 8)
		d.o.a = b & 15
		d.imm(1)
		return
	case b >= 0x91 && b <= 0x97, b == 0x90 && d.rex&1 != 0:
		d.is(cXCHG, d.width())
		d.o.a, d.o.b = b&7|d.rex&1<<3, 0
		return
	case b >= 0xb0 && b <= 0xb7:
		d.is(cMOV, 1)
		d.o.a = d.byteReg(b&7|d.rex&1<<3, 1)
		d.o.form |= srcImm
		d.imm(1)
		return
	case b >= 0xb8 && b <= 0xbf:
		d.is(cMOV, d.width())
		d.o.a = b&7 | d.rex&1<<3
		d.o.form |= srcImm
		if d.o.w == 8 {
			d.o.imm = d.le(8)
		} else {
			d.imm(d.o.w)
		}
		return
	}
	d.rest(b)
}

func (d *decoder) alu(c code, b byte) {
	w := d.v(b)
	switch b & 7 {
	case 0, 1:
		d.mr(c, w)
	case 2, 3:
		d.rmr(c, w)
	default:
		d.is(c, w)
		d.o.form |= srcImm
		d.imm(w)
	}
}

// rest is the one-byte opcodes that stand in no regular row.
func (d *decoder) rest(b byte) {
	w := d.v(b)
	switch b {
	case 0x63:
		d.rmr(cMOVSX, d.width())
		d.o.imm = 4
		if d.o.w == 2 {
			d.o.imm = 2
		}
	case 0x68:
		d.is(cPUSH, d.width64())
		d.o.form |= srcImm
		d.imm(min(d.o.w, 4))
	case 0x6a:
		d.is(cPUSH, d.width64())
		d.o.form |= srcImm
		d.imm(1)
	case 0x69, 0x6b:
		d.rmr(cIMUL, d.width())
		d.o.form |= threeOp
		if b == 0x6b {
			d.imm(1)
		} else {
			d.imm(d.o.w)
		}
	case 0x6c, 0x6d:
		d.is(cINS, min(w, 4))
		d.repFlags()
	case 0x6e, 0x6f:
		d.is(cOUTS, min(w, 4))
		d.repFlags()
	case 0x80, 0x81, 0x83:
		d.fetchModRM()
		iw := w
		if b == 0x83 {
			iw = 1
		}
		d.mi(code(d.sub()), w, iw)
	case 0x84, 0x85:
		d.mr(cTEST, w)
	case 0x86, 0x87:
		d.mr(cXCHG, w)
	case 0x88, 0x89:
		d.mr(cMOV, w)
	case 0x8a, 0x8b:
		d.rmr(cMOV, w)
	case 0x8c:
		d.fetchModRM()
		d.is(cMOVFROMSEG, d.width())
		d.rmDst(d.o.w)
		d.o.b = d.sub()
		if d.sub() > 5 {
			d.ud()
		}
		if !d.mod3() {
			d.o.w = 2
		}
	case 0x8d:
		d.rmr(cLEA, d.width())
		if d.mod3() {
			d.ud()
		}
	case 0x8e:
		d.fetchModRM()
		d.is(cMOVTOSEG, 2)
		d.rmSrc(2)
		d.o.a = d.sub()
		if d.sub() > 5 || d.sub() == 1 {
			d.ud()
		}
	case 0x8f:
		d.fetchModRM()
		d.m1(cPOP, d.width64())
		if d.sub() != 0 {
			d.ud()
		}
	case 0x90:
		d.is(cNOP, 4)
		if d.rep == 0xf3 {
			d.is(cPAUSE, 4)
		}
	case 0x98:
		d.is(cCBW, d.width())
	case 0x99:
		d.is(cCWD, d.width())
	case 0x9b: // fwait
		d.is(cNOP, 4)
	case 0x9c:
		d.is(cPUSHF, d.width64())
	case 0x9d:
		d.is(cPOPF, d.width64())
	case 0x9e:
		d.is(cSAHF, 1)
	case 0x9f:
		d.is(cLAHF, 1)
	case 0xa0, 0xa1, 0xa2, 0xa3:
		d.is(cMOV, w)
		d.o.form |= hasMem
		if b < 0xa2 {
			d.o.form |= srcMem
		} else {
			d.o.form |= dstMem
		}
		if d.o.flags&addr32 != 0 {
			d.o.disp = d.le(4)
		} else {
			d.o.disp = d.le(8)
		}
	case 0xa4, 0xa5:
		d.is(cMOVS, w)
		d.repFlags()
	case 0xa6, 0xa7:
		d.is(cCMPS, w)
		d.repFlags()
	case 0xa8, 0xa9:
		d.is(cTEST, w)
		d.o.form |= srcImm
		d.imm(w)
	case 0xaa, 0xab:
		d.is(cSTOS, w)
		d.repFlags()
	case 0xac, 0xad:
		d.is(cLODS, w)
		d.repFlags()
	case 0xae, 0xaf:
		d.is(cSCAS, w)
		d.repFlags()
	case 0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3:
		d.fetchModRM()
		d.m1(cROL+code(d.sub()), w)
		switch {
		case b < 0xd0:
			d.o.form |= srcImm
			d.o.imm = uint64(d.u8()) & (max(32, 8*uint64(w)) - 1)
		case b < 0xd2:
			d.o.form |= srcImm
			d.o.imm = 1
		default:
			d.o.form |= byCL
		}
	case 0xc2, 0xc3:
		d.is(cRET, 8)
		if b == 0xc2 {
			d.o.imm = d.le(2)
		}
	case 0xca, 0xcb:
		d.is(cRETF, d.width())
		if b == 0xca {
			d.o.imm = d.le(2)
		}
	case 0xcf:
		d.is(cIRET, d.width())
	case 0xc4, 0xc5:
		d.vex(b)
	case 0xc6, 0xc7:
		d.fetchModRM()
		if d.sub() != 0 {
			d.ud()
			return
		}
		d.mi(cMOV, w, w)
	case 0xc8:
		d.is(cENTER, d.width64())
		d.o.imm = d.le(2)
		d.o.a = d.u8()
	case 0xc9:
		d.is(cLEAVE, d.width64())
	case 0xcc:
		d.is(cINT, 8)
		d.o.imm = 3
	case 0xcd:
		d.is(cINT, 8)
		d.o.imm = uint64(d.u8())
	case 0xf1:
		d.is(cINT, 8)
		d.o.imm = 1
	case 0xd7:
		d.is(cXLAT, 1)
		d.o.base = 3
	case 0xe0, 0xe1, 0xe2, 0xe3:
		d.is(cLOOP, 8)
		d.o.a = b & 3
		d.imm(1)
	case 0xe4, 0xe5, 0xec, 0xed:
		d.is(cIN, min(w, 4))
		if b < 0xec {
			d.u8()
		}
	case 0xe6, 0xe7, 0xee, 0xef:
		d.is(cOUT, min(w, 4))
		if b < 0xee {
			d.u8()
		}
	case 0xe8:
		d.is(cCALL, 8)
		d.imm(4)
	case 0xe9:
		d.is(cJMP, 8)
		d.imm(4)
	case 0xeb:
		d.is(cJMP, 8)
		d.imm(1)
	case 0xf4:
		d.is(cHLT, 8)
	case 0xf5:
		d.is(cCMC, 8)
	case 0xf6, 0xf7:
		d.group3(w)
	case 0xf8, 0xf9:
		d.is(cCLC+code(b-0xf8), 8)
	case 0xfa:
		d.is(cCLI, 8)
	case 0xfb:
		d.is(cSTI, 8)
	case 0xfc:
		d.is(cCLD, 8)
	case 0xfd:
		d.is(cSTD, 8)
	case 0xfe:
		d.fetchModRM()
		d.m1(cINC+code(d.sub()), 1)
		if d.sub() > 1 {
			d.ud()
		}
	case 0xff:
		d.group5()
	default:
		d.ud()
	}
}

func (d *decoder) group3(w uint8) {
	d.fetchModRM()
	switch d.sub() {
	case 0, 1:
		d.mi(cTEST, w, w)
	case 2:
		d.m1(cNOT, w)
	case 3:
		d.m1(cNEG, w)
	default:
		d.is([4]code{cMUL, cIMUL1, cDIV, cIDIV}[d.sub()-4], w)
		d.rmSrc(w)
	}
}

func (d *decoder) group5() {
	d.fetchModRM()
	switch d.sub() {
	case 0, 1:
		d.m1(cINC+code(d.sub()), d.width())
	case 2, 4:
		d.is(cCALL, 8)
		if d.sub() == 4 {
			d.is(cJMP, 8)
		}
		d.o.form |= indirect
		d.rmSrc(8)
	case 6:
		d.is(cPUSH, d.width64())
		d.rmSrc(8)
	default: // far branches through memory: nothing emits them
		d.ud()
	}
}

// opcode0f is the two-byte map.
func (d *decoder) opcode0f() {
	b := d.u8()
	if d.over {
		return
	}
	w := d.v(b)
	switch {
	case b >= 0x40 && b <= 0x4f:
		d.rmr(cCMOV, d.width())
		d.o.imm = uint64(b & 15)
		return
	case b >= 0x80 && b <= 0x8f:
		d.is(cJCC, 8)
		d.o.a = b & 15
		d.imm(4)
		return
	case b >= 0x90 && b <= 0x9f:
		d.fetchModRM()
		d.m1(cSETCC, 1)
		d.o.imm = uint64(b & 15)
		return
	case b >= 0xc8 && b <= 0xcf:
		d.is(cBSWAP, d.width())
		d.o.a = b&7 | d.rex&1<<3
		return
	case b >= 0x18 && b <= 0x1f:
		d.fetchModRM()
		d.is(cNOP, 4)
		if b == 0x1e && d.rep == 0xf3 && d.mod3() && d.sub() == 1 { // rdssp without shadow stacks: a nop
			return
		}
		return
	case b >= 0x20 && b <= 0x23:
		d.controlReg(b)
		return
	}
	switch b {
	case 0x00:
		d.fetchModRM()
		switch d.sub() {
		case 0, 1:
			d.m1([2]code{cSLDT, cSTR}[d.sub()], d.width())
			if !d.mod3() {
				d.o.w = 2
			}
		case 2, 3, 4, 5:
			d.is([4]code{cLLDT, cLTR, cVERR, cVERW}[d.sub()-2], 2)
			d.rmSrc(2)
		default:
			d.ud()
		}
	case 0x01:
		d.group7()
	case 0x02, 0x03:
		d.rmr(cLAR+code(b-2), d.width())
	case 0x06:
		d.is(cCLTS, 8)
	case 0x08, 0x09:
		d.is(cNOP, 4) // invd, wbinvd
	case 0x0b:
		d.ud()
	case 0x0d:
		d.fetchModRM()
		d.is(cNOP, 4)
	case 0x30:
		d.is(cWRMSR, 8)
	case 0x31:
		d.is(cRDTSC, 8)
	case 0x32:
		d.is(cRDMSR, 8)
	case 0x33:
		d.is(cRDPMC, 8)
	case 0x38:
		d.opcode0f38()
	case 0x3a:
		d.opcode0f3a()
	case 0xa0, 0xa8:
		d.is(cPUSHSEG, d.width64())
		d.o.b = 4 + b>>3&1
	case 0xa1, 0xa9:
		d.is(cPOPSEG, d.width64())
		d.o.a = 4 + b>>3&1
	case 0xa2:
		d.is(cCPUID, 8)
	case 0xa3, 0xab, 0xb3, 0xbb:
		d.mr(cBT+code(b>>3&3), d.width())
	case 0xba:
		d.fetchModRM()
		if d.sub() < 4 {
			d.ud()
			return
		}
		d.is(cBT+code(d.sub()&3), d.width())
		d.rmDst(d.o.w)
		d.o.form |= srcImm
		d.o.imm = uint64(d.u8())
	case 0xa4, 0xa5, 0xac, 0xad:
		c := cSHLD
		if b >= 0xac {
			c = cSHRD
		}
		d.mr(c, d.width())
		if b&1 == 0 {
			d.o.form |= threeOp
			d.o.imm = uint64(d.u8())
		} else {
			d.o.form |= byCL
		}
	case 0xae:
		d.group15()
	case 0xaf:
		d.rmr(cIMUL, d.width())
	case 0xb0, 0xb1:
		d.mr(cCMPXCHG, w)
	case 0xb2, 0xb4, 0xb5:
		d.rmr(cLSEG, d.width())
		d.o.imm = uint64(map[byte]int{0xb2: 2, 0xb4: 4, 0xb5: 5}[b])
		if d.mod3() {
			d.ud()
		}
	case 0xb6, 0xb7, 0xbe, 0xbf:
		sw := 1 + b&1
		c := cMOVZX
		if b >= 0xbe {
			c = cMOVSX
		}
		d.fetchModRM()
		d.is(c, d.width())
		d.o.a = d.reg()
		d.rmSrc(sw)
		d.o.imm = uint64(sw)
	case 0xb8:
		if d.rep != 0xf3 {
			d.ud()
			return
		}
		d.rmr(cPOPCNT, d.width())
	case 0xb9, 0xff: // ud1, ud0
		d.fetchModRM()
		d.ud()
	case 0xbc, 0xbd:
		c := cBSF + code(b&1)
		if d.rep == 0xf3 {
			c = cTZCNT + code(b&1)
		}
		d.rmr(c, d.width())
	case 0xc0, 0xc1:
		d.mr(cXADD, w)
	case 0xc3:
		d.mr(cMOV, d.width()) // movnti
		if d.mod3() || d.op66 {
			d.ud()
		}
	case 0xc7:
		d.group9()
	default:
		d.ud()
	}
}

func (d *decoder) controlReg(b byte) {
	d.fetchModRM()
	d.o.form &^= hasMem
	d.o.base, d.o.index, d.o.disp, d.ripDisp = regZero, regZero, 0, false
	d.is([4]code{cMOVFROMCR, cMOVFROMDR, cMOVTOCR, cMOVTODR}[b&3], 8)
	if b&2 == 0 {
		d.o.a, d.o.b = d.rm(), d.reg()
	} else {
		d.o.a, d.o.b = d.reg(), d.rm()
	}
}

func (d *decoder) group7() {
	d.fetchModRM()
	if !d.mod3() {
		switch d.sub() {
		case 0, 1, 2, 3:
			d.m1([4]code{cSGDT, cSIDT, cLGDT, cLIDT}[d.sub()], 8)
		case 4:
			d.m1(cSMSW, 2)
		case 6:
			d.is(cLMSW, 2)
			d.rmSrc(2)
		case 7:
			d.m1(cINVLPG, 8)
		default:
			d.ud()
		}
		return
	}
	switch d.modrm {
	case 0xc1:
		d.is(cVMCALL, 8)
	case 0xca:
		d.is(cCLAC, 8)
	case 0xcb:
		d.is(cSTAC, 8)
	case 0xd0:
		d.is(cXGETBV, 8)
	case 0xe8: // serialize
		d.is(cNOP, 8)
	case 0xee:
		d.is(cRDPKRU, 8)
	case 0xef:
		d.is(cNOP, 8) // wrpkru
	case 0xf8:
		d.is(cSWAPGS, 8)
	case 0xf9:
		d.is(cRDTSCP, 8)
	default:
		switch d.sub() {
		case 4:
			d.m1(cSMSW, d.width())
		case 6:
			d.is(cLMSW, 2)
			d.rmSrc(2)
		default:
			d.ud()
		}
	}
}

func (d *decoder) group9() {
	d.fetchModRM()
	switch {
	case d.sub() == 1 && !d.mod3():
		w := uint8(4)
		if d.rex&8 != 0 {
			w = 8
		}
		d.m1(cCMPXCHG8B, w)
	case d.sub() == 6 && d.mod3() && d.rep == 0:
		d.m1(cRDRAND, d.width())
	case d.sub() == 7 && d.mod3() && d.rep == 0:
		d.m1(cRDSEED, d.width())
	case d.sub() == 7 && d.mod3() && d.rep == 0xf3:
		d.m1(cRDPID, 8)
	default:
		d.ud()
	}
}

func (d *decoder) group15() {
	d.fetchModRM()
	switch {
	case d.mod3() && d.rep == 0xf3 && d.sub() < 4:
		w := uint8(4)
		if d.rex&8 != 0 {
			w = 8
		}
		d.is(cRDBASE+code(d.sub()>>1), w)
		d.o.a, d.o.b = d.rm(), regFS+d.sub()&1
	case d.mod3() && d.rep == 0 && d.sub() >= 5: // lfence, mfence, sfence
		d.is(cNOP, 4)
	case !d.mod3() && d.sub() == 7: // clflush, clflushopt
		d.m1(cCLFLUSH, 1)
	case !d.mod3() && d.sub() == 6 && d.op66: // clwb
		d.m1(cCLFLUSH, 1)
	default:
		d.ud()
	}
}

func (d *decoder) opcode0f38() {
	b := d.u8()
	switch b {
	case 0xf0, 0xf1:
		switch {
		case d.rep == 0xf2:
			d.fetchModRM()
			w := uint8(4)
			if d.rex&8 != 0 {
				w = 8
			}
			d.is(cCRC32, w)
			sw := d.v(b)
			d.o.a = d.reg()
			d.rmSrc(sw)
			d.o.imm = uint64(sw)
		case b == 0xf0:
			d.rmr(cMOVBE, d.width())
			if d.mod3() {
				d.ud()
			}
		default:
			d.mr(cMOVBE, d.width())
			if d.mod3() {
				d.ud()
			}
		}
	case 0xf6:
		w := uint8(4)
		if d.rex&8 != 0 {
			w = 8
		}
		switch {
		case d.op66:
			d.rmr(cADCX, w)
		case d.rep == 0xf3:
			d.rmr(cADOX, w)
		default:
			d.fetchModRM()
			d.ud()
		}
	case 0xf9: // movdiri
		w := uint8(4)
		if d.rex&8 != 0 {
			w = 8
		}
		d.mr(cMOV, w)
		if d.mod3() || d.op66 || d.rep != 0 {
			d.ud()
		}
	case 0x82:
		d.rmr(cINVPCID, 8)
		if d.mod3() || !d.op66 {
			d.ud()
		}
	default:
		d.fetchModRM()
		d.ud()
	}
}

func (d *decoder) opcode0f3a() {
	d.u8()
	d.fetchModRM()
	d.u8()
	d.ud()
}

// vex is BMI1 and BMI2; the vector instructions of this space are #UD, as with
// CR4.OSXSAVE clear.
func (d *decoder) vex(b byte) {
	if d.rex != 0 || d.op66 || d.rep != 0 || d.lock {
		d.lock = false
		d.ud()
		return
	}
	d.o.flags |= vex
	m, p := byte(1), d.u8()
	w := uint8(4)
	if b == 0xc4 {
		m = p & 31
		d.rex = ^p >> 5 & 7
		p = d.u8()
		if p&0x80 != 0 {
			w = 8
		}
	} else {
		d.rex = ^p >> 5 & 4
	}
	v, l, pp := ^p>>3&15, p>>2&1, p&3
	opcode := d.u8()
	if m == 0 || m > 3 {
		d.ud()
		return
	}
	if m == 1 && opcode == 0x77 { // vzeroupper has no ModRM
		d.ud()
		return
	}
	d.fetchModRM()
	if m == 3 {
		d.o.imm = uint64(d.u8())
	}
	d.ud()
	if l != 0 {
		return
	}
	d.o.a = d.reg()
	rm := func(c code) { // op a, r/m, v
		d.is(c, w)
		d.rmSrc(w)
		d.o.setV(v)
	}
	switch {
	case m == 2 && opcode == 0xf2 && pp == 0:
		rm(cANDN)
	case m == 2 && opcode == 0xf3 && pp == 0 && d.sub() >= 1 && d.sub() <= 3:
		rm([3]code{cBLSR, cBLSMSK, cBLSI}[d.sub()-1])
		d.o.a = v
	case m == 2 && opcode == 0xf5:
		rm([4]code{cBZHI, cUD, cPEXT, cPDEP}[pp])
	case m == 2 && opcode == 0xf6 && pp == 3:
		rm(cMULX)
	case m == 2 && opcode == 0xf7:
		rm([4]code{cBEXTR, cSHLX, cSARX, cSHRX}[pp])
	case m == 3 && opcode == 0xf0 && pp == 3 && v == 0: // vvvv is 1111
		d.is(cRORX, w)
		d.rmSrc(w)
	}
}

// setV keeps the register of VEX.vvvv, which these instructions need beside
// a, b and the memory operand, in imm.
func (o *op) setV(v uint8) { o.imm = uint64(v) }
