// Package kprobes registers probes at addresses of kernel text, arms them, and
// handles their hits: kernel/kprobes.c and arch/x86/kernel/kprobes of Linux 6.1,
// by what they can be seen to do.
//
// A probed address is a Point in a hash table; the kprobes registered there are
// its list. What may wait (register, unregister, enable, disable, the global
// switch) works under one lock and writes text through Text. What runs on a
// vCPU (Int3, Fault, Ftrace, Optimized, Rethook: x86.go, kretprobe.go) takes no
// lock and allocates nothing, but for a task's first hooked call: it reads the table, whose parts are replaced
// whole, and a control block of its CPU.
//
// The jump optimization is somebody else's: package optimizer meets Optimizer.
//
// Lock order: the probes' lock, the optimizer's, text.
package kprobes

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Text is kernel text.
type Text interface {
	// Read gives the bytes as they are now; EFAULT where there are none.
	Read(addr uint64, p []byte) error
	// Poke is text_poke of a batch: all vCPUs are out of guest code meanwhile.
	Poke(patches ...abi.Patch) error
}

// Symbols is kallsyms. Its look-ups take no lock.
type Symbols interface {
	LookupName(name string) []abi.Symbol // "symbol" or "module:symbol"
	Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool)
}

// Tables says what Linux's tables say of an address.
type Tables interface {
	KernelText(addr uint64) bool       // [_stext, _etext), init text while booting, text of a module
	JumpLabel(start, end uint64) bool  // a jump-label instruction overlaps [start, end)
	StaticCall(start, end uint64) bool // so does a static-call site
	SMPLock(start, end uint64) bool
	Bug(addr uint64) bool
	ExTable(addr uint64) bool
	EntryText(addr uint64) bool
	Thunk(addr uint64) bool
	FtraceSite(addr uint64) bool // exactly a site
	FtraceOverlap(start, end uint64) bool
	Blacklist() []abi.Range
}

// Ftrace turns fentry sites into calls and back.
type Ftrace interface {
	Arm(addr uint64) error
	Disarm(addr uint64) error
}

// Slots gives executable memory within ±2 GB of text. It is written by Text.Poke.
type Slots interface {
	Alloc(n int) (addr uint64, err error)
	Free(addr uint64)
}

// Machine is time, waiting and the log.
type Machine interface {
	CPUs() int
	// SynchronizeRCU returns when every vCPU has left the Go handler and the
	// region with preemption or interrupts disabled that it was in. (A stepped
	// copy runs with interrupts disabled.)
	SynchronizeRCU()
	// SynchronizeRCUTasks returns when every task that was running or preempted
	// in the kernel has slept or left it.
	SynchronizeRCUTasks()
	// AfterFunc runs f in its own goroutine, by the machine's clock.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	Now() int64
	Printk(level int, format string, args ...any)
}

// Optimizer replaces breakpoints by jumps. All its methods but Wait and Attach
// are called with the probes' lock held.
type Optimizer interface {
	// Attach is called once, by New.
	Attach(k *Kprobes)
	// Prepare makes pt optimizable, or says why it cannot be.
	Prepare(pt *Point) error
	// Optimize is optimize_kprobe: queue pt, if nothing speaks against it.
	Optimize(pt *Point)
	// Unoptimize is unoptimize_kprobe: queue the way back, or, forced, go it at once.
	Unoptimize(pt *Point, force bool)
	// Within says whether addr lies inside the bytes that the jump of pt
	// replaces, behind the first.
	Within(pt *Point, addr uint64) bool
	// Queued says whether pt waits for the optimizer, in either direction.
	Queued(pt *Point) bool
	// Release gives back what Prepare made. pt is no longer in the table.
	Release(pt *Point)
	// Kill forgets pt because its code is going away.
	Kill(pt *Point)
	// Wait is wait_for_kprobe_optimizer: until nothing is queued.
	Wait()
}

// Config is what Kprobes is built from.
type Config struct {
	Text      Text
	Symbols   Symbols
	Tables    Tables
	Ftrace    Ftrace
	Slots     Slots
	Machine   Machine
	Optimizer Optimizer // nil: no CONFIG_OPTPROBES

	// NoPreempt is a kernel without CONFIG_PREEMPTION: a stepped copy may end in a
	// jump back, so that it needs no second int3 (it is boosted).
	NoPreempt bool

	NRCPUs int // CONFIG_NR_CPUS; 0: as many as there are

	Features
}

// AllFlags is what kprobes/list of 6.1 may show.
const AllFlags = FlagGone | FlagDisabled | FlagOptimized | FlagFtrace

// Kprobes is all probes of one kernel.
type Kprobes struct {
	cfg Config

	mu        sync.Mutex
	table     table        // changed under mu, walked by the trap side without
	allOff    bool         // kprobes_all_disarmed
	armed     atomic.Int64 // points that are armed
	text      []byte       // checkBoundary's, used again
	bounds    [boundarySlots]boundaries
	batch     *batch // not nil: text is to be written later, all at once
	reregWarn bool   // the WARN_ON_ONCE of a second registration was printed

	cpus       []ctlblk
	rethooks   rethookTable
	returns    Point         // stands for the probe whose return handler runs
	trampoline atomic.Uint64 // where hooked calls return to, once looked up
	dead       atomic.Uint64 // an int3 behind it, which ends the task that goes on there; 0: there is none
	own        ownCode
}

// New gives a kernel's probes: none yet, switched on. It panics where there is no
// executable memory for the code that an older release brings (ownCode).
func New(c Config) *Kprobes {
	k := &Kprobes{cfg: c, cpus: make([]ctlblk, c.Machine.CPUs())}
	if c.Optimizer == nil {
		k.cfg.Optimizer = noOptimizer{}
	}
	k.cfg.Optimizer.Attach(k)
	if err := k.writeOwn(); err != nil {
		panic(err) // the first slot of all
	}
	return k
}

// errf wraps errno in what happened.
func errf(errno syscall.Errno, format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errno)...)
}

// resolve is _kprobe_addr: the address meant, and whether it is a function's entry.
func (k *Kprobes) resolve(addr uint64, name string, offset uint32) (at uint64, entry bool, err error) {
	if (addr != 0) == (name != "") {
		return 0, false, errf(syscall.EINVAL, "a probe needs a symbol or an address, and not both")
	}
	if name != "" {
		syms := k.cfg.Symbols.LookupName(name)
		if len(syms) == 0 {
			return 0, false, errf(syscall.ENOENT, "no symbol %s", name)
		}
		addr = syms[0].Addr
	}
	at = addr + uint64(offset)
	_, off, ok := k.cfg.Symbols.Lookup(at)
	if !ok {
		return at, false, errf(syscall.ENOENT, "no symbol at %#x", at)
	}
	return k.skipEndbr(at, off)
}

// skipEndbr moves a probe at a function's endbr64 behind it, as
// arch_adjust_kprobe_addr does, and tells whether the place is the entry.
func (k *Kprobes) skipEndbr(at, off uint64) (uint64, bool, error) {
	if off != 0 && off != 4 {
		return at, false, nil
	}
	var b [4]byte
	if k.cfg.Text.Read(at-off, b[:]) == nil && b == [4]byte{0xf3, 0x0f, 0x1e, 0xfa} {
		return at - off + 4, true, nil
	}
	return at, off == 0, nil
}

// OnFuncEntry is kprobe_on_func_entry: nil when the place is the entry of a
// function, else EINVAL, or ENOENT when there is no such place.
func (k *Kprobes) OnFuncEntry(addr uint64, name string, offset uint32) error {
	at, entry, err := k.resolve(addr, name, offset)
	if e := errPtr(at); err != nil && e != nil && k.cfg.AnyAddress {
		return e
	}
	if err != nil {
		return err
	}
	if !entry {
		return errf(syscall.EINVAL, "%#x is not at a function's entry", at)
	}
	return nil
}

// Register is register_kprobe. It sets p.Addr and arms the probe, unless
// p.Flags has FlagDisabled or all probes are switched off.
//
// EINVAL: symbol and address both given or neither, p registered already, not
// in text, blacklisted, or in a jump label, static call or BUG. ENOENT: no such
// symbol, or none at the address. EILSEQ: not the start of an instruction.
// EOPNOTSUPP: an instruction that can be neither stepped nor emulated. ENOSYS: a
// handler that this release has not. EDEADLK: by is the Hit of the handler that makes the call (so it is for all calls that
// take one; outside of handlers it is left out).
func (k *Kprobes) Register(p *Kprobe, by ...*Hit) error {
	if err := mayWait(by); err != nil {
		return err
	}
	if err := k.checkHandlers(p); err != nil {
		return err
	}
	at, entry, err := k.resolve(p.Addr, p.SymbolName, p.Offset)
	if at != 0 && err != nil && k.cfg.AnyAddress {
		err = errPtr(at)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.checkRereg(p); err != nil { // p.Addr would become another, where there is an offset, and p could not be found
		return err
	}
	p.Addr = at
	if err := k.checkRereg(p); err != nil {
		return err
	}
	p.flags.Store(uint32(p.Flags & FlagDisabled))
	p.missed.Store(0)
	if k.cfg.Tables.FtraceSite(at) {
		p.set(FlagFtrace) // stays, also when the address is refused
	}
	if err := k.checkAddress(at); err != nil {
		return err
	}
	if entry {
		p.set(FlagOnFuncEntry)
	}
	if pt := k.table.get(at); pt != nil {
		return k.join(pt, p)
	}
	return k.registerFirst(p)
}

// checkHandlers is ENOSYS for a handler that struct kprobe of this release has no
// field for.
func (k *Kprobes) checkHandlers(p *Kprobe) error {
	switch {
	case p.FaultHandler != nil && !k.cfg.FaultHandlers:
		return errf(syscall.ENOSYS, "this release has no fault handlers")
	case p.BreakHandler != nil && !k.cfg.BreakHandlers:
		return errf(syscall.ENOSYS, "this release has no break handlers")
	}
	return nil
}

// checkRereg is warn_kprobe_rereg.
func (k *Kprobes) checkRereg(p *Kprobe) error {
	pt := k.table.get(p.Addr)
	if pt == nil || !pt.contains(p) {
		return nil
	}
	if !k.reregWarn {
		k.reregWarn = true
		k.cfg.Machine.Printk(4, "WARNING: CPU: %d PID: %d at kernel/kprobes.c:1524 register_kprobe+0x47f/0x660", 0, 0)
	}
	return errf(syscall.EINVAL, "the probe at %#x is registered already", p.Addr)
}

// registerFirst makes the point of an address that has none.
func (k *Kprobes) registerFirst(p *Kprobe) error {
	pt := &Point{addr: p.Addr}
	pt.list.Store(newList([]*Kprobe{p}))
	pt.flags.Store(uint32(p.State()))
	if err := k.prepare(pt); err != nil {
		return err
	}
	k.table.insert(pt)
	if !k.allOff && !pt.Disabled() {
		if err := k.arm(pt); err != nil {
			k.table.remove(pt)
			k.freeCode(pt)
			return err
		}
	}
	k.tryToOptimize(pt)
	return nil
}

// tryToOptimize makes the point an aggregate if its code can be optimized.
func (k *Kprobes) tryToOptimize(pt *Point) {
	if pt.has(FlagFtrace) {
		pt.noOpt = errFtrace
		return
	}
	if pt.noOpt = k.cfg.Optimizer.Prepare(pt); pt.noOpt != nil {
		return
	}
	pt.aggr.Store(true)
	k.cfg.Optimizer.Optimize(pt)
}

var errFtrace = errors.New("a probe at an fentry site is called by ftrace and needs no jump")

// join is register_aggr_kprobe: p becomes the first of an address that has
// probes, or had until the optimizer gets to it.
func (k *Kprobes) join(pt *Point, p *Kprobe) error {
	if p.breaks() && pt.list.Load().breaks {
		return errf(syscall.EEXIST, "%#x has a probe with a break handler, as jprobes are", pt.addr)
	}
	if pt.Unused() && !p.disabled() {
		// A probe that waits to be unoptimized and freed is revived with
		// its jump: control-files.md section 2, "unregister while optimized".
		// Linux does so for a disabled one too, and the jump then outlives it.
		pt.clear(FlagDisabled)
		k.cfg.Optimizer.Optimize(pt)
	}
	pt.aggr.Store(true)
	if pt.has(FlagGone) {
		if err := k.revive(pt); err != nil {
			return err
		}
	}
	pt.add(p)
	if pt.NeedsInt3() {
		k.cfg.Optimizer.Unoptimize(pt, true)
	}
	if !pt.Disabled() || p.disabled() {
		return nil
	}
	pt.clear(FlagDisabled)
	if k.allOff {
		return nil
	}
	if err := k.arm(pt); err != nil {
		pt.set(FlagDisabled)
		pt.remove(p)
		return err
	}
	return nil
}

// revive makes a point whose code had gone ready for the code that is there
// now. Its old probes stay gone.
func (k *Kprobes) revive(pt *Point) error {
	if !pt.has(FlagFtrace) {
		if err := k.prepare(pt); err != nil {
			return err
		}
		pt.noOpt = k.cfg.Optimizer.Prepare(pt)
	}
	pt.clear(FlagGone)
	pt.set(FlagDisabled)
	return nil
}

// valid is __get_valid_kprobe: the point that p is registered at, or nil.
func (k *Kprobes) valid(p *Kprobe) *Point {
	if pt := k.table.get(p.Addr); pt != nil && pt.contains(p) {
		return pt
	}
	return nil
}

// Enable is enable_kprobe. EINVAL: not registered, or gone.
//
// While all probes are switched off it returns nil and arms nothing, and
// switching on does not either: the probe, or the aggregate that it is in,
// stays disabled until it is disabled and enabled again. Linux does so.
func (k *Kprobes) Enable(p *Kprobe, by ...*Hit) error {
	if err := mayWait(by); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	pt := k.valid(p)
	if pt == nil || p.has(FlagGone) {
		return errf(syscall.EINVAL, "enable: no probe at %#x", p.Addr)
	}
	p.clear(flagBroken)
	if pt.aggr.Load() {
		p.clear(FlagDisabled)
	}
	if k.allOff || !pt.Disabled() {
		return nil
	}
	pt.clear(FlagDisabled)
	if err := k.arm(pt); err != nil {
		pt.set(FlagDisabled)
		p.set(FlagDisabled)
		return err
	}
	return nil
}

// Disable is disable_kprobe. EINVAL: not registered.
func (k *Kprobes) Disable(p *Kprobe, by ...*Hit) error {
	if err := mayWait(by); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.disable(p)
	return err
}

func (k *Kprobes) disable(p *Kprobe) (*Point, error) {
	pt := k.valid(p)
	if pt == nil {
		return nil, errf(syscall.EINVAL, "no probe at %#x", p.Addr)
	}
	if p.disabled() {
		return pt, nil
	}
	if pt.aggr.Load() {
		p.set(FlagDisabled)
		if !pt.allDisabled() {
			return pt, nil
		}
	}
	if !k.allOff && !pt.Disabled() {
		if err := k.disarm(pt); err != nil {
			p.clear(FlagDisabled)
			return pt, err
		}
	}
	pt.set(FlagDisabled)
	if k.cfg.OuterAgain && !k.allOff {
		for _, outer := range k.table.within(pt.addr-maxOptimized, pt.addr) {
			if k.cfg.Optimizer.Within(outer, pt.addr) {
				k.cfg.Optimizer.Optimize(outer)
			}
		}
	}
	return pt, nil
}

// Unregister is unregister_kprobe. The address of a probe that is not
// registered is cleared; there is no other sign. The error is EDEADLK, or nil.
func (k *Kprobes) Unregister(p *Kprobe, by ...*Hit) error {
	return k.UnregisterAll([]*Kprobe{p}, by...)
}

// RegisterAll is register_kprobes: all or none. EINVAL when ps is empty, else
// the error of the first that is refused; those behind it are left as they are.
func (k *Kprobes) RegisterAll(ps []*Kprobe, by ...*Hit) error {
	if len(ps) == 0 {
		return errf(syscall.EINVAL, "no probes given")
	}
	for i, p := range ps {
		if err := k.Register(p, by...); err != nil {
			_ = k.UnregisterAll(ps[:i], by...) // by is no handler, or none of ps is registered
			return err
		}
	}
	return nil
}

// UnregisterAll is unregister_kprobes: of those that are not registered the
// address is cleared, the others are removed. When it returns, no handler of ps
// runs. The error is EDEADLK, or nil.
func (k *Kprobes) UnregisterAll(ps []*Kprobe, by ...*Hit) error {
	if err := mayWait(by); err != nil || len(ps) == 0 {
		return err
	}
	k.mu.Lock()
	var gone []*Point
	for _, p := range ps {
		pt, err := k.unregisterTop(p)
		if err != nil {
			p.Addr = 0
		} else if pt != nil {
			gone = append(gone, pt)
		}
	}
	k.mu.Unlock()
	k.cfg.Machine.SynchronizeRCU()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pt := range gone {
		k.cfg.Optimizer.Release(pt)
		k.freeCode(pt)
	}
	return nil
}

// unregisterTop takes p out of the table. The point is given back when it went with p.
func (k *Kprobes) unregisterTop(p *Kprobe) (*Point, error) {
	pt, err := k.disable(p)
	if err != nil {
		return nil, err
	}
	last := len(pt.list.Load().probes) == 1
	if !pt.aggr.Load() || last && pt.Disabled() && !k.cfg.Optimizer.Queued(pt) {
		k.table.remove(pt)
		return pt, nil
	}
	pt.remove(p)
	if !pt.Disabled() && !k.allOff {
		k.cfg.Optimizer.Optimize(pt) // a post-handler may have left with p
	}
	return nil, nil
}

// arm writes the breakpoint or the fentry call.
func (k *Kprobes) arm(pt *Point) error {
	if pt.has(FlagFtrace) {
		if err := k.cfg.Ftrace.Arm(pt.addr); err != nil {
			return err
		}
		k.setArmed(pt, true)
		return nil
	}
	for _, outer := range k.jumpsOver(pt.addr) {
		k.cfg.Optimizer.Unoptimize(outer, true)
	}
	if err := k.poke(pt, abi.Patch{Addr: pt.addr, Bytes: int3Text}); err != nil {
		return err
	}
	k.setArmed(pt, true)
	k.cfg.Optimizer.Optimize(pt)
	return nil
}

// jumpsOver gives the optimized points whose jump covers addr, or will.
func (k *Kprobes) jumpsOver(addr uint64) (pts []*Point) {
	for _, pt := range k.table.within(addr-maxOptimized, addr) {
		if pt.has(FlagOptimized) && k.cfg.Optimizer.Within(pt, addr) {
			pts = append(pts, pt)
		}
	}
	return pts
}

// disarm takes it away again. While the point is queued for the optimizer, that
// will do it.
//
// Linux would look here for an optimized probe around this one that it had
// blocked; it never finds one, since this one is not yet flagged as disabled
// (control-files.md section 2, "inner disabled or removed").
func (k *Kprobes) disarm(pt *Point) error {
	if pt.has(FlagFtrace) {
		if err := k.cfg.Ftrace.Disarm(pt.addr); err != nil {
			return err
		}
		k.setArmed(pt, false)
		return nil
	}
	k.cfg.Optimizer.Unoptimize(pt, k.allOff)
	if k.cfg.Optimizer.Queued(pt) {
		return nil
	}
	return k.disarmInt3(pt)
}

func (k *Kprobes) disarmInt3(pt *Point) error {
	err := k.poke(pt, abi.Patch{Addr: pt.addr, Bytes: pt.code.Load().orig[:1]})
	if err == nil {
		k.setArmed(pt, false)
	}
	return err
}

// setArmed needs mu.
func (k *Kprobes) setArmed(pt *Point, on bool) {
	if pt.armed == on {
		return
	}
	pt.armed = on
	if on {
		k.armed.Add(1)
	} else {
		k.armed.Add(-1)
	}
}

// Armed is how many probed addresses are armed now.
func (k *Kprobes) Armed() int { return int(k.armed.Load()) }

// Enabled is what kprobes/enabled shows.
func (k *Kprobes) Enabled() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.allOff
}

// SetEnabled is arm_all_kprobes and disarm_all_kprobes: what a write to
// kprobes/enabled does. Disabled probes stay so.
func (k *Kprobes) SetEnabled(on bool) error {
	changed, err := k.switchAll(on)
	if changed && !on {
		k.cfg.Optimizer.Wait()
	}
	return err
}

func (k *Kprobes) switchAll(on bool) (changed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.allOff == !on {
		return false, nil
	}
	k.allOff = !on
	act := k.disarm
	if on {
		act = k.arm
	}
	n := 2 * len(k.table.sorted)
	k.batch = &batch{make([]abi.Patch, 0, n), make([]*Point, 0, n)}
	total, failed := 0, 0
	for _, pt := range k.table.sorted {
		if pt.Disabled() {
			continue
		}
		total++
		if e := act(pt); e != nil {
			failed++
			err = e
		}
	}
	kept, e := k.flush(on)
	if e != nil {
		err = e
	}
	k.saySwitched(on, total, failed+kept)
	return true, err
}

// int3Text is what a breakpoint writes.
var int3Text = []byte{int3}

// batch is the patches of text of one turn of the global switch, in their order,
// and for which point each is; nil where the optimizer takes a jump away.
type batch struct {
	patches []abi.Patch
	points  []*Point
}

// poke writes text, or takes it into the batch that is open.
func (k *Kprobes) poke(pt *Point, p abi.Patch) error {
	if k.batch == nil {
		return k.cfg.Text.Poke(p)
	}
	k.batch.patches = append(k.batch.patches, p)
	k.batch.points = append(k.batch.points, pt)
	return nil
}

// flush writes the batch. When that fails, it writes what can be written, and
// tells how many points stay as they were.
func (k *Kprobes) flush(on bool) (failed int, err error) {
	b := k.batch
	k.batch = nil
	if len(b.patches) == 0 || k.cfg.Text.Poke(b.patches...) == nil {
		return 0, nil
	}
	for i, p := range b.patches {
		e := k.cfg.Text.Poke(p)
		if pt := b.points[i]; e != nil && pt != nil {
			failed, err = failed+1, e
			k.setArmed(pt, !on)
			if on {
				k.cfg.Optimizer.Unoptimize(pt, false) // it has just been queued
			}
		}
	}
	return failed, err
}

func (k *Kprobes) saySwitched(on bool, total, failed int) {
	did, could, kept := "disabled", "disable", "enabled"
	if on {
		did, could, kept = "enabled", "enable", "disabled"
	}
	if failed == 0 {
		k.cfg.Printk(k.cfg.Machine, 6, "Kprobes globally %s", did)
		return
	}
	k.cfg.Printk(k.cfg.Machine, 4, "Kprobes globally %s, but failed to %s %d out of %d probes. "+
		"Please check which kprobes are kept %s via debugfs.", did, could, failed, total, kept)
}

// Kill is what the module notifier does when text goes away: the probes in
// [start, end) become [GONE], for good.
func (k *Kprobes) Kill(start, end uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pt := range slices.Clone(k.table.within(start, end)) { // kill changes the table
		if !pt.has(FlagGone) {
			k.kill(pt)
		}
	}
}

func (k *Kprobes) kill(pt *Point) {
	if pt.has(FlagFtrace) && !pt.Disabled() && !k.allOff {
		_ = k.cfg.Ftrace.Disarm(pt.addr) // the site goes away, whatever this says
	}
	k.setArmed(pt, false)
	pt.set(FlagGone)
	for _, p := range pt.list.Load().probes {
		p.set(FlagGone)
	}
	unused := pt.Unused() // only the optimizer's queue, which Kill takes it from, keeps it
	k.cfg.Optimizer.Kill(pt)
	k.freeCode(pt)
	if unused {
		k.table.remove(pt)
	}
}
