package fs

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// positionIoctl is _IOWR('k', 1, u64). Its argument is the position that the host's
// kernel has for an open file; its result is the one that Linux would have, which the
// caller then sets.
const positionIoctl = 3<<30 | 8<<16 | 'k'<<8 | 1

// TruePosition asks the daemon that serves fd for the position that Linux would have
// where the host's kernel has pos. The caller must set that position. ENOTTY means that
// fd is not a file of a Tree.
func TruePosition(fd int, pos int64) (int64, error) {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), positionIoctl, uintptr(unsafe.Pointer(&pos))); errno != 0 {
		return 0, errno
	}
	return pos, nil
}

// borrow notes that a process has a descriptor only for TruePosition, so that its
// close(2) does not count as a close of the file.
func (h *handle) borrow(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.borrowed == nil {
		h.borrowed = map[int]int{}
	}
	h.borrowed[pid]++
}

// returned reports whether a FLUSH is the close(2) of a borrowed descriptor. If not,
// c becomes the file's last closer.
func (h *handle) returned(c *seqfile.Caller) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.borrowed[c.PID]; n > 1 {
		h.borrowed[c.PID]--
		return true
	} else if n == 1 {
		delete(h.borrowed, c.PID)
		return true
	}
	h.closer = c
	return false
}

// Ioctl serves positionIoctl, and the commands of files that are the guest's own.
func (f *filesystem) Ioctl(cancel <-chan struct{}, in *fuse.IoctlIn, arg []byte, out *fuse.IoctlOut, reply []byte) fuse.Status {
	h := f.handles.get(in.Fh)
	if h != nil && h.guest && in.Cmd != positionIoctl {
		return f.ioctlGuest(cancel, h, in, arg, out, reply)
	}
	if in.Cmd != positionIoctl || h == nil || len(arg) < 8 || len(reply) < 8 {
		return fuse.Status(syscall.ENOTTY)
	}
	pos := h.position(int64(binary.NativeEndian.Uint64(arg)))
	h.moved(pos, pos)
	h.borrow(f.tree.tgids.of(int(in.Pid)))
	binary.NativeEndian.PutUint64(reply, uint64(pos))
	return fuse.OK
}
