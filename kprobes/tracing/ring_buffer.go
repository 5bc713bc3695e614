package tracing

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// The ring buffer's binary format, which trace_pipe_raw passes to tools unchanged;
// events/header_page and events/header_event describe it.
const (
	pageSize   = 4096                  // unless buffer_subbuf_size_kb made the pages larger
	pageHeader = 16                    // u64 time stamp of the first event, u64 commit
	pageData   = pageSize - pageHeader // BUF_PAGE_SIZE

	eventHeader = 4 // u32: type_len in the low 5 bits, time_delta in the upper 27

	typeLenMax   = 28 // up to this, type_len is the data's length in words
	typePadding  = 29
	typeExtend   = 30 // time_delta has 27 bits more in array[0]
	typeStamp    = 31 // an absolute time
	smallDataMax = typeLenMax * 4

	maxEntry = pageData - eventHeader - 4 // data of one event, bytes; the same for larger pages

	deltaBits = 27
	deltaMax  = 1<<deltaBits - 1
)

// cpuBuffer is ring_buffer_per_cpu. Writing an event takes only the lock writing, which
// no other vCPU takes except for writes to trace_marker; the writer also takes mu,
// which readers hold, when it starts a page. Changes to everything take both locks,
// writing first.
type cpuBuffer struct {
	resized int        // its size in bytes when it was last resized; guarded by Tracer.mu
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

// bufferPage is a page as header_page describes it. Its commit field is only filled in
// when a reader gets a copy. The bytes of an event are written before filled is, so a
// reader that sees an event in filled also sees its bytes.
type bufferPage struct {
	filled atomic.Uint64 // bytes of events; from bit entersShift up, the number of events
	data   []byte
}

// room returns how many bytes of events fit on a page.
func (p *bufferPage) room() int { return len(p.data) - pageHeader }

const entersShift = 32

// used returns how many bytes of events the page has.
func (p *bufferPage) used() int { return int(uint32(p.filled.Load())) }

// entered returns how many events the page has.
func (p *bufferPage) entered() uint64 { return p.filled.Load() >> entersShift }

// stamp returns the time of the first event, or 0.
func (p *bufferPage) stamp() int64 {
	if p.used() == 0 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(p.data))
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
	retired uint64        // of written: events in pages that setPageBytes replaced
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

// RingBuffer is the kernel's trace ring buffer: for each vCPU, a fixed number of pages
// in Linux's binary format. Each vCPU writes to its own pages; readers copy whole
// pages. When all pages are full, the oldest one is overwritten and its events are
// counted as overrun, or, without overwrite, the new event is counted as dropped: every
// event is in the buffer or in a counter.
type RingBuffer struct {
	cpus      []cpuBuffer
	overwrite atomic.Bool
	access    sync.RWMutex  // write-locked to consume events of all vCPUs, read-locked for those of one; taken before all other locks
	disabled  atomic.Bool   // tracing_on is 0
	swaps     atomic.Uint32 // number of swaps with the snapshot
	paused    atomic.Int32  // record_disabled: recording is off while it is above 0
	waiters   waiters
	copies    sync.Pool // of *[]byte with room for two pages, for readers of trace
}

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

// Stats are the counters of one vCPU's buffer.
type Stats struct {
	Entries uint64 // events that can be read
	Overrun uint64 // events lost to newer ones
	Dropped uint64 // events lost to older ones
	Read    uint64 // events that consuming readers took
	Bytes   uint64 // of events that can be read
	Oldest  int64  // time of the first event of the oldest page
}

// NewRingBuffer makes a buffer of pages pages (at least 2) for each of cpus vCPUs.
func NewRingBuffer(cpus, pages int) *RingBuffer { return newRingBuffer(cpus, pages, pageSize) }

// newRingBuffer is NewRingBuffer with pages of size bytes.
func newRingBuffer(cpus, pages, size int) *RingBuffer {
	b := &RingBuffer{cpus: make([]cpuBuffer, cpus)}
	b.overwrite.Store(true)
	for i := range b.cpus {
		b.cpus[i].take(newCPUPages(pages, size))
		b.cpus[i].resized = pages * (size - pageHeader)
	}
	return b
}

// take installs pages as those of this vCPU. The caller holds both locks.
func (c *cpuBuffer) take(pages *cpuPages) {
	c.cpuPages = pages
	pages.home.Store(c)
}

// pagesFor returns how many pages of 4 KiB hold size bytes of events, at least 2.
func pagesFor(size uint64) int { return pagesOf(pageData, size) }

// pagesOf returns how many pages hold size bytes of events if each has room for that
// many bytes, at least 2.
func pagesOf(room int, size uint64) int {
	return int(max((size+uint64(room)-1)/uint64(room), 2))
}

func newPages(n, size int) []*bufferPage {
	mem, data := make([]bufferPage, n), make([]byte, n*size)
	pages := make([]*bufferPage, n)
	for i := range pages {
		pages[i] = &mem[i]
		pages[i].data = data[i*size : (i+1)*size : (i+1)*size]
	}
	return pages
}

// newCPUPages returns empty pages for one vCPU.
func newCPUPages(n, size int) *cpuPages {
	c := &cpuPages{reader: newPages(1, size)[0]}
	c.adopt(newPages(n, size))
	c.reset()
	return c
}

// adopt replaces the pages of the ring by empty ones and copies the newest contents
// over; events that do not fit count as overrun. The caller holds both locks, as for
// reset.
func (c *cpuPages) adopt(pages []*bufferPage) {
	before, after := uint64(len(c.pages)), uint64(len(pages))
	for before > 0 && c.head <= c.tail && c.tail-c.head >= after {
		c.giveUpHead()
	}
	for p := c.head; before > 0 && p <= c.tail; p++ {
		from, to := c.pages[p%before], pages[p%after]
		copy(to.data, from.data)
		to.filled.Store(from.filled.Load())
	}
	c.pages = pages
	if before > 0 { // the reader's page is one of the old pages, which go away
		reader := newPages(1, len(c.reader.data))[0]
		copy(reader.data, c.reader.data)
		reader.filled.Store(c.reader.filled.Load())
		c.reader = reader
	}
	c.current = c.page(c.tail)
	c.full.Store(false)
}

// free releases the buffer's memory. Nothing is written to the buffer afterwards, and
// readers find it empty.
func (b *RingBuffer) free() {
	for i := range b.cpus {
		c := &b.cpus[i]
		c.off.Store(true)
		fresh := newCPUPages(1, pageHeader)
		c.lock()
		c.take(fresh)
		c.unlock()
	}
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

// Resize sets the number of pages of one vCPU, or of all if cpu is -1. It keeps as many
// of the newest events as fit.
func (b *RingBuffer) Resize(cpu, pages int) {
	for i := range b.cpus {
		if cpu >= 0 && i != cpu {
			continue
		}
		c := &b.cpus[i]
		size := b.pageBytes()
		fresh := newPages(pages, size) // allocated before locking, because vCPUs wait for the lock
		c.lock()
		if len(c.pages) != pages {
			c.adopt(fresh)
		}
		c.unlock()
		c.resized = pages * (size - pageHeader)
	}
}

// pageBytes returns the size of the pages, which Tracer.mu guards.
func (b *RingBuffer) pageBytes() int {
	c := &b.cpus[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.reader.data)
}

// setPageBytes is ring_buffer_subbuf_order_set: all vCPUs get empty pages of that size,
// with at least as much room in total as before. The old events can no longer be read,
// but the counters still include them: subbuf_size.
func (b *RingBuffer) setPageBytes(size int) {
	for i := range b.cpus {
		c := &b.cpus[i]
		fresh := newCPUPages(pagesOf(size-pageHeader, uint64(b.size(i))), size)
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
func (b *RingBuffer) Reset(cpu int) {
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

// swap is ring_buffer_swap_cpu for all vCPUs at once: it swaps the pages with those of
// another buffer. It runs in handler context. All callers that swap the same two
// buffers must name them in the same order.
func (b *RingBuffer) swap(other *RingBuffer) {
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

// swapCPU is ring_buffer_swap_cpu: it swaps the pages of one vCPU.
func (b *RingBuffer) swapCPU(other *RingBuffer, cpu int) {
	mine, its := &b.cpus[cpu], &other.cpus[cpu]
	mine.lock()
	defer mine.unlock()
	its.lock()
	defer its.unlock()
	mine.exchange(its)
}

// exchange swaps the pages of two buffers. The caller holds the locks of both.
func (c *cpuBuffer) exchange(other *cpuBuffer) {
	mine := c.cpuPages
	c.take(other.cpuPages)
	other.take(mine)
}

// CPUs returns the number of vCPUs that have a buffer.
func (b *RingBuffer) CPUs() int { return len(b.cpus) }

// Stats returns the counters of one vCPU.
func (b *RingBuffer) Stats(cpu int) Stats {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Entries: c.entries(), Overrun: c.overrun, Dropped: c.dropped.Load(), Read: c.consumed,
		Bytes: c.bytes + uint64(c.current.used()), Oldest: c.page(min(c.head, c.tail)).stamp(),
	}
}

// Write adds one event of data to a vCPU's buffer; now is its time in nanoseconds (or
// the trace clock's unit). It runs in handler context and allocates nothing; a reader
// delays it only at the end of a page, while it copies one page. It returns false if
// the event was not stored; the counters include it unless recording is off.
func (b *RingBuffer) Write(cpu int, now int64, data []byte) bool {
	return !b.disabled.Load() && b.paused.Load() == 0 && b.commit(cpu, now, data)
}

// commit is Write for an event that was started before recording was switched off.
func (b *RingBuffer) commit(cpu int, now int64, data []byte) bool {
	if len(data) > maxEntry {
		return false
	}
	c := &b.cpus[cpu]
	c.writing.Lock()
	if c.off.Load() { // checked under the lock, because after free there is no page to write to
		c.writing.Unlock()
		return false
	}
	ok := c.write(now, data, b.overwrite.Load())
	c.writing.Unlock()
	b.waiters.wake()
	return ok
}

func (c *cpuBuffer) write(now int64, data []byte, overwrite bool) bool {
	delta := max(now-c.stamp, 0)
	need := eventSize(len(data))
	if delta > deltaMax {
		need += 8
	}
	page := c.current
	filled := page.filled.Load()
	used := int(uint32(filled))
	if used == 0 || used+need > page.room() {
		if used != 0 {
			page.pad(used)
			if !c.nextPage(overwrite) {
				c.dropped.Add(1)
				return false
			}
			page, filled, used = c.current, 0, 0
		}
		// The page's own time stamp is that of its first event.
		now = max(now, c.stamp)
		delta = 0
		binary.LittleEndian.PutUint64(page.data, uint64(now))
	}
	at := pageHeader + used
	if delta > deltaMax {
		binary.LittleEndian.PutUint32(page.data[at:], typeExtend|uint32(delta&deltaMax)<<5)
		binary.LittleEndian.PutUint32(page.data[at+4:], uint32(delta>>deltaBits))
		at, delta = at+8, 0
	}
	at = putEvent(page.data, at, uint32(delta), data)
	page.filled.Store((filled>>entersShift+1)<<entersShift | uint64(at-pageHeader))
	c.stamp = max(now, c.stamp)
	return true
}

// pad is rb_reset_tail: it fills the rest of a page with a padding event if that fits.
func (p *bufferPage) pad(used int) {
	room := p.room() - used
	if room < eventHeader+4 {
		return
	}
	at := pageHeader + used
	binary.LittleEndian.PutUint32(p.data[at:], typePadding|1<<5)
	binary.LittleEndian.PutUint32(p.data[at+4:], uint32(room-eventHeader))
	clear(p.data[at+8:])
	p.filled.Add(uint64(room))
}

// nextPage moves on to the next page. If all are in use it overwrites the oldest one,
// unless overwrite is off.
func (c *cpuBuffer) nextPage(overwrite bool) bool {
	if !overwrite && c.full.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	full := c.head <= c.tail && c.tail-c.head+1 == uint64(len(c.pages))
	c.full.Store(full && !overwrite)
	if full && !overwrite {
		return false
	}
	if full {
		c.giveUpHead()
	}
	c.startPage()
	return true
}

// eventSize returns the size in a page of an event with n bytes of data, without a time
// extension: rb_calculate_event_length.
func eventSize(n int) int {
	if n > smallDataMax {
		n += 4
	}
	return eventHeader + (max(n, 1)+3)&^3
}

// putEvent writes an event's header and data at page[at:] and returns where the
// next one begins.
func putEvent(page []byte, at int, delta uint32, data []byte) int {
	words := (max(len(data), 1) + 3) / 4
	if words <= typeLenMax {
		binary.LittleEndian.PutUint32(page[at:], uint32(words)|delta<<5)
		at += eventHeader
	} else {
		binary.LittleEndian.PutUint32(page[at:], delta<<5)
		binary.LittleEndian.PutUint32(page[at+4:], uint32(words*4+4))
		at += eventHeader + 4
	}
	n := copy(page[at:], data)
	clear(page[at+n : at+words*4])
	return at + words*4
}

// pagePlace is a reader's position: a page, the byte in its events, and the time of the
// event before that.
type pagePlace struct {
	of   *cpuPages // a swap replaces them
	page uint64
	used int
	time int64
}

// end returns the place after the newest event.
func (c *cpuBuffer) end() pagePlace {
	c.mu.Lock()
	defer c.mu.Unlock()
	return pagePlace{of: c.cpuPages, page: c.tail, used: c.current.used()}
}

// copyPage copies the page at the place from, or, if that page is gone, the oldest one
// after it, into p (which has room for a page), up to the place end. It returns the
// place at the end of the copy, without the time, and the total number of overwritten
// events; ok is false if there is nothing between the two places. Events that consuming
// readers took are left out.
func (c *cpuPages) copyPage(from, end pagePlace, p []byte) (to pagePlace, overrun uint64, ok bool) {
	for n := max(from.page, c.first()); n <= min(end.page, c.tail) && len(c.reader.data) == len(p); n++ {
		src := c.page(n)
		used, start, time := src.used(), 0, src.stamp()
		if n == end.page {
			used = min(used, end.used)
		}
		if n < c.head && c.taken > 0 {
			start, time = c.taken, c.takenTime
		}
		if n == from.page && from.used > start {
			start, time = from.used, from.time
		}
		if used <= start {
			continue
		}
		copy(p[pageHeader:], src.data[pageHeader+start:pageHeader+used])
		binary.LittleEndian.PutUint64(p, uint64(time))
		binary.LittleEndian.PutUint64(p[8:], uint64(used-start))
		return pagePlace{of: c, page: n, used: used}, c.overrun, true
	}
	return from, c.overrun, false
}

// look calls f under the lock that guards the pages for readers, in whichever buffer
// they are after a swap. It returns false if no buffer has them any more.
func (c *cpuPages) look(f func()) bool {
	for {
		at := c.home.Load()
		at.mu.Lock()
		there := at.cpuPages == c
		if there {
			f()
		}
		at.mu.Unlock()
		if there || c.home.Load() == at {
			return there
		}
	}
}

// rest returns what is left to read of the reader's page.
func (c *cpuPages) rest() pageReader {
	r := pageReader{c.reader.data[pageHeader+c.taken : pageHeader+c.reader.used()], c.takenTime}
	if c.taken == 0 {
		r.time = c.reader.stamp()
	}
	return r
}

// next returns the oldest event that no consuming reader has taken; done is how many
// bytes of its page are consumed with it.
func (c *cpuPages) next() (data []byte, time int64, done int, ok bool) {
	for {
		if c.held {
			r := c.rest()
			left := len(r.data)
			if data, time, ok = r.next(); ok {
				return data, time, c.taken + left - len(r.data), true
			}
		}
		if !c.takeHead() {
			return nil, 0, 0, false
		}
	}
}

// advance is rb_advance_reader: it consumes the event that next returned.
func (c *cpuPages) advance(time int64, done int) {
	c.bytes -= uint64(done - c.taken)
	c.taken, c.takenTime = done, time
	c.consumed++
}

// nextTime returns the time of the event that peek would return.
func (c *cpuBuffer) nextTime() (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, time, _, ok := c.next()
	return time, ok
}

// peek returns the oldest event; lost is how many were overwritten right before it.
func (c *cpuBuffer) peek(into []byte) (data []byte, time int64, lost uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	event, time, _, ok := c.next()
	if !ok {
		return nil, 0, 0, false
	}
	return append(into[:0], event...), time, c.lost, true
}

// drop consumes the next event if it has that time.
func (c *cpuBuffer) drop(time int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, at, done, ok := c.next(); ok && at == time {
		c.advance(time, done)
		c.lost = 0
	}
}

// Bits of a page's commit field: events were lost before the page, and their number
// follows the last event.
const (
	missedEvents = 1 << 31
	missedStored = 1 << 30
)

// ReadPage is ring_buffer_read_page: it consumes the oldest events of a vCPU, as many
// as one page holds and as fit into size bytes, and builds a page of them in p, which
// is resized to the page size. If ok is false, there are no events (empty), or size has
// no room for the first one. Both are determined at once, so that an event that arrives
// in between does not look as if it had no room.
func (b *RingBuffer) ReadPage(cpu int, page *[]byte, size int) (ok, empty bool) {
	b.Hold(cpu)
	defer b.Leave(cpu)
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*page) != len(c.reader.data) {
		*page = make([]byte, len(c.reader.data))
	}
	p := *page
	room := min(size, len(p)) - pageHeader
	_, _, done, more := c.next()
	if !more || room <= 0 {
		return false, !more
	}
	stamp := c.takenTime
	if c.taken == 0 {
		stamp = c.reader.stamp()
	}
	commit := 0
	if used := c.reader.used(); c.taken == 0 && room >= used && c.head-1 != c.tail {
		copy(p[pageHeader:], c.reader.data[pageHeader:pageHeader+used])
		commit = used
		c.bytes -= uint64(used)
		c.consumed += c.reader.entered()
		c.taken = used
	} else {
		r := c.rest()
		end := c.taken + len(r.data)
		_, time, more := r.next()
		for more && done-c.taken <= room-commit {
			commit += copy(p[pageHeader+commit:], c.reader.data[pageHeader+c.taken:pageHeader+done])
			c.advance(time, done)
			_, time, more = r.next()
			done = end - len(r.data)
		}
		if commit == 0 {
			return false, false
		}
	}
	head := uint64(commit)
	if c.lost > 0 {
		if len(p)-pageHeader-commit >= 8 {
			binary.LittleEndian.PutUint64(p[pageHeader+commit:], c.lost)
			commit += 8
			head = uint64(commit) | missedStored
		}
		head |= missedEvents
		c.lost = 0
	}
	clear(p[pageHeader+commit:])
	binary.LittleEndian.PutUint64(p, uint64(stamp))
	binary.LittleEndian.PutUint64(p[8:], head)
	return true, false
}

// empty says whether a vCPU, or all of them if cpu is -1, have no event to read.
func (b *RingBuffer) empty(cpu int) bool {
	for i := range b.cpus {
		if (cpu < 0 || i == cpu) && b.cpus[i].some() {
			return false
		}
	}
	return true
}

// some says whether there is an event to read.
func (c *cpuBuffer) some() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries() > c.retired
}

// Consume removes the event that Peek would return from the buffer.
func (b *RingBuffer) Consume(cpu int, into []byte) (r Record, lost uint64, ok bool) {
	b.Hold(cpu)
	defer b.Leave(cpu)
	if r, lost, ok = b.Peek(cpu, into); ok {
		b.Drop(r)
	}
	return r, lost, ok
}

// Hold is trace_access_lock: until Leave, nobody else consumes events of the vCPU, or
// of any vCPU if cpu is -1.
func (b *RingBuffer) Hold(cpu int) {
	if cpu < 0 {
		b.access.Lock()
		return
	}
	b.access.RLock()
	b.cpus[cpu].access.Lock()
}

// Leave ends a Hold.
func (b *RingBuffer) Leave(cpu int) {
	if cpu < 0 {
		b.access.Unlock()
		return
	}
	b.cpus[cpu].access.Unlock()
	b.access.RUnlock()
}

// Peek returns the oldest event of all vCPUs, or of one if cpu is not negative. The
// caller holds the vCPUs (Hold). The data are in into, which should have room for a
// page. lost is how many events of that vCPU were lost right before it.
func (b *RingBuffer) Peek(cpu int, into []byte) (r Record, lost uint64, ok bool) {
	first, oldest := cpu, int64(0)
	for i := range b.cpus {
		if cpu >= 0 {
			break
		}
		if time, some := b.cpus[i].nextTime(); some && (first < 0 || time < oldest) {
			first, oldest = i, time
		}
	}
	if first < 0 {
		return Record{}, 0, false
	}
	data, time, lost, ok := b.cpus[first].peek(into)
	return Record{CPU: first, Time: time, Data: data}, lost, ok
}

// Drop consumes an event that Peek has returned since Hold. It does nothing if the
// buffer has been emptied in the meantime.
func (b *RingBuffer) Drop(r Record) { b.cpus[r.CPU].drop(r.Time) }

// Record is one event as it is stored in a page.
type Record struct {
	CPU  int
	Time int64
	Data []byte // padded to whole words; a slice of the page that it was read from

	Missed bool // set by an Iterator if events right before it were overwritten during the iteration
}

// pageReader walks the events of one page.
type pageReader struct {
	data []byte // the committed events that are not read yet
	time int64
}

// newPageReader starts at the page's first event. It fails with EINVAL if the page
// claims to hold more than it can.
func newPageReader(page []byte) (pageReader, error) {
	if len(page) < pageHeader {
		return pageReader{}, fmt.Errorf("a page of %d bytes: %w", len(page), syscall.EINVAL)
	}
	commit := binary.LittleEndian.Uint64(page[8:]) & (1<<30 - 1)
	if commit > uint64(len(page)-pageHeader) {
		return pageReader{}, fmt.Errorf("a commit of %d bytes: %w", commit, syscall.EINVAL)
	}
	return pageReader{data: page[pageHeader : pageHeader+commit], time: int64(binary.LittleEndian.Uint64(page))}, nil
}

// next returns the page's next data event. ok is false at the end of the page and if
// the page is malformed.
func (r *pageReader) next() (data []byte, time int64, ok bool) {
	for len(r.data) >= eventHeader {
		head := binary.LittleEndian.Uint32(r.data)
		typ, delta := head&31, int64(head>>5)
		size, skip := r.extent(typ)
		if size == 0 {
			break
		}
		event := r.data[:size]
		r.data = r.data[size:]
		switch typ {
		case typeExtend:
			r.time += delta | int64(binary.LittleEndian.Uint32(event[4:]))<<deltaBits
		case typeStamp:
			r.time = delta | int64(binary.LittleEndian.Uint32(event[4:]))<<deltaBits
		case typePadding:
			r.time += delta
		default:
			r.time += delta
			return event[skip:], r.time, true
		}
	}
	r.data = nil
	return nil, 0, false
}

// extent returns the size of the current event with its header, and the offset of its
// data. size is 0 if the event exceeds the page.
func (r *pageReader) extent(typ uint32) (size, skip int) {
	size, skip = eventHeader+int(typ)*4, eventHeader
	switch {
	case typ == typeExtend || typ == typeStamp:
		size = 8
	case typ == 0 || typ == typePadding:
		if len(r.data) < 8 {
			return 0, 0
		}
		n := binary.LittleEndian.Uint32(r.data[4:])
		if n < 4 || uint64(n) > uint64(len(r.data)) {
			return 0, 0
		}
		size, skip = eventHeader+int(n), eventHeader+4
	}
	if size > len(r.data) {
		return 0, 0
	}
	return size, skip
}

// Iterator walks the events of all vCPUs in the order of time without consuming them.
// It covers the events that were in the buffer when it was created or at the last call
// of More, except those that are overwritten before it gets to their page. It holds two
// pages for each vCPU, however large the buffer is.
type Iterator struct {
	cpu    int // -1 means all
	cpus   []cpuIterator
	buffer *RingBuffer
}

type cpuIterator struct {
	room    *[]byte // two pages, used in turn, because the event that Next returned may be in the previous one
	second  bool    // the second page is next
	page    pageReader
	to      pagePlace // the end of the last copy
	end     pagePlace // where the iteration ends
	overrun uint64    // events that had been overwritten when the last page was copied
	next    Record
	ok      bool
}

// Iterate returns an iterator over the events that are now in the buffer of one vCPU,
// or of all if cpu is -1.
func (b *RingBuffer) Iterate(cpu int) *Iterator {
	it := &Iterator{cpu: cpu, cpus: make([]cpuIterator, len(b.cpus)), buffer: b}
	it.More()
	return it
}

// More extends an iterator that has reached its end to the events that were added
// since.
func (it *Iterator) More() {
	for i := range it.buffer.cpus {
		if it.cpu < 0 || i == it.cpu {
			it.cpus[i].end = it.buffer.cpus[i].end()
		}
	}
	for i := range it.cpus {
		c := &it.cpus[i]
		if it.cpu >= 0 && i != it.cpu {
			continue
		}
		if c.to.of != c.end.of { // a swap has exchanged them for the snapshot's
			c.to = pagePlace{of: c.end.of}
		}
		it.advance(i)
	}
}

// advance prepares the next event of a vCPU.
func (it *Iterator) advance(cpu int) {
	c := &it.cpus[cpu]
	missed := false
	for {
		data, time, ok := c.page.next()
		if ok {
			c.next, c.ok = Record{CPU: cpu, Time: time, Data: data, Missed: missed}, true
			return
		}
		c.to.time = max(c.to.time, c.page.time)
		var more bool
		if missed, more = it.copyNext(c); !more {
			c.ok = false
			return
		}
	}
}

// copyNext copies the next page of a vCPU. missed is set if events were overwritten
// between it and the previous page.
func (it *Iterator) copyNext(c *cpuIterator) (missed, ok bool) {
	before := c.to
	there := before.of.look(func() {
		size := len(before.of.reader.data)
		page := it.room(c, size)
		var overrun uint64
		if c.to, overrun, ok = before.of.copyPage(before, c.end, page); ok {
			missed = before.used > 0 && c.to.page > before.page+1 && overrun > c.overrun
			c.overrun = overrun
			c.page, _ = newPageReader(page) // pages of the buffer itself are well-formed
		}
	})
	return missed, there && ok
}

// room returns the memory for the next copy of a page of that size.
func (it *Iterator) room(c *cpuIterator, size int) []byte {
	if c.room != nil && len(*c.room) != 2*size {
		c.room = nil
	}
	if c.room == nil {
		c.room, _ = it.buffer.copies.Get().(*[]byte)
	}
	if c.room == nil || len(*c.room) != 2*size {
		room := make([]byte, 2*size)
		c.room = &room
	}
	c.second = !c.second
	if c.second {
		return (*c.room)[size:]
	}
	return (*c.room)[:size]
}

// first returns the vCPU whose event is next; if two have the same time, the lower one.
func (it *Iterator) first() int {
	first := -1
	for i := range it.cpus {
		c := &it.cpus[i]
		if c.ok && (first < 0 || c.next.Time < it.cpus[first].next.Time) {
			first = i
		}
	}
	return first
}

// peek returns the time of the event that Next would return.
func (it *Iterator) peek() (int64, bool) {
	i := it.first()
	if i < 0 {
		return 0, false
	}
	return it.cpus[i].next.Time, true
}

// Next returns the oldest event that was not returned yet. Its data are valid until the
// next call of Next.
func (it *Iterator) Next() (Record, bool) {
	i := it.first()
	if i < 0 {
		it.release()
		return Record{}, false
	}
	r := it.cpus[i].next
	it.advance(i)
	return r, true
}

// release frees the memory of the copies. More may still be called afterwards.
func (it *Iterator) release() {
	for i := range it.cpus {
		if c := &it.cpus[i]; c.room != nil {
			it.buffer.copies.Put(c.room)
			*c = cpuIterator{to: c.to, end: c.end, overrun: c.overrun}
		}
	}
}

// count returns how many pages a vCPU has, not counting the reader's page.
func (b *RingBuffer) count(cpu int) int {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pages)
}

// size returns how many bytes a vCPU's pages hold: ring_buffer_size.
func (b *RingBuffer) size(cpu int) int {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pages) * c.reader.room()
}
