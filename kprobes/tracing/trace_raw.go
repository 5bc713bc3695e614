package tracing

import (
	"context"
	"fmt"
	"sync"
	"syscall"
)

// RawPipe is an open trace_pipe_raw or snapshot_raw: it takes entries out of the
// buffer of a vCPU as pages of its binary format.
type RawPipe struct {
	array    *Array
	cpu      int
	snapshot bool

	mu   sync.Mutex // one reader at a time; not held while it waits
	page []byte
	read int // of page: what reads have had
}

// OpenRaw is tracing_buffers_open of a vCPU, and with snapshot snapshot_raw_open.
// Several may be open: each entry goes to one of them.
func (a *Array) OpenRaw(cpu int, snapshot bool) *RawPipe {
	return &RawPipe{array: a, cpu: cpu, snapshot: snapshot}
}

// Read is tracing_buffers_read: it gives a page with the oldest entries, or as much
// of one as b takes, with as many entries as b has room for; the next read goes on
// with that page. 0: b has no room for an entry. EAGAIN: it would wait for one, and
// nonblock is set; EINTR: ctx ended. What is left of a page is lost when the buffer
// gets pages of another size.
func (p *RawPipe) Read(ctx context.Context, b []byte, nonblock bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read == len(p.page) || len(p.page) != p.pageBytes() {
		if ok, err := p.await(ctx, len(b), nonblock); !ok {
			p.read = len(p.page)
			return 0, err
		}
		p.read = 0
	}
	n := copy(b, p.page[p.read:])
	p.read += n
	return n, nil
}

func (p *RawPipe) buffer() *RingBuffer {
	if p.snapshot {
		return p.array.snapshot.Load()
	}
	return p.array.buffer
}

// pageBytes is how large a page of the buffer is.
func (p *RawPipe) pageBytes() int {
	if b := p.buffer(); b != nil {
		return b.pageBytes()
	}
	return len(p.page)
}

// await waits until there is a page. False: size has no room for one, or there is
// an error.
func (p *RawPipe) await(ctx context.Context, size int, nonblock bool) (bool, error) {
	if ok, wait := p.fill(size); ok || !wait || p.array.tracer.conf.RawEnds && !p.snapshot {
		return ok, nil
	}
	wake := p.array.buffer.waiters.add()
	defer p.array.buffer.waiters.remove(wake)
	for {
		ok, wait := p.fill(size)
		switch {
		case ok || !wait:
			return ok, nil
		case nonblock:
			return false, fmt.Errorf("no entry yet: %w", syscall.EAGAIN)
		}
		if err := awaitEntry(ctx, &p.mu, wake); err != nil {
			return false, err
		}
	}
}

// fill makes a page; wait: there is nothing to make it of.
func (p *RawPipe) fill(size int) (ok, wait bool) {
	b := p.buffer()
	if b == nil {
		return false, true
	}
	return b.ReadPage(p.cpu, &p.page, size)
}

// Poll is tracing_buffers_poll: whether the buffer is as full as buffer_percent asks
// for, and a channel that gets a value at the next entry, until end.
func (p *RawPipe) Poll() (ready bool, next <-chan struct{}, end func()) {
	wake := p.array.buffer.waiters.add()
	b := p.buffer()
	return b != nil && p.array.ready(b, p.cpu), wake, func() { p.array.buffer.waiters.remove(wake) }
}

// ready is ring_buffer_poll_wait: whether there is an entry in a buffer of the array,
// or of one vCPU as many as buffer_percent asks for.
func (a *Array) ready(b *RingBuffer, cpu int) bool {
	if b.empty(cpu) {
		return false
	}
	a.tracer.mu.Lock()
	percent := a.percent
	a.tracer.mu.Unlock()
	return cpu < 0 || b.fullHit(cpu, percent)
}

// fullHit is full_hit: that percentage of a vCPU's pages has entries.
func (b *RingBuffer) fullHit(cpu int, percent uint64) bool {
	c := &b.cpus[cpu]
	c.mu.Lock()
	defer c.mu.Unlock()
	dirty := uint64(0)
	if c.head <= c.tail {
		dirty = c.tail - c.head
	}
	return percent == 0 || dirty*100 >= percent*uint64(len(c.pages))
}
