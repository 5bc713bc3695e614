package kprobes

import (
	"sync"
	"testing"
)

// TestUnwindRunningTask looks for the return addresses of a task's hooked calls, as an unwinder
// on another vCPU does, while the task makes them and returns. With the race detector it fails
// where one looks at what the other is changing. An address that is found is one that the slot
// has had.
func TestUnwindRunningTask(t *testing.T) {
	const trampoline, task, calls, rounds = 0x1000, 0xffff888000001000, 3, 20000
	k := &Kprobes{}
	pool := newPool(nil, 2*calls, 0, 1)
	hooks := k.returning.tasks.Make(task)
	slot := func(call int) uint64 { return uint64(0xffffc90000001000) - 8*uint64(call) }
	var unwinders sync.WaitGroup
	ended := make(chan struct{})
	for range 2 {
		unwinders.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				for call := range calls {
					if real, ok := k.returning.real(task, slot(call), trampoline); ok && real&0xff != uint64(call) {
						t.Errorf("%#x is found in the slot of call %d", real, call)
					}
				}
			}
		})
	}
	for round := range rounds {
		for call := range calls {
			ri := pool.get(0)
			ri.hooked(slot(call), uint64(round%7+1)<<20|uint64(call))
			hooks.push(ri)
			if call == calls-1 && round&1 == 0 { // a second hook of the same call
				ri = pool.get(0)
				ri.hooked(slot(call), trampoline)
				hooks.push(ri)
			}
		}
		for call := calls - 1; call >= 0; call-- {
			first, real := hooks.take(slot(call), trampoline)
			want := 1
			if call == calls-1 && round&1 == 0 {
				want = 2
			}
			n := 0
			for ri := first; ri != nil; ri = ri.next.Load() {
				n++
			}
			if n != want || real != uint64(round%7+1)<<20|uint64(call) {
				t.Fatalf("round %d: call %d returns to %#x with %d hooks", round, call, real, n)
			}
			giveBack(first)
		}
	}
	close(ended)
	unwinders.Wait()
	if hooks.first.Load() != nil {
		t.Error("hooks are left")
	}
}
