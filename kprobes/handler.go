package kprobes

import (
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// The calls that register, unregister, enable or disable a probe may wait, but a
// handler may not: while it runs, every change of text waits for its vCPU. On Linux
// such a call hangs or logs a warning. Here a handler that makes such a call passes
// its Hit to it, and the call fails.

// mayWait returns EDEADLK when a handler, whose Hit is in by, makes the call.
func mayWait(by []*Hit) error {
	for _, h := range by {
		if h != nil {
			return errf(syscall.EDEADLK, "a handler of the probe at %#x may not wait", h.Probe.Addr)
		}
	}
	return nil
}

// given returns EINVAL when one of the probes is nil. On Linux the caller would oops.
func given[T any](ps ...*T) error {
	if slices.Contains(ps, nil) {
		return errf(syscall.EINVAL, "no probe given")
	}
	return nil
}

// Via is the path by which a hit came to its probe's handlers. It decides which kernel
// functions a stack trace shows between them.
type Via uint8

// The paths of a hit.
const (
	ViaCall      Via = iota // by an fentry call: ftrace calls kprobe_ftrace_handler
	ViaCallAggr             // the same, with several probes at the address
	ViaInt3                 // by the breakpoint
	ViaInt3Aggr             // the same, with several probes, or one that could be optimized
	ViaJump                 // by the jump of an optimized probe
	ViaReturn               // by the return of a function with a return probe
	ViaReturnOld            // the same, on releases without rethooks
)

// Via returns the path of the hit whose handlers run on t's CPU. Handlers call it.
func (hs *Hits) Via(t *abi.Trap) Via {
	c := &hs.cpus[t.CPU]
	switch pt := c.point; {
	case pt == nil:
		return ViaCall
	case pt == &hs.returns && !hs.has[release.ReturnIP]:
		return ViaReturnOld
	case pt == &hs.returns:
		return ViaReturn
	case t.Vector == abi.VecBP && pt.aggr.Load():
		return ViaInt3Aggr
	case t.Vector == abi.VecBP:
		return ViaInt3
	case !pt.has(FlagFtrace):
		return ViaJump
	case pt.aggr.Load():
		return ViaCallAggr
	}
	return ViaCall
}

// flagBroken marks a probe one of whose handlers has panicked: its handlers do not run
// until it is enabled again.
const flagBroken Flags = 1 << 31

// muted reports whether the probe's handlers are skipped.
func (p *Kprobe) muted() bool { return p.has(FlagDisabled | FlagGone | flagBroken) }

// resumePoint is where the CPU continues. It is restored after a handler panics,
// since the kernel could not continue with a half-changed one.
type resumePoint struct{ ip, sp uint64 }

func resumePointOf(t *abi.Trap) resumePoint { return resumePoint{t.Regs.IP, t.Regs.SP} }

func (w resumePoint) restore(t *abi.Trap) { t.Regs.IP, t.Regs.SP = w.ip, w.sp }

// preHandlers calls the pre-handlers of probes from index *at on. Unless all is set,
// it stops after one that reports a changed way. When one panics, *at is its index.
func (hs *Hits) preHandlers(c *ctlblk, probes []*Kprobe, at *int, t *abi.Trap, all bool) (changed bool) {
	var before resumePoint
	done := false
	defer func() {
		if !done && !hs.caught(probes[*at], &c.hit, recover()) { // not called without a panic: recover is slow
			before.restore(t)
		}
	}()
	for ; *at < len(probes); *at++ {
		p := probes[*at]
		if p.PreHandler == nil || p.muted() {
			continue
		}
		before = resumePointOf(t)
		c.hit = Hit{Trap: t, Probe: p, hits: hs}
		if p.PreHandler(&c.hit) != 0 && !all || t.Gone {
			changed = true
			break
		}
	}
	done = true
	return changed
}

// postHandlers does the same for post-handlers.
func (hs *Hits) postHandlers(c *ctlblk, probes []*Kprobe, at *int, t *abi.Trap) {
	var before resumePoint
	done := false
	defer func() {
		if !done && !hs.caught(probes[*at], &c.hit, recover()) {
			before.restore(t)
		}
	}()
	for ; *at < len(probes); *at++ {
		if p := probes[*at]; p.PostHandler != nil && !p.muted() {
			before = resumePointOf(t)
			c.hit = Hit{Trap: t, Probe: p, hits: hs}
			if p.PostHandler(&c.hit, 0); t.Gone {
				break
			}
		}
	}
	done = true
}

// callRet calls a handler of a return probe. The result is 1 for one that panics,
// unless that was a fault that a fault handler has resolved.
func (hs *Hits) callRet(f RetHandler, ri *Instance, h *Hit) (ret int) {
	done, before := false, resumePointOf(h.Trap)
	defer func() {
		switch {
		case done:
		case hs.caught(&ri.Retprobe.Kprobe, h, recover()):
			ret = 0
		default:
			before.restore(h.Trap)
		}
	}()
	ret = 1
	ret = f(ri, h)
	done = true
	return ret
}

// caught is called when a handler has panicked. A panic that corresponds to a fault
// goes to the probe's fault handler; the result is true if that has resolved it.
func (hs *Hits) caught(p *Kprobe, h *Hit, why any) (handled bool) {
	if why == nil {
		return false
	}
	if nr, ok := trapOf(why); ok && !hs.has[release.NoFaultHandlers] {
		if hs.missFault(h); hs.callFault(p, h, nr) {
			return true
		}
	}
	hs.handlerPanicked(p, why)
	return false
}

// handlerPanicked handles a panic of a handler: it logs the panic and mutes the
// probe, and disables the probe as soon as waiting is allowed. The kernel continues.
func (hs *Hits) handlerPanicked(p *Kprobe, why any) {
	if why == nil {
		return
	}
	before := p.flags.Or(uint32(flagBroken)) // not shown by State, and set without the lock
	hs.machine.Printk(3, "kprobes: the handler of the probe at %#x panicked and is disabled: %v", p.Addr, why)
	if before&uint32(flagBroken) != 0 { // it is being disabled; a second time it may be registered anew
		return
	}
	hs.machine.AfterFunc(0, func() {
		if p.has(flagBroken) {
			hs.disable(p)
		}
	})
}
