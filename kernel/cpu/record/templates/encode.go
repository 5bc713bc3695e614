// Package templates invents instructions and the states they begin with, form by
// form: what kernel/cpu is held against a processor with. Each case is a function
// of its form's name and its number.
package templates

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/kprobefs/kprobefs/kernel/cpu/record"
)

// statusFlags are the flags that instructions change in user mode: CF PF AF ZF SF DF OF.
const statusFlags = 0xcd5

// Registers by number.
const (
	rax = iota
	rcx
	rdx
	rbx
	rsp
	rbp
	rsi
	rdi
	r15 = 15
)

// Template makes the cases of one form.
type Template struct {
	Name string
	make func(g *gen)
}

// gen is one case in the making.
type gen struct {
	record.Rand
	c        *record.Case
	reserved uint16 // registers that addresses must leave alone
	noFault  bool   // memory operands lie in the window
	align    uint64 // of memory operands, bytes, or 0
	system   bool   // a SYS form
	fixed    bool   // addresses are r15 and a displacement, in the window
	avoid    uint16 // registers that any leaves alone
	ea       uint64 // where the last memory operand lies
}

// Case makes case number i. Its outcome is not known: After is Before.
func (t *Template) Case(i int) record.Case {
	h := fnv.New64a()
	h.Write([]byte(t.Name))
	c := record.Case{Window: record.WindowMid, Before: record.Derive(t.Name, i)}
	g := &gen{Rand: record.Rand(h.Sum64() ^ uint64(i)<<32 ^ 0x67656e), c: &c}
	c.Before.Flags = uint16(g.Next())&0x8d5 | 0x202 // DF only where a template sets it
	t.make(g)
	c.After = c.Before
	return c
}

// chance is true in percent of all calls.
func (g *gen) chance(percent int) bool { return g.N(100) < percent }

// set sets a register before the instruction.
func (g *gen) set(r int, v uint64) { g.c.Before.R[r] = v }

// reg gives the value of a register before the instruction.
func (g *gen) reg(r int) uint64 { return g.c.Before.R[r] }

// reserve keeps registers from being used in addresses.
func (g *gen) reserve(regs ...int) {
	for _, r := range regs {
		g.reserved |= 1 << r
	}
}

// setMem puts a value of n bytes into the window.
func (g *gen) setMem(addr, v uint64, n int) {
	for i := range uint64(n) {
		if off := addr - g.c.Window + i; off < record.WindowSize {
			g.c.Before.Mem[off] = byte(v >> (8 * i))
		}
	}
}

// mem gives n bytes of the window.
func (g *gen) mem(addr uint64, n int) (v uint64) {
	for i := range uint64(n) {
		if off := addr - g.c.Window + i; off < record.WindowSize {
			v |= uint64(g.c.Before.Mem[off]) << (8 * i)
		}
	}
	return v
}

// low gives the low w bits.
func low(v uint64, w int) uint64 { return v & (^uint64(0) >> (64 - w)) }

// merge gives old with its low w bits replaced, as a register would be by hand.
func merge(old, v uint64, w int) uint64 {
	m := ^uint64(0) >> (64 - w)
	return old&^m | v&m
}

// enc is an instruction to encode.
type enc struct {
	op    []byte
	w     int  // operand width in bits: decides 66 and REX.W
	def64 bool // 64 bits without REX.W
	reg   int  // ModRM.reg: a register, or the digit of a group
	rm    int  // register, if not mem
	mem   bool
	size  int // bytes accessed in memory, 0: w/8
	imm   []byte
	lock  bool
	rep   byte // f2, f3: before the opcode
	plain bool // the opcode has no ModRM
	short int  // with plain: register in the opcode's low three bits, or -1
}

// code encodes, with random addressing.
func (g *gen) code(e enc) {
	var legacy, tail []byte
	rex := byte(0)
	if e.w == 64 && !e.def64 {
		rex |= 0x48
	}
	if e.w == 16 {
		legacy = append(legacy, 0x66)
	}
	op := append([]byte(nil), e.op...)
	dispAt := -1 // of a RIP-relative displacement, in tail
	switch {
	case e.plain:
		if e.short >= 0 {
			op[len(op)-1] |= byte(e.short & 7)
			if e.short >= 8 {
				rex |= 0x41
			}
		}
	case e.mem:
		size := e.size
		if size == 0 {
			size = e.w / 8
		}
		a := g.address(size)
		legacy = append(legacy, a.prefixes...)
		rex |= a.rex
		tail = a.modrm
		tail[0] |= byte(e.reg&7) << 3
		dispAt = a.ripDisp
	default:
		tail = []byte{0xc0 | byte(e.reg&7)<<3 | byte(e.rm&7)}
		if e.rm >= 8 {
			rex |= 0x41
		}
	}
	if !e.plain && e.reg >= 8 {
		rex |= 0x44
	}
	if e.w == 8 && rex == 0 && g.chance(50) {
		rex = 0x40 // spl bpl sil dil for ah ch dh bh
	}
	if e.rep != 0 {
		legacy = append(legacy, e.rep)
	}
	if e.lock {
		legacy = append(legacy, 0xf0)
	}
	b := legacy
	if rex != 0 {
		b = append(b, rex)
	}
	b = append(b, op...)
	if dispAt >= 0 {
		dispAt += len(b)
	}
	b = append(append(b, tail...), e.imm...)
	if dispAt >= 0 { // so far it holds the address without the code's
		binary.LittleEndian.PutUint32(b[dispAt:], binary.LittleEndian.Uint32(b[dispAt:])-uint32(record.CodeAddr+len(b)))
	}
	g.c.Code = b
}

// address is the encoding of a memory operand.
type address struct {
	prefixes []byte
	rex      byte
	modrm    []byte // ModRM with reg 0, SIB, displacement
	ripDisp  int    // where in modrm a RIP-relative displacement is, -1: none
}

// place chooses where a memory operand of size bytes lies.
func (g *gen) place(size int) (ea uint64, canonical bool) {
	switch p := g.N(100); {
	case g.noFault || p < 90:
		ea = g.c.Window + 16 + uint64(g.N(48-size+1))
	case p < 98 || g.system: // across the page's end, or behind it
		g.c.Window = record.WindowEnd
		ea = record.PageAddr + record.PageSize - uint64(g.N(size))
	default:
		bad := []uint64{0x0000800000000000, 0x8000000000000000, 0xffff7ffffffffff0, 0x7fffffffffffff00, 0x1234567890abcdef}
		return bad[g.N(len(bad))] + uint64(g.N(16)), false
	}
	if g.align > 1 && g.chance(90) {
		ea &^= g.align - 1
	}
	return ea, true
}

// address makes a memory operand of size bytes, and sets its registers.
func (g *gen) address(size int) address {
	if g.fixed {
		return address{rex: 0x41, modrm: []byte{0x47, byte(g.N(record.WindowSize-size+1) - 32)}, ripDisp: -1}
	}
	ea, canonical := g.place(size)
	g.ea = ea
	a := address{ripDisp: -1}
	addr32 := canonical && g.chance(3)
	offset := ea
	if canonical && g.chance(10) {
		a.prefixes = append(a.prefixes, 0x65)
		offset -= record.GSBase
	}
	if addr32 {
		a.prefixes = append(a.prefixes, 0x67)
	}
	mode := g.N(7)
	if !canonical {
		mode = g.N(2)
	}
	base, index := g.free(0), g.free(1<<rsp)
	switch mode {
	case 0, 1, 2:
		a.based(g, base, g.displacement(mode), offset, addr32)
	case 3, 4:
		a.indexed(g, base, index, offset, addr32)
	case 5: // RIP-relative
		a.ripDisp = 1
		a.modrm = binary.LittleEndian.AppendUint32([]byte{0x05}, uint32(offset))
	default: // absolute
		a.modrm = binary.LittleEndian.AppendUint32([]byte{0x04, 0x25}, uint32(offset))
	}
	return a
}

// free gives a register that an address may use, not in the set not.
func (g *gen) free(not uint16) int {
	for {
		if r := g.N(16); (g.reserved|not)>>r&1 == 0 {
			return r
		}
	}
}

// displacement gives one for mod 0, 1 or 2.
func (g *gen) displacement(mod int) int32 {
	switch mod {
	case 1:
		return int32(int8(g.Next()))
	case 2:
		return int32(g.Next()) >> g.N(24)
	}
	return 0
}

// high fills the upper half of a register that an address of 32 bits ignores.
func (g *gen) high(v uint64, addr32 bool) uint64 {
	if addr32 {
		return merge(g.Next(), v, 32)
	}
	return v
}

// based is [base], [base+disp8] or [base+disp32].
func (a *address) based(g *gen, base int, disp int32, offset uint64, addr32 bool) {
	g.set(base, g.high(offset-uint64(int64(disp)), addr32))
	mod := dispMod(base, disp)
	a.modrm = []byte{mod<<6 | byte(base&7)}
	if base&7 == rsp {
		a.modrm = append(a.modrm, 0x24)
	}
	if base >= 8 {
		a.rex |= 0x41
	}
	a.disp(mod, disp)
}

// dispMod is ModRM.mod for a base and a displacement.
func dispMod(base int, disp int32) byte {
	switch {
	case disp == 0 && base&7 != rbp:
		return 0
	case disp == int32(int8(disp)):
		return 1
	}
	return 2
}

func (a *address) disp(mod byte, disp int32) {
	switch mod {
	case 1:
		a.modrm = append(a.modrm, byte(disp))
	case 2:
		a.modrm = binary.LittleEndian.AppendUint32(a.modrm, uint32(disp))
	}
}

// indexed is [base+index*scale+disp] or [index*scale+disp32].
func (a *address) indexed(g *gen, base, index int, offset uint64, addr32 bool) {
	scale := g.N(4)
	if index >= 8 {
		a.rex |= 0x42
	}
	sib := byte(scale<<6 | index&7<<3)
	if base == index { // no base
		i := uint64(g.N(1000))
		g.set(index, g.high(i, addr32))
		a.modrm = binary.LittleEndian.AppendUint32([]byte{0x04, sib | 5}, uint32(offset-i<<scale))
		return
	}
	disp := g.displacement(g.N(3))
	i := g.Value()
	g.set(index, i)
	g.set(base, g.high(offset-uint64(int64(disp))-i<<scale, addr32))
	mod := dispMod(base, disp)
	a.modrm = []byte{mod<<6 | 4, sib | byte(base&7)}
	if base >= 8 {
		a.rex |= 0x41
	}
	a.disp(mod, disp)
}

// immediate gives n bytes of a random value.
func (g *gen) immediate(n int) []byte {
	return binary.LittleEndian.AppendUint64(nil, g.Value())[:n]
}
