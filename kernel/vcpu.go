package kernel

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Budgets in instructions: how long a vCPU runs before it checks for other work. A
// deterministic machine switches vCPUs after the same number.
const (
	runBudget  = 1 << 20
	turnBudget = 20000
)

// vcpu is a virtual processor and the loop that runs it.
type vcpu struct {
	m   *Machine
	id  int
	cpu *cpu.CPU

	loan

	inRun   atomic.Bool // executing guest code; see StopMachine
	started atomic.Bool // the guest has started it
	idle    atomic.Bool // halted, nothing pending
	irqs    [4]atomic.Uint64
	wake    chan struct{}
	retired atomic.Uint64
	inner   uint64        // retired in handlers, and not in retired yet
	quiet   atomic.Uint64 // quiescent states passed; see SynchronizeRCU
	asked   atomic.Bool   // a SynchronizeRCU waits for a quiescent state

	watched

	stepped  bool // a debugger executes it; guarded by own
	held     bool // it has come to a breakpoint or accessed watched memory; guarded by own
	reported bool // RIP is at a breakpoint that a debugger has been told of; guarded by own

	exited cpu.Reason // of the last Run
	begun  int64      // sequenced: the time when the present burst began
	room   uint64     // sequenced: what is left of it, in instructions

	timerMu   sync.Mutex
	timerStop func() bool

	vector  uint8  // of the last exception
	gpAddr  uint64 // of the last general protection fault: the operand's address, or 0
	trap    abi.Trap
	near    hitMemory
	regs    abi.Regs // of a trap; callbacks have theirs in guest memory
	guestDT percpu
	hit     hitPlace // that whose guest handler runs
	depth   int      // how many calls of guest handlers there are inside each other

	suspended []*cpu.Suspended // what they have set aside
	asleep    *sleeper         // with trap.Away: the call whose task sleeps
}

// hitMemory is guest memory for handlers of a hit. They run inside Run, so the
// vCPU's translations are valid.
type hitMemory struct {
	*mem.Memory
	cpu *cpu.CPU
}

var _ abi.Memory = (*hitMemory)(nil)

// ReadU64 reads the word at va.
func (m *hitMemory) ReadU64(va uint64) (uint64, error) {
	if p := m.cpu.Window(va, 8); p != nil {
		return *(*uint64)(p), nil
	}
	return m.Memory.ReadU64(va)
}

// WriteU64 writes the word at va.
func (m *hitMemory) WriteU64(va, v uint64) error {
	if p := m.cpu.Window(va, 8); p != nil {
		*(*uint64)(p) = v
		return nil
	}
	return m.Memory.WriteU64(va, v)
}

// percpu locates the words of the guest's per-CPU area that traps need.
type percpu struct {
	gs      uint64 // the GS base that they belong to
	found   bool   // the search has been done
	current []byte // 8 bytes: current_task
	preempt []byte // 4 bytes: __preempt_count
	kprobe  []byte // 8 bytes: current_kprobe; nil if the guest has none
}

func newVCPU(m *Machine, id int, c *cpu.CPU) *vcpu {
	v := &vcpu{m: m, id: id, cpu: c, wake: make(chan struct{}, 1)}
	v.trap.CPU = id
	v.near = hitMemory{m.mem, c}
	v.trap.Mem = &v.near
	v.trap.Now = m.clock.Now
	if m.opts.Sequenced {
		v.trap.Now = func() int64 { return v.begun } // also if a debugger has cut the burst
	}
	v.trap.AddPreempt = v.addPreempt
	c.SetHook(v)
	return v
}

// begin starts the vCPU at entry with rsp=stack and its number in rdi. It must not
// have been started before.
func (v *vcpu) begin(entry, stack uint64) {
	v.cpu.RIP = entry
	v.cpu.R[4] = stack
	v.cpu.R[7] = uint64(v.id)
	v.started.Store(true)
	v.wakeUp()
}

// wakeUp wakes the loop if it waits.
func (v *vcpu) wakeUp() {
	ch := v.wake
	switch {
	case v.m.seq != nil:
		return
	case v.m.opts.Deterministic:
		ch = v.m.turn
	}
	select {
	case ch <- struct{}{}:
	default:
	}
}

// raise makes an interrupt pending. Any goroutine may call it.
func (v *vcpu) raise(vector uint8) {
	v.irqs[vector/64].Or(1 << (vector % 64))
	v.cpu.Kick()
	v.wakeUp()
}

func (v *vcpu) pending() bool {
	return v.irqs[0].Load()|v.irqs[1].Load()|v.irqs[2].Load()|v.irqs[3].Load() != 0
}

// takeIRQ removes and returns the pending interrupt with the highest vector.
func (v *vcpu) takeIRQ() (uint8, bool) {
	for i := 3; i >= 0; i-- {
		if w := v.irqs[i].Load(); w != 0 {
			b := 63 - bits.LeadingZeros64(w)
			v.irqs[i].And(^(uint64(1) << b))
			return uint8(i*64 + b), true
		}
	}
	return 0, false
}

// over reports whether the machine is closing or the guest has panicked.
func (m *Machine) over() bool { return m.closing.Load() || m.dead.Load() }

// loop runs the vCPU until the machine is over.
func (v *vcpu) loop() {
	for !v.m.over() {
		<-v.wake
		v.own.Lock()
		if v.take() {
			for v.started.Load() && !v.halted() && !v.m.over() && v.step(runBudget) {
			}
		}
		v.own.Unlock()
	}
}

// runInTurn runs all vCPUs in one goroutine.
func (m *Machine) runInTurn() {
	for !m.over() {
		busy := false
		for _, v := range m.cpus {
			v.own.Lock()
			if v.started.Load() && !v.halted() && v.step(turnBudget) {
				busy = true
			}
			v.own.Unlock()
		}
		if !busy {
			<-m.turn
		}
	}
}

// resting tells other goroutines whether the vCPU is halted without a pending interrupt.
func (v *vcpu) resting() bool { return v.idle.Load() && !v.pending() }

// halted reports whether the vCPU waits for an interrupt and none is pending.
func (v *vcpu) halted() bool {
	if !v.idle.Load() {
		return false
	}
	if v.pending() {
		v.idle.Store(false)
		return false
	}
	return true
}

// enter waits while StopMachine runs a function, then marks the vCPU as running. It returns false when a
// debugger has stopped the machine, unless the vCPU is in a handler of the guest or does a debugger's step,
// and when the machine is closing.
func (v *vcpu) enter() bool {
	for {
		v.inRun.Store(true)
		why := v.m.stopping.Load()
		if why == 0 || why == stoppedByDebugger && v.runsStopped() {
			return true
		}
		v.inRun.Store(false)
		if why == stoppedByDebugger {
			return false
		}
		v.m.gate.Lock()
		for v.m.stopping.Load()&stoppedForFunc != 0 && !v.m.closing.Load() {
			v.m.resume.Wait()
		}
		v.m.gate.Unlock()
		if v.m.closing.Load() {
			return false
		}
	}
}

// waitOut returns when the vCPU has been seen outside guest code. The caller has
// kicked it, so this takes microseconds.
func (v *vcpu) waitOut() {
	for i := 0; v.inRun.Load(); i++ {
		if i < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// step delivers a pending interrupt, runs guest code once and handles the exit. It returns false if enter
// does not let it run.
func (v *vcpu) step(budget uint64) bool {
	if !v.enter() {
		return false
	}
	if v.condemned.Load() != nil {
		v.endCondemned()
	}
	if v.pending() {
		v.interrupt()
	}
	exit, n := v.cpu.Run(budget)
	v.ran(exit, n)
	return true
}

// ran handles the exit of a Run that has retired n instructions.
func (v *vcpu) ran(exit cpu.Exit, n uint64) {
	v.inRun.Store(false)
	v.exited = exit.Reason
	v.retired.Add(n + v.inner)
	v.inner = 0
	v.m.clock.retired(n)
	v.handle(exit)
	if v.asked.Load() {
		v.passQuiescent()
	}
	if v.show.Load() {
		v.showItself()
	}
}

// OnHit implements interp.Hook: it reports whether an int3 or a vmcall was a probe's hit,
// and handles it. For speed it runs inside Run, without leaving the gate: StopMachine waits
// for such a handler, as stop_machine does on Linux. A goroutine that wants the vCPU to stop
// has kicked it, so Run ends right after.
func (v *vcpu) OnHit(r cpu.Reason) (handled bool) {
	if v.depth > 0 {
		v.inside(func() { handled = v.onOwnHit(r) })
		return handled
	}
	return v.onOwnHit(r)
}

func (v *vcpu) onOwnHit(r cpu.Reason) bool {
	h := v.m.handlers.Load()
	if r == cpu.Hypercall {
		return v.onCallback(h)
	}
	if h.Int3 == nil {
		return false
	}
	if v.cpu.RIP >= abi.SlotsBase && h.Stepped != nil { // only copies in slots are stepped
		if ip, flags, ok := h.Stepped(v.id, v.cpu.RIP, v.cpu.RFlags); ok {
			v.cpu.GoOn(ip, flags)
			return true
		}
	}
	v.trap.Mem = &v.near
	return v.inTrap(uint32(v.m.trapOffset), abi.VecBP, h.Int3)
}

// interrupt delivers a pending interrupt, or requests an exit for the moment when
// the guest enables interrupts.
func (v *vcpu) interrupt() {
	if !v.cpu.Interruptible() {
		v.cpu.WantIRQ(true)
		return
	}
	vector, ok := v.takeIRQ()
	if !ok {
		return
	}
	v.irqsTaken++
	v.deliver(vector, false, 0)
	v.cpu.WantIRQ(v.pending())
}

// deliver passes a vector to the guest's interrupt table.
func (v *vcpu) deliver(vector uint8, hasCode bool, code uint64) {
	if err := v.cpu.Deliver(vector, hasCode, code); err != nil { // a triple fault
		var r abi.Regs
		v.readRegs(&r)
		if v.overflowed(r.SP) {
			return
		}
		v.m.oops(v.id, abi.BugUnknown, &r, code)
		v.die(fmt.Sprintf("vector %d cannot be delivered: %v", vector, err))
	}
}

// handle acts on an exit.
func (v *vcpu) handle(e cpu.Exit) {
	switch e.Reason {
	case cpu.Halt:
		if !v.awake() {
			v.halt()
		}
	case cpu.Pause:
		runtime.Gosched()
	case cpu.Hypercall:
		v.hypercall()
	case cpu.Trap:
		v.onTrap(e)
	case cpu.Breakpoint:
		v.m.debug.hit(v, Stop{CPU: v.id, Why: StopBreakpoint, Addr: v.cpu.RIP})
	case cpu.Watchpoint:
		v.m.debug.hit(v, Stop{CPU: v.id, Why: StopWatchpoint, Addr: e.Addr, Watch: int(e.Code)})
	case cpu.Budget, cpu.Kick, cpu.IRQWindow:
	}
}

// halt makes the vCPU idle until an interrupt is pending. A halt with interrupts off
// means that the guest has given up.
func (v *vcpu) halt() {
	if v.cpu.RFlags&abi.FlagIF == 0 && v.pending() {
		v.takeIRQ() // no interrupt can be delivered any more, so do not spin
	}
	v.quiet.Add(1)
	v.halts++
	v.idle.Store(true)
}

// onTrap offers an exception to the probes, which have seen breakpoints already,
// and passes it to the guest when they do not claim it.
func (v *vcpu) onTrap(e cpu.Exit) {
	v.vector = e.Vector
	if f := v.m.handlers.Load().Fault; f != nil && e.Vector != abi.VecBP {
		var claimed bool
		v.inside(func() { claimed = v.offer(e, f) })
		if claimed {
			return
		}
	}
	switch e.Vector {
	case abi.VecPF:
		v.cpu.CR2 = e.Addr
	case abi.VecGP:
		v.gpAddr = e.Addr
	}
	v.deliver(e.Vector, e.HasCode, e.Code)
}

// offer offers a fault to the probes.
func (v *vcpu) offer(e cpu.Exit, f func(*abi.Trap) bool) bool {
	v.trap.Mem = v.m.mem // outside the gate mappings may be removed
	v.trap.ErrorCode, v.trap.Addr = e.Code, e.Addr
	defer func() { v.trap.ErrorCode, v.trap.Addr = 0, 0 }()
	return v.inTrap(0, e.Vector, f)
}

// inTrap calls f with the vCPU's registers as pt_regs, resumes with what f leaves
// there, and reports whether f claimed the trap. add is what the entry code adds to
// preempt_count while a handler runs.
func (v *vcpu) inTrap(add uint32, vector uint8, f func(*abi.Trap) bool) bool {
	t := &v.trap
	v.readRegs(&v.regs)
	v.regs.OrigAX = ^uint64(0)
	t.Regs = &v.regs
	t.Vector, t.RegsAddr, t.Arg = vector, 0, 0
	v.fill(t, add)
	claimed := f(t)
	if v.left(t, 0, &v.regs) {
		return true
	}
	v.cpu.GoOn(v.regs.Get(&v.cpu.R))
	return claimed
}

// readRegs copies the registers to r; OrigAX stays as it is.
func (v *vcpu) readRegs(r *abi.Regs) { r.Set(&v.cpu.R, v.cpu.RIP, v.cpu.RFlags) }

// fill sets the trap's fields about the interrupted context.
func (v *vcpu) fill(t *abi.Trap, add uint32) {
	p := v.percpu()
	t.Task, t.Preempt = 0, add
	if p.current != nil {
		t.Task = binary.LittleEndian.Uint64(p.current)
		t.Preempt += binary.LittleEndian.Uint32(p.preempt) & 0x7fffffff // the top bit is need_resched, inverted
	}
	t.Busy = p.kprobe != nil && binary.LittleEndian.Uint64(p.kprobe) != 0
	t.Quiet = v.m.host.Mirroring() && v.quietTask(t.Task)
}

// currentTask returns the address of the task that the vCPU executes, or 0.
func (v *vcpu) currentTask() uint64 {
	if p := v.percpu(); p.current != nil {
		return binary.LittleEndian.Uint64(p.current)
	}
	return 0
}

// quietTask reports whether what a task executes is not the host's doing (abi.CallQuiet).
func (v *vcpu) quietTask(task uint64) bool {
	if task == 0 {
		return false
	}
	call, err := v.m.mem.ReadU64(task + abi.TaskHostCall)
	if err != nil || call == 0 {
		return false
	}
	quiet, err := v.m.mem.ReadU64(call + abi.CallQuiet)
	return err == nil && quiet != 0
}

// addPreempt changes __preempt_count, whose top bit is need_resched, inverted.
func (v *vcpu) addPreempt(n int32) {
	if p := v.percpu(); p.preempt != nil {
		binary.LittleEndian.PutUint32(p.preempt, binary.LittleEndian.Uint32(p.preempt)+uint32(n))
	}
}

// setKprobe sets current_kprobe, and returns what it was.
func (v *vcpu) setKprobe(at uint64) (was uint64) {
	p := v.percpu()
	if p.kprobe == nil {
		return 0
	}
	was = binary.LittleEndian.Uint64(p.kprobe)
	binary.LittleEndian.PutUint64(p.kprobe, at)
	return was
}

// percpu locates the guest's per-CPU words for the present GS base.
func (v *vcpu) percpu() *percpu {
	p := &v.guestDT
	if p.gs != v.cpu.GSBase || !p.found {
		*p = percpu{gs: v.cpu.GSBase, found: true}
		p.current = v.percpuWord("current_task", 8)
		p.preempt = v.percpuWord("__preempt_count", 4)
		p.kprobe = v.percpuWord("current_kprobe", 8)
		if p.preempt == nil {
			p.current = nil
		}
	}
	return p
}

func (v *vcpu) percpuWord(name string, n uint64) []byte {
	s := v.m.allSyms.LookupName(name)
	if len(s) == 0 {
		return nil
	}
	pa, perm, ok := v.m.mem.Lookup(v.cpu.GSBase + s[0].Addr)
	if !ok || perm&mem.Write == 0 || pa&(abi.PageSize-1)+n > abi.PageSize {
		return nil
	}
	return v.m.mem.Phys(pa, n)
}

// setTimer arms the vCPU's timer interrupt for the time at, in nanoseconds since
// boot; 0 disarms it.
func (v *vcpu) setTimer(at uint64) {
	v.timerMu.Lock()
	defer v.timerMu.Unlock()
	if v.timerStop != nil {
		v.timerStop()
		v.timerStop = nil
	}
	if at == 0 || at > 1<<62 || v.m.closing.Load() {
		return
	}
	d := max(0, int64(at)-v.m.clock.Now())
	v.timerStop = v.m.clock.alarm(time.Duration(d), func() { v.raise(abi.VecTimer) })
}
