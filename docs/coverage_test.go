// Package docs checks that files, functions, tests and flags named in the
// documentation exist.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	named    = regexp.MustCompile("`([a-z0-9_]+)\\.(txtar|(?:Test|Benchmark|Fuzz)\\w+)`")
	known    = map[string]bool{"000": true, "001": true, "002": true, "003": true, "004": true}
)

// files returns the contents of the project's files with one of these suffixes, by
// path relative to this directory.
func files(t *testing.T, endings ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2:
			return filepath.SkipDir
		case slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(path, end) }):
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found[path] = string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// tests returns all tests of the project as package.Function, and the scripts as
// name.txtar.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for path, text := range files(t, ".txtar", "_test.go") {
		if strings.HasSuffix(path, ".txtar") {
			found[filepath.Base(path)] = true
			continue
		}
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			found[packageOf(path)+"."+m[1]] = true
		}
	}
	return found
}

// packageOf returns the name of a file's package on the pages.
func packageOf(path string) string {
	if filepath.Dir(path) == ".." {
		return "kprobefs"
	}
	return filepath.Base(filepath.Dir(path))
}

// statement is a line of reference/coverage.md.
type statement struct {
	number, text, in, shown string
}

func statements(t *testing.T) (lines []statement) {
	b, err := os.ReadFile("reference/coverage.md")
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.SplitSeq(string(b), "\n") {
		f := strings.Split(l, "|")
		if len(f) < 6 || strings.TrimSpace(f[1]) == "" || strings.Contains(f[1], "-") {
			continue
		}
		lines = append(lines, statement{strings.TrimSpace(f[1]), f[2], strings.TrimSpace(f[3]), f[4]})
	}
	return lines
}

// TestCoverage: each statement has a number, names its documents, and names a
// test that exists or says what is missing.
func TestCoverage(t *testing.T) {
	have := tests(t)
	lines := statements(t)
	if len(lines) < 100 {
		t.Fatalf("%d statements", len(lines))
	}
	for i, s := range lines {
		if s.number != fmt.Sprint(i+1) {
			t.Fatalf("statement %q has number %s, want %d", s.text, s.number, i+1)
		}
		for _, d := range strings.Fields(s.in) {
			if s.in != "all" && !known[d] {
				t.Errorf("%s: no document %s", s.number, d)
			}
		}
		names := named.FindAllStringSubmatch(s.shown, -1)
		for _, n := range names {
			if !have[n[1]+"."+n[2]] {
				t.Errorf("%s: there is no %s.%s", s.number, n[1], n[2])
			}
		}
		if strings.Count(s.shown, "`") != 2*len(names) {
			t.Errorf("%s: something in %q is no test", s.number, s.shown)
		}
		if len(names) == 0 && !strings.Contains(s.shown, "not there yet") && !strings.Contains(s.shown, "release 6.1 says nothing") {
			t.Errorf("%s: nothing shows that %s", s.number, s.text)
		}
	}
}
