// Package btf holds the types of the guest's functions: parameters, return types, and
// the layouts of the structures that they refer to. Linux has them as BTF; here
// kernel/guest/btfgen makes a text from the guest's debug info, and documents its
// format.
package btf

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// Kind is the kind of a type. Typedefs and qualifiers are resolved.
type Kind uint8

// Kinds of types. A union is a Struct; a function pointer points to a Proto.
const (
	Void Kind = iota
	Int
	Pointer
	Array
	Struct
	Enum
	Proto
)

// Type is a type of C.
type Type struct {
	Kind    Kind
	Name    string // of numbers, structures and enums; may be empty
	Size    int    // bytes
	Signed  bool
	Elem    *Type // of a Pointer or an Array
	Count   int   // of an Array
	Members []Member
}

// Member is a member of a Struct. It has no name if it is an anonymous structure or
// union.
type Member struct {
	Name string
	Type *Type
	Bit  int    // offset in bits
	Bits int    // width of a bitfield, 0 for other members
	Decl string // its declaration as C has it, with typedefs; "" if that is not known
}

// Func is a function's prototype.
type Func struct {
	Name   string
	Return *Type
	Params []Param
	Result string // Return as C has it, with typedefs; "" if that is not known
}

// Param is one argument.
type Param struct {
	Name string
	Type *Type
	Decl string // as Member.Decl
}

// Types are the types of one kernel.
type Types struct {
	funcs map[string]*Func
	all   []*Type
	from  Source
}

// Source has types that are made when they are asked for.
type Source interface {
	Func(name string) *Func   // nil if there is none of that name
	Struct(name string) *Type // nil if there is none of that name
}

// From returns the types of a source. They are as safe for concurrent use as the source is.
func From(s Source) *Types { return &Types{from: s} }

// Func returns the prototype of the named function, or nil.
func (t *Types) Func(name string) *Func {
	switch {
	case t == nil:
		return nil
	case t.from != nil:
		return t.from.Func(name)
	}
	return t.funcs[name]
}

// Declaration returns the declaration of a variable of type t as C has it, with typedefs resolved; of an
// empty name, the type's.
func (t *Type) Declaration(name string) string {
	for range maxDeclaration {
		switch {
		case t.Kind == Pointer && (t.Elem.Kind == Array || t.Elem.Kind == Proto):
			name = "(*" + name + ")"
		case t.Kind == Pointer:
			name = "*" + name
		case t.Kind == Array:
			name = fmt.Sprintf("%s[%d]", name, t.Count)
		default:
			return t.declaration(name)
		}
		t = t.Elem
	}
	return name
}

// maxDeclaration bounds the pointers and arrays of a declaration, which hostile types may close to a
// circle.
const maxDeclaration = 64

// declaration is Declaration of what is neither a pointer nor an array.
func (t *Type) declaration(name string) string {
	word := t.Name
	switch {
	case t.Kind == Proto:
		return name + "()"
	case t.Kind == Void:
		word = "void"
	case word == "" && t.Kind == Struct:
		word = "struct {...}"
	case word == "" && t.Kind == Enum:
		word = "enum {...}"
	case t.Kind == Struct:
		word = "struct " + word
	case t.Kind == Enum:
		word = "enum " + word
	}
	return strings.TrimSuffix(word+" "+name, " ")
}

// Declaration returns the parameter's declaration.
func (p *Param) Declaration() string { return cmp.Or(p.Decl, p.Type.Declaration(p.Name)) }

// Declaration returns the member's declaration.
func (m *Member) Declaration() string {
	if m.Decl != "" {
		return m.Decl
	}
	if m.Bits != 0 {
		return fmt.Sprintf("%s : %d", m.Type.Declaration(m.Name), m.Bits)
	}
	return m.Type.Declaration(m.Name)
}

// Member looks a member up by name, also in anonymous members. Bit is then its offset
// in t.
func (t *Type) Member(name string) (Member, bool) {
	for _, m := range t.Members {
		if m.Name == name && name != "" {
			return m, true
		}
		if m.Name != "" || m.Type.Kind != Struct {
			continue
		}
		if inner, ok := m.Type.Member(name); ok {
			inner.Bit += m.Bit
			return inner, true
		}
	}
	return Member{}, false
}

// IsChars reports whether t is an array of or a pointer to one-byte integers.
func (t *Type) IsChars() bool {
	return (t.Kind == Pointer || t.Kind == Array) && t.Elem.Kind == Int && t.Elem.Size == 1
}

// Parse reads the text that btfgen writes. It returns EINVAL for anything else.
func Parse(text []byte) (*Types, error) {
	p := parser{Types: Types{funcs: map[string]*Func{}}}
	if n := bytes.Count(text, []byte("\n")) - bytes.Count(text, []byte("\n. ")) - bytes.Count(text, []byte("\nfunc ")); n > 0 {
		p.all = make([]*Type, 0, n+1)
	}
	p.all = append(p.all, &Type{})
	// Lines refer to later types, so all types are created first.
	for _, read := range []func([]string) error{p.declare, p.define} {
		lines := bufio.NewScanner(bytes.NewReader(text))
		for p.at = 0; lines.Scan(); {
			words := strings.SplitN(lines.Text(), " ", 5)
			if words[0] == "func" {
				words = strings.Fields(lines.Text())
			}
			if err := read(words); err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
		}
	}
	return &p.Types, nil
}

type parser struct {
	Types
	at  int   // index of the current type
	bad error // the first error in a number or type reference
}

var kinds = map[string]Kind{"int": Int, "ptr": Pointer, "array": Array, "struct": Struct, "enum": Enum, "proto": Proto}

func (p *parser) declare(words []string) error {
	if kind, ok := kinds[words[0]]; ok {
		p.all = append(p.all, &Type{Kind: kind})
	}
	return nil
}

func (p *parser) define(words []string) error {
	kind, isType := kinds[words[0]]
	if isType {
		p.at++
	}
	t := p.all[p.at]
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	rest := func(i int) string { return strings.Join(words[min(i, len(words)):], " ") }
	switch {
	case words[0] == "func":
		p.function(words)
	case words[0] == "." && t.Kind == Struct:
		t.Members = append(t.Members, Member{Name: rest(4), Type: p.typ(word(1)), Bit: p.number(word(2)), Bits: p.number(word(3))})
	case kind == Int || kind == Enum:
		t.Size, t.Name = p.number(word(1)), rest(3)
		t.Signed = word(2) == "s"
	case kind == Pointer:
		t.Size, t.Elem = 8, p.typ(word(1))
	case kind == Array:
		t.Elem, t.Count = p.typ(word(1)), p.number(word(2))
	case kind == Struct:
		t.Size, t.Name = p.number(word(1)), rest(2)
	case kind != Proto:
		p.fail()
	}
	return p.bad
}

func (p *parser) function(words []string) {
	if len(words) < 3 {
		p.fail()
		return
	}
	f := &Func{Name: words[2], Return: p.typ(words[1])}
	for _, w := range words[3:] {
		number, name, _ := strings.Cut(w, ":")
		f.Params = append(f.Params, Param{Name: name, Type: p.typ(number)})
	}
	p.funcs[f.Name] = f
}

func (p *parser) fail() {
	if p.bad == nil {
		p.bad = syscall.EINVAL
	}
}

func (p *parser) number(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		p.fail()
	}
	return int(n)
}

func (p *parser) typ(s string) *Type {
	n := p.number(s)
	if n >= len(p.all) {
		p.fail()
		n = 0
	}
	return p.all[n]
}

// Offset returns the offset in bytes of a member, given as a path of names, in a
// structure. It returns 0 if there is none.
func (t *Types) Offset(structure string, members ...string) int {
	all := t.all
	if t.from != nil {
		if s := t.from.Struct(structure); s != nil {
			all = []*Type{s}
		}
	}
	for _, typ := range all {
		if typ.Kind != Struct || typ.Name != structure || len(typ.Members) == 0 {
			continue
		}
		bit := 0
		for _, name := range members {
			m, ok := typ.Member(name)
			if !ok {
				return 0
			}
			bit, typ = bit+m.Bit, m.Type
		}
		return bit / 8
	}
	return 0
}
