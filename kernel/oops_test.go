package kernel

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// TestTainted checks the flags' letters as 6.1 prints them.
func TestTainted(t *testing.T) {
	m := &Machine{has: release.Default.Set()}
	for _, tc := range []struct{ letters, want string }{
		{"", "Not tainted"},
		{"?", "Not tainted"},
		{"OE", "Tainted: G           OE     "},
		{"W", "Tainted: G        W  OE     "},
		{"PD", "Tainted: P      D W  OE     "},
	} {
		for i := range tc.letters {
			m.Taint(tc.letters[i])
		}
		if got := m.tainted(); got != tc.want {
			t.Errorf("after %q: %q, want %q", tc.letters, got, tc.want)
		}
	}
}

// TestTainted26: up to 2.6.32 there are fewer flags: an out-of-tree module is none.
func TestTainted26(t *testing.T) {
	m := &Machine{has: release.Linux2_6_32.Set()}
	for _, tc := range []struct{ letters, want string }{{"OE", "Not tainted"}, {"D", "Tainted: G      D   "}, {"P", "Tainted: P      D   "}} {
		for i := range tc.letters {
			m.Taint(tc.letters[i])
		}
		if got := m.tainted(); got != tc.want {
			t.Errorf("after %q: %q, want %q", tc.letters, got, tc.want)
		}
	}
}
