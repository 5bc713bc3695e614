package fs

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// Files that are the guest's own, such as modules' (seqfile.Row.Guest). A request
// becomes the system call that a program would make on Linux, and the file's own code
// in the guest does all of it.
//
// The guest keeps the position (f_pos). The host's kernel has one too, which it moves by
// what was read or written and by lseek(2), of which it tells nothing. Where it differs
// from the one that it had after the last call, the guest's is set by a lseek(2) first.

// Errors that end a system call which a signal has interrupted. Linux's user space never
// sees them; FUSE cannot have a call made again.
const (
	eRestartSys     = syscall.Errno(512)
	eRestartBlock   = syscall.Errno(516)
	maxKernelErrno  = 4095
	ioctlMaxPayload = 1<<14 - 1       // _IOC_SIZE
	pollPatience    = 2 * time.Second // for one call of f_op->poll, which must not sleep
)

// guestDo makes a call on h in the guest, whose code is not to be trusted with its result.
func (h *handle) guestDo(ctx context.Context, c *seqfile.Caller, call host.Call) (int64, []byte, error) {
	if h.boot.isOver() {
		return 0, nil, errOver
	}
	call.FD, call.Files, call.FOps = h.fd, h.owner(), abi.FOpsGuest
	ret, got, err := h.boot.Do(ctx, host.Caller{TID: c.TID, PID: c.PID, Comm: c.Comm}, call, nil)
	switch {
	case err != nil:
		return 0, nil, err
	case ret >= 0:
		return ret, got, nil
	case ret < -maxKernelErrno:
		return 0, nil, fmt.Errorf("%s returned %d: %w", h.node.at, ret, syscall.EIO)
	}
	return 0, nil, fmt.Errorf("%s: %w", h.node.at, guestErrno(ctx, ret))
}

// guestErrno returns the error for a negative result of a call. One that asks for another
// try is EINTR only after a signal: a caller that tries again after EINTR would never end.
func guestErrno(ctx context.Context, ret int64) error {
	e := syscall.Errno(-ret)
	if e >= eRestartSys && e <= eRestartBlock && ctx.Err() != nil {
		return syscall.EINTR
	}
	return clamp(e)
}

// openGuest is open(2).
func (h *handle) openGuest(ctx context.Context, call host.Call) error {
	ret, _, err := h.boot.Do(ctx, host.Caller{TID: h.caller.TID, PID: h.caller.PID, Comm: h.caller.Comm}, call, nil)
	if err == nil && ret < 0 {
		err = guestErrno(ctx, ret)
	}
	if err != nil {
		h.closeFile()
		return err
	}
	h.fd, h.guest = int(ret), true
	mode, _, err := h.guestDo(ctx, h.caller, host.Call{Nr: abi.HostFileMode})
	if err != nil {
		h.release(context.Background())
		return err
	}
	h.mode = uint64(mode)
	return nil
}

// seekFlags tells the host's kernel which files cannot be positioned.
func (h *handle) seekFlags() uint32 {
	switch {
	case !h.guest:
		return 0
	case h.mode&abi.FModeStream != 0:
		return fuse.FOPEN_STREAM | fuse.FOPEN_NONSEEKABLE
	case h.mode&abi.FModeLseek == 0:
		return fuse.FOPEN_NONSEEKABLE
	}
	return 0
}

// seekGuest is lseek(2) in the guest.
func (h *handle) seekGuest(ctx context.Context, c *seqfile.Caller, off int64, whence int) (int64, error) {
	pos, _, err := h.guestDo(ctx, c, host.Call{Nr: abi.SysLseek, Pos: off, How: uint64(whence)})
	if err == nil {
		h.moved(pos, pos)
	}
	return pos, err
}

// seekTo sets the guest's position to the one at which the host's kernel reads or writes,
// unless it is there already.
func (h *handle) seekTo(ctx context.Context, c *seqfile.Caller, off int64) error {
	h.mu.Lock()
	there := off == h.end || h.flags&syscall.O_APPEND != 0 && off >= openSize
	h.mu.Unlock()
	if there || h.mode&abi.FModeLseek == 0 {
		return nil
	}
	_, err := h.seekGuest(ctx, c, off, 0)
	return err
}

// readGuest is read(2). A count beyond the caller's is cut.
func (h *handle) readGuest(ctx context.Context, c *seqfile.Caller, off int64, buf []byte) ([]byte, error) {
	if err := h.seekTo(ctx, c, off); err != nil {
		return nil, err
	}
	ret, got, err := h.guestDo(ctx, c, host.Call{Nr: abi.SysRead, Count: len(buf), Into: buf})
	if err != nil {
		return nil, err
	}
	got = got[:min(len(got), len(buf))]
	end := off + min(ret, int64(len(buf)))
	h.moved(end, end)
	return got, nil
}

// writeGuest is write(2).
func (h *handle) writeGuest(ctx context.Context, c *seqfile.Caller, off int64, data []byte) (int, error) {
	if err := h.seekTo(ctx, c, off); err != nil {
		return 0, err
	}
	ret, _, err := h.guestDo(ctx, c, host.Call{Nr: abi.SysWrite, Data: data})
	if err != nil {
		return 0, err
	}
	done := int(min(ret, int64(len(data))))
	h.moved(off+int64(done), off+int64(done))
	return done, nil
}

// ioctlGuest is ioctl(2). The host's kernel copies what the command's number says
// (_IOC_SIZE, _IOC_DIR), and passes the argument of commands without a size as it is.
func (f *filesystem) ioctlGuest(cancel <-chan struct{}, h *handle, in *fuse.IoctlIn, arg []byte, out *fuse.IoctlOut, reply []byte) fuse.Status {
	ctx, _, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	if len(arg) > ioctlMaxPayload || len(reply) > ioctlMaxPayload {
		return fuse.EINVAL
	}
	call := host.Call{Nr: abi.SysIoctl, How: uint64(in.Cmd), Arg: in.Arg, Data: arg, Count: len(reply)}
	ret, got, err := h.guestDo(ctx, c, call)
	if err != nil {
		return f.tree.status(err)
	}
	copy(reply, got)
	out.Result = int32(ret)
	return fuse.OK
}

// fsyncGuest is fsync(2) or fdatasync(2).
func (f *filesystem) fsyncGuest(cancel <-chan struct{}, h *handle, in *fuse.FsyncIn) fuse.Status {
	const dataOnly = 1 // FUSE_FSYNC_FDATASYNC
	ctx, _, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	nr := uint64(abi.SysFsync)
	if in.FsyncFlags&dataOnly != 0 {
		nr = abi.SysFdatasync
	}
	_, _, err = h.guestDo(ctx, c, host.Call{Nr: nr})
	return f.tree.status(err)
}

// pollGuest returns the events for which the file is ready. If the caller sleeps, a
// task of the guest waits until they change, and the host's kernel asks again.
func (h *handle) pollGuest(s *server, kh uint64, sleeps bool) uint32 {
	select {
	case <-h.boot.Stopped():
		return seqfile.PollIn | seqfile.PollLost
	default:
	}
	nobody := &seqfile.Caller{PID: h.caller.PID}
	ctx, cancel := context.WithTimeout(context.Background(), pollPatience)
	defer cancel()
	ready, _, err := h.guestDo(ctx, nobody, host.Call{Nr: abi.HostPoll})
	if err != nil {
		return seqfile.PollNone
	}
	if sleeps && h.tree.sequence == nil { // else a task that waits would make its calls at the host's moment
		stop := make(chan struct{})
		h.watch(stop)
		go h.awaitGuest(s, kh, nobody, uint64(ready), stop)
	}
	return uint32(ready)
}

// awaitGuest waits in the guest until the file is ready for other events than those seen.
func (h *handle) awaitGuest(s *server, kh uint64, c *seqfile.Caller, seen uint64, stop <-chan struct{}) {
	ctx := request{context.Background(), stop, func() {}}
	_, _, err := h.guestDo(ctx, c, host.Call{Nr: abi.HostPoll, How: seen, Arg: 1})
	if err == nil || errors.Is(err, host.ErrStopped) {
		s.notify(notifyPoll, []uint64{kh}, nil)
	}
}

// Readlink returns a symbolic link's target.
func (f *filesystem) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	_, n, _, err := f.begin(cancel, h)
	if err != nil {
		return nil, f.tree.status(err)
	}
	if n.key.Link == "" {
		return nil, fuse.EINVAL
	}
	return []byte(n.key.Link), fuse.OK
}
