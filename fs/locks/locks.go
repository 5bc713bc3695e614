// Package locks is fs/locks.c: the owners of the advisory locks of a file and the
// requests that wait for one. There are two kinds of locks: ranges of bytes (fcntl(2):
// of a process and of an open file description) and whole files (flock(2)).
// The kinds do not conflict with each other, so a file of the tree has a File for each.
//
// A release of a lock wakes the waiting requests in the order of their arrival. A
// request that would close a cycle of waits fails with EDEADLK, as described in
// fcntl(2).
//
// A Table has one mutex for all its files: locks are few, and a cycle of waits may span
// several files.
package locks

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"syscall"
)

// Type is l_type of struct flock.
type Type uint32

// What a lock does to others. Unlock releases the range.
const (
	Read   Type = syscall.F_RDLCK
	Write  Type = syscall.F_WRLCK
	Unlock Type = syscall.F_UNLCK
)

// EOF is the End of a lock that extends to the end of the file.
const EOF = math.MaxInt64

// maxChain is how many waits are followed to find a cycle: Linux's
// MAX_DEADLK_ITERATIONS.
const maxChain = 10

// Owner is the owner of a lock. The host's kernel gives a process another number
// on each mount, so that owners on different mounts are compared by process.
type Owner struct {
	Mount any    // the mount that the request came through
	ID    uint64 // its lock_owner
	PID   int    // the process, or 0 if it cannot be seen from here
	// OFD says that the owner is an open file description rather than a process.
	OFD bool
}

// is reports whether o and p are the same owner.
func (o Owner) is(p Owner) bool {
	if o.Mount == p.Mount {
		return o.ID == p.ID
	}
	return !o.OFD && !p.OFD && o.PID != 0 && o.PID == p.PID
}

// Lock is a lock that is held or asked for.
type Lock struct {
	Type
	Start, End uint64 // bytes, both included
	Owner      Owner
	Handle     any // the open file that it was requested through
}

func (l Lock) overlaps(m Lock) bool { return l.Start <= m.End && m.Start <= l.End }

// conflicts reports whether l and m conflict.
func (l Lock) conflicts(m Lock) bool {
	return l.overlaps(m) && (l.Type == Write || m.Type == Write) && !l.Owner.is(m.Owner)
}

// File is the locks of one kind of one file. Its Table guards it; the zero value has no
// locks.
type File struct {
	held    []Lock    // grouped by owner, sorted by Start
	waiting []*waiter // in the order of arrival
}

// waiter is a request that sleeps.
type waiter struct {
	file    *File
	lock    Lock
	blocker Owner      // the owner it waits for
	done    chan error // holds one
}

// Table guards the Files of a tree. The zero value is ready.
type Table struct {
	mu      sync.Mutex
	blocked []*waiter // waiters of fcntl(2)
}

// ConflictError is EAGAIN, with the lock that is in the way.
type ConflictError struct{ Held Lock }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("process %d holds a lock of %d-%d: %v", e.Held.Owner.PID, e.Held.Start, e.Held.End, syscall.EAGAIN)
}

// Unwrap returns EAGAIN.
func (e *ConflictError) Unwrap() error { return syscall.EAGAIN }

// Get is F_GETLK: it returns the first lock that conflicts with l.
func (t *Table) Get(f *File, l Lock) (held Lock, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f.conflict(l)
}

// Set is F_SETLK, or F_SETLKW if cancel is not nil: it then waits until cancel is
// closed (EINTR). EAGAIN is a *ConflictError.
func (t *Table) Set(cancel <-chan struct{}, f *File, l Lock) error {
	return t.take(cancel, f, l, true)
}

// Flock is flock(2); cancel is as for Set. A lock of the same owner is released first,
// even if the new one then fails.
func (t *Table) Flock(cancel <-chan struct{}, f *File, l Lock) error {
	l.Start, l.End, l.Owner.OFD = 0, EOF, true
	return t.take(cancel, f, l, false)
}

func (t *Table) take(cancel <-chan struct{}, f *File, l Lock, posix bool) error {
	w, err := t.begin(f, l, posix, cancel != nil)
	if w == nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-cancel:
		return t.giveUp(w)
	}
}

// begin does what can be done at once; if the request has to wait, it returns a waiter.
func (t *Table) begin(f *File, l Lock, posix, wait bool) (*waiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !posix && f.releaseOther(l) {
		t.retry(f)
	}
	held, blocked := f.conflict(l)
	switch {
	case !blocked:
		f.put(l)
		t.retry(f)
		return nil, nil
	case !wait:
		return nil, &ConflictError{held}
	case posix && t.ring(l.Owner, held.Owner):
		return nil, errRing
	}
	w := &waiter{file: f, lock: l, blocker: held.Owner, done: make(chan error, 1)}
	f.waiting = append(f.waiting, w)
	if posix {
		t.blocked = append(t.blocked, w)
	}
	return w, nil
}

var errRing = fmt.Errorf("all would wait for each other: %w", syscall.EDEADLK)

// releaseOther releases the flock of l's owner unless it has the type of l; it
// reports whether it released one.
func (f *File) releaseOther(l Lock) bool {
	i := slices.IndexFunc(f.held, func(h Lock) bool { return h.Owner.is(l.Owner) && h.Type != l.Type })
	if i < 0 {
		return false
	}
	f.held = slices.Delete(f.held, i, i+1)
	return true
}

// giveUp cancels a wait, which may have ended in the meantime.
func (t *Table) giveUp(w *waiter) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	default:
	}
	w.file.waiting = slices.DeleteFunc(w.file.waiting, func(o *waiter) bool { return o == w })
	t.unblock(w)
	return fmt.Errorf("waiting for a lock: %w", syscall.EINTR)
}

func (t *Table) unblock(w *waiter) {
	t.blocked = slices.DeleteFunc(t.blocked, func(o *waiter) bool { return o == w })
}

// ReleaseOwner releases the locks of o, as close(2) does for a process's.
func (t *Table) ReleaseOwner(f *File, o Owner) {
	t.release(f, func(l Lock) bool { return l.Owner.is(o) && !l.Owner.OFD })
}

// ReleaseHandle releases the locks that were requested through an open file, when that
// is released.
func (t *Table) ReleaseHandle(f *File, handle any) {
	t.release(f, func(l Lock) bool { return l.Handle == handle })
}

func (t *Table) release(f *File, which func(Lock) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(f.held)
	if f.held = slices.DeleteFunc(f.held, which); len(f.held) < n {
		t.retry(f)
	}
}

// Held copies the locks of f.
func (t *Table) Held(f *File) []Lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(f.held)
}

// conflict returns the first lock that conflicts with l.
func (f *File) conflict(l Lock) (Lock, bool) {
	if l.Type == Unlock {
		return Lock{}, false
	}
	i := slices.IndexFunc(f.held, l.conflicts)
	if i < 0 {
		return Lock{}, false
	}
	return f.held[i], true
}

// put replaces what l's owner holds in its range by l.
func (f *File) put(l Lock) {
	first := slices.IndexFunc(f.held, func(h Lock) bool { return h.Owner.is(l.Owner) })
	if first < 0 {
		if l.Type != Unlock {
			f.held = append(f.held, l)
		}
		return
	}
	end := first
	for end < len(f.held) && f.held[end].Owner.is(l.Owner) {
		end++
	}
	f.held = slices.Replace(f.held, first, end, merge(f.held[first:end], l)...)
}

// merge applies l to the sorted locks of one owner and joins it with neighbours of the
// same type.
func merge(held []Lock, l Lock) []Lock {
	var list []Lock
	for _, h := range held {
		switch {
		case h.Type == l.Type && h.Start <= l.End+1 && l.Start <= h.End+1:
			l.Start, l.End = min(l.Start, h.Start), max(l.End, h.End)
		case h.overlaps(l):
			list = append(list, h.outside(l)...)
		default:
			list = append(list, h)
		}
	}
	if l.Type == Unlock {
		return list
	}
	i := slices.IndexFunc(list, func(h Lock) bool { return h.Start > l.Start })
	if i < 0 {
		i = len(list)
	}
	return slices.Insert(list, i, l)
}

// outside returns the parts of l that are not in m.
func (l Lock) outside(m Lock) []Lock {
	var list []Lock
	if l.Start < m.Start {
		left := l
		left.End = m.Start - 1
		list = append(list, left)
	}
	if l.End > m.End {
		right := l
		right.Start = m.End + 1
		list = append(list, right)
	}
	return list
}

// retry grants waiting requests of f where possible. A granted request may downgrade a
// lock that its owner holds, and so unblock another one.
func (t *Table) retry(f *File) {
	for again := true; again; {
		again = false
		for _, w := range slices.Clone(f.waiting) {
			again = t.serve(w) || again
		}
	}
}

// serve tries to grant a waiting request and reports whether its wait is over.
func (t *Table) serve(w *waiter) bool {
	held, blocked := w.file.conflict(w.lock)
	var err error
	if blocked {
		w.blocker = held.Owner
		if !slices.Contains(t.blocked, w) || !t.ring(w.lock.Owner, held.Owner) {
			return false
		}
		err = errRing
	} else {
		w.file.put(w.lock)
	}
	w.file.waiting = slices.DeleteFunc(w.file.waiting, func(o *waiter) bool { return o == w })
	t.unblock(w)
	w.done <- err
	return true
}

// ring is posix_locks_deadlock: whether blocker waits, directly or through others, for
// o. Open file descriptions do not count, as any process may release their locks.
func (t *Table) ring(o, blocker Owner) bool {
	for range maxChain {
		if o.OFD || blocker.OFD {
			return false
		}
		i := slices.IndexFunc(t.blocked, func(w *waiter) bool { return w.lock.Owner.is(blocker) })
		if i < 0 {
			return false
		}
		if blocker = t.blocked[i].blocker; blocker.is(o) {
			return true
		}
	}
	return false
}
