package docs

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateTimes = flag.Bool("update-times", false, "write reference/times.md")

// timesPage is the page of all times that bound a wait.
const timesPage = "reference/times.md"

// waitName matches the names of constants that say how long something is waited for.
var waitName = regexp.MustCompile(`(?i)(patience|grace)$`)

// wait is such a constant.
type wait struct{ name, value, what string }

// waits returns the constants of a file, with the first sentence of what is said of each.
func waits(t *testing.T, name, text string) (all []wait) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			if len(spec.Names) != 1 || len(spec.Values) != 1 || !waitName.MatchString(spec.Names[0].Name) {
				continue
			}
			from, to := set.Position(spec.Values[0].Pos()).Offset, set.Position(spec.Values[0].End()).Offset
			all = append(all, wait{spec.Names[0].Name, text[from:to], firstSentence(spec, decl)})
		}
	}
	return all
}

// firstSentence returns the first sentence of the comment on a constant, in one line.
func firstSentence(spec *ast.ValueSpec, decl *ast.GenDecl) string {
	for _, c := range []*ast.CommentGroup{spec.Doc, spec.Comment, decl.Doc} {
		if said := strings.Join(strings.Fields(c.Text()), " "); said != "" {
			first, _, _ := strings.Cut(strings.TrimPrefix(said, spec.Names[0].Name+" "), ". ")
			return strings.TrimSuffix(first, ".")
		}
	}
	return ""
}

// rows are the first two cells of the rows of a table: a constant and its value.
var rows = regexp.MustCompile("(?m)^\\| `[^`]*` \\| `[^`]*` \\|")

// TestTimesPage: the page lists each constant that says how long something is waited for, with its
// value: go test ./docs -run TestTimesPage -args -update-times writes it, with what the source says
// of each.
func TestTimesPage(t *testing.T) {
	var all []wait
	for path, text := range files(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/integration/") && !strings.Contains(path, "/internal/tools/") {
			all = append(all, waits(t, path, text)...)
		}
	}
	if len(all) < 20 {
		t.Errorf("%d constants", len(all))
	}
	slices.SortFunc(all, func(a, b wait) int { return strings.Compare(a.name+a.value+a.what, b.name+b.value+b.what) })
	text := writeTimes(all)
	if *updateTimes {
		if err := os.WriteFile(timesPage, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(timesPage)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rows.FindAllString(string(page), -1), rows.FindAllString(string(text), -1); !slices.Equal(got, want) {
		t.Errorf("%s is not what the source says: go test ./docs -run TestTimesPage -args -update-times (-page +source)\n%s", timesPage, cmp.Diff(got, want))
	}
}

// writeTimes returns the page.
func writeTimes(all []wait) []byte {
	var b bytes.Buffer
	b.WriteString(`# How long something is waited for

The constants of the source whose names end in "patience" (how long is waited for something that should come by itself) and "grace" (how long something that ends may take), written by a test from their comments. None can be set; what can be set is a flag ([commands](commands.md)).

| constant | value | |
|---|---|---|
`)
	for _, w := range all {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", w.name, w.value, cell(w.what))
	}
	return b.Bytes()
}
