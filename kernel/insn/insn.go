// Package insn decodes the length of an x86-64 instruction and its parts (prefixes,
// opcode, ModRM, SIB, displacement, immediate), and decides for kprobes whether it
// may be copied, must be emulated, or may be part of a detour.
//
// The decoder has a table for each opcode map, with one letter for each opcode that
// tells what follows it. Instructions are executed by kernel/cpu and disassembled by
// x86asm. The decoder accepts what Linux 6.1's decoder accepts, since register_kprobe
// uses that one to find instruction boundaries: so some opcodes that no processor has
// are decoded as one byte.
//
// It differs from Linux's decoder in instructions that gcc does not emit: a REX
// prefix that is not the last prefix is ignored, as by processors; XOP is supported;
// all opcodes of the maps 0f38 and 0f3a have a ModRM byte.
package insn

import (
	"encoding/binary"
	"errors"
)

// MaxLen is the maximum length of an instruction in bytes.
const MaxLen = 15

// Errors of Decode.
var (
	ErrTruncated = errors.New("insn: instruction goes past the end of the bytes, or past 15")
	ErrInvalid   = errors.New("insn: invalid instruction")
)

// Prefix is a set of legacy prefixes.
type Prefix uint16

// Bits of Insn.Prefixes.
const (
	OpSize   Prefix = 1 << iota // 66
	AddrSize                    // 67
	Lock                        // f0
	RepNE                       // f2
	Rep                         // f3
	CS                          // 2e
	SS                          // 36
	DS                          // 3e
	ES                          // 26
	FS                          // 64
	GS                          // 65
)

// Bits of Insn.REX. For VEX, EVEX and XOP the same bits are used, not inverted.
const (
	RexB = 1 << iota
	RexX
	RexR
	RexW
)

// Values of Insn.Map, the opcode map.
const (
	Map1    = 1 // one byte
	Map0F   = 2
	Map0F38 = 3
	Map0F3A = 4
	Map5    = 5 // EVEX only
	Map6    = 6 // EVEX only
	MapXOP8 = 8
	MapXOP9 = 9
	MapXOPA = 10
)

// Insn is a decoded instruction. Offsets count from its first byte.
type Insn struct {
	Len        int
	Prefixes   Prefix
	REX        byte // 40..4f, or 0 if there is none; for VEX, EVEX and XOP only the bits W R X B
	Map        uint8
	Opcode     byte
	OpcodeOff  int
	HasModRM   bool
	HasSIB     bool
	ModRM      byte
	SIB        byte
	DispOff    int
	DispSize   int // bytes: 0, 1, 4, or 8 (mov al/ax/eax/rax, moffs; 4 with 67)
	ImmOff     int
	ImmSize    int   // bytes; 3 for enter (Imm: frame size, then level << 16), 4 or 6 for a far pointer
	Disp       int64 // sign-extended
	Imm        int64 // sign-extended
	VEX        bool  // VEX, EVEX or XOP
	ForcedEmul bool  // begins with ud2 and "xen" or "kvm", which Linux's decoder treats as a prefix
}

// decoder is an instruction that is being decoded.
type decoder struct {
	Insn
	b   []byte
	pos int
}

// Decode decodes the instruction at the beginning of b. It reads only the bytes of
// the instruction. The error is ErrTruncated or ErrInvalid.
func Decode(b []byte) (Insn, error) {
	if len(b) > MaxLen {
		b = b[:MaxLen]
	}
	d := decoder{b: b}
	if err := d.decode(); err != nil {
		return Insn{}, err
	}
	d.Len = d.pos
	return d.Insn, nil
}

func (d *decoder) decode() error {
	if err := d.prefixes(); err != nil {
		return err
	}
	form, err := d.opcode()
	if err != nil {
		return err
	}
	if form.hasModRM() {
		if err := d.modRM(); err != nil {
			return err
		}
	}
	return d.immediate(form)
}

// next consumes one byte.
func (d *decoder) next() (byte, error) {
	if d.pos >= len(d.b) {
		return 0, ErrTruncated
	}
	c := d.b[d.pos]
	d.pos++
	return c, nil
}

// prefixes consumes a forced-emulation prefix, the legacy prefixes and REX.
func (d *decoder) prefixes() error {
	if len(d.b) >= 5 {
		switch string(d.b[:5]) {
		case "\x0f\x0bxen", "\x0f\x0bkvm":
			d.ForcedEmul, d.pos = true, 5
		}
	}
	for ; d.pos < len(d.b); d.pos++ {
		c := d.b[d.pos]
		if c&0xf0 == 0x40 {
			d.REX = c
			continue
		}
		p := legacyPrefix(c)
		if p == 0 {
			return nil
		}
		d.Prefixes |= p
		d.REX = 0 // only a REX right before the opcode counts
	}
	return ErrTruncated
}

func legacyPrefix(c byte) Prefix {
	switch c {
	case 0x66:
		return OpSize
	case 0x67:
		return AddrSize
	case 0xf0:
		return Lock
	case 0xf2:
		return RepNE
	case 0xf3:
		return Rep
	case 0x2e:
		return CS
	case 0x36:
		return SS
	case 0x3e:
		return DS
	case 0x26:
		return ES
	case 0x64:
		return FS
	case 0x65:
		return GS
	}
	return 0
}

// opcode consumes the opcode with its escapes and returns its form.
func (d *decoder) opcode() (form, error) {
	c, err := d.next()
	if err != nil {
		return 0, err
	}
	switch c {
	case 0xc5:
		return d.vex2()
	case 0xc4:
		return d.vex3()
	case 0x62:
		return d.evex()
	case 0x8f:
		if d.pos < len(d.b) && d.b[d.pos]&0x1f >= MapXOP8 {
			return d.xop()
		}
	case 0x0f:
		return d.escape()
	}
	return d.setOpcode(Map1, c, oneByte[c]), nil
}

func (d *decoder) setOpcode(opmap uint8, c byte, f form) form {
	d.Map, d.Opcode, d.OpcodeOff = opmap, c, d.pos-1
	return f
}

// escape consumes what follows 0f, up to the opcode, and returns its form.
func (d *decoder) escape() (form, error) {
	c, err := d.next()
	if err != nil {
		return 0, err
	}
	if c != 0x38 && c != 0x3a {
		return d.setOpcode(Map0F, c, twoByte[c]), nil
	}
	opmap, f, legacy := uint8(Map0F38), form(modRM), &legacy0F38
	if c == 0x3a {
		opmap, f, legacy = Map0F3A, modRMImm8, &legacy0F3A
	}
	if c, err = d.next(); err != nil {
		return 0, err
	}
	if !legacy.has(c) {
		return 0, ErrInvalid
	}
	return d.setOpcode(opmap, c, f), nil
}

// take consumes n bytes.
func (d *decoder) take(n int) ([]byte, error) {
	if d.pos+n > len(d.b) {
		return nil, ErrTruncated
	}
	p := d.b[d.pos : d.pos+n]
	d.pos += n
	return p, nil
}

func (d *decoder) vex2() (form, error) {
	p, err := d.take(2)
	if err != nil {
		return 0, err
	}
	d.VEX, d.REX = true, ^p[0]>>7<<2
	return d.vectorOpcode(Map0F, p[1])
}

func (d *decoder) vex3() (form, error) {
	p, err := d.take(3)
	if err != nil {
		return 0, err
	}
	d.VEX, d.REX = true, ^p[0]>>5|p[1]>>7<<3
	m := p[0] & 0x1f
	if m == 0 || m > 3 {
		return 0, ErrInvalid
	}
	return d.vectorOpcode(m+1, p[2])
}

func (d *decoder) evex() (form, error) {
	p, err := d.take(4)
	if err != nil {
		return 0, err
	}
	d.VEX, d.REX = true, ^p[0]>>5|p[1]>>7<<3
	if p[1]&4 == 0 {
		return 0, ErrInvalid
	}
	switch m := p[0] & 7; m {
	case 1, 2, 3:
		return d.vectorOpcode(m+1, p[3])
	case 5, 6:
		return d.setOpcode(m, p[3], modRM), nil
	}
	return 0, ErrInvalid
}

func (d *decoder) xop() (form, error) {
	p, err := d.take(3)
	if err != nil {
		return 0, err
	}
	d.VEX, d.REX = true, ^p[0]>>5|p[1]>>7<<3
	switch m := p[0] & 0x1f; m {
	case MapXOP8:
		return d.setOpcode(m, p[2], modRMImm8), nil
	case MapXOP9:
		return d.setOpcode(m, p[2], modRM), nil
	case MapXOPA:
		return d.setOpcode(m, p[2], modRMImm32), nil
	}
	return 0, ErrInvalid
}

// vectorOpcode returns the form of an opcode after VEX or EVEX.
func (d *decoder) vectorOpcode(opmap uint8, c byte) (form, error) {
	switch opmap {
	case Map0F:
		f := twoByte[c]
		if noVEX.has(c) {
			return 0, ErrInvalid
		}
		return d.setOpcode(opmap, c, f), nil
	case Map0F3A:
		return d.setOpcode(opmap, c, modRMImm8), nil
	}
	return d.setOpcode(opmap, c, modRM), nil
}

// modRM consumes ModRM, SIB and displacement.
func (d *decoder) modRM() error {
	c, err := d.next()
	if err != nil {
		return err
	}
	d.HasModRM, d.ModRM = true, c
	mod, rm := c>>6, c&7
	if mod == 3 {
		return nil
	}
	size := [3]int{0, 1, 4}[mod]
	if rm == 4 {
		if d.SIB, err = d.next(); err != nil {
			return err
		}
		d.HasSIB = true
		rm = d.SIB & 7
	}
	if mod == 0 && rm == 5 {
		size = 4
	}
	if size == 0 {
		return nil
	}
	d.DispOff, d.DispSize = d.pos, size
	d.Disp, err = d.signed(size)
	return err
}

// signed consumes a little-endian displacement or immediate of size bytes. Those of
// 1, 2, 4 and 8 bytes are sign-extended.
func (d *decoder) signed(size int) (int64, error) {
	p, err := d.take(size)
	if err != nil {
		return 0, err
	}
	switch size {
	case 1:
		return int64(int8(p[0])), nil
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(p))), nil
	case 3: // enter
		return int64(p[0]) | int64(p[1])<<8 | int64(p[2])<<16, nil
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(p))), nil
	case 6: // far pointer
		return int64(binary.LittleEndian.Uint32(p)) | int64(binary.LittleEndian.Uint16(p[4:]))<<32, nil
	}
	return int64(binary.LittleEndian.Uint64(p)), nil
}

// immediate consumes the form's immediate.
func (d *decoder) immediate(f form) (err error) {
	if f == moffs {
		d.DispOff, d.DispSize = d.pos, 8
		if d.Prefixes&AddrSize != 0 {
			d.DispSize = 4
		}
		d.Disp, err = d.signed(d.DispSize)
		return err
	}
	size, err := d.immSize(f)
	if err != nil || size == 0 {
		return err
	}
	d.ImmOff, d.ImmSize = d.pos, size
	d.Imm, err = d.signed(size)
	return err
}

// immSize returns the size of a form's immediate in bytes.
func (d *decoder) immSize(f form) (int, error) {
	wide, short := d.REX&RexW != 0, d.Prefixes&OpSize != 0
	word := 4
	if short && !wide {
		word = 2
	}
	switch f {
	case imm8, modRMImm8:
		return 1, nil
	case imm16:
		return 2, nil
	case immZ, modRMImmZ:
		return word, nil
	case immV:
		if wide {
			return 8, nil
		}
		return word, nil
	case rel8:
		return 1, nil
	case rel32, modRMImm32: // a 66 prefix does not shorten it: Linux follows Intel
		return 4, nil
	case enter:
		return 3, nil
	case farPtr:
		if wide {
			return 0, ErrInvalid
		}
		return word + 2, nil
	case group3b:
		if d.ModRM>>3&7 < 2 {
			return 1, nil
		}
	case group3v:
		if d.ModRM>>3&7 < 2 {
			return word, nil
		}
	}
	return 0, nil
}
