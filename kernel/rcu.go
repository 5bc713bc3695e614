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
// the guest's preemption and interrupts on: no handler and no stepped copy that
// was under way when it was called is any more.
func (m *Machine) SynchronizeRCU() {
	for _, v := range m.cpus {
		v.awaitQuiescent()
	}
}

func (v *vcpu) awaitQuiescent() {
	start := v.quiet.Load()
	for i := 0; v.quiet.Load() == start && v.started.Load() && !v.m.closing.Load(); i++ {
		if v.resting() {
			return
		}
		v.asked.Store(true)
		v.cpu.Kick()
		if i < 50 {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// passQuiescent runs on the vCPU after an exit has been dealt with. In a slot or
// a detour nothing is quiescent: their bytes may be what somebody waits to free.
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
// preempted in the kernel, has slept of its own accord or left the kernel: no
// task stands in text that was reachable before. The guest's own function does
// the waiting on a kernel thread made for it.
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
	m.SynchronizeRCU() // the guest takes a CPU in an interrupt of its idle task for idle
}

// rcuThread gives the kernel thread that waits for tasks; one waits at a time.
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
