package kernel

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
)

// handlerReturn is where a handler of the guest returns to: see Handlers.ReturnTo.
func (v *vcpu) handlerReturn(t *abi.Trap) uint64 {
	h := v.m.handlers.Load()
	if t.Vector != 0 {
		return h.callers[t.Caller]
	}
	if callback := v.cpu.R[rax]; callback < uint64(len(h.returns)) && h.returns[callback] != 0 {
		return h.returns[callback]
	}
	return h.callers[t.Caller] // a breakpoint that stands for a call
}

// handlerBudget is the number of instructions that a handler may execute.
const handlerBudget = 1 << 24

// errHandler reports that a guest's handler did not return.
var errHandler = errors.New("the handler does not return")

// ending is how the call of a guest's handler has ended.
type ending uint8

const (
	returned ending = iota
	stuck           // it does not return
	gone            // its task has ended
	away            // its task sleeps: the vCPU is in another one
)

// Handler calls a handler that is a guest function, during the hit t:
// fn(first, regs, third), where regs is t's pt_regs in guest memory. It returns
// the function's result and leaves in t.Regs what the handler stored there.
// Interrupts are held back meanwhile, even if the handler enables them. Only the
// machine's own Handlers may call it.
//
// A handler that does not return within handlerBudget instructions, or that stops
// the machine, fails with EIO. One that sleeps is not waited for: t.Away is set, and the
// result is 0. If one faults, the task ends, t.Gone is set, and the result is 1; in a
// trap that counts as an NMI the guest panics, as after an oops in an interrupt.
func (m *Machine) Handler(t *abi.Trap, fn, first, third uint64) (uint64, error) {
	if t.Away {
		return 0, nil
	}
	v := m.cpus[t.CPU]
	hit := v.hit
	was := v.aside()
	v.cpu.Suspend(was)
	var add int32
	if t.Vector != 0 { // callbacks have disabled preemption already
		add = v.m.trapOffset
	}
	v.hit = hitPlace{task: t.Task, ip: t.Regs.IP, sp: t.Regs.SP, on: true}
	back := v.handlerReturn(t)
	at, err := v.enterHandler(t, back, fn, first, third)
	var ret uint64
	var how ending
	if err == nil {
		sp := v.cpu.R[rsp] + 8
		v.addPreempt(add)
		outer := v.setKprobe(first)
		switch ret, how = v.runHandler(back); how { // another task has another count
		case returned, stuck:
			v.addPreempt(-add)
			v.setKprobe(outer)
		case gone: // the CPU keeps it
		case away:
			v.setKprobe(outer)
			v.asleep = &sleeper{task: t.Task, back: back + 1, sp: sp, regs: at, was: *was, nmi: t.Vector != 0}
		}
	}
	v.hit = hit
	v.depth--
	switch how {
	case gone:
		v.cpu.Abandon(was)
		v.hit.oopsed = hit.on
		t.Gone = true
		return 1, nil
	case away:
		v.cpu.Abandon(was)
		t.Away = true
		return 0, nil
	case stuck:
		err = errHandler
	case returned:
	}
	v.cpu.Resume(was)
	if err == nil && t.RegsAddr == 0 {
		err = v.takeRegs(t.Regs, at)
	}
	return ret, err
}

// aside is where the call of a guest's handler sets the vCPU's state aside. There is one for
// each level of calls: to clear one for each call would be a tenth of its cost.
func (v *vcpu) aside() *cpu.Suspended {
	if v.depth == len(v.suspended) {
		v.suspended = append(v.suspended, new(cpu.Suspended))
	}
	v.depth++
	return v.suspended[v.depth-1]
}

// inside calls f, which handles a hit or a fault inside a guest's handler, and so uses
// again what belongs to the hit that the handler is called for.
func (v *vcpu) inside(f func()) {
	trap, regs := v.trap, v.regs
	f()
	v.trap, v.regs = trap, regs
}

// enterHandler sets the registers for a call of fn, and puts pt_regs on the
// stack unless it is there already.
func (v *vcpu) enterHandler(t *abi.Trap, back, fn, first, third uint64) (regs uint64, err error) {
	sp := v.cpu.R[rsp]
	if regs = t.RegsAddr; regs == 0 {
		sp = (sp - abi.RegsSize) &^ 15
		regs = sp
		p := v.regsNear(regs)
		if p == nil {
			return 0, fmt.Errorf("no stack for a handler at %#x: %w", regs, syscall.EFAULT)
		}
		*p = *t.Regs
	}
	sp = sp&^15 - 8
	if back == 0 {
		return 0, fmt.Errorf("the guest has no place for handlers to return to: %w", syscall.ENOSYS)
	}
	if err := v.near.WriteU64(sp, back); err != nil {
		return 0, err
	}
	r := &v.cpu.R
	r[rsp], r[rdi], r[rsi], r[rdx] = sp, first, regs, third
	flags := uint64(0)
	if t.Vector == 0 && !t.IRQsOff {
		flags = t.Regs.Flags & abi.FlagIF
	}
	v.cpu.GoOn(fn, flags)
	v.cpu.Shadow = false
	return regs, nil
}

// takeRegs reads pt_regs at addr, which a handler may have changed.
func (v *vcpu) takeRegs(r *abi.Regs, addr uint64) error {
	p := v.regsNear(addr)
	if p == nil {
		return fmt.Errorf("no pt_regs at %#x: %w", addr, syscall.EFAULT)
	}
	*r = *p
	return nil
}

// runHandler runs the vCPU until the handler returns to back. It leaves the gate
// when another goroutine wants it closed, as any guest code does: the handler may
// be spinning on a lock whose holder waits there. No grace period ends meanwhile.
func (v *vcpu) runHandler(back uint64) (uint64, ending) {
	done, n := v.cpu.Call(back)
	v.count(n)
	if done {
		return v.cpu.R[rax], returned
	}
	return v.runOn(back)
}

// count counts instructions of a handler.
func (v *vcpu) count(n uint64) {
	v.inner += n
	v.m.clock.retired(n)
}

// runOn goes on with a handler that CPU.Call has not brought to its end.
func (v *vcpu) runOn(back uint64) (uint64, ending) {
	kicked := false
	defer func() {
		if kicked { // that was meant for the code that the handler interrupts
			v.cpu.Kick()
		}
	}()
	for left := int64(handlerBudget); ; {
		exit, n := v.cpu.Run(runBudget)
		if exit.Reason == cpu.Breakpoint { // a debugger cannot stop the vCPU in a handler
			var one uint64
			exit, one = v.cpu.RunOne()
			n += one
		}
		v.count(n)
		left -= int64(n) + 1
		kicked = kicked || exit.Reason == cpu.Kick
		elsewhere := v.currentTask() != v.hit.task
		switch {
		case exit.Reason == cpu.Halt && v.cpu.RIP == back+1 && !elsewhere:
			return v.cpu.R[rax], returned
		case v.m.closing.Load():
			return 0, returned
		case exit.Reason == cpu.Halt && elsewhere: // the idle task, which halts again, or a handler that has slept
			v.awake()
		case exit.Reason == cpu.Halt || v.m.dead.Load():
			kicked = true
			return 0, stuck
		case exit.Reason == cpu.Pause:
			runtime.Gosched()
		case exit.Reason == cpu.Watchpoint: // the vCPU stops behind the handler
			v.m.debug.hit(v, Stop{CPU: v.id, Why: StopWatchpoint, Addr: exit.Addr, Watch: int(exit.Code)})
			kicked = true
		case exit.Reason == cpu.Hypercall:
			v.outside(v.hypercall)
		case exit.Reason == cpu.Trap:
			v.outside(func() { v.onTrap(exit) })
		}
		switch {
		case elsewhere && v.hit.oopsed:
			return 0, gone
		case elsewhere:
			return 0, away
		case left <= 0:
			return 0, stuck
		}
		v.inRun.Store(false)
		if !v.enter() {
			return 0, returned // the machine is closing, so nobody sees the result
		}
	}
}

// outside runs f outside the gate, so that f may close it.
func (v *vcpu) outside(f func()) {
	v.inRun.Store(false)
	f()
	v.enter()
}
