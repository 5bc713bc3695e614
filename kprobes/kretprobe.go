package kprobes

import (
	"cmp"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// maxRetData is KRETPROBE_MAX_DATA_SIZE, in bytes.
const maxRetData = 4096

// maxPool is the largest size of a return probe's instances in bytes; more is ENOMEM.
const maxPool = 256 << 20

// instanceSize is sizeof(struct kretprobe_instance), without data.
const instanceSize = 48

// RegisterRetprobe is register_kretprobe.
//
// It fails with EINVAL when the place is not a function's entry, or is __switch_to; with
// E2BIG for more than 4096 bytes of data; with ENOMEM when MaxActive is too large for
// memory; and otherwise as Register does.
func (k *Kprobes) RegisterRetprobe(rp *Retprobe, by ...*Hit) error {
	if err := cmp.Or(mayWait(by), given(rp)); err != nil {
		return err
	}
	p := &rp.Kprobe
	if err := k.OnFuncEntry(p.Addr, p.SymbolName, p.Offset); err != nil {
		return err
	}
	if err := k.checkRetprobe(rp); err != nil {
		return err
	}
	if err := k.returning.find(); err != nil {
		return err
	}
	p.ret = rp
	p.PreHandler = k.preRetprobe
	p.PostHandler = nil
	if rp.MaxActive <= 0 {
		rp.MaxActive = k.defaultMaxActive()
	}
	if uint64(rp.MaxActive) > maxPool/(instanceSize+rp.DataSize) {
		return errf(syscall.ENOMEM, "%d instances with %d bytes of data", rp.MaxActive, rp.DataSize)
	}
	rp.pool = newPool(rp, rp.MaxActive, rp.DataSize, len(k.cpus))
	rp.resetMissed()
	return k.Register(p)
}

func (k *Kprobes) defaultMaxActive() int {
	cpus := k.cfg.Machine.CPUs()
	if !k.has[release.MaxActivePresentCPUs] && k.cfg.NRCPUs != 0 {
		cpus = k.cfg.NRCPUs
	}
	if !k.has[release.MaxActiveTwicePerCPU] && k.cfg.NoPreempt {
		return cpus
	}
	return max(10, 2*cpus)
}

func (k *Kprobes) checkRetprobe(rp *Retprobe) error {
	p := &rp.Kprobe
	if p.Addr != 0 {
		k.mu.Lock()
		err := k.checkRereg(p)
		k.mu.Unlock()
		if err != nil {
			return err
		}
	}
	at, _, err := k.resolve(p.Addr, p.SymbolName, p.Offset)
	if err != nil {
		return err
	}
	for _, s := range k.cfg.Symbols.LookupName("__switch_to") {
		if entry, _, _ := k.skipEndbr(s.Addr, 0); entry == at {
			return errf(syscall.EINVAL, "__switch_to returns on another stack")
		}
	}
	if rp.DataSize > maxRetData {
		return errf(syscall.E2BIG, "%d bytes of data for each call", rp.DataSize)
	}
	return nil
}

// bug logs that a task has reached the trampoline without a hooked call, as 6.1 does
// before it kills the task; 5.10 logs nothing.
func (hs *Hits) bug() {
	if !hs.has[release.ReturnBUG] {
		return
	}
	hs.machine.Printk(2, "rethook: rethook: Return address not found! Maybe there is a bug in the kernel")
	hs.machine.Printk(1, "------------[ cut here ]------------")
	hs.machine.Printk(1, "kernel BUG at kernel/trace/rethook.c:300!")
}

// RegisterRetprobes is register_kretprobes: it registers all or none. It fails with EINVAL when rps is empty.
func (k *Kprobes) RegisterRetprobes(rps []*Retprobe, by ...*Hit) error {
	if len(rps) == 0 {
		return errf(syscall.EINVAL, "no probes given")
	}
	for i, rp := range rps {
		if err := k.RegisterRetprobe(rp, by...); err != nil {
			_ = k.UnregisterRetprobes(rps[:i], by...) // as in RegisterAll
			return err
		}
	}
	return nil
}

// UnregisterRetprobe is unregister_kretprobe. Calls that are inside the function return
// safely, without the handlers. Its only error is EDEADLK.
func (k *Kprobes) UnregisterRetprobe(rp *Retprobe, by ...*Hit) error {
	return k.UnregisterRetprobes([]*Retprobe{rp}, by...)
}

// UnregisterRetprobes is unregister_kretprobes.
func (k *Kprobes) UnregisterRetprobes(rps []*Retprobe, by ...*Hit) error {
	if err := cmp.Or(mayWait(by), given(rps...)); err != nil {
		return err
	}
	ps := make([]*Kprobe, len(rps))
	for i, rp := range rps {
		if rp.pool != nil {
			rp.pool.dead.Store(true)
		}
		ps[i] = &rp.Kprobe
	}
	return k.UnregisterAll(ps)
}

// EnableRetprobe is enable_kretprobe.
func (k *Kprobes) EnableRetprobe(rp *Retprobe, by ...*Hit) error {
	if err := given(rp); err != nil {
		return err
	}
	return k.Enable(&rp.Kprobe, by...)
}

// DisableRetprobe is disable_kretprobe.
func (k *Kprobes) DisableRetprobe(rp *Retprobe, by ...*Hit) error {
	if err := given(rp); err != nil {
		return err
	}
	return k.Disable(&rp.Kprobe, by...)
}

// taskHooks is current->rethooks, the hooked calls of a task. Only the vCPU that runs the task, or
// that frees it, changes them.
//
// Another vCPU may read them by realReturn at that time, when it unwinds the stack of a task
// that runs (sysrq, the watchdog, a stack of another task). So the links and what is read
// through them are atomic. The reader may follow an instance that is given back and that another
// call of any task has meanwhile; it then continues in the list of that call. That is harmless:
// no list has a cycle at any time, instances are never freed while their pool is in use (the
// reader's pointer keeps it), and what is found belongs to the slot that was asked for, because a
// slot lies on one task's stack. If the call that uses the slot changes meanwhile, the address
// belongs to the call before or after, as on Linux, where the stack of a running task cannot
// be relied on either (rethook_find_ret_addr warns of it).
type taskHooks struct {
	first atomic.Pointer[Instance] // the newest
	last  *Retprobe                // the return probe whose call last returned to kretprobe_trampoline
	led   atomic.Pointer[Kprobe]   // the probe with a break handler whose pre-handler last directed the task elsewhere
}

func (h *taskHooks) push(ri *Instance) {
	ri.link(h.first.Load())
	h.first.Store(ri)
}

// take unlinks the newest calls whose return slot is frame, up to the one that
// holds the real return address, and returns them newest first. If none holds it,
// real is 0 and nothing is unlinked.
func (h *taskHooks) take(frame, trampoline uint64) (first *Instance, real uint64) {
	rest := h.first.Load()
	real, ok := realReturn(rest, frame, trampoline)
	if !ok {
		return nil, 0
	}
	var before, last *Instance // the last one that stays, and the last one that is taken
	for ri := rest; ri != nil; {
		next := ri.next.Load()
		if ri.frame.Load() != frame {
			before, ri = ri, next
			continue
		}
		if before == nil {
			rest = next
		} else {
			before.link(next)
		}
		if ri.link(nil); last == nil {
			first = ri
		} else {
			last.link(ri)
		}
		if last = ri; ri.RetAddr != trampoline {
			break
		}
		ri = next
	}
	h.first.Store(rest)
	return first, real
}

// hookedCalls are the calls of all tasks whose returns are hooked, and the place that they return to.
//
// No lock guards it: a task's calls are changed as taskHooks says, and the addresses, which find looks
// up once, never change again.
type hookedCalls struct {
	text    Text
	symbols Symbols
	name    string // of the trampoline

	tasks      TaskTable[taskHooks]
	trampoline atomic.Uint64 // where hooked calls return to, once looked up
	dead       atomic.Uint64 // address of an int3 after the trampoline, which kills the task that reaches it; 0 if there is none
}

// find looks the trampoline up. It fails with ENOENT if the kernel has none.
func (c *hookedCalls) find() error {
	if c.trampoline.Load() != 0 {
		return nil
	}
	syms := c.symbols.LookupName(c.name)
	if len(syms) == 0 {
		return errf(syscall.ENOENT, "no symbol %s", c.name)
	}
	c.trampoline.Store(syms[0].Addr)
	c.dead.Store(c.padding(syms[0]))
	return nil
}

// padding returns the address of the first of the int3s after a function's last instruction, or 0.
func (c *hookedCalls) padding(s abi.Symbol) (at uint64) {
	var b [1]byte
	for end := s.Addr + s.Size - 1; end > s.Addr && c.text.Read(end, b[:]) == nil && b[0] == int3; end-- {
		at = end
	}
	return at
}

// hook is rethook_hook: it stores the trampoline's address in the return slot, to
// which the stack pointer points. It runs in handler context.
func (c *hookedCalls) hook(ri *Instance, t *abi.Trap) bool {
	slot := t.Regs.SP
	addr, err := t.Mem.ReadU64(slot)
	if err != nil || t.Mem.WriteU64(slot, c.trampoline.Load()) != nil {
		return false
	}
	ri.hooked(slot, addr)
	c.tasks.Make(ri.Task).push(ri)
	return true
}

// real is rethook_find_ret_addr: it returns the word that the return slot of a
// hooked call of the task held before the trampoline's address.
func (c *hookedCalls) real(task, slot, trampoline uint64) (addr uint64, ok bool) {
	h := c.tasks.Of(task)
	if h == nil {
		return 0, false
	}
	return realReturn(h.first.Load(), slot, trampoline)
}

// flush forgets the calls of a task that has died in them.
func (c *hookedCalls) flush(task uint64) {
	h := c.tasks.Of(task)
	if h == nil {
		return
	}
	h.led.Store(nil)
	giveBack(h.first.Swap(nil))
}

// Return resolves a return address in a slot of the task's stack for an unwinder. For
// the trampoline's address, real is the word that the slot held before the call was
// hooked, or 0 if that is not known. Stack traces of 6.1 show real
// (unwind_recover_rethook), stack traces of older releases show the trampoline. Other addresses are
// returned unchanged. It takes no lock.
func (hs *Hits) Return(task, slot, addr uint64) (shown, real uint64) {
	if addr == 0 || addr != hs.returning.trampoline.Load() {
		return addr, addr
	}
	real, _ = hs.returning.real(task, slot, addr)
	if !hs.has[release.TrampolineCode] || !hs.has[release.ReturnIP] {
		return addr, real
	}
	return real, real
}

// LastFrame reports whether stack traces end at this address: 5.10's end in the
// trampoline. It takes no lock.
func (hs *Hits) LastFrame(ip uint64) bool {
	if hs.has[release.ReturnIP] {
		return false
	}
	s, _, ok := hs.symbols.Lookup(ip)
	return ok && s.Addr == hs.returning.trampoline.Load()
}

func realReturn(ri *Instance, frame, trampoline uint64) (addr uint64, ok bool) {
	for ; ri != nil; ri = ri.next.Load() {
		if ri.frame.Load() != frame {
			continue
		}
		if real := ri.real.Load(); real != trampoline {
			return real, true
		}
	}
	return 0, false
}

// FlushTask is rethook_flush_task: the task at this address has died inside hooked
// calls, or in a jprobe's handler. Their handlers do not run. It takes no lock.
func (hs *Hits) FlushTask(task uint64) {
	hs.jprobes.forget(task)
	hs.returning.flush(task)
}

// giveBack puts instances that have been unlinked into their pools.
func giveBack(first *Instance) {
	for ri := first; ri != nil; {
		next := ri.next.Load()
		ri.link(nil)
		ri.pool.put(ri)
		ri = next
	}
}

// preRetprobe is pre_handler_kretprobe: it hooks the return of the call that has just
// begun.
func (hs *Hits) preRetprobe(h *Hit) int {
	rp := h.Probe.ret
	ri := rp.pool.get(h.CPU)
	if ri == nil {
		rp.miss()
		return 0
	}
	ri.Task = h.Task
	if rp.EntryHandler != nil && hs.callRet(rp.EntryHandler, ri, h) != 0 || h.Gone || !hs.returning.hook(ri, h.Trap) {
		rp.pool.put(ri)
	}
	return 0
}

// Rethook is arch_rethook_trampoline_callback: a hooked call has returned to the
// trampoline, which saved the registers right below the return slot. Rethook runs the
// handlers of all hooks of this call, newest first, and stores the real return address
// in the slot, from which the trampoline's ret takes it. The hooks stay the task's until
// the handlers have run: whoever unwinds the stack meanwhile finds the real address by them.
func (hs *Hits) Rethook(t *abi.Trap) {
	frame := t.RegsAddr + abi.RegsSize
	if !hs.has[release.ReturnsIRQsOn] {
		t.IRQsOff = true
		defer func() { t.IRQsOff = false }()
	}
	trampoline := hs.returning.trampoline.Load()
	var real uint64
	found := false
	h := hs.returning.tasks.Of(t.Task)
	if h != nil {
		real, found = realReturn(h.first.Load(), frame, trampoline)
	}
	if !found {
		hs.bug()
		_ = t.Mem.WriteU64(frame, hs.returning.dead.Load()) // the trampoline has just written below it
		return
	}
	t.Regs.IP, t.Regs.CS, t.Regs.SS = real, abi.KernelCS, abi.KernelSS
	t.Regs.SP, t.Regs.OrigAX = frame+8, ^uint64(0)
	if !hs.has[release.ReturnIP] {
		t.Regs.IP = trampoline
	}
	for ri, last := h.first.Load(), false; ri != nil && !last; ri = ri.next.Load() {
		if ri.frame.Load() != frame {
			continue
		}
		if hs.runReturn(ri, t); t.Gone { // FlushTask gives the instances back
			return
		}
		last = ri.RetAddr != trampoline
	}
	first, _ := h.take(frame, trampoline)
	giveBack(first)
	t.Regs.IP, t.Regs.SP = real, frame+8
	_ = t.Mem.WriteU64(frame, real) // the trampoline has just written below it
}

func (hs *Hits) runReturns(first *Instance, t *abi.Trap) {
	for ri := first; ri != nil; {
		next := ri.next.Load()
		ri.link(nil)
		if !t.Gone {
			hs.runReturn(ri, t)
		}
		ri.pool.put(ri)
		ri = next
	}
}

// trampolineHit is the handler of the probe at kretprobe_trampoline, on releases that
// have it. It does what Rethook does, but is called for a breakpoint and directs the
// CPU to the real return address itself. It returns false when the call has returned
// before; the breakpoint then kills the task.
func (hs *Hits) trampolineHit(c *ctlblk, t *abi.Trap) bool {
	if c.point != nil {
		hs.dropLeft(c, t)
	}
	frame, h := t.Regs.SP-8, hs.returning.tasks.Of(t.Task)
	var first *Instance
	var real uint64
	if h != nil {
		first, real = h.take(frame, hs.returning.trampoline.Load())
	}
	if first == nil {
		hs.sayBug(h)
		return false
	}
	sp := t.Regs.SP
	h.last = first.Retprobe
	if t.Caller = abi.CallerReturn; hs.has[release.ReturnsOutsideTrap] {
		hs.returnsOutside(first, t)
	} else {
		hs.runReturns(first, t)
	}
	if !t.Gone {
		t.Regs.IP, t.Regs.SP = real, sp
	}
	return true
}

// returnsOutside runs return handlers as if outside a breakpoint: with interrupts as
// the function left them, and preemption off.
func (hs *Hits) returnsOutside(first *Instance, t *abi.Trap) {
	vector := t.Vector
	t.Vector = 0
	addPreempt(t, 1)
	hs.runReturns(first, t)
	if !t.Gone && !t.Away { // whose exit or sleep has set the count anew
		addPreempt(t, -1)
	}
	t.Vector = vector
}

// sayBug logs that a hooked call has returned more often than it was made. It names the
// return probe of the task's last hooked call.
func (hs *Hits) sayBug(h *taskHooks) {
	var rp *Retprobe
	if h != nil {
		if rp = h.last; h.first.Load() != nil {
			rp = h.first.Load().Retprobe
		}
	}
	at, addr := uint64(uintptr(unsafe.Pointer(rp))), uint64(0)
	if rp != nil {
		at, addr = cmp.Or(rp.Struct, at), rp.Kprobe.Addr
	}
	hs.machine.Printk(2, "kretprobe BUG!: Processing kretprobe %016x @ %016x", at, addr)
}

// runReturn is kretprobe_rethook_handler. Probes that the handler hits are missed; a
// probe that the CPU was handling resumes afterwards.
func (hs *Hits) runReturn(ri *Instance, t *abi.Trap) {
	if exit := ri.pool.exit; exit != nil {
		if !ri.pool.dead.Load() {
			exit(ri, t)
		}
		return
	}
	rp := ri.Retprobe
	if ri.pool.dead.Load() || rp.Handler == nil || rp.Kprobe.has(flagBroken) {
		return
	}
	c := &hs.cpus[t.CPU]
	before := c.running
	c.begin(&hs.returns, nil, t)
	c.ret = Hit{Trap: t, Probe: &rp.Kprobe, hits: hs}
	if hs.callRet(rp.Handler, ri, &c.ret); !t.Gone {
		c.running = before
	}
}
