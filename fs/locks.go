package fs

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/locks"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// GetLk is fcntl(2)'s F_GETLK.
func (f *filesystem) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	_, n, _, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	l, ok := f.tree.locks.Get(&n.posix, f.lock(in))
	if !ok {
		out.Lk.Typ = uint32(locks.Unlock)
		return fuse.OK
	}
	out.Lk = fuse.FileLock{Start: l.Start, End: l.End, Typ: uint32(l.Type), Pid: uint32(l.Owner.PID)}
	return fuse.OK
}

// SetLk is F_SETLK, and flock(2) with LOCK_NB.
func (f *filesystem) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	f.tree.releases.wait(f, cancel, f.waits(in.Unique))
	return f.tree.status(f.setLock(nil, in))
}

// SetLkw is F_SETLKW, and flock(2) without LOCK_NB.
func (f *filesystem) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	waits := f.waits(in.Unique)
	f.tree.releases.wait(f, cancel, waits)
	waits()
	return f.tree.status(f.setLock(cancel, in))
}

// lockBytes is an estimate of what a lock takes.
const lockBytes = 512

func (f *filesystem) setLock(cancel <-chan struct{}, in *fuse.LkIn) error {
	n, h := f.node(&in.InHeader), f.handles.get(in.Fh)
	if n == nil || h == nil {
		return syscall.EBADF
	}
	l := f.lock(in)
	if l.Type != locks.Unlock {
		if err := f.tree.limit.Room(lockBytes); err != nil {
			return err
		}
	}
	l.Handle = h
	h.locked.Store(true)
	if in.LkFlags&fuse.LK_FLOCK != 0 {
		return f.tree.locks.Flock(cancel, &n.flock, l)
	}
	n.locked.Store(true)
	return f.tree.locks.Set(cancel, &n.posix, l)
}

// lock returns the lock of a request, without references to in, which go-fuse reuses.
func (f *filesystem) lock(in *fuse.LkIn) locks.Lock {
	return locks.Lock{
		Type: locks.Type(in.Lk.Typ), Start: in.Lk.Start, End: in.Lk.End,
		Owner: locks.Owner{
			Mount: f, ID: in.Owner, PID: f.tree.tgids.of(int(in.Pid)),
			OFD: in.LkFlags&fuse.LK_FLOCK == 0 && callsOFD(int(in.Pid)),
		},
	}
}

// callsOFD reports whether a thread waits in fcntl(2) with an F_OFD_* command, which
// the request does not tell. It matters only between mounts and for EDEADLK. If the
// thread cannot be seen, the lock counts as one of its process.
func callsOFD(tid int) bool {
	for range 3 {
		text, err := proc.Read(tid, "syscall")
		if err != nil {
			return false
		}
		args := strings.Fields(text) // number, descriptor, command, ...
		if len(args) > 2 {
			cmd, _ := strconv.ParseUint(args[2], 0, 64)
			return cmd >= unix.F_OFD_GETLK && cmd <= unix.F_OFD_SETLKW
		}
		runtime.Gosched() // the file says "running": the thread does not sleep yet
	}
	return false
}

// flushLocks releases a process's locks of a file, as close(2) of any of its
// descriptors does.
func (f *filesystem) flushLocks(n *node, in *fuse.FlushIn) {
	if !n.locked.Load() {
		return
	}
	f.tree.locks.ReleaseOwner(&n.posix, locks.Owner{Mount: f, ID: in.LockOwner, PID: f.tree.tgids.of(int(in.Pid))})
}

// releaseLocks releases the locks of h that remain: the ones of flock(2) and of open file
// descriptions.
func (h *handle) releaseLocks() {
	if h.locked.Load() {
		h.tree.locks.ReleaseHandle(&h.node.posix, h)
		h.tree.locks.ReleaseHandle(&h.node.flock, h)
	}
}
