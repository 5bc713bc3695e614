package hostview

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

func TestThreadGroups(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	me, tid := os.Getpid(), syscall.Gettid()
	var g ThreadGroups
	for range 2 { // the second time from the cache
		if pid, err := g.Of(tid); err != nil || pid != me {
			t.Fatalf("thread %d is of process %d, %v; want %d", tid, pid, err, me)
		}
	}
	g.known[tid] = 1 // as if the ID had belonged to another thread before
	if pid, err := g.Of(tid); err != nil || pid != me {
		t.Errorf("thread %d is of process %d, %v; want %d", tid, pid, err, me)
	}
}
