package ring

import (
	"slices"
	"sync"
	"sync/atomic"
)

// waiters are the consuming readers that wait for an event. A writer wakes them without
// a lock, because changes replace the whole list.
type waiters struct {
	mu   sync.Mutex // guards the replacing of list
	list atomic.Pointer[[]chan struct{}]
}

// add returns a channel that becomes ready at the next event. Call remove when done.
func (w *waiters) add() chan struct{} {
	c := make(chan struct{}, 1)
	w.change(func(list []chan struct{}) []chan struct{} { return append(list, c) })
	return c
}

func (w *waiters) remove(c chan struct{}) {
	w.change(func(list []chan struct{}) []chan struct{} {
		return slices.DeleteFunc(list, func(x chan struct{}) bool { return x == c })
	})
}

func (w *waiters) change(f func([]chan struct{}) []chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var old []chan struct{}
	if p := w.list.Load(); p != nil {
		old = slices.Clone(*p)
	}
	list := f(old)
	w.list.Store(&list)
}

// wake is rb_wake_up_waiters. It runs in handler context.
func (w *waiters) wake() {
	list := w.list.Load()
	if list == nil {
		return
	}
	for _, c := range *list {
		select {
		case c <- struct{}{}:
		default: // it is already woken
		}
	}
}

// count returns how many wait.
func (w *waiters) count() int {
	if list := w.list.Load(); list != nil {
		return len(*list)
	}
	return 0
}
