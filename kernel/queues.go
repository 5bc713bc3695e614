package kernel

import (
	"cmp"
	"slices"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Offsets in the guest's struct rq, sched_entity, hrtimer_clock_base, hrtimer, timer_base and
// timer_list, bytes. TestQueues compares them with the guest's types.
const (
	rqRunning  = 4  // nr_running
	rqEntities = 64 // cfs.tasks_timeline, a list of group_node
	taskEntity = 168

	hrtimerActive   = 16 // of the clock base: a list of struct hrtimer, which begin with their node
	hrtimerExpires  = 24
	hrtimerFunction = 40

	wheelPending  = 48 // pending_map
	wheelVectors  = 120
	wheelSize     = 576
	timerExpires  = 16
	timerFunction = 24
)

// mostQueued bounds what is read of a queue: its links are the guest's, and change while they are followed.
const mostQueued = 64

// QueuedTask is a task on a run queue.
type QueuedTask struct {
	PID  int
	Comm string
}

// TimerStatus is a timer of the guest that has not expired.
type TimerStatus struct {
	Function string // that it calls
	Due      int64  // nanoseconds since boot
	Wheel    bool   // it counts jiffies and is in the timer wheel; else it is a hrtimer
}

// perCPU returns the address of a vCPU's variable, or 0.
func (m *Machine) perCPU(cpu int, name string) uint64 {
	at := m.symbol(name)
	base, err := m.mem.ReadU64(m.symbol("__per_cpu_offset") + 8*uint64(cpu))
	if err != nil || base == 0 || at == 0 {
		return 0
	}
	return base + at
}

// list calls f with the entries of a list_head, mostQueued of them at most.
func (m *Machine) list(head uint64, f func(entry uint64)) {
	at, err := m.mem.ReadU64(head)
	for n := 0; err == nil && at != head && at != 0 && n < mostQueued; n++ {
		f(at)
		at, err = m.mem.ReadU64(at)
	}
}

// runQueue returns the tasks that wait for a vCPU, the next one first, and how many run or wait.
func (m *Machine) runQueue(cpu int) (waiting []QueuedTask, running int) {
	rq := m.perCPU(cpu, "runqueues")
	if rq == 0 {
		return nil, 0
	}
	n, _ := m.mem.ReadU64(rq)
	m.list(rq+rqEntities, func(entry uint64) {
		task := entry - taskEntity
		if pid, err := m.mem.ReadU64(task + abi.TaskPID); err == nil {
			waiting = append(waiting, QueuedTask{PID: int(int32(pid)), Comm: m.comm(task)})
		}
	})
	return waiting, int(uint32(n >> (8 * rqRunning)))
}

// timers returns the timers of a vCPU, the next one first.
func (m *Machine) timers(cpu int) []TimerStatus {
	var all []TimerStatus
	add := func(at uint64, expires, function uint64, due func(uint64) int64, wheel bool) {
		when, err := m.mem.ReadU64(at + expires)
		f, ferr := m.mem.ReadU64(at + function)
		if err != nil || ferr != nil {
			return
		}
		if sym, _, ok := m.allSyms.Lookup(f); ok {
			all = append(all, TimerStatus{Function: sym.Name, Due: due(when), Wheel: wheel})
		}
	}
	if base := m.perCPU(cpu, "hrtimer_bases"); base != 0 {
		m.list(base+hrtimerActive, func(at uint64) {
			add(at, hrtimerExpires, hrtimerFunction, func(ns uint64) int64 { return int64(ns) }, false)
		})
	}
	if base := m.perCPU(cpu, "timer_bases"); base != 0 {
		jiffies, err := m.mem.ReadU64(m.symbol("jiffies"))
		now := m.Now()
		due := func(expires uint64) int64 { return now + int64(expires-jiffies)*(1e9/abi.HZ) }
		for slot := uint64(0); err == nil && slot < wheelSize; slot++ {
			pending, perr := m.mem.ReadU64(base + wheelPending + slot/64*8)
			switch {
			case perr != nil:
				return all
			case pending == 0:
				slot |= 63
			case pending>>(slot%64)&1 != 0:
				at, err := m.mem.ReadU64(base + wheelVectors + 8*slot)
				for n := 0; err == nil && at != 0 && n < mostQueued; n++ {
					add(at, timerExpires, timerFunction, due, true)
					at, err = m.mem.ReadU64(at)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b TimerStatus) int { return cmp.Compare(a.Due, b.Due) })
	return all[:min(len(all), mostQueued)]
}
