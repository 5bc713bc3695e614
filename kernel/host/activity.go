package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// What the host's processes do elsewhere than in our files: they fork, exec and
// exit, and make system calls on other files. The host's kernel does it; the
// guest's does it, too, so that probes see it.

// activityPatience is how long a process may be kept waiting for the guest.
const activityPatience = time.Second

// Watch has begin called at the beginning of each Do, before the guest sees the
// call: what happened earlier on the host comes first. end is called when the
// call is over, before its caller is answered. nil takes them away.
func (h *Host) Watch(begin func(Caller), end func()) {
	if begin == nil {
		h.watch.Store(nil)
		return
	}
	h.watch.Store(&watcher{begin, end})
}

type watcher struct {
	begin func(Caller)
	end   func()
}

// Fork is a thread that the host's kernel has made.
type Fork struct {
	Nr    uint64    // the system call: SYS_clone, SYS_fork, SYS_vfork or SYS_clone3
	Args  [5]uint64 // clone's: flags, stack, and pointers, of which only being nil matters; for clone3 flags and exit_signal are in the first
	Child Caller    // the new thread; TID 0: not known, the guest chooses its pid, and ends it
}

// Linux's clone flags that say that an argument is a pointer.
const (
	cloneParentSettid  = 0x100000
	cloneChildCleartid = 0x200000
	cloneChildSettid   = 0x1000000
	csignal            = 0xff
)

// clone3 is Linux's number of the call, on each architecture.
const clone3 = 435

// Fork runs the system call by which c has made a thread, and makes the guest's
// task for it: its pid is what the call returns.
func (h *Host) Fork(ctx context.Context, c Caller, f Fork) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, activityPatience)
	defer cancel()
	if f.Child.TID != 0 {
		h.retire(f.Child.TID)
	}
	t, err := h.takeNext(ctx, c)
	if err != nil {
		return 0, err
	}
	r := t.request(f.Nr)
	r.tid = uint64(f.Child.TID)
	if f.Child.TID == 0 {
		r.tid = abi.CallTIDAny
	}
	if r.args, err = t.forkArgs(f); err != nil {
		t.release(r)
		return 0, err
	}
	ret, err := t.run(ctx, r, nil)
	if errors.Is(err, errAbandoned) {
		go t.outlive(r)
		return 0, err
	}
	if err == nil && ret > 0 {
		t.adoptChild(ctx, f.Child.TID)
	}
	t.release(r)
	return ret, err
}

// forkArgs puts what the arguments point to into the task's window.
func (t *Task) forkArgs(f Fork) (a [6]uint64, err error) {
	if err := t.needWindow(); err != nil {
		return a, err
	}
	flags := f.Args[0]
	var parent, child uint64
	if flags&cloneParentSettid != 0 {
		parent = t.window()
	}
	if flags&(cloneChildSettid|cloneChildCleartid) != 0 {
		child = t.window() + 8
	}
	switch f.Nr {
	case syscall.SYS_CLONE:
		return [6]uint64{flags, f.Args[1], parent, child, f.Args[4]}, nil
	case clone3:
		const size = 88 // of struct clone_args
		args := [size / 8]uint64{flags &^ csignal, 0, child, parent, flags & csignal, 0, 0, f.Args[4]}
		if f.Args[1] != 0 {
			args[5], args[6] = f.Args[1], 16
		}
		b := t.h.g.Phys(t.pathPA, pathMax)[64:]
		for i, v := range args {
			binary.LittleEndian.PutUint64(b[8*i:], v)
		}
		return [6]uint64{t.window() + 64, size}, nil
	}
	return a, nil
}

// adoptChild takes over the task that the call on t has just made. One that
// nobody on the host is known to be ends at once.
func (t *Task) adoptChild(ctx context.Context, tid int) {
	addr, err := t.h.g.ReadU64(t.addr + abi.CallChild)
	if err != nil || addr == 0 {
		return
	}
	task, err := t.h.g.ReadU64(addr + abi.CallTask)
	if err != nil {
		return
	}
	t.h.claim(addr)
	child := &Task{h: t.h, tid: tid, addr: addr, task: task, slot: -1}
	t.h.mu.Lock()
	t.h.calls[addr] = child
	t.h.mu.Unlock()
	if tid == 0 {
		_, _ = child.run(ctx, newRequest(syscall.SYS_EXIT_GROUP), nil)
		return
	}
	t.h.put(child)
	t.h.wake(task) // it may have asked for work before it was known
}

// Exit ends the guest's task of c, as exit_group does; code is what wait(2)
// tells of the process: the exit status times 256, or the signal that killed it.
// When it returns the task has left its CPU for the last time.
func (h *Host) Exit(ctx context.Context, c Caller, code int) error {
	ctx, cancel := context.WithTimeout(ctx, activityPatience)
	defer cancel()
	t, err := h.takeNext(ctx, c)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.unhold(t)
	h.mu.Unlock()
	ends := append(h.retire(c.TID), h.end(t))
	r := t.request(syscall.SYS_EXIT_GROUP)
	r.args[0] = uint64(code >> 8 & 0xff)
	if code&0x7f != 0 {
		r.nr, r.args[0] = abi.HostKilled, uint64(code&0xff)
	}
	if _, err = t.run(ctx, r, nil); err != nil { // TaskDied does the rest
		return err
	}
	for _, e := range ends {
		select {
		case <-e:
		case <-ctx.Done():
			return fmt.Errorf("a task has not ended: %w", ctx.Err())
		case <-h.done:
			return ErrStopped
		}
	}
	return nil
}

// end gives a channel that TaskDied closes.
func (h *Host) end(t *Task) <-chan struct{} {
	c := make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[t.task] = c
	return c
}

// retire gives up the idle tasks that stand for a thread which is no more, and
// tells of the end of each.
func (h *Host) retire(tid int) (ends []<-chan struct{}) {
	h.mu.Lock()
	var old []*Task
	h.idle = slices.DeleteFunc(h.idle, func(t *Task) bool {
		if t.tid == tid && tid > 0 {
			old = append(old, t)
			return true
		}
		return false
	})
	h.mu.Unlock()
	for _, t := range old {
		ends = append(ends, h.end(t))
		t.giveUp()
	}
	return ends
}

// giveUp has a task without a call leave.
func (t *Task) giveUp() {
	t.mu.Lock()
	t.quit = true
	t.mu.Unlock()
	t.h.wake(t.task)
}

// Syscall is a system call of the host's process that is not about our files.
// The host's kernel does what it asks for.
type Syscall struct {
	Nr     uint64
	Args   [6]uint64
	Text   [6]*string  // arguments that point to strings
	Vector [6][]string // arguments that point to arrays of them: argv, envp
	Mode   uint64      // S_IFMT and permissions of what the path names: abi.CallModeNone for nothing
	Head   [][]byte    // how the files begin that the call reads, in turn
}

// headSize is how much of a file the call may read.
const headSize = 256

// Other runs s in the guest's task of c, and returns what it returned. A
// descriptor that it gave is closed again.
func (h *Host) Other(ctx context.Context, c Caller, s Syscall) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, activityPatience)
	defer cancel()
	t, err := h.takeNext(ctx, c)
	if err != nil {
		return 0, err
	}
	r := t.request(s.Nr)
	r.args, r.mode, r.fops = s.Args, s.Mode, abi.FOpsOther
	err = t.lay(r, s)
	if err == nil && len(s.Head) > 0 {
		err = t.growBounce(1)
		r.buf, r.pages = t.bounce, 1
	}
	if err != nil {
		t.release(r)
		return 0, err
	}
	ret, err := t.run(ctx, r, s.leaf())
	if errors.Is(err, errAbandoned) {
		go t.outlive(r)
		return 0, err
	}
	if err == nil && ret >= 0 && opens(s.Nr) {
		c := newRequest(syscall.SYS_CLOSE)
		c.args[0], c.fops = uint64(ret), abi.FOpsOther
		_, _ = t.run(ctx, c, nil)
	}
	t.release(r)
	return ret, err
}

func opens(nr uint64) bool {
	const openat2 = 437
	return nr == syscall.SYS_OPEN || nr == syscall.SYS_OPENAT || nr == openat2
}

// leaf gives the beginnings of files to who reads them.
func (s *Syscall) leaf() Leaf {
	return func(_ context.Context, op int, _ []byte, count int, _ int64) ([]byte, int64, error) {
		if op != abi.LeafRead || len(s.Head) == 0 {
			return nil, 0, nil
		}
		head := s.Head[0]
		s.Head = s.Head[1:]
		return head[:min(len(head), count, headSize)], 0, nil
	}
}

// maxStrings is how many bytes of strings a call may have; what is more is cut off.
const maxStrings = 64 << 10

// lay puts strings and arrays into the user buffer, and their addresses into
// the arguments.
func (t *Task) lay(r *request, s Syscall) error {
	var b []byte
	type ref struct{ at, to int } // words that hold addresses within b
	var refs []ref
	var args [6]int
	text := func(v string) int {
		v = v[:min(len(v), max(0, maxStrings-len(b)))]
		b = append(append(b, v...), 0)
		return len(b) - len(v) - 1
	}
	for i := range s.Args {
		if s.Text[i] != nil {
			args[i] = 1 + text(*s.Text[i])
		}
		if s.Vector[i] == nil {
			continue
		}
		var at []int
		for _, v := range s.Vector[i] {
			if len(b) >= maxStrings {
				break
			}
			at = append(at, text(v))
		}
		b = append(b, make([]byte, -len(b)&7)...)
		args[i] = 1 + len(b)
		for _, to := range at {
			refs = append(refs, ref{len(b), to})
			b = append(b, make([]byte, 8)...)
		}
		b = append(b, make([]byte, 8)...)
	}
	if err := t.needWindow(); err != nil {
		return err
	}
	if err := t.growBuf(len(b)); err != nil {
		return fmt.Errorf("%d bytes of arguments: %w", len(b), err)
	}
	for _, f := range refs {
		binary.LittleEndian.PutUint64(b[f.at:], t.bufVA+uint64(f.to))
	}
	copy(t.h.g.Phys(t.bufPA, uint64(len(b))), b)
	for i, at := range args {
		if at > 0 {
			r.args[i] = t.bufVA + uint64(at-1)
		}
	}
	return nil
}

// leafKey is where a leaf's context has the task that waits for it.
type leafKey struct{}

type leafOf struct {
	t *Task
	r *request
}

// CallIn calls a guest function with at most two arguments in the task whose
// leaf ctx belongs to; it may sleep. EINVAL: ctx belongs to none, or to one that
// only reads.
func CallIn(ctx context.Context, addr uint64, args ...string) (uint64, error) {
	l, ok := ctx.Value(leafKey{}).(leafOf)
	if !ok || len(args) > 2 {
		return 0, fmt.Errorf("no task waits that could call a function: %w", syscall.EINVAL)
	}
	return l.t.callIn(l.r, addr, args)
}

// CPUIn is the vCPU on which the task runs whose leaf ctx belongs to; 0: ctx
// belongs to none, or to one that only reads.
func CPUIn(ctx context.Context) int {
	l, ok := ctx.Value(leafKey{}).(leafOf)
	if !ok {
		return 0
	}
	v, _ := l.t.h.g.ReadU64(l.t.task + abi.TaskStatus) // thread_info.cpu
	return int(v >> 32)
}

// leafCalls is what CallLeafDone is when a function is to be called.
var leafCalls = []byte{2, 0, 0, 0}

func (t *Task) callIn(r *request, addr uint64, args []string) (uint64, error) {
	g := t.h.g
	pa, err := t.h.alloc(1)
	if err != nil {
		return 0, err
	}
	defer t.h.pool.Free(pa, 1)
	text := g.Phys(pa, abi.PageSize)
	clear(text)
	_ = g.WriteU64(t.addr+abi.CallFunc, addr)
	for i, a := range args {
		off := i * abi.PageSize / 2
		copy(text[off:off+abi.PageSize/2-1], a)
		_ = g.WriteU64(t.addr+abi.CallFunc+8+8*uint64(i), abi.DirectMap+pa+uint64(off))
	}
	t.answerLeaf(r, leafCalls)
	select {
	case e := <-r.events:
		switch {
		case e.ended: // it was killed
			r.events <- e
			return 0, errAbandoned
		case e.op != abi.LeafCalled:
			return 0, fmt.Errorf("the task does something else (%d): %w", e.op, syscall.EIO)
		}
		return g.ReadU64(t.addr + abi.CallLeafRet)
	case <-t.h.done:
		return 0, ErrStopped
	}
}
