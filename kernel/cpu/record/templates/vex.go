package templates

import (
	"encoding/binary"
	"fmt"

	"github.com/kprobefs/kprobefs/kernel/cpu/record"
)

// bmi adds BMI1, BMI2 and ADX.
func (l *list) bmi() {
	for _, x := range []struct {
		name   string
		opmap  byte // 2: 0f38, 3: 0f3a
		pp     byte // 1: 66, 2: f3, 3: f2
		op     byte
		reg    int  // -1: a register
		count  bool // vvvv is a count or a bit field
		imm    bool
		noVVVV bool
	}{
		{name: "ANDN", opmap: 2, op: 0xf2, reg: -1},
		{name: "BEXTR", opmap: 2, op: 0xf7, reg: -1, count: true},
		{name: "BZHI", opmap: 2, op: 0xf5, reg: -1, count: true},
		{name: "SHLX", opmap: 2, pp: 1, op: 0xf7, reg: -1},
		{name: "SARX", opmap: 2, pp: 2, op: 0xf7, reg: -1},
		{name: "SHRX", opmap: 2, pp: 3, op: 0xf7, reg: -1},
		{name: "PEXT", opmap: 2, pp: 2, op: 0xf5, reg: -1},
		{name: "PDEP", opmap: 2, pp: 3, op: 0xf5, reg: -1},
		{name: "MULX", opmap: 2, pp: 3, op: 0xf6, reg: -1},
		{name: "RORX", opmap: 3, pp: 3, op: 0xf0, reg: -1, imm: true, noVVVV: true},
		{name: "BLSR", opmap: 2, op: 0xf3, reg: 1},
		{name: "BLSMSK", opmap: 2, op: 0xf3, reg: 2},
		{name: "BLSI", opmap: 2, op: 0xf3, reg: 3},
	} {
		for _, w := range []int{32, 64} {
			for _, mem := range []bool{false, true} {
				l.add(fmt.Sprintf("%s %s%d", x.name, class(mem), w), func(g *gen) {
					v := vex{opmap: x.opmap, pp: x.pp, op: x.op, w: w, reg: x.reg, vvvv: g.N(16), rm: g.N(16), mem: mem}
					if x.count && g.chance(80) {
						g.reserve(v.vvvv)
						g.set(v.vvvv, merge(g.reg(v.vvvv), uint64(g.N(80)|g.N(80)<<8), 16))
					}
					if x.reg < 0 {
						v.reg = g.N(16)
					}
					if x.noVVVV {
						v.vvvv = 0
					}
					if x.imm {
						v.imm = []byte{byte(g.Next())}
					}
					g.vex(v)
				})
			}
		}
	}
	for _, x := range []struct {
		name   string
		prefix byte
	}{{"ADCX", 0x66}, {"ADOX", 0xf3}} {
		for _, w := range []int{32, 64} {
			for _, mem := range []bool{false, true} {
				l.add(fmt.Sprintf("%s r%d,%s%d", x.name, w, class(mem), w), func(g *gen) {
					g.code(enc{op: []byte{0x0f, 0x38, 0xf6}, w: w, reg: g.N(16), rm: g.N(16), mem: mem, rep: x.prefix})
				})
			}
		}
	}
}

// vex is a VEX instruction to encode.
type vex struct {
	opmap, pp, op byte
	w             int
	reg, vvvv, rm int
	mem           bool
	imm           []byte
}

// vex encodes, with random addressing.
func (g *gen) vex(v vex) {
	a := address{modrm: []byte{0xc0 | byte(v.rm&7)}, rex: byte(v.rm >> 3), ripDisp: -1}
	if v.mem {
		a = g.address(v.w / 8)
	}
	a.modrm[0] |= byte(v.reg&7) << 3
	rxb := byte(v.reg>>3)<<2 | a.rex&3
	last := byte(^v.vvvv&15)<<3 | v.pp
	if v.w == 64 {
		last |= 0x80
	}
	b := append(a.prefixes, 0xc4, ^rxb<<5|v.opmap, last, v.op)
	at := len(b) + a.ripDisp
	b = append(append(b, a.modrm...), v.imm...)
	if a.ripDisp >= 0 {
		binary.LittleEndian.PutUint32(b[at:], binary.LittleEndian.Uint32(b[at:])-uint32(record.CodeAddr+len(b)))
	}
	g.c.Code = b
}
