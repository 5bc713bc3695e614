// Package perf is what perf_event_open(2) makes of events of the tracer: kernel/events/core.c
// and ring_buffer.c. An Event counts the hits of one Source, in some tasks or on one CPU,
// and writes samples into the ring that a program has mapped.
//
// A Set has all of a tracer's. The tracer calls Hit, in handler context, for each hit of
// what an Event is attached to, and Forked, Executed, Renamed and Exited when tasks do that:
// Events with the flag inherit follow them.
//
// Programs number CPUs as the host does, and open one Event for each. The hits of vCPU n
// go to the n-th CPU that is online, modulo their number, so that each hit belongs to
// exactly one CPU.
//
// A descriptor's memory and arguments come from programs. What they write into a ring is
// not believed (ring.go), and what they pass is checked (attr.go).
//
// Lock order: the tracer's mu (which Source.Attach and the function that it returns take),
// Set.mu, ring.mu, waker.wakeMu. A hit takes the last two only, and never waits.
package perf

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/armed"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
)

// Source is what an Event counts.
type Source interface {
	// Attach has e.Hit called at each hit from now on, until detach is called; then no hit
	// is under way any more.
	Attach(e *Event) (detach func(), err error)
	// ParseFilter parses a filter of its entries. It returns nil if the source itself has only
	// those counted that pass, until the next filter.
	ParseFilter(text string) (*filter.Filter, error)
}

// IDs are a task's.
type IDs struct{ PID, TID int32 }

// Task is a task that was created or has ended.
type Task struct {
	IDs
	Parent IDs
}

// Config is what a Set is built from.
type Config struct {
	// CPUs are the numbers of CPUs as programs know them, by vCPU.
	CPUs []int
	// Now is the kernel's clock, nanoseconds.
	Now func() int64
	// Clock reads another clock (Attr.ClockID), nanoseconds.
	Clock func(id int32) int64
	// Room returns an error if there is no memory for so many more bytes.
	Room func(bytes int) error
	// Armed learns when an event is opened or closed.
	Armed *armed.Changes
}

// Set is all Events of a tracer.
type Set struct {
	Config
	cpus []int

	lastID     atomic.Uint64
	open       atomic.Int64 // the number of events
	userChains atomic.Int64 // of these, with samples that have the stack of user space

	mu     sync.Mutex
	events []*Event
	held   int // bytes of rings
}

// NewSet returns a Set without Events.
func NewSet(c Config) *Set { return &Set{Config: c, cpus: c.CPUs} }

// maxEvents bounds a Set.
const maxEvents = 4096

// maxRings bounds the memory of all rings in bytes.
const maxRings = 512 << 20

// tasks is a set of threads. It is replaced, never changed.
type tasks map[int32]struct{}

// Event is perf_event.
type Event struct {
	set    *Set
	id     uint64
	attr   Attr
	cpu    int // -1: all
	owner  int32
	source Source

	leader   atomic.Pointer[Event]    // itself, if it is in no group or leads it
	siblings atomic.Pointer[[]*Event] // those that it leads

	tasks   atomic.Pointer[tasks] // nil: all
	enabled atomic.Bool
	count   atomic.Uint64
	left    atomic.Int64 // hits until the next sample
	period  atomic.Uint64
	limit   atomic.Int64 // samples until it is disabled (IOC_REFRESH), or 0
	lost    atomic.Uint64
	since   atomic.Int64 // when it was enabled
	total   atomic.Int64 // how long it was before that
	filter  atomic.Pointer[filter.Filter]
	out     atomic.Pointer[ring] // perf_event.rb
	program atomic.Pointer[func(trap *abi.Trap, period uint64) bool]

	waker

	// Guarded by Set.mu.
	memory   Memory
	mapped   int // the size of its own ring in bytes, or 0
	detach   func()
	exited   bool
	released bool
}

// Open is perf_event_open(2) of an event whose source is s, or nil for the dummy. tid is
// the task, or -1 for all; group is the leader, or nil. memory is its ring's.
func (s *Set) Open(a Attr, source Source, tid int32, cpu int, group *Event, memory Memory) (*Event, error) {
	e := &Event{set: s, attr: a, cpu: cpu, owner: tid, source: source, memory: memory}
	e.leader.Store(e)
	if err := s.check(e, group); err != nil {
		return nil, err
	}
	e.id = s.lastID.Add(1)
	e.period.Store(a.Period)
	e.left.Store(int64(a.Period))
	if tid >= 0 {
		e.tasks.Store(&tasks{tid: {}})
	}
	if source != nil {
		detach, err := source.Attach(e)
		if err != nil {
			return nil, err
		}
		e.detach = detach
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	s.open.Add(1)
	if e.WantsUserChain() {
		s.userChains.Add(1)
	}
	s.Armed.Note()
	if group != nil {
		e.leader.Store(group)
		siblings := append(slices.Clone(group.led()), e)
		group.siblings.Store(&siblings)
	}
	if !a.has(flagDisabled) {
		e.start()
	}
	return e, nil
}

// check fails with EINVAL for a task and CPU, or a group, that cannot be, ENODEV for a CPU that
// is not online, EMFILE if there are too many events.
func (s *Set) check(e, group *Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.owner < 0 && e.cpu < 0:
		return fmt.Errorf("neither a task nor a CPU: %w", syscall.EINVAL)
	case group != nil && (group.leader.Load() != group || group.released):
		return fmt.Errorf("a group whose leader is no leader: %w", syscall.EINVAL)
	case group != nil && (group.cpu != e.cpu || group.owner != e.owner || e.attr.has(flagPinned|flagExclusive) ||
		group.attr.Flags&(flagInherit|flagUseClockID) != e.attr.Flags&(flagInherit|flagUseClockID)):
		return fmt.Errorf("a group of different events: %w", syscall.EINVAL)
	case len(s.events) >= maxEvents:
		return fmt.Errorf("%d events are open: %w", maxEvents, syscall.EMFILE)
	case e.cpu >= maxCPUs:
		return fmt.Errorf("CPU %d: %w", e.cpu, syscall.EINVAL)
	}
	return s.Room(eventRoom)
}

const (
	maxCPUs   = 8192 // NR_CPUS; a CPU that stands for no vCPU has no hits
	eventRoom = 4096 // an estimate of the bytes of an Event
)

// ID returns the event's number.
func (e *Event) ID() uint64 { return e.id }

// Source returns what the event counts, or nil.
func (e *Event) Source() Source { return e.source }

// CPU returns the CPU that the event is for, or -1 for all.
func (e *Event) CPU() int { return e.cpu }

// Enabled reports whether the event counts.
func (e *Event) Enabled() bool { return e.enabled.Load() }

// Interval returns the time between two overflows of a clock event, nanoseconds, or 0.
func (e *Event) Interval() int64 {
	n := int64(e.period.Load())
	if e.attr.has(flagFreq) && n > 0 {
		return 1e9 / n
	}
	return n
}

// Output is perf_event_output of bpf_perf_event_output: a sample whose raw data are the Subject's
// entry. It fails with EOPNOTSUPP if the event is for another CPU than the hit's, with EINVAL if it is
// no PERF_COUNT_SW_BPF_OUTPUT, and with ENOSPC if the sample is lost. It runs in handler context.
func (e *Event) Output(h *Hit) error {
	cpu := e.set.cpus[h.VCPU]
	switch {
	case e.attr.Type != TypeSoftware || e.attr.Config != SoftwareBPFOutput:
		return syscall.EINVAL
	case e.cpu != cpu && e.cpu >= 0 || !e.matches(h.TID, cpu):
		return syscall.EOPNOTSUPP
	case !e.enabled.Load():
		return nil
	}
	e.count.Add(1)
	if !e.record(h, 1) {
		return syscall.ENOSPC
	}
	return nil
}

// record writes a sample. It returns false if there is no ring, or no room in it.
func (e *Event) record(h *Hit, period uint64) bool {
	r := e.out.Load()
	if r == nil {
		return false
	}
	written := r.write(&e.attr, e.id, func(b []byte) []byte { return e.sampleID(b, h.PID, h.TID, e.set.cpus[h.VCPU], e.time(h.Time)) },
		func(b []byte) []byte { return e.sample(b, h, period) })
	if !written {
		e.lost.Add(1)
	}
	return written
}

// WantsChain reports whether samples have the kernel's stack.
func (e *Event) WantsChain() bool { return e.attr.sampling() && e.attr.wantsChain() }

// WantsSamples reports whether hits are sampled.
func (e *Event) WantsSamples() bool { return e.attr.sampling() }

// WantsUserChain reports whether samples have the stack of user space.
func (e *Event) WantsUserChain() bool { return e.attr.sampling() && e.attr.wantsUserChain() }

// UserStacks reports whether an event's samples have the stack of user space.
func (s *Set) UserStacks() bool { return s.userChains.Load() > 0 }

// WantsUserStack reports whether samples are to have something of the stack in user space.
func (e *Event) WantsUserStack() bool {
	return e.attr.sampling() && (!e.attr.has(flagNoUserChain) || e.attr.samples(sampleStackUser))
}

// Hit counts a hit, and writes a sample if one is due. It runs in handler context.
func (e *Event) Hit(h *Hit) {
	if !e.enabled.Load() || !e.leader.Load().enabled.Load() || e.attr.excludesKernel() || !e.matches(h.TID, e.set.cpus[h.VCPU]) || !e.filter.Load().Passes(h.Subject) {
		return
	}
	e.count.Add(1)
	if !e.attr.sampling() {
		return
	}
	period := uint64(1)
	if !e.attr.everyHit() {
		if e.left.Add(-1) > 0 {
			return
		}
		period = e.period.Load()
		e.left.Add(int64(period))
	}
	if do := e.program.Load(); do == nil || (*do)(h.Trap, period) {
		e.record(h, period)
	}
	if e.limit.Load() > 0 && e.limit.Add(-1) == 0 {
		e.stop()
		e.wakeAll()
	}
}

// OnOverflow has do called, in handler context, when a sample is due, which is not written if it returns false: overflow_handler.
// With nil nothing is called any more.
func (e *Event) OnOverflow(do func(trap *abi.Trap, period uint64) bool) {
	if do == nil {
		e.program.Store(nil)
		return
	}
	e.program.Store(&do)
}

// led returns the members of its group, without itself.
func (e *Event) led() []*Event {
	if all := e.siblings.Load(); all != nil {
		return *all
	}
	return nil
}

// members returns the members of the group that it is in, the leader first.
func (e *Event) members() []*Event {
	leader := e.leader.Load()
	return append([]*Event{leader}, leader.led()...)
}

// matches reports whether the event counts a task on a CPU.
func (e *Event) matches(tid int32, cpu int) bool {
	if e.cpu >= 0 && e.cpu != cpu {
		return false
	}
	t := e.tasks.Load()
	if t == nil {
		return true
	}
	_, ok := (*t)[tid]
	return ok
}

// time returns the time that records say, where the kernel's clock is at now.
func (e *Event) time(now int64) int64 {
	if id, ok := e.attr.clock(); ok {
		return e.set.Clock(id)
	}
	return now
}

// start enables it, unless its task has ended. The caller holds Set.mu.
func (e *Event) start() {
	if e.exited || e.enabled.Load() {
		return
	}
	e.since.Store(e.set.Now())
	e.enabled.Store(true)
}

func (e *Event) stop() {
	if e.enabled.Swap(false) {
		e.total.Add(max(0, e.set.Now()-e.since.Load()))
	}
}

// on returns how long it has been enabled.
func (e *Event) on(now int64) uint64 {
	total := e.total.Load()
	if e.enabled.Load() {
		total += max(0, now-e.since.Load())
	}
	return uint64(total)
}

// Local is perf_event_read_local: the count, and how long the event was enabled and counting, for the task tid on a CPU. It fails
// with EINVAL if the event counts another task, or on another CPU.
func (e *Event) Local(tid int32, cpu int, now int64) (count, enabled, running uint64, err error) {
	if e.released || e.cpu >= 0 && e.cpu != cpu || !e.matches(tid, cpu) {
		return 0, 0, 0, fmt.Errorf("an event of another task or CPU: %w", syscall.EINVAL)
	}
	on := e.on(now)
	return e.count.Load(), on, on, nil
}

// Read is read(2): the count, and what Attr.ReadFormat says. It fails with ENOSPC if p is too
// small.
func (e *Event) Read(p []byte) (int, error) {
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	b := e.values(nil, e.set.Now())
	if len(p) < len(b) {
		return 0, fmt.Errorf("%d bytes: %w", len(p), syscall.ENOSPC)
	}
	return copy(p, b), nil
}

// values appends what read(2) returns: perf_event_read_one and _group.
func (e *Event) values(b []byte, now int64) []byte {
	le, f := binary.LittleEndian, e.attr.ReadFormat
	one := func(e *Event) {
		b = le.AppendUint64(b, e.count.Load())
	}
	rest := func(e *Event) {
		if f&formatID != 0 {
			b = le.AppendUint64(b, e.id)
		}
		if f&formatLost != 0 {
			b = le.AppendUint64(b, e.lost.Load())
		}
	}
	times := func() {
		for _, bit := range []uint64{formatEnabled, formatRunning} {
			if f&bit != 0 {
				b = le.AppendUint64(b, e.on(now))
			}
		}
	}
	if f&formatGroup == 0 {
		one(e)
		times()
		rest(e)
		return b
	}
	members := e.members()
	b = le.AppendUint64(b, uint64(len(members)))
	times()
	for _, m := range members {
		one(m)
		rest(m)
	}
	return b
}

// Poll returns the events of poll(2): In if there is something to read since the last call,
// and Hangup if its task has ended, or if it has no ring.
func (e *Event) Poll() (in, hangup bool, changed <-chan struct{}) {
	r := e.out.Load()
	if r == nil {
		return false, true, e.waits()
	}
	changed = r.waits()
	if e.Ended() {
		return false, true, changed
	}
	return r.polled.Swap(false), false, changed
}

// Ended reports whether its task and all that follow it have ended: is_event_hup.
func (e *Event) Ended() bool {
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	t := e.tasks.Load()
	return e.exited && (t == nil || len(*t) == 0)
}

func (e *Event) wakeAll() {
	e.wake()
	if r := e.out.Load(); r != nil {
		r.polled.Store(true)
		r.wake()
	}
}

// group calls do for the event or, with group, for all of its group.
func (e *Event) group(group bool, do func(*Event)) {
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	if !group {
		do(e)
		return
	}
	for _, m := range e.members() {
		do(m)
	}
}

// Enable starts counting; like Disable and Reset, of the event or of its whole group.
func (e *Event) Enable(group bool) { e.group(group, (*Event).start) }

// Disable stops counting.
func (e *Event) Disable(group bool) { e.group(group, (*Event).stop) }

// Reset sets counts to 0.
func (e *Event) Reset(group bool) { e.group(group, func(e *Event) { e.count.Store(0) }) }

// Refresh enables it for so many more samples. It fails with EINVAL if it follows children, or
// does not sample.
func (e *Event) Refresh(n uint64) error {
	if e.attr.has(flagInherit) || !e.attr.sampling() {
		return fmt.Errorf("refresh: %w", syscall.EINVAL)
	}
	e.limit.Add(int64(int32(n)))
	e.Enable(false)
	return nil
}

// SetPeriod changes the period. It fails with EINVAL for 0, and for one that the attr could not
// have.
func (e *Event) SetPeriod(n uint64) error {
	if !e.attr.sampling() || n == 0 || n>>63 != 0 || e.attr.has(flagFreq) && n > maxSampleRate {
		return fmt.Errorf("a period of %d: %w", n, syscall.EINVAL)
	}
	e.period.Store(n)
	e.left.Store(int64(n))
	return nil
}

// SetFilter has only hits counted that pass. It fails with EEXIST if there is a filter, with
// EINVAL if the text is none, or if the event has no entries.
func (e *Event) SetFilter(text string) error {
	if e.source == nil {
		return fmt.Errorf("a filter of the dummy: %w", syscall.EINVAL)
	}
	f, err := e.source.ParseFilter(text)
	if err != nil {
		return err
	}
	if f == nil {
		return nil
	}
	if !e.filter.CompareAndSwap(nil, f) {
		return fmt.Errorf("it has a filter: %w", syscall.EEXIST)
	}
	return nil
}

// SetOutput has samples go to another event's ring; nil takes them away from there. It fails
// with EINVAL if the two count different CPUs or tasks or by different clocks, or if e has
// a ring of its own.
func (e *Event) SetOutput(to *Event) error {
	s := e.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if to == nil {
		if e.mapped != 0 {
			return fmt.Errorf("its ring is mapped: %w", syscall.EINVAL)
		}
		e.redirect(nil)
		return nil
	}
	clock, own := e.attr.clock()
	clockTo, ownTo := to.attr.clock()
	differ := own != ownTo || own && clock != clockTo || e.attr.has(flagWriteBackward) != to.attr.has(flagWriteBackward)
	if to.set != s || to == e || to.cpu != e.cpu || e.cpu < 0 && to.owner != e.owner || differ || e.mapped != 0 {
		return fmt.Errorf("output of event %d to the output of %d: %w", e.id, to.id, syscall.EINVAL)
	}
	r := to.out.Load()
	if r == nil || to.released || e.released {
		e.redirect(nil)
		return nil
	}
	r.ref()
	e.redirect(r)
	return nil
}

// redirect replaces the ring. The caller holds Set.mu, and a reference to r.
func (e *Event) redirect(r *ring) {
	if old := e.out.Swap(r); old != nil {
		old.unref()
	}
	e.wake()
}

// Map is mmap(2) of size bytes at an offset. It fails with EINVAL if that is no page and a power
// of two of them, or another size than before, and with ENOMEM.
func (e *Event) Map(size, offset uint64, writable bool) error {
	s := e.set
	s.mu.Lock()
	defer s.mu.Unlock()
	bad := func(why string) error { return fmt.Errorf("mmap of %d bytes: %s: %w", size, why, syscall.EINVAL) }
	switch {
	case e.cpu < 0 && e.attr.has(flagInherit):
		return bad("an event of any CPU that is inherited")
	case offset != 0:
		return bad("an offset")
	case size > maxRings || !ringSize(int(size)):
		return bad("no page and a power of two of them")
	case e.released:
		return bad("it is closed")
	case e.mapped != 0 && e.mapped != int(size):
		return bad("another size than before")
	case e.mapped != 0:
		return nil
	case e.out.Load() != nil:
		return bad("its output goes elsewhere")
	case s.held+int(size) > maxRings:
		return fmt.Errorf("rings of more than %d bytes: %w", maxRings, syscall.ENOMEM)
	}
	if err := s.Room(s.held + int(size)); err != nil {
		return err
	}
	r, err := newRing(e.memory, int(size), writable, &e.attr)
	if err != nil {
		return err
	}
	e.memory = nil
	s.held += int(size)
	e.mapped = int(size)
	e.redirect(r)
	return nil
}

// Release is the last close(2).
func (e *Event) Release() {
	s := e.set
	s.mu.Lock()
	if e.released {
		s.mu.Unlock()
		return
	}
	e.released = true
	e.stop()
	s.events = slices.DeleteFunc(s.events, func(x *Event) bool { return x == e })
	s.open.Add(-1)
	if e.WantsUserChain() {
		s.userChains.Add(-1)
	}
	s.Armed.Note()
	s.held -= e.mapped
	if leader := e.leader.Load(); leader != e {
		others := slices.DeleteFunc(slices.Clone(leader.led()), func(x *Event) bool { return x == e })
		leader.siblings.Store(&others)
	}
	for _, m := range e.led() { // each becomes an event of its own: perf_group_detach
		m.leader.Store(m)
	}
	e.siblings.Store(nil)
	e.redirect(nil)
	memory, detach := e.memory, e.detach
	e.memory = nil
	s.mu.Unlock()
	if memory != nil {
		memory.Close()
	}
	if detach != nil {
		detach() // takes the tracer's lock, and waits for hits
	}
}

// tell writes a record about a task to the events with a flag that count it. The caller holds mu.
// The task's CPU is not known; the record goes to the events of the first one.
func (s *Set) tell(flag uint64, of int32, record func(e *Event, b []byte, cpu int, time int64) []byte, by IDs) {
	cpu, now := s.cpus[0], s.Now()
	for _, e := range s.events {
		r := e.out.Load()
		if r == nil || !e.attr.has(flag) || !e.enabled.Load() || !e.matches(of, cpu) {
			continue
		}
		time := e.time(now)
		r.write(&e.attr, e.id, func(b []byte) []byte { return e.sampleID(b, by.PID, by.TID, cpu, time) },
			func(b []byte) []byte { return record(e, b, cpu, time) })
	}
}

// Any reports whether there are events.
func (s *Set) Any() bool { return s.open.Load() > 0 }

// Forked follows a task's child.
func (s *Set) Forked(t Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		old := e.tasks.Load()
		if old == nil || !e.attr.has(flagInherit) || e.attr.has(flagInheritThread) && t.PID != t.Parent.PID {
			continue
		}
		if _, ok := (*old)[t.Parent.TID]; ok && !e.exitedAlone() {
			e.follow(func(set tasks) { set[t.TID] = struct{}{} })
		}
	}
	s.tell(flagTask, t.Parent.TID, func(e *Event, b []byte, cpu int, time int64) []byte {
		return e.task(b, recordFork, t, cpu, time)
	}, t.Parent)
}

// exitedAlone reports whether nothing can be inherited any more.
func (e *Event) exitedAlone() bool {
	t := e.tasks.Load()
	return e.exited && len(*t) == 0
}

// follow replaces the tasks of the event.
func (e *Event) follow(change func(tasks)) {
	set := maps.Clone(*e.tasks.Load())
	change(set)
	e.tasks.Store(&set)
}

// Executed is perf_event_exec and perf_event_comm: a task executes a program of that name.
func (s *Set) Executed(by IDs, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		t := e.tasks.Load()
		if t == nil {
			continue
		}
		if _, ok := (*t)[by.TID]; !ok {
			continue
		}
		if e.attr.has(flagEnableOnExec) {
			e.start()
		}
		if e.attr.has(flagRemoveOnExec) {
			s.leave(e, by.TID)
		}
	}
	s.renamed(by, name, true)
}

// Renamed is perf_event_comm: a task has got a name.
func (s *Set) Renamed(by IDs, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renamed(by, name, false)
}

func (s *Set) renamed(by IDs, name string, exec bool) {
	name = name[:min(len(name), 15)]
	s.tell(flagComm, by.TID, func(e *Event, b []byte, cpu int, time int64) []byte {
		return e.comm(b, by.PID, by.TID, name, exec, cpu, time)
	}, by)
}

// Exited is perf_event_exit_task.
func (s *Set) Exited(t Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(flagTask, t.TID, func(e *Event, b []byte, cpu int, time int64) []byte {
		return e.task(b, recordExit, t, cpu, time)
	}, t.IDs)
	for _, e := range s.events {
		if set := e.tasks.Load(); set != nil {
			if _, ok := (*set)[t.TID]; ok {
				s.leave(e, t.TID)
			}
		}
	}
}

// leave takes a task out of an event. The caller holds mu.
func (s *Set) leave(e *Event, tid int32) {
	e.follow(func(set tasks) { delete(set, tid) })
	e.exited = e.exited || tid == e.owner
	if e.exitedAlone() {
		e.stop()
		e.wakeAll()
	}
}
