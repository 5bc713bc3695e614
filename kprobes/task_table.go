package kprobes

import (
	"iter"
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// TaskTable holds a T for each task that Make was called for, by the address of its
// task_struct. It takes no locks, so handlers may use it. Entries are never removed:
// there are at most as many as task_structs fit in the guest.
type TaskTable[T any] struct {
	chains [1 << taskBits]atomic.Pointer[taskEntry[T]]
}

const taskBits = 8

type taskEntry[T any] struct {
	task  uint64
	next  *taskEntry[T] // in the hash chain
	value T
	_     [cacheLines]byte // what follows is another task's, which may run on another CPU
}

func (tt *TaskTable[T]) chain(task uint64) *atomic.Pointer[taskEntry[T]] {
	return &tt.chains[abi.Hash64(task, taskBits)]
}

// Of returns the T of a task, or nil if it has none.
func (tt *TaskTable[T]) Of(task uint64) *T {
	for e := tt.chain(task).Load(); e != nil; e = e.next {
		if e.task == task {
			return &e.value
		}
	}
	return nil
}

// Make returns the T of a task, a new one if it has none.
func (tt *TaskTable[T]) Make(task uint64) *T {
	for {
		if v := tt.Of(task); v != nil {
			return v
		}
		chain := tt.chain(task)
		e := &taskEntry[T]{task: task, next: chain.Load()}
		if tt.Of(task) == nil && chain.CompareAndSwap(e.next, e) {
			return &e.value
		}
	}
}

// All iterates over the tasks, with the T of each.
func (tt *TaskTable[T]) All() iter.Seq2[uint64, *T] {
	return func(yield func(uint64, *T) bool) {
		for i := range tt.chains {
			for e := tt.chains[i].Load(); e != nil; e = e.next {
				if !yield(e.task, &e.value) {
					return
				}
			}
		}
	}
}
