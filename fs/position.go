package fs

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// positionIoctl is _IOWR('k', 1, u64): it takes the position that the host's
// kernel has for an open file, and gives the one that Linux would have. From
// then on they are the same.
const positionIoctl = 3<<30 | 8<<16 | 'k'<<8 | 1

// TruePosition asks the daemon behind fd for the position that Linux would have
// where the host's kernel has pos, and tells it that the caller sets it so.
// ENOTTY: fd is no file of a Tree.
func TruePosition(fd int, pos int64) (int64, error) {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), positionIoctl, uintptr(unsafe.Pointer(&pos))); errno != 0 {
		return 0, errno
	}
	return pos, nil
}

// Ioctl knows positionIoctl alone: the files have no ioctl of their own.
func (f *face) Ioctl(_ <-chan struct{}, in *fuse.IoctlIn, arg []byte, _ *fuse.IoctlOut, reply []byte) fuse.Status {
	h := f.handles.get(in.Fh)
	if in.Cmd != positionIoctl || h == nil || len(arg) < 8 || len(reply) < 8 {
		return fuse.Status(syscall.ENOTTY)
	}
	pos := h.position(int64(binary.NativeEndian.Uint64(arg)))
	h.moved(pos, pos)
	binary.NativeEndian.PutUint64(reply, uint64(pos))
	return fuse.OK
}
