package ring

import (
	"encoding/binary"
	"math"
)

// rest returns what is left to read of the reader's page.
func (c *cpuPages) rest() pageReader {
	r := pageReader{c.reader.data[PageHeader+c.taken : PageHeader+c.reader.used()], c.takenTime}
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

// ReadPage is ring_buffer_read_page: it consumes the oldest events of a vCPU, as many
// as one page holds and as fit into size bytes, and builds a page of them in p, which
// is resized to the page size. If ok is false, there are no events (empty), or size has
// no room for the first one. Both are determined at once, so that an event that arrives
// in between does not look as if it had no room.
func (b *Buffer) ReadPage(cpu int, page *[]byte, size int) (ok, empty bool) {
	return b.readPage(cpu, page, size, false)
}

// ReadWholePage is ring_buffer_read_page with full set, as splice(2) calls it: it
// consumes a page, or the rest of it, only when no more events can come to it. It returns
// whether it did.
func (b *Buffer) ReadWholePage(cpu int, page *[]byte) bool {
	ok, _ := b.readPage(cpu, page, math.MaxInt, true)
	return ok
}

func (b *Buffer) readPage(cpu int, page *[]byte, size int, whole bool) (ok, empty bool) {
	b.Hold(cpu)
	defer b.Leave(cpu)
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*page) != len(c.reader.data) {
		*page = make([]byte, len(c.reader.data))
	}
	p := *page
	room := min(size, len(p)) - PageHeader
	_, _, done, more := c.next()
	if !more || room <= 0 || whole && c.head-1 == c.tail {
		return false, !more
	}
	stamp := c.takenTime
	if c.taken == 0 {
		stamp = c.reader.stamp()
	}
	commit := 0
	if used := c.reader.used(); c.taken == 0 && room >= used && c.head-1 != c.tail {
		copy(p[PageHeader:], c.reader.data[PageHeader:PageHeader+used])
		commit = used
		c.bytes -= uint64(used)
		c.consumed += c.reader.entered()
		c.taken = used
	} else {
		r := c.rest()
		end := c.taken + len(r.data)
		_, time, more := r.next()
		for more && done-c.taken <= room-commit {
			commit += copy(p[PageHeader+commit:], c.reader.data[PageHeader+c.taken:PageHeader+done])
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
		if len(p)-PageHeader-commit >= 8 {
			binary.LittleEndian.PutUint64(p[PageHeader+commit:], c.lost)
			commit += 8
			head = uint64(commit) | missedStored
		}
		head |= missedEvents
		c.lost = 0
	}
	clear(p[PageHeader+commit:])
	binary.LittleEndian.PutUint64(p, uint64(stamp))
	binary.LittleEndian.PutUint64(p[8:], head)
	return true, false
}

// Empty reports whether a vCPU, or all of them if cpu is -1, have no event to read.
func (b *Buffer) Empty(cpu int) bool {
	for i := range b.cpus {
		if (cpu < 0 || i == cpu) && b.cpus[i].some() {
			return false
		}
	}
	return true
}

// some reports whether there is an event to read.
func (c *cpuBuffer) some() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries() > c.retired
}

// Consume removes the event that Peek would return from the buffer.
func (b *Buffer) Consume(cpu int, into []byte) (r Record, lost uint64, ok bool) {
	b.Hold(cpu)
	defer b.Leave(cpu)
	if r, lost, ok = b.Peek(cpu, into); ok {
		b.Drop(r)
	}
	return r, lost, ok
}

// Hold is trace_access_lock: until Leave, nobody else consumes events of the vCPU, or
// of any vCPU if cpu is -1.
func (b *Buffer) Hold(cpu int) {
	if cpu < 0 {
		b.access.Lock()
		return
	}
	b.access.RLock()
	b.cpus[cpu].access.Lock()
}

// Leave ends a Hold.
func (b *Buffer) Leave(cpu int) {
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
func (b *Buffer) Peek(cpu int, into []byte) (r Record, lost uint64, ok bool) {
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
func (b *Buffer) Drop(r Record) { b.cpus[r.CPU].drop(r.Time) }

// FullHit is full_hit: whether that percentage of a vCPU's pages has entries, the page that
// is being written to included.
func (b *Buffer) FullHit(cpu int, percent uint64) bool {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	dirty := uint64(1)
	if c.head <= c.tail {
		dirty += c.tail - c.head
	}
	return dirty*100 >= percent*uint64(len(c.pages))
}
