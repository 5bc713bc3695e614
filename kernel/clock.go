package kernel

import (
	"container/heap"
	"sync"
	"time"
)

// Clock is the machine's time. All delays above the machine go through it, so
// that a virtual one makes them happen when a test says so.
type Clock interface {
	// Now returns nanoseconds since boot (ktime_get).
	Now() int64
	// Wall returns nanoseconds since 1970 (ktime_get_real).
	Wall() int64
	// AfterFunc runs f in a new goroutine after d. stop cancels it and reports
	// whether it did so before f started.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	// alarm is AfterFunc for an f that does not wait: a virtual clock calls it
	// directly, at the instruction that makes it due.
	alarm(d time.Duration, f func()) (stop func() bool)
	// retired tells the clock how many instructions a vCPU has executed.
	retired(n uint64)
}

// realClock is the host's monotonic time.
type realClock struct{ boot time.Time }

// NewRealClock returns a clock that starts now and runs with the host's.
func NewRealClock() Clock { return &realClock{boot: time.Now()} }

func (c *realClock) Now() int64  { return int64(time.Since(c.boot)) }
func (c *realClock) Wall() int64 { return time.Now().UnixNano() }
func (c *realClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

func (c *realClock) alarm(d time.Duration, f func()) func() bool { return c.AfterFunc(d, f) }
func (c *realClock) retired(uint64)                              {}

// VirtualClock advances by one nanosecond per retired instruction, and by
// Advance. An idle machine does not advance it.
type VirtualClock struct {
	mu     sync.Mutex
	now    int64
	wall   int64
	timers timerHeap
	seq    uint64
	later  func(f func()) // does what AfterFunc was given; nil means in a new goroutine
}

// NewVirtualClock returns a clock at boot time; wall is the time of boot in
// nanoseconds since 1970.
func NewVirtualClock(wall int64) *VirtualClock { return &VirtualClock{wall: wall} }

// Now returns nanoseconds since boot.
func (c *VirtualClock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Wall returns nanoseconds since 1970.
func (c *VirtualClock) Wall() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall + c.now
}

// AfterFunc runs f in a new goroutine once the clock has advanced by d.
func (c *VirtualClock) AfterFunc(d time.Duration, f func()) func() bool {
	return c.alarm(d, func() {
		if c.later == nil {
			go f()
		} else {
			c.later(f)
		}
	})
}

// next returns the time until the next timer, or false if there is none.
func (c *VirtualClock) next() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 {
		return 0, false
	}
	return time.Duration(max(c.timers[0].at-c.now, 0)), true
}

func (c *VirtualClock) alarm(d time.Duration, f func()) func() bool {
	if d <= 0 {
		f()
		return func() bool { return false }
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	t := &virtualTimer{at: c.now + int64(d), seq: c.seq, f: f}
	heap.Push(&c.timers, t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.index < 0 {
			return false
		}
		heap.Remove(&c.timers, t.index)
		return true
	}
}

// Advance moves the clock by d and runs what has become due, earliest first.
func (c *VirtualClock) Advance(d time.Duration) { c.advance(int64(d)) }

func (c *VirtualClock) retired(n uint64) { c.advance(int64(n)) }

func (c *VirtualClock) advance(d int64) {
	c.mu.Lock()
	c.now += d
	var due []*virtualTimer
	for len(c.timers) > 0 && c.timers[0].at <= c.now {
		due = append(due, heap.Pop(&c.timers).(*virtualTimer))
	}
	c.mu.Unlock()
	for _, t := range due {
		t.f()
	}
}

type virtualTimer struct {
	at    int64
	seq   uint64
	f     func()
	index int // position in the heap, -1 once removed
}

type timerHeap []*virtualTimer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*virtualTimer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	t.index = -1
	*h = old[:len(old)-1]
	return t
}
