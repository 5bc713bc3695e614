package hostview

import (
	"errors"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ElfMagic starts a program that Linux runs without an interpreter.
const ElfMagic = "\x7fELF\x02\x01\x01"

// headSize is the number of bytes that Linux reads of a program to determine its format.
const headSize = 256

// Head returns the start of a program, or the error with which execve(2) would fail to
// read it. It does not open a FIFO, a device or a file of /proc, because that may wait or
// consume data. A regular file must have an execute permission bit, and be on a mount
// that allows programs.
func Head(path string) ([]byte, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, err
	}
	var mount unix.Statfs_t
	if err := unix.Fstatfs(at, &mount); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 || mount.Flags&unix.ST_NOEXEC != 0 {
		return nil, syscall.EACCES
	}
	// Open the file that was checked, whatever is at the path now. Without
	// O_NONBLOCK a lease would make open(2) wait.
	same := "/proc/self/fd/" + strconv.Itoa(at)
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	f, err := unix.Open(same, flags|unix.O_NOATIME, 0)
	if err != nil { // EPERM: the file belongs to another user
		f, err = unix.Open(same, flags, 0)
	}
	if errors.Is(err, unix.EACCES) { // Linux also executes files that may not be read
		return []byte(ElfMagic), nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(f)
	b := make([]byte, headSize)
	n, err := unix.Pread(f, b, 0)
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}
