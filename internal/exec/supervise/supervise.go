// Package supervise answers for a command what the host's kernel asks before it makes the command's calls.
//
// exec runs its command under a seccomp filter that sends a user notification before
// some system calls. handlers (handlers.go) says who answers which. All of them are then made, except as said below.
//
// Before an lseek(2) that asks for the position (SEEK_CUR), the supervisor corrects the
// position of a file of ours: writes to some files do not move it, but FUSE cannot
// express that, and the host's kernel moves it.
//
// Before a call of calls.Told, while somebody watches, the guest makes the same call,
// so that probes see it (handlers.go).
//
// What programs see of our mounts, and a mount(2) of tracefs or debugfs, is answered as
// if ours were these file systems (filesystems.go). A proc or sysfs that a program mounts is covered as
// exec's own are (package space).
//
// Calls that load and unload modules, read the kernel's log and ask for its name are
// answered for the emulated kernel (kernelcalls.go).
//
// Opens of files that modules have made in /proc are answered with a descriptor
// (procnames.go).
//
// Calls of perf_event_open(2) for our events are answered with a descriptor, whose mmap(2) is
// prepared before it is made (perfcalls.go).
//
// Other calls of perf_event_open(2) and bpf(2) that would reach the host's tracepoints and
// probes are refused (refused.go).
//
// A splice(2) from a file that fills the pages of a pipe in part is answered (splice.go).
//
// Other calls are not affected, and if the filter cannot be installed the command runs
// without it. The filter stays with processes that outlive the command or the supervisor, so a
// process must remain that answers them: Guard.
package supervise

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
	"github.com/kprobefs/kprobefs/internal/exec/space"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
)

// Supervised is what a supervisor needs to know.
type Supervised struct {
	Dirs   []string      // where our files are mounted
	Calls  *wire.Client  // to the serving process
	Kernel Identity      // the emulated kernel
	Made   *space.Places // files of modules
	Knobs  space.Knobs
	BPF    string // what --bpf says
	Quiet  bool   // the serving process sees to calls by itself
	Plain  bool   // the supervisor tells of plain calls (calls.Row.Plain)
	Maps   bool   // no descriptor is exchanged while it is mapped (perfcalls.go)
	// Guard is the socket to the process that waits in Guard, or nil if there is none.
	Guard *os.File
}

// paths returns the paths at which files of ours are.
func (s *Supervised) paths() []string { return append(s.Made.Dirs(), s.Dirs...) }

// supervisor answers the notifications of one filter.
type supervisor struct {
	log      *logrus.Logger
	listener int
	Supervised
	refuser *refuser
	usesBPF sync.Map // the processes that have made a bpf(2) of ours: uint64
	groups  hostview.ThreadGroups
	swaps   swaps
	owned   sync.Map // fs.Ownership by the name of a file system, as mount options said
	sources sync.Map // what was named as the source of a mount(2) of ours, by the mount's id

	begun         atomic.Bool // the command has executed a program
	notifications *notify.Listener
	unanswered    *notify.Pending
	answers       sync.WaitGroup // to notifications, that a receiver has left to another goroutine
	pending       sync.Map       // their *caller, by the notification's id
}

func newSupervisor(log *logrus.Logger, listener int, of Supervised) *supervisor {
	s := &supervisor{log: log, listener: listener, Supervised: of, unanswered: notify.NewPending()}
	s.refuser = newRefuser(func(why string) { log.Warn(why) })
	s.refuser.passed = func(call string, kind uint32) {
		log.WithFields(logrus.Fields{"call": call, "type": kind}).Debug("left to the host")
	}
	s.notifications = notify.NewListener(listener, s.unanswered, s.answer)
	return s
}

// run answers notifications until the last process with the filter ends.
func (s *supervisor) run() {
	// Two wait in system calls, for notifications and for the serving process: Go's monitor takes up to 10 ms to notice that
	// they do nothing, and a new goroutine would wait so long.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	s.notifications.Run()
}

// later answers a notification without delaying others.
func (s *supervisor) later(c *notify.Caller, answer func()) {
	s.pending.Store(c.ID, c)
	s.answers.Go(func() {
		answer()
		s.pending.Delete(c.ID)
		c.Over()
	})
}

// settle gives the notifications that this process has received their answers, those
// that take too long like a process that lingers, and receives no more: another process takes
// over the listener.
func (s *supervisor) settle() {
	allow := func(c *notify.Caller) { allowLast(c, s.refuser) }
	s.notifications.Stop(allow)
	done := make(chan struct{})
	go func() {
		s.answers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(notify.SettleGrace):
		s.pending.Range(func(_, c any) bool {
			allow(c.(*notify.Caller))
			return true
		})
	}
}

// ours reports whether a descriptor is one of our files.
func (s *supervisor) ours(c *notify.Caller, fd int) bool {
	return hostview.Below(c.FileName(fd), s.paths())
}
