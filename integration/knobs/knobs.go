// Package knobs makes the system calls whose results on Linux 6.1 are recorded in
// integration/testdata/knobs.txt: everything that a program can do, sensible or not,
// with the files kprobes/enabled, debug/kprobes-optimization and
// kernel/ftrace_enabled.
//
// A recorder plays cases on one file and prints a line for each call. A Table is
// parsed from these lines: a cell (file, case, call) has the results of its calls in
// order. Descriptors are printed as "fd", since their numbers do not depend on the
// file.
package knobs

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxData is the maximum number of read bytes that are printed.
const maxData = 200

// File is a file that cases are played on.
type File struct {
	Name string // its name in the table
	Path string
	Proc bool // in /proc/sys: its mode is 0644, not 0600
}

// Files are the files of the table, with their paths on Linux.
var Files = [...]File{
	{"kprobes/enabled", "/sys/kernel/debug/kprobes/enabled", false},
	{"debug/kprobes-optimization", "/proc/sys/debug/kprobes-optimization", true},
	{"kernel/ftrace_enabled", "/proc/sys/kernel/ftrace_enabled", true},
}

// Record plays all cases on each file and prints the table to w. It needs root,
// and leaves a 1 in the files.
func Record(w io.Writer, files []File) error {
	out := bufio.NewWriter(w)
	for _, f := range files {
		r := &recorder{File: f, out: out}
		fmt.Fprintf(out, "== %s\n", f.Name)
		r.all()
	}
	return out.Flush()
}

// recorder plays cases on one file.
type recorder struct {
	File
	out  *bufio.Writer
	keep []any // objects to which the kernel has pointers during a case
}

// begin sets the case that the next calls belong to.
func (r *recorder) begin(name string) {
	r.keep = nil
	fmt.Fprintln(r.out, name)
}

// row prints the result of a call, and the data that it read.
func (r *recorder) row(call string, ret int64, errno unix.Errno, data []byte) {
	text := fmt.Sprint(ret)
	if errno != 0 {
		text = errnoName(errno)
	}
	if len(data) > 0 {
		text += " " + escape(data[:min(len(data), maxData)])
	}
	fmt.Fprintf(r.out, "\t%s\t%s\n", call, text)
}

// escape returns bytes as shown in the table.
func escape(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		switch {
		case c == '\n':
			s.WriteString(`\n`)
		case c == '\t':
			s.WriteString(`\t`)
		case c == '\\':
			s.WriteString(`\\`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&s, `\x%02x`, c)
		default:
			s.WriteByte(c)
		}
	}
	return s.String()
}

// sys makes a system call and prints its result.
func (r *recorder) sys(call string, nr uintptr, args ...uintptr) int64 {
	ret, errno := syscall(nr, args...)
	r.row(call, ret, errno, nil)
	return ret
}

// fd makes a system call that returns a descriptor.
func (r *recorder) fd(call string, nr uintptr, args ...uintptr) int {
	ret, errno := syscall(nr, args...)
	if errno != 0 {
		r.row(call, ret, errno, nil)
	} else {
		fmt.Fprintf(r.out, "\t%s\tfd\n", call)
	}
	return int(ret)
}

// syscall makes a system call directly, since wrappers might check the arguments. If
// it fails, it returns -1 and the errno.
func syscall(nr uintptr, args ...uintptr) (int64, unix.Errno) {
	var a [6]uintptr
	copy(a[:], args)
	ret, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return -1, errno
	}
	return int64(ret), 0
}

// quiet makes a system call whose result is not recorded.
func quiet(nr uintptr, args ...uintptr) int64 {
	ret, _ := syscall(nr, args...)
	return ret
}

// pointer returns the address of a variable and keeps a reference to it, so that it
// is on the heap and is not moved.
func pointer[T any](r *recorder, v *T) uintptr {
	r.keep = append(r.keep, v)
	return uintptr(unsafe.Pointer(v))
}

// at returns the address of a buffer.
func (r *recorder) at(b []byte) uintptr { return pointer(r, unsafe.SliceData(b)) }

// cstring returns a path with a final zero.
func cstring(path string) []byte { return append([]byte(path), 0) }

// badAddress is an address that is not mapped.
const badAddress = 1

// open opens the file; its result is not recorded.
func (r *recorder) open(flags int) int { return r.openAt(r.Path, flags) }

func (r *recorder) openAt(path string, flags int) int {
	p := cstring(path)
	return int(quiet(unix.SYS_OPEN, r.at(p), uintptr(flags), 0o666))
}

// opens records an open of the file.
func (r *recorder) opens(flags int) int { return r.opensPath("open", r.Path, flags) }

func (r *recorder) opensPath(call, path string, flags int) int {
	p := cstring(path)
	return r.fd(call, unix.SYS_OPEN, r.at(p), uintptr(flags), 0o666)
}

// path records a call whose first argument is a path.
func (r *recorder) path(call string, nr uintptr, path string, args ...uintptr) int64 {
	p := cstring(path)
	return r.sys(call, nr, append([]uintptr{r.at(p)}, args...)...)
}

func shut(fd int) { quiet(unix.SYS_CLOSE, uintptr(fd)) }

// write records write(2).
func (r *recorder) write(fd int, text string) { r.writes("write", fd, text) }

func (r *recorder) writes(call string, fd int, text string) {
	b := []byte(text)
	r.sys(call, unix.SYS_WRITE, uintptr(fd), r.at(b), uintptr(len(b)))
}

// put writes to a descriptor without recording it.
func (r *recorder) put(fd int, text string) {
	b := []byte(text)
	quiet(unix.SYS_WRITE, uintptr(fd), r.at(b), uintptr(len(b)))
}

// get reads n bytes without recording it.
func (r *recorder) get(fd, n int) []byte {
	b := make([]byte, n)
	return b[:max(quiet(unix.SYS_READ, uintptr(fd), r.at(b), uintptr(n)), 0)]
}

// read records read(2) of n bytes.
func (r *recorder) read(call string, fd, n int) {
	b := make([]byte, n+1)
	ret, errno := syscall(unix.SYS_READ, uintptr(fd), r.at(b), uintptr(n))
	r.row(call, ret, errno, b[:max(ret, 0)])
}

func (r *recorder) pread(call string, fd, n int, off int64) {
	b := make([]byte, n)
	ret, errno := syscall(unix.SYS_PREAD64, uintptr(fd), r.at(b), uintptr(n), uintptr(off))
	r.row(call, ret, errno, b[:max(ret, 0)])
}

func (r *recorder) lseek(call string, fd int, off int64, whence int) {
	r.sys(call, unix.SYS_LSEEK, uintptr(fd), uintptr(off), uintptr(whence))
}

// after records the file's contents.
func (r *recorder) after() {
	fd := r.open(unix.O_RDONLY)
	if fd < 0 {
		r.row("after", int64(fd), 0, nil)
		return
	}
	defer shut(fd)
	r.read("after", fd, 63)
}

// set opens the file, writes to it and closes it.
func (r *recorder) set(text string) {
	fd := r.open(unix.O_WRONLY)
	r.put(fd, text)
	shut(fd)
}

// value records a number that is not the result of a call.
func (r *recorder) value(name string, v int64) { r.row(name, v, 0, nil) }

func (r *recorder) truth(name string, v bool) {
	if v {
		r.value(name, 1)
	} else {
		r.value(name, 0)
	}
}

// asUser runs f with another user's IDs, on a thread of its own: Linux has IDs for
// each thread.
func asUser(id int, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread is not reused
		quiet(unix.SYS_SETGID, uintptr(id))
		quiet(unix.SYS_SETUID, uintptr(id))
		f()
	}()
	<-done
}

// errnoName returns the kernel's name of an errno: x/sys has another name for
// EOPNOTSUPP.
func errnoName(e unix.Errno) string {
	if e == unix.EOPNOTSUPP {
		return "EOPNOTSUPP"
	}
	return unix.ErrnoName(e)
}
