package anoninode

import (
	"encoding/binary"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// counter is a file with a number, and a memory that shows it.
type counter struct {
	n        atomic.Uint64
	released chan struct{}
	changed  chan struct{}
	ready    atomic.Uint32
}

func (c *counter) Read(p []byte) (int, error) {
	if len(p) < 8 {
		return 0, syscall.ENOSPC
	}
	binary.NativeEndian.PutUint64(p, c.n.Load())
	return 8, nil
}

func (c *counter) Ioctl(_ int, cmd uint32, arg uint64, _, out []byte) error {
	switch cmd {
	case 0x2403:
		c.n.Store(arg)
	case 0x80082407:
		binary.NativeEndian.PutUint64(out, 77)
	default:
		return syscall.ENOTTY
	}
	return nil
}

func (c *counter) Poll() (uint32, <-chan struct{}) { return c.ready.Load(), c.changed }
func (c *counter) Release()                        { close(c.released) }

// TestMain plays the client in a process of its own: one that serves FUSE must not use it.
func TestMain(m *testing.M) {
	switch os.Getenv("ANONINODE_CLIENT") {
	case "uses":
		os.Exit(client())
	case "closes":
		os.Exit(closes())
	}
	os.Exit(m.Run())
}

// client uses the file at descriptor 3, and tells its progress by writing to 4.
func client() int {
	step := func() { _, _ = unix.Write(4, []byte{1}) }
	b := make([]byte, 8)
	if n, err := unix.Read(3, b); n != 8 || err != nil || b[0] != 5 {
		return 10
	}
	var id uint64
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, 3, 0x80082407, uintptr(unsafe.Pointer(&id))); e != 0 || id != 77 {
		return 11
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, 3, 0x2403, 9); e != 0 {
		return 12
	}
	if _, err := unix.Read(3, b); err != nil || b[0] != 9 {
		return 13
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, 3, 0x2499, 0); e != unix.ENOTTY {
		return 14
	}
	mem, err := unix.Mmap(3, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return 15
	}
	if mem[4096] != 42 {
		return 16
	}
	mem[8] = 43
	step()
	fds := []unix.PollFd{{Fd: 3, Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 5000); n != 1 || err != nil {
		return 17
	}
	if mem[4097] != 44 { // written before it was ready
		return 18
	}
	return 0
}

func TestDescriptor(t *testing.T) {
	f, err := New("[counter]")
	if err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	defer f.Close()
	if !f.Mappable() {
		t.Skip("the host's kernel has no passthrough")
	}
	memory, err := unix.MemfdCreate("ring", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(memory, 8192); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(memory, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	mem[4096] = 42
	c := &counter{released: make(chan struct{}), changed: make(chan struct{})}
	c.n.Store(5)
	fd, err := f.Open(c, memory)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(memory)
	if got := f.Find(os.Getpid(), int(fd.Fd())); got != File(c) {
		t.Errorf("Find: %v", got)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "ANONINODE_CLIENT=uses")
	cmd.ExtraFiles = []*os.File{fd, w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = fd.Close()
	_ = w.Close()
	if n, err := r.Read(make([]byte, 1)); n == 1 {
		if err != nil || mem[8] != 43 {
			t.Errorf("the client's byte is %d", mem[8])
		}
		time.Sleep(50 * time.Millisecond)
		mem[4097] = 44
		c.ready.Store(Readable)
		close(c.changed)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("client: %v", err)
	}
	select {
	case <-c.released:
	case <-time.After(5 * time.Second):
		t.Error("not released")
	}
}

// TestClose: what is open at the end is released.
func TestClose(t *testing.T) {
	f, err := New("[counter]")
	if err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	c := &counter{released: make(chan struct{}), changed: make(chan struct{})}
	fd, err := f.Open(c, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	f.Close()
	select {
	case <-c.released:
	case <-time.After(5 * time.Second):
		t.Error("not released")
	}
	f.Settle()
	if _, err := f.Open(&counter{released: make(chan struct{})}, -1); err == nil {
		t.Error("opened after the end")
	}
}

// leader is a file whose Release takes its time, and is seen at another file.
type leader struct {
	counter
	member *counter
}

func (l *leader) Release() {
	time.Sleep(20 * time.Millisecond)
	l.member.n.Store(1)
	l.member.ready.Store(Readable)
	l.counter.Release()
}

// closes closes the files from descriptor 4 on, one after the other, and asks 3 about each.
func closes() int {
	b := make([]byte, 8)
	for fd, ask := range []func() bool{
		func() bool { n, err := unix.Read(3, b); return n == 8 && err == nil && b[0] == 1 },
		func() bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: 3, Events: unix.POLLIN}}, 0)
			return n == 1 && err == nil
		},
	} {
		if ask() {
			return 20 + fd
		}
		if err := unix.Close(4 + fd); err != nil {
			return 30 + fd
		}
		if !ask() {
			return 40 + fd
		}
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, 3, 0x2499, 0); e != 0 { // as it was
			return 50 + fd
		}
	}
	return 0
}

// member is a counter with an ioctl that sets it back.
type member struct{ counter }

func (m *member) Ioctl(int, uint32, uint64, []byte, []byte) error {
	m.n.Store(0)
	m.ready.Store(0)
	return nil
}

// TestReadAfterClose: what is asked after a close(2) is answered when Release has returned.
func TestReadAfterClose(t *testing.T) {
	f, err := New("[counter]")
	if err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	defer f.Close()
	m := &member{counter{released: make(chan struct{}), changed: make(chan struct{})}}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "ANONINODE_CLIENT=closes")
	files := []File{m}
	for range 2 {
		files = append(files, &leader{counter: counter{released: make(chan struct{})}, member: &m.counter})
	}
	for _, file := range files {
		fd, err := f.Open(file, -1)
		if err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, fd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, fd := range cmd.ExtraFiles {
		_ = fd.Close()
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("client: %v", err)
	}
}
