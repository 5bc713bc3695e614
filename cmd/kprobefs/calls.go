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
)

// A supervisor reports what its command does outside our files to the process that
// serves them, which makes the guest do the same. The two share a socket, with one
// packet and one answer for each call, and a word of memory that says which calls
// somebody could see: other calls are not sent.

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
	case abi.SysFork, abi.SysVfork:
	default:
		return f, false
	}
	return f, true
}

// callServer is the serving process's end.
type callServer struct {
	socket   int
	state    *atomic.Uint32
	activity atomic.Pointer[kprobefs.Activity] // of the present machine
	entries  atomic.Pointer[kernel.Entries]    // the same
	tree     atomic.Pointer[fs.Tree]
	mirror   *mirror // or nil

	mu    sync.Mutex
	asked map[uint64]context.CancelFunc // questions that are being answered, by ID
}

// follow sends the calls to a new machine from now on.
func (c *callServer) follow(a *kprobefs.Activity) {
	if c.activity.Swap(a) == nil {
		go c.serve()
	}
}

// newCallServer opens the two descriptors that the supervisor has passed.
func newCallServer(socket int) (*callServer, error) {
	state, err := sharedWord(socket + 1)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(socket)
	return &callServer{socket: socket, state: state}, nil
}

// sharedWord maps the first word of a file, and closes the descriptor.
func sharedWord(fd int) (*atomic.Uint32, error) {
	b, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	_ = unix.Close(fd)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	return (*atomic.Uint32)(unsafe.Pointer(&b[0])), nil
}

// serve answers until the supervisor has gone. Calls of different threads do not wait
// for each other.
func (c *callServer) serve() {
	buf, oob := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(c.socket, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		fd := passedFD(oob[:oobn])
		var m callMessage
		if json.Unmarshal(buf[:n], &m) != nil {
			continue
		}
		if m.Question != nil {
			c.question(&m, fd)
			continue
		}
		go func() {
			a := c.activity.Load()
			by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
			answer := func() {
				b, _ := json.Marshal(m.ID)
				_, _ = unix.Write(c.socket, b)
			}
			if opens(m.Nr) && c.mirror != nil {
				if w := c.mirror.opening(m.TID); w != nil {
					w.open(c.mirror, a, by, m.syscall(), answer)
					return
				}
			}
			if f, ok := m.fork(); ok {
				a.Fork(by, f)
			} else {
				a.Call(by, m.syscall())
			}
			answer()
		}()
	}
}

// callClient is the supervisor's end.
type callClient struct {
	socket int
	state  *atomic.Uint32

	mu      sync.Mutex
	waiting map[uint64]chan struct{} // by ID; nil once the server has gone
	asked   map[uint64]chan reply    // the same for questions

	ownIDs  atomic.Uint64 // of questions that are no call's
	changed chan struct{} // gets a value when modules have made or removed files
}

// newCallClient returns the supervisor's end, and the two files for the serving process.
func newCallClient() (c *callClient, files []*os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	memory, err := unix.MemfdCreate("kprobefs", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(memory, int64(os.Getpagesize()))
	}
	if err != nil {
		return nil, nil, err
	}
	theirs, err := unix.FcntlInt(uintptr(memory), syscall.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	state, err := sharedWord(memory)
	if err != nil {
		return nil, nil, err
	}
	c = &callClient{socket: fds[0], state: state, waiting: map[uint64]chan struct{}{}, asked: map[uint64]chan reply{}, changed: make(chan struct{}, 1)}
	go c.receive()
	return c, []*os.File{os.NewFile(uintptr(fds[1]), "calls"), os.NewFile(uintptr(theirs), "state")}, nil
}

// wants reports whether anybody could see a call.
func (c *callClient) wants(call *tracedCall) bool { return c.state.Load()&call.bit != 0 }

// receive wakes the senders of calls that are answered, and all when the server has gone.
func (c *callClient) receive() {
	var buf [256]byte
	for {
		n, err := unix.Read(c.socket, buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		var id uint64
		if buf[0] == '{' {
			c.replied(buf[:n])
		} else if json.Unmarshal(buf[:n], &id) == nil {
			c.mu.Lock()
			if w := c.waiting[id]; w != nil {
				close(w)
				delete(c.waiting, id)
			}
			c.mu.Unlock()
		}
	}
	c.state.Store(0)
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
