package fs

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (d *daemon) path(name string) string { return filepath.Join(d.dir, name) }

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func want(t *testing.T, what string, err error, e error) {
	t.Helper()
	if !errors.Is(err, e) || (e == nil && err != nil) {
		t.Errorf("%s: %v, want %v", what, err, e)
	}
}

func TestStat(t *testing.T) {
	d := start(t)
	for _, c := range []struct {
		name    string
		mode    uint32
		nlink   int
		blksize int
	}{
		{"kprobes", syscall.S_IFDIR | 0o755, 2, 4096},
		{"kprobes/list", syscall.S_IFREG | 0o400, 1, 4096},
		{"kprobes/enabled", syscall.S_IFREG | 0o600, 1, 4096},
		{"tracing", syscall.S_IFDIR | 0o700, 3, 4096},
		{"sys/debug", syscall.S_IFDIR | 0o555, 1, 1024},
		{"sys/debug/kprobes-optimization", syscall.S_IFREG | 0o644, 1, 1024},
	} {
		var st syscall.Stat_t
		if err := syscall.Stat(d.path(c.name), &st); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if st.Mode != c.mode || int(st.Nlink) != c.nlink || int(st.Blksize) != c.blksize || st.Size != 0 || st.Blocks != 0 {
			t.Errorf("%s: mode %o nlink %d blksize %d size %d blocks %d; want %o %d %d 0 0", c.name,
				st.Mode, st.Nlink, st.Blksize, st.Size, st.Blocks, c.mode, c.nlink, c.blksize)
		}
	}
}

func TestInodesFollowCreation(t *testing.T) {
	d := start(t)
	var ino []uint64
	for _, name := range []string{"kprobes/list", "kprobes/enabled", "kprobes/blacklist"} {
		var st syscall.Stat_t
		if err := syscall.Stat(d.path(name), &st); err != nil {
			t.Fatal(err)
		}
		ino = append(ino, st.Ino)
	}
	if ino[1] != ino[0]+1 || ino[2] != ino[0]+2 {
		t.Errorf("inodes %v, want three in a row", ino)
	}
}

// TestSendfileIsRefused: sendfile(2) must fail as on debugfs, otherwise busybox's cat
// prints nothing.
func TestSendfileIsRefused(t *testing.T) {
	d := start(t)
	for _, c := range []struct {
		name string
		err  error
	}{
		{"kprobes/list", syscall.EINVAL},
		{"kprobes/enabled", syscall.EINVAL},
		{"sys/debug/kprobes-optimization", nil},
	} {
		in, err := os.Open(d.path(c.name))
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Stat(d.path(c.name), new(unix.Stat_t))
		n, err := unix.Sendfile(int(w.Fd()), int(in.Fd()), nil, 4096)
		want(t, c.name, err, c.err)
		if c.err == nil && n != 2 {
			t.Errorf("%s: sendfile moved %d bytes, want 2", c.name, n)
		}
		for _, f := range []*os.File{in, r, w} {
			_ = f.Close()
		}
	}
}

func TestBusyboxCat(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("no busybox")
	}
	d := start(t)
	for range 20 {
		_ = unix.Stat(d.path("kprobes/enabled"), new(unix.Stat_t))
		out, err := exec.Command(busybox, "cat", d.path("kprobes/enabled")).CombinedOutput()
		if string(out) != "1\n" || err != nil {
			t.Fatalf("busybox cat: %q, %v", out, err)
		}
	}
}

// TestBoundFileStaysReadable: the inode of a bind-mounted file is not looked up
// again. It must stay readable by sendfile after stat, SEEK_END and O_TRUNC.
func TestBoundFileStaysReadable(t *testing.T) {
	d := start(t)
	target := filepath.Join(t.TempDir(), "enabled")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(d.path("kprobes/enabled"), target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(target, unix.MNT_DETACH) }()
	use := map[string]func(f *os.File){
		"stat":     func(f *os.File) { _, _ = f.Stat() },
		"seek end": func(f *os.File) { _, _ = f.Seek(0, io.SeekEnd) },
		"truncate": func(*os.File) { _ = os.WriteFile(target, []byte("1\n"), 0o600) },
	}
	for name, act := range use {
		for range 5 {
			f, err := os.Open(target)
			if err != nil {
				t.Fatal(err)
			}
			act(f)
			_ = f.Close()
			f, err = os.Open(target)
			if err != nil {
				t.Fatal(err)
			}
			r, w, _ := os.Pipe()
			_, err = unix.Sendfile(int(w.Fd()), int(f.Fd()), nil, 4096)
			want(t, "sendfile after "+name, err, syscall.EINVAL)
			for _, f := range []*os.File{f, r, w} {
				_ = f.Close()
			}
		}
	}
}

func TestReadSizes(t *testing.T) {
	d := start(t)
	f, err := os.Open(d.path("kprobes/list"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 65536)
	n, err := f.Read(p)
	if err != nil || n == 0 || n > 4096 || p[n-1] != '\n' {
		t.Errorf("first read: %d bytes, %v; want whole lines of at most a page", n, err)
	}
	all := read(t, d.path("kprobes/list"))
	if strings.Count(all, "\n") != 64 {
		t.Errorf("%d lines, want 64", strings.Count(all, "\n"))
	}
	one, _ := exec.Command("dd", "bs=1", "if="+d.path("kprobes/list")).Output()
	if string(one) != all {
		t.Error("reads of one byte give another text")
	}
}

func TestBoolFile(t *testing.T) {
	d := start(t)
	name := d.path("kprobes/enabled")
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("0\n")); err != nil {
		t.Error(err)
	}
	// The position does not move: the read starts at 0.
	p := make([]byte, 10)
	if n, err := f.Read(p); string(p[:n]) != "0\n" {
		t.Errorf("read after the write: %q, %v", p[:n], err)
	}
	_, err = f.WriteAt([]byte("x"), 0)
	want(t, "a bad word", err, syscall.EINVAL)
	if _, err := f.WriteAt([]byte("1"), 4096); err != nil {
		t.Error(err)
	}
	if got := read(t, name); got != "1\n" {
		t.Errorf("got %q", got)
	}
	app, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	if _, err := app.Write([]byte("0\n")); err != nil {
		t.Error(err)
	}
	if got := read(t, name); got != "0\n" {
		t.Errorf("after >>: %q", got)
	}
}

func TestSysctlAppend(t *testing.T) {
	d := start(t)
	name := d.path("sys/debug/kprobes-optimization")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range []string{"0", "1"} { // the second write is at position 1, and is dropped
		if _, err := f.Write([]byte(s)); err != nil {
			t.Error(err)
		}
	}
	if got := read(t, name); got != "0\n" {
		t.Errorf("got %q, want only the first write", got)
	}
}

func TestTruncation(t *testing.T) {
	d := start(t)
	name := d.path("tracing/kprobe_events")
	if err := os.WriteFile(name, []byte("a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 0); err != nil { // does not clear
		t.Error(err)
	}
	if got := read(t, name); got != "1 [a b]\n" {
		t.Errorf("got %q, want one clearing open and both events", got)
	}
	if err := os.Truncate(name, 10); err != nil {
		t.Error(err)
	}
	if fi, err := os.Stat(name); err != nil || fi.Size() != 10 {
		t.Errorf("size after truncate(10): %v, %v", fi.Size(), err)
	}
	if got := read(t, name); got != "1 [a b]\n" {
		t.Errorf("got %q", got)
	}
}

func TestDirectories(t *testing.T) {
	d := start(t)
	for _, c := range []struct{ dir, want string }{
		{"kprobes", ". .. blacklist enabled list"}, // newest first
		{"sys/debug", ". .. exception-trace kprobes-optimization"},
		{"tracing/events", ". .."},
	} {
		fd, err := unix.Open(d.path(c.dir), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		n, _ := unix.Getdents(fd, buf)
		_ = unix.Close(fd)
		if got := strings.Join(names(buf[:n]), " "); got != c.want {
			t.Errorf("%s: %s; want %s", c.dir, got, c.want)
		}
	}
}

// names returns the entries of a directory in order with "." and "..", unlike
// os.ReadDir.
func names(b []byte) (list []string) {
	for len(b) > 0 {
		size := int(b[16]) | int(b[17])<<8
		name, _, _ := strings.Cut(string(b[19:size]), "\x00")
		list = append(list, name)
		b = b[size:]
	}
	return list
}

func TestDynamicDirectory(t *testing.T) {
	d := start(t)
	events, id := d.path("tracing/events"), d.path("tracing/events/b/id")
	_, err := os.Stat(id)
	want(t, "before", err, syscall.ENOENT)
	if err := os.WriteFile(d.path("tracing/kprobe_events"), []byte("a b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(t, id); got != "1\n" {
		t.Errorf("id %q", got)
	}
	held, err := os.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.WriteFile(d.path("tracing/kprobe_events"), []byte("b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(t, id); got != "0\n" {
		t.Errorf("id of the new b: %q", got)
	}
	if p, _ := io.ReadAll(held); string(p) != "1\n" {
		t.Errorf("the open file of the old b reads %q", p)
	}
	list, err := os.ReadDir(events)
	if err != nil || len(list) != 1 || list[0].Name() != "b" {
		t.Errorf("events: %v, %v", list, err)
	}
}

func TestRefusals(t *testing.T) {
	d := start(t)
	k, s := d.path("kprobes"), d.path("sys/debug")
	long := strings.Repeat("n", 256)
	for _, c := range []struct {
		what string
		err  error
		want syscall.Errno
	}{
		{"debugfs creat", create(k + "/new"), syscall.EACCES},
		{"debugfs mkdir", os.Mkdir(k+"/new", 0o700), syscall.EPERM},
		{"debugfs symlink", os.Symlink("x", k+"/new"), syscall.EPERM},
		{"debugfs link", os.Link(k+"/list", k+"/new"), syscall.EPERM},
		{"debugfs unlink", syscall.Unlink(k + "/list"), syscall.EPERM},
		{"debugfs rmdir", syscall.Rmdir(k), syscall.EPERM},
		{"debugfs rename", os.Rename(k+"/list", k+"/new"), syscall.EPERM},
		{"debugfs mknod", unix.Mknod(k+"/new", syscall.S_IFREG, 0), syscall.EACCES},
		{"debugfs mkfifo", unix.Mkfifo(k+"/new", 0o600), syscall.EPERM},
		{"debugfs long name", create(k + "/" + long), syscall.ENAMETOOLONG},
		{"debugfs fsync of a directory", fsyncDir(k), 0},
		{"proc fsync of a directory", fsyncDir(s), syscall.EINVAL},
		{"proc creat", create(s + "/new"), syscall.ENOENT},
		{"proc mkdir", os.Mkdir(s+"/new", 0o700), syscall.ENOENT},
		{"proc unlink", syscall.Unlink(s + "/kprobes-optimization"), syscall.EACCES},
		{"proc rename", os.Rename(s+"/kprobes-optimization", s+"/new"), syscall.ENOENT},
		{"proc rmdir", syscall.Rmdir(s), syscall.EACCES},
		{"proc chmod", os.Chmod(s+"/kprobes-optimization", 0o666), syscall.EPERM},
		{"proc chown", os.Chown(s+"/kprobes-optimization", 0, -1), syscall.EPERM},
		{"proc long name", create(s + "/" + long), syscall.ENOENT},
		{"open fails", create(d.path("fail/open")), syscall.EBUSY},
		{"O_DIRECT", openFlags(k+"/enabled", syscall.O_DIRECT), syscall.EINVAL},
		{"O_DIRECTORY", openFlags(k+"/enabled", syscall.O_DIRECTORY), syscall.ENOTDIR},
		{"O_EXCL", openFlags(k+"/enabled", syscall.O_CREAT|syscall.O_EXCL), syscall.EEXIST},
		{"O_TMPFILE", openFlags(k, unix.O_TMPFILE|syscall.O_RDWR), syscall.EOPNOTSUPP},
		{"getxattr", getxattr(k + "/enabled"), syscall.EOPNOTSUPP},
	} {
		if c.want == 0 {
			want(t, c.what, c.err, nil)
			continue
		}
		want(t, c.what, c.err, c.want)
	}
	if got := read(t, k+"/enabled"); got != "1\n" {
		t.Errorf("enabled after all: %q", got)
	}
}

func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_ = f.Close()
	}
	return err
}

func openFlags(path string, flags int) error {
	fd, err := unix.Open(path, flags, 0o600)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func fsyncDir(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Fsync(fd)
}

func getxattr(path string) error {
	_, err := unix.Getxattr(path, "user.x", nil)
	return err
}

func TestFileCalls(t *testing.T) {
	d := start(t)
	for _, c := range []struct {
		name             string
		seekEnd, seekDat error
	}{
		{"kprobes/list", syscall.EINVAL, syscall.EINVAL},
		{"kprobes/enabled", nil, syscall.ENXIO},
	} {
		f, err := os.OpenFile(d.path(c.name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		fd := int(f.Fd())
		pos, err := unix.Seek(fd, 0, io.SeekEnd)
		want(t, c.name+" SEEK_END", err, c.seekEnd)
		if err == nil && pos != 0 {
			t.Errorf("%s SEEK_END is at %d", c.name, pos)
		}
		_, err = unix.Seek(fd, 0, unix.SEEK_DATA)
		want(t, c.name+" SEEK_DATA", err, c.seekDat)
		want(t, c.name+" fsync", unix.Fsync(fd), syscall.EINVAL)
		want(t, c.name+" fallocate", unix.Fallocate(fd, 0, 0, 10), syscall.EOPNOTSUPP)
		_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		want(t, c.name+" TCGETS", err, syscall.ENOTTY)
		_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
		want(t, c.name+" mmap", err, syscall.ENODEV)
		want(t, c.name+" flock", unix.Flock(fd, unix.LOCK_EX), nil)
		if n, err := unix.Flistxattr(fd, nil); n != 0 || err != nil {
			t.Errorf("%s listxattr: %d, %v", c.name, n, err)
		}
		_ = f.Close()
	}
}

func TestErrnos(t *testing.T) {
	d := start(t)
	for _, c := range []struct {
		name string
		want syscall.Errno
	}{
		{"fail/enotsupp", syscall.EOPNOTSUPP},
		{"fail/none", syscall.EIO},
	} {
		_, err := os.ReadFile(d.path(c.name))
		want(t, c.name, err, c.want)
	}
	f, err := os.Open(d.path("fail/flush"))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "close", f.Close(), syscall.ENOEXEC)
}

func TestChmodLasts(t *testing.T) {
	d := start(t)
	name := d.path("kprobes/list")
	if err := syscall.Chmod(name, 0o4777); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(name, &st); err != nil || st.Mode&0o7777 != 0o4777 {
		t.Errorf("mode %o, %v", st.Mode, err)
	}
	when := time.Unix(1000, 0)
	if err := os.Chtimes(name, when, when); err != nil {
		t.Error(err)
	}
	if fi, _ := os.Stat(name); !fi.ModTime().Equal(when) {
		t.Errorf("mtime %v", fi.ModTime())
	}
	_ = read(t, name)
	if fi, _ := os.Stat(name); !fi.ModTime().Equal(when) {
		t.Errorf("mtime after a read %v", fi.ModTime())
	}
}

// as runs a shell script as an ordinary user.
func as(t *testing.T, uid uint32, script string) string {
	t.Helper()
	if !manyUsers() {
		t.Skip("only one user here")
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func manyUsers() bool {
	b, _ := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(b))
	return len(f) == 3 && f[2] != "1"
}

func TestOrdinaryUser(t *testing.T) {
	d := start(t)
	for p := d.dir; p != "/"; p = filepath.Dir(p) { // all parents
		_ = os.Chmod(p, 0o755)
	}
	got := as(t, 65534, "cd "+d.dir+` && cat kprobes/list; cat kprobes/enabled; ls tracing; cat tracing/kprobe_events
		cat sys/debug/kprobes-optimization; echo 1 > sys/debug/kprobes-optimization; stat -c %a kprobes/list; rm kprobes/list; mkdir kprobes/x`)
	if n := strings.Count(got, "ermission denied"); n != 7 || !strings.Contains(got, "1\n400\n") && !strings.Contains(got, "400") {
		t.Errorf("%d refusals, want 7, and a readable sysctl and mode:\n%s", n, got)
	}
	if err := os.Chmod(d.path("kprobes/list"), 0o444); err != nil {
		t.Fatal(err)
	}
	if got := as(t, 65534, "cat "+d.path("kprobes/list")); strings.Count(got, "\n") != 64 {
		t.Errorf("after chmod 444: %q", got)
	}
}

// TestDescriptorHandedDown: with a descriptor opened by root, another user sees what
// root sees.
func TestDescriptorHandedDown(t *testing.T) {
	if !manyUsers() {
		t.Skip("only one user here")
	}
	d := start(t)
	f, err := os.Open(d.path("kprobes/enabled"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("cat")
	cmd.Stdin = f
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); string(out) != "1\n" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// endLimit is the time allowed for ending on a busy machine. It is less than the
// duration of the sleeps in these tests.
const endLimit = 20 * time.Second

func TestBlockedReadEndsBySignal(t *testing.T) {
	d := start(t)
	cmd := exec.Command("cat", d.path("tracing/trace_pipe"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	begin := time.Now()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if took := time.Since(begin); took > endLimit {
		t.Errorf("the reader ended after %v", took)
	}
}

func TestBlockedReadGetsLine(t *testing.T) {
	d := start(t)
	got := make(chan string)
	go func() {
		out, _ := exec.Command("head", "-n1", d.path("tracing/trace_pipe")).Output()
		got <- string(out)
	}()
	if err := os.WriteFile(d.path("tracing/trace_pipe"), []byte("line\n"), 0); err != nil {
		t.Error(err)
	}
	if l := <-got; l != "line\n" {
		t.Errorf("got %q", l)
	}
}

// TestEndsWhileInUse: the daemon ends in time with a blocked reader, a process whose
// working directory is in the mount, and a bind mount, and leaves no mount.
func TestEndsWhileInUse(t *testing.T) {
	d := start(t)
	reader := exec.Command("cat", d.path("tracing/trace_pipe"))
	inside := exec.Command("sleep", "60")
	inside.Dir = d.path("kprobes")
	for _, c := range []*exec.Cmd{reader, inside} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	}
	elsewhere := t.TempDir()
	if err := unix.Mount(d.dir, elsewhere, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(elsewhere, unix.MNT_DETACH) }()
	begin := time.Now()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	if _, err := d.cmd.Process.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > endLimit {
		t.Errorf("ended after %v", took)
	}
	if Ours(d.dir) {
		t.Error("still mounted")
	}
}

func TestStartsOverDeadMount(t *testing.T) {
	d := start(t)
	_ = d.cmd.Process.Kill()
	_, _ = d.cmd.Process.Wait()
	_, err := os.Stat(d.dir)
	want(t, "stat of the dead mount", err, syscall.ENOTCONN)
	again := start(t, d.dir)
	if got := read(t, again.path("kprobes/enabled")); got != "1\n" {
		t.Errorf("got %q", got)
	}
}

// TestWritersDoNotWaitForEachOther: a blocked write does not block other writes to
// the same file.
func TestWritersDoNotWaitForEachOther(t *testing.T) {
	d := start(t)
	name := d.path("tracing/trace_pipe")
	slow := exec.Command("sh", "-c", "echo slow > "+name)
	if err := slow.Start(); err != nil { // waits for a reader
		t.Fatal(err)
	}
	defer func() { _ = slow.Process.Kill(); _ = slow.Wait() }()
	time.Sleep(50 * time.Millisecond)
	fast := exec.Command("sh", "-c", "echo fast > "+name)
	if err := fast.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fast.Process.Kill(); _ = fast.Wait() }()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := map[string]bool{}
	for range 2 {
		p := make([]byte, 16)
		n, err := f.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		got[string(p[:n])] = true
	}
	if !got["slow\n"] || !got["fast\n"] {
		t.Errorf("got %v", got)
	}
}

func TestMountHasItsName(t *testing.T) {
	d := start(t)
	b, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(strings.Split(string(b), "\n"), func(l string) bool {
		return strings.HasPrefix(l, "kprobefs "+d.dir+" fuse.kprobefs ")
	}) {
		t.Errorf("no such mount in\n%s", b)
	}
}

func TestParallelUse(t *testing.T) {
	d := start(t)
	done := make(chan error)
	for i := range 8 {
		go func() {
			var err error
			for range 50 {
				if i%2 == 0 {
					_, err = os.Stat(d.path("kprobes/enabled"))
				} else {
					_, err = os.ReadFile(d.path("kprobes/list"))
				}
				if err != nil {
					break
				}
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
