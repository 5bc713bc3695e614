// Command bench measures the program and prints tables, with ratios to other programs
// on this machine: the processor itself and Unicorn for the engines, minimal file
// systems and /proc for files, the kernel's document for hits, strace for
// calls. Programs that are not
// installed are left out.
//
// The measurements of a table are interleaved: each round makes all of them, and the
// medians of the rounds are printed, so that a change of the machine's load affects
// all of them. Hits on one vCPU are measured in processor time, which other processes
// do not affect.
//
//	go run ./internal/tools/bench [-rounds n] [-only section] [-json file]
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// Row is a line of a table: the measured value, and others to compare it with, by
// name.
type Row struct {
	Section string             `json:"section"`
	Name    string             `json:"name"`
	Unit    string             `json:"unit"`
	Value   float64            `json:"value"`
	Beside  map[string]float64 `json:"beside,omitempty"`
	Note    string             `json:"note,omitempty"`
}

// section makes the rows of a table.
type section struct {
	name string
	run  func(b *bench) error
}

var sections = []section{
	{"engines", engines},
	{"hits", hits},
	{"pairs", pairs},
	{"overhead", overhead},
	{"recording", recording},
	{"modules", modules},
	{"files", files},
	{"many", many},
	{"commands", commands},
	{"size", size},
}

// bench is a run of the command.
type bench struct {
	rounds int
	dir    string // for built programs
	rows   []Row
	notes  []string // printed at the end

	printed int // rows
}

func (b *bench) add(r Row)                    { b.rows = append(b.rows, r) }
func (b *bench) note(format string, a ...any) { b.notes = append(b.notes, fmt.Sprintf(format, a...)) }

// timed is one of several measurements that are compared.
type timed struct {
	name string
	run  func() (float64, error)
}

// medians runs all of ts in each round and returns the median of each.
func (b *bench) medians(ts []timed) (map[string]float64, error) {
	got := map[string][]float64{}
	for range b.rounds {
		for _, t := range ts {
			v, err := t.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			got[t.name] = append(got[t.name], v)
		}
	}
	median := map[string]float64{}
	for name, vs := range got {
		median[name] = medianOf(vs)
	}
	return median, nil
}

func medianOf(vs []float64) float64 {
	vs = slices.Sorted(slices.Values(vs))
	n := len(vs)
	if n == 0 {
		return 0
	}
	return (vs[(n-1)/2] + vs[n/2]) / 2
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// print writes the tables that were not printed yet. A ratio is the row's value
// divided by the other one, or the inverse for speeds.
func (b *bench) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	last := ""
	for _, r := range b.rows[b.printed:] {
		if r.Section != last {
			fmt.Fprintf(tw, "\n%s\n", strings.ToUpper(r.Section))
			last = r.Section
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s", r.Name, number(r.Value), r.Unit)
		for _, name := range slices.Sorted(keys(r.Beside)) {
			fmt.Fprintf(tw, "\t%s %s (x%.3g)", name, number(r.Beside[name]), r.ratio(name))
		}
		if r.Note != "" {
			fmt.Fprintf(tw, "\t%s", r.Note)
		}
		fmt.Fprintln(tw)
	}
	b.printed = len(b.rows)
	for _, n := range b.notes {
		fmt.Fprintf(tw, "  %s\n", n)
	}
	b.notes = nil
	return tw.Flush()
}

// ratio returns how many times as much time this program needs.
func (r *Row) ratio(name string) float64 {
	if strings.HasSuffix(r.Unit, "/s") || r.Unit == "MIPS" {
		return r.Beside[name] / r.Value
	}
	return r.Value / r.Beside[name]
}

func keys(m map[string]float64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v < 1:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func main() {
	if err := serveAsChild(); !errors.Is(err, errNoChild) {
		exit(err)
	}
	if err := makeCalls(); !errors.Is(err, errNoChild) {
		exit(err)
	}
	exit(run(os.Stdout))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(w io.Writer) error {
	b := &bench{}
	only := flag.String("only", "", sectionHelp())
	out := flag.String("json", "", "write the rows as JSON to this file")
	flag.IntVar(&b.rounds, "rounds", 7, "how often each measurement is made")
	flag.Parse()
	dir, err := os.MkdirTemp("", "kprobefs-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.dir = dir
	var errs []error
	for _, s := range sections {
		if *only != "" && *only != s.name {
			continue
		}
		if err := s.run(b); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
		errs = append(errs, b.print(w))
	}
	errs = append(errs, b.writeJSON(*out))
	return errors.Join(errs...)
}

// sectionHelp names the sections.
func sectionHelp() string {
	names := make([]string, len(sections))
	for i, s := range sections {
		names[i] = s.name
	}
	return "one of the sections: " + strings.Join(names, ", ")
}

func (b *bench) writeJSON(path string) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(b.rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
