package bpf

import "math"

// arithmetic makes a scalar the result of an operation with another one: adjust_scalar_min_max_vals.
func (v *value) arithmetic(op uint8, by value, narrow bool) {
	known := by.isConst()
	dead := by.span64.impossible(known)
	if narrow {
		known = by.lower().isConst()
		dead = by.low.impossible(known)
	}
	if dead || !known && op != aluADD && op != aluSUB && op != aluAND {
		v.forget()
		return
	}
	switch op {
	case aluADD:
		v.low, v.span64, v.tnum = v.low.plus(by.low), v.span64.plus(by.span64), v.tnum.plus(by.tnum)
	case aluSUB:
		v.low, v.span64, v.tnum = v.low.minus(by.low), v.span64.minus(by.span64), v.tnum.minus(by.tnum)
	case aluMUL:
		v.low, v.span64, v.tnum = v.low.times(by.low), v.span64.times(by.span64), v.tnum.times(by.tnum)
	case aluAND, aluOR, aluXOR:
		v.bitwise(op, &by)
	case aluLSH, aluRSH, aluARSH:
		width := uint64(64)
		if narrow {
			width = 32
		}
		switch {
		case by.umax >= width:
			v.forget()
		case narrow:
			v.shiftLow(op, by.umin, by.umax)
		default:
			v.shift(op, by.umin, by.umax)
		}
	default: // nothing is known of a quotient
		v.forget()
	}
	if narrow {
		v.zeroExtend()
	}
	v.sync()
}

// forget makes v a scalar of which nothing is known.
func (v *value) forget() { v.become(unknown()) }

// bitwise is and, or, and exclusive or.
func (v *value) bitwise(op uint8, by *value) {
	switch op {
	case aluAND:
		v.tnum = v.and(by.tnum)
		v.low = v.low.unsigned(by.low, uint32(v.bits), min(v.low.umax, by.low.umax))
		v.span64 = v.span64.unsigned(by.span64, v.bits, min(v.umax, by.umax))
	case aluOR:
		v.tnum = v.or(by.tnum)
		v.low = v.low.unsigned(by.low, max(v.low.umin, by.low.umin), uint32(v.tnum.most()))
		v.span64 = v.span64.unsigned(by.span64, max(v.umin, by.umin), v.tnum.most())
	default:
		v.tnum = v.xor(by.tnum)
		v.low = v.low.unsigned(by.low, uint32(v.bits), uint32(v.tnum.most()))
		v.span64 = v.span64.unsigned(by.span64, v.bits, v.tnum.most())
	}
	if by.lower().isConst() && v.lower().isConst() {
		v.low = only[uint32, int32](uint32(v.bits))
	}
	if by.isConst() && v.isConst() {
		v.know(v.bits)
	}
	v.heed()
}

// shift shifts by at least from and at most to bits.
func (v *value) shift(op uint8, from, to uint64) {
	switch op {
	case aluLSH:
		signed := wholly[uint64, int64]()
		if from == 32 && to == 32 { // a compiler's way to extend the sign of the lower half
			if v.low.smin >= 0 {
				signed.smin = int64(v.low.smin) << 32
			}
			if v.low.smax >= 0 {
				signed.smax = int64(v.low.smax) << 32
			}
		}
		v.span64 = v.span64.left(64, from, to)
		v.smin, v.smax = signed.smin, signed.smax
		v.low = v.low.left(32, uint32(from), uint32(to))
		v.tnum = v.tnum.left(from)
	case aluRSH:
		v.span64, v.low = v.span64.right(from, to), wholly[uint32, int32]()
		v.tnum = v.tnum.right(from)
	default:
		v.span64, v.low = v.span64.signed(from), wholly[uint32, int32]()
		v.tnum = v.tnum.signed(from, false)
	}
	v.heed()
}

// shiftLow shifts the lower half.
func (v *value) shiftLow(op uint8, from, to uint64) {
	low := v.lower()
	switch op {
	case aluLSH:
		v.low = v.low.left(32, uint32(from), uint32(to))
		v.tnum = low.left(from).lower()
	case aluRSH:
		v.low = v.low.right(uint32(from), uint32(to))
		v.tnum = low.right(from)
	default:
		v.low = v.low.signed(uint32(from))
		v.tnum = low.signed(from, true)
	}
	v.span64 = wholly[uint64, int64]()
	v.low.heed(uint32(v.bits), uint32(v.mask))
}

// taken returns 1 if a comparison with n holds for each number that v can be, 0 if it holds for none, and -1 otherwise.
func (v *value) taken(op uint8, n uint64, narrow bool) int {
	if narrow {
		return branch(op, v.lower(), v.low, uint32(n))
	}
	return branch(op, v.tnum, v.span64, n)
}

func branch[U uint32 | uint64, S int32 | int64](op uint8, t tnum, s span[U, S], n U) int {
	when := func(always, never bool) int {
		switch {
		case always:
			return 1
		case never:
			return 0
		}
		return -1
	}
	signed := S(n)
	equal := t.isConst() && U(t.bits) == n
	switch op {
	case jmpJEQ:
		return when(equal, t.isConst())
	case jmpJNE:
		return when(t.isConst() && !equal, equal)
	case jmpJSET:
		return when(U(t.bits)&n != 0, U(t.most())&n == 0)
	case jmpJGT:
		return when(s.umin > n, s.umax <= n)
	case jmpJGE:
		return when(s.umin >= n, s.umax < n)
	case jmpJLT:
		return when(s.umax < n, s.umin >= n)
	case jmpJLE:
		return when(s.umax <= n, s.umin > n)
	case jmpJSGT:
		return when(s.smin > signed, s.smax <= signed)
	case jmpJSGE:
		return when(s.smin >= signed, s.smax < signed)
	case jmpJSLT:
		return when(s.smax < signed, s.smin >= signed)
	case jmpJSLE:
		return when(s.smax <= signed, s.smin > signed)
	}
	return -1
}

// swapped has the comparison that holds when its operands change places.
var swapped = map[uint8]uint8{
	jmpJEQ: jmpJEQ, jmpJNE: jmpJNE, jmpJSET: jmpJSET, jmpJGT: jmpJLT, jmpJGE: jmpJLE, jmpJLT: jmpJGT, jmpJLE: jmpJGE,
	jmpJSGT: jmpJSLT, jmpJSGE: jmpJSLE, jmpJSLT: jmpJSGT, jmpJSLE: jmpJSGE,
}

// compared narrows a number by a comparison with n: yes is what it is if that holds, and no if not.
func compared(yes, no *value, op uint8, n uint64, narrow bool) {
	if op == jmpJEQ || op == jmpJNE {
		same := yes
		if op == jmpJNE {
			same = no
		}
		if narrow {
			same.tnum = same.withLower(exactly(uint64(uint32(n))))
			same.low = only[uint32, int32](uint32(n))
		} else {
			same.know(n)
		}
	} else if narrow {
		compareBits(op, yes, no, uint64(uint32(n)), math.MaxUint32)
		bound(op, &yes.low, &no.low, uint32(n))
	} else {
		compareBits(op, yes, no, n, math.MaxUint64)
		bound(op, &yes.span64, &no.span64, n)
	}
	for _, v := range []*value{yes, no} {
		if narrow {
			v.boundsFromLow()
		} else {
			v.lowFromBounds()
		}
	}
}

// compareBits learns from a test of bits.
func compareBits(op uint8, yes, no *value, n, width uint64) {
	if op != jmpJSET {
		return
	}
	no.tnum = no.and(exactly(^n | ^width))
	no.span64, no.low = wholly[uint64, int64](), wholly[uint32, int32]() // they may contradict the bits on a way that is never taken
	if n&(n-1) == 0 && n != 0 {
		yes.tnum = yes.or(exactly(n))
	}
}

// bound narrows the bounds of a number by a comparison with n.
func bound[U uint32 | uint64, S int32 | int64](op uint8, yes, no *span[U, S], n U) {
	s := S(n)
	switch op {
	case jmpJGT:
		no.umax, yes.umin = min(no.umax, n), max(yes.umin, n+1)
	case jmpJGE:
		no.umax, yes.umin = min(no.umax, n-1), max(yes.umin, n)
	case jmpJLT:
		no.umin, yes.umax = max(no.umin, n), min(yes.umax, n-1)
	case jmpJLE:
		no.umin, yes.umax = max(no.umin, n+1), min(yes.umax, n)
	case jmpJSGT:
		no.smax, yes.smin = min(no.smax, s), max(yes.smin, s+1)
	case jmpJSGE:
		no.smax, yes.smin = min(no.smax, s-1), max(yes.smin, s)
	case jmpJSLT:
		no.smin, yes.smax = max(no.smin, s), min(yes.smax, s-1)
	case jmpJSLE:
		no.smin, yes.smax = max(no.smin, s+1), min(yes.smax, s)
	}
}

// combine makes two numbers that are equal the same.
func combine(a, b *value) {
	a.umin, a.umax = max(a.umin, b.umin), min(a.umax, b.umax)
	a.smin, a.smax = max(a.smin, b.smin), min(a.smax, b.smax)
	a.tnum = a.both(b.tnum)
	b.span64, b.tnum = a.span64, a.tnum
	a.sync()
	b.sync()
}
