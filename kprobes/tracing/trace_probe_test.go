package tracing

import (
	"encoding/binary"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

const (
	taskAddr  = 0xffff888000010000
	stackAddr = 0xffffc90000c50000
	pathAddr  = 0x00007f0000000000
)

// fakeMemory is the guest memory of a hit with arguments: a task, a stack of
// ThreadSize bytes, two kernel pages and a user page.
type fakeMemory map[uint64][]byte

func newFakeMemory(f *fakeKernel) fakeMemory {
	m := fakeMemory{
		taskAddr: newFakeTask(7, "cat").bytes, stackAddr: make([]byte, abi.ThreadSize),
		pathAddr: make([]byte, abi.PageSize), taskAddr + 1<<20: make([]byte, abi.PageSize),
		f.symbol("linux_proc_banner"): append([]byte("%s version %s"), make([]byte, abi.PageSize-14)...),
	}
	copy(m[pathAddr], "/etc/passwd")
	copy(m[pathAddr][abi.PageSize-3:], "end") // without a NUL at the end of memory
	kernel := m[taskAddr+1<<20]
	copy(kernel, "\x00\x80\x00\x00\xfe\xff\xff\xff")
	binary.LittleEndian.PutUint64(kernel[8:], pathAddr)
	binary.LittleEndian.PutUint64(kernel[16:], f.symbol("linux_proc_banner"))
	binary.LittleEndian.PutUint64(kernel[24:], 1<<63) // a bad address
	stack := m[stackAddr]
	binary.LittleEndian.PutUint64(stack[0x3000:], f.symbol("vfs_read")+0x6a)
	binary.LittleEndian.PutUint64(stack[0x3008:], 0x1234)
	return m
}

func (m fakeMemory) ReadAt(addr uint64, p []byte) error {
	for base, b := range m {
		if addr >= base && addr-base+uint64(len(p)) <= uint64(len(b)) {
			copy(p, b[addr-base:])
			return nil
		}
	}
	return syscall.EFAULT
}

func (m fakeMemory) ReadU64(addr uint64) (uint64, error) {
	for base, b := range m {
		if addr >= base && addr-base+8 <= uint64(len(b)) {
			return binary.LittleEndian.Uint64(b[addr-base:]), nil
		}
	}
	return 0, syscall.EFAULT
}

func (m fakeMemory) WriteAt(uint64, []byte) error  { return syscall.EFAULT }
func (m fakeMemory) WriteU64(uint64, uint64) error { return syscall.EFAULT }

// trapWithArgs returns the trap of a call of f(-100 as an int, path, kernel memory,
// nothing, 5, 6, 0x1234).
func trapWithArgs(f *fakeKernel) *abi.Trap {
	t := entered(0, 1e9, newFakeMemory(f))
	t.Task = taskAddr
	t.Regs = &abi.Regs{
		DI: 0xffffff9c, SI: pathAddr, DX: taskAddr + 1<<20, CX: 0, R8: 5, R9: 6, AX: 0xfffffffffffffffe,
		IP: f.symbol("vfs_read") + 1, SP: stackAddr + 0x3000, CS: abi.KernelCS, SS: abi.KernelSS,
		Flags: abi.FlagIF | 0x46, OrigAX: 11, BX: 1, BP: 2, R10: 10, R11: 11, R12: 12, R13: 13, R14: 14, R15: 15,
	}
	return t
}

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
	{"+11(%si):string", `""`},
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
			tr, f := newTestTracer(t)
			write(t, tr, "p:a vfs_read x="+c.arg)
			if err := tr.event("kprobes", "a").Enable([]byte("1")); err != nil {
				t.Fatal(err)
			}
			f.hit(f.symbol("vfs_read"), trapWithArgs(f))
			lines := traceLines(tr)
			if got, want := lines[len(lines)-1], "a: (vfs_read+0x0/0x310) x="+c.want; !strings.HasSuffix(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestFetchManyArgs: unaligned numbers, strings between them, and arguments of a
// kretprobe.
func TestFetchManyArgs(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, `p:a vfs_read %di:s8 n=$arg2 $comm +0(%si):string x=+0(%dx):u16[2] \"end"`, "r:b vfs_read ret=$retval:s32 $comm")
	if err := tr.global.EnableAll([]byte("1")); err != nil {
		t.Fatal(err)
	}
	f.hit(f.symbol("vfs_read"), trapWithArgs(f))
	f.ret(f.symbol("vfs_read"), f.symbol("vfs_write")+5, trapWithArgs(f))
	lines := traceLines(tr)
	for i, want := range []string{
		`a: (vfs_read+0x0/0x310) arg1=-100 n=0x7f0000000000 arg3="cat" arg4="/etc/passwd" x={32768,0} arg6="end"`,
		`b: (vfs_write+0x5/0x3f0 <- vfs_read) ret=-2 arg2="cat"`,
	} {
		if i >= len(lines) || !strings.HasSuffix(strings.TrimSuffix(lines[i], "\n"), want) {
			t.Errorf("line %d of %q, want %q", i, lines, want)
		}
	}
}

// TestFetchSymbolText: as on Linux, a symstr overlaps the string after it.
func TestFetchSymbolText(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read %di:symstr %ip:symstr $comm %cx:symstr")
	if err := tr.global.EnableAll([]byte("1")); err != nil {
		t.Fatal(err)
	}
	f.hit(f.symbol("vfs_read"), trapWithArgs(f))
	want := `arg1="0xffffff9cvfs_read+0x1/0x310cat" arg2="vfs_read+0x1/0x310cat" arg3="cat" arg4="0x0"`
	if lines := traceLines(tr); !strings.HasSuffix(lines[0], want) {
		t.Errorf("got %q, want %q", lines[0], want)
	}
}

// TestFetchTooMuch: a hit whose strings fill more than a page is not recorded.
func TestFetchTooMuch(t *testing.T) {
	tr, f := newTestTracer(t)
	tr.conf.has[release.ArgsSizeLimit] = false
	write(t, tr, "p:a vfs_read +0(%si):string +0(%dx):x64[64] +0(%dx):x64[64] +0(%dx):x64[64] +0(%dx):x64[64] +0(%dx):x64[64] "+
		"+0(%dx):x64[64] +0(%dx):x64[64] +0(%dx):x64[64]", "p:b vfs_write +0(%si):string")
	if err := tr.global.EnableAll([]byte("1")); err != nil {
		t.Fatal(err)
	}
	f.hit(f.symbol("vfs_read"), trapWithArgs(f))
	long := trapWithArgs(f)
	m := long.Mem.(fakeMemory)
	m[pathAddr] = []byte(strings.Repeat("x", 2*abi.PageSize))
	f.hit(f.symbol("vfs_write"), long)
	if s := tr.global.Buffer().Stats(0); s.Entries != 0 {
		t.Errorf("%d entries: %q", s.Entries, traceText(tr))
	}
	m[pathAddr][4000] = 0
	f.hit(f.symbol("vfs_write"), long)
	if lines := traceLines(tr); !strings.HasSuffix(lines[0], `x"`) || strings.Count(lines[0], "x") < 4000 {
		t.Errorf("a string of 4000 bytes: %d bytes", len(lines[0]))
	}
}

func TestFetchAllocatesNothing(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read %di $comm +0(%si):string %ip:symbol $stack0:x8 +0(%dx):u8[8] "+`\"text"`)
	if err := tr.global.EnableAll([]byte("1")); err != nil {
		t.Fatal(err)
	}
	trap := trapWithArgs(f)
	hit := f.hitOf(tr.probes[0], trap)
	if n := testing.AllocsPerRun(100, func() { tr.probes[0].entered(hit) }); n != 0 {
		t.Errorf("%v allocations for one hit", n)
	}
}

// TestArgsFormat: lines of format files as on Linux.
func TestArgsFormat(t *testing.T) {
	for _, c := range []struct{ line, fields, print string }{
		{
			"p:t vfs_read n=%di:s8 m=%si", "\tfield:s8 n;\toffset:16;\tsize:1;\tsigned:1;\n\tfield:u64 m;\toffset:17;\tsize:8;\tsigned:0;\n",
			`"(%lx) n=%d m=0x%Lx", REC->__probe_ip, REC->n, REC->m`,
		},
		{"r:t vfs_read $retval", "\tfield:u64 arg1;\toffset:24;\tsize:8;\tsigned:0;\n", `"(%lx <- %lx) arg1=0x%Lx", REC->__probe_func, REC->__probe_ret_ip, REC->arg1`},
		{"p:t vfs_read n=%ip:symbol", "\tfield:u64 n;\toffset:16;\tsize:8;\tsigned:0;\n", `"(%lx) n=%pS", REC->__probe_ip, REC->n`},
		{"p:t vfs_read n=$comm", "\tfield:__data_loc char[] n;\toffset:16;\tsize:4;\tsigned:1;\n", `"(%lx) n=\"%s\"", REC->__probe_ip, __get_str(n)`},
		{
			"p:t vfs_read n=+0(%dx):x64[3]", "\tfield:u64 n[];\toffset:16;\tsize:24;\tsigned:0;\n",
			`"(%lx) n={0x%Lx,0x%Lx,0x%Lx}", REC->__probe_ip, REC->n[0], REC->n[1], REC->n[2]`,
		},
		{
			"p:t vfs_read n=+0(%di):string[2]", "\tfield:__data_loc char[][2] n;\toffset:16;\tsize:8;\tsigned:1;\n",
			`"(%lx) n={\"%s\",\"%s\"}", REC->__probe_ip, __get_str(n[0]), __get_str(n[1])`,
		},
	} {
		tr, _ := newTestTracer(t)
		write(t, tr, c.line)
		got, err := tr.event("kprobes", "t").Format()
		if err != nil || !strings.Contains(got, c.fields) || !strings.HasSuffix(got, "print fmt: "+c.print+"\n") {
			t.Errorf("%s: %v\n%s", c.line, err, got)
		}
	}
}

// TestArgsFilter: filters on fetched fields.
func TestArgsFilter(t *testing.T) {
	for filter, passes := range map[string]bool{
		"n == -100": true, "n < -100": false, "m == 0x7f0000000000": true, "m & 1": false,
		`c == "cat"`: true, `c != "cat"`: false, `path ~ "*passwd"`: true, `path ~ "*etc*"`: true, `path == "/etc"`: false,
		`bad == ""`: true, "a == 1": false, "a != 1": true,
	} {
		tr, f := newTestTracer(t)
		write(t, tr, "p:t vfs_read n=%di:s32 m=%si c=$comm path=+0(%si):string bad=+0(%cx):string a=+0(%dx):u8[2]")
		e := tr.event("kprobes", "t")
		if err := e.SetFilter([]byte(filter)); err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if err := e.Enable([]byte("1")); err != nil {
			t.Fatal(err)
		}
		f.hit(f.symbol("vfs_read"), trapWithArgs(f))
		if got := tr.global.Buffer().Stats(0).Entries == 1; got != passes {
			t.Errorf("%s: %v, want %v", filter, got, passes)
		}
	}
	tr, _ := newTestTracer(t)
	write(t, tr, "p:t vfs_read n=%di c=$comm")
	for _, filter := range []string{"c == 1", `n == "x"`, `n ~ "x"`, `c < "x"`, "d == 1"} {
		if err := tr.event("kprobes", "t").SetFilter([]byte(filter)); err == nil {
			t.Errorf("%s is let pass", filter)
		}
	}
}

// TestJoinArgs: probes of one event have the same arguments by name and type.
func TestJoinArgs(t *testing.T) {
	tr, _ := newTestTracer(t)
	write(t, tr, `p:t vfs_read abcd=\1`, `p:t vfs_read abcd=\2`, `p:t vfs_write abcd=%di`)
	for line, column := range map[string]int{
		`p:t vfs_open bcd=\1`: 13, `p:t vfs_open abcd=\1:u8`: 13, `p:t vfs_open abcd=\"foo"`: 13, `p:t vfs_open abcd=\1 x=\2`: 21,
		`p:t vfs_open`: 13, `p:t vfs_read abcd=\1`: 0,
	} {
		tr.global.ClearErrorLog()
		if _, err := tr.WriteKprobeEvents([]byte(line)); err == nil || !errors.Is(err, syscall.EEXIST) {
			t.Errorf("%s: %v", line, err)
		}
		if _, _, got := errorText(t, tr.global.ErrorLog()[0]); got != column {
			t.Errorf("%s: column %d, want %d", line, got, column)
		}
	}
	for _, line := range []string{`-:t vfs_read abcd=\2`, `-:t vfs_read abcd=\1`} {
		write(t, tr, line)
	}
	if got := listing(tr); got != "p:kprobes/t vfs_write abcd=%di\n" {
		t.Errorf("left: %q", got)
	}
}
