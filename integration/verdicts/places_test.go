package verdicts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/integration/verdicts"
	"github.com/kprobefs/kprobefs/internal/tools/linux"
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

// TestModulePlaces holds the answers of kprobefs for places in modules of Debian's kernels, laid out as
// "why --modules" lays them out, against what these kernels have answered.
func TestModulePlaces(t *testing.T) {
	for _, release := range verdicts.Releases {
		t.Run(release, func(t *testing.T) {
			want, err := verdicts.ReadModulePlaces(release)
			if err != nil {
				t.Fatal(err)
			}
			modules := map[string]int{}
			kinds := map[string]int{}
			for at, place := range want.At {
				modules[at.Module]++
				kinds[strings.TrimRight(place.String(), "0123456789")]++
			}
			for _, module := range []string{"fuse", "loop", "overlay"} {
				if modules[module] < 1000 && (module != "fuse" || release != "6.12") { // there it is built in
					t.Errorf("%d places in %s were asked about", modules[module], module)
				}
			}
			for _, kind := range []string{"EINVAL", "EILSEQ", "f", "s"} {
				if kinds[kind] < 10 {
					t.Errorf("%d places with %s", kinds[kind], kind)
				}
			}
			k := cached(t, want.Kernel)
			if !k.HasPlaceModules() {
				t.Skip("the modules have not been downloaded: make check does that")
			}
			asker, file, _, err := verdicts.ModuleAsker(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			bad := 0
			for _, at := range want.Places() {
				if got := verdicts.PredictModule(asker, file, at); got != want.At[at] {
					if bad++; bad <= 20 {
						t.Errorf("%s: %s, recorded %s", at, got, want.At[at])
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
