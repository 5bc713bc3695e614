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
	if os.Getenv("ANONINODE_CLIENT") != "" {
		os.Exit(client())
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
	cmd.Env = append(os.Environ(), "ANONINODE_CLIENT=1")
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
