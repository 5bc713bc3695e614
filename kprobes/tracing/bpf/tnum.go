package bpf

import (
	"fmt"
	"math"
	"math/bits"
)

// tnum is a tristate number: what is known of each bit of a number. A bit that is set in mask is not known, and 0 in bits.
type tnum struct{ bits, mask uint64 }

// anyNumber is the tnum of which nothing is known.
var anyNumber = tnum{mask: math.MaxUint64}

func exactly(n uint64) tnum { return tnum{bits: n} }

// fromTo returns the tnum of the numbers from lo to hi: they share the bits above the highest one that differs.
func fromTo(lo, hi uint64) tnum {
	differ := bits.Len64(lo ^ hi)
	if differ == 64 {
		return anyNumber
	}
	free := uint64(1)<<differ - 1
	return tnum{lo &^ free, free}
}

func (t tnum) isConst() bool { return t.mask == 0 }

// most is the largest number that t can be.
func (t tnum) most() uint64 { return t.bits | t.mask }

// lower returns the tnum of the lower 32 bits, and upper the one of the others.
func (t tnum) lower() tnum { return tnum{t.bits & math.MaxUint32, t.mask & math.MaxUint32} }

func (t tnum) upper() tnum { return tnum{t.bits &^ math.MaxUint32, t.mask &^ math.MaxUint32} }

// withLower replaces the lower 32 bits.
func (t tnum) withLower(low tnum) tnum {
	up := t.upper()
	return tnum{up.bits | low.bits, up.mask | low.mask}
}

// includes reports whether t can be each number that o can be.
func (t tnum) includes(o tnum) bool { return o.mask&^t.mask == 0 && (t.bits^o.bits)&^t.mask == 0 }

func (t tnum) plus(o tnum) tnum {
	sum := t.bits + o.bits
	unsure := (sum + t.mask + o.mask) ^ sum | t.mask | o.mask
	return tnum{sum &^ unsure, unsure}
}

func (t tnum) minus(o tnum) tnum {
	diff := t.bits - o.bits
	unsure := (diff + t.mask) ^ (diff - o.mask) | t.mask | o.mask
	return tnum{diff &^ unsure, unsure}
}

func (t tnum) and(o tnum) tnum {
	set := t.bits & o.bits
	return tnum{set, t.most() & o.most() &^ set}
}

func (t tnum) or(o tnum) tnum {
	set := t.bits | o.bits
	return tnum{set, (t.mask | o.mask) &^ set}
}

func (t tnum) xor(o tnum) tnum {
	unsure := t.mask | o.mask
	return tnum{(t.bits ^ o.bits) &^ unsure, unsure}
}

// both returns the tnum of what t and o agree on; each bit that one of them knows is known.
func (t tnum) both(o tnum) tnum {
	unsure := t.mask & o.mask
	return tnum{(t.bits | o.bits) &^ unsure, unsure}
}

// times adds up a shifted o for each bit of t that is set, or may be.
func (t tnum) times(o tnum) tnum {
	sum := tnum{}
	product := t.bits * o.bits
	for n := 0; t.most()>>n != 0; n++ {
		bit := uint64(1) << n
		switch {
		case t.bits&bit != 0:
			sum = sum.plus(tnum{mask: o.mask << n})
		case t.mask&bit != 0:
			sum = sum.plus(tnum{mask: o.most() << n})
		}
	}
	return exactly(product).plus(sum)
}

func (t tnum) left(n uint64) tnum  { return tnum{t.bits << n, t.mask << n} }
func (t tnum) right(n uint64) tnum { return tnum{t.bits >> n, t.mask >> n} }

// signed returns t shifted right by n with the sign of its 64 bits, or of its lower 32.
func (t tnum) signed(n uint64, narrow bool) tnum {
	if narrow {
		return tnum{uint64(uint32(int32(t.bits) >> n)), uint64(uint32(int32(t.mask) >> n))}
	}
	return tnum{uint64(int64(t.bits) >> n), uint64(int64(t.mask) >> n)}
}

// cut returns the tnum of the lower size bytes.
func (t tnum) cut(size int) tnum {
	keep := uint64(math.MaxUint64) >> (64 - 8*size)
	return tnum{t.bits & keep, t.mask & keep}
}

func (t tnum) String() string { return fmt.Sprintf("(%#x; %#x)", t.bits, t.mask) }
