package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rowsPage lists what was observed on Linux. The last column of its rows says which
// test shows it.
const rowsPage = "../docs/reference/linux/files.md"

// TestRows: the last column of each row in docs/reference/linux/files.md names an
// existing script or Go test, or links to differences.md.
func TestRows(t *testing.T) {
	page, err := os.ReadFile(rowsPage)
	if err != nil {
		t.Fatal(err)
	}
	tests := testFuncs(t)
	rows := 0
	for n, line := range strings.Split(string(page), "\n") {
		where, ok := lastColumn(line)
		if !ok {
			continue
		}
		rows++
		names := quoted(where)
		if len(names) == 0 && !strings.Contains(where, "differences.md)") {
			t.Errorf("docs/reference/linux/files.md:%d: names no script, no test and no difference: %s", n+1, line)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "Test") {
				if !tests[name] {
					t.Errorf("docs/reference/linux/files.md:%d: no test %s", n+1, name)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join("testdata", name+".txtar")); err != nil {
				t.Errorf("docs/reference/linux/files.md:%d: no script %s", n+1, name)
			}
		}
	}
	if rows < 60 {
		t.Errorf("docs/reference/linux/files.md has %d rows", rows)
	}
	if all, _ := cases(t); len(all) < 90 {
		t.Errorf("%d scripts, want at least 90", len(all))
	}
}

// lastColumn returns the last column of a table's row. ok is false for headings and
// other lines.
func lastColumn(line string) (string, bool) {
	line, ok := strings.CutPrefix(strings.TrimSuffix(line, " |"), "| ")
	if !ok || strings.HasPrefix(line, "---") || strings.HasSuffix(line, "| shown by") {
		return "", false
	}
	return line[strings.LastIndex(line, " | ")+1:], true
}

// quoted returns the texts in backquotes.
func quoted(text string) []string {
	var names []string
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			names = append(names, part)
		}
	}
	return names
}

// testFuncs returns the names of the module's tests.
func testFuncs(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
