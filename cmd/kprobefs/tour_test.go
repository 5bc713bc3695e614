package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/tour"
)

// tourOf plays the lesson with what a reader types, and returns what it has printed.
func tourOf(t *testing.T, typed string, args ...string) (string, error) {
	t.Helper()
	cmd := runProgram(append([]string{"tour"}, args...)...)
	cmd.Env = append(os.Environ(), roleVar+"="+roleReal, cli.TreeVar+"=")
	cmd.Stdin = strings.NewReader(typed)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestTour plays all steps, on a machine that the lesson starts and on one that is mounted. What the
// latter had is as before.
func TestTour(t *testing.T) {
	dir := mountLooping(t).dir
	events := filepath.Join(dir, "tracing/kprobe_events")
	writeTree(t, events, "p:mine vfs_open\n")
	before, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	writeTree(t, filepath.Join(dir, "sys/debug/kprobes-optimization"), "1")
	for _, args := range [][]string{{"--yes"}, {"--yes", "--at", dir}} {
		out, err := tourOf(t, "", args...)
		if err != nil || !strings.Contains(out, "That is the end of the lesson.") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		for i, s := range tour.Steps {
			if !strings.Contains(out, fmt.Sprintf("%d/%d  %s\n", i+1, len(tour.Steps), s.Title)) {
				t.Errorf("%q: without %s", args, s.Name)
			}
		}
	}
	wantFile(t, events, string(before))
	wantFile(t, filepath.Join(dir, "sys/debug/kprobes-optimization"), "1\n")
}

// TestTourReleases plays it on the kernels that have events, and says why not on the others.
func TestTourReleases(t *testing.T) {
	if testing.Short() {
		t.Skip("each release is another kernel to boot")
	}
	for _, name := range kprobefs.ReleaseNames() {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KPROBEFS_RELEASE", name)
			out, err := tourOf(t, "", "--yes")
			if strings.HasPrefix(name, "2.6.") {
				if err == nil || !strings.Contains(out, "which Linux has since 2.6.") {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			if err != nil || !strings.Contains(out, "That is the end of the lesson.") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestTourSteps: a step can be the first one, with what the steps before it in its chapter have set
// up. The last step of each chapter has most of them.
func TestTourSteps(t *testing.T) {
	dir := mountLooping(t).dir
	for i, s := range tour.Steps {
		if i+1 < len(tour.Steps) && tour.Steps[i+1].Chapter == s.Chapter {
			continue
		}
		out, err := tourOf(t, "\n", "--at", dir, s.Name)
		if err != nil || strings.Contains(out, "something else than the lesson expects") || !strings.Contains(out, s.Title) {
			t.Errorf("%s: %v\n%s", s.Name, err, out)
		}
		wantFile(t, filepath.Join(dir, "tracing/kprobe_events"), "")
		wantFile(t, filepath.Join(dir, "kprobes/enabled"), "1\n")
		wantFile(t, filepath.Join(dir, "sys/debug/kprobes-optimization"), "1\n")
	}
}

// TestTourInterrupted: the lesson's probes and switches do not outlive it when it is ended by a signal,
// while it asks and while a command runs.
func TestTourInterrupted(t *testing.T) {
	dir := mountLooping(t).dir
	for typed, until := range map[string]string{"\n": "8/28", "sleep 100; true\n": "[Enter"} {
		cmd := runProgram("tour", "--at", dir, "breakpoint")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		if _, err := in.Write([]byte(typed)); err != nil {
			t.Fatal(err)
		}
		said := ""
		for buf := make([]byte, 4096); !strings.Contains(said, until); {
			n, err := out.Read(buf)
			said += string(buf[:n])
			if err != nil {
				t.Fatalf("%v: %s", err, said)
			}
		}
		if b, err := os.ReadFile(filepath.Join(dir, "tracing/kprobe_events")); err != nil || !strings.Contains(string(b), "tour/in") {
			t.Errorf("%v: %s", err, b)
		}
		_ = cmd.Process.Signal(unix.SIGINT)
		done := make(chan error, 1)
		go func() {
			_, _ = io.Copy(io.Discard, out)
			done <- cmd.Wait()
		}()
		if err := within(t, endLimit, done, "tour"); err != nil {
			t.Errorf("after SIGINT: %v", err)
		}
		wantFile(t, filepath.Join(dir, "tracing/kprobe_events"), "")
		wantFile(t, filepath.Join(dir, "sys/debug/kprobes-optimization"), "1\n")
	}
}

// TestTourTyped: the reader's own commands are run, steps are chosen, and the end is where the
// reader ends it.
func TestTourTyped(t *testing.T) {
	dir := mountLooping(t).dir
	out, err := tourOf(t, "echo a-$((6*7)); ls machine\n\nn\nl\n99\nbreakpoint\n7\nb\nq\nnot read\n", "--at", dir)
	if err != nil {
		t.Errorf("%v", err)
	}
	rest := out
	for _, want := range []string{
		"1/", "a-42\n", "probed\n", "Linux version", "2/", "3/", "  28  remove", "99", "is no step", "breakpoint: ", // a command that is not there
		"7/", "6/",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("%q is not printed, or not in its order:\n%s", want, out)
		}
		rest = after
	}
	if strings.Contains(rest, "5/") || strings.Contains(rest, "end of the lesson") {
		t.Errorf("after q: %s", rest)
	}
	wantFile(t, filepath.Join(dir, "tracing/kprobe_events"), "")
	if out, st := output(t, "tour", "--list"); st.ExitCode() != 0 || !strings.Contains(out, "optimized   A jump instead of a trap") {
		t.Errorf("%v: %s", st, out)
	}
	if out, st := output(t, "tour", "nosuch"); st.ExitCode() != cli.UsageStatus || !strings.Contains(out, "kprobefs tour --list") {
		t.Errorf("%v: %s", st, out)
	}
	if out, st := output(t, "tour", "--at", t.TempDir()); st.ExitCode() != 1 || !strings.Contains(out, "no kprobefs is mounted there") {
		t.Errorf("%v: %s", st, out)
	}
}
