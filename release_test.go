package kprobefs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
)

// TestReleases: each release boots and has its version.
func TestReleases(t *testing.T) {
	for _, name := range kprobefs.ReleaseNames() {
		t.Run(name, func(t *testing.T) {
			r, err := kprobefs.ParseRelease(name)
			if err != nil {
				t.Fatal(err)
			}
			s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1, Release: r, Config: r.Config, Program: "a test"})
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
	var names []string
	for _, v := range slices.Backward(release.Versions) {
		names = append(names, v.String())
	}
	if got := kprobefs.ReleaseNames(); !slices.Equal(got, names) {
		t.Errorf("releases %q, package release has %q", got, names)
	}
	if _, err := kprobefs.ParseRelease("6.2"); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "6.1") {
		t.Errorf("6.2: %v", err)
	}
}

// bootRelease boots a release with its default configuration, until the test ends.
func bootRelease(t *testing.T, name string) *kprobefs.Kernel {
	t.Helper()
	r, err := kprobefs.ParseRelease(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1, Release: r, Config: r.Config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestEntryPlaces: on 6.12 a probe at the endbr64 that a function begins with, or at
// the fentry nop after it, is placed at the nop. On 6.1 functions do not begin with
// endbr64.
func TestEntryPlaces(t *testing.T) {
	for _, tt := range []struct {
		release string
		most    bool // most functions begin with endbr64
	}{{"6.1", false}, {"6.12", true}} {
		t.Run(tt.release, func(t *testing.T) {
			s := bootRelease(t, tt.release)
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

// TestModule612: functions of 6.12's modules begin with endbr64. 6.1's modules are
// refused.
func TestModule612(t *testing.T) {
	s := bootRelease(t, "6.12")
	ctx := context.Background()
	if _, err := s.Modules.Load(ctx, ko(t, "kprobe_target")); !errors.Is(err, syscall.ENOEXEC) {
		t.Errorf("6.1's module: %v", err)
	}
	load(t, s, "6.12/kprobe_target")
	p := &kprobes.Kprobe{SymbolName: "kprobe_target_fact", PreHandler: func(*kprobes.Hit) int { return 0 }}
	if err := s.Kprobes.Register(p); err != nil {
		t.Fatal(err)
	}
	sym, off, ok := s.Machine.Symbols().Lookup(p.Addr)
	if !ok || sym.Name != "kprobe_target_fact" || off != 4 || p.State()&kprobes.FlagFtrace == 0 {
		t.Errorf("the probe is at %s+%#x of %s, state %x", sym.Name, off, sym.Module, p.State())
	}
	if got, err := s.Machine.Call(ctx, "kprobe_target_fact", 10); err != nil || got != 3628800 {
		t.Errorf("kprobe_target_fact(10) = %d, %v", got, err)
	}
	if err := s.Kprobes.Unregister(p); err != nil {
		t.Fatal(err)
	}
	if err := s.Modules.Delete(ctx, "kprobe_target"); err != nil {
		t.Error(err)
	}
}

// TestEndbrFunctions: functions begin with endbr64 where the configuration says so.
func TestEndbrFunctions(t *testing.T) {
	for _, name := range kprobefs.ReleaseNames() {
		r, err := kprobefs.ParseRelease(name)
		if err != nil {
			t.Fatal(err)
		}
		var config strings.Builder
		if err := r.WriteConfig(&config); err != nil {
			t.Fatal(err)
		}
		k := start(t, kprobefs.Options{Release: r, Config: r.Config})
		syms := k.Machine.Symbols().LookupName("generic_file_llseek") // called through file_operations
		if len(syms) == 0 {
			t.Fatalf("%s has no such function", name)
		}
		text := make([]byte, 4)
		if err := k.Machine.Read(syms[0].Addr, text); err != nil {
			t.Fatal(err)
		}
		said, begins := strings.Contains(config.String(), "\nCONFIG_X86_KERNEL_IBT=y\n"), string(text) == "\xf3\x0f\x1e\xfa"
		if said != begins || begins != r.Linux.Has(release.EndbrFunctions) {
			t.Errorf("%s: the configuration says %v, the function begins with % x", name, said, text)
		}
	}
}
