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
func processor(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// defineMany defines ten thousand events, and enables those in int_sqrt. It returns how many these are.
func (s *site) defineMany() (enabled int) {
	s.t.Helper()
	n := 0
	define := func(name string, off int) bool {
		if s.k.AppendFile(eventsFile, fmt.Sprintf("p:e%d %s+%d\n", n, name, off)) != nil {
			return false
		}
		n++
		return true
	}
	for off := 1; off < 200; off++ {
		if define("int_sqrt", off) {
			s.post("/api/events/enable", fmt.Sprintf(`{"event":"kprobes/e%d","on":true}`, n-1))
			enabled++
		}
	}
	for _, name := range s.k.Functions("", 1<<20) {
		for off := 1; off < 200 && n < 10_000; off++ {
			define(name, off)
		}
	}
	if n < 10_000 || enabled == 0 {
		s.t.Fatalf("only %d events, %d of them enabled", n, enabled)
	}
	return enabled
}

// look opens the streams that a page can open, and returns a function that ends them.
func (s *site) look(url string) (end func()) {
	s.t.Helper()
	var open []*eventStream
	for _, topic := range []string{"probes", "trace", "machine", "timeline"} {
		o := openStream(s.t, url+"/api/live?topic="+topic)
		go func() { _, _ = io.Copy(io.Discard, o.r) }()
		open = append(open, o)
	}
	return func() {
		for _, o := range open {
			_ = o.body.Close()
		}
		within(s.t, 10*time.Second, "the streams have ended", func() bool { return s.p.lives.Load() == 0 })
	}
}

// compare calls int_sqrt for some time without and with viewers, in turn, and returns the medians: the
// calls a second without, how many times as much processor a call takes with viewers, and how many
// times as long.
func (s *site) compare(times int, slice time.Duration) (rate, cost, longer float64, costs []float64) {
	s.t.Helper()
	server := httptest.NewServer(s.p)
	defer server.Close()
	defer server.CloseClientConnections()
	ctx := s.t.Context()
	s.hitFor(ctx, "int_sqrt", slice) // translates the code
	var rates, lengths []float64
	for range times {
		alone, before := s.hitFor(ctx, "int_sqrt", slice)
		end := s.look(server.URL)
		time.Sleep(slice / 2) // the first lists are whole
		looked, after := s.hitFor(ctx, "int_sqrt", slice)
		end()
		rates, costs, lengths = append(rates, alone), append(costs, after/before), append(lengths, alone/looked)
	}
	for _, all := range [][]float64{rates, costs, lengths} {
		slices.Sort(all)
	}
	return rates[times/2], costs[times/2], lengths[times/2], costs
}

// TestCost: pages that look at ten thousand probes, and at more than a hundred thousand hits a second,
// take little from the machine: the processor's time for a hit, with all that the page and its reader
// do, against the time without them, measured in turn. BenchmarkPage has the numbers.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of hits: -short")
	}
	s := newSite(t, true)
	s.registerMany()
	s.post("/api/events", fmt.Sprintf(`{"definition":"p:mine int_sqrt+%d x=%%di"}`, s.secondInstruction("int_sqrt")))
	s.post("/api/events/enable", `{"event":"kprobes/mine","on":true}`)
	rate, cost, _, all := s.compare(5, 2*time.Second) // a list of ten thousand probes is read once in it or more
	t.Logf("%.0f hits a second (median); a hit with a page costs %.2f times as much (from %.2f)", rate, cost, all)
	if cost > 2 { // a busy host makes each differ by half
		t.Errorf("a page costs too much: %.2f", all)
	}
}

// BenchmarkPage measures what pages cost with ten thousand events and hits of several of them: the
// machine (go test ./internal/page -run - -bench Page/machine -benchtime 1x), and the browser that
// scrolls over them at a hundred thousand hits a second (Page/scroll).
func BenchmarkPage(b *testing.B) {
	b.Run("machine", func(b *testing.B) {
		s := newSite(b, true)
		each := float64(s.defineMany())
		for b.Loop() {
			rate, cost, longer, _ := s.compare(8, 2*time.Second)
			b.ReportMetric(rate*each, "hits/s")
			b.ReportMetric(100*(cost-1), "%more-processor")
			b.ReportMetric(100*(longer-1), "%slower")
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("scroll", func(b *testing.B) {
		s := newSite(b, true)
		each := s.defineMany()
		page := newBrowser(b, s)
		page.becomes("listed", "document.querySelector('.grid')?.getAttribute('aria-rowcount') === '10001'")
		still := page.scroll()
		ctx, cancel := context.WithCancel(b.Context())
		calls := make(chan int)
		go func() { calls <- s.hitAtRate(ctx, "int_sqrt", 100_000/each) }()
		begin := time.Now()
		var hit []float64
		for b.Loop() {
			for range 10 {
				hit = append(hit, page.scroll()...)
			}
		}
		took := time.Since(begin)
		cancel()
		slices.Sort(hit)
		b.ReportMetric(float64(<-calls*each)/took.Seconds(), "hits/s")
		b.ReportMetric(still[len(still)/2], "ms/picture-without-hits")
		b.ReportMetric(hit[len(hit)/2], "ms/picture")
		b.ReportMetric(hit[len(hit)*95/100], "ms/picture-95%")
		b.ReportMetric(hit[len(hit)-1], "ms/picture-longest")
		b.ReportMetric(eval[float64](page, "performance.memory.usedJSHeapSize / 1e6"), "MB-JavaScript")
		b.ReportMetric(page.memory(), "MB-renderer")
		b.ReportMetric(0, "ns/op")
	})
}

// hitAtRate has a function called at a rate, a second, until the end of ctx. It returns how often.
func (s *site) hitAtRate(ctx context.Context, function string, rate int) (calls int) {
	addr, begin := s.k.Machine.Symbols().LookupName(function)[0].Addr, time.Now()
	for ctx.Err() == nil {
		due := int(time.Since(begin).Seconds()*float64(rate)) - calls
		if due > 0 {
			if _, err := s.k.Machine.CallOn(ctx, 0, addr, uint64(due), 144); err != nil && ctx.Err() == nil {
				s.t.Error(err)
				return calls
			}
			calls += due
		}
		time.Sleep(5 * time.Millisecond)
	}
	return calls
}
