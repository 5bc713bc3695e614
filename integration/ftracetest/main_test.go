package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
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

// TestRecording: Linux's results are there for each test of the suite.
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

// TestSuite plays some directories of the suite, where "make ftracetest" has
// fetched it: what passes on Linux passes here.
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
	defer cancel()
	bin, err := build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	chosen := []string{"00basic", "kprobe", "event", "filter", "instances", "dynevent"}
	logs := filepath.Join(t.TempDir(), "logs")
	all, err := play(ctx, suite, chosen, bin, logs, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range compare(all, io.Discard) {
		t.Errorf("%s passes on Linux and not here", name)
	}
}
