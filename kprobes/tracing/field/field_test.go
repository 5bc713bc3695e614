package field

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMember(t *testing.T) {
	for _, c := range []struct {
		f             Field
		name, typ     string
		kind          Kind
		isText, stack bool
	}{
		{New("unsigned long __probe_ip", 8, 8, false), "__probe_ip", "unsigned long", Integer, false, false},
		{New("char comm[16]", 8, 16, true), "comm", "char[16]", CharArray, true, false},
		{New("unsigned char raw[4]", 8, 4, false), "raw", "unsigned char[4]", CharArray, true, false},
		{New("u8 arg1[3]", 8, 3, false), "arg1", "u8[3]", Array, false, false},
		{New("__data_loc char[] path", 8, 4, true), "path", "__data_loc char[]", DataLocText, true, false},
		{New("__data_loc unsigned long[] stack", 8, 4, false), "stack", "__data_loc unsigned long[]", DataLoc, true, true},
		{New("const char * name", 8, 8, false), "name", "const char *", TextPointer, false, false},
	} {
		m := c.f.Member()
		if m.Name != c.name || m.Type != c.typ || m.Kind != c.kind || m.IsText() != c.isText || m.IsStack() != c.stack || m.Number != c.f.Number {
			t.Errorf("%s: %+v", c.f.Decl, m)
		}
		back, err := Parse(c.f.String()[:len(c.f.String())-1])
		if err != nil || back != c.f {
			t.Errorf("%s: %+v, %v", c.f, back, err)
		}
	}
	for _, line := range []string{"", "\tfield:int x;\toffset:1;\tsize:4;", "\tfield:int x;\toffset:a;\tsize:4;\tsigned:1;"} {
		if f, err := Parse(line); err == nil {
			t.Errorf("%q gives %+v", line, f)
		}
	}
}

func TestNumbers(t *testing.T) {
	entry := []byte{1, 2, 3, 4, 5, 6, 7, 0xff}
	for _, c := range []struct {
		n    Number
		want uint64
	}{
		{Number{0, 8, false}, 0xff07060504030201},
		{Number{0, 4, false}, 0x04030201},
		{Number{7, 1, false}, 0xff},
		{Number{7, 1, true}, 1<<64 - 1},
		{Number{6, 2, true}, 0xffffffffffffff07},
		{Number{6, 8, false}, 0xff07}, // past the end of the entry
	} {
		if got := c.n.Load(entry); got != c.want {
			t.Errorf("%+v: %#x, want %#x", c.n, got, c.want)
		}
	}
	for size := 1; size <= 8; size++ {
		b := make([]byte, size)
		PutUint(b, 0x8877665544332211)
		if got, want := Uint(b), (Number{Size: size}).Extend(0x8877665544332211); got != want {
			t.Errorf("%d bytes: %#x, want %#x", size, got, want)
		}
	}
}

// TestText: contents of entries are untrusted.
func TestText(t *testing.T) {
	entry := append(make([]byte, 12), "name\x00rest"...)
	PutDataLoc(entry[8:], 12, 5)
	bad := append([]byte(nil), entry...)
	PutDataLoc(bad[8:], 12, 500)
	loc, array := New("__data_loc char[] s", 8, 4, true).Member(), New("char s[6]", 12, 6, true).Member()
	for _, c := range []struct {
		m     *Member
		entry []byte
		want  string
	}{{loc, entry, "name"}, {array, entry, "name"}, {loc, bad, ""}, {loc, entry[:10], ""}, {array, entry[:13], ""}} {
		if diff := cmp.Diff(c.want, string(c.m.Text(c.entry))); diff != "" {
			t.Errorf("%s in %d bytes (-want +got):\n%s", c.m.Type, len(c.entry), diff)
		}
	}
}
