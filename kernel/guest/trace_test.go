package guest_test

import (
	"encoding/binary"
	"strings"
	"sync"
	"testing"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// tracepoints returns the names of all tracepoints of the guest, by address.
func (m *machine) tracepoints() map[uint64]string {
	names := map[uint64]string{}
	for _, s := range m.Symbols().All() {
		if name, ok := strings.CutPrefix(s.Name, "__tracepoint_"); ok {
			if _, ok := m.Tracepoint(name); ok {
				names[s.Addr] = name
			}
		}
	}
	return names
}

// TestTracepoints: each tracepoint reports the guest's activity while it is enabled,
// and nothing before and after.
func TestTracepoints(t *testing.T) {
	m := boot(t, 2)
	names := m.tracepoints()
	if len(names) < 40 {
		t.Fatalf("%d tracepoints", len(names))
	}
	var mu sync.Mutex
	hits := map[string][]byte{}
	n := 0
	m.SetHandlers(kernel.Handlers{Tracepoint: func(tr *abi.Trap) {
		mu.Lock()
		defer mu.Unlock()
		n++
		hits[names[tr.Arg]] = append([]byte{}, tr.Data...)
		if tr.Task == 0 || tr.Regs.SP == 0 {
			t.Errorf("%s: task %#x, sp %#x", names[tr.Arg], tr.Task, tr.Regs.SP)
		}
	}})
	if calls := m.Syscalls(); len(calls) != 451 || calls[0] != "read" || calls[257] != "openat" || calls[7] != "poll" || calls[335] != "" {
		t.Errorf("system calls: %q", calls)
	}
	work := func() {
		m.call("kfree", m.call("__kmalloc", 100, gfpKernel))
		m.call("msleep", 5)
		m.call("kfree", m.call("__kmalloc", 20000, gfpKernel))
	}
	work()
	if n != 0 {
		t.Fatalf("%d records while all are off", n)
	}
	for addr, name := range names {
		if err := m.SetTracepoint(addr, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	work()
	for addr := range names {
		if err := m.SetTracepoint(addr, false); err != nil {
			t.Error(err)
		}
	}
	m.SynchronizeRCUTasks() // a task that has passed the site may still report
	mu.Lock()
	for _, want := range strings.Fields(`kmalloc kfree sched_switch sched_waking sched_wakeup sched_stat_runtime
		timer_init timer_start timer_cancel timer_expire_entry timer_expire_exit softirq_raise softirq_entry softirq_exit
		hrtimer_start hrtimer_expire_entry local_timer_entry local_timer_exit mm_page_alloc mm_page_free rcu_utilization`) {
		if hits[want] == nil {
			t.Errorf("%s did not tell anything", want)
		}
	}
	if r := hits["kmalloc"]; len(r) >= 40 {
		if req := binary.LittleEndian.Uint64(r[24:]); req != 20000 {
			t.Errorf("kmalloc of 20000 bytes reported %d", req)
		}
	}
	before := n
	mu.Unlock()
	work()
	mu.Lock()
	defer mu.Unlock()
	if n != before {
		t.Errorf("%d records after all are off", n-before)
	}
}
