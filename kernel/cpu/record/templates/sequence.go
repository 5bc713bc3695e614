package templates

import (
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/cpu/record"
)

// sequences adds runs of instructions as compilers emit them: what an
// interpreter may fuse, reorder or leave out, such as flags that nobody reads.
// Nothing in them reads a flag that the manuals leave undefined; AF is not read
// at all. Memory operands are r15 and a displacement.
func (l *list) sequences() {
	l.sequence("SEQ arithmetic", func(s *seq) { s.some(6, s.flagged) })
	l.sequence("SEQ moves", func(s *seq) { s.some(6, s.move) })
	l.sequence("SEQ mixed", func(s *seq) { s.some(8, s.any) })
	l.sequence("SEQ compare and branch", func(s *seq) {
		s.flagged()
		s.branch(s.move)
		s.flagged()
		s.branch(s.flagged)
	})
	l.sequence("SEQ compare, moves, branch", func(s *seq) {
		s.flagged()
		s.some(2, s.move)
		s.branch(s.any)
	})
	l.sequence("SEQ compare and use", func(s *seq) {
		s.flagged()
		s.use()
		s.use()
	})
	l.sequence("SEQ carry chain", func(s *seq) {
		s.alu([]int{0, 5}[s.N(2)])
		s.some(3, func() { s.alu([]int{2, 3}[s.N(2)]) })
		s.use()
	})
	l.sequence("SEQ inc dec keep carry", func(s *seq) {
		s.alu(s.N(8))
		s.code(enc{op: []byte{0xff}, w: 64, reg: s.N(2), rm: s.any16()})
		s.use()
		s.alu(2)
	})
	l.sequence("SEQ shift, test", func(s *seq) {
		s.code(enc{op: []byte{0xc1}, w: 32 << s.N(2), reg: []int{0, 1, 4, 5, 7}[s.N(5)], rm: s.any16(), imm: []byte{byte(s.N(64))}})
		s.compare()
		s.use()
	})
	l.sequence("SEQ multiply, test", func(s *seq) {
		s.code(enc{op: []byte{0x0f, 0xaf}, w: 32 << s.N(2), reg: s.any16(), rm: s.any16(), mem: s.chance(30)})
		s.compare()
		s.use()
	})
	l.sequence("SEQ locked", func(s *seq) {
		s.locked()
		s.use()
		s.locked()
	})
	l.sequence("SEQ loop", func(s *seq) { s.loop() })
	l.sequence("SEQ pushes", func(s *seq) { s.stackRun(2+s.N(6), 0) })
	l.sequence("SEQ pops", func(s *seq) { s.stackRun(0, 2+s.N(6)) })
	l.sequence("SEQ pushes and pops", func(s *seq) { n := 1 + s.N(6); s.stackRun(n, n) })
	l.sequence("SEQ prologue and epilogue", func(s *seq) { s.function() })
	l.sequence("SEQ strings", func(s *seq) { s.str() })
}

// sequence adds one; it gets four times as many cases' worth of variety by
// having four forms.
func (l *list) sequence(name string, f func(s *seq)) {
	for _, suffix := range []string{" 1", " 2", " 3", " 4"} {
		l.add(name+suffix, func(g *gen) {
			g.fixed, g.avoid = true, 1<<rsp|1<<r15
			g.set(r15, g.c.Window+32)
			g.set(rsp, g.c.Window+32)
			s := &seq{gen: g}
			f(s)
			g.c.Code = s.b
		})
	}
}

// seq is a sequence in the making.
type seq struct {
	*gen
	b []byte
}

// code appends an instruction.
func (s *seq) code(e enc) {
	s.gen.code(e)
	s.b = append(s.b, s.c.Code...)
}

func (s *seq) bytes(b ...byte) { s.b = append(s.b, b...) }

// some appends from 2 to n pieces.
func (s *seq) some(n int, f func()) {
	for range 2 + s.N(n-1) {
		f()
	}
}

// any16 gives a register that the sequence may change.
func (s *seq) any16() int {
	for {
		if r := s.N(16); s.avoid>>r&1 == 0 {
			return r
		}
	}
}

// operand is any16 for a width. Of byte registers, 4 to 7 might be ah to bh or spl to dil,
// and spl is not to change.
func (s *seq) operand(w int) int {
	for {
		r := s.any16()
		if w != 8 || r < 4 || r >= 8 {
			return r
		}
	}
}

func (s *seq) width() int { return []int{8, 16, 32, 32, 64, 64}[s.N(6)] }

// alu appends the group's operation in one of its forms.
func (s *seq) alu(digit int) {
	w := s.width()
	base := byte(digit << 3)
	switch s.N(5) {
	case 0, 1:
		s.code(enc{op: []byte{widthOp(base, w)}, w: w, reg: s.operand(w), rm: s.operand(w)})
	case 2:
		s.code(enc{op: []byte{widthOp(base|2, w)}, w: w, reg: s.operand(w), mem: true})
	case 3:
		s.code(enc{op: []byte{widthOp(base, w)}, w: w, reg: s.operand(w), mem: true})
	default:
		op, n := widthOp(0x80, w), immBytes(w)
		if w != 8 && s.chance(70) {
			op, n = 0x83, 1
		}
		s.code(enc{op: []byte{op}, w: w, reg: digit, rm: s.operand(w), mem: s.chance(30), imm: s.immediate(n)})
	}
}

// compare appends cmp or test.
func (s *seq) compare() {
	if s.chance(50) {
		s.alu(7)
		return
	}
	w := s.width()
	r := s.operand(w)
	s.code(enc{op: []byte{widthOp(0x84, w)}, w: w, reg: r, rm: r})
}

// flagged appends something that sets all status flags but AF.
func (s *seq) flagged() {
	switch w := s.width(); s.N(6) {
	case 0, 1, 2:
		s.alu(s.N(8))
	case 3:
		s.compare()
	case 4:
		s.code(enc{op: []byte{widthOp(0xf6, w)}, w: w, reg: 3, rm: s.operand(w), mem: s.chance(30)}) // neg
	default:
		s.code(enc{op: []byte{widthOp(0xd0, w)}, w: w, reg: []int{4, 5, 7}[s.N(3)], rm: s.operand(w)}) // by 1
	}
}

// use appends something that reads flags.
func (s *seq) use() {
	cc := byte(s.N(16))
	switch s.N(3) {
	case 0:
		s.code(enc{op: []byte{0x0f, 0x90 | cc}, w: 8, rm: s.operand(8), mem: s.chance(30)})
	case 1:
		s.code(enc{op: []byte{0x0f, 0x40 | cc}, w: 16 << s.N(3), reg: s.any16(), rm: s.any16(), mem: s.chance(30)})
	default:
		s.branch(s.move)
	}
}

// branch appends a jcc over a piece.
func (s *seq) branch(f func()) {
	at := len(s.b)
	cc := byte(s.N(16))
	near := s.chance(30)
	if near {
		s.bytes(0x0f, 0x80|cc, 0, 0, 0, 0)
	} else {
		s.bytes(0x70|cc, 0)
	}
	from := len(s.b)
	f()
	if near {
		binary.LittleEndian.PutUint32(s.b[at+2:], uint32(len(s.b)-from))
	} else {
		s.b[at+1] = byte(len(s.b) - from)
	}
}

// move appends something that leaves the flags alone.
func (s *seq) move() {
	w := s.width()
	switch s.N(9) {
	case 0, 1:
		s.code(enc{op: []byte{widthOp(0x88, w)}, w: w, reg: s.operand(w), rm: s.operand(w), mem: s.chance(50)})
	case 2:
		s.code(enc{op: []byte{widthOp(0x8a, w)}, w: w, reg: s.operand(w), mem: true})
	case 3:
		s.code(enc{op: []byte{widthOp(0xc6, w)}, w: w, rm: s.operand(w), mem: s.chance(50), imm: s.immediate(immBytes(w))})
	case 4:
		s.code(enc{op: []byte{0x0f, []byte{0xb6, 0xb7, 0xbe, 0xbf}[s.N(4)]}, w: 16 << s.N(3), reg: s.any16(), mem: true, size: 2})
	case 5:
		s.lea()
	case 6:
		s.code(enc{op: []byte{0x63}, w: 64, reg: s.any16(), rm: s.any16()})
	case 7:
		s.code(enc{op: []byte{widthOp(0xf6, w)}, w: w, reg: 2, rm: s.operand(w)}) // not
	default:
		s.code(enc{op: []byte{0x0f, 0xc8}, w: 32 << s.N(2), plain: true, short: s.any16()})
	}
}

// lea appends a lea of any registers.
func (s *seq) lea() {
	reg, base, index := s.any16(), s.any16(), s.any16()
	rex := byte(0x40 | s.N(2)<<3 | reg>>3<<2 | index>>3<<1 | base>>3)
	s.bytes(rex, 0x8d, 0x44|byte(reg&7)<<3, byte(s.N(4)<<6|index&7<<3|base&7), byte(s.Next()))
}

// locked appends an atomic operation.
func (s *seq) locked() {
	w := s.width()
	switch s.N(4) {
	case 0:
		s.code(enc{op: []byte{0x0f, widthOp(0xc0, w)}, w: w, reg: s.operand(w), mem: true, lock: s.chance(70)})
	case 1:
		s.code(enc{op: []byte{0x0f, widthOp(0xb0, w)}, w: w, reg: s.operand(w), mem: true, lock: s.chance(70)})
	case 2:
		s.code(enc{op: []byte{widthOp(0x86, w)}, w: w, reg: s.operand(w), mem: true})
	default:
		s.code(enc{op: []byte{widthOp(0xfe, w)}, w: w, reg: s.N(2), mem: true, lock: true})
	}
}

// any appends anything.
func (s *seq) any() {
	switch s.N(4) {
	case 0:
		s.use()
	case 1:
		s.move()
	case 2:
		s.locked()
	default:
		s.flagged()
	}
}

// loop appends a loop of a few rounds that counts in rcx.
func (s *seq) loop() {
	s.avoid |= 1 << rcx
	s.set(rcx, uint64(1+s.N(6)))
	start := len(s.b)
	s.some(4, func() {
		if len(s.b) < 40 {
			s.any()
		}
	})
	switch s.N(3) {
	case 0:
		s.bytes(0xff, 0xc9) // dec %ecx
	case 1:
		s.bytes(0x48, 0x83, 0xe9, 0x01) // sub $1,%rcx
	default:
		s.bytes(0x83, 0xc1, 0xff) // add $-1,%ecx
	}
	s.bytes(0x75, 0)
	s.b[len(s.b)-1] = byte(start - len(s.b))
}

// stackRun appends pushes, then pops; sometimes they run out of the page.
func (s *seq) stackRun(pushes, pops int) {
	s.set(rsp, s.c.Window+56)
	if pushes == 0 {
		s.set(rsp, s.c.Window)
	}
	if s.chance(30) {
		s.c.Window = record.WindowStart
		s.set(rsp, record.PageAddr+uint64(s.N(48)))
		if pushes == 0 {
			s.c.Window = record.WindowEnd
			s.set(rsp, record.PageAddr+record.PageSize-uint64(s.N(48)))
		}
		s.set(r15, s.c.Window+32)
	}
	for range pushes {
		s.code(enc{op: []byte{0x50}, w: 64, def64: true, plain: true, short: s.N(16)})
	}
	for range pops {
		s.code(enc{op: []byte{0x58}, w: 64, def64: true, plain: true, short: s.any16()})
	}
}

// function appends a function's beginning, some work and its end.
func (s *seq) function() {
	s.set(rsp, s.c.Window+48)
	s.setMem(s.c.Window+48, s.target(), 8)
	s.avoid |= 1 << rbp
	saved := []int{s.any16(), s.any16()}
	push := func(r int) { s.code(enc{op: []byte{0x50}, w: 64, def64: true, plain: true, short: r}) }
	pop := func(r int) { s.code(enc{op: []byte{0x58}, w: 64, def64: true, plain: true, short: r}) }
	push(rbp)
	s.bytes(0x48, 0x89, 0xe5) // mov %rsp,%rbp
	for _, r := range saved {
		push(r)
	}
	s.bytes(0x48, 0x83, 0xec, 0x08) // sub $8,%rsp
	for range 2 {
		w := s.width()
		s.code(enc{op: []byte{widthOp(0, w)}, w: w, reg: s.operand(w), rm: s.operand(w)})
	}
	if s.chance(30) {
		s.bytes(0xc9, 0xc3) // leave; ret
		return
	}
	s.bytes(0x48, 0x83, 0xc4, 0x08) // add $8,%rsp
	for i := range saved {
		pop(saved[len(saved)-1-i])
	}
	pop(rbp)
	s.bytes(0xc3)
}

// str appends a string instruction among others.
func (s *seq) str() {
	s.avoid |= 1<<rsi | 1<<rdi | 1<<rcx
	s.set(rsi, s.c.Window+uint64(s.N(16)))
	s.set(rdi, s.c.Window+16+uint64(s.N(8)))
	s.set(rcx, uint64(s.N(5)))
	s.flagged()
	s.bytes(0xf3)
	if s.chance(50) {
		s.bytes(0x48)
	}
	s.bytes([]byte{0xa4, 0xa5, 0xaa, 0xab}[s.N(4)])
	s.use()
	s.flagged()
}
