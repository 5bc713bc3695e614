package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/exec/activity"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/perffd"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// Server is the serving process's end of the supervisors' sockets.
type Server struct {
	machine Hello    // what supervisors learn first
	memory  *os.File // has state
	State   *atomic.Uint32
	kernel  atomic.Pointer[Kernel] // the present one
	Tree    atomic.Pointer[fs.Tree]
	Mirror  Mirror
	// background gets what wants to know whether the machine has panicked, before the process
	// that has started this one goes to the background.
	Background chan chan bool

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// Kernel is what a supervisor's messages are about.
type Kernel struct {
	Activity    *activity.Activity
	Descriptors *perffd.Descriptors
	Entries     *kernel.Entries // files that modules have made
}

// Mirror makes the calls in the guest that the commands' threads make, at the moments at which
// they make them.
type Mirror interface {
	activity.Mirror
	// Follow sends the calls to a new machine from now on.
	Follow(a *activity.Activity)
	// Join has the threads in a mount namespace traced. It says why that cannot be.
	Join(space string, server int, exe string, stops bool) error
	// Tell is called first, with what counts the calls of threads of which the supervisor need not tell.
	Tell(made func(tid int))
	// Plain reports whether the supervisor need not tell of plain calls (calls.Row.Plain) of threads that are traced.
	Plain() bool
	// Leave is the end of Join.
	Leave(space string)
	// AttachFirst is told of a thread that is about to execute a program.
	AttachFirst(tid int, space, by string)
	// begin makes a call in the guest of which a supervisor has told, and calls reached when the
	// host's kernel is to make it. It returns false for a call that it does not await.
	Begin(by host.Caller, s host.Syscall, reached func(refused syscall.Errno)) bool
}

// conn is one of the sockets.
type conn struct {
	*Server
	socket int
	pid    int    // the supervisor
	exe    string // its file
	space  string // the name of its mount namespace
	work   sync.WaitGroup

	joining sync.Mutex
	joined  bool // what happens in space is told
	over    bool // the supervisor has gone

	askedMu sync.Mutex
	asked   map[uint64]context.CancelFunc // questions that are being answered, by ID
}

// NewServer returns the end for a machine that hello describes.
func NewServer(hello Hello, m Mirror) (*Server, error) {
	fd, err := unix.MemfdCreate("kprobefs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	c := &Server{machine: hello, memory: os.NewFile(uintptr(fd), "state"), Mirror: m, Background: make(chan chan bool), conns: map[*conn]struct{}{}}
	if err := unix.Ftruncate(fd, int64(os.Getpagesize())+maxThread); err != nil {
		return nil, err
	}
	made, err := threadsIn(c.memory, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	m.Tell(made.Count)
	c.State, err = sharedWord(c.memory, unix.PROT_READ|unix.PROT_WRITE)
	return c, err
}

// goBackground answers that question.
func (c *Server) goBackground(ctx context.Context) (panicked int, err error) {
	answer := make(chan bool, 1)
	select {
	case c.Background <- answer:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if <-answer {
		panicked = 1
	}
	return panicked, nil
}

// bpf answers a bpf(2) in the serving process.
func (c *conn) bpf(m *Message, memory io.ReaderAt, r *Reply) (*os.File, error) {
	if m.Question.BPF == nil {
		return nil, unix.EINVAL
	}
	call := *m.Question.BPF
	call.Memory = memory
	if t := c.Tree.Load(); t != nil && call.Path != "" {
		call.Files = &pinned{tree: t, tid: m.TID}
	}
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	answer, err := c.kernel.Load().Descriptors.BPF(by, call)
	r.Ret, r.Writes, r.Given = answer.Ret, answer.Writes, answer.Given
	return answer.File, err
}

// setBPF answers a PERF_EVENT_IOC_SET_BPF in the serving process.
func (c *conn) setBPF(m *Message) error {
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	return c.kernel.Load().Descriptors.SetBPF(by, m.Question.FD, m.Question.Program)
}

// Follow has messages be about a new kernel from now on.
func (c *Server) Follow(k *Kernel) {
	c.Mirror.Follow(k.Activity)
	c.watch(k.Entries)
	c.kernel.Store(k)
	for _, conn := range c.all() {
		conn.joining.Lock()
		if conn.joined {
			k.Activity.Join(conn.space, conn.pid)
		}
		conn.joining.Unlock()
	}
}

func (c *Server) all() (conns []*conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		conns = append(conns, conn)
	}
	return conns
}

// Connect serves a supervisor's socket until the supervisor has gone.
func (c *Server) Connect(socket, pid int) error {
	unix.CloseOnExec(socket)
	space, err := proc.Namespace(pid, "mnt")
	if err != nil {
		return err
	}
	exe, err := os.Readlink(proc.Path(pid, "exe"))
	if err != nil {
		return err
	}
	conn := &conn{Server: c, socket: socket, pid: pid, exe: exe, space: space, asked: map[uint64]context.CancelFunc{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.conns {
		if other.space == space {
			return fmt.Errorf("process %d supervises its mount namespace: %w", other.pid, unix.EBUSY)
		}
	}
	c.conns[conn] = struct{}{}
	go conn.serve()
	return nil
}

// Join has the guest repeat what happens in the supervisor's mount namespace. blind is why
// reads and writes are not seen, or nil.
func (c *conn) join(mirror string) (blind, err error) {
	c.joining.Lock()
	defer c.joining.Unlock()
	if c.over || c.joined {
		return nil, unix.EALREADY
	}
	c.joined = true
	if mirror == MirrorAll || mirror == MirrorStops {
		blind = c.Mirror.Join(c.space, c.pid, c.exe, mirror == MirrorStops)
	}
	c.kernel.Load().Activity.Join(c.space, c.pid)
	return blind, nil
}

// leave is the end of everything that the supervisor has asked for.
func (c *conn) leave() {
	c.Server.mu.Lock()
	delete(c.conns, c)
	c.Server.mu.Unlock()
	c.joining.Lock()
	c.over = true
	if c.joined {
		c.Mirror.Leave(c.space)
		c.kernel.Load().Activity.Leave(c.space, c.pid)
	}
	c.joining.Unlock()
	c.askedMu.Lock()
	for _, cancel := range c.asked {
		cancel()
	}
	c.askedMu.Unlock()
	c.work.Wait()
	_ = unix.Close(c.socket)
}

// serve answers until the supervisor has gone. Calls of different threads do not wait
// for each other.
func (c *conn) serve() {
	defer c.leave()
	buf, oob := make([]byte, MaxPacket), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(c.socket, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		fd := first(passedFDs(oob[:oobn]))
		var m Message
		if json.Unmarshal(buf[:n], &m) != nil {
			continue
		}
		if m.Question != nil {
			c.question(&m, fd)
			continue
		}
		c.work.Go(func() { c.call(&m) })
	}
}

// call makes a call in the guest.
func (c *conn) call(m *Message) {
	answer := func(refused syscall.Errno) {
		b, _ := json.Marshal([]uint64{m.ID, uint64(refused)})
		_, _ = unix.Write(c.socket, b)
	}
	k := c.kernel.Load()
	if k == nil {
		answer(0)
		return
	}
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	if !m.Ours && c.Mirror.Begin(by, m.syscall(), answer) {
		return
	}
	if m.Nr == abi.SysExecve {
		c.Mirror.AttachFirst(m.TID, c.space, c.exe)
	}
	if f, ok := m.fork(); ok {
		k.Activity.Fork(by, f)
		answer(0)
	} else {
		answer(k.Activity.Call(by, m.syscall()))
	}
}

// question answers a question in a goroutine of its own.
func (c *conn) question(m *Message, f *os.File) {
	c.askedMu.Lock()
	defer c.askedMu.Unlock()
	if m.Question.Do == doCancel {
		if cancel := c.asked[m.ID]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.asked[m.ID] = cancel
	c.work.Go(func() {
		r := Reply{ID: m.ID}
		var err error
		var give *os.File
		var rights []byte
		switch {
		case m.Question.Do == doBackground:
			r.Ret, err = c.goBackground(ctx)
		case c.kernel.Load() == nil || f == nil && needsFile[m.Question.Do]:
			err = unix.ENOSYS
		case m.Question.Do == doHello:
			give, err = c.hello(m.Question, f)
		case m.Question.Do == DoMap:
			give, err = c.kernel.Load().Descriptors.Map(m.PID, m.Question.FD, m.Question.Length, m.Question.Offset, m.Question.Writable)
		default:
			c.inGuest(m, func() int64 {
				if give, err = c.result(ctx, m, f, &r); err != nil {
					return -int64(ErrnoOf(err))
				}
				return int64(r.Ret)
			})
			c.kernel.Load().Activity.Update() // a module, perf or a program of BPF may have armed something
		}
		if f != nil {
			_ = f.Close()
		}
		if err != nil {
			r.Errno, r.Oops, r.Host = ErrnoOf(err), errors.Is(err, activity.ErrOops), errors.Is(err, perffd.ErrNotOurs)
		}
		var fds []int
		if give != nil {
			fds = append(fds, int(give.Fd()))
			r.Gives = true
			defer give.Close()
		}
		if wrote := r.wrote(); wrote != nil {
			fds = append(fds, int(wrote.Fd()))
			r.Wrote = true
			defer wrote.Close()
		}
		for _, g := range r.Given {
			fds = append(fds, int(g.File.Fd()))
			r.At = append(r.At, g.FD)
			defer g.File.Close()
		}
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		c.askedMu.Lock()
		delete(c.asked, m.ID)
		c.askedMu.Unlock()
		cancel()
		b, _ := json.Marshal(r)
		_ = unix.Sendmsg(c.socket, b, rights, nil, 0)
	})
}

// isCall has the questions whose answer is the result of a system call.
var isCall = map[string]bool{DoInit: true, DoDelete: true, DoSyslog: true, DoPerf: true, DoBPF: true}

// inGuest calls f, in the middle of the guest's system call if m asks for the result of one.
func (c *conn) inGuest(m *Message, f func() int64) {
	if !isCall[m.Question.Do] || m.Nr == 0 {
		f()
		return
	}
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	c.kernel.Load().Activity.Answer(by, m.Nr, m.Args, f)
}

// result is the answer to a question about a call. give is a descriptor for the caller.
func (c *conn) result(ctx context.Context, m *Message, f *os.File, r *Reply) (give *os.File, err error) {
	switch m.Question.Do {
	case DoPerf:
		return c.perf(m, f)
	case DoBPF:
		return c.bpf(m, f, r)
	}
	r.Ret, err = c.answer(ctx, m, f)
	return nil, err
}

func (c *conn) answer(ctx context.Context, m *Message, f *os.File) (ret int, err error) {
	k, q := c.kernel.Load(), m.Question
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	switch q.Do {
	case DoInit:
		b, err := io.ReadAll(f)
		if err != nil || len(b) < q.Args {
			return 0, errors.Join(err, unix.EIO)
		}
		return 0, k.Activity.InitModule(ctx, by, b[q.Args:], module.Options{
			Args: string(b[:q.Args]), IgnoreVermagic: q.Flags&IgnoreVermagic != 0, IgnoreModversions: q.Flags&IgnoreModversions != 0,
		})
	case DoDelete:
		return 0, k.Activity.DeleteModule(ctx, by, q.Name, q.Flags&unix.O_TRUNC != 0)
	case DoActFor:
		if t := c.Tree.Load(); t != nil {
			t.ActFor(q.Thread, m.TID)
		}
		return 0, nil
	case DoOwn:
		if t := c.Tree.Load(); t != nil {
			t.SetOwnership(map[string]seqfile.Kind{hostview.TraceFS: seqfile.Tracefs, hostview.DebugFS: seqfile.Debugfs, hostview.BPFFS: seqfile.BPFFS}[q.Name], q.Own)
		}
		return 0, nil
	case DoUserProbe:
		return 0, k.Descriptors.UserProbe(by, q.Site)
	case DoSetBPF:
		return 0, c.setBPF(m)
	case DoFDInfo:
		text, err := k.Descriptors.FDInfo(q.Thread, q.FD)
		if err == nil {
			_, err = f.WriteAt([]byte(text), 0)
		}
		return 0, err
	case doMade:
		return 0, json.NewEncoder(f).Encode(entriesOf(k.Entries.All()))
	case DoSyslog:
		text, ret, err := k.Activity.Syslog(ctx, q.Action, q.Size, q.Null)
		if err == nil && len(text) > 0 {
			_, err = f.WriteAt(text, 0)
		}
		return ret, err
	}
	return 0, unix.ENOSYS
}

// perf answers a perf_event_open(2).
func (c *conn) perf(m *Message, f *os.File) (*os.File, error) {
	if m.Question.Perf == nil {
		return nil, unix.EINVAL
	}
	attr, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	o := *m.Question.Perf
	o.Attr = attr
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	return c.kernel.Load().Descriptors.Open(by, o)
}

// watch tells the supervisors when modules have made or removed files of a machine.
func (c *Server) watch(e *kernel.Entries) {
	changed, _ := json.Marshal(Reply{ID: entriesChanged})
	e.Watch(func([]string) {
		for _, conn := range c.all() {
			conn.say(changed)
		}
	})
}

// say sends a message, unless the supervisor has gone, or has many such to read.
func (c *conn) say(b []byte) {
	c.joining.Lock()
	defer c.joining.Unlock()
	if !c.over {
		_ = unix.Sendmsg(c.socket, b, nil, nil, unix.MSG_DONTWAIT)
	}
}
