package ring

import "encoding/binary"

// Write adds one event of data to a vCPU's buffer; now is its time in nanoseconds (or
// the trace clock's unit). It runs in handler context and allocates nothing; a reader
// delays it only at the end of a page, while it copies one page. It returns false if
// the event was not stored; the counters include it unless recording is off.
func (b *Buffer) Write(cpu int, now int64, data []byte) bool {
	return !b.disabled.Load() && b.paused.Load() == 0 && b.Commit(cpu, now, data)
}

// Commit is Write for an event that was started before recording was switched off.
func (b *Buffer) Commit(cpu int, now int64, data []byte) bool {
	if len(data) > MaxData {
		return false
	}
	c := &b.cpus[cpu]
	c.writing.Lock()
	if c.off.Load() { // checked under the lock, because after Free there is no page to write to
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
		// The page's own time stamp is its first event's.
		now = max(now, c.stamp)
		delta = 0
		binary.LittleEndian.PutUint64(page.data, uint64(now))
	}
	at := PageHeader + used
	if delta > deltaMax {
		binary.LittleEndian.PutUint32(page.data[at:], typeExtend|uint32(delta&deltaMax)<<5)
		binary.LittleEndian.PutUint32(page.data[at+4:], uint32(delta>>deltaBits))
		at, delta = at+8, 0
	}
	at = putEvent(page.data, at, uint32(delta), data)
	page.filled.Store((filled>>entersShift+1)<<entersShift | uint64(at-PageHeader))
	c.stamp = max(now, c.stamp)
	return true
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
