package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// view is where names of files are looked up: in this process's mount namespace or, with
// a root directory, in that one's. Another namespace cannot be entered by a process with
// several threads, but its root can be opened.
type view struct{ root *os.File }

// viewOf returns the view of a process in a mount namespace.
func viewOf(space string, pid int) (v view, err error) {
	if own, err := proc.OwnNamespace("mnt"); err != nil || own == space {
		return v, err
	}
	fd, err := unix.Open(proc.Path(pid, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return v, err
	}
	return view{os.NewFile(uintptr(fd), "root")}, nil
}

func (v view) close() {
	if v.root != nil {
		_ = v.root.Close()
	}
}

// open opens a file without asking it for anything (O_PATH). The host's kernel walks the
// path once.
func (v view) open(path string, flags int) (fd int, err error) {
	flags |= unix.O_PATH | unix.O_CLOEXEC
	for {
		if v.root == nil {
			fd, err = unix.Open(path, flags, 0)
		} else {
			fd, err = unix.Openat2(int(v.root.Fd()), path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT})
			if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOSYS) { // a link of /proc is the same in each namespace
				fd, err = unix.Open(path, flags, 0)
			}
		}
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// realDir resolves the symbolic links of a directory's path.
func (v view) realDir(dir string) (string, error) {
	if v.root == nil {
		return filepath.EvalSymlinks(dir)
	}
	fd, err := v.open(dir, unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// modeOf returns the type and permissions of the file at a path.
func (v view) modeOf(path string, link bool) uint64 {
	flags := 0
	if link {
		flags = unix.O_NOFOLLOW
	}
	st, err := v.stat(path, flags)
	if err != nil {
		return abi.CallModeNone
	}
	return uint64(st.Mode)
}

// deviceOf returns the number of the device at a path, or 0.
func (v view) deviceOf(path string) uint64 {
	st, err := v.stat(path, 0)
	if err != nil {
		return 0
	}
	return st.Rdev
}

// stat is fstat(2) of the file at a path, opened with flags.
func (v view) stat(path string, flags int) (st unix.Stat_t, err error) {
	fd, err := v.open(path, flags)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}
