package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// exec runs its command under a seccomp filter that sends a user notification before
// some system calls. All of them are then made, except as said below.
//
// Before an lseek(2) that asks for the position (SEEK_CUR), the supervisor corrects the
// position of a file of ours: writes to some files do not move it, but FUSE cannot
// express that, and the host's kernel moves it.
//
// Before a call of tracedCalls, while somebody watches, the guest makes the same call,
// so that probes see it (traced.go, calls.go).
//
// What programs see of our mounts, and a mount(2) of tracefs or debugfs, is answered as
// if ours were these file systems (filesystems.go).
//
// Calls that load and unload modules, read the kernel's log and ask for its name are
// answered for the emulated kernel (kernelcalls.go).
//
// Opens of files that modules have made in /proc are answered with a descriptor
// (procnames.go).
//
// Calls of perf_event_open(2) for our events are answered with a descriptor, whose mmap(2) is
// prepared before it is made (perfcalls.go).
//
// Other calls of perf_event_open(2) and bpf(2) that would reach the host's tracepoints and
// probes are refused (refused.go).
//
// A splice(2) from a file that fills the pages of a pipe in part is answered (splice.go).
//
// Other calls are not affected, and if the filter cannot be installed the command runs
// without it. The filter stays with processes that outlive the command, so a process
// must remain that answers them: linger.

// auditArch returns the architecture's number in filters, and whether it is known.
func auditArch() (uint32, bool) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, true
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, true
	}
	return 0, false
}

// callFilter notifies of lseek(2) with SEEK_CUR, of prctl(2) with PR_SET_NAME and
// PR_SET_MEMORY_MERGE, of splice(2), of placeCalls, of calls, of kernel, which are numbers of answeredCalls,
// of perf_event_open(2), of mmap(2) where that may be of what it has returned, of PERF_EVENT_IOC_SET_BPF, of userProbeCall, of prlimit(2) of RLIMIT_MEMLOCK, and of
// bpf(2), and allows everything else. In the other system call tables that
// programs on this machine may use it knows only perf_event_open(2), bpf(2) with one of bpfCommands, and foreignCalls. Offsets are those of
// struct seccomp_data: 0 nr, 4 arch, 16+8n the arguments.
func callFilter(arch uint32, calls []tracedCall, kernel []uint32) []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
	)
	ask := unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_USER_NOTIF}
	allow := unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW}
	// only notifies when the call has the number nr, and its argument is one of the values, if there are any.
	only := func(f []unix.SockFilter, nr uint32, argument int, values ...uint32) []unix.SockFilter {
		if len(values) == 0 {
			return append(f, unix.SockFilter{Code: equal, K: nr, Jf: 1}, ask)
		}
		n := uint8(len(values))
		f = append(f, unix.SockFilter{Code: equal, K: nr, Jf: n + 3}, unix.SockFilter{Code: load, K: 16 + 8*uint32(argument)})
		for i, v := range values {
			f = append(f, unix.SockFilter{Code: equal, K: v, Jt: n - uint8(i)})
		}
		return append(f, allow, ask)
	}
	f := []unix.SockFilter{{Code: load, K: 4}, {Code: equal, K: arch, Jt: 1}, {Code: unix.BPF_JMP | unix.BPF_JA}, {Code: load, K: 0}}
	const skip = 2 // the jump to the other tables
	for _, c := range calls {
		f = only(f, c.host, 0)
	}
	for _, nr := range append(slices.Clone(kernel), placeCalls...) {
		f = only(f, nr, 0)
	}
	f = only(f, unix.SYS_PRCTL, 0, unix.PR_SET_NAME, unix.PR_SET_MEMORY_MERGE)
	f = only(f, unix.SYS_LSEEK, 2, unix.SEEK_CUR)
	f = only(f, unix.SYS_SPLICE, 0)
	f = only(f, unix.SYS_IOCTL, 1, unix.PERF_EVENT_IOC_SET_BPF)
	f = only(f, userProbeCall, 0)
	f = only(f, unix.SYS_PRLIMIT64, 1, unix.RLIMIT_MEMLOCK)
	f = append(f, perfMapFilter()...)
	others := []unix.SockFilter{}
	foreign := func(f []unix.SockFilter, arch uint32) []unix.SockFilter {
		for _, c := range foreignCalls {
			if c.arch == arch && (slices.Contains(kernel, c.native) || slices.Contains(placeForeign, c.native)) {
				f = only(f, c.nr, 0)
			}
		}
		return f
	}
	for i, k := range kernelNumbers {
		if k.arch == arch {
			f = only(only(f, k.perf, 0), k.bpf, 0)
			if i == 0 {
				f = foreign(f, arch)
			}
			continue
		}
		of := foreign(only(only([]unix.SockFilter{{Code: load, K: 0}}, k.perf, 0), k.bpf, 0, bpfCommands...), k.arch)
		others = append(others, unix.SockFilter{Code: load, K: 4}, unix.SockFilter{Code: equal, K: k.arch, Jf: uint8(len(of))})
		others = append(others, of...)
	}
	f = append(f, allow)
	f[skip].K = uint32(len(f) - skip - 1)
	return append(append(f, others...), allow)
}

// supervised is what a supervisor needs to know.
type supervised struct {
	dirs   []string    // where our files are mounted
	calls  *callClient // to the serving process
	kernel identity    // the emulated kernel
	made   *places     // files of modules
	knobs  knobs
	bpf    string // what --bpf says
}

// paths returns the paths at which files of ours are.
func (s *supervised) paths() []string { return append(s.made.dirs(), s.dirs...) }

// supervision is that of a command and of what it leaves behind.
type supervision struct {
	p        *program
	over     chan struct{} // closed when no process has the filter any more, or none ever had
	listener chan int      // gets the filter's listener
	sockets  [2]*os.File
	running  atomic.Pointer[supervisor]
}

// ended waits for a time at most until no process is left, and reports whether none is.
func (s *supervision) ended(within time.Duration) bool {
	_ = s.sockets[1].Close() // if the command has not sent the listener, it has none
	select {
	case <-s.over:
		return true
	case <-time.After(within):
		return false
	}
}

// end has the calls of processes that are left allowed by another process. settle is called after
// that, when the serving process has ended.
func (s *supervision) end() {
	ended := s.ended(lingerGrace)
	_ = s.sockets[0].Close()
	if !ended {
		if fd, ok := <-s.listener; ok {
			s.p.linger(fd)
		}
	}
}

// settle is supervisor.settle. It does nothing if there is no supervisor.
func (s *supervision) settle() {
	if s == nil {
		return
	}
	if s := s.running.Load(); s != nil {
		s.settle()
	}
}

// supervised returns a command that runs args under the filter, and supervises it once
// it runs.
func (p *program) supervised(name string, args []string, of supervised) (cmd *exec.Cmd, sup *supervision, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	own := []string{"supervised", name}
	if of.kernel.hosts {
		own = append(own, "--uname", unameHost)
	}
	cmd = exec.Command(self, slices.Concat(own, []string{"--"}, args)...)
	cmd.ExtraFiles = []*os.File{theirs}
	sup = &supervision{p: p, over: make(chan struct{}), listener: make(chan int, 1), sockets: [2]*os.File{ours, theirs}}
	go func() {
		defer close(sup.over)
		defer close(sup.listener)
		fd, err := receiveFD(ours)
		_ = ours.Close()
		if err == nil {
			sup.listener <- fd
			s := newSupervisor(p.log, fd, of)
			sup.running.Store(s)
			s.run()
		}
	}()
	return cmd, sup, nil
}

// supervisedType is a type of file systems that nobody has. A mount(2) of it succeeds, and
// does nothing, where there is a supervisor.
const supervisedType = "kprobefs.supervised"

// checkNested fails with EBUSY below another exec. A process can have one supervisor only
// (seccomp(2)): the outer one would answer calls of an inner command for its own kernel,
// while the command sees the files of another one.
func checkNested() error {
	if unix.Mount("none", "/", supervisedType, 0, "") != nil {
		return nil
	}
	return fmt.Errorf("this is below 'kprobefs exec' already, which cannot be nested: run CMD as it is; for a second kernel 'kprobefs mount' its tree: %w", unix.EBUSY)
}

// lingerGrace is how long the last process with the filter may outlive the command.
const lingerGrace = 20 * time.Millisecond

// linger leaves a process behind that allows all calls of processes that outlive the
// command.
func (p *program) linger(listener int) {
	theirs, err := unix.FcntlInt(uintptr(listener), unix.F_DUPFD_CLOEXEC, 0) // the supervisor still answers by its own
	if err != nil {
		p.log.WithField("err", err).Warn("processes that outlive the command cannot open files")
		return
	}
	f := os.NewFile(uintptr(theirs), "listener")
	defer f.Close()
	cmd := exec.Command(self, "linger")
	cmd.ExtraFiles = []*os.File{f}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		p.log.WithField("err", err).Warn("processes that outlive the command cannot open files")
		return
	}
	_ = cmd.Process.Release()
}

// lingerCommand is the command of that process. Its descriptor 3 is the listener.
func lingerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "linger",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			r := newRefuser(func(string) {})
			newListener(3, func(c *caller) { allowLast(c, r) }).run()
		},
	}
}

// allowLast allows a call of a process that has outlived the emulated kernel, but none
// about that: it would reach the host's kernel.
func allowLast(c *caller, r *refuser) {
	if c.nr == unix.SYS_MOUNT && c.native() && c.string(2) == supervisedType {
		c.succeed()
		return
	}
	errno := r.refuse(c)
	if answeredCalls[c.nr] != nil && c.nr != unix.SYS_UNAME && c.native() {
		errno = unix.EIO
	}
	if errno != 0 {
		c.fail(errno)
		return
	}
	c.proceed()
}

func socketPair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "supervised"), nil
}

// receiveFD waits for the descriptor that the other side sends.
func receiveFD(f *os.File) (int, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	var n int
	var rerr error
	err = conn.Read(func(fd uintptr) bool {
		_, n, _, _, rerr = unix.Recvmsg(int(fd), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(rerr, unix.EAGAIN)
	})
	if err = errors.Join(err, rerr); err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return -1, errors.Join(err, io.ErrUnexpectedEOF)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return -1, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return fds[0], nil
}

// supervisor answers the notifications of one filter.
type supervisor struct {
	log      *logrus.Logger
	listener int
	supervised
	traced  map[int32]*tracedCall
	refuser *refuser
	usesBPF sync.Map // the processes that have made a bpf(2) of ours: uint64
	groups  threadGroups
	owned   sync.Map // fs.Ownership by the name of a file system, as mount options said
	sources sync.Map // what was named as the source of a mount(2) of ours, by the mount's id

	notifications *listener
	answers       sync.WaitGroup // to notifications, that a receiver has left to another goroutine
	pending       sync.Map       // their *caller, by the notification's id
}

func newSupervisor(log *logrus.Logger, listener int, of supervised) *supervisor {
	s := &supervisor{log: log, listener: listener, supervised: of, traced: map[int32]*tracedCall{}}
	s.refuser = newRefuser(func(why string) { log.Warn(why) })
	s.refuser.passed = func(call string, kind uint32) {
		log.WithFields(logrus.Fields{"call": call, "type": kind}).Debug("left to the host")
	}
	for _, c := range append(slices.Clone(tracedCalls), tracedCall{unix.SYS_PRCTL, abi.SysPrctl, -1, -1, -1, false, 0}) {
		c.bit = kprobefs.CallBit(c.guest)
		s.traced[int32(c.host)] = &c
	}
	s.notifications = newListener(listener, s.answer)
	return s
}

// run answers notifications until the last process with the filter ends.
func (s *supervisor) run() { s.notifications.run() }

// later answers a notification without delaying others.
func (s *supervisor) later(c *caller, answer func()) {
	s.pending.Store(c.id, c)
	s.answers.Go(func() {
		answer()
		s.pending.Delete(c.id)
	})
}

// settle gives the notifications that this process has received their answers, those
// that take too long like a process that lingers, and receives no more: another process has
// taken over the listener, but it would not get these.
func (s *supervisor) settle() {
	allow := func(c *caller) { allowLast(c, s.refuser) }
	s.notifications.stop(allow)
	done := make(chan struct{})
	go func() {
		s.answers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(settleGrace):
		s.pending.Range(func(_, c any) bool {
			allow(c.(*caller))
			return true
		})
	}
}

// answer allows the call, at once if there is nothing to do before. Work before it must
// not delay other notifications.
func (s *supervisor) answer(c *caller) {
	call := s.traced[c.nr]
	switch {
	case answeredCalls[c.nr] != nil && c.native():
		s.later(c, func() { s.answerKernel(c) })
	case c.nr == unix.SYS_PERF_EVENT_OPEN && c.native():
		s.later(c, func() { s.answerPerf(c) })
	case c.nr == unix.SYS_BPF && c.native():
		s.later(c, func() { s.answerBPF(c) })
	case c.nr == unix.SYS_PRLIMIT64 && c.native():
		s.later(c, func() { s.answerLimit(c) })
	case c.nr == userProbeCall && c.native():
		s.later(c, func() { s.answerUserProbe(c) })
	case c.nr == unix.SYS_IOCTL && c.native():
		s.later(c, func() { s.answerIoctl(c) })
	case c.nr == unix.SYS_MMAP && c.native():
		s.later(c, func() { s.answerPerfMap(c) })
	case c.nr == unix.SYS_SPLICE && c.native():
		if !s.ours(c, int(int32(c.args[0]))) {
			c.proceed()
			return
		}
		s.later(c, func() {
			if !s.splice(c) {
				c.proceed()
			}
		})
	case call == nil && !slices.Contains(placeCalls, uint32(c.nr)) && c.nr != unix.SYS_LSEEK || !c.native():
		if errno := s.refuser.refuse(c); errno != 0 {
			c.fail(errno)
		} else {
			c.proceed()
		}
	case call == nil && c.nr != unix.SYS_LSEEK:
		s.later(c, func() {
			if !s.answerPlace(c) {
				c.proceed()
			}
		})
	case call != nil && (s.calls.wants(call) || opens(call.guest) && s.mayBeOurs(c, call)):
		s.later(c, func() {
			if opens(call.guest) && s.openProc(c, call) { // which is a request
				return
			}
			if s.calls.wants(call) {
				s.trace(c, call)
			}
			if !opens(call.guest) || !s.openMounts(c, call) {
				c.proceed()
			}
		})
	case call == nil && s.ours(c, int(int32(c.args[0]))):
		s.later(c, func() {
			fd := int(int32(c.args[0]))
			if err := rightPosition(c, fd); err != nil {
				s.log.WithFields(logrus.Fields{"fd": fd, "err": err}).Debug("lseek")
			}
			c.proceed()
		})
	default:
		c.proceed()
	}
}

// ours reports whether a descriptor is one of our files.
func (s *supervisor) ours(c *caller, fd int) bool {
	return below(c.fileName(fd), s.paths())
}

// rightPosition sets the position of a caller's descriptor to the one on Linux. It fails
// with ENOTTY when the file is a directory, or not in our tree.
func rightPosition(c *caller, fd int) error {
	f, err := c.borrow(fd)
	if err != nil {
		return err
	}
	defer unix.Close(f)
	pos, err := unix.Seek(f, 0, unix.SEEK_CUR)
	if err != nil {
		return err
	}
	want, err := fs.TruePosition(f, pos)
	if err != nil || want == pos {
		return err
	}
	_, err = unix.Seek(f, want, unix.SEEK_SET)
	return err
}

func below(path string, dirs []string) bool {
	for _, d := range dirs {
		if rest, ok := strings.CutPrefix(path, d); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// supervisedCommand is the process that becomes the command. Its descriptor 3
// is the way to the supervisor.
func (p *program) supervisedCommand() *cobra.Command {
	var kernel identity
	uname := ""
	c := &cobra.Command{
		Use:    "supervised FILE -- ARGV...",
		Hidden: true,
		Args:   cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			unix.CloseOnExec(3)
			kernel.hosts = uname == unameHost
			if err := filterSelf(kernel); err != nil {
				p.log.WithField("err", err).Debug("no supervisor")
			}
			_ = unix.Close(3)
			err := syscall.Exec(args[0], args[1:], os.Environ())
			if errors.Is(err, syscall.ENOENT) && exists(args[0]) {
				err = errors.New("its interpreter does not exist")
			}
			return cannotRun(fmt.Errorf("%s: %w", args[0], err))
		},
	}
	c.Flags().StringVar(&uname, "uname", "", "")
	return c
}

// filterSelf installs the filter on this thread, which will execute the command, and
// sends the listener.
func filterSelf(kernel identity) error {
	arch, ok := auditArch()
	if !ok {
		return fmt.Errorf("no filter for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	filter := callFilter(arch, tracedCalls, kernel.numbers())
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// A call that has been reported must not be reported again because of a signal.
	const waitKillable = 1 << 5 // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, since Linux 5.19
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|waitKillable, uintptr(unsafe.Pointer(&prog)))
	if errno == unix.EINVAL {
		listener, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	}
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	defer unix.Close(int(listener))
	return unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(listener)), nil, 0)
}
