package bpf

import (
	"cmp"
	"hash/maphash"
	"math"
	"math/bits"
)

// bloom is a map of type BPF_MAP_TYPE_BLOOM_FILTER: a set that may report a value that was never pushed.
type bloom struct {
	seed      maphash.Seed
	functions uint64
	bits      []uint64 // as many as a power of two
}

// defaultFunctions is how many hash functions a filter has if map_extra does not say.
const defaultFunctions = 5

// newBloom returns an empty filter for a number of values.
func newBloom(entries int, functions uint64) *bloom {
	return &bloom{seed: maphash.MakeSeed(), functions: cmp.Or(functions, defaultFunctions), bits: make([]uint64, bloomBits(entries, functions)/64)}
}

// bloomBits returns the number of bits of a filter for a number of values: 7/5 of the bits that the functions set, which
// is near the best ratio, rounded up to a power of two.
func bloomBits(entries int, functions uint64) int64 {
	n := uint64(entries) * cmp.Or(functions, defaultFunctions) / 5 * 7
	switch {
	case n <= 64:
		return 64
	case n > 1<<31:
		return math.MaxUint32 + 1
	}
	return 1 << bits.Len64(n-1)
}

// each calls do with the number of each bit of a value, until it returns false.
func (f *bloom) each(value []byte, do func(bit uint64) bool) bool {
	h := maphash.Bytes(f.seed, value)
	at, step := h, h>>32|1
	for range f.functions {
		if !do(at % uint64(64*len(f.bits))) {
			return false
		}
		at += step
	}
	return true
}

func (f *bloom) add(value []byte) {
	f.each(value, func(bit uint64) bool {
		f.bits[bit/64] |= 1 << (bit % 64)
		return true
	})
}

func (f *bloom) has(value []byte) bool {
	return f.each(value, func(bit uint64) bool { return f.bits[bit/64]&(1<<(bit%64)) != 0 })
}
