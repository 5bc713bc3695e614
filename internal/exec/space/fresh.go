package space

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A program that mounts a proc or sysfs, as unshare --mount-proc and containers do, would find the host's
// kernel there. The host's kernel makes the mount, in the caller's pid and network namespaces; then the files that
// cover the host's in our /proc or /sys cover the new mount's. The supervisor does not learn of the end of the
// caller's call, but is notified before whatever opens a file, so it looks for the mount at each notification
// from that mount namespace until it finds it. Before the mount is unmounted the covers are.

// Caller is the thread that makes a call of which a filter notifies: *notify.Caller.
type Caller interface {
	// Take calls look with the thread's number, and reports whether the thread still waits.
	Take(look func(tid int)) bool
	// Place opens the directory from which the thread looks up a path, and its mount namespace if that is
	// not this process's.
	Place(path string) (dir, space *os.File, err error)
}

// Fresh has the mount namespaces in which a proc or sysfs is being mounted.
type Fresh struct {
	Covered sync.Map // the mounts that have been covered, by their ids
	any     atomic.Int32

	mu     sync.Mutex
	spaces map[string]int // by the name of the namespace, how many more notifications are looked at
}

// maxFreshLooks is how many notifications are looked at for a mount that may have failed.
const maxFreshLooks = 1000

// IsFresh reports whether a new mount of a type shows the host's kernel.
func IsFresh(kind string) bool { return kind == hostview.ProcFS || kind == hostview.SysFS }

// Expect is called before the host's kernel makes a mount of a proc or sysfs.
func (f *Fresh) Expect(c Caller) {
	space, ok := spaceOf(c)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spaces == nil {
		f.spaces = map[string]int{}
	}
	f.spaces[space] = maxFreshLooks
	f.any.Store(int32(len(f.spaces)))
}

// spaceOf returns the name of a caller's mount namespace.
func spaceOf(c Caller) (name string, ok bool) {
	var err error
	ok = c.Take(func(tid int) { name, err = proc.Namespace(tid, "mnt") })
	return name, ok && err == nil
}

// looks reports whether a caller is in a namespace in which there may be a new mount.
func (f *Fresh) looks(c Caller) (space string, yes bool) {
	if f.any.Load() == 0 {
		return "", false
	}
	space, ok := spaceOf(c)
	if !ok {
		return "", false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	left, yes := f.spaces[space]
	switch {
	case left > 1:
		f.spaces[space]--
	case yes:
		f.forget(space)
	}
	return space, yes
}

// found is called when the mount has been covered.
func (f *Fresh) found(space string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(space)
}

// forget expects no mount in a namespace any more. The caller holds mu.
func (f *Fresh) forget(space string) {
	delete(f.spaces, space)
	f.any.Store(int32(len(f.spaces)))
}

// CoverFresh covers what a new proc or sysfs in the caller's mount namespace shows of the host.
func (ns *Namespace) CoverFresh(c Caller) {
	space, yes := ns.Fresh.looks(c)
	if !yes {
		return
	}
	var mounts []hostview.Mount
	if !c.Take(func(tid int) { mounts, _ = hostview.Mounts(tid) }) {
		return
	}
	for i := range mounts {
		m := &mounts[i]
		if !IsFresh(m.Kind) || m.Root != "/" || hasOurs(mounts, m) {
			continue
		}
		if err := ns.coverMount(c, m); err != nil {
			ns.Log.WithFields(logrus.Fields{"mount": m.Point, "err": err}).Debug("a new mount is not covered")
			continue
		}
		ns.Fresh.found(space)
		ns.Fresh.Covered.Store(m.ID, true)
	}
}

// hasOurs reports whether files of ours are mounted on a mount, or it is hidden by another one.
func hasOurs(mounts []hostview.Mount, on *hostview.Mount) bool {
	return slices.ContainsFunc(mounts, func(m hostview.Mount) bool {
		return m.Parent == on.ID && (m.Kind == hostview.FuseType || m.Point == on.Point)
	})
}

// covers returns the mounts of this process's namespace that cover files of the host below a directory, but not those
// of whole file systems, which a new mount of proc or sysfs does not have, nor those that lie within another.
func (ns *Namespace) covers(dir string) (points []string, err error) {
	mounts, err := hostview.Mounts(os.Getpid())
	if err != nil {
		return nil, err
	}
	for i := range mounts {
		m := &mounts[i]
		at := hostview.Unescape(m.Point)
		if at == dir || !hostview.Below(at, []string{dir}) || m.Kind != hostview.FuseType && !ns.Covered(m) ||
			slices.Contains([]string{hostview.DebugfsDir, hostview.TracefsDir, hostview.BPFFSDir}, at) || hostview.Below(at, points) {
			continue
		}
		points = append(points, at)
	}
	return points, nil
}

// ownDir is where exec's own mount of the type of a proc or sysfs is.
func ownDir(m *hostview.Mount) string {
	if m.Kind == hostview.SysFS {
		return hostview.SysDir
	}
	return hostview.ProcDir
}

// coverMount mounts on a new proc or sysfs what covers the one of this process's namespace.
func (ns *Namespace) coverMount(c Caller, m *hostview.Mount) error {
	from := ownDir(m)
	points, err := ns.covers(from)
	if err != nil {
		return err
	}
	var trees []*os.File
	defer func() {
		for _, t := range trees {
			_ = t.Close()
		}
	}()
	for _, at := range points {
		fd, err := unix.OpenTree(unix.AT_FDCWD, at, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return err
		}
		trees = append(trees, os.NewFile(uintptr(fd), at))
	}
	return inSpace(c, m, func(top int) error {
		var errs []error
		for _, t := range trees {
			rel, err := filepath.Rel(from, t.Name())
			if err == nil {
				err = unix.MoveMount(int(t.Fd()), "", top, rel, unix.MOVE_MOUNT_F_EMPTY_PATH)
			}
			if err != nil {
				ns.Log.WithFields(logrus.Fields{"file": filepath.Join(m.Point, rel), "err": err}).Debug("not covered")
				errs = append(errs, err)
			}
		}
		if len(errs) == len(trees) {
			return errors.Join(errs...)
		}
		return nil
	})
}

// inSpace calls do in a caller's mount namespace, with a descriptor of a mount's root.
func inSpace(c Caller, m *hostview.Mount, do func(top int) error) error {
	dir, space, err := c.Place("/")
	if err != nil {
		return err
	}
	defer dir.Close()
	if space != nil {
		defer space.Close()
	}
	return Inside(space, func() error {
		top, err := Target{int(dir.Fd()), strings.TrimLeft(hostview.Unescape(m.Point), "/")}.Open()
		if err != nil {
			return err
		}
		defer unix.Close(top)
		var st unix.Statx_t
		if err := unix.Statx(top, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil || st.Mnt_id != m.ID {
			return cmp.Or[error](err, unix.ESTALE)
		}
		return do(top)
	})
}

// Inside calls do on a thread of its own, with a root and a working directory of its own, in a mount namespace: this
// process's if space is nil.
func Inside(space *os.File, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine, as its namespace is changed
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil && space != nil {
			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNS)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// Uncover removes what covers a proc or sysfs that a program has mounted at target, and is about to unmount.
func (ns *Namespace) Uncover(c Caller, target string) {
	var mounts []hostview.Mount
	at := pointOf(c, target)
	if at == "" || !c.Take(func(tid int) { mounts, _ = hostview.Mounts(tid) }) {
		return
	}
	for i := range mounts {
		m := &mounts[i]
		if !IsFresh(m.Kind) || m.Root != "/" || hostview.Unescape(m.Point) != at || !hasOurs(mounts, m) || isFirst(c, at) {
			continue
		}
		points, err := ns.covers(ownDir(m))
		if err != nil {
			return
		}
		ns.Fresh.Expect(c) // it may stay
		_ = inSpace(c, m, func(top int) error {
			if err := unix.Fchdir(top); err != nil { // only of this thread
				return err
			}
			defer func() { _ = unix.Chdir("/") }() // or it would keep the mount
			for _, o := range slices.Backward(mounts) {
				rel, err := filepath.Rel(at, hostview.Unescape(o.Point))
				if err == nil && o.Parent == m.ID && slices.Contains(points, filepath.Join(ownDir(m), rel)) { // not what the program has mounted there
					_ = unix.Unmount(rel, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
				}
			}
			return nil
		})
	}
}

// isFirst reports whether a mount point belongs to the namespace that exec has made.
func isFirst(c Caller, at string) (first bool) {
	return c.Take(func(tid int) { first = hostview.SameView(tid) && (at == hostview.ProcDir || at == hostview.SysDir) }) && first
}

// pointOf returns the path to which a caller's name of a file leads, as lists of its mounts have it, or "".
func pointOf(c Caller, name string) string {
	dir, space, err := c.Place(name)
	if err != nil {
		return ""
	}
	defer dir.Close()
	if space != nil {
		defer space.Close()
	}
	fd, err := Target{int(dir.Fd()), strings.TrimLeft(name, "/")}.Open()
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	at, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return at
}

// Target is a path, as seen from a directory.
type Target struct {
	Dir  int // a descriptor
	Path string
}

// Open opens what is there, with O_PATH.
func (t Target) Open() (int, error) {
	return unix.Openat(t.Dir, cmp.Or(t.Path, "."), unix.O_PATH|unix.O_CLOEXEC, 0)
}

// SetFlags sets the flags of a mount of ours.
func (t Target) SetFlags(flags uintptr) syscall.Errno {
	const always = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV // the last two as the tree
	top, err := t.Open()
	if err != nil {
		return wire.ErrnoOf(err)
	}
	defer unix.Close(top)
	if err := unix.Mount("", "/proc/self/fd/"+strconv.Itoa(top), "", always|flags&(unix.MS_RDONLY|unix.MS_NOEXEC), ""); err != nil {
		return wire.ErrnoOf(err)
	}
	return 0
}
