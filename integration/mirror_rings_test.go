package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ringsProgram reads /dev/zero, one byte at a time: as often as its argument says, or until a file
// stop exists. Each read has to succeed. It prints how often it has read. In memory below its stack it leaves where its read has
// returned to, as the dynamic linker does.
const ringsProgram = `#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
	int zero = open("/dev/zero", O_RDONLY);
	long most = argc > 1 ? atol(argv[1]) : 0, n = 0;
	char b = 1;
	for (; most ? n < most : !n || n % 64 || access("stop", F_OK); n++, b = 1) {
		if (read(zero, &b, 1) != 1 || b)
			return 1;
		asm volatile("mov %%rcx,-1024(%%rsp)" ::: "memory");
	}
	printf("%ld\n", n);
	return 0;
}
`

// ringsIn builds it as reads in a directory.
func ringsIn(t *testing.T, dir string) {
	t.Helper()
	needFUSE(t)
	putC(t, dir, "reads", ringsProgram)
}

// TestMirrorModes: probes see the same, however a program is made to tell of its calls.
func TestMirrorModes(t *testing.T) {
	dir := publicDir(t)
	ringsIn(t, dir)
	put(t, dir, "script", `T=/sys/kernel/tracing
echo 'p:r __x64_sys_read n=+96(%di):u64' >$T/kprobe_events
echo 'comm == "reads" && n == 1' >$T/events/kprobes/r/filter
echo 1 >$T/events/kprobes/r/enable
./reads 2000
busybox sh -c 'exec ./reads 30'
echo 0 >$T/events/kprobes/r/enable
grep -c ' r: ' $T/trace
`)
	for _, mirror := range []string{"all", "stops"} {
		out, status := asUser(nil).exec(t, dir, nil, []string{"--mirror", mirror}, "sh", "script")
		if want := "2000\n30\n2030\n"; status != 0 || out != want {
			t.Errorf("--mirror=%s: status %d, %q, want %q", mirror, status, out, want)
		}
	}
}

// TestRingsGrow: calls of a program that runs are seen from when a probe is armed on them, also
// if others were armed when it began, until it is removed.
func TestRingsGrow(t *testing.T) {
	dir := publicDir(t)
	ringsIn(t, dir)
	put(t, dir, "script", `T=/sys/kernel/tracing
echo 'p:y __x64_sys_sched_yield' >$T/kprobe_events
echo 1 >$T/events/kprobes/y/enable
./reads >n & P=$!
hits() { grep -c "reads-$P .* r: " $T/trace; }
until [ -r /proc/$P/maps ] && grep -q libc /proc/$P/maps; do sleep 0.05; done
sleep 0.2
echo 'p:r __x64_sys_read' >>$T/kprobe_events
echo "common_pid == $P" >$T/events/kprobes/r/filter
echo 1 >$T/events/kprobes/r/enable
for i in $(seq 100); do [ "$(hits)" -gt 10 ] && break; sleep 0.1; done
[ "$(hits)" -gt 10 ] && echo seen
echo 0 >$T/events/kprobes/enable
for i in $(seq 100); do grep -q '^TracerPid:.0' /proc/$P/status && break; sleep 0.1; done
grep '^TracerPid' /proc/$P/status
echo >$T/trace
sleep 0.2
hits
touch stop
wait $P; echo "status $?"
`)
	out, status := asUser(nil).exec(t, dir, nil, nil, "sh", "script")
	if want := "seen\nTracerPid:\t0\n0\nstatus 0\n"; status != 0 || out != want {
		t.Errorf("status %d, %q, want %q", status, out, want)
	}
}

// killTracer runs a script below exec and kills the tracer some time after the file begun exists. The script leaves a
// process behind that makes the file status when the file stop exists; its content is returned.
func killTracer(t *testing.T, dir, script, begun string, after time.Duration) (status string) {
	t.Helper()
	ringsIn(t, dir)
	put(t, dir, "script", "ulimit -c unlimited\n"+script)
	mark := "KPROBEFS_RINGS_TEST=" + filepath.Base(dir)
	cmd := exec.Command(filepath.Join(built, "kprobefs"), "exec", "--", "sh", "script")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, begun, func() bool { _, err := os.Stat(filepath.Join(dir, begun)); return err == nil })
	time.Sleep(after)
	killAll(mark, "mount")
	time.Sleep(100 * time.Millisecond)
	put(t, dir, "stop", "")
	eventually(t, "its end", func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "status"))
		status = string(b)
		return status != ""
	})
	if status == "" {
		for _, pid := range descendants(mark) {
			t.Log(whereabouts(pid))
		}
	}
	if cores, _ := filepath.Glob(filepath.Join(dir, "core*")); len(cores) > 0 {
		where, err := exec.Command("gdb", "-batch", "-ex", "info registers", "-ex", "x/8i $rip-12", "-ex", "info proc mappings",
			"-ex", "info auxv", filepath.Join(dir, "reads"), cores[0]).CombinedOutput()
		t.Logf("a program has crashed (%v):\n%s", err, where)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	killAll(mark)
	noneLeft(t, mark)
	return status
}

// TestRingsOutliveTracer: a program that rings goes on when its tracer is killed, without one
// wrong result.
func TestRingsOutliveTracer(t *testing.T) {
	for i := range rounds(6, 100) {
		dir := publicDir(t)
		probe := []string{"__x64_sys_read", "__x64_sys_sched_yield"}[i%2]
		status := killTracer(t, dir, fmt.Sprintf(`T=/sys/kernel/tracing
echo 'p:x %s' >$T/kprobe_events
echo 1 >$T/events/kprobes/x/enable
setsid sh -c './reads >n; echo "status $?" >status' </dev/null >/dev/null 2>&1 &
sleep 60
`, probe), "n", time.Duration(100+17*i)*time.Millisecond)
		n, _ := os.ReadFile(filepath.Join(dir, "n"))
		if count, err := strconv.Atoi(strings.TrimSpace(string(n))); status != "status 0\n" || err != nil || count == 0 {
			t.Errorf("%s: %q after %q reads", probe, status, n)
		}
	}
}

// TestRingsBegin: the tracer is killed while programs begin to ring, one after the other, at any moment. None
// of them ends otherwise than it would.
func TestRingsBegin(t *testing.T) {
	for i := range rounds(10, 200) {
		status := killTracer(t, publicDir(t), `T=/sys/kernel/tracing
echo 'p:x __x64_sys_read' >$T/kprobe_events
echo 1 >$T/events/kprobes/x/enable
setsid sh -c 'touch begun; while [ ! -e stop ]; do ./reads 3 >n || { echo "status $?" >status; exit; }; done; echo "status 0" >status' </dev/null >/dev/null 2>&1 &
sleep 60
`, "begun", time.Duration(rand.IntN(40_000))*time.Microsecond)
		if status != "status 0\n" {
			t.Errorf("round %d: %q", i, status)
		}
	}
}

// TestRingsTraced: another tracer of a program that rings sees the calls that it makes, and no
// rings.
func TestRingsTraced(t *testing.T) {
	dir := publicDir(t)
	ringsIn(t, dir)
	needTool(t, "strace", "strace")
	put(t, dir, "script", `T=/sys/kernel/tracing
echo 'p:r __x64_sys_read' >$T/kprobe_events
echo 1 >$T/events/kprobes/r/enable
./reads >n & P=$!
sleep 0.3
strace -o out -p $P 2>said & S=$!
until [ -s out ]; do sleep 0.05; done
kill $S
wait $S
touch stop
wait $P; echo "status $?"
strace -o out2 ./reads 20
echo 0 >$T/events/kprobes/r/enable
grep -c 'read(3, .*) *= 1' out2
sed 's/(.*//' out out2 | sort -u | grep -v -e '^read$' -e '^access$'
`)
	out, status := asUser(nil).exec(t, dir, nil, nil, "sh", "script")
	if status != 0 || !strings.Contains(out, "status 0\n20\n20\n") || strings.Contains(out, "syscall_") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// filterProgram kills itself for all calls but a few, and reads.
const filterProgram = `#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
int main(int argc, char **argv) {
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog p = {sizeof f / sizeof *f, f};
	char b;
	int n = 0;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
		return 2;
	while (read(0, &b, 1) == 1)
		n++;
	_exit(n);
}
`

// TestRingsFiltered: a program with a filter of its own, which would kill it for a ring, is seen as
// others are.
func TestRingsFiltered(t *testing.T) {
	dir := publicDir(t)
	ringsIn(t, dir)
	putC(t, dir, "filtered", filterProgram)
	put(t, dir, "script", `T=/sys/kernel/tracing
echo 'p:r __x64_sys_read n=+96(%di):u64' >$T/kprobe_events
echo 'comm == "filtered" && n == 1' >$T/events/kprobes/r/filter
echo 1 >$T/events/kprobes/r/enable
printf '%040d' 0 | ./filtered
echo "status $?"
echo 0 >$T/events/kprobes/r/enable
grep -c ' r: ' $T/trace
`)
	out, status := asUser(nil).exec(t, dir, nil, nil, "sh", "script")
	if want := "status 40\n41\n"; status != 0 || out != want {
		t.Errorf("status %d, %q, want %q", status, out, want)
	}
}

// lateProgram reads /dev/zero one byte at a time and, ten thousand times a second, in a signal's handler, until a
// file stop exists; now and then it forks a child that reads as well. Each call has to have its result.
const lateProgram = `#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static int zero, pid;
static volatile long handled;
static void get(void) {
	char b = 1;
	if (syscall(SYS_read, zero, &b, 1) != 1 || b)
		_exit(3);
}
static void on_alarm(int sig) {
	char b = 1;
	if (read(zero, &b, 1) != 1 || b || syscall(SYS_getpid) != pid)
		_exit(4);
	handled++;
}
int main(void) {
	struct sigaction a = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval each = { { 0, 100 }, { 0, 100 } };
	long n = 0;
	zero = open("/dev/zero", O_RDONLY);
	pid = getpid();
	sigaction(SIGALRM, &a, 0);
	setitimer(ITIMER_REAL, &each, 0);
	for (; n % 64 || access("stop", F_OK); n++) {
		int status;
		get();
		if (n % 4096)
			continue;
		pid_t child = fork();
		if (!child) {
			pid = syscall(SYS_getpid);
			for (int i = 0; i < 100; i++)
				get();
			_exit(0);
		}
		while (waitpid(child, &status, 0) < 0)
			;
		if (status)
			return 5;
	}
	printf("%d\n", handled > 100);
	return 0;
}
`

// TestLateRings: a program that runs when probes are armed, and removed, and armed again, is changed at
// moments of which it must not notice anything, and is seen from then on.
func TestLateRings(t *testing.T) {
	dir := publicDir(t)
	ringsIn(t, dir)
	putC(t, dir, "late", lateProgram)
	put(t, dir, "script", `T=/sys/kernel/tracing
./late >n & P=$!
until [ -r /proc/$P/maps ] && grep -q libc /proc/$P/maps; do sleep 0.05; done
echo 'p:y __x64_sys_sched_yield' >$T/kprobe_events
echo 'p:r __x64_sys_read' >>$T/kprobe_events
echo "common_pid == $P" >$T/events/kprobes/r/filter
for i in 1 2 3 4 5 6 7 8; do
	echo 1 >$T/events/kprobes/y/enable
	sleep 0.1
	[ $i = 4 ] && { echo 1 >$T/events/kprobes/r/enable; sleep 0.3; echo 0 >$T/events/kprobes/r/enable; }
	echo 0 >$T/events/kprobes/y/enable
	sleep 0.05
done
[ $(grep -c ' r: ' $T/trace) -gt 100 ] && echo seen
touch stop
wait $P; echo "status $?"; cat n
`)
	out, status := asUser(nil).exec(t, dir, nil, nil, "sh", "script")
	if want := "seen\nstatus 0\n1\n"; status != 0 || out != want {
		t.Errorf("status %d, %q, want %q", status, out, want)
	}
}

// keepsProgram is interrupted by signals while it counts, and looks at whether registers that a call would change are
// as they were. It prints how often they were not.
const keepsProgram = `#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile long handled;
static void on_alarm(int sig) { handled++; }
int main(void) {
	struct sigaction a = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval each = { { 0, 1000 }, { 0, 1000 } };
	long changed = 0;
	sigaction(SIGALRM, &a, 0);
	setitimer(ITIMER_REAL, &each, 0);
	while (handled < 1500) {
		long c = 0x123456789abcdef, d = 0x22334455667788, n = 100000, c2, d2;
		asm volatile("mov %3, %%rcx; mov %4, %%r11; 1: dec %0; jnz 1b; mov %%rcx, %1; mov %%r11, %2"
			: "+r"(n), "=&r"(c2), "=&r"(d2) : "r"(c), "r"(d) : "rcx", "r11");
		changed += c != c2 || d != d2;
	}
	printf("%ld\n", changed);
	return 0;
}
`

// TestLateRingsSignal: a program that makes no call but the return from its signal's handler keeps all registers.
func TestLateRingsSignal(t *testing.T) {
	dir := publicDir(t)
	ringsIn(t, dir)
	putC(t, dir, "keeps", keepsProgram)
	put(t, dir, "script", `T=/sys/kernel/tracing
./keeps >n & P=$!
until [ -r /proc/$P/maps ] && grep -q libc /proc/$P/maps; do sleep 0.05; done
sleep 0.2
echo 'p:y __x64_sys_sched_yield' >$T/kprobe_events
echo 1 >$T/events/kprobes/y/enable
wait $P; echo "status $?"; cat n
`)
	out, status := asUser(nil).exec(t, dir, nil, nil, "sh", "script")
	if want := "status 0\n0\n"; status != 0 || out != want {
		t.Errorf("status %d, %q, want %q", status, out, want)
	}
}

// TestLateRingsAlone: the calls of a program that was there when a probe was armed, and that no probe sees,
// are not stopped at: it has made few of them when it makes no more stops.
func TestLateRingsAlone(t *testing.T) {
	dir := publicDir(t)
	ringsIn(t, dir)
	put(t, dir, "script", `T=/sys/kernel/tracing
./reads >n & P=$!
until [ -r /proc/$P/maps ] && grep -q libc /proc/$P/maps; do sleep 0.05; done
echo 'p:y __x64_sys_sched_yield' >$T/kprobe_events
echo 1 >$T/events/kprobes/y/enable
for i in $(seq 100); do grep -q '^[0-9a-f-]* r-xp 00000000 00:00 0 *$' /proc/$P/maps && break; sleep 0.05; done
grep -q '^[0-9a-f-]* r-xp 00000000 00:00 0 *$' /proc/$P/maps && echo changed
grep voluntary /proc/$P/status | head -n 1 >before
sleep 0.5
grep voluntary /proc/$P/status | head -n 1 >after
stops=$(( $(cut -f 2 after) - $(cut -f 2 before) ))
[ $stops -lt 100 ] && echo 'no stops' || echo $stops
touch stop
wait $P; echo "status $?"
`)
	out, status := asUser(nil).exec(t, dir, nil, nil, "sh", "script")
	if want := "changed\nno stops\nstatus 0\n"; status != 0 || out != want {
		t.Errorf("status %d, %q, want %q", status, out, want)
	}
}

// vforkProgram traces a child that shares its memory, until the child has executed another program; then it reads, and traces a
// child of fork(2).
const vforkProgram = `#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
	int status, zero = open("/dev/zero", O_RDONLY);
	char b;
	alarm(20);
	pid_t child = vfork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execl("/bin/true", "true", (char *)0);
		_exit(1);
	}
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		return 2;
	ptrace(PTRACE_CONT, child, 0, 0);
	if (waitpid(child, &status, 0) != child || status)
		return 3;
	for (int i = 0; i < 500; i++)
		if (read(zero, &b, 1) != 1)
			return 4;
	if (!(child = fork())) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(5);
		kill(getpid(), SIGSTOP);
		_exit(6);
	}
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		return WEXITSTATUS(status);
	kill(child, SIGKILL);
	return 0;
}
`

// TestRingsVfork: a child of vfork(2) that another process traces rings no more. Its parent, whose memory it shares, is seen
// nevertheless.
func TestRingsVfork(t *testing.T) {
	dir := publicDir(t)
	ringsIn(t, dir)
	putC(t, dir, "traces", vforkProgram)
	put(t, dir, "script", `T=/sys/kernel/tracing
echo 'p:r __x64_sys_read n=+96(%di):u64' >$T/kprobe_events
echo 'comm == "traces" && n == 1' >$T/events/kprobes/r/filter
echo 1 >$T/events/kprobes/r/enable
for i in 1 2 3; do
	./traces
	echo "status $?"
done
echo 0 >$T/events/kprobes/r/enable
grep -c ' r: ' $T/trace
`)
	out, status := asUser(nil).exec(t, dir, nil, nil, "sh", "script")
	if want := "status 0\nstatus 0\nstatus 0\n1500\n"; status != 0 || out != want {
		t.Errorf("status %d, %q, want %q", status, out, want)
	}
}
