package ring

import (
	"encoding/binary"
)

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
		copy(p[PageHeader:], src.data[PageHeader+start:PageHeader+used])
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

// Iterator walks the events of all vCPUs in the order of time without consuming them.
// It covers the events that were in the buffer when it was created or at the last call
// of More, except those that are overwritten before it gets to their page. It holds two
// pages for each vCPU, however large the buffer is.
type Iterator struct {
	cpu    int // -1 means all
	cpus   []cpuIterator
	buffer *Buffer
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
func (b *Buffer) Iterate(cpu int) *Iterator {
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

// Newest goes past all events but those in the newest page of each vCPU and in the page before it,
// and extends the iterator to what was added since.
func (it *Iterator) Newest() {
	for i := range it.buffer.cpus {
		if it.cpu >= 0 && i != it.cpu {
			continue
		}
		c, end := &it.cpus[i], it.buffer.cpus[i].end()
		if first := max(end.page, 1) - 1; c.to.of != end.of || c.to.page < first {
			c.to, c.page = pagePlace{of: end.of, page: first}, pageReader{}
		}
	}
	it.More()
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

// Peek returns the time of the event that Next would return.
func (it *Iterator) Peek() (int64, bool) {
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
		it.Release()
		return Record{}, false
	}
	r := it.cpus[i].next
	it.advance(i)
	return r, true
}

// PeekCPU returns the next event of a vCPU without going on to it. Its data are valid
// until the next call of Next or Skip.
func (it *Iterator) PeekCPU(cpu int) (Record, bool) {
	c := &it.cpus[cpu]
	return c.next, c.ok
}

// Skip goes past the next event of a vCPU.
func (it *Iterator) Skip(cpu int) { it.advance(cpu) }

// Release frees the memory of the copies. More may still be called afterwards.
func (it *Iterator) Release() {
	for i := range it.cpus {
		if c := &it.cpus[i]; c.room != nil {
			it.buffer.copies.Put(c.room)
			*c = cpuIterator{to: c.to, end: c.end, overrun: c.overrun}
		}
	}
}

// CopyPages calls f with a copy of each page of a vCPU that has events now, the oldest first, and
// consumes nothing. f must not keep the copy.
func (b *Buffer) CopyPages(cpu int, f func(page []byte) error) error {
	end := b.cpus[cpu].end()
	at := pagePlace{of: end.of}
	for {
		var page []byte
		ok := false
		there := end.of.look(func() {
			page = make([]byte, len(end.of.reader.data))
			at, _, ok = end.of.copyPage(at, end, page)
		})
		if !there || !ok {
			return nil
		}
		if err := f(page); err != nil {
			return err
		}
		at.page, at.used = at.page+1, 0
	}
}
