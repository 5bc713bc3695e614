// Package rawbtf reads BTF as the kernel's build writes it, from the section .BTF of a vmlinux or of a
// module, or from /sys/kernel/btf/vmlinux, into the types of package btf. The bytes are untrusted.
package rawbtf

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	ebpf "github.com/cilium/ebpf/btf"

	"github.com/kprobefs/kprobefs/kernel/btf"
)

// ErrFormat means that bytes are no BTF.
var ErrFormat = errors.New("no BTF")

// Spec is the BTF of a kernel, or of a module together with its kernel's. One goroutine at a
// time may use it.
type Spec struct {
	spec  *ebpf.Spec
	base  *Spec // of the kernel, if this is a module's
	types map[ebpf.Type]*btf.Type
}

// Parse reads BTF, or an ELF file that has a section .BTF. It fails with an ErrFormat.
func Parse(b []byte) (*Spec, error) {
	spec, err := ebpf.LoadSpecFromReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return &Spec{spec: spec, types: map[ebpf.Type]*btf.Type{}}, nil
}

// Module reads the BTF of a module, which refers to types of its kernel's. It fails with an ErrFormat.
func (s *Spec) Module(b []byte) (*Spec, error) {
	spec, err := ebpf.LoadSplitSpecFromReader(bytes.NewReader(b), s.spec)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return &Spec{spec: spec, base: s, types: s.types}, nil
}

// Func implements btf.Source.
func (s *Spec) Func(name string) *btf.Func {
	found, _ := s.spec.AnyTypesByName(name)
	for _, t := range found {
		f, ok := t.(*ebpf.Func)
		if !ok {
			continue
		}
		proto, ok := f.Type.(*ebpf.FuncProto)
		if !ok {
			continue
		}
		made := &btf.Func{Name: name, Return: s.convert(proto.Return), Result: declare(proto.Return, "", 0)}
		for _, p := range proto.Params {
			made.Params = append(made.Params, btf.Param{Name: p.Name, Type: s.convert(p.Type), Decl: declare(p.Type, p.Name, 0)})
		}
		return made
	}
	return nil
}

// Struct implements btf.Source.
func (s *Spec) Struct(name string) *btf.Type {
	found, _ := s.spec.AnyTypesByName(name)
	for _, t := range found {
		switch t.(type) {
		case *ebpf.Struct, *ebpf.Union:
			return s.convert(t)
		}
	}
	if s.base != nil {
		return s.base.Struct(name)
	}
	return nil
}

// maxDepth bounds chains of typedefs and qualifiers, which hostile BTF may close to a circle.
const maxDepth = 64

// plain returns a type without typedefs and qualifiers. A circle of them is void.
func plain(t ebpf.Type) ebpf.Type {
	for range maxDepth {
		switch q := t.(type) {
		case *ebpf.Typedef:
			t = q.Type
		case *ebpf.Const:
			t = q.Type
		case *ebpf.Volatile:
			t = q.Type
		case *ebpf.Restrict:
			t = q.Type
		case *ebpf.TypeTag:
			t = q.Type
		default:
			return t
		}
	}
	return &ebpf.Void{}
}

// void is what has no size: also the type of what another file declares only.
var void = &btf.Type{Kind: btf.Void}

// convert returns a type as package btf has it. The types that it refers to are converted with it.
func (s *Spec) convert(t ebpf.Type) *btf.Type {
	t = plain(t)
	if known := s.types[t]; known != nil {
		return known
	}
	made := &btf.Type{}
	s.types[t] = made
	switch t := t.(type) {
	case *ebpf.Int:
		*made = btf.Type{Kind: btf.Int, Name: t.Name, Size: int(t.Size), Signed: t.Encoding == ebpf.Signed}
	case *ebpf.Float:
		*made = btf.Type{Kind: btf.Int, Name: t.Name, Size: int(t.Size)}
	case *ebpf.Enum:
		*made = btf.Type{Kind: btf.Enum, Name: t.Name, Size: int(t.Size), Signed: t.Signed}
	case *ebpf.Pointer:
		made.Kind, made.Size = btf.Pointer, 8
		made.Elem = s.convert(t.Target)
	case *ebpf.Array:
		made.Kind, made.Count = btf.Array, int(t.Nelems)
		made.Elem = s.convert(t.Type)
	case *ebpf.Struct:
		made.Kind, made.Name, made.Size = btf.Struct, t.Name, int(t.Size)
		made.Members = s.members(t.Members)
	case *ebpf.Union:
		made.Kind, made.Name, made.Size = btf.Struct, t.Name, int(t.Size)
		made.Members = s.members(t.Members)
	case *ebpf.Fwd: // a structure whose members are not known
		made.Kind, made.Name = btf.Struct, t.Name
	case *ebpf.FuncProto:
		made.Kind = btf.Proto
	default:
		s.types[t] = void
		return void
	}
	return made
}

func (s *Spec) members(of []ebpf.Member) []btf.Member {
	all := make([]btf.Member, 0, len(of))
	for _, m := range of {
		decl := declare(m.Type, m.Name, 0)
		if m.BitfieldSize != 0 {
			decl = fmt.Sprintf("%s : %d", decl, m.BitfieldSize)
		}
		all = append(all, btf.Member{Name: m.Name, Type: s.convert(m.Type), Bit: int(m.Offset), Bits: int(m.BitfieldSize), Decl: decl})
	}
	return all
}

// declare returns the declaration of a variable as C has it.
func declare(t ebpf.Type, name string, depth int) string {
	if depth > maxDepth {
		return name
	}
	named := func(word string) string { return strings.TrimSuffix(word+" "+name, " ") }
	// tagged is for what C names by a keyword and a tag.
	tagged := func(keyword, tag string) string {
		if tag == "" {
			tag = "{...}"
		}
		return named(keyword + " " + tag)
	}
	// qualified is for a qualifier: of a pointer it stands after the star.
	qualified := func(word string, of ebpf.Type) string {
		if _, ok := of.(*ebpf.Pointer); ok {
			return declare(of, strings.TrimSuffix(word+" "+name, " "), depth+1)
		}
		return word + " " + declare(of, name, depth+1)
	}
	switch t := t.(type) {
	case *ebpf.Pointer:
		switch t.Target.(type) {
		case *ebpf.Array, *ebpf.FuncProto:
			return declare(t.Target, "(*"+name+")", depth+1)
		}
		return declare(t.Target, "*"+name, depth+1)
	case *ebpf.Array:
		return declare(t.Type, fmt.Sprintf("%s[%d]", name, t.Nelems), depth+1)
	case *ebpf.FuncProto:
		return declare(t.Return, name+"()", depth+1)
	case *ebpf.Const:
		return qualified("const", t.Type)
	case *ebpf.Volatile:
		return qualified("volatile", t.Type)
	case *ebpf.Restrict:
		return qualified("restrict", t.Type)
	case *ebpf.TypeTag:
		return declare(t.Type, name, depth+1)
	case *ebpf.Struct:
		return tagged("struct", t.Name)
	case *ebpf.Union:
		return tagged("union", t.Name)
	case *ebpf.Enum:
		return tagged("enum", t.Name)
	case *ebpf.Fwd:
		return tagged(t.Kind.String(), t.Name)
	case *ebpf.Void, nil:
		return named("void")
	}
	return named(t.TypeName())
}
