package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/internal/viewers"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/cli"
)

func TestHelperArgs(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"none /mnt -o rw,dev", "mount --daemon -o rw,dev /mnt"},
		{"none /mnt -o rw -n -s -v -t kprobefs", "mount --daemon -o rw /mnt"},
		{"none /mnt -nv -orw", "mount --daemon -orw /mnt"},
		{"none /mnt -f", "mount --daemon --fake /mnt"},
		{"mount umount", "mount --daemon umount"}, // names of commands have no special meaning here
		{"none /mnt --frob", `unknown flag "--frob"; mount.kprobefs takes SOURCE MNT [-o OPTIONS]`},
		{"none /mnt -N /proc/1/ns/mnt", "-N /proc/1/ns/mnt: use nsenter(1)"},
		{"/mnt", `mount.kprobefs takes SOURCE MNT [-o OPTIONS], not ["/mnt"]`},
	} {
		got, err := cli.HelperArgs(strings.Fields(c.args))
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%q: %q, want %q", c.args, text, c.want)
		}
	}
}

// FuzzOptions: any -o options are accepted or refused, and only known flags are
// passed to mount(2).
func FuzzOptions(f *testing.F) {
	for _, s := range []string{"", "rw", "cpus=2,ro", "cpus=0", "cpus=99999999999999999999", ",,", "x-systemd.automount", "nosuid,nodev", "frob", "cpus", "ro=1"} {
		f.Add(s)
	}
	passed := map[string]bool{"ro": true, "dev": true, "nodev": true, "suid": true, "nosuid": true, "exec": true, "noexec": true, "allow_other": true}
	f.Fuzz(func(t *testing.T, list string) {
		m := &mountFlags{options: []string{list}}
		rest, err := m.apply()
		if err != nil {
			return
		}
		if m.CPUs < 0 {
			t.Errorf("%q: %d vCPUs", list, m.CPUs)
		}
		for _, o := range rest {
			if !passed[o] {
				t.Errorf("%q is passed to mount(2) for %q", o, list)
			}
		}
	})
}

// FuzzArgs: any argument vector is translated or gives an error.
func FuzzArgs(f *testing.F) {
	for _, s := range []string{"kprobefs\nnone\n/mnt\n-o\nrw", "mount.kprobefs\nnone\n/mnt\n-o", "kprobefs\n-o", "mount.kprobefs\n-", "/sbin/mount.kprobefs\na\nb\n-nsv"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		root := (&program{log: newLog()}).command()
		args := strings.Split(lines, "\n")
		got, err := cli.CommandArgs(root, args)
		helper := filepath.Base(args[0]) == "mount.kprobefs"
		if helper && err == nil && (len(got) < 3 || got[0] != "mount" || got[1] != "--daemon") {
			t.Errorf("%q: %q", args, got)
		}
	})
}

// TestMountHelper: mount(8) starts mount.kprobefs, here a link to the program.
func TestMountHelper(t *testing.T) {
	needFuse(t)
	helper := filepath.Join(t.TempDir(), "mount.kprobefs")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, helper); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	call := func(args ...string) (string, error) {
		cmd := exec.Command(helper, args...)
		cmd.Env = append(os.Environ(), roleVar+"="+roleProgram)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := call("none", dir, "-f", "-o", "rw"); err != nil || out != "" || fs.Ours(dir) {
		t.Errorf("-f: %q, %v, mounted %v", out, err, fs.Ours(dir))
	}
	if out, err := call("none", dir, "-o", "rw,frob"); err == nil || err.Error() != "exit status 1" || !strings.Contains(out, `unknown mount option "frob"`) {
		t.Errorf("an unknown option: %q, %v", out, err)
	}
	if out, err := call("none", dir, "-n", "-o", "rw,cpus=2,x-systemd.requires=a"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	wantFile(t, dir+"/machine/kernel", "2 cpus\n")
	if out, st := output(t, "umount", dir); !st.Success() {
		t.Errorf("umount: %s", out)
	}
}

// TestNotify: the service manager is notified of start and end.
func TestNotify(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hear := func() string {
		b := make([]byte, 100)
		_ = l.SetReadDeadline(time.Now().Add(endLimit))
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	t.Setenv("NOTIFY_SOCKET", name)
	dir := t.TempDir()
	cmd := mounted(t, dir)
	if got := hear(); got != "READY=1" {
		t.Errorf("at first %q", got)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if got := hear(); got != "STOPPING=1" {
		t.Errorf("at the end %q", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestDaemonStatus: --daemon returns the daemon's exit status and error message.
func TestDaemonStatus(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "cpus=13", dir}, "no machine has 13 vCPUs"},
		{[]string{"--part", "nothing=" + dir, dir}, "unknown part"},
		{[]string{"--ready-fd", "77", dir}, "--ready-fd 77"},
	} {
		out, st := output(t, append([]string{"mount", "--daemon"}, c.args...)...)
		if st.ExitCode() != 1 || strings.Count(out, c.want) != 1 {
			t.Errorf("%q: %q, %v; want %q once", c.args, out, st, c.want)
		}
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	}
}

// TestTwoInstances: two programs have a kernel each, and one goes on when the other
// ends.
func TestTwoInstances(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	first := mounted(t, a, "--cpus", "1")
	mounted(t, b, "--cpus", "2")
	if err := os.WriteFile(a+"/kprobes/enabled", []byte("0\n"), 0); err != nil {
		t.Fatal(err)
	}
	wantFile(t, a+"/kprobes/enabled", "0\n")
	wantFile(t, b+"/kprobes/enabled", "1\n")
	_ = first.Process.Kill()
	_ = first.Wait()
	if !ends(func() bool { return !fs.Ours(a) }) {
		t.Error("the killed one's mount is still there")
	}
	wantFile(t, b+"/machine/kernel", "2 cpus\n")
	if out, st := output(t, "mount", b); st.ExitCode() != 1 || !strings.Contains(out, "a kprobefs is mounted there") {
		t.Errorf("on a mount that is still there: %q, %v", out, st)
	}
}

func TestLogFormat(t *testing.T) {
	needFuse(t)
	file := filepath.Join(t.TempDir(), "log")
	dir := t.TempDir()
	cmd := mounted(t, dir, "--log-format", "json", "--log-level", "info", "--log-file", file)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, not one at the start and one at the end: %q", len(lines), b)
	}
	var first, last struct{ Level, Msg, Signal, Time, Dir, Release, Uname, Program string }
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &first), json.Unmarshal([]byte(lines[1]), &last)); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	if first.Level != "info" || first.Msg != "serving" || first.Dir != dir || first.Release != "6.1" || !strings.HasPrefix(first.Uname, "6.1.0-") || !strings.HasPrefix(first.Program, "kprobefs") {
		t.Errorf("at first %+v", first)
	}
	if last.Level != "info" || last.Msg != "ending" || last.Signal != "terminated" || last.Time == "" {
		t.Errorf("at last %+v", last)
	}
	if out, st := output(t, "--log-file", "/nonexistent/log", "mount", dir); st.ExitCode() != 1 || !strings.Contains(out, "--log-file") {
		t.Errorf("%q, %v", out, st)
	}
}

// TestLogIsFull: when the disk is full, a daemon's log is lost, but the files can be
// used.
func TestLogIsFull(t *testing.T) {
	dir := t.TempDir()
	cmd := mounted(t, dir, "--log-level", "debug", "--log-file", "/dev/full")
	wantFile(t, dir+"/kprobes/list", listText)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestDaemonLog: --daemon says where the log goes, once, unless --log-file does.
func TestDaemonLog(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	log := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{nil, "kprobefs: " + dir + " is served in the background; its log goes nowhere, --log-file FILE would keep it\n"},
		{[]string{"--log-file", log}, ""},
	} {
		if out, st := output(t, append(c.flags, "mount", "--daemon", dir)...); !st.Success() || out != c.says {
			t.Errorf("%q: %q, %v; want %q", c.flags, out, st, c.says)
		}
		if out, st := output(t, "umount", dir); !st.Success() {
			t.Fatalf("umount: %s", out)
		}
	}
}

// TestEnvironment: each flag has a variable with its default; the command line has precedence,
// and processes of this program get their flags from it alone.
func TestEnvironment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	log := filepath.Join(t.TempDir(), "log")
	for name, value := range map[string]string{
		"CPUS": "3", "MKDIR": "1", "LOG_FILE": log, "LOG_LEVEL": "info", "LOG_FORMAT": "json", "DAEMON": "true",
		"RELEASE": "5.10", "CONFIG": "CONFIG_OPTPROBES=n,NR_CPUS=2\nCONFIG_PREEMPT=n", "MIRROR": "changes", "PANIC": "",
	} {
		t.Setenv("KPROBEFS_"+name, value)
	}
	needFuse(t)
	if out, st := output(t, "mount", "--release", "6.12", dir); !st.Success() || out != "" {
		t.Fatalf("%q, %v", out, st)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	wantFile(t, dir+"/machine/kernel", "3 cpus\n")
	b, _ := os.ReadFile(log)
	for _, want := range []string{`"msg":"serving"`, `"release":"6.12"`, `"cpus":3`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the log lacks %s: %s", want, b)
		}
	}
	if out, st := output(t, "umount", dir); !st.Success() {
		t.Errorf("umount: %s", out)
	}
	t.Setenv("KPROBEFS_RELEASE", "7.0")
	if out, st := output(t, "exec", "true"); st.ExitCode() != cli.UsageStatus || !strings.Contains(out, `KPROBEFS_RELEASE="7.0": the values are 6.12, `) {
		t.Errorf("a wrong value: %q, %v", out, st)
	}
	t.Setenv("KPROBEFS_RELEASE", "5.10")
	t.Setenv("KPROBEFS_MKDIR", "yes")
	if out, st := output(t, "mount", dir); st.ExitCode() != cli.UsageStatus || !strings.Contains(out, `KPROBEFS_MKDIR="yes": the values are 1, 0, true and false`) {
		t.Errorf("a wrong value: %q, %v", out, st)
	}
	t.Setenv("KPROBEFS_MKDIR", "1")
	// The serving process of exec must not take --daemon.
	if out, st := output(t, "exec", "sh", "-c", "cat $KPROBEFS_MNT/machine/kernel"); !st.Success() || !strings.HasSuffix(out, "3 cpus\n") {
		t.Errorf("exec: %q, %v", out, st)
	}
}

// TestEnvironmentNames: no two flags share a variable, and none has the tree's.
func TestEnvironmentNames(t *testing.T) {
	names := map[string]string{cli.TreeVar: "the tree"}
	root := (&program{log: newLog()}).command()
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if other := names[cli.EnvName(f.Name)]; other != "" && other != f.Name {
				t.Errorf("%s is the variable of %s and %s", cli.EnvName(f.Name), other, f.Name)
			}
			names[cli.EnvName(f.Name)] = f.Name
		})
	}
}

// TestRefusedWrites: at debug level the log says which write was refused, and why.
func TestRefusedWrites(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	dir := t.TempDir()
	mounted(t, dir, "--log-format", "json", "--log-level", "debug", "--log-file", log)
	if err := os.WriteFile(dir+"/kprobes/enabled", []byte("maybe\n"), 0); err == nil {
		t.Error("written")
	}
	if err := os.WriteFile(dir+"/kprobes/enabled", []byte("1\n"), 0); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for l := range strings.Lines(string(b)) {
		var line struct{ Level, Msg, File, Text, Errno, Comm string }
		if err := json.Unmarshal([]byte(l), &line); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if strings.Contains(line.Msg, "refused") {
			found = append(found, fmt.Sprintf("%s %s %q %s", line.Level, line.File, line.Text, line.Errno))
		}
	}
	if want := []string{`debug /sys/kernel/debug/kprobes/enabled "maybe\n" EINVAL`}; !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}

func TestCheck(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	if out, st := output(t, "check", dir); !st.Success() || strings.Count(out, "ok  ") != 9 || strings.Contains(out, "lacks") {
		t.Errorf("where nothing is missing: %q, %v", out, st)
	}
	for part, other := range map[string]string{"mount": "exec:", "exec": "mount:"} {
		if out, st := output(t, "check", "--for", part); !st.Success() || strings.Contains(out, other) || !strings.Contains(out, part+":") {
			t.Errorf("--for %s: %q, %v", part, out, st)
		}
	}
	mounted(t, dir)
	other := t.TempDir()
	if err := unix.Mount("none", other, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(other, unix.MNT_DETACH) }()
	for _, c := range []struct {
		dir    string
		status int
		want   string
	}{
		{dir, 0, "ok     mount: " + dir + ": a kprobefs is mounted here; kprobefs umount " + dir + " removes it\n"},
		{other, 0, "ok     mount: " + other + ": the mount of type tmpfs will be covered\n"},
		{dir + "/none", 1, "no such file or directory\n       remedy: mkdir -p"},
		{"/etc/passwd", 1, "not a directory"},
	} {
		if out, st := output(t, "check", c.dir); st.ExitCode() != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.dir, out, st, c.want)
		}
	}
}

// TestCheckFindsWhatIsMissing: check reports each missing requirement, in a namespace
// without it, and its status and mount's agree.
func TestCheckFindsWhatIsMissing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dead := t.TempDir()
	daemon := mounted(t, dead, "--no-watch")
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	place, public := t.TempDir(), publicCopy(t, exe)
	nobody := "setpriv --reuid 65534 --clear-groups "
	for _, c := range []struct {
		name, setup, as string
		status          int
		want, never     string
	}{
		{"no device", "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3", "", 1, "lacks  /dev/fuse: no such file or directory\n       remedy: modprobe fuse", "ok     mount"},
		{"device of another", "mount --bind /dev/null /dev/fuse", "", 1, "lacks  /dev/fuse: no such device", "ok     mount"},
		{"no capabilities", ":", "setpriv --bounding-set -all --inh-caps -all ", 1, "lacks  mount: CAP_SYS_ADMIN, or fusermount3: root without CAP_SYS_ADMIN", "ok     mount"},
		{"device of root", "chmod 600 /dev/fuse", nobody, 1, "lacks  /dev/fuse: permission denied\n       remedy: chmod 666", "ok     mount"},
		{"no fusermount3", "PATH=/nonexistent", "/usr/bin/" + nobody, 1, "lacks  mount: CAP_SYS_ADMIN, or fusermount3: exec: \"fusermount3\"", "ok     mount"},
		{"user without capabilities", ":", nobody + "--bounding-set -all --inh-caps -all ", 1, "CAP_SYS_ADMIN is dropped, also for ", "ok     mount"},
		{"no new privileges", ":", nobody + "--no-new-privs ", 1, "(no_new_privs)", "ok     mount"},
		{"a user", ":", nobody, 0, "ok     mount: CAP_SYS_ADMIN, or fusermount3: /", "lacks  mount"},
		{"no /sys", "umount -l /sys", "", 0, "lacks  exec: /sys/kernel: no such file or directory", "lacks  mount"},
		{"nothing to write", "for d in /tmp /dev/shm /var/tmp; do mount --bind $d $d; mount -o remount,bind,ro $d; done; cd /proc; export HOME= XDG_RUNTIME_DIR= TMPDIR=", "", 0, "lacks  exec: a directory for the tree", "lacks  mount"},
		{"dead mount", ":", "", 0, "dead   " + dead + ": a mount of a kprobefs that has ended\n       remedy: kprobefs umount " + dead, "lacks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			exe := exe
			if strings.Contains(c.as, "--reuid") {
				openForUsers(t)
				if out, err := exec.Command("setpriv", "--reuid", "65534", "true").CombinedOutput(); err != nil {
					t.Skipf("this user namespace has no second user: %s", out)
				}
				if err := os.Chown(place, 65534, 0); err != nil {
					t.Skip(err)
				}
				defer func() { _ = os.Chown(place, 0, 0) }()
				openPath(t, place)
				exe = public
			}
			script := fmt.Sprintf("%s\nexport PATH\n%s %s check; s=$?; %s %s --log-file /dev/null mount --daemon %s 2>/dev/null; echo \"statuses $s $?\"; PATH=/bin:/usr/bin; umount -l %s 2>/dev/null", c.setup, c.as, exe, c.as, exe, place, place)
			cmd := exec.Command("unshare", "-m", "sh", "-c", script)
			cmd.Env = append(os.Environ(), roleVar+"="+roleProgram)
			out, _ := cmd.CombinedOutput()
			for _, want := range []string{c.want, fmt.Sprintf("statuses %d %d\n", c.status, c.status)} {
				if !strings.Contains(string(out), want) {
					t.Errorf("%v:\n%s\nwant %q", cmd.ProcessState, out, want)
				}
			}
			if strings.Contains(string(out), c.never) {
				t.Errorf("%s\nhas %q", out, c.never)
			}
		})
	}
}

// openPath lets all users reach a temporary directory.
func openPath(t *testing.T, dir string) {
	t.Helper()
	for at := filepath.Dir(dir); at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// publicCopy copies this program to where all users may execute it.
func publicCopy(t *testing.T, exe string) string {
	t.Helper()
	b, err := os.ReadFile(exe)
	at := filepath.Join(t.TempDir(), "kprobefs")
	openPath(t, at)
	if err = errors.Join(err, os.WriteFile(at, b, 0o755)); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestMountedList: the list has all trees of the user, also exec's, and what serves them.
func TestMountedList(t *testing.T) {
	needFuse(t)
	list := func() []viewers.Tree {
		out, err := runProgram("mounted", "--json").Output()
		var trees []viewers.Tree
		if err = errors.Join(err, json.Unmarshal(out, &trees)); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		return trees
	}
	find := func(dir string) *viewers.Tree {
		for _, tree := range list() {
			if tree.Dir == dir {
				return &tree
			}
		}
		return nil
	}
	dir := t.TempDir()
	if find(dir) != nil {
		t.Error("listed without a mount")
	}
	daemon := mounted(t, dir, "--no-watch")
	if got := find(dir); got == nil || got.State != viewers.Served || got.PID != daemon.Process.Pid || got.Namespace != 0 || got.UID != os.Geteuid() {
		t.Errorf("a mount: %+v", got)
	}
	if out, st := output(t, "mounted"); !st.Success() || !regexp.MustCompile(`(?m)^DIR +RELEASE +PID +STATE$(.*\n)+`+dir+` .* `+strconv.Itoa(daemon.Process.Pid)+` +served$`).MatchString(out) {
		t.Errorf("%v:\n%s", st, out)
	}
	cmd := runProgram("exec", "sh", "-c", "echo $KPROBEFS_MNT; read line")
	out, err := cmd.StdoutPipe()
	in, ierr := cmd.StdinPipe()
	if err := errors.Join(err, ierr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	tree := strings.TrimSpace(line)
	if got := find(tree); got == nil || got.State != viewers.Served || got.PID == 0 || got.Release != "6.1" || got.Namespace != got.PID {
		t.Errorf("exec's %s: %+v in %+v", tree, got, list())
	}
	_ = in.Close()
	_ = cmd.Wait()
	if find(tree) != nil {
		t.Error("exec's is listed when exec has ended")
	}
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	if got := find(dir); got == nil || got.State != viewers.Dead || got.PID != 0 {
		t.Errorf("a dead mount: %+v", got)
	}
}

func TestMounted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	if out, st := output(t, "mounted", filepath.Dir(dir)); st.ExitCode() != 1 || !strings.Contains(out, "no kprobefs is mounted") {
		t.Errorf("without a mount: %q, %v", out, st)
	}
	daemon := mounted(t, dir, "--mkdir", "--no-watch")
	if out, st := output(t, "mounted", dir); !st.Success() || out != "" {
		t.Errorf("%q, %v", out, st)
	}
	_ = daemon.Process.Signal(syscall.SIGSTOP)
	if out, st := output(t, "mounted", dir); st.ExitCode() != 1 || !strings.Contains(out, "no answer") {
		t.Errorf("stopped: %q, %v", out, st)
	}
	_ = daemon.Process.Signal(syscall.SIGCONT)
	if out, st := output(t, "mounted", dir); !st.Success() || out != "" {
		t.Errorf("going on: %q, %v", out, st)
	}
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	if out, st := output(t, "mounted", dir); st.ExitCode() != 1 || !strings.Contains(out, "not connected") {
		t.Errorf("killed: %q, %v", out, st)
	}
	mounted(t, dir, "--mkdir") // removes the dead mount
	wantFile(t, dir+"/kprobes/list", listText)
}
