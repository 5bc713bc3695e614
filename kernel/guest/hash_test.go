package guest_test

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Hashes that are not in Go's standard library.

func siphash(p []byte, k0, k1 uint64, each, last int) uint64 {
	v := [4]uint64{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	rounds := func(n int) {
		for range n {
			v[0], v[2] = v[0]+v[1], v[2]+v[3]
			v[1], v[3] = bits.RotateLeft64(v[1], 13)^v[0], bits.RotateLeft64(v[3], 16)^v[2]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2], v[0] = v[2]+v[1], v[0]+v[3]
			v[1], v[3] = bits.RotateLeft64(v[1], 17)^v[2], bits.RotateLeft64(v[3], 21)^v[0]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	words := append(append([]byte{}, p...), make([]byte, 7-len(p)%8)...)
	words = append(words, byte(len(p)))
	for ; len(words) > 0; words = words[8:] {
		w := binary.LittleEndian.Uint64(words)
		v[3] ^= w
		rounds(each)
		v[0] ^= w
	}
	v[2] ^= 0xff
	rounds(last)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

func xxh64(b []byte, seed uint64) uint64 {
	h := xxhash.NewWithSeed(seed)
	_, _ = h.Write(b)
	return h.Sum64()
}

func xxh32(p []byte, seed uint32) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	round := func(acc, w uint32) uint32 { return bits.RotateLeft32(acc+w*p2, 13) * p1 }
	h, rest := seed+p5, p
	if len(p) >= 16 {
		one, two := uint32(p1), uint32(p2)
		l := [4]uint32{seed + one + two, seed + two, seed, seed - one}
		for ; len(rest) >= 16; rest = rest[16:] {
			for i := range l {
				l[i] = round(l[i], binary.LittleEndian.Uint32(rest[4*i:]))
			}
		}
		h = bits.RotateLeft32(l[0], 1) + bits.RotateLeft32(l[1], 7) + bits.RotateLeft32(l[2], 12) + bits.RotateLeft32(l[3], 18)
	}
	h += uint32(len(p))
	for ; len(rest) >= 4; rest = rest[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(rest)*p3, 17) * p4
	}
	for _, b := range rest {
		h = bits.RotateLeft32(h+uint32(b)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}

// blake2s is RFC 7693 without a key, 32 bytes.
func blake2s(p []byte) []byte {
	iv := [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
	sigma := [10]string{
		"0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
		"2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
	}
	h := iv
	h[0] ^= 0x01010020
	n := uint64(0)
	for {
		var block [64]byte
		k := copy(block[:], p)
		p = p[k:]
		n += uint64(k)
		v := [16]uint32{}
		copy(v[:], h[:])
		copy(v[8:], iv[:])
		v[12] ^= uint32(n)
		v[13] ^= uint32(n >> 32)
		if len(p) == 0 {
			v[14] = ^v[14]
		}
		g := func(a, b, c, d int, x, y uint32) {
			v[a] += v[b] + x
			v[d] = bits.RotateLeft32(v[d]^v[a], -16)
			v[c] += v[d]
			v[b] = bits.RotateLeft32(v[b]^v[c], -12)
			v[a] += v[b] + y
			v[d] = bits.RotateLeft32(v[d]^v[a], -8)
			v[c] += v[d]
			v[b] = bits.RotateLeft32(v[b]^v[c], -7)
		}
		for _, s := range sigma {
			m := func(i int) uint32 {
				d := s[i]
				if d >= 'a' {
					d -= 'a' - '9' - 1
				}
				return binary.LittleEndian.Uint32(block[4*(d-'0'):])
			}
			for i := range 4 {
				g(i, i+4, i+8, i+12, m(2*i), m(2*i+1))
			}
			for i := range 4 {
				g(i, 4+(i+1)&3, 8+(i+2)&3, 12+(i+3)&3, m(8+2*i), m(9+2*i))
			}
		}
		for i := range h {
			h[i] ^= v[i] ^ v[i+8]
		}
		if len(p) == 0 {
			break
		}
	}
	var out []byte
	for _, w := range h {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return out
}
