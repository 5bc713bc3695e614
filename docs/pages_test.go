package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// longestCell is what a cell of differences.md has at most: one difference, that is read at a
// glance.
const longestCell = 250

// tableEdge separates the cells of a row. A cell has `\|` for the character.
var tableEdge = regexp.MustCompile(`(^|[^\\])\|`)

// TestDifferencesAreRows: differences.md is a table for each area, with one difference a row.
func TestDifferencesAreRows(t *testing.T) {
	rows := 0
	for section := range strings.SplitSeq(pages(t)["docs/reference/differences.md"], "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		inSection := 0
		for line := range strings.Lines(text) {
			switch {
			case strings.HasPrefix(line, "| "):
				inSection++
				for _, cell := range tableEdge.Split(strings.TrimSpace(line), -1) {
					if n := utf8.RuneCountInString(strings.TrimSpace(cell)); n > longestCell {
						t.Errorf("%s: a cell has %d characters: %s", title, n, cell)
					}
				}
			case strings.HasPrefix(strings.TrimSpace(line), "- "):
				t.Errorf("%s: a difference that is not in the table: %s", title, line)
			}
		}
		if inSection == 0 && !strings.HasPrefix(section, "# ") {
			t.Errorf("%s has no table", title)
		}
		rows += inSection
	}
	if rows < 200 {
		t.Errorf("%d rows", rows)
	}
}

// readmeLines is how long README.md may be: what is more is a guide's, or the tutorial's.
const readmeLines = 100

// firstScreen is what of README.md a reader sees first, in lines.
const firstScreen = 20

// TestReadme: README is short, and its first screen names the two commands that set a clone up.
func TestReadme(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(pages(t)["README.md"], "\n"), "\n")
	if len(lines) > readmeLines {
		t.Errorf("README.md has %d lines, at most %d are meant", len(lines), readmeLines)
	}
	first := strings.Join(lines[:firstScreen], "\n")
	for _, command := range []string{"\nmake run ", "\nmake test "} {
		if !strings.Contains(first, command) {
			t.Errorf("the first %d lines of README.md do not name %q", firstScreen, command)
		}
	}
}

// resultLines is how long performance.md may be: how the numbers came to be is in history.md.
const resultLines = 160

// TestPerformanceIsResults: performance.md tells results, and history.md what was done for them.
func TestPerformanceIsResults(t *testing.T) {
	all := pages(t)
	if n := strings.Count(all["docs/performance.md"], "\n"); n > resultLines {
		t.Errorf("docs/performance.md has %d lines, at most %d are meant", n, resultLines)
	}
	if !strings.Contains(all["docs/performance.md"], "](history.md") {
		t.Error("docs/performance.md does not name docs/history.md")
	}
}

// TestChangelogThemes: what is in one version is grouped by themes, and an entry is short.
func TestChangelogThemes(t *testing.T) {
	text := pages(t)["CHANGELOG.md"]
	for _, theme := range []string{"### Added\n", "### Changed\n", "### Fixed\n"} {
		if strings.Contains(text, theme) {
			t.Errorf("CHANGELOG.md has %q: its headings are themes", theme)
		}
	}
	if n := strings.Count(text, "\n### "); n < 8 {
		t.Errorf("CHANGELOG.md has %d themes", n)
	}
}

// version matches a heading of CHANGELOG.md: what is not tagged yet, or a tag and its day.
var version = regexp.MustCompile(`^(?:Unreleased|v\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\))$`)

// TestChangelogVersions: a version's heading has its number and day, and what has no number yet stands first.
func TestChangelogVersions(t *testing.T) {
	sections := strings.Split(pages(t)["CHANGELOG.md"], "\n## ")[1:]
	if len(sections) == 0 {
		t.Fatal("no version")
	}
	for i, section := range sections {
		title, _, _ := strings.Cut(section, "\n")
		if !version.MatchString(title) || i > 0 && title == "Unreleased" {
			t.Errorf("heading %d is %q", i+1, title)
		}
	}
}

// telegram matches a comment that says without a verb what a value means.
var telegram = regexp.MustCompile(`//.*; (?:nil|""|0|false|true): .*`)

// TestNoTelegrams: comments are sentences.
func TestNoTelegrams(t *testing.T) {
	for path, text := range files(t, ".go") {
		if strings.HasPrefix(text, "// Code generated ") {
			continue
		}
		for _, line := range telegram.FindAllString(text, -1) {
			t.Errorf("%s: %s", path, line)
		}
	}
}

var (
	goTest  = regexp.MustCompile("`go test ([^`]*)`")
	goRun   = regexp.MustCompile("`go run (\\./[^ `]*)")
	runFlag = regexp.MustCompile(`-run '([^']*)'`)
)

// TestSubsets: the packages and the tests that CONTRIBUTING.md gives for a change exist.
func TestSubsets(t *testing.T) {
	_, section, found := strings.Cut(pages(t)["CONTRIBUTING.md"], "\n## Which tests belong to which change\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := goTest.FindAllStringSubmatch(strings.ReplaceAll(section, `\|`, "|"), -1)
	if !found || len(commands) < 15 {
		t.Fatalf("CONTRIBUTING.md has %d commands for tests of a change", len(commands))
	}
	for _, m := range commands {
		var names []string
		if run := runFlag.FindStringSubmatch(m[1]); run != nil {
			names = strings.Split(groups.ReplaceAllString(run[1], ""), "|")
		}
		for _, word := range strings.Fields(runFlag.ReplaceAllString(m[1], "")) {
			if word == "." || strings.HasPrefix(word, "./") {
				checkTests(t, "../"+strings.TrimSuffix(word, "/..."), names)
			}
		}
	}
	for _, m := range goRun.FindAllStringSubmatch(section, -1) {
		checkTests(t, "../"+m[1], nil)
	}
}

// groups are the parts in brackets of a pattern, and what of it names subtests.
var groups = regexp.MustCompile(`/[^|(]*(\([^)]*\))?[^|]*`)

// checkTests fails unless a directory is there, and has for each pattern a test that it matches.
func checkTests(t *testing.T, dir string, patterns []string) {
	t.Helper()
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("CONTRIBUTING.md: %v", err)
		return
	}
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, pattern := range patterns {
		if !regexp.MustCompile(`\nfunc (?:Test|Example)\w*` + strings.TrimSuffix(strings.TrimPrefix(pattern, "Test"), "$")).MatchString(source.String()) {
			t.Errorf("CONTRIBUTING.md: %s has no test %s", dir, pattern)
		}
	}
}
