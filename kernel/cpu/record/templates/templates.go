package templates

import (
	"encoding/binary"
	"fmt"

	"github.com/kprobefs/kprobefs/kernel/cpu/record"
)

// list collects templates.
type list []Template

func (l *list) add(name string, f func(g *gen)) { *l = append(*l, Template{name, f}) }

// Native is every form that user mode may execute.
func Native() []Template {
	var l list
	l.alu()
	l.moves()
	l.unary()
	l.multiply()
	l.shifts()
	l.bitOps()
	l.exchange()
	l.conditions()
	l.stack()
	l.branches()
	l.strings()
	l.bmi()
	l.simple()
	l.sequences()
	return l
}

// widthOp is the opcode for a width: op for 8 bits, op|1 for others.
func widthOp(op byte, w int) byte {
	if w == 8 {
		return op
	}
	return op | 1
}

// immBytes is the size of a full immediate of a width.
func immBytes(w int) int { return min(w/8, 4) }

// lockName prefixes a name.
func lockName(lock bool, name string) string {
	if lock {
		return "LOCK " + name
	}
	return name
}

// oneRM adds op r/m in register and memory form.
func (l *list) oneRM(name string, w int, e enc, locked bool, prepare func(g *gen)) {
	do := func(e enc) func(g *gen) {
		return func(g *gen) {
			e := e
			e.w = w
			if prepare != nil {
				prepare(g)
			}
			e.rm = g.N(16)
			g.code(e)
		}
	}
	l.add(fmt.Sprintf("%s r%d", name, w), do(e))
	e.mem = true
	l.add(fmt.Sprintf("%s m%d", name, w), do(e))
	if locked {
		e.lock = true
		l.add(fmt.Sprintf("LOCK %s m%d", name, w), do(e))
	}
}

var (
	widths = []int{8, 16, 32, 64}
	wide   = []int{16, 32, 64}
)

func (l *list) alu() {
	for i, name := range []string{"ADD", "OR", "ADC", "SBB", "AND", "SUB", "XOR", "CMP"} {
		base := byte(i << 3)
		for _, w := range widths {
			l.regRM(name, w, widthOp(base, w), widthOp(base|2, w), name != "CMP")
			l.rmImm(name, w, i, name != "CMP")
		}
	}
	for _, w := range widths {
		l.regRM("TEST", w, widthOp(0x84, w), 0, false)
		op := widthOp(0xf6, w)
		for _, mem := range []bool{false, true} {
			l.add(fmt.Sprintf("TEST %s%d,imm", class(mem), w), func(g *gen) {
				if !mem && g.chance(20) {
					g.code(enc{op: []byte{widthOp(0xa8, w)}, w: w, plain: true, short: -1, imm: g.immediate(immBytes(w))})
					return
				}
				g.code(enc{op: []byte{op}, w: w, rm: g.N(16), mem: mem, imm: g.immediate(immBytes(w))})
			})
		}
	}
}

func class(mem bool) string {
	if mem {
		return "m"
	}
	return "r"
}

// regRM adds op r/m,r by store and, if it is not 0, op r,r/m by load.
func (l *list) regRM(name string, w int, store, load byte, locked bool) {
	l.add(fmt.Sprintf("%s r%d,r%d", name, w, w), func(g *gen) {
		op := store
		if load != 0 && g.chance(50) {
			op = load
		}
		rm := g.N(16)
		reg := g.N(16)
		if g.chance(10) {
			reg = rm
		}
		g.code(enc{op: []byte{op}, w: w, reg: reg, rm: rm})
	})
	for _, lock := range []bool{false, true} {
		if lock && !locked {
			continue
		}
		l.add(lockName(lock, fmt.Sprintf("%s m%d,r%d", name, w, w)), func(g *gen) {
			g.code(enc{op: []byte{store}, w: w, reg: g.N(16), mem: true, lock: lock})
		})
	}
	if load != 0 {
		l.add(fmt.Sprintf("%s r%d,m%d", name, w, w), func(g *gen) {
			g.code(enc{op: []byte{load}, w: w, reg: g.N(16), mem: true})
		})
	}
}

// rmImm adds the forms of group 1.
func (l *list) rmImm(name string, w, digit int, locked bool) {
	gen1 := func(g *gen, mem, lock bool) {
		op, n := widthOp(0x80, w), immBytes(w)
		switch {
		case w != 8 && g.chance(60):
			op, n = 0x83, 1
		case !mem && g.chance(20):
			g.code(enc{op: []byte{byte(digit)<<3 | widthOp(4, w)}, w: w, plain: true, short: -1, imm: g.immediate(n)})
			return
		}
		g.code(enc{op: []byte{op}, w: w, reg: digit, rm: g.N(16), mem: mem, imm: g.immediate(n), lock: lock})
	}
	l.add(fmt.Sprintf("%s r%d,imm", name, w), func(g *gen) { gen1(g, false, false) })
	l.add(fmt.Sprintf("%s m%d,imm", name, w), func(g *gen) { gen1(g, true, false) })
	if locked {
		l.add(fmt.Sprintf("LOCK %s m%d,imm", name, w), func(g *gen) { gen1(g, true, true) })
	}
}

func (l *list) moves() {
	for _, w := range widths {
		l.regRM("MOV", w, widthOp(0x88, w), widthOp(0x8a, w), false)
		l.add(fmt.Sprintf("MOV r%d,imm", w), func(g *gen) {
			if g.chance(30) {
				g.code(enc{op: []byte{widthOp(0xc6, w)}, w: w, rm: g.N(16), imm: g.immediate(immBytes(w))})
				return
			}
			op := byte(0xb8)
			if w == 8 {
				op = 0xb0
			}
			g.code(enc{op: []byte{op}, w: w, plain: true, short: g.N(16), imm: g.immediate(w / 8)})
		})
		l.add(fmt.Sprintf("MOV m%d,imm", w), func(g *gen) {
			g.code(enc{op: []byte{widthOp(0xc6, w)}, w: w, mem: true, imm: g.immediate(immBytes(w))})
		})
		for _, store := range []byte{0, 2} {
			name := "MOV acc%d,moffs"
			if store != 0 {
				name = "MOV moffs,acc%d"
			}
			l.add(fmt.Sprintf(name, w), func(g *gen) {
				ea, _ := g.place(w / 8)
				g.code(enc{op: []byte{widthOp(0xa0|store, w)}, w: w, plain: true, short: -1, imm: binary.LittleEndian.AppendUint64(nil, ea)})
			})
		}
	}
	for _, x := range []struct {
		name string
		op   byte
		src  int
	}{{"MOVZX", 0xb6, 8}, {"MOVZX", 0xb7, 16}, {"MOVSX", 0xbe, 8}, {"MOVSX", 0xbf, 16}} {
		for _, w := range wide {
			for _, mem := range []bool{false, true} {
				l.add(fmt.Sprintf("%s r%d,%s%d", x.name, w, class(mem), x.src), func(g *gen) {
					e := enc{op: []byte{0x0f, x.op}, w: w, reg: g.N(16), rm: g.N(16), mem: mem, size: x.src / 8}
					g.code(e)
				})
			}
		}
	}
	for _, w := range []int{32, 64} {
		for _, mem := range []bool{false, true} {
			l.add(fmt.Sprintf("MOVSXD r%d,%s32", w, class(mem)), func(g *gen) {
				g.code(enc{op: []byte{0x63}, w: w, reg: g.N(16), rm: g.N(16), mem: mem, size: 4})
			})
		}
		l.add(fmt.Sprintf("MOVNTI m%d,r%d", w, w), func(g *gen) {
			g.code(enc{op: []byte{0x0f, 0xc3}, w: w, reg: g.N(16), mem: true})
		})
	}
	for _, w := range wide {
		l.add(fmt.Sprintf("LEA r%d,m", w), func(g *gen) {
			g.code(enc{op: []byte{0x8d}, w: w, reg: g.N(16), mem: true, size: 8})
		})
		l.add(fmt.Sprintf("MOVBE r%d,m%d", w, w), func(g *gen) {
			g.code(enc{op: []byte{0x0f, 0x38, 0xf0}, w: w, reg: g.N(16), mem: true})
		})
		l.add(fmt.Sprintf("MOVBE m%d,r%d", w, w), func(g *gen) {
			g.code(enc{op: []byte{0x0f, 0x38, 0xf1}, w: w, reg: g.N(16), mem: true})
		})
	}
}

func (l *list) unary() {
	for _, w := range widths {
		l.oneRM("INC", w, enc{op: []byte{widthOp(0xfe, w)}, reg: 0}, true, nil)
		l.oneRM("DEC", w, enc{op: []byte{widthOp(0xfe, w)}, reg: 1}, true, nil)
		l.oneRM("NOT", w, enc{op: []byte{widthOp(0xf6, w)}, reg: 2}, true, nil)
		l.oneRM("NEG", w, enc{op: []byte{widthOp(0xf6, w)}, reg: 3}, true, nil)
	}
	for _, w := range []int{32, 64} {
		l.add(fmt.Sprintf("BSWAP r%d", w), func(g *gen) {
			g.code(enc{op: []byte{0x0f, 0xc8}, w: w, plain: true, short: g.N(16)})
		})
	}
}

func (l *list) multiply() {
	for _, w := range widths {
		l.oneRM("MUL", w, enc{op: []byte{widthOp(0xf6, w)}, reg: 4}, false, nil)
		l.oneRM("IMUL", w, enc{op: []byte{widthOp(0xf6, w)}, reg: 5}, false, nil)
		l.oneRM("DIV", w, enc{op: []byte{widthOp(0xf6, w)}, reg: 6}, false, func(g *gen) { g.dividend(w) })
		l.oneRM("IDIV", w, enc{op: []byte{widthOp(0xf6, w)}, reg: 7}, false, func(g *gen) { g.dividend(w) })
	}
	for _, w := range wide {
		for _, mem := range []bool{false, true} {
			l.add(fmt.Sprintf("IMUL r%d,%s%d", w, class(mem), w), func(g *gen) {
				g.code(enc{op: []byte{0x0f, 0xaf}, w: w, reg: g.N(16), rm: g.N(16), mem: mem})
			})
			l.add(fmt.Sprintf("IMUL r%d,%s%d,imm", w, class(mem), w), func(g *gen) {
				op, n := byte(0x69), immBytes(w)
				if g.chance(50) {
					op, n = 0x6b, 1
				}
				g.code(enc{op: []byte{op}, w: w, reg: g.N(16), rm: g.N(16), mem: mem, imm: g.immediate(n)})
			})
		}
	}
}

// dividend makes quotients that fit likely.
func (g *gen) dividend(w int) {
	g.reserve(rax, rdx)
	var hi uint64
	switch g.N(4) {
	case 0:
		hi = 0
	case 1:
		hi = uint64(int64(g.reg(rax)<<(64-w)) >> 63)
	case 2:
		hi = uint64(g.N(64))
	default:
		return
	}
	if w == 8 {
		g.set(rax, merge(g.reg(rax), hi<<8|low(g.reg(rax), 8), 16))
		return
	}
	g.set(rdx, merge(g.reg(rdx), hi, w))
}

func (l *list) shifts() {
	for digit, name := range []string{"ROL", "ROR", "RCL", "RCR", "SHL", "SHR", "", "SAR"} {
		if name == "" {
			continue
		}
		for _, w := range widths {
			for _, mem := range []bool{false, true} {
				l.add(fmt.Sprintf("%s %s%d,imm", name, class(mem), w), func(g *gen) {
					e := enc{op: []byte{widthOp(0xc0, w)}, w: w, reg: digit, rm: g.N(16), mem: mem, imm: g.count(w)}
					if g.chance(20) {
						e.op, e.imm = []byte{widthOp(0xd0, w)}, nil
					}
					g.code(e)
				})
				l.add(fmt.Sprintf("%s %s%d,cl", name, class(mem), w), func(g *gen) {
					g.reserve(rcx)
					g.set(rcx, merge(g.reg(rcx), uint64(g.count(w)[0]), 8))
					g.code(enc{op: []byte{widthOp(0xd2, w)}, w: w, reg: digit, rm: g.N(16), mem: mem})
				})
			}
		}
	}
	for _, x := range []struct {
		name string
		op   byte
	}{{"SHLD", 0xa4}, {"SHRD", 0xac}} {
		for _, w := range wide {
			for _, mem := range []bool{false, true} {
				l.add(fmt.Sprintf("%s %s%d,r%d,imm", x.name, class(mem), w, w), func(g *gen) {
					g.code(enc{op: []byte{0x0f, x.op}, w: w, reg: g.N(16), rm: g.N(16), mem: mem, imm: []byte{byte(g.N(min(w, 32)))}})
				})
				l.add(fmt.Sprintf("%s %s%d,r%d,cl", x.name, class(mem), w, w), func(g *gen) {
					g.reserve(rcx)
					g.set(rcx, merge(g.reg(rcx), uint64(g.N(min(w, 32))), 8))
					g.code(enc{op: []byte{0x0f, x.op | 1}, w: w, reg: g.N(16), rm: g.N(16), mem: mem})
				})
			}
		}
	}
}

// count gives a shift count, mostly within the width.
func (g *gen) count(w int) []byte {
	switch g.N(8) {
	case 0:
		return []byte{0}
	case 1:
		return []byte{1}
	case 2:
		return []byte{byte(w)}
	case 3:
		return []byte{byte(g.Next())}
	}
	return []byte{byte(g.N(w))}
}

func (l *list) bitOps() {
	for i, name := range []string{"BT", "BTS", "BTR", "BTC"} {
		for _, w := range wide {
			op := []byte{0x0f, 0xa3 | byte(i)<<3}
			l.add(fmt.Sprintf("%s r%d,r%d", name, w, w), func(g *gen) {
				g.code(enc{op: op, w: w, reg: g.N(16), rm: g.N(16)})
			})
			l.add(fmt.Sprintf("%s r%d,imm", name, w), func(g *gen) {
				g.code(enc{op: []byte{0x0f, 0xba}, w: w, reg: 4 + i, rm: g.N(16), imm: []byte{byte(g.Next())}})
			})
			for _, lock := range []bool{false, true} {
				if lock && i == 0 {
					continue
				}
				l.add(lockName(lock, fmt.Sprintf("%s m%d,imm", name, w)), func(g *gen) {
					g.code(enc{op: []byte{0x0f, 0xba}, w: w, reg: 4 + i, mem: true, imm: []byte{byte(g.Next())}, lock: lock})
				})
				l.add(lockName(lock, fmt.Sprintf("%s m%d,r%d", name, w, w)), func(g *gen) {
					reg := g.N(16)
					g.reserve(reg)
					g.set(reg, merge(g.reg(reg), uint64(g.N(256)-128), w))
					g.noFault, g.align = true, 0
					e := enc{op: op, w: w, reg: reg, mem: true, lock: lock, size: 24} // the bit is 16 bytes around
					g.code(e)
				})
			}
		}
	}
	for _, x := range []struct {
		name string
		rep  byte
		op   byte
	}{{"BSF", 0, 0xbc}, {"BSR", 0, 0xbd}, {"TZCNT", 0xf3, 0xbc}, {"LZCNT", 0xf3, 0xbd}, {"POPCNT", 0xf3, 0xb8}} {
		for _, w := range wide {
			for _, mem := range []bool{false, true} {
				l.add(fmt.Sprintf("%s r%d,%s%d", x.name, w, class(mem), w), func(g *gen) {
					g.code(enc{op: []byte{0x0f, x.op}, w: w, reg: g.N(16), rm: g.N(16), mem: mem, rep: x.rep})
				})
			}
		}
	}
}

func (l *list) exchange() {
	for _, w := range widths {
		l.add(fmt.Sprintf("XCHG r%d,r%d", w, w), func(g *gen) {
			if w != 8 && g.chance(30) {
				g.code(enc{op: []byte{0x90}, w: w, plain: true, short: g.N(16)})
				return
			}
			g.code(enc{op: []byte{widthOp(0x86, w)}, w: w, reg: g.N(16), rm: g.N(16)})
		})
		l.add(fmt.Sprintf("XCHG m%d,r%d", w, w), func(g *gen) {
			g.code(enc{op: []byte{widthOp(0x86, w)}, w: w, reg: g.N(16), mem: true, lock: g.chance(20)})
		})
		l.add(fmt.Sprintf("XADD r%d,r%d", w, w), func(g *gen) {
			g.code(enc{op: []byte{0x0f, widthOp(0xc0, w)}, w: w, reg: g.N(16), rm: g.N(16)})
		})
		l.add(fmt.Sprintf("CMPXCHG r%d,r%d", w, w), func(g *gen) {
			rm := g.N(16)
			if g.chance(50) {
				g.set(rax, merge(g.reg(rax), g.reg(rm), w))
			}
			g.code(enc{op: []byte{0x0f, widthOp(0xb0, w)}, w: w, reg: g.N(16), rm: rm})
		})
		for _, lock := range []bool{false, true} {
			l.add(lockName(lock, fmt.Sprintf("XADD m%d,r%d", w, w)), func(g *gen) {
				g.code(enc{op: []byte{0x0f, widthOp(0xc0, w)}, w: w, reg: g.N(16), mem: true, lock: lock})
			})
			l.add(lockName(lock, fmt.Sprintf("CMPXCHG m%d,r%d", w, w)), func(g *gen) {
				g.reserve(rax)
				g.code(enc{op: []byte{0x0f, widthOp(0xb0, w)}, w: w, reg: g.N(16), mem: true, lock: lock})
				if g.chance(50) {
					g.set(rax, merge(g.reg(rax), g.mem(g.ea, w/8), w))
				}
			})
		}
	}
	for _, lock := range []bool{false, true} {
		l.add(lockName(lock, "CMPXCHG8B m64"), func(g *gen) { g.cmpxchgPair(4, lock) })
		l.add(lockName(lock, "CMPXCHG16B m128"), func(g *gen) { g.cmpxchgPair(8, lock) })
	}
}

// cmpxchgPair is cmpxchg8b or cmpxchg16b, with halves of half bytes.
func (g *gen) cmpxchgPair(half int, lock bool) {
	g.reserve(rax, rbx, rcx, rdx)
	w := 32
	if half == 8 {
		w, g.align = 64, 16
	}
	g.code(enc{op: []byte{0x0f, 0xc7}, w: w, reg: 1, mem: true, size: 2 * half, lock: lock})
	if g.chance(60) {
		g.set(rax, merge(g.reg(rax), g.mem(g.ea, half), 8*half))
		g.set(rdx, merge(g.reg(rdx), g.mem(g.ea+uint64(half), half), 8*half))
	}
}

var conditions = []string{"O", "NO", "B", "AE", "E", "NE", "BE", "A", "S", "NS", "P", "NP", "L", "GE", "LE", "G"}

func (l *list) conditions() {
	for i, cc := range conditions {
		l.oneRM("SET"+cc, 8, enc{op: []byte{0x0f, 0x90 | byte(i)}}, false, nil)
		for _, w := range wide {
			for _, mem := range []bool{false, true} {
				l.add(fmt.Sprintf("CMOV%s r%d,%s%d", cc, w, class(mem), w), func(g *gen) {
					g.code(enc{op: []byte{0x0f, 0x40 | byte(i)}, w: w, reg: g.N(16), rm: g.N(16), mem: mem})
				})
			}
		}
		l.add("J"+cc+" rel8", func(g *gen) { g.c.Code = []byte{0x70 | byte(i), byte(g.Next())} })
		l.add("J"+cc+" rel32", func(g *gen) { g.c.Code = append([]byte{0x0f, 0x80 | byte(i)}, g.rel32()...) })
	}
}

// rel32 gives a displacement that stays in the lower half of the addresses.
func (g *gen) rel32() []byte {
	return binary.LittleEndian.AppendUint32(nil, uint32(int32(g.Next())>>(2+g.N(20))))
}

// stackAt puts the stack pointer where size bytes above (pop) or below (push) it
// are in the window, and now and then where they are not.
func (g *gen) stackAt(size int, push bool) {
	g.reserve(rsp)
	p := g.c.Window + 24 + uint64(g.N(16))
	switch {
	case g.chance(5):
		g.c.Window = record.WindowEnd
		p = record.PageAddr + record.PageSize - uint64(g.N(size))
		if push {
			p += uint64(size)
		}
	case !g.system && g.chance(2):
		p = 0x0000800000000100 + g.Next()>>17
	}
	g.set(rsp, p)
}

func (l *list) stack() {
	for _, w := range []int{16, 64} {
		l.add(fmt.Sprintf("PUSH r%d", w), func(g *gen) {
			g.stackAt(w/8, true)
			g.code(enc{op: []byte{0x50}, w: w, def64: true, plain: true, short: g.N(16)})
		})
		l.add(fmt.Sprintf("POP r%d", w), func(g *gen) {
			g.stackAt(w/8, false)
			g.code(enc{op: []byte{0x58}, w: w, def64: true, plain: true, short: g.N(16)})
		})
	}
	l.add("PUSH imm", func(g *gen) {
		g.stackAt(8, true)
		if g.chance(50) {
			g.c.Code = append([]byte{0x6a}, g.immediate(1)...)
			return
		}
		g.c.Code = append([]byte{0x68}, g.immediate(4)...)
	})
	l.add("PUSH m64", func(g *gen) {
		g.stackAt(8, true)
		if g.c.Window == record.WindowEnd {
			g.noFault = true
		}
		g.code(enc{op: []byte{0xff}, w: 64, def64: true, reg: 6, mem: true})
	})
	l.add("POP m64", func(g *gen) {
		g.stackAt(8, false)
		g.noFault = g.c.Window == record.WindowEnd
		g.code(enc{op: []byte{0x8f}, w: 64, def64: true, reg: 0, mem: true})
	})
	l.add("PUSHFQ", func(g *gen) { g.stackAt(8, true); g.c.Before.Flags |= uint16(g.N(2)) << 10; g.c.Code = []byte{0x9c} })
	l.add("POPFQ", func(g *gen) {
		g.stackAt(8, false)
		g.setMem(g.reg(rsp), g.Next()&statusFlags|0x202, 8)
		g.c.Code = []byte{0x9d}
	})
	l.add("ENTER imm,0", func(g *gen) {
		g.stackAt(8, true)
		g.c.Code = append(append([]byte{0xc8}, g.immediate(2)...), 0)
	})
	l.add("LEAVE", func(g *gen) {
		g.stackAt(8, false)
		g.set(rbp, g.reg(rsp))
		g.set(rsp, g.Value())
		g.c.Code = []byte{0xc9}
	})
}

// target gives an address that a branch may go to.
func (g *gen) target() uint64 { return g.Next() >> (17 + g.N(20)) }

func (l *list) branches() {
	l.add("JMP rel8", func(g *gen) { g.c.Code = []byte{0xeb, byte(g.Next())} })
	l.add("JMP rel32", func(g *gen) { g.c.Code = append([]byte{0xe9}, g.rel32()...) })
	l.add("CALL rel32", func(g *gen) { g.stackAt(8, true); g.c.Code = append([]byte{0xe8}, g.rel32()...) })
	for _, x := range []struct {
		name  string
		digit int
	}{{"CALL", 2}, {"JMP", 4}} {
		l.add(x.name+" r64", func(g *gen) {
			g.stackAt(8, true)
			r := g.free(0)
			g.set(r, g.target())
			g.code(enc{op: []byte{0xff}, w: 64, def64: true, reg: x.digit, rm: r})
		})
		l.add(x.name+" m64", func(g *gen) {
			g.stackAt(8, true)
			g.noFault = g.c.Window == record.WindowEnd
			g.code(enc{op: []byte{0xff}, w: 64, def64: true, reg: x.digit, mem: true})
			g.setMem(g.ea, g.target(), 8)
		})
	}
	l.add("RET", func(g *gen) {
		g.stackAt(8, false)
		g.setMem(g.reg(rsp), g.target(), 8)
		g.c.Code = []byte{0xc3}
		if g.chance(10) {
			g.c.Code = []byte{0xf3, 0xc3}
		}
	})
	l.add("RET imm", func(g *gen) {
		g.stackAt(8, false)
		g.setMem(g.reg(rsp), g.target(), 8)
		g.c.Code = append([]byte{0xc2}, g.immediate(2)...)
	})
	for i, name := range []string{"LOOPNE", "LOOPE", "LOOP", "JRCXZ"} {
		l.add(name+" rel8", func(g *gen) {
			if g.chance(50) {
				g.set(rcx, uint64(g.N(3)))
			}
			g.c.Code = []byte{0xe0 | byte(i), byte(g.Next())}
			if g.chance(20) {
				g.set(rcx, merge(g.Next(), g.reg(rcx), 32))
				g.c.Code = append([]byte{0x67}, g.c.Code...)
			}
		})
	}
}

func (l *list) strings() {
	for _, x := range []struct {
		name     string
		op       byte
		src, dst bool
		compares bool
	}{
		{"MOVS", 0xa4, true, true, false},
		{"CMPS", 0xa6, true, true, true},
		{"STOS", 0xaa, false, true, false},
		{"LODS", 0xac, true, false, false},
		{"SCAS", 0xae, false, true, true},
	} {
		for _, w := range widths {
			suffix := map[int]string{8: "B", 16: "W", 32: "D", 64: "Q"}[w]
			reps := []struct {
				name string
				b    byte
			}{{"", 0}, {"REP ", 0xf3}}
			if x.compares {
				reps[1].name = "REPE "
				reps = append(reps, struct {
					name string
					b    byte
				}{"REPNE ", 0xf2})
			}
			for _, rep := range reps {
				l.add(rep.name+x.name+suffix, func(g *gen) {
					g.stringOp(w, rep.b != 0, x.src, x.dst, x.compares)
					e := enc{op: []byte{widthOp(x.op, w)}, w: w, plain: true, short: -1, rep: rep.b}
					g.code(e)
				})
			}
		}
	}
}

// stringOp sets pointers, count and direction so that all elements lie in the
// window, or some behind the page's end.
func (g *gen) stringOp(w int, rep, src, dst, compares bool) {
	size := uint64(w / 8)
	if rep {
		g.set(rcx, uint64(g.N(int(40/size)+1)))
	}
	down := g.chance(30)
	if down {
		g.c.Before.Flags |= 0x400
	}
	fault := g.chance(8)
	if fault {
		g.c.Window = record.WindowEnd
	}
	pointer := func() uint64 {
		switch {
		case fault: // up: runs over the end; down: begins behind it
			return record.PageAddr + record.PageSize - uint64(g.N(int(2*size)))
		case down:
			return g.c.Window + record.WindowSize - size - uint64(g.N(16))
		}
		return g.c.Window + uint64(g.N(16))
	}
	if dst {
		g.set(rdi, pointer())
	}
	if src {
		if fault && dst && g.chance(50) {
			g.set(rsi, g.c.Window+8) // only one of the two faults
			if down {
				g.set(rsi, g.c.Window+40)
			}
		} else {
			g.set(rsi, pointer())
		}
	}
	if compares && rep && g.chance(60) {
		g.equalElements(w, src)
	}
}

// equalElements fills the window so that comparisons go on for a while.
func (g *gen) equalElements(w int, src bool) {
	v := g.Value()
	for off := uint64(0); off < record.WindowSize; off += 8 {
		fill := low(v, w)
		for s := w; s < 64; s *= 2 {
			fill |= fill << s
		}
		g.setMem(g.c.Window+off, fill, 8)
	}
	g.setMem(g.c.Window+uint64(g.N(record.WindowSize)), g.Next(), 1)
	if !src {
		g.set(rax, merge(g.reg(rax), v, w))
	}
}

// simple adds what has no operands.
func (l *list) simple() {
	fixed := func(name string, code ...byte) {
		l.add(name, func(g *gen) { g.c.Code = code })
	}
	for _, w := range wide {
		pre := map[int][]byte{16: {0x66}, 64: {0x48}}[w]
		fixed([]string{16: "CBW", 32: "CWDE", 64: "CDQE"}[w], append(pre[:len(pre):len(pre)], 0x98)...)
		fixed([]string{16: "CWD", 32: "CDQ", 64: "CQO"}[w], append(pre[:len(pre):len(pre)], 0x99)...)
	}
	fixed("LAHF", 0x9f)
	fixed("SAHF", 0x9e)
	fixed("CMC", 0xf5)
	fixed("CLC", 0xf8)
	fixed("STC", 0xf9)
	fixed("CLD", 0xfc)
	fixed("STD", 0xfd)
	fixed("NOP", 0x90)
	fixed("NOP16", 0x66, 0x90)
	fixed("PAUSE", 0xf3, 0x90)
	fixed("ENDBR64", 0xf3, 0x0f, 0x1e, 0xfa)
	fixed("LFENCE", 0x0f, 0xae, 0xe8)
	fixed("MFENCE", 0x0f, 0xae, 0xf0)
	fixed("SFENCE", 0x0f, 0xae, 0xf8)
	fixed("INT3", 0xcc)
	fixed("UD2", 0x0f, 0x0b)
	for _, w := range wide {
		l.add(fmt.Sprintf("NOP m%d", w), func(g *gen) {
			g.code(enc{op: []byte{0x0f, 0x1f}, w: w, reg: 0, mem: true, size: 8})
		})
	}
	l.add("PREFETCH m", func(g *gen) {
		g.code(enc{op: []byte{0x0f, 0x18}, w: 32, reg: g.N(4), mem: true, size: 8})
	})
	l.add("PREFETCHW m", func(g *gen) {
		g.code(enc{op: []byte{0x0f, 0x0d}, w: 32, reg: 1, mem: true, size: 8})
	})
	l.add("CLFLUSH m", func(g *gen) {
		g.code(enc{op: []byte{0x0f, 0xae}, w: 32, reg: 7, mem: true, size: 1})
	})
	l.add("XLAT", func(g *gen) {
		g.set(rbx, g.c.Window+16-uint64(g.N(16)))
		g.set(rax, merge(g.reg(rax), uint64(g.N(32)), 8))
		g.c.Code = []byte{0xd7}
	})
	l.add("UD1 r32,r32", func(g *gen) { g.code(enc{op: []byte{0x0f, 0xb9}, w: 32, reg: g.N(16), rm: g.N(16)}) })
	l.add("UD not in 64-bit mode", func(g *gen) {
		ops := []byte{0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x82, 0x9a, 0xce, 0xd4, 0xd5, 0xd6, 0xea}
		g.c.Code = append([]byte{ops[g.N(len(ops))]}, g.immediate(7)...)
	})
	l.add("UD LOCK", func(g *gen) { // LOCK needs a memory operand that is written, and an instruction that may have it
		switch g.N(4) {
		case 0:
			g.code(enc{op: []byte{0x01}, w: 32, reg: g.N(16), rm: g.N(16), lock: true})
		case 1:
			g.code(enc{op: []byte{0x89}, w: 32, reg: g.N(16), mem: true, lock: true})
		case 2:
			g.code(enc{op: []byte{0x39}, w: 32, reg: g.N(16), mem: true, lock: true})
		default:
			g.code(enc{op: []byte{0x03}, w: 32, reg: g.N(16), mem: true, lock: true})
		}
	})
}
