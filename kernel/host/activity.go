package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// The host's processes also fork, exec and exit, and make system calls on other
// files. The host's kernel carries these out; the guest repeats them, so that probes
// see them.

// activityTime limits ctx to the time that the guest has for such a call. end takes
// the call's error.
func (h *Host) activityTime(ctx context.Context) (_ context.Context, end func(error)) {
	d := h.callTime.Now()
	ctx, cancel := context.WithTimeout(ctx, d)
	return ctx, func(err error) {
		switch {
		case err == nil:
			h.callTime.InTime()
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			h.callTime.Late(d)
		}
		cancel()
	}
}

// hook is a function that each request calls while there is one.
type hook struct{ f atomic.Pointer[func(Caller)] }

func (h *hook) set(f func(Caller)) {
	if f == nil {
		h.f.Store(nil)
		return
	}
	h.f.Store(&f)
}

func (h *hook) call(c Caller) {
	if f := h.f.Load(); f != nil {
		(*f)(c)
	}
}

// Before has each Do call f before the guest sees its call, so that the guest can repeat
// first what happened earlier on the host. A nil f ends this.
func (h *Host) Before(f func(Caller)) { h.before.set(f) }

// After has each Do call f when its call is over, before the caller is answered. It counts for
// requests that are under way, too. A nil f ends this.
func (h *Host) After(f func(Caller)) { h.after.set(f) }

// Fork is a thread that the host's kernel has made.
type Fork struct {
	Nr    uint64    // the system call: SYS_clone, SYS_fork, SYS_vfork or SYS_clone3
	Args  [5]uint64 // clone's flags, stack and pointers, which count only as nil or not; clone3's flags and exit_signal are both in the first
	Stack uint64    // of clone3: the size of the stack in bytes
	Size  uint64    // of clone3: the size of its arguments in bytes; 0 means all that there are
	Child Caller    // the new thread; with TID 0, which means not known, the guest chooses a pid and ends the task
	Quiet bool      // no probe sees it
}

// Clone flags that make an argument a pointer, and the mask of the exit signal.
const (
	cloneParentSettid  = 0x100000
	cloneChildCleartid = 0x200000
	cloneChildSettid   = 0x1000000
	csignal            = 0xff
)

// Fork repeats the system call by which c has made a thread. The guest's new task
// stands for that thread, and its pid is the result.
func (h *Host) Fork(ctx context.Context, c Caller, f Fork) (_ int64, err error) {
	ctx, end := h.activityTime(ctx)
	defer func() { end(err) }()
	if f.Child.TID != 0 {
		h.retire(f.Child.TID)
	}
	t, err := h.takeNext(ctx, c)
	if err != nil {
		return 0, err
	}
	r := t.request(f.Nr)
	r.tid, r.files = uint64(f.Child.TID), c.files()
	if f.Child.TID == 0 {
		r.tid = abi.CallTIDAny
	}
	if r.args, err = t.forkArgs(f); err != nil {
		t.release(r)
		return 0, err
	}
	if f.Quiet {
		defer t.quietly()()
	}
	ret, err := t.run(ctx, r, nil)
	if errors.Is(err, ErrAbandoned) {
		go t.releaseLater(r)
		return 0, err
	}
	if err == nil && ret > 0 {
		t.adoptChild(ctx, f.Child.TID)
	}
	t.release(r)
	return ret, err
}

// forkArgs returns the arguments of f's system call, and writes the memory that they
// point to into the task's window.
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
	case abi.SysClone:
		return [6]uint64{flags, f.Args[1], parent, child, f.Args[4]}, nil
	case abi.SysClone3:
		const size = 88 // of struct clone_args
		args := [size / 8]uint64{flags &^ csignal, 0, child, parent, flags & csignal, f.Args[1], f.Stack, f.Args[4]}
		b := t.h.g.Phys(t.pathPA, pathMax)[64:]
		for i, v := range args {
			binary.LittleEndian.PutUint64(b[8*i:], v)
		}
		if f.Size != 0 && f.Size < size {
			return [6]uint64{t.window() + 64, f.Size}, nil
		}
		return [6]uint64{t.window() + 64, size}, nil
	}
	return a, nil
}

// adoptChild takes over the task that the call on t has just made. If the thread that
// it stands for is not known, the task ends at once.
func (t *Task) adoptChild(ctx context.Context, tid int) {
	addr, err := t.h.g.ReadU64(t.addr + abi.CallChild)
	if err != nil || addr == 0 {
		return
	}
	child := &Task{h: t.h, tid: tid, slot: -1}
	if t.h.enter(child, addr) != nil {
		return // a request of its thread came before
	}
	t.h.claim(addr)
	if tid == 0 {
		_, _ = child.run(ctx, newRequest(abi.SysExitGroup), nil)
		return
	}
	t.h.put(child)
	t.h.wake(child.task) // it may have asked for work before it was in the table
}

// EnsureTask makes a task for c if there is none.
func (h *Host) EnsureTask(ctx context.Context, c Caller) error {
	of := func(t *Task) bool { return t.tid == c.TID }
	h.mu.Lock()
	known := slices.ContainsFunc(h.idle, of)
	for t := range h.held {
		known = known || of(t)
	}
	h.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, activityPatience)
	defer cancel()
	t, err := h.take(ctx, c)
	if err == nil {
		h.put(t)
	}
	return err
}

// Exit ends the guest's task of c by exit_group. code is wait(2)'s status of the
// process: the exit status times 256, or the signal that killed it. When Exit
// returns, the task has left its CPU for the last time.
func (h *Host) Exit(ctx context.Context, c Caller, code int) error {
	return h.ExitBy(ctx, c, code, abi.SysExitGroup)
}

// ExitBy is Exit by a certain call: SysExit, SysExitGroup, or HostKilled for a thread that
// makes none, since another one has ended the process. A code with a signal is always
// the latter's.
func (h *Host) ExitBy(ctx context.Context, c Caller, code int, nr uint64) (err error) {
	ctx, end := h.activityTime(ctx)
	defer func() { end(err) }()
	t, err := h.takeNext(ctx, c)
	if err != nil {
		return err
	}
	if err := t.forgetTable(ctx, c); err != nil {
		return err // the task is stuck; TaskDied does the rest
	}
	h.mu.Lock()
	h.unhold(t)
	h.mu.Unlock()
	ends := append(h.retire(c.TID), h.end(t))
	r := t.request(nr)
	r.args[0], r.files = uint64(code>>8&0xff), c.files()
	switch {
	case code&0x7f != 0:
		r.nr, r.args[0] = abi.HostKilled, uint64(code&0xff)
	case nr == abi.HostKilled:
		r.args[0], r.args[1] = uint64(syscall.SIGKILL), uint64(code&0xff00)
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

// end returns a channel that TaskDied closes for t.
func (h *Host) end(t *Task) <-chan struct{} {
	c := make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[t.task] = c
	return c
}

// retire gives up the idle tasks of a thread that has ended. Each of the channels that
// it returns is closed at the end of one task.
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

// giveUp ends a task that is in no call.
func (t *Task) giveUp() {
	t.mu.Lock()
	t.quit = true
	t.mu.Unlock()
	t.h.wake(t.task)
}

// Syscall is a system call of a process of the host that is not about our files. The
// host's kernel carries it out.
type Syscall struct {
	Nr     uint64
	Args   [6]uint64
	Text   [6]*string  // arguments that point to strings
	Vector [6][]string // arguments that point to arrays of them: argv, envp
	Mode   uint64      // S_IFMT and permissions of the file that the path names, or abi.CallModeNone if there is none
	Head   [][]byte    // the beginnings of the files that the call reads, in turn

	Refused *bool // if not nil, is set to whether a program has left out a function of the guest in the call

	HeadErr syscall.Errno // the error of reading the next file; 0 means that there is none
	Quiet   bool          // no probe sees it
}

// headSize is how much of a file the call may read: BINPRM_BUF_SIZE.
const headSize = 256

// Other makes system call s on the guest's task of c and returns its result. It
// closes the descriptor that an open has returned.
func (h *Host) Other(ctx context.Context, c Caller, s Syscall) (_ int64, err error) {
	ctx, end := h.activityTime(ctx)
	defer func() { end(err) }()
	t, err := h.takeNext(ctx, c)
	if err != nil {
		return 0, err
	}
	r := t.request(s.Nr)
	r.args, r.mode, r.fops, r.files = s.Args, s.Mode, abi.FOpsOther, c.files()
	err = t.setStrings(r, s)
	if err == nil && (len(s.Head) > 0 || s.HeadErr != 0) {
		err = t.growBounce(1)
		r.buf, r.pages = t.bounce, 1
	}
	if err != nil {
		t.release(r)
		return 0, err
	}
	if s.Quiet {
		defer t.quietly()()
	}
	ret, err := t.run(ctx, r, s.fileOp())
	if errors.Is(err, ErrAbandoned) {
		go t.releaseLater(r)
		return 0, err
	}
	if err == nil && ret >= 0 && opens(s.Nr) {
		shut := newRequest(abi.SysClose)
		shut.args[0], shut.fops, shut.files = uint64(ret), abi.FOpsOther, c.files()
		_, _ = t.run(ctx, shut, nil)
	}
	if s.Refused != nil {
		*s.Refused = t.refused.Load()
	}
	t.release(r)
	return ret, err
}

// quietly has no probe see what the task executes until the function that it returns is called.
func (t *Task) quietly() (end func()) {
	t.h.mirrors.Add(1)
	_ = t.h.g.WriteU64(t.addr+abi.CallQuiet, 1)
	return func() {
		_ = t.h.g.WriteU64(t.addr+abi.CallQuiet, 0)
		t.h.mirrors.Add(-1)
	}
}

func opens(nr uint64) bool {
	return nr == abi.SysOpen || nr == abi.SysOpenat || nr == abi.SysOpenat2 || nr == abi.SysCreat
}

// fileOp answers the reads of the call with the heads of the files, one after the other.
func (s *Syscall) fileOp() FileOp {
	return func(_ context.Context, op Op) (int, error) {
		if op.Kind != abi.OpRead {
			return 0, nil
		}
		if len(s.Head) == 0 {
			if s.HeadErr != 0 {
				return 0, s.HeadErr
			}
			return 0, nil
		}
		head := s.Head[0]
		s.Head = s.Head[1:]
		return copy(op.Buf, head[:min(len(head), headSize)]), nil
	}
}

// maxStrings limits the strings of a call, bytes. More than that is cut off.
const maxStrings = 64 << 10

// setStrings puts strings and arrays of them into the user buffer, and their addresses
// into the arguments.
func (t *Task) setStrings(r *request, s Syscall) error {
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

// fileOpKey is the key of a FileOp's context for the task that waits for it.
type fileOpKey struct{}

type fileOpTask struct {
	t *Task
	r *request
}

// CallIn calls a guest function with at most two arguments, which may sleep, in the
// task that waits for a FileOp. ctx is the FileOp's context. Only operations that open
// or write can do so: with another context CallIn gives EINVAL.
func CallIn(ctx context.Context, addr uint64, args ...string) (uint64, error) {
	w, ok := ctx.Value(fileOpKey{}).(fileOpTask)
	if !ok || len(args) > 2 {
		return 0, fmt.Errorf("no task waits that could call a function: %w", syscall.EINVAL)
	}
	return w.t.callIn(ctx, w.r, addr, args)
}

// CPUIn returns the vCPU of the task that waits for a FileOp. ctx is the FileOp's
// context. CPUIn returns 0 where CallIn gives EINVAL.
func CPUIn(ctx context.Context) int {
	w, ok := ctx.Value(fileOpKey{}).(fileOpTask)
	if !ok {
		return 0
	}
	v, _ := w.t.h.g.ReadU64(w.t.task + abi.TaskStatus) // thread_info.cpu
	return int(v >> 32)
}

// TaskIn returns the address of the task that waits for a FileOp, or 0 where CallIn gives EINVAL.
func TaskIn(ctx context.Context) uint64 {
	w, ok := ctx.Value(fileOpKey{}).(fileOpTask)
	if !ok {
		return 0
	}
	return w.t.task
}

func (t *Task) callIn(ctx context.Context, r *request, addr uint64, args []string) (uint64, error) {
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
	if r.lent != nil { // its borrower waits here now
		r.yield(r.lent)
		r.lent = nil
	}
	t.answer(r, opCalls)
	if d := t.h.driver; d != nil {
		if err := d.await(context.WithoutCancel(ctx), r.due, false); err != nil {
			return 0, err
		}
	}
	select {
	case e := <-r.events:
		switch {
		case e.ended: // it was killed
			r.events <- e
			return 0, ErrAbandoned
		case e.op != abi.OpCalled:
			return 0, fmt.Errorf("the task does something else (%d): %w", e.op, syscall.EIO)
		}
		return g.ReadU64(t.addr + abi.CallOpRet)
	case <-t.h.done:
		return 0, ErrStopped
	}
}
