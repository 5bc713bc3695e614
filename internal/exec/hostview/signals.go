package hostview

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// InterruptSignal interrupts the tracing thread's wait4(2).
const InterruptSignal = unix.Signal(40)

// Flags of struct sigaction.
const (
	SaNoCldStop = 0x1
	SaRestart   = 0x10000000
)

// SetSignalFlags changes the flags with which Go has installed its handler of a signal.
func SetSignalFlags(sig unix.Signal, set, unset uint64) {
	var action struct{ handler, flags, restorer, mask uint64 }
	at := uintptr(unsafe.Pointer(&action))
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, at, 8, 0, 0); errno != 0 {
		return
	}
	action.flags = action.flags&^unset | set
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), at, 0, 8, 0, 0)
}
