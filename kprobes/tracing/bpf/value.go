package bpf

import (
	"math"

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
	regStructOrNull
	regKey
	regDynptr
	regMem
	regMemOrNull
	regUntrusted // a structure of the kernel that may be gone
	regUntrustedOrNull
)

// regNames are the types in the words of the log.
var regNames = [...]string{
	"?", "scalar", "ctx", "map_ptr", "map_value", "map_value_or_null", "fp", "alloc_mem", "alloc_mem_or_null", "func", "ptr_", "ptr_or_null_", "map_key", "dynptr_ptr",
	"mem", "mem_or_null", "untrusted_ptr_", "untrusted_ptr_or_null_",
}

// mayBeNull reports whether a pointer has to be compared with 0 before it is used. The type before it is the same pointer
// when it is not NULL.
func (t regType) mayBeNull() bool {
	return t == regMapValueOrNull || t == regRecordOrNull || t == regStructOrNull || t == regMemOrNull || t == regUntrustedOrNull
}

// value is struct bpf_reg_state: what is known of a register. For a scalar the bounds are
// its number's, for a pointer the bounds of what was added to it beside off.
type value struct {
	typ     regType
	frame   uint8 // of a stack pointer: whose stack
	precise bool  // a decision has depended on the number
	live    liveness
	off     int32
	size    int32 // bytes of a record, or of memory; where a function begins
	m       *Map
	to      btf.Type // a structure of the kernel; nil if the kernel has no types
	id      uint32   // values with the same one, not 0, are NULL or not together, or the same number
	ref     uint32   // the record that has to be given back, or 0
	plus    bool     // a number is off more than the others with the same id

	tnum          // the bits
	span64        // the bounds
	low    span32 // the bounds of the lower half

	parent *value // the same register or slot in the state that was kept last
}

// unknown returns a scalar of which nothing is known.
func unknown() value {
	return value{typ: regScalar, tnum: anyNumber, span64: wholly[uint64, int64](), low: wholly[uint32, int32]()}
}

// constant returns a scalar of one number.
func constant(n uint64) value {
	v := value{typ: regScalar}
	v.know(n)
	return v
}

// know makes the number be n.
func (v *value) know(n uint64) {
	v.tnum, v.span64, v.low = exactly(n), only[uint64, int64](n), only[uint32, int32](uint32(n))
}

// knowLow makes the lower half of the number be n.
func (v *value) knowLow(n uint32) {
	v.tnum, v.low = v.withLower(exactly(uint64(n))), only[uint32, int32](n)
}

// pointer returns a pointer of a type, to which nothing was added.
func pointer(t regType) value {
	v := constant(0)
	v.typ = t
	return v
}

// isNull reports whether v is the number 0.
func (v *value) isNull() bool { return v.typ == regScalar && v.isConst() && v.bits == 0 }

// become makes v what another one is. It stays the register, or slot, that it was: what is read of it concerns its own parent.
func (v *value) become(o value) {
	o.parent, o.live = v.parent, v.live
	*v = o
}

// same reports whether two registers are known to hold the same, except how precise that has to be.
func (v *value) same(o *value) bool {
	return v.typ == o.typ && v.off == o.off && v.size == o.size && v.m == o.m && v.to == o.to && v.id == o.id && v.plus == o.plus && v.ref == o.ref && v.sameNumber(o)
}

func (v *value) sameNumber(o *value) bool {
	return v.tnum == o.tnum && v.span64 == o.span64 && v.low == o.low
}

// bounded reports whether anything is known of a number.
func (v *value) bounded() bool {
	return v.tnum != anyNumber || v.span64 != wholly[uint64, int64]() || v.low != wholly[uint32, int32]()
}

// heed narrows the bounds by the bits that are known.
func (v *value) heed() {
	v.low.heed(uint32(v.bits), uint32(v.mask))
	v.span64.heed(v.bits, v.mask)
}

// sync makes bits and bounds agree with one another: reg_bounds_sync.
func (v *value) sync() {
	v.heed()
	v.low.agree()
	v.agree()
	v.fromBounds()
	v.heed()
}

// fromBounds learns bits from the bounds: __reg_bound_offset.
func (v *value) fromBounds() {
	v.tnum = v.tnum.both(fromTo(v.umin, v.umax))
	v.tnum = v.withLower(v.lower().both(fromTo(uint64(v.low.umin), uint64(v.low.umax))))
}

// fromLow takes the bounds from the lower half, the upper one being 0.
func (v *value) fromLow() {
	v.umin, v.umax, v.smin, v.smax = uint64(v.low.umin), uint64(v.low.umax), 0, math.MaxUint32
	if v.low.smin >= 0 && v.low.smax >= 0 {
		v.smin, v.smax = int64(v.low.smin), int64(v.low.smax)
	}
}

// zeroExtend clears the upper half.
func (v *value) zeroExtend() {
	v.tnum = v.lower()
	v.fromLow()
}

// lowFromBounds takes the bounds of the lower half from the whole's as far as they fit.
func (v *value) lowFromBounds() {
	v.low = wholly[uint32, int32]()
	if v.smin >= math.MinInt32 && v.smin <= math.MaxInt32 && v.smax >= math.MinInt32 && v.smax <= math.MaxInt32 {
		v.low.smin, v.low.smax = int32(v.smin), int32(v.smax)
	}
	if v.umin <= math.MaxUint32 && v.umax <= math.MaxUint32 {
		v.low.umin, v.low.umax = uint32(v.umin), uint32(v.umax)
	}
	v.sync()
}

// boundsFromLow takes the whole's bounds from the lower half, of which something was learned.
func (v *value) boundsFromLow() {
	if v.upper() == (tnum{}) {
		v.fromLow()
	} else {
		v.span64 = wholly[uint64, int64]()
	}
	v.sync()
}

// truncate makes the number what its lower size bytes are: coerce_reg_to_size.
func (v *value) truncate(size int) {
	v.tnum = v.cut(size)
	most := uint64(math.MaxUint64) >> (64 - 8*size)
	if v.umin&^most == v.umax&^most {
		v.umin, v.umax = v.umin&most, v.umax&most
	} else {
		v.umin, v.umax = 0, most
	}
	v.smin, v.smax = int64(v.umin), int64(v.umax)
	if size < 4 {
		v.lowFromBounds()
	}
}

// truncate does that, and on 6.12 what is known agrees again.
func (v *verifier) truncate(n *value, size int) {
	n.truncate(size)
	if !v.v612 {
		return
	}
	if size < 4 {
		n.low = wholly[uint32, int32]()
	}
	n.syncAll()
}

// unlink says that no other number is known to be the same.
func (v *value) unlink() {
	v.id = 0
	if v.typ == regScalar {
		v.plus, v.off = false, 0
	}
}

// extend makes the number what its lower bits are with their sign: coerce_reg_to_size_sx.
func (v *value) extend(bits int) {
	if v.isConst() {
		v.know(extendSign(v.bits, bits))
		return
	}
	above := 64 - bits
	lo, hi := extendSign(uint64(v.smin), bits), extendSign(uint64(v.smax), bits)
	if v.smin>>bits == v.smax>>bits && int64(lo)>>63 == int64(hi)>>63 { // the bits above are the same, and the sign, too
		v.span64 = span64{lo, hi, int64(lo), int64(hi)}
		v.low = span32{uint32(lo), uint32(hi), int32(lo), int32(hi)}
		v.tnum = fromTo(lo, hi)
		return
	}
	v.span64, v.low, v.tnum = wholly[uint64, int64](), wholly[uint32, int32](), anyNumber
	v.smin, v.smax = math.MinInt64>>above, math.MaxInt64>>above
	v.low.smin, v.low.smax = int32(v.smin), int32(v.smax)
}

// extendLow does the same with the lower half. It says nothing of the upper one: coerce_subreg_to_size_sx.
func (v *value) extendLow(bits int) {
	if v.isConst() {
		v.tnum = exactly(extendSign(v.bits, bits))
		v.low = only[uint32, int32](uint32(v.bits))
		return
	}
	above := 32 - bits
	lo, hi := extendSign(uint64(uint32(v.low.smin)), bits), extendSign(uint64(uint32(v.low.smax)), bits)
	if v.low.smin>>bits == v.low.smax>>bits && int64(lo)>>63 == int64(hi)>>63 {
		v.low = span32{uint32(lo), uint32(hi), int32(lo), int32(hi)}
		v.tnum = fromTo(lo, hi).lower()
		return
	}
	v.low, v.tnum = wholly[uint32, int32](), anyNumber.lower()
	v.low.smin, v.low.smax = math.MinInt32>>above, math.MaxInt32>>above
}

// covers reports whether each number that o can be is one that v can be.
func (v *value) covers(o *value) bool {
	return o.span64.within(&v.span64) && o.low.within(&v.low) && v.includes(o.tnum)
}
