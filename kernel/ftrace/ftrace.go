// Package ftrace patches the fentry sites of the guest: the five bytes at the start
// of each traceable function, which are a nop, or a call while the function has
// listeners.
//
// A listener is an Ops (ftrace_ops) with a set of sites, or a kprobe, which is armed
// at one site and sees all registers. If a site has one Ops only, or kprobes only, it
// calls a trampoline of theirs. With more listeners it calls ftrace_caller, or
// ftrace_regs_caller if one of them needs registers. Each of these ends in a
// hypercall that calls Hit or HitRegs, which call the site's listeners, newest first. The
// function of a module's ftrace_ops is guest code: the site's trampoline calls it, or
// arch_ftrace_ops_list_func, which asks Hit or HitRegs for the next one.
//
// As on Linux, kernel.ftrace_enabled=0 turns all sites into nops and keeps the
// listeners; kernel.ftrace_enabled=1 patches the sites that have listeners again.
package ftrace

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/armed"
)

// SiteSize is the length of a site in bytes.
const SiteSize = 5

// Poker writes text. It is implemented by kernel.Machine.
type Poker interface {
	Poke(patches ...abi.Patch) error
}

// Callers are the addresses that a site may call.
type Callers struct {
	Regs uint64 // ftrace_regs_caller
	List uint64 // ftrace_caller
	// Trampoline returns the address of a new copy of ftrace_caller, or with regs of
	// ftrace_regs_caller, that calls the named function. It may fail with ENOMEM. If
	// it is nil, List and Regs are used instead.
	Trampoline func(function string, regs bool) (uint64, error)
	// OpsRegs is ftrace_ops_regs_caller, which calls arch_ftrace_ops_list_func.
	OpsRegs uint64
	// OpsTrampoline makes a trampoline for the ftrace_ops at the address op that calls
	// the named function, or the one at target if there is no name. Unless over is 0, it
	// takes the place of that trampoline, which had the same regs. It may fail with
	// ENOMEM.
	OpsTrampoline func(over uint64, function string, target, op uint64, regs bool) (uint64, error)
}

// Ops is ftrace_ops: a listener that is called when functions are entered. Its owner
// sets the exported fields before its first use.
type Ops struct {
	// Function is the name of the kernel function that Linux calls for it, as
	// enabled_functions shows it.
	Function string
	// Regs is FTRACE_OPS_FL_SAVE_REGS: Func sees all registers.
	Regs bool
	// Func is called in handler context. Regs.IP is the address of the site, Arg the
	// return address of the entered function. Changes to Regs are ignored.
	Func func(t *abi.Trap)
	// Allocated is set if Linux allocates the ftrace_ops dynamically: without a
	// trampoline of its own, it is then called through arch_ftrace_ops_list_func even
	// if it is the only one.
	Allocated bool

	// Struct is the address of a module's ftrace_ops and Target the address of its function,
	// which guest code calls; then Func is nil.
	Struct, Target uint64
	// Assist is FTRACE_OPS_FL_RECURSION or RCU: Target is called through
	// ftrace_ops_assist_func.
	Assist bool
	// IPModify is FTRACE_OPS_FL_IPMODIFY: a site can have one of these.
	IPModify bool
	// Last says that it is called after all other listeners of a site.
	Last bool
	// Permanent is FTRACE_OPS_FL_PERMANENT: kernel.ftrace_enabled cannot be 0.
	Permanent bool

	tramp uint64
	sites map[uint64]bool
	added bool // by AddOps: it stays without sites
	users int  // of a prober: sites with its kprobes
}

// Trampoline returns the address of the trampoline, 0 if there is none.
func (o *Ops) Trampoline() uint64 { return o.tramp }

// Site is a line of enabled_functions (sites with listeners) or of touched_functions
// (sites that had any).
type Site struct {
	Addr     uint64
	Count    int    // listeners
	Regs     bool   // a listener sees all registers
	IPModify bool   // a listener may change the address to continue at
	Target   uint64 // the module's function for which the site's trampoline is, or 0
	Tramp    uint64 // address of the trampoline that the site calls, 0 for a shared one
	Function string // name of the function that is called then
}

// site is dyn_ftrace.
type site struct {
	kprobes  int  // users of Arm
	prober   *Ops // which of the probers listens for them
	touched  bool
	regs     bool // FTRACE_FL_REGS, which may stay when the kprobe is gone: see updateRegs
	regsLeft bool // an Ops with Regs has just been removed, so FTRACE_FL_REGS does not stay
	ops      atomic.Pointer[[]*Ops]
}

// Sites are the fentry sites of a kernel.
type Sites struct {
	text    Poker
	callers Callers
	kprobe  atomic.Pointer[func(*abi.Trap)]
	index   atomic.Pointer[map[uint64]*site] // replaced as a whole
	others  atomic.Int32                     // Ops in ops
	changes *armed.Changes                   // of others

	mu      sync.Mutex
	ops     []*Ops            // those with sites, newest first
	probers [2]Ops            // stand for all kprobes in ops; the second for those with FTRACE_OPS_FL_IPMODIFY
	free    [2][]uint64       // OpsTrampolines that are not used, without and with regs
	off     bool              // kernel.ftrace_enabled is 0
	called  string            // ftrace_trace_function: the function that shared trampolines call
	tramps  map[string]uint64 // by Function: the trampoline shared by all Ops with Regs
}

// Functions that a site may call, as enabled_functions names them.
const (
	listFunc   = "arch_ftrace_ops_list_func"
	kprobeFunc = "kprobe_ftrace_handler"
	assistFunc = "ftrace_ops_assist_func"
	stubFunc   = "ftrace_stub"
)

// New returns the sites at the given addresses, which hold nops. It notes in changes when a listener comes or
// goes that is no kprobe.
func New(text Poker, sites []uint64, callers Callers, changes *armed.Changes) *Sites {
	s := &Sites{text: text, callers: callers, changes: changes, called: stubFunc, tramps: map[string]uint64{}}
	s.probers = [2]Ops{{Function: kprobeFunc, Regs: true}, {Function: kprobeFunc, Regs: true, IPModify: true}}
	index := make(map[uint64]*site, len(sites))
	for _, a := range sites {
		index[a] = &site{}
	}
	s.index.Store(&index)
	return s
}

// OnKprobe sets the function that HitRegs calls for kprobes.
func (s *Sites) OnKprobe(f func(*abi.Trap)) { s.kprobe.Store(&f) }

// Add adds the sites of a module, which hold nops.
func (s *Sites) Add(addrs []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := maps.Clone(*s.index.Load())
	for _, a := range addrs {
		index[a] = &site{}
	}
	s.index.Store(&index)
}

// Remove removes the sites in r, whose text is going to be freed, with their
// listeners.
func (s *Sites) Remove(r abi.Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := maps.Clone(*s.index.Load())
	gone := func(a uint64) bool { return r.Contains(a) }
	for a, x := range index {
		if !gone(a) {
			continue
		}
		if x.kprobes > 0 {
			x.prober.users--
		}
		delete(index, a)
	}
	for _, o := range s.ops {
		maps.DeleteFunc(o.sites, func(a uint64, _ bool) bool { return gone(a) })
	}
	s.index.Store(&index)
}

// Listening reports whether there are listeners other than kprobes.
func (s *Sites) Listening() bool { return s.others.Load() > 0 }

// Used reports whether there are listeners or kprobes at any site.
func (s *Sites) Used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ops) > 0
}

// All returns the addresses of the sites in ascending order.
func (s *Sites) All() []uint64 { return slices.Sorted(maps.Keys(*s.index.Load())) }

// Arm adds a kprobe to the site at addr. It returns EINVAL if there is no site.
func (s *Sites) Arm(addr uint64) error { return s.arm(addr, 1, &s.probers[0]) }

// ArmIPModify is Arm for a kprobe with a post handler. It returns EBUSY if the site has
// a listener that may change the address to continue at.
func (s *Sites) ArmIPModify(addr uint64) error { return s.arm(addr, 1, &s.probers[1]) }

// Disarm removes a kprobe from the site at addr. It returns EINVAL if there is no
// site or no kprobe.
func (s *Sites) Disarm(addr uint64) error { return s.arm(addr, -1, nil) }

func (s *Sites) arm(addr uint64, d int, prober *Ops) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := (*s.index.Load())[addr]
	if x == nil || x.kprobes+d < 0 {
		return fmt.Errorf("no ftrace site, or no kprobe at it, at %#x: %w", addr, syscall.EINVAL)
	}
	if x.kprobes == 0 && d > 0 {
		if err := s.conflict(prober, map[uint64]bool{addr: true}); err != nil {
			return err
		}
		x.prober = prober
	}
	if err := s.trampoline(x.prober); err != nil {
		return err
	}
	s.count(addr, x, d)
	defer s.updateRegs(addr, x)
	if x.kprobes > 1 || x.kprobes == 1 && d < 0 {
		return nil // it stays armed
	}
	if err := s.poke(addr); err != nil {
		s.count(addr, x, -d)
		return err
	}
	return nil
}

// updateRegs sets or clears FTRACE_FL_REGS of a site. If a site has other listeners
// when its kprobe is removed, the flag stays as long as there are kprobes at any site
// (script touched_functions). While kernel.ftrace_enabled is 0 it is not cleared.
func (s *Sites) updateRegs(addr uint64, x *site) {
	if x == nil {
		return
	}
	n, _, regs := s.listeners(addr, x)
	stays := x.regs && (s.off || n > 0 && s.probers[0].users+s.probers[1].users > 0 && !x.regsLeft)
	x.regs, x.regsLeft = regs || stays, false
}

// count adds d to the number of kprobes at a site, and updates the lists of
// listeners.
func (s *Sites) count(addr uint64, x *site, d int) {
	was := x.kprobes > 0
	x.kprobes += d
	p := x.prober
	switch is := x.kprobes > 0; {
	case is == was:
		return
	case is:
		if p.users++; p.users == 1 {
			s.ops = append([]*Ops{p}, s.ops...)
		}
	default:
		if p.users--; p.users == 0 {
			s.ops = slices.DeleteFunc(s.ops, func(o *Ops) bool { return o == p })
		}
	}
	s.publish(addr, x)
}

// AddOps adds a module's Ops that listens at the sites in addrs, and stays if there are
// none. It returns EBUSY if another one with IPModify is at one of the sites, or for a
// permanent one while kernel.ftrace_enabled is 0.
func (s *Sites) AddOps(o *Ops, addrs []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Permanent && s.off {
		return fmt.Errorf("a permanent listener, and kernel.ftrace_enabled is 0: %w", syscall.EBUSY)
	}
	o.added = true
	err := s.set(o, addrs)
	if err != nil {
		s.release(o)
	}
	return err
}

// RemoveOps removes an Ops that AddOps has added.
func (s *Sites) RemoveOps(o *Ops) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.added = false
	err := s.set(o, nil)
	s.release(o)
	return err
}

// release keeps o's trampoline for the next Ops. A task that is still in it returns
// from there as before, since only the function that it calls is replaced.
func (s *Sites) release(o *Ops) {
	if o.tramp != 0 {
		free := s.unused(o)
		*free = append(*free, o.tramp)
		o.tramp = 0
	}
}

// unused returns the trampolines that an Ops like o may have.
func (s *Sites) unused(o *Ops) *[]uint64 {
	if o.Regs {
		return &s.free[1]
	}
	return &s.free[0]
}

// Set sets the sites at which o listens. Addresses without a site are ignored. With
// no sites left, o is removed, unless AddOps has added it. It returns EBUSY as AddOps does.
func (s *Sites) Set(o *Ops, addrs []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(o, addrs)
}

func (s *Sites) set(o *Ops, addrs []uint64) error {
	index := *s.index.Load()
	sites := make(map[uint64]bool, len(addrs))
	for _, a := range addrs {
		if index[a] != nil {
			sites[a] = true
		}
	}
	if err := s.conflict(o, sites); err != nil {
		return err
	}
	if err := s.trampoline(o); err != nil {
		return err
	}
	changed := map[uint64]bool{}
	for a := range o.sites {
		changed[a] = !sites[a]
		if x := index[a]; x != nil {
			x.regsLeft = o.Regs && !sites[a]
		}
	}
	for a := range sites {
		changed[a] = !o.sites[a]
	}
	s.list(o, len(sites) > 0 || o.added)
	o.sites = sites
	var patched []uint64
	for a, c := range changed {
		if c {
			s.publish(a, index[a])
			s.updateRegs(a, index[a])
			patched = append(patched, a)
		}
	}
	return s.poke(patched...)
}

// list adds o to the listeners, or removes it.
func (s *Sites) list(o *Ops, listens bool) {
	switch known := slices.Contains(s.ops, o); {
	case known && !listens:
		s.ops = slices.DeleteFunc(s.ops, func(x *Ops) bool { return x == o })
		s.others.Add(-1)
		s.changes.Note()
	case listens && !known:
		if o.Last {
			s.ops = append(s.ops, o)
		} else {
			s.ops = append([]*Ops{o}, s.ops...)
		}
		s.others.Add(1)
		s.changes.Note()
	}
}

// conflict returns EBUSY if o may change the address to continue at and another listener
// at one of these sites may, too.
func (s *Sites) conflict(o *Ops, sites map[uint64]bool) error {
	if !o.IPModify {
		return nil
	}
	index := *s.index.Load()
	for a := range sites {
		for _, other := range s.ops {
			if other != o && other.IPModify && other.at(a, index[a]) {
				return fmt.Errorf("two listeners at %#x may change the address to continue at: %w", a, syscall.EBUSY)
			}
		}
	}
	return nil
}

// at reports whether o listens at the site x.
func (o *Ops) at(addr uint64, x *site) bool {
	return o.sites[addr] || x != nil && x.kprobes > 0 && x.prober == o
}

// trampoline sets o's trampoline, if it has none yet.
func (s *Sites) trampoline(o *Ops) (err error) {
	switch {
	case o.tramp != 0:
	case o.Struct != 0:
		err = s.opsTrampoline(o)
	case s.callers.Trampoline == nil && o.Regs:
		o.tramp = s.callers.Regs
	case s.callers.Trampoline == nil:
		o.tramp = s.callers.List
	case o.Regs && s.tramps[o.Function] != 0: // Ops with Regs are often made: the trampoline is reused
		o.tramp = s.tramps[o.Function]
	default:
		if o.tramp, err = s.callers.Trampoline(o.Function, o.Regs); o.Regs && err == nil {
			s.tramps[o.Function] = o.tramp
		}
	}
	return err
}

func (s *Sites) opsTrampoline(o *Ops) (err error) {
	free := s.unused(o)
	var over uint64
	if n := len(*free); n > 0 {
		over = (*free)[n-1]
	}
	tramp, err := s.callers.OpsTrampoline(over, o.calls(), o.Target, o.Struct, o.Regs)
	if err != nil {
		return err
	}
	if over != 0 {
		*free = (*free)[:len(*free)-1]
	}
	o.tramp = tramp
	return nil
}

// calls is the name of the kernel's function that o's trampoline calls; "" if it calls
// the module's function.
func (o *Ops) calls() string {
	if o.Assist {
		return assistFunc
	}
	return o.Function
}

// publish builds the list of listeners that a hit at x calls.
func (s *Sites) publish(addr uint64, x *site) {
	if x == nil {
		return
	}
	var list []*Ops
	for _, o := range s.ops {
		if o.at(addr, x) {
			list = append(list, o)
		}
	}
	x.ops.Store(&list)
}

// listeners returns the number of listeners of a site, one of them, and whether any
// sees all registers.
func (s *Sites) listeners(addr uint64, x *site) (n int, only *Ops, regs bool) {
	for _, o := range s.ops {
		if o.at(addr, x) {
			n, only, regs = n+1, o, regs || o.Regs
		}
	}
	return n, only, regs
}

// target returns the address that the site calls, or 0.
func (s *Sites) target(addr uint64, x *site) uint64 {
	n, only, regs := s.listeners(addr, x)
	switch {
	case n == 0:
		return 0
	case n == 1:
		return only.tramp
	case regs && slices.ContainsFunc(s.ops, func(o *Ops) bool { return o.Struct != 0 && o.at(addr, x) }):
		return s.callers.OpsRegs
	case regs:
		return s.callers.Regs
	}
	return s.callers.List
}

// poke writes nops or calls to the sites at addrs, according to their listeners.
func (s *Sites) poke(addrs ...uint64) error {
	if s.off {
		return nil
	}
	s.updateCalled()
	return s.text.Poke(s.patches(addrs, true)...)
}

// updateCalled is update_ftrace_function.
func (s *Sites) updateCalled() {
	switch {
	case len(s.ops) == 0:
		s.called = stubFunc
	case len(s.ops) > 1 || s.ops[0].Allocated:
		s.called = listFunc
	default:
		s.called = s.ops[0].Function
	}
}

func (s *Sites) patches(addrs []uint64, on bool) (patches []abi.Patch) {
	index := *s.index.Load()
	slices.Sort(addrs)
	for _, a := range addrs {
		x := index[a]
		if x == nil {
			continue
		}
		b := []byte(abi.Nop5)
		if to := s.target(a, x); on && to != 0 {
			x.touched = true
			b[0] = 0xe8
			binary.LittleEndian.PutUint32(b[1:], uint32(to-(a+SiteSize)))
		}
		patches = append(patches, abi.Patch{Addr: a, Bytes: b})
	}
	return patches
}

// Enabled reports whether kernel.ftrace_enabled is on.
func (s *Sites) Enabled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.off
}

// SetEnabled sets kernel.ftrace_enabled. It patches all sites that have listeners at
// once. It returns EBUSY if there are permanent ones.
func (s *Sites) SetEnabled(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off == !on {
		return nil
	}
	if !on && slices.ContainsFunc(s.ops, func(o *Ops) bool { return o.Permanent }) {
		return fmt.Errorf("there is a permanent listener: %w", syscall.EBUSY)
	}
	var addrs []uint64
	for a, x := range *s.index.Load() {
		if n, _, _ := s.listeners(a, x); n > 0 {
			addrs = append(addrs, a)
		}
	}
	if err := s.text.Poke(s.patches(addrs, on)...); err != nil {
		return err
	}
	if s.off = !on; on {
		s.updateCalled()
		for a, x := range *s.index.Load() {
			s.updateRegs(a, x)
		}
	}
	return nil
}

// Listened returns the sites with listeners by address, none while
// kernel.ftrace_enabled is 0.
func (s *Sites) Listened() (list []Site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off {
		return nil
	}
	return s.sites(func(e Site, _ *site) bool { return e.Count > 0 })
}

// Touched returns the sites that have ever had listeners, by address.
func (s *Sites) Touched() (list []Site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sites(func(_ Site, x *site) bool { return x.touched })
}

// sites returns the sites for which wanted returns true, by address.
func (s *Sites) sites(wanted func(Site, *site) bool) (list []Site) {
	for a, x := range *s.index.Load() {
		if e := s.site(a, x); wanted(e, x) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Site) int { return cmp.Compare(a.Addr, b.Addr) })
	return list
}

func (s *Sites) site(a uint64, x *site) Site {
	n, only, _ := s.listeners(a, x)
	e := Site{Addr: a, Count: n, Regs: x.regs, Function: s.called}
	switch {
	case n == 0 || s.off:
	case n > 1:
		e.Function = listFunc
	default:
		e.Tramp, e.Function, e.Target = only.tramp, only.calls(), only.Target
	}
	e.IPModify = slices.ContainsFunc(s.ops, func(o *Ops) bool { return o.IPModify && o.at(a, x) })
	return e
}

// HitRegs handles a hit of a site with a listener that sees all registers, in handler
// context. They are in t.Regs, and the vCPU continues with them. It calls the listeners
// behind the module's ftrace_ops at t.Op (0: all), up to the next one of a module, whose
// address it leaves in t.Op; 0 is the end. t.Next is the address to continue at that
// listeners before have chosen.
func (s *Sites) HitRegs(t *abi.Trap) {
	if t.Quiet {
		if t.Op = 0; t.Next == t.Regs.IP {
			t.Next += SiteSize
		}
		t.Regs.IP = t.Next
		return
	}
	kprobe := s.kprobe.Load()
	if s.others.Load() == 0 && kprobe != nil {
		t.Op = 0
		(*kprobe)(t)
		return
	}
	at := t.Regs.IP
	next := at + SiteSize
	if t.Next != at {
		next = t.Next
	}
	all := s.at(at)
	ops, preempt := behind(all, t.Op), t.Preempt
	t.Op = 0
	for _, o := range ops {
		if o.Struct != 0 {
			t.Op = o.Struct
			break
		}
		t.Regs.IP, t.Preempt = at, preempt
		if len(all) > 1 && o.Regs {
			t.Preempt++ // arch_ftrace_ops_list_func disables preemption, and these functions do so again
		}
		switch {
		case o.Func != nil:
			was := t.Next
			if o.Func(t); t.Next != was { // the function is left out
				next = t.Next
			}
		case kprobe != nil:
			(*kprobe)(t)
			if t.Regs.IP != at+SiteSize {
				next = t.Regs.IP
			}
		}
	}
	t.Regs.IP, t.Preempt = next, preempt
}

// Hit handles a hit of a site where no listener sees all registers, in handler context.
// t.Op is as with HitRegs.
func (s *Sites) Hit(t *abi.Trap) {
	if t.Quiet {
		t.Op = 0
		return
	}
	at := t.Regs.IP
	ops := behind(s.at(at), t.Op)
	t.Op = 0
	for _, o := range ops {
		switch {
		case o.Regs: // added after this call: there are no registers for it
		case o.Struct != 0:
			t.Op = o.Struct
			return
		default:
			t.Regs.IP = at
			o.Func(t)
		}
	}
}

// behind returns the listeners behind the module's one at op, none if it has gone.
func behind(ops []*Ops, op uint64) []*Ops {
	if op == 0 {
		return ops
	}
	i := slices.IndexFunc(ops, func(o *Ops) bool { return o.Struct == op })
	if i < 0 {
		return nil
	}
	return ops[i+1:]
}

func (s *Sites) at(addr uint64) []*Ops {
	if x := (*s.index.Load())[addr]; x != nil {
		if list := x.ops.Load(); list != nil {
			return *list
		}
	}
	return nil
}
