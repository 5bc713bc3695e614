// Package tracedat writes trace.dat, the file of trace-cmd, in version 6 of its format
// (trace-cmd.dat.v6(5)): what tracefs says of events, symbols and tasks, and the pages of the ring
// buffer as they are. trace-cmd report and KernelShark read it.
package tracedat

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"syscall"
)

// Source is where a file is made from.
type Source struct {
	// Read reads a file of the tree.
	Read func(name string) ([]byte, error)
	// Pages calls f with each page of a CPU's buffer, the oldest first.
	Pages func(cpu int, f func(page []byte) error) error
	CPUs  int
	Uname string // uname -a, in short
}

// MostBytes bounds the pages of all CPUs together. Of more, the newest are taken.
const MostBytes = 64 << 20

// Parts of the file.
const (
	magic    = "\x17\x08\x44tracing6\x00\x00\x08" // little-endian, a long of 8 bytes
	pageSize = 4096                               // if there are no pages

	optionClock = 4
	optionUname = 5
)

// ftraceEvents are the events of the system ftrace, which available_events leaves out.
var ftraceEvents = []string{
	"function", "funcgraph_entry", "funcgraph_exit", "context_switch", "wakeup", "kernel_stack", "user_stack", "bprint", "print", "raw_data", "bputs",
	"mmiotrace_rw", "mmiotrace_map", "branch", "hwlat", "func_repeats", "osnoise", "timerlat",
}

// Write writes the file.
func Write(to io.Writer, s Source) error {
	all := make([][][]byte, s.CPUs)
	size := 0
	for cpu := range all {
		var err error
		if all[cpu], err = s.newest(cpu, MostBytes/s.CPUs, &size); err != nil {
			return err
		}
	}
	if size == 0 {
		size = pageSize
	}
	w := &writer{w: bufio.NewWriterSize(to, 1<<16)}
	w.text(magic)
	w.number(uint64(size), 4)
	for _, name := range []string{"header_page", "header_event"} {
		w.text(name + "\x00")
		w.file(s, "tracing/events/"+name, 8)
	}
	w.formats(s, "ftrace", ftraceEvents)
	w.events(s)
	w.file(s, "proc/kallsyms", 4)
	w.file(s, "tracing/printk_formats", 4)
	w.file(s, "tracing/saved_cmdlines", 8)
	w.number(uint64(s.CPUs), 4)
	w.options(s)
	w.pages(all, size)
	return errors.Join(w.err, w.w.Flush())
}

// newest returns the newest pages of a CPU, of most bytes at most. All pages of the file have one
// size, the first's.
func (s Source) newest(cpu, most int, size *int) (all [][]byte, err error) {
	err = s.Pages(cpu, func(page []byte) error {
		if *size == 0 {
			*size = len(page)
		}
		if len(page) != *size {
			return nil
		}
		if all = append(all, page); len(all)*len(page) > most {
			all = all[1:]
		}
		return nil
	})
	return all, err
}

// writer writes numbers and texts, and counts. After an error it writes nothing more.
type writer struct {
	w   *bufio.Writer
	n   uint64
	err error
}

func (w *writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(b)
	w.n, w.err = w.n+uint64(n), err
}

func (w *writer) text(s string) { w.write([]byte(s)) }

// number writes a number of some bytes.
func (w *writer) number(v uint64, bytes int) {
	w.write(binary.LittleEndian.AppendUint64(nil, v)[:bytes])
}

// sized writes a text after its size, a number of some bytes.
func (w *writer) sized(b []byte, bytes int) {
	w.number(uint64(len(b)), bytes)
	w.write(b)
}

// file writes a file of the tree after its size. What the release does not have is empty.
func (w *writer) file(s Source, name string, bytes int) {
	b, err := s.Read(name)
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		w.err = errors.Join(w.err, err)
	}
	w.sized(b, bytes)
}

// formats writes the formats of events of one system: their number, and each.
func (w *writer) formats(s Source, system string, names []string) {
	var all [][]byte
	for _, name := range names {
		b, err := s.Read("tracing/events/" + system + "/" + name + "/format")
		switch {
		case err == nil:
			all = append(all, b)
		case !errors.Is(err, syscall.ENOENT): // events come and go
			w.err = errors.Join(w.err, err)
		}
	}
	w.number(uint64(len(all)), 4)
	for _, b := range all {
		w.sized(b, 8)
	}
}

// events writes the formats of all systems that available_events has.
func (w *writer) events(s Source) {
	b, err := s.Read("tracing/available_events")
	w.err = errors.Join(w.err, err)
	var systems []string
	events := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		system, name, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		if events[system] == nil {
			systems = append(systems, system)
		}
		events[system] = append(events[system], name)
	}
	w.number(uint64(len(systems)), 4)
	for _, system := range systems {
		w.text(system + "\x00")
		w.formats(s, system, events[system])
	}
}

func (w *writer) options(s Source) {
	clock, err := s.Read("tracing/trace_clock")
	w.err = errors.Join(w.err, err)
	w.text("options  \x00")
	for _, o := range []struct {
		id   uint64
		text string
	}{{optionClock, string(clock) + "\x00"}, {optionUname, s.Uname + "\x00"}} {
		w.number(o.id, 2)
		w.sized([]byte(o.text), 4)
	}
	w.number(0, 2)
}

// pages writes where the pages of each CPU are, and these.
func (w *writer) pages(all [][][]byte, size int) {
	w.text("flyrecord\x00")
	at := w.n + 16*uint64(len(all))
	at += -at % uint64(size)
	begin := at
	for _, pages := range all {
		bytes := uint64(len(pages) * size)
		w.number(at, 8)
		w.number(bytes, 8)
		at += bytes
	}
	w.write(make([]byte, begin-w.n))
	for _, pages := range all {
		for _, page := range pages {
			w.write(page)
		}
	}
}
