package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/internal/look"
)

func TestPrintRecord(t *testing.T) {
	var b strings.Builder
	if err := printRecord(&b, look.LogRecord{Usec: 1234567, Text: "a\nb"}); err != nil || b.String() != "[    1.234567] a\n[    1.234567] b\n" {
		t.Errorf("%q, %v", b.String(), err)
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

// TestModuleAndArgs: what is behind the first blank are arguments, unless a file has the
// whole as its name.
func TestModuleAndArgs(t *testing.T) {
	blank := filepath.Join(t.TempDir(), "a b.ko")
	if err := os.WriteFile(blank, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{{"x.ko", "x.ko", ""}, {"x.ko a=1 b", "x.ko", "a=1 b"}, {blank, blank, ""}} {
		if file, args := moduleAndArgs(c[0]); file != c[1] || args != c[2] {
			t.Errorf("%q: %q, %q", c[0], file, args)
		}
	}
}
