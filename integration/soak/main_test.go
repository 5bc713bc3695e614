// Package soak stress-tests the built program: it is killed, stopped, unmounted and
// restarted while in use, and has many concurrent readers and writers.
//
// A plain `go test` takes about a minute. -short is shorter; with KPROBEFS_SOAK
// set ("make soak") each loop runs 100 times and the load for ten minutes.
package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/internal/testns"
)

// The tests run in a private mount namespace. An environment variable makes this
// binary a client, another process that uses the files.
const (
	roleVar    = "KPROBEFS_TEST_ROLE"
	roleClient = "client"
)

// program is the built binary.
var program string

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case roleClient:
		os.Exit(client(os.Args[1], os.Args[2]))
	case roleHolder:
		times, _ := strconv.Atoi(os.Args[2])
		os.Exit(hold(os.Args[1], times))
	}
	os.Exit(testns.Main(func() int { return withProgram(m) }))
}

// withProgram builds the program and runs the tests.
func withProgram(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kprobefs-soak")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program, err = integration.Build(context.Background(), dir); err != nil {
		fmt.Println(err)
		return 1
	}
	return m.Run()
}

// dieWithUs makes a child end when this process is killed.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// soaking reports whether this is the long run.
func soaking() bool { return os.Getenv("KPROBEFS_SOAK") != "" }

// times returns how often a loop runs.
func times() int {
	switch {
	case soaking():
		return 100
	case testing.Short():
		return 3
	}
	return 10
}

// daemon is a running program and its mount.
type daemon struct {
	t   testing.TB
	dir string
	log string
	cmd *exec.Cmd
}

// start starts `kprobefs mount` in the foreground and waits until its files exist.
func start(t testing.TB, dir string, flags ...string) *daemon {
	t.Helper()
	return startProgram(t, program, dir, flags...)
}

func startProgram(t testing.TB, file, dir string, flags ...string) *daemon {
	t.Helper()
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	_ = dev.Close()
	d := &daemon{t: t, dir: dir, log: filepath.Join(t.TempDir(), "log")}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	args := append([]string{"mount", "--ready-fd", "3", "--cpus", "2", "--log-file", d.log, "--log-format", "json", "--log-level", "info"}, flags...)
	d.cmd = exec.Command(file, append(args, dir)...)
	d.cmd.ExtraFiles = []*os.File{w}
	d.cmd.Stderr = os.Stderr
	d.cmd.Env = append(os.Environ(), "GOTRACEBACK=all") // see run.join
	d.cmd.SysProcAttr = dieWithUs()
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGCONT)
		_ = d.cmd.Process.Kill()
		_, _ = d.cmd.Process.Wait()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "ready\n" {
		t.Fatalf("no start: %q, %v", line, err)
	}
	return d
}

func (d *daemon) path(name string) string { return filepath.Join(d.dir, name) }

// signal sends s to the program.
func (d *daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// stop stops the program and waits until all its threads are stopped.
func (d *daemon) stop() {
	d.t.Helper()
	d.signal(syscall.SIGSTOP)
	within(d.t, endLimit, "all threads stop", func() bool {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", d.cmd.Process.Pid))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err == nil && !strings.Contains(string(b), ") T ") {
				return false
			}
		}
		return len(files) > 0
	})
}

// ends waits until the program ends, and checks its status.
func (d *daemon) ends(limit time.Duration) {
	d.t.Helper()
	begin := time.Now()
	err := d.cmd.Wait()
	if took := time.Since(begin); err != nil || took > limit {
		d.t.Errorf("ended after %v with %v", took, err)
	}
}

// write writes text to a file of the tree by one write(2).
func (d *daemon) write(name, text string) error {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text + "\n")
	return err
}

// works checks that the mount still works: reading, a probe, its hits.
func (d *daemon) works() {
	d.t.Helper()
	for _, step := range []struct{ file, text string }{
		{"tracing/kprobe_events", "p:alive vfs_read+5"},
		{"tracing/events/kprobes/alive/enable", "1"},
	} {
		if err := d.write(step.file, step.text); err != nil {
			d.t.Fatal(err)
		}
	}
	for range 3 {
		if b, err := os.ReadFile(d.path("kprobes/enabled")); err != nil || string(b) != "1\n" {
			d.t.Fatalf("enabled: %q, %v", b, err)
		}
	}
	profile, err := os.ReadFile(d.path("tracing/kprobe_profile"))
	var name string
	var hits int
	if _, serr := fmt.Sscan(string(profile), &name, &hits); serr != nil || name != "alive" || hits < 3 {
		d.t.Fatalf("kprobe_profile: %q, %v", profile, err)
	}
	for _, step := range []struct{ file, text string }{
		{"tracing/events/kprobes/alive/enable", "0"},
		{"tracing/kprobe_events", "-:alive"},
	} {
		if err := d.write(step.file, step.text); err != nil {
			d.t.Fatal(err)
		}
	}
}

// state is the program's use of resources, as it logs it and by /proc.
type state struct {
	Msg                            string
	Goroutines, Heap, Inodes, Open int
	threads, files, resident       int
}

// state returns the program's use of resources.
func (d *daemon) state() state {
	d.t.Helper()
	before := d.logLines()
	d.signal(syscall.SIGUSR1)
	for range 500 {
		if lines := d.logLines(); len(lines) > len(before) && strings.HasSuffix(lines[len(lines)-1], "\n") {
			var s state
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
				d.t.Fatal(err)
			}
			s.ofProcess(d)
			return s
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.t.Fatal("no answer to SIGUSR1")
	return state{}
}

func (s *state) ofProcess(d *daemon) {
	proc := fmt.Sprintf("/proc/%d/", d.cmd.Process.Pid)
	fds, _ := os.ReadDir(proc + "fd")
	s.files = len(fds)
	b, _ := os.ReadFile(proc + "status")
	for line := range strings.Lines(string(b)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d", &s.resident)
		_, _ = fmt.Sscanf(line, "Threads: %d", &s.threads)
	}
	if s.files == 0 || s.resident == 0 || s.threads == 0 {
		d.t.Fatalf("%s is incomplete: %d descriptors, %d kB, %d threads", proc, s.files, s.resident, s.threads)
	}
}

func (d *daemon) logLines() []string {
	b, _ := os.ReadFile(d.log)
	return slices.Collect(strings.Lines(string(b)))
}

// mountedAt reports whether /proc/self/mountinfo has a mount on dir.
func mountedAt(dir string) bool {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	return strings.Contains(string(b), " "+dir+" ")
}

// within waits until cond returns true.
func within(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("not within %v: %s", limit, what)
}
