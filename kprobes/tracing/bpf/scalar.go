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
	case aluADD, aluSUB, aluMUL:
		v.combine(op, &by)
	case aluAND, aluOR, aluXOR:
		v.bitwise(op, &by, false)
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

// combine is addition, subtraction and multiplication.
func (v *value) combine(op uint8, by *value) {
	switch op {
	case aluADD:
		v.low, v.span64, v.tnum = v.low.plus(by.low), v.span64.plus(by.span64), v.tnum.plus(by.tnum)
	case aluSUB:
		v.low, v.span64, v.tnum = v.low.minus(by.low), v.span64.minus(by.span64), v.tnum.minus(by.tnum)
	default:
		v.low, v.span64, v.tnum = v.low.times(by.low), v.span64.times(by.span64), v.tnum.times(by.tnum)
	}
}

// bitwise is and, or, and exclusive or.
func (v *value) bitwise(op uint8, by *value, v612 bool) {
	switch op {
	case aluAND:
		v.tnum = v.and(by.tnum)
		v.low = v.low.unsigned(by.low, uint32(v.bits), min(v.low.umax, by.low.umax), v612)
		v.span64 = v.span64.unsigned(by.span64, v.bits, min(v.umax, by.umax), v612)
	case aluOR:
		v.tnum = v.or(by.tnum)
		v.low = v.low.unsigned(by.low, max(v.low.umin, by.low.umin), uint32(v.tnum.most()), v612)
		v.span64 = v.span64.unsigned(by.span64, max(v.umin, by.umin), v.tnum.most(), v612)
	default:
		v.tnum = v.xor(by.tnum)
		v.low = v.low.unsigned(by.low, uint32(v.bits), uint32(v.tnum.most()), v612)
		v.span64 = v.span64.unsigned(by.span64, v.bits, v.tnum.most(), v612)
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
	equal := t.isConst() && U(t.bits) == n
	switch op {
	case jmpJEQ:
		return when(equal, t.isConst())
	case jmpJNE:
		return when(t.isConst() && !equal, equal)
	case jmpJSET:
		return when(U(t.bits)&n != 0, U(t.most())&n == 0)
	}
	if plain, ok := unsigned[op]; ok {
		return when(ordered(plain, s.smin, s.smax, S(n)))
	}
	return when(ordered(op, s.umin, s.umax, n))
}

// unsigned has the comparisons that compare without sign as others do with it.
var unsigned = map[uint8]uint8{jmpJSGT: jmpJGT, jmpJSGE: jmpJGE, jmpJSLT: jmpJLT, jmpJSLE: jmpJLE}

// ordered reports whether a comparison with n holds for all numbers from lo to hi, or for none.
func ordered[T uint32 | uint64 | int32 | int64](op uint8, lo, hi, n T) (always, never bool) {
	switch op {
	case jmpJGT:
		return lo > n, hi <= n
	case jmpJGE:
		return lo >= n, hi < n
	case jmpJLT:
		return hi < n, lo >= n
	case jmpJLE:
		return hi <= n, lo > n
	}
	return false, false
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
	if plain, ok := unsigned[op]; ok {
		narrow(plain, &yes.smin, &yes.smax, &no.smin, &no.smax, S(n))
	} else {
		narrow(op, &yes.umin, &yes.umax, &no.umin, &no.umax, n)
	}
}

// narrow narrows what a number is from and to if a comparison with n holds, and if not.
func narrow[T uint32 | uint64 | int32 | int64](op uint8, yesMin, yesMax, noMin, noMax *T, n T) {
	switch op {
	case jmpJGT:
		*noMax, *yesMin = min(*noMax, n), max(*yesMin, n+1)
	case jmpJGE:
		*noMax, *yesMin = min(*noMax, n-1), max(*yesMin, n)
	case jmpJLT:
		*noMin, *yesMax = max(*noMin, n), min(*yesMax, n-1)
	case jmpJLE:
		*noMin, *yesMax = max(*noMin, n+1), min(*yesMax, n)
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
