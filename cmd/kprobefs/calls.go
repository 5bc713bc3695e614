package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A supervisor reports what its command does outside our files to the process that
// serves them, which makes the guest do the same. The two share a socket, with one
// packet and one answer for each call, and a word of memory that says which calls
// somebody could see: other calls are not sent. A serving process may have several
// supervisors, each with a mount namespace of its own (attach.go).

// callMessage is a call that a thread of the command is about to make.
type callMessage struct {
	ID       uint64
	TID, PID int
	Comm     string
	Nr       uint64 // the number on x86-64
	Args     [6]uint64
	Text     [6][]byte   // what the arguments point to, or nil
	Vector   [6][][]byte // arrays of strings
	Mode     uint64
	Ours     bool // the name is below our files, so that the call comes as a request, too
	Head     [][]byte
	HeadErr  syscall.Errno // for the file after those in Head

	Question *question // if it is not a call for the guest to repeat
}

// maxPacket is the largest size of a message in bytes.
const maxPacket = 128 << 10

// syscall converts the call to the guest's form.
func (m *callMessage) syscall() host.Syscall {
	s := host.Syscall{Nr: m.Nr, Args: m.Args, Mode: m.Mode, Head: m.Head, HeadErr: m.HeadErr}
	for i := range m.Args {
		if m.Text[i] != nil {
			text := string(m.Text[i])
			s.Text[i] = &text
		}
		if m.Vector[i] == nil {
			continue
		}
		s.Vector[i] = []string{}
		for _, v := range m.Vector[i] {
			s.Vector[i] = append(s.Vector[i], string(v))
		}
	}
	return s
}

// fork returns the call if it creates a process or a thread.
func (m *callMessage) fork() (f host.Fork, ok bool) {
	f.Nr = m.Nr
	switch m.Nr {
	case abi.SysClone:
		copy(f.Args[:], m.Args[:])
	case abi.SysClone3: // struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls
		var args [8]uint64
		for i := range args {
			if len(m.Text[0]) >= 8*i+8 {
				args[i] = binary.NativeEndian.Uint64(m.Text[0][8*i:])
			}
		}
		f.Args = [5]uint64{args[0] | args[4], args[5], 0, 0, args[7]}
		f.Stack, f.Size = args[6], m.Args[1]
	case abi.SysFork, abi.SysVfork:
	default:
		return f, false
	}
	return f, true
}

// callServer is the serving process's end of the supervisors' sockets.
type callServer struct {
	release  string   // as --release says
	config   []string // as --config does
	memory   *os.File // has state
	state    *atomic.Uint32
	activity atomic.Pointer[kprobefs.Activity] // of the present machine
	entries  atomic.Pointer[kernel.Entries]    // the same
	tree     atomic.Pointer[fs.Tree]
	mirror   *mirror
	// background gets what wants to know whether the machine has panicked, before the process
	// that has started this one goes to the background.
	background chan chan bool

	mu    sync.Mutex
	conns map[*callConn]struct{}
}

// callConn is one of the sockets.
type callConn struct {
	*callServer
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

// newCallServer returns the end for a machine with these flags.
func newCallServer(release string, config []string, m *mirror) (*callServer, error) {
	fd, err := unix.MemfdCreate("kprobefs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	c := &callServer{release: release, config: config, memory: os.NewFile(uintptr(fd), "state"), mirror: m, background: make(chan chan bool), conns: map[*callConn]struct{}{}}
	if err := unix.Ftruncate(fd, int64(os.Getpagesize())); err != nil {
		return nil, err
	}
	c.state, err = sharedWord(c.memory, unix.PROT_READ|unix.PROT_WRITE)
	return c, err
}

// sharedWord maps the first word of a file.
func sharedWord(f *os.File, prot int) (*atomic.Uint32, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	return (*atomic.Uint32)(unsafe.Pointer(&b[0])), nil
}

// follow sends the calls to a new machine from now on.
func (c *callServer) follow(a *kprobefs.Activity) {
	c.activity.Store(a)
	for _, conn := range c.all() {
		conn.joining.Lock()
		if conn.joined {
			a.Join(conn.space, conn.pid)
		}
		conn.joining.Unlock()
	}
}

func (c *callServer) all() (conns []*callConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		conns = append(conns, conn)
	}
	return conns
}

// connect serves a supervisor's socket until the supervisor has gone.
func (c *callServer) connect(socket, pid int) error {
	unix.CloseOnExec(socket)
	space, err := proc.Namespace(pid, "mnt")
	if err != nil {
		return err
	}
	exe, err := os.Readlink(proc.Path(pid, "exe"))
	if err != nil {
		return err
	}
	conn := &callConn{callServer: c, socket: socket, pid: pid, exe: exe, space: space, asked: map[uint64]context.CancelFunc{}}
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

// join has the guest repeat what happens in the supervisor's mount namespace. blind is why
// reads and writes are not seen, or nil.
func (c *callConn) join(mirror string) (blind, err error) {
	c.joining.Lock()
	defer c.joining.Unlock()
	if c.over || c.joined {
		return nil, unix.EALREADY
	}
	c.joined = true
	if mirror == mirrorAll {
		blind = c.mirror.join(c.space, c.pid, c.exe)
	}
	c.activity.Load().Join(c.space, c.pid)
	return blind, nil
}

// leave is the end of everything that the supervisor has asked for.
func (c *callConn) leave() {
	c.callServer.mu.Lock()
	delete(c.conns, c)
	c.callServer.mu.Unlock()
	c.joining.Lock()
	c.over = true
	if c.joined {
		c.mirror.leave(c.space)
		c.activity.Load().Leave(c.space, c.pid)
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
func (c *callConn) serve() {
	defer c.leave()
	buf, oob := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(c.socket, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		fd := first(passedFDs(oob[:oobn]))
		var m callMessage
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
func (c *callConn) call(m *callMessage) {
	answer := func() {
		b, _ := json.Marshal(m.ID)
		_, _ = unix.Write(c.socket, b)
	}
	a := c.activity.Load()
	if a == nil {
		answer()
		return
	}
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	if !m.Ours {
		if w := c.mirror.awaits(m.TID); w != nil {
			w.begin(c.mirror, a, by, m.syscall(), answer)
			return
		}
	}
	if m.Nr == abi.SysExecve {
		c.mirror.sees(m.TID, c.space, c.exe)
	}
	if f, ok := m.fork(); ok {
		a.Fork(by, f)
	} else {
		a.Call(by, m.syscall())
	}
	answer()
}

// callClient is the supervisor's end.
type callClient struct {
	socket int
	state  atomic.Pointer[atomic.Uint32] // nil before the server has told, and once it has gone

	mu      sync.Mutex
	waiting map[uint64]chan struct{} // by ID; nil once the server has gone
	asked   map[uint64]chan reply    // the same for questions

	ownIDs  atomic.Uint64 // of questions that are no call's
	changed chan struct{} // gets a value when modules have made or removed files
}

// newCallClient returns the supervisor's end, and the file for the serving process.
func newCallClient() (c *callClient, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	c = &callClient{socket: fds[0], waiting: map[uint64]chan struct{}{}, asked: map[uint64]chan reply{}, changed: make(chan struct{}, 1)}
	go c.receive()
	return c, os.NewFile(uintptr(fds[1]), "calls"), nil
}

// close ends the connection: the server forgets the command, and what waits for an answer
// waits no more.
func (c *callClient) close() { _ = unix.Shutdown(c.socket, unix.SHUT_RDWR) }

// wants reports whether anybody could see a call.
func (c *callClient) wants(call *tracedCall) bool {
	state := c.state.Load()
	return state != nil && state.Load()&call.bit != 0
}

// receive wakes the senders of calls that are answered, and all when the server has gone.
func (c *callClient) receive() {
	var buf [256]byte
	oob := make([]byte, unix.CmsgSpace(8))
	for {
		n, oobn, _, _, err := unix.Recvmsg(c.socket, buf[:], oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		var id uint64
		if buf[0] == '{' {
			c.replied(buf[:n], passedFDs(oob[:oobn]))
		} else if json.Unmarshal(buf[:n], &id) == nil {
			c.mu.Lock()
			if w := c.waiting[id]; w != nil {
				close(w)
				delete(c.waiting, id)
			}
			c.mu.Unlock()
		}
	}
	c.state.Store(nil)
	c.mu.Lock()
	for _, w := range c.waiting {
		close(w)
	}
	for _, w := range c.asked {
		close(w)
	}
	c.waiting, c.asked = nil, nil
	c.mu.Unlock()
}

// tell sends a call, and returns when the guest has made it.
func (c *callClient) tell(m *callMessage) {
	b, err := json.Marshal(m)
	if err != nil || len(b) > maxPacket {
		return
	}
	done := make(chan struct{})
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return
	}
	c.waiting[m.ID] = done
	c.mu.Unlock()
	if _, err := unix.Write(c.socket, b); err != nil {
		c.mu.Lock()
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		return
	}
	<-done
}
