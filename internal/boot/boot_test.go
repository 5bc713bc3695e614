package boot

import (
	"os"
	"path/filepath"
	"testing"
)

// TestModuleAndArgs: what is behind the first blank are arguments, unless a file has the
// whole as its name.
func TestModuleAndArgs(t *testing.T) {
	blank := filepath.Join(t.TempDir(), "a b.ko")
	if err := os.WriteFile(blank, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{{"x.ko", "x.ko", ""}, {"x.ko a=1 b", "x.ko", "a=1 b"}, {blank, blank, ""}} {
		if file, args := ModuleAndArgs(c[0]); file != c[1] || args != c[2] {
			t.Errorf("%q: %q, %q", c[0], file, args)
		}
	}
}
