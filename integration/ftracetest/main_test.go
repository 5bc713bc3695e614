package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/integration"
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

// TestRecording: there is a result of Linux for each test of the suite.
func TestRecording(t *testing.T) {
	passed := 0
	for _, what := range recorded() {
		if good(what) {
			passed++
		}
	}
	if passed < 70 {
		t.Errorf("%d tests pass on Linux", passed)
	}
}

// TestReadme: the numbers of tests in README.md are those of the recording and of
// notRun. If the suite has been fetched, these are compared with it.
func TestReadme(t *testing.T) {
	files, all := 0, 0
	for name := range recorded() {
		if !strings.HasSuffix(name, " (instance)") {
			files++
		}
	}
	for _, n := range notRun {
		all += n
	}
	all += files
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d of the %d files of the kernel's own test suite", files, all); !strings.Contains(string(page), want) {
		t.Errorf("README.md does not say %q", want)
	}
	dir, err := cached()
	if err != nil {
		t.Skip(err)
	}
	suite := filepath.Join(dir, filepath.FromSlash(suitePath))
	if _, err := os.Stat(filepath.Join(suite, "ftracetest")); err != nil {
		return
	}
	entries, err := os.ReadDir(filepath.Join(suite, "test.d"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() || slices.Contains(dirs, e.Name()) {
			continue
		}
		names, err := tests(suite, []string{e.Name()})
		if err != nil {
			t.Fatal(err)
		}
		names = slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, " (instance)") })
		if len(names) != notRun[e.Name()] {
			t.Errorf("%s has %d tests, not %d", e.Name(), len(names), notRun[e.Name()])
		}
	}
}

// TestSuite runs the suite if "make ftracetest" has fetched it. Tests that pass on
// Linux must pass here. They depend on times of tenths of a second, so they are not
// run with the race detector.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	dir, err := cached()
	if err != nil {
		t.Skip(err)
	}
	suite := filepath.Join(dir, filepath.FromSlash(suitePath))
	if _, err := os.Stat(filepath.Join(suite, "ftracetest")); err != nil {
		t.Skip("the suite is not here: make ftracetest fetches it")
	}
	if os.Getuid() != 0 {
		t.Skip("ftracetest wants root")
	}
	for _, need := range []string{"busybox", "go", "fusermount3"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	t.Cleanup(cancel)
	bin, err := integration.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Two at once, each in its own "kprobefs exec": most of the tests' time is spent waiting.
	half := slices.Index(dirs, "trigger")
	for _, chosen := range [][]string{dirs[:half], dirs[half:]} {
		t.Run(chosen[0], func(t *testing.T) {
			t.Parallel()
			all, err := play(ctx, suite, chosen, bin, filepath.Join(t.TempDir(), "logs"), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range compare(all, io.Discard) {
				t.Errorf("%s passes on Linux and not here", name)
			}
		})
	}
}
