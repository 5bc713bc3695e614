package docs

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/release"
)

const releasesPage = "reference/releases.md"

// updateReleases is what "make releases" sets.
var updateReleases = flag.Bool("update-releases", false, "write "+releasesPage+" instead of comparing it")

// featureNames returns the identifiers of the features, in their order.
func featureNames(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "kernel", "release", "changes.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		consts, ok := d.(*ast.GenDecl)
		if !ok || consts.Tok != token.CONST {
			continue
		}
		first, ok := consts.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident)
		if !ok || first.Name != "Feature" {
			continue
		}
		for _, s := range consts.Specs {
			if name := s.(*ast.ValueSpec).Names[0]; name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	if len(names) != len(release.Changes) {
		t.Fatalf("%d names of %d features", len(names), len(release.Changes))
	}
	return names
}

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// exact returns the version of Linux in which a change was made, if it is known.
func exact(v release.Version) string {
	if v == 0 {
		return ""
	}
	return v.String()
}

// writeReleases returns reference/releases.md.
func writeReleases(names []string) []byte {
	var b bytes.Buffer
	b.WriteString(`# What changed between releases

All that kprobefs does otherwise on one release than on another, written by ` + "`make releases`" + ` from the table of ` + "`kernel/release`" + `. A row says what a kernel does from a version on; "since" is the first of our releases (2.6.25, 2.6.32, 4.15, 5.10, 6.1, 6.12) that does it, "Linux" the version in which that began, where it is known for certain. A source in quotes is the subject of Linux's commit, a document is one of [coverage.md](coverage.md), a script below a release is the recording there that differs from 6.1's.

The releases before 5.10 follow their documents: of what changed after 5.10 they have the old behaviour where the row says "5.10 and older do not", and otherwise 6.1's. The guest kernels differ, too: what they have otherwise, and where a release is not as the kernel that it is named after, is in [differences.md](differences.md).
`)
	var subjects []string
	rows := map[string][]string{}
	for i, c := range release.Changes {
		if rows[c.Subject] == nil {
			subjects = append(subjects, c.Subject)
		}
		since := c.Since.String()
		if c.Documented {
			since += ", 5.10 and older do not"
		}
		rows[c.Subject] = append(rows[c.Subject], fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", names[i], cell(c.What), since, exact(c.Linux), cell(c.Source)))
	}
	for _, subject := range subjects {
		fmt.Fprintf(&b, "\n## %s\n\n| feature | what | since | Linux | source |\n|---|---|---|---|---|\n%s", subject, strings.Join(rows[subject], ""))
	}
	b.WriteString("\n## Values\n\nNames, numbers and texts by release. Releases before the first that is named have 6.1's.\n\n| subject | what | by release | source |\n|---|---|---|---|\n")
	for _, r := range release.Values() {
		var by []string
		for _, at := range r.By {
			text := fmt.Sprintf("%s: `%s`", at.Since, at.Value)
			if at.Value == "" {
				text = at.Since.String() + ": none"
			}
			if at.Linux != 0 {
				text += " (Linux " + at.Linux.String() + ")"
			}
			by = append(by, text)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Subject, cell(r.What), cell(strings.Join(by, ", ")), cell(r.Source))
	}
	return b.Bytes()
}

// TestReleasesPage: reference/releases.md is what the table of package release says.
func TestReleasesPage(t *testing.T) {
	want := writeReleases(featureNames(t))
	if *updateReleases {
		if err := os.WriteFile(releasesPage, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(releasesPage); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what kernel/release says: make releases (%v)", releasesPage, err)
	}
}

var documents = regexp.MustCompile(`\bdocuments? (\d{3})(?: and (\d{3}))?`)

// TestReleaseSources: each row of the table names a document, a test or a recording that
// exists, and quotes a commit only of a version that it names.
func TestReleaseSources(t *testing.T) {
	have := tests(t)
	// differs is the recorded release that a change shows on: the one before it, or its own.
	differs := map[release.Version]string{release.Linux6_1: "5.10", release.Linux6_12: "6.12"}
	check := func(what, source string, since, linux release.Version) {
		t.Helper()
		refs := codeSpan.FindAllStringSubmatch(source, -1)
		if len(refs) == 0 {
			t.Errorf("%s: %q names no test and no recording", what, source)
		}
		for _, ref := range refs {
			_, err := os.Stat(filepath.Join("..", "integration", "testdata", ref[1]))
			if err != nil && !have[ref[1]] {
				t.Errorf("%s: there is no %s", what, ref[1])
			}
			if dir, _, found := strings.Cut(ref[1], "/"); found && since != 0 && dir != "modules" && dir != differs[since] {
				t.Errorf("%s: %s cannot show a change of %s", what, ref[1], since)
			}
		}
		for _, m := range documents.FindAllStringSubmatch(source, -1) {
			if !known[m[1]] || m[2] != "" && !known[m[2]] {
				t.Errorf("%s: %s", what, m[0])
			}
		}
		if strings.Contains(source, `"`) && linux == 0 {
			t.Errorf("%s: a commit of no version", what)
		}
	}
	names := featureNames(t)
	for i, c := range release.Changes {
		check(names[i], c.Source, c.Since, c.Linux)
	}
	for _, r := range release.Values() {
		check(r.What, r.Source, 0, 0)
	}
}

// TestFeaturesAsked: some code depends on each feature, or the table would claim what
// nothing does.
func TestFeaturesAsked(t *testing.T) {
	asked := map[string]bool{}
	use := regexp.MustCompile(`\brelease\.([A-Z]\w*)`)
	for path, text := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") || packageOf(path) == "release" {
			continue
		}
		for _, m := range use.FindAllStringSubmatch(text, -1) {
			asked[m[1]] = true
		}
	}
	for _, name := range featureNames(t) {
		if !asked[name] {
			t.Errorf("no code asks for release.%s", name)
		}
	}
}
