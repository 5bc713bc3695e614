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

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/look"
)

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
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"text", "vfs_", "--at", dir}, 1, "there are vfs_"},
		{[]string{"list", "vfs_read"}, 2, "kprobefs list takes no arguments, but has \"vfs_read\""},
		{[]string{"graph", "vfs_read"}, 2, "kprobefs graph life vfs_read, or kprobefs graph text vfs_read"},
		{[]string{"text", "vfs_read", "--at", dir, "--source", "look_test.go"}, 1, "--source: look_test.go"},
	} {
		if out, st := output(t, c.args...); st.ExitCode() != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%q: %v: %s", c.args, st, out)
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
