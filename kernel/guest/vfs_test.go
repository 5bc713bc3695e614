package guest_test

import (
	"bytes"
	"encoding/binary"
	"math/rand"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// vfs makes system calls on the guest's own files; paths and data go through a
// page of user memory.
type vfs struct {
	*machine
	k    *task
	user uint64
}

const (
	atData = 1024 // offset of data in the user page
	dataN  = 3072
)

func newVFS(t *testing.T, cpus int) *vfs {
	m := watch(t, cpus)
	k := m.task("sh")
	return &vfs{m, k, m.userPage(k)}
}

func (v *vfs) path(p string) uint64 { v.put(v.user, append([]byte(p), 0)); return v.user }

func (v *vfs) open(p string, flags, mode int) int64 {
	v.t.Helper()
	return v.k.syscall("open", v.path(p), u(flags), u(mode))
}

func (v *vfs) mustOpen(p string, flags int) int64 {
	v.t.Helper()
	fd := v.open(p, flags, 0o644)
	if fd < 0 {
		v.t.Fatalf("open(%s): %d", p, fd)
	}
	return fd
}

func (v *vfs) write(fd int64, p string) int64 {
	v.t.Helper()
	v.put(v.user+atData, []byte(p))
	return v.k.syscall("write", uint64(fd), v.user+atData, u(len(p)))
}

func (v *vfs) read(fd int64, n int) (string, int64) {
	v.t.Helper()
	r := v.k.syscall("read", uint64(fd), v.user+atData, u(n))
	return string(v.bytes(v.user+atData, max(0, int(r)))), r
}

// all reads until the end.
func (v *vfs) all(fd int64) string {
	v.t.Helper()
	var b strings.Builder
	for {
		p, n := v.read(fd, 1000)
		if n < 0 {
			v.t.Fatalf("read: %d", n)
		}
		if n == 0 {
			return b.String()
		}
		b.WriteString(p)
	}
}

func (v *vfs) close(fd int64) {
	v.t.Helper()
	if e := v.k.syscall("close", uint64(fd)); e != 0 {
		v.t.Errorf("close: %d", e)
	}
	v.k.call("task_work_run")
}

func (v *vfs) cat(p string) string {
	v.t.Helper()
	fd := v.mustOpen(p, syscall.O_RDONLY)
	defer v.close(fd)
	return v.all(fd)
}

func (v *vfs) want1(what string, got int64, want syscall.Errno) {
	v.t.Helper()
	if got != -int64(want) {
		v.t.Errorf("%s: %d, want %v", what, got, want)
	}
}

func TestFiles(t *testing.T) {
	v := newVFS(t, 1)
	v.want1("open of nothing", v.open("/ram/none", syscall.O_RDONLY, 0), syscall.ENOENT)
	fd := v.mustOpen("/ram/a", syscall.O_RDWR|syscall.O_CREAT)
	text := strings.Repeat("0123456789", 250)
	if n := v.write(fd, text); int(n) != len(text) {
		t.Fatalf("write: %d", n)
	}
	for range 3 {
		v.write(fd, text)
	}
	if got := v.cat("/ram/a"); got != strings.Repeat(text, 4) {
		t.Errorf("%d bytes read", len(got))
	}
	if p := v.k.syscall("lseek", uint64(fd), 5, 0); p != 5 {
		t.Errorf("lseek: %d", p)
	}
	if s, _ := v.read(fd, 10); s != "5678901234" {
		t.Errorf("read at 5: %q", s)
	}
	if p := v.k.syscall("lseek", uint64(fd), u(-3), 2); int(p) != 4*len(text)-3 {
		t.Errorf("lseek from the end: %d", p)
	}
	if p := v.k.syscall("lseek", uint64(fd), 0, 1); int(p) != 4*len(text)-3 {
		t.Errorf("lseek to where it is: %d", p)
	}
	v.want1("lseek before the beginning", v.k.syscall("lseek", uint64(fd), u(-1), 0), syscall.EINVAL)
	if n := v.k.syscall("pread64", uint64(fd), v.user+atData, 4, 2); n != 4 || string(v.bytes(v.user+atData, 4)) != "2345" {
		t.Errorf("pread64: %d", n)
	}
	v.put(v.user+atData, []byte("XY"))
	if n := v.k.syscall("pwrite64", uint64(fd), v.user+atData, 2, 3); n != 2 {
		t.Errorf("pwrite64: %d", n)
	}
	// A hole reads as zeros.
	v.k.syscall("lseek", uint64(fd), 20000, 0)
	v.write(fd, "end")
	got := v.cat("/ram/a")
	want := strings.Repeat(text, 4)
	want = want[:3] + "XY" + want[5:] + strings.Repeat("\x00", 20000-len(want)) + "end"
	if got != want {
		t.Errorf("with a hole: %d bytes, want %d", len(got), len(want))
	}
	d := v.k.syscall("dup", uint64(fd))
	if p := v.k.syscall("lseek", uint64(d), 0, 1); p != 20003 {
		t.Errorf("position of the copy: %d", p)
	}
	v.close(d)
	v.close(fd)
	v.want1("read of a closed descriptor", v.k.syscall("read", uint64(fd), v.user, 1), syscall.EBADF)
	v.want1("O_EXCL", v.open("/ram/a", syscall.O_CREAT|syscall.O_EXCL|syscall.O_RDWR, 0o600), syscall.EEXIST)
	fd = v.mustOpen("/ram/a", syscall.O_WRONLY|syscall.O_TRUNC)
	v.want1("read of O_WRONLY", v.k.syscall("read", uint64(fd), v.user, 1), syscall.EBADF)
	v.close(fd)
	fd = v.mustOpen("/ram/a", syscall.O_WRONLY|syscall.O_APPEND)
	v.write(fd, "one")
	v.k.syscall("lseek", uint64(fd), 0, 0)
	v.write(fd, "two")
	v.close(fd)
	if got := v.cat("/ram/a"); got != "onetwo" {
		t.Errorf("appended: %q", got)
	}
	fd = v.mustOpen("/ram/a", syscall.O_RDONLY)
	v.want1("write of O_RDONLY", v.write(fd, "x"), syscall.EBADF)
	v.want1("read to a bad address", v.k.syscall("read", uint64(fd), 0x1000, 4), syscall.EFAULT)
	v.want1("read to the kernel", v.k.syscall("read", uint64(fd), v.zalloc(8), 4), syscall.EFAULT)
	v.close(fd)
}

func TestDirectories(t *testing.T) {
	v := newVFS(t, 1)
	mkdir := func(p string) int64 { return v.k.syscall("mkdir", v.path(p), 0o755) }
	symlink := func(from, to string) int64 {
		v.put(v.user+512, append([]byte(from), 0))
		return v.k.syscall("symlink", v.user+512, v.path(to))
	}
	for _, p := range []string{"/ram/d", "/ram/d/e", "/ram/d/e/f"} {
		if e := mkdir(p); e != 0 {
			t.Fatalf("mkdir(%s): %d", p, e)
		}
	}
	v.want1("mkdir again", mkdir("/ram/d"), syscall.EEXIST)
	v.want1("mkdir below nothing", mkdir("/ram/x/y"), syscall.ENOENT)
	fd := v.mustOpen("/ram/d/e/f/file", syscall.O_RDWR|syscall.O_CREAT)
	v.write(fd, "content")
	v.close(fd)
	v.want1("mkdir below a file", mkdir("/ram/d/e/f/file/y"), syscall.ENOTDIR)
	v.want1("write to a directory", v.open("/ram/d", syscall.O_WRONLY, 0), syscall.EISDIR)
	v.want1("O_DIRECTORY of a file", v.open("/ram/d/e/f/file", syscall.O_DIRECTORY, 0), syscall.ENOTDIR)
	for from, to := range map[string]string{"/ram/d/e": "/ram/abs", "d/e/f": "/ram/rel", "rel/file": "/ram/through", "/ram/loop2": "/ram/loop1", "loop1": "/ram/loop2"} {
		if e := symlink(from, to); e != 0 {
			t.Fatalf("symlink(%s, %s): %d", from, to, e)
		}
	}
	for _, p := range []string{
		"/ram/d/e/f/file", "/ram/abs/f/file", "/ram/rel/file", "/ram/through", "/ram/d/../d/./e//f/file",
		"/ram/abs/../e/f/file", "/../ram/through", "/ram/d/e/../../through",
	} {
		if got := v.cat(p); got != "content" {
			t.Errorf("%s holds %q", p, got)
		}
	}
	v.want1("a loop", v.open("/ram/loop1", syscall.O_RDONLY, 0), syscall.ELOOP)
	v.want1("O_NOFOLLOW", v.open("/ram/through", syscall.O_NOFOLLOW, 0), syscall.ELOOP)
	v.want1("a long name", v.open("/ram/"+strings.Repeat("n", 256), syscall.O_RDONLY, 0), syscall.ENAMETOOLONG)
	v.want1("an empty path", v.open("", syscall.O_RDONLY, 0), syscall.ENOENT)
	if n := v.k.syscall("readlink", v.path("/ram/through"), v.user+atData, 100); n != 8 || string(v.bytes(v.user+atData, 8)) != "rel/file" {
		t.Errorf("readlink: %d", n)
	}
	v.want1("readlink of a file", v.k.syscall("readlink", v.path("/ram/d/e/f/file"), v.user+atData, 100), syscall.EINVAL)
	if e := v.k.syscall("chdir", v.path("/ram/d/e")); e != 0 {
		t.Errorf("chdir: %d", e)
	}
	if got := v.cat("f/file") + v.cat("../../through"); got != "contentcontent" {
		t.Errorf("from the working directory: %q", got)
	}
	v.want1("chdir to a file", v.k.syscall("chdir", v.path("/ram/through")), syscall.ENOTDIR)
	v.k.syscall("chdir", v.path("/"))
	// openat.
	dir := v.mustOpen("/ram/d", syscall.O_RDONLY|syscall.O_DIRECTORY)
	if fd := v.k.syscall("openat", uint64(dir), v.path("e/f/file"), 0, 0); fd < 0 {
		t.Errorf("openat: %d", fd)
	} else {
		v.close(fd)
	}
	v.close(dir)
	// A name with more than 31 characters is not inline.
	long := "/ram/d/" + strings.Repeat("long", 20)
	v.close(v.mustOpen(long, syscall.O_RDWR|syscall.O_CREAT))
	if got, want := v.list("/ram/d"), []string{".", "..", "e", long[len("/ram/d/"):]}; !slices.Equal(got, want) {
		t.Errorf("getdents64: %q", got)
	}
	v.want1("rmdir of a full one", v.k.syscall("rmdir", v.path("/ram/d")), syscall.ENOTEMPTY)
	v.want1("unlink of a directory", v.k.syscall("unlink", v.path("/ram/d")), syscall.EISDIR)
	v.want1("rmdir of a file", v.k.syscall("rmdir", v.path(long)), syscall.ENOTDIR)
	v.want1("rmdir in the root", v.k.syscall("rmdir", v.path("/ram")), syscall.EBUSY)
	fd = v.mustOpen(long, syscall.O_RDWR)
	v.write(fd, "still here")
	if e := v.k.syscall("unlink", v.path(long)); e != 0 {
		t.Errorf("unlink: %d", e)
	}
	v.k.syscall("lseek", uint64(fd), 0, 0)
	if s, _ := v.read(fd, 20); s != "still here" {
		t.Errorf("a file without a name holds %q", s)
	}
	v.close(fd)
	v.want1("open after unlink", v.open(long, syscall.O_RDONLY, 0), syscall.ENOENT)
	for _, p := range []string{"/ram/d/e/f/file", "/ram/through", "/ram/abs"} {
		if e := v.k.syscall("unlinkat", u(-100), v.path(p), 0); e != 0 {
			t.Errorf("unlink(%s): %d", p, e)
		}
	}
	for _, p := range []string{"/ram/d/e/f", "/ram/d/e", "/ram/d"} {
		if e := v.k.syscall("unlinkat", u(-100), v.path(p), 0x200); e != 0 {
			t.Errorf("rmdir(%s): %d", p, e)
		}
	}
	if got := v.list("/ram"); slices.Contains(got, "d") || !slices.Contains(got, "rel") {
		t.Errorf("/ram holds %q", got)
	}
}

// list reads a directory in small pieces.
func (v *vfs) list(p string) []string {
	v.t.Helper()
	fd := v.mustOpen(p, syscall.O_RDONLY|syscall.O_DIRECTORY)
	defer v.close(fd)
	var names []string
	for {
		n := v.k.syscall("getdents64", uint64(fd), v.user+atData, 120)
		if n < 0 {
			v.t.Fatalf("getdents64: %d", n)
		}
		if n == 0 {
			slices.Sort(names)
			return names
		}
		for rec := v.bytes(v.user+atData, int(n)); len(rec) > 0; {
			size := binary.LittleEndian.Uint16(rec[16:])
			name, _, _ := bytes.Cut(rec[19:size], []byte{0})
			names = append(names, string(name))
			rec = rec[size:]
		}
	}
}

func TestStat(t *testing.T) {
	v := newVFS(t, 1)
	fd := v.mustOpen("/ram/s", syscall.O_RDWR|syscall.O_CREAT)
	v.write(fd, "12345")
	now := uint64(time.Now().Unix())
	check := func(what string, mode uint32, size uint64) {
		t.Helper()
		p := v.bytes(v.user+atData, 144)
		le := binary.LittleEndian
		if got := le.Uint32(p[24:]); got != mode {
			t.Errorf("%s: mode %#o, want %#o", what, got, mode)
		}
		if got := le.Uint64(p[48:]); got != size {
			t.Errorf("%s: size %d, want %d", what, got, size)
		}
		if got := le.Uint64(p[88:]); got > now+5 || got < now-5 {
			t.Errorf("%s: modified at %d, now is %d", what, got, now)
		}
		if le.Uint64(p[8:]) == 0 {
			t.Errorf("%s: no inode number", what)
		}
	}
	v.put(v.user+512, []byte("/ram/link\x00"))
	v.k.syscall("symlink", v.path("s"), v.user+512)
	for _, c := range []struct {
		name string
		args []uint64
		mode uint32
		size uint64
	}{
		{"newstat", []uint64{v.user + 512, v.user + atData}, 0o100644, 5},
		{"newlstat", []uint64{v.user + 512, v.user + atData}, 0o120777, 1},
		{"newfstat", []uint64{uint64(fd), v.user + atData}, 0o100644, 5},
		{"newfstatat", []uint64{u(-100), v.user + 512, v.user + atData, 0}, 0o100644, 5},
	} {
		v.put(v.user+atData, make([]byte, 256))
		if e := v.k.syscall(c.name, c.args...); e != 0 {
			t.Errorf("%s: %d", c.name, e)
			continue
		}
		check(c.name, c.mode, c.size)
	}
	if e := v.k.syscall("statx", u(-100), v.user+512, 0, 0x7ff, v.user+atData); e != 0 {
		t.Errorf("statx: %d", e)
	}
	p := v.bytes(v.user+atData, 256)
	if binary.LittleEndian.Uint16(p[28:]) != 0o100644 || binary.LittleEndian.Uint64(p[40:]) != 5 {
		t.Errorf("statx: mode %#o, size %d", binary.LittleEndian.Uint16(p[28:]), binary.LittleEndian.Uint64(p[40:]))
	}
	v.close(fd)
	v.want1("stat of nothing", v.k.syscall("newstat", v.path("/ram/nothing"), v.user+atData), syscall.ENOENT)
}

func TestPipes(t *testing.T) {
	v := newVFS(t, 2)
	if e := v.k.syscall("pipe2", v.user, 0); e != 0 {
		t.Fatalf("pipe2: %d", e)
	}
	r, w := int64(v.u32(v.user)), int64(v.u32(v.user+4))
	if n := v.write(w, "through"); n != 7 {
		t.Errorf("write: %d", n)
	}
	v.write(w, " the pipe")
	if s, _ := v.read(r, 100); s != "through the pipe" {
		t.Errorf("read: %q", s)
	}
	// A reader waits for a writer. More data is transferred than fits into the pipe.
	other := v.task("reader")
	buf := v.user + atData + 1024
	got := other.start("ksys_read", uint64(r), buf, 100)
	eventually(t, "the reader sleeps", func() bool { return other.sleeps(taskInterruptible) })
	v.write(w, "woken")
	if n := wait(t, "read", got); n != 5 || string(v.bytes(buf, 5)) != "woken" {
		t.Errorf("the reader got %d bytes", n)
	}
	data := make([]byte, 200000)
	rand.New(rand.NewSource(1)).Read(data)
	mem := v.zalloc(len(data))
	v.put(mem, data)
	// The data is in kernel memory: written by kernel_write.
	file := v.k.call("fget", uint64(w))
	sent := other.start("kernel_write", file, mem, u(len(data)), 0)
	var all []byte
	for len(all) < len(data) {
		s, n := v.read(r, 1000)
		if n <= 0 {
			t.Fatalf("read: %d", n)
		}
		all = append(all, s...)
	}
	if n := wait(t, "kernel_write", sent); int(n) != len(data) || !bytes.Equal(all, data) {
		t.Errorf("kernel_write: %d; what came out is right: %v", n, bytes.Equal(all, data))
	}
	v.k.call("fput", file)
	v.close(w)
	if _, n := v.read(r, 10); n != 0 {
		t.Errorf("read without a writer: %d", n)
	}
	v.close(r)
	if e := v.k.syscall("pipe2", v.user, syscall.O_NONBLOCK); e != 0 {
		t.Fatalf("pipe2: %d", e)
	}
	r, w = int64(v.u32(v.user)), int64(v.u32(v.user+4))
	_, n := v.read(r, 10)
	v.want1("read of an empty pipe", n, syscall.EAGAIN)
	v.close(r)
	v.want1("write without a reader", v.write(w, "x"), syscall.EPIPE)
	v.close(w)
	v.want1("pipe2 with bad flags", v.k.syscall("pipe2", v.user, 1), syscall.EINVAL)
}

func TestProcFile(t *testing.T) {
	v := newVFS(t, 1)
	want := "nodev\ttmpfs\n"
	got := v.cat("/proc/filesystems")
	if !strings.Contains(got, want) || !strings.Contains(got, "nodev\tdebugfs\n") {
		t.Errorf("/proc/filesystems: %q", got)
	}
	fd := v.mustOpen("/proc/filesystems", syscall.O_RDONLY)
	var pieces strings.Builder
	for {
		s, n := v.read(fd, 7)
		if n <= 0 {
			break
		}
		pieces.WriteString(s)
	}
	if pieces.String() != got {
		t.Errorf("in pieces of 7: %q", pieces.String())
	}
	v.k.syscall("lseek", uint64(fd), 6, 0)
	if s := v.all(fd); s != got[6:] {
		t.Errorf("from 6 on: %q", s)
	}
	v.want1("lseek from the end", v.k.syscall("lseek", uint64(fd), 0, 2), syscall.EINVAL)
	v.close(fd)
	// Directories and files that the kernel creates and removes.
	dir := v.k.call("proc_mkdir", v.cstr("mine"), 0)
	de := v.k.call("proc_create_single_data", v.cstr("f"), 0, dir, v.sym("filesystems_proc_show"), 0)
	if dir == 0 || de == 0 {
		t.Fatal("proc_mkdir, proc_create_single_data")
	}
	if s := v.cat("/proc/mine/f"); s != got {
		t.Errorf("/proc/mine/f: %q", s)
	}
	if e := v.k.call("proc_mkdir", v.cstr("mine"), 0); e != 0 {
		t.Errorf("proc_mkdir again: %#x", e)
	}
	v.k.call("proc_remove", de)
	v.want1("open of a removed file", v.open("/proc/mine/f", 0, 0), syscall.ENOENT)
	v.k.call("proc_remove", dir)
	v.want1("open of a removed directory", v.open("/proc/mine", 0, 0), syscall.ENOENT)
}

func TestDebugfs(t *testing.T) {
	v := newVFS(t, 1)
	vars := v.zalloc(32)
	v.put64(vars, 1)
	v.put64(vars+8, 1<<40)
	v.put64(vars+16, 99)
	dir := v.k.call("debugfs_create_dir", v.cstr("mine"), 0)
	if int64(dir) <= 0 && int64(dir) >= -4095 {
		t.Fatalf("debugfs_create_dir: %d", int64(dir))
	}
	v.k.call("debugfs_create_bool", v.cstr("flag"), 0o644, dir, vars)
	v.k.call("debugfs_create_u64", v.cstr("big"), 0o644, dir, vars+8)
	v.k.call("debugfs_create_u32", v.cstr("small"), 0o644, dir, vars+16)
	for _, c := range []struct{ name, was, write, is string }{
		{"flag", "Y\n", "n\n", "N\n"}, {"big", "1099511627776\n", "0x10\n", "16\n"}, {"small", "99\n", "7", "7\n"},
	} {
		p := "/sys/kernel/debug/mine/" + c.name
		if got := v.cat(p); got != c.was {
			t.Errorf("%s holds %q", c.name, got)
		}
		fd := v.mustOpen(p, syscall.O_WRONLY)
		if n := v.write(fd, c.write); int(n) != len(c.write) {
			t.Errorf("write to %s: %d", c.name, n)
		}
		if n := v.write(fd, "z"); c.name == "flag" { // Linux takes it, without effect
			if n != 1 {
				t.Errorf("write of nonsense to flag: %d", n)
			}
		} else {
			v.want1("write of nonsense to "+c.name, n, syscall.EINVAL)
		}
		v.close(fd)
		if got := v.cat(p); got != c.is {
			t.Errorf("%s holds %q after the write", c.name, got)
		}
	}
	found := v.k.call("debugfs_lookup", v.cstr("flag"), dir)
	if found == 0 {
		t.Fatal("debugfs_lookup")
	}
	v.k.call("dput", found)
	if d := int64(v.k.call("debugfs_create_dir", v.cstr("mine"), 0)); d != -int64(syscall.EEXIST) {
		t.Errorf("debugfs_create_dir again: %d", d)
	}
	fd := v.mustOpen("/sys/kernel/debug/mine/big", syscall.O_RDONLY)
	v.k.call("debugfs_remove", dir)
	_, n := v.read(fd, 10)
	v.want1("read of a removed file", n, syscall.EIO)
	v.close(fd)
	v.want1("open of a removed file", v.open("/sys/kernel/debug/mine/flag", 0, 0), syscall.ENOENT)
}

func TestTracefs(t *testing.T) {
	v := newVFS(t, 1)
	dir := v.k.call("tracefs_create_dir", v.cstr("group"), 0)
	sub := v.k.call("tracefs_create_dir", v.cstr("event"), dir)
	f := v.k.call("tracefs_create_file", v.cstr("id"), 0o444, sub, 0, 0)
	if dir == 0 || sub == 0 || f == 0 || v.k.call("tracefs_initialized")&1 != 1 {
		t.Fatalf("tracefs_create_dir: %#x, %#x; file %#x", dir, sub, f)
	}
	if d := v.k.call("tracefs_create_dir", v.cstr("group"), 0); d != 0 {
		t.Errorf("tracefs_create_dir again: %#x", d)
	}
	// It is seen at both mount points.
	for _, p := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if got, want := v.list(p+"/group/event"), []string{".", "..", "id"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q", p, got)
		}
	}
	v.k.call("tracefs_remove", dir)
	v.want1("open of a removed directory", v.open("/sys/kernel/tracing/group", 0, 0), syscall.ENOENT)
}

func TestDrivers(t *testing.T) {
	v := newVFS(t, 1)
	page := v.call("__get_free_pages", gfpKernel|gfpZero, 0)
	show := func(dev, attr string) string {
		d := v.k.call("device_find_by_name", v.cstr(dev))
		if d == 0 {
			t.Fatalf("no device %s", dev)
		}
		n := int64(v.k.call("dev_attr_show", d, v.cstr(attr), page))
		if n < 0 {
			return "errno " + strconv.Itoa(int(n))
		}
		return string(v.bytes(page, int(n)))
	}
	now := time.Now().UTC()
	for _, c := range []struct{ dev, attr, want string }{
		{"rtc0", "name", `^rtc_kprobefs rtc0\n$`},
		{"rtc0", "date", `^` + now.Format("2006-01-") + `\d\d\n$`},
		{"rtc0", "time", `^\d\d:\d\d:\d\d\n$`},
		{"rtc0", "since_epoch", `^` + strconv.FormatInt(now.Unix()/1000, 10)[:5] + `\d+\n$`},
		{"hwmon0", "name", `^acpitz\n$`},
		{"hwmon0", "temp1_input", `^0\n$`},
		{"hwmon0", "none", `^errno -2$`},
	} {
		if got := show(c.dev, c.attr); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s/%s: %q", c.dev, c.attr, got)
		}
	}
	d := v.k.call("device_find_by_name", v.cstr("hwmon0"))
	if n := v.k.call("dev_attr_store", d, v.cstr("temp1_input"), v.cstr("21500\n"), 6); n != 6 {
		t.Errorf("dev_attr_store: %d", int64(n))
	}
	if got := show("hwmon0", "temp1_input"); got != "21500\n" {
		t.Errorf("temp1_input: %q", got)
	}
	if v.k.call("device_find_by_name", v.cstr("nothing")) != 0 {
		t.Error("device_find_by_name(nothing)")
	}
}
