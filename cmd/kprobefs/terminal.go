package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/look"
)

// color is a parameter of the terminal's "select graphic rendition" (ECMA-48).
type color string

const (
	plain   color = ""
	bold    color = "1"
	dim     color = "2"
	red     color = "31"
	green   color = "32"
	yellow  color = "33"
	magenta color = "35"
	cyan    color = "36"
)

// lookColors are the colours of what package look shows.
var lookColors = map[look.Style]color{
	look.Plain: plain, look.Heading: bold, look.Faint: dim, look.Int3: red, look.Optimized: magenta,
	look.Ftrace: cyan, look.Probed: green, look.Outside: yellow, look.Bad: red,
}

// screen is the output of a command for people. On a terminal it has colours, unless NO_COLOR is
// set, and no control characters from the text: a task may have any name.
type screen struct {
	io.Writer
	terminal bool
	colors   bool
}

// newScreen returns the screen of an output.
func newScreen(w io.Writer) screen {
	s := screen{Writer: w}
	if f, ok := w.(*os.File); ok {
		s.terminal = isTerminal(f)
	}
	s.colors = s.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// paint returns text in a colour.
func (s screen) paint(c color, text string) string {
	text = s.safe(text)
	if !s.colors || c == plain {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// safe replaces characters that would control the terminal.
func (s screen) safe(text string) string {
	if !s.terminal || strings.IndexFunc(text, controls) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if controls(r) {
			fmt.Fprintf(&b, "\\x%02x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func controls(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }
