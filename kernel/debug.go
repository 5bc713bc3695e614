package kernel

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// A Debugger stops a machine between two instructions, all vCPUs together, executes single instructions,
// and lets it run again. While the machine is stopped, who executes a vCPU (loan) gives it back: calls wait
// and can be abandoned, text can be written, and the machine can be closed. The clock does not stop.
//
// Handlers of probes are a part of the instruction at which the probe is hit. That is also true for those
// of modules, which are guest code: a vCPU that is in one leaves it before it stops, and breakpoints in it
// have no effect.
//
// Several users may share a Debugger: what one does, the others see by Changed.
type Debugger struct {
	m *Machine

	mu      sync.Mutex // serializes the methods; no vCPU takes it
	breaks  map[string][]uint64
	watches []Watchpoint

	// Below, vCPUs change the state too. stateMu is held for a few instructions.
	stateMu sync.Mutex
	stopped bool
	ended   bool          // the machine is closing
	dead    bool          // the guest has panicked
	last    Stop          // why the machine has stopped
	unseen  []Stop        // of vCPUs that came to a breakpoint when the machine was being stopped already
	halts   []Halt        // the last ones
	changed chan struct{} // closed at the next change of the state

	helped atomic.Pointer[vcpu] // see settle
}

// CPUs returns the number of vCPUs.
func (d *Debugger) CPUs() int { return len(d.m.cpus) }

// StopReason is why a machine has stopped.
type StopReason uint8

// The reasons.
const (
	StopRequested  StopReason = iota // Interrupt has been called
	StopBreakpoint                   // a vCPU is at a breakpoint, and has not executed the instruction there
	StopWatchpoint                   // a vCPU has accessed watched memory
	StopStepped                      // a vCPU has executed an instruction
	StopIdle                         // a vCPU that was to execute an instruction waits for an interrupt
	StopPanic                        // the guest has panicked
)

var stopReasons = [...]string{
	StopRequested: "as requested", StopBreakpoint: "at a breakpoint", StopWatchpoint: "after an access to watched memory",
	StopStepped: "after a step", StopIdle: "waiting for an interrupt", StopPanic: "by a panic",
}

func (r StopReason) String() string { return stopReasons[r] }

// Stop tells why and where a machine has stopped.
type Stop struct {
	CPU   int
	Why   StopReason
	Addr  uint64 // of the breakpoint, or of the access to watched memory
	Watch int    // the index of the watchpoint
}

// Halt is a moment at which a machine has stopped, or has gone on after that.
type Halt struct {
	At     int64 // nanoseconds since boot
	Stop   Stop  // why it has stopped
	GoesOn bool
}

// mostHalts is how many halts are kept.
const mostHalts = 256

// note keeps a halt; stateMu is held.
func (d *Debugger) note(goesOn bool) {
	if len(d.halts) == mostHalts {
		d.halts = slices.Delete(d.halts, 0, 1)
	}
	d.halts = append(d.halts, Halt{At: d.m.Now(), Stop: d.last, GoesOn: goesOn})
}

// Halts returns when the machine has stopped and gone on, the oldest first. A step of a machine that is stopped
// is none.
func (d *Debugger) Halts() []Halt {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	return slices.Clone(d.halts)
}

// Watchpoint is memory to watch.
type Watchpoint struct {
	Addr, Len uint64
	Access    mem.Perm // mem.Read, mem.Write or both
}

// Errors of a Debugger.
var (
	ErrRunning = fmt.Errorf("the machine is running: %w", syscall.EBUSY)
	errNoCPU   = errors.New("no such vCPU")
)

func newDebugger(m *Machine) *Debugger {
	return &Debugger{m: m, breaks: map[string][]uint64{}, changed: make(chan struct{})}
}

// change tells those who wait for Changed; stateMu is held.
func (d *Debugger) change() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Changed returns a channel that is closed when the machine stops or goes on after this call.
func (d *Debugger) Changed() <-chan struct{} {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	return d.changed
}

// Stopped reports whether the machine is stopped, and why.
func (d *Debugger) Stopped() (Stop, bool) {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	return d.last, d.stopped || d.dead
}

// stop marks the machine as stopped, and reports whether it was not. It does not wait for vCPUs.
func (d *Debugger) stop(s Stop) bool {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	if d.ended || d.dead {
		return false
	}
	if d.stopped {
		if s.Why != StopRequested && !slices.Contains(d.unseen, s) {
			d.unseen = append(d.unseen, s)
		}
		return false
	}
	d.stopped, d.last = true, s
	d.note(false)
	d.m.host.SetStopped(true)
	d.m.stopping.Or(stoppedByDebugger)
	for _, v := range d.m.cpus {
		v.cpu.Kick()
	}
	d.change()
	return true
}

// hit is called by who executes v, which is at a breakpoint or has accessed watched memory.
func (d *Debugger) hit(v *vcpu, s Stop) {
	v.held = true
	v.reported = d.stop(s) && s.Why == StopBreakpoint
}

// handlerPatience is how long settle waits for a vCPU before it lets the others go on.
const handlerPatience = 20 * time.Millisecond

// settle returns when all vCPUs have stopped; mu is held. A vCPU that is in a handler of the guest leaves that first.
// The handler may need something that code on another vCPU has, such as a lock. So the others go on if it takes
// long, except for those that have come to a breakpoint.
func (d *Debugger) settle() {
	for again := true; again; {
		again = false
		for _, v := range d.m.cpus {
			if !v.settles() {
				again = true
				d.help(v)
			}
		}
	}
}

// settles returns whether who executes the vCPU gives it back within handlerPatience.
func (v *vcpu) settles() bool {
	for start := time.Now(); time.Since(start) < handlerPatience; time.Sleep(20 * time.Microsecond) {
		if v.own.TryLock() {
			free := v.take()
			v.own.Unlock()
			if free {
				return true
			}
		}
	}
	return false
}

// help lets the other vCPUs go on until v has stopped.
func (d *Debugger) help(v *vcpu) {
	d.helped.Store(v)
	for _, o := range d.m.cpus {
		o.wakeUp()
	}
	v.lock()
	v.own.Unlock()
	d.helped.Store(nil)
	for _, o := range d.m.cpus {
		o.cpu.Kick()
	}
}

// runsStopped reports whether a vCPU executes code although a debugger has stopped the machine.
func (v *vcpu) runsStopped() bool {
	helped := v.m.debug.helped.Load()
	return v.depth > 0 || v.stepped || helped != nil && helped != v && !v.held
}

// lock takes own for a debugger. If the goroutine that has borrowed the vCPU is about to go on, because its file
// operation is over, that comes first.
func (v *vcpu) lock() {
	for {
		v.own.Lock()
		if v.take() {
			return
		}
		v.own.Unlock()
		time.Sleep(10 * time.Microsecond)
	}
}

// Interrupt stops the machine, and returns when no vCPU executes an instruction any more. Handlers of hits must
// not call it, since they are a part of one.
func (d *Debugger) Interrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop(Stop{Why: StopRequested})
	d.settle()
}

// Continue lets a stopped machine run. If another vCPU had come to a breakpoint when the machine was
// stopped, the machine stays stopped, because of that one.
func (d *Debugger) Continue() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, stopped := d.Stopped(); !stopped || d.m.over() {
		return
	}
	d.settle()
	if d.next() {
		return
	}
	for _, v := range d.m.cpus {
		v.lock()
		at := v.reported && slices.Contains(d.allBreaks(), v.cpu.RIP)
		if at && d.m.seq == nil { // else the sequencer does, in v's turn
			v.one()
			at = false
		}
		v.reported, v.held = at, false
		v.own.Unlock()
	}
	d.stateMu.Lock()
	if len(d.unseen) > 0 { // the instruction at the breakpoint has accessed watched memory
		d.stateMu.Unlock()
		d.next()
		return
	}
	d.release()
	d.note(true)
	d.stateMu.Unlock()
	for _, v := range d.m.cpus {
		v.wakeUp()
	}
}

// next makes the machine stopped because of a vCPU whose breakpoint nobody has been told of, and reports
// whether there is one.
func (d *Debugger) next() bool {
	breaks := d.allBreaks()
	for {
		d.stateMu.Lock()
		if len(d.unseen) == 0 {
			d.stateMu.Unlock()
			return false
		}
		s := d.unseen[0]
		d.unseen = d.unseen[1:]
		if s.Why == StopBreakpoint && !slices.Contains(breaks, s.Addr) {
			d.stateMu.Unlock()
			continue // it has been removed; if it is set again, the vCPU comes to it again
		}
		d.last = s
		d.note(false)
		d.change()
		d.stateMu.Unlock()
		if s.Why == StopBreakpoint {
			v := d.m.cpus[s.CPU]
			v.lock()
			v.reported = true
			v.own.Unlock()
		}
		return true
	}
}

// release lets vCPUs run; stateMu is held.
func (d *Debugger) release() {
	d.stopped = false
	d.m.host.SetStopped(false)
	d.m.stopping.And(^stoppedByDebugger)
	if d.m.seq != nil {
		d.m.seq.tell()
	}
	d.change()
}

// end lets go of a machine that is closing.
func (d *Debugger) end() {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	d.ended = true
	d.release()
}

// panicked is called when the guest has panicked: no vCPU runs any more.
func (d *Debugger) panicked(cpu int) {
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	d.dead, d.last = true, Stop{CPU: cpu, Why: StopPanic}
	d.note(false)
	d.change()
}

// Step executes one instruction of a vCPU of a stopped machine, without taking interrupts. A vCPU that
// waits for an interrupt takes one if there is one. A REP counts as one instruction. With others, the other
// vCPUs execute some instructions too, so that the one that is stepped does not wait for them for ever.
func (d *Debugger) Step(cpu int, others bool) (Stop, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cpu < 0 || cpu >= len(d.m.cpus) {
		return Stop{}, fmt.Errorf("vCPU %d: %w: %w", cpu, errNoCPU, syscall.EINVAL)
	}
	last, stopped := d.Stopped()
	switch {
	case !stopped:
		return Stop{}, ErrRunning
	case d.m.over():
		return last, nil
	}
	d.settle()
	if d.next() {
		s, _ := d.Stopped()
		return s, nil
	}
	s := Stop{CPU: cpu, Why: StopStepped}
	if d.m.seq != nil {
		s = d.stepInOrder(cpu)
	} else if !d.stepAlone(cpu, others) {
		s.Why = StopIdle
	}
	if d.next() { // watched memory
		s, _ = d.Stopped()
		return s, nil
	}
	d.stateMu.Lock()
	defer d.stateMu.Unlock()
	d.last = s
	d.change()
	return s, nil
}

// stepAlone executes an instruction of a vCPU, and with others some of the others' ones. It returns false if the
// vCPU waits for an interrupt.
func (d *Debugger) stepAlone(cpu int, others bool) bool {
	v := d.m.cpus[cpu]
	v.lock()
	stepped := v.one()
	v.reported = false
	v.own.Unlock()
	for _, o := range d.m.cpus {
		if others && o != v {
			o.lock()
			o.slice()
			o.own.Unlock()
		}
	}
	return stepped
}

// maxOthers is how many instructions of other vCPUs a step executes before one of the vCPU that is meant.
const maxOthers = 4 * turnBudget

// stepInOrder executes instructions in the order in which a sequenced machine would, up to one of the vCPU.
func (d *Debugger) stepInOrder(cpu int) Stop {
	for range maxOthers {
		at, ok := d.m.seq.step()
		if !ok {
			break
		}
		if at == cpu {
			return Stop{CPU: cpu, Why: StopStepped}
		}
	}
	return Stop{CPU: cpu, Why: StopIdle}
}

// RunAlone has one vCPU of a stopped machine execute up to sliceBudget instructions, while the others stay
// where they are. hit says that it has come to a breakpoint or accessed watched memory.
func (d *Debugger) RunAlone(cpu int) (s Stop, hit bool, err error) {
	if d.m.seq != nil {
		s, err = d.Step(cpu, false)
		return s, err == nil && (s.Why == StopBreakpoint || s.Why == StopWatchpoint), err
	}
	err = d.with(cpu, func(v *vcpu) {
		if v.reported && slices.Contains(d.allBreaks(), v.cpu.RIP) {
			v.one()
		}
		v.reported = false
		v.slice()
	})
	if err != nil {
		return Stop{}, false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	hit = d.next()
	s, _ = d.Stopped()
	return s, hit, nil
}

// one executes an instruction for a debugger. It returns false if the vCPU waits for an interrupt. The
// caller has own.
func (v *vcpu) one() bool {
	waited := v.idle.Load()
	if !v.started.Load() || v.halted() || v.m.over() {
		return false
	}
	v.stepped = true
	entered := v.enter()
	v.stepped = false
	if !entered {
		return false
	}
	if waited {
		v.interrupt()
		v.inRun.Store(false)
		return true
	}
	exit, n := v.cpu.RunOne()
	v.ran(exit, n)
	return true
}

// sliceBudget is how many instructions the other vCPUs execute at a step.
const sliceBudget = 1000

// slice executes some instructions while another vCPU is stepped. The caller has own.
func (v *vcpu) slice() {
	if v.reported || !v.started.Load() || v.halted() || v.m.over() {
		return
	}
	v.stepped = true
	v.step(sliceBudget)
	v.stepped = false
}

// allBreaks returns the breakpoints of all users; mu is held.
func (d *Debugger) allBreaks() []uint64 {
	var all []uint64
	for _, b := range d.breaks {
		all = append(all, b...)
	}
	return all
}

// Breakpoints makes addrs the breakpoints of a user of the Debugger. They are not in the guest's text, so they
// live together with probes' breakpoints, and nobody sees them. It may be called while the machine runs.
func (d *Debugger) Breakpoints(user string, addrs []uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.breaks[user] = slices.Clone(addrs)
	if len(addrs) == 0 {
		delete(d.breaks, user)
	}
	d.m.StopMachine(func() { d.m.cache.SetBreaks(d.allBreaks()) })
}

// Watchpoints makes w the memory to watch. It may be called while the machine runs. What Go code does for the
// guest (probes' handlers, hypercalls) is not seen.
func (d *Debugger) Watchpoints(w []Watchpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches = slices.Clone(w)
	watches := make([]cpu.Watch, len(w))
	for i, p := range w {
		watches[i] = cpu.Watch(p)
	}
	d.m.StopMachine(func() {
		for _, v := range d.m.cpus {
			v.cpu.SetWatches(watches)
		}
	})
}

// CPUState is what a debugger sees of a vCPU.
type CPUState struct {
	cpu.State
	Started, Idle bool
	Task          uint64 // task_struct, or 0
	PID           int
	Comm          string
}

// State returns the registers of a vCPU of a stopped machine.
func (d *Debugger) State(cpu int) (s CPUState, err error) {
	err = d.with(cpu, func(v *vcpu) {
		s = CPUState{State: v.cpu.State, Started: v.started.Load(), Idle: v.idle.Load()}
		if s.Started {
			s.Task = v.currentTask()
			pid, _ := d.m.mem.ReadU64(s.Task + abi.TaskPID)
			s.PID, s.Comm = int(int32(pid)), d.m.comm(s.Task)
		}
	})
	return s, err
}

// errOrdered is the error of what would change a sequenced machine behind the back of those who keep its events.
var errOrdered = fmt.Errorf("registers and memory of a deterministic machine cannot be changed: %w", syscall.EPERM)

// SetState changes the general registers, RIP, RFlags and the bases of FS and GS of a vCPU of a stopped machine.
func (d *Debugger) SetState(cpu int, s CPUState) error {
	if d.m.seq != nil {
		return errOrdered
	}
	return d.with(cpu, func(v *vcpu) {
		c := v.cpu
		c.R, c.FSBase, c.GSBase, c.KernelGSBase = s.R, s.FSBase, s.GSBase, s.KernelGSBase
		if c.RIP != s.RIP {
			c.Shadow = false
			v.reported = false
		}
		c.GoOn(s.RIP, s.RFlags)
	})
}

// with calls f with a vCPU of the stopped machine, which nobody executes.
func (d *Debugger) with(cpu int, f func(*vcpu)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cpu < 0 || cpu >= len(d.m.cpus) {
		return fmt.Errorf("vCPU %d: %w: %w", cpu, errNoCPU, syscall.EINVAL)
	}
	if _, stopped := d.Stopped(); !stopped {
		return ErrRunning
	}
	d.settle()
	v := d.m.cpus[cpu]
	v.lock()
	defer v.own.Unlock()
	f(v)
	return nil
}

// Read copies guest memory. It fails with EFAULT where nothing is mapped, and with EIO when the machine has
// been closed.
func (d *Debugger) Read(addr uint64, p []byte) error {
	return d.withMemory(func() error { return d.m.mem.ReadAt(addr, p) })
}

// Write changes guest memory, also text, as text_poke does. It fails as Read does.
func (d *Debugger) Write(addr uint64, p []byte) error {
	if d.m.seq != nil {
		return errOrdered
	}
	return d.withMemory(func() error {
		err := d.m.mem.WriteAt(addr, p)
		if errors.Is(err, syscall.EFAULT) && len(p) > 0 {
			return d.m.Poke(abi.Patch{Addr: addr, Bytes: p})
		}
		return err
	})
}

// withMemory calls f while guest memory is there.
func (d *Debugger) withMemory(f func() error) error {
	d.m.memMu.RLock()
	defer d.m.memMu.RUnlock()
	if d.m.memGone {
		return fmt.Errorf("the machine has been closed: %w", syscall.EIO)
	}
	return f()
}

// Position is how many instructions the machine has retired.
func (d *Debugger) Position() uint64 { return d.m.Retired() }

// Ended is closed when the machine closes.
func (d *Debugger) Ended() <-chan struct{} { return d.m.ending }
