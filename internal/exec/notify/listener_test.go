package notify

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/exectest"
)

// TestReceiverStops: a receiver that waits for a notification is stopped, also where the host's
// kernel begins the wait again after a signal.
func TestReceiverStops(t *testing.T) {
	ready, end := make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocked: the filter ends with the thread
		ready <- exectest.NotifyOf(notifiedCall)
		<-end
	}()
	fd := <-ready
	if fd < 0 {
		t.Skip("no filters with a listener here")
	}
	defer close(end)
	defer unix.Close(fd)
	l := NewListener(fd, NewPending(), func(c *Caller) { c.Proceed() })
	go l.Run()
	time.Sleep(50 * time.Millisecond)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		l.Stop(func(*Caller) {})
	}()
	select {
	case <-stopped:
	case <-time.After(20 * time.Second):
		t.Error("it is not stopped")
	}
}

// notifiedCall is a call that neither Go's runtime nor this test makes otherwise.
const notifiedCall = unix.SYS_PERF_EVENT_OPEN

// TestGiveFDSignals: a caller that is given a descriptor gets it also while signals come to
// the thread that gives it.
func TestGiveFDSignals(t *testing.T) {
	const calls = 3000
	listeners, results := make(chan int, 1), make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocked: the filter ends with the thread
		defer close(results)
		listener := exectest.NotifyOf(notifiedCall)
		listeners <- listener
		for i := 0; listener >= 0 && i < calls; i++ {
			fd, _, errno := unix.Syscall6(notifiedCall, 0, 0, 0, 0, 0, 0)
			if errno != 0 {
				fd = ^uintptr(0)
			} else if fd > 2 {
				_ = unix.Close(int(fd))
			}
			results <- int(fd)
		}
	}()
	listener := <-listeners
	if listener < 0 {
		t.Skip("no filters with a listener here")
	}
	given, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	giver, done := make(chan int), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		giver <- unix.Gettid()
		for range calls {
			var n Notif
			for {
				n = Notif{}
				err := SeccompIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
				if err == nil {
					break
				}
				if !errors.Is(err, unix.EINTR) {
					t.Errorf("receiving: %v", err)
					return
				}
			}
			if errno := NewCaller(&n, listener).Give(int(given.Fd()), unix.O_CLOEXEC); errno != 0 {
				t.Errorf("giving: %v", errno)
			}
		}
	}()
	tid := <-giver
	var over atomic.Bool
	signals := make(chan struct{})
	go func() {
		defer close(signals)
		for !over.Load() {
			_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
		}
	}()
	wrong := 0
	for fd := range results {
		if fd <= 2 {
			wrong++
		}
	}
	<-done
	over.Store(true)
	<-signals
	_ = unix.Close(listener)
	if wrong != 0 {
		t.Errorf("%d of %d calls did not get the descriptor", wrong, calls)
	}
}
