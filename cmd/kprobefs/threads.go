package main

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// threadGroups remembers which process a thread belongs to.
type threadGroups struct {
	mu    sync.Mutex
	known map[int]int // by thread
}

// maxGroups bounds how many threads are remembered.
const maxGroups = 1 << 12

// of is proc.Process. A number may be another thread's by now: signal 0, which does
// nothing, finds a thread only in its process.
func (g *threadGroups) of(tid int) (int, error) {
	g.mu.Lock()
	pid, ok := g.known[tid]
	g.mu.Unlock()
	if ok && !errors.Is(unix.Tgkill(pid, tid, 0), unix.ESRCH) {
		return pid, nil
	}
	pid, err := proc.Process(tid)
	if err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= maxGroups {
		g.known = map[int]int{}
	}
	g.known[tid] = pid
	return pid, nil
}
