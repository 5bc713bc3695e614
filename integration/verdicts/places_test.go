package verdicts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/integration/linux"
	"github.com/kprobefs/kprobefs/integration/verdicts"
)

// cached returns the kernel that a recording names, or skips the test where it has not been
// downloaded: "golden verdicts check", a part of make check, does that.
func cached(t *testing.T, name string) *linux.Kernel {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	pkg, version, _ := strings.Cut(name, " ")
	if _, err := os.Stat(filepath.Join(cache, "kprobefs", "linux", pkg+"_"+version, "vmlinuz")); err != nil {
		t.Skipf("%v: make check downloads it", err)
	}
	k, err := linux.Fetch(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestPlaces holds the answers of kprobefs for addresses of Debian's kernels against what these
// kernels have answered.
func TestPlaces(t *testing.T) {
	for _, release := range verdicts.Releases {
		t.Run(release, func(t *testing.T) {
			want, err := verdicts.ReadPlaces(release)
			if err != nil {
				t.Fatal(err)
			}
			if len(want.At) < 20000 {
				t.Errorf("%d places were asked about", len(want.At))
			}
			asker, _, err := verdicts.Asker(cached(t, want.Kernel))
			if err != nil {
				t.Fatal(err)
			}
			bad := 0
			for _, addr := range want.Addresses() {
				if got := verdicts.Predict(asker, addr); got != want.At[addr] {
					if bad++; bad <= 20 {
						t.Errorf("%#x: %s, recorded %s", addr, got, want.At[addr])
					}
				}
			}
			t.Logf("%d places, %d differ", len(want.At), bad)
		})
	}
}

// TestPlacesVary: the recordings have each kind of answer.
func TestPlacesVary(t *testing.T) {
	for _, release := range verdicts.Releases {
		p, err := verdicts.ReadPlaces(release)
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]int{}
		for _, place := range p.At {
			kinds[strings.TrimRight(place.String(), "0123456789")]++
		}
		for _, kind := range []string{"EINVAL", "EILSEQ", "f", "s"} {
			if kinds[kind] < 50 {
				t.Errorf("%s: %d places with %s", release, kinds[kind], kind)
			}
		}
	}
}
