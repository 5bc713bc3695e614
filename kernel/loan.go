package kernel

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// A vCPU is executed by the goroutine that holds own: its own one (loop) or the one of a
// request, which has borrowed it so that nobody must be woken. A borrower stops where
// the request needs it, at any exit; the vCPU is then left as it is, and whoever
// continues it next just goes on. That is
//
//   - while the request's file operation runs (suspend): the borrower, or loop, if
//     there is an interrupt or the operation is going to wait,
//   - when the call has ended (parked): the next borrower, or loop when there is an
//     interrupt, at the latest the guest's next tick.
//
// Everything that makes work for a vCPU calls wakeUp, so loop comes then.

// maxLoan is how long a goroutine executes a borrowed vCPU before it gives that back and
// attends to its context again.
const maxLoan = 2 * time.Millisecond

// loan is the part of a vCPU that is about its being lent. own guards all of it.
type loan struct {
	own    sync.Mutex
	lent   uint64        // host_call of the call for which the vCPU is lent, or 0
	parked atomic.Uint64 // host_call of the task whose call has just ended here, or 0; it may be read without own
	others func() bool   // set while the borrower runs a file operation: others may go on if it returns true
}

var _ host.VCPU = (*vcpu)(nil)

// take reports whether the goroutine that has just got own may continue the vCPU.
func (v *vcpu) take() bool {
	if v.others != nil && !v.others() {
		return false
	}
	v.lent, v.others = 0, nil
	v.parked.Store(0)
	return true
}

// borrowPatience is how long the goroutine of a request waits for a vCPU that somebody
// else executes. If it did not wait, its task would be woken by that vCPU's own goroutine:
// that takes longer, and the requests that come meanwhile would find the vCPU in use again.
const borrowPatience = 50 * time.Microsecond

// Borrow lends a vCPU to the goroutine of a request.
func (g guest) Borrow(call uint64, on, want int, stay bool) (host.VCPU, bool) {
	if g.m.opts.Deterministic || max(on, want) >= len(g.m.cpus) || min(on, want) < 0 {
		return nil, false
	}
	if v := g.m.cpus[on]; v.parked.Load() == call {
		if v.stays(call, stay) {
			return v, true
		}
	}
	v := g.m.cpus[want]
	if !v.awaitRest() {
		return nil, false
	}
	v.lent = call
	v.parked.Store(0)
	return v, false
}

// awaitRest takes own when the vCPU has nothing to do. It does itself what the vCPU has to
// do; so a task whose call has ended there goes to sleep, or else the guest would have the
// task of this request run on another, idle vCPU. It returns false, without own, if that
// takes longer than borrowPatience.
func (v *vcpu) awaitRest() bool {
	for start := time.Now(); ; host.YieldThread() {
		if v.own.TryLock() {
			if v.others == nil && v.started.Load() && !v.m.over() {
				if v.parked.Load() != 0 && len(v.m.cpus) == 1 {
					return true
				}
				v.parked.Store(0)
				if v.finish(start) {
					return true
				}
			}
			v.own.Unlock()
		}
		if v.m.over() || !v.started.Load() || time.Since(start) > borrowPatience {
			return false
		}
	}
}

// stays lends the vCPU where a task has ended its last call. If the task is to continue
// elsewhere, or somebody else has the vCPU, the task goes to sleep there.
func (v *vcpu) stays(call uint64, stay bool) bool {
	if !v.own.TryLock() {
		v.wakeUp()
		return false
	}
	if v.parked.Load() == call && !v.m.over() {
		v.parked.Store(0)
		if stay {
			v.lent = call
			return true
		}
		v.settle()
	}
	v.own.Unlock()
	return false
}

// settle lets a task that is to continue on another vCPU go to sleep.
func (v *vcpu) settle() {
	if !v.finish(time.Now()) {
		v.wakeUp()
	}
}

// finish does what the vCPU has to do. It returns false if that takes longer than
// borrowPatience from start.
func (v *vcpu) finish(start time.Time) bool {
	for !v.halted() {
		if v.m.over() || v.parked.Load() != 0 || time.Since(start) > borrowPatience {
			return false
		}
		if !v.step(turnBudget) {
			return false
		}
	}
	return true
}

// Interrupt makes the interrupt pending that wakes tasks.
func (v *vcpu) Interrupt() { v.irqs[abi.VecAsyncPF/64].Or(1 << (abi.VecAsyncPF % 64)) }

// Run executes the vCPU until stop returns true, at most for maxLoan. If it returns
// false, the vCPU has been given back.
func (v *vcpu) Run(stop func() bool) bool {
	for start := time.Now(); !stop(); {
		if v.m.over() || v.halted() || time.Since(start) > maxLoan {
			v.Return()
			return false
		}
		if !v.step(runBudget) {
			v.Return()
			return false
		}
	}
	return true
}

// Suspend leaves the vCPU as it is until Resume, or until take returns true for a
// goroutine that needs it.
func (v *vcpu) Suspend(take func() bool) {
	v.others = take
	wanted := v.pending() || v.asked.Load()
	v.own.Unlock()
	if wanted {
		v.wakeUp()
	}
}

// Resume ends Suspend.
func (v *vcpu) Resume() {
	v.own.Lock()
	v.others = nil
}

// Wake has loop continue the vCPU.
func (v *vcpu) Wake() { v.wakeUp() }

// Return gives the vCPU back. What it has to do is done before, or by loop if it takes
// longer than borrowPatience.
func (v *vcpu) Return() {
	v.lent = 0
	idle := v.parked.Load() != 0 && !v.pending() || v.finish(time.Now())
	v.own.Unlock()
	if !idle || v.asked.Load() {
		v.wakeUp()
	}
}

// awaitReturn waits until nobody executes the vCPU of a machine that is over.
func (v *vcpu) awaitReturn() {
	v.own.Lock()
	defer v.own.Unlock()
}
