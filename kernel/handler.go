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

// handlerReturns is what a guest's handler returns to, by the callback that it is
// called in (0: a breakpoint): the hlt that is these functions' second byte.
var handlerReturns = map[uint64]string{
	0: "aggr_pre_handler", abi.HCFtrace: "aggr_pre_handler", abi.HCOptimized: "opt_pre_handler", abi.HCRethook: "kretprobe_rethook_handler",
}

// handlerReturn is its address.
func (v *vcpu) handlerReturn(t *abi.Trap) uint64 {
	callback := v.cpu.R[rax]
	if t.Vector != 0 {
		callback = 0
	}
	return cmp.Or(v.m.returns[callback], v.m.returns[0]) // the second: a breakpoint that stands for a call
}

// handlerBudget is how many instructions a handler may take.
const handlerBudget = 1 << 24

// errHandler says that a guest's handler did not come back.
var errHandler = errors.New("the handler does not come back")

// Handler runs a handler that is a function of the guest, in the middle of the
// hit t: fn(first, regs, third), where regs is t's pt_regs in guest memory. It
// gives what the function returns; t.Regs are then what the handler left there.
// Interrupts wait until then, also where the handler sees them enabled. To be
// called by the machine's own Handlers only.
//
// A handler that does not come back within handlerBudget instructions, or ends
// the machine, is an error: EIO. One that faults ends the machine, as an oops
// inside an interrupt does, and so does one that sleeps.
func (m *Machine) Handler(t *abi.Trap, fn, first, third uint64) (uint64, error) {
	v := m.cpus[t.CPU]
	trap, regs, hit := *t, v.regs, v.hit // all are used again by hits inside the handler, and by its fault handler
	var was cpu.Suspended
	v.cpu.Suspend(&was)
	var add int32
	if t.Vector != 0 { // as exc_int3 does; who calls back has disabled preemption
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
// stack if it is not there.
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

// takeRegs reads what a handler left of pt_regs at addr.
func (v *vcpu) takeRegs(r *abi.Regs, addr uint64) error {
	p := v.regsAt(addr)
	if p == nil {
		return fmt.Errorf("no pt_regs at %#x: %w", addr, syscall.EFAULT)
	}
	*r = *p
	return nil
}

// runHandler runs the vCPU until it has come back. It leaves the gate
// when others want it closed, as any guest code does: the vCPU that holds the
// lock that the handler spins on may be one that waits there. A grace period
// does not end meanwhile.
func (v *vcpu) runHandler(back uint64) (uint64, error) {
	kicked := false
	defer func() {
		if kicked { // that was for what the handler interrupts
			v.cpu.Kick()
		}
	}()
	for left := int64(handlerBudget); left > 0; {
		if left < handlerBudget {
			v.inRun.Store(false)
			if !v.enter() {
				return 0, nil // the machine closes, and nobody will know
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
		case exit.Reason == cpu.Halt || v.m.over():
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

// yielded ends the machine: the handler has called the scheduler, and nothing can
// go back to what it was called from.
func (v *vcpu) yielded() {
	v.m.log.Printk(LogErr, "BUG: scheduling while atomic: the handler of a probe has called the scheduler")
	v.m.die("Fatal exception in interrupt")
	v.idle.Store(true)
}

// outside runs f out of the gate, where f may close it.
func (v *vcpu) outside(f func()) {
	v.inRun.Store(false)
	f()
	v.enter()
}

// over says whether the guest has panicked.
func (m *Machine) over() bool {
	select {
	case <-m.died:
		return true
	default:
		return false
	}
}
