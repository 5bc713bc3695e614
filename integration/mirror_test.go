package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mirrorSetup defines and enables events for some functions.
const mirrorSetup = `T=/sys/kernel/tracing
for f in %s; do echo "p:$f __x64_sys_$f" >>$T/kprobe_events; done
echo 1 >$T/events/kprobes/enable
`

// tracedCounts returns how often a program, which has the name comm, made each call.
func tracedCounts(t *testing.T, dir, comm string, calls []string, command string) map[string]int {
	t.Helper()
	script := fmt.Sprintf("echo 8192 >/sys/kernel/tracing/buffer_size_kb\n"+mirrorSetup, strings.Join(calls, " ")) + command + `
echo 0 >$T/events/kprobes/enable
cat $T/trace >trace
`
	put(t, dir, "script", script)
	var user asUser
	if out, status := user.exec(t, dir, nil, []string{"--mirror", "all"}, "sh", "script"); status != 0 {
		t.Fatalf("status %d: %s", status, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(strings.TrimSpace(line), comm+"-") {
			continue
		}
		for _, c := range calls {
			if strings.Contains(line, " "+c+": (") {
				counts[c]++
			}
		}
	}
	return counts
}

// straceCounts returns what strace counts for a program.
func straceCounts(t *testing.T, dir string, calls []string, command string) map[string]int {
	t.Helper()
	cmd := exec.Command("strace", append([]string{"-f", "-c", "-o", "counts"}, strings.Fields(command)...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C") // as below exec
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("strace: %v %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "counts"))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // % time, seconds, usecs/call, calls, [errors,] syscall
		for _, c := range calls {
			if len(f) >= 5 && f[len(f)-1] == c {
				counts[c], _ = strconv.Atoi(f[3])
			}
		}
	}
	return counts
}

// TestMirrorCounts: probes see as many calls of a program as strace does, and the
// program does the same as without.
func TestMirrorCounts(t *testing.T) {
	needFUSE(t)
	for _, name := range []string{"strace", "tar"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is missing")
		}
	}
	dir := publicDir(t)
	tar, _ := exec.LookPath("tar")
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		put(t, dir, fmt.Sprintf("in/%d", i), strings.Repeat("line\n", i*100))
	}
	prog, err := os.ReadFile(tar)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tar_m"), prog, 0o755); err != nil {
		t.Fatal(err)
	}
	calls := []string{"read", "write", "pread64", "close", "openat", "mmap", "munmap", "mprotect", "brk", "rt_sigaction", "fcntl"}
	const command = "./tar_m cf out in"
	want := straceCounts(t, dir, calls, command)
	plain, _ := os.ReadFile(filepath.Join(dir, "out"))
	got := tracedCounts(t, dir, "tar_m", calls, command)
	for _, c := range calls {
		if got[c] != want[c] || want[c] == 0 && c != "pread64" && c != "fcntl" {
			t.Errorf("%s: %d hits, strace counts %d", c, got[c], want[c])
		}
	}
	traced, _ := os.ReadFile(filepath.Join(dir, "out"))
	if !bytes.Equal(plain, traced) || len(plain) == 0 {
		t.Errorf("the archive of %d bytes has %d under probes", len(plain), len(traced))
	}
}

// serverProgram serves files to itself: ten clients with ten requests each. It prints how many
// have got what they have asked for.
const serverProgram = `package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	var clients sync.WaitGroup
	var served atomic.Int32
	for i := range 10 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for j := range 10 {
				path := fmt.Sprintf("/%d/%d", i, j)
				resp, err := c.Get("http://" + l.Addr().String() + path)
				if err != nil {
					fmt.Println(err)
					continue
				}
				if b, _ := io.ReadAll(resp.Body); string(b) == path {
					served.Add(1)
				}
				resp.Body.Close()
			}
		}()
	}
	clients.Wait()
	fmt.Println(served.Load())
}
`

// putGo builds a program in Go, and puts it into a directory.
func putGo(t *testing.T, dir, name, source string) {
	t.Helper()
	program, err := compileProgram(name+".go", source)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), program, 0o755); err != nil {
		t.Fatal(err)
	}
}

// putC builds a program in C that uses the shared library, and puts it into a directory, with its source.
func putC(t *testing.T, dir, name, source string, flags ...string) {
	t.Helper()
	needTool(t, "gcc", "gcc")
	put(t, dir, name+".c", source)
	runIn(t, dir, strings.Join(append([]string{"gcc -O", "-o", name, name + ".c"}, flags...), " "))
}

// TestMirrorServer: a server with many threads, whose sockets are waited for by epoll, does its
// work while probes see it: each connection is accepted and added, and each message sent.
func TestMirrorServer(t *testing.T) {
	needTime(t)
	needFUSE(t)
	dir := publicDir(t)
	putGo(t, dir, "server_m", serverProgram)
	put(t, dir, "script", `T=/sys/kernel/tracing
echo 20000 >$T/buffer_size_kb
for f in do_futex do_epoll_wait do_epoll_ctl tcp_sendmsg tcp_v4_connect sock_poll tcp_poll; do
	echo "p:p_$f $f" >>$T/kprobe_events
	echo "r200:r_$f $f ret=\$retval:s32" >>$T/kprobe_events
done
echo 'p:add do_epoll_ctl op=$arg2:s32' >>$T/kprobe_events
echo 'p:accepted __x64_sys_accept4' >>$T/kprobe_events
echo 1 >$T/events/kprobes/enable
./server_m
echo 0 >$T/events/kprobes/enable
sed -n 's/^ *server_m-[0-9]* .*: \([a-z_0-9]*\): ([^)]*) *\(op=1\)*.*/\1 \2/p' $T/trace | sort | uniq -c
`)
	var user asUser
	out, status := user.exec(t, dir, nil, []string{"--mirror", "all"}, "sh", "script")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 0 || lines[0] != "100" {
		t.Fatalf("status %d:\n%s", status, out)
	}
	counts := map[string]int{}
	for _, line := range lines[1:] {
		n, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		counts[strings.TrimSpace(name)], _ = strconv.Atoi(n)
	}
	// A connection has two sockets; each side sends one message.
	for name, want := range map[string]int{"p_tcp_sendmsg": 200, "r_tcp_sendmsg": 200, "p_tcp_v4_connect": 100, "r_tcp_v4_connect": 100} {
		if counts[name] != want {
			t.Errorf("%s: %d hits, want %d", name, counts[name], want)
		}
	}
	if n := counts["add op=1"]; n < 200 || n > 210 {
		t.Errorf("%d descriptors were added to the epoll file, of 200 connected sockets, one that listens, and the run-time's own", n)
	}
	for _, name := range []string{"do_futex", "do_epoll_wait", "accepted"} {
		if counts[name]+counts["p_"+name] == 0 {
			t.Errorf("%s is not hit", name)
		}
	}
	if p, s, r := counts["p_tcp_poll"], counts["p_sock_poll"], counts["r_tcp_poll"]; p != s || p != r || p < 200 {
		t.Errorf("tcp_poll: %d hits and %d returns, sock_poll: %d hits", p, r, s)
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestMirrorTracer: a program that traces another one does so undisturbed.
func TestMirrorTracer(t *testing.T) {
	needFUSE(t)
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is missing")
	}
	dir := publicDir(t)
	put(t, dir, "script", fmt.Sprintf(mirrorSetup, "read write close")+`
strace -f -o out sh -c 'cat script | wc -l; exit 3'
echo "status $?"
grep -c 'exited with' out
: >said
sleep 60 & P=$!
(until grep -q attached said; do sleep 0.1; done; kill $P) &
strace -o out2 -p $P 2>said
echo "attached: $?"
wait $P 2>/dev/null
echo 0 >$T/events/kprobes/enable
`)
	var user asUser
	out, status := user.exec(t, dir, nil, []string{"--mirror", "all"}, "sh", "script")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 0 || len(lines) != 4 || lines[1] != "status 3" || lines[2] != "3" && lines[2] != "2" || !strings.HasPrefix(lines[3], "attached: ") {
		t.Errorf("status %d:\n%s", status, out)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "out2")); !bytes.Contains(b, []byte("SIGTERM")) {
		t.Errorf("strace -p has seen %q", b)
	}
}

// descendants returns the processes that were started with an environment variable.
func descendants(mark string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if b, err := os.ReadFile(d + "/environ"); err == nil && bytes.Contains(b, []byte(mark)) {
			pid, _ := strconv.Atoi(filepath.Base(d))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestMirrorKill: whatever process is killed, and whenever, the others go on: none is
// left stopped or waiting. 500 are killed if KPROBEFS_SOAK is set.
func TestMirrorKill(t *testing.T) {
	needTime(t)
	needFUSE(t)
	for i := range rounds(24, 500) {
		dir := publicDir(t)
		setup := armed
		if i%2 > 0 {
			setup = fmt.Sprintf(mirrorSetup, "read write close openat")
		}
		put(t, dir, "script", setup+`
touch armed
(while [ ! -e stop ]; do cat script | dd bs=7 2>/dev/null >/dev/null; done; echo done >outlived) &
while [ ! -e stop ]; do sh -c 'read a <script; :' & wait $!; done
wait
`)
		mark := fmt.Sprintf("KPROBEFS_MIRROR_TEST=%d.%d", os.Getpid(), i)
		cmd := exec.Command(filepath.Join(built, "kprobefs"), "exec", "--mirror", "all", "--", "sh", "script")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), mark)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "armed")); err == nil {
				break
			}
		}
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		all := descendants(mark)
		if len(all) > 0 {
			victim := all[rand.IntN(len(all))]
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", victim))
			t.Logf("round %d: %q", i, bytes.ReplaceAll(name[:min(len(name), 60)], []byte{0}, []byte{' '}))
			_ = syscall.Kill(victim, syscall.SIGKILL)
		}
		time.Sleep(50 * time.Millisecond)
		put(t, dir, "stop", "")
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Errorf("round %d: exec has not ended", i)
		}
		noneLeft(t, mark)
	}
}

// TestMirrorLess: less is seen with --mirror=changes, and nothing but our own files with
// --mirror=none.
func TestMirrorLess(t *testing.T) {
	needFUSE(t)
	dir := publicDir(t)
	put(t, dir, "script", `cd /sys/kernel/tracing
for f in do_filp_open vfs_write kernel_clone; do echo "p:$f $f" >> kprobe_events; done
echo 1 > events/kprobes/enable
/bin/sh -c 'echo x > "$0"; :' `+dir+`/file
echo 0 > events/kprobes/enable
while read -r name hits missed; do [ "$hits" -gt 0 ] && echo "$name"; done < kprobe_profile
:
`)
	for mirror, want := range map[string]string{"all": "do_filp_open\nvfs_write\nkernel_clone\n", "changes": "do_filp_open\nvfs_write\nkernel_clone\n", "none": "do_filp_open\nvfs_write\n"} {
		out, status := asUser(nil).exec(t, dir, nil, []string{"--mirror", mirror}, "sh", "script")
		if status != 0 || out != want {
			t.Errorf("--mirror=%s: status %d, hit were\n%swant\n%s", mirror, status, out, want)
		}
	}
}

// TestMirrorRelative: a program is executed by a name that is looked up where the thread is, which went there before
// anything was armed. In the root of the emulated kernel the name is a directory.
func TestMirrorRelative(t *testing.T) {
	needFUSE(t)
	dir := publicDir(t)
	shell, err := exec.LookPath("dash")
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "sys", string(text))
	if err := os.Chmod(filepath.Join(dir, "sys"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, status := asUser(nil).kprobefs(t, dir, nil, 1, "sh", "-c", `T=/sys/kernel/tracing
echo 1 >$T/events/syscalls/sys_exit_execve/enable
./sys -c :
echo 0 >$T/events/syscalls/sys_exit_execve/enable
sed -n 's/^ *\([^-]*\)-.*: sys_execve/\1/p' $T/trace`)
	if want := "sys -> 0x0\n"; status != 0 || out != want {
		t.Errorf("status %d: %q, want %q", status, out, want)
	}
}

// signalsProgram opens a file again and again while signals come, whose handler does not have
// calls restarted, and then a FIFO that nobody writes to.
const signalsProgram = `use strict;
use Errno;
use POSIX;
my $parent = $$;
$SIG{USR1} = $SIG{ALRM} = sub {};
my $pid = fork;
if (!$pid) {
	while (kill 'USR1', $parent) { select undef, undef, undef, 0.0003 }
	POSIX::_exit(0);
}
my %said;
for (1 .. 3000) {
	my $ok = open my $f, '<', $_ % 2 ? '/dev/null' : $0;
	$said{$ok ? 'opened' : $!}++;
}
kill 'KILL', $pid;
1 while waitpid($pid, 0) < 0 && $!{EINTR};
print "$_: $said{$_}\n" for sort keys %said;
POSIX::mkfifo('fifo', 0600) or die;
alarm 1;
print open(my $f, '<', 'fifo') ? "opened\n" : $!{EINTR} ? "EINTR\n" : "$!\n";
`

// TestMirrorSignals: a signal that comes while the supervisor has yet to hear of an open does
// not end it, since on Linux nobody hears of it. One that waits by itself is ended.
func TestMirrorSignals(t *testing.T) {
	needTime(t)
	needFUSE(t)
	needTool(t, "perl", "perl-base")
	for _, function := range []string{"vfs_read", "do_sys_openat2"} { // that opens do not come to, or do
		t.Run(function, func(t *testing.T) {
			dir := publicDir(t)
			put(t, dir, "program", signalsProgram)
			put(t, dir, "script", `T=/sys/kernel/tracing
echo "p:seen `+function+`" >$T/kprobe_events
echo 1 >$T/events/kprobes/seen/enable
perl program
`)
			var user asUser
			out, status := user.exec(t, dir, nil, []string{"--mirror", "all"}, "sh", "script")
			if want := "opened: 3000\nEINTR\n"; out != want || status != 0 {
				t.Errorf("status %d, %q, want %q", status, out, want)
			}
		})
	}
}
