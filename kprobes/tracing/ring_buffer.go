package tracing

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// The ring buffer's binary format, which trace_pipe_raw hands to tools as it
// is: events/header_page and events/header_event describe it.
const (
	pageSize   = 4096                  // but for a buffer whose pages are larger: buffer_subbuf_size_kb
	pageHeader = 16                    // u64 time stamp of the first event, u64 commit
	pageData   = pageSize - pageHeader // BUF_PAGE_SIZE

	eventHeader = 4 // u32: type_len in the low 5 bits, time_delta in the upper 27

	typeLenMax   = 28 // up to this, type_len is the data's length in words
	typePadding  = 29
	typeExtend   = 30 // time_delta has 27 bits more in array[0]
	typeStamp    = 31 // an absolute time
	smallDataMax = typeLenMax * 4

	maxEntry = pageData - eventHeader - 4 // data of one event, bytes; larger pages have no larger ones

	deltaBits = 27
	deltaMax  = 1<<deltaBits - 1
)

// cpuBuffer is ring_buffer_per_cpu. An event takes only the lock of those who
// write, which is the vCPU's own but for writes to trace_marker; readers it meets
// where a page begins. Who changes all takes both locks, writing first.
type cpuBuffer struct {
	resized int        // bytes that it had when its pages were last counted out; guarded by Tracer.mu
	writing sync.Mutex // guards what says so in cpuPages; held for one event
	mu      sync.Mutex // guards the rest; held for one page, never across a wait
	access  sync.Mutex // held by who takes events of this vCPU out; see Hold
	*cpuPages

	off atomic.Bool // this vCPU is not in tracing_cpumask
	_   [64]byte    // a neighbour's lock must not share a cache line
}

// lock keeps writers and readers out.
func (c *cpuBuffer) lock() {
	c.writing.Lock()
	c.mu.Lock()
}

func (c *cpuBuffer) unlock() {
	c.mu.Unlock()
	c.writing.Unlock()
}

// bufferPage is a page as header_page describes it; its commit is written when a
// reader gets a copy. Whoever sees that an event has entered sees its bytes too:
// they are written before filled.
type bufferPage struct {
	filled atomic.Uint64 // bytes of events, and above entersShift how many events
	data   []byte
}

// room is what a page has for events, bytes.
func (p *bufferPage) room() int { return len(p.data) - pageHeader }

const entersShift = 32

// used is how many bytes of events the page has.
func (p *bufferPage) used() int { return int(uint32(p.filled.Load())) }

// entered is how many events.
func (p *bufferPage) entered() uint64 { return p.filled.Load() >> entersShift }

// stamp is the time of the first event, or 0.
func (p *bufferPage) stamp() int64 {
	if p.used() == 0 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(p.data))
}

// cpuPages is the pages that one vCPU writes, and their counters: what a
// snapshot exchanges. Page n (counted from the buffer's beginning) lies in slot
// n mod len(pages); the pages head to tail hold events, tail is the one that is
// written to. A consuming reader takes the page head out of the ring, and what it
// holds can no longer be overrun: then the page is reader, its number head-1. That
// may be tail: the writing goes on there.
type cpuPages struct {
	current *bufferPage // page tail: its events and the next two are of writing's lock
	stamp   int64       // time of the last event
	full    atomic.Bool // an event has found no room, and no page was taken since

	pages   []*bufferPage
	head    uint64
	tail    uint64        // changed with both locks
	written uint64        // events that entered pages before tail
	ghosts  uint64        // of those: they were in pages that others have replaced
	overrun uint64        // events lost because their page was needed again
	dropped atomic.Uint64 // events refused because the buffer was full and must not overwrite
	bytes   uint64        // of pages before tail, less what was read and given up

	reader    *bufferPage // the reader's page, or the one that it will give in exchange
	held      bool        // reader is a page with events
	taken     int         // bytes of it that were read
	takenTime int64       // time of the last of these events
	consumed  uint64      // events ever read
	reported  uint64      // of overrun: before the reader's page was taken
	lost      uint64      // of overrun: right before the next event that is read
}

// RingBuffer is the kernel's trace ring buffer: for each vCPU a fixed number of
// pages in the binary format of Linux. One vCPU writes to its own pages;
// readers copy whole pages. When it is full the oldest page is given up, and
// its events are counted as overrun, or, with overwrite off, the new event is
// counted as dropped: every event is in the buffer or in a counter.
type RingBuffer struct {
	cpus      []cpuBuffer
	overwrite atomic.Bool
	access    sync.RWMutex  // written by who takes events of any vCPU out, read by who does of one; before all else
	disabled  atomic.Bool   // tracing_on is 0
	swaps     atomic.Uint32 // how many times it changed places with the snapshot
	paused    atomic.Int32  // record_disabled: how many want it to pause
	waiters   waiters
	copies    sync.Pool // of *[]byte: memory for what a reader of trace sees of a vCPU
}

// waiters is the consuming readers that wait for an event. A writer takes no
// lock to wake them: the list is replaced whole.
type waiters struct {
	mu   sync.Mutex // guards the replacing of list
	list atomic.Pointer[[]chan struct{}]
}

// add gives a channel that becomes ready at the next event, until remove.
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

// wake is rb_wake_up_waiters, in atomic Go.
func (w *waiters) wake() {
	list := w.list.Load()
	if list == nil {
		return
	}
	for _, c := range *list {
		select {
		case c <- struct{}{}:
		default: // it is awake
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

// newRingBuffer does so with pages of that many bytes.
func newRingBuffer(cpus, pages, size int) *RingBuffer {
	b := &RingBuffer{cpus: make([]cpuBuffer, cpus)}
	b.overwrite.Store(true)
	for i := range b.cpus {
		b.cpus[i].cpuPages = newCPUPages(pages, size)
		b.cpus[i].resized = pages * (size - pageHeader)
	}
	return b
}

// pagesFor is how many pages of 4 KiB hold size bytes of events; never fewer than 2.
func pagesFor(size uint64) int { return pagesOf(pageData, size) }

// pagesOf is how many pages with room for so many bytes each do.
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

// newCPUPages is the empty pages of one vCPU.
func newCPUPages(n, size int) *cpuPages {
	c := &cpuPages{reader: newPages(1, size)[0]}
	c.adopt(newPages(n, size))
	c.reset()
	return c
}

// adopt takes empty pages in place of those that the ring has, and keeps the
// newest of their contents; the events of the others count as overrun. It needs both
// locks, as reset does.
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
	c.current = c.page(c.tail)
	c.full.Store(false)
}

// reset empties the buffer and its counters. As in the kernel, the first slot is
// the first to be used again.
func (c *cpuPages) reset() {
	n := uint64(len(c.pages))
	c.head = (c.tail/n + 1) * n // page numbers go on: a reader of old ones finds them gone
	c.tail = c.head
	c.current = c.pages[0]
	c.current.filled.Store(0)
	c.full.Store(false)
	c.held, c.taken = false, 0
	c.stamp, c.written, c.ghosts, c.overrun, c.bytes = 0, 0, 0, 0, 0
	c.dropped.Store(0)
	c.consumed, c.reported, c.lost = 0, 0, 0
}

// first is the oldest page that has not been given up or read whole.
func (c *cpuPages) first() uint64 {
	if c.held {
		return c.head - 1
	}
	return c.head
}

// page is page n, between first and tail.
func (c *cpuPages) page(n uint64) *bufferPage {
	if c.held && n == c.head-1 {
		return c.reader
	}
	return c.pages[n%uint64(len(c.pages))]
}

// giveUpHead loses the oldest page of the ring, which is not tail.
func (c *cpuPages) giveUpHead() {
	page := c.page(c.head)
	c.overrun += page.entered()
	c.bytes -= uint64(page.used())
	c.head++
}

// startPage makes the page after tail the one that is written to.
func (c *cpuPages) startPage() {
	c.written += c.current.entered()
	c.bytes += uint64(c.current.used())
	c.tail++
	c.current = c.page(c.tail)
	c.current.filled.Store(0)
}

// takeHead is rb_get_reader_page: the reader leaves its page and gets the oldest
// one of the ring. False: there is none with events.
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

// entries is how many events can be read.
func (c *cpuPages) entries() uint64 {
	return c.written + c.current.entered() - c.overrun - c.consumed
}

// Resize gives one vCPU, or with -1 each, pages pages. The newest events stay, as
// many as fit.
func (b *RingBuffer) Resize(cpu, pages int) {
	for i := range b.cpus {
		if cpu >= 0 && i != cpu {
			continue
		}
		c := &b.cpus[i]
		size := b.pageBytes()
		fresh := newPages(pages, size) // made before the lock, which vCPUs wait for
		c.lock()
		if len(c.pages) != pages {
			c.adopt(fresh)
		}
		c.unlock()
		c.resized = pages * (size - pageHeader)
	}
}

// pageBytes is how large the pages are; Tracer.mu guards that.
func (b *RingBuffer) pageBytes() int {
	c := &b.cpus[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.reader.data)
}

// setPageBytes is ring_buffer_subbuf_order_set: all vCPUs get empty pages of that
// size, as many as have the room of those before, rounded up. Nobody can read the
// events of the old ones any more, but the counters still have them: subbuf_size.
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
		fresh.ghosts = old.entries()
		c.cpuPages = fresh
		c.unlock()
	}
}

// Reset empties the buffer of one vCPU, or with -1 of all, and its counters.
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

// swap is ring_buffer_swap_cpu of all vCPUs at once, in atomic Go: the pages
// change places with those of another buffer. Whoever swaps the same two names
// them in the same order.
func (b *RingBuffer) swap(other *RingBuffer) {
	for i := range b.cpus {
		b.cpus[i].lock()
		other.cpus[i].lock()
	}
	b.swaps.Add(1)
	for i := range b.cpus {
		b.cpus[i].cpuPages, other.cpus[i].cpuPages = other.cpus[i].cpuPages, b.cpus[i].cpuPages
		other.cpus[i].unlock()
		b.cpus[i].unlock()
	}
}

// swapCPU does so for one vCPU: ring_buffer_swap_cpu.
func (b *RingBuffer) swapCPU(other *RingBuffer, cpu int) {
	mine, its := &b.cpus[cpu], &other.cpus[cpu]
	mine.lock()
	defer mine.unlock()
	its.lock()
	defer its.unlock()
	mine.cpuPages, its.cpuPages = its.cpuPages, mine.cpuPages
}

// CPUs is how many vCPUs have a buffer.
func (b *RingBuffer) CPUs() int { return len(b.cpus) }

// Stats reads one vCPU's counters.
func (b *RingBuffer) Stats(cpu int) Stats {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Entries: c.entries(), Overrun: c.overrun, Dropped: c.dropped.Load(), Read: c.consumed,
		Bytes: c.bytes + uint64(c.current.used()), Oldest: c.page(min(c.head, c.tail)).stamp(),
	}
}

// Write adds one event of data to a vCPU's buffer; now is its time in
// nanoseconds (or the trace clock's unit). It is atomic Go: it allocates
// nothing, and readers do not keep it waiting but at a page's end, for as long as
// one copies a page. False: the event is in no page; the counters know it unless
// recording is off.
func (b *RingBuffer) Write(cpu int, now int64, data []byte) bool {
	return !b.disabled.Load() && b.paused.Load() == 0 && b.commit(cpu, now, data)
}

// commit is Write of an event that was begun before recording was switched off.
func (b *RingBuffer) commit(cpu int, now int64, data []byte) bool {
	if len(data) > maxEntry {
		return false
	}
	c := &b.cpus[cpu]
	if c.off.Load() {
		return false
	}
	c.writing.Lock()
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

// pad is rb_reset_tail: what is left of a page becomes an event of its own, if
// that has room.
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

// nextPage moves on to the next page; when all are in use it gives up the
// oldest one, if it may.
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

// eventSize is what an event of n bytes of data takes in a page, without a time
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

// pagePlace is how far a reader has come: to which byte of the events of which page,
// and to the time of the event before that.
type pagePlace struct {
	of   *cpuPages // others are there after a swap
	page uint64
	used int
	time int64
}

// copyPage copies the page of a place from there on, or the oldest one after it,
// into p (of a page's bytes), and gives the place at its end, but for the time;
// false: there is nothing in it yet, or pages have another size by now. What
// consuming readers have taken is left out.
func (c *cpuBuffer) copyPage(from pagePlace, p []byte) (pagePlace, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := max(from.page, c.first())
	if n > c.tail || len(c.reader.data) != len(p) {
		return pagePlace{of: c.cpuPages, page: max(n, c.tail+1)}, false
	}
	src := c.page(n)
	used, start, time := src.used(), 0, src.stamp()
	if n < c.head && c.taken > 0 {
		start, time = c.taken, c.takenTime
	}
	if from.of == c.cpuPages && n == from.page && from.used > start {
		start, time = from.used, from.time
	}
	copy(p[pageHeader:], src.data[pageHeader+start:pageHeader+used])
	binary.LittleEndian.PutUint64(p, uint64(time))
	binary.LittleEndian.PutUint64(p[8:], uint64(used-start))
	return pagePlace{of: c.cpuPages, page: n, used: used}, used > start
}

// rest is what is left to read of the reader's page now.
func (c *cpuPages) rest() pageReader {
	r := pageReader{c.reader.data[pageHeader+c.taken : pageHeader+c.reader.used()], c.takenTime}
	if c.taken == 0 {
		r.time = c.reader.stamp()
	}
	return r
}

// next is the oldest event that no consuming reader has taken, and how many
// bytes of its page are done with it.
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

// advance is rb_advance_reader: the event that next gave is read.
func (c *cpuPages) advance(time int64, done int) {
	c.bytes -= uint64(done - c.taken)
	c.taken, c.takenTime = done, time
	c.consumed++
}

// nextTime is the time of the event that peek would give.
func (c *cpuBuffer) nextTime() (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, time, _, ok := c.next()
	return time, ok
}

// peek gives the oldest event; lost is how many were overrun right before it.
func (c *cpuBuffer) peek(into []byte) (data []byte, time int64, lost uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	event, time, _, ok := c.next()
	if !ok {
		return nil, 0, 0, false
	}
	return append(into[:0], event...), time, c.lost, true
}

// drop takes the next event out if it is of that time.
func (c *cpuBuffer) drop(time int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, at, done, ok := c.next(); ok && at == time {
		c.advance(time, done)
		c.lost = 0
	}
}

// Bits of a page's commit that say that events were lost before it, and that
// their number stands after the last event.
const (
	missedEvents = 1 << 31
	missedStored = 1 << 30
)

// ReadPage is ring_buffer_read_page: it takes the oldest events of a vCPU out of
// the buffer, as many as a page has and go into size bytes of one, and makes them
// a page in p, which gets a page's size. Not ok: there are none (empty), or size has no
// room for the first. Both are seen in one look, so that a reader does not take an
// event that comes just then for one that has no room.
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

// empty says whether a vCPU, or with -1 all, have no event to read.
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
	return c.entries() > c.ghosts
}

// Consume takes the event that Peek gives out of the buffer.
func (b *RingBuffer) Consume(cpu int, into []byte) (r Record, lost uint64, ok bool) {
	b.Hold(cpu)
	defer b.Leave(cpu)
	if r, lost, ok = b.Peek(cpu, into); ok {
		b.Drop(r)
	}
	return r, lost, ok
}

// Hold is trace_access_lock: nobody else takes events of a vCPU, or with -1 of any,
// out of the buffer until Leave.
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

// Peek gives the oldest event of all vCPUs, or of one where cpu is not negative,
// which the caller holds. Its data stand in into, which should have room for a page.
// lost is how many older events of that vCPU no reader will get.
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

// Drop takes an event out of the buffer that Peek has given since Hold. It does
// nothing where that is gone: the buffer has been emptied meanwhile.
func (b *RingBuffer) Drop(r Record) { b.cpus[r.CPU].drop(r.Time) }

// Record is one event as it stands in a page.
type Record struct {
	CPU  int
	Time int64
	Data []byte // padded to whole words; belongs to the page it was read from
}

// pageReader walks the events of one page.
type pageReader struct {
	data []byte // what is left of the committed events
	time int64
}

// newPageReader begins at the page's first event; a page that says it holds
// more than it can is refused with EINVAL.
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

// next is the page's next data event; false at its end, or where the page
// makes no sense.
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

// extent is the size of the event at hand, with its header, and where its data
// begin; 0: the page does not hold it.
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

// Iterator walks the events of all vCPUs in the order of time, without
// consuming them: what was in the buffer when it was made.
type Iterator struct {
	cpu    int // -1: all
	cpus   []cpuIterator
	buffer *RingBuffer
}

type cpuIterator struct {
	all   *[]byte // copies of the buffer's spare memory, size bytes each
	size  int
	pages []byte // those of them that page has not come to
	page  pageReader
	to    pagePlace // the end of what was copied
	next  Record
	ok    bool
}

// Iterate copies what is in the buffer of one vCPU, or with -1 of all, now, page
// by page, and gives an iterator over it. Events that a vCPU overwrites meanwhile
// are left out.
func (b *RingBuffer) Iterate(cpu int) *Iterator {
	it := &Iterator{cpu: cpu, cpus: make([]cpuIterator, len(b.cpus)), buffer: b}
	it.More()
	return it
}

// More has an iterator that is at its end go on with what has come since.
func (it *Iterator) More() {
	b := it.buffer
	for i := range b.cpus {
		if it.cpu >= 0 && i != it.cpu {
			continue
		}
		all, _ := b.copies.Get().(*[]byte)
		if all == nil {
			all = new([]byte)
		}
		c := &it.cpus[i]
		*all, c.size, c.to = b.cpus[i].copyAll((*all)[:0], c.to)
		c.all, c.pages = all, *all
		c.advance(i)
	}
}

// copyAll appends copies of the pages from a place on to all, and says how large each
// is and how far it came.
func (c *cpuBuffer) copyAll(all []byte, to pagePlace) (copies []byte, size int, end pagePlace) {
	c.mu.Lock()
	if to.of != c.cpuPages {
		to = pagePlace{of: c.cpuPages}
	}
	n, last := max(to.page, c.first()), c.tail
	size = len(c.reader.data)
	c.mu.Unlock()
	if n > last {
		return all, size, to
	}
	all = slices.Grow(all, int(last+1-n)*size)[:int(last+1-n)*size]
	have := 0
	from := to
	// A swap may put pages with lower numbers in their place meanwhile.
	for ; from.page <= last && have < len(all); from = (pagePlace{of: from.of, page: from.page + 1}) {
		var ok bool
		if from, ok = c.copyPage(from, all[have:have+size]); ok && from.page <= last {
			have += size
			to = from
		}
	}
	return all[:have], size, to
}

func (c *cpuIterator) advance(cpu int) {
	for {
		data, time, ok := c.page.next()
		if ok {
			c.next, c.ok = Record{CPU: cpu, Time: time, Data: data}, true
			return
		}
		if len(c.pages) == 0 {
			c.ok, c.to.time = false, max(c.to.time, c.page.time)
			return
		}
		page := c.pages[:c.size]
		c.pages = c.pages[c.size:]
		c.page, _ = newPageReader(page) // our own pages make sense
	}
}

// first is the vCPU whose event is next; of two at the same time the lower one.
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

// peek is the time of the event that Next gives.
func (it *Iterator) peek() (int64, bool) {
	i := it.first()
	if i < 0 {
		return 0, false
	}
	return it.cpus[i].next.Time, true
}

// Next is the oldest event that has not been returned yet. At the end the records
// that it gave are no more.
func (it *Iterator) Next() (Record, bool) {
	i := it.first()
	if i < 0 {
		it.release()
		return Record{}, false
	}
	r := it.cpus[i].next
	it.cpus[i].advance(i)
	return r, true
}

// release gives the memory of the copies back.
func (it *Iterator) release() {
	for i := range it.cpus {
		if c := &it.cpus[i]; c.all != nil {
			it.buffer.copies.Put(c.all)
			*c = cpuIterator{to: c.to}
		}
	}
}

// count is how many pages a vCPU has, the reader's not counted.
func (b *RingBuffer) count(cpu int) int {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pages)
}

// size is what a vCPU's pages hold, bytes: ring_buffer_size.
func (b *RingBuffer) size(cpu int) int {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pages) * c.reader.room()
}
