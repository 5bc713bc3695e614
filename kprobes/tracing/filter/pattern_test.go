package filter

import (
	"testing"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"a*b*c", "axxbyyc", true},
		{"a*b*c", "axxbyy", false},
		{"*", "", true},
		{"**", "x", true},
		{"?", "", false},
		{"", "", true},
		{"", "a", false},
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{"[]]", "]", true},
		{"[a", "[a", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{"a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaa", false},
		{"[a-]", "-", true},
		{"*.c", "x.c", true},
		{"[", "[", true},
	} {
		if got := globMatch(c.pattern, []byte(c.s)); got != c.want {
			t.Errorf("%q against %q: %v", c.pattern, c.s, got)
		}
	}
}
