// Package top is what `kprobefs top` shows: a terminal with the live list of probes, the text of
// a function, the trace and the kernel's log.
//
// Three ideas carry it. Every view is a list of lines with a cursor, so that moving, searching and
// filtering exist once. Only the goroutine of Run touches the model; the tree is read by another
// one, which hands back a function that changes the model, so that a tree that does not answer
// never stops the keys. And keys are rows of a table, from which the help is made.
//
// It leaves out a mouse and menus: the terminal's own selection of text keeps working.
package top

import (
	"context"
	"time"

	"github.com/gdamore/tcell/v3"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/look"
)

// Source is where the screen reads. Its methods are called by one goroutine at a time, except for
// Switch.
type Source interface {
	// Name is the tree's directory.
	Name() string
	// Kernel returns the words of the head: the release, and the state of the switches.
	Kernel() (Kernel, error)
	Probes() ([]look.Probe, error)
	Functions(name string) ([]look.Function, error)
	// FunctionNames returns the names of functions that begin with a prefix.
	FunctionNames(prefix string) ([]string, error)
	// Trace returns the latest entries of the trace, at most limit.
	Trace(limit int) ([]look.Entry, error)
	// Log returns the records that have been added since the last call.
	Log() ([]look.LogRecord, error)
	// Switch enables the event of a probe, or disables it, and returns what it has done.
	Switch(p look.Probe) (string, error)
}

// Kernel is what the head says of the kernel.
type Kernel struct {
	Release      string
	Enabled      bool // kprobes/enabled
	Optimization bool // debug.kprobes-optimization
}

// Config describes a screen.
type Config struct {
	Source   Source
	Interval time.Duration // between two readings
	Colors   bool
	// Suspend stops this process until it is continued, or is nil.
	Suspend func() error
}

// silence is the time after which the screen says that the tree does not answer.
const silence = 3 * time.Second

// share bounds how much of the time the tree is read: where that takes long, as with 10,000 probes,
// it is done less often than the interval says.
const share = 5

// Run shows the screen until a key ends it, or ctx is done. The terminal has been initialized, and
// stays so.
func Run(ctx context.Context, term tcell.Screen, c Config) error {
	m := newModel(c)
	m.resize(size(term))
	updates := queue{make(chan func(*model)), make(chan struct{})}
	defer close(updates.closed)
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for {
		if !m.reading && m.stale {
			m.read(updates)
		}
		m.draw(term)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.stale = m.stale || !m.paused && time.Since(m.asked) >= share*m.took
			m.silent = m.reading && time.Since(m.asked) > silence
		case update := <-updates.changes:
			update(m)
		case ev, ok := <-term.EventQ():
			if !ok {
				return nil
			}
			if err := m.event(ev, term, updates); err != nil || m.over {
				return err
			}
		}
	}
}

// queue hands changes of the model to the goroutine of Run, until that has ended.
type queue struct {
	changes chan func(*model)
	closed  chan struct{}
}

func (q queue) send(change func(*model)) {
	select {
	case q.changes <- change:
	case <-q.closed:
	}
}

// event handles an event of the terminal.
func (m *model) event(ev tcell.Event, term tcell.Screen, updates queue) error {
	switch ev := ev.(type) {
	case *tcell.EventResize: // which has rows and columns exchanged in tmux 3.3
		m.resize(size(term))
		term.Sync()
	case *tcell.EventError:
		return ev
	case *tcell.EventKey:
		switch {
		case ev.Key() == tcell.KeyCtrlL:
			term.Sync()
		case ev.Key() == tcell.KeyCtrlZ && m.Suspend != nil:
			return m.suspend(term)
		default:
			m.key(ev)
		}
	}
	for _, job := range m.jobs {
		go func() { updates.send(job()) }()
	}
	m.jobs = nil
	return nil
}

// size returns the terminal's width and height, as its driver knows them.
func size(term tcell.Screen) (width, height int) {
	if tty, ok := term.Tty(); ok {
		if ws, err := tty.WindowSize(); err == nil && ws.Width > 0 && ws.Height > 0 {
			return ws.Width, ws.Height
		}
	}
	return term.Size()
}

// Stop stops this process, and those that the shell has started with it, until the shell continues
// them.
func Stop() error { return unix.Kill(0, unix.SIGTSTP) }

// suspend gives the terminal back to the shell until this process is continued.
func (m *model) suspend(term tcell.Screen) error {
	if err := term.Suspend(); err != nil {
		return err
	}
	err := m.Suspend()
	if rerr := term.Resume(); rerr != nil {
		return rerr
	}
	return err
}

// read reads what the present view shows, in another goroutine.
func (m *model) read(updates queue) {
	m.reading, m.stale, m.asked = true, false, time.Now()
	view, function, source := m.view, m.function, m.Source
	go func() {
		got := readAll(source, view, function)
		updates.send(func(m *model) {
			m.reading, m.silent = false, false
			m.took = time.Since(m.asked)
			m.take(got)
		})
	}()
}

// reading is what has been read.
type reading struct {
	at        time.Time
	kernel    Kernel
	probes    []look.Probe
	of        view   // the view that it has been read for
	function  string // whose functions these are
	functions []look.Function
	trace     []look.Entry
	log       []look.LogRecord
	err       error // of the list or the head
	viewErr   error // of the view's own files
}

// traceLimit is how many entries of the trace are kept.
const traceLimit = 10000

// readAll reads the list and what the view shows.
func readAll(s Source, of view, function string) (r reading) {
	r.of, r.function = of, function
	if r.kernel, r.err = s.Kernel(); r.err != nil {
		return r
	}
	r.probes, r.err = s.Probes()
	r.at = time.Now()
	switch of {
	case textView:
		r.functions, r.viewErr = s.Functions(function)
	case traceView:
		r.trace, r.viewErr = s.Trace(traceLimit)
	case logView:
		r.log, r.viewErr = s.Log()
	case probesView, helpView:
	}
	return r
}
