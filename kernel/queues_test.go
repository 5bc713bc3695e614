package kernel

import (
	"slices"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/btf/rawbtf"
	guestimage "github.com/kprobefs/kprobefs/kernel/guest"
)

// member returns a member of a structure of a guest's types.
func member(t *testing.T, in *btf.Type, name string) btf.Member {
	t.Helper()
	i := -1
	if in != nil {
		i = slices.IndexFunc(in.Members, func(m btf.Member) bool { return m.Name == name })
	}
	if i < 0 {
		t.Fatalf("no %s in %+v", name, in)
	}
	return in.Members[i]
}

// TestQueueLayout: the offsets are as in the guest's types.
func TestQueueLayout(t *testing.T) {
	for _, release := range []string{"6.1", "6.12"} {
		types, err := rawbtf.Parse(guestimage.RawBTF(release))
		if err != nil {
			t.Fatal(err)
		}
		at := func(path ...string) (bytes int) {
			in := types.Struct(path[0])
			for _, name := range path[1:] {
				m := member(t, in, name)
				bytes += m.Bit / 8
				in = m.Type
			}
			return bytes
		}
		for _, c := range []struct {
			got  int
			path []string
		}{
			{rqRunning, []string{"rq", "nr_running"}},
			{rqEntities, []string{"rq", "cfs", "tasks_timeline"}},
			{taskEntity, []string{"task_struct", "se", "group_node"}},
			{hrtimerActive, []string{"hrtimer_clock_base", "active"}},
			{hrtimerExpires, []string{"hrtimer", "node", "expires"}},
			{hrtimerFunction, []string{"hrtimer", "function"}},
			{wheelPending, []string{"timer_base", "pending_map"}},
			{wheelVectors, []string{"timer_base", "vectors"}},
			{timerExpires, []string{"timer_list", "expires"}},
			{timerFunction, []string{"timer_list", "function"}},
		} {
			if want := at(c.path...); c.got != want {
				t.Errorf("%s: %v is at %d, not %d", release, c.path, want, c.got)
			}
		}
		if n := member(t, types.Struct("timer_base"), "vectors").Type.Count; n != wheelSize {
			t.Errorf("%s: the wheel has %d slots, not %d", release, n, wheelSize)
		}
	}
}

// TestTimers: a task that sleeps has its timer on its vCPU, and a vCPU that runs one has a tick.
func TestTimers(t *testing.T) {
	m := boot(t, 2)
	m.begin(1, m.symbol("msleep"), 1_000_000) // ends with the machine
	soon(t, "the task's timer", func() bool {
		all := m.CPUStatus()[1].Timers
		i := slices.IndexFunc(all, func(x TimerStatus) bool { return x.Function == "process_timeout" && x.Wheel })
		return i >= 0 && all[i].Due > 900e9 && all[i].Due < 1200e9
	})
	m = boot(t, 1)
	_, end := m.spinning(0)
	defer end()
	soon(t, "the tick", func() bool {
		c := m.CPUStatus()[0]
		return c.Runnable == 1 && slices.ContainsFunc(c.Timers, func(x TimerStatus) bool { return x.Function == "tick_sched_timer" && !x.Wheel })
	})
}

// TestRunQueue: the tasks of a run queue are read in their order, and a list without an end is left.
func TestRunQueue(t *testing.T) {
	m := boot(t, 2)
	m.StopMachine(func() {
		head, task := m.perCPU(0, "runqueues")+rqEntities, m.TaskOn(1)
		entry := task + taskEntity
		was, then := m.u64(head), m.u64(entry)
		m.put(head, entry)
		m.put(entry, head)
		if got, _ := m.runQueue(0); len(got) != 1 || got[0].Comm != m.comm(task) {
			t.Errorf("one task: %+v", got)
		}
		m.put(entry, entry)
		if got, _ := m.runQueue(0); len(got) != mostQueued {
			t.Errorf("a circle: %d tasks", len(got))
		}
		m.put(entry, 1<<62)
		if got, _ := m.runQueue(0); len(got) != 1 {
			t.Errorf("a link to nowhere: %+v", got)
		}
		m.put(head, was)
		m.put(entry, then)
	})
}

func (m *testMachine) u64(addr uint64) uint64 {
	v, err := m.mem.ReadU64(addr)
	if err != nil {
		m.t.Error(err)
	}
	return v
}

func (m *testMachine) put(addr, v uint64) {
	if err := m.mem.WriteU64(addr, v); err != nil {
		m.t.Error(err)
	}
}
