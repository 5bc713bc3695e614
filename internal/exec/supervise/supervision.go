package supervise

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/notify"
)

// What --uname takes.
const (
	UnameRelease = "release"
	UnameHost    = "host"
)

// Supervision supervises a command and what it leaves behind.
type Supervision struct {
	Over    chan struct{} // closed when no process has the filter any more, or none ever had
	sockets [2]*os.File
	running atomic.Pointer[supervisor]
}

// Ended waits for a time at most until no process is left, and reports whether none is.
func (s *Supervision) Ended(within time.Duration) bool {
	_ = s.sockets[1].Close() // if the command has not sent the listener, it has none
	select {
	case <-s.Over:
		return true
	case <-time.After(within):
		return false
	}
}

// End returns when nothing more can come from the command. If processes are left, the guard has their calls
// allowed when this process has ended.
func (s *Supervision) End() {
	s.Ended(LingerGrace)
	_ = s.sockets[0].Close()
}

// Settle is supervisor.settle. It does nothing if there is no supervisor.
func (s *Supervision) Settle() {
	if s == nil {
		return
	}
	if s := s.running.Load(); s != nil {
		s.settle()
	}
}

// Command returns a command that runs args under the filter, and supervises it once
// it runs.
func Command(log *logrus.Logger, name string, args []string, of Supervised) (cmd *exec.Cmd, sup *Supervision, err error) {
	ours, theirs, err := SocketPair()
	if err != nil {
		return nil, nil, err
	}
	own := []string{"supervised", name}
	if of.Kernel.Hosts {
		own = append(own, "--uname", UnameHost)
	}
	if of.Quiet {
		own = append(own, "--quiet")
	}
	if of.Plain {
		own = append(own, "--plain")
	}
	if of.Maps {
		own = append(own, "--maps")
	}
	cmd = exec.Command(ownFile, slices.Concat(own, []string{"--"}, args)...)
	cmd.ExtraFiles = []*os.File{theirs}
	sup = &Supervision{Over: make(chan struct{}), sockets: [2]*os.File{ours, theirs}}
	go func() {
		defer close(sup.Over)
		fds, err := receiveFDs(ours)
		_ = ours.Close()
		if err == nil {
			s := newSupervisor(log, fds[0], of)
			if err := s.leaveToGuard(of.Guard); err != nil {
				log.WithField("err", err).Warn("processes of the command cannot open files if this process is killed")
			}
			sup.running.Store(s)
			s.run()
		}
	}()
	return cmd, sup, nil
}

// SupervisedType is a type of file systems that nobody has. A mount(2) of it succeeds, and
// does nothing, where there is a supervisor.
const SupervisedType = "kprobefs.supervised"

// LingerGrace is how long the last process with the filter may outlive the command.
const LingerGrace = 20 * time.Millisecond

// ownFile names this program's file, even after it has been replaced on disk.
const ownFile = "/proc/self/exe"

// The guard is a process that has the filter's listener, too, and takes over when the supervisor has ended or
// has been killed: without anybody who has it, each call of which the filter notifies fails with ENOSYS.
// Even exit_group(2) would, after which C's exit has nothing left but to crash.

// leaveToGuard sends the guard what it needs, by a socket whose other end it has.
func (s *supervisor) leaveToGuard(guard *os.File) error {
	if guard == nil {
		return nil
	}
	fds := []int{s.listener}
	if memory := s.unanswered.Memory(); memory != nil {
		fds = append(fds, int(memory.Fd()))
	}
	return unix.Sendmsg(int(guard.Fd()), []byte{0}, unix.UnixRights(fds...), nil, 0)
}

// Guard waits until the supervisor at the other end of a socket has ended, however, and leaves a process
// behind that allows all calls of the processes that are left.
func Guard(supervisor *os.File) error {
	fds, err := receiveFDs(supervisor)
	if err != nil {
		return nil //nolint:nilerr // it has never had a filter
	}
	var files []*os.File
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "listener")
		defer f.Close()
		files = append(files, f)
	}
	_, _ = supervisor.Read(make([]byte, 1)) // up to the supervisor's end
	if over(fds[0]) {
		return nil
	}
	cmd := exec.Command(ownFile, "linger")
	cmd.ExtraFiles = files
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// over reports whether no process has a listener's filter any more.
func over(listener int) bool {
	poll := []unix.PollFd{{Fd: int32(listener)}} // for POLLHUP
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}

// AllowAll answers the notifications of a listener whose supervisor has gone, and those that the supervisor
// has received and not answered, which are in memory if that is not nil.
func AllowAll(listener int, memory *os.File) {
	r := newRefuser(func(string) {})
	if memory != nil {
		for _, n := range notify.Left(memory) {
			go allowLast(notify.NewCaller(n, listener), r)
		}
	}
	notify.NewListener(listener, notify.NewPending(), func(c *notify.Caller) { allowLast(c, r) }).Run()
}

// allowLast allows a call of a process that has outlived the emulated kernel, but none
// about that: it would reach the host's kernel.
func allowLast(c *notify.Caller, r *refuser) {
	if c.Nr == unix.SYS_MOUNT && c.Native() && c.String(2) == SupervisedType {
		c.Succeed()
		return
	}
	errno := r.refuse(c)
	if kernelCalls[c.Nr] != nil && c.Nr != unix.SYS_UNAME && c.Native() {
		errno = unix.EIO
	}
	if errno != 0 {
		c.Fail(errno)
		return
	}
	c.Proceed()
}

// SocketPair returns two connected sockets, the first of which does not block.
func SocketPair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "supervised"), nil
}

// receiveFDs waits for descriptors that the other side of a socket sends in one message.
func receiveFDs(f *os.File) ([]int, error) {
	const most = 2
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4*most))
	var n int
	var rerr error
	err = conn.Read(func(fd uintptr) bool {
		for {
			_, n, _, _, rerr = unix.Recvmsg(int(fd), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(rerr, unix.EINTR) {
				return !errors.Is(rerr, unix.EAGAIN)
			}
		}
	})
	if err = errors.Join(err, rerr); err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return fds, nil
}
