package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A file that a module makes in /proc itself cannot be mounted there, nor one that the
// host's kernel lacks (modules). While there are such files the supervisor looks at the names of the files that are opened, opens one of
// these in the tree, and gives the descriptor to the caller.

// procDir is the directory that cannot be covered.
const procDir = "/proc"

// openFlags are the arguments of a call that opens a file.
type openFlags struct {
	flags int
	mode  uint32
}

// mayBeOurs reports whether openProc or openMounts may have to answer a call that opens a
// file: part of the name is that of a list of mounts, or of a file that a module has made in
// /proc. Links are not followed there, so other calls need not be looked at.
func (s *supervisor) mayBeOurs(n *seccompNotif, call *tracedCall) bool {
	const most = 256
	name, _, ended := bytes.Cut(proc.ReadMemory(int(n.pid), n.args[call.name], make([]byte, most)), []byte{0})
	if !ended {
		return true
	}
	for part := range bytes.SplitSeq(name, []byte("/")) {
		switch string(part) {
		case "mounts", "mountinfo", "mountstats", "mtab":
			return true
		}
		if s.made.anyInProc() && s.made.inProc(procDir+"/"+string(part)) {
			return true
		}
	}
	return false
}

// openProc answers a call that opens such a file. It returns
// false for other calls.
func (s *supervisor) openProc(n *seccompNotif, call *tracedCall) bool {
	if !s.made.anyInProc() {
		return false
	}
	tid := int(n.pid)
	at := s.nameIn(tid, call, n.args)
	if !s.made.inProc(at) {
		return false
	}
	o, ok := flagsOf(tid, call, n.args)
	if !ok {
		return false
	}
	fd, errno := s.openFor(tid, filepath.Join(s.made.ns.tree, inTree(at)), o)
	if errno == 0 {
		errno = giveFD(s.listener, n.id, fd, o.flags)
		_ = unix.Close(fd)
	}
	if errno != 0 {
		fail(s.listener, n.id, errno)
	}
	return true
}

// nameIn returns the absolute name of the file that a call opens, without following
// symbolic links, or "" in another root directory.
func (s *supervisor) nameIn(tid int, call *tracedCall, args [6]uint64) string {
	name := string(readString(tid, args[call.name]))
	if !strings.HasPrefix(name, "/") {
		from := "cwd"
		if call.dir >= 0 && int32(args[call.dir]) != unix.AT_FDCWD {
			from = "fd/" + strconv.Itoa(int(int32(args[call.dir])))
		}
		base, err := os.Readlink(proc.Path(tid, from))
		if err != nil || name == "" {
			return ""
		}
		name = base + "/" + name
	}
	at := filepath.Clean(name)
	if root, err := os.Readlink(proc.Path(tid, "root")); err != nil || root != "/" {
		return ""
	}
	return at
}

// flagsOf reads a call's flags.
func flagsOf(tid int, call *tracedCall, args [6]uint64) (o openFlags, ok bool) {
	if call.host == unix.SYS_OPENAT2 {
		how := proc.ReadMemory(tid, args[2], make([]byte, 24)) // struct open_how
		if len(how) < 24 || binary.NativeEndian.Uint64(how[16:]) != 0 {
			return o, false
		}
		return openFlags{int(binary.NativeEndian.Uint64(how)), uint32(binary.NativeEndian.Uint64(how[8:]))}, true
	}
	i := call.name + 1
	if call.host == sysCreat {
		return openFlags{unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC, uint32(args[i])}, true
	}
	return openFlags{int(int32(args[i])), uint32(args[i+1])}, true
}

// openFor opens a file of the tree for another thread: with its user and group, and the
// server takes the request for its own.
func (s *supervisor) openFor(tid int, path string, o openFlags) (fd int, errno syscall.Errno) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine, as its user is changed
		m := &callMessage{ID: s.calls.ownIDs.Add(1), TID: tid, Question: &question{Do: doActFor, Thread: unix.Gettid()}}
		if r := s.calls.ask(m, nil, untilAnswered); r.Errno != 0 {
			errno = r.Errno
			return
		}
		defer func() {
			m := *m
			m.ID, m.TID = s.calls.ownIDs.Add(1), 0
			s.calls.ask(&m, nil, untilAnswered)
		}()
		_, _ = unix.SetfsgidRetGid(fsID(tid, "Gid"))
		_, _ = unix.SetfsuidRetUid(fsID(tid, "Uid"))
		var err error
		if fd, err = unix.Open(path, o.flags|unix.O_CLOEXEC, o.mode&0o7777); err != nil {
			errno = errnoOf(err)
		}
	}()
	<-done
	return fd, errno
}

// fsID returns a thread's user or group for files; field is Uid or Gid.
func fsID(tid int, field string) int {
	text, _ := proc.Status(tid, field)
	ids := strings.Fields(text)
	if len(ids) < 4 {
		return -1
	}
	id, err := strconv.Atoi(ids[3])
	if err != nil {
		return -1
	}
	return id
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

// giveFD answers a call with a descriptor for its caller. Signals have to wait: one that
// comes between the answer and the descriptor, such as those by which Go's scheduler stops
// threads, takes the descriptor back, and the call returns 0.
func giveFD(listener int, id uint64, fd, flags int) syscall.Errno {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &allSignals, &before); err != nil {
		return unix.EINVAL // cannot be
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	a := seccompAddFD{id: id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, srcFD: uint32(fd), newFlags: uint32(flags) & unix.O_CLOEXEC}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&a)))
	if errno != unix.EINVAL {
		return errno
	}
	a.flags = 0 // before Linux 5.14 in two steps
	theirs, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&a)))
	if errno != 0 {
		return errno
	}
	r := seccompNotifResp{id: id, val: int64(theirs)}
	_ = seccompIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
	return 0
}
