package knobs

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// IOFiles are the files of the second table, at least one of each kind. The event
// kprobes/a, a probe at the entry of vfs_read, must exist and be disabled.
var IOFiles = [...]string{
	"/sys/kernel/debug/kprobes/list",
	"/sys/kernel/debug/kprobes/blacklist",
	"/sys/kernel/debug/kprobes/enabled",
	"/proc/sys/debug/kprobes-optimization",
	"/sys/kernel/tracing/kprobe_events",
	"/sys/kernel/tracing/kprobe_profile",
	"/sys/kernel/tracing/tracing_on",
	"/sys/kernel/tracing/trace",
	"/sys/kernel/tracing/README",
	"/sys/kernel/tracing/available_filter_functions",
	"/sys/kernel/tracing/events/kprobes/a/id",
	"/sys/kernel/tracing/events/kprobes/a/format",
	"/sys/kernel/tracing/events/kprobes/a/enable",
	"/proc/kallsyms",
	"/proc/modules",
	"/sys/kernel/tracing/error_log",
}

// RecordIO makes the same few calls on each of IOFiles and prints their table. tree
// is the mount of the whole tree.
func RecordIO(w io.Writer, tree string) error {
	out := bufio.NewWriter(w)
	for _, path := range IOFiles {
		r := &recorder{File: File{Name: path, Path: path}, out: out}
		if err := unix.Access(path, unix.F_OK); err != nil && strings.HasPrefix(path, "/proc/") {
			r.Path = tree + path // the host has no file that this one could be mounted on
		}
		fmt.Fprintf(out, "== %s\n", path)
		r.begin("io")
		r.io()
	}
	return out.Flush()
}

func (r *recorder) io() {
	var f unix.Statfs_t
	quiet(unix.SYS_STATFS, r.at(cstring(r.Path)), pointer(r, &f))
	r.row("statfs type", 0, 0, fmt.Appendf(nil, "%x", f.Type))
	s := r.stat()
	r.value("st_size", s.Size)
	r.value("st_blocks", s.Blocks)
	r.value("st_blksize", s.Blksize)
	fd := r.open(rd)
	withPipe(func(_, w int) { r.sys("sendfile", unix.SYS_SENDFILE, uintptr(w), uintptr(fd), 0, 20) })
	withPipe(func(_, w int) {
		quiet(unix.SYS_LSEEK, uintptr(fd), 0, unix.SEEK_SET)
		r.sys("splice", unix.SYS_SPLICE, uintptr(fd), 0, uintptr(w), 0, 20, 0)
	})
	to := r.openAt("/tmp", rdwr|unix.O_TMPFILE)
	quiet(unix.SYS_LSEEK, uintptr(fd), 0, unix.SEEK_SET)
	r.sys("copy_file_range", unix.SYS_COPY_FILE_RANGE, uintptr(fd), 0, uintptr(to), 0, 20, 0)
	shut(to)
	r.mmap("mmap", fd, unix.PROT_READ, unix.MAP_PRIVATE)
	r.lseek("SEEK_END 0", fd, 0, unix.SEEK_END)
	r.lseek("SEEK_END 5", fd, 5, unix.SEEK_END)
	b := make([]byte, 20)
	r.sys("pread 20@10", unix.SYS_PREAD64, uintptr(fd), r.at(b), 20, 10)
	r.lseek("SEEK_DATA 0", fd, 0, unix.SEEK_DATA)
	r.poll("poll", fd, unix.POLLIN|unix.POLLOUT)
	r.sys("fsync", unix.SYS_FSYNC, uintptr(fd))
	shut(fd)
	fd = r.opensPath("open O_WRONLY", r.Path, wr)
	r.sys("ftruncate", unix.SYS_FTRUNCATE, uintptr(fd), 0)
	shut(fd)
	shut(r.opensPath("open O_DIRECT", r.Path, rd|unix.O_DIRECT))
	r.path("getxattr", unix.SYS_GETXATTR, r.Path, r.at(cstring("user.x")), r.at(b), uintptr(len(b)))
	r.path("listxattr", unix.SYS_LISTXATTR, r.Path, r.at(b), uintptr(len(b)))
}
