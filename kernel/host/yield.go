package host

import "golang.org/x/sys/unix"

// YieldThread lets other threads of the host run on the caller's processor, for a caller
// that waits for something that takes a few microseconds. runtime.Gosched is not for that:
// it wakes another thread of the program.
func YieldThread() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
