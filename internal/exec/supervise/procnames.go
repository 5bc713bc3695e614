package supervise

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
	"github.com/kprobefs/kprobefs/internal/exec/perffd"
	"github.com/kprobefs/kprobefs/internal/exec/space"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A file that a module makes in /proc itself cannot be mounted there, nor one that the
// host's kernel lacks (modules). While there are such files the supervisor looks at the names of the files that are opened, opens one of
// these in the tree, and gives the descriptor to the caller.

// openFlags are the arguments of a call that opens a file.
type openFlags struct {
	flags int
	mode  uint32
}

// mayBeOurs reports whether openProc or openMounts may have to answer a call that opens a
// file: part of the name is the name of a list of mounts, or of a file that a module has made in
// /proc. Links are not followed there, so other calls need not be looked at.
func (s *supervisor) mayBeOurs(c *notify.Caller, call *calls.Row) bool {
	const most = 256
	var name []byte
	ended := false
	if !c.Take(func(tid int) {
		name, _, ended = bytes.Cut(proc.ReadMemory(tid, c.Args[call.Name()], make([]byte, most)), []byte{0})
	}) {
		return false
	}
	if !ended {
		return true
	}
	for part := range bytes.SplitSeq(name, []byte("/")) {
		switch string(part) {
		case "mounts", "mountinfo", "mountstats", "mtab", "fdinfo":
			return true
		}
		if s.Made.AnyInProc() && s.Made.InProc(hostview.ProcDir+"/"+string(part)) {
			return true
		}
	}
	return false
}

// openProc answers a call that opens such a file. It returns
// false for other calls.
func (s *supervisor) openProc(c *notify.Caller, call *calls.Row) bool {
	if !s.Made.AnyInProc() {
		return false
	}
	var at string
	var o openFlags
	ok := false
	if !c.Take(func(tid int) {
		at = s.nameIn(tid, call, c.Args)
		o, ok = flagsOf(tid, call, c.Args)
	}) || !ok || !s.Made.InProc(at) {
		return false
	}
	fd, errno := s.openFor(c, filepath.Join(s.Made.Ns.Tree, space.InTree(at)), o)
	if errno == 0 {
		errno = c.Give(fd, o.flags)
		_ = unix.Close(fd)
	}
	if errno != 0 {
		c.Fail(errno)
	}
	return true
}

// nameIn returns the absolute name of the file that a call opens, without following
// symbolic links, or "" in another root directory.
func (s *supervisor) nameIn(tid int, call *calls.Row, args [6]uint64) string {
	return s.absolute(tid, hostview.Name(tid, call, args))
}

// absolute returns the absolute name of a file, without following symbolic links, or "" in another root directory.
func (s *supervisor) absolute(tid int, file hostview.FileName) string {
	name := file.Text
	if !strings.HasPrefix(name, "/") {
		from := "cwd"
		if file.Dir != unix.AT_FDCWD {
			from = "fd/" + strconv.Itoa(file.Dir)
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
func flagsOf(tid int, call *calls.Row, args [6]uint64) (o openFlags, ok bool) {
	if call.Host == unix.SYS_OPENAT2 {
		how := proc.ReadMemory(tid, args[2], make([]byte, 24)) // struct open_how
		if len(how) < 24 || binary.NativeEndian.Uint64(how[16:]) != 0 {
			return o, false
		}
		return openFlags{int(binary.NativeEndian.Uint64(how)), uint32(binary.NativeEndian.Uint64(how[8:]))}, true
	}
	i := call.Name() + 1
	if call.Host == calls.SysCreat {
		return openFlags{unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC, uint32(args[i])}, true
	}
	return openFlags{int(int32(args[i])), uint32(args[i+1])}, true
}

// openFor opens a file of the tree for a caller: with its user and group, and the
// server takes the request for its own.
func (s *supervisor) openFor(c *notify.Caller, path string, o openFlags) (fd int, errno syscall.Errno) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine, as its user is changed
		m := &wire.Message{ID: s.Calls.OwnIDs.Add(1), Question: &wire.Question{Do: wire.DoActFor, Thread: unix.Gettid()}}
		uid, gid := -1, -1
		if !c.Take(func(tid int) { m.TID, uid, gid = tid, hostview.FSID(tid, "Uid"), hostview.FSID(tid, "Gid") }) {
			errno = unix.ESRCH
			return
		}
		if r := s.Calls.Ask(m, nil, wire.UntilAnswered); r.Errno != 0 {
			errno = r.Errno
			return
		}
		defer func() {
			m := *m
			m.ID, m.TID = s.Calls.OwnIDs.Add(1), 0
			s.Calls.Ask(&m, nil, wire.UntilAnswered)
		}()
		_, _ = unix.SetfsgidRetGid(gid)
		_, _ = unix.SetfsuidRetUid(uid)
		if now, err := unix.SetfsuidRetUid(-1); err != nil || now != uid {
			errno = unix.EACCES
			return
		}
		var err error
		if fd, err = unix.Open(path, o.flags|unix.O_CLOEXEC, o.mode&0o7777); err != nil {
			errno = wire.ErrnoOf(err)
		}
	}()
	<-done
	return fd, errno
}

// Programs tell what a descriptor of bpf(2) is by its link in /proc/PID/fd, which is "anon_inode:bpf-map" on Linux, and by
// /proc/PID/fdinfo. The host's kernel knows ours as files of a FUSE mount, so readlink(2) of such a link and opens of such
// a file are answered.

// anonPrefix is what the names of these descriptors begin with on Linux.
const anonPrefix = "anon_inode:"

// descriptorOf says of which process's which descriptor a path is the file in dir ("fd" or "fdinfo") of /proc/PID. self is the
// number of the thread that names it.
func descriptorOf(self int, at, dir string) (tid, fd int, ok bool) {
	rest, in := strings.CutPrefix(at, hostview.ProcDir+"/")
	parts := strings.Split(rest, "/")
	if n := len(parts); !in || n != 3 && n != 5 || parts[n-2] != dir || n == 5 && parts[1] != "task" {
		return 0, 0, false
	}
	who := parts[len(parts)-3]
	fd, err := strconv.Atoi(parts[len(parts)-1])
	if who == "self" || who == "thread-self" {
		return self, fd, err == nil
	}
	tid, terr := strconv.Atoi(who)
	return tid, fd, err == nil && terr == nil && hostview.SameSpace(self, "pid")
}

// anonName returns the name on Linux of a file whose link in /proc/PID/fd the host's kernel shows as name, or "" if it is
// none of ours.
func anonName(name string) string {
	number, kind, ok := strings.Cut(strings.TrimPrefix(name, "/"), ".")
	if _, err := strconv.ParseUint(number, 10, 64); err != nil || !ok || !perffd.IsBPF(name) && kind != perffd.PerfName {
		return ""
	}
	if kind == perffd.BPFName+"-btf" {
		kind = "btf"
	}
	return anonPrefix + kind
}

// readlink is the handler of readlink(2) and readlinkat(2): it answers one of the link of a descriptor of ours.
func (s *supervisor) readlink(c *notify.Caller) (rest func() bool) {
	arg, dir := 0, unix.AT_FDCWD
	if c.Nr == unix.SYS_READLINKAT {
		arg, dir = 1, int(int32(c.Args[0]))
	}
	name := ""
	if !c.Take(func(tid int) {
		text := string(hostview.ReadString(tid, c.Args[arg]))
		if base := filepath.Base(text); base[0] < '0' || base[0] > '9' {
			return
		}
		if of, fd, ok := descriptorOf(tid, s.absolute(tid, hostview.FileName{Dir: dir, Text: text}), "fd"); ok && hostview.MayRead(tid, of) {
			link, _ := os.Readlink(proc.Path(of, "fd/"+strconv.Itoa(fd)))
			name = anonName(link)
		}
	}) || name == "" {
		return nil
	}
	return func() bool {
		room := int(int32(c.Args[arg+2]))
		if room <= 0 {
			c.Fail(unix.EINVAL)
			return true
		}
		b := []byte(name)[:min(room, len(name))]
		if !c.Write(c.Args[arg+1], b) {
			c.Fail(unix.EFAULT)
			return true
		}
		c.Result(len(b), 0)
		return true
	}
}

// openFDInfo answers a call that opens the fdinfo of a descriptor of bpf(2). It returns false for others. The text is what it
// is at that time.
func (s *supervisor) openFDInfo(c *notify.Caller, call *calls.Row) bool {
	var head, link string
	var o openFlags
	q := &wire.Question{Do: wire.DoFDInfo}
	ok := false
	if !c.Take(func(tid int) {
		of, fd, is := descriptorOf(tid, s.nameIn(tid, call, c.Args), "fdinfo")
		if !is || !hostview.MayRead(tid, of) {
			return
		}
		link, _ = os.Readlink(proc.Path(of, "fd/"+strconv.Itoa(fd)))
		head, _ = proc.Read(of, "fdinfo/"+strconv.Itoa(fd))
		pid, err := proc.Process(of)
		q.FD, q.Thread = fd, pid
		o, ok = flagsOf(tid, call, c.Args)
		ok = ok && err == nil
	}) || !ok || anonName(link) == "" || o.flags&(unix.O_ACCMODE|unix.O_PATH|unix.O_DIRECTORY|unix.O_TRUNC) != unix.O_RDONLY {
		return false
	}
	f, err := wire.File("")
	if err != nil {
		return false
	}
	defer f.Close()
	if r := s.askOf(c, q, f); r.Errno != 0 || r.Host {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return false
	}
	sealed, err := sealedFile("fdinfo", append([]byte(head), text...))
	if err != nil {
		return false
	}
	defer unix.Close(sealed)
	if errno := c.Give(sealed, o.flags); errno != 0 {
		c.Fail(errno)
	}
	return true
}
