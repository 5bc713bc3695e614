package host

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Signal is a signal for a thread of the host, which the guest sends.
type Signal struct {
	TID    int
	Nr     syscall.Signal
	Thread bool // for the thread alone, else for its process
}

// taskOf returns what makes the host's calls for a task of the guest, given by its task_struct, if it stands for a thread. It takes no
// lock.
func (h *Host) taskOf(task uint64) *Task {
	call, err := h.g.ReadU64(task + abi.TaskHostCall)
	if err != nil || h.driver != nil { // threads have numbers of the machine's own
		return nil
	}
	t := h.find(call)
	if t == nil || t.tid <= 0 {
		return nil
	}
	return t
}

// Refuse notes that a program has refused the call that a task makes: a function of the guest has failed with err because of it. Unless the
// guest has come to the host's part before, the host's kernel does not make the call. It is called in handler context.
func (h *Host) Refuse(task uint64, err syscall.Errno) {
	t := h.taskOf(task)
	if t == nil {
		return
	}
	t.refused.Store(true)
	m := t.mirror.Load()
	if m == nil {
		return
	}
	binary.LittleEndian.PutUint64(h.g.Phys(t.pathPA+mirrorAt+abi.MirrorRefused, 8), -uint64(err))
	if m.Refuse != nil {
		m.Refuse()
	}
}

// RefusedWith returns the error of a result with which a program has refused a call, or 0 if the call has not failed.
func RefusedWith(ret int64) syscall.Errno {
	const errRestart = 512 // from it on, the kernel's own
	if ret >= 0 || ret <= -errRestart {
		return 0
	}
	return syscall.Errno(-ret)
}

// Signal sends a signal to the thread for which a task of the guest stands, given by its task_struct. The thread has it when
// the call has ended that the task makes. It is called in handler context, and does nothing for a task that stands for no thread.
func (h *Host) Signal(task uint64, nr syscall.Signal, thread bool) {
	t := h.taskOf(task)
	if t == nil {
		return
	}
	s := Signal{TID: t.tid, Nr: nr, Thread: thread}
	if m := t.mirror.Load(); m != nil && m.Signal != nil {
		m.Signal(s)
		return
	}
	go s.Send()
}

// Send sends the signal now, if the thread has not ended. A process has it by this thread, as on Linux, unless the thread blocks it.
func (s Signal) Send() {
	pid, err := proc.Process(s.TID)
	if err != nil {
		return
	}
	if s.Thread || !s.blocked() {
		_ = unix.Tgkill(pid, s.TID, s.Nr)
		return
	}
	_ = unix.Kill(pid, s.Nr)
}

// blocked reports whether the thread blocks the signal.
func (s Signal) blocked() bool {
	text, ok := proc.Status(s.TID, "SigBlk")
	mask, err := strconv.ParseUint(text, 16, bits.UintSize)
	return ok && err == nil && s.Nr > 0 && mask>>(s.Nr-1)&1 != 0
}
