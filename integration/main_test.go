package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/integration/locking"
)

// scriptTimeout bounds one script, boot of the machine included.
const scriptTimeout = 5 * time.Minute

// built is the directory of the kprobefs binary, empty if none was built.
var built string

func TestMain(m *testing.M) {
	if os.Getenv(clientVar) != "" { // this is the program that runs inside "kprobefs exec"
		os.Exit(client())
	}
	if os.Getenv(refusedVar) != "" {
		os.Exit(refusedClient())
	}
	if os.Getenv(bpfVar) != "" {
		os.Exit(bpfClient())
	}
	if os.Getenv(copyVar) != "" {
		if err := copyFile(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	for _, name := range []string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS"} { // of the make that runs the tests
		if err := os.Unsetenv(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if os.Getenv(knobsVar) != "" {
		os.Exit(playKnobs())
	}
	if os.Getenv(locking.ActorVar) != "" {
		locking.Act()
		os.Exit(0)
	}
	if os.Getenv(locksVar) != "" {
		if err := locking.Record(os.Stdout, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(grammarVar) != "" {
		os.Exit(playGrammar())
	}
	status := 1
	func() {
		dir, err := os.MkdirTemp("", "kprobefs-integration")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil { // ordinary users run the program
			fmt.Fprintln(os.Stderr, err)
			return
		}
		if _, err := Build(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		built = dir
		status = m.Run()
	}()
	os.Exit(status)
}

// needFUSE skips the test if this machine cannot mount.
func needFUSE(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("FUSE is missing here: %v", err)
	}
	f.Close()
	if os.Getuid() == 0 {
		needUnshare(t)
	}
}

// needUnshare skips the test if not even root can create a mount namespace, as in a
// plain container.
func needUnshare(t *testing.T) {
	t.Helper()
	out, err := exec.Command("unshare", "-m", "true").CombinedOutput()
	if err != nil {
		t.Skipf("no private mount namespace here: %v %s", err, out)
	}
}

func needBusybox(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("busybox"); err != nil {
		t.Skip("busybox is missing (Debian: busybox-static)")
	}
}

// asUser is an argv prefix that runs a command as an ordinary user in a mount
// namespace whose /dev/fuse that user may open. If empty, the command runs as the
// current user.
type asUser []string

// ordinary returns such a prefix. It needs root to create the device node.
func ordinary(t *testing.T) asUser {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is missing (Debian: util-linux)")
	}
	node := filepath.Join(publicDir(t), "fuse")
	if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 229))); err != nil {
		t.Skipf("no device node for an ordinary user: %v", err)
	}
	if err := os.Chmod(node, 0o666); err != nil {
		t.Fatal(err)
	}
	user := asUser{"unshare", "-m", "sh", "-c", `mount --bind "$0" /dev/fuse && exec setpriv --reuid 1000 --regid 1000 --clear-groups "$@"`, node}
	out, err := exec.Command(user[0], append(user[1:], "unshare", "-Urm", "sh", "-c", "exec 3<>/dev/fuse")...).CombinedOutput()
	if err != nil {
		t.Skipf("an ordinary user gets no user namespace with FUSE here: %v %s", err, out)
	}
	return user
}

// publicDir returns a new directory that every user may write to.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kprobefs-case")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// kprobefs runs "kprobefs exec --cpus CPUS -- ARGS" in dir and returns its combined
// output and exit status.
func (user asUser) kprobefs(t *testing.T, dir string, env []string, cpus int, args ...string) (string, int) {
	t.Helper()
	return user.exec(t, dir, env, []string{"--cpus", fmt.Sprint(cpus)}, args...)
}

// exec does the same with other flags than --cpus.
func (user asUser) exec(t *testing.T, dir string, env, flags []string, args ...string) (string, int) {
	t.Helper()
	argv := slices.Concat(user, []string{filepath.Join(built, "kprobefs")}, ExecArgs(flags, args...))
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...) // Linux's initrd has no other locale
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("no end within %v; it printed:\n%s", scriptTimeout, out.String())
	case err != nil && !errors.As(err, &exit):
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// noMountsLeft fails if a mount of kprobefs is left in the tests' namespace.
func noMountsLeft(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, "kprobefs") && strings.Contains(line, "fuse") {
			t.Errorf("left mounted: %s", line)
		}
	}
}
