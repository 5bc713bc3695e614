package btf_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/guest"
)

func TestParse(t *testing.T) {
	types, err := btf.Parse([]byte(`int 1 s char
ptr 1
struct 24 file
. 5 0 0 f_mode
. 6 32 0
. 3 0 0 self
. 4 128 3 bits
ptr 3
int 4 u unsigned int
struct 4
. 5 8 0 inner
array 1 16
func 2 name 4:file 5:count
func 0 none
`))
	if err != nil {
		t.Fatal(err)
	}
	f := types.Func("name")
	if f == nil || len(f.Params) != 2 || f.Params[1].Name != "count" || !f.Return.IsChars() {
		t.Fatalf("%+v", f)
	}
	file := f.Params[0].Type.Elem
	if file.Name != "file" || file.Size != 24 {
		t.Errorf("%+v", file)
	}
	for name, want := range map[string]btf.Member{"f_mode": {Bit: 0}, "inner": {Bit: 40}, "bits": {Bit: 128, Bits: 3}} {
		if m, ok := file.Member(name); !ok || m.Name != name || m.Bit != want.Bit || m.Bits != want.Bits {
			t.Errorf("%s: %+v, %v", name, m, ok)
		}
	}
	for _, name := range []string{"", "nope"} {
		if m, ok := file.Member(name); ok {
			t.Errorf("%q: %+v", name, m)
		}
	}
	if types.Func("none").Return.Kind != btf.Void || types.Func("no") != nil {
		t.Error("a void function has a return type, or a function that does not exist was found")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"ptr 9\n", "ptr x\n", ". 0 0 0 a\n", "what\n", "func 1\n", "func 1 a\n", "array 0 -1\n", "struct\n", "\n"} {
		if _, err := btf.Parse([]byte(text)); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("int 1 s char\nptr 1\nstruct 8 s\n. 2 0 0 a\nfunc 2 f 3:a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		types, err := btf.Parse(text)
		if err == nil {
			types.Func("f")
		}
	})
}

// TestGuest: functions of the guest have Linux's parameters.
func TestGuest(t *testing.T) {
	types, err := btf.Parse(guest.BTF("6.12"))
	if err != nil {
		t.Fatal(err)
	}
	f := types.Func("vfs_read")
	if f == nil || len(f.Params) != 4 || f.Params[0].Name != "file" || f.Params[0].Type.Elem.Name != "file" || !f.Params[1].Type.IsChars() {
		t.Fatalf("%+v", f)
	}
	if !f.Return.Signed || f.Return.Size != 8 {
		t.Errorf("returns %+v", f.Return)
	}
	path, ok := f.Params[0].Type.Elem.Member("f_path")
	if !ok || path.Type.Kind != btf.Struct || path.Bit%8 != 0 {
		t.Errorf("f_path %+v, %v", path, ok)
	}
	if guest.BTF("6.1") != nil {
		t.Error("6.1 has no types")
	}
}
