package integration

import (
	"maps"
	"os"
	"slices"
	"testing"
)

// leftOut are the scripts that another release's Linux does not play, or of which
// two runs are not alike there, by release.
var leftOut = map[string]map[string]string{
	"6.12": leftOut612,
	"5.10": leftOut510,
}

// notYet are the scripts that do not give here what another release gives.
// docs/differences.md has these too.
var notYet = map[string]map[string]string{
	"6.12": notYet612,
	"5.10": notYet510,
}

// releases are those other than 6.1 of which there are recordings.
func releases() []string { return slices.Sorted(maps.Keys(leftOut)) }

// TestReleases plays the scripts as other releases of Linux, and compares with
// what those printed.
func TestReleases(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	if testing.Short() {
		t.Skip("short")
	}
	_, masks := cases(t)
	for _, release := range releases() {
		t.Run(release, func(t *testing.T) {
			all, err := LoadRelease("testdata", release)
			if err != nil {
				t.Fatal(err)
			}
			var recorded []*Case
			for _, c := range all {
				if c.Kernel != "" {
					recorded = append(recorded, c)
				}
			}
			play(t, nil, notYet[release], recorded, masks)
		})
	}
}

// TestReleasesRecorded holds what the recordings of other releases must be: masked,
// and of no script that is left out. It names the scripts that have come since.
func TestReleasesRecorded(t *testing.T) {
	_, masks := cases(t)
	for _, release := range releases() {
		all, err := LoadRelease("testdata", release)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			switch why := leftOut[release][c.Name]; {
			case c.Kernel == "" && why == "":
				t.Logf("%s of %s: not recorded yet: golden -release %s record %s", c.Name, release, release, c.Name)
			case c.Kernel != "" && why != "":
				t.Errorf("%s of %s: recorded, but said to be left out", c.Name, release)
			}
			if got := Apply(masks, c.Want); got != c.Want {
				t.Errorf("%s of %s: want is not masked:\n%s", c.Name, release, diff(c.Want, got))
			}
			if _, err := os.Stat(c.File); err == nil && c.Default != nil && c.Want == c.Default.Want && c.Status == c.Default.Status {
				t.Errorf("%s of %s: stored twice: golden -release %s fold", c.Name, release, release)
			}
		}
	}
}
