package activity

import (
	"context"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Where the host's kernel does not report exits, a supervisor does, but it can only
// report that an exit begins. The process still closes its files then, in its own
// name. Once it has ended, its pidfd (pidfd_open(2)) is readable, and only then does
// the guest's task end: otherwise those calls would need a new task.

// ending is a process that is about to end.
type ending struct {
	c     host.Caller
	code  int
	nr    uint64 // the call: exit(2) or exit_group(2)
	pidfd int
	over  bool // the guest's task has ended, or nobody watches any more; guarded by Activity.mu
}

// exits handles an exit(2) or exit_group(2) that a supervisor reports.
func (a *Activity) exits(c host.Caller, nr uint64, code int) {
	if e := endingOf(c, nr, code); e != nil {
		a.mu.Lock()
		a.endings = append(a.endings, e)
		a.mu.Unlock()
		go a.awaitEnd(e)
		return
	}
	a.exit(c, code, nr)
}

// endingOf returns the ending of a process, or nil when only one of its threads ends, or
// when the host's kernel cannot tell when the process has ended.
func endingOf(c host.Caller, nr uint64, code int) *ending {
	if nr == abi.SysExit {
		threads, err := os.ReadDir(proc.Path(c.PID, "task"))
		if err != nil || len(threads) != 1 {
			return nil
		}
	}
	fd, err := unix.PidfdOpen(c.PID, 0)
	if err != nil {
		return nil
	}
	return &ending{c: c, code: code, nr: nr, pidfd: fd}
}

// hasEnded reports whether the process has ended, waiting at most the given time.
func (e *ending) hasEnded(within time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(e.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(within.Milliseconds()))
	return err == nil && n > 0
}

// awaitEnd ends the guest's task unless a request does so first.
func (a *Activity) awaitEnd(e *ending) {
	defer unix.Close(e.pidfd)
	for {
		ended := e.hasEnded(time.Second)
		a.mu.Lock()
		if ended {
			a.settleEnds()
		}
		over := e.over
		a.mu.Unlock()
		if over {
			return
		}
	}
}

// settleEnds ends the guest's tasks whose processes have ended. The caller holds mu.
func (a *Activity) settleEnds() {
	a.endings = slices.DeleteFunc(a.endings, func(e *ending) bool {
		if !e.hasEnded(0) {
			return false
		}
		e.over = true
		a.host.AwaitClosed(context.Background())
		a.exit(e.c, e.code, e.nr)
		return true
	})
}

// forgetEnds drops all endings when nobody watches any more. The caller holds mu.
func (a *Activity) forgetEnds() {
	for _, e := range a.endings {
		e.over = true
	}
	a.endings = nil
}
