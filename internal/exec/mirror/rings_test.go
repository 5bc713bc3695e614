package mirror

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// TestRingsExec: a program that a traced thread executes rings, without a supervisor or anything that can be seen.
func TestRingsExec(t *testing.T) {
	if !canRing || os.Getuid() != 0 || !canMirror() {
		t.Skip("a command in a namespace of its own is traced: root may do that")
	}
	cmd := exec.Command("sh", "-c", "echo old; read _; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exec sh -c 'echo new; read _; echo end'")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
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
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	says := bufio.NewScanner(out)
	expect := func(want string) {
		t.Helper()
		if !says.Scan() || says.Text() != want {
			t.Fatalf("the command says %q, want %q", says.Text(), want)
		}
	}
	expect("old")

	pid := cmd.Process.Pid
	space, err := proc.Namespace(pid, "mnt")
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	m := New(log)
	m.Tell(func(int) {})
	if err := m.Join(space, os.Getpid(), "/proc/self/exe", false); err != nil {
		t.Fatal(err)
	}
	m.Mirror(true)
	t.Cleanup(func() { m.Mirror(false); m.Leave(space) })
	fmt.Fprintln(in) // the command counts until it is traced
	expect("new")

	rings := false
	for range 100 {
		m.do(func() { rings = m.images[pid] != nil && len(m.images[pid].rooms) > 0 })
		if rings {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !rings {
		t.Error("the new program does not ring")
	}
	fmt.Fprintln(in)
	expect("end")
}

// TestTextOfEnded: that the file of a process which has ended cannot be opened is not remembered: the next process that maps
// the file rings.
func TestTextOfEnded(t *testing.T) {
	all, err := executables(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	at := all[slices.IndexFunc(all, func(a mapping) bool { return a.Ino != 0 })]
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	files := texts{known: map[fileID]*fileText{}}
	read := func(pid int) *fileText {
		done := make(chan struct{})
		f := files.of(pid, &at, true, func() { close(done) })
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("the file is not read")
		}
		return f
	}
	if f := read(ended.Process.Pid); f.text != nil || files.of(0, &at, false, nil) != nil {
		t.Error("something is known of the file")
	}
	if f := read(os.Getpid()); !f.done.Load() || files.of(0, &at, false, nil) != f {
		t.Error("nothing is known of the file")
	}
}
