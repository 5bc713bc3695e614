package args_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
	"github.com/kprobefs/kprobefs/optimizer/why/args"
)

// types has a function with parameters of each kind.
const types = `int 8 u unsigned long
int 1 s char
ptr 2
int 4 u unsigned int
struct 40 file
. 7 0 0 f_path
. 4 128 0 f_flags
. 10 192 0 comm
. 4 256 3 bits
ptr 5
struct 16 path
. 6 0 0 mnt
. 8 64 0 dentry
ptr 9
struct 16 dentry
. 3 64 0 name
array 2 8
ptr 0
struct 12 pair
. 4 0 0 a
ptr 1
func 1 read 6:file 3:buf 1:count 13:pos
func 0 nothing
func 1 many 6:a 12:p 1:b 1:c 12:q 1:d 1:e 11:any
`

func describe(t *testing.T, function string, at args.Place, words ...string) []args.Argument {
	t.Helper()
	all, err := btf.Parse([]byte(types))
	if err != nil {
		t.Fatal(err)
	}
	has := release.Linux6_1.Set()
	d := probe.Definition{Rules: probe.NewRules(release.Linux6_1, &has, nil), Return: at.Return, Fentry: at.Entry && !at.Return}
	if derr, err := d.ParseArgs(words); derr != nil || err != nil {
		t.Fatalf("%q: %v, %v", words, derr, err)
	}
	return args.Describe(all.Func(function), at, d.Fetches())
}

func TestDescribe(t *testing.T) {
	entry := args.Place{Entry: true}
	for _, c := range []struct {
		function     string
		at           args.Place
		word         string
		where, reads string
		warns        string
	}{
		{"read", entry, "$arg1", "%di", "", ""},
		{"read", entry, "%dx", "%dx", "", ""},
		{"read", entry, "%bx", "%bx", "", ""},
		{"read", entry, "$arg5", "%r8", "", "read has 4 parameters"},
		{"read", entry, "$arg7", "8(%sp)", "", "read has 4 parameters"},
		{"nothing", entry, "$arg1", "%di", "", "no parameters"},
		{"read", entry, "+0($arg2):string", "%si", "*buf", ""},
		{"read", entry, "+3($arg2):u8", "%si", "buf[3]", ""},
		{"read", entry, "-8($arg4)", "%cx", "pos[-1]", ""},
		{"read", entry, "+4($arg4):u32", "%cx", "*pos", "+0x4 is 4 bytes after the beginning of *pos"},
		{"read", entry, "+16($arg1):u32", "%di", "file->f_flags", ""},
		{"read", entry, "+16($arg1)", "%di", "file->f_flags", "8 bytes are read, and file->f_flags has 4; :u32"},
		{"read", entry, "+18($arg1):u16", "%di", "file->f_flags", "2 bytes after the beginning"},
		{"read", entry, "+20($arg1)", "%di", "", "no member of struct file is at +0x14; f_flags at +0x10 has 4 bytes"},
		{"read", entry, "+40($arg1)", "%di", "", "outside of struct file, which has 40 bytes"},
		{"read", entry, "-8($arg1)", "%di", "", "outside of struct file"},
		{"read", entry, "+24($arg1):string", "%di", "file->comm", ""},
		{"read", entry, "+26($arg1):u8", "%di", "file->comm[2]", ""},
		{"read", entry, "+32($arg1):b3@0/32", "%di", "file->bits", ""},
		{"read", entry, "+0(+8(+8($arg1))):string", "%di", "*file->f_path.dentry->name", ""},
		{"read", entry, "+8(+8($arg1)):string", "%di", "file->f_path.dentry->name", "is a pointer to text"},
		{"read", entry, "+16($arg1):string", "%di", "file->f_flags", "file->f_flags is no text"},
		{"read", entry, "+0(+16($arg1))", "%di", "file->f_flags", "is no address"},
		{"read", entry, "+0($arg3)", "%dx", "", ""}, // an address as a number
		{"read", args.Place{Offset: 5}, "%di", "%di", "", "before +0x5 may have changed"},
		{"read", args.Place{Return: true, Entry: true}, "%di", "%di", "", "when the function returns"},
		{"read", args.Place{Return: true, Entry: true}, "$retval", "%ax", "", ""},
		{"nothing", args.Place{Return: true, Entry: true}, "$retval", "%ax", "", "returns nothing"},
		{"many", entry, "$arg3", "%dx", "", ""},
		{"many", entry, "$arg8", "16(%sp)", "", ""},
		{"many", entry, "+0($arg8)", "16(%sp)", "", ""},
		{"none", entry, "+0($arg1)", "%di", "", ""},
		{"read", entry, "@jiffies", "", "", ""},
		{"read", entry, "$comm", "", "", ""},
	} {
		got := describe(t, c.function, c.at, "x="+c.word)[0]
		if got.Where != c.where || got.Reads != c.reads || (c.warns == "") != (got.Warnings == nil) || !strings.Contains(strings.Join(got.Warnings, "\n"), c.warns) {
			t.Errorf("%s %s: %+v, want %q %q %q", c.function, c.word, got, c.where, c.reads, c.warns)
		}
	}
}

// TestEntry: a structure of 12 bytes is in two registers, or as a whole on the stack.
func TestEntry(t *testing.T) {
	all, err := btf.Parse([]byte(types))
	if err != nil {
		t.Fatal(err)
	}
	got := args.Entry(all.Func("many"))
	want := []args.Hold{
		{"%di", "struct file *a"},
		{"%si,%dx", "struct pair p"},
		{"%cx", "unsigned long b"},
		{"%r8", "unsigned long c"},
		{"8(%sp),16(%sp)", "struct pair q"},
		{"%r9", "unsigned long d"},
		{"24(%sp)", "unsigned long e"},
		{"32(%sp)", "void *any"},
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%+v is missing in %+v", w, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%+v", got)
	}
	if p := args.Prototype(all.Func("nothing")); p != "void nothing(void)" {
		t.Error(p)
	}
}

// TestCircles: types that refer to themselves end.
func TestCircles(t *testing.T) {
	loop := &btf.Type{Kind: btf.Array, Count: 2}
	loop.Elem = loop
	nest := &btf.Type{Kind: btf.Struct, Name: "nest", Size: 8}
	nest.Members = []btf.Member{{Name: "in", Type: nest}}
	pointer := &btf.Type{Kind: btf.Pointer, Size: 8}
	pointer.Elem = pointer
	has := release.Linux6_1.Set()
	for _, typ := range []*btf.Type{loop, nest, pointer} {
		fn := &btf.Func{Name: "f", Return: typ, Params: []btf.Param{{Name: "a", Type: &btf.Type{Kind: btf.Pointer, Elem: typ}}, {Name: "b", Type: typ}}}
		d := probe.Definition{Rules: probe.NewRules(release.Linux6_1, &has, nil), Fentry: true}
		if derr, err := d.ParseArgs([]string{"+0(+0(+0($arg1)))", "+0($arg2):string"}); derr != nil || err != nil {
			t.Fatal(derr, err)
		}
		args.Prototype(fn)
		args.Entry(fn)
		args.Describe(fn, args.Place{Entry: true}, d.Fetches())
	}
}
