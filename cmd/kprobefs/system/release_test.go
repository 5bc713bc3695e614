package system_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/cmd/kprobefs/system"
)

// TestReleases: each release boots, and says which it is.
func TestReleases(t *testing.T) {
	for _, name := range system.ReleaseNames() {
		t.Run(name, func(t *testing.T) {
			r, err := system.ParseRelease(name)
			if err != nil {
				t.Fatal(err)
			}
			s, err := system.New(system.Options{CPUs: 1, Release: r, Config: r.Config, Program: "a test"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			version := r.Version("a test")
			if !strings.HasPrefix(version, "Linux version "+r.Uname()+" ") || !strings.HasPrefix(r.Uname(), name) || !strings.Contains(version, "by a test") {
				t.Errorf("version %q", version)
			}
			banner := s.Machine.Symbols().LookupName("linux_proc_banner")
			if len(banner) == 0 {
				t.Error("the guest has no linux_proc_banner")
			}
		})
	}
	if _, err := system.ParseRelease("6.2"); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "6.1") {
		t.Errorf("6.2: %v", err)
	}
}
