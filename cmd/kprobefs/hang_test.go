package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Arguments of kprobe_loops.ko, see its source.
const (
	loopsNowhere    = 0x5eed1009 // the value in the object file
	loopsInit       = 1
	loopsExit       = 2
	loopsPreemptOff = 3
	loopsIRQsOff    = 4
	loopsReader     = 5
	loopsHandler    = 6
)

// answerLimit is the time allowed for reading a file while guest code loops. Reading
// it creates a task and makes four system calls. Each may have to wait until the
// looping task is switched away, after 50 ms and a tick at most: 0.3 s together. A
// handler that loops executes 2^24 instructions, which takes 3 s under the race detector.
// The rest allows for a busy host. A reader that waited for the loop would wait forever.
const answerLimit = 30 * time.Second

// freedLimit is the time allowed for freeing a stuck vCPU with a watchdog threshold
// of one second: the watchdog samples it five times, 0.4 s apart. The rest allows for
// a busy host. A vCPU that is not freed stays stuck forever.
const freedLimit = time.Minute

// loopsModule returns the module's file with the place where it loops.
func loopsModule(t *testing.T, where uint32) string {
	t.Helper()
	b, err := os.ReadFile("../../kernel/guest/modules/kprobe_loops.ko")
	if err != nil {
		t.Fatal(err)
	}
	word := binary.LittleEndian.AppendUint32(nil, loopsNowhere)

	data := bytes.Index(b, word)
	if data < 0 || data%4 != 0 || bytes.Count(b, word) != 1 {
		t.Fatalf("the word for the place of the loop is not unique in the module: %d", data)
	}
	binary.LittleEndian.PutUint32(b[data:], where)
	name := filepath.Join(t.TempDir(), "kprobe_loops.ko")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// looping is a mount with a real machine, and the log of its program.
type looping struct {
	dir string
	log string // the file
}

// mountLooping starts the program with a machine instead of the tests' fake.
func mountLooping(t *testing.T, flags ...string) *looping {
	t.Helper()
	needFuse(t)
	l := &looping{dir: t.TempDir(), log: filepath.Join(t.TempDir(), "log")}
	stderr, err := os.Create(l.log)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := runProgram(append(append([]string{"mount", "--ready-fd", "3"}, flags...), l.dir)...)
	cmd.Env = append(os.Environ(), roleVar+"="+roleReal)
	cmd.ExtraFiles = []*os.File{w}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = cmd.Process.Wait()
		_ = unix.Unmount(l.dir, unix.MNT_DETACH)
		if b, _ := os.ReadFile(l.log); t.Failed() {
			t.Logf("the program's log:\n%s", b)
		}
	})
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "ready\n" {
		b, _ := os.ReadFile(l.log)
		t.Fatalf("%q, %v\n%s", line, err, b)
	}
	return l
}

// start starts a command that is killed at the test's end.
func start(t *testing.T, args ...string) (*exec.Cmd, <-chan error) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, done
}

// within waits for the end of a command.
func within(t *testing.T, limit time.Duration, done <-chan error, what string) error {
	t.Helper()
	begin := time.Now()
	select {
	case err := <-done:
		t.Logf("%s: %v", what, time.Since(begin).Round(time.Millisecond))
		return err
	case <-time.After(limit):
		t.Fatalf("%s has not ended after %v", what, limit)
	}
	return nil
}

// list reads kprobes/list in a new process, three times.
func (l *looping) list(t *testing.T) {
	t.Helper()
	for range 3 {
		_, done := start(t, "cat", l.dir+"/kprobes/list")
		if err := within(t, answerLimit, done, "cat list"); err != nil {
			t.Errorf("cat list: %v", err)
		}
	}
}

// insert copies the module into machine/modules, which loads it.
func (l *looping) insert(t *testing.T, where uint32) (*exec.Cmd, <-chan error) {
	t.Helper()
	return start(t, "cp", loopsModule(t, where), l.dir+"/machine/modules/kprobe_loops.ko")
}

// kill kills a command that waits for the loop. It must end at once.
func kill(t *testing.T, cmd *exec.Cmd, done <-chan error, what string) {
	t.Helper()
	_ = cmd.Process.Kill()
	_ = within(t, answerLimit, done, "killed "+what)
}

// wantLines waits until the guest's log and the program's have lines.
func (l *looping) wantLines(t *testing.T, lines ...string) {
	t.Helper()
	var missing []string
	for begin := time.Now(); time.Since(begin) < freedLimit; time.Sleep(100 * time.Millisecond) {
		kmsg, _ := exec.Command("dd", "if="+l.dir+"/dev/kmsg", "bs=8192", "iflag=nonblock").Output()
		log, _ := os.ReadFile(l.log)
		missing = nil
		for _, line := range lines {
			if re := regexp.MustCompile(line); !re.Match(kmsg) || !re.Match(log) {
				missing = append(missing, fmt.Sprintf("%q in the log %v, on standard error %v", line, re.Match(kmsg), re.Match(log)))
			}
		}
		if missing == nil {
			return
		}
	}
	t.Error(strings.Join(missing, "\n"))
}

// TestEndlessInit: while a module's init function loops with interrupts on, files can
// be used. The log has the messages of Debian's kernel (preempt=voluntary).
func TestEndlessInit(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes more than ten seconds: left to make test-all")
	}
	for _, cpus := range []string{"1", "2", "4"} {
		t.Run(cpus, func(t *testing.T) {
			l := mountLooping(t, "--cpus", cpus, "--watchdog", "kill:1")
			cmd, done := l.insert(t, loopsInit)
			time.Sleep(100 * time.Millisecond)
			l.list(t)
			l.wantLines(t, `watchdog: BUG: soft lockup - CPU#\d stuck for [2-9]s! \[insmod:\d+\]`)
			kill(t, cmd, done, "cp")
			l.list(t)
			b, err := os.ReadFile(l.dir + "/proc/modules")
			if err != nil || !regexp.MustCompile(`^kprobe_loops \d+ 1 - Loading 0x`).Match(b) {
				t.Errorf("proc/modules: %q, %v", b, err)
			}
			if err := os.Remove(l.dir + "/machine/modules/kprobe_loops.ko"); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("rm: %v", err)
			}
		})
	}
}

// TestEndlessExit: the same for a loop in an exit function. The removal is given up,
// and other modules can be loaded and unloaded.
func TestEndlessExit(t *testing.T) {
	l := mountLooping(t, "--cpus", "1", "--watchdog", "kill:1")
	_, done := l.insert(t, loopsExit)
	if err := within(t, answerLimit, done, "cp"); err != nil {
		t.Fatal(err)
	}
	name := l.dir + "/machine/modules/kprobe_loops.ko"
	_, done = start(t, "rm", name)
	time.Sleep(100 * time.Millisecond)
	l.list(t)
	if err := within(t, 2*answerLimit, done, "rm"); err == nil { // it waits for the exit function for one answerLimit
		t.Error("the module was unloaded")
	}
	if err := os.Remove(name); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("rm again: %v", err)
	}
	for _, args := range [][]string{
		{"cp", "../../kernel/guest/modules/kprobe_target.ko", l.dir + "/machine/modules"},
		{"rm", l.dir + "/machine/modules/kprobe_target.ko"},
	} {
		_, done := start(t, args...)
		if err := within(t, answerLimit, done, args[0]+" of another"); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	l.wantLines(t, `watchdog: BUG: soft lockup - CPU#0 stuck for [2-9]s! \[rmmod:\d+\]`)
}

// TestLockup: a loop that cannot be preempted is ended by the watchdog, which logs
// Linux's messages. With one vCPU everything waits until then.
func TestLockup(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes more than ten seconds: left to make test-all")
	}
	const soft = `watchdog: BUG: soft lockup - CPU#\d stuck for [2-9]s! \[insmod:\d+\]`
	const hard = `NMI watchdog: Watchdog detected hard LOCKUP on cpu \d`
	for _, c := range []struct {
		name, cpus string
		where      uint32
		line       string
	}{
		{"preemption off", "1", loopsPreemptOff, soft},
		{"RCU reader", "1", loopsReader, soft},
		{"interrupts off", "1", loopsIRQsOff, hard},
		{"interrupts off, 2 vCPUs", "2", loopsIRQsOff, hard},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := mountLooping(t, "--cpus", c.cpus, "--watchdog", "kill:1")
			_, done := l.insert(t, c.where)
			if err := within(t, freedLimit, done, "cp"); err == nil {
				t.Error("the module was loaded")
			}
			l.list(t)
			l.wantLines(t, c.line, `watchdog: CPU#\d is taken from insmod:\d+, which is killed`)
		})
	}
}

// TestLockupPanic: with --watchdog panic the machine panics, as with
// softlockup_panic.
func TestLockupPanic(t *testing.T) {
	for where, line := range map[uint32]string{
		loopsPreemptOff: "watchdog: BUG: soft lockup - CPU#",
		loopsIRQsOff:    "NMI watchdog: Watchdog detected hard LOCKUP on cpu ",
	} {
		l := mountLooping(t, "--cpus", "2", "--watchdog", "panic:1")
		_, done := l.insert(t, where)
		if err := within(t, freedLimit, done, "cp"); err == nil {
			t.Error("the module was loaded")
		}
		if _, err := os.ReadFile(l.dir + "/kprobes/list"); !errors.Is(err, syscall.EIO) {
			t.Errorf("the machine still runs: %v", err)
		}
		if b, err := os.ReadFile(l.log); err != nil || !strings.Contains(string(b), line) || strings.Contains(string(b), "killed") {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// TestEndlessHandler: a probe whose handler loops is disabled.
func TestEndlessHandler(t *testing.T) {
	l := mountLooping(t, "--cpus", "1")
	_, done := l.insert(t, loopsHandler)
	if err := within(t, answerLimit, done, "cp"); err != nil {
		t.Fatal(err)
	}
	l.list(t)
	b, err := os.ReadFile(l.dir + "/kprobes/list")
	if err != nil || !strings.Contains(string(b), "vfs_read+0x0    [DISABLED]") {
		t.Errorf("list: %q, %v", b, err)
	}
}

// TestLoadInterrupted: calls whose caller was interrupted are not repeated further,
// and later calls are made.
func TestLoadInterrupted(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			l := mountLooping(t, "--cpus", "2")
			call := l.dir + "/machine/load/call"
			cmd, done := start(t, "sh", "-c", "echo strlen 1000000000000 linux_banner > "+call)
			time.Sleep(300 * time.Millisecond)
			_ = cmd.Process.Signal(signal)
			if err := within(t, answerLimit, done, "the writer"); err == nil {
				t.Error("10^12 calls in no time")
			}
			_, done = start(t, "sh", "-c", "echo strlen 10 linux_banner > "+call)
			if err := within(t, answerLimit, done, "the next one"); err != nil {
				t.Error(err)
			}
			b, err := os.ReadFile(call)
			if err != nil || strings.Count(string(b), ": 10 calls, ") != 2 {
				t.Errorf("%s: %q, %v", call, b, err)
			}
		})
	}
}

// TestExecDoesNotWait: below exec, with a probe armed, other activity of processes waits
// only once for a machine that does not answer.
func TestExecDoesNotWait(t *testing.T) {
	needFuse(t)
	const limit = 40 * time.Second // below the watchdog's
	for name, where := range map[string]uint32{"init": loopsInit, "interrupts off": loopsIRQsOff} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := `cd /sys/kernel/tracing
echo p:mine vfs_read > kprobe_events && echo 1 > events/kprobes/mine/enable || exit 3
cd /
timeout -s KILL 1 cp ` + loopsModule(t, where) + ` $KPROBEFS_MNT/machine/modules/ &
sleep 1
/bin/cat /etc/passwd > /dev/null && /bin/cat /etc/passwd > /dev/null || exit 4`
			cmd := runProgram("exec", "--cpus", "1", "--watchdog", "kill:60", "--", "sh", "-c", script)
			cmd.Env = append(os.Environ(), roleVar+"="+roleReal)
			start := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%q, %v", out, err)
			}
			if took := time.Since(start); took > limit {
				t.Errorf("exec with two cats took %v", took)
			}
		})
	}
}
