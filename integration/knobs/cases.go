package knobs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// word is a text that is written, and its name in the table, in C notation.
type word struct{ name, text string }

// words returns what users, or broken programs, write to a switch.
func words() []word {
	var list []word
	for text := range strings.SplitSeq("0 1 y n Y N on off ON OFF oN oF o of ofx t f T F true false True False yes no enable disable "+
		"2 -1 +1 +0 -0 - + 00 01 10 0x1 0x0 0X1 0x2 1garbage 0garbage garbage 1,0 0,1 =n "+
		"99999999999999999999 4294967296 4294967297 -4294967295 18446744073709551617", " ") {
		list = append(list, word{`"` + text + `"`, text})
	}
	for _, text := range []string{"", " ", " 1", " 0", "1 ", "0 ", "1 1", "1 0", "0 1", "1 2", "0 2", "1 x", "0 x", "yes please", "0 99999999999999999999"} {
		list = append(list, word{`"` + text + `"`, text})
	}
	return append(list,
		word{`"\n"`, "\n"}, word{`"1\n"`, "1\n"}, word{`"0\n"`, "0\n"}, word{`"1\n\n"`, "1\n\n"}, word{`"0\n0\n"`, "0\n0\n"},
		word{`"\t"`, "\t"}, word{`"\t1"`, "\t1"}, word{`"1\r\n"`, "1\r\n"}, word{`"0\r\n"`, "0\r\n"},
		word{`"\v1"`, "\v1"}, word{`"\f1"`, "\f1"}, word{`"\r1"`, "\r1"},
		word{`"1\0"`, "1\x00"}, word{`"0\0"`, "0\x00"}, word{`"\0"`, "\x00"},
		word{`"\0" "1"`, "\x001"}, word{`"0\0" "1"`, "0\x001"}, word{`"\xef\xbb\xbf" "1"`, "\xef\xbb\xbf1"},
	)
}

// bigs are long writes: their name, and a function that returns a text of n bytes.
var bigs = [...]struct {
	kind string
	text func(n int) string
}{
	{"0+spaces", func(n int) string { return "0" + strings.Repeat(" ", n-1) }},
	{"0+zeros", func(n int) string { return strings.Repeat("0", n) }},
	{"zeros+nl", func(n int) string { return strings.Repeat("0", n-1) + "\n" }},
	{"spaces+0", func(n int) string { return strings.Repeat(" ", n-1) + "0" }},
	{"0+nuls", func(n int) string { return "0" + strings.Repeat("\x00", n-1) }},
	{"0+x", func(n int) string { return "0" + strings.Repeat("x", n-1) }},
	{"nl*n", func(n int) string { return strings.Repeat("\n", n) }},
}

// all plays the cases. The next case's reset undoes a case's changes.
func (r *recorder) all() {
	for _, start := range []string{"1", "0"} {
		for _, w := range words() {
			r.writeWord(start, w)
		}
	}
	for _, b := range bigs {
		for _, n := range []int{30, 31, 32, 33, 64, 4094, 4095, 4096, 4097, 8192, 65536} {
			r.set("1")
			r.begin(fmt.Sprintf("from1 big %s n=%d", b.kind, n))
			r.writeAndAfter(b.text(n), func(fd int) { r.lseek("lseek_cur", fd, 0, unix.SEEK_CUR) })
		}
	}
	for _, c := range cases {
		r.set("1")
		r.begin(c.name)
		c.play(r)
	}
	r.set("1")
}

func (r *recorder) writeWord(start string, w word) {
	r.set("1")
	if start != "1" {
		r.set(start)
	}
	r.begin("from" + start + " write " + w.name)
	fd := r.open(unix.O_WRONLY)
	r.write(fd, w.text)
	r.lseek("lseek_cur", fd, 0, unix.SEEK_CUR)
	r.sys("close", unix.SYS_CLOSE, uintptr(fd))
	r.after()
}

// writeAndAfter writes text, calls then, and records the file's contents.
func (r *recorder) writeAndAfter(text string, then func(fd int)) {
	fd := r.open(unix.O_WRONLY)
	r.write(fd, text)
	then(fd)
	shut(fd)
	r.after()
}

// with returns a case that opens the file, calls play, and closes the file.
func with(flags int, play func(r *recorder, fd int)) func(r *recorder) {
	return func(r *recorder) {
		fd := r.open(flags)
		play(r, fd)
		shut(fd)
	}
}

// opened is with, but records the open.
func opened(flags int, play func(r *recorder, fd int)) func(r *recorder) {
	return func(r *recorder) {
		fd := r.opens(flags)
		play(r, fd)
		shut(fd)
	}
}

// andAfter also records the file's contents at the end.
func andAfter(play func(r *recorder)) func(r *recorder) {
	return func(r *recorder) { play(r); r.after() }
}

func nothing(*recorder, int) {}

const (
	rd   = unix.O_RDONLY
	wr   = unix.O_WRONLY
	rdwr = unix.O_RDWR
)

// cases are all cases except plain writes.
var cases = [...]struct {
	name string
	play func(r *recorder)
}{
	// Writing.
	{"two writes one open: 0 then 1", andAfter(with(wr, func(r *recorder, fd int) {
		r.write(fd, "0")
		r.after()
		r.write(fd, "1")
		r.lseek("lseek_cur", fd, 0, unix.SEEK_CUR)
	}))},
	{`two writes one open: 0\n then 1\n`, andAfter(with(wr, func(r *recorder, fd int) {
		r.write(fd, "0\n")
		r.write(fd, "1\n")
	}))},
	{"write 0, lseek 0, write 1, lseek 0, write 0", andAfter(with(wr, func(r *recorder, fd int) {
		r.write(fd, "0")
		r.lseek("lseek", fd, 0, unix.SEEK_SET)
		r.write(fd, "1")
		r.after()
		r.lseek("lseek", fd, 0, unix.SEEK_SET)
		r.write(fd, "0")
	}))},
	{"pwrite 0 at 0", pwriteAt(0)},
	{"pwrite 0 at 1", pwriteAt(1)},
	{"pwrite 0 at 4096", pwriteAt(4096)},
	{"pwrite at -1", pwriteAt(-1)},
	{"seek 5 write 0", andAfter(with(wr, func(r *recorder, fd int) {
		r.lseek("lseek", fd, 5, unix.SEEK_SET)
		r.write(fd, "0")
	}))},
	{"O_APPEND write 0", andAfter(opened(wr|unix.O_APPEND, func(r *recorder, fd int) {
		r.write(fd, "0")
		r.lseek("lseek_cur", fd, 0, unix.SEEK_CUR)
		r.write(fd, "1")
	}))},
	{"write on O_RDONLY fd", andAfter(with(rd, func(r *recorder, fd int) { r.write(fd, "0") }))},
	{"write EFAULT", andAfter(with(wr, func(r *recorder, fd int) { r.sys("write", unix.SYS_WRITE, uintptr(fd), badAddress, 2) }))},
	{`writev {0}{\n}`, writev("0", "\n")},
	{"writev {0}{1}", writev("0", "1")},
	{"writev {1}{0}", writev("1", "0")},
	{"writev {}{0}", writev("", "0")},

	// Opening.
	{"O_TRUNC open only", andAfter(opened(wr|unix.O_TRUNC, nothing))},
	{"O_TRUNC|O_RDONLY", andAfter(opened(rd|unix.O_TRUNC, nothing))},
	{`O_CREAT|O_TRUNC|O_WRONLY write 0\n (shell >)`, func(r *recorder) {
		fd := r.opens(wr | unix.O_CREAT | unix.O_TRUNC)
		r.write(fd, "0\n")
		r.sys("close", unix.SYS_CLOSE, uintptr(fd))
		r.after()
	}},
	{"O_CREAT|O_EXCL", opened(wr|unix.O_CREAT|unix.O_EXCL, nothing)},
	{"O_RDWR write 0 then read", opened(rdwr, func(r *recorder, fd int) {
		r.write(fd, "0\n")
		r.read("read", fd, 16)
		r.lseek("lseek", fd, 0, unix.SEEK_SET)
		r.read("read", fd, 16)
	})},
	{"O_RDWR read then write 0 then read", andAfter(opened(rdwr, func(r *recorder, fd int) {
		r.read("read", fd, 16)
		r.write(fd, "0\n")
		r.read("read", fd, 16)
		r.lseek("lseek", fd, 0, unix.SEEK_SET)
		r.read("read", fd, 16)
	}))},
	{"O_RDWR read 1 byte then write 0", andAfter(opened(rdwr, func(r *recorder, fd int) {
		r.read("read", fd, 1)
		r.write(fd, "0\n")
		r.read("read", fd, 16)
	}))},
	{"O_DIRECTORY", opened(rd|unix.O_DIRECTORY, nothing)},
	{"O_PATH", opened(unix.O_PATH, func(r *recorder, fd int) { r.read("read", fd, 4) })},
	{"O_NONBLOCK", opened(rd|unix.O_NONBLOCK, func(r *recorder, fd int) { r.read("read", fd, 4) })},
	{"O_DIRECT", opened(rd|unix.O_DIRECT, nothing)},
	{"O_TMPFILE in dir", func(r *recorder) { shut(r.opensPath("open", path.Dir(r.Path), rdwr|unix.O_TMPFILE)) }},
	{"O_NOFOLLOW|O_NOATIME|O_SYNC", opened(rd|unix.O_NOFOLLOW|unix.O_NOATIME|unix.O_SYNC, nothing)},
	{"access 3 (O_ACCMODE)", opened(3, func(r *recorder, fd int) {
		r.read("read", fd, 4)
		r.write(fd, "1")
	})},

	// Reading.
	{"read on O_WRONLY fd", with(wr, func(r *recorder, fd int) { r.read("read", fd, 4) })},
	{"read sizes", readSizes},
	{"read 65536", with(rd, func(r *recorder, fd int) {
		r.read("read", fd, 65536)
		r.read("read", fd, 65536)
	})},
	{"read EFAULT", with(rd, func(r *recorder, fd int) {
		r.sys("read", unix.SYS_READ, uintptr(fd), badAddress, 10)
		r.lseek("lseek_cur", fd, 0, unix.SEEK_CUR)
	})},
	{"read 1, lseek 0, read", with(rd, func(r *recorder, fd int) {
		r.read("read", fd, 1)
		for range 2 {
			r.lseek("lseek", fd, 0, unix.SEEK_SET)
			r.read("read", fd, 10)
		}
	})},
	{"pread offsets", with(rd, func(r *recorder, fd int) {
		for off := range int64(5) {
			r.pread(fmt.Sprintf("pread 10@%d", off), fd, 10, off)
		}
		r.pread("pread 10@4096", fd, 10, 4096)
		r.pread("pread 10@-1", fd, 10, -1)
		r.pread("pread 10@2^40", fd, 10, 1<<40)
	})},
	{"readv 1+1", with(rd, func(r *recorder, fd int) {
		b := make([]byte, 2)
		v := []unix.Iovec{iovec(b[:1]), iovec(b[1:])}
		ret, errno := syscall(unix.SYS_READV, uintptr(fd), pointer(r, &v[0]), 2)
		r.row("readv", ret, errno, b[:max(ret, 0)])
	})},
	{"lseek variants", with(rd, func(r *recorder, fd int) {
		r.lseek("SEEK_SET 1", fd, 1, unix.SEEK_SET)
		r.read("read", fd, 10)
		r.lseek("SEEK_SET 100", fd, 100, unix.SEEK_SET)
		r.read("read", fd, 10)
		r.lseek("SEEK_SET -1", fd, -1, unix.SEEK_SET)
		r.lseek("SEEK_CUR -1", fd, -1, unix.SEEK_CUR)
		r.lseek("SEEK_END 0", fd, 0, unix.SEEK_END)
		r.lseek("SEEK_END 2", fd, 2, unix.SEEK_END)
		r.lseek("SEEK_END -1", fd, -1, unix.SEEK_END)
		r.lseek("SEEK_DATA 0", fd, 0, unix.SEEK_DATA)
		r.lseek("SEEK_HOLE 0", fd, 0, unix.SEEK_HOLE)
		r.lseek("SEEK 9", fd, 0, 9)
		r.lseek("SEEK_SET max", fd, 1<<63-1, unix.SEEK_SET)
	})},
	{"value changes between partial reads", with(rd, func(r *recorder, fd int) {
		r.read("read", fd, 1)
		r.set("0")
		r.read("read", fd, 1)
		r.lseek("lseek", fd, 0, unix.SEEK_SET)
		r.read("read", fd, 2)
	})},
	{"held fd sees new value", with(rd, func(r *recorder, fd int) {
		r.set("0")
		r.read("read", fd, 4)
	})},

	// Pipes, mappings, sizes.
	{"sendfile to pipe", with(rd, func(r *recorder, fd int) {
		withPipe(func(_, w int) { r.sys("sendfile", unix.SYS_SENDFILE, uintptr(w), uintptr(fd), 0, 10) })
	})},
	{"splice to pipe", with(rd, func(r *recorder, fd int) {
		withPipe(func(_, w int) { r.sys("splice", unix.SYS_SPLICE, uintptr(fd), 0, uintptr(w), 0, 10, 0) })
	})},
	{"splice from pipe", andAfter(with(wr, func(r *recorder, fd int) {
		withPipe(func(p, w int) {
			r.put(w, "0\n")
			r.sys("splice", unix.SYS_SPLICE, uintptr(p), 0, uintptr(fd), 0, 10, 0)
		})
	}))},
	{"copy_file_range", with(rd, func(r *recorder, fd int) {
		to := r.openAt("/tmp", rdwr|unix.O_TMPFILE)
		r.sys("copy_file_range", unix.SYS_COPY_FILE_RANGE, uintptr(fd), 0, uintptr(to), 0, 10, 0)
		shut(to)
	})},
	{"truncate 0", truncate(0)},
	{"truncate 10", func(r *recorder) {
		truncate(10)(r)
		r.path("truncate back", unix.SYS_TRUNCATE, r.Path, 0)
	}},
	{"ftruncate 0", andAfter(with(wr, func(r *recorder, fd int) {
		r.sys("ftruncate", unix.SYS_FTRUNCATE, uintptr(fd), 0)
		r.sys("ftruncate 10", unix.SYS_FTRUNCATE, uintptr(fd), 10)
		r.sys("ftruncate 0", unix.SYS_FTRUNCATE, uintptr(fd), 0)
	}))},
	{"fallocate", with(wr, func(r *recorder, fd int) { r.sys("fallocate", unix.SYS_FALLOCATE, uintptr(fd), 0, 0, 10) })},
	{"fsync/fdatasync", with(wr, func(r *recorder, fd int) {
		r.sys("fsync", unix.SYS_FSYNC, uintptr(fd))
		r.sys("fdatasync", unix.SYS_FDATASYNC, uintptr(fd))
	})},
	{"mmap", with(rdwr, func(r *recorder, fd int) {
		r.mmap("mmap private r", fd, unix.PROT_READ, unix.MAP_PRIVATE)
		r.mmap("mmap shared rw", fd, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	})},

	// Waiting.
	{"poll", func(r *recorder) {
		fd := r.open(rdwr)
		const all = unix.POLLIN | unix.POLLOUT | unix.POLLPRI | unix.POLLERR
		r.poll("poll", fd, all)
		r.read("read", fd, 4)
		r.poll("poll after read", fd, all)
		shut(fd)
		fd = r.open(rd)
		r.poll("poll PRI only", fd, unix.POLLPRI)
		shut(fd)
	}},
	{"select", with(rdwr, (*recorder).selectAll)},
	{"epoll", with(rd, func(r *recorder, fd int) {
		e := quiet(unix.SYS_EPOLL_CREATE1, 0)
		ev := unix.EpollEvent{Events: unix.EPOLLIN}
		r.sys("epoll_ctl", unix.SYS_EPOLL_CTL, uintptr(e), unix.EPOLL_CTL_ADD, uintptr(fd), pointer(r, &ev))
		shut(int(e))
	})},
	{"inotify", (*recorder).inotify},

	// Descriptors.
	{"locks", with(rdwr, func(r *recorder, fd int) {
		r.sys("flock EX|NB", unix.SYS_FLOCK, uintptr(fd), unix.LOCK_EX|unix.LOCK_NB)
		l := unix.Flock_t{Type: unix.F_WRLCK}
		r.fcntl("F_SETLK W", fd, unix.F_SETLK, pointer(r, &l))
		r.fcntl("F_GETLK", fd, unix.F_GETLK, pointer(r, &l))
		r.value("l_type", int64(l.Type))
		r.fcntl("F_SETLEASE R", fd, unix.F_SETLEASE, unix.F_RDLCK)
		l = unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_CUR} // as lockf(3) does for F_TLOCK
		r.fcntl("lockf", fd, unix.F_SETLK, pointer(r, &l))
	})},
	{"fcntl", with(rd, func(r *recorder, fd int) {
		r.fcntl("F_GETFL", fd, unix.F_GETFL, 0)
		r.fcntl("F_SETFL O_NONBLOCK", fd, unix.F_SETFL, unix.O_NONBLOCK)
		r.fcntl("F_SETFL O_APPEND", fd, unix.F_SETFL, unix.O_APPEND)
	})},
	{"ioctl", with(rd, (*recorder).ioctls)},

	// Attributes.
	{"xattr", (*recorder).xattrs},
	{"mode checks", (*recorder).modes},
	{"mtime after write", (*recorder).times},
	{"futimens", func(r *recorder) {
		r.utimensat("utimensat now", nil)
		r.utimensat("utimensat 1,2", []unix.Timespec{{Sec: 1}, {Sec: 2}})
		s := r.stat()
		r.value("mtime sec", s.Mtim.Sec)
	}},
	{"chmod", func(r *recorder) {
		r.chmod("chmod 0666", 0o666)
		r.chmod("chmod 0", 0)
		shut(r.opensPath("root open 000 rdonly", r.Path, rd))
		r.chmod("chmod 4777", 0o4777)
		back := uintptr(0o600)
		if r.Proc {
			back = 0o644
		}
		r.path("chmod back", unix.SYS_CHMOD, r.Path, back)
	}},
	{"chown", func(r *recorder) {
		r.path("chown 65534:65534", unix.SYS_CHOWN, r.Path, nobody, nobody)
		s := r.stat()
		r.value("uid", int64(s.Uid))
		r.value("gid", int64(s.Gid))
		r.path("chown back", unix.SYS_CHOWN, r.Path, 0, 0)
	}},

	// Other users.
	{"non-root uid 65534", func(r *recorder) { asUser(nobody, r.ordinaryUser) }},
	{"fd opened by root, used by uid 65534", andAfter(with(rdwr, func(r *recorder, fd int) {
		asUser(nobody, func() {
			r.read("read", fd, 4)
			r.lseek("lseek", fd, 0, unix.SEEK_SET)
			r.writes("write 0", fd, "0")
		})
	}))},

	// The directory.
	{"dir ops", func(r *recorder) { r.directory(); r.after() }},
}

// nobody is the ID of the table's ordinary user.
const nobody = 65534

func pwriteAt(off int64) func(r *recorder) {
	return andAfter(with(wr, func(r *recorder, fd int) {
		b := []byte("0")
		r.sys("pwrite", unix.SYS_PWRITE64, uintptr(fd), r.at(b), 1, uintptr(off))
	}))
}

func iovec(b []byte) unix.Iovec {
	return unix.Iovec{Base: unsafe.SliceData(b), Len: uint64(len(b))}
}

func writev(parts ...string) func(r *recorder) {
	return andAfter(with(wr, func(r *recorder, fd int) {
		var v []unix.Iovec
		for _, p := range parts {
			v = append(v, iovec([]byte(p)))
		}
		r.sys("writev", unix.SYS_WRITEV, uintptr(fd), pointer(r, &v[0]), uintptr(len(v)))
	}))
}

func readSizes(r *recorder) {
	for n := range 6 {
		fd := r.open(rd)
		name := fmt.Sprintf("read %d", n)
		r.read(name, fd, n)
		r.lseek("lseek_cur", fd, 0, unix.SEEK_CUR)
		for range 3 {
			r.read(name, fd, max(n, 1))
		}
		shut(fd)
	}
}

func withPipe(f func(r, w int)) {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		panic(err)
	}
	f(p[0], p[1])
	shut(p[0])
	shut(p[1])
}

func truncate(size int64) func(r *recorder) {
	return func(r *recorder) {
		r.path("truncate", unix.SYS_TRUNCATE, r.Path, uintptr(size))
		s := r.stat()
		r.value("st_size", s.Size)
		r.after()
	}
}

// mmap records 0 or -1 instead of the address.
func (r *recorder) mmap(call string, fd, prot, flags int) {
	addr, errno := syscall(unix.SYS_MMAP, 0, 4096, uintptr(prot), uintptr(flags), uintptr(fd), 0)
	if errno == 0 {
		quiet(unix.SYS_MUNMAP, uintptr(addr), 4096)
		addr = 0
	}
	r.row(call, addr, errno, nil)
}

func (r *recorder) poll(call string, fd int, events int16) {
	p := unix.PollFd{Fd: int32(fd), Events: events}
	r.sys(call, unix.SYS_POLL, pointer(r, &p), 1, 100)
	r.value("revents", int64(p.Revents))
}

func (r *recorder) selectAll(fd int) {
	var in, out, except unix.FdSet
	for _, s := range []*unix.FdSet{&in, &out, &except} {
		s.Set(fd)
	}
	limit := unix.Timeval{Usec: 100_000}
	r.sys("select", unix.SYS_SELECT, uintptr(fd+1), pointer(r, &in), pointer(r, &out),
		pointer(r, &except), pointer(r, &limit))
	r.truth("r", in.IsSet(fd))
	r.truth("w", out.IsSet(fd))
	r.truth("x", except.IsSet(fd))
}

func (r *recorder) fcntl(call string, fd, command int, arg uintptr) {
	r.sys(call, unix.SYS_FCNTL, uintptr(fd), uintptr(command), arg)
}

func (r *recorder) ioctls(fd int) {
	b := make([]byte, 256)
	number := func() int64 { return int64(int32(binary.NativeEndian.Uint32(b))) }
	ioctl := func(call string, command uintptr) { r.sys(call, unix.SYS_IOCTL, uintptr(fd), command, r.at(b)) }
	ioctl("FIONREAD", unix.TIOCINQ)
	r.value("FIONREAD value", number())
	ioctl("TCGETS", unix.TCGETS)
	ioctl("FS_IOC_GETFLAGS", unix.FS_IOC_GETFLAGS)
	ioctl("FIGETBSZ", 2) // _IO(0, 2), which x/sys does not name
	r.value("value", number())
}

func (r *recorder) xattrs() {
	b := make([]byte, 4096)
	one := []byte("1")
	r.path("listxattr", unix.SYS_LISTXATTR, r.Path, r.at(b), 4096)
	of := func(call string, nr uintptr, name string, args ...uintptr) {
		n := cstring(name)
		r.path(call, nr, r.Path, append([]uintptr{r.at(n)}, args...)...)
	}
	read := func(call, name string) { of(call, unix.SYS_GETXATTR, name, r.at(b), 100) }
	write := func(call, name string) { of(call, unix.SYS_SETXATTR, name, r.at(one), 1, 0) }
	read("getxattr user.x", "user.x")
	write("setxattr user.x", "user.x")
	read("getxattr security.selinux", "security.selinux")
	read("getxattr posix_acl", "system.posix_acl_access")
	write("setxattr trusted.x", "trusted.x")
	of("removexattr", unix.SYS_REMOVEXATTR, "user.x")
	write("setxattr security.x", "security.x")
}

// inotify records the events of an open, a read, a write and a close.
func (r *recorder) inotify() {
	n := int(quiet(unix.SYS_INOTIFY_INIT1, unix.IN_NONBLOCK))
	r.path2("inotify_add_watch", unix.SYS_INOTIFY_ADD_WATCH, uintptr(n), r.Path, unix.IN_ALL_EVENTS)
	fd := r.open(rdwr)
	r.get(fd, 4)
	r.put(fd, "1")
	shut(fd)
	b := r.get(n, 4096)
	for e := b; len(e) >= unix.SizeofInotifyEvent; {
		r.value(fmt.Sprintf("event mask 0x%x", binary.NativeEndian.Uint32(e[4:])), 0)
		e = e[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(e[12:])):]
	}
	r.value("inotify bytes", int64(len(b)))
	shut(n)
}

// path2 records a call whose second argument is a path.
func (r *recorder) path2(call string, nr, first uintptr, path string, args ...uintptr) {
	p := cstring(path)
	r.sys(call, nr, append([]uintptr{first, r.at(p)}, args...)...)
}

func (r *recorder) stat() unix.Stat_t {
	var s unix.Stat_t
	_ = unix.Stat(r.Path, &s) // if it fails, zeros are recorded, which differ from Linux
	return s
}

func (r *recorder) modes() {
	var s unix.Stat_t
	r.path("stat", unix.SYS_STAT, r.Path, pointer(r, &s))
	r.row("stat fields", 0, 0, fmt.Appendf(nil, "mode=%o nlink=%d uid=%d gid=%d size=%d blocks=%d blksize=%d rdev=%d",
		s.Mode, s.Nlink, s.Uid, s.Gid, s.Size, s.Blocks, s.Blksize, s.Rdev))
	var f unix.Statfs_t
	r.path("statfs", unix.SYS_STATFS, r.Path, pointer(r, &f))
	r.row("statfs fields", 0, 0, fmt.Appendf(nil, "type=%x bsize=%d blocks=%d bfree=%d bavail=%d files=%d ffree=%d namelen=%d frsize=%d flags=%x fsid=%d,%d",
		f.Type, f.Bsize, f.Blocks, f.Bfree, f.Bavail, f.Files, f.Ffree, f.Namelen, f.Frsize, f.Flags, f.Fsid.Val[0], f.Fsid.Val[1]))
	r.access("access R", unix.R_OK)
	r.access("access W", unix.W_OK)
	r.access("access X", unix.X_OK)
	r.value("pathconf LINK_MAX", linkMax(f.Type))
}

// linkMax returns what libc's pathconf returns for an unknown filesystem, for which
// it only calls statfs(2).
func linkMax(kind int64) int64 {
	switch kind {
	case unix.EXT4_SUPER_MAGIC:
		return 65000
	case unix.BTRFS_SUPER_MAGIC, unix.XFS_SUPER_MAGIC:
		return 1<<31 - 1
	}
	return 127
}

func (r *recorder) access(call string, mode uintptr) {
	r.path(call, unix.SYS_ACCESS, r.Path, mode)
}

// times records which of the file's times are changed by a write, a truncating open
// and a read.
func (r *recorder) times() {
	const tick = 20 * time.Millisecond // Linux's time stamps have the resolution of its timer
	a := r.stat()
	time.Sleep(tick)
	fd := r.open(rdwr)
	r.put(fd, "1")
	r.get(fd, 1)
	shut(fd)
	b := r.stat()
	r.truth("mtime changed", a.Mtim != b.Mtim)
	r.truth("ctime changed", a.Ctim != b.Ctim)
	r.truth("atime changed", a.Atim != b.Atim)
	a = b
	shut(r.open(wr | unix.O_TRUNC))
	b = r.stat()
	r.truth("O_TRUNC mtime changed", a.Mtim != b.Mtim)
	a = b
	time.Sleep(tick)
	fd = r.open(rd)
	r.get(fd, 4)
	shut(fd)
	b = r.stat()
	r.truth("read: atime changed", a.Atim != b.Atim)
}

func (r *recorder) utimensat(call string, times []unix.Timespec) {
	here := unix.AT_FDCWD
	r.path2(call, unix.SYS_UTIMENSAT, uintptr(here), r.Path, pointer(r, unsafe.SliceData(times)), 0)
}

func (r *recorder) chmod(call string, mode uintptr) {
	r.path(call, unix.SYS_CHMOD, r.Path, mode)
	s := r.stat()
	r.value("mode&7777", int64(s.Mode&0o7777))
}

func (r *recorder) ordinaryUser() {
	for _, o := range []struct {
		call  string
		flags int
	}{{"open RDONLY", rd}, {"open WRONLY", wr}, {"open RDWR", rdwr}} {
		shut(r.opensPath(o.call, r.Path, o.flags))
	}
	var s unix.Stat_t
	r.path("stat", unix.SYS_STAT, r.Path, pointer(r, &s))
	r.access("access R", unix.R_OK)
	r.access("access W", unix.W_OK)
	r.path("chmod", unix.SYS_CHMOD, r.Path, 0o777)
	r.path("chown", unix.SYS_CHOWN, r.Path, nobody, nobody)
	r.utimensat("utimensat", nil)
	r.path("truncate", unix.SYS_TRUNCATE, r.Path, 0)
}

// directory records that the directory of the file cannot be changed.
func (r *recorder) directory() {
	dir := path.Dir(r.Path)
	name := dir + "/xx"
	r.path("mkdir", unix.SYS_MKDIR, name, 0o755)
	r.opensPath("creat", name, unix.O_CREAT|wr)
	target := cstring("a")
	r.path2("symlink", unix.SYS_SYMLINK, r.at(target), name)
	r.path("mknod", unix.SYS_MKNOD, name, unix.S_IFREG|0o600, 0)
	r.path("mkfifo", unix.SYS_MKNOD, name, unix.S_IFIFO|0o600, 0)
	file := cstring(r.Path)
	r.path2("link", unix.SYS_LINK, r.at(file), name)
	r.path2("rename file->xx", unix.SYS_RENAME, r.at(file), name)
	r.path("unlink file", unix.SYS_UNLINK, r.Path)
	r.path("rmdir file", unix.SYS_RMDIR, r.Path)
	r.path("rmdir dir", unix.SYS_RMDIR, dir)
	r.path("unlink missing", unix.SYS_UNLINK, name)
	r.opensPath("open missing", name, rd)
	missing := cstring(name)
	r.path2("rename missing", unix.SYS_RENAME, r.at(missing), r.Path)
	r.opensPath("open dir RDWR", dir, rdwr)
	fd := r.openAt(dir, rd|unix.O_DIRECTORY)
	r.read("read dir", fd, 10)
	r.sys("fsync dir", unix.SYS_FSYNC, uintptr(fd))
	shut(fd)
	back := uintptr(0o755)
	if r.Proc {
		back = 0o555
	}
	r.path("chmod dir 0700", unix.SYS_CHMOD, dir, 0o700)
	r.path("chmod dir back", unix.SYS_CHMOD, dir, back)
	for _, end := range []struct{ call, path string }{
		{"path with trailing slash", r.Path + "/"},
		{"path/sub", r.Path + "/sub"},
		{"path/.", r.Path + "/."},
	} {
		shut(r.opensPath(end.call, end.path, rd))
	}
	argv := [2]*byte{unsafe.SliceData([]byte("x\x00"))}
	r.path("execve", unix.SYS_EXECVE, r.Path, pointer(r, &argv), 0)
	shut(r.opensPath("name too long", dir+"/"+string(bytes.Repeat([]byte("a"), 300)), rd))
}
