package kprobes

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// status is kprobe_ctlblk.kprobe_status.
type status uint8

const (
	hitActive status = iota + 1 // pre-handlers run
	hitSS                       // the copy is being stepped
	reenter                     // the same, of a probe that was hit inside another one
	hitSSDone                   // post-handlers run
)

// running is what a CPU is doing for which probe.
type running struct {
	point *Point // kprobe_running(), nil: nothing
	code  *slotCode
	state status
	saved uint64 // IF of the flags when the probe was hit
}

// ctlblk is kprobe_ctlblk: the work of one CPU. Only its vCPU touches it.
type ctlblk struct {
	running
	prev running // while state is reenter
	hit  Hit
	ret  Hit // of return handlers, which may run while a probe does
	buf  [8]byte

	away     away
	fault    Hit      // of fault handlers, which may run while another handler does
	faulting bool     // a fault handler runs
	_        [64]byte // the next CPU's line
}

func (c *ctlblk) begin(pt *Point, code *slotCode, t *abi.Trap) {
	c.running = running{point: pt, code: code, state: hitActive, saved: t.Regs.Flags & abi.FlagIF}
}

// end is reset_current_kprobe, or restore_previous_kprobe.
func (c *ctlblk) end() {
	if c.state == reenter {
		c.running = c.prev
		return
	}
	c.point = nil
}

// Int3 is kprobe_int3_handler: it handles the int3 in front of t.Regs.IP when
// that stands at a probe or ends a stepped copy. When it was a probe's that is
// just gone, the instruction is executed again. False: the int3 is no probe's.
func (k *Kprobes) Int3(t *abi.Trap) bool {
	c := &k.cpus[t.CPU]
	addr := t.Regs.IP - 1
	if k.own.Contains(addr) {
		return k.int3Own(c, addr, t)
	}
	if pt := k.table.get(addr); pt != nil {
		if code := pt.code.Load(); code != nil {
			return k.hitInt3(c, pt, code, t)
		}
	}
	if c.point != nil && (c.state == hitSS || c.state == reenter) && c.code.within(t.Regs.IP) {
		k.resume(c, t)
		return true
	}
	if k.breakHandler(c, t) {
		return true
	}
	b := c.buf[:1]
	if t.Mem.ReadAt(addr, b) == nil && b[0] != int3 {
		t.Regs.IP = addr
		return true
	}
	return false
}

func (k *Kprobes) hitInt3(c *ctlblk, pt *Point, code *slotCode, t *abi.Trap) bool {
	if k.busy(c, t) {
		return k.reenter(c, pt, code, t)
	}
	c.begin(pt, code, t)
	if k.runPre(c, pt, t, false) {
		switch p := c.hit.Probe; {
		case p.jp != nil: // its handler runs now
		case p.BreakHandler != nil:
			c.away.begin(p, t)
		default:
			c.end()
		}
		return true
	}
	k.step(c, t)
	return true
}

// reenter is reenter_kprobe: a probe was hit inside another one's handler or
// step. Its handlers do not run; the hit is counted as missed.
func (k *Kprobes) reenter(c *ctlblk, pt *Point, code *slotCode, t *abi.Trap) bool {
	if c.state == reenter {
		k.unrecoverable(pt)
		return false
	}
	miss(pt)
	c.prev = c.running
	c.begin(pt, code, t)
	c.state = reenter
	k.step(c, t)
	return true
}

// unrecoverable is what Linux says before it gives up: a probe was hit while a
// probe that was hit inside another one was being stepped.
func (k *Kprobes) unrecoverable(pt *Point) {
	var name string
	var offset uint32
	if probes := pt.list.Load().probes; len(probes) > 0 {
		name, offset = probes[0].SymbolName, probes[0].Offset
	}
	k.cfg.Printk(k.cfg.Machine, 4, "Unrecoverable kprobe detected.")
	k.cfg.Printk(k.cfg.Machine, 3, "Dump kprobe:\n.symbol_name = %s, .offset = %x, .addr = %#x", name, offset, pt.addr)
}

// runPre runs the pre-handlers, newest first, until one says that it changed
// the way; with all it does not matter what they say. One that panics is passed
// over.
func (k *Kprobes) runPre(c *ctlblk, pt *Point, t *abi.Trap, all bool) bool {
	probes := pt.list.Load().probes
	for at := 0; at < len(probes); at++ {
		if k.preHandlers(c, probes, &at, t, all) {
			return true
		}
	}
	return false
}

func (k *Kprobes) runPost(c *ctlblk, pt *Point, t *abi.Trap) {
	list := pt.list.Load()
	if !list.post {
		return
	}
	for at := 0; at < len(list.probes); at++ {
		k.postHandlers(c, list.probes, &at, t)
	}
}

// miss is kprobes_inc_nmissed_count.
func miss(pt *Point) {
	for _, p := range pt.list.Load().probes {
		p.missed.Add(1)
	}
}

// step is setup_singlestep: it carries out the probed instruction of c, or
// sends the CPU to its copy.
func (k *Kprobes) step(c *ctlblk, t *abi.Trap) {
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
		k.finish(c, t)
		return
	}
	if c.state != reenter {
		c.state = hitSS
	}
	t.Regs.Flags &^= abi.FlagIF
	t.Regs.IP = code.slot
}

// Stepped is resume_singlestep of a probe whose post-handlers need not run: all
// that such a step changes is where the CPU goes on, and with which flags. Not
// ok: the int3 in front of ip ended no such step, and is for Int3.
func (k *Kprobes) Stepped(cpu int, ip, flags uint64) (toIP, toFlags uint64, ok bool) {
	c := &k.cpus[cpu]
	pt := c.point
	if pt == nil || c.state != hitSS && c.state != reenter || !c.code.within(ip) || c.state == hitSS && pt.HasPostHandler() {
		return 0, 0, false
	}
	toIP, toFlags = pt.addr+(ip-c.code.slot)-1, flags|c.saved
	c.end()
	return toIP, toFlags, true
}

// resume is resume_singlestep: the copy was executed, the int3 behind it hit.
func (k *Kprobes) resume(c *ctlblk, t *abi.Trap) {
	t.Regs.Flags |= c.saved
	t.Regs.IP = c.point.addr + (t.Regs.IP - c.code.slot) - 1
	k.finish(c, t)
}

// finish is kprobe_post_process.
func (k *Kprobes) finish(c *ctlblk, t *abi.Trap) {
	if c.state != reenter {
		c.state = hitSSDone
		k.runPost(c, c.point, t)
	}
	c.end()
}

// Fault is kprobe_fault_handler: when the instruction that faulted is a copy
// being stepped, t.Regs become those of a fault at the probed address, and the
// probe is done with. The guest handles the fault then, with t.Regs as they are
// now: the result is false. It is true when a fault handler has dealt with it, and
// the CPU is to go on with t.Regs.
func (k *Kprobes) Fault(t *abi.Trap) bool {
	c := &k.cpus[t.CPU]
	if c.point == nil {
		return false
	}
	if k.cfg.FaultHandlers && (c.state == hitActive || c.state == hitSSDone) && !c.left(t) {
		return k.faultHandler(c, t)
	}
	if c.state != hitSS && c.state != reenter || t.Regs.IP != c.code.slot {
		return false
	}
	if k.cfg.StepFaults && k.faultStepped(c, t) {
		return true
	}
	t.Regs.IP = c.point.addr
	t.Regs.Flags |= c.saved
	c.end()
	return false
}

// fentrySize is the length of an fentry site in bytes.
const fentrySize = 5

// Ftrace is kprobe_ftrace_handler: t.Regs.IP is an fentry site's address, and
// becomes where to go on, which is behind the site unless a handler says
// otherwise.
func (k *Kprobes) Ftrace(t *abi.Trap) {
	c := &k.cpus[t.CPU]
	site := t.Regs.IP
	t.Regs.IP = site + fentrySize
	pt := k.table.get(site)
	if pt == nil || pt.Disabled() {
		return
	}
	if k.busy(c, t) {
		miss(pt)
		return
	}
	c.begin(pt, nil, t)
	t.Regs.IP = site + 1
	if !k.runPre(c, pt, t, false) {
		t.Regs.IP = site + fentrySize
		c.state = hitSSDone
		k.runPost(c, pt, t)
		t.Regs.IP = site + fentrySize
	}
	c.end()
}

// Optimized is optimized_callback: a jump led to the detour of the probe at
// t.Arg, the op that Detour put there. All handlers run; where they want to go
// on does not matter.
func (k *Kprobes) Optimized(t *abi.Trap) {
	c := &k.cpus[t.CPU]
	pt := k.table.get(t.Arg)
	if pt == nil || pt.Disabled() {
		return // its way back is on the optimizer's list
	}
	if k.busy(c, t) {
		miss(pt)
		return
	}
	t.Regs.SP += 8 // the detour saved it behind a push
	t.Regs.CS = abi.KernelCS
	t.Regs.IP = pt.addr + 1
	t.Regs.OrigAX = ^uint64(0)
	c.begin(pt, nil, t)
	k.runPre(c, pt, t, true)
	c.end()
}
