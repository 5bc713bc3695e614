package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/look"
)

const patchedText = `vfs_read:
* ffffffff81021f40  +0x0    e8 3b e1 fd 5e                 callq 0xffffffffe0000080  # was: 0f 1f 44 00 00 nopl (%rax,%rax)
  ffffffff81021f45  +0x5    41 55                          push %r13
  ffffffff81021f47  +0x7    48 b8 00 f0 ff ff ff 7f 00 00  mov $0x7ffffffff000,%rax
* ffffffff81021f51  +0x11   e9 b7 e0 fd 5e ec 08           jmpq 0xffffffffe0000010  # was: 48 89 d3 mov %rdx,%rbx; 48 83 ec 08 sub $0x8,%rsp
* ffffffff81021f58  +0x18   cc                             int3  # was: c3 ret

vfs_read: [mine]
  ffffffffc0000000  +0x0    c3                             ret
`

const patchedCopies = `vfs_read:
+0x0 armed yes flags [FTRACE] carried ftrace
+0x11 armed yes flags [OPTIMIZED] carried boost
+0x11 slot
  ffffffffe0000000  +0x0    48 89 d3                       mov %rdx,%rbx
  ffffffffe0000003  +0x3    cc                             int3
+0x11 copied
  ffffffffe000006e  +0x0    48 89 d3                       mov %rdx,%rbx

vfs_read: [mine]
+0x0 armed no flags [DISABLED] carried ret
`

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
	files := map[string]string{"machine/text/vfs_read": patchedText, "machine/copies/vfs_read": patchedCopies}
	functions, err := look.Functions(func(name string) ([]byte, error) { return []byte(files[name]), nil }, "vfs_read")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := printFunctions(newScreen(&b), functions); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(printedText, b.String()); d != "" {
		t.Error(d)
	}
}

// FuzzLook: no text of a tree ends the commands that show it, and what trace writes as JSON is that.
func FuzzLook(f *testing.F) {
	f.Add("address: 0\nprobe: k missed 3 [FTRACE]\n", "", "")
	f.Add(patchedText, patchedCopies, traceText)
	f.Add("* 0  +0x0 cc  # was: ; \n", ":\n+0x armed yes flags - carried\n+ \n", "CPU:99999999999999999999 [LOST 1 EVENTS]\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var out strings.Builder
		w := &traceWriter{traceFlags: &traceFlags{json: true}, screen: newScreen(&out), left: -1}
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
			if err := printFunctions(newScreen(&out), functions); err != nil {
				t.Fatal(err)
			}
		}
		if probes, err := look.Probes(read); err == nil {
			if err := printProbes(newScreen(&out), probes); err != nil {
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
	w := &traceWriter{traceFlags: &f, screen: newScreen(&b), left: -1}
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

// TestScreen: colours and control characters are for terminals only.
func TestScreen(t *testing.T) {
	for _, c := range []struct {
		s    screen
		want string
	}{
		{screen{}, "a\x1b]0;b"},
		{screen{terminal: true}, `a\x1b]0;b`},
		{screen{terminal: true, colors: true}, "\x1b[31m" + `a\x1b]0;b` + "\x1b[0m"},
	} {
		if got := c.s.paint(red, "a\x1b]0;b"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !newScreen(master).colors {
		t.Error("no colours on a terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if newScreen(master).colors {
		t.Error("colours in spite of NO_COLOR")
	}
}

// lookJSON runs a command with --json and reads what it writes.
func lookJSON[T any](t *testing.T, dir string, args ...string) (v T) {
	t.Helper()
	cmd := runProgram(append(args, "--at", dir, "--json")...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return v
}

func writeTree(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLook: the commands show probes of a mounted machine: one that ftrace calls, one that becomes a
// jump, and one that is not armed.
func TestLook(t *testing.T) {
	dir := mountLooping(t).dir
	if got := lookJSON[[]look.Probe](t, dir, "list"); len(got) != 0 {
		t.Errorf("without probes: %+v", got)
	}
	writeTree(t, filepath.Join(dir, "tracing/kprobe_events"), "p:head vfs_read\n")
	mid := secondInstruction(t, dir, "vfs_read")
	events, err := os.OpenFile(filepath.Join(dir, "tracing/kprobe_events"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = events.WriteString("p:mid vfs_read+" + mid + "\nr:off vfs_write\n")
	if cerr := events.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	for _, e := range []string{"head", "mid"} {
		writeTree(t, filepath.Join(dir, "tracing/events/kprobes", e, "enable"), "1")
	}
	wantFile(t, filepath.Join(dir, "tracing/tracing_on"), "1\n") // whose read is a hit
	wantListed(t, dir)
	wantShown(t, dir)
	wantTraced(t, dir)
	for _, args := range [][]string{{"text", "nosuch"}, {"text", "../kernel"}, {"text", ""}} {
		if out, st := output(t, append(args, "--at", dir)...); st.ExitCode() != 1 || !strings.Contains(out, "no function of the kernel") {
			t.Errorf("%q: %v: %s", args, st, out)
		}
	}
	writeTree(t, filepath.Join(dir, "tracing/trace_options"), "latency-format")
	if out, st := output(t, "trace", "--at", dir); st.ExitCode() != 1 || !strings.Contains(out, "echo nolatency-format >") {
		t.Errorf("%v: %s", st, out)
	}
}

// secondInstruction returns the offset of the first instruction after that which ftrace may patch.
func secondInstruction(t *testing.T, dir, function string) string {
	t.Helper()
	f := lookJSON[[]look.Function](t, dir, "text", function)
	if len(f) != 1 || len(f[0].Instructions) < 3 {
		t.Fatalf("%+v", f)
	}
	return strconv.FormatUint(f[0].Instructions[1].Offset, 10)
}

func wantListed(t *testing.T, dir string) {
	t.Helper()
	var mid look.Probe
	probes := map[string]look.Probe{}
	optimized := ends(func() bool {
		for _, p := range lookJSON[[]look.Probe](t, dir, "list") {
			if len(p.Events) == 1 {
				probes[p.Events[0].Name] = p
			}
		}
		mid = probes["kprobes/mid"]
		return slices.Contains(mid.Flags, "optimized") && mid.Detour != ""
	})
	head, off := probes["kprobes/head"], probes["kprobes/off"]
	switch {
	case !optimized || !mid.Armed || mid.Slot == "":
		t.Errorf("the one inside: %+v", mid)
	case !slices.Equal(head.Flags, []string{"ftrace"}) || head.Hits == nil || *head.Hits == 0 || head.NotJump == "":
		t.Errorf("the one that ftrace calls: %+v", head)
	case off.Kind != "r" || off.Armed || !slices.Contains(off.Flags, "disabled") || off.Hits == nil || *off.Hits != 0:
		t.Errorf("the one that is not armed: %+v", off)
	}
}

func wantShown(t *testing.T, dir string) {
	t.Helper()
	var f look.Function
	jumps := ends(func() bool {
		all := lookJSON[[]look.Function](t, dir, "text", "vfs_read")
		f = all[0]
		return len(all) == 1 && f.Instructions[1].Patch == "jump"
	})
	if !jumps || f.Instructions[0].Patch != "call" || f.Instructions[0].Was[0].Bytes != "0f 1f 44 00 00" {
		t.Fatalf("%+v", f.Instructions[:3])
	}
	jump := f.Instructions[1]
	var parts []string
	for _, c := range jump.Probe.Copies {
		parts = append(parts, c.Part)
		if len(c.Instructions) == 0 {
			t.Errorf("%s is empty", c.Part)
		}
	}
	if !slices.Equal(parts, []string{"slot", "detour", "copied"}) || jump.RegionSize() < 5 {
		t.Fatalf("the copies are %q, of %d bytes", parts, jump.RegionSize())
	}
	last := jump.Probe.Copies[2].Instructions
	back := last[len(last)-1]
	if len(last) != len(jump.Was)+1 || !strings.HasSuffix(back.Text, look.AddTo(jump.Address, uint64(jump.RegionSize()))) {
		t.Errorf("the copied instructions are %+v, of %+v", last, jump.Was)
	}
}

func wantTraced(t *testing.T, dir string) {
	t.Helper()
	out, err := runProgram("trace", "--at", dir, "--json", "--event", "head").Output()
	if err != nil || !strings.Contains(string(out), `"event":"head","text":"(vfs_read+0x0/`) || strings.Contains(string(out), `"mid"`) {
		t.Errorf("%v: %s", err, out)
	}
	follow := runProgram("trace", "-f", "--at", dir, "--event", "head")
	pipe, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = follow.Process.Kill(); _ = follow.Wait() })
	line, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil || !strings.Contains(line, "head: (vfs_read") {
		t.Errorf("%v: %q", err, line)
	}
	if err := follow.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- follow.Wait() }()
	var e *exec.ExitError
	if err := within(t, endLimit, done, "trace -f"); !errors.As(err, &e) || e.Sys().(syscall.WaitStatus).Signal() != unix.SIGINT {
		t.Errorf("after SIGINT: %v", err)
	}
}
