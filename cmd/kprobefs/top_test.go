package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gdamore/tcell/v3/vt"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/cli"
)

// TestTopRefused: where the screen cannot be shown, a sentence says what can be done instead.
func TestTopRefused(t *testing.T) {
	dir := t.TempDir()
	mounted(t, dir)
	if out, st := output(t, "top", "--at", dir); st.ExitCode() != 1 || !strings.Contains(out, "kprobefs list") {
		t.Errorf("without a terminal: %v: %s", st, out)
	}
	for _, term := range []string{"dumb", ""} {
		p := startOnTerminal(t, 80, 24, "TERM="+term, "top", "--at", dir)
		if err := within(t, endLimit, p.done, "top"); err == nil {
			t.Errorf("TERM=%s: no error", term)
		}
		<-p.copied
		if text := p.text(); !strings.Contains(text, "cannot place text") || !strings.Contains(text, "kprobefs list") {
			t.Errorf("TERM=%s: %s", term, text)
		}
	}
	if out, st := output(t, "top", "--at", dir, "--interval", "1ms"); st.ExitCode() != cli.UsageStatus || !strings.Contains(out, "at least 50ms") {
		t.Errorf("%v: %s", st, out)
	}
}

// terminal is an emulated terminal that a program runs on.
type terminal struct {
	cmd    *exec.Cmd
	done   chan error
	master *os.File
	screen vt.MockTerm
	copied chan struct{} // the program's output has ended
}

// startOnTerminal starts the program on a terminal of its own.
func startOnTerminal(t *testing.T, width, height int, env string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	p := &terminal{
		cmd: runProgram(args...), done: make(chan error, 1), master: master, copied: make(chan struct{}),
		screen: vt.NewMockTerm(vt.MockOptSize{X: vt.Col(width), Y: vt.Row(height)}),
	}
	p.cmd.Env = append(p.cmd.Env, "LANG=C.UTF-8", "NO_COLOR=", env)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.screen.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { p.done <- p.cmd.Wait(); close(ended) }()
	go p.show()
	go p.answer()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-ended
		_ = p.screen.Stop()
		_ = master.Close()
	})
	return p
}

// show copies the program's output to the screen.
func (p *terminal) show() {
	defer close(p.copied)
	buf := make([]byte, 4096)
	for {
		n, err := p.master.Read(buf)
		_, _ = p.screen.Write(buf[:n])
		if err != nil { // EIO once the program has ended
			return
		}
	}
}

// answer copies what the terminal answers to the program's questions.
func (p *terminal) answer() {
	buf := make([]byte, 4096)
	for {
		n, err := p.screen.Read(buf)
		if err != nil {
			return
		}
		if n > 0 {
			_, _ = p.master.Write(buf[:n])
		}
	}
}

// text returns what is on the screen.
func (p *terminal) text() string {
	size, _ := p.screen.WindowSize()
	var b strings.Builder
	for y := range size.Height {
		for x := range size.Width {
			c := p.screen.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)})
			if c.C == "" {
				c.C = " "
			}
			b.WriteString(c.C)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (p *terminal) wants(t *testing.T, text string) {
	t.Helper()
	if !ends(func() bool { return strings.Contains(p.text(), text) }) {
		t.Fatalf("no %q:\n%s", text, p.text())
	}
}

func (p *terminal) keys(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// TestTop: the screen shows a mounted machine, a key switches a probe off, another shows the text
// with the changed byte, and the terminal is as before at the end.
func TestTop(t *testing.T) {
	dir := mountLooping(t).dir
	writeTree(t, filepath.Join(dir, "tracing/kprobe_events"), "p:mine vfs_read\n")
	writeTree(t, filepath.Join(dir, "tracing/events/kprobes/mine/enable"), "1")
	p := startOnTerminal(t, 100, 30, "TERM=xterm", "top", "--at", dir, "--interval", "100ms")
	p.wants(t, "1 probes, 1 armed")
	p.wants(t, "vfs_read+0x0")
	p.keys(t, "\r")
	p.wants(t, "text of vfs_read")
	p.wants(t, "was ")
	p.keys(t, "q")
	p.wants(t, "HITS/s")
	p.keys(t, "q")
	if err := within(t, endLimit, p.done, "top"); err != nil {
		t.Errorf("%v", err)
	}
	p = startOnTerminal(t, 60, 20, "TERM=screen", "top", "--at", dir, "--interval", "100ms")
	p.wants(t, "1 armed")
	p.keys(t, " ")
	p.wants(t, "kprobes/mine is disabled")
	wantFile(t, filepath.Join(dir, "tracing/events/kprobes/mine/enable"), "0\n")
	p.wants(t, "0 armed")
	p.keys(t, "\x1a")            // no shell could continue it, so it does not stop
	traced := ends(func() bool { // what is typed while the terminal is given back is lost
		p.keys(t, "t")
		return strings.Contains(p.text(), "mine: (vf")
	})
	if !traced {
		t.Fatalf("no trace:\n%s", p.text())
	}
	p.keys(t, "l")
	p.wants(t, "Linux version")
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := within(t, endLimit, p.done, "top"); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// TestTopSilent: a tree that does not answer is said to be one, and does not keep the screen from
// ending.
func TestTopSilent(t *testing.T) {
	dir := t.TempDir()
	cmd := mounted(t, dir)
	p := startOnTerminal(t, 120, 20, "TERM=xterm", "top", "--at", dir, "--interval", "100ms")
	p.wants(t, "machine/probed: no such file") // the tests' tree has none
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(unix.SIGCONT) })
	p.wants(t, "has not answered for 3s")
	p.keys(t, "q")
	if err := within(t, endLimit, p.done, "top"); err != nil {
		t.Errorf("%v", err)
	}
}
