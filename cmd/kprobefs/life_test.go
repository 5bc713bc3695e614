package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
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
		got, err := helperArgs(strings.Fields(c.args))
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
	passed := map[string]bool{"ro": true, "dev": true, "nodev": true, "suid": true, "nosuid": true, "exec": true, "noexec": true}
	f.Fuzz(func(t *testing.T, list string) {
		m := &mountFlags{options: []string{list}}
		rest, err := m.apply()
		if err != nil {
			return
		}
		if m.cpus < 0 {
			t.Errorf("%q: %d vCPUs", list, m.cpus)
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
		got, err := commandArgs(root, args)
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
	var line struct{ Level, Msg, Signal, Time string }
	if err := json.Unmarshal([]byte(strings.SplitN(string(b), "\n", 2)[0]), &line); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	if line.Level != "info" || line.Msg != "ending" || line.Signal != "terminated" || line.Time == "" {
		t.Errorf("got %+v", line)
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

func TestCheck(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	if out, st := output(t, "check", dir); !st.Success() || strings.Count(out, "ok  ") != 8 {
		t.Errorf("where nothing is missing: %q, %v", out, st)
	}
	mounted(t, dir)
	other := t.TempDir()
	if err := unix.Mount("none", other, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(other, unix.MNT_DETACH) }()
	for _, c := range []struct{ dir, want string }{
		{dir, "a kprobefs is mounted here\n       remedy: kprobefs umount " + dir},
		{other, "a mount of type tmpfs is in the way"},
		{dir + "/none", "no such file or directory\n       remedy: mkdir -p"},
		{"/etc/passwd", "not a directory"},
	} {
		if out, st := output(t, "check", c.dir); st.ExitCode() != 1 || !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.dir, out, st, c.want)
		}
	}
}

// TestCheckFindsWhatIsMissing: check reports each missing requirement, in a namespace
// without it.
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
	for _, c := range []struct{ name, setup, want string }{
		{"no device", "mount -t tmpfs none /dev", "lacks  /dev/fuse: no such file or directory\n       remedy: modprobe fuse"},
		{"device of another", "mount --bind /dev/null /dev/fuse", "lacks  exec: a private namespace with a FUSE mount"},
		{"no fusermount3", "PATH=/nonexistent", "fusermount3"},
		{"dead mount", ":", "lacks  " + dead + ": a mount of a kprobefs that has ended\n       remedy: kprobefs umount " + dead},
	} {
		t.Run(c.name, func(t *testing.T) {
			drop := ""
			if c.name == "no fusermount3" {
				if out, err := exec.Command("setpriv", "--reuid", "65534", "true").CombinedOutput(); err != nil {
					t.Skipf("this user namespace has no second user: %s", out)
				}
				drop = "/usr/bin/setpriv --bounding-set -all --inh-caps -all --reuid 65534 --clear-groups"
			}
			script := fmt.Sprintf("%s\nexport PATH\nexec %s %s check", c.setup, drop, exe)
			cmd := exec.Command("unshare", "-m", "sh", "-c", script)
			cmd.Env = append(os.Environ(), roleVar+"="+roleProgram)
			out, _ := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
				t.Errorf("%v:\n%s\nwant %q", cmd.ProcessState, out, c.want)
			}
		})
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
