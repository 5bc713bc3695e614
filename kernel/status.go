package kernel

import (
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// CPUStatus says what a vCPU is doing.
type CPUStatus struct {
	Idle         bool   // it waits for an interrupt
	PID          int    // of its current task; 0 for the idle task
	Comm         string // of that task
	Instructions uint64 // that it has executed

	Runnable int           // tasks that run on it or wait for it
	Waiting  []QueuedTask  // those that wait, the next one first
	Timers   []TimerStatus // the next one first
}

// TaskStatus describes a task that makes the calls of a thread of the host.
type TaskStatus struct {
	PID    int
	Comm   string
	CPU    int    // where it runs, or has run last
	State  uint32 // task_struct's __state: 0 is TASK_RUNNING
	Queued bool   // on a run queue
	InCall bool
}

// CPUStatus returns what each vCPU is doing. The vCPUs are not stopped for that: what is read of two
// of them, or of a vCPU and its task, may be of different times.
func (m *Machine) CPUStatus() []CPUStatus {
	all := make([]CPUStatus, len(m.cpus))
	for i, v := range m.cpus {
		all[i] = CPUStatus{Idle: v.resting(), Instructions: v.retired.Load()}
		all[i].Waiting, all[i].Runnable = m.runQueue(i)
		all[i].Timers = m.timers(i)
		if task := m.TaskOn(i); task != 0 {
			pid, _ := m.mem.ReadU64(task + abi.TaskPID)
			all[i].PID, all[i].Comm = int(int32(pid)), m.comm(task)
		}
	}
	return all
}

// TaskOn returns the current task of a vCPU, or 0 before it has one. Unlike currentTask it may be
// called while the vCPU runs.
func (m *Machine) TaskOn(cpu int) uint64 {
	offsets, current := m.symbol("__per_cpu_offset"), m.symbol("current_task")
	base, err := m.mem.ReadU64(offsets + 8*uint64(cpu))
	if err != nil || base == 0 {
		return 0
	}
	task, _ := m.mem.ReadU64(base + current)
	return task
}

// TaskStatus returns the tasks that make the host's calls, in the order of their PIDs. A task that
// ends meanwhile is left out.
func (m *Machine) TaskStatus() []TaskStatus {
	var all []TaskStatus
	for _, t := range m.host.Tasks() {
		var b [abi.TaskOnRQ + 4]byte
		if m.mem.ReadAt(t.Addr, b[:]) != nil {
			continue
		}
		word := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
		all = append(all, TaskStatus{
			PID: t.TID, Comm: m.comm(t.Addr), CPU: int(word(abi.TaskStatus + 4)), State: word(abi.TaskState),
			Queued: word(abi.TaskOnRQ) == 1, InCall: t.InCall,
		})
	}
	return all
}
