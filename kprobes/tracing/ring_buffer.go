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
	pageSize   = 4096
	pageHeader = 16                    // u64 time stamp of the first event, u64 commit
	pageData   = pageSize - pageHeader // BUF_PAGE_SIZE

	eventHeader = 4 // u32: type_len in the low 5 bits, time_delta in the upper 27

	typeLenMax   = 28 // up to this, type_len is the data's length in words
	typePadding  = 29
	typeExtend   = 30 // time_delta has 27 bits more in array[0]
	typeStamp    = 31 // an absolute time
	smallDataMax = typeLenMax * 4

	maxEntry = pageData - eventHeader - 4 - 8 // data of one event, bytes

	deltaBits = 27
	deltaMax  = 1<<deltaBits - 1
)

// cpuBuffer is ring_buffer_per_cpu.
type cpuBuffer struct {
	mu sync.Mutex // guards all below; held for one event or one page, never across a wait
	cpuPages

	off atomic.Bool // this vCPU is not in tracing_cpumask
	_   [64]byte    // a neighbour's lock must not share a cache line
}

// cpuPages is the pages that one vCPU writes, and their counters: what a
// snapshot exchanges. Page n (counted from the buffer's beginning) lies in slot
// n mod len(pages); the pages head to tail hold events, tail is the one that is
// written to. A consuming reader takes the page head out of the ring, and what it
// holds can no longer be overrun: then the page is reader, its number head-1. That
// may be tail: the writing goes on there.
type cpuPages struct {
	pages   [][]byte
	entered []uint32 // events in each slot
	head    uint64
	tail    uint64

	stamp   int64  // time of the last event
	written uint64 // events ever written
	overrun uint64 // events lost because their page was needed again
	dropped uint64 // events refused because the buffer was full and must not overwrite
	bytes   uint64 // committed and not read

	reader        []byte // the reader's page, or the one that it will give in exchange
	readerEntered uint32
	held          bool   // reader is a page with events
	taken         int    // bytes of it that were read
	takenTime     int64  // time of the last of these events
	consumed      uint64 // events ever read
	reported      uint64 // of overrun: before the reader's page was taken
	lost          uint64 // of overrun: right before the next event that is read
}

// RingBuffer is the kernel's trace ring buffer: for each vCPU a fixed number of
// pages in the binary format of Linux. One vCPU writes to its own pages;
// readers copy whole pages. When it is full the oldest page is given up, and
// its events are counted as overrun, or, with overwrite off, the new event is
// counted as dropped: every event is in the buffer or in a counter.
type RingBuffer struct {
	cpus      []cpuBuffer
	overwrite atomic.Bool
	disabled  atomic.Bool   // tracing_on is 0
	swaps     atomic.Uint32 // how many times it changed places with the snapshot
	paused    atomic.Int32  // record_disabled: how many want it to pause
	waiters   waiters
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
func NewRingBuffer(cpus, pages int) *RingBuffer {
	b := &RingBuffer{cpus: make([]cpuBuffer, cpus)}
	b.overwrite.Store(true)
	for i := range b.cpus {
		b.cpus[i].adopt(newPages(pages))
		b.cpus[i].reader = newPages(1)[0]
		b.cpus[i].reset()
	}
	return b
}

// pagesFor is how many pages hold size bytes of events; never fewer than 2.
func pagesFor(size uint64) int {
	return int(max((size+pageData-1)/pageData, 2))
}

func newPages(n int) [][]byte {
	mem := make([]byte, n*pageSize)
	pages := make([][]byte, n)
	for i := range pages {
		pages[i] = mem[i*pageSize : (i+1)*pageSize : (i+1)*pageSize]
	}
	return pages
}

// adopt takes empty pages in place of those that the ring has, and keeps the
// newest of their contents; the events of the others count as overrun.
func (c *cpuPages) adopt(pages [][]byte) {
	entered := make([]uint32, len(pages))
	before, after := uint64(len(c.pages)), uint64(len(pages))
	for before > 0 && c.head <= c.tail && c.tail-c.head >= after {
		c.giveUpHead()
	}
	for p := c.head; before > 0 && p <= c.tail; p++ {
		copy(pages[p%after], c.pages[p%before])
		entered[p%after] = c.entered[p%before]
	}
	c.pages, c.entered = pages, entered
}

// reset empties the buffer and its counters. As in the kernel, the first slot is
// the first to be used again, and keeps its time stamp until then.
func (c *cpuPages) reset() {
	n := uint64(len(c.pages))
	c.head = (c.tail/n + 1) * n // page numbers go on: a reader of old ones finds them gone
	c.tail = c.head
	binary.LittleEndian.PutUint64(c.pages[0][8:], 0)
	c.entered[0] = 0
	c.held, c.taken = false, 0
	c.stamp, c.written, c.overrun, c.dropped, c.bytes = 0, 0, 0, 0, 0
	c.consumed, c.reported, c.lost = 0, 0, 0
}

// first is the oldest page that has not been given up or read whole.
func (c *cpuPages) first() uint64 {
	if c.held {
		return c.head - 1
	}
	return c.head
}

// page is page n, between first and tail, and how many events entered it.
func (c *cpuPages) page(n uint64) (page []byte, entered *uint32) {
	if c.held && n == c.head-1 {
		return c.reader, &c.readerEntered
	}
	i := n % uint64(len(c.pages))
	return c.pages[i], &c.entered[i]
}

// pageUsed is how many bytes of events a page has.
func pageUsed(page []byte) int { return int(binary.LittleEndian.Uint64(page[8:])) }

// giveUpHead loses the oldest page of the ring.
func (c *cpuPages) giveUpHead() {
	page, entered := c.page(c.head)
	c.overrun += uint64(*entered)
	c.bytes -= uint64(pageUsed(page))
	c.head++
}

// startPage makes the page after tail the one that is written to.
func (c *cpuPages) startPage() {
	c.tail++
	page, entered := c.page(c.tail)
	binary.LittleEndian.PutUint64(page, 0)
	binary.LittleEndian.PutUint64(page[8:], 0)
	*entered = 0
}

// takeHead is rb_get_reader_page: the reader leaves its page and gets the oldest
// one of the ring. False: there is none with events.
func (c *cpuPages) takeHead() bool {
	if c.head > c.tail {
		return false
	}
	i := c.head % uint64(len(c.pages))
	if pageUsed(c.pages[i]) == 0 {
		return false
	}
	if c.held {
		c.bytes -= uint64(pageUsed(c.reader) - c.taken) // the padding at its end
	}
	c.pages[i], c.reader = c.reader, c.pages[i]
	c.readerEntered = c.entered[i]
	c.held, c.taken = true, 0
	c.head++
	c.lost += c.overrun - c.reported
	c.reported = c.overrun
	return true
}

// Resize gives one vCPU, or with -1 each, pages pages. The newest events stay, as
// many as fit.
func (b *RingBuffer) Resize(cpu, pages int) {
	for i := range b.cpus {
		if cpu >= 0 && i != cpu {
			continue
		}
		c, fresh := &b.cpus[i], newPages(pages) // made before the lock, which vCPUs wait for
		c.mu.Lock()
		if len(c.pages) != pages {
			c.adopt(fresh)
		}
		c.mu.Unlock()
	}
}

// Reset empties the buffer of one vCPU, or with -1 of all, and its counters.
func (b *RingBuffer) Reset(cpu int) {
	for i := range b.cpus {
		if cpu >= 0 && i != cpu {
			continue
		}
		c := &b.cpus[i]
		c.mu.Lock()
		c.reset()
		c.mu.Unlock()
	}
}

// swap is ring_buffer_swap_cpu of all vCPUs at once, in atomic Go: the pages
// change places with those of another buffer. Whoever swaps the same two names
// them in the same order.
func (b *RingBuffer) swap(other *RingBuffer) {
	for i := range b.cpus {
		b.cpus[i].mu.Lock()
		other.cpus[i].mu.Lock()
	}
	b.swaps.Add(1)
	for i := range b.cpus {
		b.cpus[i].cpuPages, other.cpus[i].cpuPages = other.cpus[i].cpuPages, b.cpus[i].cpuPages
		other.cpus[i].mu.Unlock()
		b.cpus[i].mu.Unlock()
	}
}

// CPUs is how many vCPUs have a buffer.
func (b *RingBuffer) CPUs() int { return len(b.cpus) }

// Stats reads one vCPU's counters.
func (b *RingBuffer) Stats(cpu int) Stats {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest, _ := c.page(min(c.head, c.tail))
	return Stats{
		Entries: c.written - c.overrun - c.consumed, Overrun: c.overrun, Dropped: c.dropped, Read: c.consumed, Bytes: c.bytes,
		Oldest: int64(binary.LittleEndian.Uint64(oldest)),
	}
}

// Write adds one event of data to a vCPU's buffer; now is its time in
// nanoseconds (or the trace clock's unit). It is atomic Go: it allocates
// nothing and takes only the vCPU's own lock, which readers hold while they
// copy a page. False: the event is in no page; the counters know it unless
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
	c.mu.Lock()
	ok := c.write(now, data, b.overwrite.Load())
	c.mu.Unlock()
	b.waiters.wake()
	return ok
}

func (c *cpuPages) write(now int64, data []byte, overwrite bool) bool {
	delta := max(now-c.stamp, 0)
	size := eventSize(len(data))
	need := size
	if delta > deltaMax {
		need += 8
	}
	page, entered := c.page(c.tail)
	used := pageUsed(page)
	if used == 0 || used+need > pageData {
		if used != 0 {
			c.pad(page, used)
			if !c.nextPage(overwrite) {
				c.dropped++
				return false
			}
			page, entered = c.page(c.tail)
			used = 0
		}
		// The page's own time stamp is that of its first event.
		now = max(now, c.stamp)
		delta, need = 0, size
		binary.LittleEndian.PutUint64(page, uint64(now))
	}
	at := pageHeader + used
	if delta > deltaMax {
		binary.LittleEndian.PutUint32(page[at:], typeExtend|uint32(delta&deltaMax)<<5)
		binary.LittleEndian.PutUint32(page[at+4:], uint32(delta>>deltaBits))
		at, delta = at+8, 0
	}
	at = putEvent(page, at, uint32(delta), data)
	binary.LittleEndian.PutUint64(page[8:], uint64(at-pageHeader))
	*entered++
	c.written++
	c.bytes += uint64(need)
	c.stamp = max(now, c.stamp)
	return true
}

// pad is rb_reset_tail: what is left of a page becomes an event of its own, if
// that has room.
func (c *cpuPages) pad(page []byte, used int) {
	room := pageData - used
	if room < eventHeader+4 {
		return
	}
	at := pageHeader + used
	binary.LittleEndian.PutUint32(page[at:], typePadding|1<<5)
	binary.LittleEndian.PutUint32(page[at+4:], uint32(room-eventHeader))
	clear(page[at+8:])
	binary.LittleEndian.PutUint64(page[8:], pageData)
	c.bytes += uint64(room)
}

// nextPage moves on to the next page; when all are in use it gives up the
// oldest one, if it may.
func (c *cpuPages) nextPage(overwrite bool) bool {
	if c.head <= c.tail && c.tail-c.head+1 == uint64(len(c.pages)) {
		if !overwrite {
			return false
		}
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

// copyPage copies page number n, or the oldest one after it, into p (of
// pageSize bytes), and says which one it was; false: there is no such page yet.
// What consuming readers have taken is left out.
func (c *cpuBuffer) copyPage(n uint64, p []byte) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = max(n, c.first())
	if n > c.tail {
		return n, false
	}
	src, _ := c.page(n)
	used := pageHeader + pageUsed(src)
	copy(p, src[:used])
	if n < c.head && c.taken > 0 {
		copy(p[pageHeader:], src[pageHeader+c.taken:used])
		used -= c.taken
		binary.LittleEndian.PutUint64(p, uint64(c.takenTime))
		binary.LittleEndian.PutUint64(p[8:], uint64(used-pageHeader))
	}
	return n, used > pageHeader
}

// rest is what is left to read of the reader's page.
func (c *cpuPages) rest() pageReader {
	r := pageReader{c.reader[pageHeader+c.taken : pageHeader+pageUsed(c.reader)], c.takenTime}
	if c.taken == 0 {
		r.time = int64(binary.LittleEndian.Uint64(c.reader))
	}
	return r
}

// next is the oldest event that no consuming reader has taken, and how many
// bytes of its page are done with it.
func (c *cpuPages) next() (data []byte, time int64, done int, ok bool) {
	for {
		if c.held {
			r := c.rest()
			if data, time, ok = r.next(); ok {
				return data, time, pageUsed(c.reader) - len(r.data), true
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

// nextTime is the time of the event that consume would take.
func (c *cpuBuffer) nextTime() (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, time, _, ok := c.next()
	return time, ok
}

// consume takes the oldest event; lost is how many were overrun right before it.
func (c *cpuBuffer) consume(into []byte) (data []byte, time int64, lost uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	event, time, done, ok := c.next()
	if !ok {
		return nil, 0, 0, false
	}
	data = append(into[:0], event...)
	c.advance(time, done)
	lost, c.lost = c.lost, 0
	return data, time, lost, true
}

// Bits of a page's commit that say that events were lost before it, and that
// their number stands after the last event.
const (
	missedEvents = 1 << 31
	missedStored = 1 << 30
)

// ReadPage is ring_buffer_read_page: it takes the oldest events of a vCPU out of
// the buffer, as many as a page has and go into size bytes of one, and makes them
// a page in p (of pageSize bytes). Not ok: there are none (empty), or size has no
// room for the first. Both are seen in one look, so that a reader does not take an
// event that comes just then for one that has no room.
func (b *RingBuffer) ReadPage(cpu int, p []byte, size int) (ok, empty bool) {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	room := min(size, pageSize) - pageHeader
	data, time, done, more := c.next()
	if !more || room <= 0 {
		return false, !more
	}
	stamp := c.takenTime
	if c.taken == 0 {
		stamp = int64(binary.LittleEndian.Uint64(c.reader))
	}
	used := pageUsed(c.reader)
	commit := 0
	if c.taken == 0 && room >= used && c.head-1 != c.tail {
		copy(p[pageHeader:], c.reader[pageHeader:pageHeader+used])
		commit = used
		c.bytes -= uint64(used)
		c.consumed += uint64(c.readerEntered)
		c.taken = used
	} else {
		for more && done-c.taken <= room-commit {
			commit += copy(p[pageHeader+commit:], c.reader[pageHeader+c.taken:pageHeader+done])
			c.advance(time, done)
			r := c.rest()
			data, time, more = r.next()
			done = used - len(r.data)
		}
		_ = data
		if commit == 0 {
			return false, false
		}
	}
	head := uint64(commit)
	if c.lost > 0 {
		if pageData-commit >= 8 {
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
		if (cpu < 0 || i == cpu) && b.Stats(i).Entries > 0 {
			return false
		}
	}
	return true
}

// Consume takes the oldest event of all vCPUs, or of one where cpu is not
// negative, out of the buffer. Its data stand in into, which should have room
// for a page. lost is how many older events of that vCPU no reader will get.
func (b *RingBuffer) Consume(cpu int, into []byte) (r Record, lost uint64, ok bool) {
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
	data, time, lost, ok := b.cpus[first].consume(into)
	return Record{CPU: first, Time: time, Data: data}, lost, ok
}

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
		if n < 4 || n > pageData {
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
	cpus []cpuIterator
}

type cpuIterator struct {
	pages []byte // copies, pageSize each
	page  pageReader
	next  Record
	ok    bool
}

// Iterate copies what is in the buffer of one vCPU, or with -1 of all, now, page
// by page, and gives an iterator over it. Events that a vCPU overwrites meanwhile
// are left out.
func (b *RingBuffer) Iterate(cpu int) *Iterator {
	it := &Iterator{cpus: make([]cpuIterator, len(b.cpus))}
	for i := range b.cpus {
		if cpu >= 0 && i != cpu {
			continue
		}
		it.cpus[i] = cpuIterator{pages: b.cpus[i].copyAll()}
		it.cpus[i].advance(i)
	}
	return it
}

func (c *cpuBuffer) copyAll() []byte {
	c.mu.Lock()
	n, last := c.first(), c.tail
	c.mu.Unlock()
	var all []byte
	page := make([]byte, pageSize)
	for ; n <= last; n++ {
		var ok bool
		if n, ok = c.copyPage(n, page); ok && n <= last {
			all = append(all, page...)
		}
	}
	return all
}

func (c *cpuIterator) advance(cpu int) {
	for {
		data, time, ok := c.page.next()
		if ok {
			c.next, c.ok = Record{CPU: cpu, Time: time, Data: data}, true
			return
		}
		if len(c.pages) < pageSize {
			c.ok = false
			return
		}
		page := c.pages[:pageSize]
		c.pages = c.pages[pageSize:]
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

// Next is the oldest event that has not been returned yet.
func (it *Iterator) Next() (Record, bool) {
	i := it.first()
	if i < 0 {
		return Record{}, false
	}
	r := it.cpus[i].next
	it.cpus[i].advance(i)
	return r, true
}

// size is what a vCPU's pages hold, bytes: ring_buffer_size.
func (b *RingBuffer) size(cpu int) int {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pages) * pageData
}
