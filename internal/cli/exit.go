package cli

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// UsageStatus is the exit status of a command that was called in a wrong way, as in shells.
const UsageStatus = 2

// Exited is the status of a process that has ended with a number.
func Exited(n int) syscall.WaitStatus { return syscall.WaitStatus(n << 8) }

// ExitError is an error with an exit status.
type ExitError struct {
	Err    error
	Said   bool // the error has been printed
	Status syscall.WaitStatus
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// Exit returns the exit status. If the command died by a signal, this process dies by
// the same signal.
func (e *ExitError) Exit() int {
	if !e.Said {
		fmt.Fprintln(os.Stderr, "kprobefs:", e.Err)
	}
	switch {
	case e.Status.Signaled():
		return dieBy(e.Status.Signal())
	case e.Status.Exited() && e.Status.ExitStatus() != 0:
		return e.Status.ExitStatus()
	}
	return 1
}

// dieBy kills this process with s, unless s leaves a core or stack traces.
func dieBy(s syscall.Signal) int {
	if slices.Contains([]syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGKILL}, s) {
		signal.Reset(s)
		_ = syscall.Kill(os.Getpid(), s)
		time.Sleep(100 * time.Millisecond)
	}
	return 128 + int(s)
}
