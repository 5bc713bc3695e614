package tracing

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// taskMemory is the memory that triggers see when a task's system call runs them. There
// is no trap then, and all that they read is the task's task_struct, at address 0.
type taskMemory struct{ task [abi.TaskSize]byte }

var _ abi.Memory = (*taskMemory)(nil)

// ReadAt fails with EFAULT outside the struct.
func (m *taskMemory) ReadAt(addr uint64, p []byte) error {
	if addr >= uint64(len(m.task)) || uint64(len(p)) > uint64(len(m.task))-addr {
		return fmt.Errorf("%#x: %w", addr, syscall.EFAULT)
	}
	copy(p, m.task[addr:])
	return nil
}

// ReadU64 fails like ReadAt.
func (m *taskMemory) ReadU64(addr uint64) (uint64, error) {
	var b [8]byte
	err := m.ReadAt(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// WriteAt fails with EFAULT.
func (m *taskMemory) WriteAt(uint64, []byte) error { return syscall.EFAULT }

// WriteU64 fails with EFAULT.
func (m *taskMemory) WriteU64(uint64, uint64) error { return syscall.EFAULT }

// scratch returns the scratch memory for a hit: its vCPU's, or, for a task's
// system call, the one that all system calls share, whose lock must be held.
func (t *Tracer) scratch(trap *abi.Trap) *cpuScratch {
	if isTask(trap) {
		return &t.tasks
	}
	return &t.cpus[trap.CPU]
}

// isTask reports whether the trap stands for a task's system call rather than for a hit on
// a vCPU.
func isTask(trap *abi.Trap) bool {
	_, ok := trap.Mem.(*taskMemory)
	return ok
}

// markerTriggers runs the triggers of event print for an entry, whose text has no
// newline yet. It returns the buffer that the entry belongs to: as on Linux, its room
// was reserved before the triggers ran, and one of them may have swapped the buffers.
func (a *Array) markerTriggers(task Task, entry []byte) *ring.Buffer {
	t := a.tracer
	event := t.events.get(typePrint)
	if event == nil {
		return a.buffer
	}
	t.mu.Lock()
	file := a.files[event]
	t.mu.Unlock()
	triggers := file.atHit.Load()
	if triggers == nil {
		return a.buffer
	}
	mem := &taskMemory{}
	binary.LittleEndian.PutUint32(mem.task[abi.TaskPID:], uint32(task.PID))
	var name cmdlines.Comm
	copy(name[:abi.TaskCommLen-1], task.Comm())
	copy(mem.task[abi.TaskComm:], name[:])
	now := t.conf.Machine.Now()
	trap := &abi.Trap{CPU: task.CPU, Mem: mem, Preempt: 1, Regs: &abi.Regs{Flags: abi.FlagIF}, Now: func() int64 { return now }}
	text := append(append([]byte(nil), entry...), 0)
	binary.LittleEndian.PutUint16(text, typePrint)
	binary.LittleEndian.PutUint32(text[4:], uint32(task.PID))
	swaps := a.buffer.Swaps()
	clock := a.clock.Load()
	t.tasksMu.Lock()
	defer t.tasksMu.Unlock()
	(*triggers).Run(trap, &filter.Subject{
		Entry: text, CPU: task.CPU, Comm: (*[abi.TaskCommLen]byte)(&name), Trap: trap, Time: clock.read(t, now), Nanoseconds: clock.inNS,
	})
	return a.snapshots.reservedIn(swaps)
}
