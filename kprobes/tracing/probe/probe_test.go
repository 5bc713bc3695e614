package probe

import (
	"encoding/binary"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// The memory of the tests: one page of the kernel.
const page = 0xffff888000001000

type memory struct {
	abi.Memory
	b [abi.PageSize]byte
}

func (m *memory) ReadAt(addr uint64, p []byte) error {
	if addr < page || addr+uint64(len(p)) > page+abi.PageSize {
		return syscall.EFAULT
	}
	copy(p, m.b[addr-page:])
	return nil
}

func (m *memory) ReadU64(addr uint64) (uint64, error) {
	var b [8]byte
	err := m.ReadAt(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// symbols has one symbol, at page.
type symbols struct{}

func (symbols) LookupName(name string) []abi.Symbol {
	if name != "sym" {
		return nil
	}
	return []abi.Symbol{{Name: "sym", Addr: page, Size: 0x100}}
}

func (s symbols) Lookup(addr uint64) (abi.Symbol, uint64, bool) {
	if addr-page >= 0x100 {
		return abi.Symbol{}, 0, false
	}
	return s.LookupName("sym")[0], addr - page, true
}

func rules(v release.Version) *Rules {
	has := v.Set()
	return NewRules(v, &has, nil)
}

// hit returns a hit at which di is 42, si is page, and a string and a pointer to it are
// in that page.
func hit() *abi.Trap {
	m := &memory{}
	copy(m.b[16:], "text\x00")
	binary.LittleEndian.PutUint64(m.b[8:], page+16)
	binary.LittleEndian.PutUint16(m.b[32:], 0xfffe)
	return &abi.Trap{Regs: &abi.Regs{DI: 42, SI: page, AX: 1<<64 - 1, SP: page + 64}, Mem: m}
}

// shows parses arguments, fetches them at hit and returns what a line shows.
func shows(t *testing.T, d *Definition, words string) (string, *Error, error) {
	t.Helper()
	derr, err := d.ParseArgs(strings.Fields(words))
	if derr != nil || err != nil {
		return "", derr, err
	}
	if err := Resolve(d.Args, symbols{}); err != nil {
		return "", nil, err
	}
	e := &Entry{N: field.HeaderSize, Symbols: symbols{}}
	if !e.StoreArgs(hit(), d.Args, d.ArgsSize) {
		t.Fatalf("%s: the entry is too large", words)
	}
	return string(AppendArgs(nil, e.Buf[:e.N], d.Args, field.HeaderSize, symbols{})), nil, nil
}

func TestFetch(t *testing.T) {
	for words, want := range map[string]string{
		"%di":                       " arg1=0x2a",
		"n=%di:u32 $stack":          " n=42 arg2=0xffff888000001040",
		"a=%ax:s8 b=%ax:x16":        " a=-1 b=0xffff",
		"s=+0(+8(%si)):string":      ` s="text"`,
		"s=+16(@sym):string":        " s=(fault)", // what is at sym is no address
		"x=@sym+32:s16":             " x=-2",
		"l=+16(%si):u8[2]":          " l={116,101}",
		"b=%di:b4@1/8":              " b=5",
		"p=%si:symbol q=%si:symstr": ` p=sym+0x0/0x100 q="sym+0x0/0x100"`,
		`i=\-5:s32 j=\"lit"`:        ` i=-5 j="lit"`,
		"f=+0(%di):u8":              " f=0",
		"t=+0(%di):string":          " t=(fault)",
	} {
		got, derr, err := shows(t, &Definition{Rules: rules(release.Linux6_1)}, words)
		if got != want || derr != nil || err != nil {
			t.Errorf("%s: %q, %v, %v; want %q", words, got, derr, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		d      Definition
		words  string
		text   string
		column int // in "p:x sym WORDS"
		errno  syscall.Errno
	}{
		{Definition{}, "%none", "Invalid register name", 8, syscall.EINVAL},
		{Definition{}, "a=%di a=%si", "This argument name is already used", 14, syscall.EINVAL},
		{Definition{}, "$retval", "$retval is not available on probe", 8, syscall.EINVAL},
		{Definition{}, "x=+0(%di", "Dereference brace is not closed", 16, syscall.EINVAL},
		{Definition{}, "x=%di:u9", "Unknown type is specified", 14, syscall.EINVAL},
		{Definition{}, "x=%di:u8[65]", "Array number is too big", 17, syscall.EINVAL},
		{Definition{}, "@+4", "File offset is not available with kprobe", 8, syscall.EINVAL},
		{Definition{User: true}, "@sym", "Symbol is not available with uprobe", 8, syscall.EINVAL},
		{Definition{Fields: field.Members(nil)}, "$none", "Attached event does not have this field", 8, syscall.ENOENT},
		{Definition{}, "x=$arg1", "Invalid $-variable specified", 10, syscall.EINVAL},
	} {
		c.d.Rules = rules(release.Linux6_1)
		_, derr, err := shows(t, &c.d, c.words)
		if derr == nil {
			t.Errorf("%s: %v, want %q", c.words, err, c.text)
			continue
		}
		_, column := derr.Caret(append([]string{"p:x", "sym"}, strings.Fields(c.words)...))
		reason := c.d.Rules.ReleaseReason(derr.Reason)
		if reason.Text != c.text || reason.Errno != c.errno || column != c.column || !errors.Is(derr, c.errno) {
			t.Errorf("%s: %v, column %d, want %q, column %d", c.words, derr, column, c.text, c.column)
		}
	}
	if _, derr, err := shows(t, &Definition{Rules: rules(release.Linux6_1)}, "@none"); derr != nil || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a symbol that is not there: %v, %v", derr, err)
	}
}

// TestReturn: $retval and what an entry handler has saved.
func TestReturn(t *testing.T) {
	d := &Definition{Rules: rules(release.Linux6_1), Return: true}
	if got, derr, err := shows(t, d, "$retval:s64"); got != " arg1=-1" || derr != nil || err != nil {
		t.Errorf("%q, %v, %v", got, derr, err)
	}
	room := make([]byte, 16)
	KeepEntryArgs(room, hit(), []int{1, 0})
	if si, di := binary.LittleEndian.Uint64(room), binary.LittleEndian.Uint64(room[8:]); si != page || di != 42 {
		t.Errorf("saved %#x and %d", si, di)
	}
}

func TestFields(t *testing.T) {
	d := &Definition{Rules: rules(release.Linux6_1)}
	if derr, err := d.ParseArgs([]string{"a=%di:s32", "s=+0(%si):string", "l=+0(%si):u8[3]"}); derr != nil || err != nil {
		t.Fatal(derr, err)
	}
	want := "\tfield:s32 a;\toffset:16;\tsize:4;\tsigned:1;\n" +
		"\tfield:__data_loc char[] s;\toffset:20;\tsize:4;\tsigned:1;\n" +
		"\tfield:u8 l[];\toffset:24;\tsize:3;\tsigned:0;\n"
	got := ""
	for _, f := range Fields(d.Args, 16) {
		got += f.String()
	}
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	format, values := PrintFmt(d.Args)
	if format != ` a=%d s=\"%s\" l={%u,%u,%u}` || values != ", REC->a, __get_str(s), REC->l[0], REC->l[1], REC->l[2]" {
		t.Errorf("print fmt %s%s", format, values)
	}
	if text := Texts(d.Args); text != " a=%di:s32 s=+0(%si):string l=+0(%si):u8[3]" {
		t.Errorf("listed as %q", text)
	}
}

// FuzzParseArgs: words are refused with an errno, or what they become can be fetched and
// shown.
func FuzzParseArgs(f *testing.F) {
	for _, s := range []string{"%di", "n=+0(+8(%si)):string", "x=@sym-4:b3@2/16", "$stack9:u8[4]", `\"a" $comm`, "$retval:symstr"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, words string, isReturn bool) {
		d := &Definition{Rules: rules(release.Linux6_1), Return: isReturn}
		derr, err := d.ParseArgs(strings.Fields(words))
		var errno syscall.Errno
		switch {
		case derr != nil && derr.Errno == 0, err != nil && !errors.As(err, &errno):
			t.Errorf("%q: %v, %v", words, derr, err)
		case derr == nil && err == nil && Resolve(d.Args, symbols{}) == nil:
			e := &Entry{N: field.HeaderSize, Symbols: symbols{}}
			if e.StoreArgs(hit(), d.Args, d.ArgsSize) {
				AppendArgs(nil, e.Buf[:e.N], d.Args, field.HeaderSize, symbols{})
			}
		}
	})
}
