package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "module example.com/m\n\ngo 1.24\n"

// tests has a test of each kind: whole, left out with -short, with a part left out, and with names
// that are patterns.
const tests = `package m

import "testing"

func TestWhole(t *testing.T) {
	for _, name := range []string{"a", "b.c", "d e", "[f]", "g|h", "i/j"} {
		t.Run(name, func(t *testing.T) { t.Log("ran") })
	}
}

func TestSlow(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
}

func TestSample(t *testing.T) {
	cases := []string{"one", "two (2)", "three"}
	if testing.Short() {
		cases = cases[1:2]
		t.Run("others", func(t *testing.T) { t.Skip("left") })
	}
	for _, name := range cases {
		t.Run("of/"+name, func(t *testing.T) { t.Log("ran") })
	}
}
`

// leaves returns the tests without subtests that passed, by the events of go test -json.
func leaves(t *testing.T, events []byte) (names []string) {
	t.Helper()
	root, err := read(bytes.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(r *result, name string)
	walk = func(r *result, name string) {
		if len(r.below) == 0 && r.action == "pass" {
			names = append(names, name)
		}
		for sub, r := range r.below {
			walk(r, strings.TrimPrefix(name+"/"+sub, "/"))
		}
	}
	walk(root, "")
	return names
}

// TestEachOnce: a run with -short, and one that skips what has passed in it, together run each
// test once.
func TestEachOnce(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": module, "m_test.go": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) []byte {
		cmd := exec.Command("go", append([]string{"test", "-json", "-count=1"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go test %q: %v\n%s", args, err, out)
		}
		return out
	}
	short := run("-short")
	p, err := pattern(bytes.NewReader(short))
	if err != nil {
		t.Fatal(err)
	}
	first, second, all := leaves(t, short), leaves(t, run("-skip", p)), leaves(t, run())
	if len(first) == 0 || len(second) == 0 {
		t.Fatalf("the runs have %q and %q", first, second)
	}
	got := slices.Sorted(slices.Values(slices.Concat(first, second)))
	if want := slices.Sorted(slices.Values(all)); !slices.Equal(got, want) {
		t.Errorf("the two runs have\n%q, want each of\n%q\nonce; the pattern is %s", got, want, p)
	}
}

func TestPattern(t *testing.T) {
	for _, tt := range []struct{ name, events, want string }{
		{"nothing", "", nothing},
		{"failed", `{"Action":"fail","Test":"TestA"}`, nothing},
		{"a package", `{"Action":"pass"}`, nothing},
		{"an unfinished subtest", `{"Action":"run","Test":"TestA"}{"Action":"fail","Test":"TestA/b"}{"Action":"pass","Test":"TestA"}`, nothing},
		{"passed", `{"Action":"pass","Test":"TestA/x"}{"Action":"pass","Test":"TestA"}{"Action":"pass","Test":"TestB"}`, "^TestA$|^TestB$"},
		{"a part", `{"Action":"pass","Test":"TestA/x.y"}{"Action":"skip","Test":"TestA/z"}{"Action":"pass","Test":"TestA"}`, `^TestA$/^x\.y$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := pattern(strings.NewReader(tt.events))
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	if _, err := pattern(strings.NewReader("FAIL: no JSON")); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("text that is no JSON: %v", err)
	}
}
