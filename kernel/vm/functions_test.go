package vm_test

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/pierrec/lz4/v4"

	"github.com/kprobefs/kprobefs/kernel/vm"
)

// The functions of a kernel's text are compared with Go's packages, and where these have none with what
// is below: from published descriptions (SipHash, xxHash, ChaCha20, RFC 1071), or, for what is obvious,
// in the simplest form.

// try calls a function with random arguments, and returns what is wrong with its result, or "".
type try func(c *caller, r *rand.Rand) string

// same compares.
func same[T comparable](what string, got, want T) string {
	if got != want {
		return fmt.Sprintf("%s is %v, want %v", what, got, want)
	}
	return ""
}

func sameBytes(got, want []byte) string {
	if !bytes.Equal(got, want) {
		return fmt.Sprintf("%x, want %x", got, want)
	}
	return ""
}

func first(problems ...string) string { return cmp.Or(problems...) }

// i32 is an int result, u32 an unsigned int one.
func i32(r vm.Result) int32  { return int32(r.AX) }
func u32(r vm.Result) uint32 { return uint32(r.AX) }

// at is where in its i-th argument a result points to; -1 for NULL, -2 for elsewhere.
func at(r vm.Result, i int) int {
	switch off := r.AX - r.Addrs[i]; {
	case r.AX == 0:
		return -1
	case off <= uint64(len(r.Buffers[i])):
		return int(off)
	}
	return -2
}

func sign(n int32) int { return cmp.Compare(n, 0) }

// word returns a text of few letters, so that texts resemble each other.
func word(r *rand.Rand, most int) string {
	b := make([]byte, r.IntN(most+1))
	for i := range b {
		b[i] = "abAB c\t"[r.IntN(7)]
	}
	return string(b)
}

func data(r *rand.Rand, least, most int) []byte {
	b := make([]byte, least+r.IntN(most-least+1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// few returns bytes of few values.
func few(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(3))
	}
	return b
}

// any64 returns numbers of all sizes.
func any64(r *rand.Rand) uint64 { return r.Uint64() >> r.IntN(64) }
func any32(r *rand.Rand) uint32 { return r.Uint32() >> r.IntN(32) }

// upTo returns the text up to a NUL.
func upTo(b []byte) string { s, _, _ := bytes.Cut(b, []byte{0}); return string(s) }

func letter(r *rand.Rand) byte { return "abcx"[r.IntN(4)] }

// index compares a pointer into an argument with an index in Go.
func index(r vm.Result, arg, want int) string { return same("the place", at(r, arg), want) }

// within calls a function with a pointer into a buffer, which is passed as an argument that the function
// does not have.
func (c *caller) within(name string, buf []byte, args func(base uint64) []any) vm.Result {
	blind := slices.Concat([]any{0, 0, 0, 0, 0, buf})
	base := c.do("hex_to_bin", blind...).Addrs[5]
	all := make([]any, 5)
	for i := range all {
		all[i] = 0
	}
	copy(all, args(base))
	return c.do(name, append(all, buf)...)
}

// bitmap returns a bitmap of whole words, and the number of its bits that are used.
func bitmap(r *rand.Rand) ([]byte, int) {
	b := data(r, 32, 32)
	switch r.IntN(3) {
	case 0:
		for i := range b {
			few := r.Uint32() & r.Uint32() & r.Uint32() // one bit in eight
			b[i] &= byte(few)
		}
	case 1:
		clear(b[:r.IntN(len(b))])
	}
	return b, 1 + r.IntN(8*len(b))
}

func bit(b []byte, i int) bool { return b[i/8]>>(i%8)&1 != 0 }

// nextBit is the first bit from a place on that is as wanted, or n.
func nextBit(b []byte, n, from int, want bool) uint64 {
	for i := from; i < n; i++ {
		if bit(b, i) == want {
			return uint64(i)
		}
	}
	return uint64(n)
}

// binary32 makes a try of a function of two bitmaps that fills a third one: of whole words, so that
// only the used bits are compared.
func bitOp(name string, op func(a, b bool) bool) try {
	return func(c *caller, r *rand.Rand) string {
		a, n := bitmap(r)
		b, _ := bitmap(r)
		got := c.do(name, make([]byte, len(a)), a, b, n).Buffers[0]
		for i := range n {
			if bit(got, i) != op(bit(a, i), bit(b, i)) {
				return fmt.Sprintf("bit %d of %d is wrong", i, n)
			}
		}
		return ""
	}
}

func bitTest(name string, all func(a, b bool) bool) try {
	return func(c *caller, r *rand.Rand) string {
		a, n := bitmap(r)
		b, _ := bitmap(r)
		if r.IntN(2) == 0 {
			b = bytes.Clone(a)
		}
		want := true
		for i := range n {
			want = want && all(bit(a, i), bit(b, i))
		}
		return same("the result", byte(c.do(name, a, b, n).AX) != 0, want)
	}
}

const (
	einval = -22
	erange = -34
	e2big  = -7
)

// number returns a text that is a number or nearly one, for a base.
func number(r *rand.Rand, base int) string {
	s := strconv.FormatUint(any64(r), base)
	switch r.IntN(8) {
	case 0:
		s += "\n"
	case 1:
		s = "+" + s
	case 2:
		s = "-" + s
	case 3:
		s += "99"
	case 4:
		s += "x"
	case 5:
		s = ""
	}
	return s
}

// kstrto makes a try of kstrtoTYPE of a number of bytes.
func kstrto(name string, signed bool, size int) try {
	return func(c *caller, r *rand.Rand) string {
		base := []int{8, 10, 16}[r.IntN(3)]
		s := number(r, base)
		res := c.do(name, s, base, make([]byte, 8))
		digits := strings.TrimSuffix(s, "\n")
		negative := signed && strings.HasPrefix(digits, "-")
		digits = strings.TrimPrefix(digits, "+")
		if negative {
			digits = digits[1:]
		}
		for i, d := range digits {
			if _, err := strconv.ParseUint(string(d), base, 8); err != nil {
				return same("an invalid number's result", i32(res), errOr(i > 0 && tooLarge(digits[:i], base), erange, einval))
			}
		}
		n, ok := new(big.Int).SetString(digits, base)
		if !ok {
			return same("the result without digits", i32(res), einval)
		}
		most := new(big.Int).Lsh(big.NewInt(1), uint(8*size))
		if signed {
			most.Rsh(most, 1)
		}
		if negative {
			most.Add(most, big.NewInt(1))
		}
		if n.Cmp(most) >= 0 {
			return same("a number's result that is out of range", i32(res), erange)
		}
		v := n.Uint64()
		if negative {
			v = -v
		}
		want := binary.LittleEndian.AppendUint64(nil, v)[:size]
		return first(same("the result", i32(res), 0), sameBytes(res.Buffers[2][:size], want))
	}
}

func errOr(is bool, a, b int32) int32 {
	if is {
		return a
	}
	return b
}

// tooLarge reports whether digits are more than 64 bits: this is found before what follows them.
func tooLarge(digits string, base int) bool {
	n, ok := new(big.Int).SetString(digits, base)
	return ok && n.BitLen() > 64
}

func table(poly uint32) *crc32.Table { return crc32.MakeTable(poly) }

// siphash is SipHash-c-d.
func siphash(c, d int, key [2]uint64, b []byte) uint64 {
	v := [4]uint64{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573}
	rounds := func(n int) {
		for range n {
			v[0] += v[1]
			v[2] += v[3]
			v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
			v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2] += v[1]
			v[0] += v[3]
			v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
			v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	last := append(bytes.Clone(b[len(b)&^7:]), make([]byte, 8-len(b)%8)...)
	last[7] = byte(len(b))
	for m := range slices.Chunk(append(bytes.Clone(b[:len(b)&^7]), last...), 8) {
		w := binary.LittleEndian.Uint64(m)
		v[3] ^= w
		rounds(c)
		v[0] ^= w
	}
	v[2] ^= 0xff
	rounds(d)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// sip makes a try of siphash_N: numbers of size bytes, and of hsiphash_N, which is SipHash-1-3 in 32 bits
// on 64-bit machines.
func sip(name string, numbers, size int, half bool) try {
	return func(c *caller, r *rand.Rand) string {
		key := [2]uint64{r.Uint64(), r.Uint64()}
		var args []any
		var b []byte
		for range numbers {
			v := any64(r)
			if size == 4 {
				v = uint64(uint32(v))
				b = binary.LittleEndian.AppendUint32(b, uint32(v))
			} else {
				b = binary.LittleEndian.AppendUint64(b, v)
			}
			args = append(args, v)
		}
		args = append(args, keyBytes(key))
		res := c.do(name, args...)
		if half {
			return same("the hash", u32(res), uint32(siphash(1, 3, key, b)))
		}
		return same("the hash", res.AX, siphash(2, 4, key, b))
	}
}

func keyBytes(key [2]uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, key[0]), key[1])
}

// xxh32 and xxh64 are xxHash.
func xxh32(b []byte, seed uint32) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	n := uint32(len(b))
	h := seed + p5
	if len(b) >= 16 {
		s := seed
		v := [4]uint32{s + p1 + (p2 & math.MaxUint32), s + p2, s, s - p1}
		v[0] = s
		v[0] += p1
		v[0] += p2
		for ; len(b) >= 16; b = b[16:] {
			for i := range v {
				v[i] = bits.RotateLeft32(v[i]+binary.LittleEndian.Uint32(b[4*i:])*p2, 13) * p1
			}
		}
		h = bits.RotateLeft32(v[0], 1) + bits.RotateLeft32(v[1], 7) + bits.RotateLeft32(v[2], 12) + bits.RotateLeft32(v[3], 18)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, x := range b {
		h = bits.RotateLeft32(h+uint32(x)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}

func xxh64(b []byte, seed uint64) uint64 {
	h := xxhash.NewWithSeed(seed)
	_, _ = h.Write(b)
	return h.Sum64()
}

// chacha is a block of ChaCha with a number of rounds.
func chacha(state [16]uint32, rounds int) []byte {
	x := state
	quarter := func(a, b, c, d int) {
		x[a] += x[b]
		x[d] = bits.RotateLeft32(x[d]^x[a], 16)
		x[c] += x[d]
		x[b] = bits.RotateLeft32(x[b]^x[c], 12)
		x[a] += x[b]
		x[d] = bits.RotateLeft32(x[d]^x[a], 8)
		x[c] += x[d]
		x[b] = bits.RotateLeft32(x[b]^x[c], 7)
	}
	for range rounds / 2 {
		for i := range 4 {
			quarter(i, 4+i, 8+i, 12+i)
		}
		for i := range 4 {
			quarter(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4)
		}
	}
	var out []byte
	for i := range x {
		out = binary.LittleEndian.AppendUint32(out, x[i]+state[i])
	}
	return out
}

// fold is the checksum of RFC 1071, not inverted.
func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

func sum16(b []byte) (sum uint64) {
	b = append(bytes.Clone(b), 0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint64(binary.LittleEndian.Uint16(b[i:]))
	}
	return sum
}

func crcCCITT(crc uint16, b []byte) uint16 {
	for _, x := range b {
		crc ^= uint16(x)
		for range 8 {
			crc = crc>>1 ^ crc&1*0x8408
		}
	}
	return crc
}

func crcBE(crc uint32, b []byte) uint32 {
	for _, x := range b {
		crc ^= uint32(x) << 24
		for range 8 {
			crc = crc<<1 ^ crc>>31*0x04c11db7
		}
	}
	return crc
}

func gcd(a, b uint64) uint64 {
	return new(big.Int).GCD(nil, nil, new(big.Int).SetUint64(a), new(big.Int).SetUint64(b)).Uint64()
}

// rows returns n rows of a table for sort and bsearch, each with a text and a NUL in it.
func rows(r *rand.Rand, n, size int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = make([]byte, size)
		copy(all[i], word(r, size-1))
	}
	return all
}

// functions are the tries, by the names of the functions.
var functions = map[string]try{
	"strlen": func(c *caller, r *rand.Rand) string {
		s := word(r, 40)
		return same("the length", c.do("strlen", s).AX, uint64(len(s)))
	},
	"strnlen": func(c *caller, r *rand.Rand) string {
		s, n := word(r, 20), r.IntN(25)
		return same("the length", c.do("strnlen", s, n).AX, uint64(min(n, len(s))))
	},
	"strcmp": func(c *caller, r *rand.Rand) string {
		a, b := word(r, 6), word(r, 6)
		return same("the order", sign(i32(c.do("strcmp", a, b))), strings.Compare(a, b))
	},
	"strncmp": func(c *caller, r *rand.Rand) string {
		a, b, n := word(r, 6), word(r, 6), r.IntN(6)
		return same("the order", sign(i32(c.do("strncmp", a, b, n))), strings.Compare(a[:min(n, len(a))], b[:min(n, len(b))]))
	},
	"strcasecmp": func(c *caller, r *rand.Rand) string {
		a, b := word(r, 4), word(r, 4)
		return same("the order", sign(i32(c.do("strcasecmp", a, b))), strings.Compare(strings.ToLower(a), strings.ToLower(b)))
	},
	"strncasecmp": func(c *caller, r *rand.Rand) string {
		a, b, n := word(r, 4), word(r, 4), r.IntN(5)
		return same("the order", sign(i32(c.do("strncasecmp", a, b, n))), strings.Compare(strings.ToLower(a[:min(n, len(a))]), strings.ToLower(b[:min(n, len(b))])))
	},
	"strcpy": func(c *caller, r *rand.Rand) string {
		s := word(r, 30)
		res := c.do("strcpy", make([]byte, 40), s)
		return first(index(res, 0, 0), same("the copy", upTo(res.Buffers[0]), s))
	},
	"strncpy": func(c *caller, r *rand.Rand) string {
		s, n := word(r, 30), 1+r.IntN(39)
		res := c.do("strncpy", bytes.Repeat([]byte{'#'}, 40), s, n)
		want := bytes.Repeat([]byte{'#'}, 40)
		clear(want[:n])
		copy(want[:n], s)
		return first(index(res, 0, 0), sameBytes(res.Buffers[0], want))
	},
	"strscpy": strscpy("strscpy"), "sized_strscpy": strscpy("sized_strscpy"),
	"strlcpy": func(c *caller, r *rand.Rand) string {
		s, n := word(r, 30), 1+r.IntN(39)
		res := c.do("strlcpy", make([]byte, 40), s, n)
		return first(same("the length", res.AX, uint64(len(s))), same("the copy", upTo(res.Buffers[0]), s[:min(len(s), n-1)]))
	},
	"strcat": func(c *caller, r *rand.Rand) string {
		a, b := word(r, 20), word(r, 20)
		res := c.do("strcat", append([]byte(a), make([]byte, 40)...), b)
		return first(index(res, 0, 0), same("the text", upTo(res.Buffers[0]), a+b))
	},
	"strncat": func(c *caller, r *rand.Rand) string {
		a, b, n := word(r, 20), word(r, 20), r.IntN(25)
		res := c.do("strncat", append([]byte(a), make([]byte, 40)...), b, n)
		return first(index(res, 0, 0), same("the text", upTo(res.Buffers[0]), a+b[:min(n, len(b))]))
	},
	"strlcat": func(c *caller, r *rand.Rand) string {
		a, b := word(r, 20), word(r, 20)
		n := len(a) + 1 + r.IntN(20)
		res := c.do("strlcat", append([]byte(a), make([]byte, 60)...), b, n)
		all := a + b
		return first(same("the length", res.AX, uint64(len(all))), same("the text", upTo(res.Buffers[0]), all[:min(len(all), n-1)]))
	},
	"strchr": func(c *caller, r *rand.Rand) string {
		s, x := word(r, 12), letter(r)
		return index(c.do("strchr", s, x), 0, strings.IndexByte(s, x))
	},
	"strrchr": func(c *caller, r *rand.Rand) string {
		s, x := word(r, 12), letter(r)
		return index(c.do("strrchr", s, x), 0, strings.LastIndexByte(s, x))
	},
	"strchrnul": func(c *caller, r *rand.Rand) string {
		s, x := word(r, 12), letter(r)
		want := strings.IndexByte(s, x)
		if want < 0 {
			want = len(s)
		}
		return index(c.do("strchrnul", s, x), 0, want)
	},
	"strnchr": func(c *caller, r *rand.Rand) string {
		s, n, x := word(r, 12), r.IntN(14), letter(r)
		return index(c.do("strnchr", s, n, x), 0, strings.IndexByte(s[:min(n, len(s))], x))
	},
	"strspn": func(c *caller, r *rand.Rand) string {
		s, set := word(r, 12), word(r, 4)
		return same("the length", c.do("strspn", s, set).AX, uint64(len(s)-len(strings.TrimLeft(s, set))))
	},
	"strcspn": func(c *caller, r *rand.Rand) string {
		s, set := word(r, 12), word(r, 2)
		want := strings.IndexAny(s, set)
		if want < 0 {
			want = len(s)
		}
		return same("the length", c.do("strcspn", s, set).AX, uint64(want))
	},
	"strpbrk": func(c *caller, r *rand.Rand) string {
		s, set := word(r, 12), word(r, 2)
		return index(c.do("strpbrk", s, set), 0, strings.IndexAny(s, set))
	},
	"strstr": func(c *caller, r *rand.Rand) string {
		s, x := word(r, 12), word(r, 2)
		return index(c.do("strstr", s, x), 0, strings.Index(s, x))
	},
	"strnstr": func(c *caller, r *rand.Rand) string {
		s, x := word(r, 12), word(r, 2)
		n := r.IntN(len(s) + 1)
		return index(c.do("strnstr", s, x, n), 0, strings.Index(s[:n], x))
	},
	"skip_spaces": func(c *caller, r *rand.Rand) string {
		s := word(r, 12)
		return index(c.do("skip_spaces", s), 0, len(s)-len(strings.TrimLeft(s, " \t")))
	},
	"strim": func(c *caller, r *rand.Rand) string {
		s := word(r, 12)
		res := c.do("strim", s)
		p := at(res, 0)
		if p < 0 {
			return "no text"
		}
		return same("the text", upTo(res.Buffers[0][p:]), strings.Trim(s, " \t"))
	},
	"sysfs_streq": func(c *caller, r *rand.Rand) string {
		a := word(r, 2)
		b := word(r, 2)
		ends := []string{"", "\n"}
		return same("the result", byte(c.do("sysfs_streq", a+ends[r.IntN(2)], b+ends[r.IntN(2)]).AX) != 0, a == b)
	},
	"memcmp": func(c *caller, r *rand.Rand) string {
		n := r.IntN(20)
		a, b := few(r, 20), few(r, 20)
		copy(a, b[:r.IntN(20)])
		return same("the order", sign(i32(c.do("memcmp", a, b, n))), bytes.Compare(a[:n], b[:n]))
	},
	"bcmp": func(c *caller, r *rand.Rand) string {
		n := r.IntN(20)
		a, b := few(r, 20), few(r, 20)
		copy(a, b[:r.IntN(20)])
		return same("the result", i32(c.do("bcmp", a, b, n)) == 0, bytes.Equal(a[:n], b[:n]))
	},
	"memcpy": func(c *caller, r *rand.Rand) string {
		b := data(r, 0, 300)
		res := c.do("memcpy", make([]byte, 320), append(b, 0), len(b))
		return first(index(res, 0, 0), sameBytes(res.Buffers[0], append(b, make([]byte, 320-len(b))...)))
	},
	"memmove": func(c *caller, r *rand.Rand) string {
		b := data(r, 300, 300)
		from, to := r.IntN(150), r.IntN(150)
		n := r.IntN(150)
		res := c.within("memmove", b, func(base uint64) []any { return []any{base + uint64(to), base + uint64(from), n} })
		copy(b[to:to+n], bytes.Clone(b[from:from+n]))
		return sameBytes(res.Buffers[5], b)
	},
	"memset": func(c *caller, r *rand.Rand) string {
		x, n := byte(r.Uint32()), r.IntN(300)
		res := c.do("memset", make([]byte, 320), x, n)
		return first(index(res, 0, 0), sameBytes(res.Buffers[0], append(bytes.Repeat([]byte{x}, n), make([]byte, 320-n)...)))
	},
	"memchr": func(c *caller, r *rand.Rand) string {
		b, n := few(r, 12), r.IntN(12)
		return index(c.do("memchr", b, 2, n), 0, bytes.IndexByte(b[:n], 2))
	},
	"memchr_inv": func(c *caller, r *rand.Rand) string {
		b, n := bytes.Repeat([]byte{7}, 60), r.IntN(60)
		b[r.IntN(60)] = byte(r.IntN(3) + 6)
		return index(c.do("memchr_inv", b, 7, n), 0, bytes.IndexFunc(b[:n], func(x rune) bool { return x != 7 }))
	},
	"memscan": func(c *caller, r *rand.Rand) string {
		b, n := few(r, 12), r.IntN(12)
		want := bytes.IndexByte(b[:n], 2)
		if want < 0 {
			want = n
		}
		return index(c.do("memscan", b, 2, n), 0, want)
	},
	"int_sqrt": func(c *caller, r *rand.Rand) string {
		x := any64(r)
		return same("the root", c.do("int_sqrt", x).AX, new(big.Int).Sqrt(new(big.Int).SetUint64(x)).Uint64())
	},
	"int_pow": func(c *caller, r *rand.Rand) string {
		x, n := any64(r), r.IntN(70)
		want := uint64(1)
		for range n {
			want *= x
		}
		return same("the power", c.do("int_pow", x, n).AX, want)
	},
	"gcd": func(c *caller, r *rand.Rand) string {
		a, b := any64(r), any64(r)
		return same("the divisor", c.do("gcd", a, b).AX, gcd(a, b))
	},
	"lcm": func(c *caller, r *rand.Rand) string {
		a, b := uint64(any32(r)), uint64(any32(r))
		want := uint64(0)
		if a != 0 && b != 0 {
			want = a / gcd(a, b) * b
		}
		return same("the multiple", c.do("lcm", a, b).AX, want)
	},
	"lcm_not_zero": func(c *caller, r *rand.Rand) string {
		a, b := uint64(any32(r)), uint64(any32(r))
		want := a | b
		if a != 0 && b != 0 {
			want = a / gcd(a, b) * b
		}
		return same("the multiple", c.do("lcm_not_zero", a, b).AX, want)
	},
	"reciprocal_value": func(c *caller, r *rand.Rand) string {
		d, n := any32(r)|1, any32(r)
		res := c.do("reciprocal_value", d)
		t := uint32(uint64(n) * uint64(u32(res)) >> 32)
		return same("the quotient", (t+(n-t)>>(res.AX>>32&0xff))>>(res.AX>>40&0xff), n/d)
	},
	"hex_to_bin": func(c *caller, r *rand.Rand) string {
		x := byte(r.Uint32())
		want := int32(-1)
		if v, err := strconv.ParseUint(string(rune(x)), 16, 8); err == nil {
			want = int32(v)
		}
		return same("the digit", i32(c.do("hex_to_bin", x)), want)
	},
	"hex2bin": func(c *caller, r *rand.Rand) string {
		b := data(r, 1, 20)
		s := []byte(hex.EncodeToString(b))
		if r.IntN(3) == 0 {
			s[r.IntN(len(s))] = 'g'
			return same("the result", i32(c.do("hex2bin", make([]byte, 20), s, len(b))), einval)
		}
		res := c.do("hex2bin", make([]byte, 20), bytes.ToUpper(s), len(b))
		return first(same("the result", i32(res), 0), sameBytes(res.Buffers[0][:len(b)], b))
	},
	"bin2hex": func(c *caller, r *rand.Rand) string {
		b := data(r, 1, 20)
		return same("the text", upTo(c.do("bin2hex", make([]byte, 50), b, len(b)).Buffers[0]), hex.EncodeToString(b))
	},
	"crc32_le": func(c *caller, r *rand.Rand) string {
		b, seed := data(r, 1, 100), r.Uint32()
		return same("the sum", u32(c.do("crc32_le", seed, b, len(b))), ^crc32.Update(^seed, crc32.IEEETable, b))
	},
	"crc32_be": func(c *caller, r *rand.Rand) string {
		b, seed := data(r, 1, 100), r.Uint32()
		return same("the sum", u32(c.do("crc32_be", seed, b, len(b))), crcBE(seed, b))
	},
	"__crc32c_le": func(c *caller, r *rand.Rand) string {
		b, seed := data(r, 1, 100), r.Uint32()
		return same("the sum", u32(c.do("__crc32c_le", seed, b, len(b))), ^crc32.Update(^seed, table(crc32.Castagnoli), b))
	},
	"crc_ccitt": func(c *caller, r *rand.Rand) string {
		b, seed := data(r, 1, 100), uint16(r.Uint32())
		return same("the sum", uint16(c.do("crc_ccitt", seed, b, len(b)).AX), crcCCITT(seed, b))
	},
	"sha256": func(c *caller, r *rand.Rand) string {
		b := data(r, 1, 200)
		want := sha256.Sum256(b)
		return sameBytes(c.do("sha256", b, len(b), make([]byte, 32)).Buffers[2], want[:])
	},
	"siphash_1u64": sip("siphash_1u64", 1, 8, false), "siphash_2u64": sip("siphash_2u64", 2, 8, false), "siphash_3u64": sip("siphash_3u64", 3, 8, false),
	"siphash_1u32": sip("siphash_1u32", 1, 4, false), "siphash_3u32": sip("siphash_3u32", 3, 4, false),
	"hsiphash_1u32": sip("hsiphash_1u32", 1, 4, true), "hsiphash_2u32": sip("hsiphash_2u32", 2, 4, true),
	"__siphash_unaligned": func(c *caller, r *rand.Rand) string {
		b, key := data(r, 1, 40), [2]uint64{r.Uint64(), r.Uint64()}
		return same("the hash", c.do("__siphash_unaligned", b, len(b), keyBytes(key)).AX, siphash(2, 4, key, b))
	},
	"xxh32": func(c *caller, r *rand.Rand) string {
		b, seed := data(r, 1, 80), r.Uint32()
		return same("the hash", u32(c.do("xxh32", b, len(b), seed)), xxh32(b, seed))
	},
	"xxh64": func(c *caller, r *rand.Rand) string {
		b, seed := data(r, 1, 80), r.Uint64()
		return same("the hash", c.do("xxh64", b, len(b), seed).AX, xxh64(b, seed))
	},
	"_find_next_bit": func(c *caller, r *rand.Rand) string {
		b, n := bitmap(r)
		from := r.IntN(n)
		return same("the bit", c.do("_find_next_bit", b, n, from).AX, nextBit(b, n, from, true))
	},
	"_find_next_zero_bit": func(c *caller, r *rand.Rand) string {
		b, n := bitmap(r)
		from := r.IntN(n)
		return same("the bit", c.do("_find_next_zero_bit", b, n, from).AX, nextBit(b, n, from, false))
	},
	"_find_first_bit": func(c *caller, r *rand.Rand) string {
		b, n := bitmap(r)
		return same("the bit", c.do("_find_first_bit", b, n).AX, nextBit(b, n, 0, true))
	},
	"_find_first_zero_bit": func(c *caller, r *rand.Rand) string {
		b, n := bitmap(r)
		return same("the bit", c.do("_find_first_zero_bit", b, n).AX, nextBit(b, n, 0, false))
	},
	"_find_last_bit": func(c *caller, r *rand.Rand) string {
		b, n := bitmap(r)
		want := uint64(n)
		for i := range n {
			if bit(b, i) {
				want = uint64(i)
			}
		}
		return same("the bit", c.do("_find_last_bit", b, n).AX, want)
	},
	"__bitmap_weight": func(c *caller, r *rand.Rand) string {
		b, n := bitmap(r)
		want := uint32(0)
		for i := range n {
			if bit(b, i) {
				want++
			}
		}
		return same("the weight", u32(c.do("__bitmap_weight", b, n)), want)
	},
	"__bitmap_and":    bitOp("__bitmap_and", func(a, b bool) bool { return a && b }),
	"__bitmap_or":     bitOp("__bitmap_or", func(a, b bool) bool { return a || b }),
	"__bitmap_xor":    bitOp("__bitmap_xor", func(a, b bool) bool { return a != b }),
	"__bitmap_andnot": bitOp("__bitmap_andnot", func(a, b bool) bool { return a && !b }),
	"__bitmap_equal":  bitTest("__bitmap_equal", func(a, b bool) bool { return a == b }),
	"__bitmap_subset": bitTest("__bitmap_subset", func(a, b bool) bool { return !a || b }),
	"__bitmap_set":    bitRange("__bitmap_set", true),
	"__bitmap_clear":  bitRange("__bitmap_clear", false),
	"__sw_hweight32": func(c *caller, r *rand.Rand) string {
		x := any32(r)
		return same("the weight", u32(c.do("__sw_hweight32", x)), uint32(bits.OnesCount32(x)))
	},
	"__sw_hweight64": func(c *caller, r *rand.Rand) string {
		x := any64(r)
		return same("the weight", c.do("__sw_hweight64", x).AX, uint64(bits.OnesCount64(x)))
	},
	"kstrtoull":       kstrto("kstrtoull", false, 8),
	"kstrtoll":        kstrto("kstrtoll", true, 8),
	"kstrtouint":      kstrto("kstrtouint", false, 4),
	"kstrtoint":       kstrto("kstrtoint", true, 4),
	"kstrtou16":       kstrto("kstrtou16", false, 2),
	"kstrtos8":        kstrto("kstrtos8", true, 1),
	"simple_strtoull": simple("simple_strtoull"),
	"simple_strtoul":  simple("simple_strtoul"),
	"memparse": func(c *caller, r *rand.Rand) string {
		n, unit := r.Uint64N(1<<20), r.IntN(7)
		s := strconv.FormatUint(n, 10) + []string{"", "K", "m", "G", "t", "P", "x"}[unit]
		res := c.do("memparse", s, make([]byte, 8))
		used := len(s)
		if unit == 6 {
			unit, used = 0, len(s)-1
		}
		return first(same("the size", res.AX, n<<(10*unit)), same("the end", binary.LittleEndian.Uint64(res.Buffers[1])-res.Addrs[0], uint64(used)))
	},
	"glob_match": func(c *caller, r *rand.Rand) string {
		p, s := make([]byte, r.IntN(6)), make([]byte, r.IntN(6))
		for i := range p {
			p[i] = "ab*?"[r.IntN(4)]
		}
		for i := range s {
			s[i] = "ab"[r.IntN(2)]
		}
		want, _ := path.Match(string(p), string(s))
		return same("the result", byte(c.do("glob_match", string(p), string(s)).AX) != 0, want)
	},
	"num_to_str": func(c *caller, r *rand.Rand) string {
		x, width := any64(r), r.IntN(24)
		want := fmt.Sprintf("%*d", width, x)
		res := c.do("num_to_str", make([]byte, 40), 40, x, width)
		return first(same("the length", i32(res), int32(len(want))), same("the text", string(res.Buffers[0][:min(len(want), 40)]), want))
	},
	"uuid_parse": func(c *caller, r *rand.Rand) string {
		u := data(r, 16, 16)
		s := fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
		if r.IntN(3) == 0 {
			return same("the result", i32(c.do("uuid_parse", s[:r.IntN(36)], make([]byte, 16))), einval)
		}
		res := c.do("uuid_parse", s, make([]byte, 16))
		return first(same("the result", i32(res), 0), sameBytes(res.Buffers[1], u))
	},
	"mac_pton": func(c *caller, r *rand.Rand) string {
		m := data(r, 6, 6)
		s := fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
		if r.IntN(3) == 0 {
			return same("the result", byte(c.do("mac_pton", strings.Replace(s, ":", ".", 1), make([]byte, 6)).AX), 0)
		}
		res := c.do("mac_pton", s, make([]byte, 6))
		return first(same("the result", byte(res.AX), 1), sameBytes(res.Buffers[1], m))
	},
	"in4_pton": func(c *caller, r *rand.Rand) string {
		a := data(r, 4, 4)
		s := fmt.Sprintf("%d.%d.%d.%d", a[0], a[1], a[2], a[3])
		res := c.do("in4_pton", s, -1, make([]byte, 4), -1, 0)
		return first(same("the result", i32(res), 1), sameBytes(res.Buffers[2], a))
	},
	"mktime64": func(c *caller, r *rand.Rand) string {
		t := time.Unix(r.Int64N(1<<34), 0).UTC()
		return same("the time", int64(c.do("mktime64", t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second()).AX), t.Unix())
	},
	"time64_to_tm": func(c *caller, r *rand.Rand) string {
		t := time.Unix(r.Int64N(1<<34), 0).UTC()
		b := c.do("time64_to_tm", t.Unix(), 0, make([]byte, 40)).Buffers[2]
		return sameTime(b, t, true)
	},
	"rtc_time64_to_tm": func(c *caller, r *rand.Rand) string {
		t := time.Unix(r.Int64N(1<<34), 0).UTC()
		return sameTime(c.do("rtc_time64_to_tm", t.Unix(), make([]byte, 40)).Buffers[1], t, false)
	},
	"jiffies_to_msecs": func(c *caller, r *rand.Rand) string {
		j := r.Uint64N(1 << 29)
		return same("the time", u32(c.do("jiffies_to_msecs", j)), uint32(j*1000/250))
	},
	"csum_partial": func(c *caller, r *rand.Rand) string {
		b, sum := data(r, 1, 100), r.Uint32()
		return same("the sum", fold(uint64(u32(c.do("csum_partial", b, len(b), sum)))), fold(sum16(b)+uint64(sum)))
	},
	"ip_compute_csum": func(c *caller, r *rand.Rand) string {
		b := data(r, 1, 100)
		return same("the sum", uint16(c.do("ip_compute_csum", b, len(b)).AX), ^fold(sum16(b)))
	},
	"sort": func(c *caller, r *rand.Rand) string {
		all := rows(r, 1+r.IntN(30), 5)
		res := c.do("sort", slices.Concat(all...), len(all), 5, symbol("strcmp"), 0)
		got := slices.Collect(slices.Chunk(res.Buffers[0], 5))
		slices.SortFunc(all, bytes.Compare)
		for i := range all {
			if p := same("a row", upTo(got[i]), upTo(all[i])); p != "" {
				return p
			}
		}
		return ""
	},
	"bsearch": func(c *caller, r *rand.Rand) string {
		all := rows(r, 1+r.IntN(30), 5)
		slices.SortFunc(all, bytes.Compare)
		key := word(r, 4)
		res := c.do("bsearch", key, slices.Concat(all...), len(all), 5, symbol("strcmp"))
		i := at(res, 1)
		if _, found := slices.BinarySearchFunc(all, key, func(row []byte, key string) int { return strings.Compare(upTo(row), key) }); !found {
			return same("the place", i, -1)
		}
		if i < 0 || i%5 != 0 || upTo(all[i/5]) != key {
			return fmt.Sprintf("%q is found at %d", key, i)
		}
		return ""
	},
	"LZ4_decompress_safe": func(c *caller, r *rand.Rand) string {
		text := []byte(strings.Repeat(word(r, 30)+"ab", 1+r.IntN(20)))
		packed := make([]byte, lz4.CompressBlockBound(len(text)))
		n, err := lz4.CompressBlock(text, packed, nil)
		if err != nil || n == 0 { // it does not shrink
			return ""
		}
		res := c.do("LZ4_decompress_safe", packed[:n], make([]byte, 2000), n, 2000)
		return first(same("the size", i32(res), int32(len(text))), sameBytes(res.Buffers[1][:len(text)], text))
	},
	"__crypto_memneq": func(c *caller, r *rand.Rand) string {
		a := data(r, 1, 60)
		b := bytes.Clone(a)
		b[r.IntN(len(b))] ^= byte(r.IntN(2)) << r.IntN(8)
		return same("the result", c.do("__crypto_memneq", a, b, len(a)).AX != 0, !bytes.Equal(a, b))
	},
	"__crypto_xor": func(c *caller, r *rand.Rand) string {
		a := data(r, 1, 60)
		b := data(r, len(a), len(a))
		want := make([]byte, len(a))
		for i := range a {
			want[i] = a[i] ^ b[i]
		}
		return sameBytes(c.do("__crypto_xor", make([]byte, len(a)), a, b, len(a)).Buffers[0], want)
	},
	"aes_expandkey": func(c *caller, r *rand.Rand) string { // every other context encrypts otherwise
		return encrypts(c, r)
	},
	"aes_encrypt": encrypts,
	"aes_decrypt": func(c *caller, r *rand.Rand) string {
		key, b := data(r, 16, 16), data(r, 16, 16)
		block, _ := aes.NewCipher(key)
		in := make([]byte, 16)
		block.Encrypt(in, b)
		ctx := c.do("aes_expandkey", make([]byte, 484), key, len(key)).Buffers[0]
		return sameBytes(c.do("aes_decrypt", ctx, make([]byte, 16), in).Buffers[1], b)
	},
	"chacha_block_generic": func(c *caller, r *rand.Rand) string {
		b := data(r, 64, 64)
		var state [16]uint32
		for i := range state {
			state[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
		rounds := []int{12, 20}[r.IntN(2)] // others warn
		want := chacha(state, rounds)
		binary.LittleEndian.PutUint32(b[48:], state[12])
		res := c.do("chacha_block_generic", b, make([]byte, 64), rounds)
		return first(sameBytes(res.Buffers[1], want), same("the counter", binary.LittleEndian.Uint32(res.Buffers[0][48:]), state[12]+1))
	},
	"snprintf": func(c *caller, r *rand.Rand) string {
		x, s, y := int32(any32(r)), word(r, 8), any64(r)
		n := 1 + r.IntN(60)
		want := fmt.Sprintf("%d|%8s|%-6x|%#x|%05d", x, s, y, y, 0)
		res := c.do("snprintf", make([]byte, 64), n, "%d|%8s|%-6llx|%#llx|%05d", uint32(x), s, y, y, 0)
		return first(same("the length", i32(res), int32(len(want))), same("the text", upTo(res.Buffers[0]), want[:min(len(want), n-1)]))
	},
	"hex_dump_to_buffer": func(c *caller, r *rand.Rand) string {
		b := data(r, 1, 16)
		res := c.do("hex_dump_to_buffer", b, len(b), 16, 1, make([]byte, 80), 80, 0)
		want := strings.TrimSpace(fmt.Sprintf("% x", b))
		return first(same("the length", i32(res), int32(len(want))), same("the text", upTo(res.Buffers[4]), want))
	},
	"utf8s_to_utf16s": func(c *caller, r *rand.Rand) string {
		s := strings.Map(func(x rune) rune { return x + rune(r.IntN(3))*0x100 }, word(r, 12)) + "z"
		res := c.do("utf8s_to_utf16s", s, len(s), 1, make([]byte, 64), 32) // little endian
		var want []byte
		for _, x := range s {
			want = binary.LittleEndian.AppendUint16(want, uint16(x))
		}
		return first(same("the length", i32(res), int32(len(want)/2)), sameBytes(res.Buffers[3][:len(want)], want))
	},
}

func encrypts(c *caller, r *rand.Rand) string {
	key, b := data(r, 16, 16), data(r, 16, 16)
	if r.IntN(2) == 0 {
		key = data(r, 32, 32)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err.Error()
	}
	want := make([]byte, 16)
	block.Encrypt(want, b)
	expanded := c.do("aes_expandkey", make([]byte, 484), key, len(key))
	return first(same("the result", i32(expanded), 0), sameBytes(c.do("aes_encrypt", expanded.Buffers[0], make([]byte, 16), b).Buffers[1], want))
}

func strscpy(name string) try {
	return func(c *caller, r *rand.Rand) string {
		s, n := word(r, 30), 1+r.IntN(39)
		res := c.do(name, make([]byte, 40), s, n)
		want := int64(len(s))
		if len(s) >= n {
			want = e2big
		}
		return first(same("the length", int64(res.AX), want), same("the copy", upTo(res.Buffers[0]), s[:min(len(s), n-1)]))
	}
}

func bitRange(name string, set bool) try {
	return func(c *caller, r *rand.Rand) string {
		b, n := bitmap(r)
		from := r.IntN(n)
		count := r.IntN(n - from + 1)
		got := c.do(name, b, from, count).Buffers[0]
		for i := range 8 * len(b) {
			want := bit(b, i)
			if from <= i && i < from+count {
				want = set
			}
			if bit(got, i) != want {
				return fmt.Sprintf("bit %d is %v", i, !want)
			}
		}
		return ""
	}
}

// simple makes a try of simple_strtoul and its kin, which take what is a number and say where it ends.
func simple(name string) try {
	return func(c *caller, r *rand.Rand) string {
		x := any64(r)
		s := fmt.Sprintf([]string{"%d", "0x%x", "0%o"}[r.IntN(3)], x)
		res := c.do(name, s+"z", make([]byte, 8), 0)
		return first(same("the number", res.AX, x), same("the end", binary.LittleEndian.Uint64(res.Buffers[1])-res.Addrs[0], uint64(len(s))))
	}
}

// sameTime compares a struct tm, whose year is a long, or a struct rtc_time.
func sameTime(b []byte, t time.Time, long bool) string {
	field := func(i int) int { return int(int32(binary.LittleEndian.Uint32(b[4*i:]))) }
	next := 6
	if long {
		next = 8 // after an alignment's gap and the upper half
	}
	year, first0 := 5, 1 // struct rtc_time counts the days of the year from 1
	if long {
		year, first0 = 6, 0
	}
	return first(same("the second", field(0), t.Second()), same("the minute", field(1), t.Minute()), same("the hour", field(2), t.Hour()),
		same("the day", field(3), t.Day()), same("the month", field(4), int(t.Month())-1), same("the year", field(year), t.Year()-1900),
		same("the weekday", field(next), int(t.Weekday())), same("the day of the year", field(next+1), t.YearDay()-1+first0))
}
