package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns all Markdown files of the project, by path relative to its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for path, text := range files(t, ".md") {
		rel, err := filepath.Rel("..", path)
		if err != nil {
			t.Fatal(err)
		}
		found[rel] = text
	}
	return found
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notWord  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	goFile   = regexp.MustCompile(`^[a-z][\w-]*(/[\w.-]+)+\.(go|sh|md|c|h|S|txtar|yaml|yml)$`)
	manFlag  = regexp.MustCompile(`\\fB--([a-z-]+)\\fP`)
	flagUsed = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

// anchor returns GitHub's anchor of a heading.
func anchor(title string) string {
	title = strings.ToLower(notWord.ReplaceAllString(title, ""))
	return strings.ReplaceAll(title, " ", "-")
}

// TestLinks: each link to a file of the project leads to an existing file and
// heading.
func TestLinks(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, part, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := page
			if target != "" {
				to = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s: the link to %s: %v", page, m[1], err)
				continue
			}
			if part == "" {
				continue
			}
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(all[to], -1) {
				anchors = append(anchors, anchor(h[1]))
			}
			if !slices.Contains(anchors, part) {
				t.Errorf("%s: %s has no heading #%s", page, to, part)
			}
		}
	}
}

// TestFilesNamed: each file that a page names by its path exists.
func TestFilesNamed(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
			if !goFile.MatchString(m[1]) || strings.Contains(m[1], "NAME") {
				continue
			}
			_, fromRoot := os.Stat(filepath.Join("..", m[1]))
			_, fromPage := os.Stat(filepath.Join("..", filepath.Dir(page), m[1]))
			if fromRoot != nil && fromPage != nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

// Each flag that a page gives kprobefs is one of its commands' flags, which the
// manual pages list (cmd/kprobefs.TestManPages).
func TestFlags(t *testing.T) {
	known := map[string]bool{"help": true}
	manuals, _ := filepath.Glob("man/*.1")
	for _, path := range manuals {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manFlag.FindAllStringSubmatch(string(b), -1) {
			known[m[1]] = true
		}
	}
	if len(known) < 10 {
		t.Fatalf("the manual pages list %d flags", len(known))
	}
	for page, text := range pages(t) {
		for _, call := range calls(text) {
			for _, m := range flagUsed.FindAllStringSubmatch(call, -1) {
				if !known[m[1]] {
					t.Errorf("%s: kprobefs has no flag --%s: %s", page, m[1], call)
				}
			}
		}
	}
}

// calls returns the calls of kprobefs on a page, without commands that they run, and
// code spans that are flags.
func calls(text string) (found []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimLeft(line, " >$#-")
		if rest, ok := strings.CutPrefix(line, "kprobefs "); ok {
			found = append(found, rest)
		}
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			if rest, ok := strings.CutPrefix(m[1], "kprobefs "); ok || strings.HasPrefix(m[1], "--") {
				found = append(found, rest)
			}
		}
	}
	for i, call := range found {
		found[i], _, _ = strings.Cut(call+" ", " -- ")
	}
	return found
}

// TestArchitectures: README.md names the architectures that "kprobefs version" prints.
func TestArchitectures(t *testing.T) {
	source, err := os.ReadFile("../cmd/kprobefs/main.go")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`otherArchitectures = "([^"]+)"`).FindSubmatch(source)
	if m == nil {
		t.Fatal("cmd/kprobefs/main.go has no otherArchitectures")
	}
	if text := pages(t)["README.md"]; !strings.Contains(text, "("+string(m[1])+")") {
		t.Errorf("README.md does not name the architectures %s", m[1])
	}
}
