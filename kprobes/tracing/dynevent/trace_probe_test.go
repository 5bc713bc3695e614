package dynevent

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

var fetches = []struct{ arg, want string }{
	{"%di", "0xffffff9c"},
	{"%di:u8", "156"},
	{"%di:u16", "65436"},
	{"%di:u32", "4294967196"},
	{"%di:u64", "4294967196"},
	{"%di:s8", "-100"},
	{"%di:s16", "-100"},
	{"%di:s32", "-100"},
	{"%di:s64", "4294967196"},
	{"%di:x8", "0x9c"},
	{"%di:x16", "0xff9c"},
	{"%di:x32", "0xffffff9c"},
	{"%di:x64", "0xffffff9c"},
	{"%di:b4@4/8", "9"},
	{"%di:b4@4/16", "9"},
	{"%di:b12@4/32", "4089"},
	{"%di:b4@4/64", "9"},
	{"%di:b8@0/8", "156"},
	{"%ip", "0xffffffff81363791"},
	{"%ip:symbol", "vfs_read+0x1/0x310"},
	{"%ip:symstr", `"vfs_read+0x1/0x310"`},
	{"%di:symbol", "0xffffff9c"},
	{"%cx:symbol", "0x0"},
	{"%di:symstr", `"0xffffff9c"`},
	{"$stack", "0xffffc90000c53000"},
	{"$stack0:symbol", "vfs_read+0x6a/0x310"},
	{"$stack1", "0x1234"},
	{"$stack511", "0x0"},
	{"$stack512", "0x0"},
	{"$stack2048", "0x0"},
	{"$stack0:symstr", `"vfs_read+0x6a/0x310"`},
	{"$arg1:s32", "-100"},
	{"$arg2", "0x7f0000000000"},
	{"$arg5", "0x5"},
	{"$arg6", "0x6"},
	{"$arg7", "0x1234"},
	{"$arg600", "0x0"},
	{"$comm", `"cat"`},
	{"$COMM", `"cat"`},
	{"$comm:string", `"cat"`},
	{"%r15", "0xf"},
	{"%r14", "0xe"},
	{"%r13", "0xd"},
	{"%r12", "0xc"},
	{"%r11", "0xb"},
	{"%r10", "0xa"},
	{"%r9", "0x6"},
	{"%r8", "0x5"},
	{"%bx", "0x1"},
	{"%cx", "0x0"},
	{"%dx", "0xffff888000110000"},
	{"%si", "0x7f0000000000"},
	{"%bp", "0x2"},
	{"%ax:s64", "-2"},
	{"%orig_ax", "0xb"},
	{"%cs", "0x10"},
	{"%flags", "0x246"},
	{"%sp", "0xffffc90000c53000"},
	{"%ss", "0x18"},
	{"+0(%si):string", `"/etc/passwd"`},
	{"+0(%si):ustring", `"/etc/passwd"`},
	{"+u0(%si):string", `"/etc/passwd"`},
	{"+u5(%si):ustring", `"passwd"`},
	{"+0($arg2):string", `"/etc/passwd"`},
	{"+11(%si):string", "(fault)"}, // empty, in user memory: mirror_empty_string
	{"+0(%si):u8", "47"},
	{"+u0(%si):u8", "47"},
	{"+u0(%si):u32", "1668572463"},
	{"+4093(%si):string", "(fault)"},
	{"+u0(%dx):ustring", "(fault)"},
	{"+0(%cx):string", "(fault)"},
	{`+0(\0):string`, "(fault)"},
	{"+0(+u0(%dx)):string", "(fault)"},
	{"+0(+8(%dx)):string", `"/etc/passwd"`},
	{"+u0(+8(%dx)):string", `"/etc/passwd"`},
	{"+0(%dx):x64", "0xfffffffe00008000"},
	{"+0(%dx):s32[2]", "{32768,-2}"},
	{"+0(%dx):u8[8]", "{0,128,0,0,254,255,255,255}"},
	{"-8(+8($stack)):x64", "0x0"},
	{"+0(%dx):x64[1]", "{0xfffffffe00008000}"},
	{"+4(%dx):b4@4/32[1]", "{15}"},
	{"-12(%ip):u8", "0"},
	{"+8(%dx):string[2]", `{"/etc/passwd","%s version %s"}`},
	{"+8(%dx):ustring[1]", `{"/etc/passwd"}`},
	{"+8(%dx):string[3]", `{"/etc/passwd","%s version %s",(fault)}`},
	{"+0(%di):string[2]", "{(fault),(fault)}"},
	{"+16(%dx):symbol[1]", "{linux_proc_banner+0x0/0x100}"},
	{"+0($stack):symstr", `"vfs_read+0x6a/0x310"`},
	{"@linux_proc_banner:string", `"%s version %s"`},
	{"@linux_proc_banner+3:string", `"version %s"`},
	{"@linux_proc_banner:x32", "0x76207325"},
	{"@linux_proc_banner", "0x6973726576207325"},
	{"@0xffffffff82000000:u8[3]", "{37,115,32}"},
	{"@init_task-256:x16", "0x7325"},
	{`\1`, "0x1"},
	{`\-1`, "0xffffffffffffffff"},
	{`\-1:s32`, "-1"},
	{`\+7:u8`, "7"},
	{`\0xdead:x16`, "0xdead"},
	{`\"hello"`, `"hello"`},
	{`\"hello":string`, `"hello"`},
	{`\""`, `""`},
	{"+8(+0(+8($stack0))):x64", "0x0"},
}

// TestFetch: recorded values as Linux prints them.
func TestFetch(t *testing.T) {
	for _, c := range fetches {
		t.Run(c.arg, func(t *testing.T) {
			r, o := newTestRegistry(t)
			write(t, r, "p:a vfs_read x="+c.arg)
			e, f := o.event(t, "kprobes", "a"), o.kernel
			e.enable(t, true)
			f.Hit(f.Symbol("vfs_read"), tracingtest.TrapWithArgs(f))
			if got, want := e.line(), "a: (vfs_read+0x0/0x310) x="+c.want+"\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestFetchManyArgs: unaligned numbers, strings between them, and arguments of a
// kretprobe.
func TestFetchManyArgs(t *testing.T) {
	r, o := newTestRegistry(t)
	write(t, r, `p:a vfs_read %di:s8 n=$arg2 $comm +0(%si):string x=+0(%dx):u16[2] \"end"`, "r:b vfs_read ret=$retval:s32 $comm")
	for _, e := range o.events {
		e.enable(t, true)
	}
	f := o.kernel
	f.Hit(f.Symbol("vfs_read"), tracingtest.TrapWithArgs(f))
	f.Ret(f.Symbol("vfs_read"), f.Symbol("vfs_write")+5, tracingtest.TrapWithArgs(f))
	for name, want := range map[string]string{
		"a": `a: (vfs_read+0x0/0x310) arg1=-100 n=0x7f0000000000 arg3="cat" arg4="/etc/passwd" x={32768,0} arg6="end"`,
		"b": `b: (vfs_write+0x5/0x3f0 <- vfs_read) ret=-2 arg2="cat"`,
	} {
		if got := o.event(t, "kprobes", name).line(); got != want+"\n" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestFetchSymbolText: as on Linux, a symstr overlaps the string after it.
func TestFetchSymbolText(t *testing.T) {
	r, o := newTestRegistry(t)
	write(t, r, "p:a vfs_read %di:symstr %ip:symstr $comm %cx:symstr")
	for _, e := range o.events {
		e.enable(t, true)
	}
	f := o.kernel
	f.Hit(f.Symbol("vfs_read"), tracingtest.TrapWithArgs(f))
	want := `arg1="0xffffff9cvfs_read+0x1/0x310cat" arg2="vfs_read+0x1/0x310cat" arg3="cat" arg4="0x0"`
	if got := o.event(t, "kprobes", "a").line(); !strings.HasSuffix(got, want+"\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFetchTooMuch: a hit whose strings fill more than a page is not recorded.
func TestFetchTooMuch(t *testing.T) {
	r, o := newTestRegistry(t)
	o.has[release.ArgsSizeLimit] = false
	write(t, r, "p:a vfs_read +0(%si):string +0(%dx):x64[64] +0(%dx):x64[64] +0(%dx):x64[64] +0(%dx):x64[64] +0(%dx):x64[64] "+
		"+0(%dx):x64[64] +0(%dx):x64[64] +0(%dx):x64[64]", "p:b vfs_write +0(%si):string")
	for _, e := range o.events {
		e.enable(t, true)
	}
	f := o.kernel
	f.Hit(f.Symbol("vfs_read"), tracingtest.TrapWithArgs(f))
	long := tracingtest.TrapWithArgs(f)
	m := long.Mem.(tracingtest.Memory)
	m[tracingtest.PathAddr] = []byte(strings.Repeat("x", 2*abi.PageSize))
	f.Hit(f.Symbol("vfs_write"), long)
	b := o.event(t, "kprobes", "b")
	if a := o.event(t, "kprobes", "a"); a.committed+b.committed != 0 || a.depth+b.depth != 0 {
		t.Errorf("recorded: %q, %q", a.line(), b.line())
	}
	m[tracingtest.PathAddr][4000] = 0
	f.Hit(f.Symbol("vfs_write"), long)
	if line := b.line(); !strings.HasSuffix(line, "x\"\n") || strings.Count(line, "x") < 4000 {
		t.Errorf("a string of 4000 bytes: %d bytes", len(line))
	}
}

func TestFetchAllocatesNothing(t *testing.T) {
	r, o := newTestRegistry(t)
	write(t, r, "p:a vfs_read %di $comm +0(%si):string %ip:symbol $stack0:x8 +0(%dx):u8[8] "+`\"text"`)
	for _, e := range o.events {
		e.enable(t, true)
	}
	f := o.kernel
	trap := tracingtest.TrapWithArgs(f)
	hit := f.HitOf(r.kprobes[0].kprobe(), trap)
	if n := testing.AllocsPerRun(100, func() { r.kprobes[0].entered(hit) }); n != 0 {
		t.Errorf("%v allocations for one hit", n)
	}
}

// TestJoinArgs: probes of one event have the same arguments by name and type.
func TestJoinArgs(t *testing.T) {
	r, o := newTestRegistry(t)
	write(t, r, `p:t vfs_read abcd=\1`, `p:t vfs_read abcd=\2`, `p:t vfs_write abcd=%di`)
	for line, column := range map[string]int{
		`p:t vfs_open bcd=\1`: 13, `p:t vfs_open abcd=\1:u8`: 13, `p:t vfs_open abcd=\"foo"`: 13, `p:t vfs_open abcd=\1 x=\2`: 21,
		`p:t vfs_open`: 13, `p:t vfs_read abcd=\1`: 0,
	} {
		o.errors = nil
		if _, err := r.WriteKprobeEvents([]byte(line)); err == nil || !errors.Is(err, syscall.EEXIST) {
			t.Errorf("%s: %v", line, err)
		}
		if got := o.logged(t).column; got != column {
			t.Errorf("%s: column %d, want %d", line, got, column)
		}
	}
	for _, line := range []string{`-:t vfs_read abcd=\2`, `-:t vfs_read abcd=\1`} {
		write(t, r, line)
	}
	if got := listing(r); got != "p:kprobes/t vfs_write abcd=%di\n" {
		t.Errorf("left: %q", got)
	}
}
