package cpu

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// TestOperations joins what decode, interp and native have for each code in one table,
// which -v prints. Each code has a row of the decoder and is executed by the interpreter;
// the tables of interp and native have no others.
func TestOperations(t *testing.T) {
	rows := map[string][]string{}
	added := decoderRows(t, rows)
	properties := literal(t, "decode/table.go", "properties")
	executed := literal(t, "interp/operations.go", "operations")
	translated := literal(t, "native/forms.go", "forms")
	var b strings.Builder
	codes := append(namesOfCodes(t), "FETCH")
	for i, name := range codes {
		for _, r := range added {
			if from := slices.Index(codes, r.code); from < i && i <= from+r.more {
				rows[name] = append(rows[name], r.text)
			}
		}
		fmt.Fprintf(&b, "%s\n", name)
		for _, r := range rows[name] {
			fmt.Fprintf(&b, "\tdecode  %s\n", r)
		}
		for _, p := range []struct{ room, text string }{{"flags ", properties[name]}, {"interp", executed[name]}, {"native", translated[name]}} {
			if p.text != "" {
				fmt.Fprintf(&b, "\t%s  %s\n", p.room, p.text)
			}
		}
		if executed[name] == "" {
			t.Errorf("interp does not execute %s", name)
		}
		if rows[name] == nil && name != "FETCH" && name != "UD" && name != "GP" {
			t.Errorf("no row of decode makes %s", name)
		}
	}
	t.Logf("\n%s", &b)
	for _, table := range []map[string]string{executed, translated} {
		for name := range table {
			if !slices.Contains(codes, name) {
				t.Errorf("%s is no code", name)
			}
		}
	}
}

// parsed is a file of Go.
func parsed(t *testing.T, file string) (*token.FileSet, *ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fset, f
}

// source is the text of a node in one line, without what is the same in all rows.
func source(fset *token.FileSet, n ast.Node) string {
	var b bytes.Buffer
	_ = printer.Fprint(&b, fset, n)
	s := regexp.MustCompile(`\s+`).ReplaceAllString(b.String(), " ")
	s = strings.NewReplacer("(*CPU).", "", "(*translator).", "", "decode.", "").Replace(s)
	return strings.Trim(s, "{}")
}

// namesOfCodes are the names of decode's codes, in their order.
func namesOfCodes(t *testing.T) (names []string) {
	t.Helper()
	_, f := parsed(t, "decode/table.go")
	for _, spec := range f.Decls[1].(*ast.GenDecl).Specs {
		if name := spec.(*ast.ValueSpec).Names[0].Name; name != "Codes" && name != "FETCH" {
			names = append(names, name)
		}
	}
	if len(names) != int(decode.Codes) {
		t.Fatalf("decode has %d codes, of which %d have names", decode.Codes, len(names))
	}
	return names
}

// literal is the text of the elements, by their codes, of an array that a file gives to name.
func literal(t *testing.T, file, name string) map[string]string {
	t.Helper()
	fset, f := parsed(t, file)
	texts := map[string]string{}
	found := func(x ast.Expr) {
		if lit, ok := x.(*ast.CompositeLit); ok {
			for _, e := range lit.Elts {
				kv := e.(*ast.KeyValueExpr)
				texts[source(fset, kv.Key)] = source(fset, kv.Value)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if n.Names[0].Name == name && len(n.Values) > 0 {
				found(n.Values[0])
			}
		case *ast.AssignStmt:
			if id, ok := n.Lhs[0].(*ast.Ident); ok && id.Name == name {
				found(n.Rhs[0])
			}
		}
		return true
	})
	if len(texts) == 0 {
		t.Fatalf("%s: no %s", file, name)
	}
	return texts
}

// addedRow is a row of the decoder that is for several codes: code, and more after it.
type addedRow struct {
	code, text string
	more       int
}

// decoderRows adds the rows of decode's tables to rows, by their codes. It returns those
// that are for several codes.
func decoderRows(t *testing.T, rows map[string][]string) (added []addedRow) {
	t.Helper()
	fset, f := parsed(t, "decode/table.go")
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		opcodes := g.Specs[0].(*ast.ValueSpec).Names[0].Name
		ast.Inspect(g, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || lit.Type != nil { // a row has no type of its own
				return true
			}
			field := map[string]string{}
			for _, e := range lit.Elts {
				kv := e.(*ast.KeyValueExpr)
				field[source(fset, kv.Key)] = source(fset, kv.Value)
			}
			code, text := field["code"], opcodes+" "+source(fset, lit)
			rows[code] = append(rows[code], text)
			switch field["adds"] {
			case "toCode":
				added = append(added, addedRow{code, text, int(constantOf(t, field["n"])) - 1})
			case "toExt":
				exts := uint64(0xff)
				if field["exts"] != "" {
					exts = constantOf(t, field["exts"])
				}
				added = append(added, addedRow{code, text, bits.OnesCount64(exts) - 1})
			}
			return false
		})
	}
	return added
}

// constantOf is the value of a constant expression.
func constantOf(t *testing.T, text string) uint64 {
	t.Helper()
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := constant.Uint64Val(v.Value)
	return n
}
