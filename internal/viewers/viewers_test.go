package viewers

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/look"
	"github.com/kprobefs/kprobefs/internal/look/looktest"
)

const printedText = `vfs_read:
* ffffffff81021f40  +0x0    e8 3b e1 fd 5e                 callq 0xffffffffe0000080          | 0f 1f 44 00 00         nopl (%rax,%rax)
    probed: call of ftrace's trampoline, armed, called by ftrace, carried out by ftrace
  ffffffff81021f45  +0x5    41 55                          push %r13
  ffffffff81021f47  +0x7    48 b8 00 f0 ff ff ff 7f 00 00  mov $0x7ffffffff000,%rax
* ffffffff81021f51  +0x11   e9 b7 e0 fd 5e ec 08           jmpq 0xffffffffe0000010           | 48 89 d3               mov %rdx,%rbx
                                                                                             | 48 83 ec 08            sub $0x8,%rsp
    probed: jump to the detour, armed, optimized, carried out by boost, optimized region of 7 bytes
      slot: the copy, stepped
        ffffffffe0000000  +0x0    48 89 d3                       mov %rdx,%rbx
        ffffffffe0000003  +0x3    cc                             int3
      detour: the copied instructions, and the jump back
        ffffffffe000006e  +0x0    48 89 d3                       mov %rdx,%rbx
* ffffffff81021f58  +0x18   cc                             int3                              | c3                     ret

vfs_read: [mine]
  ffffffffc0000000  +0x0    c3                             ret
    probed: not armed, disabled, carried out by ret
`

// TestPrintFunctions: each patched instruction is beside what it replaces, and above its copies.
func TestPrintFunctions(t *testing.T) {
	files := map[string]string{"machine/text/vfs_read": looktest.PatchedText, "machine/copies/vfs_read": looktest.PatchedCopies}
	functions, err := look.Functions(func(name string) ([]byte, error) { return []byte(files[name]), nil }, "vfs_read")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := printFunctions(cli.NewScreen(&b), functions); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(printedText, b.String()); d != "" {
		t.Error(d)
	}
}

// FuzzLook: no text of a tree ends the commands that show it, and what trace writes as JSON is that.
func FuzzLook(f *testing.F) {
	f.Add("address: 0\nprobe: k missed 3 [FTRACE]\n", "", "")
	f.Add(looktest.PatchedText, looktest.PatchedCopies, traceText)
	f.Add("* 0  +0x0 cc  # was: ; \n", ":\n+0x armed yes flags - carried\n+ \n", "CPU:99999999999999999999 [LOST 1 EVENTS]\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var out strings.Builder
		w := &traceWriter{traceFlags: &traceFlags{json: true}, Screen: cli.NewScreen(&out), left: -1}
		if err := w.read([]byte(c), true); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%q is no JSON", line)
			}
		}
		files := map[string]string{"machine/text/f": a, "machine/copies/f": b, "machine/probed": a, "tracing/kprobe_events": b, "tracing/kprobe_profile": c}
		read := func(name string) ([]byte, error) { return []byte(files[name]), nil }
		if functions, err := look.Functions(read, "f"); err == nil {
			if err := printFunctions(cli.NewScreen(&out), functions); err != nil {
				t.Fatal(err)
			}
		}
		if probes, err := look.Probes(read); err == nil {
			if err := printProbes(cli.NewScreen(&out), probes); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// traceText is a trace with names of tasks that look like something else.
const traceText = `# tracer: nop
#
# entries-in-buffer/entries-written: 5/9   #P:2
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
CPU:1 [LOST 4 EVENTS]
             cat-7591    [001] .....     2.462309: mine: (vfs_read+0x0/0x110) a=1
           a-1 b-7593    [000] d..1.     2.478319: <stack trace>
 => vfs_read
 => ksys_read
 my prog [0] 1: -12      (     12) [000] d.h2.    10.000001: mid: x: y
          <idle>-0       [000] 00000001: sched_switch: prev
            more-5       [001] ....     3.000000: vfs_read <-ksys_read
             cat-9999    [001] .....     9.000000: mine: was not there at the start
`

func traceOf(t *testing.T, f traceFlags, chunk int) string {
	t.Helper()
	var b strings.Builder
	w := &traceWriter{traceFlags: &f, Screen: cli.NewScreen(&b), left: -1}
	for part := range slices.Chunk([]byte(traceText), chunk) {
		if err := w.read(part, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.read(nil, true); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTraceText: what is shown does not depend on how much a read returns, and ends with the entries
// of the start.
func TestTraceText(t *testing.T) {
	want := traceText[:strings.LastIndex(strings.TrimSuffix(traceText, "\n"), "\n")+1]
	for _, chunk := range []int{1, 7, 4096} {
		if d := cmp.Diff(want, traceOf(t, traceFlags{}, chunk)); d != "" {
			t.Errorf("%d bytes a read:\n%s", chunk, d)
		}
	}
	const entries = `{"cpu":1,"lost":4}
{"comm":"cat","pid":7591,"cpu":1,"flags":".....","time":2.462309,"event":"mine","text":"(vfs_read+0x0/0x110) a=1"}
{"comm":"a-1 b","pid":7593,"cpu":0,"flags":"d..1.","time":2.478319,"text":"<stack trace>","more":[" => vfs_read"," => ksys_read"]}
{"comm":"my prog [0] 1: ","pid":12,"cpu":0,"flags":"d.h2.","time":10.000001,"event":"mid","text":"x: y"}
{"comm":"<idle>","pid":0,"cpu":0,"time":1,"event":"sched_switch","text":"prev"}
{"comm":"more","pid":5,"cpu":1,"flags":"....","time":3.000000,"text":"vfs_read <-ksys_read"}
`
	if d := cmp.Diff(entries, traceOf(t, traceFlags{json: true}, 64)); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		flags traceFlags
		lines int // with that about what was lost
	}{
		{traceFlags{json: true, events: []string{"mi*"}}, 3},
		{traceFlags{json: true, comms: []string{"cat", "more"}}, 3},
		{traceFlags{json: true, events: []string{"mid"}, comms: []string{"cat"}}, 1},
	} {
		if got := traceOf(t, c.flags, 64); strings.Count(got, "\n") != c.lines {
			t.Errorf("%+v:\n%s", c.flags, got)
		}
	}
}

func TestPrintRecord(t *testing.T) {
	var b strings.Builder
	if err := printRecord(&b, look.LogRecord{Usec: 1234567, Text: "a\nb"}); err != nil || b.String() != "[    1.234567] a\n[    1.234567] b\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}
