package kprobefs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
)

// taken counts what the consuming readers have read.
type taken struct {
	events, lost, pages, untold atomic.Uint64
}

// TestEveryHitIsAccounted: all vCPUs hit an event while trace, trace_pipe and
// trace_pipe_raw are read. Each hit was read, is still in the buffer, or is counted
// as lost. The readers learn of all lost events, except after full pages, which have
// no space for their number.
func TestEveryHitIsAccounted(t *testing.T) {
	const fn, cpus = "int_sqrt", 4
	hits := uint64(manyHits)
	if testing.Short() {
		hits = someHits
	}
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: cpus})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		overwrite, raw bool
		kb             int
	}{{true, true, 64}, {true, true, largeKB}, {true, false, 64}, {false, true, 64}, {false, true, largeKB}, {false, false, 8}} {
		t.Run(fmt.Sprintf("overwrite=%v,raw=%v,%dKiB", c.overwrite, c.raw, c.kb), func(t *testing.T) {
			countHits(t, s, fn, hits, c.kb, c.overwrite, c.raw)
		})
	}
}

func countHits(t *testing.T, s *kprobefs.Kernel, fn string, hits uint64, kb int, overwrite, withRaw bool) {
	a := s.Tracer.Global()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	option := map[bool]string{true: "overwrite", false: "nooverwrite"}[overwrite]
	must(a.WriteTraceOptions([]byte(option)))
	must(a.SetBufferSizeKB(-1, fmt.Append(nil, kb)))
	a.ClearTrace(-1)
	_, err := s.Tracer.Definitions().WriteKprobeEvents([]byte("p:e " + fn + "+5 %di %sp\n"))
	must(err)
	must(a.EnableSystem("kprobes", []byte("1")))
	s.Kprobes.WaitOptimizer()

	ctx, cancel := context.WithCancel(t.Context())
	var got taken
	var readers, callers sync.WaitGroup
	read := func(f func()) { readers.Go(f) }
	pipe, err := a.OpenPipe(-1)
	must(err)
	read(func() { readLines(ctx, t, pipe, &got, false) })
	for cpu := range a.Buffer().CPUs() {
		if raw := a.OpenRaw(cpu, false); withRaw {
			read(func() { readPages(ctx, t, raw, &got, false) })
		}
	}
	for cpu := -1; cpu < 2; cpu++ {
		read(func() { readTrace(ctx, a, cpu) })
	}

	addr := s.Machine.Symbols().LookupName(fn)[0].Addr
	start, before := time.Now(), processorTime()
	for cpu := range a.Buffer().CPUs() {
		callers.Go(func() {
			if _, err := s.Machine.CallOn(t.Context(), cpu, addr, hits, 0); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	elapsed, worked := time.Since(start), processorTime()-before
	cancel()
	readers.Wait()
	must(a.EnableSystem("kprobes", []byte("0")))
	s.Kprobes.WaitOptimizer() // as on Linux, a probe that is enabled before its jump is removed stays a breakpoint

	all := hits * uint64(a.Buffer().CPUs())
	left, overrun, dropped, consumed := sums(a)
	if sum := consumed + left + overrun + dropped; sum != all {
		t.Errorf("%d hits; %d read, %d left, %d overrun, %d dropped: %d", all, consumed, left, overrun, dropped, sum)
	}
	// Further readers get what is left, and are told of all lost events.
	for cpu := range a.Buffer().CPUs() {
		if withRaw {
			readPages(t.Context(), t, a.OpenRaw(cpu, false), &got, true)
		}
	}
	readLines(t.Context(), t, pipe, &got, true)
	pipe.Close()
	if got.events.Load() != consumed+left || got.lost.Load() != overrun && got.untold.Load() == 0 || got.lost.Load() > overrun {
		t.Errorf("readers have %d events and were told of %d lost; the counters are %d and %d",
			got.events.Load(), got.lost.Load(), consumed+left, overrun)
	}
	profile, _ := s.Tracer.Definitions().KprobeProfile(0)
	if want := fmt.Sprintf(" %d ", all); !strings.Contains(profile, want) {
		t.Errorf("%d calls: kprobe_profile says %q", all, profile)
	}
	_, err = s.Tracer.Definitions().WriteKprobeEvents([]byte("-:e\n"))
	must(err)
	t.Logf("%d hits at %.0f a second, %.0f a second of processor time, beside 8 readers: %d read (%d pages), %d left, %d overrun, %d dropped",
		all, float64(all)/elapsed.Seconds(), float64(all)/worked.Seconds(), consumed, got.pages.Load(), left, overrun, dropped)
}

func sums(a *tracing.Array) (left, overrun, dropped, consumed uint64) {
	for cpu := range a.Buffer().CPUs() {
		s := a.Buffer().Stats(cpu)
		left, overrun, dropped, consumed = left+s.Entries, overrun+s.Overrun, dropped+s.Dropped, consumed+s.Read
	}
	return left, overrun, dropped, consumed
}

func ended(err error) bool { return errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EAGAIN) }

// readLines reads a trace_pipe until ctx ends, or with drain until the buffer is
// empty.
func readLines(ctx context.Context, t *testing.T, p *tracing.Pipe, got *taken, drain bool) {
	b := make([]byte, 4096)
	for {
		n, err := p.Read(ctx, b, drain)
		if ended(err) {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		for _, line := range bytes.SplitAfter(b[:n], []byte("\n")) {
			var cpu int
			var lost uint64
			switch {
			case len(line) == 0:
			case bytes.Contains(line, []byte(": e: (int_sqrt+0x5/")):
				got.events.Add(1)
			default:
				if k, _ := fmt.Sscanf(string(line), "CPU:%d [LOST %d EVENTS]\n", &cpu, &lost); k != 2 {
					t.Errorf("trace_pipe has a line %q", line)
				}
				got.lost.Add(lost)
			}
		}
	}
}

// readPages does the same with a trace_pipe_raw.
func readPages(ctx context.Context, t *testing.T, p *tracing.RawPipe, got *taken, drain bool) {
	b := make([]byte, 4096)
	for {
		n, err := p.Read(ctx, b, drain)
		if ended(err) {
			return
		}
		if err != nil || n != len(b) {
			t.Errorf("a page of %d bytes, %v", n, err)
			return
		}
		events, lost := parsePage(t, b)
		got.events.Add(events)
		if lost == noNumber {
			got.untold.Add(1)
		} else {
			got.lost.Add(lost)
		}
		got.pages.Add(1)
	}
}

// noNumber is the number of lost events in a page that has only the flag for them.
const noNumber = 1<<64 - 1

// parsePage reads a page as header_page and header_event describe it.
func parsePage(t *testing.T, page []byte) (events, lost uint64) {
	le := binary.LittleEndian
	head := le.Uint64(page[8:])
	data := page[16:]
	end := int(head & (1<<27 - 1))
	if head&(1<<30) != 0 {
		end -= 8 // the number of lost events
		lost = le.Uint64(data[end:])
	} else if head&(1<<31) != 0 {
		lost = noNumber
		if end <= 4096-16-8 {
			t.Error("a page has space for the number of lost events, but does not have it")
		}
	}
	for at := 0; at < end; {
		word := le.Uint32(data[at:])
		switch typ := word & 31; {
		case typ == 29:
			at += 4 + int(le.Uint32(data[at+4:]))
		case typ >= 30:
			at += 8
		case typ == 0:
			t.Fatal("an event is too long for its type")
		default:
			if size := int(typ) * 4; size != 32 {
				t.Fatalf("an event of %d bytes", size)
			}
			events++
			at += 4 + int(typ)*4
		}
	}
	return events, lost
}

// readTrace reads trace, or one vCPU's, repeatedly.
func readTrace(ctx context.Context, a *tracing.Array, cpu int) {
	var b []byte
	for ctx.Err() == nil {
		r := a.Trace(cpu)
		for more := true; more && ctx.Err() == nil; {
			b, more = r.Next(b[:0])
		}
	}
}

// processorTime returns the processor time that the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRecord measures the time that recording an event with two arguments adds
// to a hit, in nanoseconds.
func BenchmarkRecord(b *testing.B) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const fn = "int_sqrt"
	define := func(line string) {
		if _, err := s.Tracer.Definitions().WriteKprobeEvents([]byte(line + "\n")); err != nil {
			b.Fatal(err)
		}
	}
	define("p:e " + fn + "+5 %di %sp")
	a := s.Tracer.Global()
	for _, c := range []struct{ name, on string }{{"hit", "0"}, {"recorded", "1"}} {
		b.Run(c.name, func(b *testing.B) {
			if err := a.EnableSystem("kprobes", []byte("1")); err != nil {
				b.Fatal(err)
			}
			if err := a.SetOn([]byte(c.on)); err != nil {
				b.Fatal(err)
			}
			s.Kprobes.WaitOptimizer()
			b.ReportAllocs()
			before := processorTime()
			report(b, s, fn, 0, nil)
			b.ReportMetric(float64((processorTime()-before).Nanoseconds())/float64(b.N), "cpu-ns/hit")
		})
	}
}
