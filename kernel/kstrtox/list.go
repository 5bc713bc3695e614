package kstrtox

import "strings"

// ParseList is bitmap_parselist: it parses a list of numbers below n, 0,2-5,8-15:1/4, in
// which N is the last of them and all is 0-N. It returns which are in the list, and false
// if it is wrong.
func ParseList(list string, n int) ([]bool, bool) {
	set := make([]bool, n)
	for word := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r < 0x80 && IsSpace(byte(r)) }) {
		if !addRange(set, word) {
			return nil, false
		}
	}
	return set, true
}

// addRange adds FIRST, FIRST-LAST or FIRST-LAST:USED/GROUP to a set: of each group of so
// many numbers the first ones.
func addRange(set []bool, word string) bool {
	numbers, groups, grouped := strings.Cut(word, ":")
	first, last, isRange := strings.Cut(numbers, "-")
	if strings.EqualFold(numbers, "all") {
		first, last, isRange = "0", "N", true
	}
	if !isRange {
		last = first
	}
	from, ok1 := member(first, len(set))
	to, ok2 := member(last, len(set))
	if !ok1 || !ok2 || from > to || grouped && !isRange {
		return false
	}
	used, group := uint64(1), uint64(1)
	if grouped {
		u, g, ok := strings.Cut(groups, "/")
		if used, ok1 = decimal(u); !ok || !ok1 {
			return false
		}
		if group, ok2 = decimal(g); !ok2 || group == 0 || used > group {
			return false
		}
	}
	for i := from; i <= to; i++ {
		if (i-from)%group < used {
			set[i] = true
		}
	}
	return true
}

// member parses a number below n, or N for the last of them.
func member(s string, n int) (uint64, bool) {
	if s == "N" {
		return uint64(n - 1), true
	}
	v, ok := decimal(s)
	return v, ok && v < uint64(n)
}

func decimal(s string) (uint64, bool) {
	if !DigitFirst(s) {
		return 0, false
	}
	v, err := ParseUint(s, 10, 1<<32-1)
	return v, err == nil
}
