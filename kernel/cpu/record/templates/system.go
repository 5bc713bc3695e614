package templates

import (
	"fmt"

	"github.com/kprobefs/kprobefs/kernel/cpu/record"
)

// Where QEMU 7.2 does other than processors do (which TestRecorded knows of, or
// the manuals), no case goes: bases that are not canonical, reserved bits of CR0
// and CR8, stacks that are not canonical or addresses by rsp and rbp (#GP for #SS), sgdt across a fault.

// setSystem prepares the state of a SYS case.
func (g *gen) setSystem() {
	g.system = true
	g.c.Before.Flags = uint16(g.Next())&0xad5 | 0x002
	s := &g.c.Before.Sys
	if g.chance(30) {
		s[record.CR0] = g.Next() & 0x5000a // flips: MP TS WP AM
	}
	if g.chance(20) {
		s[record.CR4] = g.Next() & 0x10c // TSD DE PCE
	}
	s[record.CR2] = g.Value()
	s[record.CR8] = uint64(g.N(16))
	for i := record.FSBase; i <= record.LStar; i++ {
		s[i] = g.canonical()
	}
	s[record.GSBaseReg] = record.GSBase
	s[record.Star], s[record.SFMask] = g.Next(), uint64(uint32(g.Next()))
	s[record.GDTBase], s[record.IDTBase] = uint64(g.N(4)), uint64(g.N(4)) // copies of the tables
	s[record.GDTLimit], s[record.IDTLimit] = 0x4f+uint64(g.N(4000)), 511+uint64(g.N(3500))
	for i := record.ES; i <= record.GS; i++ {
		s[i] = uint64(g.N(2)) * 0x18
	}
}

// canonical gives a canonical address.
func (g *gen) canonical() uint64 {
	v := g.Value()
	return uint64(int64(v<<16) >> 16)
}

func (l *list) sys(name string, f func(g *gen)) {
	l.add("SYS "+name, func(g *gen) {
		g.setSystem()
		f(g)
	})
}

// System is every privileged form.
func System() []Template {
	var l list
	l.systemFlags()
	l.controlRegisters()
	l.bases()
	l.descriptorTables()
	l.returns()
	return l
}

func (l *list) systemFlags() {
	for _, x := range []struct {
		name string
		code []byte
	}{
		{"CLI", []byte{0xfa}},
		{"STI", []byte{0xfb}},
		{"CLTS", []byte{0x0f, 0x06}},
		{"SWAPGS", []byte{0x0f, 0x01, 0xf8}},
		{"WBINVD", []byte{0x0f, 0x09}},
		{"UD2", []byte{0x0f, 0x0b}},
	} {
		l.sys(x.name, func(g *gen) { g.c.Code = x.code })
	}
	l.sys("PUSHFQ", func(g *gen) { g.stackAt(8, true); g.c.Code = []byte{0x9c} })
	l.sys("POPFQ", func(g *gen) {
		g.stackAt(8, false)
		g.setMem(g.reg(rsp), g.Next()&0xffff&^0x100, 8)
		g.c.Code = []byte{0x9d}
	})
	l.sys("POPFW", func(g *gen) {
		g.stackAt(2, false)
		g.setMem(g.reg(rsp), g.Next()&0xffff&^0x100, 2)
		g.c.Code = []byte{0x66, 0x9d}
	})
	l.sys("INT imm", func(g *gen) { // the vectors whose exceptions have no error code
		vectors := []byte{0, 3, 4, 5, 6, 7, 9, 16, 18, 19, 20, 22, 23, 24, 25, 26, 27, 28, 31}
		g.c.Code = []byte{0xcd, vectors[g.N(len(vectors))]}
	})
	l.sys("INVLPG m", func(g *gen) {
		g.code(enc{op: []byte{0x0f, 0x01}, w: 32, reg: 7, mem: true, size: 8})
	})
}

func (l *list) controlRegisters() {
	for _, n := range []int{0, 2, 3, 4, 8} {
		l.sys(fmt.Sprintf("MOV r64,CR%d", n), func(g *gen) {
			g.code(enc{op: []byte{0x0f, 0x20}, w: 64, def64: true, reg: n, rm: g.N(16)})
		})
	}
	l.sys("MOV CR2,r64", func(g *gen) {
		g.code(enc{op: []byte{0x0f, 0x22}, w: 64, def64: true, reg: 2, rm: g.N(16)})
	})
	l.sys("MOV CR8,r64", func(g *gen) {
		r := g.N(16)
		g.set(r, uint64(g.N(16)))
		g.code(enc{op: []byte{0x0f, 0x22}, w: 64, def64: true, reg: 8, rm: r})
	})
	l.sys("MOV CR0,r64", func(g *gen) {
		r := g.N(16)
		g.set(r, 0x80010033^g.Next()&0x5000e)
		g.code(enc{op: []byte{0x0f, 0x22}, w: 64, def64: true, reg: 0, rm: r})
	})
	l.sys("SMSW r", func(g *gen) {
		g.code(enc{op: []byte{0x0f, 0x01}, w: 32 << g.N(2), reg: 4, rm: g.N(16)})
	})
}

// msr numbers that cases use: STAR LSTAR SFMASK FS_BASE GS_BASE KERNEL_GS_BASE.
var msr = []uint64{0xc0000081, 0xc0000082, 0xc0000084, 0xc0000100, 0xc0000101, 0xc0000102}

func (l *list) bases() {
	l.sys("RDMSR", func(g *gen) {
		g.set(rcx, merge(g.Next(), msr[g.N(len(msr))], 32))
		g.c.Code = []byte{0x0f, 0x32}
	})
	l.sys("WRMSR", func(g *gen) {
		n := msr[g.N(len(msr))]
		v := g.canonical()
		if n == 0xc0000084 {
			v = uint64(uint32(v))
		}
		g.set(rcx, merge(g.Next(), n, 32))
		g.set(rax, merge(g.Next(), v, 32))
		g.set(rdx, merge(g.Next(), v>>32, 32))
		g.c.Code = []byte{0x0f, 0x30}
	})
	for i, name := range []string{"RDFSBASE", "RDGSBASE", "WRFSBASE", "WRGSBASE"} {
		for _, w := range []int{32, 64} {
			l.sys(fmt.Sprintf("%s r%d", name, w), func(g *gen) {
				r := g.N(16)
				g.set(r, g.canonical())
				g.code(enc{op: []byte{0x0f, 0xae}, w: w, reg: i, rm: r, rep: 0xf3})
			})
		}
	}
	for i, name := range []string{"ES", "CS", "SS", "DS", "FS", "GS"} {
		l.sys("MOV r,"+name, func(g *gen) {
			g.code(enc{op: []byte{0x8c}, w: 16 << g.N(3), reg: i, rm: g.N(16)})
		})
		if name == "CS" || name == "SS" { // SS would put off the trap
			continue
		}
		l.sys("MOV "+name+",r", func(g *gen) {
			r := g.N(16)
			g.set(r, merge(g.Next(), uint64(g.N(2))*0x18, 16))
			g.code(enc{op: []byte{0x8e}, w: 32, reg: i, rm: r})
		})
	}
}

func (l *list) descriptorTables() {
	for i, name := range []string{"SGDT", "SIDT"} {
		l.sys(name+" m80", func(g *gen) {
			g.noFault = true
			g.code(enc{op: []byte{0x0f, 0x01}, w: 32, reg: i, mem: true, size: 10})
		})
	}
	for i, name := range []string{"LGDT", "LIDT"} {
		l.sys(name+" m80", func(g *gen) {
			g.code(enc{op: []byte{0x0f, 0x01}, w: 32, reg: 2 + i, mem: true, size: 10})
			// The table must be one that the machine can go on with.
			g.setMem(g.ea, tableLimit(g, i), 2)
			g.setMem(g.ea+2, tableBase(g, i), 8)
		})
	}
}

func tableLimit(g *gen, i int) uint64 { return []uint64{0x4f, 511}[i] + uint64(g.N(3000)) }

// tableBase is the address of one of the machine's four copies of the GDT or the
// IDT; machine.lds puts them there.
func tableBase(g *gen, i int) uint64 { return 0x180000 + uint64(i)*0x4000 + uint64(g.N(4))*0x1000 }

func (l *list) returns() {
	l.sys("IRETQ", func(g *gen) {
		g.noFault = true
		g.reserve(rsp)
		g.set(rsp, g.c.Window+uint64(g.N(24)))
		at := g.reg(rsp)
		frame := []uint64{g.target(), 0x10, g.Next() & 0xfff &^ 0x100, g.Value(), uint64(g.N(2)) * 0x18}
		for i, v := range frame {
			g.setMem(at+8*uint64(i), v, 8)
		}
		g.c.Code = []byte{0x48, 0xcf}
	})
	l.sys("LRETQ", func(g *gen) {
		g.stackAt(16, false)
		g.setMem(g.reg(rsp), g.target(), 8)
		g.setMem(g.reg(rsp)+8, 0x10, 8)
		g.c.Code = []byte{0x48, 0xcb}
	})
}
