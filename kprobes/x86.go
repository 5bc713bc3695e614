package kprobes

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// status is kprobe_ctlblk.kprobe_status.
type status uint8

const (
	hitActive status = iota + 1 // pre-handlers are running
	hitSS                       // the copy is being stepped
	reenter                     // the same, for a probe that was hit inside another one
	hitSSDone                   // post-handlers are running
)

// running is the probe that a CPU is handling, and how far it has got.
type running struct {
	point *point // kprobe_running(); nil if none
	code  *slotCode
	state status
	saved uint64 // IF in the flags at the hit
}

// ctlblk is kprobe_ctlblk, the state of one CPU. Only its vCPU uses it.
type ctlblk struct {
	running
	prev running // the outer probe while state is reenter
	hit  Hit
	ret  Hit // for return handlers, which may run during another probe's handling
	buf  [8]byte

	fault    Hit              // for fault handlers, which may run during another handler
	faulting bool             // a fault handler is running
	_        [cacheLines]byte // what follows is the next CPU's
}

func (c *ctlblk) begin(pt *point, code *slotCode, t *abi.Trap) {
	c.running = running{point: pt, code: code, state: hitActive, saved: t.Regs.Flags & abi.FlagIF}
}

// end is reset_current_kprobe, or restore_previous_kprobe. After a handler that has
// ended its task nobody gets there: the CPU keeps the probe as its current one.
func (c *ctlblk) end() {
	if c.state == reenter {
		c.running = c.prev
		return
	}
	c.point = nil
}

// Hits handles the hits of probes. Its methods run on vCPUs: they take no lock, and allocate
// only for a task's first hooked call. They read the table, whose entries Kprobes replaces as
// a whole; everything else is a CPU's or a task's own, or does not change after New.
type Hits struct {
	has     release.Set // what the release does
	machine Machine
	symbols Symbols
	disable func(p *Kprobe) // disables a probe whose handler has panicked; it may wait

	table     table // Kprobes changes it, with its lock held
	cpus      []ctlblk
	jprobes   jprobes
	returning hookedCalls
	returns   point // a dummy point for running return handlers
	relCode   releaseCode
}

// Int3 is kprobe_int3_handler: it handles the int3 before t.Regs.IP when that belongs
// to a probe or ends a stepped copy. After the int3 of a probe that has just been
// removed, the instruction is executed again. Int3 returns false when the int3 belongs
// to no probe.
func (hs *Hits) Int3(t *abi.Trap) bool {
	c := &hs.cpus[t.CPU]
	addr := t.Regs.IP - 1
	if hs.relCode.Contains(addr) {
		return hs.int3ReleaseCode(c, addr, t)
	}
	if pt := hs.table.get(addr); pt != nil {
		if code := pt.code.Load(); code != nil {
			return hs.hitInt3(c, pt, code, t)
		}
	}
	if c.point != nil && (c.state == hitSS || c.state == reenter) && c.code.within(t.Regs.IP) {
		hs.resume(c, t)
		return true
	}
	if !hs.has[release.NoBreakHandlers] && hs.breakHandler(c, t) {
		return true
	}
	b := c.buf[:1]
	if t.Mem.ReadAt(addr, b) == nil && b[0] != int3 {
		t.Regs.IP = addr
		return true
	}
	return false
}

func (hs *Hits) hitInt3(c *ctlblk, pt *point, code *slotCode, t *abi.Trap) bool {
	if hs.busy(c, t) {
		return hs.reenter(c, pt, code, t)
	}
	if t.Quiet {
		hs.pass(c, pt, code, t)
		return true
	}
	c.begin(pt, code, t)
	t.Caller = abi.CallerKprobe
	if pt.aggr.Load() {
		t.Caller = abi.CallerAggr
	}
	if hs.runPre(c, pt, t, false) {
		p := c.hit.Probe
		if p.jp != nil { // its handler runs next
			return true
		}
		c.end()
		if p.BreakHandler != nil {
			hs.returning.tasks.Make(t.Task).led.Store(p)
		}
		return true
	}
	hs.step(c, t)
	return true
}

// reenter is reenter_kprobe: a probe was hit in another one's handler or step. Its
// handlers do not run, and the hit is counted as missed.
func (hs *Hits) reenter(c *ctlblk, pt *point, code *slotCode, t *abi.Trap) bool {
	if c.state == reenter {
		hs.unrecoverable(pt)
		return false
	}
	miss(pt)
	c.prev = c.running
	c.begin(pt, code, t)
	c.state = reenter
	hs.step(c, t)
	return true
}

// pass executes the probed instruction of a hit that no handler is to see. As for a
// nested hit, no post-handler runs after it.
func (hs *Hits) pass(c *ctlblk, pt *point, code *slotCode, t *abi.Trap) {
	c.prev = c.running
	c.begin(pt, code, t)
	c.state = reenter
	hs.step(c, t)
}

// unrecoverable logs what Linux logs before it gives up: a probe was hit while the
// copy of a nested probe was being stepped.
func (hs *Hits) unrecoverable(pt *point) {
	var name string
	var offset uint32
	if probes := pt.list.Load().probes; len(probes) > 0 {
		name, offset = probes[0].SymbolName, probes[0].Offset
	}
	hs.printk(4, "Unrecoverable kprobe detected.")
	hs.printk(3, "Dump kprobe:\n.symbol_name = %s, .offset = %x, .addr = %#x", name, offset, pt.addr)
}

// runPre runs the pre-handlers, newest first, until one reports a changed way; with
// all, their results are ignored. One that panics is skipped.
func (hs *Hits) runPre(c *ctlblk, pt *point, t *abi.Trap, all bool) bool {
	probes := pt.list.Load().probes
	for at := 0; at < len(probes); at++ {
		if hs.preHandlers(c, probes, &at, t, all) {
			return true
		}
	}
	return false
}

func (hs *Hits) runPost(c *ctlblk, pt *point, t *abi.Trap) {
	list := pt.list.Load()
	if !list.post {
		return
	}
	t.Caller = abi.CallerPost
	if pt.aggr.Load() {
		t.Caller = abi.CallerAggr
	}
	for at := 0; at < len(list.probes) && !t.Gone; at++ {
		hs.postHandlers(c, list.probes, &at, t)
	}
}

// miss is kprobes_inc_nmissed_count.
func miss(pt *point) {
	for _, p := range pt.list.Load().probes {
		p.miss()
	}
}

// step is setup_singlestep: it executes the probed instruction of c by emulation, or
// directs the CPU to its copy.
func (hs *Hits) step(c *ctlblk, t *abi.Trap) {
	pt, code := c.point, c.code
	if out := pt.out.Load(); out != 0 && pt.has(FlagOptimized) {
		t.Regs.IP = out // the detour's copies end in a jump back
		c.end()
		return
	}
	if list := pt.list.Load(); code.boost != 0 && !list.post && !list.faults {
		t.Regs.IP = code.boost
		c.end()
		return
	}
	if emulate(code, t) {
		hs.finish(c, t)
		return
	}
	if c.state != reenter {
		c.state = hitSS
	}
	t.Regs.Flags &^= abi.FlagIF
	t.Regs.IP = code.slot
}

// Stepped is resume_singlestep for a probe that has no post-handlers to run: such a
// step changes only where the CPU continues, and the flags. ok is false when the int3
// before ip did not end such a step; then Int3 must handle it.
func (hs *Hits) Stepped(cpu int, ip, flags uint64) (toIP, toFlags uint64, ok bool) {
	c := &hs.cpus[cpu]
	pt := c.point
	if pt == nil || c.state != hitSS && c.state != reenter || !c.code.within(ip) || c.state == hitSS && pt.hasPostHandler() {
		return 0, 0, false
	}
	toIP, toFlags = pt.addr+(ip-c.code.slot)-1, flags|c.saved
	c.end()
	return toIP, toFlags, true
}

// resume is resume_singlestep: the CPU has executed the copy and hit the int3 after it.
func (hs *Hits) resume(c *ctlblk, t *abi.Trap) {
	t.Regs.Flags |= c.saved
	t.Regs.IP = c.point.addr + (t.Regs.IP - c.code.slot) - 1
	hs.finish(c, t)
}

// finish is kprobe_post_process.
func (hs *Hits) finish(c *ctlblk, t *abi.Trap) {
	if c.state != reenter {
		c.state = hitSSDone
		hs.runPost(c, c.point, t)
	}
	c.end()
}

// Fault is kprobe_fault_handler. When a stepped copy has faulted, it sets t.Regs to a
// fault at the probed address, and ends the handling of the probe. It returns false if
// the guest has to handle the fault, with t.Regs as they are now, and true if a fault
// handler has resolved it and the CPU continues at t.Regs.
func (hs *Hits) Fault(t *abi.Trap) bool {
	c := &hs.cpus[t.CPU]
	if c.point == nil {
		return false
	}
	if !hs.has[release.NoFaultHandlers] && (c.state == hitActive || c.state == hitSSDone) && !hs.jprobes.of(t).left(t) {
		return hs.faultHandler(c, t)
	}
	if c.state != hitSS && c.state != reenter || t.Regs.IP != c.code.slot {
		return false
	}
	if !hs.has[release.NoStepFaultHandlers] && hs.faultStepped(c, t) {
		return true
	}
	t.Regs.IP = c.point.addr
	t.Regs.Flags |= c.saved
	c.end()
	return false
}

// fentrySize is the length of an fentry site in bytes.
const fentrySize = 5

// Ftrace is kprobe_ftrace_handler. t.Regs.IP is the address of an fentry site; Ftrace
// sets it to the address after the site, unless a handler changes it.
func (hs *Hits) Ftrace(t *abi.Trap) {
	c := &hs.cpus[t.CPU]
	site := t.Regs.IP
	t.Regs.IP = site + fentrySize
	pt := hs.table.get(site)
	if pt == nil || pt.disabled() {
		return
	}
	if hs.busy(c, t) {
		miss(pt)
		return
	}
	c.begin(pt, nil, t)
	t.Regs.IP = site + 1
	if !hs.runPre(c, pt, t, false) {
		t.Regs.IP = site + fentrySize
		c.state = hitSSDone
		if hs.runPost(c, pt, t); !t.Gone {
			t.Regs.IP = site + fentrySize
		}
	}
	if !t.Gone {
		c.end()
	}
}

// Optimized is optimized_callback: a jump led to the detour of the probe at t.Arg, the
// op that the detour passes. All handlers run; changes of IP are ignored.
func (hs *Hits) Optimized(t *abi.Trap) {
	c := &hs.cpus[t.CPU]
	pt := hs.table.get(t.Arg)
	if pt == nil || pt.disabled() || t.Quiet {
		return // its jump is queued for removal, or the hit is not the host's doing
	}
	if hs.busy(c, t) {
		miss(pt)
		return
	}
	t.Regs.SP += 8 // the detour saved it after a push
	t.Regs.CS = abi.KernelCS
	t.Regs.IP = pt.addr + 1
	t.Regs.OrigAX = ^uint64(0)
	c.begin(pt, nil, t)
	hs.runPre(c, pt, t, true)
	if !t.Gone {
		c.end()
	}
}
