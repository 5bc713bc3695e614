package tour

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/internal/look"
)

// TestSteps: the table is one that can be played: that it is, with a machine, is a test of the
// command.
func TestSteps(t *testing.T) {
	names := map[string]bool{}
	chapters := map[string]bool{}
	for i, s := range Steps {
		if names[s.Name] || s.Name == "" || strings.ContainsAny(s.Name, " 0123456789") {
			t.Errorf("step %d: the name %q", i+1, s.Name)
		}
		names[s.Name] = true
		if i > 0 && s.Chapter != Steps[i-1].Chapter && chapters[s.Chapter] {
			t.Errorf("%s: the chapter %q has begun before", s.Name, s.Chapter)
		}
		chapters[s.Chapter] = true
		if n := strings.Count(s.Says+" ", ". "); n < 2 || n > 5 {
			t.Errorf("%s says %d sentences", s.Name, n)
		}
		if s.See == "" || s.Shows == "" || s.Look == "" || s.Title == "" {
			t.Errorf("%s: %+v", s.Name, s)
		}
		if re, err := regexp.Compile(s.Shows); err != nil || re.MatchString("") {
			t.Errorf("%s shows %q: %v, or nothing", s.Name, s.Shows, err)
		}
		if n, err := Find(s.Name); n != i || err != nil {
			t.Errorf("%s is %d, %v", s.Name, n, err)
		}
	}
	var b strings.Builder
	if err := List(&b); err != nil || strings.Count(b.String(), "\n") != len(Steps)+len(chapters) {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

// TestFind: a step has a number and a name.
func TestFind(t *testing.T) {
	for name, want := range map[string]int{"1": 0, "2": 1, "kernel": 0, "define": 2} {
		if got, err := Find(name); got != want || err != nil {
			t.Errorf("%s is %d, %v", name, got, err)
		}
	}
	for _, name := range []string{"0", "-1", "1000", "", "nosuch"} {
		if _, err := Find(name); err == nil {
			t.Errorf("%q is a step", name)
		}
	}
}

// TestPlacesInside: the place for a jump is behind the compiler's endbr64 and ftrace's nop, and
// another instruction begins in its five bytes.
func TestPlacesInside(t *testing.T) {
	for _, c := range []struct {
		text          string
		first, second uint64
		ok            bool
	}{
		{"f:\n  00  +0x0    f3 0f 1e fa                    (bad)\n  00  +0x4    0f 1f 44 00 00                 nopl (%rax,%rax)\n  00  +0x9    41 55                          push %r13\n  00  +0xb    c3                             ret\n", 9, 11, true},
		{"f:\n  00  +0x0    0f 1f 44 00 00                 nopl (%rax,%rax)\n  00  +0x5    48 b8 00 f0 ff ff ff 7f 00 00  mov $1,%rax\n  00  +0xf    c3                             ret\n", 0, 0, false},
		{"", 0, 0, false},
	} {
		functions, _ := look.ParseFunctions(c.text, "")
		if first, second, ok := placesInside(functions); first != c.first || second != c.second || ok != c.ok {
			t.Errorf("%q: %d, %d, %v", c.text, first, second, ok)
		}
	}
}
