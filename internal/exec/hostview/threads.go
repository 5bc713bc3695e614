package hostview

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Borrow returns a descriptor of the same open file as a thread's.
func Borrow(tid, fd int) (int, error) {
	pid, err := proc.Process(tid)
	if err != nil {
		return -1, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(process)
	return unix.PidfdGetfd(process, fd, 0)
}

// OpenProcess returns a pidfd of a thread's process.
func OpenProcess(tid int) (int, error) {
	pid, err := proc.Process(tid)
	if err != nil {
		return -1, err
	}
	return unix.PidfdOpen(pid, 0)
}

// OpenHandle opens a file, a directory or a namespace by its path.
func OpenHandle(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Status returns a field of a thread's /proc/TID/status that is a hexadecimal number.
func Status(tid int, field string) uint64 {
	text, _ := proc.Status(tid, field)
	n, _ := strconv.ParseUint(text, 16, 64)
	return n
}

// SignalPending reports whether a thread has a signal that it neither blocks nor ignores.
func SignalPending(tid int) bool {
	return (Status(tid, "SigPnd")|Status(tid, "ShdPnd"))&^(Status(tid, "SigBlk")|Status(tid, "SigIgn")) != 0
}

// Numbers returns the numbers in a directory of /proc.
func Numbers(dir string) (all []int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// Interruptible reports whether a thread can be stopped without effect. A stop ends
// some calls with EINTR (signal(7)), and interrupts a request of a FUSE file.
func Interruptible(tid int) bool {
	if where, err := proc.Read(tid, "wchan"); err == nil && (where == "request_wait_answer" || strings.HasPrefix(where, "fuse_")) {
		return false
	}
	text, err := proc.Read(tid, "syscall")
	if err != nil {
		return true
	}
	number, _, _ := strings.Cut(text, " ")
	nr, err := strconv.ParseUint(number, 10, 64)
	return err != nil || !calls.EndedByStop(nr)
}

// FSID returns a thread's user or group for files; field is Uid or Gid.
func FSID(tid int, field string) int {
	text, _ := proc.Status(tid, field)
	ids := strings.Fields(text)
	if len(ids) < 4 {
		return -1
	}
	id, err := strconv.Atoi(ids[3])
	if err != nil {
		return -1
	}
	return id
}

// ThreadGroups remembers which process a thread belongs to.
type ThreadGroups struct {
	mu    sync.Mutex
	known map[int]int // by thread
}

// maxGroups bounds how many threads are remembered.
const maxGroups = 1 << 12

// Of is proc.Process. A number may be another thread's by now: signal 0, which does
// nothing, finds a thread only in its process.
func (g *ThreadGroups) Of(tid int) (int, error) {
	g.mu.Lock()
	pid, ok := g.known[tid]
	g.mu.Unlock()
	if ok && !errors.Is(unix.Tgkill(pid, tid, 0), unix.ESRCH) {
		return pid, nil
	}
	pid, err := proc.Process(tid)
	if err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= maxGroups {
		g.known = map[int]int{}
	}
	g.known[tid] = pid
	return pid, nil
}

// ProgramName returns the last name of the file that a thread's descriptor refers to.
func ProgramName(tid, fd int) []byte {
	path, _ := os.Readlink(proc.Path(tid, "fd/"+strconv.Itoa(fd)))
	return []byte(filepath.Base(strings.TrimSuffix(path, " (deleted)")))
}

// SameSpace reports whether a thread is in this process's namespace of a kind.
func SameSpace(tid int, kind string) bool {
	here, err := proc.OwnNamespace(kind)
	there, terr := proc.Namespace(tid, kind)
	return err == nil && terr == nil && here == there
}

// SameView reports whether a thread sees the files where this process sees them.
func SameView(tid int) bool {
	root, err := os.Readlink(proc.Path(tid, "root"))
	return err == nil && root == "/" && SameSpace(tid, "mnt")
}

// SharesMemory reports whether two processes share their memory, as after vfork(2). It fails with ESRCH if one of them has
// ended, and with EPERM where the caller may not trace both.
func SharesMemory(a, b int) (bool, error) {
	const vm = 1 // KCMP_VM
	order, _, errno := unix.RawSyscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), vm, 0, 0, 0)
	if errno != 0 {
		return false, errno
	}
	return order == 0, nil
}
