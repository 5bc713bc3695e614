package kprobes

import (
	"slices"
	"sync/atomic"
)

// Point is an entry of the table of probed addresses: one kprobe alone, or an
// aggregate (aggr_kprobe) of the kprobes registered at one address. An address
// that can be optimized has an aggregate from the start, as in Linux.
//
// The trap side reads it without locks: flags, list and code are replaced
// whole. All other fields belong to the probes' lock.
type Point struct {
	addr  uint64
	next  atomic.Pointer[Point] // in its bucket
	more  atomic.Pointer[Point] // with the same index
	flags atomic.Uint32
	list  atomic.Pointer[probeList]
	code  atomic.Pointer[slotCode] // nil at an fentry site
	out   atomic.Uint64            // the copied instructions in the detour; 0: there is no detour
	aggr  atomic.Bool

	opt   any   // the optimizer's; nil: it cannot be optimized
	noOpt error // why it cannot be optimized, nil when it can
	armed bool  // the int3 or the fentry call was written for it
}

// probeList is the kprobes of a point, newest first.
type probeList struct {
	probes []*Kprobe // those with break handlers last
	post   bool      // one of them has a post-handler, enabled or not
	breaks bool      // one of them has a break handler, or is a jprobe
	faults bool      // one of them has a fault handler, which wants to hear of the step
}

func newList(probes []*Kprobe) *probeList {
	post := slices.ContainsFunc(probes, func(p *Kprobe) bool { return p.PostHandler != nil })
	faults := slices.ContainsFunc(probes, func(p *Kprobe) bool { return p.FaultHandler != nil })
	return &probeList{probes: probes, post: post, breaks: slices.ContainsFunc(probes, (*Kprobe).breaks), faults: faults}
}

// Addr is the probed address.
func (pt *Point) Addr() uint64 { return pt.addr }

// State is the point's own flags: the aggregate's.
func (pt *Point) State() Flags { return Flags(pt.flags.Load()) }

// Disabled is kprobe_disabled of the point: disabled or gone.
func (pt *Point) Disabled() bool { return pt.has(FlagDisabled | FlagGone) }

// HasPostHandler says whether a probe of the point has a post-handler.
func (pt *Point) HasPostHandler() bool { return pt.list.Load().post }

// NeedsInt3 says whether a handler keeps the point from being optimized: a
// post-handler, or a break handler.
func (pt *Point) NeedsInt3() bool {
	l := pt.list.Load()
	return l.post || l.breaks
}

// Unused is kprobe_unused: the last kprobe has left, and only the optimizer's
// queue keeps the point.
func (pt *Point) Unused() bool {
	return pt.aggr.Load() && pt.Disabled() && len(pt.list.Load().probes) == 0
}

// Opt is what the optimizer has set.
func (pt *Point) Opt() any { return pt.opt }

// SetOpt keeps what the optimizer knows of the point.
func (pt *Point) SetOpt(x any) { pt.opt = x }

// SetOptimized sets or clears [OPTIMIZED]. For the optimizer.
func (pt *Point) SetOptimized(on bool) {
	if on {
		pt.flags.Or(uint32(FlagOptimized))
		return
	}
	pt.flags.And(^uint32(FlagOptimized))
}

// SetDetour tells where the copied instructions of the detour begin: what an
// int3 at an optimized point goes on with instead of stepping. 0: no detour.
// For the optimizer.
func (pt *Point) SetDetour(addr uint64) { pt.out.Store(addr) }

func (pt *Point) has(f Flags) bool { return pt.State()&f != 0 }

// set and clear change the point, and its one kprobe when it is no aggregate.
func (pt *Point) set(f Flags) {
	pt.flags.Or(uint32(f))
	if !pt.aggr.Load() {
		pt.only().set(f)
	}
}

func (pt *Point) clear(f Flags) {
	pt.flags.And(^uint32(f))
	if !pt.aggr.Load() {
		pt.only().clear(f)
	}
}

func (pt *Point) only() *Kprobe { return pt.list.Load().probes[0] }

func (pt *Point) contains(p *Kprobe) bool { return slices.Contains(pt.list.Load().probes, p) }

func (pt *Point) allDisabled() bool {
	return !slices.ContainsFunc(pt.list.Load().probes, func(p *Kprobe) bool { return !p.disabled() })
}

// add puts p first, or last when it has a break handler: its pre-handler may lead
// the CPU away, and those of the others shall have run.
func (pt *Point) add(p *Kprobe) {
	old := pt.list.Load().probes
	if p.breaks() {
		pt.list.Store(newList(append(slices.Clone(old), p)))
		return
	}
	pt.list.Store(newList(append([]*Kprobe{p}, old...)))
}

func (pt *Point) remove(p *Kprobe) {
	rest := slices.DeleteFunc(slices.Clone(pt.list.Load().probes), func(q *Kprobe) bool { return q == p })
	pt.list.Store(newList(rest))
}

// Buckets is the number of buckets of the table, KPROBE_TABLE_SIZE.
const Buckets = 64

// bucketOf is hash_ptr(addr, 6).
func bucketOf(addr uint64) int { return int(addr * 0x61C8864680B583EB >> 58) }

// indexes is the number of chains that hits are looked up in.
const indexes = 4096

// table holds the points three times: in Linux's 64 hash buckets, newest first,
// whose order list shows; in many more chains, in which the trap side looks
// them up without locks; and by address, for the side that sleeps.
type table struct {
	heads  [Buckets]atomic.Pointer[Point]
	index  [indexes]atomic.Pointer[Point]
	sorted []*Point
	addrs  []uint64 // of sorted
}

func indexOf(addr uint64) int { return int(addr * 0x61C8864680B583EB >> 52) }

// get is get_kprobe.
func (t *table) get(addr uint64) *Point {
	pt := t.index[indexOf(addr)].Load()
	for pt != nil && pt.addr != addr {
		pt = pt.more.Load()
	}
	return pt
}

func (t *table) insert(pt *Point) {
	head := &t.heads[bucketOf(pt.addr)]
	pt.next.Store(head.Load())
	head.Store(pt)
	index := &t.index[indexOf(pt.addr)]
	pt.more.Store(index.Load())
	index.Store(pt)
	i, _ := t.search(pt.addr)
	t.sorted = slices.Insert(t.sorted, i, pt)
	t.addrs = slices.Insert(t.addrs, i, pt.addr)
}

// remove unlinks pt. A walker that stands on it still finds its way on.
func (t *table) remove(pt *Point) {
	unlink(pt, &t.heads[bucketOf(pt.addr)], func(q *Point) *atomic.Pointer[Point] { return &q.next })
	unlink(pt, &t.index[indexOf(pt.addr)], func(q *Point) *atomic.Pointer[Point] { return &q.more })
	if i, ok := t.search(pt.addr); ok {
		t.sorted = slices.Delete(t.sorted, i, i+1)
		t.addrs = slices.Delete(t.addrs, i, i+1)
	}
}

func unlink(pt *Point, link *atomic.Pointer[Point], next func(*Point) *atomic.Pointer[Point]) {
	for q := link.Load(); q != nil; q = link.Load() {
		if q == pt {
			link.Store(next(pt).Load())
			return
		}
		link = next(q)
	}
}

func (t *table) search(addr uint64) (int, bool) {
	return slices.BinarySearch(t.addrs, addr)
}

// within gives the points in [start, end), by address.
func (t *table) within(start, end uint64) []*Point {
	i, _ := t.search(start)
	j := i
	for j < len(t.addrs) && t.addrs[j] < end {
		j++
	}
	return t.sorted[i:j]
}
