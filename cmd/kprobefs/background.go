package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/supervise"
)

// exec returns when its command has ended. Processes that the command has left behind keep their
// kernel: the second process stays until the last of them has ended, in the background, which
// means in a session of its own, without the caller's terminal and pipes, and not as what the first
// process has to wait for. It tells the first process the command's status before that, and the
// watcher removes the place of the tree in the end. A signal ends it earlier; then those processes
// go on without a kernel (supervise.Guard).

// What --wait takes: what exec waits for.
const (
	waitCommand = "command"
	waitAll     = "all"
)

// Descriptors of the second process, from the first.
const (
	aliveFD  = 3 + iota // the watcher notices by it that both have ended
	heldFD              // has the lock on the directory of the tree
	statusFD            // where the command's status is told before the second process goes to the background
	guardFD             // the supervisor's end of the socket to the watcher, which is the guard
)

// commandStatus is what the second process tells the first one when its command has ended.
type commandStatus struct {
	Status   syscall.WaitStatus
	Panicked bool // the emulated kernel, which was not rebooted
}

// err returns the status as exec's error.
func (s commandStatus) err() error {
	switch {
	case s.Panicked:
		return errPanicked
	case s.Status == 0:
		return nil
	}
	return &cli.ExitError{Err: errors.New("the command has failed"), Said: true, Status: s.Status}
}

// runInside runs the second process until it ends, or until it has told that it goes to the
// background. told is the other end of its statusFD.
func runInside(cmd *exec.Cmd, told *os.File) (err error, background bool) {
	status := make(chan commandStatus, 1)
	go func() {
		var s commandStatus
		if line, err := bufio.NewReader(told).ReadBytes('\n'); err == nil && json.Unmarshal(line, &s) == nil {
			status <- s
		}
	}()
	ended := make(chan error, 1)
	sig := forwarded()
	defer signal.Stop(sig)
	err = cmd.Start()
	_ = cmd.ExtraFiles[guardFD-3].Close()
	if err != nil {
		return err, false
	}
	_ = cmd.ExtraFiles[statusFD-3].Close()
	go func() { ended <- waitForwarding(cmd, sig) }()
	select {
	case err := <-ended:
		return err, false
	case s := <-status:
		return s.err(), true
	}
}

// leftBehind is called when the command has ended, and has the second process wait until nothing
// that it has left behind runs, in the background unless --wait=all says otherwise.
func (p *program) leftBehind(f *execFlags, t *execTree, s *supervise.Supervision, status syscall.WaitStatus) {
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(sig)
	if s.Ended(supervise.LingerGrace) {
		return
	}
	if f.wait == waitAll {
		select {
		case <-s.Over:
			return
		case <-sig: // a user who does not want to wait any longer
		}
	}
	if err := goToBackground(commandStatus{status, t.background()}); err != nil {
		p.log.WithField("err", err).Warn("what the command has left behind has no kernel any more")
		return
	}
	select {
	case <-s.Over:
	case <-sig:
	}
}

// goToBackground tells the first process the command's status, when nothing of this process holds
// up what waits for the end of the first.
func goToBackground(s commandStatus) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := withoutOutput(0, 1, 2); err != nil {
		return err
	}
	_, _ = unix.Setsid()
	_ = os.Chdir("/")
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil { // on the main thread, which has it
		return err
	}
	if _, err = unix.Write(statusFD, append(line, '\n')); err != nil {
		return err
	}
	return unix.Close(statusFD)
}

// withoutOutput has these descriptors be /dev/null.
func withoutOutput(fds ...int) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for _, fd := range fds {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// lingerCommand allows the calls of processes that have outlived their supervisor. Its descriptor 3 is the
// filter's listener, and 4, if it has one, the memory with the calls that the supervisor has not answered.
func lingerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "linger",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			memory := os.NewFile(4, "pending")
			if _, err := memory.Stat(); err != nil {
				memory = nil
			}
			supervise.AllowAll(3, memory)
		},
	}
}

// supervisedCommand is the process that becomes the command. Its descriptor 3
// is the way to the supervisor.
func (p *program) supervisedCommand() *cobra.Command {
	var kernel supervise.Identity
	uname, told := "", supervise.Notified{}
	c := &cobra.Command{
		Use:    "supervised FILE -- ARGV...",
		Hidden: true,
		Args:   cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			unix.CloseOnExec(3)
			kernel.Hosts = uname == supervise.UnameHost
			if err := supervise.FilterSelf(kernel, told); err != nil {
				p.log.WithField("err", err).Debug("no supervisor")
			}
			_ = unix.Close(3)
			err := syscall.Exec(args[0], args[1:], os.Environ())
			if errors.Is(err, syscall.ENOENT) && hostview.Exists(args[0]) {
				err = errors.New("its interpreter does not exist")
			}
			return cannotRun(fmt.Errorf("%s: %w", args[0], err))
		},
	}
	c.Flags().StringVar(&uname, "uname", "", "")
	c.Flags().BoolVar(&told.Quiet, "quiet", false, "")
	c.Flags().BoolVar(&told.Plain, "plain", false, "")
	c.Flags().BoolVar(&told.Maps, "maps", false, "")
	return c
}
