package ring

import (
	"sync"
	"sync/atomic"
)

// cpuBuffer is ring_buffer_per_cpu. Writing an event takes only the lock writing, which
// no other vCPU takes except for writes to trace_marker; the writer also takes mu,
// which readers hold, when it starts a page. Changes to everything take both locks,
// writing first.
type cpuBuffer struct {
	resized int        // its size in bytes when it was last resized; see Buffer
	writing sync.Mutex // guards the fields of cpuPages that say so; held for one event
	mu      sync.Mutex // guards the rest; held for one page, never across a wait
	access  sync.Mutex // held while events of this vCPU are consumed; see Hold
	*cpuPages

	off atomic.Bool // this vCPU is not in tracing_cpumask
	_   [64]byte    // keeps the next vCPU's locks in another cache line
}

// lock locks out writers and readers.
func (c *cpuBuffer) lock() {
	c.writing.Lock()
	c.mu.Lock()
}

func (c *cpuBuffer) unlock() {
	c.mu.Unlock()
	c.writing.Unlock()
}

// cpuPages are the pages that one vCPU writes, with their counters; a snapshot swaps
// them as a whole. Page n (counted since the buffer was created) is in slot n mod
// len(pages). The pages head to tail hold events, and tail is the page being written. A
// consuming reader takes page head out of the ring, after which its events can no
// longer be overwritten: the page is then reader, and its number is head-1. It may be
// tail too, in which case writing continues on it.
type cpuPages struct {
	current *bufferPage // page tail; writing guards its events and the next two fields
	stamp   int64       // time of the last event
	full    atomic.Bool // an event found no room, and no page was consumed since

	pages   []*bufferPage
	head    uint64
	tail    uint64        // changed under both locks
	written uint64        // events that entered pages before tail
	retired uint64        // of written: events in pages that SetPageBytes replaced
	overrun uint64        // events lost because their page was needed again
	dropped atomic.Uint64 // events refused because the buffer was full and must not overwrite
	bytes   uint64        // of pages before tail, less those that were read or overwritten

	reader    *bufferPage // the reader's page, or the spare one that it will exchange
	held      bool        // reader is a page with events
	taken     int         // bytes of reader that were read
	takenTime int64       // time of the last event that was read
	consumed  uint64      // events ever read
	reported  uint64      // of overrun: lost before the reader's page was taken
	lost      uint64      // of overrun: lost right before the next event that is read

	home atomic.Pointer[cpuBuffer] // the buffer they belong to; changed under the locks of the old and the new one
}

// take installs pages as this vCPU's. The caller holds both locks.
func (c *cpuBuffer) take(pages *cpuPages) {
	c.cpuPages = pages
	pages.home.Store(c)
}

// newCPUPages returns empty pages for one vCPU.
func newCPUPages(n, size int) *cpuPages {
	c := &cpuPages{reader: newPages(1, size)[0], pages: newPages(n, size)}
	c.reset()
	return c
}

// resize gives the ring n pages: those that it has, and of more as many as it lacks. Events
// for which there is no room count as overrun. The caller holds both locks, as for reset.
func (c *cpuPages) resize(n int, more []*bufferPage) {
	before, after := uint64(len(c.pages)), uint64(n)
	for c.head <= c.tail && c.tail-c.head >= after {
		c.giveUpHead()
	}
	spare := more
	pages := make([]*bufferPage, n)
	for p := c.head; p <= c.tail; p++ {
		i := p % before
		pages[p%after], c.pages[i] = c.pages[i], nil
	}
	for _, page := range c.pages {
		if page != nil {
			page.filled.Store(0)
			spare = append(spare, page)
		}
	}
	for i := range pages {
		if pages[i] == nil {
			pages[i], spare = spare[0], spare[1:]
		}
	}
	c.pages = pages
	c.current = c.page(c.tail)
	c.full.Store(false)
}

// reset empties the buffer and its counters. As in the kernel, the first slot is
// the first to be used again.
func (c *cpuPages) reset() {
	n := uint64(len(c.pages))
	c.head = (c.tail/n + 1) * n // page numbers keep growing, so that a reader of old pages finds them gone
	c.tail = c.head
	c.current = c.pages[0]
	c.current.filled.Store(0)
	c.full.Store(false)
	c.held, c.taken = false, 0
	c.stamp, c.written, c.retired, c.overrun, c.bytes = 0, 0, 0, 0, 0
	c.dropped.Store(0)
	c.consumed, c.reported, c.lost = 0, 0, 0
}

// first returns the number of the oldest page that has neither been overwritten nor
// read to its end.
func (c *cpuPages) first() uint64 {
	if c.held {
		return c.head - 1
	}
	return c.head
}

// page returns page n, which must be between first and tail.
func (c *cpuPages) page(n uint64) *bufferPage {
	if c.held && n == c.head-1 {
		return c.reader
	}
	return c.pages[n%uint64(len(c.pages))]
}

// giveUpHead drops the oldest page of the ring, which must not be tail.
func (c *cpuPages) giveUpHead() {
	page := c.page(c.head)
	c.overrun += page.entered()
	c.bytes -= uint64(page.used())
	c.head++
}

// startPage makes the page after tail the one being written.
func (c *cpuPages) startPage() {
	c.written += c.current.entered()
	c.bytes += uint64(c.current.used())
	c.tail++
	c.current = c.page(c.tail)
	c.current.filled.Store(0)
}

// takeHead is rb_get_reader_page: the reader exchanges its page for the oldest page of
// the ring. It returns false if no page has events.
func (c *cpuPages) takeHead() bool {
	if c.head > c.tail {
		return false
	}
	i := c.head % uint64(len(c.pages))
	if c.pages[i].used() == 0 {
		return false
	}
	if c.held {
		c.bytes -= uint64(c.reader.used() - c.taken) // the padding at its end
	}
	c.pages[i], c.reader = c.reader, c.pages[i]
	c.held, c.taken = true, 0
	c.head++
	c.full.Store(false)
	c.lost += c.overrun - c.reported
	c.reported = c.overrun
	return true
}

// entries returns how many events can be read.
func (c *cpuPages) entries() uint64 {
	return c.written + c.current.entered() - c.overrun - c.consumed
}

// exchange swaps the pages of two buffers. The caller holds the locks of both.
func (c *cpuBuffer) exchange(other *cpuBuffer) {
	mine := c.cpuPages
	c.take(other.cpuPages)
	other.take(mine)
}
