package tracing

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// TraceReader returns the records of the file trace: the header, then a line for each
// entry in the order of time. At the end of what was in the buffer, it continues with
// the entries that were added since.
type TraceReader struct {
	array      *Array
	ofSnapshot bool
	cpu        int // -1 means all
	pauses     bool

	buffer   *ring.Buffer
	onlyHelp bool // the help text of an empty snapshot is all there is
	clock    *traceClock
	it       *ring.Iterator
	rounds   int // how often it has continued at the end
	index    int
	annotate bool
	graph    *ftracer.GraphPrinter
	started  []bool // per vCPU: an entry was shown, or no announcement is needed
}

// readers are those who have trace or trace_pipe of an array open. Who reads trace keeps the buffer from
// being resized; entries are consumed by one trace_pipe only.
//
// Tracer.mu guards it.
type readers struct {
	trace    []int  // for each vCPU, how many read it in trace
	pipes    []bool // for each vCPU, whether its own trace_pipe is open
	allPiped bool   // the trace_pipe of all vCPUs is open
}

func newReaders(cpus int) readers {
	return readers{trace: make([]int, cpus), pipes: make([]bool, cpus)}
}

// count adds n to those who read trace of a vCPU, or of all if cpu is -1.
func (r *readers) count(cpu, n int) {
	for i := range r.trace {
		if cpu < 0 || i == cpu {
			r.trace[i] += n
		}
	}
}

// reading reports whether anybody reads trace.
func (r *readers) reading() bool {
	return slices.ContainsFunc(r.trace, func(n int) bool { return n > 0 })
}

// openPipe opens the trace_pipe of a vCPU, or of all if cpu is -1. It fails with EBUSY if one is
// open that would consume the same entries.
func (r *readers) openPipe(cpu int) error {
	if r.allPiped || cpu >= 0 && r.pipes[cpu] || cpu < 0 && slices.Contains(r.pipes, true) {
		return fmt.Errorf("trace_pipe has a reader: %w", syscall.EBUSY)
	}
	r.setPiped(cpu, true)
	return nil
}

func (r *readers) setPiped(cpu int, open bool) {
	if cpu < 0 {
		r.allPiped = open
	} else {
		r.pipes[cpu] = open
	}
}

// Trace starts to read the file trace of one vCPU, or of all if cpu is -1. It consumes
// nothing.
func (a *Array) Trace(cpu int) *TraceReader { return &TraceReader{array: a, cpu: cpu} }

// Open is what __tracing_open does for as long as the file is open: the buffer cannot
// be resized, and with the option pause-on-trace recording pauses until Close.
func (r *TraceReader) Open() {
	a := r.array
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	r.count(1)
	if !r.ofSnapshot && a.has(optPauseOnTrace) {
		a.buffer.Pause()
		r.pauses = true
	}
}

// Close is tracing_release.
func (r *TraceReader) Close() {
	r.array.tracer.mu.Lock()
	defer r.array.tracer.mu.Unlock()
	r.count(-1)
	r.Rewind()
	if r.pauses {
		r.array.buffer.Resume()
	}
}

func (r *TraceReader) count(n int) {
	if r.ofSnapshot {
		r.array.snapshots.readers += n
		return
	}
	r.array.readers.count(r.cpu, n)
}

// Rewind makes the next record the first one again, of the buffer as it is then.
func (r *TraceReader) Rewind() {
	if r.it != nil {
		r.it.Release()
	}
	r.it, r.index, r.rounds, r.buffer, r.onlyHelp, r.graph = nil, 0, 0, nil, false, nil
}

// begin returns the first record: the header, or the help text of an empty snapshot.
func (r *TraceReader) begin(b []byte) []byte {
	r.buffer, r.clock = r.array.buffer, r.array.clock.Load()
	if r.ofSnapshot {
		r.buffer = r.array.snapshots.buffer.Load()
	}
	if r.ofSnapshot && (r.buffer == nil || r.buffer.Empty(r.cpu)) {
		r.it, r.onlyHelp = &ring.Iterator{}, true
		b = fmt.Appendf(b, "# tracer: %s\n#\n", r.array.currentTracer())
		return append(b, r.array.tracer.snapshotText(r.buffer != nil, r.cpu)...)
	}
	_, overrun := r.buffer.Totals()
	r.annotate, r.started = overrun > 0, make([]bool, r.buffer.CPUs())
	r.it = r.buffer.Iterate(r.cpu)
	return r.array.appendHeader(b, r.buffer)
}

// Next appends the next record to b; ok is false if there is none, but there may be
// more later.
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
	if rec.Missed {
		b = fmt.Appendf(b, "CPU:%d [LOST EVENTS]\n", rec.CPU)
	}
	l := line{Record: rec, index: r.index, next: rec.Time}
	if next, ok := r.it.Peek(); ok {
		l.next = next
	}
	r.index++
	if r.array.printsGraph() {
		if r.graph == nil {
			r.graph = r.array.ftrace.NewGraphPrinter()
		}
		if b, ok = r.graph.Append(b, rec, graphAhead{r.it, rec.CPU}); ok {
			return b, true
		}
	}
	b = r.appendStarted(b, rec.CPU)
	return r.array.appendLine(b, l, r.clock), true
}

// Written returns how many entries the buffer that is read has ever taken: those that are there, and
// those that were overwritten. Reading by others, and clearing, make it less.
func (r *TraceReader) Written() uint64 {
	if r.buffer == nil {
		return 0
	}
	entries, overrun := r.buffer.Totals()
	return entries + overrun
}

// Newest makes Next continue with the newest entries: those in the last two pages of each vCPU.
func (r *TraceReader) Newest() {
	if r.it != nil && !r.onlyHelp {
		r.it.Newest()
	}
}

// graphAhead are the followers of an entry of trace.
type graphAhead struct {
	it  *ring.Iterator
	cpu int
}

func (g graphAhead) After() (ring.Record, bool) { return g.it.PeekCPU(g.cpu) }
func (g graphAhead) Take()                      { g.it.Skip(g.cpu) }

// maxRounds is how often a reader looks for new entries before it gets an end of file.
// Linux looks every time, so under load a reader may never reach the end.
const maxRounds = 16

// goOn makes the iterator look for new entries. After maxRounds it refuses for the next
// two calls: one that ends a read, and one whose read returns 0.
func (r *TraceReader) goOn() bool {
	if r.onlyHelp {
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
	if _, ok := r.it.Peek(); !ok {
		r.rounds = 0
	}
	return true
}

// appendStarted is test_cpu_buff_start: after lost entries, it announces where the
// entries of a vCPU start. The first line of a trace needs no announcement.
func (r *TraceReader) appendStarted(b []byte, cpu int) []byte {
	if !r.annotate || !r.array.has(optAnnotate) || r.started[cpu] {
		return b
	}
	r.started[cpu] = true
	if r.index <= 1 {
		return b
	}
	return fmt.Appendf(b, "##### CPU %d buffer started ####\n", cpu)
}
