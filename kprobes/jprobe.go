package kprobes

import (
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// MaxStackSize is MAX_STACK_SIZE: how many bytes of the stack are saved before the
// handler of a jprobe runs, and restored after it.
const MaxStackSize = 64

// Jprobe is struct jprobe: a probe at a function's entry whose handler has the
// function's own signature. Kprobe's place and flags are the caller's to fill in,
// and either Entry or Handler; RegisterJprobe sets Kprobe's pre-handler.
//
// The handler runs with interrupts and preemption off, and sees the registers and
// the stack that the function will see; all of them are as they were when it has
// ended, but for the stack beyond MaxStackSize bytes.
type Jprobe struct {
	Kprobe Kprobe

	// Entry is the address of a guest function with the signature of the probed
	// one, which calls jprobe_return where others return. One that returns has
	// ended the probed call, which is then not executed.
	Entry uint64

	// Handler is a Go function in the place of Entry. Its arguments are
	// h.Regs.Arg and h.StackArg; it calls jprobe_return by returning.
	Handler func(h *Hit)
}

// away is a probe whose pre-handler has led the CPU elsewhere, to come back by an
// int3 for its break handler: a jprobe is one. It is being handled meanwhile, with
// preemption off.
type away struct {
	p     *Kprobe       // nil: there is none
	task  atomic.Uint64 // 0: it has died
	regs  abi.Regs      // of the probed function
	stack [MaxStackSize]byte
	n     int // bytes of stack; 0 but for jprobes
}

// begin is called by what leads the CPU away from p.
func (a *away) begin(p *Kprobe, t *abi.Trap) {
	a.p, a.regs, a.n = p, *t.Regs, 0
	a.task.Store(t.Task)
	addPreempt(t, 1)
}

// end takes preemption back, unless the scheduler has: it does so when it is called
// with preemption off, and when a task ends.
func (a *away) end(t *abi.Trap) {
	a.p = nil
	if t.Task == a.task.Load() && t.Preempt&abi.PreemptMask != 0 {
		addPreempt(t, -1)
		t.Preempt--
	}
}

// RegisterJprobe is register_jprobe.
//
// ENOSYS: the release has no jprobes (all from 4.15 on). EINVAL: not the first
// instruction of a function, or there are not just one of Entry, in kernel text,
// and Handler. EEXIST: the function has a jprobe. Else what Register says.
func (k *Kprobes) RegisterJprobe(jp *Jprobe, by ...*Hit) error {
	if err := mayWait(by); err != nil {
		return err
	}
	if err := k.checkJprobe(jp); err != nil {
		return err
	}
	p := &jp.Kprobe
	p.jp = jp
	p.PreHandler = k.preJprobe
	p.BreakHandler = nil
	return k.Register(p)
}

func (k *Kprobes) checkJprobe(jp *Jprobe) error {
	p := &jp.Kprobe
	switch {
	case !k.cfg.Jprobes:
		return errf(syscall.ENOSYS, "this release has no jprobes")
	case (jp.Entry != 0) == (jp.Handler != nil):
		return errf(syscall.EINVAL, "a jprobe needs the address of a handler, or a handler, and not both")
	case jp.Entry != 0 && !k.cfg.Tables.KernelText(jp.Entry):
		return errf(syscall.EINVAL, "the handler at %#x is not in kernel text", jp.Entry)
	}
	if err := k.OnFuncEntry(p.Addr, p.SymbolName, p.Offset); err != nil {
		return err
	}
	if p.Addr == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.checkRereg(p)
}

// JprobeEntry is JPROBE_ENTRY: the address of a handler, by the name of the guest's
// function. ENOENT: there is none of this name. ENOSYS: there are no jprobes.
func (k *Kprobes) JprobeEntry(name string) (uint64, error) {
	if !k.cfg.Jprobes {
		return 0, errf(syscall.ENOSYS, "this release has no jprobes")
	}
	addr := k.symbol(name)
	if addr == 0 {
		return 0, errf(syscall.ENOENT, "no symbol %s", name)
	}
	return addr, nil
}

// RegisterJprobes is register_jprobes: all or none. EINVAL when jps is empty.
func (k *Kprobes) RegisterJprobes(jps []*Jprobe, by ...*Hit) error {
	if len(jps) == 0 {
		return errf(syscall.EINVAL, "no probes given")
	}
	for i, jp := range jps {
		if err := k.RegisterJprobe(jp, by...); err != nil {
			_ = k.UnregisterJprobes(jps[:i], by...) // as in RegisterAll
			return err
		}
	}
	return nil
}

// UnregisterJprobe is unregister_jprobe. The error is EDEADLK, or nil.
func (k *Kprobes) UnregisterJprobe(jp *Jprobe, by ...*Hit) error {
	return k.Unregister(&jp.Kprobe, by...)
}

// UnregisterJprobes is unregister_jprobes: as UnregisterAll.
func (k *Kprobes) UnregisterJprobes(jps []*Jprobe, by ...*Hit) error {
	ps := make([]*Kprobe, len(jps))
	for i, jp := range jps {
		ps[i] = &jp.Kprobe
	}
	return k.UnregisterAll(ps, by...)
}

// EnableJprobe is enable_jprobe.
func (k *Kprobes) EnableJprobe(jp *Jprobe, by ...*Hit) error { return k.Enable(&jp.Kprobe, by...) }

// DisableJprobe is disable_jprobe.
func (k *Kprobes) DisableJprobe(jp *Jprobe, by ...*Hit) error { return k.Disable(&jp.Kprobe, by...) }

// preJprobe is setjmp_pre_handler: it sends the CPU to the handler, with what the
// probed function has in registers and on its stack.
func (k *Kprobes) preJprobe(h *Hit) int {
	a, jp := &k.cpus[h.CPU].away, h.Probe.jp
	a.begin(h.Probe, h.Trap)
	a.n = stackBytes(h.Trap, a.stack[:])
	h.Regs.Flags &^= abi.FlagIF
	h.Regs.IP = jp.Entry
	if jp.Handler != nil {
		h.Regs.IP = k.own.jprobeEntry
	}
	return 1
}

// jprobeEntry is the body of a handler that is a Go function.
func (k *Kprobes) jprobeEntry(c *ctlblk, t *abi.Trap) bool {
	p := c.away.p
	if p == nil || p.jp == nil || p.jp.Handler == nil || c.state != hitActive {
		return false
	}
	next := t.Regs.IP
	t.Regs.IP = c.away.regs.IP
	t.Vector, t.Preempt = 0, t.Preempt&^uint32(abi.NMIMask|abi.HardirqMask) // it stands for code that no trap runs
	c.hit = Hit{Trap: t, Probe: p, k: k}
	if !p.muted() {
		k.callJprobe(p.jp, &c.hit)
	}
	*t.Regs = c.away.regs
	t.Regs.Flags &^= abi.FlagIF
	t.Regs.IP = next
	return true
}

func (k *Kprobes) callJprobe(jp *Jprobe, h *Hit) {
	done := false
	defer func() {
		if !done {
			k.caught(&jp.Kprobe, h, recover())
		}
	}()
	jp.Handler(h)
	done = true
}

// jprobeReturn is longjmp_break_handler: the handler is done, the function gets
// its registers and stack back, and its first instruction is executed.
func (k *Kprobes) jprobeReturn(c *ctlblk, t *abi.Trap) bool {
	a := &c.away
	if a.p == nil || a.p.jp == nil || c.state != hitActive || c.left(t) {
		return false
	}
	*t.Regs = a.regs
	_ = t.Mem.WriteAt(a.regs.SP, a.stack[:a.n]) // it was read from there
	a.end(t)
	k.step(c, t)
	return true
}

// left says whether what a probe has led the CPU to has returned to the caller of
// the probed function, which a stack without the function's return address tells,
// or its task has died or sleeps.
func (c *ctlblk) left(t *abi.Trap) bool {
	a := &c.away
	return a.p != nil && (t.Task != a.task.Load() || t.Regs.SP > a.regs.SP && t.Regs.SP-a.regs.SP < abi.ThreadSize)
}

// dropLeft ends a probe that the CPU will not come back to. On Linux no probe would
// be hit on this CPU any more.
func (k *Kprobes) dropLeft(c *ctlblk, t *abi.Trap) {
	if !c.left(t) {
		return
	}
	if t.Task == c.away.task.Load() {
		how := "an int3 for its break handler"
		if c.away.p.jp != nil {
			how = "jprobe_return()"
		}
		k.cfg.Machine.Printk(3, "kprobes: the handler of the probe at %#x returned without %s", c.away.p.Addr, how)
	}
	c.point = nil
	c.away.end(t)
}

// busy says whether a probe is being handled on the CPU, which keeps others from it.
func (k *Kprobes) busy(c *ctlblk, t *abi.Trap) bool {
	if c.point != nil {
		k.dropLeft(c, t)
	}
	return c.point != nil
}

// breakHandler is what an int3 that is no probe's does while one is being handled.
// The handler has put the registers where the probed instruction shall find them.
func (k *Kprobes) breakHandler(c *ctlblk, t *abi.Trap) bool {
	p := c.away.p
	if p == nil || p.BreakHandler == nil || c.state != hitActive || c.left(t) {
		return false
	}
	c.hit = Hit{Trap: t, Probe: p, k: k}
	if !k.callBreak(p, &c.hit) {
		return false
	}
	c.away.end(t)
	t.Regs.IP = c.point.addr + 1
	k.step(c, t)
	return true
}

func (k *Kprobes) callBreak(p *Kprobe, h *Hit) (taken bool) {
	done := false
	defer func() {
		if !done {
			k.caught(p, h, recover())
		}
	}()
	taken = p.BreakHandler(h) != 0
	done = true
	return taken
}
