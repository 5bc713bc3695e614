// Command btfgen writes the types of a guest's functions, from its debug info, in
// the form that kernel/btf reads:
//
//	int SIZE s|u NAME          a number, signed or not
//	ptr TYPE                   TYPE is the number of a type, from 1; 0 is void
//	array TYPE COUNT
//	struct SIZE [NAME]         unions too; their members follow
//	. TYPE BIT WIDTH [NAME]    a member: where it begins, and its bits if it is a bitfield, else 0
//	enum SIZE s|u [NAME]
//	proto
//	func TYPE NAME [TYPE:NAME]...   what it returns, its arguments
//
// Typedefs and qualifiers are left out. A structure that a file only declares is the one of
// that name that another file defines, as after pahole's deduplication, or else an empty one.
package main

import (
	"bufio"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "btfgen:", err)
		os.Exit(1)
	}
}

// gen numbers the types. Types with the same text are the same type.
type gen struct {
	data  *dwarf.Data
	out   []string // the text of each type with its members
	byKey map[string]int
	whole map[string][]*dwarf.StructType // the definitions with a name, one of each size
}

func run(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return err
	}
	g := &gen{data: data, byKey: map[string]int{}, whole: map[string][]*dwarf.StructType{}}
	if err := g.findStructs(); err != nil {
		return err
	}
	funcs, err := g.functions()
	if err != nil {
		return err
	}
	w := bufio.NewWriter(os.Stdout)
	for _, text := range g.out {
		fmt.Fprintln(w, text)
	}
	for _, name := range slices.Sorted(maps.Keys(funcs)) {
		fmt.Fprintln(w, funcs[name])
	}
	return w.Flush()
}

// findStructs finds the definitions of structures.
func (g *gen) findStructs() error {
	for r := g.data.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			return err
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if e.Tag != dwarf.TagStructType && e.Tag != dwarf.TagUnionType || name == "" || e.Val(dwarf.AttrDeclaration) != nil {
			continue
		}
		t, err := g.data.Type(e.Offset)
		if err != nil {
			return err
		}
		s := t.(*dwarf.StructType)
		if !slices.ContainsFunc(g.whole[name], func(o *dwarf.StructType) bool { return o.ByteSize == s.ByteSize }) {
			g.whole[name] = append(g.whole[name], s)
		}
	}
}

// functions returns the line of each function that has code.
func (g *gen) functions() (map[string]string, error) {
	funcs := map[string]string{}
	for r := g.data.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			return funcs, err
		}
		switch {
		case e.Tag == dwarf.TagCompileUnit:
			continue
		case e.Tag == dwarf.TagSubprogram && (e.Val(dwarf.AttrLowpc) != nil || e.Val(dwarf.AttrRanges) != nil):
			name, text, err := g.function(e)
			if err != nil {
				return nil, err
			}
			// On Linux these are other names of __do_sys_NAME, without types.
			if !strings.HasPrefix(name, "__x64_sys_") || !strings.HasSuffix(text, ":__unused") {
				funcs[name] = text
			}
		}
		r.SkipChildren()
	}
}

// origin returns the entry with the name and the type, which is another one if the
// function is also inlined.
func (g *gen) origin(e *dwarf.Entry) (*dwarf.Entry, error) {
	for _, attr := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		if off, ok := e.Val(attr).(dwarf.Offset); ok {
			r := g.data.Reader()
			r.Seek(off)
			o, err := r.Next()
			if err != nil {
				return nil, err
			}
			return g.origin(o)
		}
	}
	return e, nil
}

func (g *gen) function(e *dwarf.Entry) (name, text string, err error) {
	if e, err = g.origin(e); err != nil {
		return "", "", err
	}
	name, _ = e.Val(dwarf.AttrName).(string)
	ret, err := g.typeOf(e)
	if err != nil {
		return "", "", err
	}
	text = fmt.Sprintf("func %d %s", ret, name)
	r := g.data.Reader()
	r.Seek(e.Offset)
	if _, err := r.Next(); err != nil || !e.Children {
		return name, text, err
	}
	for {
		p, err := r.Next()
		if err != nil || p == nil || p.Tag == 0 {
			return name, text, err
		}
		if p.Tag == dwarf.TagFormalParameter {
			typ, err := g.typeOf(p)
			if err != nil {
				return "", "", err
			}
			arg, _ := p.Val(dwarf.AttrName).(string)
			text += fmt.Sprintf(" %d:%s", typ, arg)
		}
		r.SkipChildren()
	}
}

func (g *gen) typeOf(e *dwarf.Entry) (int, error) {
	off, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return 0, nil
	}
	t, err := g.data.Type(off)
	if err != nil {
		return 0, err
	}
	return g.number(t), nil
}

// number returns the number of the type's line.
func (g *gen) number(t dwarf.Type) int {
	switch t := t.(type) {
	case *dwarf.TypedefType:
		return g.number(t.Type)
	case *dwarf.QualType:
		return g.number(t.Type)
	case *dwarf.VoidType, nil:
		return 0
	case *dwarf.PtrType:
		if t.Type == nil {
			return g.keep("ptr 0")
		}
		return g.keep(fmt.Sprintf("ptr %d", g.number(t.Type)))
	case *dwarf.ArrayType:
		return g.keep(fmt.Sprintf("array %d %d", g.number(t.Type), max(t.Count, 0)))
	case *dwarf.StructType:
		return g.structure(t)
	case *dwarf.EnumType:
		return g.keep(strings.TrimSpace(fmt.Sprintf("enum %d %s %s", t.ByteSize, enumSign(t), t.EnumName)))
	case *dwarf.IntType:
		return g.keep(fmt.Sprintf("int %d s %s", t.ByteSize, t.Name))
	case *dwarf.UintType:
		return g.keep(fmt.Sprintf("int %d u %s", t.ByteSize, t.Name))
	case *dwarf.CharType:
		return g.keep(fmt.Sprintf("int %d s %s", t.ByteSize, t.Name))
	case *dwarf.UcharType:
		return g.keep(fmt.Sprintf("int %d u %s", t.ByteSize, t.Name))
	case *dwarf.BoolType:
		return g.keep(fmt.Sprintf("int %d u %s", t.ByteSize, t.Name))
	}
	return g.keep("proto")
}

// enumSign: as in the kernel's BTF, an enum is signed if it has a negative value.
func enumSign(t *dwarf.EnumType) string {
	for _, v := range t.Val {
		if v.Val < 0 {
			return "s"
		}
	}
	return "u"
}

// keep returns the number of a text, and adds the text if it is new.
func (g *gen) keep(text string) int {
	if n := g.byKey[text]; n != 0 {
		return n
	}
	g.out = append(g.out, text)
	g.byKey[text] = len(g.out)
	return len(g.out)
}

// structure numbers a structure before its members, which may point to it.
func (g *gen) structure(t *dwarf.StructType) int {
	if whole := g.whole[t.StructName]; t.Incomplete && len(whole) == 1 {
		t = whole[0]
	}
	head := strings.TrimSpace(fmt.Sprintf("struct %d %s", max(t.ByteSize, 0), t.StructName))
	key := head
	if t.StructName == "" {
		for _, f := range t.Field {
			key += fmt.Sprintf(" %s %d %s", f.Name, f.ByteOffset, f.Type)
		}
	}
	if n := g.byKey[key]; n != 0 {
		return n
	}
	g.out = append(g.out, head)
	n := len(g.out)
	g.byKey[key] = n
	for _, f := range t.Field {
		bit := f.ByteOffset * 8
		if f.BitSize != 0 {
			bit = f.DataBitOffset
		}
		g.out[n-1] += strings.TrimRight(fmt.Sprintf("\n. %d %d %d %s", g.number(f.Type), bit, f.BitSize, f.Name), " ")
	}
	return n
}
