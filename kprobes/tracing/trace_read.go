package tracing

import "fmt"

// TraceReader gives the records of the file trace, one after the other: the
// header, then a line for each entry in the order of time. Who comes to the end of
// what was in the buffer gets what has come since.
type TraceReader struct {
	array      *Array
	ofSnapshot bool
	cpu        int // -1: all
	pauses     bool

	buffer   *RingBuffer
	clock    *traceClock
	it       *Iterator
	rounds   int // how often it went on at the end of what was there
	index    int
	annotate bool
	started  []bool // per vCPU: it has had an entry, or needs no announcement
}

// Trace begins to read the file trace of one vCPU, or with -1 of all. It consumes
// nothing.
func (a *Array) Trace(cpu int) *TraceReader { return &TraceReader{array: a, cpu: cpu} }

// Open is what __tracing_open does while the file is open: the buffer keeps its
// size, and with the option pause-on-trace recording stands still until Close.
func (r *TraceReader) Open() {
	a := r.array
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	r.count(1)
	if !r.ofSnapshot && a.has(optPauseOnTrace) {
		a.buffer.paused.Add(1)
		r.pauses = true
	}
}

// Close is tracing_release.
func (r *TraceReader) Close() {
	r.array.tracer.mu.Lock()
	defer r.array.tracer.mu.Unlock()
	r.count(-1)
	if r.pauses {
		r.array.buffer.paused.Add(-1)
	}
}

func (r *TraceReader) count(n int) {
	if r.ofSnapshot {
		r.array.snapshotReaders += n
		return
	}
	for cpu := range r.array.readers {
		if r.cpu < 0 || cpu == r.cpu {
			r.array.readers[cpu] += n
		}
	}
}

// Rewind has the next record be the first one, of the buffer as it then is.
func (r *TraceReader) Rewind() { r.it, r.index, r.rounds, r.buffer = nil, 0, 0, nil }

// begin is the start of a reading: the header, or the help of an empty snapshot.
func (r *TraceReader) begin(b []byte) []byte {
	r.buffer, r.clock = r.array.buffer, r.array.clock.Load()
	if r.ofSnapshot {
		r.buffer = r.array.snapshot.Load()
	}
	if r.ofSnapshot && (r.buffer == nil || r.buffer.empty(r.cpu)) {
		r.it = &Iterator{}
		b = fmt.Appendf(b, "# tracer: %s\n#\n", r.array.currentTracer())
		return append(b, r.array.tracer.snapshotText(r.buffer != nil, r.cpu)...)
	}
	_, overrun := r.buffer.totals()
	r.annotate, r.started = overrun > 0, make([]bool, r.buffer.CPUs())
	r.it = r.buffer.Iterate(r.cpu)
	return r.array.appendHeader(b, r.buffer)
}

// Next appends the next record to b; false: there is none, but there may be later.
func (r *TraceReader) Next(b []byte) ([]byte, bool) {
	if r.it == nil {
		return r.begin(b), true
	}
	rec, ok := r.it.Next()
	if !ok && r.goOn() {
		rec, ok = r.it.Next()
	}
	if !ok {
		return b, false
	}
	b = r.appendStarted(b, rec.CPU)
	l := line{Record: rec, index: r.index, next: rec.Time}
	if next, ok := r.it.peek(); ok {
		l.next = next
	}
	r.index++
	return r.array.appendLine(b, l, r.clock), true
}

// maxRounds is how often a reader looks whether more has come before it is told that
// this is the end. On Linux it looks always, and under load may never find the end.
const maxRounds = 16

// goOn has the iterator look for what has come since. Once it has done that too often
// it does not for the next two calls: a read that ends there, and one that gives nothing.
func (r *TraceReader) goOn() bool {
	if r.it.buffer == nil { // the help of an empty snapshot
		return false
	}
	r.rounds++
	if r.rounds > maxRounds {
		if r.rounds == maxRounds+2 {
			r.rounds = 0
		}
		return false
	}
	r.it.More()
	if _, ok := r.it.peek(); !ok {
		r.rounds = 0
	}
	return true
}

// appendStarted is test_cpu_buff_start: where entries were lost, it says from where
// on a vCPU's are there. The first line of a trace goes without saying.
func (r *TraceReader) appendStarted(b []byte, cpu int) []byte {
	if !r.annotate || !r.array.has(optAnnotate) || r.started[cpu] {
		return b
	}
	r.started[cpu] = true
	if r.index == 0 {
		return b
	}
	return fmt.Appendf(b, "##### CPU %d buffer started ####\n", cpu)
}
