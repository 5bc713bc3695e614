package notify

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

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A notification names the thread that waits for its answer by a number. The thread may be
// killed at any time, and its number given to a thread of another user, while the supervisor
// reads its memory (a page of which it can hold back with userfaultfd(2)) or acts for it. So
// what is known of the caller is asked in one place, Take: it looks at the thread of that number,
// and opens what is to be used later, and then asks the host's kernel whether the notification
// still waits. If it does, the number was the caller's all the time. What is done for the caller
// afterwards is done with what was opened (its memory, its descriptors, its namespaces,
// its pidfd), which stays the caller's, and never by the number.
//
// TestCallersNumber has no other file use the number, or act on a thread by its number.

// Notif is struct seccomp_notif.
type Notif struct {
	ID       uint64
	Notifier uint32 // the number of the caller's thread: for take
	flags    uint32
	Nr       int32
	Arch     uint32
	IP       uint64
	Args     [6]uint64
}

// seccompNotifResp is struct seccomp_notif_resp.
type seccompNotifResp struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// Caller is the thread that waits for the answer to a notification.
type Caller struct {
	*Notif
	listener int
	slot     *slot            // where the notification is until it has its answer, or nil
	Uname    calls.UnameShape // if the call is uname(2)
}

// Take calls look with the number of the caller's thread, and reports whether the caller still
// waits. If not, what look has found may be another thread's. look may read and
// open, but not change anything.
func (c *Caller) Take(look func(tid int)) bool {
	look(int(c.Notifier))
	return c.Waits()
}

// Is reports whether the caller's thread has a number, which may be another thread's when the caller waits no more.
func (c *Caller) Is(tid int) bool { return int(c.Notifier) == tid }

// Waits reports whether the caller still waits for its answer.
func (c *Caller) Waits() bool {
	id := c.ID
	return SeccompIoctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == nil
}

// Over says that nothing more is done for the caller: it has its answer, or has been killed.
func (c *Caller) Over() { c.slot.answered() }

// Native reports whether the call is one of the first of KernelNumbers.
func (c *Caller) Native() bool { return c.Arch == calls.KernelNumbers[0].Arch }

// Read reads n bytes of the caller's memory, or as many as there are.
func (c *Caller) Read(addr uint64, n int) (b []byte) {
	if !c.Take(func(tid int) { b = proc.ReadMemory(tid, addr, make([]byte, n)) }) {
		return nil
	}
	return b
}

// FileName returns the path of a file that the caller has open, or "".
func (c *Caller) FileName(fd int) (name string) {
	if !c.Take(func(tid int) { name, _ = os.Readlink(proc.Path(tid, "fd/"+strconv.Itoa(fd))) }) {
		return ""
	}
	return name
}

// String reads the string to which an argument points, of at most PATH_MAX bytes. It returns ""
// if it cannot be read.
func (c *Caller) String(arg int) (text string) {
	if !c.Take(func(tid int) { text = string(hostview.ReadString(tid, c.Args[arg])) }) {
		return ""
	}
	return text
}

// Proceed has the host's kernel make the call.
func (c *Caller) Proceed() {
	c.send(&seccompNotifResp{id: c.ID, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// Succeed answers the call with 0, without making it.
func (c *Caller) Succeed() { c.Result(0, 0) }

// Fail answers the call with an errno, without making it.
func (c *Caller) Fail(errno syscall.Errno) { c.Result(0, errno) }

// Result answers the call with a result, or with an errno.
func (c *Caller) Result(ret int, errno syscall.Errno) {
	c.send(&seccompNotifResp{id: c.ID, val: int64(ret), err: -int32(errno)})
}

// send sends an answer. It fails only if the caller has been killed.
func (c *Caller) send(r *seccompNotifResp) {
	_ = SeccompIoctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
	c.slot.answered()
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

// Give answers the call with a descriptor. Signals have to wait: one that comes between the answer
// and the descriptor, such as those by which Go's scheduler stops threads, takes the descriptor
// back, and the call returns 0.
func (c *Caller) Give(fd, flags int) syscall.Errno {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &allSignals, &before); err != nil {
		return unix.EINVAL // cannot be
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	a := seccompAddFD{id: c.ID, flags: unix.SECCOMP_ADDFD_FLAG_SEND, srcFD: uint32(fd), newFlags: uint32(flags) & unix.O_CLOEXEC}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&a)))
	if errno == 0 {
		c.slot.answered()
	}
	if errno != unix.EINVAL {
		return errno
	}
	a.flags = 0 // before Linux 5.14 in two steps
	theirs, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&a)))
	if errno != 0 {
		return errno
	}
	c.Result(int(theirs), 0)
	return 0
}

// Replace makes a descriptor of the caller refer to one of ours; flags may have O_CLOEXEC.
func (c *Caller) Replace(fd, by int, flags uint32) syscall.Errno {
	a := seccompAddFD{id: c.ID, flags: unix.SECCOMP_ADDFD_FLAG_SETFD, srcFD: uint32(by), newFD: uint32(fd), newFlags: flags}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&a)))
	return errno
}

// Write writes into the caller's memory. It returns false if not all could be written, or the
// caller waits no more. /proc/TID/mem stays the memory of the program that the thread executed when it
// was opened, but lets us write where the caller may not: what it may is asked first.
func (c *Caller) Write(addr uint64, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	var mem *os.File
	var merr, err error
	var maps string
	waits := c.Take(func(tid int) {
		mem, merr = os.OpenFile(proc.Path(tid, "mem"), os.O_WRONLY, 0)
		maps, err = proc.Read(tid, "maps")
	})
	if merr != nil {
		return false
	}
	defer mem.Close()
	if !waits || err != nil || !hostview.Writable(maps, addr, uint64(len(b))) {
		return false
	}
	n, err := unix.Pwrite(int(mem.Fd()), b, int64(addr))
	return err == nil && n == len(b)
}

// Borrow returns a descriptor of the same open file as one of the caller's. It fails with ESRCH if
// the caller waits no more.
func (c *Caller) Borrow(fd int) (own int, err error) {
	own = -1
	if c.Take(func(tid int) { own, err = hostview.Borrow(tid, fd) }) {
		return own, err
	}
	if own >= 0 {
		_ = unix.Close(own)
	}
	return -1, unix.ESRCH
}

// Signal sends a signal to the caller or, before Linux 6.9, to its process. It does nothing if
// the caller waits no more.
func (c *Caller) Signal(sig syscall.Signal) {
	const pidfdThread = unix.O_EXCL // PIDFD_THREAD
	c.signalBy(sig, func(tid int) (int, error) {
		fd, err := unix.PidfdOpen(tid, pidfdThread)
		if errors.Is(err, unix.EINVAL) {
			return hostview.OpenProcess(tid)
		}
		return fd, err
	})
}

// Kill sends SIGKILL to the caller's process. It does nothing if the caller waits no more.
func (c *Caller) Kill() { c.signalBy(unix.SIGKILL, hostview.OpenProcess) }

func (c *Caller) signalBy(sig syscall.Signal, open func(tid int) (int, error)) {
	fd, err := -1, error(nil)
	waits := c.Take(func(tid int) { fd, err = open(tid) })
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if waits {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// SignalPending reports whether the caller has a signal that it neither blocks nor ignores.
func (c *Caller) SignalPending() (pending bool) {
	return c.Take(func(tid int) { pending = hostview.SignalPending(tid) }) && pending
}

// Capable reports whether the caller has one of the capabilities in this process's user
// namespace, whose root is the emulated kernel's.
func (c *Caller) Capable(caps ...int) (may bool) {
	return c.Take(func(tid int) {
		set := hostview.Status(tid, "CapEff")
		may = slices.ContainsFunc(caps, func(one int) bool { return set&(1<<one) != 0 }) && hostview.SameSpace(tid, "user")
	}) && may
}

// Place opens the directory from which the caller looks up a path, and its mount namespace if that
// is not this process's. It fails with ESRCH if the caller waits no more.
func (c *Caller) Place(path string) (dir, space *os.File, err error) {
	from := "cwd"
	if strings.HasPrefix(path, "/") {
		from = "root"
	}
	var derr, serr error
	waits := c.Take(func(tid int) {
		dir, derr = hostview.OpenHandle(proc.Path(tid, from), unix.O_PATH|unix.O_DIRECTORY)
		if !hostview.SameSpace(tid, "mnt") {
			space, serr = hostview.OpenHandle(proc.Path(tid, "ns/mnt"), unix.O_RDONLY)
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

// foreignOf returns the row of a call in another table, or nil.
func foreignOf(n *Notif) *calls.Foreign {
	for i, f := range calls.ForeignCalls {
		if f.Arch == n.Arch && int32(f.Nr) == n.Nr {
			return &calls.ForeignCalls[i]
		}
	}
	return nil
}

// NewCaller returns the caller of a notification, with a call that does the same in the native
// table.
func NewCaller(n *Notif, listener int) *Caller {
	c := &Caller{Notif: n, listener: listener, Uname: calls.NewUname}
	f := foreignOf(n)
	if f == nil {
		return c
	}
	if f.Shape != (calls.UnameShape{}) {
		c.Uname = f.Shape
	}
	n.Nr = int32(f.Native)
	if n.Arch != calls.KernelNumbers[0].Arch {
		n.Arch = calls.KernelNumbers[0].Arch
		for i := range n.Args {
			n.Args[i] &= 0xffffffff
		}
	}
	return c
}
