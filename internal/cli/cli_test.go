package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestScreen: colours and control characters are for terminals only.
func TestScreen(t *testing.T) {
	for _, c := range []struct {
		s    Screen
		want string
	}{
		{Screen{}, "a\x1b]0;b"},
		{Screen{terminal: true}, `a\x1b]0;b`},
		{Screen{terminal: true, Colors: true}, "\x1b[31m" + `a\x1b]0;b` + "\x1b[0m"},
	} {
		if got := c.s.Paint(Red, "a\x1b]0;b"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !NewScreen(master).Colors {
		t.Error("no colours on a terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if NewScreen(master).Colors {
		t.Error("colours in spite of NO_COLOR")
	}
}

// TestOnlyTree: without --at the one tree that is mounted is meant; parts of trees do not
// count.
func TestOnlyTree(t *testing.T) {
	part, one, two := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if err := os.Mkdir(filepath.Join(dir, "machine"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := onlyTree([]string{part, one}); got != one || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := onlyTree([]string{part}); err == nil {
		t.Error("a part of a tree is taken for one")
	}
	if _, err := onlyTree([]string{one, two}); err == nil || !strings.Contains(err.Error(), two) {
		t.Errorf("of two: %v", err)
	}
}
