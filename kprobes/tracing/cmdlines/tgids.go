package cmdlines

import (
	"iter"
	"sync/atomic"
)

// pidLimit is PID_MAX_LIMIT.
const pidLimit = 4 << 20

// TGIDs is tgid_map: the thread group ID of each task that hit an event while the
// option record-tgid was on.
type TGIDs struct {
	byPID atomic.Pointer[[pidLimit + 1]atomic.Int32] // nil until the option is first set
}

// Grow makes room for the IDs of all tasks; before, Save does nothing.
func (m *TGIDs) Grow() {
	if m.byPID.Load() == nil {
		m.byPID.CompareAndSwap(nil, new([pidLimit + 1]atomic.Int32))
	}
}

// Save is trace_save_tgid: it saves the thread group ID of a task. It runs in handler context.
func (m *TGIDs) Save(pid, tgid int32) {
	if all := m.byPID.Load(); all != nil && pid > 0 && pid <= pidLimit {
		all[pid].Store(tgid)
	}
}

// Find returns the thread group ID of a task, or 0 if none is saved.
func (m *TGIDs) Find(pid int32) int32 {
	if all := m.byPID.Load(); all != nil && pid > 0 && pid <= pidLimit {
		return all[pid].Load()
	}
	return 0
}

// All returns the saved IDs by pid, the lowest first.
func (m *TGIDs) All() iter.Seq2[int, int32] {
	return func(yield func(int, int32) bool) {
		all := m.byPID.Load()
		if all == nil {
			return
		}
		for pid := range all {
			if tgid := all[pid].Load(); tgid != 0 && !yield(pid, tgid) {
				return
			}
		}
	}
}
