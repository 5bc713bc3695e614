// Package notify receives the user notifications of a seccomp filter, and knows the thread that waits for the
// answer to one.
package notify

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
)

// Listener receives the notifications of a filter, each of which has a call wait for its
// answer. A thread, the receiver, waits in the ioctl(2) that receives: the host's kernel wakes
// it on the processor of the call, and it answers most calls where it is, without another
// switch between threads. What it looks at for that can be held up by a hostile program, whose
// memory may be served by userfaultfd(2): then another receiver takes its place (watch).
type Listener struct {
	fd      int
	pending *Pending
	answer  func(*Caller)

	current  atomic.Pointer[receiver] // the one that receives
	received atomic.Uint64            // number of notifications
	stopped  atomic.Bool
	watching atomic.Bool
	watched  chan struct{} // gets a value when watching becomes true

	mu        sync.Mutex
	receivers map[*receiver]struct{} // those that have not ended
}

// receiver is a thread that receives.
type receiver struct {
	tid atomic.Int32
	now atomic.Pointer[Caller] // the notification that it answers, or nil
}

// NewListener returns a listener that calls answer with each notification of a filter. Those without an
// answer are in pending.
func NewListener(fd int, pending *Pending, answer func(*Caller)) *Listener {
	// The notifying task hands its processor over at once; since Linux 6.6.
	const setFlags, syncWakeUp = 0x40082104, 1 // SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), setFlags, syncWakeUp)
	hostview.SetSignalFlags(hostview.InterruptSignal, 0, hostview.SaRestart) // a receiver that gets it fails with EINTR
	return &Listener{fd: fd, pending: pending, answer: answer, watched: make(chan struct{}, 1), receivers: map[*receiver]struct{}{}}
}

// Run answers notifications until the last process with the filter has ended.
func (l *Listener) Run() {
	l.start()
	over := make(chan struct{})
	defer close(over)
	go l.watch(over)
	for !l.ended(-1) {
	}
	l.Stop(func(*Caller) {})
}

// ended waits ms milliseconds at most until the last process with the filter has ended, and
// reports whether it has.
func (l *Listener) ended(ms int) bool {
	poll := []unix.PollFd{{Fd: int32(l.fd)}} // for POLLHUP and POLLERR: notifications do not wake it
	_, err := unix.Poll(poll, ms)
	return err == nil && poll[0].Revents != 0 || err != nil && !errors.Is(err, unix.EINTR)
}

// start starts a receiver, which replaces the current one, unless stop was called.
func (l *Listener) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped.Load() {
		return
	}
	r := &receiver{}
	l.receivers[r] = struct{}{}
	l.current.Store(r)
	go l.receive(r)
}

// receive answers notifications until stop, or until another receiver has replaced r.
func (l *Listener) receive(r *receiver) {
	soon() // and the thread ends with the goroutine, since it is locked to it
	r.tid.Store(int32(unix.Gettid()))
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.receivers, r)
	}()
	s := l.pending.next()
	defer func() { s.answered() }() // nothing was received to it
	for l.current.Load() == r && !l.stopped.Load() {
		err := SeccompIoctl(l.fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(s.notif))
		switch {
		case err == nil:
			n := *s.notif
			c := NewCaller(&n, l.fd)
			c.slot = s
			s = l.pending.next()
			r.now.Store(c)
			l.received.Add(1)
			if !l.watching.Load() && l.watching.CompareAndSwap(false, true) {
				l.watched <- struct{}{}
			}
			l.answer(c)
			r.now.Store(nil)
		case errors.Is(err, unix.EINTR): // by a signal of Go's scheduler (before Linux 6.6), or of stop
		case errors.Is(err, unix.ENOENT) && !l.ended(0): // the notifying task has been killed
		default:
			return
		}
	}
}

// watch replaces a receiver that is held up for longer than a tick. It ticks only while
// notifications come.
func (l *Listener) watch(over <-chan struct{}) {
	const tick, idle = 5 * time.Millisecond, 20
	for {
		select {
		case <-over:
			return
		case <-l.watched:
		}
		for again := true; again; {
			var last *Caller
			before := l.received.Load()
			for quiet := 0; quiet < idle; quiet++ {
				time.Sleep(tick)
				now := l.current.Load().now.Load()
				if now != nil && now == last {
					l.start()
				}
				last = now
				if n := l.received.Load(); n != before || now != nil {
					before, quiet = n, 0
				}
			}
			l.watching.Store(false)
			again = l.received.Load() != before && l.watching.CompareAndSwap(false, true)
		}
	}
}

// Stop returns when no notification will be received any more, and those that have been are
// answered, or late has been called with them because that took longer than SettleGrace.
func (l *Listener) Stop(late func(*Caller)) {
	l.mu.Lock()
	l.stopped.Store(true)
	l.mu.Unlock()
	for end := time.Now().Add(SettleGrace); ; time.Sleep(50 * time.Microsecond) {
		l.mu.Lock()
		for r := range l.receivers {
			switch n := r.now.Load(); {
			case n != nil && time.Now().After(end):
				late(n)
				delete(l.receivers, r)
			case n == nil && r.tid.Load() != 0:
				_ = unix.Tgkill(unix.Getpid(), int(r.tid.Load()), hostview.InterruptSignal) // which does nothing else
			}
		}
		left := len(l.receivers)
		l.mu.Unlock()
		if left == 0 {
			return
		}
	}
}

// SettleGrace bounds the time that settle takes. The serving process has ended then, so
// nothing is left to wait for but the host's files.
const SettleGrace = time.Second

// soon makes the kernel run this thread as soon as possible. Until a notification is
// received, a signal interrupts the call, which then fails with EINTR if the signal's handler
// does not restart calls; open(2) and fork(2) never do that otherwise. What is not allowed is
// skipped.
func soon() {
	runtime.LockOSThread()
	fifo := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	if unix.SchedSetAttr(0, fifo, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20)
	}
}

// SeccompIoctl makes an ioctl(2) of seccomp. All fail with EINTR when a signal comes while
// they wait for a lock, such as those by which Go's scheduler interrupts threads: an answer
// that is not sent again leaves the caller waiting for ever. A NOTIF_RECV is not repeated,
// since it might wait for a notification after the last one.
func SeccompIoctl(fd int, command uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), command, uintptr(arg))
		switch {
		case errno == 0:
			return nil
		case errno != unix.EINTR || command == unix.SECCOMP_IOCTL_NOTIF_RECV:
			return errno
		}
	}
}
