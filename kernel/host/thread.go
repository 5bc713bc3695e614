package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Do makes a system call on the guest's task of the caller, runs op when the guest
// comes to the file's operation, and waits for the end. ret is the result of the
// system call: a count, a descriptor, or -errno. out is what a read has left in the
// caller's buffer. err is set only when there is no such result.
func (h *Host) Do(ctx context.Context, c Caller, call Call, op FileOp) (ret int64, out []byte, err error) {
	t, err := h.taskFor(ctx, c, call.Nr)
	if err != nil {
		return 0, nil, err
	}
	if call.Nr != abi.HostRelease {
		defer h.after.call(c)
	}
	r := t.request(call.Nr)
	r.mode, r.fops, r.files = call.Mode, call.FOps, c.files()
	if call.Files != 0 {
		r.files = uint64(max(call.Files, 0))
	}
	if err := t.prepare(r, call); err != nil {
		t.release(r)
		return 0, nil, err
	}
	ret, err = t.run(ctx, r, op)
	if errors.Is(err, ErrAbandoned) {
		if h.driver == nil {
			go t.releaseLater(r)
		}
		return 0, nil, err
	}
	if err == nil {
		out = t.result(call, ret)
	}
	t.release(r)
	return ret, out, err
}

// taskFor returns the task for a call of c. Before a call the guest repeats what
// happened on the host (Before), but not before the release of a file, which that may wait
// for (AwaitClosed). The thread that closed a file may have ended before
// the release if the file was on its way to another process; the call is then one of
// an unknown thread.
func (h *Host) taskFor(ctx context.Context, c Caller, nr uint64) (*Task, error) {
	if nr == abi.HostRelease {
		if c.TID != 0 && h.Ended(c.TID) {
			c = Caller{}
		}
		return h.takeNext(ctx, c)
	}
	h.before.call(c)
	return h.take(ctx, c)
}

// Ended reports whether a thread of the host has ended and has no task. A task made for it
// would have no name.
func (h *Host) Ended(tid int) bool { return !h.Knows(tid) && !h.lives(tid) }

// Knows reports whether a thread has a task.
func (h *Host) Knows(tid int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.held {
		if t.tid == tid {
			return true
		}
	}
	return slices.ContainsFunc(h.idle, func(t *Task) bool { return t.tid == tid })
}

// Busy reports whether a thread's task is in a call.
func (h *Host) Busy(tid int) bool { return h.inCall(tid) != nil }

// lives reports whether a thread of the host has not ended.
func (h *Host) lives(tid int) bool {
	if h.driver != nil { // threads have numbers of the machine's own
		return true
	}
	state, ok := proc.Status(tid, "State")
	return ok && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// OnAwaitClosed sets the function with which AwaitClosed waits.
func (h *Host) OnAwaitClosed(wait func(context.Context) bool) { h.awaitClosed.Store(&wait) }

// AwaitClosed waits until the files whose last close(2) has returned are released, and
// reports whether they are: it does not wait after the end of ctx.
// On Linux they are when close(2) returns, and before the end of a process that had
// them open; FUSE does not wait for its RELEASE.
func (h *Host) AwaitClosed(ctx context.Context) bool {
	wait := h.awaitClosed.Load()
	return wait == nil || (*wait)(ctx)
}

// release puts a task back at the end of its call. After Stop the call may not have ended:
// a vCPU may still be reading r.
func (t *Task) release(r *request) {
	select {
	case <-t.h.done:
	default:
		t.recycle(r)
	}
	t.h.put(t)
}

// releaseLater waits for the end of a call that run has abandoned, and gives the task
// back.
func (t *Task) releaseLater(r *request) {
	_, _ = t.outlive(r)
	t.release(r)
}

// maxTries bounds how often take asks for a task again. Twice is enough: a task that is
// adopted has a number.
const maxTries = 10

// take returns a free task of the caller's thread. A thread has one task, or more
// where it has several requests at once: the host's kernel makes requests in a
// thread's name, and callers that cannot be told apart share the TID 0.
func (h *Host) take(ctx context.Context, c Caller) (*Task, error) {
	for tries := 0; ; tries++ {
		t, err := h.takeIdle(c.TID)
		if t != nil || err != nil {
			return t, err
		}
		t, err = h.create(ctx, c, anyCPU)
		if errors.Is(err, errAdopted) && tries < maxTries {
			continue // the task is idle now, or has a number, so that the guest makes another one
		}
		if err == nil {
			h.mu.Lock()
			h.held[t] = struct{}{}
			h.mu.Unlock()
			t.follow()
		}
		return t, err
	}
}

// takeIdle returns the task of a thread if it has one that is in no call, else nil.
func (h *Host) takeIdle(tid int) (*Task, error) {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return nil, ErrStopped
	}
	i := slices.IndexFunc(h.idle, func(t *Task) bool { return t.tid == tid })
	if i < 0 {
		h.mu.Unlock()
		return nil, nil
	}
	t := h.idle[i]
	h.idle = slices.Delete(h.idle, i, i+1)
	h.held[t] = struct{}{}
	h.mu.Unlock()
	t.follow()
	return t, nil
}

// lastCallPatience is how long a thread's next call may wait for the end of its last
// one.
const lastCallPatience = 200 * time.Millisecond

// takeNext is take for the calls that a thread makes itself, one after the other. It
// waits for the end of the one before, since the host lets a thread go on before the
// release after its close(2) is over.
func (h *Host) takeNext(ctx context.Context, c Caller) (*Task, error) {
	late := time.NewTimer(lastCallPatience)
	defer late.Stop()
	for {
		ended := h.inCall(c.TID)
		if ended == nil || h.driver != nil {
			return h.take(ctx, c)
		}
		select {
		case <-ended:
		case <-late.C:
			return h.take(ctx, c)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// inCall returns a channel that is closed when the next call ends, or nil if the
// thread has no task or a free one.
func (h *Host) inCall(tid int) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if tid <= 0 || slices.ContainsFunc(h.idle, func(t *Task) bool { return t.tid == tid }) {
		return nil
	}
	for t := range h.held {
		if t.tid == tid {
			if h.unheld == nil {
				h.unheld = make(chan struct{})
			}
			return h.unheld
		}
	}
	return nil
}

// unhold notes the end of a task's call. It needs mu.
func (h *Host) unhold(t *Task) {
	delete(h.held, t)
	if h.unheld != nil {
		close(h.unheld)
		h.unheld = nil
	}
}

// put puts a task back. When too many are idle, the one that was not used for the
// longest time is given up; only the latest keep their buffers.
func (h *Host) put(t *Task) {
	t.mu.Lock()
	dead := t.quit
	t.mu.Unlock()
	h.mu.Lock()
	h.unhold(t)
	if dead {
		h.mu.Unlock()
		return
	}
	h.idle = append(h.idle, t)
	var old *Task
	if len(h.idle) > maxTasks {
		old = h.idle[0]
		h.idle = slices.Delete(h.idle, 0, 1)
	}
	many := len(h.idle) > maxBuffers && h.idle[len(h.idle)-1-maxBuffers].hasBuffers()
	h.mu.Unlock()
	if old != nil {
		old.giveUp()
	}
	if many {
		h.later(h.freeBuffers)
	}
}

// freeBuffers frees the buffers of idle tasks but for those that were used last: most belong to
// programs that have ended, and each would have its buffers touched in RAM of its own.
func (h *Host) freeBuffers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.idle[:max(len(h.idle)-maxBuffers, 0)] {
		t.freeBuf()
		t.freeBounce()
	}
}

// Kthread makes a task of the guest for the machine's own use. The functions that
// Func calls on it may sleep.
func (h *Host) Kthread(ctx context.Context, name string) (*Task, error) {
	return h.create(ctx, Caller{TID: kthreadTID, Comm: func() string { return name }}, anyCPU)
}

// KthreadOn is Kthread for a task that runs on one vCPU only.
func (h *Host) KthreadOn(ctx context.Context, name string, cpu int) (*Task, error) {
	return h.create(ctx, Caller{TID: kthreadTID, Comm: func() string { return name }}, cpu)
}

const (
	kthreadTID = -1 // no thread of the host; the guest gives such a task a pid of its own
	anyCPU     = -1
)

// makerPatience is how long one task of the guest may take to make a new one before
// another is asked as well.
const makerPatience = 100 * time.Millisecond

// created is a new task, or the reason why there is none.
type created struct {
	t   *Task
	err error
}

// create has the guest's manager make a task, or the makers if the manager is stuck.
func (h *Host) create(ctx context.Context, c Caller, cpu int) (*Task, error) {
	comm := "unknown"
	if c.TID != 0 && c.Comm != nil {
		comm = c.Comm()
	}
	h.mu.Lock()
	manager, makers := h.manager, h.makers
	h.mu.Unlock()
	if manager == nil {
		return nil, fmt.Errorf("the guest has not booted: %w", syscall.EIO)
	}
	if h.driver != nil {
		return h.make(ctx, manager, c, comm, cpu)
	}
	making, enough := context.WithCancel(context.WithoutCancel(ctx))
	made := make(chan created, 1+len(makers))
	asked := 0
	ask := func(maker *Task) {
		asked++
		go func() {
			t, err := h.make(making, maker, c, comm, cpu)
			made <- created{t, err}
		}()
	}
	defer func() {
		enough()
		go discardLate(made, asked)
	}()
	ask(manager)
	slow := time.NewTicker(makerPatience)
	defer slow.Stop()
	interrupted := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case m := <-made:
			asked--
			if errors.Is(m.err, errAdopted) && asked > 0 {
				continue // the same task is the answer to another request
			}
			return m.t, m.err
		case <-slow.C:
			if len(makers) > 0 && makers[0].free() {
				ask(makers[0])
			}
			makers = makers[min(1, len(makers)):]
		case <-interrupted:
			interrupted, late = nil, time.After(Patience(ctx))
		case <-late:
			return nil, fmt.Errorf("the guest makes no task: %w", syscall.EINTR)
		}
	}
}

// discardLate gives up the tasks that n makers make too late.
func discardLate(made <-chan created, n int) {
	for range n {
		if m := <-made; m.t != nil {
			m.t.giveUp()
		}
	}
}

// free reports that the task has nothing to do.
func (t *Task) free() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cur == nil && len(t.queue) == 0 && !t.quit
}

// make has maker make a task. When ctx ends after the guest has begun, make still
// waits for the end: the guest reads the name, and the new task needs an owner.
func (h *Host) make(ctx context.Context, maker *Task, c Caller, comm string, cpu int) (*Task, error) {
	pa, err := h.alloc(1)
	if err != nil {
		return nil, err
	}
	defer h.pool.Free(pa, 1)
	name := make([]byte, abi.TaskCommLen)
	copy(name[:abi.TaskCommLen-1], comm)
	copy(h.g.Phys(pa, abi.TaskCommLen), name)
	r := newRequest(abi.HostNewTask)
	r.args = [6]uint64{uint64(max(c.TID, 0)), uint64(c.PID), abi.DirectMap + pa, uint64(cpu + 1)}
	ret, err := maker.run(ctx, r, nil)
	if errors.Is(err, ErrAbandoned) && h.driver == nil {
		ret, err = maker.outlive(r)
	}
	if err != nil {
		return nil, err
	}
	if ret >= -4095 && ret <= 0 {
		return nil, fmt.Errorf("the guest makes no task for %s: %w", comm, syscall.Errno(-ret))
	}
	t := &Task{h: h, tid: c.TID, slot: -1}
	return t, h.adopt(t, uint64(ret))
}

// errAdopted means that a guest task belongs to a Task already. The guest returns a task
// of the thread that has no number yet instead of a new one, so two requests that it
// carries out at the same time can have the same answer.
var errAdopted = errors.New("the guest's task is adopted already")

// adopt ties a new guest task to t and gives it a user window. It fails with errAdopted
// if the task belongs to another Task.
func (h *Host) adopt(t *Task, addr uint64) error {
	if err := h.enter(t, addr); err != nil {
		return err
	}
	return t.needWindow()
}

// enter ties the guest task whose struct host_call is at addr to t, in the table of
// tasks. It fails with errAdopted if the task belongs to another Task.
func (h *Host) enter(t *Task, addr uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.find(addr) != nil {
		return errAdopted
	}
	task, err := h.g.ReadU64(addr + abi.CallTask)
	if err != nil {
		return fmt.Errorf("host_call at %#x: %w", addr, err)
	}
	t.addr, t.task = addr, task
	h.calls.Store(addr, t)
	return nil
}

// needWindow allocates a user window for t if it has none. The task of a thread that
// makes no call needs none.
func (t *Task) needWindow() error {
	if t.slot >= 0 {
		return nil
	}
	pa, err := t.h.alloc(1)
	if err != nil {
		return err
	}
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	t.slot, t.pathPA = t.h.takeSlot(), pa
	return t.h.g.MapUser(t.window(), pa, 1)
}

// takeSlot needs h.mu.
func (h *Host) takeSlot() int {
	i := slices.Index(h.slots, false)
	if i < 0 {
		h.slots = append(h.slots, false)
		i = len(h.slots) - 1
	}
	h.slots[i] = true
	return i
}

func (t *Task) window() uint64 { return abi.UserBase + uint64(t.slot)*abi.UserWindow }

// forget frees the memory of a task that has ended. UnmapUser waits for all vCPUs, so
// forget runs in a goroutine of its own.
func (h *Host) forget(t *Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls.CompareAndDelete(t.addr, t)
	t.freeBounce()
	if t.slot < 0 {
		return
	}
	h.g.UnmapUser(t.window(), 1)
	h.pool.Free(t.pathPA, 1)
	t.freeBuf()
	h.slots[t.slot] = false
	t.slot = -1
}

// prepare sets up the arguments and buffers of a call.
func (t *Task) prepare(r *request, call Call) error {
	size := max(call.Count, len(call.Data))
	if size > MaxIO {
		return fmt.Errorf("a call with %d bytes: %w", size, syscall.EINVAL)
	}
	if err := t.needWindow(); err != nil {
		return err
	}
	if call.Path != "" {
		if err := t.setPath(call.Path); err != nil {
			return err
		}
	}
	room := size
	if call.Nr == abi.SysNewfstatat {
		room = abi.SizeofStat
	}
	if err := t.growBuf(room); err != nil {
		return err
	}
	if size > 0 {
		r.pages = (size + abi.PageSize - 1) / abi.PageSize
		if err := t.growBounce(r.pages); err != nil {
			return err
		}
		r.buf = t.bounce
	}
	if (len(call.Data) > 0 || call.Nr == abi.SysWrite || call.Nr == abi.SysIoctl) && t.bufPages > 0 {
		// FUSE does not tell what the caller's memory holds after the data. Zeros end
		// the text for a probe that reads a string there.
		room := min(size/abi.PageSize+1, t.bufPages) * abi.PageSize
		b := t.h.g.Phys(t.bufPA, uint64(room))
		clear(b[copy(b, call.Data):])
	}
	r.args = t.args(call, size)
	return nil
}

// args returns the arguments of the system call as user space would pass them.
func (t *Task) args(call Call, size int) [6]uint64 {
	const atFDCWD = 0xffffff9c // -100, in an int: what user code loads into edi
	switch call.Nr {
	case abi.SysOpenat:
		return [6]uint64{atFDCWD, t.window(), call.Flags, 0}
	case abi.SysNewfstatat:
		return [6]uint64{atFDCWD, t.window(), t.bufVA, 0}
	case abi.SysRead, abi.SysWrite, abi.SysGetdents64:
		return [6]uint64{uint64(call.FD), t.bufVA, uint64(size)}
	case abi.SysPread64, abi.SysPwrite64:
		return [6]uint64{uint64(call.FD), t.bufVA, uint64(size), uint64(call.Pos)}
	case abi.SysLseek:
		return [6]uint64{uint64(call.FD), uint64(call.Pos), call.How}
	case abi.SysIoctl:
		if size > 0 {
			return [6]uint64{uint64(call.FD), call.How, t.bufVA}
		}
		return [6]uint64{uint64(call.FD), call.How, call.Arg}
	case abi.HostPoll:
		return [6]uint64{uint64(call.FD), call.How, call.Arg}
	}
	return [6]uint64{uint64(call.FD)}
}

func (t *Task) setPath(path string) error {
	if len(path) >= pathMax {
		return fmt.Errorf("path of %d bytes: %w", len(path), syscall.ENAMETOOLONG)
	}
	b := t.h.g.Phys(t.pathPA, pathMax)
	copy(b, path)
	b[len(path)] = 0
	return nil
}

// alloc returns n pages of RAM for buffers. If there are none left, it takes
// idle tasks'.
func (h *Host) alloc(n int) (uint64, error) {
	for {
		pa, err := h.pool.Alloc(n)
		if err == nil {
			return pa, nil
		}
		h.mu.Lock()
		i := slices.IndexFunc(h.idle, (*Task).hasBuffers)
		if i >= 0 {
			h.idle[i].freeBuf()
			h.idle[i].freeBounce()
		}
		h.mu.Unlock()
		if i < 0 {
			return 0, err
		}
	}
}

func (t *Task) hasBuffers() bool { return t.bufPages+t.bouncePages > 0 }

// freeBuf frees the user buffer of a task that is in no call.
func (t *Task) freeBuf() {
	if t.bufPages > 0 {
		t.h.g.UnmapUser(t.bufVA, uint64(t.bufPages))
		t.h.pool.Free(t.bufPA, t.bufPages)
		t.bufPages = 0
	}
}

func (t *Task) freeBounce() {
	if t.bouncePages > 0 {
		t.h.pool.Free(t.bounce, t.bouncePages)
		t.bouncePages = 0
	}
}

// growBounce makes the bounce buffer at least so many pages long.
func (t *Task) growBounce(pages int) error {
	if pages <= t.bouncePages {
		return nil
	}
	t.freeBounce()
	pa, err := t.h.alloc(pages)
	if err != nil {
		return err
	}
	t.bounce, t.bouncePages = pa, pages
	return nil
}

// growBuf makes the user buffer at least n bytes long. A larger one gets addresses of
// its own, which no TLB can have with other memory; unmapping flushes the old ones.
func (t *Task) growBuf(n int) error {
	pages := (n + abi.PageSize - 1) / abi.PageSize
	if pages <= t.bufPages {
		return nil
	}
	size := 16
	for size < pages {
		size *= 2
	}
	pa, err := t.h.alloc(size)
	if err != nil {
		return err
	}
	clear(t.h.g.Phys(pa, uint64(size)*abi.PageSize)) // of other tasks' data
	va := t.window() + uint64(size)*abi.PageSize     // sizes are powers of two: no two overlap
	if err := t.h.g.MapUser(va, pa, uint64(size)); err != nil {
		t.h.pool.Free(pa, size)
		return err
	}
	t.freeBuf()
	t.bufVA, t.bufPA, t.bufPages = va, pa, size
	return nil
}

// result copies the data of a read out of the user buffer.
func (t *Task) result(call Call, ret int64) []byte {
	switch {
	case call.Nr == abi.SysIoctl && ret >= 0:
		ret = int64(call.Count)
	case call.Nr != abi.SysRead && call.Nr != abi.SysPread64 && call.Nr != abi.SysGetdents64:
		return nil
	}
	if ret <= 0 {
		return nil
	}
	return append(call.Into[:0], t.h.g.Phys(t.bufPA, uint64(min(ret, int64(call.Count))))...)
}
