package sysctl

import (
	"bytes"
	"fmt"
	"math"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Bounds is the extra1 and extra2 of a row, both included.
type Bounds struct{ Min, Max int }

// anyInt is proc_dointvec: whatever an int of C holds.
var anyInt = Bounds{math.MinInt32, math.MaxInt32}

// maxNumber is the length from which a number is refused unparsed: TMPBUFLEN-1.
const maxNumber = 21

// ParseInt is do_proc_dointvec for one int: blanks, a number, blanks. n is how many
// bytes of data count as written: up to the end of the blanks after the number, or all
// of data if that is more than a page away, because only a page less one byte is looked
// at.
//
// It fails with EINVAL if there is no number, if something other than a blank follows
// it, if it has 21 characters or more, or if it is out of bounds.
func ParseInt(data []byte, b Bounds) (v, n int, err error) {
	page := data[:min(len(data), abi.PageSize-1)]
	rest := skipSpaces(page)
	num, size, err := parseLong(rest)
	if err != nil {
		return 0, 0, err
	}
	if num < int64(b.Min) || num > int64(b.Max) {
		return 0, 0, fmt.Errorf("%d is not from %d to %d: %w", num, b.Min, b.Max, syscall.EINVAL)
	}
	left := skipSpaces(rest[size:])
	return int(num), len(data) - len(left), nil
}

// skipSpaces skips the kernel's isspace, which includes the no-break space of Latin-1.
func skipSpaces(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' || c == 0xa0 }

// parseLong is proc_get_long: a number with an optional sign, before a blank (space,
// tab or newline) or the end.
func parseLong(b []byte) (v int64, size int, err error) {
	head := b[:min(len(b), maxNumber)]
	digits := head
	neg := len(b) > 1 && head[0] == '-'
	if neg {
		digits = digits[1:]
	}
	magnitude, n, ok := parseUlong(digits)
	size = len(head) - len(digits) + n
	switch {
	case !ok:
		err = syscall.EINVAL
	case size == maxNumber:
		err = syscall.EINVAL // more digits may follow
	case size < len(b) && bytes.IndexByte([]byte(" \t\n"), b[size]) < 0:
		err = syscall.EINVAL
	case magnitude > math.MaxInt32+1:
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%.24q is no number: %w", b, err)
	}
	v = int64(magnitude)
	if neg {
		v = -v
	}
	return v, size, nil
}

// parseUlong is strtoul_lenient with base 0: 0x and hexadecimal digits, 0 and octal
// digits, or decimal digits. ok is false without digits and on overflow.
func parseUlong(b []byte) (v uint64, n int, ok bool) {
	base := uint64(10)
	if len(b) > 0 && b[0] == '0' {
		base = 8
		if len(b) > 2 && b[1]|0x20 == 'x' && digit(b[2]) < 16 {
			base, n = 16, 2
		}
	}
	start := n
	for n < len(b) && digit(b[n]) < base {
		d := digit(b[n])
		if v > (math.MaxUint64-d)/base {
			return 0, n, false
		}
		v = v*base + d
		n++
	}
	return v, n, n > start
}

// digit returns the value of a digit, or 255 for other bytes.
func digit(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return uint64(c|0x20-'a') + 10
	}
	return 255
}
