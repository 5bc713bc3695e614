// Package optimizer replaces the breakpoints of probes by jumps: the
// optimized_kprobe of Linux 6.1's kernel/kprobes.c and
// arch/x86/kernel/kprobes/opt.c, by what they can be seen to do.
//
// Three ideas carry it. Eligibility (check.go) is decided once, when a probe is
// registered, by reading the whole function; each refusal says why. A detour
// (detour.go) is x86 code in guest memory: it saves the registers, calls the
// guest's optimized_callback, restores them, executes the instructions that the
// jump replaces, and jumps back. The queue (this file) makes the changes of
// text later and many at a time: a probe is shown as optimized when it is
// queued, and the jump is written after a grace period in which every task has
// left the bytes behind the breakpoint.
//
// Everything here works under the probes' lock, except for waiting.
package optimizer

import (
	"slices"
	"sync"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Delay is how long the queue waits for company: OPTIMIZE_DELAY, 5 jiffies.
const Delay = 5 * time.Second / abi.HZ

const (
	int3     = 0xcc
	jumpSize = 5
)

// Config is what an Optimizer is built from.
type Config struct {
	Text    kprobes.Text
	Symbols kprobes.Symbols
	Tables  kprobes.Tables
	Slots   kprobes.Slots
	Machine kprobes.Machine

	kprobes.Features
}

// Optimizer is the jump optimization of one kernel.
type Optimizer struct {
	cfg Config
	k   *kprobes.Kprobes

	knob sync.Mutex // kprobe_sysctl_mutex: one SetAllowed at a time
	work sync.Mutex // one run of the work at a time; both are taken before the probes' lock

	// What follows belongs to the probes' lock.
	off          bool // debug.kprobes-optimization is 0
	optimizing   queue
	unoptimizing queue
	garbage      []func()    // gives back memory that a task may still be executing
	cancel       func() bool // stops the delayed work; nil: none is pending
	stopped      bool        // the machine is going away
	serial       uint64      // of the last one queued
	text         []byte      // checkFunction's, used again
	known        [knownFunctions]function
}

var _ kprobes.Optimizer = (*Optimizer)(nil)

// place is where an optimized probe stands.
type place uint8

const (
	idle place = iota
	toJump
	toInt3
)

// optimized is optimized_kprobe.
type optimized struct {
	pt     *kprobes.Point
	detour uint64
	orig   []byte // the bytes of the optimized region, without probes
	jump   []byte
	queued place
	serial uint64 // of its place in the queue
}

// queue is who waits for one of the two changes, in the order of queueing. Who
// leaves is just no longer queued with that serial.
type queue struct {
	tickets []ticket
	n       int // of those that still wait
}

type ticket struct {
	op     *optimized
	serial uint64
}

// add puts op at the end.
func (q *queue) add(op *optimized, to place, serial uint64) {
	if len(q.tickets) > 2*q.n+64 {
		q.tickets = slices.DeleteFunc(q.tickets, func(t ticket) bool { return !t.waits() })
	}
	op.queued, op.serial = to, serial
	q.tickets = append(q.tickets, ticket{op, serial})
	q.n++
}

func (t ticket) waits() bool { return t.op.queued != idle && t.op.serial == t.serial }

// upTo gives those that were queued no later than a serial.
func (q *queue) upTo(serial uint64) (ops []*optimized) {
	for _, t := range q.tickets {
		if t.serial > serial {
			break
		}
		if t.waits() {
			ops = append(ops, t.op)
		}
	}
	return ops
}

// size is the length of the optimized region in bytes: whole instructions, at
// least a jump's.
func (op *optimized) size() uint64 { return uint64(len(op.orig)) }

// New gives an optimizer that is switched on. kprobes.New attaches it.
func New(c Config) *Optimizer {
	return &Optimizer{cfg: c}
}

// Attach tells whose probes they are.
func (o *Optimizer) Attach(k *kprobes.Kprobes) {
	o.k = k
	o.say(true)
}

// say tells the log what the knob is now.
func (o *Optimizer) say(on bool) {
	text := "kprobe jump-optimization is disabled. All kprobes are based on software breakpoint."
	switch {
	case o.cfg.BareLog && on:
		text = "Kprobes globally optimized"
	case o.cfg.BareLog:
		text = "Kprobes globally unoptimized"
	case on:
		text = "kprobe jump-optimization is enabled. All kprobes are optimized if possible."
	}
	o.cfg.Printk(o.cfg.Machine, 6, "%s", text)
}

// Allowed is what debug.kprobes-optimization shows.
func (o *Optimizer) Allowed() bool {
	o.k.Lock()
	defer o.k.Unlock()
	return !o.off
}

// SetAllowed is a write to debug.kprobes-optimization. Switching off waits
// until no jump is left.
func (o *Optimizer) SetAllowed(on bool) {
	o.knob.Lock()
	defer o.knob.Unlock()
	o.k.Lock()
	defer o.k.Unlock()
	if o.off == !on {
		return
	}
	o.off = !on
	o.k.Each(func(pt *kprobes.Point) {
		switch {
		case pt.Disabled():
		case on:
			o.Optimize(pt)
		default:
			o.Unoptimize(pt, false)
		}
	})
	if on {
		o.say(true)
		return
	}
	o.k.Unlock()
	o.Wait()
	o.k.Lock()
	o.say(false)
}

// opOf is what is known of pt, nil when it cannot be optimized.
func opOf(pt *kprobes.Point) *optimized {
	op, _ := pt.Opt().(*optimized)
	return op
}

// Prepare makes pt optimizable, or gives a *Refusal.
func (o *Optimizer) Prepare(pt *kprobes.Point) error {
	op, out, err := o.prepare(pt.Addr())
	if err != nil {
		return err
	}
	op.pt = pt
	pt.SetOpt(op)
	pt.SetDetour(out)
	return nil
}

// Optimize queues pt, if it can be optimized and nothing speaks against it now.
func (o *Optimizer) Optimize(pt *kprobes.Point) {
	op := opOf(pt)
	if op == nil || o.off || o.k.AllDisarmed() || o.blocked(op) {
		return
	}
	if pt.State()&kprobes.FlagOptimized != 0 {
		if op.queued == toInt3 {
			o.dequeue(op)
		}
		return
	}
	for _, inner := range o.inside(op) {
		// It is disabled, but its jump may still be there, where an int3 at
		// pt, that goes by the detour from now on, would come back to.
		// Linux leaves it there for the rest of its delay.
		o.Unoptimize(inner, true)
	}
	pt.SetOptimized(true)
	o.enqueue(op, toJump)
}

// blocked says whether something temporary keeps op from being optimized: it is
// disabled, has a post- or break handler, or another probe stands in its region.
func (o *Optimizer) blocked(op *optimized) bool {
	return op.pt.Disabled() || op.pt.NeedsInt3() ||
		slices.ContainsFunc(o.inside(op), func(pt *kprobes.Point) bool { return !pt.Disabled() })
}

// inside is the points in the region of op, behind its own.
func (o *Optimizer) inside(op *optimized) []*kprobes.Point {
	at := op.pt.Addr()
	return o.k.PointsWithin(at+1, at+op.size())
}

// Unoptimize queues the way back to the breakpoint. A probe that waits for its
// jump just leaves the queue. Forced, the jump is taken away at once.
func (o *Optimizer) Unoptimize(pt *kprobes.Point, force bool) {
	op := opOf(pt)
	if op == nil || pt.State()&kprobes.FlagOptimized == 0 {
		return
	}
	switch {
	case op.queued == toJump:
		o.dequeue(op)
		pt.SetOptimized(false)
	case force:
		settle := op.queued == toInt3
		o.dequeue(op)
		o.writeBreakpoints([]*optimized{op}, settle)
	case op.queued == idle:
		o.enqueue(op, toInt3)
	}
}

func (o *Optimizer) enqueue(op *optimized, to place) {
	q := &o.optimizing
	if to == toInt3 {
		q = &o.unoptimizing
	}
	o.serial++
	q.add(op, to, o.serial)
	o.kick()
}

// Within says whether the jump of pt, if it can have one, covers addr.
func (o *Optimizer) Within(pt *kprobes.Point, addr uint64) bool {
	op := opOf(pt)
	return op != nil && pt.Addr() < addr && addr < pt.Addr()+op.size()
}

// Queued says whether pt waits for the queue to be worked off.
func (o *Optimizer) Queued(pt *kprobes.Point) bool {
	op := opOf(pt)
	return op != nil && op.queued != idle
}

// Release gives back the detour of a probe that has left the table, once no
// task can be in it.
func (o *Optimizer) Release(pt *kprobes.Point) {
	op := opOf(pt)
	if op == nil {
		return
	}
	o.dequeue(op)
	pt.SetOpt(nil)
	o.garbage = append(o.garbage, func() { o.cfg.Slots.Free(op.detour) })
	o.kick()
}

// Kill is kill_optimized_kprobe: the text at pt goes away, with or without a jump in it.
func (o *Optimizer) Kill(pt *kprobes.Point) {
	pt.SetOptimized(false)
	pt.SetDetour(0)
	o.Release(pt)
}

func (o *Optimizer) dequeue(op *optimized) {
	switch op.queued {
	case toJump:
		o.optimizing.n--
	case toInt3:
		o.unoptimizing.n--
	case idle:
	}
	op.queued = idle
}

func (op *optimized) breakpoint() abi.Patch {
	return abi.Patch{Addr: op.pt.Addr(), Bytes: append([]byte{int3}, op.orig[1:jumpSize]...)}
}

// kick makes the work run after Delay.
func (o *Optimizer) kick() {
	if o.cancel == nil && !o.stopped {
		o.cancel = o.cfg.Machine.AfterFunc(Delay, o.optimize)
	}
}

// Stop ends the delayed work for good and waits for a run of it that is under
// way: text will not be touched by itself any more. It comes before the
// machine's end.
func (o *Optimizer) Stop() {
	o.k.Lock()
	o.stopped = true
	if o.cancel != nil {
		o.cancel()
	}
	o.k.Unlock()
	o.work.Lock()
	o.work.Unlock() //nolint:staticcheck // the lock is taken to see the work end
}

// Wait runs the work now until nothing is queued.
func (o *Optimizer) Wait() {
	for o.pending() {
		o.optimize()
	}
}

func (o *Optimizer) pending() bool {
	o.k.Lock()
	defer o.k.Unlock()
	return !o.stopped && o.optimizing.n+o.unoptimizing.n > 0
}

// optimize is kprobe_optimizer, the work: ways back first, then, when every
// task has left the regions, the jumps. Linux holds the probes' lock all the
// time; here it is free while the work waits, and a probe queued meanwhile gets
// its jump in the next round.
func (o *Optimizer) optimize() {
	o.work.Lock()
	defer o.work.Unlock()
	before, garbage, wait, ok := o.begin()
	if !ok {
		return
	}
	if wait {
		o.cfg.Machine.SynchronizeRCUTasks()
	}
	for _, free := range garbage {
		free()
	}
	o.k.Lock()
	defer o.k.Unlock()
	o.writeJumps(before)
	if o.optimizing.n+o.unoptimizing.n+len(o.garbage) > 0 {
		o.kick()
	}
}

// begin writes the breakpoints and tells which probes may get their jump after
// the grace period: those queued no later than before.
func (o *Optimizer) begin() (before uint64, garbage []func(), wait, ok bool) {
	o.k.Lock()
	defer o.k.Unlock()
	if o.stopped {
		return 0, nil, false, false
	}
	if o.cancel != nil {
		o.cancel()
		o.cancel = nil
	}
	if ops := o.unoptimizing.upTo(o.serial); len(ops) > 0 {
		o.writeBreakpoints(ops, true)
	}
	o.unoptimizing = queue{}
	garbage, o.garbage = o.garbage, nil
	return o.serial, garbage, len(garbage)+o.optimizing.n > 0, true
}

// writeBreakpoints is arch_unoptimize_kprobes. With settle, disabled probes lose
// the breakpoint too, and those that nobody uses are let go.
//
// Text.Poke fails only where no text is any more, and then nothing is left to undo.
func (o *Optimizer) writeBreakpoints(ops []*optimized, settle bool) {
	_ = o.poke(ops, (*optimized).breakpoint)
	for _, op := range ops {
		o.dequeue(op)
		op.pt.SetOptimized(false)
		if settle {
			o.settle(op)
		}
	}
}

func (o *Optimizer) settle(op *optimized) {
	if !o.k.Unoptimized(op.pt) {
		return
	}
	o.Release(op.pt)
	o.garbage = append(o.garbage, func() { o.k.Free(op.pt) })
}

// writeJumps is do_optimize_kprobes.
func (o *Optimizer) writeJumps(before uint64) {
	if o.off || o.k.AllDisarmed() {
		return
	}
	ops := o.optimizing.upTo(before)
	if len(ops) == 0 {
		return
	}
	_ = o.poke(ops, (*optimized).toJump) // see writeBreakpoints
	for _, op := range ops {
		o.dequeue(op)
	}
	o.optimizing.tickets = slices.DeleteFunc(o.optimizing.tickets, func(t ticket) bool { return !t.waits() })
}

func (op *optimized) toJump() abi.Patch { return abi.Patch{Addr: op.pt.Addr(), Bytes: op.jump} }

func (o *Optimizer) poke(ops []*optimized, patch func(*optimized) abi.Patch) error {
	patches := make([]abi.Patch, len(ops))
	for i, op := range ops {
		patches[i] = patch(op)
	}
	return o.k.Poke(patches...)
}
