package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// tracedCall is a system call that the guest repeats.
type tracedCall struct {
	host  uint32 // the number on this machine
	guest uint64 // the number on x86-64
	name  int    // index of the argument with the file's name, or -1
	dir   int    // index of the argument with its directory; -1 means the current directory
	text  int    // index of another string argument, or -1
	made  bool   // the name is not followed if it is a symbolic link
	bit   uint32 // in the shared word: somebody could see it
}

// tracedCalls are the calls that exist on each architecture; x86-64 has older ones in addition.
var tracedCalls = append([]tracedCall{
	{unix.SYS_OPENAT, abi.SysOpenat, 1, 0, -1, false, 0},
	{unix.SYS_OPENAT2, abi.SysOpenat2, 1, 0, -1, false, 0},
	{unix.SYS_CHDIR, abi.SysChdir, 0, -1, -1, false, 0},
	{unix.SYS_SYMLINKAT, abi.SysSymlinkat, 2, 1, 0, true, 0},
	{unix.SYS_UNLINKAT, abi.SysUnlinkat, 1, 0, -1, true, 0},
	{unix.SYS_MKDIRAT, abi.SysMkdirat, 1, 0, -1, true, 0},
	{unix.SYS_EXECVE, abi.SysExecve, 0, -1, -1, false, 0},
	{unix.SYS_EXECVEAT, abi.SysExecveat, 1, 0, -1, false, 0},
	{unix.SYS_CLONE, abi.SysClone, -1, -1, -1, false, 0},
	{unix.SYS_CLONE3, abi.SysClone3, -1, -1, -1, false, 0},
	{unix.SYS_EXIT, abi.SysExit, -1, -1, -1, false, 0},
	{unix.SYS_EXIT_GROUP, abi.SysExitGroup, -1, -1, -1, false, 0},
	{unix.SYS_KILL, abi.SysKill, -1, -1, -1, false, 0},
	{unix.SYS_TKILL, abi.SysTkill, -1, -1, -1, false, 0},
	{unix.SYS_TGKILL, abi.SysTgkill, -1, -1, -1, false, 0},
}, oldCalls...)

// maxVector is the largest size in bytes of the strings of argv and envp that are sent.
const maxVector = 32 << 10

// opens reports whether a call opens a file.
func opens(guest uint64) bool {
	return guest == abi.SysOpen || guest == abi.SysOpenat || guest == abi.SysOpenat2 || guest == abi.SysCreat
}

// openCall returns the row of a call that opens a file, or nil for other calls.
func openCall(nr uint64) *tracedCall {
	for i, c := range tracedCalls {
		if uint64(c.host) == nr && opens(c.guest) {
			return &tracedCalls[i]
		}
	}
	return nil
}

// notified reports whether the supervisor is notified of a call, whatever its arguments are.
func notified(nr uint64) bool {
	return slices.ContainsFunc(tracedCalls, func(c tracedCall) bool { return uint64(c.host) == nr }) ||
		slices.Contains(placeCalls, uint32(nr)) || nr == unix.SYS_LSEEK || nr == unix.SYS_PRCTL
}

// trace reports a call, unless it opens one of our files: that arrives as a request.
func (s *supervisor) trace(c *caller, call *tracedCall) {
	var m *callMessage
	if c.take(func(tid int) { m = s.message(tid, c, call) }) && m != nil {
		s.calls.tell(m)
	}
}

// message returns what the serving process hears of a call, or nil if it hears nothing.
func (s *supervisor) message(tid int, n *caller, call *tracedCall) *callMessage {
	ours := s.paths()
	m := &callMessage{ID: n.id, TID: tid, Nr: call.guest, Args: n.args}
	m.PID, _ = s.groups.of(tid)
	m.Comm, _ = proc.Comm(tid)
	for _, i := range []int{call.name, call.text} {
		if i >= 0 && n.args[i] != 0 {
			m.Text[i] = readString(tid, n.args[i])
		}
	}
	if call.name >= 0 {
		path, mode := hostPath(view{}, tid, call, n.args, string(m.Text[call.name]), ours)
		if of, hosts := s.knobs.hosts(path); hosts {
			mode = of
		} else if below(path, ours) {
			if opens(call.guest) {
				return nil
			}
			mode, m.Ours = view{}.modeOf(path, call.made), true
		}
		m.Mode = mode
		if call.guest == abi.SysExecve || call.guest == abi.SysExecveat {
			for _, i := range []int{call.name + 1, call.name + 2} {
				m.Vector[i] = readVector(tid, n.args[i])
			}
			if call.dir >= 0 && len(m.Text[call.name]) == 0 {
				m.Text[5] = programName(tid, int(int32(n.args[call.dir])))
			}
			var err error
			if m.Head, err = heads(tid, path, ours); err != nil {
				_ = errors.As(err, &m.HeadErr)
			}
		}
	}
	switch call.guest {
	case abi.SysOpenat2: // struct open_how
		m.Text[2] = proc.ReadMemory(tid, n.args[2], make([]byte, 24))
	case abi.SysClone3:
		m.Text[0] = proc.ReadMemory(tid, n.args[0], make([]byte, 64))
	case abi.SysKill, abi.SysTkill, abi.SysTgkill:
		if !sameSpace(tid, "pid") {
			return nil // its process ids are different
		}
	case abi.SysPrctl:
		m.Text[1] = readString(tid, n.args[1])
	}
	return m
}

// programName returns the last name of the file that a thread's descriptor refers to.
func programName(tid, fd int) []byte {
	path, _ := os.Readlink(proc.Path(tid, "fd/"+strconv.Itoa(fd)))
	return []byte(filepath.Base(strings.TrimSuffix(path, " (deleted)")))
}

// sameSpace reports whether a thread is in this process's namespace of a kind.
func sameSpace(tid int, kind string) bool {
	here, err := proc.OwnNamespace(kind)
	there, terr := proc.Namespace(tid, kind)
	return err == nil && terr == nil && here == there
}

// hostPath resolves a thread's path as far as possible and returns the mode of the
// file (modeOf). It does not access paths below ours: that would be a request for the
// file, which the guest would see, and which would create a task there.
func hostPath(at view, tid int, call *tracedCall, args [6]uint64, name string, ours []string) (path string, mode uint64) {
	base := ""
	if name == "" && call.dir >= 0 { // the file that the descriptor refers to
		name = proc.Path(tid, "fd/"+strconv.Itoa(int(int32(args[call.dir]))))
	} else if !strings.HasPrefix(name, "/") {
		from := "cwd"
		if call.dir >= 0 && int32(args[call.dir]) != unix.AT_FDCWD {
			from = "fd/" + strconv.Itoa(int(int32(args[call.dir])))
		}
		base, _ = os.Readlink(proc.Path(tid, from))
	} else if rest, ok := strings.CutPrefix(name, "/proc/self/"); ok {
		name = proc.Path(tid, rest)
	}
	path = filepath.Join(base, name)
	if below(path, ours) {
		return path, abi.CallModeNone
	}
	if !call.made {
		return at.follow(path, ours)
	}
	if dir, err := at.realDir(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if below(path, ours) {
		return path, abi.CallModeNone
	}
	return path, at.modeOf(path, true)
}

// follow resolves the symbolic links of a path and returns the mode of the file,
// unless the path is below ours.
func (v view) follow(path string, ours []string) (string, uint64) {
	fd, err := v.open(path, 0)
	if err != nil {
		return path, abi.CallModeNone
	}
	defer unix.Close(fd)
	var b [unix.PathMax]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), b[:])
	real := string(b[:max(n, 0)])
	if err == nil && below(real, ours) {
		return real, abi.CallModeNone
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return path, abi.CallModeNone
	}
	if err == nil && st.Nlink > 0 && strings.HasPrefix(real, "/") { // else it has no name any more, or never had one
		path = real
	}
	return path, uint64(st.Mode)
}

// heads returns the beginnings of a program and of its chain of interpreters, and the
// error of the first that cannot be read. It does not read files of ours: they are not
// programs, and reading one would be a request that the guest sees.
func heads(tid int, path string, ours []string) (all [][]byte, err error) {
	for range 4 {
		if below(path, ours) {
			return all, syscall.EACCES
		}
		head, err := kprobefs.Head(path)
		if err != nil {
			return all, err
		}
		all = append(all, head)
		line, ok := bytes.CutPrefix(head, []byte("#!"))
		if !ok {
			break
		}
		line, _, _ = bytes.Cut(line, []byte("\n"))
		words := bytes.Fields(line)
		if len(words) == 0 {
			break
		}
		path, _ = hostPath(view{}, tid, &interpreter, [6]uint64{}, string(words[0]), ours)
	}
	return all, nil
}

// interpreter resolves a file's name as execve(2) does.
var interpreter = tracedCall{dir: -1}

// readString reads a string of at most PATH_MAX bytes. It returns nil if it cannot be read.
func readString(tid int, addr uint64) []byte {
	b := proc.ReadMemory(tid, addr, make([]byte, unix.PathMax))
	text, _, ended := bytes.Cut(b, []byte{0})
	if !ended && len(b) < unix.PathMax {
		return nil
	}
	return text
}

// readVector reads a NULL-terminated array of strings.
func readVector(tid int, addr uint64) [][]byte {
	if addr == 0 {
		return nil
	}
	all := [][]byte{}
	for size := 0; size < maxVector; addr += 8 {
		p := proc.ReadMemory(tid, addr, make([]byte, 8))
		if len(p) < 8 || binary.NativeEndian.Uint64(p) == 0 {
			break
		}
		text := readString(tid, binary.NativeEndian.Uint64(p))
		if text == nil {
			break
		}
		all = append(all, text)
		size += len(text) + 1
	}
	return all
}
