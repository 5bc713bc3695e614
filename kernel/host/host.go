// Package host makes system calls of the host's threads in the guest. Each thread
// that uses the files has a task in the guest; a FUSE request of that thread is a
// system call of that task, which runs through the guest's own
// code down to the file's operation (file_operations.read, .write, ...). That
// operation asks for the host's part, a FileOp, and sleeps; the request's
// goroutine runs the FileOp and wakes the task, and the result of the guest's
// system call is the answer.
//
// A task of the guest asks for work by hypercalls on its struct host_call
// (package abi, Call*); the methods Next, Done, StartFileOp and PopWake answer
// them. The vCPU that made the hypercall runs them, so they take only locks that
// are held briefly.
//
// If the vCPU of the task is idle, the goroutine of the request borrows it and
// executes the guest's code itself, up to the end of the call, and runs the FileOp
// in between. What the guest does is the same as if the vCPU's own goroutine did: the
// task is woken by an interrupt and scheduled. Only one that has just ended a call
// takes the next one right away, as a thread does that makes one system call after
// the other.
package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
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
	// MapUser maps pages of the RAM at pa, writable, at va.
	MapUser(va, pa, pages uint64) error
	// UnmapUser unmaps pages. When it returns, no vCPU has them in its TLB.
	UnmapUser(va, pages uint64)
	// Wake has a vCPU call PopWake.
	Wake()
	// Borrow lends the calling goroutine a vCPU for a call of the task whose struct
	// host_call is at call. The task last ran on vCPU on, and runs on vCPU want when
	// it is woken; stay says that it may run on the former. ready means that the task
	// is about to ask for its next call there and needs no wake-up. If the vCPU is
	// busy, Borrow returns nil.
	Borrow(call uint64, on, want int, stay bool) (v VCPU, ready bool)
}

// VCPU is a virtual CPU that a goroutine has borrowed. It executes what its run queue
// has, as always; only the goroutine is another one.
type VCPU interface {
	// Interrupt has the vCPU call PopWake when it runs.
	Interrupt()
	// Run executes guest code until stop returns true. If it returns false, the vCPU
	// has nothing to do or the loan has lasted too long, and it has been given back.
	Run(stop func() bool) bool
	// Suspend lets others continue the vCPU until Resume, if take returns true.
	Suspend(take func() bool)
	// Resume ends Suspend. It must not be called after take has returned true.
	Resume()
	// Wake has the vCPU's own goroutine continue a suspended vCPU.
	Wake()
	// Return gives the vCPU back.
	Return()
}

// Caller is the thread of the host that makes a call.
type Caller struct {
	TID, PID int           // 0 when the daemon cannot see the thread; its task is then named "unknown"
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
	Files int    // the process that opened FD; 0 means the caller's, and a negative number one that is not known
	Count int    // bytes wanted by a read
	Data  []byte // bytes to write
	Into  []byte // buffer for the result of a read; Do allocates one if it is too small
	Pos   int64  // of lseek
	How   uint64 // whence of lseek; the command of an ioctl; the events seen of HostPoll
	// Arg is the argument of an ioctl that is a number. If Data or Count is set, the
	// argument is the address of Data, and of room for a result of Count bytes.
	Arg uint64
}

// files is the process whose descriptors a call of c uses, or 0 if that is not known.
func (c Caller) files() uint64 {
	if c.PID > 0 {
		return uint64(c.PID)
	}
	return uint64(max(c.TID, 0))
}

// FileOp is what a file of the host does when the guest's system call has come
// to the file's operation. It returns the number of bytes that it has read into
// op.Buf or taken from it, or an error that wraps a syscall.Errno. It may sleep;
// ctx ends when the caller is interrupted. One call can run it more than once.
type FileOp func(ctx context.Context, op Op) (n int, err error)

// Op tells a FileOp which operation the guest asks for.
type Op struct {
	Kind int    // abi.Op*
	Buf  []byte // guest memory: the room for a read, or the data of a write, which a probe may have changed
	Pos  int64  // the guest's file position
}

// How long an interrupted caller waits, in real time, for the guest to end its
// call. After a signal with a handler the call has time to end by itself. After one
// that kills, nobody wants its result.
const (
	patience       = 2 * time.Second
	killedPatience = 50 * time.Millisecond
)

// killedKey is the key of WithKilled's function in a context.
type killedKey struct{}

// WithKilled returns a context for a caller. killed reports whether a signal has
// killed that caller.
func WithKilled(ctx context.Context, killed func() bool) context.Context {
	return context.WithValue(ctx, killedKey{}, killed)
}

// killKey is the key of WithKill's channel in a context.
type killKey struct{}

// WithKill returns a context whose calls of functions are made by a task that gets SIGKILL
// when kill is closed. That does not end the call, but what waits in it may find out.
func WithKill(ctx context.Context, kill <-chan struct{}) context.Context {
	return context.WithValue(ctx, killKey{}, kill)
}

// commKey is the key of WithComm's name in a context.
type commKey struct{}

// WithComm returns a context whose calls of functions are made by tasks of a name.
func WithComm(ctx context.Context, comm string) context.Context {
	return context.WithValue(ctx, commKey{}, comm)
}

// CommOf returns the name of WithComm, or "".
func CommOf(ctx context.Context) string {
	comm, _ := ctx.Value(commKey{}).(string)
	return comm
}

// Patience is how much longer a caller waits for the guest after the end of its
// context ctx.
func Patience(ctx context.Context) time.Duration {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return 0
	}
	if killed, ok := ctx.Value(killedKey{}).(func() bool); ok && killed() {
		return killedPatience
	}
	return patience
}

// Limits of one call.
const (
	MaxIO      = 1 << 20 // bytes of one read or write
	pathMax    = 4096
	maxTasks   = 192 // tasks kept for threads of the host that are in no call
	maxBuffers = 32  // how many of them keep their buffers: a cat has 256 KiB
)

// ErrStopped is the error of calls after Stop.
var ErrStopped = fmt.Errorf("the machine has stopped: %w", syscall.EIO)

// ErrDied is the error of Func when the task has died in the call, as after an oops.
var ErrDied = fmt.Errorf("the task has died: %w", syscall.EIO)

// Host knows the tasks of the guest that stand for the host's threads.
type Host struct {
	g    Guest
	pool *Pool
	done chan struct{} // closed by Stop

	mu      sync.Mutex
	calls   sync.Map                 // *Task by address of struct host_call; changes under mu
	ends    map[uint64]chan struct{} // by task_struct: closed when the task has left its CPU for the last time
	idle    []*Task                  // host threads' tasks without a call, least recently used first
	held    map[*Task]struct{}       // those in a call
	unheld  chan struct{}            // closed at the end of one of those calls; nil while nobody waits for that
	manager *Task
	makers  []*Task // make tasks when manager is stuck
	slots   []bool  // user windows in use
	stopped bool

	cpus int // number of vCPUs over which tasks are placed like their threads; 0 leaves it to the guest

	nextID      atomic.Uint64
	callTime    CallTime // of the calls of activity.go
	before      hook
	after       hook
	tables      sync.Map     // processes with descriptors for Mirror
	mirrors     atomic.Int64 // calls of Mirror under way
	awaitClosed atomic.Pointer[func(context.Context) bool]
	userRegs    atomic.Pointer[UserRegs]

	debugged atomic.Bool // a debugger has stopped the machine

	driver *driver // nil if the machine runs by itself

	wakeMu sync.Mutex
	wakes  []uint64 // task_structs to wake, with abi.WakeBits
}

// New returns a Host without tasks. Its buffers come from pool.
func New(g Guest, pool *Pool) *Host {
	return &Host{
		g: g, pool: pool, done: make(chan struct{}),
		ends: make(map[uint64]chan struct{}),
		held: make(map[*Task]struct{}),
	}
}

// Task is a task of the guest that makes the host's calls, one after the other.
type Task struct {
	h    *Host
	addr uint64 // of struct host_call
	task uint64 // of task_struct
	tid  int
	slot int // number of its user window, or -1

	bufVA, bufPA uint64 // the user buffer, in the window
	bufPages     int
	pathPA       uint64   // the window's first page
	bounce       uint64   // physical address of the buffer that a FileOp reads into or writes from
	bouncePages  int      // 0 means that there is no such buffer
	call         *request // the last call's, for the next one
	place        place    // where the task runs

	refused atomic.Bool            // a program has left out a function in the call
	mirror  atomic.Pointer[Mirror] // the mirrored call that it makes, or nil

	mu      sync.Mutex
	queue   []*request
	cur     *request
	quit    bool
	encoded [abi.CallSize]byte // the struct host_call of cur
}

// request is a pending call.
type request struct {
	nr    uint64
	args  [6]uint64
	count uint64 // repetitions of HostCallFunc
	mode  uint64
	fops  uint64
	tid   uint64 // of the task that it makes
	files uint64 // the process whose descriptors it is about
	cut   bool   // the repetitions that are left are not wanted
	buf   uint64 // physical address of the bounce buffer, or 0
	pages int

	mirror uint64 // physical address of the struct host_mirror, or 0

	events chan event // what the guest asks for or answers
	died   bool       // the task has ended inside the call; set before the last event

	inFileOp atomic.Bool
	vcpu     atomic.Int32 // what the vCPU does during the FileOp

	lent VCPU        // suspended while the FileOp runs on the goroutine that has borrowed it
	due  func() bool // reports whether there are events
	take func() bool // ends the vCPU's wait, unless the FileOp has returned
}

// What a vCPU does while a FileOp runs.
const (
	sleeping int32 = iota // it has left the task, which sleeps or is about to and must be woken
	waiting               // it waits for the FileOp, or is suspended
	over                  // it waits, and the FileOp has returned
)

// fileOpPatience is how long a vCPU waits for a FileOp. Most return sooner than
// the guest would have put its task to sleep and woken it.
const fileOpPatience = 20 * time.Microsecond

// event is a file operation that the guest asks for or, with ended, the end of a call.
type event struct {
	op    int // abi.Op*
	count uint64
	pos   uint64
	lent  bool // the vCPU is suspended: the borrower of a vCPU runs the operation
	ended bool
	ret   int64 // result of the guest's call
}

func newRequest(nr uint64) *request {
	r := &request{nr: nr, events: make(chan event, 2)}
	r.due = func() bool { return len(r.events) > 0 }
	r.take = func() bool { return r.vcpu.CompareAndSwap(waiting, sleeping) || r.vcpu.Load() == sleeping }
	return r
}

// request returns a request for a call: the last call's, or a new one.
func (t *Task) request(nr uint64) *request {
	r := t.call
	if r == nil {
		return newRequest(nr)
	}
	t.call = nil
	r.nr = nr
	return r
}

// recycle clears r, whose call has ended, for the task's next call.
func (t *Task) recycle(r *request) {
	for len(r.events) > 0 {
		<-r.events
	}
	r.args, r.count, r.mode, r.fops, r.tid, r.files, r.buf, r.pages, r.mirror = [6]uint64{}, 0, 0, 0, 0, 0, 0, 0, 0
	r.cut = false
	r.inFileOp.Store(false)
	r.died = false
	t.mirror.Store(nil)
	t.refused.Store(false)
	t.call = r
}

// Booted takes the addresses of the struct host_call of each task that the guest
// made while it booted, the manager's first.
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

// SetMakers names the tasks that are asked in turn for a new one when the manager is
// stuck.
func (h *Host) SetMakers(ts []*Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.makers = slices.Clone(ts)
}

// add needs h.mu.
func (h *Host) add(addr uint64) *Task {
	task, _ := h.g.ReadU64(addr + abi.CallTask)
	t := &Task{h: h, addr: addr, task: task, slot: -1}
	h.calls.Store(addr, t)
	return t
}

// Stop ends all calls, present and future, with ErrStopped.
func (h *Host) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.stopped {
		h.stopped = true
		close(h.done)
	}
}

// SetStopped says whether a debugger has stopped the machine, so that calls wait.
func (h *Host) SetStopped(on bool) { h.debugged.Store(on) }

// Waits reports whether a debugger has stopped the machine, so that a call would wait.
func (h *Host) Waits() bool { return h.debugged.Load() }

// Stopped is closed by Stop.
func (h *Host) Stopped() <-chan struct{} { return h.done }

// TaskAddr is the task's task_struct.
func (t *Task) TaskAddr() uint64 { return t.task }

// Func has the task call a guest function count times with the same arguments (at
// most five), and returns its last result. The end of ctx ends the repetitions with
// EINTR, or with ErrAbandoned if a call does not return; the task is then still in
// it. ErrDied means that the task has died in a call.
func (t *Task) Func(ctx context.Context, addr, count uint64, args ...uint64) (uint64, error) {
	if len(args) > 5 {
		return 0, fmt.Errorf("%d arguments, at most five: %w", len(args), syscall.EINVAL)
	}
	r := newRequest(abi.HostCallFunc)
	r.count = count
	r.args[0] = addr
	copy(r.args[1:], args)
	ret, err := t.run(ctx, r, nil)
	if err == nil && r.died {
		err = ErrDied
	}
	if err == nil && t.wasCut(r) {
		err = fmt.Errorf("not all calls were made: %w", syscall.EINTR)
	}
	return uint64(ret), err
}

// cutShort makes the current call of a function the last repetition.
func (t *Task) cutShort(r *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.nr != abi.HostCallFunc || r.count < 2 {
		return
	}
	r.cut, r.count = true, 0
	if t.cur == r {
		_ = t.h.g.WriteU64(t.addr+abi.CallCount, 0)
	}
}

// interrupt ends the sleeps in r that a signal to the caller ends on Linux; kill means
// a signal that has killed it.
func (t *Task) interrupt(r *request, kill bool) {
	if r.nr >= abi.HostCallFunc && r.nr != abi.HostPoll {
		return
	}
	if kill {
		t.signal(r, abi.WakeKill)
	} else {
		t.signal(r, abi.WakeInterrupt)
	}
}

// signal wakes the task with abi.WakeKill or abi.WakeInterrupt if it has begun with r.
func (t *Task) signal(r *request, how uint64) {
	t.mu.Lock()
	inside := t.cur == r
	t.mu.Unlock()
	if inside {
		t.h.wake(t.task | how)
	}
}

func (t *Task) wasCut(r *request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.cut
}

// Leave ends a task that Kthread has made.
func (t *Task) Leave() { t.giveUp() }

// submit queues r and wakes the task. It returns the vCPU that the caller has to run, or
// nil when the vCPUs' own goroutines see to the call.
func (t *Task) submit(r *request) (VCPU, error) {
	v, ready := t.borrow()
	return v, t.submitOn(v, ready, r)
}

// submitOn is submit with what borrow has returned. If it fails, v has been given back.
func (t *Task) submitOn(v VCPU, ready bool, r *request) error {
	t.mu.Lock()
	if t.quit {
		t.mu.Unlock()
		if v != nil {
			v.Return()
		}
		return ErrDied
	}
	t.queue = append(t.queue, r)
	t.mu.Unlock()
	switch {
	case v == nil:
		t.h.wake(t.task)
	case !ready:
		t.h.pushWake(t.task)
		v.Interrupt()
	}
	return nil
}

// borrow is Guest.Borrow for the vCPU on which t will run.
func (t *Task) borrow() (v VCPU, ready bool) {
	w, err := t.h.g.ReadU64(t.task + abi.TaskStatus) // thread_info.cpu
	if err != nil {
		return nil, false
	}
	t.mu.Lock()
	p := t.place
	t.mu.Unlock()
	on := int(w >> 32)
	if p.cpus == 0 {
		return t.h.g.Borrow(t.addr, on, on, true)
	}
	stay := p.cpus>>on&1 != 0
	v, ready = t.h.g.Borrow(t.addr, on, int(p.cpu), stay)
	if stay || t.sleeps() {
		return v, ready
	}
	if v != nil { // what runs on the task's vCPU may wait for this one
		v.Return()
	}
	t.awaitSleep()
	return t.h.g.Borrow(t.addr, on, int(p.cpu), stay)
}

// sleeps reports whether the task is in no run queue.
func (t *Task) sleeps() bool {
	queued, err := t.h.g.ReadU64(t.task + abi.TaskOnRQ)
	return err != nil || uint32(queued) == 0
}

// awaitSleep waits until a task that must run on another vCPU sleeps: it is moved when it
// is woken, and one that has not gone to sleep since its last call would make this one where
// it is. It gives up after sleepPatience, or when the task has other calls to make.
func (t *Task) awaitSleep() {
	const spin = 100 * time.Microsecond
	for start := time.Now(); ; {
		t.mu.Lock()
		busy := t.cur != nil || len(t.queue) > 0 || t.quit
		t.mu.Unlock()
		passed := time.Since(start)
		switch {
		case busy || t.sleeps() || passed > sleepPatience:
			return
		case passed < spin:
			YieldThread()
		default:
			time.Sleep(spin)
		}
	}
}

// sleepPatience is how long awaitSleep waits at most: the task's vCPU may be executed by
// others, on a host that is busy.
const sleepPatience = time.Second

// ErrAbandoned is the error of a call whose caller no longer waits for its end.
var ErrAbandoned = fmt.Errorf("the guest does not answer: %w", syscall.EINTR)

// run submits r, runs op for each file operation that the guest comes to, and waits
// for the end of the call. When ctx ends, the guest has some more time (Patience).
// After that run returns EINTR if the task has not begun with r, else ErrAbandoned: r
// is still pending then, and outlive waits for its end.
func (t *Task) run(ctx context.Context, r *request, op FileOp) (int64, error) {
	v, err := t.submit(r)
	if err != nil {
		return 0, err
	}
	if t.h.driver != nil {
		return t.drive(ctx, r, op)
	}
	if v != nil {
		if ret, ended := t.runOn(ctx, v, r, op); ended {
			return ret, nil
		}
	}
	return t.await(ctx, r, op)
}

// await is run for a call that has been submitted and that the vCPUs' own goroutines see
// to.
func (t *Task) await(ctx context.Context, r *request, op FileOp) (int64, error) {
	interrupted := ctx.Done()
	kill, _ := ctx.Value(killKey{}).(<-chan struct{})
	var late <-chan time.Time
	for {
		select {
		case <-kill:
			t.signal(r, abi.WakeKill)
			kill = nil
		case <-interrupted:
			t.cutShort(r)
			t.interrupt(r, Patience(ctx) < patience)
			interrupted, late = nil, time.After(Patience(ctx))
		case <-late:
			if t.withdraw(r) {
				return 0, fmt.Errorf("the guest has not begun: %w", syscall.EINTR)
			}
			return 0, ErrAbandoned
		case e := <-r.events:
			if e.ended {
				return e.ret, nil
			}
			t.fileOp(ctx, r, e, op)
		case <-t.h.done:
			return 0, ErrStopped
		}
	}
}

// runOn executes r on a vCPU that the caller has borrowed, and gives that back. ended is
// false if the call has not ended by then.
func (t *Task) runOn(ctx context.Context, v VCPU, r *request, op FileOp) (ret int64, ended bool) {
	for v.Run(r.due) {
		var lent bool
		if ret, ended, lent = t.onLent(ctx, v, r, <-r.events, op); !lent {
			return ret, ended
		}
	}
	return 0, false
}

// onLent handles an event of r, which runs on a borrowed vCPU. lent reports whether the
// caller still has that.
func (t *Task) onLent(ctx context.Context, v VCPU, r *request, e event, op FileOp) (ret int64, ended, lent bool) {
	if e.ended {
		v.Return()
		return e.ret, true, false
	}
	if !e.lent { // the task runs on another vCPU
		v.Return()
		t.fileOp(ctx, r, e, op)
		return 0, false, false
	}
	r.lent = v
	v.Suspend(r.take)
	waits := t.fileOp(lentContext{ctx, r, v}, r, e, op)
	return 0, false, r.resume(v, waits)
}

// resume ends the suspension of v for a FileOp that has returned. It reports whether the
// caller still has v: waits is what answer has said.
func (r *request) resume(v VCPU, waits bool) bool {
	lent := waits && r.lent != nil
	r.lent = nil
	if lent {
		v.Resume()
	}
	return lent
}

// lentContext is the context of a FileOp for which a vCPU is suspended. One that is going
// to wait asks for Done; the vCPU goes on then, and the task sleeps.
type lentContext struct {
	context.Context
	r *request
	v VCPU
}

func (c lentContext) Done() <-chan struct{} {
	c.r.yield(c.v)
	return c.Context.Done()
}

// yield has v, which is suspended for r's FileOp, go on without waiting for its end.
func (r *request) yield(v VCPU) {
	if r.vcpu.CompareAndSwap(waiting, sleeping) {
		v.Wake()
	}
}

// withdraw takes r out of the queue. It returns false if the task has begun with r.
func (t *Task) withdraw(r *request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.queue, r)
	if i < 0 {
		return false
	}
	t.queue = slices.Delete(t.queue, i, i+1)
	return true
}

// outlive waits for the end of a call that run has abandoned. The file
// operations that the guest still comes to fail.
func (t *Task) outlive(r *request) (int64, error) {
	abandoned := func(context.Context, Op) (int, error) { return 0, ErrAbandoned }
	for {
		select {
		case e := <-r.events:
			if e.ended {
				return e.ret, nil
			}
			t.fileOp(context.Background(), r, e, abandoned)
		case <-t.h.done:
			return 0, ErrStopped
		}
	}
}

// Values of CallOpDone.
var (
	opDone  = []byte{1, 0, 0, 0} // the operation is over
	opCalls = []byte{2, 0, 0, 0} // the task is to call a function first
)

// fileOp runs op for the operation that the guest has come to and hands the
// guest its result. It reports whether the vCPU has waited for that.
func (t *Task) fileOp(ctx context.Context, r *request, e event, op FileOp) bool {
	ret := -int64(syscall.EINVAL)
	if op != nil {
		buf := t.h.g.Phys(r.buf, uint64(r.pages)*abi.PageSize)
		buf = buf[:min(e.count, uint64(len(buf)))]
		if e.op == abi.OpWrite || e.op == abi.OpOpen {
			ctx = context.WithValue(ctx, fileOpKey{}, fileOpTask{t, r})
		}
		n, err := op(ctx, Op{Kind: e.op, Buf: buf, Pos: int64(e.pos)})
		ret = int64(n)
		if e.op != abi.OpMade {
			ret = int64(min(n, len(buf)))
		}
		if err != nil {
			ret = -int64(errno(err))
		}
	}
	_ = t.h.g.WriteU64(t.addr+abi.CallOpRet, uint64(ret))
	return t.answer(r, opDone)
}

// answer sets CallOpDone and has the task see it. It reports whether the vCPU has waited
// for that.
func (t *Task) answer(r *request, done []byte) bool {
	r.inFileOp.Store(false)
	_ = t.h.g.WriteAt(t.addr+abi.CallOpDone, done)
	waits := r.vcpu.CompareAndSwap(waiting, over)
	if !waits {
		t.h.wake(t.task)
	}
	return waits
}

func errno(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) && e != 0 {
		return e
	}
	return syscall.EIO
}

// find returns the task whose struct host_call is at addr, or nil. It takes no lock.
func (h *Host) find(addr uint64) *Task {
	if t, ok := h.calls.Load(addr); ok {
		return t.(*Task)
	}
	return nil
}

// Next answers HCNext. It fills in the struct host_call and returns 1, or returns 0
// when there is no call, and -1 when the task is to end.
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
			h.later(func() { h.forget(t) })
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
	put(abi.CallFiles, r.files)
	if r.mirror != 0 {
		put(abi.CallMirror, abi.DirectMap+r.mirror)
	}
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
	t.cur.finish(ret)
	t.cur = nil
	return 0
}

func (r *request) finish(ret int64) { r.events <- event{ended: true, ret: ret} }

// die is finish for a call whose task has ended.
func (r *request) die() {
	r.died = true
	r.finish(-int64(syscall.EIO))
}

// claim assigns a number to a new task's struct host_call before the guest makes the
// next task. When the guest is asked for a task of a thread, it returns one that has
// no number yet if there is one: two requests of one thread (an open and the release
// of an earlier file) would get the same task, and one would wait for ever.
func (h *Host) claim(call uint64) {
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], h.nextID.Add(1))
	_ = h.g.WriteAt(call+abi.CallID, id[:])
}

// Wait says what a vCPU does while a FileOp runs.
type Wait int

// What a vCPU does while a FileOp runs.
const (
	WaitNot       Wait = iota // it goes on: the task sleeps
	WaitMoment                // it waits a moment, so that the task, as on Linux, does not sleep in an operation that is over at once
	WaitSuspended             // it is borrowed for this call: its borrower runs the FileOp
)

// StartFileOp answers HCFileOp: it has the goroutine of the task's call run its
// FileOp.
func (h *Host) StartFileOp(addr, op uint64, wait Wait) int64 {
	t := h.find(addr)
	if t == nil {
		return -int64(syscall.EINVAL)
	}
	count, err := h.g.ReadU64(addr + abi.CallOpArg)
	if err != nil {
		return -int64(syscall.EFAULT)
	}
	pos, _ := h.g.ReadU64(addr + abi.CallOpArg + 8)
	t.mu.Lock()
	r := t.cur
	switch {
	case r == nil:
		t.mu.Unlock()
		return -int64(syscall.EINVAL)
	case r.inFileOp.Swap(true): // the task sleeps in its operation, so the guest lies
		t.mu.Unlock()
		return -int64(syscall.EBUSY)
	}
	r.vcpu.Store(sleeping)
	if wait != WaitNot {
		r.vcpu.Store(waiting)
	}
	r.events <- event{op: int(op), count: count, pos: pos, lent: wait == WaitSuspended}
	t.mu.Unlock()
	if wait == WaitMoment {
		r.awaitFileOp()
	}
	return 0
}

// awaitFileOp has a vCPU wait for the end of a FileOp, for fileOpPatience.
func (r *request) awaitFileOp() {
	for start := time.Now(); time.Since(start) < fileOpPatience; {
		runtime.Gosched() // to the request's goroutine
		if r.vcpu.Load() == over {
			return
		}
	}
	r.vcpu.CompareAndSwap(waiting, sleeping)
}

// TaskDied is called when a task of the guest has ended. The call that it was in, if
// any, fails with EIO.
func (h *Host) TaskDied(task uint64) {
	h.mu.Lock()
	if c := h.ends[task]; c != nil {
		close(c)
		delete(h.ends, task)
	}
	var t *Task
	h.calls.Range(func(_, c any) bool {
		if c := c.(*Task); c.task == task {
			t = c
		}
		return true
	})
	h.mu.Unlock()
	if t == nil {
		return
	}
	h.drop(t)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quit = true
	if t.cur != nil {
		t.cur.die()
	}
	for _, r := range t.queue {
		r.die()
	}
	t.cur, t.queue = nil, nil
	h.later(func() { h.forget(t) })
}

// drop takes a task that ends out of the table before the guest uses its
// struct host_call again, so that its next owner does not find this entry.
func (h *Host) drop(t *Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls.CompareAndDelete(t.addr, t)
}

// Wake has the guest wake a task.
func (h *Host) Wake(task uint64) { h.wake(task) }

func (h *Host) wake(task uint64) {
	h.pushWake(task)
	h.g.Wake()
}

// pushWake adds a task to those that PopWake returns.
func (h *Host) pushWake(task uint64) {
	h.wakeMu.Lock()
	defer h.wakeMu.Unlock()
	h.wakes = append(h.wakes, task)
}

// Waking reports whether there are tasks that the guest has yet to wake.
func (h *Host) Waking() bool {
	h.wakeMu.Lock()
	defer h.wakeMu.Unlock()
	return len(h.wakes) > 0
}

// PopWake answers HCPopWake with the next task to wake, or 0.
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
