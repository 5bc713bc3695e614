package kprobefs

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
)

// Status says what a kernel is doing.
type Status struct {
	Release      string // as uname -r
	Now          int64  // nanoseconds since boot
	CPUs         []kernel.CPUStatus
	Tasks        []kernel.TaskStatus // that make the calls of the host's threads
	Instructions uint64              // executed by all vCPUs
	Memory       uint64              // the guest's RAM, bytes
	Slots        int                 // of copies of probed instructions, in use
	Panic        string              // why it has panicked, or ""
	Stopped      string              // why all vCPUs are stopped (machine/run, gdb, a panic), or ""
	Stops        []Stop              // when they were stopped, and went on; the oldest first
}

// Stop is a moment at which all vCPUs were stopped together, or went on.
type Stop struct {
	At   int64 // nanoseconds since boot
	What string
}

// stops says why the kernel was stopped, and why it is stopped now.
func (k *Kernel) stops() (all []Stop, stopped string) {
	d := k.Machine.Debugger()
	for _, h := range d.Halts() {
		what := "the machine goes on"
		if !h.GoesOn {
			what = "the machine stops " + k.stopText(h.Stop)
		}
		all = append(all, Stop{At: h.At, What: what})
	}
	if s, ok := d.Stopped(); ok {
		stopped = k.stopText(s)
	}
	return all, stopped
}

// stopText says why and where a machine has stopped.
func (k *Kernel) stopText(s kernel.Stop) string {
	if s.Why == kernel.StopRequested {
		return s.Why.String()
	}
	text := fmt.Sprintf("%s, cpu %d", s.Why, s.CPU)
	if sym, off, ok := k.view.symbols.Lookup(s.Addr); ok && s.Why == kernel.StopBreakpoint {
		text += fmt.Sprintf(" at %s+%#x", sym.Name, off)
	}
	return text
}

// Status returns what the kernel is doing. It does not stop the vCPUs for that.
func (k *Kernel) Status() (s Status, err error) {
	err = k.using(func() error {
		m := k.Machine
		s = Status{
			Release: k.opts.Release.Uname(), Now: m.Now(), CPUs: m.CPUStatus(), Tasks: m.TaskStatus(),
			Instructions: k.view.retired(), Memory: m.Mem().Size(), Slots: k.view.inUse(),
		}
		s.Stops, s.Stopped = k.stops()
		select {
		case <-k.Died():
			s.Panic = m.Panic()
		default:
		}
		return nil
	})
	return s, err
}

// Functions returns the names of functions that begin with a prefix and can be named in a
// definition, sorted, most of them at most. It works after Close, too.
func (k *Kernel) Functions(prefix string, most int) []string {
	var names []string
	for _, s := range k.view.symbols.All() {
		if strings.IndexByte("tTwW", s.Type) >= 0 && s.Size > 0 && strings.HasPrefix(s.Name, prefix) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), max(most, 0))]
}

// TraceFeed reads the trace while it grows, for those who look. It takes nothing out of the buffer
// and keeps nobody from changing the buffer's size, in contrast to an open tracing/trace. It must
// be used by one goroutine at a time.
type TraceFeed struct {
	k      *Kernel
	r      *tracing.TraceReader
	begun  bool
	seen   uint64 // entries written at the last call
	behind uint64 // of these: neither returned nor skipped
}

// TraceFeed returns a feed that begins with what is in the buffer.
func (k *Kernel) TraceFeed() *TraceFeed {
	return &TraceFeed{k: k, r: k.Tracer.Global().Trace(-1)}
}

// Next returns the text of the entries since the last call, each with its further lines. If there
// are more than most, it goes past the older ones without making text of them, to the newest pages of
// each vCPU, and skipped is about how many those were.
func (f *TraceFeed) Next(most int) (entries []string, skipped uint64, err error) {
	err = f.k.using(func() error {
		if !f.begun {
			f.begun = true
			f.r.Next(nil) // the head
		}
		written := f.r.Written()
		if written > f.seen {
			f.behind += written - f.seen
		}
		f.seen = written
		jumps := f.behind > uint64(most)
		if jumps {
			f.r.Newest()
		}
		for len(entries) < most {
			text, ok := f.r.Next(nil)
			if !ok {
				if jumps {
					skipped = f.behind - min(f.behind, uint64(len(entries)))
				}
				f.behind = 0
				return nil
			}
			entries = append(entries, string(text))
		}
		f.behind -= min(f.behind, uint64(len(entries)))
		return nil
	})
	return entries, skipped, err
}

// Close frees what the feed holds.
func (f *TraceFeed) Close() { f.r.Rewind() }

// TracePages calls f with a copy of each page of a vCPU's trace buffer that has entries, the oldest
// first, in the form of per_cpu/cpuN/trace_pipe_raw. Nothing is taken out of the buffer.
func (k *Kernel) TracePages(cpu int, f func(page []byte) error) error {
	return k.using(func() error {
		if cpu < 0 || cpu >= k.Machine.CPUs() {
			return fmt.Errorf("there is no vCPU %d: %w", cpu, syscall.ENODEV)
		}
		return k.Tracer.Global().Buffer().CopyPages(cpu, f)
	})
}

// Log returns the records of the kernel's log from a number on, the newest most of them. It works
// after Close, too.
func (k *Kernel) Log(from uint64, most int) []kernel.Record {
	log := k.Machine.Log()
	first, next := log.Bounds()
	from = max(from, first)
	if newest := uint64(max(most, 0)); next > newest {
		from = max(from, next-newest)
	}
	var all []kernel.Record
	for seq := from; seq < next; seq++ {
		if r, ok, _, _ := log.Get(seq); ok {
			all = append(all, r)
		}
	}
	return all
}
