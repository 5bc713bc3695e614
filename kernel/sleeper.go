package kernel

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
)

// A handler of a probe must not sleep. On Linux one that does is reported ("scheduling
// while atomic"), sleeps, and goes on. Here the hit is handled in Go while the handler is
// called, so what is left of the hit is done when the handler goes to sleep, as if it had
// returned 0 (abi.Trap.Away), and the handler is no longer called but a part of what its
// task executes. When it returns, the task goes on behind the hit.

// sleeper is a call of a guest's handler whose task has called the scheduler.
type sleeper struct {
	task uint64
	back uint64 // where the handler returns to, behind the hlt
	sp   uint64 // the stack pointer then
	regs uint64 // address of the pt_regs that it got
	nmi  bool   // it was called for an int3, which counts as an NMI

	was   cpu.Suspended
	ax    uint64    // the answer to the callback
	after *abi.Regs // of an int3: the registers to go on with
}

// sleepers are a machine's, by task. A task can have several: a handler that has slept
// can come to another probe's.
type sleepers struct {
	n  atomic.Int32 // how many there are
	mu sync.Mutex
	of map[uint64][]*sleeper
}

// add adds a sleeper of a task.
func (l *sleepers) add(s *sleeper) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[uint64][]*sleeper{}
	}
	l.of[s.task] = append(l.of[s.task], s)
	l.n.Add(1)
}

// take removes the sleeper that returns to back with the stack pointer sp. It returns nil
// if there is none.
func (l *sleepers) take(task, back, sp uint64) *sleeper {
	if l.n.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[task]
	i := slices.IndexFunc(of, func(s *sleeper) bool { return s.back == back && s.sp == sp })
	if i < 0 {
		return nil
	}
	s := of[i]
	l.n.Add(-1)
	if l.of[task] = slices.Delete(of, i, i+1); len(l.of[task]) == 0 {
		delete(l.of, task)
	}
	return s
}

// forget removes the sleepers of a task that has ended.
func (l *sleepers) forget(task uint64) {
	if l.n.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n.Add(-int32(len(l.of[task])))
	delete(l.of, task)
}

// left reports whether the vCPU has left the task that was hit: the registers are another
// one's. If the task sleeps in a handler, ax is the answer to the callback, and regs, if not
// nil, are the registers to go on with when it has woken up.
func (v *vcpu) left(t *abi.Trap, ax uint64, regs *abi.Regs) bool {
	switch {
	case t.Gone:
		t.Gone = false
	case t.Away:
		t.Away = false
		s := v.asleep
		v.asleep, s.ax = nil, ax
		if regs != nil {
			after := *regs
			s.after = &after
		}
		v.m.sleepers.add(s)
	default:
		return false
	}
	return true
}

// awake reports whether the vCPU has come to the end of a handler that has slept, and
// goes on behind the hit. If that was an int3, the count of its NMI has been lost, which
// Linux 5.8 and later take for a bug: guest code says so, and ends the task. Where the hit
// has not ended yet on the vCPU that the task slept on, the hlt is executed again.
func (v *vcpu) awake() bool {
	const hltLen = 1
	s := v.m.sleepers.take(v.currentTask(), v.cpu.RIP, v.cpu.R[rsp])
	switch {
	case s == nil && slices.Contains(v.m.handlers.Load().returns[:], v.cpu.RIP-hltLen):
		v.cpu.RIP -= hltLen
		runtime.Gosched()
		return true
	case s == nil:
		return false
	case s.nmi && v.m.slept != 0:
		if p := v.regsAt(s.regs); p != nil && s.after != nil {
			*p = *s.after
		}
		v.cpu.R[rsp], v.cpu.R[rdi] = s.regs, s.regs
		v.cpu.RIP = v.m.slept
		return true
	}
	flags := v.cpu.RFlags
	v.cpu.ResumeLater(&s.was, s.ax)
	if s.after != nil {
		v.cpu.GoOn(s.after.Get(&v.cpu.R))
	}
	v.cpu.RFlags = v.cpu.RFlags&^abi.FlagIF | flags&abi.FlagIF
	v.cpu.WantIRQ(v.pending())
	return true
}
