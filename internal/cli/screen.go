package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/look"
)

// Color is a parameter of the terminal's "select graphic rendition" (ECMA-48).
type Color string

// The colours.
const (
	Plain   Color = ""
	Bold    Color = "1"
	Dim     Color = "2"
	Red     Color = "31"
	Green   Color = "32"
	Yellow  Color = "33"
	Magenta Color = "35"
	Cyan    Color = "36"
)

// LookColors are the colours of what package look shows.
var LookColors = map[look.Style]Color{
	look.Plain: Plain, look.Heading: Bold, look.Faint: Dim, look.Int3: Red, look.Optimized: Magenta,
	look.Ftrace: Cyan, look.Probed: Green, look.Outside: Yellow, look.Bad: Red,
}

// Screen is the output of a command for people. On a terminal it has colours, unless NO_COLOR is
// set, and no control characters from the text: a task may have any name.
type Screen struct {
	io.Writer
	terminal bool
	Colors   bool
}

// Terminal reports whether a person reads the output.
func (s Screen) Terminal() bool { return s.terminal }

// NewScreen returns the screen of an output.
func NewScreen(w io.Writer) Screen {
	s := Screen{Writer: w}
	if f, ok := w.(*os.File); ok {
		s.terminal = IsTerminal(f)
	}
	s.Colors = s.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Paint returns text in a colour.
func (s Screen) Paint(c Color, text string) string {
	text = s.Safe(text)
	if !s.Colors || c == Plain {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Safe replaces characters that would control the terminal.
func (s Screen) Safe(text string) string {
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
