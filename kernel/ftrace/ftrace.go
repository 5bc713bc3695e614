// Package ftrace keeps the fentry sites of the guest: the five bytes at the
// start of each traced function that are a nop, or a call while somebody wants
// to be told.
//
// Who wants to be told is an Ops (ftrace_ops) with a set of sites, or kprobes,
// which arm and disarm site by site and see all registers. What a site calls
// follows from who is there: one Ops alone, and kprobes alone, have a trampoline of
// their own, several share ftrace_caller, or ftrace_regs_caller with a kprobe. All of
// them end in a hypercall, and that in Hit or HitRegs here, which call everybody
// who listens at the site, the newest first.
//
// kernel.ftrace_enabled=0 turns all sites back into nops and keeps who listens,
// as Linux does (reference: control-files, section 1, last paragraph); turning it
// on again patches those that have listeners.
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
)

// SiteSize is the length of a site in bytes.
const SiteSize = 5

// Poker writes text: kernel's Machine.
type Poker interface {
	Poke(patches ...abi.Patch) error
}

// Callers are the addresses that a site may call.
type Callers struct {
	Regs uint64 // ftrace_regs_caller
	List uint64 // ftrace_caller
	// Trampoline gives a copy of ftrace_caller, or with regs of ftrace_regs_caller,
	// that calls the function of that name. It may fail with ENOMEM. nil: there are
	// none, List or Regs is called instead.
	Trampoline func(function string, regs bool) (uint64, error)
}

// Ops is ftrace_ops: somebody who is told when functions are entered. Only the
// fields that are exported are set by its owner, before it is first used.
type Ops struct {
	// Function is the kernel's function that is called for it, by which
	// enabled_functions names it.
	Function string
	// Regs is FTRACE_OPS_FL_SAVE_REGS: Func sees all registers.
	Regs bool
	// Func is called in handler context. Regs.IP is the site, Arg the return address of
	// the function that is entered; what it leaves in Regs is ignored.
	Func func(t *abi.Trap)
	// Allocated: the kernel allocates it, so that a call without a trampoline of its
	// own goes through the list, also when it is alone.
	Allocated bool

	tramp uint64
	sites map[uint64]bool
}

// Site is what enabled_functions tells of a site with listeners, and touched_functions
// of one that had some.
type Site struct {
	Addr     uint64
	Count    int    // listeners
	Regs     bool   // one of them, as a kprobe, sees all registers
	Tramp    uint64 // the target of its call, or 0 to go through the list
	Function string // what is called then
}

// site is dyn_ftrace.
type site struct {
	kprobes  int // users of Arm
	touched  bool
	regs     bool // FTRACE_FL_REGS, which may outlive its kprobe: see updateRegs
	regsLeft bool // an Ops with registers has just left, of whom nothing stays
	ops      atomic.Pointer[[]*Ops]
}

// Sites is all fentry sites of a kernel.
type Sites struct {
	text    Poker
	callers Callers
	kprobe  atomic.Pointer[func(*abi.Trap)]
	index   atomic.Pointer[map[uint64]*site] // replaced whole
	others  atomic.Int32                     // Ops in ops

	mu      sync.Mutex
	ops     []*Ops            // that are told of anything, the newest first
	probed  Ops               // stands for kprobes in ops
	kprobes int               // sites with kprobes
	off     bool              // kernel.ftrace_enabled is 0
	called  string            // ftrace_trace_function: what a call without a trampoline is to
	tramps  map[string]uint64 // those that all Ops with registers of a function share
}

// The names of functions that calls may go to.
const (
	listFunc   = "arch_ftrace_ops_list_func"
	kprobeFunc = "kprobe_ftrace_handler"
	stubFunc   = "ftrace_stub"
)

// New takes the addresses of the sites and of what they may call.
func New(text Poker, sites []uint64, callers Callers) *Sites {
	s := &Sites{text: text, callers: callers, called: stubFunc, tramps: map[string]uint64{}, probed: Ops{Function: kprobeFunc, Regs: true}}
	index := make(map[uint64]*site, len(sites))
	for _, a := range sites {
		index[a] = &site{}
	}
	s.index.Store(&index)
	return s
}

// OnKprobe sets what HitRegs calls for kprobes.
func (s *Sites) OnKprobe(f func(*abi.Trap)) { s.kprobe.Store(&f) }

// Add adds sites that hold nops, those of a module.
func (s *Sites) Add(addrs []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := maps.Clone(*s.index.Load())
	for _, a := range addrs {
		index[a] = &site{}
	}
	s.index.Store(&index)
}

// Remove forgets the sites in r, whose text goes away, and who uses them.
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
			s.kprobes--
		}
		delete(index, a)
	}
	for _, o := range s.ops {
		maps.DeleteFunc(o.sites, func(a uint64, _ bool) bool { return gone(a) })
	}
	s.index.Store(&index)
}

// Listening says whether anybody but kprobes is told of functions.
func (s *Sites) Listening() bool { return s.others.Load() > 0 }

// All gives the addresses of the sites in order.
func (s *Sites) All() []uint64 { return slices.Sorted(maps.Keys(*s.index.Load())) }

// Arm adds a kprobe to the site at addr; EINVAL when there is no site.
func (s *Sites) Arm(addr uint64) error { return s.arm(addr, 1) }

// Disarm takes a kprobe away; EINVAL when there is no site or it has none.
func (s *Sites) Disarm(addr uint64) error { return s.arm(addr, -1) }

func (s *Sites) arm(addr uint64, d int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := (*s.index.Load())[addr]
	if x == nil || x.kprobes+d < 0 {
		return fmt.Errorf("no such user of an ftrace site at %#x: %w", addr, syscall.EINVAL)
	}
	if err := s.trampoline(&s.probed); err != nil {
		return err
	}
	s.count(addr, x, d)
	defer s.updateRegs(addr, x)
	if x.kprobes > 1 || x.kprobes == 1 && d < 0 {
		return nil // it was armed and is
	}
	if err := s.poke(addr); err != nil {
		s.count(addr, x, -d)
		return err
	}
	return nil
}

// updateRegs says whether the site is shown to want all registers. Where others listen
// there when its kprobe goes, it goes on to do so as long as kprobes are anywhere:
// script touched_functions. Nothing is cleared while kernel.ftrace_enabled is 0.
func (s *Sites) updateRegs(addr uint64, x *site) {
	if x == nil {
		return
	}
	n, _, regs := s.listeners(addr, x)
	stays := x.regs && (s.off || n > 0 && s.kprobes > 0 && !x.regsLeft)
	x.regs, x.regsLeft = regs || stays, false
}

// count counts a site's kprobes and, where that makes a difference, who hits are
// for.
func (s *Sites) count(addr uint64, x *site, d int) {
	was := x.kprobes > 0
	x.kprobes += d
	switch is := x.kprobes > 0; {
	case is == was:
		return
	case is:
		if s.kprobes++; s.kprobes == 1 {
			s.ops = append([]*Ops{&s.probed}, s.ops...)
		}
	default:
		if s.kprobes--; s.kprobes == 0 {
			s.ops = slices.DeleteFunc(s.ops, func(o *Ops) bool { return o == &s.probed })
		}
	}
	s.publish(addr, x)
}

// Set says of which sites o is told from now on; addresses that are no sites are
// left out. With none o is forgotten.
func (s *Sites) Set(o *Ops, addrs []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.trampoline(o); err != nil {
		return err
	}
	index := *s.index.Load()
	sites := make(map[uint64]bool, len(addrs))
	for _, a := range addrs {
		if index[a] != nil {
			sites[a] = true
		}
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
	known := slices.Contains(s.ops, o)
	switch {
	case len(sites) == 0 && known:
		s.ops = slices.DeleteFunc(s.ops, func(x *Ops) bool { return x == o })
		s.others.Add(-1)
	case len(sites) > 0 && !known:
		s.ops = append([]*Ops{o}, s.ops...)
		s.others.Add(1)
	}
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

// trampoline gives o its own, or the shared one where there are none.
func (s *Sites) trampoline(o *Ops) (err error) {
	switch {
	case o.tramp != 0:
	case s.callers.Trampoline == nil && o.Regs:
		o.tramp = s.callers.Regs
	case s.callers.Trampoline == nil:
		o.tramp = s.callers.List
	case o.Regs && s.tramps[o.Function] != 0: // such Ops come and go
		o.tramp = s.tramps[o.Function]
	default:
		if o.tramp, err = s.callers.Trampoline(o.Function, o.Regs); o.Regs && err == nil {
			s.tramps[o.Function] = o.tramp
		}
	}
	return err
}

// publish makes the list that hits at x go through.
func (s *Sites) publish(addr uint64, x *site) {
	if x == nil {
		return
	}
	var list []*Ops
	for _, o := range s.ops {
		if o.sites[addr] || o == &s.probed && x.kprobes > 0 {
			list = append(list, o)
		}
	}
	x.ops.Store(&list)
}

// listeners is the number of listeners of a site, the one when it is alone, and
// whether any, as a kprobe, sees all registers.
func (s *Sites) listeners(addr uint64, x *site) (n int, only *Ops, regs bool) {
	for _, o := range s.ops {
		if o != &s.probed && o.sites[addr] {
			n, only, regs = n+1, o, regs || o.Regs
		}
	}
	if x.kprobes > 0 {
		n, regs = n+1, true
	}
	return n, only, regs
}

// target returns the address that the site calls, or 0.
func (s *Sites) target(addr uint64, x *site) uint64 {
	n, only, regs := s.listeners(addr, x)
	switch {
	case n == 0:
		return 0
	case n == 1 && x.kprobes == 0:
		return only.tramp
	case n == 1:
		return s.probed.tramp
	case regs:
		return s.callers.Regs
	}
	return s.callers.List
}

// poke makes sites what they are to be.
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
	case s.ops[0] == &s.probed:
		s.called = kprobeFunc
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

// Enabled says whether kernel.ftrace_enabled is on.
func (s *Sites) Enabled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.off
}

// SetEnabled is kernel.ftrace_enabled: it patches all sites that have listeners
// in one go.
func (s *Sites) SetEnabled(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off == !on {
		return nil
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

// Listened gives the sites with listeners, by address; none while
// kernel.ftrace_enabled is 0.
func (s *Sites) Listened() (list []Site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off {
		return nil
	}
	return s.sites(func(e Site, _ *site) bool { return e.Count > 0 })
}

// Touched gives the sites that have ever called anything, by address.
func (s *Sites) Touched() (list []Site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sites(func(_ Site, x *site) bool { return x.touched })
}

// sites gives those that wanted takes.
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
	case x.kprobes > 0:
		e.Tramp, e.Function = s.probed.tramp, kprobeFunc
	default:
		e.Tramp, e.Function = only.tramp, only.Function
	}
	return e
}

// HitRegs is called at a site with a kprobe, in handler context: Regs are all there,
// and where they lead is where the vCPU goes on.
func (s *Sites) HitRegs(t *abi.Trap) {
	kprobe := s.kprobe.Load()
	if s.others.Load() == 0 && kprobe != nil {
		(*kprobe)(t)
		return
	}
	at := t.Regs.IP
	next := at + SiteSize
	ops := s.at(at)
	preempt := t.Preempt
	for _, o := range ops {
		t.Regs.IP, t.Preempt = at, preempt
		if len(ops) > 1 && (o == &s.probed || o.Regs) {
			t.Preempt++ // the list has counted, and these do once more
		}
		switch {
		case o != &s.probed:
			o.Func(t)
		case kprobe != nil:
			(*kprobe)(t)
			next = t.Regs.IP
		}
	}
	t.Regs.IP, t.Preempt = next, preempt
}

// Hit is called at a site without a kprobe, in handler context.
func (s *Sites) Hit(t *abi.Trap) {
	at := t.Regs.IP
	for _, o := range s.at(at) {
		if o != &s.probed && !o.Regs { // one that has just come wants what is not there
			t.Regs.IP = at
			o.Func(t)
		}
	}
}

func (s *Sites) at(addr uint64) []*Ops {
	if x := (*s.index.Load())[addr]; x != nil {
		if list := x.ops.Load(); list != nil {
			return *list
		}
	}
	return nil
}
