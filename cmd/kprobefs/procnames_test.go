package main

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
		listener := notifyOf(notifiedCall)
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
			var n seccompNotif
			for {
				n = seccompNotif{}
				err := seccompIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
				if err == nil {
					break
				}
				if !errors.Is(err, unix.EINTR) {
					t.Errorf("receiving: %v", err)
					return
				}
			}
			if errno := newCaller(&n, listener).give(int(given.Fd()), unix.O_CLOEXEC); errno != 0 {
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

// notifyOf has the calls of this thread with a number notify a listener, which it returns,
// or -1.
func notifyOf(numbers ...uint32) int {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
	for _, nr := range numbers {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1
	}
	return int(fd)
}
