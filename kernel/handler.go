package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
)

// handlerReturn is where a handler of the guest returns to: see Handlers.ReturnTo.
func (v *vcpu) handlerReturn(t *abi.Trap) uint64 {
	callback := v.cpu.R[rax]
	if t.Vector != 0 {
		callback = 0
	}
	h := v.m.handlers.Load()
	return cmp.Or(h.returns[callback], h.returns[0]) // the second: a breakpoint that stands for a call
}

// handlerBudget is the number of instructions that a handler may execute.
const handlerBudget = 1 << 24

// errHandler reports that a guest's handler did not return.
var errHandler = errors.New("the handler does not return")

// Handler calls a handler that is a guest function, during the hit t:
// fn(first, regs, third), where regs is t's pt_regs in guest memory. It returns
// the function's result and leaves in t.Regs what the handler stored there.
// Interrupts are held back meanwhile, even if the handler enables them. Only the
// machine's own Handlers may call it.
//
// A handler that does not return within handlerBudget instructions, or that stops
// the machine, fails with EIO. A handler that faults or sleeps panics the guest, as
// an oops in an interrupt does.
func (m *Machine) Handler(t *abi.Trap, fn, first, third uint64) (uint64, error) {
	v := m.cpus[t.CPU]
	trap, regs, hit := *t, v.regs, v.hit // hits inside the handler, and its fault handler, use all of these again
	var was cpu.Suspended
	v.cpu.Suspend(&was)
	var add int32
	if t.Vector != 0 { // as exc_int3 does; callbacks have disabled preemption already
		add = abi.NMIOffset | abi.HardirqOffset
	}
	v.hit = &hitPlace{t.Task, t.Regs.IP, t.Regs.SP}
	back := v.handlerReturn(t)
	at, err := v.enterHandler(t, back, fn, first, third)
	var ret uint64
	if err == nil {
		v.addPreempt(add)
		ret, err = v.runHandler(back)
		v.addPreempt(-add)
	}
	v.cpu.Resume(&was)
	v.regs, v.hit = regs, hit
	*t = trap
	if err == nil && t.RegsAddr == 0 {
		err = v.takeRegs(t.Regs, at)
	}
	return ret, err
}

// enterHandler sets the registers for a call of fn, and puts pt_regs on the
// stack unless it is there already.
func (v *vcpu) enterHandler(t *abi.Trap, back, fn, first, third uint64) (regs uint64, err error) {
	sp := v.cpu.R[rsp]
	if regs = t.RegsAddr; regs == 0 {
		sp = (sp - abi.RegsSize) &^ 15
		regs = sp
		p := v.regsAt(regs)
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
	p := v.regsAt(addr)
	if p == nil {
		return fmt.Errorf("no pt_regs at %#x: %w", addr, syscall.EFAULT)
	}
	*r = *p
	return nil
}

// runHandler runs the vCPU until the handler returns to back. It leaves the gate
// when another goroutine wants it closed, as any guest code does: the handler may
// be spinning on a lock whose holder waits there. No grace period ends meanwhile.
func (v *vcpu) runHandler(back uint64) (uint64, error) {
	kicked := false
	defer func() {
		if kicked { // that was meant for the code that the handler interrupts
			v.cpu.Kick()
		}
	}()
	for left := int64(handlerBudget); left > 0; {
		if left < handlerBudget {
			v.inRun.Store(false)
			if !v.enter() {
				return 0, nil // the machine is closing, so nobody sees the result
			}
		}
		exit, n := v.cpu.Run(runBudget)
		left -= int64(n) + 1
		v.retired.Add(n)
		v.m.clock.retired(n)
		kicked = kicked || exit.Reason == cpu.Kick
		if now := v.m.currentTask(v.id); now != v.hit.task {
			v.yielded()
		}
		switch {
		case exit.Reason == cpu.Halt && v.cpu.RIP == back+1:
			return v.cpu.R[rax], nil
		case v.m.closing.Load():
			return 0, nil
		case exit.Reason == cpu.Halt || v.m.dead.Load():
			kicked = true
			return 0, errHandler
		case exit.Reason == cpu.Pause:
			runtime.Gosched()
		case exit.Reason == cpu.Hypercall:
			v.outside(v.hypercall)
		case exit.Reason == cpu.Trap:
			v.outside(func() { v.onTrap(exit) })
		}
	}
	return 0, errHandler
}

// yielded panics the guest: the handler called the scheduler, and the code that
// was hit cannot be resumed.
func (v *vcpu) yielded() {
	v.m.noteOops(v, bugAtomic)
	p := func(format string, args ...any) { v.m.log.Printk(LogErr, format, args...) }
	p("BUG: scheduling while atomic: the handler of a probe has called the scheduler")
	v.showPlace(p)
	v.showTrace(p, v.stack(*v.hit, 1, nil), true)
	v.die("Fatal exception in interrupt")
}

// outside runs f outside the gate, so that f may close it.
func (v *vcpu) outside(f func()) {
	v.inRun.Store(false)
	f()
	v.enter()
}
