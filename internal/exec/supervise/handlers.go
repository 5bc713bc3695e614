package supervise

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/exec/activity"
	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A handler begins to answer a call. It returns the rest, which may take long and must not delay other
// notifications, or nil if the host's kernel is to make the call at once. The rest returns false if the host's kernel is to make
// the call after it.
type handler func(*supervisor, *notify.Caller) (rest func() (answered bool))

// handlers has the calls of the native table of which the host's kernel notifies, by their numbers.
var handlers = func() map[int32]handler {
	all := map[int32]handler{
		unix.SYS_LSEEK:  onFile((*supervisor).seek),
		unix.SYS_SPLICE: onFile((*supervisor).splice),

		unix.SYS_MOUNT:   long((*supervisor).mount),
		unix.SYS_UMOUNT2: long((*supervisor).umount),
		unix.SYS_FSOPEN:  long((*supervisor).fsopen),
		unix.SYS_STATFS:  long((*supervisor).statfs),
		unix.SYS_FSTATFS: long((*supervisor).fstatfs),

		unix.SYS_PERF_EVENT_OPEN: answering((*supervisor).answerPerf),
		unix.SYS_BPF:             answering((*supervisor).answerBPF),
		unix.SYS_PRLIMIT64:       answering((*supervisor).answerLimit),
		unix.SYS_IOCTL:           answering((*supervisor).answerIoctl),
		unix.SYS_MMAP:            answering((*supervisor).answerPerfMap),
		calls.UserProbeCall:      answering((*supervisor).answerUserProbe),

		unix.SYS_EPOLL_CTL: nothing, // but swapBack
	}
	for nr, answer := range kernelCalls {
		all[nr] = answering(func(s *supervisor, c *notify.Caller) { c.Result(answer(s, c)) })
	}
	for _, row := range calls.Rows {
		if row.Told() || row.Except != nil {
			all[int32(row.Host)] = telling(row)
		}
	}
	for _, nr := range calls.ReadlinkCalls {
		all[int32(nr)] = (*supervisor).readlink
	}
	return all
}()

// kernelCalls are the system calls about the kernel that the supervisor answers for the
// emulated one: none of them reaches the host's kernel. uname(2) is one of them unless
// --uname=host.
var kernelCalls = map[int32]func(*supervisor, *notify.Caller) (int, syscall.Errno){
	unix.SYS_INIT_MODULE:   (*supervisor).initModule,
	unix.SYS_FINIT_MODULE:  (*supervisor).finitModule,
	unix.SYS_DELETE_MODULE: (*supervisor).deleteModule,
	unix.SYS_SYSLOG:        (*supervisor).syslog,
	unix.SYS_UNAME:         (*supervisor).uname,
}

// nothing is the handler of a call before which there is nothing to do.
func nothing(*supervisor, *notify.Caller) func() bool { return nil }

// long is the handler of a call whose answer may take long.
func long(answer func(*supervisor, *notify.Caller) bool) handler {
	return func(s *supervisor, c *notify.Caller) func() bool {
		return func() bool { return answer(s, c) }
	}
}

// answering is long for a function that answers each call, or lets the host's kernel make it itself.
func answering(answer func(*supervisor, *notify.Caller)) handler {
	return long(func(s *supervisor, c *notify.Caller) bool {
		answer(s, c)
		return true
	})
}

// onFile is long for calls whose first argument is a descriptor of a file of ours; the host's kernel makes others.
func onFile(answer func(*supervisor, *notify.Caller) bool) handler {
	return func(s *supervisor, c *notify.Caller) func() bool {
		if !s.ours(c, int(int32(c.Args[0]))) {
			return nil
		}
		return func() bool { return answer(s, c) }
	}
}

// telling is the handler of a call that the guest makes, too. Some files that are opened are ours.
func telling(call *calls.Row) handler {
	bit := activity.CallBit(call.Guest)
	return func(s *supervisor, c *notify.Caller) func() bool {
		tells := s.tells(c, call, bit)
		if !tells && !(call.OpensFile() && s.mayBeOurs(c, call)) {
			return nil
		}
		return func() bool {
			if call.OpensFile() && (s.openProc(c, call) || s.openFDInfo(c, call)) { // which are requests
				return true
			}
			if tells {
				if refused := s.trace(c, call); refused != 0 {
					c.Fail(refused)
					return true
				}
			}
			return call.OpensFile() && s.openMounts(c, call)
		}
	}
}

// answer has a notification's handler answer it, and lets the host's kernel make calls that no handler answers.
func (s *supervisor) answer(c *notify.Caller) {
	s.swapBack(c)
	s.Made.Ns.CoverFresh(c)
	handler := handlers[c.Nr]
	if handler == nil || !c.Native() {
		s.screen(c)
		return
	}
	rest := handler(s, c)
	if rest == nil {
		c.Proceed()
		return
	}
	s.later(c, func() {
		if !rest() {
			c.Proceed()
		}
	})
}

// screen refuses a call that must not reach the host's kernel, and lets it make others.
func (s *supervisor) screen(c *notify.Caller) {
	if errno := s.refuser.refuse(c); errno != 0 {
		c.Fail(errno)
	} else {
		c.Proceed()
	}
}

// tells reports whether somebody could see a call that the serving process has not seen to. It is always told of the
// command's first program, since that is when it attaches to the command.
func (s *supervisor) tells(c *notify.Caller, call *calls.Row, bit uint32) bool {
	if call.Guest == abi.SysExecve && !s.begun.Swap(true) {
		return true
	}
	if !s.Calls.Wants(bit) {
		return false
	}
	made := false
	if call.By == calls.Either {
		c.Take(func(tid int) { made = s.Calls.SeenTo(tid) })
	}
	return !made
}

// seek corrects the position of a file of ours before lseek(2), which the host's kernel makes.
func (s *supervisor) seek(c *notify.Caller) bool {
	fd := int(int32(c.Args[0]))
	if err := rightPosition(c, fd); err != nil {
		s.log.WithField("fd", fd).WithField("err", err).Debug("lseek")
	}
	return false
}

// rightPosition sets the position of a caller's descriptor to the one on Linux. It fails
// with ENOTTY when the file is a directory, or not in our tree.
func rightPosition(c *notify.Caller, fd int) error {
	f, err := c.Borrow(fd)
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

// trace reports a call, unless it opens one of our files: that arrives as a request. It returns the error with which a program has
// refused the call, or 0.
func (s *supervisor) trace(c *notify.Caller, call *calls.Row) syscall.Errno {
	var m *wire.Message
	if c.Take(func(tid int) { m = s.message(tid, c, call) }) && m != nil {
		return s.Calls.Tell(m)
	}
	return 0
}

// message returns what the serving process hears of a call, or nil if it hears nothing.
func (s *supervisor) message(tid int, n *notify.Caller, call *calls.Row) *wire.Message {
	ours := s.paths()
	m := &wire.Message{ID: n.ID, TID: tid, Nr: call.Guest, Args: n.Args}
	m.PID, _ = s.groups.Of(tid)
	m.Comm, _ = proc.Comm(tid)
	name := call.Name()
	for _, i := range []int{name, call.Arg(calls.IsText)} {
		if i >= 0 && n.Args[i] != 0 {
			m.Text[i] = hostview.ReadString(tid, n.Args[i])
		}
	}
	if name >= 0 {
		file := hostview.FileName{Dir: call.Dir(n.Args), Text: string(m.Text[name]), Link: call.Link(n.Args)}
		path, mode := hostview.View{}.Path(tid, file, ours)
		if of, hosts := s.Knobs.Hosts(path); hosts {
			mode = of
		} else if hostview.Below(path, ours) {
			if call.OpensFile() {
				return nil
			}
			mode, m.Ours = hostview.View{}.ModeOf(path, file.Link), true
		}
		m.Mode = mode
		if call.Guest == abi.SysExecve || call.Guest == abi.SysExecveat {
			for _, i := range []int{name + 1, name + 2} {
				m.Vector[i] = hostview.ReadVector(tid, n.Args[i])
			}
			if call.Guest == abi.SysExecveat && file.Text == "" {
				m.Text[5] = hostview.ProgramName(tid, file.Dir)
			}
			var err error
			if m.Head, err = hostview.Heads(tid, path, ours); err != nil {
				_ = errors.As(err, &m.HeadErr)
			}
		}
	}
	switch call.Guest {
	case abi.SysOpenat2: // struct open_how
		m.Text[2] = proc.ReadMemory(tid, n.Args[2], make([]byte, 24))
	case abi.SysPrctl:
		m.Text[1] = hostview.ReadString(tid, n.Args[1])
	}
	if call.Plain() {
		ok := false
		if m.Text[0], ok = activity.ReadPlain(tid, call.Guest, n.Args); !ok {
			return nil
		}
	}
	return m
}
