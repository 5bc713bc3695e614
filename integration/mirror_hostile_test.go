package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// armed is a script that arms probes on what programs do most. hits says how often one was hit.
const armed = `T=/sys/kernel/tracing
for f in vfs_read do_sys_openat2 kernel_clone; do
	echo "p:p_$f $f" >>$T/kprobe_events
	echo "r64:r_$f $f ret=\$retval" >>$T/kprobe_events
done
hits() { while read -r name hits missed; do [ "$name" = "$1" ] && echo "$hits"; done <$T/kprobe_profile; }
echo 1 >$T/events/kprobes/enable
`

// hostile runs a script below exec after armed, and returns what it has printed. Nothing that
// it has started may be left.
func hostile(t *testing.T, dir, script string) string {
	t.Helper()
	put(t, dir, "script", armed+script)
	mark := "KPROBEFS_HOSTILE_TEST=" + filepath.Base(dir)
	out, status := asUser(nil).exec(t, dir, []string{mark}, []string{"--mirror", "all"}, "sh", "script")
	if status != 0 {
		t.Errorf("status %d", status)
	}
	noneLeft(t, mark)
	return out
}

// noneLeft fails if processes are left that were started with an environment variable, and
// kills them.
func noneLeft(t *testing.T, mark string) {
	t.Helper()
	var left []int
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left = descendants(mark); len(left) == 0 {
			return
		}
	}
	for _, pid := range left {
		t.Errorf("left: %s", whereabouts(pid))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// whereabouts says what each thread of a process waits for.
func whereabouts(pid int) string {
	var b strings.Builder
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	fmt.Fprintf(&b, "%d %.80q", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		for _, name := range []string{"stat", "wchan", "syscall", "stack"} {
			text, _ := os.ReadFile(filepath.Join(task, name))
			fmt.Fprintf(&b, " %.200q", bytes.TrimSpace(text))
		}
		status, _ := os.ReadFile(filepath.Join(task, "status"))
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "TracerPid") || strings.Contains(line, "Pnd:") {
				fmt.Fprintf(&b, " %q", strings.TrimSpace(line))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// killAll kills the processes that were started with an environment variable or, if some are named, those of
// kprobefs' own commands among them.
func killAll(mark string, commands ...string) {
	for _, pid := range descendants(mark) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		named := func(c string) bool { return bytes.Contains(line, []byte("\x00"+c+"\x00")) }
		if len(commands) == 0 || slices.ContainsFunc(commands, named) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// hostileProgram builds testdata/hostile/calls.go as calls in a directory.
func hostileProgram(t *testing.T, dir string) {
	t.Helper()
	source, err := os.ReadFile("testdata/hostile/calls.go")
	if err != nil {
		t.Fatal(err)
	}
	putGo(t, dir, "calls", string(source))
}

// TestHostileArguments: a program's other threads change what a call gets, or take its memory
// away, while the guest reads the same: the host's call does what it would have done.
func TestHostileArguments(t *testing.T) {
	needFUSE(t)
	dir := publicDir(t)
	hostileProgram(t, dir)
	if out := hostile(t, dir, "./calls changed\n[ $(hits p_do_sys_openat2) -ge 400 ] && echo seen\n"); out != "done\nseen\n" {
		t.Error(out)
	}
}

// TestHostileName: a program that does not supply the page with the name of a file that it
// opens holds up nobody else.
func TestHostileName(t *testing.T) {
	needFUSE(t)
	dir := publicDir(t)
	hostileProgram(t, dir)
	out, status := asUser(nil).exec(t, dir, nil, nil, "./calls", "held")
	if strings.HasPrefix(out, "userfaultfd: ") {
		t.Skip(out)
	}
	if out != "done\n" || status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
}

// TestHostilePID: a call has no effect when its caller has been killed and a process of root has its
// pid.
func TestHostilePID(t *testing.T) {
	needFUSE(t)
	needTool(t, "gcc", "gcc")
	if os.Getuid() != 0 {
		t.Skip("only root may choose pids")
	}
	dir := publicDir(t)
	source, err := filepath.Abs("testdata/hostile/reuse.c")
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, dir, "gcc -w -o reuse "+source)
	for _, call := range []string{"mount", "mountdir", "statfs", "perf", "open"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			// In a pid namespace of its own nobody else takes the pid.
			out, status := asUser{"unshare", "-pf", "--mount-proc"}.exec(t, dir, nil, nil, "sh", "-c", "mkdir "+call+" && cd "+call+" && ../reuse "+call)
			switch out {
			case "done\n":
			case "no userfaultfd\n", "the pid is not given again\n":
				t.Skip(out)
			default:
				t.Errorf("status %d: %s", status, out)
			}
		})
	}
}

// TestHostilePassed: descriptors are passed by SCM_RIGHTS and closed: the supervisor keeps none
// of them open.
func TestHostilePassed(t *testing.T) {
	needFUSE(t)
	dir := publicDir(t)
	hostileProgram(t, dir)
	if out := hostile(t, dir, "./calls passed\n[ $(hits r_vfs_read) -ge 400 ] && echo seen\n"); out != "done\nseen\n" {
		t.Error(out)
	}
}

// TestHostileForks: a bounded fork bomb has all its processes, and each fork is seen.
func TestHostileForks(t *testing.T) {
	needFUSE(t)
	dir := publicDir(t)
	const depth, processes = 7, 1<<8 - 1
	out := hostile(t, dir, fmt.Sprintf(`before=$(hits p_kernel_clone)
bomb() {
	echo $1 >>out
	if [ $1 -gt 0 ]; then bomb $(($1 - 1)) & bomb $(($1 - 1)) & fi
	wait
}
bomb %d
after=$(hits p_kernel_clone)
echo $((after - before - 1)) # but for the one of $(hits)
`, depth))
	if want := fmt.Sprintln(processes - 1); out != want {
		t.Errorf("forks that were seen: %swant %s", out, want)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "out")); bytes.Count(b, []byte("\n")) != processes {
		t.Errorf("%d processes have run, want %d", bytes.Count(b, []byte("\n")), processes)
	}
}

// TestHostileProcesses: many processes wait for a pipe at the same time, 2,000 of them if
// KPROBEFS_SOAK is set, and they get all that is written into it.
func TestHostileProcesses(t *testing.T) {
	needFUSE(t)
	dir := publicDir(t)
	processes := rounds(300, 2000)
	out := hostile(t, dir, fmt.Sprintf(`mkfifo pipe
exec 3<>pipe
i=0
while [ $i -lt %d ]; do
	{ read -r line <&3; echo "$line" >>out; } & # a byte at a time: lines get mixed
	i=$((i + 1))
done
while [ $i -gt 0 ]; do echo x >&3; i=$((i - 1)); done
wait
wc -l <out
tr -cd x <out | wc -c
seen=$(hits p_kernel_clone); [ $seen -ge %[1]d ] && echo seen || echo $seen forks seen
`, processes))
	if want := fmt.Sprintf("%d\n%[1]d\nseen\n", processes); out != want {
		t.Errorf("%swant\n%s", out, want)
	}
}

// TestHostileStops: a process that is stopped stops, its parent is told, and it goes on when it
// is continued.
func TestHostileStops(t *testing.T) {
	needFUSE(t)
	needTool(t, "python3", "python3")
	dir := publicDir(t)
	put(t, dir, "stops.py", `import os, signal, time
pid = os.fork()
if pid == 0:
    while True:
        with open("count", "ab", 0) as f:
            f.write(b"x")
        open("stops.py").close()
size = lambda: os.stat("count").st_size if os.path.exists("count") else 0
for i in range(20):
    start = size()
    while size() < start + 3:
        time.sleep(0.001)
    os.kill(pid, signal.SIGSTOP)
    if not os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]):
        print("not told of the stop")
    start = size()
    time.sleep(0.02)
    if size() != start:
        print("it runs while it is stopped")
    os.kill(pid, signal.SIGCONT)
    if not os.WIFCONTINUED(os.waitpid(pid, os.WCONTINUED)[1]):
        print("not told that it goes on")
os.kill(pid, signal.SIGSTOP)
os.waitpid(pid, os.WUNTRACED)
os.kill(pid, signal.SIGKILL)
print(os.waitpid(pid, 0)[1])
`)
	if out := hostile(t, dir, "python3 stops.py\n"); out != "9\n" {
		t.Error(out)
	}
}

// TestHostileOutlive: processes that outlive the command while probes are armed go on.
func TestHostileOutlive(t *testing.T) {
	needTime(t)
	needFUSE(t)
	dir := publicDir(t)
	put(t, dir, "in", "text\n")
	hostile(t, dir, `for i in $(seq 10); do
	setsid sh -c 'for j in $(seq 20); do read -r line <in; sleep 0.02; done; (cat in; echo $0) >tmp$0; mv tmp$0 out$0' $i >/dev/null 2>&1 </dev/null &
done
`)
	for i := 1; i <= 10; i++ {
		if b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("out", i))); string(b) != fmt.Sprintf("text\n%d\n", i) {
			t.Errorf("process %d: %q %v", i, b, err)
		}
	}
}

// TestHostileSupervisor: when exec itself is killed, no process is left in a stop or in a call:
// each ends, or goes on with its work.
func TestHostileSupervisor(t *testing.T) {
	needFUSE(t)
	for i := range 5 {
		dir := publicDir(t)
		put(t, dir, "script", armed+`exec 3>>beats 4<script
touch armed
for i in 1 2 3 4; do (while :; do read -r line <&4; echo x >&3; done) & done
while :; do read -r line <script; echo x >&3; done
`)
		mark := fmt.Sprintf("KPROBEFS_HOSTILE_TEST=%s", filepath.Base(dir))
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, filepath.Join(built, "kprobefs"), "exec", "--mirror", "all", "--", "sh", "script")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), mark)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "armed", func() bool { _, err := os.Stat(filepath.Join(dir, "armed")); return err == nil })
		time.Sleep(time.Duration(20*i) * time.Millisecond)
		if i%2 == 0 {
			cancel() // the process that waits for the others
		} else {
			killAll(mark, "inside", "mount") // those that serve, supervise and trace
		}
		time.Sleep(200 * time.Millisecond)
		for _, pid := range descendants(mark) {
			eventually(t, fmt.Sprintf("round %d: process %d is let go", i, pid), func() bool { return !stuck(pid) })
		}
		cancel()
		_ = cmd.Wait()
		killAll(mark)
		noneLeft(t, mark)
	}
}

// TestMirrorUnseen: calls that differences.md and mirrored-calls.md name as not seen are made as
// without probes, and are not seen.
func TestMirrorUnseen(t *testing.T) {
	needFUSE(t)
	needTool(t, "gcc", "gcc")
	dir := publicDir(t)
	source, err := filepath.Abs("testdata/hostile/unseen.c")
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, dir, "gcc -o unseen "+source)
	out := hostile(t, dir, `for f in getpid getpgid clock_gettime; do echo "p:x_$f __x64_sys_$f" >>$T/kprobe_events; echo 1 >$T/events/kprobes/x_$f/enable; done
echo 1 >$T/events/raw_syscalls/sys_enter/enable
./unseen
echo 0 >$T/events/enable
echo getpid $(hits x_getpid), getpgid $(hits x_getpgid), clock_gettime $(hits x_clock_gettime)
echo calls by number: $(grep -cE ' unseen-.* NR 39 ' $T/trace) $(grep -cE ' unseen-.* NR (20|121|228|425) ' $T/trace)
`)
	if strings.HasPrefix(out, "32-bit: refused\n") {
		t.Log("the host has no 32-bit calls")
		out = strings.Replace(out, "refused", "1", 1)
	}
	// Number 20 is getpid of i386, 121 getpgid, 228 clock_gettime, 425 io_uring_setup.
	if want := "32-bit: 1\ntraced: 0\ngetpid 1, getpgid 0, clock_gettime 0\ncalls by number: 1 0\n"; out != want {
		t.Errorf("-want +got\n%s", diff(want, out))
	}
}

// stuck reports whether a process is in a tracer's stop, or waits for what does not come.
func stuck(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	if err != nil || strings.HasPrefix(rest, "Z") {
		return false
	}
	if tracer, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); !strings.Contains(string(tracer), "TracerPid:\t0\n") {
		return true
	}
	return strings.HasPrefix(rest, "t") || strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "D")
}

// eventually fails unless a condition is met within a time that a busy machine needs.
func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if met() {
			return
		}
	}
	t.Errorf("not within 20 s: %s", what)
}

// rounds is how often a test is repeated: few times, or many if KPROBEFS_SOAK is set.
func rounds(few, many int) int {
	if os.Getenv("KPROBEFS_SOAK") != "" {
		return many
	}
	return few
}

// execsProgram executes itself as often as its argument says, each time while other threads of it read.
const execsProgram = `#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *get(void *a) {
	char b;
	int zero = open("/dev/zero", O_RDONLY);
	for (;;)
		read(zero, &b, 1);
}
int main(int argc, char **argv) {
	int n = atoi(argv[1]);
	char left[16];
	pthread_t t;
	if (!n) {
		puts("done");
		return 0;
	}
	for (int i = 0; i < 6; i++)
		pthread_create(&t, 0, get, 0);
	usleep(rand() % 3000);
	sprintf(left, "%d", n - 1);
	execl("/proc/self/exe", argv[0], left, (char *)0);
	return 1;
}
`

// TestThreadsExec: execve(2) ends the other threads of a process, and waits until the tracer has noticed that. The tracer attaches to
// the process at that moment, which waits for execve(2).
func TestThreadsExec(t *testing.T) {
	needFUSE(t)
	dir := publicDir(t)
	putC(t, dir, "execs", execsProgram, "-pthread")
	out := hostile(t, dir, `echo 0 >$T/events/kprobes/enable
echo 'p:x __x64_sys_sched_yield' >>$T/kprobe_events
for i in 1 2 3; do ./execs 60 >done$i & done
for i in $(seq 15); do
	echo 1 >$T/events/kprobes/x/enable
	sleep 0.01
	echo 0 >$T/events/kprobes/x/enable
done
for i in $(seq 300); do [ "$(cat done1 done2 done3)" = 'done
done
done' ] && break; sleep 0.1; done
cat done1 done2 done3
kill -9 $(jobs -p) 2>/dev/null || :
`)
	if want := "done\ndone\ndone\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}
