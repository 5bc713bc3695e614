package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/integration/knobs"
)

// knobsVar tells the test binary that it runs inside "kprobefs exec" and plays the
// cases of package knobs.
const knobsVar = "KPROBEFS_INTEGRATION_KNOBS"

// playKnobs plays these cases.
func playKnobs() int {
	record := func() error { return knobs.Record(os.Stdout, knobs.Files[:]) }
	if os.Getenv(knobsVar) == "io" {
		record = func() error {
			if err := write("/sys/kernel/tracing/kprobe_events", "p:a vfs_read"); err != nil {
				return err
			}
			return knobs.RecordIO(os.Stdout, os.Getenv("KPROBEFS_MNT"))
		}
	}
	if err := record(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestKnobs makes the calls of testdata/knobs.txt, which has Linux's results, on
// kprobefs's files. Each cell is the same, or docs/reference/differences.md lists it.
func TestKnobs(t *testing.T) {
	compareTables(t, "testdata/knobs.txt", playInside(t, "knobs"), 0.95)
}

// TestIO does the same with testdata/io.txt: some calls on a file of each kind.
func TestIO(t *testing.T) {
	compareTables(t, "testdata/io.txt", playInside(t, "io"), 0.8)
}

// playInside runs playKnobs inside "kprobefs exec".
func playInside(t *testing.T, what string) *knobs.Table {
	t.Helper()
	needFUSE(t)
	if os.Getuid() != 0 {
		t.Skip("the calls need root, and a second user")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, status := asUser(nil).kprobefs(t, publicDir(t), []string{knobsVar + "=" + what}, 2, self)
	if status != 0 {
		t.Fatalf("exit status %d:\n%s", status, out)
	}
	got, err := knobs.Parse(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func recordedTable(t *testing.T, name string) *knobs.Table {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := knobs.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// compareTables fails for each cell that differs and is not listed, for each listed
// cell that does not differ, and if the share of equal cells is less than share. A
// row of the list with the wildcard * lists all cells that it matches, so it cannot
// hide equal ones.
func compareTables(t *testing.T, recorded string, got *knobs.Table, share float64) {
	t.Helper()
	want := recordedTable(t, recorded)
	differ := want.Differ(got)
	rows := listedCells(t)
	for _, c := range differ {
		if !slices.ContainsFunc(rows, func(r knobs.Cell) bool { return matches(r, c) }) {
			t.Errorf("%s\n\tLinux: %q\n\there:  %q", c, want.Results[c], got.Results[c])
		}
	}
	for _, r := range rows {
		for _, c := range want.Order {
			if matches(r, c) && !slices.Contains(differ, c) {
				t.Errorf("docs/reference/differences.md lists %q by the row %q, but it is as on Linux", c, r)
			}
		}
	}
	equal := float64(len(want.Order)-len(differ)) / float64(len(want.Order))
	if equal < share {
		t.Errorf("%.1f %% of %d cells are equal, want at least %.0f %%", 100*equal, len(want.Order), 100*share)
	}
	t.Logf("%d of %d cells are equal", len(want.Order)-len(differ), len(want.Order))
}

// matches reports whether a row of the list, which may have the wildcard *, matches
// c.
func matches(row, c knobs.Cell) bool {
	part := func(pattern, text string) bool { return pattern == "*" || pattern == text }
	return part(row.File, c.File) && part(row.Case, c.Case) && part(row.Call, c.Call)
}

// listedCells reads the rows "| `file` | `case` | `call` | why |" of the section of
// docs/reference/differences.md that lists cells.
func listedCells(t *testing.T) []knobs.Cell {
	t.Helper()
	page, err := os.ReadFile("../docs/reference/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Cells of the recorded table\n")
	if !found {
		t.Fatal("docs/reference/differences.md has no section of cells")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	_, err = os.Stat("/proc/sys/kernel/stack_tracer_enabled")
	hosts := err == nil // the directory is the host's
	var cells []knobs.Cell
	for line := range strings.Lines(section) {
		f := strings.Split(line, "`")
		if strings.HasPrefix(line, "| `") && len(f) == 7 {
			c := knobs.Cell{File: f[1], Case: f[3], Call: f[5]}
			if hosts && c == (knobs.Cell{File: "kernel/ftrace_enabled", Case: "dir ops", Call: "rmdir file"}) {
				continue
			}
			cells = append(cells, c)
		}
	}
	return cells
}
