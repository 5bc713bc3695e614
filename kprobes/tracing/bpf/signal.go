package bpf

import (
	"encoding/binary"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Flags of a task.
const (
	taskExiting = 0x4
	taskKernel  = 0x200000 // PF_KTHREAD
)

// lastSignal is _NSIG.
const lastSignal = 64

// sendSignal returns bpf_send_signal or, with thread, bpf_send_signal_thread: the current task gets a signal. A task that has
// no user space to return to is EPERM. With interrupts off only one can be on its way.
func sendSignal(thread bool) func(r *run, a *[numArgs]uint64) uint64 {
	return func(r *run, a *[numArgs]uint64) uint64 {
		trap, nr := r.hit.Trap, uint32(a[0])
		var flags [4]byte
		switch {
		case trap.Task == 0 || trap.Mem.ReadAt(trap.Task+abi.TaskFlags, flags[:]) != nil,
			binary.LittleEndian.Uint32(flags[:])&(taskKernel|taskExiting) != 0, r.hit.PID == 1:
			return errno(syscall.EPERM)
		case nr > lastSignal:
			return errno(syscall.EINVAL)
		}
		if trap.Vector == abi.VecBP || trap.IRQsOff {
			if r.hit.sent {
				return errno(syscall.EBUSY)
			}
			r.hit.sent = true
		}
		if nr != 0 && r.sys.conf.Signal != nil {
			r.sys.conf.Signal(trap.Task, int(nr), thread)
		}
		return 0
	}
}
