package kernel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/wait"
)

// A sequencer executes the vCPUs of a machine whose outside events have an order
// (Options.Sequenced). No goroutine executes vCPUs by itself: who waits for the guest does
// (drive), and the machine stands while Go code works for it. So whatever happens there
// happens at an instruction that depends on the order of the calls alone.
//
// vCPUs have turns of turnBudget instructions. A turn is executed in bursts, which end where
// something must be looked at: an exit, the instant of a timer, a debugger's stop. What
// happens is the same however a turn is cut into bursts, so a debugger can stop the machine
// after any instruction without changing what comes after that.
type sequencer struct {
	m *Machine

	mu   sync.Mutex // held by who executes vCPUs, and guards the members up to work
	cpu  int        // the vCPU whose turn it is
	left uint64     // what is left of the turn, in instructions
	end  uint64     // the count of instructions after which the machine stops, or 0
	ends int        // the vCPU whose instructions are counted for that, or AllCPUs

	workMu sync.Mutex
	asked  []func() // what guest code has asked Go code to do
	later  []func() // what is done when nobody waits for the guest

	stop    sync.Mutex // guards what follows, about a machine that a debugger has stopped
	changed *sync.Cond
	busy    atomic.Int32 // how many goroutines are between Enter and Leave
	blocked bool         // who drives waits for the debugger
	steps   uint64       // how many steps a debugger has made
	ran     bool         // whether the last of them has executed something
}

func newSequencer(m *Machine) *sequencer {
	q := &sequencer{m: m}
	q.changed = sync.NewCond(&q.stop)
	return q
}

// maxJump bounds by how much the clock is moved for one wait of a guest that sleeps.
const maxJump = 10 * time.Second

// awaitGuest executes the machine until due returns true. If all vCPUs are idle before that,
// the clock is moved to the next timer, and if that does not help either, the caller's turn
// ends until something else has happened, or, if it is impatient, awaitGuest fails with
// host.ErrIdle. Other errors are host.ErrStopped, and the context's.
func (q *sequencer) awaitGuest(ctx context.Context, due func() bool, impatient bool) error {
	p := wait.Of(ctx)
	jumped := time.Duration(0)
	for !due() {
		switch {
		case q.m.over():
			return host.ErrStopped
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if p != nil {
			p.Boundary()
			q.answer()
		}
		if q.drive() || due() {
			continue
		}
		if d, ok := q.m.virtual.next(); ok && jumped+d <= maxJump {
			jumped += d
			q.m.virtual.Advance(d)
			continue
		}
		switch {
		case impatient:
			return host.ErrIdle
		case p == nil:
			time.Sleep(time.Millisecond) // somebody else's call or timer
		case !p.Park(ctx, due):
			return context.Canceled
		}
	}
	return nil
}

// settle executes the machine until all vCPUs are idle and no work is left.
func (q *sequencer) settle(p wait.Parker) {
	for !q.m.over() {
		if p != nil {
			p.Boundary()
		}
		if !q.answer() && !q.drive() && !q.work() {
			return
		}
	}
}

// Enter marks the begin of what needs the machine, Leave its end. In between a debugger that
// wants to execute an instruction waits until the caller waits for the guest.
func (m *Machine) Enter() { m.seq.busy.Add(1) }

// Leave ends what Enter has begun.
func (m *Machine) Leave() {
	m.seq.busy.Add(-1)
	m.seq.tell()
}

// Settle executes a sequenced machine until all vCPUs are idle and nothing is left to do.
func (m *Machine) Settle(p wait.Parker) { m.seq.settle(p) }

// Advance moves the clock of a machine with a virtual clock. A sequenced machine does what
// becomes due, each at its time.
func (m *Machine) Advance(d time.Duration) {
	if m.seq == nil {
		m.virtual.Advance(d)
		return
	}
	for end := m.clock.Now() + int64(d); !m.over(); {
		m.seq.settle(nil)
		left := time.Duration(end - m.clock.Now())
		if left <= 0 {
			return
		}
		if next, ok := m.virtual.next(); ok {
			left = min(left, next)
		}
		m.virtual.Advance(left)
	}
}

// Sequenced reports whether the machine is executed only by who waits for it.
func (m *Machine) Sequenced() bool { return m.seq != nil }

// Virtual returns the machine's virtual clock, or nil.
func (m *Machine) Virtual() *VirtualClock { return m.virtual }

// ask has f done as soon as the vCPUs stand.
func (q *sequencer) ask(f func()) {
	q.workMu.Lock()
	defer q.workMu.Unlock()
	q.asked = append(q.asked, f)
}

// doLater has f done in a goroutine, or on a sequenced machine when nobody waits for the guest.
func (m *Machine) doLater(f func()) {
	if m.seq == nil {
		go f()
		return
	}
	m.seq.workMu.Lock()
	defer m.seq.workMu.Unlock()
	m.seq.later = append(m.seq.later, f)
}

// take takes the first function of a queue.
func (q *sequencer) take(queue *[]func()) func() {
	q.workMu.Lock()
	defer q.workMu.Unlock()
	if len(*queue) == 0 {
		return nil
	}
	f := (*queue)[0]
	*queue = (*queue)[1:]
	return f
}

// answer does what guest code has asked for, and reports whether there was something.
func (q *sequencer) answer() bool { return do(q.take(&q.asked)) }

// work does what was put off, and reports whether there was something.
func (q *sequencer) work() bool { return do(q.take(&q.later)) }

func do(f func()) bool {
	if f != nil {
		f()
	}
	return f != nil
}

// drive executes a burst. It returns false if all vCPUs are idle. While a debugger has stopped
// the machine it waits for the debugger's next step, which then was the burst.
func (q *sequencer) drive() bool {
	if ran, stepped := q.awaitGo(); stepped {
		return ran
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end != 0 && q.m.RetiredBy(q.ends) >= q.end {
		cpu := q.cpu
		if q.ends != AllCPUs {
			cpu = q.ends
		}
		q.end = 0
		q.m.debug.stop(Stop{CPU: cpu, Why: StopStepped})
		return true
	}
	v := q.pick()
	if v == nil {
		return false
	}
	q.burst(v, false)
	return true
}

// awaitGo waits while the machine is stopped, at most until a debugger's step.
func (q *sequencer) awaitGo() (ran, stepped bool) {
	if !q.stopped() {
		return false, false
	}
	q.stop.Lock()
	defer q.stop.Unlock()
	steps := q.steps
	for q.stopped() && q.steps == steps && !q.m.over() {
		q.blocked = true
		q.changed.Broadcast()
		q.changed.Wait()
	}
	q.blocked = false
	return q.ran, q.steps != steps
}

func (q *sequencer) stopped() bool { return q.m.stopping.Load()&stoppedByDebugger != 0 }

// tell wakes those who wait for a change.
func (q *sequencer) tell() {
	q.stop.Lock()
	defer q.stop.Unlock()
	q.changed.Broadcast()
}

// pick returns the vCPU whose turn it is, or nil if all are idle. It needs mu.
func (q *sequencer) pick() *vcpu {
	for range len(q.m.cpus) + 1 {
		v := q.m.cpus[q.cpu]
		if q.left > 0 && v.started.Load() && !v.halted() {
			return v
		}
		q.cpu = (q.cpu + 1) % len(q.m.cpus)
		q.left = turnBudget
	}
	return nil
}

// burst executes a part of v's turn, or one instruction. It needs mu.
func (q *sequencer) burst(v *vcpu, one bool) {
	v.own.Lock()
	defer v.own.Unlock()
	if v.room == 0 {
		v.begun, v.room = q.m.clock.Now(), q.room()
	}
	before := v.retired.Load()
	v.exited = cpu.Kick
	v.stepped = one
	switch {
	case !one && !v.reported:
		n := v.room
		if q.end != 0 && (q.ends == AllCPUs || q.ends == v.id) {
			n = min(n, max(q.end-q.m.RetiredBy(q.ends), 1))
		}
		v.step(n)
	case v.enter():
		if v.pending() && !v.reported {
			v.interrupt()
		}
		v.reported = false
		exit, n := v.cpu.RunOne()
		v.ran(exit, n)
	}
	v.stepped = false
	q.account(v, v.retired.Load()-before)
}

// account takes what a burst has used from v's turn. A burst that was cut short by a debugger goes on in the next one.
func (q *sequencer) account(v *vcpu, used uint64) {
	v.room -= min(used, v.room)
	switch v.exited {
	case cpu.Kick, cpu.Budget, cpu.Breakpoint, cpu.Watchpoint:
	case cpu.Pause, cpu.Halt:
		used, v.room = q.left, 0
	default: // what retires nothing must not last for ever
		used, v.room = used+1, 0
	}
	q.left -= min(used, q.left)
	if q.left == 0 {
		v.room = 0
	}
}

// room is how many instructions the next burst may have.
func (q *sequencer) room() uint64 {
	if d, ok := q.m.virtual.next(); ok {
		return min(q.left, max(uint64(d), 1))
	}
	return q.left
}

// step executes one instruction in the order in which the machine would execute it, while a
// debugger has stopped it. ok is false if all vCPUs are idle. The caller holds no lock that
// Go code needs which works for the guest.
func (q *sequencer) step() (cpu int, ok bool) {
	if !q.awaitBlocked() {
		return 0, false
	}
	q.mu.Lock()
	v := q.pick()
	if v != nil {
		cpu = v.id
		q.burst(v, true)
	}
	q.mu.Unlock()
	q.stop.Lock()
	q.steps++
	q.ran = v != nil
	q.blocked = false
	q.changed.Broadcast()
	q.stop.Unlock()
	q.awaitBlocked()
	return cpu, v != nil
}

// stepPatience is how long a step waits for Go code that works for the guest.
const stepPatience = 2 * time.Second

// awaitBlocked waits until who drives waits for the debugger. It returns false if nobody drives.
func (q *sequencer) awaitBlocked() bool {
	late := time.AfterFunc(stepPatience, q.tell)
	defer late.Stop()
	begun := time.Now()
	q.stop.Lock()
	defer q.stop.Unlock()
	for !q.blocked && q.busy.Load() > 0 && !q.m.over() && time.Since(begun) < stepPatience {
		q.changed.Wait()
	}
	return q.blocked
}

// AllCPUs stands for all vCPUs of a machine.
const AllCPUs = -1

// StopAt has a sequenced machine stop, as a debugger stops it, when a vCPU, or all of them together (AllCPUs), have
// retired a number of instructions. With 0 it does not stop.
func (m *Machine) StopAt(cpu int, retired uint64) {
	m.seq.mu.Lock()
	defer m.seq.mu.Unlock()
	m.seq.ends, m.seq.end = cpu, retired
}

// errSequenced is the error of a sequenced machine without a virtual clock.
var errSequenced = errors.New("a sequenced machine needs a virtual clock")
