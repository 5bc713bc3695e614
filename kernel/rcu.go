package kernel

import (
	"context"
	"encoding/binary"
	"runtime"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// SynchronizeRCU returns when each vCPU has been seen outside Go handlers with
// the guest's preemption and interrupts enabled. By then all handlers and stepped
// copies that were in progress at the call have ended.
func (m *Machine) SynchronizeRCU() {
	for _, v := range m.cpus {
		v.awaitQuiescent()
	}
}

func (v *vcpu) awaitQuiescent() {
	start := v.quiet.Load()
	for i := 0; v.quiet.Load() == start && v.started.Load() && !v.m.over(); i++ {
		if v.resting() {
			return
		}
		v.asked.Store(true)
		if v.m.seq != nil {
			v.m.seq.drive()
			continue
		}
		v.cpu.Kick()
		v.wakeUp()
		if i < 50 {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// passQuiescent runs on the vCPU after each exit. A vCPU in a slot or a detour is
// not quiescent: somebody may be waiting to free those bytes.
func (v *vcpu) passQuiescent() {
	if v.cpu.RFlags&abi.FlagIF == 0 || v.cpu.RIP >= abi.SlotsBase && v.cpu.RIP < abi.ModulesEnd {
		return
	}
	p := v.percpu()
	if p.current != nil && binary.LittleEndian.Uint32(p.preempt)&0x7fffffff != 0 {
		return
	}
	v.asked.Store(false)
	v.quiet.Add(1)
}

// SynchronizeRCUTasks returns when every task that was running, or was
// preempted in the kernel, has voluntarily slept or left the kernel, so that no
// task is in text that was reachable before. It calls the guest's
// synchronize_rcu_tasks on a kernel thread made for it.
func (m *Machine) SynchronizeRCUTasks() {
	addr := m.symbol("synchronize_rcu_tasks")
	if addr == 0 {
		m.SynchronizeRCU()
		return
	}
	ctx := context.Background()
	t, err := m.rcuThread(ctx)
	if err != nil {
		return // the machine has stopped: nothing runs any more
	}
	_, _ = t.Func(ctx, addr, 1)
	m.rcuTask <- t
	m.SynchronizeRCU() // the guest counts a CPU as idle when an interrupt hits its idle task
}

// rcuThread returns the kernel thread that waits for tasks; there is one, for one waiter at a time.
func (m *Machine) rcuThread(ctx context.Context) (*host.Task, error) {
	m.rcuOnce.Do(func() {
		t, err := m.host.Kthread(ctx, "rcu_tasks_kthre")
		m.rcuErr = err
		m.rcuTask <- t
	})
	if m.rcuErr != nil {
		return nil, m.rcuErr
	}
	return <-m.rcuTask, nil
}
