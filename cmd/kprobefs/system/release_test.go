package system_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/cmd/kprobefs/system"
	"github.com/kprobefs/kprobefs/kprobes"
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

// TestEntryPlaces: on 6.12 a probe on a function that begins with endbr64 goes behind
// it, where the fentry nop is, by the names of both places; on 6.1 none does.
func TestEntryPlaces(t *testing.T) {
	for _, tt := range []struct {
		release string
		most    bool // begin with endbr64
	}{{"6.1", false}, {"6.12", true}} {
		t.Run(tt.release, func(t *testing.T) {
			r, err := system.ParseRelease(tt.release)
			if err != nil {
				t.Fatal(err)
			}
			s, err := system.New(system.Options{CPUs: 1, Release: r, Config: r.Config})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var all, behind int
			for _, site := range s.Machine.Image().Mcount {
				sym, off, ok := s.Machine.Symbols().Lookup(site)
				if !ok || off != 0 && off != 4 {
					t.Fatalf("%#x is a site of %s+%#x", site, sym.Name, off)
				}
				all++
				if off == 4 {
					behind++
				}
				for _, from := range []uint64{sym.Addr, site} {
					p := &kprobes.Kprobe{Addr: from, Flags: kprobes.FlagDisabled}
					if err := s.Kprobes.Register(p); errors.Is(err, syscall.EINVAL) {
						continue // on the blacklist
					} else if err != nil {
						t.Fatalf("%s from %#x: %v", sym.Name, from, err)
					}
					if p.Addr != site || p.State()&kprobes.FlagFtrace == 0 {
						t.Errorf("%s from %#x: at %#x, want %#x by ftrace", sym.Name, from, p.Addr, site)
					}
					if err := s.Kprobes.OnFuncEntry(from, "", 0); err != nil {
						t.Errorf("%s from %#x: %v", sym.Name, from, err)
					}
					if err := s.Kprobes.Unregister(p); err != nil {
						t.Fatal(err)
					}
				}
			}
			if all < 1000 || tt.most != (behind > all/2) || !tt.most && behind > 0 {
				t.Errorf("%d of %d functions begin with endbr64", behind, all)
			}
		})
	}
}
