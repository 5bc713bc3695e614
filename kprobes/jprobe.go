package kprobes

import (
	"cmp"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// MaxStackSize is MAX_STACK_SIZE: the number of bytes of the stack that are saved
// before the handler of a jprobe runs, and restored after it.
const MaxStackSize = 64

// Jprobe is struct jprobe: a probe at a function's entry whose handler has the
// function's signature. The caller sets Kprobe's place and flags, and either Entry or
// Handler; RegisterJprobe sets Kprobe's pre-handler.
//
// The handler runs with interrupts and preemption off, and sees the registers and
// the stack that the function will see. All of them are restored after it, except
// for the stack beyond MaxStackSize bytes.
type Jprobe struct {
	Kprobe Kprobe

	// Entry is the address of a guest function with the signature of the probed one,
	// which ends by calling jprobe_return. If it returns instead, it returns from the
	// probed call, whose function is then not executed.
	Entry uint64

	// Handler is a Go function in place of Entry. It reads its arguments with
	// h.Regs.Arg and h.StackArg. Its return is the call of jprobe_return.
	Handler func(h *Hit)
}

// jprobeState is the state of a jprobe whose handler the CPU executes, until an int3
// ends the handler. The probe counts as being handled meanwhile, and preemption is
// off.
type jprobeState struct {
	p     *Kprobe       // nil when no jprobe's handler runs
	task  atomic.Uint64 // 0 after the task has died
	regs  abi.Regs      // at the entry of the probed function
	stack [MaxStackSize]byte
	n     int // number of saved stack bytes

	_ [cacheLines]byte // what follows is the next CPU's
}

func (a *jprobeState) begin(p *Kprobe, t *abi.Trap) {
	a.p, a.regs = p, *t.Regs
	a.task.Store(t.Task)
	addPreempt(t, 1)
}

// end enables preemption again, unless the scheduler has done so: it does when it is
// called with preemption off, and when a task ends.
func (a *jprobeState) end(t *abi.Trap) {
	a.p = nil
	count := t.Preempt & abi.PreemptMask
	if t.Vector == abi.VecBP { // which adds one
		count--
	}
	if t.Task == a.task.Load() && count != 0 {
		addPreempt(t, -1)
		t.Preempt--
	}
}

// left reports whether the handler has returned to the caller of the probed function (then
// the return address is no longer on the stack), or its task has died or sleeps.
func (a *jprobeState) left(t *abi.Trap) bool {
	return a.p != nil && (t.Task != a.task.Load() || t.Regs.SP > a.regs.SP && t.Regs.SP-a.regs.SP < abi.ThreadSize)
}

// jprobes are the handlers of jprobes that run at present. No lock guards them: only a CPU's
// vCPU uses its state, but for the task, which forget changes.
type jprobes struct {
	cpus  []jprobeState
	entry uint64 // the int3 that stands for Go handlers, in the release's own code
}

// of is the state of the CPU of a hit.
func (j *jprobes) of(t *abi.Trap) *jprobeState { return &j.cpus[t.CPU] }

// enter is setjmp_pre_handler: it saves the probed function's registers and stack and
// directs the CPU to the handler.
func (j *jprobes) enter(h *Hit) int {
	a, jp := j.of(h.Trap), h.Probe.jp
	a.begin(h.Probe, h.Trap)
	a.n = stackBytes(h.Trap, a.stack[:])
	h.Regs.Flags &^= abi.FlagIF
	h.Regs.IP = jp.Entry
	if jp.Handler != nil {
		h.Regs.IP = j.entry
	}
	return 1
}

// forget is told that a task has died.
func (j *jprobes) forget(task uint64) {
	for i := range j.cpus {
		j.cpus[i].task.CompareAndSwap(task, 0)
	}
}

// RegisterJprobe is register_jprobe.
//
// It fails with ENOSYS when the release has no jprobes (from 4.15 on), with EINVAL
// when the place is not a function's first instruction, or when not exactly one of
// Handler and Entry (in kernel text) is given, with EEXIST when the function has a
// jprobe, and otherwise as Register does.
func (k *Kprobes) RegisterJprobe(jp *Jprobe, by ...*Hit) error {
	if err := cmp.Or(mayWait(by), given(jp)); err != nil {
		return err
	}
	if err := k.checkJprobe(jp); err != nil {
		return err
	}
	p := &jp.Kprobe
	p.jp = jp
	p.PreHandler = k.jprobes.enter
	p.BreakHandler = nil
	return k.Register(p)
}

func (k *Kprobes) checkJprobe(jp *Jprobe) error {
	p := &jp.Kprobe
	switch {
	case k.has[release.NoJprobes]:
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

// JprobeEntry is JPROBE_ENTRY: it returns the address of a handler by the name of the
// guest's function. It fails with ENOENT when there is no such function, and with
// ENOSYS when the release has no jprobes.
func (k *Kprobes) JprobeEntry(name string) (uint64, error) {
	if k.has[release.NoJprobes] {
		return 0, errf(syscall.ENOSYS, "this release has no jprobes")
	}
	addr := addressOf(k.cfg.Symbols, name)
	if addr == 0 {
		return 0, errf(syscall.ENOENT, "no symbol %s", name)
	}
	return addr, nil
}

// RegisterJprobes is register_jprobes: it registers all or none. It fails with EINVAL when jps is empty.
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

// UnregisterJprobe is unregister_jprobe. Its only error is EDEADLK.
func (k *Kprobes) UnregisterJprobe(jp *Jprobe, by ...*Hit) error {
	return k.UnregisterJprobes([]*Jprobe{jp}, by...)
}

// UnregisterJprobes is unregister_jprobes, and works like UnregisterAll.
func (k *Kprobes) UnregisterJprobes(jps []*Jprobe, by ...*Hit) error {
	if err := given(jps...); err != nil {
		return err
	}
	ps := make([]*Kprobe, len(jps))
	for i, jp := range jps {
		ps[i] = &jp.Kprobe
	}
	return k.UnregisterAll(ps, by...)
}

// EnableJprobe is enable_jprobe.
func (k *Kprobes) EnableJprobe(jp *Jprobe, by ...*Hit) error {
	if err := given(jp); err != nil {
		return err
	}
	return k.Enable(&jp.Kprobe, by...)
}

// DisableJprobe is disable_jprobe.
func (k *Kprobes) DisableJprobe(jp *Jprobe, by ...*Hit) error {
	if err := given(jp); err != nil {
		return err
	}
	return k.Disable(&jp.Kprobe, by...)
}

// jprobeEntry runs a jprobe's Go handler at the int3 that stands for the handler.
func (hs *Hits) jprobeEntry(c *ctlblk, t *abi.Trap) bool {
	a := hs.jprobes.of(t)
	p := a.p
	if p == nil || p.jp == nil || p.jp.Handler == nil || c.state != hitActive {
		return false
	}
	next := t.Regs.IP
	t.Regs.IP = a.regs.IP
	t.Vector, t.Preempt = 0, t.Preempt-1 // the handler stands for code that runs outside this trap
	c.hit = Hit{Trap: t, Probe: p, hits: hs}
	if !p.muted() {
		hs.callJprobe(p.jp, &c.hit)
	}
	*t.Regs = a.regs
	t.Regs.Flags &^= abi.FlagIF
	t.Regs.IP = next
	return true
}

func (hs *Hits) callJprobe(jp *Jprobe, h *Hit) {
	done := false
	defer func() {
		if !done {
			hs.caught(&jp.Kprobe, h, recover())
		}
	}()
	jp.Handler(h)
	done = true
}

// jprobeReturn is longjmp_break_handler: the handler has ended, the function's
// registers and stack are restored, and its first instruction is executed.
func (hs *Hits) jprobeReturn(c *ctlblk, t *abi.Trap) bool {
	a := hs.jprobes.of(t)
	if a.p == nil || a.p.jp == nil || c.state != hitActive || a.left(t) {
		return false
	}
	*t.Regs = a.regs
	_ = t.Mem.WriteAt(a.regs.SP, a.stack[:a.n]) // it was read from there
	a.end(t)
	hs.step(c, t)
	return true
}

// dropLeft ends a jprobe to which the CPU will not return. On Linux no further probe
// would be hit on this CPU.
func (hs *Hits) dropLeft(c *ctlblk, t *abi.Trap) {
	a := hs.jprobes.of(t)
	if !a.left(t) {
		return
	}
	if t.Task == a.task.Load() {
		hs.machine.Printk(3, "kprobes: the handler of the probe at %#x returned without jprobe_return()", a.p.Addr)
	}
	c.point = nil
	a.end(t)
}

// busy reports whether the CPU is handling a probe, so that another hit is missed.
func (hs *Hits) busy(c *ctlblk, t *abi.Trap) bool {
	if c.point != nil {
		hs.dropLeft(c, t)
	}
	return c.point != nil || t.Busy
}

// breakHandler handles an int3 that belongs to no probe, in a task that the pre-handler
// of a probe with a break handler has directed elsewhere. The break handler has set
// the registers for the probed instruction.
func (hs *Hits) breakHandler(c *ctlblk, t *abi.Trap) bool {
	h := hs.returning.tasks.Of(t.Task)
	if h == nil || hs.busy(c, t) {
		return false
	}
	p := h.led.Load()
	if p == nil {
		return false
	}
	pt := hs.table.get(p.Addr)
	if pt == nil || !pt.contains(p) { // it has been unregistered since
		return false
	}
	code := pt.code.Load()
	if code == nil || p.muted() {
		return false
	}
	c.begin(pt, code, t)
	c.hit = Hit{Trap: t, Probe: p, hits: hs}
	if !hs.callBreak(p, &c.hit) {
		c.end()
		return false
	}
	h.led.Store(nil)
	c.begin(pt, code, t) // with the flags that the handler has restored
	t.Regs.IP = pt.addr + 1
	hs.step(c, t)
	return true
}

func (hs *Hits) callBreak(p *Kprobe, h *Hit) (taken bool) {
	done := false
	defer func() {
		if !done {
			hs.caught(p, h, recover())
		}
	}()
	taken = p.BreakHandler(h) != 0
	done = true
	return taken
}
