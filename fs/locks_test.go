package fs

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile opens name and takes flock(2)'s exclusive lock.
func lockFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestLockWaitersSurviveTheDaemon: when the daemon is killed, processes that wait for
// a lock get an error.
func TestLockWaitersSurviveTheDaemon(t *testing.T) {
	d := start(t)
	name := d.path("kprobes/enabled")
	held := lockFile(t, name)
	got := make(chan error, 2)
	for _, wait := range []func(f *os.File) error{
		func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_SH) },
		func(f *os.File) error {
			return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK})
		},
	} {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		go func() { got <- wait(f) }()
	}
	if err := <-got; err != nil { // the fcntl lock, which has no conflict
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	_ = d.cmd.Process.Kill()
	select {
	case err := <-got:
		if !errors.Is(err, syscall.ENOTCONN) && !errors.Is(err, syscall.ECONNABORTED) {
			t.Errorf("the waiter got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the waiter hangs")
	}
	want(t, "a lock of the dead mount", unix.Flock(int(held.Fd()), unix.LOCK_SH), syscall.ENOTCONN)
}

// TestLockWaitIsInterrupted: a signal whose handler does not restart calls ends a
// wait with EINTR, and the lock is not granted later.
func TestLockWaitIsInterrupted(t *testing.T) {
	d := start(t)
	name := d.path("kprobes/enabled")
	held := lockFile(t, name)
	cmd := exec.Command("perl", "-e", `
		open F, "<", shift; $SIG{ALRM} = sub {}; alarm 1;
		print flock(F, 2) ? "locked" : $!{EINTR} ? "EINTR" : $!, "\n"; $| = 1; print ""; <STDIN>`, name)
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
		t.Skip("perl is missing")
	}
	text := make([]byte, 16)
	n, _ := io.ReadAtLeast(out, text, 6)
	if got := strings.TrimSpace(string(text[:n])); got != "EINTR" {
		t.Errorf("got %q", got)
	}
	want(t, "unlock", unix.Flock(int(held.Fd()), unix.LOCK_UN), nil)
	lockFile(t, name) // the interrupted process still has the file open
	_ = in.Close()
	_ = cmd.Wait()
}

// TestLockEndsWithClose: a lock released by close(2) is free when close has returned.
func TestLockEndsWithClose(t *testing.T) {
	d := start(t)
	name := d.path("kprobes/enabled")
	for range 200 {
		f := lockFile(t, name)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
