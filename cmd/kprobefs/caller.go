package main

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A notification names the thread that waits for its answer by a number. The thread may be
// killed at any time, and its number given to a thread of another user, while the supervisor
// reads its memory (a page of which it can hold back with userfaultfd(2)) or acts for it. So
// what is known of the caller is asked in one place, take: it looks at the thread of that number,
// and opens what is to be used later, and then asks the host's kernel whether the notification
// still waits. If it does, the number was the caller's all the time. What is done for the caller
// afterwards is done with what was opened (its memory, its descriptors, its namespaces,
// its pidfd), which stays the caller's, and never by the number.
//
// TestCallersNumber has no other file use the number, or act on a thread by its number.

// seccompNotif is struct seccomp_notif.
type seccompNotif struct {
	id       uint64
	notifier uint32 // the number of the caller's thread: for take
	flags    uint32
	nr       int32
	arch     uint32
	ip       uint64
	args     [6]uint64
}

// seccompNotifResp is struct seccomp_notif_resp.
type seccompNotifResp struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// caller is the thread that waits for the answer to a notification.
type caller struct {
	*seccompNotif
	listener int
	uname    unameShape // if the call is uname(2)
}

// take calls look with the number of the caller's thread, and reports whether the caller still
// waits. If not, what look has found may be another thread's. look may read and
// open, but not change anything.
func (c *caller) take(look func(tid int)) bool {
	look(int(c.notifier))
	return c.waits()
}

// waits reports whether the caller still waits for its answer.
func (c *caller) waits() bool {
	id := c.id
	return seccompIoctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == nil
}

// native reports whether the call is one of the first of kernelNumbers.
func (c *caller) native() bool { return c.arch == kernelNumbers[0].arch }

// read reads n bytes of the caller's memory, or as many as there are.
func (c *caller) read(addr uint64, n int) (b []byte) {
	if !c.take(func(tid int) { b = proc.ReadMemory(tid, addr, make([]byte, n)) }) {
		return nil
	}
	return b
}

// fileName returns the path of a file that the caller has open, or "".
func (c *caller) fileName(fd int) (name string) {
	if !c.take(func(tid int) { name, _ = os.Readlink(proc.Path(tid, "fd/"+strconv.Itoa(fd))) }) {
		return ""
	}
	return name
}

// string reads the string to which an argument points, of at most PATH_MAX bytes. It returns ""
// if it cannot be read.
func (c *caller) string(arg int) (text string) {
	if !c.take(func(tid int) { text = string(readString(tid, c.args[arg])) }) {
		return ""
	}
	return text
}

// proceed has the host's kernel make the call.
func (c *caller) proceed() {
	c.send(&seccompNotifResp{id: c.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// succeed answers the call with 0, without making it.
func (c *caller) succeed() { c.result(0, 0) }

// fail answers the call with an errno, without making it.
func (c *caller) fail(errno syscall.Errno) { c.result(0, errno) }

// result answers the call with a result, or with an errno.
func (c *caller) result(ret int, errno syscall.Errno) {
	c.send(&seccompNotifResp{id: c.id, val: int64(ret), err: -int32(errno)})
}

// send sends an answer. It fails only if the caller has been killed.
func (c *caller) send(r *seccompNotifResp) {
	_ = seccompIoctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
}

// seccompAddFD is struct seccomp_notif_addfd.
type seccompAddFD struct {
	id                            uint64
	flags, srcFD, newFD, newFlags uint32
}

// allSignals is the set of all signals.
var allSignals = func() (set unix.Sigset_t) {
	for i := range set.Val {
		set.Val[i] = ^set.Val[i]
	}
	return set
}()

// give answers the call with a descriptor. Signals have to wait: one that comes between the answer
// and the descriptor, such as those by which Go's scheduler stops threads, takes the descriptor
// back, and the call returns 0.
func (c *caller) give(fd, flags int) syscall.Errno {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &allSignals, &before); err != nil {
		return unix.EINVAL // cannot be
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	a := seccompAddFD{id: c.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, srcFD: uint32(fd), newFlags: uint32(flags) & unix.O_CLOEXEC}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&a)))
	if errno != unix.EINVAL {
		return errno
	}
	a.flags = 0 // before Linux 5.14 in two steps
	theirs, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&a)))
	if errno != 0 {
		return errno
	}
	c.result(int(theirs), 0)
	return 0
}

// write writes into the caller's memory. It returns false if not all could be written, or the
// caller waits no more. /proc/TID/mem stays that of the program that the thread executed when it
// was opened, but lets us write where the caller may not: what it may is asked first.
func (c *caller) write(addr uint64, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	var mem *os.File
	var merr, err error
	var maps string
	waits := c.take(func(tid int) {
		mem, merr = os.OpenFile(proc.Path(tid, "mem"), os.O_WRONLY, 0)
		maps, err = proc.Read(tid, "maps")
	})
	if merr != nil {
		return false
	}
	defer mem.Close()
	if !waits || err != nil || !writable(maps, addr, uint64(len(b))) {
		return false
	}
	n, err := unix.Pwrite(int(mem.Fd()), b, int64(addr))
	return err == nil && n == len(b)
}

// writable reports whether /proc/TID/maps shows all of size bytes at addr as writable.
func writable(maps string, addr, size uint64) bool {
	end := addr + size
	if end < addr {
		return false
	}
	for line := range strings.Lines(maps) { // in the order of the addresses
		span, rest, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(span, "-")
		lo, err := strconv.ParseUint(from, 16, 64)
		hi, herr := strconv.ParseUint(to, 16, 64)
		if err != nil || herr != nil || hi <= addr {
			continue
		}
		if lo > addr || len(rest) < 2 || rest[1] != 'w' {
			return false
		}
		if hi >= end {
			return true
		}
		addr = hi
	}
	return false
}

// borrow returns a descriptor of the same open file as one of the caller's. It fails with ESRCH if
// the caller waits no more.
func (c *caller) borrow(fd int) (own int, err error) {
	own = -1
	if c.take(func(tid int) { own, err = borrow(tid, fd) }) {
		return own, err
	}
	if own >= 0 {
		_ = unix.Close(own)
	}
	return -1, unix.ESRCH
}

// borrow returns a descriptor of the same open file as a thread's.
func borrow(tid, fd int) (int, error) {
	pid, err := proc.Process(tid)
	if err != nil {
		return -1, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(process)
	return unix.PidfdGetfd(process, fd, 0)
}

// signal sends a signal to the caller or, before Linux 6.9, to its process. It does nothing if
// the caller waits no more.
func (c *caller) signal(sig syscall.Signal) {
	const pidfdThread = unix.O_EXCL // PIDFD_THREAD
	c.signalBy(sig, func(tid int) (int, error) {
		fd, err := unix.PidfdOpen(tid, pidfdThread)
		if errors.Is(err, unix.EINVAL) {
			return openProcess(tid)
		}
		return fd, err
	})
}

// kill sends SIGKILL to the caller's process. It does nothing if the caller waits no more.
func (c *caller) kill() { c.signalBy(unix.SIGKILL, openProcess) }

// openProcess returns a pidfd of a thread's process.
func openProcess(tid int) (int, error) {
	pid, err := proc.Process(tid)
	if err != nil {
		return -1, err
	}
	return unix.PidfdOpen(pid, 0)
}

func (c *caller) signalBy(sig syscall.Signal, open func(tid int) (int, error)) {
	fd, err := -1, error(nil)
	waits := c.take(func(tid int) { fd, err = open(tid) })
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if waits {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// signalPending reports whether the caller has a signal that it neither blocks nor ignores.
func (c *caller) signalPending() (pending bool) {
	return c.take(func(tid int) { pending = signalPending(tid) }) && pending
}

// capable reports whether the caller has one of the capabilities in this process's user
// namespace, whose root is that of the emulated kernel.
func (c *caller) capable(caps ...int) (may bool) {
	return c.take(func(tid int) {
		set := status(tid, "CapEff")
		may = slices.ContainsFunc(caps, func(one int) bool { return set&(1<<one) != 0 }) && sameSpace(tid, "user")
	}) && may
}

// place opens the directory from which the caller looks up a path, and its mount namespace if that
// is not this process's. It fails with ESRCH if the caller waits no more.
func (c *caller) place(path string) (dir, space *os.File, err error) {
	from := "cwd"
	if strings.HasPrefix(path, "/") {
		from = "root"
	}
	var derr, serr error
	waits := c.take(func(tid int) {
		dir, derr = openHandle(proc.Path(tid, from), unix.O_PATH|unix.O_DIRECTORY)
		if !sameSpace(tid, "mnt") {
			space, serr = openHandle(proc.Path(tid, "ns/mnt"), unix.O_RDONLY)
		}
	})
	if err = errors.Join(derr, serr); err == nil && !waits {
		err = unix.ESRCH
	}
	if err != nil {
		for _, f := range []*os.File{dir, space} {
			if f != nil {
				_ = f.Close()
			}
		}
		return nil, nil, err
	}
	return dir, space, nil
}

func openHandle(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
