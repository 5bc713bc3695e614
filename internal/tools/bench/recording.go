package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

const (
	// recordedAt is the offset of an instruction of hitFunction that can be optimized
	// and is executed once per call.
	recordedAt = 5
	// recordingReaders is the number of readers during the load: one of trace_pipe,
	// one of trace_pipe_raw for each vCPU, the others of trace.
	recordingReaders = 8
	recordingCPUs    = 4
	loadCalls        = 500_000 // per vCPU

	recordingGoal = 150 // ns
	loadGoal      = 1   // M hits/s
)

// recording measures the cost of an event with two arguments: in addition to the hit
// of a kprobe, and under load while its buffer is read.
func recording(b *bench) error {
	h, err := newHitMachine("", kprobefs.Config{})
	if err != nil {
		return err
	}
	defer h.sys.Close()
	cases := []hitCase{
		{"hit", func(h *hitBench) (func(), error) { return h.probes(1, recordedAt, false, true) }},
		{"recorded", (*hitBench).record},
	}
	var ts []timed
	for _, c := range cases {
		ts = append(ts, timed{c.name, func() (float64, error) { return h.perCall(c) }})
	}
	got, err := b.medians(ts)
	if err != nil {
		return err
	}
	b.add(Row{
		Section: "recording", Name: "two arguments, above the hit", Unit: "ns", Value: got["recorded"] - got["hit"],
		Beside: map[string]float64{"goal": recordingGoal},
	})
	var rates []float64
	var account string
	for range b.rounds {
		var rate float64
		if rate, account, err = loadAndRead(); err != nil {
			return err
		}
		rates = append(rates, rate)
	}
	b.add(Row{
		Section: "recording", Name: fmt.Sprintf("%d vCPUs, %d readers", recordingCPUs, recordingReaders), Unit: "M hits/s",
		Value: medianOf(rates), Beside: map[string]float64{"goal": loadGoal}, Note: account,
	})
	return nil
}

// perCall returns the processor time of a call with a probe in nanoseconds.
func (h *hitBench) perCall(c hitCase) (float64, error) {
	undo, err := c.set(h)
	if err != nil {
		return 0, err
	}
	defer undo()
	if _, err := h.call(true); err != nil { // decode
		return 0, err
	}
	took, err := h.call(true)
	return float64(took) / float64(h.calls), err
}

// record defines and enables an event at recordedAt.
func (h *hitBench) record() (func(), error) {
	h.sys.Kprobes.SetOptimization(true)
	return recordHits(h.sys)
}

func recordHits(s *kprobefs.Kernel) (undo func(), err error) {
	a := s.Tracer.Global()
	if _, err := s.Tracer.Definitions().WriteKprobeEvents(fmt.Appendf(nil, "p:e %s+%d %%di %%sp\n", hitFunction, recordedAt)); err != nil {
		return nil, err
	}
	undo = func() {
		_ = a.EnableSystem("kprobes", []byte("0"))
		s.Kprobes.WaitOptimizer() // as on Linux, a probe that is enabled before its jump is removed stays a breakpoint
		_, _ = s.Tracer.Definitions().WriteKprobeEvents([]byte("-:e\n"))
		s.Kprobes.WaitOptimizer()
	}
	if err := a.EnableSystem("kprobes", []byte("1")); err != nil {
		undo()
		return nil, err
	}
	s.Kprobes.WaitOptimizer()
	return undo, nil
}

// loadAndRead has all vCPUs hit the event while its buffer is read. It returns the
// rate in millions of hits per second, and a line that accounts for the hits. The
// error is EIO if hits are missing.
func loadAndRead() (rate float64, account string, err error) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: recordingCPUs})
	if err != nil {
		return 0, "", err
	}
	defer s.Close()
	undo, err := recordHits(s)
	if err != nil {
		return 0, "", err
	}
	defer undo()
	end, err := readAll(s.Tracer.Global())
	if err != nil {
		return 0, "", err
	}
	addr := s.Machine.Symbols().LookupName(hitFunction)[0].Addr
	errs := make([]error, recordingCPUs)
	var callers sync.WaitGroup
	start := time.Now()
	for cpu := range recordingCPUs {
		callers.Go(func() {
			_, errs[cpu] = s.Machine.CallOn(context.Background(), cpu, addr, loadCalls, 0)
		})
	}
	callers.Wait()
	took := time.Since(start)
	if err := errors.Join(append(errs, end())...); err != nil {
		return 0, "", err
	}
	var sum ring.Stats
	for cpu := range recordingCPUs {
		c := s.Tracer.Global().Buffer().Stats(cpu)
		sum.Read, sum.Entries, sum.Overrun, sum.Dropped = sum.Read+c.Read, sum.Entries+c.Entries, sum.Overrun+c.Overrun, sum.Dropped+c.Dropped
	}
	const hits = recordingCPUs * loadCalls
	account = fmt.Sprintf("%d hits: %d read, %d left, %d overrun, %d dropped", hits, sum.Read, sum.Entries, sum.Overrun, sum.Dropped)
	if sum.Read+sum.Entries+sum.Overrun+sum.Dropped != hits {
		return 0, "", fmt.Errorf("%s: %w", account, syscall.EIO)
	}
	return hits / 1e6 / took.Seconds(), account, nil
}

// readAll starts readers of the buffer. end stops them and returns their errors.
func readAll(a *tracing.Array) (end func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	pipe, err := a.OpenPipe(-1)
	if err != nil {
		cancel()
		return nil, err
	}
	var readers sync.WaitGroup
	errs := make([]error, recordingReaders)
	drain := func(i int, read func(context.Context, []byte, bool) (int, error)) {
		readers.Go(func() {
			buf := make([]byte, 4096)
			for ctx.Err() == nil {
				if _, err := read(ctx, buf, false); err != nil && !errors.Is(err, syscall.EINTR) {
					errs[i] = err
					return
				}
			}
		})
	}
	drain(0, pipe.Read)
	for i := 1; i < recordingReaders; i++ {
		if cpu := i - 1; cpu < recordingCPUs {
			drain(i, a.OpenRaw(cpu, false).Read)
			continue
		}
		readers.Go(func() {
			var buf []byte
			for ctx.Err() == nil {
				r := a.Trace(-1)
				for more := true; more && ctx.Err() == nil; {
					buf, more = r.Next(buf[:0])
				}
			}
		})
	}
	return func() error {
		cancel()
		readers.Wait()
		pipe.Close()
		return errors.Join(errs...)
	}, nil
}
