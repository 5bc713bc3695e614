package activity

import (
	"context"
	"sync"

	"github.com/kprobefs/kprobefs/kernel/host"
)

// What a supervisor only tells of (Call) the guest repeats before the host's kernel does
// it, and the result is the guest's own. A mirrored call ends in the guest when it has
// ended on the host, with the same result. Only one who can stop the process before and
// after its call, by ptrace(2), can have that: a Mirror.

// callSet is a set of system calls, by their numbers on x86-64.
type callSet [8]uint64

func (s *callSet) add(nr uint64) {
	if nr < 64*uint64(len(s)) {
		s[nr/64] |= 1 << (nr % 64)
	}
}

func (s *callSet) has(nr uint64) bool { return nr < 64*uint64(len(s)) && s[nr/64]>>(nr%64)&1 != 0 }

// and returns the calls that are in both sets.
func (s callSet) and(o callSet) callSet {
	for i := range s {
		s[i] &= o[i]
	}
	return s
}

// Mirror stops processes at their calls.
type Mirror interface {
	// Calls returns the numbers on x86-64 of the calls that it can stop at.
	Calls() []uint64
	// Mirror is called when other calls than before are of interest, or none, before the
	// request that causes this is answered. From then on each call of interest (Mirrored) is to
	// be made by Activity.Mirror.
	Mirror(on bool)
	// StopAnswered is called, while calls are of interest, before a request of a thread is
	// answered. The thread waits for that, so it cannot be stopped before.
	StopAnswered(tid int)
}

// setMirrors tells the mirrorer, if the calls are others than before, or told is set: the calls of
// Told are. The caller holds mu.
func (a *Activity) setMirrors(calls callSet, told bool) {
	if a.mirror == nil {
		return
	}
	was := a.mirrors.Swap(&calls)
	none := callSet{}
	if told || was == nil && calls != none || was != nil && *was != calls {
		a.mirror.Mirror(calls != none)
	}
}

// mirrored returns the calls that are mirrored and that somebody could see.
func (a *Activity) mirrored() callSet {
	if s := a.mirrors.Load(); s != nil {
		return *s
	}
	return callSet{}
}

// Mirrored reports whether a call, by its number on x86-64, is mirrored and somebody
// could see it.
func (a *Activity) Mirrored(nr uint64) bool {
	s := a.mirrors.Load()
	return s != nil && s.has(nr)
}

// UserStacks reports whether somebody could ask for the stack or the registers with which threads have made their calls.
func (a *Activity) UserStacks() bool { return a.tracer.UserStacks() }

// SetRegisters sets who knows those registers.
func (a *Activity) SetRegisters(f host.UserRegs) { a.host.OnUserRegs(f) }

// Told reports whether somebody could see a call that supervisors tell of (Call), by its number
// on x86-64.
func (a *Activity) Told(nr uint64) bool { return a.state.Load()&CallBit(nr) != 0 }

// Mirror makes a call in the guest, after everything that has happened before it. It
// returns when the call has returned in the guest.
func (a *Activity) Mirror(c host.Caller, m *host.Mirror) {
	a.host.AwaitClosed(context.Background())
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		m.Reached()
		return
	}
	a.catchUp(c)
	a.mu.Unlock()
	if a.host.Ended(c.TID) { // in the call, which the host's kernel has not made either
		m.Reached()
		return
	}
	_, _ = a.host.Mirror(c, m)
}

// Answer has the guest make a call of a program that f answers in place of the host's kernel, if
// somebody could see the call. f runs once, when the guest has come to where the call's work is
// done, and its result is the call's; where the guest does not come there, f runs nevertheless.
func (a *Activity) Answer(c host.Caller, nr uint64, args [6]uint64, f func() int64) {
	once := sync.OnceValue(f)
	a.Update()
	if w := a.watched.Load(); w != nil && w.mirrored.has(nr) {
		a.Mirror(c, &host.Mirror{
			Syscall: host.Syscall{Nr: nr, Args: args}, Reached: func() {}, Made: func() host.Made { return host.Made{Ret: once()} },
		})
	}
	once()
}

// CaughtUp returns where a call of c is made in the guest, for host.StartMirror, or nil where something has happened
// before that the guest has yet to repeat. It does not wait.
func (a *Activity) CaughtUp(c host.Caller) *host.Host {
	if !a.host.AwaitClosed(noTime) || !a.mu.TryLock() {
		return nil
	}
	defer a.mu.Unlock()
	if a.closed || !a.caughtUp(c) {
		return nil
	}
	return a.host
}

// noTime is a context that has ended.
var noTime = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
