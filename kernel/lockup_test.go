package kernel

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// TestHardLockupLine: the report of a hard lockup begins as on each release.
func TestHardLockupLine(t *testing.T) {
	for v, want := range map[release.Version]string{
		release.Linux6_1:  "NMI watchdog: Watchdog detected hard LOCKUP on cpu 1",
		release.Linux6_12: "watchdog: CPU1: Watchdog detected hard LOCKUP on cpu 1",
	} {
		if got := hardLockup(v.Set(), 1); got != want {
			t.Errorf("on %s %q, want %q", v, got, want)
		}
	}
}
