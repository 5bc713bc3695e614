package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// YieldThread lets other threads of the host run on the caller's processor, for a caller
// that waits for something that takes a few microseconds. runtime.Gosched is not for that:
// it wakes another thread of the program.
func YieldThread() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Limits of how long a thread polls. A thread that has been woken does its next thing
// within 10 to 30 us, where waking is slow.
const (
	minPoll = 20 * time.Microsecond
	maxPoll = 100 * time.Microsecond
)

// A Poll is how long a thread polls for what it waits for before it sleeps, since waking it
// takes longer than what it waits for. As KVM does for a vCPU that has halted, it polls longer
// where that would have been enough, and not so long where even the longest time would not
// have been. The zero value does not poll yet.
type Poll struct{ window time.Duration }

// Again reports whether a thread that has waited since start looks again at once, after
// others have had its processor. If not, it sleeps.
func (p *Poll) Again(start time.Time) bool {
	if time.Since(start) > p.window {
		return false
	}
	YieldThread() // what it waits for may be on this processor
	return true
}

// Waited sets the time for which the thread polls from now on: it has waited so long for
// what has come now.
func (p *Poll) Waited(d time.Duration) {
	switch {
	case d <= p.window:
	case d <= maxPoll:
		p.window = min(max(2*p.window, minPoll), maxPoll)
	default:
		p.window = p.window / 2 / minPoll * minPoll
	}
}
