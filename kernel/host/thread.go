package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Do makes call on the guest's task of the caller and waits for its end. ret
// is what the system call returned: a count, a descriptor, or -errno. out is
// what the caller's buffer holds after a read. err is set only when the guest
// could not be asked at all.
func (h *Host) Do(ctx context.Context, c Caller, call Call, leaf Leaf) (ret int64, out []byte, err error) {
	if w := h.watch.Load(); w != nil {
		w.begin(c)
		defer w.end()
	}
	t, err := h.take(ctx, c)
	if err != nil {
		return 0, nil, err
	}
	r := t.request(call.Nr)
	r.mode, r.fops = call.Mode, call.FOps
	if err := t.prepare(r, call); err != nil {
		t.release(r)
		return 0, nil, err
	}
	ret, err = t.run(ctx, r, leaf)
	if errors.Is(err, errAbandoned) {
		go t.outlive(r)
		return 0, nil, err
	}
	if err == nil {
		out = t.result(call, ret)
	}
	t.release(r)
	return ret, out, err
}

// release gives a task back when its call has come to an end.
func (t *Task) release(r *request) {
	t.again(r)
	t.h.put(t)
}

// outlive waits for the end of a call whose caller has gone.
func (t *Task) outlive(r *request) {
	gone := func(context.Context, int, []byte, int, int64) ([]byte, int64, error) { return nil, 0, errAbandoned }
	_, _ = t.await(context.Background(), r, gone)
	t.release(r)
}

// take gives a free task of the caller's thread. A thread has one, but callers
// that the host cannot tell apart (TID 0) may be in many calls at once, and so
// may requests that the host's kernel makes in a thread's name.
func (h *Host) take(ctx context.Context, c Caller) (*Task, error) {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return nil, ErrStopped
	}
	i := slices.IndexFunc(h.idle, func(t *Task) bool { return t.tid == c.TID })
	if i >= 0 {
		t := h.idle[i]
		h.idle = slices.Delete(h.idle, i, i+1)
		h.held[t] = struct{}{}
		h.mu.Unlock()
		return t, nil
	}
	h.mu.Unlock()
	t, err := h.create(ctx, c)
	if err == nil {
		h.mu.Lock()
		h.held[t] = struct{}{}
		h.mu.Unlock()
	}
	return t, err
}

// closing is how long what a thread does next may wait for the end of its last call.
const closing = 200 * time.Millisecond

// takeNext is take for what the thread itself does, which it does one after the
// other: the host does not wait for the end of a close(2) before it lets the thread
// go on, so this waits for it.
func (h *Host) takeNext(ctx context.Context, c Caller) (*Task, error) {
	late := time.NewTimer(closing)
	defer late.Stop()
	for {
		ended := h.inCall(c.TID)
		if ended == nil {
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

// inCall gives a channel that is closed when some call ends; nil: the thread has no
// task, or one without a call.
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

// unhold says that a task's call has ended. It needs mu.
func (h *Host) unhold(t *Task) {
	delete(h.held, t)
	if h.unheld != nil {
		close(h.unheld)
		h.unheld = nil
	}
}

// put ends a call's hold; the longest unused tasks are given up when there are too many.
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
	h.mu.Unlock()
	if old != nil {
		old.giveUp()
	}
}

// Kthread makes a task of the guest for the machine's own use: Func calls
// functions on it, which may sleep.
func (h *Host) Kthread(ctx context.Context, name string) (*Task, error) {
	return h.create(ctx, Caller{TID: kthreadTID, Comm: func() string { return name }})
}

// kthreadTID is no thread of the host; the guest gives such a task a pid of its own.
const kthreadTID = -1

// create asks the guest's manager for a task.
func (h *Host) create(ctx context.Context, c Caller) (*Task, error) {
	comm := "unknown"
	if c.TID != 0 && c.Comm != nil {
		comm = c.Comm()
	}
	h.mu.Lock()
	manager := h.manager
	h.mu.Unlock()
	if manager == nil {
		return nil, fmt.Errorf("the guest has not booted: %w", syscall.EIO)
	}
	pa, err := h.alloc(1)
	if err != nil {
		return nil, err
	}
	defer h.pool.Free(pa, 1)
	name := make([]byte, abi.TaskCommLen)
	copy(name[:abi.TaskCommLen-1], comm)
	copy(h.g.Phys(pa, abi.TaskCommLen), name)
	r := newRequest(abi.HostNewTask)
	r.args = [6]uint64{uint64(max(c.TID, 0)), uint64(c.PID), abi.DirectMap + pa}
	ret, err := manager.run(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	if ret >= -4095 && ret <= 0 {
		return nil, fmt.Errorf("the guest makes no task for %s: %w", comm, syscall.Errno(-ret))
	}
	t := &Task{h: h, tid: c.TID, slot: -1}
	return t, h.adopt(t, uint64(ret))
}

// adopt ties a new guest task to t and gives it a user window.
func (h *Host) adopt(t *Task, addr uint64) error {
	task, err := h.g.ReadU64(addr + abi.CallTask)
	if err != nil {
		return fmt.Errorf("host_call at %#x: %w", addr, err)
	}
	t.addr, t.task = addr, task
	h.mu.Lock()
	h.calls[addr] = t
	h.mu.Unlock()
	return t.needWindow()
}

// needWindow gives t a user window if it has none yet: a task that stands for a
// thread which never calls needs none.
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

// forget frees what belongs to a task that has left. It waits for all vCPUs
// (UnmapUser), so it has a goroutine of its own.
func (h *Host) forget(t *Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[t.addr] == t {
		delete(h.calls, t.addr)
	}
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

// prepare lays out arguments and buffers.
func (t *Task) prepare(r *request, call Call) error {
	size := call.Count
	if call.Nr == syscall.SYS_WRITE {
		size = len(call.Data)
	}
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
	if err := t.growBuf(size); err != nil {
		return err
	}
	if size > 0 {
		r.pages = (size + abi.PageSize - 1) / abi.PageSize
		if err := t.growBounce(r.pages); err != nil {
			return err
		}
		r.buf = t.bounce
	}
	if call.Nr == syscall.SYS_WRITE && t.bufPages > 0 {
		// What the caller has behind the data nobody tells us; zeros, so that a
		// probe sees where a text ends and not what the last call left there.
		room := min(size/abi.PageSize+1, t.bufPages) * abi.PageSize
		b := t.h.g.Phys(t.bufPA, uint64(room))
		clear(b[copy(b, call.Data):])
	}
	r.args = t.args(call, size)
	return nil
}

// args are those of the system call, as user space would pass them.
func (t *Task) args(call Call, size int) [6]uint64 {
	const atFDCWD = 0xffffff9c // -100, in an int: what user code loads into edi
	switch call.Nr {
	case syscall.SYS_OPENAT:
		return [6]uint64{atFDCWD, t.window(), call.Flags, 0}
	case syscall.SYS_NEWFSTATAT:
		return [6]uint64{atFDCWD, t.window(), t.bufVA, 0}
	case syscall.SYS_READ, syscall.SYS_WRITE, syscall.SYS_GETDENTS64:
		return [6]uint64{uint64(call.FD), t.bufVA, uint64(size)}
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

// alloc gives n pages of RAM for buffers. When there are none left, tasks that
// are not in a call give theirs up.
func (h *Host) alloc(n int) (uint64, error) {
	for {
		pa, err := h.pool.Alloc(n)
		if err == nil {
			return pa, nil
		}
		h.mu.Lock()
		i := slices.IndexFunc(h.idle, func(t *Task) bool { return t.bufPages+t.bouncePages > 0 })
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

// freeBuf takes the user buffer away; nobody may be using it.
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

// growBounce makes the bounce buffer hold so many pages.
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

// growBuf makes the user buffer hold n bytes. A larger one gets new addresses,
// so that a vCPU cannot have seen them with other memory; unmapping clears what
// vCPUs remember.
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
	clear(t.h.g.Phys(pa, uint64(size)*abi.PageSize)) // other tasks' data has been there
	va := t.window() + uint64(size)*abi.PageSize     // sizes are powers of two: no two overlap
	if err := t.h.g.MapUser(va, pa, uint64(size)); err != nil {
		t.h.pool.Free(pa, size)
		return err
	}
	t.freeBuf()
	t.bufVA, t.bufPA, t.bufPages = va, pa, size
	return nil
}

// result copies what a read left in the user buffer.
func (t *Task) result(call Call, ret int64) []byte {
	if call.Nr != syscall.SYS_READ && call.Nr != syscall.SYS_GETDENTS64 || ret <= 0 {
		return nil
	}
	return append(call.Into[:0], t.h.g.Phys(t.bufPA, uint64(min(ret, int64(call.Count))))...)
}
