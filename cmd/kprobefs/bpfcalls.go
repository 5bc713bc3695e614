package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/host"
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
	bpfOurs = "ours"
	bpfHost = "host"
	bpfNone = "none"
)

// bpfSince is the first release here that has bpf(2), which is of Linux 3.18.
const bpfSince = release.Linux4_15

// answerLimit answers a caller that raises its RLIMIT_MEMLOCK after a bpf(2) of ours: programs do so for the sake of
// maps, which take none of the host's locked memory here, and it would fail in a user namespace.
func (s *supervisor) answerLimit(c *caller) {
	pid := uint64(0)
	if !c.take(func(tid int) { n, _ := s.groups.of(tid); pid = uint64(n) }) {
		return
	}
	if _, uses := s.usesBPF.Load(pid); !uses || c.args[0] != 0 && c.args[0] != pid || c.args[2] == 0 || c.args[3] != 0 {
		c.proceed()
		return
	}
	c.succeed()
}

// answerBPF answers bpf(2).
func (s *supervisor) answerBPF(c *caller) {
	switch {
	case s.bpf == bpfHost:
		if errno := s.refuser.refuse(c); errno != 0 {
			c.fail(errno)
		} else {
			c.proceed()
		}
		return
	case s.kernel.linux < bpfSince:
		c.fail(unix.ENOSYS)
		return
	case s.bpf == bpfNone, !c.capable(unix.CAP_SYS_ADMIN, unix.CAP_BPF):
		c.fail(unix.EPERM) // kernel.unprivileged_bpf_disabled is 2 on Debian
		return
	}
	var memory *os.File
	var err error
	pid := 0
	waits := c.take(func(tid int) {
		memory, err = os.Open(proc.Path(tid, "mem"))
		pid, _ = s.groups.of(tid)
	})
	if err != nil {
		c.fail(unix.ESRCH)
		return
	}
	defer memory.Close()
	if !waits {
		return
	}
	s.usesBPF.Store(uint64(pid), struct{}{})
	r := s.askOf(c, &question{Do: doBPF, BPF: &kprobefs.BPFCall{Command: uint32(c.args[0]), Addr: c.args[1], Size: uint32(c.args[2])}}, memory)
	if r.file != nil {
		defer r.file.Close()
	}
	for _, w := range r.writes {
		if !c.write(w.Addr, w.Bytes) {
			c.fail(unix.EFAULT)
			return
		}
	}
	switch {
	case r.Errno != 0:
		c.fail(r.Errno)
	case r.file == nil:
		c.result(r.Ret, 0)
	default:
		if errno := c.give(int(r.file.Fd()), unix.O_CLOEXEC); errno != 0 {
			c.fail(errno)
		}
	}
}

// answerIoctl answers PERF_EVENT_IOC_SET_BPF of an event of ours.
func (s *supervisor) answerIoctl(c *caller) {
	fd := int(int32(c.args[0]))
	if s.bpf != bpfOurs || !strings.HasSuffix(c.fileName(fd), kprobefs.PerfName) {
		c.proceed()
		return
	}
	r := s.askOf(c, &question{Do: doSetBPF, FD: fd, Program: int(int32(c.args[2]))}, nil)
	if r.Host {
		c.proceed()
		return
	}
	c.result(0, r.Errno)
}

// bpf answers a bpf(2) in the serving process.
func (c *callConn) bpf(m *callMessage, memory io.ReaderAt, r *reply) (*os.File, error) {
	if m.Question.BPF == nil {
		return nil, unix.EINVAL
	}
	call := *m.Question.BPF
	call.Memory = memory
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	ret, f, writes, err := c.activity.Load().BPF(by, call)
	r.Ret, r.writes = ret, writes
	return f, err
}

// setBPF answers a PERF_EVENT_IOC_SET_BPF in the serving process.
func (c *callConn) setBPF(m *callMessage) error {
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	return c.activity.Load().SetBPF(by, m.Question.FD, m.Question.Program)
}
