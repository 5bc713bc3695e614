// Package hostview is what exec sees of the host's processes, by /proc: their mounts, open files, memory and
// threads, and the files that their paths lead to. It changes nothing.
package hostview

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// View is where names of files are looked up: in this process's mount namespace or, with
// a root directory, in that one's. Another namespace cannot be entered by a process with
// several threads, but its root can be opened.
type View struct {
	root   *os.File
	missed *bool // see AtOnce
}

// AtOnce returns a view in which only those names are found that can be looked up without waiting, such as
// for the server of a file system. missed is set when one of the others was looked up, which is then as
// if it did not exist.
func (v View) AtOnce(missed *bool) View { return View{v.root, missed} }

// Exists reports whether a file with that name exists.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Below reports whether a path is one of dirs, or leads into it.
func Below(path string, dirs []string) bool {
	for _, d := range dirs {
		if rest, ok := strings.CutPrefix(path, d); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// FileName is the name of a file as a thread gives it to a call.
type FileName struct {
	Dir  int // the descriptor of the directory in which it is looked up, or AT_FDCWD; the file itself if Text is empty
	Text string
	Link bool // it is not followed if it names a symbolic link

	Base *string // if not nil, is set to the path of the directory in which it is looked up, if it is a relative name
}

// Name reads the name that a thread gives to a call.
func Name(tid int, call *calls.Row, args [6]uint64) FileName {
	return FileName{Dir: call.Dir(args), Text: string(ReadString(tid, args[call.Name()])), Link: call.Link(args)}
}

// Path resolves a thread's name of a file as far as possible and returns the mode of the
// file (modeOf). It does not access paths below ours: that would be a request for the
// file, which the guest would see, and which would create a task there.
func (v View) Path(tid int, file FileName, ours []string) (path string, mode uint64) {
	base, name := "", file.Text
	if name == "" && file.Dir != unix.AT_FDCWD { // the file that the descriptor refers to
		name = proc.Path(tid, "fd/"+strconv.Itoa(file.Dir))
	} else if !strings.HasPrefix(name, "/") {
		from := "cwd"
		if file.Dir != unix.AT_FDCWD {
			from = "fd/" + strconv.Itoa(file.Dir)
		}
		base, _ = os.Readlink(proc.Path(tid, from))
		if file.Base != nil {
			*file.Base = base
		}
	} else if rest, ok := strings.CutPrefix(name, "/proc/self/"); ok {
		name = proc.Path(tid, rest)
	}
	path = filepath.Join(base, name)
	if Below(path, ours) {
		return path, abi.CallModeNone
	}
	if !file.Link {
		return v.follow(path, ours)
	}
	if dir, err := v.realDir(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if Below(path, ours) {
		return path, abi.CallModeNone
	}
	return path, v.ModeOf(path, true)
}

// follow resolves the symbolic links of a path and returns the mode of the file,
// unless the path is below ours.
func (v View) follow(path string, ours []string) (string, uint64) {
	fd, err := v.open(path, 0)
	if err != nil {
		return path, abi.CallModeNone
	}
	defer unix.Close(fd)
	var b [unix.PathMax]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), b[:])
	real := string(b[:max(n, 0)])
	if err == nil && Below(real, ours) {
		return real, abi.CallModeNone
	}
	mode, links, merr := v.mode(fd)
	if merr != nil {
		return path, abi.CallModeNone
	}
	if err == nil && links > 0 && strings.HasPrefix(real, "/") { // else it has no name any more, or never had one
		path = real
	}
	return path, uint64(mode)
}

// ViewOf returns the view of a process in a mount namespace.
func ViewOf(space string, pid int) (v View, err error) {
	if own, err := proc.OwnNamespace("mnt"); err != nil || own == space {
		return v, err
	}
	fd, err := unix.Open(proc.Path(pid, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return v, err
	}
	return View{root: os.NewFile(uintptr(fd), "root")}, nil
}

// Close closes the root directory.
func (v View) Close() {
	if v.root != nil {
		_ = v.root.Close()
	}
}

// open opens a file without asking it for anything (O_PATH). The host's kernel walks the
// path once.
func (v View) open(path string, flags int) (fd int, err error) {
	flags |= unix.O_PATH | unix.O_CLOEXEC
	if v.missed != nil {
		return v.openAtOnce(path, flags)
	}
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

// openAtOnce is open for a view of AtOnce.
func (v View) openAtOnce(path string, flags int) (fd int, err error) {
	const resolveCached = 0x20 // since Linux 5.12
	dir, how := unix.AT_FDCWD, unix.OpenHow{Flags: uint64(flags), Resolve: resolveCached}
	if v.root != nil {
		dir, how.Resolve = int(v.root.Fd()), how.Resolve|unix.RESOLVE_IN_ROOT
	}
	fd, err = unix.Openat2(dir, path, &how)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
		*v.missed = true
	}
	return fd, err
}

// mode returns the type and permissions of an open file, and the number of its names.
func (v View) mode(fd int) (mode uint16, links uint32, err error) {
	flags := unix.AT_EMPTY_PATH
	if v.missed != nil {
		flags |= unix.AT_STATX_DONT_SYNC
	}
	var st unix.Statx_t
	err = unix.Statx(fd, "", flags, unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_NLINK, &st)
	return st.Mode, st.Nlink, err
}

// realDir resolves the symbolic links of a directory's path.
func (v View) realDir(dir string) (string, error) {
	if v.root == nil && v.missed == nil {
		return filepath.EvalSymlinks(dir)
	}
	fd, err := v.open(dir, unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// ModeOf returns the type and permissions of the file at a path.
func (v View) ModeOf(path string, link bool) uint64 {
	flags := 0
	if link {
		flags = unix.O_NOFOLLOW
	}
	fd, err := v.open(path, flags)
	if err != nil {
		return abi.CallModeNone
	}
	defer unix.Close(fd)
	mode, _, err := v.mode(fd)
	if err != nil {
		return abi.CallModeNone
	}
	return uint64(mode)
}

// DeviceOf returns the number of the device at a path, or 0.
func (v View) DeviceOf(path string) uint64 {
	fd, err := v.open(path, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Rdev
}
