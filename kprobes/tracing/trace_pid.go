package tracing

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// pidList is trace_pid_list: a set of tasks. It is never modified, only replaced.
type pidList map[int32]struct{}

// maxFilteredPID is the limit of trace_pid_list.
const maxFilteredPID = 1 << 30

// pidFilters says which tasks an array records.
//
// Handlers read the lists without a lock; they are replaced under Tracer.mu.
type pidFilters struct {
	lists [4]atomic.Pointer[pidList] // by PIDFile; nil means no filter
}

// ignores is trace_ignore_this_task: whether the array ignores hits of the task. It
// runs in handler context.
func (f *pidFilters) ignores(pid int32) bool { return f.ignoresIn(pid, pidOnly, pidNot) }

// ignoresFunctions is the same for functions that the task enters.
func (f *pidFilters) ignoresFunctions(pid int32) bool {
	return f.ignoresIn(pid, pidFunctionOnly, pidFunctionNot)
}

func (f *pidFilters) ignoresIn(pid int32, onlyFile, notFile PIDFile) bool {
	if only := f.lists[onlyFile].Load(); only != nil {
		if _, ok := (*only)[pid]; !ok {
			return true
		}
	}
	if not := f.lists[notFile].Load(); not != nil {
		_, ok := (*not)[pid]
		return ok
	}
	return false
}

// PIDFile is one of the files that list tasks.
type PIDFile int

// The files.
const (
	pidOnly PIDFile = iota
	pidNot
	pidFunctionOnly
	pidFunctionNot

	SetEventPID         = pidOnly
	SetEventNotracePID  = pidNot
	SetFtracePID        = pidFunctionOnly
	SetFtraceNotracePID = pidFunctionNot
)

// PIDs is one of the files of an array.
type PIDs struct {
	array *Array
	which PIDFile
}

// PIDs returns one of the array's lists of tasks.
func (a *Array) PIDs(which PIDFile) PIDs { return PIDs{a, which} }

// Lines returns the lines of the file, in ascending order, by a function that appends line i
// (from 0) to b and reports whether there is one. A reader of the file holds a number for
// each line, since the text of a long list is many times larger.
func (p PIDs) Lines() func(b []byte, i int) ([]byte, bool) {
	which := p.which
	list := p.array.pids.lists[which].Load()
	if list == nil {
		return func(b []byte, i int) ([]byte, bool) {
			if i > 0 || which < pidFunctionOnly {
				return b, false
			}
			return append(b, "no pid\n"...), true
		}
	}
	pids := make([]int32, 0, len(*list))
	for pid := range *list {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return func(b []byte, i int) ([]byte, bool) {
		if i >= len(pids) {
			return b, false
		}
		return append(strconv.AppendInt(b, int64(pids[i]), 10), '\n'), true
	}
}

// Clear is ftrace_clear_event_pids, which an open with O_TRUNC calls.
func (p PIDs) Clear() {
	p.array.tracer.mu.Lock()
	defer p.array.tracer.mu.Unlock()
	p.array.pids.store(p.which, nil)
}

// Write is trace_pid_write: it adds the numbers, separated by blanks, to the list,
// and returns how many bytes it consumed, which ends with the first NUL that has no
// number before it. It fails with EINVAL if a word is not a number, with EPERM if a
// number is 2^30 or more, and with ENOMEM if there is no memory for the list; the list then
// stays as it was.
func (p PIDs) Write(data []byte) (int, error) {
	a := p.array
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	if err := a.expand(); err != nil {
		return 0, err
	}
	old := a.pids.lists[p.which].Load()
	more := len(data) / 2 // a digit and a blank
	if old != nil {
		more += len(*old) // until the new list has taken its place
	}
	if err := a.tracer.checkRoom(pidBytes * more); err != nil {
		return 0, err
	}
	list := pidList{}
	if old != nil {
		list = maps.Clone(*old)
	}
	taken := 0
	for taken < len(data) {
		word, used, err := nextWord(data[taken:], pidWordSize)
		if err != nil {
			return 0, err
		}
		if word == "" && !a.tracer.conf.has[release.BlanksTaken] && len(list) > 0 {
			break
		}
		taken += used
		if word == "" {
			break
		}
		v, err := kstrtox.ParseUint(word, 0, 1<<64-1)
		if err != nil {
			return 0, fmt.Errorf("pid %q: %w", word, syscall.EINVAL)
		}
		if limit := release.PIDMax.Of(a.tracer.conf.Linux); limit != 0 && v >= limit {
			return 0, fmt.Errorf("pid %q: %w", word, syscall.EINVAL)
		}
		if uint32(v) >= maxFilteredPID {
			return 0, fmt.Errorf("pid %q: %w", word, syscall.EPERM)
		}
		list[int32(v)] = struct{}{}
	}
	a.pids.store(p.which, list)
	return taken, nil
}

// pidBytes is what a pid takes in a pidList that has just grown.
const pidBytes = 16

// pidWordSize is PID_BUF_SIZE and a NUL.
const pidWordSize = 128

// store replaces a list. An empty one is no filter. The caller holds Tracer.mu.
func (f *pidFilters) store(which PIDFile, list pidList) {
	if len(list) == 0 {
		f.lists[which].Store(nil)
		return
	}
	f.lists[which].Store(&list)
}

// follow calls change with a copy of a list, if there is one, and installs the copy if change
// returns true. The caller holds Tracer.mu.
func (f *pidFilters) follow(which PIDFile, change func(pidList) bool) {
	old := f.lists[which].Load()
	if old == nil {
		return
	}
	if list := maps.Clone(*old); change(list) {
		f.store(which, list)
	}
}

// Forked is event_filter_pid_sched_process_fork: with the option event-fork, a list
// that has a task gets its children.
func (t *Tracer) Forked(parent, child int32) {
	t.followFork(func(list pidList) bool {
		_, ok := list[parent]
		list[child] = struct{}{}
		return ok
	})
}

// Exited is event_filter_pid_sched_process_exit: with the option event-fork, a task
// that has ended is removed from the lists. What programs keep of the task is freed. The task must not run any more, as Linux
// calls this when it frees the task.
func (t *Tracer) Exited(pid int32) {
	t.bpf.TaskExited(pid)
	t.followFork(func(list pidList) bool {
		_, ok := list[pid]
		delete(list, pid)
		return ok
	})
}

// followFork calls change with a copy of each list of the arrays that have the option,
// and installs the copy if change returns true.
func (t *Tracer) followFork(change func(pidList) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.arrays {
		for which := range PIDFile(len(a.pids.lists)) {
			follow := optEventFork
			if which >= pidFunctionOnly {
				follow = optFunctionFork
			}
			if a.has(follow) {
				a.pids.follow(which, change)
			}
		}
	}
}
