// Package tracefs is the directory tracing: a table of rows over package
// kprobes/tracing, which implements the files. This package decides the mode of each
// file, how it is read, and what O_TRUNC does.
package tracefs

import (
	"context"
	"slices"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// Modes of Linux's tracefs.
const (
	modeRoot = 0o700
	modeDir  = 0o750
	modeRW   = 0o640
	modeRO   = 0o440
)

// Tracing is the root of tracefs, which is at /sys/kernel/tracing and at tracing in
// debugfs: the files of the global array, and those that exist only once.
func Tracing(t *tracing.Tracer) *seqfile.Row {
	a, d := t.Global(), t.Definitions()
	once := seqfile.Table{
		{Name: "kprobe_events", Mode: modeRW, FOps: abi.FOpsProbes, Open: settling(t, openProbes(d.ReleaseKprobes, d.KprobeEvent, d.WriteKprobeEvents))},
		{Name: "kprobe_profile", Mode: modeRO, FOps: abi.FOpsSeq, Open: seqfile.OpenSeq(records(d.KprobeProfile))},
		{Name: "dynamic_events", Mode: modeRW, FOps: abi.FOpsProbes, Open: settling(t, openProbes(d.ReleaseAll, d.DynamicEvent, d.WriteDynamicEvents))},
		{Name: "uprobe_events", Mode: modeRW, FOps: abi.FOpsProbes, Open: settling(t, openUprobes(d))},
		{Name: "uprobe_profile", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(d.UprobeProfile)},
		{Name: "available_events", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(a.AvailableEvents)},
		value("README", modeRO, text1(func() string { return readmeOf(t) }), nil),
		{Name: "saved_cmdlines", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(t.SavedCmdlines)},
		value("saved_cmdlines_size", modeRW, text1(t.SavedCmdlinesSize), t.SetSavedCmdlinesSize),
		{Name: "saved_tgids", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(t.SavedTGIDs)},
		{Name: "printk_formats", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(t.PrintkFormats)},
		value("tracing_thresh", modeRW, text1(t.Ftrace().Threshold), t.Ftrace().SetThreshold),
		{Name: "instances", Mode: modeDir, Dir: instances{t}},
	}
	if t.Has(release.HistTriggers) {
		once = append(once, seq("synthetic_events", modeRW, settling(t, openSynthetic(d))))
		once[len(once)-1].FOps = abi.FOpsProbes
	}
	return &seqfile.Row{
		Name: "tracing", Mode: modeRoot, Kind: seqfile.Tracefs, At: "/sys/kernel/tracing", OthersRead: !t.Has(release.RootOnlyFiles),
		Dir: slices.Concat(once, functionRows(t.Ftrace()), arrayRows(a)),
	}
}

// value is a file of simple_read_from_buffer. set handles whole writes; if it is nil,
// writes fail.
func value(name string, mode uint32, get func() (string, error), set func([]byte) error) *seqfile.Row {
	v := seqfile.Value{Get: func(context.Context) (string, error) { return get() }}
	if set != nil {
		v.Set = func(_ context.Context, p []byte) (int, error) {
			if err := set(p); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return &seqfile.Row{Name: name, Mode: mode, FOps: abi.FOpsTracefs, Open: seqfile.Opens(v)}
}

// text is a read-only seq_file of one text.
func text(name string, show func() string) *seqfile.Row {
	return &seqfile.Row{Name: name, Mode: modeRO, FOps: abi.FOpsSeq, Open: seqfile.OpenSingle(text1(show))}
}

func text1(show func() string) func() (string, error) {
	return func() (string, error) { return show(), nil }
}

// records is a seq_file whose i-th record is looked up when it is read, so that events
// may be added and removed meanwhile.
func records(record func(i int) (string, bool)) seqfile.ShowFunc {
	return func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
		line, ok := record(int(i))
		return append(b, line...), ok, nil
	}
}

// lines is a seq_file whose lines are determined when the reading starts.
func lines(show func() []string) seqfile.ShowFunc {
	var all []string
	return func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
		if i == 0 {
			all = show()
		}
		if i >= int64(len(all)) {
			return b, false, nil
		}
		return append(b, all[i]...), true, nil
	}
}

func openLines(show func() []string) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
		return &seqfile.Seq{Show: lines(show)}, nil
	}
}

// openProbes is probes_open: O_TRUNC deletes all events, or fails with EBUSY if one of
// them is enabled.
func openProbes(release func() error, line func(int) (string, bool), write func([]byte) (int, error)) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Writes() && o.Truncates() {
			if err := release(); err != nil {
				return nil, err
			}
		}
		return &seqfile.Seq{Show: records(line), Store: store(write)}, nil
	}
}

func store(write func([]byte) (int, error)) seqfile.WriteFunc {
	return func(_ context.Context, p []byte, _ int64) (int, error) { return write(p) }
}

// stub is tracing_write_stub: it accepts a write and does nothing.
func stub(p []byte) (int, error) { return len(p), nil }

// openSetEvent is ftrace_event_set_open: O_TRUNC disables all events.
func openSetEvent(a *tracing.Array) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Writes() && o.Truncates() {
			a.ClearSetEvent()
		}
		return &seqfile.Seq{Show: lines(a.SetEvents), Store: store(a.WriteSetEvent)}, nil
	}
}

// openErrorLog is tracing_err_log_open: O_TRUNC clears the errors.
func openErrorLog(a *tracing.Array) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Writes() && o.Truncates() {
			a.ClearErrorLog()
		}
		return &seqfile.Seq{Show: records(a.ErrorRecord), Store: store(stub)}, nil
	}
}

// eventsMode is the mode of the directory events and of those below it.
func eventsMode(a *tracing.Array) uint32 {
	if a.Has(release.Eventfs) {
		return 0o755
	}
	return modeDir
}

// eventsDir is the directory events. Its rows are made when they are asked for, by name where
// possible: each look-up of a path below it passes here, and there are hundreds of events.
type eventsDir struct{ a *tracing.Array }

// systemDir is the directory of a subsystem. The directory of ftrace itself has only events.
type systemDir struct {
	a *tracing.Array
	s tracing.Subsystem
}

var (
	_ seqfile.Finder  = eventsDir{}
	_ seqfile.Counter = eventsDir{}
	_ seqfile.Finder  = systemDir{}
	_ seqfile.Counter = systemDir{}
)

func (d eventsDir) files() []*seqfile.Row {
	return []*seqfile.Row{
		hold(d.a, value("enable", modeRW, text1(d.a.EnableAllText), d.a.EnableAll)),
		value("header_page", modeRO, text1(d.a.HeaderPage), nil),
		value("header_event", modeRO, text1(ring.HeaderEvent), nil),
	}
}

func (d eventsDir) dir(s tracing.Subsystem) *seqfile.Row {
	return &seqfile.Row{Name: s.Name, Mode: eventsMode(d.a), Eventfs: d.a.Has(release.Eventfs), Gen: s.Gen, Dir: systemDir{d.a, s}}
}

// Rows returns the current contents.
func (d eventsDir) Rows() []*seqfile.Row {
	var dirs []*seqfile.Row
	for _, s := range d.a.Subsystems() {
		if !s.Hidden {
			dirs = append(dirs, d.dir(s))
		}
	}
	return filesAndDirs(d.a, d.files(), dirs)
}

// Find returns the row of that name, or nil.
func (d eventsDir) Find(name string) *seqfile.Row {
	return fileOrDir(d.a, name, d.files, func() *seqfile.Row {
		for _, s := range d.a.Subsystems() {
			if s.Name == name && !s.Hidden {
				return d.dir(s)
			}
		}
		return nil
	})
}

// Dirs returns the number of subsystems.
func (d eventsDir) Dirs() (n int) {
	for _, s := range d.a.Subsystems() {
		if !s.Hidden {
			n++
		}
	}
	return n
}

// filesAndDirs joins the rows of a directory of events: with eventfs, a directory hides
// a file of the same name (script rows_collisions of 6.12).
func filesAndDirs(a *tracing.Array, files, dirs []*seqfile.Row) []*seqfile.Row {
	if a.Has(release.Eventfs) {
		return append(dirs, files...)
	}
	return append(files, dirs...)
}

// fileOrDir returns the first row of that name which filesAndDirs returns.
func fileOrDir(a *tracing.Array, name string, files func() []*seqfile.Row, dir func() *seqfile.Row) *seqfile.Row {
	eventfs := a.Has(release.Eventfs)
	if eventfs {
		if r := dir(); r != nil {
			return r
		}
	}
	for _, r := range files() {
		if r.Name == name {
			return r
		}
	}
	if eventfs {
		return nil
	}
	return dir()
}

func (d systemDir) files() []*seqfile.Row {
	a, s := d.a, d.s
	if s.Name == "ftrace" && a.Has(release.NoFtraceGroupSwitch) {
		return nil
	}
	get := func() (string, error) { return a.SystemEnableText(s.Name) }
	set := func(p []byte) error { return a.EnableSystem(s.Name, p) }
	filter := func() (string, error) { return a.SystemFilterText(s.Name) }
	setFilter := func(p []byte) error { return a.SetSystemFilter(s.Name, p) }
	return []*seqfile.Row{
		hold(a, value("enable", modeRW, get, set)),
		hold(a, value("filter", modeRW, filter, setFilter)),
	}
}

func (d systemDir) dir(e *tracing.EventFile) *seqfile.Row {
	return &seqfile.Row{Name: e.Name, Mode: eventsMode(d.a), Eventfs: d.a.Has(release.Eventfs), Gen: e.Gen, Dir: seqfile.DirFunc(func() []*seqfile.Row { return eventRows(d.a, e) })}
}

// Rows returns the contents.
func (d systemDir) Rows() []*seqfile.Row {
	var dirs []*seqfile.Row
	for _, e := range d.s.Events {
		if !e.Hidden {
			dirs = append(dirs, d.dir(e))
		}
	}
	return filesAndDirs(d.a, d.files(), dirs)
}

// Find returns the row of that name, or nil.
func (d systemDir) Find(name string) *seqfile.Row {
	return fileOrDir(d.a, name, d.files, func() *seqfile.Row {
		for _, e := range d.s.Events {
			if e.Name == name && !e.Hidden {
				return d.dir(e)
			}
		}
		return nil
	})
}

// Dirs returns the number of events.
func (d systemDir) Dirs() (n int) {
	for _, e := range d.s.Events {
		if !e.Hidden {
			n++
		}
	}
	return n
}

// eventRows returns the files of an event.
func eventRows(a *tracing.Array, e *tracing.EventFile) []*seqfile.Row {
	rows := []*seqfile.Row{{Name: "format", Mode: modeRO, FOps: abi.FOpsSeq, Open: seqfile.OpenSingle(e.Format)}}
	if a.Has(release.HistTriggers) {
		rows = append(rows, histRow(e))
	}
	if e.Internal {
		switch e.Name {
		case "function": // on Linux perf can have its hits
			return append(rows, value("id", modeRO, e.IDText, nil))
		case "print": // its hits are writes to trace_marker
			return append(rows, value("id", modeRO, e.IDText, nil), triggerRow(e))
		}
		return rows
	}
	rows = append(rows, value("id", modeRO, e.IDText, nil))
	return append(rows,
		hold(a, value("enable", modeRW, e.EnableText, e.Enable)),
		hold(a, value("filter", modeRW, e.FilterText, e.SetFilter)),
		triggerRow(e),
	)
}

// settling wraps the open of a file that can define and delete events, by writes or
// O_TRUNC: the directories of these events change before the call returns.
func settling(t *tracing.Tracer, open func(context.Context, *seqfile.OpenInfo) (seqfile.File, error)) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(ctx context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		f, err := open(ctx, o)
		if o.Writes() {
			t.SettleDirs(ctx)
		}
		if s, ok := f.(*seqfile.Seq); ok && s.Store != nil {
			write := s.Store
			s.Store = func(ctx context.Context, p []byte, pos int64) (int, error) {
				defer t.SettleDirs(ctx)
				return write(ctx, p, pos)
			}
		}
		return f, err
	}
}
