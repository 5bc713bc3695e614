package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/internal/exec/space"
)

// left is a command that leaves a process behind, which reads our files when dir/go is there.
func left(dir string) []string {
	script := `cd ` + dir + `
(exec </dev/null >/dev/null 2>&1
 until [ -e go ]; do sleep 0.02; done
 cat /sys/kernel/debug/kprobes/list >list.tmp 2>&1; mv list.tmp list
 until [ -e end ]; do sleep 0.02; done) &
echo $! >pid
exit 7`
	return []string{"sh", "-c", script}
}

// treeDirs are the directories that TempDir has left in TMPDIR.
func treeDirs() []string {
	all, _ := filepath.Glob(filepath.Join(os.TempDir(), "kprobefs-*"))
	return all
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestExecReturns: exec returns with its command's status when that ends, and nothing of it holds
// its output open. What the command has left behind keeps its kernel until it ends; then nothing
// is left.
func TestExecReturns(t *testing.T) {
	needFuse(t)
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	start := time.Now()
	out, st := output(t, append([]string{"exec", "--"}, left(dir)...)...)
	if st.ExitCode() != 7 {
		t.Errorf("%v\n%s", st, out)
	}
	if took := time.Since(start); took > endLimit {
		t.Errorf("it took %v", took)
	}
	if len(treeDirs()) != 1 {
		t.Errorf("trees: %v", treeDirs())
	}
	touch(t, filepath.Join(dir, "go"))
	list := filepath.Join(dir, "list")
	if !ends(func() bool { _, err := os.Stat(list); return err == nil }) {
		t.Fatal("what is left behind does not go on")
	}
	wantFile(t, list, listText)
	touch(t, filepath.Join(dir, "end"))
	if !ends(func() bool { return len(treeDirs()) == 0 }) {
		t.Errorf("left: %v", treeDirs())
	}
	if !ends(func() bool { return len(processesWith(dir)) == 0 }) {
		t.Errorf("processes are left: %v", processesWith(dir))
	}
}

// TestExecWaitsForAll: with --wait=all it waits for what the command leaves behind.
func TestExecWaitsForAll(t *testing.T) {
	needFuse(t)
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if out, st := output(t, append([]string{"exec", "--wait=all", "--"}, left(dir)...)...); st.ExitCode() != 7 {
			t.Errorf("%v\n%s", st, out)
		}
	}()
	touch(t, filepath.Join(dir, "go"))
	list := filepath.Join(dir, "list")
	if !ends(func() bool { _, err := os.Stat(list); return err == nil }) {
		t.Error("what is left behind does not go on")
	}
	wantFile(t, list, listText)
	select {
	case <-ended:
		t.Error("it has not waited")
	case <-time.After(200 * time.Millisecond):
	}
	touch(t, filepath.Join(dir, "end"))
	<-ended
	if len(treeDirs()) != 0 {
		t.Errorf("left: %v", treeDirs())
	}
	if out, st := output(t, "exec", "--wait", "some", "true"); st.ExitCode() == 0 || !strings.Contains(out, "the values are command and all") {
		t.Errorf("%q, %v", out, st)
	}
}

// TestExecBackgroundEnds: a signal to the process in the background ends the kernel, not the
// processes that it was for.
func TestExecBackgroundEnds(t *testing.T) {
	needFuse(t)
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	if out, st := output(t, append([]string{"exec", "--"}, left(dir)...)...); st.ExitCode() != 7 {
		t.Errorf("%v\n%s", st, out)
	}
	all := processesWith(dir)
	for pid, args := range all {
		if slices.Contains(args, "inside") {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	if !ends(func() bool { return len(treeDirs()) == 0 }) {
		t.Errorf("left: %v, processes %v", treeDirs(), all)
	}
	touch(t, filepath.Join(dir, "go"))
	list := filepath.Join(dir, "list")
	if !ends(func() bool { _, err := os.Stat(list); return err == nil }) {
		t.Error("what is left behind does not go on")
	}
	touch(t, filepath.Join(dir, "end"))
	if !ends(func() bool { return len(processesWith(dir)) == 0 }) {
		t.Errorf("processes are left: %v", processesWith(dir))
	}
}

// processesWith returns the processes, by their ids, whose arguments contain a text.
func processesWith(text string) map[int][]string {
	found := map[int][]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		var pid int
		line, err := os.ReadFile(d + "/cmdline")
		if _, serr := fmt.Sscanf(d, "/proc/%d", &pid); err == nil && serr == nil && strings.Contains(string(line), text) && pid != os.Getpid() {
			found[pid] = strings.Split(string(line), "\x00")
		}
	}
	return found
}

// TestExecAbandoned: when all processes of an exec are killed at once, the next one takes its
// directory away, but none that a process has.
func TestExecAbandoned(t *testing.T) {
	needFuse(t)
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	cmd := runProgram("exec", "sh", "-c", "touch "+dir+"/on; exec sleep 60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !ends(func() bool { _, err := os.Stat(dir + "/on"); return err == nil }) {
		t.Fatal("it does not start")
	}
	own, held, err := space.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	// All are stopped first, so that none sees the end of another.
	tree := ""
	for _, d := range treeDirs() {
		if d != own {
			tree = d
		}
	}
	victims := []int{cmd.Process.Pid}
	for pid := range processesWith(tree) {
		victims = append(victims, pid)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range victims {
			_ = syscall.Kill(pid, sig)
		}
	}
	_ = cmd.Wait()
	if !ends(func() bool { return !slices.ContainsFunc(victims, func(pid int) bool { return !gone(pid) }) }) {
		t.Fatalf("still there: %v", processesWith(tree))
	}
	if _, err := os.Stat(tree); err != nil {
		t.Fatalf("no directory is left, so that this shows nothing: %v", err)
	}
	other := filepath.Join(os.TempDir(), "kprobefs-tree-mine") // has something
	if err := os.MkdirAll(filepath.Join(other, "file"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, st := output(t, "exec", "true"); !st.Success() {
		t.Errorf("%v\n%s", st, out)
	}
	if got, want := treeDirs(), []string{own, other}; !slices.Equal(got, sorted(want)) {
		t.Errorf("left: %v, want %v", got, want)
	}
	_ = held.Close()
	space.RemoveAbandoned(other)
	if got := treeDirs(); !slices.Equal(got, []string{other}) {
		t.Errorf("left in the end: %v", got)
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
