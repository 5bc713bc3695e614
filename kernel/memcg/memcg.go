// Package memcg bounds what clients can make the daemon hold, as a memory cgroup
// bounds a container. There is one limit for all of it: ring buffers, snapshots,
// instances, definitions and their filters, triggers and histograms, copies of
// modules, open files and what their readers have before them, inodes, locks, and
// requests under way.
//
// What is held is not counted piece by piece: the Go runtime knows it. Who is about
// to hold more asks for Room first, and is refused with ENOMEM where what lives and
// what he wants are more than the limit; what is garbage is collected before anybody
// is refused. The guest's RAM lies outside of Go's heap and has a size of its own.
package memcg

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Limit is such a limit. A nil one is none.
type Limit struct {
	max     int64
	reserve int64 // see Small

	seen   atomic.Int64 // what was in use when somebody last looked
	looked atomic.Int64 // and when, in ns since start
	start  time.Time

	mu           sync.Mutex // held for a collection
	began, ended time.Time  // of the last one

	returning atomic.Bool // memory is about to be given back to the host
}

// Minimum is the least that a limit may be: what the program itself holds, and room to
// work with.
const Minimum = 64 << 20

// New makes a limit of max bytes.
func New(max int64) *Limit {
	return &Limit{max: max, reserve: max/16 + 8<<20, start: time.Now()}
}

// Max is how many bytes may be held.
func (l *Limit) Max() int64 { return l.max }

// Guide has the Go runtime collect garbage in time: GOMEMLIMIT. It stands above the
// limit, so that a limit that has been reached does not keep the collector busy.
func (l *Limit) Guide() {
	debug.SetMemoryLimit(l.max + 4*l.reserve + 64<<20) // what the runtime needs for itself
}

// Room says whether n bytes more may be held: ENOMEM.
func (l *Limit) Room(n int) error { return l.within(int64(n), func() int64 { return l.max }) }

// Small is Room for what is needed to do anything at all, such as to open a file by
// which memory is given back. There is a reserve for that beyond the limit, and one
// more for root.
func (l *Limit) Small(root bool) error {
	return l.within(0, func() int64 {
		if root {
			return l.max + 2*l.reserve
		}
		return l.max + l.reserve
	})
}

// lookEvery is how old the number may be that small requests go by.
const lookEvery = 2 * time.Millisecond

// lump is what is looked at closely however often it comes.
const lump = 64 << 10

func (l *Limit) within(n int64, most func() int64) error {
	if l == nil {
		return nil
	}
	now := time.Since(l.start)
	fresh := now-time.Duration(l.looked.Load()) < lookEvery
	if fresh && n < lump && l.seen.Load()+n <= most() {
		return nil
	}
	if l.look()+n <= most() || l.collect(l.start.Add(now))+n <= most() {
		return nil
	}
	return fmt.Errorf("%d bytes beside %d are more than --memory allows (%d): %w", n, l.seen.Load(), most(), syscall.ENOMEM)
}

// look asks the runtime what is in use: objects, garbage among them, and stacks.
func (l *Limit) look() int64 {
	samples := [...]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples[:])
	used := int64(0)
	for _, s := range samples {
		used += int64(s.Value.Uint64())
	}
	l.seen.Store(used)
	l.looked.Store(int64(time.Since(l.start)))
	return used
}

// idle is how long there is no other collection after one: who asks at the limit
// without end must not keep the CPUs busy with it.
const idle = 20 * time.Millisecond

// collect is look without garbage: one collection serves all who asked before it began.
func (l *Limit) collect(asked time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.began.After(asked) {
		time.Sleep(time.Until(l.ended.Add(idle)))
		l.began = time.Now()
		runtime.GC()
		l.ended = time.Now()
	}
	return l.look()
}

// returnAfter is how long what was freed is kept for who may need it next.
const returnAfter = time.Second

// Freed says that much has been given back: the host gets it soon.
func (l *Limit) Freed() {
	if l == nil || l.returning.Swap(true) {
		return
	}
	time.AfterFunc(returnAfter, func() {
		l.returning.Store(false)
		debug.FreeOSMemory()
	})
}
