package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/guest"
)

// gdbScript is played by gdb. DIR is the tree, and SOCK what is served for gdb.
const gdbScript = `set pagination off
set confirm off
file DIR/machine/vmlinux
target remote SOCK
info threads
break vfs_read
shell cat DIR/kprobes/enabled > OUT &
continue
bt
info registers
delete
echo at the function's start\n
x/i $pc
stepi
echo at the probe\n
x/i $pc
x/1xb $pc
break *$pc
stepi
delete
echo in the slot\n
x/i $pc
stepi
echo behind the copy\n
x/i $pc
stepi
echo behind the probe\n
x/i $pc
monitor list
hbreak *$pc+2
stepi
info breakpoints
delete
echo running\n
continue
info threads
detach
`

// TestGDB: gdb breaks at vfs_read, sees who calls it, steps over an armed probe, interrupts and detaches.
func TestGDB(t *testing.T) {
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		t.Skip("gdb is not installed: apt-get install gdb")
	}
	sock := filepath.Join(t.TempDir(), "gdb")
	dir := mountLooping(t, "--cpus", "2", "--gdb", "unix:"+sock).dir
	writeTree(t, filepath.Join(dir, "sys/debug/kprobes-optimization"), "0")
	writeTree(t, filepath.Join(dir, "tracing/kprobe_events"), "p:mid vfs_read+5\n")
	writeTree(t, filepath.Join(dir, "tracing/events/kprobes/mid/enable"), "1")
	read := filepath.Join(t.TempDir(), "out")
	script := filepath.Join(t.TempDir(), "script")
	text := strings.NewReplacer("DIR", dir, "SOCK", sock, "OUT", read).Replace(gdbScript)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(gdb, "-q", "-nx", "-batch", "-x", script)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	want := func(begin string) {
		t.Helper()
		if !ends(func() bool { return strings.HasPrefix(readTree(t, filepath.Join(dir, "machine/run")), begin) }) {
			t.Fatalf("the machine is not %s\n%s", begin, readTree(t, filepath.Join(dir, "machine/run")))
		}
	}
	// The reader's bytes are there when the machine has run on after the last breakpoint. gdb itself takes long
	// to begin on a busy host.
	ended := func() bool { b, _ := os.ReadFile(read); return string(b) == "1\n" }
	for try := 0; !ends(ended); try++ {
		if try == 2 {
			t.Error("cat does not end")
			break
		}
	}
	want("running")
	interrupt := time.NewTicker(100 * time.Millisecond) // gdb may be about to wait
	defer interrupt.Stop()
	limit := time.After(endLimit)
	for waiting := true; waiting; {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("gdb: %v", err)
			}
			waiting = false
		case <-interrupt.C:
			_ = cmd.Process.Signal(syscall.SIGINT)
		case <-limit:
			_ = cmd.Process.Kill()
			t.Fatalf("gdb does not end")
		}
	}
	want("running")
	wantSaid(t, out.String(),
		`(?m)^\* 1 .*CPU 0, .*\n  2 .*CPU 1, `,
		`hit Breakpoint 1, 0x[0-9a-f]+ in vfs_read \(\)`,
		`(?m)^#0 .* in vfs_read \(\)\n#1 .* in ksys_read \(\)\n#2 .* in do_syscall_64 \(\)`,
		`(?m)^rip +0x[0-9a-f]+ +0x[0-9a-f]+ <vfs_read>`,
		`at the function's start\n=> 0x[0-9a-f]+ <vfs_read>:\tnopl`,
		`at the probe\n=> 0x[0-9a-f]+ <vfs_read\+5>:\tint3.*\n0x[0-9a-f]+ <vfs_read\+5>:\t0xcc`,
		`in the slot\n=> (0xffffffffe[0-9a-f]+):\tpush   %r13`,
		`behind the copy\n=> 0xffffffffe[0-9a-f]+:\tint3`,
		`behind the probe\n=> 0x[0-9a-f]+ <vfs_read\+7>:`,
		`k  vfs_read\+0x5`,
		`hw breakpoint`,
		`received signal SIGINT`,
		`detached`)
	writeTree(t, filepath.Join(dir, "tracing/events/kprobes/mid/enable"), "0") // or each read of the trace is a hit
	if trace := readTree(t, filepath.Join(dir, "tracing/trace")); !regexp.MustCompile(`cat-\d+ .* mid: \(vfs_read\+0x5/`).MatchString(trace) {
		t.Errorf("the probe's hit is not in the trace:\n%s", trace)
	}
}

// wantSaid checks that a text has what matches the patterns.
func wantSaid(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			t.Errorf("no %s", p)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func readTree(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestGDBAddress: an address that others could reach, or that is taken, is refused.
func TestGDBAddress(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:1234", ":1234", "1234", "example.com:80", "tcp:1"} {
		out, st := output(t, "mount", "--gdb", addr, t.TempDir())
		if st.ExitCode() != 2 || !strings.Contains(out, "127.0.0.1:PORT, [::1]:PORT or unix:PATH") {
			t.Errorf("%s: %v: %s", addr, st, out)
		}
	}
}

// TestRunFile: a machine is stopped and stepped by machine/run. Calls wait meanwhile and can be killed, and
// what needs no code of the guest can be read.
func TestRunFile(t *testing.T) {
	dir := mountLooping(t, "--cpus", "2").dir
	run := filepath.Join(dir, "machine/run")
	wantFile(t, run, "running\n")
	tryRun := func(command string) error {
		f, err := os.OpenFile(run, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, err = f.WriteString(command)
		return err
	}
	for _, c := range []struct {
		command string
		want    syscall.Errno
	}{{"step", syscall.EBUSY}, {"hit", syscall.ENOENT}, {"walk", syscall.EINVAL}, {"", 0}, {"step 0", syscall.EINVAL}, {"step x", syscall.EINVAL}, {"cpu 2", syscall.EINVAL}, {"cpu 0 1", syscall.EINVAL}} {
		if err := tryRun(c.command); c.want != 0 && !isErrno(err, c.want) {
			t.Errorf("%q: %v, want %v", c.command, err, c.want)
		}
	}
	writeTree(t, filepath.Join(dir, "sys/debug/kprobes-optimization"), "0")
	writeTree(t, filepath.Join(dir, "tracing/kprobe_events"), "p:mid vfs_read+5\n")
	writeTree(t, filepath.Join(dir, "tracing/events/kprobes/mid/enable"), "1")
	hit := make(chan error, 1)
	go func() { hit <- tryRun("hit") }()
	reader, read := start(t, "cat", filepath.Join(dir, "kprobes/enabled"))
	for end := time.After(endLimit); hit != nil; {
		select {
		case err := <-hit:
			if err != nil {
				t.Fatal(err)
			}
			hit = nil
		case <-read: // it read before the machine waited for a hit
			reader, read = start(t, "cat", filepath.Join(dir, "kprobes/enabled"))
		case <-end:
			t.Fatal("nothing was hit")
		}
	}
	var at []string
	place := regexp.MustCompile(`at (.*), task cat/\d+: (.*)`)
	for range 4 {
		m := place.FindStringSubmatch(readTree(t, run))
		if m == nil {
			t.Fatalf("no vCPU executes cat:\n%s", readTree(t, run))
		}
		at = append(at, m[1]+": "+m[2])
		if err := tryRun("step"); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"vfs_read+0x5: int3", "slot+0x0 of vfs_read+0x5: push %r13", "slot+0x2 of vfs_read+0x5: int3"}
	if fmt.Sprint(at[:3]) != fmt.Sprint(want) || !strings.HasPrefix(at[3], "vfs_read+0x7: ") {
		t.Errorf("the steps are at %q", at)
	}
	if got := readTree(t, filepath.Join(dir, "machine/probed")); !strings.Contains(got, "vfs_read+0x5") {
		t.Errorf("machine/probed of a stopped machine: %q", got)
	}
	if names, err := os.ReadDir(filepath.Join(dir, "machine")); err != nil || len(names) == 0 {
		t.Error(names, err)
	}
	waiter, waited := start(t, "cat", filepath.Join(dir, "kprobes/list"))
	select {
	case err := <-waited:
		t.Errorf("a read of a file of the guest has ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	_ = waiter.Process.Kill()
	select {
	case <-waited:
	case <-time.After(endLimit):
		t.Error("who waits for the stopped machine cannot be killed")
	}
	if err := tryRun("go"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-read:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(endLimit):
		_ = reader.Process.Kill()
		t.Error("the reader does not go on")
	}
	if err := tryRun("stop"); err != nil { // and is unmounted
		t.Fatal(err)
	}
	begin := time.Now()
	if out, st := output(t, "umount", dir); !st.Success() || time.Since(begin) > endLimit {
		t.Errorf("umount of a stopped machine: %v, %v: %s", st, time.Since(begin), out)
	}
}

// TestVmlinux: machine/vmlinux is copied and mapped as other files are, also while the machine is stopped.
func TestVmlinux(t *testing.T) {
	dir := mountLooping(t, "--cpus", "1").dir
	want := guest.Image("6.1")
	file := filepath.Join(dir, "machine/vmlinux")
	writeTree(t, filepath.Join(dir, "machine/run"), "stop")
	defer writeTree(t, filepath.Join(dir, "machine/run"), "go")
	if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, want) {
		t.Errorf("%d bytes are read, the image has %d: %v", len(b), len(want), err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", file, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if b, err := os.ReadFile(copied); err != nil || !bytes.Equal(b, want) {
		t.Errorf("cp copies other bytes, %d instead of %d: %v", len(b), len(want), err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(want)) {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Error("the mapped bytes are others")
	}
	if err := unix.Munmap(b); err != nil {
		t.Error(err)
	}
}

// TestRunFileUnderLoad: the machine is stopped, stepped and let go at any point of many readers' calls, which all
// end well.
func TestRunFileUnderLoad(t *testing.T) {
	dir := mountLooping(t, "--cpus", "2").dir
	writeTree(t, filepath.Join(dir, "tracing/kprobe_events"), "p:mine vfs_read+5\n")
	writeTree(t, filepath.Join(dir, "tracing/events/kprobes/mine/enable"), "1")
	over := make(chan struct{})
	var readers sync.WaitGroup
	for range 6 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				if b, err := os.ReadFile(filepath.Join(dir, "kprobes/enabled")); string(b) != "1\n" || err != nil {
					t.Errorf("read %d: %q, %v", n, b, err)
					return
				}
			}
		})
	}
	run, err := os.OpenFile(filepath.Join(dir, "machine/run"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	say := func(command string) {
		t.Helper()
		if _, err := run.WriteAt([]byte(command), 0); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	for i := range 150 {
		say([]string{"stop", "hit"}[i%2])
		say(fmt.Sprintf("cpu %d", i/2%2))
		say(fmt.Sprintf("step %d", i%40+1))
		if got := readTree(t, filepath.Join(dir, "machine/run")); !strings.HasPrefix(got, "stopped") {
			t.Fatal(got)
		}
		for strings.HasPrefix(readTree(t, filepath.Join(dir, "machine/run")), "stopped") { // another CPU may have come to the probe
			say("go")
		}
	}
	close(over)
	readers.Wait()
}

func isErrno(err error, want syscall.Errno) bool {
	e, ok := err.(*os.PathError) //nolint:errorlint // os.File returns nothing else
	return ok && e.Err == want   //nolint:errorlint // the same
}

// backScript is played by gdb, which gets the symbols from the stub.
const backScript = `set pagination off
set confirm off
target remote SOCK
break vfs_read
shell (cat DIR/kprobes/enabled; cat DIR/kprobes/list) > OUT &
continue
stepi
stepi
stepi
stepi
echo forth\n
x/i $pc
reverse-stepi
x/i $pc
reverse-stepi
x/i $pc
reverse-stepi
x/i $pc
reverse-stepi
echo back\n
x/i $pc
delete
watch -l *(long long *)$rcx
echo position\n
continue
echo before it\n
reverse-continue
delete
break ksys_read
break *vfs_read+7
reverse-continue
reverse-continue
echo the call\n
bt 2
continue
echo again\n
x/i $pc
delete
break vfs_write
reverse-continue
echo the past\n
bt 2
monitor list
reverse-continue
reverse-continue
reverse-continue
reverse-continue
delete
detach
`

// TestGDBBack: on a deterministic machine gdb goes back over a probe's hit, to the write of a value, to a breakpoint, and to
// requests that are over; when the machine goes on, all of it comes again, and who has got answers gets no other ones. A recording
// of that plays.
func TestGDBBack(t *testing.T) {
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		t.Skip("gdb is not installed: apt-get install gdb")
	}
	sock := filepath.Join(t.TempDir(), "gdb")
	file := filepath.Join(t.TempDir(), "journal")
	m := mountInTime(t, nil, "--cpus", "2", "--record", file, "--gdb", "unix:"+sock)
	m.sh("echo 0 > sys/debug/kprobes-optimization; echo 'p:mid vfs_read+5' > tracing/kprobe_events; echo 1 > tracing/events/kprobes/mid/enable")
	read := filepath.Join(t.TempDir(), "out")
	script := filepath.Join(t.TempDir(), "script")
	text := strings.NewReplacer("DIR", m.dir, "SOCK", sock, "OUT", read).Replace(backScript)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("timeout", "-k", "1", "100", gdb, "-q", "-nx", "-batch", "-x", script).CombinedOutput()
	if err != nil {
		t.Errorf("gdb: %v", err)
	}
	wantSaid(t, string(out),
		`Reading symbols from target:/machine/vmlinux`,
		`hit Breakpoint 1, 0x[0-9a-f]+ in vfs_read \(\)`,
		`forth\n=> 0x[0-9a-f]+ <vfs_read\+7>:.*\n0xf.*\n=> 0xffffffffe[0-9a-f]+:\tint3.*\n0xf.*\n=> 0xffffffffe[0-9a-f]+:\tpush   %r13\n0xf.*\n=> 0x[0-9a-f]+ <vfs_read\+5>:\tint3`,
		`back\n=> 0x[0-9a-f]+ <vfs_read>:`,
		`(?s)position\n.*Old value = 0\nNew value = 2\n.*before it\n.*Old value = 2\nNew value = 0\n`,
		`the call\n#0 .* in ksys_read \(\)\n#1 .* in do_syscall_64 \(\)`,
		`again\n=> 0x[0-9a-f]+ <vfs_read\+7>:`,
		`the past\n#0 .* in vfs_write \(\)\n#1 .* in ksys_write \(\)`,
		`No more reverse-execution history`,
		`k  vfs_read\+0x5    \[DISABLED\]`,
		`detached`)
	if !ends(func() bool { b, _ := os.ReadFile(read); return bytes.HasSuffix(b, []byte("vfs_read+0x5    \n")) }) {
		t.Error("cat does not end")
	}
	if got := readTree(t, read); !regexp.MustCompile(`^1\n[0-9a-f]+  k  vfs_read\+0x5    \n$`).MatchString(got) {
		t.Errorf("the readers have got %q", got)
	}
	wantFile(t, filepath.Join(m.dir, "machine/run"), "running\n")
	trace := m.sh("echo 0 > tracing/events/kprobes/mid/enable; cat tracing/trace")
	if n := strings.Count(trace, " mid: (vfs_read+0x5/"); n < 4 {
		t.Errorf("%d hits are in the trace:\n%s", n, trace)
	}
	m.end()
	wantReplayed(t, file, trace)
}

// TestGDBExec: gdb attaches to the kernel of exec, and has the symbols of the kernel and, by what 'monitor modules' says, of a
// module.
func TestGDBExec(t *testing.T) {
	needFuse(t)
	if _, err := exec.LookPath("gdb"); err != nil {
		t.Skip("gdb is not installed: apt-get install gdb")
	}
	sock := filepath.Join(t.TempDir(), "gdb")
	ko, err := filepath.Abs("../../kernel/guest/modules/kprobe_example.ko")
	if err != nil {
		t.Fatal(err)
	}
	cmd := runProgram("exec", "--gdb", "unix:"+sock, "--", "sh", "-c", "insmod "+ko+" symbol=int_sqrt && grep ' before.*kprobe_example' /proc/kallsyms && cat")
	cmd.Env = append(os.Environ(), roleVar+"="+roleReal)
	cmd.Stderr = os.Stderr
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
	defer func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr, _, _ := strings.Cut(line, " ")
	gdb := func(commands ...string) string {
		args := []string{"-k", "1", "60", "gdb", "-q", "-nx", "-batch", "-iex", "set confirm off", "-ex", "target remote " + sock}
		for _, c := range commands {
			args = append(args, "-ex", c)
		}
		said, err := exec.Command("timeout", args...).CombinedOutput()
		if err != nil {
			t.Errorf("gdb: %v", err)
		}
		return string(said)
	}
	said := gdb("monitor modules")
	load := regexp.MustCompile(`(?m)^add-symbol-file target:/machine/modules/kprobe_example.ko 0x.*`).FindString(said)
	if load == "" {
		t.Fatal(said)
	}
	wantSaid(t, gdb(load, "info address before", "x/i before", "info address vfs_read"),
		`"before" is at 0x`+strings.TrimLeft(addr, "0")+` in`,
		`<before>:`,
		`"vfs_read" is at 0xffffffff81`)
	wantSaid(t, gdb(`python gdb.execute(gdb.execute("monitor modules", to_string=True))`, "info address before"),
		`"before" is at 0x`+strings.TrimLeft(addr, "0")+` in`)
}
