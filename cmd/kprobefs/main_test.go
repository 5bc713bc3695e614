package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/debugfs"
	"github.com/kprobefs/kprobefs/fs/procfs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/boot"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/testns"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/sysctl"
	"github.com/kprobefs/kprobefs/sysctl/sysctltest"
)

// The tests run this binary as the program, with a tree without a machine, in a
// private mount namespace.
const (
	roleVar     = "KPROBEFS_TEST_ROLE"
	roleProgram = "program"
	roleReal    = "real" // the program with the machine
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case roleProgram:
		os.Exit(run(os.Args, bootFake))
	case roleReal:
		os.Exit(run(os.Args, boot.Machine))
	}
	os.Exit(testns.Main(m.Run))
}

// fakeSystem is a tree whose files contain their own names, except for one whose
// reads block.
type fakeSystem struct {
	cpus int

	mu      sync.Mutex
	opt     bool
	enabled bool
}

func (s *fakeSystem) Enabled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enabled
}

func (s *fakeSystem) SetEnabled(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enabled = on
	return nil
}

func (s *fakeSystem) Blacklist() []kprobes.BlacklistRecord { return nil }

func (s *fakeSystem) AppendList(b []byte, i int, hide bool) []byte {
	if i != 5 {
		return b
	}
	r := kprobes.Record{Addr: 0xffffffff81000000, Known: true, Symbol: abi.Symbol{Name: "vfs_read"}}
	return r.Append(b, hide)
}

// listText is the text of kprobes/list in the fake.
const listText = "ffffffff81000000  k  vfs_read+0x0    \n"

// sysctls is a kernel whose debug.kprobes-optimization the test has.
type sysctls struct {
	sysctltest.Kernel
	s *fakeSystem
}

func (s *sysctls) Optimization() bool      { return s.s.optimization() }
func (s *sysctls) SetOptimization(on bool) { s.s.setOptimization(on) }

func (s *fakeSystem) optimization() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opt
}

func (s *fakeSystem) setOptimization(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt = on
}

func bootFake(o boot.Options) (boot.System, error) {
	if o.CPUs == 13 {
		return nil, fmt.Errorf("no machine has %d vCPUs: %w", o.CPUs, syscall.EINVAL)
	}
	return &fakeSystem{cpus: o.CPUs, opt: true, enabled: true}, nil
}

// hangVar makes a machine that never answers.
const hangVar = "KPROBEFS_TEST_HANG"

type hungGuest struct{}

func (hungGuest) Do(context.Context, host.Caller, host.Call, host.FileOp) (int64, []byte, error) {
	select {}
}

func (hungGuest) OnAwaitClosed(func(context.Context) bool) {}
func (hungGuest) Waits() bool                              { return false }
func (hungGuest) Stopped() <-chan struct{}                 { return nil }

func (s *fakeSystem) Guest() fs.Guest {
	if os.Getenv(hangVar) != "" {
		return hungGuest{}
	}
	return nil
}

func (s *fakeSystem) Writes() *seqfile.Writes { return seqfile.NewWrites(func() int64 { return 0 }) }
func (s *fakeSystem) Died() <-chan struct{}   { return nil }
func (s *fakeSystem) PanicLog() []string      { return nil }
func (s *fakeSystem) Halt()                   {}
func (s *fakeSystem) Close() error            { return nil }
func (s *fakeSystem) Retire() error           { return nil }

// pipeFile blocks in Read.
type pipeFile struct{ seqfile.Value }

func (pipeFile) Read(ctx context.Context, _ []byte, _ int64) (int, error) {
	<-ctx.Done()
	return 0, syscall.EINTR
}

func (s *fakeSystem) Tree() seqfile.Dir {
	file := func(name string, mode uint32) *seqfile.Row {
		return &seqfile.Row{Name: name, Mode: mode, Open: seqfile.OpenSingle(func() (string, error) { return "ours " + name + "\n", nil })}
	}
	dir := func(name string, kind seqfile.Kind, rows ...*seqfile.Row) *seqfile.Row {
		return &seqfile.Row{Name: name, Mode: 0o755, Kind: kind, Dir: seqfile.Table(rows)}
	}
	table := sysctl.New(sysctl.Config{Kernel: &sysctls{s: s}, Release: "ours"})
	kernel := seqfile.OpenSingle(func() (string, error) { return fmt.Sprintf("%d cpus\n", s.cpus), nil })
	return seqfile.Table{
		debugfs.Kprobes(debugfs.Config{
			Probes: s, ShowAddr: func(*seqfile.Caller) bool { return true }, ParseBool: kstrtox.ParseBool,
			LockedDown: func(*seqfile.Caller) error { return nil },
		}),
		dir("tracing", seqfile.Tracefs, file("kprobe_events", 0o640), &seqfile.Row{Name: "trace_pipe", Mode: 0o440, Open: seqfile.Opens(pipeFile{})}),
		procfs.Sys(table),
		dir("proc", seqfile.Proc, file("kallsyms", 0o444), file("modules", 0o444), file("version", 0o444), file("cmdline", 0o444)),
		dir("dev", seqfile.Devtmpfs, file("kmsg", 0o644)),
		dir("machine", seqfile.Ours, &seqfile.Row{Name: "kernel", Mode: 0o444, Open: kernel}),
	}
}

func runProgram(args ...string) *exec.Cmd {
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), roleVar+"="+roleProgram)
	return cmd
}

func needFuse(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	_ = f.Close()
}

func output(t *testing.T, args ...string) (string, *os.ProcessState) {
	t.Helper()
	cmd := runProgram(args...)
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal("not started")
	}
	return string(out), cmd.ProcessState
}

// mounted starts `kprobefs mount` in the foreground.
func mounted(t *testing.T, dir string, flags ...string) *exec.Cmd {
	t.Helper()
	needFuse(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := runProgram(append(append([]string{"mount", "--ready-fd", "3"}, flags...), dir)...)
	cmd.ExtraFiles = []*os.File{w}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = cmd.Process.Wait()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if b, err := os.ReadFile(path); string(b) != want {
		t.Errorf("%s: %q, %v; want %q", path, b, err, want)
	}
}

func TestMountArgs(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("d", 0o755), os.WriteFile("x.ko", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"none d -o rw,dev", "mount --daemon -o rw,dev d"},
		{"-o rw none d", "mount --daemon -o rw d"},
		{"d -o rw", "mount --daemon -o rw d"},
		{"d -orw", "mount --daemon -orw d"},
		{"none d", "none d"}, // mount(8) always gives options
		{"install x.ko -o rw", `unknown command "install" for "kprobefs", x.ko: not a directory`},
		{"mont e -o rw", `unknown command "mont" for "kprobefs", Did you mean this?, mount, umount, e: no such file or directory`},
		{"mount d -o rw", "mount d -o rw"},
		{"exec ls", "exec ls"},
		{"version", "version"},
		{"--help", "--help"},
		{"", ""},
		{"frob", "frob"},
	} {
		root := (&program{log: newLog()}).command()
		args, err := cli.MountArgs(root, strings.Fields(c.args))
		got := strings.Join(args, " ")
		if err != nil {
			got = regexp.MustCompile(`\s*\n\s*(Nor can .*: stat )?`).ReplaceAllString(err.Error(), ", ")
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

// endLimit is the time allowed for ending on a busy machine. It only turns a hang
// into a failure.
const endLimit = 20 * time.Second

// ends waits until over returns true, at most endLimit, and returns its result.
func ends(over func() bool) bool {
	for begin := time.Now(); time.Since(begin) < endLimit; time.Sleep(5 * time.Millisecond) {
		if over() {
			return true
		}
	}
	return over()
}

func TestMountForeground(t *testing.T) {
	dir := t.TempDir()
	cmd := mounted(t, dir, "-o", "cpus=3,nosuid")
	wantFile(t, dir+"/kprobes/list", listText)
	wantFile(t, dir+"/machine/kernel", "3 cpus\n")
	begin := time.Now()
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > endLimit {
		t.Errorf("ended after %v", took)
	}
	if fs.Ours(dir) {
		t.Error("still mounted")
	}
}

func TestEndsWithReaders(t *testing.T) {
	dir := t.TempDir()
	cmd := mounted(t, dir)
	reader := exec.Command("cat", dir+"/tracing/trace_pipe")
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Process.Kill(); _ = reader.Wait() }()
	time.Sleep(100 * time.Millisecond)
	begin := time.Now()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if took := time.Since(begin); took > endLimit {
		t.Errorf("ended after %v", took)
	}
}

func TestUmount(t *testing.T) {
	dir := t.TempDir()
	cmd := mounted(t, dir)
	if out, st := output(t, "umount", dir); !st.Success() {
		t.Errorf("umount: %s, %v", out, st)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon: %v", err)
	}
	out, st := output(t, "umount", dir)
	if st.ExitCode() != 1 || !strings.Contains(out, "no kprobefs is mounted there") {
		t.Errorf("a second time: %q, %v", out, st)
	}
}

// TestDaemonAndWatcher: mount(8)'s form of arguments, in the background. When the
// daemon is killed, the watcher removes its mount.
func TestDaemonAndWatcher(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	if out, st := output(t, "none", dir, "-o", "rw,cpus=2,dev,suid"); !st.Success() {
		t.Fatalf("%s, %v", out, st)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	wantFile(t, dir+"/machine/kernel", "2 cpus\n")
	pid := serverOf(t, dir)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if !ends(func() bool { return !fs.Ours(dir) }) {
		t.Error("the dead mount is still there")
	}
}

// serverOf finds the process that was started to serve dir.
func serverOf(t *testing.T, dir string) int {
	t.Helper()
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		b, _ := os.ReadFile(p)
		args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		if slices.Contains(args, "--detached") && args[len(args)-1] == dir {
			var pid int
			_, _ = fmt.Sscanf(p, "/proc/%d/cmdline", &pid)
			return pid
		}
	}
	t.Fatal("no daemon")
	return 0
}

func TestMountFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.ko")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"mount", file}, 1, "not a directory"},
		{[]string{"mount", "--daemon", file}, 1, "not a directory"},
		{[]string{"none", file, "-o", "rw"}, cli.UsageStatus, "not a directory"},
		{[]string{"install", file}, cli.UsageStatus, `unknown command "install"`},
		{[]string{"mont", dir}, cli.UsageStatus, "Did you mean this?\n\tmount\n"},
		{[]string{"mount", ""}, 1, "no directory is named"},
		{[]string{"umount", ""}, 1, "no directory is named"},
		{[]string{"mounted", ""}, 1, "no directory is named"},
		{[]string{"mount", dir, dir}, cli.UsageStatus, "accepts 1 arg(s), received 2\n\nUsage:\n  kprobefs mount [flags] MNT\n"},
		{[]string{"exec"}, cli.UsageStatus, "Usage:\n  kprobefs exec [flags] [--] CMD [ARG]..."},
		{[]string{"mount", "--frob", dir}, cli.UsageStatus, "unknown flag: --frob\n\nUsage:\n  kprobefs mount"},
		{[]string{"mount", "--cpus", "99999", dir}, cli.UsageStatus, "99999 CPUs: the emulated kernel can have 1 to 64"},
		{[]string{"exec", "--cpus", "65", "true"}, cli.UsageStatus, "65 CPUs: the emulated kernel can have 1 to 64"},
		{[]string{"mount", "-o", "cpus=65", dir}, cli.UsageStatus, "65 CPUs: the emulated kernel can have 1 to 64"},
		{[]string{"mount", "--cpus", "-1", dir}, cli.UsageStatus, "-1 CPUs"},
		{[]string{"mount", "/nonexistent/place"}, 1, "no such file"},
		{[]string{"mount", "--daemon", "/nonexistent/place"}, 1, "no such file"},
		{[]string{"mount", "-o", "cpus=13", dir}, 1, "no machine has 13"},
		{[]string{"mount", "-o", "cpus=x", "/tmp"}, cli.UsageStatus, "not a number"},
		{[]string{"mount", "-o", "release=", "/tmp"}, cli.UsageStatus, "the value is empty"},
		{[]string{"mount", "-o", "release=7.0", "/tmp"}, cli.UsageStatus, "the releases are 6.12, "},
		{[]string{"mount", "-o", "frob", "/tmp"}, cli.UsageStatus, `unknown mount option "frob"`},
		{[]string{"mount", "--module", "/nonexistent.ko", "/tmp"}, 1, "no such file"},
		{[]string{"mount"}, cli.UsageStatus, "accepts 1 arg"},
		{[]string{"frobnicate"}, cli.UsageStatus, "unknown command"},
	} {
		out, st := output(t, c.args...)
		if st.ExitCode() != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%v: %q, %v; want %q", c.args, out, st, c.want)
		}
		if at := fs.MountedOn(dir) + fs.MountedOn(file); at != "" {
			t.Fatalf("%v: %s is mounted", c.args, at)
		}
	}
}

// TestNoProc: without /proc the program cannot start itself again, and says so.
func TestNoProc(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"exec true", "mount /mnt", "check"} {
		cmd := exec.Command("unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /proc && exec "+exe+" "+args)
		cmd.Env = append(os.Environ(), roleVar+"="+roleProgram)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Skip(err)
		}
		want := 1
		if strings.HasPrefix(args, "exec") {
			want = ownStatus
		}
		if cmd.ProcessState.ExitCode() != want || !strings.Contains(string(out), "--proc /proc") {
			t.Errorf("%s: %q, %v", args, out, err)
		}
	}
}

func TestExecPutsFilesInTheirPlaces(t *testing.T) {
	needFuse(t)
	t.Setenv("TMPDIR", t.TempDir())
	before, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	out, st := output(t, "exec", "--cpus", "2", "--", "sh", "-c", `
		cat /sys/kernel/debug/kprobes/list /sys/kernel/debug/tracing/kprobe_events /sys/kernel/tracing/kprobe_events
		echo 0 > /proc/sys/debug/kprobes-optimization
		cat /proc/sys/debug/kprobes-optimization $KPROBEFS_MNT/sys/debug/kprobes-optimization
		cat /proc/sys/kernel/ftrace_enabled /proc/sys/kernel/osrelease /proc/version /proc/cmdline /dev/kmsg
		cat $KPROBEFS_MNT/machine/kernel
		stat -c %a /sys/kernel/debug
		grep -c '^debugfs /sys/kernel/debug debugfs ' /proc/mounts
		grep -c '^tracefs /sys/kernel/tracing tracefs ' /proc/mounts
		id -u; echo $TRACEFS_PATH $DEBUGFS_PATH`)
	want := listText + `ours kprobe_events
ours kprobe_events
0
0
1
ours
ours version
ours cmdline
ours kmsg
2 cpus
700
1
1
0
/sys/kernel/tracing /sys/kernel/debug
`
	if out != want || !st.Success() {
		t.Errorf("got\n%s%v\nwant\n%s", out, st, want)
	}
	after, _ := os.ReadFile("/proc/self/mounts")
	if string(after) != string(before) {
		t.Errorf("mounts before\n%sand after\n%s", before, after)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "kprobefs-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestExecStatus(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	t.Setenv("PATH", os.Getenv("PATH")+":"+dir)
	for name, text := range map[string]string{"plain": "", "lost": "#!/nonexistent/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "lost"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want syscall.WaitStatus
	}{
		{[]string{"true"}, 0},
		{[]string{"sh", "-c", "exit 7"}, 7 << 8},
		{[]string{"sh", "-c", "kill -TERM $$"}, syscall.WaitStatus(syscall.SIGTERM)},
		{[]string{"/nonexistent/command"}, 127 << 8},
		{[]string{"no-such-command"}, 127 << 8},
		{[]string{"/dev/null"}, 126 << 8},
		{[]string{dir}, 126 << 8},
		{[]string{dir + "/plain"}, 126 << 8},
		{[]string{"plain"}, 126 << 8},
		{[]string{"lost"}, 126 << 8},
	} {
		out, st := output(t, append([]string{"exec", "--"}, c.args...)...)
		if got := st.Sys().(syscall.WaitStatus); got != c.want {
			t.Errorf("%v: status %#x, want %#x\n%s", c.args, got, c.want, out)
		}
	}
}

// TestExecOwnStatus: what exec itself cannot do is 125, and what it does not understand 2, so
// that neither looks like a status of the command.
func TestExecIgnoredSignals(t *testing.T) {
	needFuse(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HUP", "INT"} {
		cmd := runProgram("exec", "sh", "-c", "kill -"+name+" $$ $PPID; echo alive")
		cmd.Args = append([]string{"sh", "-c", "trap '' " + name + `; exec "$0" "$@"`, self}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "alive\n" {
			t.Errorf("%s is ignored: %v, %q", name, err, out)
		}
	}
}

func TestExecOwnStatus(t *testing.T) {
	needFuse(t)
	full := t.TempDir()
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--cpus", "13", "true"}, ownStatus, "no machine has 13"},
		{[]string{"--keep=" + full, "--cpus", "13", "true"}, ownStatus, "no machine has 13"},
		{[]string{"--keep=/nonexistent/place", "true"}, ownStatus, "no such file"},
		{[]string{"--attach", full, "true"}, ownStatus, "no kprobefs is mounted there"},
		{[]string{"--attach", "/nonexistent/place", "true"}, ownStatus, "no such file"},
		{[]string{"--module", "/nonexistent.ko", "true"}, ownStatus, "no such file"},
		{[]string{"--log-file", "/nonexistent/log", "true"}, ownStatus, "no such file"},
		{[]string{"--keep", full, "true"}, cli.UsageStatus, "is no command but a directory"},
		{[]string{"--frob", "true"}, cli.UsageStatus, "unknown flag"},
		{[]string{"--keep=" + full, "--attach", full, "true"}, cli.UsageStatus, "--keep is for a new tree"},
	} {
		out, st := output(t, append([]string{"exec"}, c.args...)...)
		if st.ExitCode() != c.status || strings.Count(out, c.says) != 1 {
			t.Errorf("%q: status %d, %q; want %d, %q once", c.args, st.ExitCode(), out, c.status, c.says)
		}
	}
	// The machine's end with the command's failure: the command's status.
	if out, st := output(t, "exec", "sh", "-c", "exit 125"); st.ExitCode() != 125 || out != "" {
		t.Errorf("a command that ends with 125: %q, %v", out, st)
	}
}

func TestExecEndsWhileMachineHangs(t *testing.T) {
	needFuse(t)
	cmd := runProgram("exec", "true")
	cmd.Env = append(cmd.Env, hangVar+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	begin := time.Now()
	_ = cmd.Wait()
	if took := time.Since(begin); took > endLimit {
		t.Errorf("ended after %v", took)
	}
	if st, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != syscall.SIGTERM {
		t.Errorf("ended by %v", cmd.ProcessState)
	}
}

// TestExecKilled: when processes of exec are killed, the others end and no mount is
// left.
func TestExecKilled(t *testing.T) {
	needFuse(t)
	t.Setenv("TMPDIR", t.TempDir())
	for name, kill := range map[string]func(first int){
		"first":  func(first int) { _ = syscall.Kill(first, syscall.SIGKILL) },
		"second": func(first int) { _ = syscall.Kill(childOf(t, first, "inside"), syscall.SIGKILL) },
		"third": func(first int) {
			_ = syscall.Kill(childOf(t, childOf(t, first, "inside"), "mount"), syscall.SIGKILL)
			_ = syscall.Kill(first, syscall.SIGTERM)
		},
		"watcher": func(first int) {
			_ = syscall.Kill(childOf(t, first, "watch"), syscall.SIGKILL)
			_ = syscall.Kill(first, syscall.SIGTERM)
		},
		"group": func(first int) { _ = syscall.Kill(-first, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) { execKilled(t, kill) })
	}
}

// childOf finds the child of a process that runs the given command of the program.
func childOf(t *testing.T, parent int, command string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(b)) {
		line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		if slices.Contains(strings.Split(string(line), "\x00"), command) {
			n, _ := strconv.Atoi(pid)
			return n
		}
	}
	t.Fatalf("%d has no child for %q", parent, command)
	return 0
}

// execKilled starts a command by exec, calls kill, and checks that everything ends.
func execKilled(t *testing.T, kill func(first int)) {
	cmd := runProgram("exec", "sh", "-c", "echo $$; exec sleep 60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	kill(cmd.Process.Pid)
	_ = cmd.Wait()
	if !ends(func() bool { return gone(pid) }) {
		t.Error("the command still runs")
	}
	left := func() []string { l, _ := filepath.Glob(filepath.Join(os.TempDir(), "kprobefs-*")); return l }
	if !ends(func() bool { return len(left()) == 0 }) {
		t.Errorf("left behind: %v", left())
	}
}

// gone reports whether a process has ended, even if its zombie is not reaped.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

func TestExecPassesSignalsAndStdin(t *testing.T) {
	needFuse(t)
	cmd := runProgram("exec", "sh", "-c", `trap 'echo got it; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if l, _ := r.ReadString('\n'); l != "ready\n" {
		t.Fatalf("got %q", l)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	rest, _ := io.ReadAll(r)
	err = cmd.Wait()
	var e *exec.ExitError
	if string(rest) != "got it\n" || !errors.As(err, &e) || e.ExitCode() != 3 {
		t.Errorf("%q, %v", rest, err)
	}
	in := runProgram("exec", "cat")
	in.Stdin = strings.NewReader("through\n")
	if b, err := in.Output(); string(b) != "through\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestHelpAndVersion(t *testing.T) {
	out, st := output(t, "--help")
	for _, want := range []string{"kprobefs exec -- sh", "mount", "umount", "version"} {
		if !strings.Contains(out, want) || !st.Success() {
			t.Errorf("help lacks %q:\n%s", want, out)
		}
	}
	for _, hidden := range []string{"inside", "watch MNT", "try-mount"} {
		if strings.Contains(out, hidden) {
			t.Errorf("help mentions %q", hidden)
		}
	}
	for _, version := range []string{"version", "--version"} {
		if out, st := output(t, version); !st.Success() || !strings.HasPrefix(out, "kprobefs") || !strings.Contains(out, "\nemulates Linux 6.12, 6.1,") {
			t.Errorf("%s: %q, %v", version, out, st)
		}
	}
}
