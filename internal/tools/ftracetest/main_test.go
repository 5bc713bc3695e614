package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/internal/tools/share"
)

func TestResults(t *testing.T) {
	names := []string{"a.tc", "b.tc", "c.tc", "a.tc (instance)"}
	got := results(names, "=== Ftrace unit tests ===\n[1] one\t[PASS]\n[2] two [x]\t[FAIL]\nnoise [3] [PASS]\n[4] (instance)  one\t[UNSUPPORTED]\n[9] none\t[PASS]\n")
	want := []result{{"a.tc", "PASS"}, {"b.tc", "FAIL"}, {"c.tc", "-"}, {"a.tc (instance)", "UNSUPPORTED"}}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %v, want %v", i, got[i], want[i])
		}
	}
}

// TestCompare: a test that passes on Linux only is reported unless it is known, and a known
// one that passes, or fails on Linux, is reported too.
func TestCompare(t *testing.T) {
	all := []result{{"a.tc", "PASS"}, {"b.tc", "FAIL"}, {"c.tc", "FAIL"}, {"d.tc", "XFAIL"}, {"e.tc", "UNSUPPORTED"}, {"f.tc", "FAIL"}, {"g.tc", "-"}}
	onLinux := map[string]string{"a.tc": "PASS", "b.tc": "PASS", "c.tc": "PASS", "d.tc": "PASS", "e.tc": "UNSUPPORTED", "f.tc": "FAIL", "g.tc": "XFAIL"}
	known := map[string]string{"c.tc": "why", "d.tc": "why", "f.tc": "why"}
	got := compare(all, onLinux, known, io.Discard)
	want := []string{
		"b.tc passes on Linux and is FAIL here",
		"d.tc is XFAIL here and PASS on Linux: it must not be in known.txt",
		"f.tc is FAIL here and FAIL on Linux: it must not be in known.txt",
		"g.tc passes on Linux and is - here",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRecordings: Linux passes most tests, and each known difference is of a test that does.
func TestRecordings(t *testing.T) {
	for _, release := range releases {
		onLinux := recordedNow(t, release)
		passed := 0
		for _, what := range onLinux {
			if good(what) {
				passed++
			}
		}
		if passed < 106 {
			t.Errorf("%s: %d tests pass on Linux", release, passed)
		}
		fails, err := known(release)
		if err != nil {
			t.Fatal(err)
		}
		for name, why := range fails {
			if !good(onLinux[name]) || why == "" {
				t.Errorf("%s: known.txt has %s (%q), which is %q on Linux", release, name, why, onLinux[name])
			}
		}
	}
}

func recordedNow(t *testing.T, release string) map[string]string {
	t.Helper()
	all, err := recorded(release)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReadme: the numbers of files in README.md are the recordings'. If a suite has
// been fetched, each of its tests has a result.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var files []any
	for _, release := range releases {
		n := 0
		for name := range recordedNow(t, release) {
			if !strings.HasSuffix(name, " (instance)") {
				n++
			}
		}
		files = append(files, n)
	}
	if want := fmt.Sprintf("all files of the kernel's own test suite of tracing, %d of 6.1 and %d of 6.12,", files...); !strings.Contains(string(page), want) {
		t.Errorf("README.md does not say %q", want)
	}
	for _, release := range releases {
		s, err := cached(release)
		if err != nil {
			t.Skip(err)
		}
		if !s.there() {
			continue
		}
		tests, err := s.tests(nil)
		if err != nil {
			t.Fatal(err)
		}
		names, err := s.inOrder(tests)
		if err != nil {
			t.Fatal(err)
		}
		onLinux := recordedNow(t, release)
		for _, name := range names {
			if onLinux[name] == "" {
				t.Errorf("%s: there is no result of Linux for %s", release, name)
			}
		}
	}
}

// A commit plays one test in oneIn, with -short one in shortOneIn.
const (
	oneIn      = 8
	shortOneIn = 40
)

// commitShare is what the commit has of the tests.
func commitShare() share.Share {
	if testing.Short() {
		return share.OfCommit(shortOneIn)
	}
	return share.OfCommit(oneIn)
}

// TestSuite runs the suites that "make ftracetest" has fetched: of each, the tests that
// KPROBEFS_COMMIT chooses. Tests that pass on Linux must pass here. They depend on times of
// tenths of a second, so they are not run with the race detector.
func TestSuite(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("ftracetest wants root")
	}
	for _, need := range []string{"go", "fusermount3", "ping", "bc", "dash"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 18*time.Minute)
	t.Cleanup(cancel)
	bin, err := integration.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	part := commitShare()
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			s, err := cached(release)
			if err != nil {
				t.Skip(err)
			}
			if !s.there() {
				t.Skip("the suite is not here: make ftracetest fetches it")
			}
			tests, err := s.tests(nil)
			if err != nil {
				t.Fatal(err)
			}
			tests = slices.DeleteFunc(tests, func(name string) bool { return !part.Has(release + "/" + name) })
			all, err := s.playAll(ctx, tests, bin, t.TempDir(), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			fails, err := known(release)
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range compare(all, recordedNow(t, release), fails, io.Discard) {
				t.Error(wrong)
			}
		})
	}
}
