package kstrtox

import "strings"

// IsSpace is isspace: ASCII white space and the no-break space of Latin-1.
func IsSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' || c == 0xa0 }

// IsAlpha is isalpha, which includes the letters of Latin-1.
func IsAlpha(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0xc0 && c != 0xd7 && c != 0xf7
}

// IsAlnum is isalnum: isalpha and isdigit.
func IsAlnum(c byte) bool { return IsAlpha(c) || '0' <= c && c <= '9' }

// DigitFirst reports whether s begins with a decimal digit.
func DigitFirst(s string) bool { return s != "" && '0' <= s[0] && s[0] <= '9' }

// CString returns the data of a write up to the first NUL, as the kernel's functions for
// strings see them.
func CString(data []byte) string {
	s, _, _ := strings.Cut(string(data), "\x00")
	return s
}

// SkipSpaces is skip_spaces.
func SkipSpaces(s string) string {
	for s != "" && IsSpace(s[0]) {
		s = s[1:]
	}
	return s
}

// Strip is strstrip: s without the white space around it.
func Strip(s string) string {
	s = SkipSpaces(s)
	for s != "" && IsSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// ArgvSplit is argv_split: the words between white space.
func ArgvSplit(s string) []string {
	var argv []string
	for i := 0; i < len(s); {
		if IsSpace(s[i]) {
			i++
			continue
		}
		j := i
		for j < len(s) && !IsSpace(s[j]) {
			j++
		}
		argv = append(argv, s[i:j])
		i = j
	}
	return argv
}
