package tracing

import (
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

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
		f.Hit(f.Symbol("vfs_read"), tracingtest.TrapWithArgs(f))
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
