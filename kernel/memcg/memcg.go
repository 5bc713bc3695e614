// Package memcg limits the memory that clients can make the daemon use, as a memory
// cgroup limits a container. One limit applies to ring buffers, snapshots, instances,
// definitions with their filters, triggers and histograms, copies of modules, open
// files with the text that they still have to return, inodes, locks, and pending
// requests.
//
// Allocations are not counted one by one; the Go runtime knows how much memory is in
// use. Code that is about to use more calls Room first, which fails with ENOMEM if
// the memory in use, after a garbage collection, and the requested amount exceed the
// limit. The guest's RAM is not in Go's heap and does not count.
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

// Limit is a limit on memory. A nil Limit allows everything.
type Limit struct {
	max     int64
	reserve int64 // see Small

	seen   atomic.Int64 // bytes in use at the time looked
	seenAt atomic.Int64 // ns since start
	start  time.Time

	mu           sync.Mutex // held during a garbage collection
	began, ended time.Time  // times of the last collection

	returning      atomic.Bool  // a timer to return memory to the host is set
	uses, seenUses atomic.Int64 // calls of used, and their number when returnIdle ran last
	kept           atomic.Int64 // the least that held has returned after memory was returned
}

// Minimum is the lowest limit that Parse accepts, in bytes: what the program itself
// needs, and some room to work with.
const Minimum = 64 << 20

// New returns a limit of max bytes.
func New(max int64) *Limit {
	return &Limit{max: max, reserve: max/16 + 8<<20, start: time.Now()}
}

// Max returns the limit in bytes.
func (l *Limit) Max() int64 { return l.max }

// Guide sets the Go runtime's memory limit (GOMEMLIMIT), so that it collects garbage
// in time. It is above l, so that the collector is not kept busy while l is reached.
func (l *Limit) Guide() {
	debug.SetMemoryLimit(l.max + 4*l.reserve + 64<<20) // 64 MiB for the runtime itself
}

// Room returns ENOMEM if n more bytes would exceed the limit. Whatever clients make the program
// hold for longer than a request asks for it.
func (l *Limit) Room(n int) error { return l.within(int64(n), func() int64 { return l.max }) }

// Small is Room for small amounts that every request needs while it lasts, such as opening a
// file by which memory can be freed. They may use a reserve beyond the limit, and root's
// a second one.
func (l *Limit) Small(root bool) error {
	return l.within(0, func() int64 {
		if root {
			return l.max + 2*l.reserve
		}
		return l.max + l.reserve
	})
}

// maxAge is how long small requests may use the last number of bytes in use.
const maxAge = 2 * time.Millisecond

// largeRequest is the size in bytes from which a request always reads the number of
// bytes in use.
const largeRequest = 64 << 10

func (l *Limit) within(n int64, most func() int64) error {
	if l == nil {
		return nil
	}
	l.used()
	now := time.Since(l.start)
	fresh := now-time.Duration(l.seenAt.Load()) < maxAge
	if fresh && n < largeRequest && l.seen.Load()+n <= most() {
		return nil
	}
	if l.look()+n <= most() || l.collect(l.start.Add(now))+n <= most() {
		return nil
	}
	return fmt.Errorf("%d bytes more than the %d in use would exceed --memory (%d): %w", n, l.seen.Load(), most(), syscall.ENOMEM)
}

// look asks the runtime for the bytes in use: objects, including garbage, and stacks.
func (l *Limit) look() int64 {
	samples := [...]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples[:])
	used := int64(0)
	for _, s := range samples {
		used += int64(s.Value.Uint64())
	}
	l.seen.Store(used)
	l.seenAt.Store(int64(time.Since(l.start)))
	return used
}

// gcInterval is the minimum time between collections, so that a client that keeps
// asking at the limit does not keep the CPUs busy.
const gcInterval = 20 * time.Millisecond

// collect is look after a garbage collection. One collection serves all callers that
// asked before it began.
func (l *Limit) collect(asked time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.began.After(asked) {
		time.Sleep(time.Until(l.ended.Add(gcInterval)))
		l.began = time.Now()
		runtime.GC()
		l.ended = time.Now()
	}
	return l.look()
}

// returnAfter is how long freed memory is kept for reuse before it is returned to the
// host, and idleFor how long the program looks before whether it has any.
const (
	returnAfter = time.Second
	idleFor     = 4 * time.Second
)

// worthReturning is the number of bytes from which memory is returned. A collection of
// what a small program holds takes some milliseconds of a processor.
const worthReturning = 8 << 20

// Freed is called when much memory has been freed. It returns the memory to the host
// soon.
func (l *Limit) Freed() {
	if l != nil {
		l.returnIn(returnAfter, debug.FreeOSMemory)
	}
}

// used notes that a client asks for something that may take or free memory. While clients
// do, the Go runtime keeps what has been freed, since it is needed again at once. What is left
// of it when they have stopped goes back to the host within 10 s.
func (l *Limit) used() {
	l.uses.Add(1)
	if !l.returning.Load() {
		l.returnIn(idleFor, l.returnIdle)
	}
}

// returnIn has give called after a time, unless that is going to happen anyway.
func (l *Limit) returnIn(after time.Duration, give func()) {
	if l.returning.Swap(true) {
		return
	}
	time.AfterFunc(after, func() {
		l.returning.Store(false)
		give()
	})
}

// busy is the number of uses in idleFor from which on memory is not returned: it is in use.
const busy = 4000

// returnIdle returns memory that is not in use, if that is worth it, and looks again later
// if clients have used some meanwhile.
func (l *Limit) returnIdle() {
	uses := l.uses.Load()
	since := uses - l.seenUses.Swap(uses)
	if since < busy && held()-l.kept.Load() >= worthReturning {
		debug.FreeOSMemory()
		if n, least := held(), l.kept.Load(); least == 0 || n < least {
			l.kept.Store(n)
		}
	}
	if since > 0 {
		l.returnIn(idleFor, l.returnIdle)
	}
}

// held returns the bytes of heap that the host has given.
func held() (n int64) {
	samples := [...]metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples[:])
	for _, s := range samples {
		n += int64(s.Value.Uint64())
	}
	return n
}
