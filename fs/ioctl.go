package fs

import (
	"encoding/binary"
	"errors"
	"math"
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

// spliceIoctl is _IOWR('k', 2, struct { u64 room; u8 page[4096]; }). It returns how many bytes
// of the page are filled.
const (
	spliceIoctl     = 3<<30 | spliceIoctlSize<<16 | 'k'<<8 | 2
	spliceIoctlSize = 8 + splicePage
)

// SplicesPages reports whether SplicePage can be used. The caller has borrowed fd from another
// process, for this alone, and closes it: that does not count as a close(2) of the file.
func SplicesPages(fd int) bool {
	_, err := SplicePage(fd, nil)
	return err == nil
}

// SplicePage asks the daemon that serves fd for what splice(2) moves into a page of a pipe that
// has room for len(b) bytes. EAGAIN means that splice(2) would wait, ENOTTY that fd is no file
// that fills pages in part.
func SplicePage(fd int, b []byte) (int, error) {
	var arg [spliceIoctlSize]byte
	binary.NativeEndian.PutUint64(arg[:], uint64(len(b)))
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), spliceIoctl, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		return 0, errno
	}
	return copy(b, arg[8:][:min(int(n), splicePage)]), nil
}

// checkIoctl is _IOW('k', 3, u64). Its argument is a length, its result an errno or 0.
const checkIoctl = 1<<30 | 8<<16 | 'k'<<8 | 3

// CheckSplice returns EINVAL if there is no splice(2) of length bytes from fd, and EAGAIN if it
// would wait for content now; the host's kernel does not pass on that the caller does not want
// to. The caller has borrowed fd from another process, for this alone, and closes it: that does
// not count as a close(2) of the file.
func CheckSplice(fd int, length uint64) syscall.Errno {
	errno, _, err := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), checkIoctl, uintptr(unsafe.Pointer(&length)))
	if err != 0 {
		return 0 // it is no file for which there is more to say than the host's kernel does
	}
	return syscall.Errno(errno)
}

// checkSplice serves checkIoctl for a process that has borrowed the file.
func (h *handle) checkSplice(pid int, arg []byte) (int, error) {
	s, ok := seqfile.As[seqfile.SpliceChecker](h.opened())
	if !ok || len(arg) < 8 {
		return 0, syscall.ENOTTY
	}
	h.borrow(pid)
	var errno syscall.Errno
	_ = errors.As(s.CheckSplice(int(min(binary.NativeEndian.Uint64(arg), math.MaxInt32))), &errno)
	return int(errno), nil
}

// splicePage serves spliceIoctl. A process with no room asks whether it can, and has borrowed
// the file.
func (h *handle) splicePage(pid int, arg, reply []byte) (int, error) {
	s, ok := seqfile.As[seqfile.PageSplicer](h.opened())
	if !ok || len(arg) < spliceIoctlSize || len(reply) < spliceIoctlSize {
		return 0, syscall.ENOTTY
	}
	room := min(binary.NativeEndian.Uint64(arg), splicePage)
	if room == 0 {
		h.borrow(pid)
		return 0, nil
	}
	return s.SplicePage(reply[8:][:room])
}

// borrow notes that a process has a descriptor only for one of these commands, so that its
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

// Ioctl serves positionIoctl, spliceIoctl and checkIoctl, and the commands of files that are the guest's own.
func (f *filesystem) Ioctl(cancel <-chan struct{}, in *fuse.IoctlIn, arg []byte, out *fuse.IoctlOut, reply []byte) fuse.Status {
	h := f.handles.get(in.Fh)
	if h == nil {
		return fuse.Status(syscall.ENOTTY)
	}
	pid := func() int { return f.tree.tgids.of(int(in.Pid)) }
	switch {
	case in.Cmd == positionIoctl && len(arg) >= 8 && len(reply) >= 8:
		pos := h.position(int64(binary.NativeEndian.Uint64(arg)))
		h.moved(pos, pos)
		h.borrow(pid())
		binary.NativeEndian.PutUint64(reply, uint64(pos))
		return fuse.OK
	case in.Cmd == spliceIoctl:
		n, err := h.splicePage(pid(), arg, reply)
		out.Result = int32(n)
		return f.tree.status(err)
	case in.Cmd == checkIoctl:
		n, err := h.checkSplice(pid(), arg)
		out.Result = int32(n)
		return f.tree.status(err)
	case h.guest:
		return f.ioctlGuest(cancel, h, in, arg, out, reply)
	}
	return fuse.Status(syscall.ENOTTY)
}
