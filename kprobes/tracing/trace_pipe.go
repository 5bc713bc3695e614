package tracing

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/wait"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// pipeRead is TRACE_SEQ_BUFFER_SIZE: one read of trace_pipe returns less.
const pipeRead = 4096

// maxRead is pipeRead on the pipe's release.
func (p *Pipe) maxRead() int {
	if p.array.tracer.conf.has[release.LongMarkers] {
		return lineMax + 1
	}
	return pipeRead
}

// Pipe is an open trace_pipe: it consumes entries of the buffer and returns them as
// lines of trace.
type Pipe struct {
	array *Array
	cpu   int // -1 means all

	mu      sync.Mutex // one reader at a time; not held while it waits
	event   []byte
	index   int    // of the next entry
	text    []byte // text that no read has returned yet
	held    []byte // a line of function_graph that did not fit; its entry is consumed
	graph   *ftracer.GraphPrinter
	ahead   []byte // the entry behind event
	started bool   // a read has returned text, so an end of file is possible
}

// OpenPipe is tracing_open_pipe, for one vCPU's trace_pipe or, if cpu is -1, the one for
// all. It fails with EBUSY if the file, or another one that would consume the same
// entries, is already open.
func (a *Array) OpenPipe(cpu int) (*Pipe, error) {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	if err := a.readers.openPipe(cpu); err != nil {
		return nil, err
	}
	return &Pipe{array: a, cpu: cpu, event: make([]byte, 0, ring.PageSize)}, nil
}

// Close allows trace_pipe to be opened again.
func (p *Pipe) Close() {
	p.array.tracer.mu.Lock()
	defer p.array.tracer.mu.Unlock()
	p.array.readers.setPiped(p.cpu, false)
}

// Read is tracing_read_pipe: it waits for an entry and returns whole lines, as many as
// fit into b. If b is too small for one line, it returns a part, and the next read
// continues with the rest. It returns 0 if an earlier read has returned entries, none
// is left, and tracing_on is 0. It fails with EAGAIN if it would wait and nonblock is
// set, and with EINTR if ctx ends.
func (p *Pipe) Read(ctx context.Context, b []byte, nonblock bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.text) == 0 {
		if more, err := p.await(ctx, min(len(b), p.maxRead()-1), nonblock); err != nil || !more {
			return 0, err
		}
	}
	p.started = true
	n := copy(b, p.text)
	p.text = p.text[:copy(p.text, p.text[n:])]
	return n, nil
}

// Splice is tracing_splice_read_pipe, for one page of a pipe: it fills b with whole lines, after
// the rest of one that Read has returned in part, and does not wait. It returns 0 if the next
// line is longer than b. It fails with EAGAIN if there is none, but with EFAULT where Read would
// be at the end of the file.
func (p *Pipe) Splice(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := min(len(b), p.maxRead()-1)
	switch left := p.fill(limit, limit, limit); {
	case len(p.text) > limit, len(p.text) == 0 && left:
		return 0, nil
	case len(p.text) == 0 && p.started && !p.array.On():
		return 0, fmt.Errorf("no entry, and tracing is off: %w", syscall.EFAULT)
	case len(p.text) == 0:
		return 0, fmt.Errorf("no entry yet: %w", syscall.EAGAIN)
	}
	p.started = true
	n := copy(b, p.text)
	p.text = p.text[:0]
	return n, nil
}

// await is tracing_wait_pipe and the code after it: it waits until there is text. It
// returns false at the end of the file.
func (p *Pipe) await(ctx context.Context, size int, nonblock bool) (bool, error) {
	some := func() bool {
		p.fill(size, p.maxRead()-1, math.MaxInt)
		return len(p.text) > 0
	}
	if some() {
		return true, nil
	}
	wake, end := p.array.buffer.Notify()
	defer end()
	for !some() {
		switch {
		case nonblock:
			return false, fmt.Errorf("no entry yet: %w", syscall.EAGAIN)
		case p.started && !p.array.On():
			return false, nil
		}
		if err := awaitEntry(ctx, &p.mu, wake); err != nil {
			return false, err
		}
	}
	return true, nil
}

// awaitEntry waits until wake is ready. It releases mu, the reader's lock, while it
// waits, and holds it on return. It fails with EINTR if ctx ends.
func awaitEntry(ctx context.Context, mu *sync.Mutex, wake <-chan struct{}) error {
	mu.Unlock()
	defer mu.Lock()
	if !wait.For(ctx, wake) {
		return fmt.Errorf("waiting for an entry: %w", syscall.EINTR)
	}
	return nil
}

// Poll is tracing_poll_pipe: it reports whether there is an entry (for one vCPU, as many
// as buffer_percent requires), and returns a channel that gets a value at the next
// entry, until end is called.
func (p *Pipe) Poll() (ready bool, next <-chan struct{}, end func()) {
	next, end = p.array.buffer.Notify()
	p.mu.Lock()
	defer p.mu.Unlock()
	ready = p.array.ready(p.array.buffer, p.cpu)
	return ready, next, end
}

// appendLost appends the line about lost entries of a vCPU.
func appendLost(b []byte, cpu int, lost uint64) []byte {
	if lost == 0 {
		return b
	}
	return fmt.Appendf(b, "CPU:%d [LOST %d EVENTS]\n", cpu, lost)
}

// fill renders entries until there are size bytes of text. An entry whose line would make the
// text longer than limit, or than first if it is the first line, stays: then fill returns true.
func (p *Pipe) fill(size, limit, first int) (left bool) {
	b := p.array.buffer
	clock := p.array.clock.Load()
	b.Hold(p.cpu)
	defer b.Leave(p.cpu)
	p.text, p.held = append(p.text, p.held...), nil
	for p.held == nil && (len(p.text) == 0 || len(p.text) < size) {
		r, lost, ok := b.Peek(p.cpu, p.event)
		if !ok {
			return false
		}
		most := limit
		if len(p.text) == 0 {
			most = first
		}
		text := appendLost(p.text, r.CPU, lost)
		if p.array.printsGraph() && p.fillGraph(b, text, r, most) {
			continue
		}
		text = p.array.appendLine(text, line{Record: r, index: p.index, next: r.Time}, clock)
		if len(text) > most {
			return true
		}
		b.Drop(r)
		p.index++
		p.text = text
	}
	return p.held != nil
}

// fillGraph appends an entry in function_graph's form to text and consumes it. If the text is
// longer than most then, the line is held for the next call. It returns false if the entry has
// no such form.
func (p *Pipe) fillGraph(b *ring.Buffer, text []byte, r ring.Record, most int) bool {
	if p.graph == nil {
		p.graph = p.array.ftrace.NewGraphPrinter()
	}
	ahead := &pipeAhead{pipe: p, buffer: b, of: r}
	before := len(p.text)
	line, ok := p.graph.Append(text, r, ahead)
	if !ok {
		return false
	}
	p.index++
	if !ahead.dropped {
		b.Drop(r)
	}
	if len(line) > most {
		p.held = slices.Clone(line[before:])
	} else {
		p.text = line
	}
	return true
}

// pipeAhead are the followers of an entry of trace_pipe: it is consumed to see them.
type pipeAhead struct {
	pipe    *Pipe
	buffer  *ring.Buffer
	of      ring.Record
	dropped bool
	next    ring.Record
}

func (g *pipeAhead) After() (r ring.Record, ok bool) {
	if g.pipe.ahead == nil {
		g.pipe.ahead = make([]byte, 0, ring.PageSize)
	}
	g.buffer.Drop(g.of)
	g.dropped = true
	if g.next, _, ok = g.buffer.Peek(g.of.CPU, g.pipe.ahead); !ok {
		return r, false
	}
	return g.next, true
}

func (g *pipeAhead) Take() { g.buffer.Drop(g.next) }
