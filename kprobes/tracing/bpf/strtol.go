package bpf

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"syscall"
)

// strto is bpf_strtol, or bpf_strtoul: it stores the number at the begin of a text, and returns how many characters that took.
func strto(signed bool) func(r *run, a *[numArgs]uint64) uint64 {
	return func(r *run, a *[numArgs]uint64) uint64 {
		text := r.fetch(a[0], int(uint32(a[1])))
		if text == nil {
			return 0
		}
		number, negative, n, err := parseNumber(text, a[2])
		switch {
		case err != nil:
			return errno(err)
		case !signed && negative:
			return errno(syscall.EINVAL)
		case !signed:
		case negative && number > -math.MinInt64, !negative && number > math.MaxInt64:
			return errno(syscall.ERANGE)
		case negative:
			number = -number
		}
		r.store(a[3], number, 8)
		return uint64(n)
	}
}

// parseNumber is __bpf_strtoull. The base is 8, 10 or 16, or 0 if the text says it.
func parseNumber(text []byte, base uint64) (number uint64, negative bool, n int, err error) {
	const longest = 63 // characters that are looked at
	if base != 0 && base != 8 && base != 10 && base != 16 || len(text) == 0 {
		return 0, false, 0, syscall.EINVAL
	}
	blanks := 0
	for blanks < len(text) && (text[blanks] == ' ' || text[blanks] >= '\t' && text[blanks] <= '\r' || text[blanks] == 0xa0) {
		blanks++
	}
	s := string(text[blanks:])
	rest, negative := strings.CutPrefix(s, "-")
	if len(rest) == 0 {
		return 0, false, 0, syscall.EINVAL
	}
	rest = rest[:min(len(rest), longest)]
	end := len(rest)
	hex := len(rest) > 2 && rest[0] == '0' && rest[1]|0x20 == 'x' && isDigit(rest[2], 16)
	switch {
	case base == 0 && hex:
		base = 16
	case base == 0 && rest[0] == '0':
		base = 8
	case base == 0:
		base = 10
	}
	if base == 16 && len(rest) > 1 && rest[0] == '0' && rest[1]|0x20 == 'x' {
		rest = rest[2:]
	}
	digits := 0
	for digits < len(rest) && isDigit(rest[digits], base) {
		digits++
	}
	if digits == 0 {
		return 0, false, 0, syscall.EINVAL
	}
	number, failed := strconv.ParseUint(rest[:digits], int(base), 64)
	if errors.Is(failed, strconv.ErrRange) {
		return 0, false, 0, syscall.ERANGE
	}
	n = blanks + end - len(rest) + digits
	if negative {
		n++
	}
	return number, negative, n, nil
}

func isDigit(c byte, base uint64) bool {
	_, err := strconv.ParseUint(string(rune(c)), int(base), 8)
	return err == nil && c != '_' && c != '+'
}
