package tracing

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// RawPipe is an open trace_pipe_raw or snapshot_raw: it consumes entries of a vCPU's
// buffer as pages in the binary format.
type RawPipe struct {
	array    *Array
	cpu      int
	snapshot bool

	mu      sync.Mutex // one reader at a time; not held while it waits
	page    partPage   // of Read
	spliced partPage   // of Splice
}

// partPage is a page that is returned in parts.
type partPage struct {
	data []byte
	done int // bytes that have been returned
}

// ended reports whether the whole page has been returned.
func (p *partPage) ended() bool { return p.done == len(p.data) }

// next copies the next part to b.
func (p *partPage) next(b []byte) int {
	n := copy(b, p.data[p.done:])
	p.done += n
	return n
}

// OpenRaw is tracing_buffers_open for a vCPU, or snapshot_raw_open with snapshot. There
// may be several readers; each entry goes to one of them.
func (a *Array) OpenRaw(cpu int, snapshot bool) *RawPipe {
	return &RawPipe{array: a, cpu: cpu, snapshot: snapshot}
}

// Read is tracing_buffers_read: it returns a page with the oldest entries, or its first
// part with as many entries as fit into b; the next read continues with that page. It
// returns 0 if b has no room for an entry. It fails with EAGAIN if it would wait and
// nonblock is set, and with EINTR if ctx ends. The rest of a page is lost if the
// buffer's page size changes.
func (p *RawPipe) Read(ctx context.Context, b []byte, nonblock bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page.ended() || len(p.page.data) != p.pageBytes() {
		if ok, err := p.await(ctx, len(b), nonblock); !ok {
			p.page.done = len(p.page.data)
			return 0, err
		}
		p.page.done = 0
	}
	return p.page.next(b), nil
}

// Splice is tracing_buffers_splice_read: it returns the next part of the oldest page that
// is complete, the whole page where it fits into b. It waits until the buffer is as full as
// buffer_percent requires. It returns 0 if tracing is off when the wait ends, and fails
// with EAGAIN if it would wait and nonblock is set, and with EINTR if ctx ends.
func (p *RawPipe) Splice(ctx context.Context, b []byte, nonblock bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok, err := p.awaitWhole(ctx, nonblock); !ok {
		return 0, err
	}
	return p.spliced.next(b), nil
}

// CheckSplice returns EAGAIN if Splice has nothing to return at once, and EINVAL if there is
// no splice(2) of length bytes.
func (p *RawPipe) CheckSplice(length int) error {
	if length < ring.PageSize && !p.array.tracer.conf.has[release.SpliceParts] {
		return fmt.Errorf("%d bytes are less than a page: %w", length, syscall.EINVAL)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.fillWhole() {
		return errNoWholePage
	}
	return nil
}

// awaitWhole waits until there is a whole page, or tracing is off.
func (p *RawPipe) awaitWhole(ctx context.Context, nonblock bool) (bool, error) {
	if p.fillWhole() {
		return true, nil
	}
	if nonblock {
		return false, errNoWholePage
	}
	wake, end := p.array.buffer.Notify()
	defer end()
	for {
		if b := p.buffer(); b != nil && (p.snapshot || p.array.ready(b, p.cpu)) && p.fillWhole() {
			return true, nil
		}
		if err := awaitEntry(ctx, &p.mu, wake); err != nil {
			return false, err
		}
		if !p.array.On() {
			return p.fillWhole(), nil
		}
	}
}

// errNoWholePage is the error of a Splice that is not to wait.
var errNoWholePage = fmt.Errorf("no whole page yet: %w", syscall.EAGAIN)

// fillWhole reports whether Splice has something to return: what is left of its page, or the
// next whole one.
func (p *RawPipe) fillWhole() bool {
	if !p.spliced.ended() {
		return true
	}
	b := p.buffer()
	ok := b != nil && b.ReadWholePage(p.cpu, &p.spliced.data)
	p.spliced.done = 0
	if !ok {
		p.spliced.done = len(p.spliced.data)
	}
	return ok
}

func (p *RawPipe) buffer() *ring.Buffer {
	if p.snapshot {
		return p.array.snapshots.buffer.Load()
	}
	return p.array.buffer
}

// pageBytes returns the size of the buffer's pages.
func (p *RawPipe) pageBytes() int {
	if b := p.buffer(); b != nil {
		return b.PageBytes()
	}
	return len(p.page.data)
}

// await waits until there is a page. It returns false on an error or if size has no
// room for an entry.
func (p *RawPipe) await(ctx context.Context, size int, nonblock bool) (bool, error) {
	if ok, wait := p.fill(size); ok || !wait || p.array.tracer.conf.has[release.RawEnds] && !p.snapshot {
		return ok, nil
	}
	wake, end := p.array.buffer.Notify()
	defer end()
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

// fill builds a page. wait says that there are no entries for it.
func (p *RawPipe) fill(size int) (ok, wait bool) {
	b := p.buffer()
	if b == nil {
		return false, true
	}
	return b.ReadPage(p.cpu, &p.page.data, size)
}

// Poll is tracing_buffers_poll: it reports whether the buffer is as full as buffer_percent
// requires, and returns a channel that gets a value at the next entry, until end is
// called.
func (p *RawPipe) Poll() (ready bool, next <-chan struct{}, end func()) {
	next, end = p.array.buffer.Notify()
	b := p.buffer()
	return b != nil && p.array.ready(b, p.cpu), next, end
}

// ready is ring_buffer_poll_wait: whether a buffer of the array has an entry, or the buffer of one
// vCPU as many as buffer_percent requires. A low percentage requires none.
func (a *Array) ready(b *ring.Buffer, cpu int) bool {
	a.tracer.mu.Lock()
	percent := a.percent
	a.tracer.mu.Unlock()
	if (cpu < 0 || percent == 0 || a.tracer.conf.has[release.PollNeedsEntry]) && b.Empty(cpu) {
		return false
	}
	return cpu < 0 || b.FullHit(cpu, percent)
}
