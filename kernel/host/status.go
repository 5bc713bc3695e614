package host

import (
	"cmp"
	"slices"
)

// TaskInfo is a task that makes the calls of a thread of the host.
type TaskInfo struct {
	Addr   uint64 // of its task_struct
	TID    int    // of the thread
	InCall bool
}

// Tasks returns the tasks of threads of the host, in the order of the threads' ids.
func (h *Host) Tasks() []TaskInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]TaskInfo, 0, len(h.held)+len(h.idle))
	for t := range h.held {
		all = append(all, TaskInfo{Addr: t.task, TID: t.tid, InCall: true})
	}
	for _, t := range h.idle {
		all = append(all, TaskInfo{Addr: t.task, TID: t.tid})
	}
	slices.SortFunc(all, func(a, b TaskInfo) int { return cmp.Compare(a.TID, b.TID) })
	return all
}

// EndedTasks returns the tasks of threads of the host that have ended, which the guest still has.
func (h *Host) EndedTasks() (addrs []uint64) {
	for _, t := range h.Tasks() {
		if t.TID > 0 && !t.InCall && !h.lives(t.TID) {
			addrs = append(addrs, t.Addr)
		}
	}
	return addrs
}
