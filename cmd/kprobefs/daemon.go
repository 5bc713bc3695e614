package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/exec/supervise"
)

// self names this program's file, even after it has been replaced on disk.
const self = "/proc/self/exe"

// daemon is mount --daemon.
func (p *program) daemon(f *mountFlags, dir string) error {
	if err := p.background(f, dir); err != nil {
		return err
	}
	if p.logging.file == "" {
		fmt.Fprintf(os.Stderr, "kprobefs: %s is served in the background; its log goes nowhere, --log-file FILE would keep it\n", dir)
	}
	return nil
}

// backgroundArgs are the flags about the machine for the process in the background. With --restore, the file says most of them.
func (f *mountFlags) backgroundArgs() []string {
	if f.time.restore == "" {
		return f.MachineFlags.Args()
	}
	args := []string{"--engine", f.Engine, "--watchdog", f.Watchdog}
	if f.Memory != "" {
		args = append(args, "--memory", f.Memory)
	}
	return args
}

// background starts this mount command again without a terminal, and returns when its
// files are there.
func (p *program) background(f *mountFlags, dir string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	args := append(append(p.logging.args(), "mount", "--detached", "--ready-fd", "3"), f.backgroundArgs()...)
	if f.mkdir {
		args = append(args, "--mkdir")
	}
	if f.remove {
		args = append(args, "--remove")
	}
	for _, o := range f.options {
		args = append(args, "-o", o)
	}
	args = append(args, f.GDBFlag.Args()...)
	for _, part := range f.parts {
		args = append(args, "--part", part)
	}
	args = append(append(args, f.page.Args()...), f.time.args()...)
	cmd := exec.Command(self, append(args, dir)...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = w.Close()
	said := bufio.NewReader(r)
	line, _ := said.ReadString('\n')
	if where, ok := strings.CutPrefix(line, pagePrefix); ok {
		fmt.Fprint(os.Stderr, "kprobefs: the page: "+where)
		line, _ = said.ReadString('\n')
	}
	if line == "ready\n" {
		_ = cmd.Process.Release()
		return writeReady(f.readyFD)
	}
	_, _ = io.Copy(os.Stderr, stderr) // with the reason
	err = cmd.Wait()
	var e *exec.ExitError
	if errors.As(err, &e) {
		return &cli.ExitError{Err: err, Said: true, Status: e.Sys().(syscall.WaitStatus)}
	}
	return errors.Join(errors.New("the daemon ended at once"), err)
}

// pagePrefix begins the line by which the program in the background says where its page is, before
// it is ready.
const pagePrefix = "page "

// watch starts a process that detaches the mounts if this one is killed, and with remove
// removes their directories: the host's kernel would keep them without a server. stop tells
// it to do nothing.
func watch(mounts []*fs.Mount, remove bool) (stop func(), err error) {
	var dirs []string
	if remove {
		dirs = append(dirs, "--remove")
	}
	for _, m := range mounts {
		dirs = append(dirs, m.Dir)
	}
	_, stop, err = startWatcher(nil, dirs...)
	return stop, err
}

// startWatcher starts the watch command, which acts when all processes that hold alive
// have ended: this one, and those that it passes alive to. stop tells it to do nothing.
// It has its own session, so that a signal to the process group, such as timeout(1)
// sends, does not kill it. If guards is not nil, it first is the guard of a supervisor.
func startWatcher(guards *os.File, args ...string) (alive *os.File, stop func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	cmd := exec.Command(self, append([]string{"watch"}, args...)...)
	if guards != nil {
		cmd.Args = append(cmd.Args, "--guard")
		cmd.ExtraFiles = []*os.File{guards}
	}
	cmd.Dir = "/"
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, nil, fmt.Errorf("start of the watcher: %w", err)
	}
	return w, func() {
		_, _ = w.WriteString("q")
		_ = w.Close()
		_ = cmd.Wait()
	}, nil
}

func watchCommand() *cobra.Command {
	remove, guard := false, false
	c := &cobra.Command{
		Use:    "watch DIR...",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			var errs []error
			if guard { // the supervisor's end comes before the end of both
				unix.CloseOnExec(3)
				errs = append(errs, supervise.Guard(os.NewFile(3, "supervisor")))
			}
			if n, _ := io.ReadFull(os.Stdin, make([]byte, 1)); n == 1 {
				return errors.Join(errs...)
			}
			for _, d := range dirs {
				errs = append(errs, fs.DetachDead(d))
				if remove {
					errs = append(errs, os.Remove(d))
				}
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "remove the directories, which exec made, when dead mounts have been taken off them")
	c.Flags().BoolVar(&guard, "guard", false, "first be the guard of the supervisor at the other end of descriptor 3")
	return c
}

// notify sends a state ("READY=1") to the service manager, as sd_notify(3) does. It does
// nothing without one. A socket name that begins with @ is abstract.
func notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}
