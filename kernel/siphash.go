package kernel

import "math/bits"

// sipKey is siphash_key_t.
type sipKey [2]uint64

// siphash1u64 is SipHash-2-4 of one word, like the guest's function of that name.
func (k sipKey) siphash1u64(word uint64) uint64 {
	v := [4]uint64{
		k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d,
		k[0] ^ 0x6c7967656e657261, k[1] ^ 0x7465646279746573,
	}
	round := func(n int) {
		for range n {
			v[0], v[2] = v[0]+v[1], v[2]+v[3]
			v[1], v[3] = bits.RotateLeft64(v[1], 13)^v[0], bits.RotateLeft64(v[3], 16)^v[2]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2], v[0] = v[2]+v[1], v[0]+v[3]
			v[1], v[3] = bits.RotateLeft64(v[1], 17)^v[2], bits.RotateLeft64(v[3], 21)^v[0]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	for _, w := range []uint64{word, 8 << 56} { // the last word holds the length
		v[3] ^= w
		round(2)
		v[0] ^= w
	}
	v[2] ^= 0xff
	round(4)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// HashPtr returns what %p prints for an address (__ptr_to_hashval). The key is
// made at boot and shared with the guest's printk.
func (m *Machine) HashPtr(addr uint64) uint32 { return uint32(m.ptrKey.siphash1u64(addr)) }
