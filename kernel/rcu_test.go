package kernel

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// holdTime is how long a test watches for a grace period that ends too early. A
// longer time finds more errors; a slow machine cannot make a test fail.
const holdTime = 50 * time.Millisecond

// holds checks that c is not closed yet.
func holds(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		t.Errorf("%s has ended too early", what)
	case <-time.After(holdTime):
	}
}

// background runs f in a goroutine and returns a channel that is closed when f has
// returned.
func background(f func()) <-chan struct{} {
	c := make(chan struct{})
	go func() { f(); close(c) }()
	return c
}

// readerCode increments the word at rdi with preemption off until the word at rsi is
// not 0.
func (m *testMachine) readerCode() []byte {
	count := m.symbol("__preempt_count")
	code := []byte{0x65, 0xff, 0x04, 0x25} // incl %gs:count
	code = binary.LittleEndian.AppendUint32(code, uint32(count))
	code = append(code, 0x48, 0xff, 0x07, 0x48, 0x83, 0x3e, 0x00, 0x74, 0xf7, // 1: incq (%rdi); cmpq $0,(%rsi); je 1b
		0x65, 0xff, 0x0c, 0x25) // decl %gs:count
	code = binary.LittleEndian.AppendUint32(code, uint32(count))
	return append(code, 0xc3)
}

// TestSynchronizeRCU: a grace period waits for vCPUs that may execute handlers or
// copies of instructions, and not for others.
func TestSynchronizeRCU(t *testing.T) {
	for _, c := range []struct {
		name    string
		code    func(m *testMachine) uint64
		irqsOff uint64
		waits   bool
		tasks   bool // SynchronizeRCUTasks waits
	}{
		{"in text", func(m *testMachine) uint64 { return m.coreCode(spinCode...) }, 0, false, true},
		{"in text, interrupts off", func(m *testMachine) uint64 { return m.coreCode(spinCode...) }, 1, true, true},
		{"in text, preemption off", func(m *testMachine) uint64 { return m.coreCode(m.readerCode()...) }, 0, true, true},
		{"in a slot", func(m *testMachine) uint64 { return m.slotCode(spinCode...) }, 0, true, true},
		{"asleep", func(m *testMachine) uint64 { return 0 }, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := boot(t, 2)
			page := m.page()
			ram := m.mem.Phys(page-abi.DirectMap, abi.PageSize)
			var ended <-chan error
			if code := c.code(m); code != 0 {
				ended = m.begin(1, code, page, page+2048, c.irqsOff)
				soon(t, "the vCPU spins", func() bool {
					var n byte
					m.StopMachine(func() { n = ram[0] })
					return n != 0
				})
			} else {
				m.begin(1, m.symbol("msleep"), 1_000_000)
				soon(t, "the task sleeps", func() bool { return m.Idle() })
			}
			rcu, tasks := background(m.SynchronizeRCU), background(m.SynchronizeRCUTasks)
			for _, p := range []struct {
				what  string
				c     <-chan struct{}
				waits bool
			}{{"SynchronizeRCU", rcu, c.waits}, {"SynchronizeRCUTasks", tasks, c.tasks}} {
				if p.waits {
					holds(t, p.what, p.c)
				} else {
					within(t, p.what, p.c)
				}
			}
			m.StopMachine(func() { ram[2048] = 1 })
			within(t, "SynchronizeRCU at last", rcu)
			within(t, "SynchronizeRCUTasks at last", tasks)
			if ended != nil {
				if err := within(t, "the guest's function", ended); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestSynchronizeRCUHandler: a grace period waits for a Go handler that is running,
// and not for one that begins later.
func TestSynchronizeRCUHandler(t *testing.T) {
	m := boot(t, 2)
	var rcu <-chan struct{}
	m.onVCPU(1, func(*vcpu) {
		rcu = background(m.SynchronizeRCU)
		holds(t, "SynchronizeRCU", rcu)
	})
	within(t, "SynchronizeRCU", rcu)
}

// TestSynchronizeRCUAtOnce: many concurrent waits for both kinds of grace period all
// return.
func TestSynchronizeRCUAtOnce(t *testing.T) {
	m := boot(t, 2)
	_, end := m.spinning(0)
	ends := []<-chan struct{}{}
	for range 8 {
		ends = append(ends, background(m.SynchronizeRCU))
	}
	for _, c := range ends {
		within(t, "SynchronizeRCU", c)
	}
	end()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(m.SynchronizeRCUTasks)
	}
	within(t, "SynchronizeRCUTasks", background(wg.Wait))
}

// TestSynchronizeRCUNotStarted: a vCPU that the guest has not started does not delay
// grace periods.
func TestSynchronizeRCUNotStarted(t *testing.T) {
	v := bareVCPU(t)
	within(t, "SynchronizeRCU", background(v.m.SynchronizeRCU))
}
