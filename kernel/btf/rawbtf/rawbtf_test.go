package rawbtf_test

import (
	"errors"
	"testing"

	ebpf "github.com/cilium/ebpf/btf"

	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/btf/rawbtf"
)

// world returns the BTF of one function: int open(const struct file *f, name_t *name, char text[8]).
func world(t testing.TB) []byte {
	t.Helper()
	integer := &ebpf.Int{Name: "int", Size: 4, Encoding: ebpf.Signed}
	char := &ebpf.Int{Name: "char", Size: 1, Encoding: ebpf.Signed}
	file := &ebpf.Struct{Name: "file", Size: 32}
	file.Members = []ebpf.Member{
		{Name: "self", Type: &ebpf.Pointer{Target: file}},
		{Type: &ebpf.Union{Size: 8, Members: []ebpf.Member{{Name: "count", Type: integer}, {Name: "next", Type: &ebpf.Pointer{Target: &ebpf.Const{Type: char}}}}}, Offset: 64},
		{Name: "bits", Type: integer, Offset: 128 + 3, BitfieldSize: 5},
		{Name: "call", Type: &ebpf.Pointer{Target: &ebpf.FuncProto{Return: integer}}, Offset: 192},
	}
	open := &ebpf.Func{Name: "open", Linkage: ebpf.StaticFunc, Type: &ebpf.FuncProto{Return: integer, Params: []ebpf.FuncParam{
		{Name: "f", Type: &ebpf.Pointer{Target: &ebpf.Const{Type: file}}},
		{Name: "name", Type: &ebpf.Const{Type: &ebpf.Pointer{Target: &ebpf.Typedef{Name: "name_t", Type: &ebpf.Volatile{Type: char}}}}},
		{Name: "text", Type: &ebpf.Array{Index: integer, Type: char, Nelems: 8}},
		{Name: "any", Type: &ebpf.Pointer{Target: &ebpf.Void{}}},
		{Name: "kind", Type: &ebpf.Enum{Name: "kind", Size: 4, Values: []ebpf.EnumValue{{Name: "ONE", Value: 1}}}},
	}}}
	b, err := ebpf.NewBuilder([]ebpf.Type{open}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestTypes(t *testing.T) {
	spec, err := rawbtf.Parse(world(t))
	if err != nil {
		t.Fatal(err)
	}
	types := btf.From(spec)
	fn := types.Func("open")
	if fn == nil {
		t.Fatal("no open")
	}
	for i, want := range []string{"const struct file *f", "name_t *const name", "char text[8]", "void *any", "enum kind kind"} {
		if got := fn.Params[i].Declaration(); got != want {
			t.Errorf("parameter %d is %q, want %q", i, got, want)
		}
	}
	if fn.Result != "int" || fn.Return.Kind != btf.Int || !fn.Return.Signed || fn.Return.Size != 4 || !fn.Params[1].Type.IsChars() {
		t.Errorf("%+v", fn)
	}
	file := fn.Params[0].Type.Elem
	if file.Size != 32 || file.Members[0].Type.Elem != file {
		t.Errorf("%+v", file)
	}
	for name, want := range map[string]struct {
		bit, bits int
		decl      string
	}{
		"self": {0, 0, "struct file *self"}, "next": {64, 0, "const char *next"}, "bits": {131, 5, "int bits : 5"}, "call": {192, 0, "int (*call)()"},
	} {
		m, ok := file.Member(name)
		if !ok || m.Bit != want.bit || m.Bits != want.bits || m.Declaration() != want.decl {
			t.Errorf("%s: %+v, want %+v", name, m, want)
		}
	}
	if at := types.Offset("file", "call"); at != 24 {
		t.Errorf("call is at %d", at)
	}
	if types.Func("file") != nil || types.Func("none") != nil || types.Offset("none", "x") != 0 {
		t.Error("a type or function that does not exist is found")
	}
}

func TestNoBTF(t *testing.T) {
	for _, b := range []string{"", "text", "\x7fELF", "\x9f\xeb\x01\x00"} {
		if _, err := rawbtf.Parse([]byte(b)); !errors.Is(err, rawbtf.ErrFormat) {
			t.Errorf("%q: %v", b, err)
		}
	}
}

// FuzzParse changes a byte of BTF, and converts what is there then.
func FuzzParse(f *testing.F) {
	raw := world(f)
	for i := 0; i < len(raw); i += 16 {
		f.Add(i, byte(1))
	}
	f.Fuzz(func(_ *testing.T, at int, v byte) {
		b := append([]byte(nil), raw...)
		if at >= 0 {
			b[at%len(b)] ^= v
		}
		spec, err := rawbtf.Parse(b)
		if err != nil {
			return
		}
		for _, name := range []string{"open", "file", "int"} {
			if fn := spec.Func(name); fn != nil {
				fn.Return.Declaration("x")
				for i := range fn.Params {
					fn.Params[i].Type.Declaration("x")
				}
			}
			spec.Struct(name)
		}
	})
}
