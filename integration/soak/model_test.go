package soak

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/kprobefs/kprobefs/integration/model"
)

// TestMountedSequences executes random sequences of operations through a mount.
// fs.FuzzSequences executes many more without a mount.
func TestMountedSequences(t *testing.T) {
	d := start(t, t.TempDir())
	rapid.Check(t, func(r *rapid.T) { model.Sequence(r, mounted(d.dir)) })
}

// mounted implements model.Files on a mount.
type mounted string

func (dir mounted) Open(name string, flags int) (model.File, error) {
	fd, err := again(func() (int, error) { return unix.Open(filepath.Join(string(dir), name), flags|unix.O_CLOEXEC, 0) })
	return descriptor(fd), err
}

// again repeats a system call while it is interrupted by signals of Go's runtime.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

type descriptor int

func (fd descriptor) Read(p []byte) (int, error) {
	return again(func() (int, error) { return unix.Read(int(fd), p) })
}

func (fd descriptor) Pread(p []byte, off int64) (int, error) {
	return again(func() (int, error) { return unix.Pread(int(fd), p, off) })
}

func (fd descriptor) Write(p []byte) (int, error) {
	return again(func() (int, error) { return unix.Write(int(fd), p) })
}

func (fd descriptor) SeekTo(pos int64) error {
	_, err := unix.Seek(int(fd), pos, unix.SEEK_SET)
	return err
}

func (fd descriptor) Close() error { return unix.Close(int(fd)) }
