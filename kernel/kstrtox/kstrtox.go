// Package kstrtox parses numbers, truth values and words as Linux does where programs
// write them to files: lib/kstrtox.c, lib/vsprintf.c's older simple_strtoul,
// lib/argv_split.c, and the classes of characters of lib/ctype.c.
//
// It knows nothing of the files. Errors wrap EINVAL for what is not a number, and
// ERANGE for one that does not fit.
package kstrtox

import (
	"fmt"
	"math"
	"strings"
	"syscall"
)

// ParseUint is kstrtoull: an optional plus sign, digits of the base (0 takes the base
// from the prefix, as in C) and at most one newline at the end. It fails with EINVAL if
// s is not a number, and with ERANGE if the value is above limit or the digits overflow
// 64 bits, even if garbage follows them.
func ParseUint(s string, base, limit uint64) (uint64, error) {
	digits := strings.TrimSuffix(strings.TrimPrefix(s, "+"), "\n")
	base, digits = radix(digits, base)
	v, n, overflow := integer(digits, base)
	switch {
	case n == 0 || !overflow && n < len(digits):
		return 0, fmt.Errorf("%q is not a number: %w", s, syscall.EINVAL)
	case overflow || v > limit:
		return 0, fmt.Errorf("%q is too big: %w", s, syscall.ERANGE)
	}
	return v, nil
}

// ParseInt is kstrtoll: ParseUint with a minus sign.
func ParseInt(s string, base uint64) (int64, error) {
	if rest, ok := strings.CutPrefix(s, "-"); ok && !strings.HasPrefix(rest, "+") {
		v, err := ParseUint(rest, base, 1<<63)
		return -int64(v), err
	}
	v, err := ParseUint(s, base, math.MaxInt64)
	return int64(v), err
}

// FromUser is kstrtoul_from_user with base 10: it only looks at as many bytes of a
// write as the longest number takes, up to a NUL. It fails as ParseUint.
func FromUser(data []byte) (uint64, error) {
	const longest = 1 + 64 + 1 // sign, bits, newline
	return ParseUint(CString(data[:min(len(data), longest)]), 10, math.MaxUint64)
}

// ParseBool is kstrtobool: the first byte decides, and after an o the second. Anything
// else is EINVAL.
func ParseBool(data []byte) (bool, error) {
	switch at(data, 0) {
	case 'y', 'Y', 't', 'T', '1':
		return true, nil
	case 'n', 'N', 'f', 'F', '0':
		return false, nil
	case 'o', 'O':
		switch at(data, 1) {
		case 'n', 'N':
			return true, nil
		case 'f', 'F':
			return false, nil
		}
	}
	return false, fmt.Errorf("%.8q is neither on nor off: %w", data, syscall.EINVAL)
}

// at returns data[i], or 0 past the end.
func at(data []byte, i int) byte {
	if i < len(data) {
		return data[i]
	}
	return 0
}

// SimpleUint is simple_strtoull: it returns the number at the start of s, 0 if there is
// none, and what follows it. A number of more than 64 bits wraps.
func SimpleUint(s string, base uint64) (v uint64, rest string) {
	base, digits := radix(s, base)
	v, n, _ := integer(digits, base)
	return v, digits[n:]
}

// LenientUint is strtoul_lenient with base 0: it returns the number at the start of s
// and how many bytes it has; what follows them does not matter. It fails with EINVAL if
// there is none, and with ERANGE if it needs more than 64 bits.
func LenientUint(s string) (v uint64, n int, err error) {
	base, digits := radix(s, 0)
	v, n, overflow := integer(digits, base)
	switch {
	case n == 0:
		err = syscall.EINVAL
	case overflow:
		err = syscall.ERANGE
	}
	return v, len(s) - len(digits) + n, err
}

// radix is _parse_integer_fixup_radix: it takes the base from the prefix of a number,
// if base is 0, and returns what follows a prefix 0x.
func radix(s string, base uint64) (uint64, string) {
	hex := len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && Digit(s[2]) < 16
	switch {
	case base == 0 && hex:
		base = 16
	case base == 0 && len(s) > 0 && s[0] == '0':
		base = 8
	case base == 0:
		base = 10
	}
	if base == 16 && hex {
		s = s[2:]
	}
	return base, s
}

// integer is _parse_integer: the value of the n digits of the base at the start of s,
// modulo 2^64.
func integer(s string, base uint64) (v uint64, n int, overflow bool) {
	for ; n < len(s) && Digit(s[n]) < base; n++ {
		d := Digit(s[n])
		overflow = overflow || v > (math.MaxUint64-d)/base
		v = v*base + d
	}
	return v, n, overflow
}

// Digit returns the value of a digit of a base up to 36, or 255 for other bytes.
func Digit(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'z':
		return uint64(c|0x20-'a') + 10
	}
	return 255
}
