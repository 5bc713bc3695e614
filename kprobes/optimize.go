package kprobes

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// OptimizeDelay is the delay of the optimizer's work: OPTIMIZE_DELAY, 5 jiffies.
const OptimizeDelay = 5 * time.Second / abi.HZ

// maxOptimized is the largest distance between an optimized region's start and an
// address in it: 4 bytes of the jump and a last instruction of 15.
const maxOptimized = 4 + insn.MaxLen

// Optimizer makes the code for jumps that replace breakpoints, like the architecture's
// part of Linux's optimizer. This package decides when that code is used.
type Optimizer interface {
	// Prepare is arch_prepare_optimized_kprobe: it checks whether a jump is safe at
	// addr, and makes its code. original reads text as it is without probes; it fails
	// where there is no text. The error tells why the probe has to stay a breakpoint.
	Prepare(addr uint64, original func(addr uint64, p []byte) error) (*Detour, error)
	// Free is arch_remove_optimized_kprobe. No task is in the buffer any more.
	Free(d *Detour)
}

// Detour is the code of an optimized probe (optimized_kprobe): the jump, and the
// buffer that it leads to.
type Detour struct {
	Region []byte // the whole instructions that the jump replaces, at least 5 bytes
	Jump   []byte // the 5 bytes that replace them
	Addr   uint64 // address of the detour buffer, to which the jump leads
	Code   []byte // the contents of the buffer
	Op     uint64 // address of what the callback gets, OpSize bytes behind the code
	Copied uint64 // address of the copied instructions in the buffer
}

// Sizes of what lies at Detour.Op, the guest's struct optimized_kprobe: the Struct of the
// first probe, or 0 if the callback is to ask the machine, and the probed address.
const (
	opWord = 8
	OpSize = 2 * opWord
)

// covers reports whether addr is in the region of a jump at start, after its first byte.
func (d *Detour) covers(start, addr uint64) bool {
	return d != nil && start < addr && addr < start+uint64(len(d.Region))
}

var errNoOptprobes = errors.New("this kernel has no jump optimization")

// direction is the change that a point is queued for.
type direction uint8

const (
	notQueued direction = iota
	toJump
	toInt3
)

// queue holds the points that wait for one of the two changes, in the order of
// queueing. A ticket is void when its point is no longer queued under the ticket's
// serial number, so a point leaves the queue without a search.
type queue struct {
	tickets []ticket
	n       int // number of points that still wait
}

type ticket struct {
	pt     *point
	serial uint64
}

// add appends pt.
func (q *queue) add(pt *point, to direction, serial uint64) {
	if len(q.tickets) > 2*q.n+64 {
		q.compact()
	}
	pt.queued, pt.serial = to, serial
	q.tickets = append(q.tickets, ticket{pt, serial})
	q.n++
}

func (q *queue) compact() {
	q.tickets = slices.DeleteFunc(q.tickets, func(t ticket) bool { return !t.waits() })
}

func (t ticket) waits() bool { return t.pt.queued != notQueued && t.pt.serial == t.serial }

// upTo returns the points that were queued no later than a serial number.
func (q *queue) upTo(serial uint64) (pts []*point) {
	for _, t := range q.tickets {
		if t.serial > serial {
			break
		}
		if t.waits() {
			pts = append(pts, t.pt)
		}
	}
	return pts
}

// jumpQueue says which points wait to become a jump, or to be none any more, and when the
// work for them runs. It knows neither probes nor text: Kprobes decides who waits, and does
// the work.
//
// A probe is shown as optimized as soon as it is queued. The work that runs after
// OptimizeDelay writes the queued jumps together, once every task has left the bytes
// after the breakpoints (SynchronizeRCUTasks).
//
// Kprobes.mu guards all of it, and its methods are called with that lock. The timer that it
// starts calls run in a goroutine of its own, without the lock.
type jumpQueue struct {
	timer interface { // Machine
		AfterFunc(d time.Duration, f func()) (stop func() bool)
	}
	run func() // the work

	off     bool // debug.kprobes-optimization is 0
	toJump  queue
	toInt3  queue
	garbage []func()    // frees memory that a task may still be executing
	cancel  func() bool // stops the delayed work; nil while none is pending
	stopped bool        // the machine is about to end
	serial  uint64      // of the latest ticket
}

// waiting is how many points wait for a change.
func (o *jumpQueue) waiting() int { return o.toJump.n + o.toInt3.n }

// pending reports whether the work has points to change.
func (o *jumpQueue) pending() bool { return !o.stopped && o.waiting() > 0 }

// of returns the queue of one of the two changes.
func (o *jumpQueue) of(to direction) *queue {
	if to == toInt3 {
		return &o.toInt3
	}
	return &o.toJump
}

// add queues a point that waits for nothing.
func (o *jumpQueue) add(pt *point, to direction) {
	o.serial++
	o.of(to).add(pt, to, o.serial)
	o.kick()
}

// remove makes a point wait no more.
func (o *jumpQueue) remove(pt *point) {
	if pt.queued != notQueued {
		o.of(pt.queued).n--
	}
	pt.queued = notQueued
}

// discard calls free when every task has slept or left the kernel.
func (o *jumpQueue) discard(free func()) {
	o.garbage = append(o.garbage, free)
	o.kick()
}

// kick schedules the work after OptimizeDelay.
func (o *jumpQueue) kick() {
	if o.cancel == nil && !o.stopped {
		o.cancel = o.timer.AfterFunc(OptimizeDelay, o.run)
	}
}

// begin is called when the work runs, which is then no longer scheduled. It returns false if
// there is none any more.
func (o *jumpQueue) begin() bool {
	if o.stopped {
		return false
	}
	if o.cancel != nil {
		o.cancel()
		o.cancel = nil
	}
	return true
}

// losing returns the points that wait to lose their jump.
func (o *jumpQueue) losing() []*point { return o.toInt3.upTo(o.serial) }

// lost empties the queue of these points, when they have been seen to.
func (o *jumpQueue) lost() { o.toInt3 = queue{} }

// takeGarbage returns what is to be freed after the next grace period.
func (o *jumpQueue) takeGarbage() []func() {
	garbage := o.garbage
	o.garbage = nil
	return garbage
}

// end is called when the work has run: it runs again if there is more.
func (o *jumpQueue) end() {
	if o.waiting()+len(o.garbage) > 0 {
		o.kick()
	}
}

// stop ends the delayed work for good.
func (o *jumpQueue) stop() {
	o.stopped = true
	if o.cancel != nil {
		o.cancel()
	}
}

// state returns what is shown of the queue.
func (o *jumpQueue) state() Queues {
	addrs := func(q *queue) (all []uint64) {
		for _, pt := range q.upTo(o.serial) {
			all = append(all, pt.addr)
		}
		return all
	}
	return Queues{On: !o.off, Scheduled: o.cancel != nil, Jumps: addrs(&o.toJump), Breakpoints: addrs(&o.toInt3), Garbage: len(o.garbage)}
}

// HasOptprobes reports whether the kernel has CONFIG_OPTPROBES, that is, whether it
// optimizes probes at all.
func (k *Kprobes) HasOptprobes() bool { return k.cfg.Optimizer != nil }

// Optimization reports the value of debug.kprobes-optimization. It is meaningless
// without CONFIG_OPTPROBES.
func (k *Kprobes) Optimization() bool {
	k.mu.look()
	defer k.mu.Unlock()
	return !k.jumps.off
}

// SetOptimization does what a write to debug.kprobes-optimization does. Switching off
// waits until no jump is left.
func (k *Kprobes) SetOptimization(on bool) {
	k.knob.Lock()
	defer k.knob.Unlock()
	if !k.switchOptimization(on) {
		return
	}
	if !on {
		k.WaitOptimizer()
	}
	k.sayOptimization(on)
}

// switchOptimization queues each armed point. It returns false if nothing changes.
func (k *Kprobes) switchOptimization(on bool) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.jumps.off == !on {
		return false
	}
	k.jumps.off = !on
	k.table.each(func(pt *point) {
		switch {
		case pt.disabled():
		case on:
			k.optimize(pt)
		default:
			k.unoptimize(pt, false, "optimization is switched off")
		}
	})
	return true
}

// sayOptimization logs the new value of the sysctl.
func (k *Kprobes) sayOptimization(on bool) {
	text := "kprobe jump-optimization is disabled. All kprobes are based on software breakpoint."
	switch {
	case !k.has[release.LogPrefix] && on:
		text = "Kprobes globally optimized"
	case !k.has[release.LogPrefix]:
		text = "Kprobes globally unoptimized"
	case on:
		text = "kprobe jump-optimization is enabled. All kprobes are optimized if possible."
	}
	k.printk(6, "%s", text)
}

// prepareDetour makes pt optimizable, or returns the reason why it cannot be. The caller holds k.mu.
func (k *Kprobes) prepareDetour(pt *point) error {
	if k.cfg.Optimizer == nil {
		return errNoOptprobes
	}
	d, err := k.cfg.Optimizer.Prepare(pt.addr, k.original)
	if err != nil {
		return err
	}
	pt.first = pt.list.Load().link()
	op := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, pt.first), pt.addr)
	if err := k.writes.poke(nil, abi.Patch{Addr: d.Addr, Bytes: d.Code}, abi.Patch{Addr: d.Op, Bytes: op}); err != nil {
		k.cfg.Optimizer.Free(d)
		return err
	}
	pt.detour = d
	pt.out.Store(d.Copied)
	return nil
}

// link tells the guest which probes the point has, whenever that has changed. While guest
// code calls handlers, a probe that is removed still leads to those behind it.
func (k *Kprobes) link(pt *point) {
	if pt.detour == nil {
		return
	}
	k.setFirst(pt, pt.list.Load().link())
}

// setFirst changes what stands at the detour's Op.
func (k *Kprobes) setFirst(pt *point, first uint64) {
	if pt.detour == nil || first == pt.first {
		return
	}
	pt.first = first
	word := abi.Patch{Addr: pt.detour.Op, Bytes: binary.LittleEndian.AppendUint64(nil, first)}
	_ = k.writes.poke(nil, word) // a detour's memory is there until it is freed
}

// optimize is optimize_kprobe: it queues pt if it can be optimized and nothing blocks
// that now. The caller holds k.mu, here and in all functions below except the work itself.
func (k *Kprobes) optimize(pt *point) {
	if pt.detour == nil || k.jumps.off || k.allOff || k.blocked(pt) {
		return
	}
	if pt.has(FlagOptimized) {
		if pt.queued == toInt3 {
			k.note(pt, "keeps its jump")
			k.jumps.remove(pt)
		}
		return
	}
	for _, inner := range k.inside(pt) {
		// inner is disabled, but its jump may still be in the text. A hit of pt's
		// int3 uses the detour from now on, which would jump back into the middle
		// of inner's jump. Linux leaves that jump there for the rest of its delay.
		k.unoptimize(inner, true, "a probe whose region it is in becomes a jump")
	}
	pt.setOptimized(true)
	k.enqueue(pt, toJump)
}

// blocked reports whether something temporary keeps pt from being optimized: it is
// disabled, has a post- or break handler, or another probe is armed in its region.
func (k *Kprobes) blocked(pt *point) bool {
	return pt.disabled() || pt.needsInt3() ||
		slices.ContainsFunc(k.inside(pt), func(inner *point) bool { return !inner.disabled() })
}

// inside returns the points in the region of pt's jump, except pt itself.
func (k *Kprobes) inside(pt *point) []*point {
	return slices.Clone(k.table.within(pt.addr+1, pt.addr+uint64(len(pt.detour.Region))))
}

// unoptimize is unoptimize_kprobe: it queues the change back to the breakpoint. A point
// that waits for its jump only leaves the queue. With force, the jump is removed at once. because is
// kept in the point's history.
func (k *Kprobes) unoptimize(pt *point, force bool, because string) {
	if pt.detour == nil || !pt.has(FlagOptimized) {
		return
	}
	k.note(pt, because)
	switch {
	case pt.queued == toJump:
		k.jumps.remove(pt)
		pt.setOptimized(false)
	case force:
		settle := pt.queued == toInt3
		k.jumps.remove(pt)
		k.writeBreakpoints([]*point{pt}, settle)
	case pt.queued == notQueued:
		k.enqueue(pt, toInt3)
	}
}

func (k *Kprobes) enqueue(pt *point, to direction) {
	what := "queued for its jump"
	if to == toInt3 {
		what = "queued to lose its jump"
	}
	k.note(pt, what)
	k.jumps.add(pt, to)
}

// releaseDetour frees the detour of a point that has left the table, or whose text is
// removed, once no task can be in its buffer.
func (k *Kprobes) releaseDetour(pt *point) {
	if pt.detour == nil {
		return
	}
	k.jumps.remove(pt)
	k.setFirst(pt, 0) // a task that is still in the detour calls no handler
	d := pt.detour
	pt.detour = nil
	k.jumps.discard(func() { k.cfg.Optimizer.Free(d) })
}

// killDetour is kill_optimized_kprobe: the text at pt is removed, with or without a
// jump in it.
func (k *Kprobes) killDetour(pt *point) {
	pt.setOptimized(false)
	k.note(pt, "the text is removed")
	pt.out.Store(0)
	k.releaseDetour(pt)
}

// Stop ends the delayed work for good and waits for a run in progress: text no longer
// changes by itself. It is called before the machine ends.
func (k *Kprobes) Stop() {
	k.mu.Lock()
	k.jumps.stop()
	k.mu.Unlock()
	k.work.Lock()
	k.work.Unlock() //nolint:staticcheck // the lock is only taken to wait for the work
}

// WaitOptimizer is wait_for_kprobe_optimizer: it does the delayed work now, until no
// probe waits for its jump to be written or removed.
func (k *Kprobes) WaitOptimizer() {
	for k.optimizerPending() {
		k.runOptimizer()
	}
}

func (k *Kprobes) optimizerPending() bool {
	k.mu.look()
	defer k.mu.Unlock()
	return k.jumps.pending()
}

// runOptimizer is kprobe_optimizer, the work: it writes the breakpoints first and, when
// every task has left the regions, the jumps. Linux holds the probes' lock throughout;
// here it is free while the work waits, and a probe that is queued meanwhile gets its
// jump in the next round.
func (k *Kprobes) runOptimizer() {
	k.work.Lock()
	defer k.work.Unlock()
	before, garbage, wait, ok := k.beginOptimizing()
	if !ok {
		return
	}
	if wait {
		k.cfg.Machine.SynchronizeRCUTasks()
	}
	for _, free := range garbage {
		free()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writeJumps(before)
	k.jumps.end()
}

// beginOptimizing writes the breakpoints. before is the serial number up to which
// points may get their jump after the grace period.
func (k *Kprobes) beginOptimizing() (before uint64, garbage []func(), wait, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := &k.jumps
	if !o.begin() {
		return 0, nil, false, false
	}
	if pts := o.losing(); len(pts) > 0 {
		k.writeBreakpoints(pts, true)
	}
	o.lost()
	garbage = o.takeGarbage()
	return o.serial, garbage, len(garbage)+o.toJump.n > 0, true
}

// writeBreakpoints is arch_unoptimize_kprobes. With settle, it also removes the
// breakpoints of disabled points, and drops points without probes from the table.
//
// A poke fails only where the text has been removed; then there is nothing to undo.
func (k *Kprobes) writeBreakpoints(pts []*point, settle bool) {
	patches := make([]abi.Patch, len(pts))
	for i, pt := range pts {
		patches[i] = abi.Patch{Addr: pt.addr, Bytes: append([]byte{int3}, pt.detour.Region[1:jmpSize]...)}
	}
	_ = k.writes.poke(nil, patches...)
	for _, pt := range pts {
		k.jumps.remove(pt)
		pt.setOptimized(false)
		k.note(pt, "the jump is replaced by int3")
		if settle {
			k.settle(pt)
		}
	}
}

// settle removes the breakpoint of a disabled point, and drops a point without probes
// from the table.
func (k *Kprobes) settle(pt *point) {
	if pt.disabled() {
		_ = k.disarmInt3(pt) // fails only where the text has been removed
	}
	if pt.unused() {
		k.table.remove(pt)
		k.releaseDetour(pt)
		k.jumps.discard(func() { k.slots.free(pt) })
	}
}

// writeJumps is arch_optimize_kprobes.
func (k *Kprobes) writeJumps(before uint64) {
	if k.jumps.off || k.allOff {
		return
	}
	pts := k.jumps.toJump.upTo(before)
	if len(pts) == 0 {
		return
	}
	patches := make([]abi.Patch, len(pts))
	for i, pt := range pts {
		patches[i] = abi.Patch{Addr: pt.addr, Bytes: pt.detour.Jump}
	}
	_ = k.writes.poke(nil, patches...) // see writeBreakpoints
	for _, pt := range pts {
		k.jumps.remove(pt)
		k.note(pt, "the jump is written")
	}
	k.jumps.toJump.compact()
}
