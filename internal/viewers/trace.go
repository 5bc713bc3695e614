package viewers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/look"
)

const longTrace = `Show the ring buffer of a mounted tree's kernel: as many entries of tracing/trace as there
are at the start, since reading can be traced itself and would not end. With --follow,
wait for more, from tracing/trace_pipe; as on Linux, what that shows is taken out of the
buffer. ^C ends it.

--event and --comm show the entries of these events and tasks only: names, or patterns
with *, ? and [...]. Each can be given several times. An entry's further lines, such as
a stack's, belong to it.

--json writes a JSON object for each entry, one a line: comm, pid, cpu, flags, time (in
seconds, or what tracing/trace_clock counts), event, text, and more, the further lines.
A line that belongs to no entry has text only; entries that were lost are
{"cpu":N,"lost":N}.`

type traceFlags struct {
	at     cli.TreeFlag
	follow bool
	json   bool
	events []string
	comms  []string
}

func traceCommand() *cobra.Command {
	f := &traceFlags{}
	c := &cobra.Command{
		Use:               "trace [--at MNT] [-f] [--event NAME]... [--comm NAME]... [--json]",
		Short:             "Show the trace, filtered by event and task",
		Long:              longTrace,
		Example:           "  kprobefs trace --at /mnt --event mine\n  kprobefs trace -f --comm 'ba*' --json",
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: f.at.Run(func(c *cobra.Command, dir string, _ []string) error {
			return f.run(dir, c.OutOrStdout())
		}),
	}
	f.at.AddTo(c)
	flags := c.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "wait for more, and take what is shown out of the buffer")
	flags.BoolVar(&f.json, "json", false, "write a JSON object for each entry, one a line")
	flags.StringArrayVar(&f.events, "event", nil, "show the entries of this event; a pattern")
	flags.StringArrayVar(&f.comms, "comm", nil, "show the entries of tasks of this name; a pattern")
	for _, name := range []string{"event", "comm"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return c
}

func (f *traceFlags) run(tree string, out io.Writer) error {
	for _, p := range slices.Concat(f.events, f.comms) {
		if _, err := path.Match(p, ""); err != nil {
			return cli.Misused(fmt.Errorf("%q: %w", p, err))
		}
	}
	if err := look.CheckTraceOptions(tree); err != nil {
		return err
	}
	name := "tracing/trace"
	if f.follow {
		name = "tracing/trace_pipe"
	}
	fd, err := openBlocking(filepath.Join(tree, name))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	w := &traceWriter{traceFlags: f, Screen: cli.NewScreen(out), left: -1}
	return w.copy(fd)
}

// openBlocking opens a file whose reads wait. os.Open would make it one whose reads do not.
func openBlocking(path string) (fd int, err error) {
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// traceWriter reads the trace and writes what is asked for.
type traceWriter struct {
	*traceFlags
	cli.Screen
	out   bytes.Buffer
	entry *look.Entry // the last, which may get more lines
	begun []byte      // the last line, which has no end yet
	left  int         // entries to be read; negative if the trace has not said how many there are
	full  bool        // all of them have been read
}

// copy passes everything on until the end. What was read is written before more is waited for: an
// entry comes with all of its lines.
func (w *traceWriter) copy(fd int) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("the trace: %w", err)
		}
		if err := w.read(buf[:n], n == 0); err != nil || n == 0 || w.full {
			return err
		}
	}
}

// maxLine bounds a line: Linux's are below a page.
const maxLine = 1 << 20

// read takes the next bytes of the trace. At its end, and after each read with --follow, the last
// entry is complete.
func (w *traceWriter) read(b []byte, last bool) error {
	w.begun = append(w.begun, b...)
	for !w.full {
		line, rest, ok := bytes.Cut(w.begun, []byte("\n"))
		if !ok {
			break
		}
		w.begun = rest
		w.line(string(line))
	}
	if !w.full && len(w.begun) > 0 && (last || len(w.begun) > maxLine) {
		w.line(string(w.begun))
		w.begun = nil
	}
	if last || w.follow && len(w.begun) == 0 {
		w.end()
	}
	_, err := w.out.WriteTo(w.Screen)
	return err
}

// line takes a line: a head, the first of an entry, or a further one.
func (w *traceWriter) line(line string) {
	e, ok := look.ParseEntry(line)
	switch {
	case ok:
		w.end()
		w.begin(&e)
	case strings.HasPrefix(line, "#") && w.entry == nil:
		w.head(line)
	case w.entry == nil:
		w.entry = &look.Entry{Text: line, Lines: []string{line}}
		w.end()
	default:
		w.entry.More = append(w.entry.More, line)
		w.entry.Lines = append(w.entry.Lines, line)
	}
}

// begin takes the first line of an entry, unless all entries have been read.
func (w *traceWriter) begin(e *look.Entry) {
	switch {
	case e.Lost != nil || w.left < 0:
	case w.left == 0:
		w.full = true
		return
	default:
		w.left--
	}
	w.entry = e
}

// head takes a line of the trace's head, which only people see.
func (w *traceWriter) head(line string) {
	if n, ok := look.EntryCount(line); ok && !w.follow {
		w.left = n
	}
	if !w.json {
		fmt.Fprintln(&w.out, w.Paint(cli.Dim, line))
	}
}

// end writes the entry that is complete, if it is asked for.
func (w *traceWriter) end() {
	e := w.entry
	w.entry = nil
	if e == nil || !w.wanted(e) {
		return
	}
	if w.json {
		j := json.NewEncoder(&w.out)
		j.SetEscapeHTML(false)
		_ = j.Encode(e) // of strings and numbers, into memory
		return
	}
	for i, line := range e.Lines {
		fmt.Fprintln(&w.out, w.Paint(entryColor(e, i), line))
	}
}

// entryColor returns the colour of an entry's line.
func entryColor(e *look.Entry, line int) cli.Color {
	switch {
	case e.Lost != nil:
		return cli.Red
	case line > 0:
		return cli.Dim
	}
	return cli.Plain
}

// wanted reports whether an entry is asked for. That entries were lost is always said.
func (w *traceWriter) wanted(e *look.Entry) bool {
	return e.Lost != nil || matches(w.events, e.Event) && matches(w.comms, e.Comm)
}

// matches reports whether a name matches one of the patterns, or there are none.
func matches(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}
