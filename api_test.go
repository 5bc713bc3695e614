package kprobefs_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateAPI = flag.Bool("update-api", false, "write docs/reference/api.txt")

// apiPage lists what the package exports, a declaration a line, without comments.
const apiPage = "docs/reference/api.txt"

// TestAPI: what the package exports is what the page says, so that a change of it is seen in review.
func TestAPI(t *testing.T) {
	got := strings.Join(exported(t), "\n") + "\n"
	if *updateAPI {
		if err := os.WriteFile(apiPage, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the exported API has changed (-page +now): go test -run TestAPI . -update-api, and a line in CHANGELOG.md\n%s", diff)
	}
}

// exported returns the exported declarations of this directory's package, sorted.
func exported(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	p, err := doc.NewFromFiles(fset, parsed, "kprobefs")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	add := func(of string, nodes ...ast.Node) {
		for _, n := range nodes {
			lines = append(lines, declared(t, fset, of, n)...)
		}
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			add("", v.Decl)
		}
	}
	functions := func(all []*doc.Func) {
		for _, f := range all {
			f.Decl.Body = nil
			add("", f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, typ := range p.Types {
		add(typ.Name, typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		functions(typ.Funcs)
		functions(typ.Methods)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// declared returns the lines of a declaration: of a struct, an interface or a group of values one
// for each name.
func declared(t *testing.T, fset *token.FileSet, of string, n ast.Node) []string {
	t.Helper()
	text := func(n any) string {
		var b bytes.Buffer
		if err := printer.Fprint(&b, fset, n); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	g, ok := n.(*ast.GenDecl)
	if !ok {
		return []string{text(n)}
	}
	var lines []string
	for _, spec := range g.Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() {
					lines = append(lines, g.Tok.String()+" "+name.Name)
				}
			}
		case *ast.TypeSpec:
			if s.Name.Name == of || s.Name.IsExported() {
				lines = append(lines, typeLines(s, text)...)
			}
		}
	}
	return lines
}

// typeLines returns the lines of a type.
func typeLines(s *ast.TypeSpec, text func(any) string) []string {
	var fields *ast.FieldList
	kind := ""
	switch typ := s.Type.(type) {
	case *ast.StructType:
		fields, kind = typ.Fields, "struct"
	case *ast.InterfaceType:
		fields, kind = typ.Methods, "interface"
	default:
		assign := " "
		if s.Assign.IsValid() {
			assign = " = "
		}
		return []string{"type " + s.Name.Name + assign + text(s.Type)}
	}
	lines := []string{"type " + s.Name.Name + " " + kind}
	for _, f := range fields.List {
		for _, name := range f.Names {
			if name.IsExported() {
				lines = append(lines, "type "+s.Name.Name+" "+kind+", "+name.Name+" "+text(f.Type))
			}
		}
		if len(f.Names) == 0 {
			lines = append(lines, "type "+s.Name.Name+" "+kind+", embedded "+text(f.Type))
		}
	}
	return lines
}
