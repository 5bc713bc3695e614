package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// tracedCall is a system call that the guest makes, too.
type tracedCall struct {
	host  uint32 // this machine's number
	guest uint64 // x86-64's
	name  int    // the argument that names the file, -1: none
	dir   int    // the argument that it is relative to, -1: the current directory
	text  int    // another argument that is a string, -1: none
	made  bool   // the name itself matters, not what a symbolic link there leads to
}

// tracedCalls are those that exist on each architecture; x86-64 has older ones, too.
var tracedCalls = append([]tracedCall{
	{unix.SYS_OPENAT, 257, 1, 0, -1, false},
	{unix.SYS_OPENAT2, guestOpenat2, 1, 0, -1, false},
	{unix.SYS_CHDIR, 80, 0, -1, -1, false},
	{unix.SYS_SYMLINKAT, 266, 2, 1, 0, true},
	{unix.SYS_UNLINKAT, 263, 1, 0, -1, true},
	{unix.SYS_MKDIRAT, 258, 1, 0, -1, true},
	{unix.SYS_EXECVE, guestExecve, 0, -1, -1, false},
	{unix.SYS_CLONE, guestClone, -1, -1, -1, false},
	{unix.SYS_CLONE3, guestClone3, -1, -1, -1, false},
	{unix.SYS_EXIT, guestExit, -1, -1, -1, false},
	{unix.SYS_EXIT_GROUP, guestExitGroup, -1, -1, -1, false},
}, oldCalls...)

// x86-64's numbers of calls that need something else than a name.
const (
	guestClone     = 56
	guestFork      = 57
	guestVfork     = 58
	guestExecve    = 59
	guestExit      = 60
	guestPrctl     = 157
	guestExitGroup = 231
	guestClone3    = 435
	guestOpenat2   = 437
)

// life says whether a call begins or ends a thread. The host's kernel may tell of
// those by itself, and a call that is not notified cannot be interrupted there.
func (c *tracedCall) life() bool {
	switch c.guest {
	case guestClone, guestClone3, guestFork, guestVfork, guestExit, guestExitGroup:
		return true
	}
	return false
}

// headSize is how much of a program the guest looks at.
const headSize = 256

// maxVector bounds the strings of argv and envp that are told, bytes.
const maxVector = 32 << 10

// opens says whether a call opens a file.
func opens(guest uint64) bool { return guest == 2 || guest == 257 || guest == guestOpenat2 }

// trace tells of a call, unless it opens one of our files: that comes by itself.
func (s *supervisor) trace(n *seccompNotif, call *tracedCall) {
	tid := int(n.pid)
	m := &callMessage{ID: n.id, TID: tid, Nr: call.guest, Args: n.args}
	if pid, err := threadGroup(tid); err == nil {
		m.PID = pid
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", tid)); err == nil {
		m.Comm = strings.TrimSuffix(string(b), "\n")
	}
	for _, i := range []int{call.name, call.text} {
		if i >= 0 && n.args[i] != 0 {
			m.Text[i] = readString(tid, n.args[i])
		}
	}
	if call.name >= 0 {
		path := hostPath(tid, call, n.args, string(m.Text[call.name]), s.dirs)
		if opens(call.guest) && below(path, s.dirs) {
			return
		}
		m.Mode = modeOf(path, call.made)
		if call.dir >= 0 && int32(n.args[call.dir]) != unix.AT_FDCWD {
			m.Args[call.dir] = 0xffffff9c // AT_FDCWD: the guest knows no other
		}
		if call.guest == guestExecve {
			m.Vector[1], m.Vector[2] = readVector(tid, n.args[1]), readVector(tid, n.args[2])
			m.Head = heads(path)
		}
	}
	switch call.guest {
	case guestOpenat2: // struct open_how
		m.Text[2] = readMemory(tid, n.args[2], make([]byte, 24))
	case guestClone3:
		m.Text[0] = readMemory(tid, n.args[0], make([]byte, 64))
	case guestPrctl:
		m.Text[1] = readString(tid, n.args[1])
	}
	s.calls.tell(m)
}

// hostPath is where a thread's path leads to, as far as that can be said. What
// stands below one of ours is not looked at: that would be a request for the
// file, which the guest would see.
func hostPath(tid int, call *tracedCall, args [6]uint64, name string, ours []string) string {
	base := ""
	if !strings.HasPrefix(name, "/") {
		from := "cwd"
		if call.dir >= 0 && int32(args[call.dir]) != unix.AT_FDCWD {
			from = fmt.Sprintf("fd/%d", int32(args[call.dir]))
		}
		base, _ = os.Readlink(fmt.Sprintf("/proc/%d/%s", tid, from))
	} else if rest, ok := strings.CutPrefix(name, "/proc/self/"); ok {
		name = fmt.Sprintf("/proc/%d/%s", tid, rest)
	}
	path := filepath.Join(base, name)
	if below(path, ours) {
		return path
	}
	if call.made {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			return filepath.Join(dir, filepath.Base(path))
		}
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// modeOf is what stands at a path: its type and permissions.
func modeOf(path string, link bool) uint64 {
	var st unix.Stat_t
	stat := unix.Stat
	if link {
		stat = unix.Lstat
	}
	if err := stat(path, &st); err != nil {
		return abi.CallModeNone
	}
	return uint64(st.Mode)
}

// heads gives the beginnings of a program, and of the interpreters that it and
// they ask for.
func heads(path string) (all [][]byte) {
	for range 4 {
		f, err := os.Open(path)
		if err != nil {
			return all
		}
		b := make([]byte, headSize)
		n, _ := f.Read(b)
		_ = f.Close()
		all = append(all, b[:n])
		line, ok := bytes.CutPrefix(b[:n], []byte("#!"))
		if !ok {
			return all
		}
		line, _, _ = bytes.Cut(line, []byte("\n"))
		words := bytes.Fields(line)
		if len(words) == 0 {
			return all
		}
		path = string(words[0])
	}
	return all
}

// readMemory reads what it can of a thread's memory.
func readMemory(tid int, addr uint64, b []byte) []byte {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	// A transfer ends at the first page that is not there.
	remote := []unix.RemoteIovec{}
	for rest := len(b); rest > 0; {
		n := min(rest, os.Getpagesize()-int(addr)&(os.Getpagesize()-1))
		remote = append(remote, unix.RemoteIovec{Base: uintptr(addr), Len: n})
		addr, rest = addr+uint64(n), rest-n
	}
	n, err := unix.ProcessVMReadv(tid, local, remote, 0)
	if err != nil || n < 0 {
		return nil
	}
	return b[:n]
}

// readString reads a string of at most PATH_MAX bytes; nil when it is not there.
func readString(tid int, addr uint64) []byte {
	b := readMemory(tid, addr, make([]byte, unix.PathMax))
	text, _, ended := bytes.Cut(b, []byte{0})
	if !ended && len(b) < unix.PathMax {
		return nil
	}
	return text
}

// readVector reads an array of strings that ends with NULL.
func readVector(tid int, addr uint64) [][]byte {
	if addr == 0 {
		return nil
	}
	all := [][]byte{}
	for size := 0; size < maxVector; addr += 8 {
		p := readMemory(tid, addr, make([]byte, 8))
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
