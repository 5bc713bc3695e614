// Package connector receives forks, execs and exits of this machine's processes from
// Linux's process events connector (cn_proc). The host's kernel queues a fork's event
// before fork(2) returns: after all queued events are read, everything that a process
// did before its current request is known. The connector needs CAP_NET_ADMIN in the
// initial user, pid and network namespaces, and CONFIG_PROC_EVENTS.
package connector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Constants of linux/cn_proc.h and linux/connector.h.
const (
	idxProc, valProc = 1, 1
	opListen         = 1
	opIgnore         = 2

	whatFork = 0x1
	whatExec = 0x2
	whatExit = 0x80000000

	headerSize  = unix.SizeofNlMsghdr + 20 // nlmsghdr, cn_msg
	eventOffset = 16                       // offset of event_data in proc_event
)

// Kind is the kind of an event.
type Kind uint8

// Kinds of events.
const (
	Fork Kind = iota
	Exec
	Exit
)

// Event is a process event. IDs are as in the initial pid namespace.
type Event struct {
	Kind     Kind
	TID, PID int // thread and process; for Fork, the parent's

	ChildTID, ChildPID int // Fork: the new thread
	Code               int // Exit: status as wait(2) returns it
}

// Conn is a subscription.
type Conn struct {
	fd      int
	next    map[uint32]uint32 // by CPU: sequence number of the next event
	waiting *Event            // an event that was read, held back until the loss before it has been returned
}

// Open subscribes to process events. It returns EPERM, ECONNREFUSED or
// EPROTONOSUPPORT if they are not available.
func Open() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_CONNECTOR)
	if err != nil {
		return nil, fmt.Errorf("connector: %w", err)
	}
	c := &Conn{fd: fd, next: map[uint32]uint32{}}
	if err := c.begin(); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connector: %w", err)
	}
	return c, nil
}

// queueSize is the size of the socket's receive buffer in bytes, enough for about ten
// thousand events.
const queueSize = 4 << 20

func (c *Conn) begin() error {
	_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, queueSize)
	_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queueSize)
	if err := unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: idxProc}); err != nil {
		return err
	}
	return c.send(opListen)
}

// send sends opListen or opIgnore to the host's kernel.
func (c *Conn) send(op uint32) error {
	b := make([]byte, headerSize+4)
	le := binary.NativeEndian
	le.PutUint32(b, uint32(len(b)))
	le.PutUint16(b[4:], unix.NLMSG_DONE)
	le.PutUint32(b[12:], uint32(os.Getpid()))
	cn := b[unix.SizeofNlMsghdr:]
	le.PutUint32(cn, idxProc)
	le.PutUint32(cn[4:], valProc)
	le.PutUint16(cn[16:], 4)
	le.PutUint32(cn[20:], op)
	return unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// Close ends the subscription.
func (c *Conn) Close() {
	_ = c.send(opIgnore)
	unix.Close(c.fd)
}

// LostError means that the host's kernel has dropped events because they were not
// read in time.
type LostError struct{ Events uint64 }

func (e *LostError) Error() string { return fmt.Sprintf("%d process events were lost", e.Events) }

// Queued reports whether Next would return an event, or an error.
func (c *Conn) Queued() bool {
	if c.waiting != nil {
		return true
	}
	fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, 0)
	return err != nil || fds[0].Revents != 0
}

// Next returns the next queued event; ok is false if there is none. Lost events are
// reported by a LostError when the next event of the same CPU is read, since only the
// sequence numbers tell how many were lost.
func (c *Conn) Next() (e Event, ok bool, err error) {
	if c.waiting != nil {
		e, c.waiting = *c.waiting, nil
		return e, true, nil
	}
	var b [256]byte
	for {
		n, from, err := unix.Recvfrom(c.fd, b[:], 0)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOBUFS):
			continue
		case errors.Is(err, unix.EAGAIN):
			return Event{}, false, nil
		case err != nil:
			return Event{}, false, fmt.Errorf("connector: %w", err)
		}
		if a, isNetlink := from.(*unix.SockaddrNetlink); !isNetlink || a.Pid != 0 {
			continue // not sent by the kernel
		}
		lost := c.gap(b[:n])
		e, ok := parse(b[:n])
		if ok && lost > 0 {
			c.waiting = &e
		}
		if lost > 0 {
			return Event{}, false, &LostError{uint64(lost)}
		}
		if ok {
			return e, true, nil
		}
	}
}

// noCPU is the CPU in replies to opListen on kernels that do not number these.
const noCPU = ^uint32(0)

// gap returns how many events of a message's CPU were lost before it. Each CPU
// numbers its messages: events, and replies to any listener's opListen.
func (c *Conn) gap(b []byte) (lost uint32) {
	le := binary.NativeEndian
	if len(b) < headerSize+eventOffset || le.Uint32(b[headerSize+4:]) == noCPU {
		return 0
	}
	cpu, number := le.Uint32(b[headerSize+4:]), le.Uint32(b[unix.SizeofNlMsghdr+8:])
	next, known := c.next[cpu]
	c.next[cpu] = number + 1
	if lost = number - next; !known || lost > 1<<31 {
		return 0
	}
	return lost
}

// Wait returns when an event is queued or the descriptor stop is readable.
func (c *Conn) Wait(stop int) error {
	fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// parse parses a message. ok is false if it is not an event of a known kind.
func parse(b []byte) (e Event, ok bool) {
	le := binary.NativeEndian
	if len(b) < headerSize+eventOffset+8 {
		return e, false
	}
	cn := b[unix.SizeofNlMsghdr:]
	if le.Uint32(cn) != idxProc || le.Uint32(cn[4:]) != valProc {
		return e, false
	}
	p := b[headerSize:]
	what, data := le.Uint32(p), p[eventOffset:]
	word := func(i int) int {
		if len(data) < 4*i+4 {
			return 0
		}
		return int(int32(le.Uint32(data[4*i:])))
	}
	e.TID, e.PID = word(0), word(1)
	switch what {
	case whatFork:
		e.Kind, e.ChildTID, e.ChildPID = Fork, word(2), word(3)
	case whatExec:
		e.Kind = Exec
	case whatExit:
		e.Kind, e.Code = Exit, word(2)
	default:
		return e, false
	}
	return e, true
}
