package bpf

import "math"

// What 6.12 infers of numbers. Since 6.8 the bounds of the whole and of its lower half learn from one another as far as they can,
// both operands of a comparison are narrowed, and arithmetic with a number that is not known keeps bounds.

func (s *span[U, S]) clip(lo, hi U) { s.umin, s.umax = max(s.umin, lo), min(s.umax, hi) }

func (s *span[U, S]) clipSigned(lo, hi S) { s.smin, s.smax = max(s.smin, lo), min(s.smax, hi) }

// learn has the bounds with and without sign learn from one another: __reg64_deduce_bounds. Those with a sign may go over 0,
// which for those without is at both ends; then they may still meet at one of these only.
func (s *span[U, S]) learn() {
	if S(s.umin) <= S(s.umax) {
		s.clipSigned(S(s.umin), S(s.umax))
	}
	switch {
	case U(s.smin) <= U(s.smax):
		s.clip(U(s.smin), U(s.smax))
	case s.umax < U(s.smin):
		s.smin = S(s.umin)
		s.clip(0, U(s.smax))
	case U(s.smax) < s.umin:
		s.smax = S(s.umax)
		s.clip(U(s.smin), ^U(0))
	}
}

// lowLearns has the bounds of the lower half learn from the whole's: __reg32_deduce_bounds.
func (v *value) lowLearns() {
	of := func(lo, hi uint64, ordered bool) {
		if lo>>32 == hi>>32 {
			if ordered || uint32(lo) <= uint32(hi) {
				v.low.clip(uint32(lo), uint32(hi))
			}
			if int32(lo) <= int32(hi) {
				v.low.clipSigned(int32(lo), int32(hi))
			}
		}
	}
	over := func(lo, hi uint64) { // the upper half is one of two that follow each other, and the lower one goes over 0
		if uint32(lo>>32)+1 == uint32(hi>>32) && int32(lo) < 0 && int32(hi) >= 0 {
			v.low.clipSigned(int32(lo), int32(hi))
		}
	}
	of(v.umin, v.umax, true)
	of(uint64(v.smin), uint64(v.smax), false)
	over(v.umin, v.umax)
	over(uint64(v.smin), uint64(v.smax))
	v.low.learn()
}

// wholeLearns has the whole's bounds learn from the lower half's: __reg_deduce_mixed_bounds.
func (v *value) wholeLearns() {
	with := func(n uint64, low uint32) uint64 { return n&^math.MaxUint32 | uint64(low) }
	of := func(lo, hi uint32) {
		v.clip(with(v.umin, lo), with(v.umax, hi))
		v.clipSigned(int64(with(uint64(v.smin), lo)), int64(with(uint64(v.smax), hi)))
	}
	of(v.low.umin, v.low.umax)
	if uint32(v.low.smin) <= uint32(v.low.smax) {
		of(uint32(v.low.smin), uint32(v.low.smax))
	}
	if v.low.smin >= 0 && v.smin >= math.MinInt32 && v.smax <= math.MaxInt32 { // the sign of the lower half is the whole's
		lo, hi := int64(v.low.smin), int64(v.low.smax)
		v.span64 = span64{uint64(lo), uint64(hi), lo, hi}
		v.tnum = v.both(fromTo(uint64(lo), uint64(hi)))
	}
}

// syncAll makes bits and bounds agree with one another: 6.12's reg_bounds_sync.
func (v *value) syncAll() {
	const rounds = 3
	v.heed()
	for range rounds {
		v.lowLearns()
		v.span64.learn()
		v.wholeLearns()
	}
	v.fromBounds()
	v.heed()
}

// sync makes bits and bounds of a number agree, as the release does.
func (v *verifier) sync(n *value) {
	if v.v612 {
		n.syncAll()
	} else {
		n.sync()
	}
}

// calculate makes a scalar the result of an operation with another one: 6.12's adjust_scalar_min_max_vals.
func (v *value) calculate(op uint8, by value, narrow bool) {
	width, known := uint64(64), by.isConst() && by.smin == by.smax && by.umin == by.umax
	if narrow {
		width, known = 32, by.lower().isConst() && by.low.smin == by.low.smax && by.low.umin == by.low.umax
	}
	switch op {
	case aluADD, aluSUB, aluMUL:
		v.combine(op, &by)
	case aluAND, aluOR, aluXOR:
		v.bitwise(op, &by, true)
	case aluLSH, aluRSH, aluARSH:
		switch {
		case !known || by.umax >= width:
			v.forget()
			return
		case narrow:
			v.shiftLow(op, uint64(by.low.umin), uint64(by.low.umax))
		default:
			v.shiftWhole(op, by.umin)
		}
	default: // nothing is known of a quotient
		v.forget()
		return
	}
	if narrow {
		v.zeroExtend()
	}
	v.syncAll()
}

// shiftWhole shifts by n bits.
func (v *value) shiftWhole(op uint8, n uint64) {
	const half = 32
	low := v.low
	v.shift(op, n, n)
	if op == aluLSH && n == half { // a compiler's way to extend the sign of the lower half
		v.smin, v.smax = int64(low.smin)<<half, int64(low.smax)<<half
		v.heed()
	}
}

// fixed reports whether a register is a number that is known, or whose lower half is.
func (v *value) fixed(narrow bool) bool {
	return v.typ == regScalar && (v.isConst() || narrow && v.lower().isConst())
}

// holds returns 1 if a comparison of two numbers always holds, 0 if it never does, and -1 otherwise: is_scalar_branch_taken.
func holds(op uint8, a, b *value, narrow bool) int {
	if op == jmpJEQ || op == jmpJNE {
		equal := equals(a, b, narrow)
		if op == jmpJNE && equal >= 0 {
			equal = 1 - equal
		}
		return equal
	}
	if op == jmpJSET {
		if !b.fixed(narrow) {
			a, b = b, a
		}
		if !b.fixed(narrow) {
			return -1
		}
		return a.taken(jmpJSET, b.bits, narrow)
	}
	if narrow {
		return order(op, &a.low, &b.low)
	}
	return order(op, &a.span64, &b.span64)
}

// equals returns 1 if two numbers are the same, 0 if they cannot be, and -1 otherwise.
func equals(a, b *value, narrow bool) int {
	s, t := a.tnum, b.tnum
	if narrow {
		s, t = s.lower(), t.lower()
	}
	apart := (s.bits^t.bits)&^(s.mask|t.mask) != 0 || a.low.apart(&b.low) || !narrow && a.span64.apart(&b.span64)
	switch {
	case s.isConst() && t.isConst() && s.bits == t.bits:
		return 1
	case s.isConst() && t.isConst(), apart:
		return 0
	}
	return -1
}

// apart reports whether no number is in both bounds.
func (s *span[U, S]) apart(o *span[U, S]) bool {
	return s.umin > o.umax || s.umax < o.umin || s.smin > o.smax || s.smax < o.smin
}

// order is holds for comparisons that are neither of equality nor of bits.
func order[U uint32 | uint64, S int32 | int64](op uint8, a, b *span[U, S]) int {
	if plain, ok := unsigned[op]; ok {
		return orderOf(plain, a.smin, a.smax, b.smin, b.smax)
	}
	return orderOf(op, a.umin, a.umax, b.umin, b.umax)
}

func orderOf[T uint32 | uint64 | int32 | int64](op uint8, aMin, aMax, bMin, bMax T) int {
	var always, never bool
	switch op {
	case jmpJGT:
		always, never = aMin > bMax, aMax <= bMin
	case jmpJGE:
		always, never = aMin >= bMax, aMax < bMin
	case jmpJLT:
		always, never = aMax < bMin, aMin >= bMax
	case jmpJLE:
		always, never = aMax <= bMin, aMin > bMax
	}
	switch {
	case always:
		return 1
	case never:
		return 0
	}
	return -1
}

// inverse has the comparison that holds when another one does not.
var inverse = map[uint8]uint8{
	jmpJEQ: jmpJNE, jmpJNE: jmpJEQ, jmpJGT: jmpJLE, jmpJGE: jmpJLT, jmpJLT: jmpJGE, jmpJLE: jmpJGT,
	jmpJSGT: jmpJSLE, jmpJSGE: jmpJSLT, jmpJSLT: jmpJSGE, jmpJSLE: jmpJSGT, jmpJSET: jmpClear, jmpClear: jmpJSET,
}

// jmpClear is no jump: it is what holds if jmpJSET does not.
const jmpClear = jmpJSET | 1

// refine narrows two numbers of which a comparison holds: regs_refine_cond_op.
func refine(op uint8, a, b *value, narrow bool) {
	switch op {
	case jmpJGE, jmpJGT, jmpJSGE, jmpJSGT:
		op, a, b = swapped[op], b, a
	case jmpJNE, jmpJSET, jmpClear:
		if !b.fixed(narrow) {
			a, b = b, a
		}
		if !b.fixed(narrow) {
			return
		}
	}
	switch {
	case op == jmpJSET || op == jmpClear:
		a.refineBits(op, b.bits, narrow)
	case op == jmpJEQ && narrow:
		refineSpans(op, &a.low, &b.low)
		both := a.lower().both(b.lower())
		a.tnum, b.tnum = a.withLower(both), b.withLower(both)
	case op == jmpJEQ:
		refineSpans(op, &a.span64, &b.span64)
		a.tnum = a.tnum.both(b.tnum)
		b.tnum = a.tnum
	case op == jmpJNE && narrow:
		a.low.exclude(uint32(b.bits))
	case op == jmpJNE:
		a.span64.exclude(b.bits)
	case narrow:
		refineSpans(op, &a.low, &b.low)
	default:
		refineSpans(op, &a.span64, &b.span64)
	}
}

// refineBits learns from a test of bits of a number.
func (v *value) refineBits(op uint8, n uint64, narrow bool) {
	set := func(t tnum) tnum { return t.or(exactly(n)) }
	if op == jmpClear {
		v.span64, v.low = wholly[uint64, int64](), wholly[uint32, int32]() // they may contradict the bits
		set = func(t tnum) tnum { return t.and(exactly(^n)) }
	}
	if narrow {
		n = uint64(uint32(n))
	}
	if op == jmpJSET && (n == 0 || n&(n-1) != 0) {
		return
	}
	if narrow {
		v.tnum = v.withLower(set(v.lower()).lower())
	} else {
		v.tnum = set(v.tnum)
	}
}

// exclude narrows bounds of which one is a number that is not there.
func (s *span[U, S]) exclude(n U) {
	if s.umin == n {
		s.umin++
	}
	if s.umax == n {
		s.umax--
	}
	if s.smin == S(n) {
		s.smin++
	}
	if s.smax == S(n) {
		s.smax--
	}
}

func refineSpans[U uint32 | uint64, S int32 | int64](op uint8, a, b *span[U, S]) {
	if op == jmpJEQ {
		a.clip(b.umin, b.umax)
		a.clipSigned(b.smin, b.smax)
		*b = *a
	} else if plain, ok := unsigned[op]; ok {
		refineEnds(plain, &a.smin, &a.smax, &b.smin, &b.smax)
	} else {
		refineEnds(op, &a.umin, &a.umax, &b.umin, &b.umax)
	}
}

// refineEnds narrows the bounds of two numbers of which the first is less, or not more.
func refineEnds[T uint32 | uint64 | int32 | int64](op uint8, aMin, aMax, bMin, bMax *T) {
	less := T(0)
	if op == jmpJLT {
		less = 1
	}
	*aMax = min(*aMax, *bMax-less)
	*bMin = max(*aMin+less, *bMin)
}

// sound is reg_bounds_sanity_check: what contradicts itself, since it is of a way that is never taken, is forgotten.
func (v *verifier) sound(n *value, name string) {
	why := ""
	whole, low := only[uint64, int64](n.bits), only[uint32, int32](uint32(n.bits))
	switch {
	case n.umin > n.umax || n.smin > n.smax || n.low.umin > n.low.umax || n.low.smin > n.low.smax:
		why = "range bounds violation"
	case n.isConst() && n.span64 != whole:
		why = "const tnum out of sync with range bounds"
	case n.lower().isConst() && n.low != low:
		why = "const subreg tnum out of sync with range bounds"
	default:
		return
	}
	v.log.printf("REG INVARIANTS VIOLATION (%s): %s u64=[%#x, %#x] s64=[%#x, %#x] u32=[%#x, %#x] s32=[%#x, %#x] var_off=(%#x, %#x)\n", name, why,
		n.umin, n.umax, uint64(n.smin), uint64(n.smax), n.low.umin, n.low.umax, uint32(n.low.smin), uint32(n.low.smax), n.bits, n.mask)
	n.span64, n.low = wholly[uint64, int64](), wholly[uint32, int32]()
}
