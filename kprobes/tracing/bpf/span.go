package bpf

// span has the bounds of a number, read without and with its sign.
type span[U uint32 | uint64, S int32 | int64] struct {
	umin, umax U
	smin, smax S
}

type (
	span64 = span[uint64, int64]
	span32 = span[uint32, int32]
)

// wholly returns the bounds of a number of which nothing is known.
func wholly[U uint32 | uint64, S int32 | int64]() span[U, S] {
	top := S(^U(0) >> 1)
	return span[U, S]{umax: ^U(0), smin: -top - 1, smax: top}
}

// only returns the bounds of one number.
func only[U uint32 | uint64, S int32 | int64](n U) span[U, S] { return span[U, S]{n, n, S(n), S(n)} }

// impossible reports whether the bounds are of no number, or of one that is known to be another: they come from a branch that
// is not taken.
func (s *span[U, S]) impossible(known bool) bool {
	return known && (s.smin != s.smax || s.umin != s.umax) || s.smin > s.smax || s.umin > s.umax
}

// heed narrows the bounds by the bits that are known.
func (s *span[U, S]) heed(bits, mask U) {
	top := ^U(0)>>1 + 1 // the sign
	s.smin, s.smax = max(s.smin, S(bits|mask&top)), min(s.smax, S(bits|mask&^top))
	s.umin, s.umax = max(s.umin, bits), min(s.umax, bits|mask)
}

// agree has the bounds with and without sign learn from one another.
func (s *span[U, S]) agree() {
	switch {
	case s.smin >= 0 || s.smax < 0: // one sign, so they are the same
		s.umin, s.umax = max(s.umin, U(s.smin)), min(s.umax, U(s.smax))
		s.smin, s.smax = S(s.umin), S(s.umax)
	case S(s.umax) >= 0:
		s.umax = min(s.umax, U(s.smax))
		s.smin, s.smax = S(s.umin), S(s.umax)
	case S(s.umin) < 0:
		s.umin = max(s.umin, U(s.smin))
		s.smin, s.smax = S(s.umin), S(s.umax)
	}
}

// within reports whether the bounds lie in o's.
func (s *span[U, S]) within(o *span[U, S]) bool {
	return s.umin >= o.umin && s.umax <= o.umax && s.smin >= o.smin && s.smax <= o.smax
}

// sum adds two signed numbers. It returns false if that overflows.
func sum[S int32 | int64](a, b S) (S, bool) {
	c := a + b
	return c, (c < a) == (b < 0)
}

// difference subtracts a signed number. It returns false if that overflows.
func difference[S int32 | int64](a, b S) (S, bool) {
	c := a - b
	return c, (c > a) == (b < 0)
}

func (s span[U, S]) plus(o span[U, S]) span[U, S] {
	r := wholly[U, S]()
	lo, ok := sum(s.smin, o.smin)
	hi, ok2 := sum(s.smax, o.smax)
	if ok && ok2 {
		r.smin, r.smax = lo, hi
	}
	if s.umin+o.umin >= o.umin && s.umax+o.umax >= o.umax {
		r.umin, r.umax = s.umin+o.umin, s.umax+o.umax
	}
	return r
}

func (s span[U, S]) minus(o span[U, S]) span[U, S] {
	r := wholly[U, S]()
	lo, ok := difference(s.smin, o.smax)
	hi, ok2 := difference(s.smax, o.smin)
	if ok && ok2 {
		r.smin, r.smax = lo, hi
	}
	if s.umin >= o.umax {
		r.umin, r.umax = s.umin-o.umax, s.umax-o.umin
	}
	return r
}

// times knows something of numbers only that are not negative, and have no more than half the bits.
func (s span[U, S]) times(o span[U, S]) span[U, S] {
	r := wholly[U, S]()
	half := U(1<<16 - 1)
	if ^U(0)>>16>>16 != 0 {
		half = half<<16 | half
	}
	if s.smin < 0 || o.smin < 0 || s.umax > half || o.umax > half {
		return r
	}
	r.umin, r.umax = s.umin*o.umin, s.umax*o.umax
	if S(r.umax) >= 0 {
		r.smin, r.smax = S(r.umin), S(r.umax)
	}
	return r
}

// unsigned are bounds without sign of a result of two operands. On 6.12 they say something of those with a sign if they do not go over the
// least number, and before if neither operand can be negative, since then the result has no sign bit.
func (s span[U, S]) unsigned(o span[U, S], umin, umax U, v612 bool) span[U, S] {
	r := wholly[U, S]()
	r.umin, r.umax = umin, umax
	if v612 && S(umin) <= S(umax) || !v612 && s.smin >= 0 && o.smin >= 0 {
		r.smin, r.smax = S(umin), S(umax)
	}
	return r
}

// left are the bounds after a shift by at least from and at most to. Of the sign they know nothing.
func (s span[U, S]) left(width, from, to U) span[U, S] {
	r := wholly[U, S]()
	if to < width && s.umax <= U(1)<<(width-1-to) {
		r.umin, r.umax = s.umin<<from, s.umax<<to
	}
	return r
}

func (s span[U, S]) right(from, to U) span[U, S] {
	r := wholly[U, S]()
	r.umin, r.umax = s.umin>>to, s.umax>>from
	return r
}

// signed are the bounds after a shift of the number with its sign.
func (s span[U, S]) signed(n U) span[U, S] {
	r := wholly[U, S]()
	r.smin, r.smax = s.smin>>n, s.smax>>n
	return r
}
