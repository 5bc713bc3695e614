package perffd

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/anoninode"
	"github.com/kprobefs/kprobefs/internal/testns"
)

func TestMain(m *testing.M) { os.Exit(testns.Main(m.Run)) }

// TestUnansweredFile: BPF_TASK_FD_QUERY does not wait for the file system of a file that is none of ours.
func TestUnansweredFile(t *testing.T) {
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = dev.Close() }) // ends what still waits
	dir := t.TempDir()
	if err := unix.Mount("test", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", dev.Fd(), os.Getuid(), os.Getgid())); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	fd, err := unix.Open(dir, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	found := make(chan any, 1)
	go func() {
		c := &bpfCaller{all: &Descriptors{}, fs: &anoninode.FS{}}
		object, _ := c.ObjectOf(os.Getpid(), fd)
		found <- object
	}()
	select {
	case object := <-found:
		if object != (otherFile{}) {
			t.Errorf("the descriptor is %v", object)
		}
	case <-time.After(10 * time.Second):
		t.Error("there is no answer")
	}
}
