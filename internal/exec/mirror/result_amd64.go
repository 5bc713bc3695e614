package mirror

import (
	"golang.org/x/sys/unix"
)

// setResult sets what the call returns at whose end a thread has stopped.
func setResult(tid int, ret int64) error {
	const rax = 80 // in struct user
	return ptrace(unix.PTRACE_POKEUSR, tid, rax, uintptr(ret))
}
