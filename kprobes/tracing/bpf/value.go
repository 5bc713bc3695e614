package bpf

import (
	"math"
	"math/bits"

	"github.com/cilium/ebpf/btf"
)

// regType is what the verifier knows a register to hold (enum bpf_reg_type).
type regType uint8

const (
	regNone regType = iota // not written yet
	regScalar
	regCtx
	regMap
	regMapValue
	regMapValueOrNull
	regStack
	regRecord
	regRecordOrNull
	regFunc
	regStruct // a structure of the kernel, whose fields may be read
	regKey
	regDynptr
	regMem
	regMemOrNull
	regUntrusted // a structure of the kernel that may be gone
	regUntrustedOrNull
)

// regNames are the types in the words of the log.
var regNames = [...]string{
	"?", "scalar", "ctx", "map_ptr", "map_value", "map_value_or_null", "fp", "alloc_mem", "alloc_mem_or_null", "func", "ptr_", "map_key", "dynptr_ptr",
	"mem", "mem_or_null", "untrusted_ptr_", "untrusted_ptr_or_null_",
}

// value is struct bpf_reg_state: what is known of a register. For a scalar the bounds are those of
// its number, for a pointer those of what was added to it beside off.
type value struct {
	typ        regType
	off        int32
	frame      uint8 // of a stack pointer: whose stack
	m          *Map
	to         btf.Type // a structure of the kernel; nil if the kernel has no types
	size       int32    // bytes of a record, or of memory
	inner      bool     // a pointer to a value of a map of maps: a map like m
	id         uint32   // values with the same one, not 0, are NULL or not together
	ref        uint32   // the record that has to be given back, or 0
	umin, umax uint64
	smin, smax int64
	bits, mask uint64 // tnum: known bits, and which are not known
}

// unknown returns a scalar of which nothing is known.
func unknown() value {
	return value{typ: regScalar, umax: math.MaxUint64, smin: math.MinInt64, smax: math.MaxInt64, mask: math.MaxUint64}
}

// constant returns a scalar of one number.
func constant(n uint64) value {
	return value{typ: regScalar, umin: n, umax: n, smin: int64(n), smax: int64(n), bits: n}
}

// upTo returns a scalar of [0, n].
func upTo(n uint64) value {
	v := unknown()
	v.umax = n
	return v.tightened()
}

func (v *value) isConst() bool { return v.mask == 0 }

// tightened makes the bounds agree with one another: __reg_deduce_bounds and reg_bounds_sync.
func (v value) tightened() value {
	v.umin, v.umax = max(v.umin, v.bits), min(v.umax, v.bits|v.mask)
	if int64(v.umax) >= 0 || int64(v.umin) < 0 { // the sign does not change between them
		v.smin, v.smax = max(v.smin, int64(v.umin)), min(v.smax, int64(v.umax))
	}
	if v.smin >= 0 || v.smax < 0 {
		v.umin, v.umax = max(v.umin, uint64(v.smin)), min(v.umax, uint64(v.smax))
	}
	if v.umin <= v.umax { // bits above the highest that differs are known
		same := bits.LeadingZeros64(v.umin ^ v.umax)
		known := ^(uint64(math.MaxUint64) >> same)
		if same == 64 {
			known = math.MaxUint64
		}
		v.bits, v.mask = v.bits|v.umin&known&v.mask, v.mask&^known
	}
	return v
}

// possible reports whether there is a number that fits.
func (v *value) possible() bool { return v.umin <= v.umax && v.smin <= v.smax }

// bounded copies what is known of a number to a pointer's variable part.
func (v *value) setNumber(n value) {
	v.umin, v.umax, v.smin, v.smax, v.bits, v.mask = n.umin, n.umax, n.smin, n.smax, n.bits, n.mask
}

// low32 returns the lower half of a scalar, zero-extended.
func (v value) low32() value {
	if v.umax <= math.MaxUint32 {
		return v
	}
	n := unknown()
	n.umax, n.smin, n.smax = math.MaxUint32, 0, math.MaxUint32
	n.bits, n.mask = v.bits&math.MaxUint32, v.mask&math.MaxUint32
	if v.umin>>32 == v.umax>>32 {
		n.umin, n.umax = v.umin&math.MaxUint32, v.umax&math.MaxUint32
	}
	return n.tightened()
}

// arithmetic returns what is known of the result of an operation on two scalars.
func arithmetic(op uint8, a, b value, narrow bool) value {
	if narrow {
		a, b = a.low32(), b.low32()
	}
	width := uint64(64)
	if narrow {
		width = 32
	}
	switch {
	case op == aluDIV || op == aluMOD: // Linux knows nothing of the result
		return unknown().narrowed(narrow)
	case (op == aluLSH || op == aluRSH || op == aluARSH) && b.umax >= width:
		return unknown().narrowed(narrow)
	}
	if a.isConst() && b.isConst() {
		if narrow {
			return constant(alu32(insn{code: classALU | op}, a.bits, b.bits))
		}
		return constant(alu64(op, a.bits, b.bits))
	}
	r := unknown()
	switch op {
	case aluADD:
		r.bits, r.mask = addBits(a, b)
		if sum, over := bits.Add64(a.umax, b.umax, 0); over == 0 {
			r.umin, r.umax = a.umin+b.umin, sum
		}
		if lo, hi, ok := signedSum(a.smin, b.smin, a.smax, b.smax); ok {
			r.smin, r.smax = lo, hi
		}
	case aluSUB:
		if a.umin >= b.umax {
			r.umin, r.umax = a.umin-b.umax, a.umax-b.umin
		}
		if b.smin > math.MinInt64 {
			if lo, hi, ok := signedSum(a.smin, -b.smax, a.smax, -b.smin); ok {
				r.smin, r.smax = lo, hi
			}
		}
	case aluMUL:
		if hi, lo := bits.Mul64(a.umax, b.umax); hi == 0 {
			r.umin, r.umax = a.umin*b.umin, lo
		}
	case aluAND:
		known1 := a.bits & b.bits
		may := (a.bits | a.mask) & (b.bits | b.mask)
		r.bits, r.mask = known1, may&^known1
		r.umax = min(a.umax, b.umax)
	case aluOR:
		known1 := a.bits | b.bits
		r.bits, r.mask = known1, (a.mask|b.mask)&^known1
		r.umin = max(a.umin, b.umin)
	case aluXOR:
		r.mask = a.mask | b.mask
		r.bits = (a.bits ^ b.bits) &^ r.mask
	case aluLSH:
		if n := b.bits; b.isConst() && n < width {
			r.bits, r.mask = a.bits<<n, a.mask<<n
			if bits.LeadingZeros64(a.umax) >= int(n) {
				r.umin, r.umax = a.umin<<n, a.umax<<n
			}
		}
	case aluRSH:
		if n := b.bits; b.isConst() && n < width {
			r.bits, r.mask = a.bits>>n, a.mask>>n
			r.umin, r.umax = a.umin>>n, a.umax>>n
		} else {
			r.umax = a.umax
		}
	case aluARSH:
		if n := b.bits; b.isConst() && n < width && !narrow {
			r.smin, r.smax = a.smin>>n, a.smax>>n
			r.bits, r.mask = uint64(int64(a.bits)>>n), uint64(int64(a.mask)>>n)
		}
	}
	r = r.tightened()
	if narrow {
		r = r.low32()
	}
	if !r.possible() {
		return unknown()
	}
	return r
}

// narrowed returns a scalar, or its lower half.
func (v value) narrowed(narrow bool) value {
	if narrow {
		return v.low32()
	}
	return v
}

// addBits is tnum_add.
func addBits(a, b value) (known, mask uint64) {
	sm, sv := a.mask+b.mask, a.bits+b.bits
	sigma := sm + sv
	mask = (sigma ^ sv) | a.mask | b.mask
	return sv &^ mask, mask
}

// signedSum adds the bounds, unless one of the sums overflows.
func signedSum(a, b, c, d int64) (lo, hi int64, ok bool) {
	lo, hi = a+b, c+d
	if (a > 0 && b > 0 && lo < 0) || (a < 0 && b < 0 && lo >= 0) || (c > 0 && d > 0 && hi < 0) || (c < 0 && d < 0 && hi >= 0) {
		return 0, 0, false
	}
	return lo, hi, true
}

// within reports whether each number that v can be is one that o can be.
func (v *value) within(o *value) bool {
	return v.umin >= o.umin && v.umax <= o.umax && v.smin >= o.smin && v.smax <= o.smax && v.mask&^o.mask == 0 && (v.bits^o.bits)&^o.mask == 0
}

// where returns what is known of two scalars if a comparison between them holds.
func where(op uint8, a, b value) (value, value) {
	switch op {
	case jmpJEQ:
		a.umin, a.umax, a.smin, a.smax = max(a.umin, b.umin), min(a.umax, b.umax), max(a.smin, b.smin), min(a.smax, b.smax)
		if (a.bits^b.bits)&^(a.mask|b.mask) != 0 {
			a.umin, a.umax = 1, 0 // they differ in a bit that is known
			return a, a
		}
		a.bits, a.mask = a.bits|b.bits, a.mask&b.mask
		b.setNumber(a)
	case jmpJNE:
		if b.isConst() {
			a = a.without(b.bits)
		}
		if a.isConst() {
			b = b.without(a.bits)
		}
	case jmpJGT:
		a.umin, b.umax = above(a.umin, b.umin), below(b.umax, a.umax)
	case jmpJGE:
		a.umin, b.umax = max(a.umin, b.umin), min(b.umax, a.umax)
	case jmpJLT:
		a.umax, b.umin = below(a.umax, b.umax), above(b.umin, a.umin)
	case jmpJLE:
		a.umax, b.umin = min(a.umax, b.umax), max(b.umin, a.umin)
	case jmpJSGT:
		a.smin, b.smax = sabove(a.smin, b.smin), sbelow(b.smax, a.smax)
	case jmpJSGE:
		a.smin, b.smax = max(a.smin, b.smin), min(b.smax, a.smax)
	case jmpJSLT:
		a.smax, b.smin = sbelow(a.smax, b.smax), sabove(b.smin, a.smin)
	case jmpJSLE:
		a.smax, b.smin = min(a.smax, b.smax), max(b.smin, a.smin)
	case jmpJSET:
		if b.isConst() && a.bits|a.mask == 0 || b.isConst() && (a.bits|a.mask)&b.bits == 0 {
			a.umin, a.umax = 1, 0
			return a, b
		}
		if b.isConst() && bits.OnesCount64(b.bits) == 1 {
			a.bits, a.mask = a.bits|b.bits, a.mask&^b.bits
		}
	}
	return a.tightened(), b.tightened()
}

// without returns a scalar that is not n.
func (v value) without(n uint64) value {
	if v.umin == n {
		v.umin = above(v.umin, n)
	}
	if v.umax == n {
		v.umax = below(v.umax, n)
	}
	if v.smin == int64(n) {
		v.smin = sabove(v.smin, int64(n))
	}
	if v.smax == int64(n) {
		v.smax = sbelow(v.smax, int64(n))
	}
	if v.isConst() && v.bits == n {
		v.umin, v.umax = 1, 0
	}
	return v
}

// above and below are the bounds of what is greater, or less, than a number. If nothing is, the
// result makes the bounds impossible.
func above(have, n uint64) uint64 {
	if n == math.MaxUint64 {
		return math.MaxUint64
	}
	return max(have, n+1)
}

func below(have, n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return min(have, n-1)
}

func sabove(have, n int64) int64 {
	if n == math.MaxInt64 {
		return n
	}
	return max(have, n+1)
}

func sbelow(have, n int64) int64 {
	if n == math.MinInt64 {
		return n
	}
	return min(have, n-1)
}

// opposite has the comparison that holds when another one does not.
var opposite = map[uint8]uint8{
	jmpJEQ: jmpJNE, jmpJNE: jmpJEQ, jmpJGT: jmpJLE, jmpJLE: jmpJGT, jmpJGE: jmpJLT, jmpJLT: jmpJGE,
	jmpJSGT: jmpJSLE, jmpJSLE: jmpJSGT, jmpJSGE: jmpJSLT, jmpJSLT: jmpJSGE,
}
