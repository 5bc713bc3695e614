package top

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/kprobefs/kprobefs/internal/look"
)

// line is a line of a view.
type line struct {
	key    string    // of a probe, by which the cursor finds it again
	spans  look.Line // empty for a probe, which is drawn as columns
	search string    // what the filter and the search see
}

// list is the lines of a view, and where the cursor is.
type list struct {
	all    []line
	lines  []line // what the filter lets through of all
	cursor int    // index in lines
	top    int    // the first line that is visible
	left   int    // the first column that is visible
	held   bool   // the user has chosen the line of the cursor
	tail   bool   // new lines come at the end
	follow bool   // the cursor stays at the end
}

// set replaces the lines. The cursor stays at the probe that the user has chosen, or at its number.
func (l *list) set(all []line, filter string) {
	key := l.key()
	l.all = all
	l.lines = all
	if filter != "" {
		l.lines = slices.DeleteFunc(slices.Clone(all), func(at line) bool { return !contains(at.search, filter) })
	}
	if key != "" && l.held {
		if i := slices.IndexFunc(l.lines, func(at line) bool { return at.key == key }); i >= 0 {
			l.cursor = i
		}
	}
	if l.follow {
		l.cursor = len(l.lines) - 1
	}
	l.move(0)
}

// contains ignores case unless the pattern has a capital letter, as lnav and less -i do.
func contains(text, pattern string) bool {
	if strings.IndexFunc(pattern, unicode.IsUpper) < 0 {
		text = strings.ToLower(text)
	}
	return strings.Contains(text, pattern)
}

func (l *list) key() string {
	if l.cursor < 0 || l.cursor >= len(l.lines) {
		return ""
	}
	return l.lines[l.cursor].key
}

// move moves the cursor. At the end of a view that grows there, it stays at the end.
func (l *list) move(n int) {
	l.cursor = max(min(l.cursor+n, len(l.lines)-1), 0)
	if n != 0 {
		l.held = true
		l.follow = l.tail && l.cursor == len(l.lines)-1
	}
}

// visible returns the lines that are on a screen of a height, so that the cursor is among them.
func (l *list) visible(height int) []line {
	l.top = min(l.top, l.cursor)
	l.top = max(l.top, l.cursor-height+1, 0)
	l.top = max(min(l.top, len(l.lines)-height), 0)
	return l.lines[l.top:min(l.top+height, len(l.lines))]
}

// find moves the cursor to the next line with a text, in direction 1 or -1, from the line that is
// skip lines away.
func (l *list) find(pattern string, direction, skip int) bool {
	n := len(l.lines)
	for i := range n {
		at := ((l.cursor+direction*(i+skip))%n + n) % n
		if contains(l.lines[at].search, pattern) {
			l.move(at - l.cursor)
			return true
		}
	}
	return false
}

// safe replaces characters that would control the terminal: a task may have any name.
func safe(text string) string {
	if strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\t':
			b.WriteString("    ")
		case unicode.IsControl(r):
			fmt.Fprintf(&b, "\\x%02x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
