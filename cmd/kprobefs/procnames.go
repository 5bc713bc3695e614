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
func (s *supervisor) mayBeOurs(c *caller, call *tracedCall) bool {
	const most = 256
	var name []byte
	ended := false
	if !c.take(func(tid int) {
		name, _, ended = bytes.Cut(proc.ReadMemory(tid, c.args[call.name], make([]byte, most)), []byte{0})
	}) {
		return false
	}
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
func (s *supervisor) openProc(c *caller, call *tracedCall) bool {
	if !s.made.anyInProc() {
		return false
	}
	var at string
	var o openFlags
	ok := false
	if !c.take(func(tid int) {
		at = s.nameIn(tid, call, c.args)
		o, ok = flagsOf(tid, call, c.args)
	}) || !ok || !s.made.inProc(at) {
		return false
	}
	fd, errno := s.openFor(c, filepath.Join(s.made.ns.tree, inTree(at)), o)
	if errno == 0 {
		errno = c.give(fd, o.flags)
		_ = unix.Close(fd)
	}
	if errno != 0 {
		c.fail(errno)
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

// openFor opens a file of the tree for a caller: with its user and group, and the
// server takes the request for its own.
func (s *supervisor) openFor(c *caller, path string, o openFlags) (fd int, errno syscall.Errno) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine, as its user is changed
		m := &callMessage{ID: s.calls.ownIDs.Add(1), Question: &question{Do: doActFor, Thread: unix.Gettid()}}
		uid, gid := -1, -1
		if !c.take(func(tid int) { m.TID, uid, gid = tid, fsID(tid, "Uid"), fsID(tid, "Gid") }) {
			errno = unix.ESRCH
			return
		}
		if r := s.calls.ask(m, nil, untilAnswered); r.Errno != 0 {
			errno = r.Errno
			return
		}
		defer func() {
			m := *m
			m.ID, m.TID = s.calls.ownIDs.Add(1), 0
			s.calls.ask(&m, nil, untilAnswered)
		}()
		_, _ = unix.SetfsgidRetGid(gid)
		_, _ = unix.SetfsuidRetUid(uid)
		if now, err := unix.SetfsuidRetUid(-1); err != nil || now != uid {
			errno = unix.EACCES
			return
		}
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
