package mirror

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// canRing reports whether this machine has syscall instructions that can be replaced.
const canRing = true

// Where registers are in struct user.
const (
	rax     = 80
	origRAX = 120
	rip     = 128
	rsp     = 152
)

// instructionOf returns where a stopped thread goes on.
func instructionOf(tid int) (at uint64, err error) {
	err = ptrace(unix.PTRACE_PEEKUSR, tid, rip, uintptr(unsafe.Pointer(&at)))
	return at, err
}

// stackOf returns where a stopped thread's stack ends.
func stackOf(tid int) (at uint64, err error) {
	err = ptrace(unix.PTRACE_PEEKUSR, tid, rsp, uintptr(unsafe.Pointer(&at)))
	return at, err
}

// goTo has a stopped thread go on somewhere else.
func goTo(tid int, at uint64) error { return ptrace(unix.PTRACE_POKEUSR, tid, rip, uintptr(at)) }

// setCall sets the number of the call which a thread is about to make.
func setCall(tid int, nr uint64) error {
	return ptrace(unix.PTRACE_POKEUSR, tid, origRAX, uintptr(nr))
}

// setResult sets what the call returns at whose end a thread has stopped.
func setResult(tid int, ret int64) error {
	return ptrace(unix.PTRACE_POKEUSR, tid, rax, uintptr(ret))
}
