package soak

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/integration"
)

// Time limits for starting and ending. Starting takes about 0.2 s of CPU time, ending
// less; with 20 other processes on the CPU that is 5 s. The rest allows for slower
// hosts. A start that waited for the previous mount, or an end that waited for a
// user, would take until a timeout or forever.
const (
	startLimit = 20 * time.Second
	endLimit   = 20 * time.Second
)

// TestKillAndRestart: after a daemon is killed, its users get an error and a new
// daemon can be started at once, even before the watcher has removed the mount.
func TestKillAndRestart(t *testing.T) {
	dir := t.TempDir()
	var starts []time.Duration
	for i := range times() {
		begin := time.Now()
		d := start(t, dir)
		starts = append(starts, time.Since(begin))
		d.works()
		kmsg := waitingReader(t, d)
		d.signal(syscall.SIGKILL)
		_ = d.cmd.Wait()
		kmsg.fails(t)
		if i%2 == 0 {
			within(t, endLimit, "the watcher takes the mount away", func() bool { return !mountedAt(dir) })
		}
	}
	slices.Sort(starts)
	median, longest := starts[len(starts)/2], starts[len(starts)-1]
	t.Logf("%d starts: %v in the middle, the longest %v", len(starts), median, longest)
	if longest > startLimit {
		t.Errorf("a start took %v", longest)
	}
}

// reader is a blocked read of a file.
type reader struct {
	done chan error
}

// waitingReader reads dev/kmsg to its end, and waits for more.
func waitingReader(t *testing.T, d *daemon) *reader {
	t.Helper()
	// Not by package os, which would use poll.
	fd, err := unix.Open(d.path("dev/kmsg"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{make(chan error, 1)}
	go func() {
		defer unix.Close(fd)
		b := make([]byte, 8192)
		for {
			n, err := unix.Read(fd, b)
			if err == nil && n == 0 {
				err = io.EOF
			}
			if err != nil && !errors.Is(err, unix.EINTR) {
				r.done <- err
				return
			}
		}
	}()
	select {
	case err := <-r.done:
		t.Fatalf("kmsg: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	return r
}

// fails checks that the read fails when the daemon ends.
func (r *reader) fails(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.done:
		if errors.Is(err, io.EOF) {
			t.Error("the waiting reader got an end of file")
		}
	case <-time.After(endLimit):
		t.Error("the reader still waits")
	}
}

// TestTermWhileBusy: SIGTERM ends the daemon while a reader waits, a process has its
// working directory in the tree, and another namespace has a bind mount of it.
func TestTermWhileBusy(t *testing.T) {
	dir := t.TempDir()
	for range times() {
		d := start(t, dir)
		release := occupy(t, d)
		kmsg := waitingReader(t, d)
		d.signal(syscall.SIGTERM)
		d.ends(endLimit)
		kmsg.fails(t)
		if mountedAt(dir) {
			t.Error("still mounted")
		}
		release()
	}
}

// TestUmountWhileBusy: the same by `kprobefs umount`. umount(2) works only if the
// tree is not in use.
func TestUmountWhileBusy(t *testing.T) {
	dir := t.TempDir()
	for range times() {
		d := start(t, dir)
		release := occupy(t, d)
		if err := unix.Unmount(dir, 0); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("umount(2) of a busy tree: %v, want EBUSY", err)
		}
		if out, err := exec.Command(program, "umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
		if mountedAt(dir) {
			t.Error("still mounted")
		}
		release() // the daemon serves its users and ends after the last one
		d.ends(endLimit)

		d = start(t, dir)
		within(t, endLimit, "umount(2)", func() bool { return unix.Unmount(dir, 0) == nil })
		d.ends(endLimit)
	}
}

// occupy starts processes that use the tree: one with its working directory and an
// open file in it, one in another namespace with a bind mount.
func occupy(t *testing.T, d *daemon) (release func()) {
	t.Helper()
	place := t.TempDir()
	users := []*exec.Cmd{
		exec.Command("sh", "-c", `cd "$0/kprobes" && exec 3<list && echo in && exec sleep 1000`, d.dir),
		exec.Command("unshare", "-m", "sh", "-c", `mount --bind "$0/tracing" "$1" && echo in && exec sleep 1000`, d.dir, place),
	}
	for _, u := range users {
		out, err := u.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		u.Stderr = os.Stderr
		u.SysProcAttr = dieWithUs()
		if err := u.Start(); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 3)
		if _, err := io.ReadFull(out, b); err != nil {
			t.Fatalf("%v: %v", u.Args, err)
		}
	}
	release = func() {
		for _, u := range users {
			_ = u.Process.Kill()
			_ = u.Wait()
		}
	}
	t.Cleanup(release)
	return release
}

// TestStopAndContinue: users of a stopped daemon wait and can be killed. The others
// get their answers when the daemon continues.
func TestStopAndContinue(t *testing.T) {
	d := start(t, t.TempDir())
	for range times() {
		d.stop()
		// In another directory: a lookup of a name that is being looked up already
		// waits in the host's kernel for the first one, and cannot be killed there.
		victim := clientOf(t, d, "open")
		answer := make(chan string, 1)
		go func() {
			b, err := os.ReadFile(d.path("kprobes/enabled"))
			answer <- fmt.Sprintf("%q, %v", b, err)
		}()
		time.Sleep(30 * time.Millisecond)
		select {
		case a := <-answer:
			t.Fatalf("a stopped daemon answered %s", a)
		default:
		}
		begin := time.Now()
		_ = victim.Process.Kill()
		_ = victim.Wait()
		if took := time.Since(begin); took > endLimit {
			t.Errorf("a killed user ended after %v", took)
		}
		d.signal(syscall.SIGCONT)
		select {
		case a := <-answer:
			if a != `"1\n", <nil>` {
				t.Errorf("after SIGCONT: %s", a)
			}
		case <-time.After(endLimit):
			t.Fatal("no answer after SIGCONT")
		}
	}
	d.works()
}

// operations are what a client repeats until it is killed.
var operations = map[string]func(dir string) error{
	"open": func(dir string) error {
		f, err := os.Open(dir + "/tracing/kprobe_events")
		if err == nil {
			err = f.Close()
		}
		return err
	},
	"read": func(dir string) error { _, err := os.ReadFile(dir + "/kprobes/list"); return err },
	"wait": func(dir string) error { // for a message that never comes
		f, err := os.Open(dir + "/dev/kmsg")
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(io.Discard, f)
		return err
	},
	"stat":     func(dir string) error { _, err := os.Stat(dir + "/kprobes/blacklist"); return err },
	"readdir":  func(dir string) error { _, err := os.ReadDir(dir + "/tracing/events"); return err },
	"knob":     func(dir string) error { return toggle(dir + "/sys/debug/kprobes-optimization") },
	"enabled":  func(dir string) error { return toggle(dir + "/kprobes/enabled") },
	"truncate": func(dir string) error { return os.WriteFile(dir+"/tracing/kprobe_events", nil, 0) },
	"define": func(dir string) error {
		f, err := os.OpenFile(dir+"/tracing/kprobe_events", os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString("p:killed vfs_read+5\n-:killed\np:killed2 vfs_write+5\n-:killed2\n")
		return err
	},
	"enable": func(dir string) error { return toggle(dir + "/tracing/events/kprobes/victim/enable") },
}

func toggle(file string) error {
	return errors.Join(os.WriteFile(file, []byte("0\n"), 0), os.WriteFile(file, []byte("1\n"), 0))
}

// client repeats an operation until it is killed.
func client(op, dir string) int {
	for {
		if err := operations[op](dir); err != nil && !strings.Contains(err.Error(), "killed") {
			// Other clients may have left a definition behind: EEXIST, EBUSY.
			if !errors.Is(err, syscall.EEXIST) && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOENT) {
				fmt.Fprintln(os.Stderr, op, err)
				return 1
			}
		}
	}
}

func clientOf(t *testing.T, d *daemon, op string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", op, d.dir)
	cmd.Env = append(os.Environ(), roleVar+"="+roleClient)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithUs()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestCallerKilled: callers are killed in the middle of each operation. Nothing of
// them is left.
func TestCallerKilled(t *testing.T) {
	d := start(t, t.TempDir())
	d.works()
	before := d.state()
	for op := range operations {
		t.Run(op, func(t *testing.T) {
			if op == "enable" {
				if err := d.write("tracing/kprobe_events", "p:victim vfs_write+5"); err != nil {
					t.Fatal(err)
				}
			}
			for range times() {
				c := clientOf(t, d, op)
				time.Sleep(10*time.Millisecond + rand.N(20*time.Millisecond))
				begin := time.Now()
				_ = c.Process.Kill()
				err := c.Wait()
				if took := time.Since(begin); took > endLimit {
					t.Errorf("ended after %v", took)
				}
				var e *exec.ExitError
				if errors.As(err, &e) && !e.Sys().(syscall.WaitStatus).Signaled() {
					t.Fatal("the client failed by itself")
				}
			}
		})
	}
	restore(t, d)
	d.works()
	within(t, endLimit, "open files are closed", func() bool { return d.state().Open <= before.Open })
	flat(t, before, d.state())
}

// TestStatAfterOthers: a thread that has not made a call for so long that its buffers went to
// others can still ask for a directory's attributes.
func TestStatAfterOthers(t *testing.T) {
	d := start(t, t.TempDir())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := os.ReadFile(d.path("kprobes/enabled")); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		if out, err := exec.Command("cat", d.path("kprobes/enabled")).CombinedOutput(); err != nil {
			t.Fatalf("cat: %v, %s", err, out)
		}
	}
	time.Sleep(100 * time.Millisecond) // buffers are freed beside the calls
	if _, err := os.Stat(d.path("tracing/events")); err != nil {
		t.Error(err)
	}
}

// restore restores the tree's state after boot.
func restore(t *testing.T, d *daemon) {
	t.Helper()
	events, _ := filepath.Glob(d.path("tracing/events/kprobes/*/enable"))
	for _, e := range events {
		if err := os.WriteFile(e, []byte("0\n"), 0); err != nil {
			t.Error(err)
		}
	}
	for _, f := range []struct{ name, text string }{
		{"tracing/kprobe_events", ""}, {"kprobes/enabled", "1\n"}, {"sys/debug/kprobes-optimization", "1\n"},
	} {
		if err := os.WriteFile(d.path(f.name), []byte(f.text), 0); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(d.path("kprobes/list")); len(b) > 0 || err != nil {
		t.Errorf("left in list: %q, %v", b, err)
	}
}

// flat fails if the program uses more resources than before. Some more are allowed,
// since Go keeps threads, and the host's kernel inodes, for a while.
func flat(t *testing.T, before, after state) {
	t.Helper()
	t.Logf("before %+v, after %+v", before, after)
	for _, c := range []struct {
		what                 string
		before, after, grows int
	}{
		{"goroutines", before.Goroutines, after.Goroutines, 16},
		{"descriptors", before.files, after.files, 4},
		{"inodes", before.Inodes, after.Inodes, 64},
		{"threads", before.threads, after.threads, 160},
		{"heap (bytes)", before.Heap, after.Heap, 32 << 20},
		{"resident (kB)", before.resident, after.resident, 96 << 10},
	} {
		if c.after > c.before+c.grows {
			t.Errorf("%s grew from %d to %d", c.what, c.before, c.after)
		}
	}
}

// TestNoDescriptors: a daemon that runs out of descriptors (EMFILE) still serves
// requests that need none, and all requests when there are descriptors again.
func TestNoDescriptors(t *testing.T) {
	d := start(t, t.TempDir())
	d.works()
	pid := d.cmd.Process.Pid
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Skip(err)
	}
	none := unix.Rlimit{Cur: 3, Max: old.Max}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &none, nil); err != nil {
		t.Fatal(err)
	}
	d.works()
	for op, f := range operations {
		if op == "wait" || op == "enable" {
			continue
		}
		if err := f(d.dir); err != nil {
			t.Errorf("%s without descriptors: %v", op, err)
		}
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil); err != nil {
		t.Fatal(err)
	}
	d.works()
	d.signal(syscall.SIGTERM)
	d.ends(endLimit)
}

// TestStartWithoutDescriptors: if started with too few descriptors, the program
// reports it and leaves no mount.
func TestStartWithoutDescriptors(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	// With less than 9 the Go runtime and go-fuse's init end the program themselves.
	for n := 9; n < 20; n++ {
		cmd := exec.Command("prlimit", fmt.Sprintf("--nofile=%d", n), program, "mount", "--daemon", dir)
		out, err := cmd.CombinedOutput()
		switch {
		case err == nil:
			if out, err := exec.Command(program, "umount", dir).CombinedOutput(); err != nil {
				t.Errorf("%d descriptors: mounted, and then: %s", n, out)
			}
		case len(out) == 0 || cmd.ProcessState.ExitCode() < 0:
			t.Errorf("%d descriptors: %v without a word: %q", n, err, out)
		case strings.Contains(string(out), "goroutine "):
			t.Errorf("%d descriptors: a crash: %s", n, out)
		}
		if mountedAt(dir) {
			t.Errorf("%d descriptors: left mounted", n)
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
	}
}

// TestNoSpace: the program serves requests even if the file system of its log or of
// TMPDIR is full.
func TestNoSpace(t *testing.T) {
	full := t.TempDir()
	if err := unix.Mount("none", full, "tmpfs", 0, "size=4k,nr_inodes=3"); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Unmount(full, unix.MNT_DETACH) }()
	_ = os.WriteFile(full+"/log", nil, 0o600)
	_ = os.WriteFile(full+"/rest", make([]byte, 8192), 0o600)
	d := start(t, t.TempDir(), "--log-file", full+"/log", "--log-level", "debug")
	d.works()
	d.signal(syscall.SIGTERM)
	d.ends(endLimit)
	cmd := exec.Command(program, "exec", "--", "sh", "-c", "cat /sys/kernel/debug/kprobes/enabled")
	cmd.Env = append(os.Environ(), "TMPDIR="+full)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "1\n" {
		t.Errorf("exec: %q, %v", out, err)
	}
}

// TestFromScratch: the static binary runs without /tmp, fusermount3 and a shell, as
// in the image of contrib/Containerfile.
func TestFromScratch(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes more than ten seconds: left to make test-all")
	}
	root := t.TempDir()
	t.Setenv("CGO_ENABLED", "0")
	file, err := integration.Build(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"proc", "dev", "tree"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range []string{"proc", "dev"} {
		at := filepath.Join(root, b)
		if err := unix.Mount("/"+b, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			t.Skip(err)
		}
		defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }()
	}
	inside := func(args ...string) (string, error) {
		cmd := exec.Command("/"+filepath.Base(file), args...)
		cmd.Env = []string{}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{
		{"check", "/tree"},
		{"check", "--for", "mount", "/tree"},
		{"mount", "--daemon", "/tree"},
		{"mounted", "/tree"},
		{"check", "/tree"},
		{"umount", "/tree"},
	} {
		if out, err := inside(args...); err != nil {
			t.Fatalf("%q: %s, %v", args, out, err)
		}
	}
}

// TestKilledTestsLeaveNothing: when tests are killed, no process is left, and so no
// mount, since mounts are in a private namespace.
func TestKilledTestsLeaveNothing(t *testing.T) {
	mark := fmt.Sprintf("KPROBEFS_TEST_MARK=%d", os.Getpid())
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestLoad$")
	cmd.SysProcAttr = dieWithUs()
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, roleVar+"=") }),
		mark, "TMPDIR="+t.TempDir()) // killed tests leave files in it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	marked := func() (lines []string) {
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range files {
			env, _ := os.ReadFile(f)
			if line, err := os.ReadFile(filepath.Dir(f) + "/cmdline"); err == nil && slices.Contains(strings.Split(string(env), "\x00"), mark) {
				lines = append(lines, strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		return lines
	}
	mounts := func(line string) bool { return strings.Contains(line, "kprobefs mount ") }
	within(t, time.Minute, "the tests mount", func() bool { return slices.ContainsFunc(marked(), mounts) })
	time.Sleep(time.Second) // until the tests use it
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for end := time.Now().Add(endLimit); ; time.Sleep(20 * time.Millisecond) {
		left := marked()
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left: %q", left)
		}
	}
}
