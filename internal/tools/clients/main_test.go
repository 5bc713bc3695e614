package main

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/internal/tools/share"
)

// TestFormat: the table is written as it was read.
func TestFormat(t *testing.T) {
	head, all, err := parse(commands)
	if err != nil {
		t.Fatal(err)
	}
	if got := format(head, all); got != commands {
		t.Errorf("commands.txt would be written as\n%s", got)
	}
	for _, bad := range []string{"$ x\n", "[a] b\n y\n", "[a] b\n$ x\n? y\n"} {
		if _, _, err := parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestRelease: a section is for 6.1 if it does not say another release.
func TestRelease(t *testing.T) {
	for _, test := range []struct{ line, want string }{{"[a] slow /bin/x", "6.1"}, {"[a] 6.12 slow", "6.12"}, {"[a] mmap 5.10", "5.10"}} {
		_, all, err := parse(test.line + "\n$ x\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := all[0].release(); got != test.want {
			t.Errorf("%q is for %s, want %s", test.line, got, test.want)
		}
	}
}

// A commit plays one client in oneIn, others for each commit. Without a commit all are played.
const oneIn = 2

// TestClients plays what CI has time for.
func TestClients(t *testing.T) {
	for _, need := range []string{"go", "fusermount3", "busybox", timeout} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(err)
		}
	}
	if testing.Short() || os.Getuid() != 0 {
		t.Skip("takes seconds, and wants root")
	}
	_, all, err := parse(commands)
	if err != nil {
		t.Fatal(err)
	}
	bin, err := integration.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	commit := share.OfCommit(oneIn)
	for _, c := range all {
		if slices.Contains(c.needs, needSlow) || !commit.Has(c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if p := c.missing(); p != "" {
				t.Skipf("%s is missing", p)
			}
			var all []string
			// On a busy host trace-cmd's recorders may not have begun when a short command ends, and a call that a
			// signal has met counts twice, since it is made again.
			for range 3 {
				got, err := c.here(t.Context(), bin)
				if err != nil {
					t.Fatal(err)
				}
				if all = c.compare(got); len(all) == 0 {
					return
				}
				t.Logf("%d differences", len(all))
			}
			for _, wrong := range all {
				t.Error(wrong)
			}
		})
	}
}
