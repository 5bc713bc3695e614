package tracing

import (
	"fmt"
	"math"
	"strings"
	"syscall"
)

// parseUint is kstrtoull: an optional plus sign, digits of the base (0 takes the base
// from the prefix, as in C) and at most one newline at the end. It fails with EINVAL if
// s is not a number, and with ERANGE if the value is above limit or the digits overflow
// 64 bits, even if garbage follows them.
func parseUint(s string, base uint64, limit uint64) (uint64, error) {
	digits := strings.TrimSuffix(strings.TrimPrefix(s, "+"), "\n")
	base, digits = radix(digits, base)
	if digits == "" {
		return 0, fmt.Errorf("%q is not a number: %w", s, syscall.EINVAL)
	}
	var v uint64
	n, overflow := 0, false
	for ; n < len(digits) && digit(digits[n]) < base; n++ {
		d := digit(digits[n])
		overflow = overflow || v > (math.MaxUint64-d)/base
		v = v*base + d
	}
	switch {
	case !overflow && n < len(digits):
		return 0, fmt.Errorf("%q is not a number: %w", s, syscall.EINVAL)
	case overflow || v > limit:
		return 0, fmt.Errorf("%q is too big: %w", s, syscall.ERANGE)
	}
	return v, nil
}

// parseInt is kstrtol: parseUint with a minus sign.
func parseInt(s string, base uint64) (int64, error) {
	if rest, ok := strings.CutPrefix(s, "-"); ok && !strings.HasPrefix(rest, "+") {
		v, err := parseUint(rest, base, 1<<63)
		return -int64(v), err
	}
	v, err := parseUint(s, base, math.MaxInt64)
	return int64(v), err
}

// radix is _parse_integer_fixup_radix: it takes the base from the prefix of a number.
func radix(s string, base uint64) (uint64, string) {
	hex := len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && digit(s[2]) < 16
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

func digit(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'z':
		return uint64(c|0x20-'a') + 10
	}
	return 255
}

// userNumber is kstrtoul_from_user with base 10: it only looks at as many bytes of a
// write as the longest number takes.
func userNumber(data []byte) (uint64, error) {
	const longest = 1 + 64 + 1 // sign, bits, newline
	s := string(data[:min(len(data), longest)])
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return parseUint(s, 10, math.MaxUint64)
}

// isSpace is the kernel's isspace: ASCII white space and the no-break space of Latin-1.
func isSpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r' || c == 0xa0
}

// isAlpha is the kernel's isalpha, which includes the letters of Latin-1.
func isAlpha(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0xc0 && c != 0xd7 && c != 0xf7
}

// argvSplit is argv_split: the words between blanks.
func argvSplit(s string) []string {
	var argv []string
	for i := 0; i < len(s); {
		if isSpace(s[i]) {
			i++
			continue
		}
		j := i
		for j < len(s) && !isSpace(s[j]) {
			j++
		}
		argv = append(argv, s[i:j])
		i = j
	}
	return argv
}

// trimSpace is strstrip.
func trimSpace(s string) string {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	for s != "" && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// nextWord is trace_get_user, for files that accept a list of words: one write consumes
// one word and returns how many bytes that was; the program writes the rest again.
// Leading blanks and one trailing blank or NUL are consumed with the word. The word is
// empty if there are only blanks, or at a NUL. It fails with EINVAL if the word and a
// NUL do not fit into size bytes.
func nextWord(data []byte, size int) (word string, used int, err error) {
	i := 0
	for i < len(data) && isSpace(data[i]) {
		i++
	}
	start := i
	for i < len(data) && !isSpace(data[i]) && data[i] != 0 {
		i++
	}
	if i-start >= size {
		return "", 0, fmt.Errorf("a word of %d bytes: %w", i-start, syscall.EINVAL)
	}
	return string(data[start:i]), min(i+1, len(data)), nil
}
