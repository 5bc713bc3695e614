package main

import (
	"strings"
	"testing"
)

// TestReport: a block that any test binary has executed counts once, as executed.
func TestReport(t *testing.T) {
	profile := `mode: set
m/a/x.go:1.1,2.2 3 0
m/a/x.go:1.1,2.2 3 1
m/a/y.go:1.1,2.2 1 0
m/b/z.go:1.1,2.2 2 0
`
	var out strings.Builder
	if err := report(strings.NewReader(profile), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "  0.0 %  m/b\n 75.0 %  m/a\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := report(strings.NewReader("mode: set\na b c\n"), &out); err == nil {
		t.Error("an invalid count was accepted")
	}
}
