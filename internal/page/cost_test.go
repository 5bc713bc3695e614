package page

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
)

// registerMany registers ten thousand probes that are disabled.
func (s *site) registerMany() (n int) {
	s.t.Helper()
	const many = 10_000
	for _, name := range s.k.Functions("", 1<<20) {
		for off := uint32(0); off < 200 && n < many; off++ {
			if s.k.Register(&kprobefs.Kprobe{SymbolName: name, Offset: off, Flags: kprobefs.FlagDisabled}) == nil {
				n++
			}
		}
	}
	if n < many {
		s.t.Fatalf("only %d probes", n)
	}
	return n
}

// hitFor has a function called as fast as a vCPU can, and returns how often in a second, and how many
// nanoseconds of a processor this whole process has used for each.
func (s *site) hitFor(ctx context.Context, function string, d time.Duration) (rate, cost float64) {
	s.t.Helper()
	addr, hits, begin, used := s.k.Machine.Symbols().LookupName(function)[0].Addr, 0, time.Now(), processor(s.t)
	for time.Since(begin) < d && ctx.Err() == nil {
		const batch = 2000
		if _, err := s.k.Machine.CallOn(ctx, 0, addr, batch, 144); err != nil && ctx.Err() == nil {
			s.t.Error(err)
			return 0, 0
		}
		hits += batch
	}
	return float64(hits) / time.Since(begin).Seconds(), float64(processor(s.t)-used) / float64(hits)
}

// processor returns how long this process has used a processor.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestCost: pages that look at ten thousand probes, and at more than a hundred thousand hits a second,
// take little from the machine: the processor's time for a hit, with all that the page and its reader
// do, against the time without them, measured in turn.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of hits: -short")
	}
	s := newSite(t, true)
	s.registerMany()
	s.post("/api/events", fmt.Sprintf(`{"definition":"p:mine int_sqrt+%d x=%%di"}`, s.secondInstruction("int_sqrt")))
	s.post("/api/events/enable", `{"event":"kprobes/mine","on":true}`)
	server := httptest.NewServer(s.p)
	defer server.Close()
	defer server.CloseClientConnections()
	const slice = 2 * time.Second            // a list of ten thousand probes is read once in it or more
	s.hitFor(t.Context(), "int_sqrt", slice) // translates the code
	var rates, ratios []float64
	for range 8 {
		rate, alone := s.hitFor(t.Context(), "int_sqrt", slice)
		var open []*eventStream
		for _, topic := range []string{"probes", "trace", "machine", "timeline"} {
			o := openStream(t, server.URL+"/api/live?topic="+topic)
			go func() { _, _ = io.Copy(io.Discard, o.r) }()
			open = append(open, o)
		}
		time.Sleep(slice / 2) // the first lists are whole
		_, looked := s.hitFor(t.Context(), "int_sqrt", slice)
		for _, o := range open {
			_ = o.body.Close()
		}
		within(t, 10*time.Second, "the streams have ended", func() bool { return s.p.lives.Load() == 0 })
		rates, ratios = append(rates, rate), append(ratios, looked/alone)
	}
	slices.Sort(rates)
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.Logf("%.0f hits a second (median); a hit with a page costs %.2f times as much (from %.2f)", rates[len(rates)/2], median, ratios)
	if median > 3 { // each differs by half on a busy host
		t.Errorf("a page costs too much: %.2f", ratios)
	}
}
