// Package host turns what the host does into work of the guest. Each thread of
// the host that uses the files has a task in the guest; a FUSE request of that
// thread is a system call of that task, which runs through the guest's own
// code down to the file operation that stands for the file. There, at the
// leaf, the guest asks for the host's part and sleeps; the request's goroutine
// does it and wakes the task, and what the guest's system call then returns is
// the answer.
//
// A task of the guest asks for work by hypercalls on its struct host_call
// (package abi, Call*); the methods Next, Done, StartLeaf and PopWake answer
// them. They run between two runs of a vCPU, so they take only locks that
// nobody holds for long.
package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Guest is what this package needs of the machine.
type Guest interface {
	abi.Memory
	// Phys is a view of RAM by physical address.
	Phys(pa, n uint64) []byte
	// MapUser makes pages at va, writable, of the RAM at pa.
	MapUser(va, pa, pages uint64) error
	// UnmapUser takes them away again; when it returns no vCPU sees them.
	UnmapUser(va, pages uint64)
	// Wake tells a vCPU that PopWake has something.
	Wake()
}

// Caller is the host's thread that makes a call.
type Caller struct {
	TID, PID int           // 0 when the host does not tell: task "unknown"
	Comm     func() string // asked once, when the thread is first seen
}

// Call is one request of the host as a system call of the guest.
type Call struct {
	Nr    uint64 // SYS_openat, SYS_read, ... or abi.HostFilpClose, abi.HostRelease
	Path  string // absolute, as the guest sees it; for calls that take a path
	Flags uint64 // of open
	Mode  uint64 // S_IFMT and permission bits of the file that Path names
	FOps  uint64 // abi.FOps*
	FD    int    // the guest's descriptor; for calls on an open file
	Count int    // bytes wanted by a read
	Data  []byte // bytes to write
	Into  []byte // where the result of a read goes, if it has room; else Do makes room
}

// Leaf is the host's part of a call. op is abi.Leaf*; for a write data is what
// arrived (it may be less, or other, than what the caller wrote), for a read
// count is how much may come. It returns the data or the count of bytes taken,
// or an error that carries a syscall.Errno. It may sleep; ctx ends when the
// caller is interrupted.
type Leaf func(ctx context.Context, op int, data []byte, count int, pos int64) (out []byte, n int64, err error)

// patience is how long a caller that has been interrupted is kept waiting for
// guest code that does not end. It is real time: the caller's.
const patience = 2 * time.Second

// Limits of one call.
const (
	MaxIO    = 1 << 20 // bytes of one read or write
	pathMax  = 4096
	maxTasks = 192 // tasks kept for host threads that are not calling now
)

// ErrStopped is what calls give after the machine has ended.
var ErrStopped = fmt.Errorf("the machine has stopped: %w", syscall.EIO)

// Host knows the tasks of the guest that stand for the host's threads.
type Host struct {
	g    Guest
	pool *Pool
	done chan struct{} // closed by Stop

	mu      sync.Mutex
	calls   map[uint64]*Task         // by address of struct host_call
	ends    map[uint64]chan struct{} // by task_struct: closed when the task has left its CPU for the last time
	idle    []*Task                  // host threads' tasks without a call, least recently used first
	held    map[*Task]struct{}       // those in a call
	unheld  chan struct{}            // closed when one of them has ended its call; nil: nobody waits
	manager *Task
	slots   []bool // user windows in use
	stopped bool

	nextID atomic.Uint64
	watch  atomic.Pointer[watcher]

	wakeMu sync.Mutex
	wakes  []uint64 // task_structs to wake
}

// New makes the table; pool is the RAM for buffers.
func New(g Guest, pool *Pool) *Host {
	return &Host{
		g: g, pool: pool, done: make(chan struct{}),
		calls: make(map[uint64]*Task), ends: make(map[uint64]chan struct{}),
		held: make(map[*Task]struct{}),
	}
}

// Task is a task of the guest that takes calls from the host, one after the other.
type Task struct {
	h    *Host
	addr uint64 // of struct host_call
	task uint64 // of task_struct
	tid  int
	slot int // of its user window; -1: none

	bufVA, bufPA uint64 // the user buffer, in the window
	bufPages     int
	pathPA       uint64   // the window's first page
	bounce       uint64   // the buffer between the leaf and the guest, physical
	bouncePages  int      // 0: there is none
	call         *request // of the last call, to be used again

	mu      sync.Mutex
	queue   []*request
	cur     *request
	quit    bool
	encoded [abi.CallSize]byte // the struct host_call of cur

	// A task that was asked again soon after its last answer waits a moment for
	// the next call instead of sleeping.
	ended time.Time // the last answer
	soon  bool      // the call that came last came soon after it
	waits bool      // a vCPU looks at asked: the task needs no waking

	// asked is set with each new element of queue. Who waits for it must not take
	// mu over and over: others would not get it.
	asked atomic.Bool
}

// request is a call under way.
type request struct {
	nr    uint64
	args  [6]uint64
	count uint64 // repetitions of HostCallFunc
	mode  uint64
	fops  uint64
	tid   uint64 // of the task that it makes
	buf   uint64 // bounce buffer, physical; 0: none
	pages int

	events       chan event // what the guest has come to
	leafUnderWay atomic.Bool

	patience atomic.Int32 // of the vCPU for the leaf that is under way
}

// What a vCPU does while the host has a leaf.
const (
	sleeping int32 = iota // the guest's task sleeps, or is about to: it must be woken
	waiting               // the vCPU stands still
	over                  // the leaf has come back while it did
)

// leafPatience is how long a vCPU stands still for a leaf. Most are done sooner
// than the guest would have put its task to sleep and woken it.
const leafPatience = 20 * time.Microsecond

// nextPatience is how long it stands still for the next call.
const nextPatience = 50 * time.Microsecond

// event is a leaf or, with ended, the end of a call.
type event struct {
	op    int
	count uint64
	pos   uint64
	ended bool
	ret   int64 // what the guest's call returned
}

func newRequest(nr uint64) *request { return &request{nr: nr, events: make(chan event, 2)} }

// request makes a request, or takes the one of the task's last call.
func (t *Task) request(nr uint64) *request {
	r := t.call
	if r == nil {
		return newRequest(nr)
	}
	t.call = nil
	r.nr = nr
	return r
}

// again keeps r for the task's next call. Nothing may be under way in it.
func (t *Task) again(r *request) {
	for len(r.events) > 0 {
		<-r.events
	}
	r.args, r.count, r.mode, r.fops, r.tid, r.buf, r.pages = [6]uint64{}, 0, 0, 0, 0, 0, 0
	r.leafUnderWay.Store(false)
	t.call = r
}

// Booted is told by the guest once: the call structs of the tasks that it made
// itself, the manager first.
func (h *Host) Booted(calls []uint64) []*Task {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ts []*Task
	for _, a := range calls {
		ts = append(ts, h.add(a))
	}
	if len(ts) > 0 {
		h.manager = ts[0]
	}
	return ts
}

// add needs h.mu.
func (h *Host) add(addr uint64) *Task {
	task, _ := h.g.ReadU64(addr + abi.CallTask)
	t := &Task{h: h, addr: addr, task: task, slot: -1}
	h.calls[addr] = t
	return t
}

// Stop ends all calls with ErrStopped, now and later.
func (h *Host) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.stopped {
		h.stopped = true
		close(h.done)
	}
}

// TaskAddr is the task's task_struct.
func (t *Task) TaskAddr() uint64 { return t.task }

// Func calls a guest function on the task, count times with the same
// arguments (at most five), and gives its last result.
func (t *Task) Func(ctx context.Context, addr, count uint64, args ...uint64) (uint64, error) {
	if len(args) > 5 {
		return 0, fmt.Errorf("%d arguments, at most five: %w", len(args), syscall.EINVAL)
	}
	r := newRequest(abi.HostCallFunc)
	r.count = count
	r.args[0] = addr
	copy(r.args[1:], args)
	ret, err := t.run(ctx, r, nil)
	return uint64(ret), err
}

// run queues r, wakes the task, does the leaves and waits for the end. The
// leaf hears of the end of ctx. A guest that has not come to an end patience
// after that is left behind: errAbandoned, and r is still under way.
func (t *Task) run(ctx context.Context, r *request, leaf Leaf) (int64, error) {
	t.mu.Lock()
	if t.quit {
		t.mu.Unlock()
		return 0, ErrStopped
	}
	t.queue = append(t.queue, r)
	t.soon = time.Since(t.ended) < nextPatience
	waits := t.waits
	t.asked.Store(true)
	t.mu.Unlock()
	if !waits {
		t.h.wake(t.task)
	}
	return t.await(ctx, r, leaf)
}

// errAbandoned is for a call that nobody waits for any more.
var errAbandoned = fmt.Errorf("the guest does not come back: %w", syscall.EINTR)

func (t *Task) await(ctx context.Context, r *request, leaf Leaf) (int64, error) {
	interrupted := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case <-interrupted:
			interrupted, late = nil, time.After(patience)
		case <-late:
			return 0, errAbandoned
		case e := <-r.events:
			if e.ended {
				return e.ret, nil
			}
			t.doLeaf(ctx, r, e, leaf)
		case <-t.h.done:
			return 0, ErrStopped
		}
	}
}

// leafDone is 1 in a word of the guest.
var leafDone = []byte{1, 0, 0, 0}

func (t *Task) doLeaf(ctx context.Context, r *request, lc event, leaf Leaf) {
	ret := -int64(syscall.EINVAL)
	if leaf != nil {
		ret = t.callLeaf(ctx, r, lc, leaf)
	}
	_ = t.h.g.WriteU64(t.addr+abi.CallLeafRet, uint64(ret))
	t.answerLeaf(r, leafDone)
}

// answerLeaf sets CallLeafDone and has the task see it.
func (t *Task) answerLeaf(r *request, done []byte) {
	r.leafUnderWay.Store(false)
	_ = t.h.g.WriteAt(t.addr+abi.CallLeafDone, done)
	if !r.patience.CompareAndSwap(waiting, over) {
		t.h.wake(t.task)
	}
}

func (t *Task) callLeaf(ctx context.Context, r *request, lc event, leaf Leaf) int64 {
	var buf []byte
	if r.buf != 0 {
		buf = t.h.g.Phys(r.buf, uint64(r.pages)*abi.PageSize)
	}
	count := min(lc.count, uint64(len(buf)))
	var data []byte
	if lc.op == abi.LeafWrite {
		data = buf[:count]
	}
	if lc.op == abi.LeafWrite || lc.op == abi.LeafOpen {
		ctx = context.WithValue(ctx, leafKey{}, leafOf{t, r})
	}
	out, n, err := leaf(ctx, lc.op, data, int(count), int64(lc.pos))
	if err != nil {
		return -int64(errno(err))
	}
	if lc.op == abi.LeafRead || lc.op == abi.LeafReaddir || lc.op == abi.LeafStat {
		return int64(copy(buf[:count], out))
	}
	return n
}

func errno(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) && e != 0 {
		return e
	}
	return syscall.EIO
}

// find gives the task whose struct host_call is at addr, or nil.
func (h *Host) find(addr uint64) *Task {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[addr]
}

// Next answers HCNext: 1 and the call filled in, 0 for none, -1 to leave.
func (h *Host) Next(addr uint64) int64 {
	t := h.find(addr)
	if t == nil {
		return -int64(syscall.EINVAL)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cur != nil {
		return -int64(syscall.EBUSY)
	}
	if len(t.queue) == 0 {
		if t.quit {
			h.drop(t)
			go h.forget(t)
			return -1
		}
		return 0
	}
	t.cur = t.queue[0]
	t.queue = t.queue[:copy(t.queue, t.queue[1:])]
	t.cur.encode(&t.encoded, h.nextID.Add(1), t.task)
	if err := h.g.WriteAt(addr, t.encoded[:]); err != nil {
		return -int64(syscall.EFAULT)
	}
	return 1
}

// AwaitNext is Next that waits a moment for a call where one is likely to come:
// a caller that makes one call after the other is served without putting the
// task to sleep and waking it. It stops waiting when stop says so.
func (h *Host) AwaitNext(addr uint64, stop func() bool) int64 {
	t := h.find(addr)
	if t == nil || !t.expects() {
		return h.Next(addr)
	}
	for start := time.Now(); !t.asked.Load() && !stop() && time.Since(start) < nextPatience; {
		runtime.Gosched()
	}
	t.mu.Lock()
	t.waits = false // whoever comes from now on wakes the task
	t.mu.Unlock()
	return h.Next(addr)
}

// expects says whether the task should wait for its next call, and that it does.
func (t *Task) expects() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits = t.soon && !t.quit && len(t.queue) == 0
	t.asked.Store(!t.waits)
	return t.waits
}

func (r *request) encode(b *[abi.CallSize]byte, id, task uint64) {
	clear(b[:])
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(b[off:], v) }
	put(abi.CallID, id)
	put(abi.CallNr, r.nr)
	for i, a := range r.args {
		put(abi.CallArgs+8*i, a)
	}
	put(abi.CallCount, r.count)
	if r.buf != 0 {
		put(abi.CallBuf, abi.DirectMap+r.buf)
		put(abi.CallBufLen, uint64(r.pages)*abi.PageSize)
	}
	put(abi.CallTask, task)
	put(abi.CallMode, r.mode)
	put(abi.CallFOps, r.fops)
	put(abi.CallTID, r.tid)
}

// Done answers HCDone.
func (h *Host) Done(addr uint64) int64 {
	ret, err := h.g.ReadU64(addr + abi.CallRet)
	if err != nil {
		return -int64(syscall.EFAULT)
	}
	return h.finish(addr, int64(ret))
}

func (h *Host) finish(addr uint64, ret int64) int64 {
	t := h.find(addr)
	if t == nil {
		return -int64(syscall.EINVAL)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cur == nil {
		return -int64(syscall.EINVAL)
	}
	if t.cur.nr == abi.HostNewTask && (ret < -4095 || ret > 0) {
		h.claim(uint64(ret))
	}
	t.ended = time.Now()
	t.cur.finish(ret)
	t.cur = nil
	return 0
}

func (r *request) finish(ret int64) { r.events <- event{ended: true, ret: ret} }

// claim gives a new task's host_call a number before the guest makes the next
// task. The guest hands out a task without one to whoever asks for its thread:
// two requests of one thread (an open and an earlier file's release) would get
// the same, and one of them would wait for ever.
func (h *Host) claim(call uint64) {
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], h.nextID.Add(1))
	_ = h.g.WriteAt(call+abi.CallID, id[:])
}

// StartLeaf answers HCLeaf: the request's goroutine does the host's part.
func (h *Host) StartLeaf(addr, op uint64) int64 {
	_, ret := h.startLeaf(addr, op, sleeping)
	return ret
}

// RunLeaf is StartLeaf that waits a moment for the end of it: a task whose leaf
// is over does not sleep, as it would not on Linux.
func (h *Host) RunLeaf(addr, op uint64) int64 {
	r, ret := h.startLeaf(addr, op, waiting)
	if r == nil {
		return ret
	}
	for start := time.Now(); time.Since(start) < leafPatience; {
		runtime.Gosched() // to the request's goroutine
		if r.patience.Load() == over {
			return 0
		}
	}
	r.patience.CompareAndSwap(waiting, sleeping)
	return 0
}

func (h *Host) startLeaf(addr, op uint64, patience int32) (*request, int64) {
	t := h.find(addr)
	if t == nil {
		return nil, -int64(syscall.EINVAL)
	}
	count, err := h.g.ReadU64(addr + abi.CallLeafArg)
	if err != nil {
		return nil, -int64(syscall.EFAULT)
	}
	pos, _ := h.g.ReadU64(addr + abi.CallLeafArg + 8)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cur == nil {
		return nil, -int64(syscall.EINVAL)
	}
	if t.cur.leafUnderWay.Swap(true) { // a task sleeps in its leaf, so the guest lies
		return nil, -int64(syscall.EBUSY)
	}
	t.cur.patience.Store(patience)
	t.cur.events <- event{op: int(op), count: count, pos: pos}
	return t.cur, 0
}

// TaskDied is told when a task has ended. One that did so inside a call (an
// oops) is forgotten; the call fails with EIO.
func (h *Host) TaskDied(task uint64) {
	h.mu.Lock()
	if c := h.ends[task]; c != nil {
		close(c)
		delete(h.ends, task)
	}
	var t *Task
	for _, c := range h.calls {
		if c.task == task {
			t = c
		}
	}
	h.mu.Unlock()
	if t == nil {
		return
	}
	h.finish(t.addr, -int64(syscall.EIO))
	h.drop(t)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quit = true
	for _, r := range t.queue {
		r.finish(-int64(syscall.EIO))
	}
	t.queue = nil
	go h.forget(t)
}

// drop takes a task that ends out of the table before the guest uses its
// struct host_call again: the next owner must not find this one's entry.
func (h *Host) drop(t *Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[t.addr] == t {
		delete(h.calls, t.addr)
	}
}

// Wake has the guest wake a task.
func (h *Host) Wake(task uint64) { h.wake(task) }

func (h *Host) wake(task uint64) {
	h.wakeMu.Lock()
	h.wakes = append(h.wakes, task)
	h.wakeMu.Unlock()
	h.g.Wake()
}

// PopWake answers HCPopWake: the next task to wake, or 0.
func (h *Host) PopWake() uint64 {
	h.wakeMu.Lock()
	defer h.wakeMu.Unlock()
	if len(h.wakes) == 0 {
		return 0
	}
	t := h.wakes[0]
	h.wakes = h.wakes[:copy(h.wakes, h.wakes[1:])]
	return t
}
