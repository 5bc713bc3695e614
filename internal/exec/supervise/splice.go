package supervise

import (
	"errors"
	"math"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
)

// trace_pipe fills the pages of a pipe in part, each with the lines that fit. A splice(2) of a
// file of FUSE goes through the page cache, whose pages are full or the end of the file, and is
// refused (fs/handle.go). So the supervisor moves the lines for the caller.
//
// trace_pipe_raw gives whole pages, which the host's kernel moves itself. It does not pass on
// SPLICE_F_NONBLOCK, nor that there is room for a part of a page only: the supervisor looks
// whether the call would wait or be refused.

// splicePage is the length, bytes, from which on trace_pipe_raw takes each one.
const splicePage = 4096

// splice answers splice(2). It returns false for a call that the host's kernel can make, or
// refuse as Linux does.
func (s *supervisor) splice(n *notify.Caller) bool {
	length, flags := n.Args[4], n.Args[5]
	const known = unix.SPLICE_F_MOVE | unix.SPLICE_F_NONBLOCK | unix.SPLICE_F_MORE | unix.SPLICE_F_GIFT
	if n.Args[1] != 0 || n.Args[3] != 0 || length == 0 || flags&^known != 0 {
		return false
	}
	in, err := n.Borrow(int(int32(n.Args[0])))
	if err != nil {
		return false
	}
	defer unix.Close(in)
	pages := fs.SplicesPages(in)
	if !pages && flags&unix.SPLICE_F_NONBLOCK == 0 && length >= splicePage {
		return false
	}
	out, err := n.Borrow(int(int32(n.Args[2])))
	if err != nil {
		return false
	}
	defer unix.Close(out)
	var st unix.Stat_t
	if unix.Fstat(out, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO || !opened(in, unix.O_RDONLY) || !opened(out, unix.O_WRONLY) {
		return false
	}
	if !pages {
		errno := fs.CheckSplice(in, length)
		if errno == 0 || errno == unix.EAGAIN && flags&unix.SPLICE_F_NONBLOCK == 0 {
			return false
		}
		n.Fail(errno)
		return true
	}
	c := splicing{Caller: n, in: in, out: out}
	c.outWaits = flags&unix.SPLICE_F_NONBLOCK == 0 && !nonblocking(out)
	moved, errno := c.move(int(min(length, math.MaxInt32)))
	if errno == unix.EPIPE {
		n.Signal(unix.SIGPIPE)
	}
	n.Result(moved, errno)
	return true
}

// splicing is a splice(2) from one of our files to a pipe.
type splicing struct {
	*notify.Caller
	in, out  int
	outWaits bool // for room in the pipe
}

// move moves at most length bytes, as many as there are and as the pipe has room for. It waits
// for the first of them.
func (c *splicing) move(length int) (moved int, errno syscall.Errno) {
	var page [4096]byte
	if errno := c.awaitRoom(); errno != 0 {
		return 0, errno
	}
	for moved < length && (moved == 0 || c.room() == nil) {
		n, err := fs.SplicePage(c.in, page[:min(len(page), length-moved)])
		switch {
		case errors.Is(err, unix.EAGAIN) && moved == 0 && !nonblocking(c.in):
			if errno := c.await(c.in, unix.POLLIN); errno != 0 {
				return 0, errno
			}
			continue
		case err != nil && moved == 0:
			return 0, wire.ErrnoOf(err)
		case err != nil || n == 0:
			return moved, 0
		}
		if errno := c.put(page[:n]); errno != 0 {
			return moved, errno
		}
		moved += n
	}
	return moved, 0
}

// put writes lines to the pipe, which had room for them.
func (c *splicing) put(b []byte) syscall.Errno {
	for {
		if _, err := unix.Write(c.out, b); err == nil {
			return 0
		} else if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return wire.ErrnoOf(err)
		}
		if errno := c.await(c.out, unix.POLLOUT); errno != 0 { // another writer was faster
			return errno
		}
	}
}

// room returns nil if the pipe has room for a page, EAGAIN if it has none, and EPIPE if it has
// no reader.
func (c *splicing) room() error {
	poll := []unix.PollFd{{Fd: int32(c.out), Events: unix.POLLOUT}}
	_, err := unix.Poll(poll, 0)
	switch {
	case err != nil:
		return err
	case poll[0].Revents&unix.POLLERR != 0:
		return unix.EPIPE
	case poll[0].Revents&unix.POLLOUT == 0:
		return unix.EAGAIN
	}
	return nil
}

// awaitRoom waits until the pipe has room, if the call waits for that.
func (c *splicing) awaitRoom() syscall.Errno {
	for {
		err := c.room()
		switch {
		case err == nil:
			return 0
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN) || !c.outWaits:
			return wire.ErrnoOf(err)
		default:
			if errno := c.await(c.out, unix.POLLOUT); errno != 0 {
				return errno
			}
		}
	}
}

// eRestartSys is ERESTARTSYS: the kernel makes the call again after the signal, or fails with
// EINTR, as the signal's handler says.
const eRestartSys = syscall.Errno(512)

// await waits a while for one of the events of a descriptor. It fails when the caller waits no
// more: with ERESTARTSYS because it has a signal.
func (c *splicing) await(fd int, events int16) syscall.Errno {
	poll := []unix.PollFd{{Fd: int32(fd), Events: events}}
	_, _ = unix.Poll(poll, int(splicePatience/time.Millisecond))
	switch {
	case !c.Waits():
		return unix.EINTR
	case c.SignalPending():
		return eRestartSys
	}
	return 0
}

// splicePatience is how often it is checked whether a caller still waits.
const splicePatience = 20 * time.Millisecond

// opened reports whether a descriptor was opened with an access mode, or with O_RDWR.
func opened(fd, mode int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_PATH == 0 && (flags&unix.O_ACCMODE == mode || flags&unix.O_ACCMODE == unix.O_RDWR)
}

// nonblocking reports whether a descriptor has O_NONBLOCK now.
func nonblocking(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_NONBLOCK != 0
}
