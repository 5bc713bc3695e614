// Package bpf is bpf(2) and what its programs do at the hits of events: kernel/bpf and
// kernel/trace/bpf_trace.c. A System has the maps, programs and links of one kernel. Call is the system call;
// RunArray runs, in handler context, the programs that are attached to an event.
//
// Programs are executed by an interpreter (run.go), which knows all memory that a program may
// touch, by ranges of addresses that nothing else of the kernel has, and looks each access up. So a program that
// the verifier (verify.go) let through wrongly reaches nothing but its own stack, its maps and what
// bpf_probe_read_kernel reads anyway. docs/rationale.md says why it is no compiler.
//
// Lock order: System.objects, then System.mem. A hit takes mem only, for as long as its programs
// run, which is bounded (maxSteps).
package bpf

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// Config is what a System is built from.
type Config struct {
	// CPUs is the number of possible CPUs as user space knows it: how many values an element of a
	// per-CPU map has. CPU returns the number there of a vCPU; if it is nil, they are the same.
	CPUs int
	CPU  func(vcpu int) int
	// Now is the kernel's clock, nanoseconds since boot.
	Now func() int64
	// Kernel is the kernel's memory, for programs that BPF_PROG_TEST_RUN runs; may be nil.
	Kernel abi.Memory
	// UserStack writes the stack of user space of a task in a call into ips, innermost first, and returns how many there are, 0 if
	// there is none; may be nil.
	UserStack func(task uint64, ips []uint64) int
	// UserMemory reads memory of such a task's process, and reports whether all of it could be read without waiting; may be nil.
	UserMemory func(task, addr uint64, b []byte) bool
	// UserFiles returns what finds the build id of a file that such a task has mapped at an address, and the address's offset in the file; may
	// be nil.
	UserFiles func(task uint64) func(ip uint64) (id [20]byte, offset uint64, ok bool)
	// UserRegs returns the registers of such a task in user space; without whole only IP and SP are known. It may be nil.
	UserRegs func(task uint64) (r abi.Regs, whole, ok bool)
	// EndedTasks returns the kernel's tasks that have ended for user space, which iterators do not show; may be nil.
	EndedTasks func() []uint64
	// Room returns an error if there is no memory for so many more bytes.
	Room func(bytes int) error
	// Memory returns memory that user space can map.
	Memory func() (perf.Memory, error)
	// Print writes a program's text into the trace; may be nil.
	Print func(t *abi.Trap, text string)
	// Prints is called when a program was loaded that may write into the trace; may be nil.
	Prints func()
	// Clock reads a clock of user space (CLOCK_MONOTONIC, ...), in nanoseconds. Programs are told these times, so
	// that tools can compare them with their own. If it is nil, all are Now.
	Clock func(id int32) int64
	// After calls do when so many nanoseconds of the kernel's clock are over, as the timer interrupt of a vCPU, unless stop is
	// called before; stop does not wait. If it is nil, timers cannot be started.
	After func(ns int64, vcpu int, do func(h *Hit)) (stop func())
	// Signal sends a task, which is not the kernel's own, a signal that it has when its call has ended; without thread its
	// process has it. It may be nil.
	Signal func(task uint64, nr int, thread bool)
	// Symbol returns what %ps ('s'), %pS ('S') and %pB ('B') print for an address; may be nil.
	Symbol func(addr uint64, kind byte) string
	// HashPtr returns the number that %p prints for an address; may be nil.
	HashPtr func(addr uint64) uint32
	// Probes attaches programs to functions and tracepoints; if it is nil, there are none.
	Probes Probes
	// KprobeMulti says that the kernel has fprobes, by which programs are attached to many functions at once.
	KprobeMulti bool
	// Verifier612 says that the verifier is 6.12's where that takes other programs than 6.1's, or has other words.
	Verifier612 bool
	// Types are the kernel's types in BTF, or nil if it has none.
	Types []byte
	// Warn reports that a program was ended, which only an error of the verifier can bring about; may
	// be nil.
	Warn func(text string)
}

// errNotSupported is ENOTSUPP, which has no name in user space.
const errNotSupported = syscall.Errno(524)

// System is all that bpf(2) has made in one kernel.
type System struct {
	conf Config

	objects sync.Mutex // guards what follows, and the references to objects
	maps    table[*Map]
	progs   table[*Prog]
	links   table[*Link]
	btfs    table[*BTF]

	trampolines map[uint64][]*Prog    // programs of type TRACING at functions, by address
	onEvents    map[*perf.Event]*Prog // the programs of events of perf_event_open(2)

	modifying sync.Mutex           // guards modifiers; comes before the locks of what is probed
	modifiers map[uint64]*modifier // by the function's address

	mem     sync.Mutex // guards the contents of maps, byIndex and run
	byIndex [maxMaps]*Map
	run     run

	types *kernelTypes // nil if the kernel has none

	offsets [clockTAI + 1]int64 // of the clocks of user space from the kernel's

	sessions atomic.Uint64 // iterators that were made

	timers atomic.Int32 // those who have the time of programs counted

	looking atomic.Int32 // programs that can look at the stack or the registers of user space
}

// UserStacks reports whether a program can ask for the stack of user space, or for its registers.
func (s *System) UserStacks() bool { return s.looking.Load() > 0 }

// New returns a System without maps and programs.
func New(c Config) *System {
	if c.CPU == nil {
		c.CPU = func(n int) int { return n }
	}
	if c.Clock == nil {
		c.Clock = func(int32) int64 { return c.Now() }
	}
	if c.Room == nil {
		c.Room = func(int) error { return nil }
	}
	s := &System{conf: c}
	s.run = run{sys: s, ctx: make([]byte, maxCtx)}
	for id := range s.offsets {
		s.offsets[id] = c.Clock(int32(id)) - c.Now()
	}
	if c.Types != nil {
		s.types = &kernelTypes{BTF: &BTF{sys: s, data: c.Types, name: "vmlinux", kernel: true, refs: 1}}
		s.types.id = s.btfs.add(s.types.BTF)
	}
	return s
}

// cpu returns the number that user space knows of a vCPU.
func (s *System) cpu(vcpu int) int {
	if n := s.conf.CPU(vcpu); n < s.conf.CPUs {
		return n
	}
	return 0
}

// table has objects by their numbers, which count from 1 and are never used again.
type table[T any] struct {
	last uint32
	all  map[uint32]T
}

func (t *table[T]) add(v T) uint32 {
	if t.all == nil {
		t.all = map[uint32]T{}
	}
	t.last++
	t.all[t.last] = v
	return t.last
}

// after returns the smallest number above another one that is in use.
func (t *table[T]) after(id uint32) (uint32, bool) {
	best, found := uint32(0), false
	for n := range t.all {
		if n > id && (!found || n < best) {
			best, found = n, true
		}
	}
	return best, found
}

// Attached is a program that is attached to an event, with what bpf_get_attach_cookie returns.
type Attached struct {
	Prog   *Prog
	Cookie uint64
}

// RunArray is trace_call_bpf: it runs the programs that are attached to an event, in their order. It
// returns false if one of them has returned 0: nothing else is recorded of the hit then. It runs in
// handler context.
func (s *System) RunArray(all []Attached, h *Hit) bool {
	if len(all) == 0 {
		return true
	}
	s.mem.Lock()
	defer s.mem.Unlock()
	h.sent = false
	passes := true
	for _, a := range all {
		if s.runLocked(a, h) == 0 {
			passes = false
		}
	}
	return passes
}

// runOne runs one program. It runs in handler context.
func (s *System) runOne(a Attached, h *Hit) {
	s.mem.Lock()
	defer s.mem.Unlock()
	s.runLocked(a, h)
}

// runLocked runs a program, and counts that. The caller holds mem.
func (s *System) runLocked(a Attached, h *Hit) uint64 { return s.runOn(&s.run, a, h) }

// runOn is runLocked with other memory that only the program has.
func (s *System) runOn(r *run, a Attached, h *Hit) uint64 {
	began := int64(0)
	if s.timed() {
		began = s.conf.Now()
	}
	if len(a.Prog.followers) > 0 {
		s.runFollowers(a.Prog, h, false, 0)
	}
	ret := r.execute(a.Prog, a.Cookie, h)
	if len(a.Prog.followers) > 0 {
		s.runFollowers(a.Prog, h, true, ret)
	}
	if began != 0 {
		a.Prog.ran.Add(1)
		a.Prog.time.Add(s.conf.Now() - began)
	}
	return ret
}

// timed reports whether somebody has the time of programs counted.
func (s *System) timed() bool { return s.timers.Load() > 0 }

// Stats is what BPF_ENABLE_STATS returns: the time of programs is counted until it is released.
type Stats struct{}

// enableStats is BPF_ENABLE_STATS of BPF_STATS_RUN_TIME.
func (s *System) enableStats(_ Caller, a *attr) (Result, error) {
	if a.u32(0) != 0 {
		return Result{}, syscall.EINVAL
	}
	s.timers.Add(1)
	return Result{Object: &Stats{}}, nil
}

// Prog is struct bpf_prog.
type Prog struct {
	sys      *System
	id       uint32
	kind     ProgType
	name     string
	tag      [8]byte
	gpl      bool
	raw      []byte // its instructions as they were given
	insns    []insn
	ops      []op           // the same, as they are executed
	wide     map[int]uint64 // the values of 64-bit immediates, by instruction
	maps     []*Map
	refs     int
	loaded   int64 // when, nanoseconds since boot
	reads    int   // how many bytes of its first argument it reads
	verified int   // instructions that the verifier has looked at
	btf      *BTF

	attachType uint32     // expected_attach_type
	attachID   uint32     // attach_btf_id
	target     *target    // of type TRACING
	attachProg *Prog      // the program that it is for, or nil; it has a reference
	timers     int        // that call its functions; guarded by System.mem
	followers  []follower // guarded by System.mem; replaced, never changed
	sleepable  bool

	funcs, lines infoTable // of BTF, as they were given

	ran    atomic.Uint64 // hits and nanoseconds while somebody had them counted
	time   atomic.Int64
	warned atomic.Bool
}

// faulted says, once, that the program was ended.
func (p *Prog) faulted(why string) {
	if p.sys.conf.Warn != nil && !p.warned.Swap(true) {
		p.sys.conf.Warn(fmt.Sprintf("bpf: program %q was ended: %s", p.name, why))
	}
}

// Type returns the program's type.
func (p *Prog) Type() ProgType { return p.kind }

// Sleepable reports whether the program may run only where a task can sleep.
func (p *Prog) Sleepable() bool { return p.sleepable }

// ProgType is enum bpf_prog_type.
type ProgType uint32

// The types of programs that run here, and those that are only loaded.
const (
	ProgSocketFilter  ProgType = 1
	ProgSchedCLS      ProgType = 3
	ProgSchedACT      ProgType = 4
	ProgXDP           ProgType = 6
	ProgKprobe        ProgType = 2
	ProgTracepoint    ProgType = 5
	ProgPerfEvent     ProgType = 7
	ProgRawTracepoint ProgType = 17
	// ProgRawTracepointWritable is for tracepoints whose arguments programs may write: there are none here.
	ProgRawTracepointWritable ProgType = 24
	ProgTracing               ProgType = 26
	// ProgSyscall is for programs that make calls of bpf(2). BPF_PROG_TEST_RUN runs them.
	ProgSyscall ProgType = 31
)

// Link is struct bpf_link: what keeps a program attached. Detach ends that; it is called once.
type Link struct {
	sys    *System
	id     uint32
	kind   uint32
	prog   *Prog
	detach func()
	name   string    // of a raw tracepoint, or of an iterator's target
	iter   *iterLink // of an iterator, or nil
	refs   int
}

// BTF is struct btf: types that a program or map was loaded with, or the kernel's own.
type BTF struct {
	sys    *System
	id     uint32
	name   string
	kernel bool
	data   []byte
	types  *btfCheck // nil for the kernel's own
	refs   int
}

// Memory returns what user space maps of a ring buffer or an array, or nil.
func (m *Map) Memory() perf.Memory {
	if m.ring == nil {
		return m.memory
	}
	return m.ring.memory
}

// MayMap returns the error of a mapping of user space: bpf_map_mmap. One through which it would write the map is EPERM if the
// map is frozen, and EACCES if programs only read it. One of what is behind the map's memory is EINVAL.
func (m *Map) MayMap(size, offset uint64, writable bool) error {
	switch {
	case writable && m.frozen.Load():
		return fmt.Errorf("a frozen map: %w", syscall.EPERM)
	case writable && m.flags&flagProgRead != 0:
		return fmt.Errorf("a map that programs only read: %w", syscall.EACCES)
	case m.ring == nil && m.memory == nil:
		return nil
	}
	all := uint64(m.stride * m.entries)
	if m.ring != nil {
		if writable && !m.ring.mayWrite(size, offset) {
			return fmt.Errorf("what is not user space's to write in a ring buffer: %w", syscall.EPERM)
		}
		all = uint64(ringData + 2*m.ring.size)
	}
	if all = pageAlign(all); offset > all || pageAlign(size) > all-offset {
		return fmt.Errorf("more than the map has: %w", syscall.EINVAL)
	}
	return nil
}

// pageAlign rounds n up to a multiple of the page size; n is at most 1<<62.
func pageAlign(n uint64) uint64 { return (min(n, 1<<62) + pageSize - 1) &^ (pageSize - 1) }

// Poll reports whether a ring buffer has a record that was not read, or room for one that user space writes, and returns a
// channel that is closed when that may have changed; other maps are never ready.
func (m *Map) Poll() (in, out bool, changed <-chan struct{}) {
	if m.ring == nil {
		return false, false, nil
	}
	return m.ring.poll()
}

// TaskExited frees what maps keep of a task: bpf_task_storage_free.
func (s *System) TaskExited(tid int32) {
	s.objects.Lock()
	defer s.objects.Unlock()
	for _, m := range s.maps.all {
		if m.kind != mapTaskStorage {
			continue
		}
		s.mem.Lock()
		_ = m.delete(taskKey(tid)) // most have nothing
		s.mem.Unlock()
	}
}

// taskKey returns the key of a task's value in the storage of tasks.
func taskKey(tid int32) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(uint32(tid))) }

// pointer returns what programs see as the map itself.
func (m *Map) pointer() uint64 { return objBase + uint64(m.index)<<objShift }

// Ref takes a reference to an object of Call, for a descriptor.
func (s *System) Ref(object any) {
	s.objects.Lock()
	defer s.objects.Unlock()
	s.ref(object)
	if m, ok := object.(*Map); ok {
		m.users.Add(1)
	}
}

// Release gives a reference back. The last one ends the object.
func (s *System) Release(object any) {
	s.objects.Lock()
	if m, ok := object.(*Map); ok && m.users.Add(-1) == 0 {
		s.mem.Lock()
		m.freeTimers()
		s.mem.Unlock()
	}
	ends := s.unref(object)
	s.objects.Unlock()
	for _, end := range ends {
		end()
	}
}

// ref is Ref for those who hold objects.
func (s *System) ref(object any) {
	switch o := object.(type) {
	case *Map:
		o.refs++
	case *Prog:
		o.refs++
	case *Link:
		o.refs++
	case *BTF:
		o.refs++
	}
}

// unref gives a reference back. It returns what must be called without objects: how links are detached.
func (s *System) unref(object any) (ends []func()) {
	switch o := object.(type) {
	case *Stats:
		s.timers.Add(-1)
	case *Map:
		if o.refs--; o.refs > 0 {
			return nil
		}
		delete(s.maps.all, o.id)
		s.mem.Lock()
		s.byIndex[o.index] = nil
		held := o.held
		o.held = nil
		o.discard()
		s.mem.Unlock()
		for _, h := range held {
			ends = append(ends, s.unref(h)...)
		}
		if o.btf != nil {
			ends = append(ends, s.unref(o.btf)...)
		}
	case *Prog:
		if o.refs--; o.refs > 0 {
			return nil
		}
		s.mem.Lock()
		kept := o.timers > 0
		s.mem.Unlock()
		if !kept {
			ends = s.unload(o)
		}
	case *Link:
		if o.refs--; o.refs > 0 {
			return nil
		}
		delete(s.links.all, o.id)
		return append(ends, o.end)
	case *BTF:
		if o.refs--; o.refs == 0 {
			delete(s.btfs.all, o.id)
		}
	case *Iterator:
		return s.unref(o.prog)
	}
	return ends
}

// unload ends a program to which nothing refers.
func (s *System) unload(p *Prog) (ends []func()) {
	delete(s.progs.all, p.id)
	if p.looks() {
		s.looking.Add(-1)
	}
	for _, m := range p.maps {
		ends = append(ends, s.unref(m)...)
	}
	if p.btf != nil {
		ends = append(ends, s.unref(p.btf)...)
	}
	if p.attachProg != nil {
		ends = append(ends, s.unref(p.attachProg)...)
	}
	return ends
}

// end detaches the link's program, and gives it back.
func (l *Link) end() {
	if l.detach != nil {
		l.detach()
		l.detach = nil
	}
	l.sys.Release(l.prog)
}

// addMap gives a map its number and addresses. It fails with ENOMEM if there are too many.
func (s *System) addMap(m *Map) error {
	s.objects.Lock()
	defer s.objects.Unlock()
	s.mem.Lock()
	defer s.mem.Unlock()
	for i, other := range s.byIndex {
		if other == nil {
			m.index = i
			s.byIndex[i] = m
			m.id = s.maps.add(m)
			if m.btf != nil {
				s.ref(m.btf)
			}
			return nil
		}
	}
	return fmt.Errorf("%d maps: %w", maxMaps, syscall.ENOMEM)
}
