package notify

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/exectest"
)

// TestPendingIsLeft: a notification that was received is found in the memory until it has its answer, which
// another process can give.
func TestPendingIsLeft(t *testing.T) {
	const calls = 2 * maxPending // each slot is used again
	ready, results := make(chan int), make(chan unix.Errno)
	go func() {
		runtime.LockOSThread() // and never unlocked: the filter ends with the thread
		defer close(results)
		listener := exectest.NotifyOf(notifiedCall)
		ready <- listener
		for i := 0; listener >= 0 && i < calls; i++ {
			_, _, errno := unix.Syscall6(notifiedCall, uintptr(i), 0, 0, 0, 0, 0)
			results <- errno
		}
	}()
	listener := <-ready
	if listener < 0 {
		t.Skip("no filters with a listener here")
	}
	defer unix.Close(listener)
	p := NewPending()
	if p.Memory() == nil {
		t.Skip("no memory to share here")
	}
	for i := range calls {
		s := p.next()
		for SeccompIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(s.notif)) != nil {
		}
		left := Left(p.Memory())
		if len(left) != 1 || left[0].Args[0] != uint64(i) || left[0].Nr != notifiedCall {
			t.Fatalf("call %d: %d are left", i, len(left))
		}
		NewCaller(left[0], listener).Fail(unix.EXDEV) // as another process would
		select {
		case errno := <-results:
			if errno != unix.EXDEV {
				t.Fatalf("call %d: %v", i, errno)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("call %d has no answer", i)
		}
		s.answered()
		s.answered()
		if n := len(Left(p.Memory())); n != 0 {
			t.Fatalf("call %d: %d are left after its answer", i, n)
		}
	}
	if len(p.free) != maxPending {
		t.Errorf("%d slots are free at the end", len(p.free))
	}
}

// TestPendingFull: more notifications than there is room for are received nevertheless.
func TestPendingFull(t *testing.T) {
	p := NewPending()
	var all []*slot
	for range maxPending + 10 {
		all = append(all, p.next())
	}
	for _, s := range all {
		s.answered()
	}
	if len(p.free) != maxPending {
		t.Errorf("%d slots are free at the end", len(p.free))
	}
}
