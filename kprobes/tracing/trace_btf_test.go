package tracing

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
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

func newBTFTracer(t testing.TB) (*Tracer, *fakeKernel) {
	t.Helper()
	types, err := btf.Parse([]byte(testTypes))
	if err != nil {
		t.Fatal(err)
	}
	tr, f := newTestTracer(t)
	tr.conf.BTF = func() *btf.Types { return types }
	tr.conf.has[release.CharType], tr.conf.has[release.DerefColumn] = true, true
	return tr, f
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
		{"p:a vfs_read file-f_mode", "Failed to parse single hyphen. Forgot '>'?"},
	} {
		t.Run(tt.def, func(t *testing.T) {
			tr, _ := newBTFTracer(t)
			want, types, ok := strings.Cut(tt.want, "|")
			_, err := tr.WriteKprobeEvents([]byte(tt.def + "\n"))
			if !ok {
				log := strings.Join(tr.Global().ErrorLog(), "")
				if err == nil || !strings.Contains(log, "error: "+want+"\n") {
					t.Errorf("%v, error_log %q", err, log)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := listing(tr); !strings.HasSuffix(got, " vfs_read "+want+"\n") {
				t.Errorf("listed as %q", got)
			}
			var decls []string
			for _, f := range tr.event("kprobes", "a").fields {
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

// TestBTFVoid: a void function has no $retval.
func TestBTFVoid(t *testing.T) {
	tr, _ := newBTFTracer(t)
	if _, err := tr.WriteKprobeEvents([]byte("r:a vfs_write $retval\n")); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("$retval: %v", err)
	}
}

// TestBTFArgsOnReturn: a return probe has the arguments of the call that returns.
func TestBTFArgsOnReturn(t *testing.T) {
	tr, f := newBTFTracer(t)
	write(t, tr, "r:a vfs_read count $retval buf")
	enable(t, tr, "kprobes", "a", "1")
	tk := tr.probes[0]
	ri := &kprobes.Instance{Data: make([]byte, tk.ret.DataSize), RetAddr: f.symbol("vfs_read")}
	if len(ri.Data) != 16 {
		t.Fatalf("%d bytes are kept", len(ri.Data))
	}
	trap := entered(0, 1, newFakeTask(7, "cat"))
	trap.Regs = &abi.Regs{DI: 1, SI: 0x10, DX: 77, Flags: abi.FlagIF}
	tk.ret.EntryHandler(ri, f.hitOf(tk, trap))
	trap.Regs = &abi.Regs{AX: 5, DX: 99, Flags: abi.FlagIF}
	tk.ret.Handler(ri, f.hitOf(tk, trap))
	if got := traceText(tr); !strings.Contains(got, "count=77 arg2=5 buf=0x10\n") {
		t.Errorf("%s", got)
	}
}

func FuzzBTFDefinition(f *testing.F) {
	for _, seed := range []string{"file->f_in.len", "$arg*", "$arg3:x8", "+u8(file->name):string", "a=file:%pD", "$retval->x", "buf-", "mode:b1@0/8"} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, args string, ret bool) {
		tr, _ := newBTFTracer(t)
		kind := "p"
		if ret {
			kind = "r"
		}
		if _, err := tr.WriteKprobeEvents([]byte(kind + ":a vfs_read " + args + "\n")); err != nil {
			return
		}
		for _, tk := range tr.probes {
			if tk.line() == "" {
				t.Error("a probe that is not listed")
			}
		}
	})
}
