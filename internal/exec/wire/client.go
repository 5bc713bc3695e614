package wire

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/perffd"
)

// Client is the supervisor's end.
type Client struct {
	socket int
	State  atomic.Pointer[atomic.Uint32] // nil before the server has told, and once it has gone

	mu      sync.Mutex
	waiting map[uint64]chan syscall.Errno // by ID; nil once the server has gone
	asked   map[uint64]chan Reply         // the same for questions

	OwnIDs  atomic.Uint64 // of questions that are no call's
	Changed chan struct{} // gets a value when modules have made or removed files

	seenTo, seen Threads // calls that the serving process has seen to, and as many as are known
}

// NewClient returns the supervisor's end, and the file for the serving process.
func NewClient() (c *Client, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	c = &Client{socket: fds[0], waiting: map[uint64]chan syscall.Errno{}, asked: map[uint64]chan Reply{}, Changed: make(chan struct{}, 1)}
	go c.receive()
	return c, os.NewFile(uintptr(fds[1]), "calls"), nil
}

// Hello asks for what a supervisor has to know. mirror is as --mirror says.
func (c *Client) Hello(mirror string) (h Hello, err error) {
	f, err := File()
	if err != nil {
		return h, err
	}
	defer f.Close()
	r := c.Ask(&Message{ID: c.OwnIDs.Add(1), Question: &Question{Do: doHello, Mirror: mirror}}, f, UntilAnswered)
	if r.Errno != 0 {
		return h, r.Errno
	}
	if r.File != nil {
		defer r.File.Close()
		state, err := sharedWord(r.File, unix.PROT_READ)
		if err != nil {
			return h, err
		}
		c.State.Store(state)
		if c.seenTo, err = threadsIn(r.File, unix.PROT_READ); err != nil {
			return h, err
		}
		if c.seen, err = threadsIn(nil, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return h, err
		}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return h, err
	}
	return h, json.NewDecoder(f).Decode(&h)
}

// UntilAnswered is the goOn of a question that is not given up.
func UntilAnswered() bool { return true }

// Background has the serving process write to standard error no more, and returns whether its
// kernel has panicked and was not rebooted. It waits for the answer no longer than that.
func (c *Client) Background(within time.Duration) (panicked bool) {
	end := time.Now().Add(within)
	r := c.Ask(&Message{ID: c.OwnIDs.Add(1), Question: &Question{Do: doBackground}}, nil, func() bool { return time.Now().Before(end) })
	return r.Errno == 0 && r.Ret != 0
}

// Close ends the connection: the server forgets the command, and what waits for an answer
// waits no more.
func (c *Client) Close() { _ = unix.Shutdown(c.socket, unix.SHUT_RDWR) }

// Wants reports whether anybody could see a call with these bits in the shared word.
func (c *Client) Wants(bits uint32) bool {
	state := c.State.Load()
	return state != nil && state.Load()&bits != 0
}

// SeenTo reports whether the serving process has seen to the call that a thread makes. It is asked once for
// each call.
func (c *Client) SeenTo(tid int) bool { return c.seenTo.Changed(tid, c.seen) }

// receive wakes the senders of calls that are answered, and all when the server has gone.
func (c *Client) receive() {
	const descriptors = 253 // SCM_MAX_FD
	var buf [4096]byte
	oob := make([]byte, unix.CmsgSpace(4*descriptors))
	for {
		n, oobn, _, _, err := unix.Recvmsg(c.socket, buf[:], oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		var told [2]uint64 // a call's ID, and the error with which it was refused
		if buf[0] == '{' {
			c.replied(buf[:n], passedFDs(oob[:oobn]))
		} else if json.Unmarshal(buf[:n], &told) == nil {
			c.told(told[0], syscall.Errno(told[1]))
		}
	}
	c.State.Store(nil)
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

// told wakes the sender of a call.
func (c *Client) told(id uint64, refused syscall.Errno) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[id]; w != nil {
		w <- refused // has room for it
		delete(c.waiting, id)
	}
}

// Tell sends a call, and returns when the guest has made it. It returns the error with which a program has refused it there,
// or 0.
func (c *Client) Tell(m *Message) syscall.Errno {
	b, err := json.Marshal(m)
	if err != nil || len(b) > MaxPacket {
		return 0
	}
	done := make(chan syscall.Errno, 1)
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return 0
	}
	c.waiting[m.ID] = done
	c.mu.Unlock()
	if _, err := unix.Write(c.socket, b); err != nil {
		c.mu.Lock()
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		return 0
	}
	return <-done // 0 when the server has gone
}

// Made asks what modules have made. It fails with EIO if the server has gone.
func (c *Client) Made() (list []Entry, err error) {
	f, err := File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := &Message{ID: c.OwnIDs.Add(1), Question: &Question{Do: doMade}}
	if r := c.Ask(m, f, UntilAnswered); r.Errno != 0 {
		return nil, r.Errno
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return list, json.NewDecoder(f).Decode(&list)
}

// Ask sends a question with a file, which may be nil, and waits for the answer. While it
// waits it asks at intervals whether to go on; when not, the question is cancelled. It
// fails with EIO if the server has gone.
func (c *Client) Ask(m *Message, f *os.File, goOn func() bool) Reply {
	gone := Reply{ID: m.ID, Errno: unix.EIO}
	done := make(chan Reply, 1)
	c.mu.Lock()
	if c.asked == nil {
		c.mu.Unlock()
		return gone
	}
	c.asked[m.ID] = done
	c.mu.Unlock()
	if err := c.send(m, f); err != nil {
		c.mu.Lock()
		delete(c.asked, m.ID)
		c.mu.Unlock()
		return gone
	}
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	for asked := false; ; {
		select {
		case r, ok := <-done:
			if !ok {
				return gone
			}
			return r
		case <-tick.C:
			if !asked && !goOn() {
				asked = true
				_ = c.send(&Message{ID: m.ID, Question: &Question{Do: doCancel}}, nil)
			}
		}
	}
}

// askInterval is how often it is checked whether a caller still waits.
const askInterval = 50 * time.Millisecond

func (c *Client) send(m *Message, f *os.File) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if f != nil {
		rights = unix.UnixRights(int(f.Fd()))
	}
	return unix.Sendmsg(c.socket, b, rights, nil, 0)
}

// replied hands an answer, and the file that came with it, to who has asked.
func (c *Client) replied(b []byte, files []*os.File) {
	var r Reply
	if json.Unmarshal(b, &r) != nil {
		return
	}
	if r.Gives && len(files) > 0 {
		r.File, files = files[0], files[1:]
	}
	if n := len(files) - len(r.At); n >= 0 {
		for i, fd := range r.At {
			r.Given = append(r.Given, perffd.BPFGiven{FD: fd, File: files[n+i]})
		}
		files = files[:n]
	}
	for _, f := range files {
		if r.Wrote && json.NewDecoder(f).Decode(&r.Writes) != nil {
			r.Errno = unix.EIO
		}
		_ = f.Close()
	}
	if r.ID == entriesChanged {
		select {
		case c.Changed <- struct{}{}:
		default: // it will be looked anyway
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.asked[r.ID]; w != nil {
		w <- r
		delete(c.asked, r.ID)
		return
	}
	for _, g := range r.Given {
		_ = g.File.Close()
	}
}
