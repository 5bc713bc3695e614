package tracefs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
)

const modeWO = 0o220

type opener = func(context.Context, *seqfile.OpenInfo) (seqfile.File, error)

// arrayRows are the files that each array has: init_tracer_tracefs.
func arrayRows(a *tracing.Array) seqfile.Table {
	rows := seqfile.Table{
		hold(a, seq("set_event", modeRW, openSetEvent(a))),
		{Name: "events", Mode: eventsMode(a), Eventfs: a.Has(release.Eventfs), Dir: eventsDir{a}},
		hold(a, seq("set_event_pid", modeRW, openPIDs(a, tracing.SetEventPID))),
		hold(a, seq("set_event_notrace_pid", modeRW, openPIDs(a, tracing.SetEventNotracePID))),
		text("available_tracers", a.AvailableTracers),
		hold(a, value("current_tracer", modeRW, text1(a.CurrentTracer), a.SetCurrentTracer)),
		hold(a, value("tracing_cpumask", modeRW, text1(a.CPUMask), a.SetCPUMask)),
		hold(a, seq("trace_options", modeRW, openText(a.TraceOptions, a.WriteTraceOptions))),
		hold(a, seq("trace", modeRW, openTrace(a, allCPUs))),
		hold(a, &seqfile.Row{Name: "trace_pipe", Mode: modeRO, FOps: abi.FOpsTracefs, Open: openPipe(a, allCPUs)}),
		hold(a, bufferSize(a, allCPUs)),
		hold(a, value("buffer_total_size_kb", modeRO, text1(a.BufferTotalSizeKB), nil)),
		hold(a, &seqfile.Row{Name: "free_buffer", Mode: 0o200, FOps: abi.FOpsTracefs, Open: openFreeBuffer(a)}),
		hold(a, &seqfile.Row{Name: "trace_marker", Mode: modeWO, FOps: abi.FOpsMarker, Open: openMarker(a, a.WriteMarker)}),
		hold(a, &seqfile.Row{Name: "trace_marker_raw", Mode: modeWO, FOps: abi.FOpsRawMarker, Open: openMarker(a, a.WriteRawMarker)}),
		hold(a, seq("trace_clock", modeRW, openText(a.TraceClock, a.SetTraceClock))),
		hold(a, value("tracing_on", modeRW, func() (string, error) { return bit(a.On()), nil }, a.SetOn)),
		hold(a, seq("timestamp_mode", modeRO, openText(a.TimestampMode, nil))),
		hold(a, value("buffer_percent", percentMode(a), text1(a.BufferPercent), a.SetBufferPercent)),
		hold(a, seq("set_ftrace_filter", modeRW, openFunctions(a.Ftrace(), false))),
		hold(a, seq("set_ftrace_notrace", modeRW, openFunctions(a.Ftrace(), true))),
		hold(a, seq("set_ftrace_pid", modeRW, openPIDs(a, tracing.SetFtracePID))),
		hold(a, seq("set_ftrace_notrace_pid", modeRW, openPIDs(a, tracing.SetFtraceNotracePID))),
		{Name: "options", Mode: modeDir, Dir: seqfile.DirFunc(func() []*seqfile.Row { return optionRows(a) })},
		value("tracing_max_latency", modeRW, text1(a.MaxLatency), a.SetMaxLatency),
		hold(a, seq("snapshot", modeRW, openSnapshot(a, allCPUs))),
		hold(a, seq("error_log", modeRW, openErrorLog(a))),
		{Name: "per_cpu", Mode: modeDir, Dir: perCPU(a)},
	}
	if a.Has(release.SubBuffers) {
		rows = append(rows, hold(a, value("buffer_subbuf_size_kb", modeRW, text1(a.SubBufferSizeKB), a.SetSubBufferSizeKB)))
	}
	return rows
}

// percentMode is the mode of buffer_percent and of the buffer_size_kb of one CPU, which
// older releases created without write permission; root may write nevertheless.
func percentMode(a *tracing.Array) uint32 {
	if !a.Has(release.RootOnlyFiles) {
		return modeRO
	}
	return modeRW
}

// allCPUs is the vCPU number of files that cover all vCPUs.
const allCPUs = -1

// perCPU is the directory per_cpu.
func perCPU(a *tracing.Array) seqfile.Table {
	var cpus seqfile.Table
	for cpu := range a.Buffer().CPUs() {
		cpus = append(cpus, &seqfile.Row{Name: "cpu" + strconv.Itoa(cpu), Mode: modeDir, Dir: seqfile.Table{
			hold(a, &seqfile.Row{Name: "trace_pipe", Mode: modeRO, FOps: abi.FOpsTracefs, Open: openPipe(a, cpu)}),
			hold(a, seq("trace", modeRW, openTrace(a, cpu))),
			hold(a, &seqfile.Row{Name: "trace_pipe_raw", Mode: modeRO, FOps: abi.FOpsTracefs, Open: openRaw(a, cpu, false), Paged: true}),
			hold(a, value("stats", modeRO, func() (string, error) { return a.Stats(cpu), nil }, nil)),
			hold(a, bufferSize(a, cpu)),
			hold(a, seq("snapshot", modeRW, openSnapshot(a, cpu))),
			hold(a, &seqfile.Row{Name: "snapshot_raw", Mode: modeRO, FOps: abi.FOpsTracefs, Open: openRaw(a, cpu, true), Paged: true}),
		}})
	}
	return cpus
}

// seq is a row of a seq_file.
func seq(name string, mode uint32, open opener) *seqfile.Row {
	return &seqfile.Row{Name: name, Mode: mode, FOps: abi.FOpsSeq, Open: open}
}

func bit(on bool) string {
	if on {
		return "1\n"
	}
	return "0\n"
}

// hold keeps an instance from being removed while the file is open.
func hold(a *tracing.Array, row *seqfile.Row) *seqfile.Row {
	open := row.Open
	row.Open = func(ctx context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if err := a.Get(); err != nil {
			return nil, err
		}
		f, err := open(ctx, o)
		if err != nil {
			a.Put()
			return nil, err
		}
		return held{f, a}, nil
	}
	return row
}

type held struct {
	seqfile.File
	array *tracing.Array
}

func (h held) Release() {
	h.File.Release()
	h.array.Put()
}

// Unwrap lets seqfile.As find the other interfaces of the file.
func (h held) Unwrap() seqfile.File { return h.File }

func bufferSize(a *tracing.Array, cpu int) *seqfile.Row {
	get := func() (string, error) { return a.BufferSizeKB(cpu), nil }
	set := func(p []byte) error { return a.SetBufferSizeKB(cpu, p) }
	mode := uint32(modeRW)
	if cpu != allCPUs {
		mode = percentMode(a)
	}
	return value("buffer_size_kb", mode, get, set)
}

// openText is a seq_file of one text that accepts whole writes, or none if write is
// nil.
func openText(show func() string, write func([]byte) error) opener {
	return func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
		s := &seqfile.Seq{Show: lines(func() []string { return []string{show()} })}
		if write != nil {
			s.Store = store(whole(write))
		}
		return s, nil
	}
}

// whole turns a function that consumes a whole write into one that returns a count.
func whole(write func([]byte) error) func([]byte) (int, error) {
	return func(p []byte) (int, error) {
		if err := write(p); err != nil {
			return 0, err
		}
		return len(p), nil
	}
}

// optionRows are the files of the directory options.
func optionRows(a *tracing.Array) []*seqfile.Row {
	var rows []*seqfile.Row
	for _, o := range a.Options() {
		rows = append(rows, value(o.Name, modeRW, text1(o.Text), o.Set))
	}
	return rows
}

// openPIDs is ftrace_event_set_pid_open: O_TRUNC clears the list.
func openPIDs(a *tracing.Array, which tracing.PIDFile) opener {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Writes() && o.Truncates() {
			a.PIDs(which).Clear()
		}
		var line func([]byte, int) ([]byte, bool)
		show := func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
			if i == 0 {
				line = a.PIDs(which).Lines()
			}
			b, ok := line(b, int(i))
			return b, ok, nil
		}
		return &seqfile.Seq{Show: show, Store: store(a.PIDs(which).Write)}, nil
	}
}

// openTrace is tracing_open: O_TRUNC empties the buffer; writes do nothing.
func openTrace(a *tracing.Array, cpu int) opener {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Writes() && o.Truncates() {
			a.ClearTrace(cpu)
		}
		return traceFile(a.Trace(cpu), o, store(stub)), nil
	}
}

// openSnapshot is tracing_snapshot_open.
func openSnapshot(a *tracing.Array, cpu int) opener {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		return traceFile(a.Snapshot(cpu), o, func(_ context.Context, p []byte, _ int64) (int, error) {
			if err := a.WriteSnapshot(cpu, p); err != nil {
				return 0, err
			}
			return len(p), nil
		}), nil
	}
}

func traceFile(r *tracing.TraceReader, o *seqfile.OpenInfo, write seqfile.WriteFunc) seqfile.File {
	s := &seqfile.Seq{Show: (&traceShow{reader: r, last: -1}).show, Store: write}
	if o.Reads() {
		r.Open()
		s.Close = r.Close
	}
	return s
}

// traceShow adapts a TraceReader, which only goes forward, to a seq_file, which may ask
// again for a record that did not fit.
type traceShow struct {
	reader *tracing.TraceReader
	last   int64 // the record in line
	line   []byte
}

func (s *traceShow) show(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
	if i == 0 || i < s.last {
		s.reader.Rewind()
		s.last = -1
	}
	for s.last < i {
		line, ok := s.reader.Next(s.line[:0])
		if !ok {
			return b, false, nil
		}
		s.line, s.last = line, s.last+1
	}
	return append(b, s.line...), true, nil
}

// openPipe is tracing_open_pipe.
func openPipe(a *tracing.Array, cpu int) opener {
	return func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
		p, err := a.OpenPipe(cpu)
		if err != nil {
			return nil, err
		}
		return textPipe{pipe{"trace_pipe", p, p.Close}, p}, nil
	}
}

// openRaw is tracing_buffers_open and snapshot_raw_open.
func openRaw(a *tracing.Array, cpu int, snapshot bool) opener {
	return func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
		p := a.OpenRaw(cpu, snapshot)
		return rawPipe{pipe{"trace_pipe_raw", p, func() {}}, p}, nil
	}
}

// pipe is an open trace_pipe or trace_pipe_raw: reads consume entries and ignore the
// position.
type pipe struct {
	name   string
	reader interface {
		Read(ctx context.Context, b []byte, nonblock bool) (int, error)
		Poll() (ready bool, next <-chan struct{}, end func())
	}
	release func()
}

func (p pipe) Read(ctx context.Context, b []byte, _ int64) (int, error) {
	return p.reader.Read(ctx, b, nonblock(ctx))
}

// textPipe is an open trace_pipe.
type textPipe struct {
	pipe
	text *tracing.Pipe
}

// SplicePage is tracing_splice_read_pipe, for a page.
func (p textPipe) SplicePage(b []byte) (int, error) { return p.text.Splice(b) }

// rawPipe is an open trace_pipe_raw.
type rawPipe struct {
	pipe
	raw *tracing.RawPipe
}

// Splice is tracing_buffers_splice_read.
func (p rawPipe) Splice(ctx context.Context, b []byte) (int, error) {
	return p.raw.Splice(ctx, b, nonblock(ctx))
}

// CheckSplice implements seqfile.SpliceChecker.
func (p rawPipe) CheckSplice(length int) error { return p.raw.CheckSplice(length) }

// nonblock reports whether the file has O_NONBLOCK at the time of a call.
func nonblock(ctx context.Context) bool {
	return seqfile.CallerOf(ctx).FileFlags&syscall.O_NONBLOCK != 0
}

func (p pipe) Write(context.Context, []byte, int64) (int, error) {
	return 0, fmt.Errorf("%s has no write: %w", p.name, syscall.EINVAL)
}

func (p pipe) Release() { p.release() }

// Poll is tracing_poll_pipe and tracing_buffers_poll.
func (p pipe) Poll() (ready uint32, changed <-chan struct{}, end func()) {
	some, next, end := p.reader.Poll()
	if some {
		ready = seqfile.PollIn
	}
	return ready, next, end
}

// openFreeBuffer is the file free_buffer, which acts when it is closed.
func openFreeBuffer(a *tracing.Array) opener {
	return func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
		return freeBuffer{seqfile.Value{Set: func(_ context.Context, p []byte) (int, error) { return len(p), nil }}, a}, nil
	}
}

type freeBuffer struct {
	seqfile.Value
	array *tracing.Array
}

func (f freeBuffer) Release() { f.array.FreeBuffer() }

// openMarker opens trace_marker and trace_marker_raw.
func openMarker(a *tracing.Array, write func(tracing.Task, []byte) (int, error)) opener {
	return seqfile.Opens(seqfile.Value{Set: func(ctx context.Context, p []byte) (int, error) {
		c := seqfile.CallerOf(ctx)
		return write(tracing.Task{PID: int32(c.TID), TGID: int32(c.PID), CPU: a.TaskCPU(ctx), Comm: c.Comm}, p)
	}})
}

// instances is the directory instances.
type instances struct{ t *tracing.Tracer }

var _ seqfile.Mkdirer = instances{}

func (d instances) Rows() []*seqfile.Row {
	var rows []*seqfile.Row
	for _, a := range d.t.Instances() {
		rows = append(rows, instanceRow(a))
	}
	return rows
}

func (d instances) Find(name string) *seqfile.Row {
	for _, a := range d.t.Instances() {
		if a.Name == name {
			return instanceRow(a)
		}
	}
	return nil
}

func instanceRow(a *tracing.Array) *seqfile.Row {
	return &seqfile.Row{Name: a.Name, Mode: modeDir, Gen: a.Gen, Dir: seqfile.DirFunc(func() []*seqfile.Row {
		if a.Gone() {
			return nil
		}
		return arrayRows(a)
	})}
}

// Mkdir creates an instance.
func (d instances) Mkdir(_ context.Context, name string) error {
	if strings.ContainsRune(name, 0) {
		return fmt.Errorf("instance %q: %w", name, syscall.EINVAL)
	}
	return d.t.MakeInstance(name)
}

// Rmdir removes an instance.
func (d instances) Rmdir(_ context.Context, name string) error { return d.t.RemoveInstance(name) }
