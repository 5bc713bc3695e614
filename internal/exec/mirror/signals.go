package mirror

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A program of bpf(2) can send the thread a signal whose call it has hit. On Linux the call goes on: a file is removed, a pipe has
// what was written. Only what would sleep ends, and a write to a regular file that the signal kills. The host's kernel would not
// begin the call of a stopped thread that is killed. So signals are sent at the end of the call, or when it sleeps.

// signals are those for a thread that wait for its call.
type signals struct {
	any     atomic.Bool
	mu      sync.Mutex
	waiting []host.Signal
	over    bool // the call is
}

// signal is host.Mirror.Signal.
func (w *Call) signal(s host.Signal) {
	w.sent.mu.Lock()
	defer w.sent.mu.Unlock()
	if w.sent.over {
		go s.Send()
		return
	}
	w.sent.waiting = append(w.sent.waiting, s)
	if !w.sent.any.Swap(true) {
		go w.signalSleeping(s.TID)
	}
}

// sendSignals sends those that wait. With over, later ones do not wait.
func (w *Call) sendSignals(over bool) {
	w.sent.mu.Lock()
	all := w.sent.waiting
	w.sent.waiting = nil
	w.sent.over = w.sent.over || over
	w.sent.mu.Unlock()
	for _, s := range all {
		anySent.Store(true)
		s.Send()
	}
}

// How often a thread is looked at that may sleep in its call, and for how long.
const (
	minLook = time.Millisecond
	maxLook = 20 * time.Millisecond
	maxCall = time.Second
)

// signalSleeping sends the signals of a call that sleeps.
func (w *Call) signalSleeping(tid int) {
	began := time.Now()
	for pause, slept := minLook, false; ; pause = min(2*pause, maxLook) {
		time.Sleep(pause)
		w.sent.mu.Lock()
		wait := len(w.sent.waiting) > 0 && !w.sent.over
		w.sent.mu.Unlock()
		state, lives := proc.Status(tid, "State")
		sleeps := strings.HasPrefix(state, "S") && w.reached.Load()
		switch {
		case !wait && w.ended.Load(), !lives:
			return
		case sleeps && slept, time.Since(began) > maxCall:
			w.sendSignals(true)
			return
		}
		slept = sleeps
	}
}

// anySent is set when a signal was sent, whose origin has to be hidden.
var anySent atomic.Bool

// asKernel makes a signal that a stopped thread is about to get one of the kernel, if this process has sent it.
func asKernel(tid int) {
	if !anySent.Load() {
		return
	}
	const siKernel, siUser, siTkill = 0x80, 0, -6
	info := struct {
		signo, errno, code, _ int32
		pid, uid              int32
		_                     [26]int32
	}{}
	if ptrace(unix.PTRACE_GETSIGINFO, tid, 0, uintptr(unsafe.Pointer(&info))) != nil || info.code != siUser && info.code != siTkill || int(info.pid) != os.Getpid() {
		return
	}
	info.code, info.pid, info.uid = siKernel, 0, 0
	_ = ptrace(unix.PTRACE_SETSIGINFO, tid, 0, uintptr(unsafe.Pointer(&info)))
}

// signalWrite sends a thread's signals before a write to a regular file: those that kill end it before it has written something.
func (t *tracee) signalWrite() {
	if t.regular && t.call.sent.any.Load() && t.row != nil && writes(t.row) {
		t.call.sendSignals(false)
	}
}

// endSignals sends the signals of a thread's call, which is over: those that come now are sent at once.
func (t *tracee) endSignals() {
	if t.call != nil {
		t.call.sendSignals(true)
	}
}

// writes reports whether a call writes its first descriptor.
func writes(row *calls.Row) bool {
	switch row.Guest {
	case abi.SysWrite, abi.SysWritev, abi.SysPwrite64, abi.SysPwritev, abi.SysPwritev2:
		return true
	}
	return false
}
