package kernel

import "testing"

// TestTainted checks the flags' letters as 6.1 prints them.
func TestTainted(t *testing.T) {
	m := &Machine{}
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
