// Package kprobes registers probes at addresses of kernel text, arms them, and
// handles their hits. It behaves like kernel/kprobes.c and arch/x86/kernel/kprobes of
// Linux 6.1.
//
// Each probed address is a point in a hash table, with a list of the kprobes
// registered there. Calls that may wait (register, unregister, enable, disable, the
// global switch) are methods of Kprobes, which work under one lock and write text through
// Text. What runs on a vCPU (Int3, Fault, Ftrace, Optimized, Rethook: x86.go, kretprobe.go)
// are methods of Hits, which take no lock: they read the table, whose entries are replaced
// as a whole, and a control block of their CPU.
//
// optimize.go decides which probe becomes a jump, and when; package optimizer
// makes the jump's code and implements Optimizer.
//
// Lock order: knob, work, mu (of Kprobes), text.
package kprobes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/armed"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Text is kernel text.
type Text interface {
	// Read copies the present bytes. It fails with EFAULT where there is no text.
	Read(addr uint64, p []byte) error
	// Poke is text_poke of a batch: no vCPU executes guest code meanwhile.
	Poke(patches ...abi.Patch) error
}

// Symbols is kallsyms. Its lookups take no lock.
type Symbols interface {
	LookupName(name string) []abi.Symbol // "symbol" or "module:symbol"
	Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool)
}

// Tables answers what Linux's tables say about an address.
type Tables interface {
	KernelText(addr uint64) bool       // in [_stext, _etext), in init text during boot, or in a module's text
	JumpLabel(start, end uint64) bool  // a jump-label instruction overlaps [start, end)
	StaticCall(start, end uint64) bool // the same for a static-call site
	SMPLock(start, end uint64) bool
	Bug(addr uint64) bool
	ExTable(addr uint64) bool
	EntryText(addr uint64) bool
	Thunk(addr uint64) bool
	FtraceSite(addr uint64) bool // addr is exactly a site
	FtraceOverlap(start, end uint64) bool
	Blacklist() []abi.Range
}

// Ftrace turns fentry sites into calls and back.
type Ftrace interface {
	Arm(addr uint64) error
	ArmIPModify(addr uint64) error // for a probe with a post handler; EBUSY if another listener changes IP
	Disarm(addr uint64) error
}

// Slots allocates executable memory within ±2 GB of text. Text.Poke writes it.
type Slots interface {
	Alloc(n int) (addr uint64, err error)
	Free(addr uint64)
}

// Machine is the clock, grace periods and the log.
type Machine interface {
	CPUs() int
	// SynchronizeRCU returns when every vCPU has left the Go handler, and the region
	// with preemption or interrupts disabled, that it was in. (A stepped copy runs
	// with interrupts disabled.)
	SynchronizeRCU()
	// SynchronizeRCUTasks returns when every task that was running or preempted in
	// the kernel has slept or left the kernel.
	SynchronizeRCUTasks()
	// AfterFunc runs f in a new goroutine, by the machine's clock.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	Now() int64
	Printk(level int, format string, args ...any)
}

// changeLock is the lock of the probes. It counts those who take it to change something,
// so that who finds the same count again knows that no probe has changed.
type changeLock struct {
	mu      sync.Mutex
	changes uint64 // from 1, once there is a probe
}

// Lock takes the lock to change probes.
func (l *changeLock) Lock() {
	l.mu.Lock()
	l.changes++
}

// look takes the lock only to read.
func (l *changeLock) look() { l.mu.Lock() }

// Unlock gives back the lock after Lock or look.
func (l *changeLock) Unlock() { l.mu.Unlock() }

// Config is the argument of New.
type Config struct {
	Text      Text
	Symbols   Symbols
	Tables    Tables
	Ftrace    Ftrace
	Slots     Slots
	Machine   Machine
	Optimizer Optimizer      // nil means no CONFIG_OPTPROBES
	Armed     *armed.Changes // learns when an address is armed or disarmed

	// NoPreempt means a kernel without CONFIG_PREEMPTION. There a stepped copy may end
	// in a jump back, so that it needs no second int3 (it is boosted).
	NoPreempt bool

	NRCPUs int // CONFIG_NR_CPUS; 0 means the number of vCPUs

	Linux release.Version // whose behaviour it is; 0 means release.Default
	// Going reports whether a module is being unloaded; nil if there are no modules.
	Going func(module string) bool
}

// Kprobes holds all probes of one kernel, and decides what happens to them. What happens at their hits is
// Hits, which has the table. The queue of jumps, the writes of text and the copies of instructions are types
// of their own, too.
type Kprobes struct {
	Hits

	cfg Config

	knob sync.Mutex // kprobe_sysctl_mutex: serializes SetOptimization
	work sync.Mutex // serializes the optimizer's work

	mu           changeLock
	listing      listing // kprobes/list
	jumps        jumpQueue
	allOff       bool         // kprobes_all_disarmed
	armed        atomic.Int64 // number of armed points
	armedChanges atomic.Uint64
	writes       textWrites
	slots        insnSlots
	reregWarn    bool // the WARN_ON_ONCE of a second registration has been printed
	blacklist    blacklist
}

// New returns a kernel's Kprobes, without probes and switched on. It panics when there
// is no executable memory for the code that an older release adds (releaseCode).
func New(c Config) *Kprobes {
	k := &Kprobes{cfg: c}
	k.Hits = Hits{has: c.Linux.Set(), machine: c.Machine, symbols: c.Symbols, cpus: make([]ctlblk, c.Machine.CPUs())}
	k.Hits.disable = func(p *Kprobe) { _ = k.Disable(p) } // EINVAL if it has been unregistered since
	k.jprobes.cpus = make([]jprobeState, len(k.cpus))
	k.jumps.timer, k.jumps.run = c.Machine, k.runOptimizer
	k.listing.symbols, k.listing.bare = c.Symbols, !k.has[release.ListFlags]
	k.writes.text = c.Text
	k.slots = insnSlots{memory: c.Slots, tables: c.Tables, has: k.has, noPreempt: c.NoPreempt, writes: &k.writes, original: k.original}
	k.slots.bounds.symbols, k.slots.bounds.original = c.Symbols, k.original
	k.blacklist.tables, k.blacklist.symbols = c.Tables, c.Symbols
	k.returning.text, k.returning.symbols, k.returning.name = c.Text, c.Symbols, release.Trampoline.Of(c.Linux)
	if c.Optimizer != nil {
		k.sayOptimization(true)
	}
	var err error
	if k.relCode, err = writeReleaseCode(k.has, c.Symbols, c.Slots, &k.writes); err != nil {
		panic(err) // it is the first slot to be allocated
	}
	k.jprobes.entry = k.relCode.jprobeEntry
	if at := k.relCode.trampoline; at != 0 {
		k.returning.trampoline.Store(at)
	}
	return k
}

// errf wraps errno with a message.
func errf(errno syscall.Errno, format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errno)...)
}

// errPtr is IS_ERR: an address in the last page is an errno, where it is asked for.
func (k *Kprobes) errPtr(addr uint64) error {
	const maxErrno = 4095
	if e := -addr; 0 < e && e <= maxErrno && k.has[release.AddrErrno] {
		return errf(syscall.Errno(e), "%#x is an error", addr)
	}
	return nil
}

// printk does what pr_info and the like do in the sources of kprobes.
func (hs *Hits) printk(level int, format string, args ...any) {
	if hs.has[release.LogPrefix] {
		format = "kprobes: " + format
	}
	hs.machine.Printk(level, format, args...)
}

// resolve is _kprobe_addr: it returns the probe's address, and whether that is a function's entry.
func (k *Kprobes) resolve(addr uint64, name string, offset uint32) (at uint64, entry bool, err error) {
	if (addr != 0) == (name != "") {
		return 0, false, errf(syscall.EINVAL, "a probe needs a symbol or an address, and not both (a registration sets the address)")
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

// isEndbr is is_endbr: endbr64, or what a kernel makes of it in functions whose address nobody takes.
func isEndbr(b [4]byte) bool {
	return b == [4]byte{0xf3, 0x0f, 0x1e, 0xfa} || b == [4]byte{0x66, 0x0f, 0x1f, 0x00}
}

// skipEndbr moves a probe at a function's endbr64 to the instruction after it, as
// arch_adjust_kprobe_addr does, and reports whether the place is the entry.
func (k *Kprobes) skipEndbr(at, off uint64) (uint64, bool, error) {
	if off != 0 && off != 4 {
		return at, false, nil
	}
	var b [4]byte
	if k.cfg.Text.Read(at-off, b[:]) == nil && isEndbr(b) {
		return at - off + 4, true, nil
	}
	return at, off == 0, nil
}

// OnFuncEntry is kprobe_on_func_entry: it returns nil when the place is the entry of
// a function, ENOENT when there is no such place, and otherwise EINVAL.
func (k *Kprobes) OnFuncEntry(addr uint64, name string, offset uint32) error {
	at, entry, err := k.resolve(addr, name, offset)
	if e := k.errPtr(at); err != nil && e != nil && !k.has[release.SymbolNeeded] {
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
// It fails with EINVAL when symbol and address are both given or both missing, when p
// is registered already, or when the address is not in text, is blacklisted, or is in
// a jump label, static call or BUG; with ENOENT when there is no such symbol, or none
// at the address; with EILSEQ when no instruction starts there; with EOPNOTSUPP when
// the instruction can be neither stepped nor emulated; with ENOSYS when this release
// lacks one of the handlers; and with EDEADLK when a handler makes the call and passes
// its Hit in by (as for all calls with this parameter; other callers omit it).
func (k *Kprobes) Register(p *Kprobe, by ...*Hit) error {
	if err := cmp.Or(mayWait(by), given(p)); err != nil {
		return err
	}
	if err := k.checkHandlers(p); err != nil {
		return err
	}
	at, entry, err := k.resolve(p.Addr, p.SymbolName, p.Offset)
	if at != 0 && err != nil && !k.has[release.SymbolNeeded] {
		err = k.errPtr(at)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.checkRereg(p); err != nil { // resolving again would change p.Addr if there is an offset, and p could not be found
		return err
	}
	p.Addr = at
	if err := k.checkRereg(p); err != nil {
		return err
	}
	p.begin()
	if k.cfg.Tables.FtraceSite(at) {
		p.set(FlagFtrace) // this flag stays, even when the address is refused
	}
	if err := k.checkAddress(at); err != nil {
		return err
	}
	if entry && k.has[release.OnFuncEntryFlag] {
		p.set(FlagOnFuncEntry)
	}
	if pt := k.table.get(at); pt != nil {
		return k.join(pt, p)
	}
	return k.registerFirst(p)
}

// checkHandlers returns ENOSYS for a handler for which struct kprobe of this release
// has no field.
func (k *Kprobes) checkHandlers(p *Kprobe) error {
	switch {
	case p.FaultHandler != nil && k.has[release.NoFaultHandlers]:
		return errf(syscall.ENOSYS, "this release has no fault handlers")
	case p.BreakHandler != nil && k.has[release.NoBreakHandlers]:
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

// registerFirst creates the point of an address that has none.
func (k *Kprobes) registerFirst(p *Kprobe) error {
	pt := &point{addr: p.Addr}
	pt.list.Store(newList([]*Kprobe{p}))
	pt.flags.Store(uint32(p.State()))
	if err := k.slots.prepare(pt); err != nil {
		return err
	}
	p.showOpcode(pt)
	k.note(pt, "registered")
	k.table.insert(pt)
	if !k.allOff && !pt.disabled() {
		if err := k.arm(pt); err != nil {
			k.table.remove(pt)
			k.slots.free(pt)
			return err
		}
	}
	k.tryToOptimize(pt)
	return nil
}

// tryToOptimize makes the point an aggregate if its code can be optimized.
func (k *Kprobes) tryToOptimize(pt *point) {
	if pt.has(FlagFtrace) {
		pt.noOpt = errFtrace
		return
	}
	if pt.noOpt = k.prepareDetour(pt); pt.noOpt != nil {
		return
	}
	pt.aggr.Store(true)
	k.optimize(pt)
}

var errFtrace = errors.New("a probe at an fentry site is called by ftrace and needs no jump")

// join is register_aggr_kprobe: p becomes the first probe of an address that has
// probes, or had some and still waits for the optimizer.
func (k *Kprobes) join(pt *point, p *Kprobe) error {
	if p.breaks() && pt.list.Load().breaks {
		return errf(syscall.EEXIST, "%#x has a probe with a break handler, as jprobes are", pt.addr)
	}
	if pt.unused() && !p.disabled() {
		// A probe that waits to be unoptimized and freed is revived with
		// its jump: docs/reference/linux/control-files.md section 2.
		// Linux also does so for a disabled one, whose jump then stays.
		pt.clear(FlagDisabled)
		k.optimize(pt)
	}
	pt.aggr.Store(true)
	if pt.has(FlagGone) {
		if err := k.revive(pt); err != nil {
			return err
		}
	}
	p.showOpcode(pt)
	pt.add(p)
	k.link(pt)
	k.note(pt, "another probe joins")
	if pt.needsInt3() {
		k.unoptimize(pt, true, "a post-handler or break handler needs the breakpoint")
	}
	if !pt.disabled() || p.disabled() {
		return nil
	}
	pt.clear(FlagDisabled)
	if k.allOff {
		return nil
	}
	if err := k.arm(pt); err != nil {
		pt.set(FlagDisabled)
		pt.remove(p)
		k.link(pt)
		return err
	}
	return nil
}

// revive prepares a point whose code had gone for the code that is there now. Its old
// probes stay gone.
func (k *Kprobes) revive(pt *point) error {
	if !pt.has(FlagFtrace) {
		if err := k.slots.prepare(pt); err != nil {
			return err
		}
		pt.noOpt = k.prepareDetour(pt)
	}
	pt.clear(FlagGone)
	pt.set(FlagDisabled)
	return nil
}

// valid is __get_valid_kprobe: it returns the point at which p is registered, or nil.
func (k *Kprobes) valid(p *Kprobe) *point {
	if pt := k.table.get(p.Addr); pt != nil && pt.contains(p) {
		return pt
	}
	return nil
}

// Enable is enable_kprobe. It fails with EINVAL when p is not registered, or gone.
//
// While all probes are switched off it returns nil and arms nothing, and switching
// them on does not arm it either: the probe, or its aggregate, stays disabled until
// it is disabled and enabled again. Linux does the same.
func (k *Kprobes) Enable(p *Kprobe, by ...*Hit) error {
	if err := cmp.Or(mayWait(by), given(p)); err != nil {
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
	if k.allOff || !pt.disabled() {
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

// Disable is disable_kprobe. It fails with EINVAL when p is not registered.
func (k *Kprobes) Disable(p *Kprobe, by ...*Hit) error {
	if err := cmp.Or(mayWait(by), given(p)); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.disable(p)
	return err
}

func (k *Kprobes) disable(p *Kprobe) (*point, error) {
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
	if !k.allOff && !pt.disabled() {
		if err := k.disarm(pt); err != nil {
			p.clear(FlagDisabled)
			return pt, err
		}
	}
	pt.set(FlagDisabled)
	if !k.has[release.OuterStaysBreakpoint] && !k.allOff {
		for _, outer := range k.table.within(pt.addr-maxOptimized, pt.addr) {
			if outer.detour.covers(outer.addr, pt.addr) {
				k.optimize(outer)
			}
		}
	}
	return pt, nil
}

// Unregister is unregister_kprobe. It clears the address of a probe that is not
// registered, without an error. Its only error is EDEADLK.
func (k *Kprobes) Unregister(p *Kprobe, by ...*Hit) error {
	return k.UnregisterAll([]*Kprobe{p}, by...)
}

// RegisterAll is register_kprobes: it registers all or none. It fails with EINVAL when
// ps is empty, and else with the error of the first probe that is refused; the later
// ones are not changed.
func (k *Kprobes) RegisterAll(ps []*Kprobe, by ...*Hit) error {
	if len(ps) == 0 {
		return errf(syscall.EINVAL, "no probes given")
	}
	for i, p := range ps {
		if err := k.Register(p, by...); err != nil {
			_ = k.UnregisterAll(ps[:i], by...) // by is not a handler's, or none of ps is registered
			return err
		}
	}
	return nil
}

// UnregisterAll is unregister_kprobes: it removes the probes, and clears the address
// of those that are not registered. When it returns, no handler of ps runs. Its only
// error is EDEADLK.
func (k *Kprobes) UnregisterAll(ps []*Kprobe, by ...*Hit) error {
	if err := cmp.Or(mayWait(by), given(ps...)); err != nil || len(ps) == 0 {
		return err
	}
	k.mu.Lock()
	var gone []*point
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
		k.releaseDetour(pt)
		k.slots.free(pt)
	}
	return nil
}

// unregisterTop removes p from its point. It returns the point if that was removed with p.
func (k *Kprobes) unregisterTop(p *Kprobe) (*point, error) {
	enabled := !p.has(FlagDisabled)
	pt, err := k.disable(p)
	if err != nil {
		return nil, err
	}
	if enabled && !k.has[release.UnregisterDisables] {
		defer p.clear(FlagDisabled)
	}
	last := len(pt.list.Load().probes) == 1
	if !pt.aggr.Load() || last && pt.disabled() && pt.queued == notQueued {
		k.table.remove(pt)
		k.setFirst(pt, 0)
		return pt, nil
	}
	pt.remove(p)
	k.link(pt)
	if !pt.disabled() && !k.allOff {
		k.optimize(pt) // p may have had the last post-handler
	}
	return nil, nil
}

// arm writes the breakpoint or the fentry call.
func (k *Kprobes) arm(pt *point) error {
	if pt.has(FlagFtrace) {
		arm := k.cfg.Ftrace.Arm
		if pt.hasPostHandler() {
			arm = k.cfg.Ftrace.ArmIPModify
		}
		if err := arm(pt.addr); err != nil {
			return err
		}
		k.setArmed(pt, true)
		return nil
	}
	for _, outer := range k.jumpsOver(pt.addr) {
		k.unoptimize(outer, true, "a probe is armed in its region")
	}
	if err := k.writes.poke(pt, abi.Patch{Addr: pt.addr, Bytes: int3Text}); err != nil {
		return err
	}
	k.setArmed(pt, true)
	k.optimize(pt)
	return nil
}

// jumpsOver returns the optimized points whose jump covers addr, or will.
func (k *Kprobes) jumpsOver(addr uint64) (pts []*point) {
	for _, pt := range k.table.within(addr-maxOptimized, addr) {
		if pt.has(FlagOptimized) && pt.detour.covers(pt.addr, addr) {
			pts = append(pts, pt)
		}
	}
	return pts
}

// disarm removes it. A point that is queued for the optimizer is disarmed by that.
//
// Linux would look here for an optimized probe around this one that it had
// blocked; it never finds one, since this one is not yet flagged as disabled
// (docs/reference/linux/control-files.md section 2).
func (k *Kprobes) disarm(pt *point) error {
	if pt.has(FlagFtrace) {
		if err := k.cfg.Ftrace.Disarm(pt.addr); err != nil {
			return err
		}
		k.setArmed(pt, false)
		return nil
	}
	k.unoptimize(pt, k.allOff, "it is disarmed")
	if pt.queued != notQueued {
		return nil
	}
	return k.disarmInt3(pt)
}

func (k *Kprobes) disarmInt3(pt *point) error {
	err := k.writes.poke(pt, abi.Patch{Addr: pt.addr, Bytes: pt.code.Load().orig[:1]})
	if err == nil {
		k.setArmed(pt, false)
	}
	return err
}

// setArmed requires mu.
func (k *Kprobes) setArmed(pt *point, on bool) {
	if pt.armed == on {
		return
	}
	pt.armed = on
	k.armedChanges.Add(1)
	ftrace := pt.has(FlagFtrace)
	switch {
	case on && ftrace:
		k.note(pt, "ftrace calls it")
	case on:
		k.note(pt, "int3 is written")
	case ftrace:
		k.note(pt, "ftrace no longer calls it")
	default:
		k.note(pt, "int3 is removed")
	}
	if on {
		k.armed.Add(1)
	} else {
		k.armed.Add(-1)
	}
	k.cfg.Armed.Note()
}

// Armed returns the number of armed addresses.
func (k *Kprobes) Armed() int { return int(k.armed.Load()) }

// ArmedChanges counts how often an address was armed or disarmed.
func (k *Kprobes) ArmedChanges() uint64 { return k.armedChanges.Load() }

// ArmedAt returns the armed addresses.
func (k *Kprobes) ArmedAt() (addrs []uint64) {
	k.mu.look()
	defer k.mu.Unlock()
	k.table.each(func(pt *point) {
		if pt.armed {
			addrs = append(addrs, pt.addr)
		}
	})
	return addrs
}

// Enabled reports what kprobes/enabled shows.
func (k *Kprobes) Enabled() bool {
	k.mu.look()
	defer k.mu.Unlock()
	return !k.allOff
}

// ParseEnabled parses a write to kprobes/enabled: kstrtobool, or up to 5.10 what that
// knew of it. It fails with EINVAL for what is neither on nor off.
func (k *Kprobes) ParseEnabled(data []byte) (bool, error) {
	if !k.has[release.EnabledWords] && len(data) > 0 && strings.IndexByte("tTfFoO", data[0]) >= 0 {
		return false, errf(syscall.EINVAL, "%.8q is neither on nor off", data)
	}
	return kstrtox.ParseBool(data)
}

// SetEnabled is arm_all_kprobes and disarm_all_kprobes, which a write to
// kprobes/enabled calls. Disabled probes stay disabled.
func (k *Kprobes) SetEnabled(on bool) error {
	changed, err := k.switchAll(on)
	if changed && !on {
		k.WaitOptimizer()
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
	k.writes.collect(2 * len(k.table.sorted))
	total, failed := 0, 0
	for _, pt := range k.table.sorted {
		if pt.disabled() {
			continue
		}
		total++
		if e := act(pt); e != nil {
			failed++
			err = e
		}
	}
	kept, e := k.writes.flush()
	if e != nil {
		err = e
	}
	for _, pt := range kept {
		k.setArmed(pt, !on)
		if on {
			k.unoptimize(pt, false, "it stays a breakpoint") // it has just been queued
		}
	}
	k.saySwitched(on, total, failed+len(kept))
	return true, err
}

// int3Text is the byte of a breakpoint.
var int3Text = []byte{int3}

func (k *Kprobes) saySwitched(on bool, total, failed int) {
	did, could, kept := "disabled", "disable", "enabled"
	if on {
		did, could, kept = "enabled", "enable", "disabled"
	}
	if failed == 0 {
		k.printk(6, "Kprobes globally %s", did)
		return
	}
	k.printk(4, "Kprobes globally %s, but failed to %s %d out of %d probes. "+
		"Please check which kprobes are kept %s via debugfs.", did, could, failed, total, kept)
}

// Kill does what the module notifier does when text is removed: the probes in
// [start, end) become [GONE] for good.
func (k *Kprobes) Kill(start, end uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pt := range slices.Clone(k.table.within(start, end)) { // kill changes the table
		if !pt.has(FlagGone) {
			k.kill(pt)
		}
	}
}

func (k *Kprobes) kill(pt *point) {
	if pt.has(FlagFtrace) && !pt.disabled() && !k.allOff {
		_ = k.cfg.Ftrace.Disarm(pt.addr) // the site is removed in any case
	}
	k.setArmed(pt, false)
	pt.set(FlagGone)
	for _, p := range pt.list.Load().probes {
		p.set(FlagGone)
	}
	unused := pt.unused() // only the optimizer's queue kept it, and killDetour removes it from there
	k.killDetour(pt)
	k.slots.free(pt)
	if unused {
		k.table.remove(pt)
	}
}
