package supervise

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
	"github.com/kprobefs/kprobefs/internal/exec/perffd"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// bpf(2) of 64-bit programs is answered by the serving process, like perf_event_open(2)
// (perfcalls.go). It reads the caller's memory through /proc/TID/mem, which the supervisor
// has opened while the caller waited, and says what is to be written there. The host's
// bpf(2) gets no call. PERF_EVENT_IOC_SET_BPF is answered likewise: the host's kernel would take its
// argument for a pointer.

// What --bpf takes.
const (
	BPFOurs = "ours"
	BPFHost = "host"
	BPFNone = "none"
)

// forAll are the commands that need no capability where who has the descriptor, or may open the file, may use it
// (release.BPFByDescriptor).
var forAll = map[uint64]bool{
	unix.BPF_MAP_LOOKUP_ELEM: true, unix.BPF_MAP_UPDATE_ELEM: true, unix.BPF_MAP_DELETE_ELEM: true, unix.BPF_MAP_GET_NEXT_KEY: true,
	unix.BPF_OBJ_PIN: true, unix.BPF_OBJ_GET: true, unix.BPF_OBJ_GET_INFO_BY_FD: true, unix.BPF_MAP_LOOKUP_AND_DELETE_ELEM: true,
	unix.BPF_MAP_LOOKUP_BATCH: true, unix.BPF_MAP_LOOKUP_AND_DELETE_BATCH: true, unix.BPF_MAP_UPDATE_BATCH: true, unix.BPF_MAP_DELETE_BATCH: true,
}

// hasBPFFS reports whether the command has a bpffs of ours.
func (s *supervisor) hasBPFFS() bool { return s.BPF == BPFOurs && s.Kernel.Linux.Has(release.BPFCalls) }

// answerLimit answers a caller that raises its RLIMIT_MEMLOCK after a bpf(2) of ours: programs do so for the sake of
// maps, which take none of the host's locked memory here, and it would fail in a user namespace.
func (s *supervisor) answerLimit(c *notify.Caller) {
	pid := uint64(0)
	if !c.Take(func(tid int) { n, _ := s.groups.Of(tid); pid = uint64(n) }) {
		return
	}
	if _, uses := s.usesBPF.Load(pid); !uses || c.Args[0] != 0 && c.Args[0] != pid || c.Args[2] == 0 || c.Args[3] != 0 {
		c.Proceed()
		return
	}
	c.Succeed()
}

// answerBPF answers bpf(2).
func (s *supervisor) answerBPF(c *notify.Caller) {
	switch {
	case s.BPF == BPFHost:
		s.screen(c)
		return
	case !s.Kernel.Linux.Has(release.BPFCalls):
		c.Fail(unix.ENOSYS)
		return
	case s.BPF == BPFNone, !(forAll[c.Args[0]] && s.Kernel.Linux.Has(release.BPFByDescriptor)) && !c.Capable(unix.CAP_SYS_ADMIN, unix.CAP_BPF),
		c.Args[0] == unix.BPF_TASK_FD_QUERY && !c.Capable(unix.CAP_SYS_ADMIN):
		c.Fail(unix.EPERM) // kernel.unprivileged_bpf_disabled is 2 on Debian
		return
	}
	var memory *os.File
	var err error
	pid := 0
	waits := c.Take(func(tid int) {
		memory, err = os.Open(proc.Path(tid, "mem"))
		pid, _ = s.groups.Of(tid)
	})
	if err != nil {
		c.Fail(unix.ESRCH)
		return
	}
	defer memory.Close()
	if !waits {
		return
	}
	s.usesBPF.Store(uint64(pid), struct{}{})
	call := &perffd.BPFCall{Command: uint32(c.Args[0]), Addr: c.Args[1], Size: uint32(c.Args[2])}
	if call.Command == perffd.BPFObjPin || call.Command == perffd.BPFObjGet {
		call.Path, call.Refused = s.pinnedPath(c, call.Command == perffd.BPFObjPin)
	}
	r := s.askOf(c, &wire.Question{Do: wire.DoBPF, BPF: call}, memory)
	if r.File != nil {
		defer r.File.Close()
	}
	for _, g := range r.Given {
		defer g.File.Close()
		if errno := c.Replace(g.FD, int(g.File.Fd()), unix.O_CLOEXEC); errno != 0 && r.Errno == 0 {
			r.Errno = errno
		}
	}
	for _, w := range r.Writes {
		if !c.Write(w.Addr, w.Bytes) {
			c.Fail(unix.EFAULT)
			return
		}
	}
	switch {
	case r.Errno != 0:
		c.Fail(r.Errno)
	case r.File == nil:
		c.Result(r.Ret, 0)
	default:
		if errno := c.Give(int(r.File.Fd()), unix.O_CLOEXEC); errno != 0 {
			c.Fail(errno)
		}
	}
}

// answerIoctl answers PERF_EVENT_IOC_SET_BPF of an event of ours.
func (s *supervisor) answerIoctl(c *notify.Caller) {
	fd := int(int32(c.Args[0]))
	if uint32(c.Args[1]) != unix.PERF_EVENT_IOC_SET_BPF || s.BPF != BPFOurs || !strings.HasSuffix(c.FileName(fd), perffd.PerfName) {
		c.Proceed()
		return
	}
	r := s.askOf(c, &wire.Question{Do: wire.DoSetBPF, FD: fd, Program: int(int32(c.Args[2]))}, nil)
	if r.Host {
		c.Proceed()
		return
	}
	c.Result(0, r.Errno)
}

// pinnedPath returns the path in our bpffs of the file that a call of bpf(2) names: one to be made, or one that there is. It
// fails with EPERM for one to be made elsewhere, and with EACCES for another file.
func (s *supervisor) pinnedPath(c *notify.Caller, makes bool) (at string, refused syscall.Errno) {
	other := unix.EACCES
	if makes {
		other = unix.EPERM
	}
	name, last := pinnedName(c), ""
	if name == "" {
		return "", unix.ENOENT
	}
	if makes {
		last = filepath.Base(name)
		name = filepath.Dir(strings.TrimRight(name, "/"))
	}
	var mounts []hostview.Mount
	var err error
	same := false
	waits := c.Take(func(tid int) {
		if same = hostview.SameView(tid); same {
			name, _ = hostview.View{}.Path(tid, hostview.FileName{Dir: unix.AT_FDCWD, Text: name}, s.paths())
			mounts, err = hostview.Mounts(tid)
		}
	})
	if !waits || err != nil || !same {
		return "", other
	}
	fd, errno := s.openFor(c, name, openFlags{flags: unix.O_PATH})
	if errno != 0 {
		return "", errno
	}
	defer unix.Close(fd)
	kind, inner := hostview.FileSystem(fd, mounts)
	if kind == hostview.BPFFS {
		return filepath.Join(inner, last), 0
	}
	var st unix.Stat_t
	if makes && unix.Fstatat(fd, last, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return "", unix.EEXIST
	}
	return "", other
}

// pinnedName returns the path that attr.pathname points to, or "".
func pinnedName(c *notify.Caller) (name string) {
	addr := c.Read(c.Args[1], 8)
	if len(addr) < 8 || !c.Take(func(tid int) { name = string(hostview.ReadString(tid, binary.NativeEndian.Uint64(addr))) }) {
		return ""
	}
	return name
}
