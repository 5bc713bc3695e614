package dynevent

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// testTypes has vfs_read(struct file *file, char *buf, size_t count), and vfs_write,
// which returns void.
const testTypes = `int 1 s char
ptr 1
int 8 u size_t
struct 16 inner
. 3 64 0 len
int 4 u unsigned int
struct 64 file
. 5 32 0 f_mode
. 4 128 0 f_in
. 2 256 0 name
. 5 320 3 bits
ptr 6
int 8 s ssize_t
enum 4 u mode
func 8 vfs_read 7:file 2:buf 3:count 9:mode
func 0 vfs_write
`

// newBTFRegistry is newTestRegistry for a kernel that has these types. The change may set
// what else differs.
func newBTFRegistry(t testing.TB, change ...func(*Config)) (*Registry, *fakeOwner) {
	t.Helper()
	types, err := btf.Parse([]byte(testTypes))
	if err != nil {
		t.Fatal(err)
	}
	return newTestRegistry(t, append(change, func(c *Config) {
		c.BTF = func() *btf.Types { return types }
		c.Has[release.CharType], c.Has[release.DerefColumn] = true, true
	})...)
}

func TestBTFDefinitions(t *testing.T) {
	for _, tt := range []struct{ def, want string }{
		{"p:a vfs_read file buf count mode", "file=file buf=buf count=count mode=mode|u64 u64 u64 s32"},
		{"p:a vfs_read $arg*", "file=file buf=buf count=count mode=mode|u64 u64 u64 s32"},
		{"p:a vfs_read $arg3:x8 n=$arg3", "count=count:x8 n=$arg3|u8 u64"},
		{"p:a vfs_read file->f_mode file->f_in.len file->bits", "arg1=file->f_mode arg2=file->f_in.len arg3=file->bits|u32 u64 u32"},
		{"p:a vfs_read file->name:string buf:string", "arg1=file->name:string buf=buf:string|__data_loc char[] __data_loc char[]"},
		{"r:a vfs_read $retval count +8(file):char", "arg1=$retval count=count arg3=+8(file):char|s64 u64 u8"},
		{"p:a vfs_read none", "This variable is not found at this probe point"},
		{"p:a vfs_read $arg5", "This variable is not found at this probe point"},
		{"p:a vfs_read+5 file", "BTF is not available or not supported"},
		{"p:a vfs_read $arg* $arg*", "$arg* can be used only once in the parameters"},
		{"p:a vfs_read file.f_mode", "Non pointer structure/union argument is not supported."},
		{"p:a vfs_read file->nope", "This field is not found."},
		{"p:a vfs_read count->len", "This is not a pointer to union/structure."},
		{"p:a vfs_read buf->len", "Failed to get BTF type info."},
		{"p:a vfs_read file->f_mode:string", "This type does not fit for string."},
		{"p:a vfs_read file:string", "This type does not fit for string."},
		{"p:a vfs_read $arg1:ustring", "This type does not fit for string."},
		{"p:a vfs_read count:string +0(file):string", "count=count:string arg2=+0(file):string|__data_loc char[] __data_loc char[]"},
		{"p:a vfs_read file-f_mode", "Failed to parse single hyphen. Forgot '>'?"},
	} {
		t.Run(tt.def, func(t *testing.T) {
			r, o := newBTFRegistry(t)
			want, types, ok := strings.Cut(tt.want, "|")
			_, err := r.WriteKprobeEvents([]byte(tt.def + "\n"))
			if !ok {
				if err == nil || !slices.ContainsFunc(o.errors, func(e loggedError) bool { return e.text == want }) {
					t.Errorf("%v, error_log %+v", err, o.errors)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := listing(r); !strings.HasSuffix(got, " vfs_read "+want+"\n") {
				t.Errorf("listed as %q", got)
			}
			var decls []string
			for _, f := range o.event(t, "kprobes", "a").class.Fields() {
				if decl := f.Decl[:strings.LastIndexByte(f.Decl, ' ')]; decl != "unsigned long" {
					decls = append(decls, decl)
				}
			}
			if got := strings.Join(decls, " "); got != types {
				t.Errorf("types %s, want %s", got, types)
			}
		})
	}
}

// TestBTFStringColumn: the mark of a type that does not fit for a string is below the
// argument, as Debian's 6.12 has it, not below its type.
func TestBTFStringColumn(t *testing.T) {
	for def, want := range map[string]int{
		"p:a vfs_read file:string":      13,
		"p:a vfs_read x=file:ustring":   15,
		"p:a vfs_read buf $arg1:string": 17,
	} {
		r, o := newBTFRegistry(t)
		_, err := r.WriteKprobeEvents([]byte(def + "\n"))
		if err == nil || len(o.errors) != 1 || o.errors[0].column != want {
			t.Errorf("%s: %v, error_log %+v, want column %d", def, err, o.errors, want)
		}
	}
}

// TestBTFVoid: a void function has no $retval.
func TestBTFVoid(t *testing.T) {
	r, _ := newBTFRegistry(t)
	if _, err := r.WriteKprobeEvents([]byte("r:a vfs_write $retval\n")); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("$retval: %v", err)
	}
}

// TestBTFArgsOnReturn: a return probe has the arguments of the call that returns.
func TestBTFArgsOnReturn(t *testing.T) {
	r, o := newBTFRegistry(t)
	write(t, r, "r:a vfs_read count $retval buf")
	o.event(t, "kprobes", "a").enable(t, true)
	tk, f := r.kprobes[0], o.kernel
	ri := &kprobes.Instance{Data: make([]byte, tk.ret.DataSize), RetAddr: f.Symbol("vfs_read")}
	if len(ri.Data) != 16 {
		t.Fatalf("%d bytes are kept", len(ri.Data))
	}
	trap := tracingtest.Entered(0, 1, tracingtest.NewTask(7, "cat"))
	trap.Regs = &abi.Regs{DI: 1, SI: 0x10, DX: 77, Flags: abi.FlagIF}
	tk.ret.EntryHandler(ri, f.HitOf(tk.kprobe(), trap))
	trap.Regs = &abi.Regs{AX: 5, DX: 99, Flags: abi.FlagIF}
	tk.ret.Handler(ri, f.HitOf(tk.kprobe(), trap))
	if got := o.event(t, "kprobes", "a").line(); !strings.HasSuffix(got, "count=77 arg2=5 buf=0x10\n") {
		t.Errorf("%s", got)
	}
}

func FuzzBTFDefinition(f *testing.F) {
	for _, seed := range []string{"file->f_in.len", "$arg*", "$arg3:x8", "+u8(file->name):string", "a=file:%pD", "$retval->x", "buf-", "mode:b1@0/8"} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, args string, ret bool) {
		r, _ := newBTFRegistry(t)
		kind := "p"
		if ret {
			kind = "r"
		}
		if _, err := r.WriteKprobeEvents([]byte(kind + ":a vfs_read " + args + "\n")); err != nil {
			return
		}
		for _, tk := range r.kprobes {
			if tk.line() == "" {
				t.Error("a probe that is not listed")
			}
		}
	})
}
