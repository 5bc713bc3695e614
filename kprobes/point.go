package kprobes

import (
	"slices"
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// point is an entry of the table of probed addresses: one kprobe alone, or an
// aggregate (aggr_kprobe) of the kprobes registered at one address. An address
// that can be optimized has an aggregate from the start, as in Linux.
//
// The trap side reads it without locks: flags, list and code are replaced as a whole.
// The probes' lock guards all other fields.
type point struct {
	addr  uint64
	more  atomic.Pointer[point] // in its chain of the index
	flags atomic.Uint32
	list  atomic.Pointer[probeList]
	code  atomic.Pointer[slotCode] // nil at an fentry site
	out   atomic.Uint64            // address of the copied instructions in the detour; 0 without a detour
	aggr  atomic.Bool

	place  *place    // see placeOf
	detour *Detour   // nil if it cannot be optimized
	first  uint64    // what stands at the detour's Op
	noOpt  error     // the reason for that
	queued direction // for the optimizer's work
	serial uint64    // of its ticket in the queue
	armed  bool      // the int3 or the fentry call has been written
	past   *history  // of its changes; nil if there was none
}

// probeList is the kprobes of a point, newest first.
type probeList struct {
	probes []*Kprobe  // those with break handlers last
	one    [1]*Kprobe // probes lies here if it is one: a hit and kprobes/list look at one place less
	post   bool       // one of them has a post-handler, enabled or not
	breaks bool       // one of them has a break handler, or is a jprobe's
	faults bool       // one of them has a fault handler that is called for the step
}

func newList(probes []*Kprobe) *probeList {
	post := slices.ContainsFunc(probes, func(p *Kprobe) bool { return p.PostHandler != nil })
	faults := slices.ContainsFunc(probes, func(p *Kprobe) bool { return p.FaultHandler != nil })
	l := &probeList{probes: probes, post: post, breaks: slices.ContainsFunc(probes, (*Kprobe).breaks), faults: faults}
	if len(probes) == 1 {
		l.one[0] = probes[0]
		l.probes = l.one[:]
	}
	return l
}

// link makes a list of the Structs of the probes and returns the first one, or 0 if one has
// none, or a fault handler, which only the machine calls.
func (l *probeList) link() (first uint64) {
	if slices.ContainsFunc(l.probes, func(p *Kprobe) bool { return p.Struct == 0 || p.Mirror == nil || p.FaultHandler != nil }) {
		return 0
	}
	for _, p := range slices.Backward(l.probes) {
		p.Mirror.SetNext(first)
		first = p.Struct
	}
	return first
}

// State returns the aggregate's flags.
func (pt *point) State() Flags { return Flags(pt.flags.Load()) }

// disabled is kprobe_disabled of the aggregate: disabled or gone.
func (pt *point) disabled() bool { return pt.has(FlagDisabled | FlagGone) }

// hasPostHandler reports whether a probe of the point has a post-handler.
func (pt *point) hasPostHandler() bool { return pt.list.Load().post }

// needsInt3 reports whether a post-handler or a break handler keeps the point from
// being optimized.
func (pt *point) needsInt3() bool {
	l := pt.list.Load()
	return l.post || l.breaks
}

// unused is kprobe_unused: the last kprobe has been removed, and only the optimizer's
// queue keeps the point.
func (pt *point) unused() bool {
	return pt.aggr.Load() && pt.disabled() && len(pt.list.Load().probes) == 0
}

// setOptimized sets or clears [OPTIMIZED] in the aggregate alone.
func (pt *point) setOptimized(on bool) {
	if on {
		pt.flags.Or(uint32(FlagOptimized))
		return
	}
	pt.flags.And(^uint32(FlagOptimized))
}

func (pt *point) has(f Flags) bool { return pt.State()&f != 0 }

// set and clear change the point's flags, and its only kprobe's if it is not an aggregate.
func (pt *point) set(f Flags) {
	pt.flags.Or(uint32(f))
	if !pt.aggr.Load() {
		pt.only().set(f)
	}
}

func (pt *point) clear(f Flags) {
	pt.flags.And(^uint32(f))
	if !pt.aggr.Load() {
		pt.only().clear(f)
	}
}

func (pt *point) only() *Kprobe { return pt.list.Load().probes[0] }

func (pt *point) contains(p *Kprobe) bool { return slices.Contains(pt.list.Load().probes, p) }

func (pt *point) allDisabled() bool {
	return !slices.ContainsFunc(pt.list.Load().probes, func(p *Kprobe) bool { return !p.disabled() })
}

// add inserts p as the first, or as the last when it has a break handler: its
// pre-handler may direct the CPU elsewhere, and the others' must run before that.
func (pt *point) add(p *Kprobe) {
	old := pt.list.Load().probes
	if p.breaks() {
		pt.list.Store(newList(append(slices.Clone(old), p)))
		return
	}
	pt.list.Store(newList(append([]*Kprobe{p}, old...)))
}

func (pt *point) remove(p *Kprobe) {
	rest := slices.DeleteFunc(slices.Clone(pt.list.Load().probes), func(q *Kprobe) bool { return q == p })
	pt.list.Store(newList(rest))
}

// Buckets is the number of buckets of the table, KPROBE_TABLE_SIZE.
const Buckets = 1 << bucketBits

const bucketBits = 6 // KPROBE_HASH_BITS

// bucketOf is the bucket of an address, as hash_ptr gives it.
func bucketOf(addr uint64) int { return int(abi.Hash64(addr, bucketBits)) }

// indexes is the number of hash chains in which hits are looked up.
const indexes = 1 << indexBits

const indexBits = 12

// table holds the points three times: in Linux's 64 hash buckets, for the order of
// kprobes/list; in many more chains, which the trap side reads without locks; and
// sorted by address, for the calls that may wait. The probes' lock guards all but the
// chains.
type table struct {
	buckets [Buckets][]*point // oldest first; Linux has them the other way round
	index   [indexes]atomic.Pointer[point]
	sorted  []*point
	addrs   []uint64 // of sorted
}

func indexOf(addr uint64) int { return int(abi.Hash64(addr, indexBits)) }

// get is get_kprobe.
func (t *table) get(addr uint64) *point {
	pt := t.index[indexOf(addr)].Load()
	for pt != nil && pt.addr != addr {
		pt = pt.more.Load()
	}
	return pt
}

func (t *table) insert(pt *point) {
	b := &t.buckets[bucketOf(pt.addr)]
	*b = append(*b, pt)
	index := &t.index[indexOf(pt.addr)]
	pt.more.Store(index.Load())
	index.Store(pt)
	i, _ := t.search(pt.addr)
	t.sorted = slices.Insert(t.sorted, i, pt)
	t.addrs = slices.Insert(t.addrs, i, pt.addr)
}

// remove unlinks pt. A concurrent reader that is at pt can still follow its links.
func (t *table) remove(pt *point) {
	b := &t.buckets[bucketOf(pt.addr)]
	if i := slices.Index(*b, pt); i >= 0 {
		*b = slices.Delete(*b, i, i+1)
	}
	t.unlink(pt)
	if i, ok := t.search(pt.addr); ok {
		t.sorted = slices.Delete(t.sorted, i, i+1)
		t.addrs = slices.Delete(t.addrs, i, i+1)
	}
}

// unlink takes pt out of its chain of the index.
func (t *table) unlink(pt *point) {
	link := &t.index[indexOf(pt.addr)]
	for q := link.Load(); q != nil; q = link.Load() {
		if q == pt {
			link.Store(pt.more.Load())
			return
		}
		link = &q.more
	}
}

func (t *table) search(addr uint64) (int, bool) {
	return slices.BinarySearch(t.addrs, addr)
}

// each calls f for every point, in the order of kprobes/list.
func (t *table) each(f func(*point)) {
	for i := range t.buckets {
		for _, pt := range slices.Backward(t.buckets[i]) {
			f(pt)
		}
	}
}

// within returns the points in [start, end), sorted by address.
func (t *table) within(start, end uint64) []*point {
	i, _ := t.search(start)
	j := i
	for j < len(t.addrs) && t.addrs[j] < end {
		j++
	}
	return t.sorted[i:j]
}
