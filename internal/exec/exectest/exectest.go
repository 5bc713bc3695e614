// Package exectest has what the tests of exec's rooms share.
package exectest

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AddrOf returns the address of a variable, which stays there until the test ends. On the stack
// it would move with that.
func AddrOf[T any](t *testing.T, p *T) uint64 {
	t.Helper()
	var pinner runtime.Pinner
	pinner.Pin(p)
	t.Cleanup(pinner.Unpin)
	return uint64(uintptr(unsafe.Pointer(p)))
}

// NotifyOf has the calls of this thread with a number notify a listener, which it returns,
// or -1.
func NotifyOf(numbers ...uint32) int {
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
