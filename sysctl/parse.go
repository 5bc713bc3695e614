package sysctl

import (
	"fmt"
	"math"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
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
	rest := kstrtox.SkipSpaces(string(page))
	neg, magnitude, size, err := parseLong(rest)
	if err == nil && magnitude > math.MaxInt32+1 {
		err = fmt.Errorf("%.24q is no int: %w", rest, syscall.EINVAL)
	}
	if err != nil {
		return 0, 0, err
	}
	num := int64(magnitude)
	if neg {
		num = -num
	}
	if num < int64(b.Min) || num > int64(b.Max) {
		return 0, 0, fmt.Errorf("%d is not from %d to %d: %w", num, b.Min, b.Max, syscall.EINVAL)
	}
	left := kstrtox.SkipSpaces(rest[size:])
	return int(num), len(data) - len(left), nil
}

// parseUnsigned is do_proc_doulongvec for one unsigned long. It fails with EINVAL as
// ParseInt does, and for a number with a minus sign.
func parseUnsigned(data []byte) (v uint64, n int, err error) {
	page := data[:min(len(data), abi.PageSize-1)]
	rest := kstrtox.SkipSpaces(string(page))
	neg, v, size, err := parseLong(rest)
	if err == nil && neg {
		err = fmt.Errorf("%.24q is negative: %w", rest, syscall.EINVAL)
	}
	if err != nil {
		return 0, 0, err
	}
	return v, len(data) - len(kstrtox.SkipSpaces(rest[size:])), nil
}

// parseLong is proc_get_long: a number with an optional sign, before a blank (space,
// tab or newline) or the end.
func parseLong(s string) (neg bool, magnitude uint64, size int, err error) {
	head := s[:min(len(s), maxNumber)]
	digits := head
	neg = len(s) > 1 && head[0] == '-'
	if neg {
		digits = digits[1:]
	}
	magnitude, n, err := kstrtox.LenientUint(digits)
	size = len(head) - len(digits) + n
	switch {
	case err != nil:
		err = syscall.EINVAL
	case size == maxNumber:
		err = syscall.EINVAL // more digits may follow
	case size < len(s) && strings.IndexByte(" \t\n", s[size]) < 0:
		err = syscall.EINVAL
	}
	if err != nil {
		return false, 0, 0, fmt.Errorf("%.24q is no number: %w", s, err)
	}
	return neg, magnitude, size, nil
}
