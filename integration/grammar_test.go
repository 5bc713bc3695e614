package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/integration/grammar"
	"github.com/kprobefs/kprobefs/integration/knobs"
)

// grammarVar tells the test binary that it runs inside "kprobefs exec" and plays a
// table of package grammar. Its value is the table's name.
const grammarVar = "KPROBEFS_INTEGRATION_GRAMMAR"

// playGrammar plays that table.
func playGrammar() int {
	if err := grammar.Play(os.Stdout, os.Getenv(grammarVar), grammar.Seed, 0, 1<<30); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestGrammar plays each recorded table on kprobefs. The results of each case are
// Linux's, or docs/reference/differences.md lists it.
func TestGrammar(t *testing.T) {
	needFUSE(t)
	if os.Getuid() != 0 {
		t.Skip("/dev/kmsg needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range grammar.Names {
		t.Run(name, func(t *testing.T) {
			if name == "definitions" {
				needTime(t)
			}
			t.Parallel()
			want := recordedGrammar(t, name)
			out, status := asUser(nil).kprobefs(t, publicDir(t), []string{grammarVar + "=" + name}, 2, self)
			if status != 0 {
				t.Fatalf("exit status %d:\n%s", status, out)
			}
			got, err := grammar.Parse(strings.NewReader(out))
			if err != nil {
				t.Fatal(err)
			}
			compareGrammar(t, name, want, got)
		})
	}
}

// TestGrammarInputs: the recorded cases are those that package grammar generates, and
// at least as many as expected.
func TestGrammarInputs(t *testing.T) {
	atLeast := map[string]int{"definitions": 2000, "values": 300, "filters": 500, "words": 300, "options": 300}
	ops := map[string][]string{"definitions": {"kprobe", "trunc", "dynamic"}, "values": {"setup"}, "filters": {"filter"}}
	for _, name := range grammar.Names {
		want := recordedGrammar(t, name)
		if !grammar.New(name, grammar.Seed).SameInputs(want) {
			t.Errorf("%s.table does not have the cases that package grammar generates; run golden tables record %s", name, name)
		}
		n := len(want.Cases)
		if ops[name] != nil {
			n = want.Steps(ops[name]...)
		}
		if n < atLeast[name] {
			t.Errorf("%s: %d inputs, want at least %d", name, n, atLeast[name])
		}
	}
}

func recordedGrammar(t *testing.T, name string) *grammar.Table {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".table")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := grammar.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// compareGrammar fails for each case that differs and is not listed, and for each
// listed case that does not differ.
func compareGrammar(t *testing.T, name string, want, got *grammar.Table) {
	t.Helper()
	if len(want.Cases) != len(got.Cases) {
		t.Fatalf("%d cases, recorded %d", len(got.Cases), len(want.Cases))
	}
	differ := 0
	for i := range want.Cases {
		cell := knobs.Cell{File: name, Case: fmt.Sprint(i + 1)}
		listed := slices.ContainsFunc(listedCells(t), func(r knobs.Cell) bool { return matches(r, cell) || r.File == name && r.Case == cell.Case })
		a, b := want.Cases[i].String(), got.Cases[i].String()
		switch {
		case a != b && !listed:
			differ++
			t.Errorf("%s, case %d: Linux (-) and kprobefs (+):\n%s", name, i+1, diff(a, b))
		case a == b && listed:
			t.Errorf("docs/reference/differences.md lists %s, case %d, which is as on Linux", name, i+1)
		}
	}
	t.Logf("%s: %d of %d cases are equal", name, len(want.Cases)-differ, len(want.Cases))
}
