package filter

import (
	"bytes"
	"strings"
)

// Pattern is struct regex: a pattern for strings.
type Pattern struct {
	kind patternKind
	text string
	Not  bool // the pattern began with a "!"
}

type patternKind byte

const (
	matchFull patternKind = iota
	matchFront
	matchMiddle
	matchEnd
	matchGlob
)

// Matches compares the text in room with the pattern; room is the whole array, not only
// the text. As in the kernel, a pattern for the end is compared with the end of the
// array, not of the text: for a task's name these are bytes up to the 15th.
func (m *Pattern) Matches(room []byte) bool {
	text := room
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	return m.holds(text, room) != m.Not
}

func (m *Pattern) holds(name, room []byte) bool {
	switch m.kind {
	case matchFront:
		return len(name) >= len(m.text) && string(name[:len(m.text)]) == m.text
	case matchEnd:
		end := len(room)
		return len(m.text) <= end && string(room[end-len(m.text):]) == m.text
	case matchMiddle:
		for i := 0; i+len(m.text) <= len(name); i++ {
			if string(name[i:i+len(m.text)]) == m.text {
				return true
			}
		}
		return false
	case matchGlob:
		return globMatch(m.text, name)
	case matchFull:
	}
	return string(name) == m.text
}

// NewPattern is filter_parse_regex: it determines the kind of the pattern after
// "~".
func NewPattern(pattern string) Pattern {
	m := Pattern{}
	pattern, m.Not = strings.CutPrefix(pattern, "!")
	inner := strings.TrimSuffix(strings.TrimPrefix(pattern, "*"), "*")
	starts, ends := strings.HasPrefix(pattern, "*"), len(pattern) > 1 && strings.HasSuffix(pattern, "*")
	switch {
	case strings.ContainsAny(inner, `*[?\`):
		m.kind, inner = matchGlob, pattern
	case starts && ends:
		m.kind = matchMiddle
	case starts:
		m.kind = matchEnd
	case ends:
		m.kind = matchFront
	}
	m.text = inner
	return m
}

// Exact returns the pattern that only that text matches.
func Exact(text string) Pattern { return Pattern{text: text} }

// Covers reports whether the name is like the pattern without its "!".
func (m *Pattern) Covers(name []byte) bool { return m.holds(name, name) }

// OpenEnd reports whether the pattern is a text and a "*" after it, which the kernel cuts
// off where it parses the pattern.
func (m *Pattern) OpenEnd() bool { return m.kind == matchFront || m.kind == matchMiddle }

// globMatch is glob_match: "*" matches any text, "?" any byte, "[a-z]" and "[!a-z]" one
// byte in or not in a set, and "\" takes the next byte literally. After a mismatch,
// only the last "*" needs to be tried again.
func globMatch(pattern string, s []byte) bool {
	star, resume := -1, 0
	for p, i := 0, 0; ; {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, resume = p, i
			continue
		}
		if p == len(pattern) && i == len(s) {
			return true
		}
		if p < len(pattern) && i < len(s) {
			if n, ok := globByte(pattern[p:], s[i]); ok {
				p, i = p+n, i+1
				continue
			}
		}
		if star < 0 || resume >= len(s) {
			return false
		}
		resume++
		p, i = star, resume
	}
}

// globByte compares one byte with the start of the pattern and returns the length of
// that part of the pattern.
func globByte(pattern string, c byte) (n int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		if n, ok, valid := globSet(pattern, c); valid {
			return n, ok
		}
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	}
	return 1, pattern[0] == c
}

// globSet compares c with a set in brackets; valid is false if the bracket is not
// closed.
func globSet(pattern string, c byte) (n int, ok, valid bool) {
	i := 1
	not := i < len(pattern) && pattern[i] == '!'
	if not {
		i++
	}
	for first := i; i < len(pattern); {
		if pattern[i] == ']' && i > first {
			return i + 1, ok != not, true
		}
		low, high := pattern[i], pattern[i]
		i++
		if i+1 < len(pattern) && pattern[i] == '-' && pattern[i+1] != ']' {
			high = pattern[i+1]
			i += 2
		}
		ok = ok || low <= c && c <= high
	}
	return 0, false, false
}
