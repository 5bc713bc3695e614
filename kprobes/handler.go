package kprobes

import (
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// The calls that register, unregister, enable or disable a probe may wait, and
// a handler may not: it runs while its vCPU holds up everyone who changes text.
// On Linux such a call hangs or splats. Here a handler that wants one all the
// same hands its Hit to it, and the call is refused.

// mayWait is EDEADLK when a handler, whose Hit is among by, makes the call.
func mayWait(by []*Hit) error {
	for _, h := range by {
		if h != nil {
			return errf(syscall.EDEADLK, "a handler of the probe at %#x may not wait", h.Probe.Addr)
		}
	}
	return nil
}

// What stands between the trap and a probe's handler on Linux, the innermost
// first. What the guest itself has in between, from the function on that calls the
// machine, is not among it.
var (
	byInt3     = []string{"kprobe_int3_handler", "exc_int3", "asm_exc_int3"}
	aggrByInt3 = append([]string{"aggr_pre_handler"}, byInt3...)
	aggrByCall = []string{"aggr_pre_handler"}
	byJump     = []string{"opt_pre_handler"}
	byReturn   = []string{"kretprobe_rethook_handler", "rethook_trampoline_handler"}
	byReturn5  = []string{"__kretprobe_trampoline_handler"}
)

// Callers names the kernel's functions that have called the handler which runs on
// t's CPU, the innermost first: those in whose place the machine is. It is for
// handlers.
func (k *Kprobes) Callers(t *abi.Trap) []string {
	c := &k.cpus[t.CPU]
	switch pt := c.point; {
	case pt == nil:
		return nil
	case pt == &k.returns && k.cfg.TrampolineIP:
		return byReturn5
	case pt == &k.returns:
		return byReturn
	case t.Vector == abi.VecBP && pt.aggr.Load():
		return aggrByInt3
	case t.Vector == abi.VecBP:
		return byInt3
	case !pt.has(FlagFtrace):
		return byJump
	case pt.aggr.Load():
		return aggrByCall
	}
	return nil
}

// flagBroken says that a handler of the probe has panicked: none runs until the
// probe is enabled again.
const flagBroken Flags = 1 << 31

// muted says that the probe's handlers do not run.
func (p *Kprobe) muted() bool { return p.has(FlagDisabled | FlagGone | flagBroken) }

// way is where the CPU goes on. What a handler that panics has done to it is undone,
// or the kernel would not go on.
type way struct{ ip, sp uint64 }

func wayOf(t *abi.Trap) way { return way{t.Regs.IP, t.Regs.SP} }

func (w way) back(t *abi.Trap) { t.Regs.IP, t.Regs.SP = w.ip, w.sp }

// preHandlers calls the pre-handlers of probes from the *at-th on, until one says
// that it changed the way, unless all are to run. When one panics, *at is its.
func (k *Kprobes) preHandlers(c *ctlblk, probes []*Kprobe, at *int, t *abi.Trap, all bool) (changed bool) {
	var before way
	done := false
	defer func() {
		if !done && !k.caught(probes[*at], &c.hit, recover()) { // recover is not asked where nothing has happened: it takes its time
			before.back(t)
		}
	}()
	for ; *at < len(probes); *at++ {
		p := probes[*at]
		if p.PreHandler == nil || p.muted() {
			continue
		}
		before = wayOf(t)
		c.hit = Hit{Trap: t, Probe: p, k: k}
		if p.PreHandler(&c.hit) != 0 && !all {
			changed = true
			break
		}
	}
	done = true
	return changed
}

// postHandlers is the same for post-handlers.
func (k *Kprobes) postHandlers(c *ctlblk, probes []*Kprobe, at *int, t *abi.Trap) {
	var before way
	done := false
	defer func() {
		if !done && !k.caught(probes[*at], &c.hit, recover()) {
			before.back(t)
		}
	}()
	for ; *at < len(probes); *at++ {
		if p := probes[*at]; p.PostHandler != nil && !p.muted() {
			before = wayOf(t)
			c.hit = Hit{Trap: t, Probe: p, k: k}
			p.PostHandler(&c.hit, 0)
		}
	}
	done = true
}

// callRet calls a handler of a return probe. It is 1 for one that panics, unless
// that was a fault which has been dealt with.
func (k *Kprobes) callRet(f RetHandler, ri *Instance, h *Hit) (ret int) {
	done, before := false, wayOf(h.Trap)
	defer func() {
		switch {
		case done:
		case k.caught(&ri.Retprobe.Kprobe, h, recover()):
			ret = 0
		default:
			before.back(h.Trap)
		}
	}()
	ret = 1
	ret = f(ri, h)
	done = true
	return ret
}

// caught is called when a handler did not come back. What Go makes of a fault is
// one for the probe's fault handler; true: that has dealt with it.
func (k *Kprobes) caught(p *Kprobe, h *Hit, why any) (handled bool) {
	if why == nil {
		return false
	}
	if nr, ok := trapOf(why); ok && k.cfg.FaultHandlers {
		if k.missFault(h); k.callFault(p, h, nr) {
			return true
		}
	}
	k.broke(p, why)
	return false
}

// broke is for a handler that panics: it loses its probe, and the kernel goes on.
// The log says so, and the probe is disabled as soon as somebody may wait.
func (k *Kprobes) broke(p *Kprobe, why any) {
	if why == nil {
		return
	}
	p.set(flagBroken)
	k.cfg.Machine.Printk(3, "kprobes: the handler of the probe at %#x panicked and is disabled: %v", p.Addr, why)
	k.cfg.Machine.AfterFunc(0, func() {
		if p.has(flagBroken) {
			_ = k.Disable(p) // EINVAL: it has been unregistered since
		}
	})
}
