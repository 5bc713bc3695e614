// Package ring is the kernel's trace ring buffer (kernel/trace/ring_buffer.c): for each
// vCPU a fixed number of pages, which its hits fill with events and from which readers
// take or copy them.
//
// It handles bytes and times: the layout of an event's data in a page, in the binary
// format that trace_pipe_raw passes to tools, and which events are there to read,
// were read, overwritten or refused. It does not know what the data mean, which clock
// the times are of, or who records and reads; package tracing does.
//
// Three ideas carry it:
//
//   - Writing an event takes one lock, which only that vCPU's writers take. The lock
//     that readers take is taken by a writer only when it starts a page. Write, Commit,
//     SetOn, Swap, SwapCPU and Swaps may run in handler context and allocate nothing.
//   - A consuming reader exchanges a page of its own for the oldest page of the ring, so
//     that what it has begun to read cannot be overwritten. An Iterator copies pages and
//     consumes nothing.
//   - Every event is in the buffer or in a counter (Stats).
//
// ring_buffer.go has the Buffer and what changes it as a whole, cpu.go the pages of one
// vCPU, page.go the format; write.go, consume.go and iterator.go write and read, and
// waiters.go wakes readers that wait.
package ring

import (
	"sync"
	"sync/atomic"
)

// Buffer is struct trace_buffer: for each vCPU, a fixed number of pages in Linux's binary
// format. Each vCPU writes to its own pages; readers copy whole pages. When all pages
// are full, the oldest one is overwritten and its events are counted as overrun, or,
// without overwrite, the new event is counted as dropped: every event is in the buffer
// or in a counter.
//
// All methods may be called at any time, with one exception: Resize, SetPageBytes and
// Resized must exclude one another.
type Buffer struct {
	cpus      []cpuBuffer
	overwrite atomic.Bool
	access    sync.RWMutex  // write-locked to consume events of all vCPUs, read-locked for one's; taken before all other locks
	disabled  atomic.Bool   // tracing_on is 0
	swaps     atomic.Uint32 // number of swaps with the snapshot
	paused    atomic.Int32  // record_disabled: recording is off while it is above 0
	waiters   waiters
	copies    sync.Pool // of *[]byte with room for two pages, for readers of trace
}

// Stats are the counters of one vCPU's buffer.
type Stats struct {
	Entries uint64 // events that can be read
	Overrun uint64 // events lost to newer ones
	Dropped uint64 // events lost to older ones
	Read    uint64 // events that consuming readers took
	Bytes   uint64 // of events that can be read
	Oldest  int64  // time of the first event of the oldest page
}

// New makes a buffer of pages pages (at least 2) of size bytes, usually PageSize, for
// each of cpus vCPUs.
func New(cpus, pages, size int) *Buffer {
	b := &Buffer{cpus: make([]cpuBuffer, cpus)}
	b.overwrite.Store(true)
	for i := range b.cpus {
		b.cpus[i].take(newCPUPages(pages, size))
		b.cpus[i].resized = pages * (size - PageHeader)
	}
	return b
}

// PagesFor returns how many pages of page bytes hold size bytes of events, at least 2.
func PagesFor(page int, size uint64) int {
	room := uint64(page - PageHeader)
	return int(max((size+room-1)/room, 2))
}

// Free releases the buffer's memory. Nothing is written to the buffer afterwards, and
// readers find it empty.
func (b *Buffer) Free() {
	for i := range b.cpus {
		c := &b.cpus[i]
		c.off.Store(true)
		fresh := newCPUPages(1, PageHeader)
		c.lock()
		c.take(fresh)
		c.unlock()
	}
}

// Resize sets the number of pages of one vCPU, or of all if cpu is -1. It keeps as many
// of the newest events as fit.
func (b *Buffer) Resize(cpu, pages int) {
	for i := range b.cpus {
		if cpu >= 0 && i != cpu {
			continue
		}
		c := &b.cpus[i]
		size := b.PageBytes()
		more := newPages(pages-b.Pages(i), size) // allocated before locking, because vCPUs wait for the lock
		c.lock()
		if lack := pages - len(c.pages) - len(more); lack > 0 { // a snapshot of another size has come
			more = append(more, newPages(lack, size)...)
		}
		if len(c.pages) != pages {
			c.resize(pages, more)
		}
		c.unlock()
		c.resized = pages * (size - PageHeader)
	}
}

// PageBytes returns the size of the pages, with their headers.
func (b *Buffer) PageBytes() int {
	c := &b.cpus[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.reader.data)
}

// SetPageBytes is ring_buffer_subbuf_order_set: all vCPUs get empty pages of that size,
// with at least as much room in total as before. The old events can no longer be read,
// but the counters still include them: subbuf_size.
func (b *Buffer) SetPageBytes(size int) {
	for i := range b.cpus {
		c := &b.cpus[i]
		fresh := newCPUPages(PagesFor(size, uint64(b.Size(i))), size)
		c.lock()
		old := c.cpuPages
		fresh.stamp, fresh.overrun, fresh.consumed = old.stamp, old.overrun, old.consumed
		fresh.reported = old.overrun
		fresh.dropped.Store(old.dropped.Load())
		fresh.written, fresh.bytes = old.written+old.current.entered(), old.bytes+uint64(old.current.used())
		fresh.retired = old.entries()
		c.take(fresh)
		c.unlock()
	}
}

// Reset empties the buffer of one vCPU, or of all if cpu is -1, and resets its
// counters.
func (b *Buffer) Reset(cpu int) {
	for i := range b.cpus {
		if cpu >= 0 && i != cpu {
			continue
		}
		c := &b.cpus[i]
		c.lock()
		c.reset()
		c.unlock()
	}
}

// Swap is ring_buffer_swap_cpu for all vCPUs at once: it swaps the pages with
// another buffer's. It runs in handler context. All callers that swap the same two
// buffers must name them in the same order.
func (b *Buffer) Swap(other *Buffer) {
	for i := range b.cpus {
		b.cpus[i].lock()
		other.cpus[i].lock()
	}
	b.swaps.Add(1)
	for i := range b.cpus {
		b.cpus[i].exchange(&other.cpus[i])
		other.cpus[i].unlock()
		b.cpus[i].unlock()
	}
}

// SwapCPU is ring_buffer_swap_cpu: it swaps the pages of one vCPU.
func (b *Buffer) SwapCPU(other *Buffer, cpu int) {
	mine, its := &b.cpus[cpu], &other.cpus[cpu]
	mine.lock()
	defer mine.unlock()
	its.lock()
	defer its.unlock()
	mine.exchange(its)
}

// CPUs returns the number of vCPUs that have a buffer.
func (b *Buffer) CPUs() int { return len(b.cpus) }

// Stats returns the counters of one vCPU.
func (b *Buffer) Stats(cpu int) Stats {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Entries: c.entries(), Overrun: c.overrun, Dropped: c.dropped.Load(), Read: c.consumed,
		Bytes: c.bytes + uint64(c.current.used()), Oldest: c.page(min(c.head, c.tail)).stamp(),
	}
}

// Pages returns how many pages a vCPU has, not counting the reader's page.
func (b *Buffer) Pages(cpu int) int {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pages)
}

// Size returns how many bytes a vCPU's pages hold: ring_buffer_size.
func (b *Buffer) Size(cpu int) int {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pages) * c.reader.room()
}

// Bytes returns the size of the buffer's pages, not counting its readers', and
// 0 for nil.
func (b *Buffer) Bytes() int {
	if b == nil {
		return 0
	}
	return b.TotalPages() * b.PageBytes()
}

// TotalPages returns the number of the buffer's pages, not counting its
// readers', and 0 for nil.
func (b *Buffer) TotalPages() (n int) {
	for i := 0; b != nil && i < len(b.cpus); i++ {
		n += b.Pages(i)
	}
	return n
}

// Totals counts the readable entries and the overwritten ones of all vCPUs.
func (b *Buffer) Totals() (entries, overrun uint64) {
	for cpu := range b.CPUs() {
		s := b.Stats(cpu)
		entries, overrun = entries+s.Entries, overrun+s.Overrun
	}
	return entries, overrun
}

// SetOn switches recording on or off: ring_buffer_record_on and _off, the file
// tracing_on. It may be called in handler context.
func (b *Buffer) SetOn(on bool) { b.disabled.Store(!on) }

// Pause is ring_buffer_record_disable: nothing is recorded until Resume has been called
// as often.
func (b *Buffer) Pause() { b.paused.Add(1) }

// Resume ends a Pause.
func (b *Buffer) Resume() { b.paused.Add(-1) }

// Paused reports whether a Pause has not ended.
func (b *Buffer) Paused() bool { return b.paused.Load() > 0 }

// Recording reports whether Write would record: the buffer is on and not paused.
func (b *Buffer) Recording() bool { return !b.disabled.Load() && b.paused.Load() == 0 }

// SetOverwrite sets whether events overwrite the oldest ones when all pages are full,
// as they do in a new buffer; otherwise new events are dropped.
func (b *Buffer) SetOverwrite(on bool) { b.overwrite.Store(on) }

// SetCPU sets whether the events of a vCPU are recorded, as in a new buffer. Others are
// neither stored nor counted.
func (b *Buffer) SetCPU(cpu int, on bool) { b.cpus[cpu].off.Store(!on) }

// Swaps returns how often Swap has been called. It may be called in handler context.
func (b *Buffer) Swaps() uint32 { return b.swaps.Load() }

// Resized returns the size in bytes that New or Resize gave to a vCPU's buffer last.
// SetPageBytes does not change it.
func (b *Buffer) Resized(cpu int) int { return b.cpus[cpu].resized }

// Notify returns a channel that becomes ready at the next event, and at each later one,
// until end is called.
func (b *Buffer) Notify() (next <-chan struct{}, end func()) {
	c := b.waiters.add()
	return c, func() { b.waiters.remove(c) }
}

// Wake makes the channels of Notify ready without an event.
func (b *Buffer) Wake() { b.waiters.wake() }

// Watched returns how many calls of Notify have not ended.
func (b *Buffer) Watched() int { return b.waiters.count() }
