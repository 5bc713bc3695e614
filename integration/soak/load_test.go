package soak

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/integration/model"
)

// The load: many more readers and writers than CPUs.
const (
	readers = 64
	writers = 16
)

// hangLimit is the time limit for an operation during the load, without the race
// detector. A write may wait for the 15 other writers, each of which may wait 0.25 s
// for the optimizer: 4 s together. The rest allows for a busy host. An operation that
// hangs would take forever.
const hangLimit = time.Minute

// loadTime returns how long the load runs.
func loadTime() time.Duration {
	switch {
	case soaking():
		return 10 * time.Minute
	case testing.Short():
		return 5 * time.Second
	}
	return 30 * time.Second
}

// lasting are definitions that exist during the whole load: each list that is read
// has all of them once. Two share an address, at a function's entry and inside it.
var lasting = []string{
	"p:kprobes/last0 vfs_read", "p:kprobes/last1 vfs_read", "p:kprobes/last2 vfs_read+5",
	"p:kprobes/last3 vfs_write+5", "p:kprobes/last4 vfs_write+5", "r:kprobes/last5 vfs_open",
	"p:kprobes/last6 kfree+5", "p:kprobes/last7 kfree",
}

// TestLoad has concurrent readers and writers of all files. A read must always return
// a consistent state of the file.
func TestLoad(t *testing.T) {
	load(t, start(t, t.TempDir()), loadTime(), hangLimit)
}

// TestLoadRace is the same with the race detector in the program.
func TestLoadRace(t *testing.T) {
	if testing.Short() {
		t.Skip("the load with the race detector is left to make test-all")
	}
	file, err := integration.Build(t.Context(), t.TempDir(), "-race")
	if err != nil {
		t.Skip(err)
	}
	t.Setenv("GORACE", "halt_on_error=1 exitcode=66")
	// It takes ten times as long. On a shared machine the four writes of a definition
	// have taken 20 s.
	load(t, startProgram(t, file, t.TempDir()), loadTime()/3, 2*hangLimit)
}

func load(t *testing.T, d *daemon, length, limit time.Duration) {
	for _, def := range lasting {
		if err := d.write("tracing/kprobe_events", def); err != nil {
			t.Fatal(def, err)
		}
	}
	enables, _ := filepath.Glob(d.path("tracing/events/kprobes/last*/enable"))
	if len(enables) != len(lasting) {
		t.Fatalf("%d of %d events can be enabled", len(enables), len(lasting))
	}
	for _, e := range enables {
		if err := os.WriteFile(e, []byte("1"), 0); err != nil {
			t.Fatal(e, err)
		}
	}
	l := &run{t: t, d: d, limit: limit, counts: map[string]*atomic.Int64{}}
	l.begin(length / 5) // until caches are warm
	l.join()
	within(t, limit, "files are closed", func() bool { return d.state().Open == 0 })
	before := d.state()
	l.begin(length)
	l.join()
	t.Logf("at the end of the load %+v", d.state())
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range l.counts {
			if !yield(n) {
				return
			}
		}
	}) {
		t.Logf("%-24s %8d", name, l.counts[name].Load())
	}
	within(t, limit, "files are closed", func() bool { return d.state().Open <= before.Open })
	flat(t, before, d.state())
	d.signal(syscall.SIGTERM)
	d.ends(endLimit)
}

// run is one load.
type run struct {
	t      testing.TB
	d      *daemon
	limit  time.Duration // for an operation
	end    time.Time
	wg     sync.WaitGroup
	failed atomic.Bool

	mu     sync.Mutex
	counts map[string]*atomic.Int64
	took   map[string][]time.Duration // by operation; not kept when nil
	busy   map[int]operation          // the current operation of each thread
}

type operation struct {
	name  string
	since time.Time
}

// begin starts all readers and writers.
func (l *run) begin(length time.Duration) {
	l.end = time.Now().Add(length)
	l.busy = map[int]operation{}
	files := slices.Collect(func(yield func(string) bool) {
		for f := range checks {
			if !yield(f) {
				return
			}
		}
	})
	slices.Sort(files)
	for i := range readers {
		name := files[i%len(files)]
		l.loop(i, "read "+name, func(int) error { return l.read(name) })
	}
	for i := range writers {
		w := writes[i%len(writes)]
		l.loop(readers+i, "write "+w.name, func(n int) error { return w.write(l.d, i, n) })
	}
}

// loop repeats an operation until the end, or until something has failed.
func (l *run) loop(thread int, name string, f func(n int) error) {
	l.mu.Lock()
	count := l.counts[name]
	if count == nil {
		count = new(atomic.Int64)
		l.counts[name] = count
	}
	l.mu.Unlock()
	l.wg.Go(func() {
		for n := 0; time.Now().Before(l.end) && !l.failed.Load(); n++ {
			l.at(thread, operation{name, time.Now()})
			if err := f(n); err != nil {
				if !l.failed.Swap(true) {
					l.t.Errorf("%s: %v", name, err)
				}
			}
			count.Add(1)
			l.note(name, thread)
		}
		l.at(thread, operation{})
	})
}

func (l *run) at(thread int, o operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy[thread] = o
}

// note keeps how long a thread's operation took.
func (l *run) note(name string, thread int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.took != nil {
		l.took[name] = append(l.took[name], time.Since(l.busy[thread].since))
	}
}

// join waits for all threads. An operation that hangs fails the test.
func (l *run) join() {
	l.t.Helper()
	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Second):
		}
		l.mu.Lock()
		for _, o := range l.busy {
			if o.name != "" && time.Since(o.since) > l.limit {
				l.t.Errorf("%s hangs for %v", o.name, time.Since(o.since))
				l.failed.Store(true)
			}
		}
		l.mu.Unlock()
		if l.failed.Load() {
			select {
			case <-done:
			case <-time.After(l.limit):
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, o := range l.busy {
					if o.name != "" {
						l.t.Logf("%s since %v", o.name, time.Since(o.since))
					}
				}
				l.logKernel()
				_ = l.d.cmd.Process.Signal(syscall.SIGABRT) // prints its goroutines' stacks
				_ = l.d.cmd.Wait()
				l.t.Fatal("some threads do not end")
			}
		}
	}
}

// logKernel logs the last lines of the emulated kernel's log, which may have an oops.
func (l *run) logKernel() {
	fd, err := syscall.Open(l.d.path("dev/kmsg"), syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		l.t.Log(err)
		return
	}
	defer syscall.Close(fd)
	var lines []string
	b := make([]byte, 8192)
	for n, err := syscall.Read(fd, b); n > 0 && err == nil; n, err = syscall.Read(fd, b) {
		lines = append(lines, string(b[:n]))
	}
	l.t.Logf("kmsg:\n%s", strings.Join(lines[max(0, len(lines)-60):], ""))
}

// read reads a file and checks its contents.
func (l *run) read(name string) error {
	b, err := readOnce(l.d.path(name))
	if err != nil {
		return err
	}
	if err := checks[name](string(b)); err != nil {
		return fmt.Errorf("%w in\n%s", err, b)
	}
	return nil
}

// readOnce makes one read(2), since the file may change between two reads, also on
// Linux. It returns up to a page of a seq_file, which is enough here.
func readOnce(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, 1<<16)
	n, err := f.Read(b)
	return b[:n], err
}

// checks test whether a text is a consistent state of the file.
var checks = map[string]func(string) error{
	"kprobes/list":                   checkList,
	"kprobes/enabled":                oneOf("0\n", "1\n"),
	"kprobes/blacklist":              checkBlacklist,
	"sys/debug/kprobes-optimization": oneOf("0\n", "1\n"),
	"sys/kernel/ftrace_enabled":      oneOf("0\n", "1\n"),
	"tracing/kprobe_events":          checkEvents,
	"tracing/kprobe_profile":         checkProfile,
}

func oneOf(texts ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(texts, s) {
			return nil
		}
		return fmt.Errorf("%q is not one of %q", s, texts)
	}
}

// checkList: the list has all lasting probes once, probes at one address have the
// same state, and no probe is listed that is never defined.
func checkList(s string) error {
	places := map[string]int{}
	marks := map[string]string{}
	var last uint64
	for line := range strings.Lines(s) {
		f := model.ListLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if f == nil {
			return fmt.Errorf("a torn line %q", line)
		}
		var addr uint64
		if _, err := fmt.Sscanf(f[1], "%x", &addr); err != nil {
			return err
		}
		if b := bucket(addr); b < last {
			return fmt.Errorf("bucket %d after %d", b, last)
		} else {
			last = b
		}
		places[f[2]+" "+f[3]]++
		mark := strings.Replace(f[4], "[DISABLED]", "", 1) // a flag of each probe
		if m, ok := marks[f[1]]; ok && m != mark {
			return fmt.Errorf("address %s has both %q and %q", f[1], m, mark)
		}
		marks[f[1]] = mark
	}
	// Probes of writers may exist or not; each writer has its own function.
	for place, n := range map[string]int{
		"k vfs_read+0x0": 2, "k vfs_read+0x5": 1, "k vfs_write+0x5": 2, "r vfs_open+0x0": 1, "k kfree+0x0": 1, "k kfree+0x5": 1,
	} {
		if places[place] != n {
			return fmt.Errorf("%d lines %q, want %d", places[place], place, n)
		}
		delete(places, place)
	}
	for place, n := range places {
		if n > (writers+len(writes)-1)/len(writes) || !slices.Contains(comingAndGoing, strings.Fields(place)[1]) {
			return fmt.Errorf("%d lines %q", n, place)
		}
	}
	return nil
}

// bucket is hash_ptr(addr, 6) as kprobe_table is indexed.
func bucket(addr uint64) uint64 { return addr * 0x61C8864680B583EB >> 58 }

// checkEvents: each line is a complete definition made by a writer or lasting, and
// occurs once.
func checkEvents(s string) error {
	seen := map[string]int{}
	for line := range strings.Lines(s) {
		seen[strings.TrimSuffix(line, "\n")]++
	}
	for _, def := range lasting {
		def = strings.Replace(def, "r:", "r10:", 1) // after registration it has a maxactive
		if seen[def] != 1 {
			return fmt.Errorf("%q is there %d times", def, seen[def])
		}
		delete(seen, def)
	}
	for line, n := range seen {
		if n != 1 || !coming.MatchString(line) {
			return fmt.Errorf("%q is there %d times", line, n)
		}
	}
	return nil
}

var (
	coming      = regexp.MustCompile(`^p:kprobes/w\d+_[ab] (vfs_getattr|vfs_statx)\+5$`)
	profileLine = regexp.MustCompile(`^  (last\d|w\d+_[ab]) +\d+ +\d+$`)
)

// comingAndGoing are the places of the writers' probes.
var comingAndGoing = []string{"vfs_getattr+0x5", "vfs_statx+0x5"}

func checkProfile(s string) error {
	seen := map[string]bool{}
	for line := range strings.Lines(s) {
		f := profileLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if f == nil {
			return fmt.Errorf("a torn line %q", line)
		}
		if seen[f[1]] {
			return fmt.Errorf("%s twice", f[1])
		}
		seen[f[1]] = true
	}
	for i := range lasting {
		if !seen[fmt.Sprintf("last%d", i)] {
			return fmt.Errorf("last%d is missing", i)
		}
	}
	return nil
}

func checkBlacklist(s string) error {
	if len(s) == 0 || !strings.HasSuffix(s, "\n") {
		return fmt.Errorf("%d bytes", len(s))
	}
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "0x") || !strings.Contains(line, "\t") {
			return fmt.Errorf("a torn line %q", line)
		}
	}
	return nil
}

// writes are the writers' operations. Each writer has its own definitions.
var writes = []struct {
	name  string
	write func(d *daemon, writer, n int) error
}{
	{"kprobe_events", defineAndDelete},
	{"enable", func(d *daemon, writer, n int) error {
		return d.write(fmt.Sprintf("tracing/events/kprobes/last%d/enable", writer%len(lasting)), fmt.Sprint(n&1))
	}},
	{"filter", setFilter},
	{"kprobes/enabled", func(d *daemon, _, n int) error {
		time.Sleep(5 * time.Millisecond)
		return d.write("kprobes/enabled", fmt.Sprint(n&1))
	}},
	{"kprobes-optimization", func(d *daemon, _, n int) error {
		time.Sleep(5 * time.Millisecond)
		return d.write("sys/debug/kprobes-optimization", fmt.Sprint(n&1))
	}},
	{"ftrace_enabled", func(d *daemon, _, n int) error {
		time.Sleep(5 * time.Millisecond)
		return d.write("sys/kernel/ftrace_enabled", fmt.Sprint(n&1))
	}},
}

// setFilter sets the filter of an event that a few writers share, and checks that the file has
// one of their texts. A text that arrived in part would be refused, some with EPERM, as on Linux.
func setFilter(d *daemon, writer, n int) error {
	file := fmt.Sprintf("tracing/events/kprobes/last%d/filter", writer%len(lasting))
	text := fmt.Sprintf("(common_pid > %d) && (common_pid < %d)", writer, 1000000+n)
	if n%3 == 0 {
		text = "0"
	}
	if err := d.write(file, text); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	b, err := os.ReadFile(d.path(file))
	if err == nil && string(b) != "none\n" && !filterText.Match(b) {
		err = fmt.Errorf("%s has %q", file, b)
	}
	return err
}

var filterText = regexp.MustCompile(`^\(common_pid > \d+\) && \(common_pid < 1\d{6}\)\n$`)

// defineAndDelete defines two probes, enables one, and deletes both.
func defineAndDelete(d *daemon, writer, _ int) error {
	a, b := fmt.Sprintf("w%d_a", writer), fmt.Sprintf("w%d_b", writer)
	steps := []struct{ file, text string }{
		{"tracing/kprobe_events", "p:" + a + " vfs_getattr+5\np:" + b + " vfs_statx+5"},
		{"tracing/events/kprobes/" + a + "/enable", "1"},
		{"tracing/events/kprobes/" + a + "/enable", "0"},
		{"tracing/kprobe_events", "-:" + a + "\n-:" + b},
	}
	for _, s := range steps {
		if err := d.write(s.file, s.text); err != nil {
			return fmt.Errorf("%q: %w", s.text, err)
		}
	}
	return nil
}

// BenchmarkReadLatency measures the median and the 99th percentile of reads by four
// clients without other load. It is not a test, because other work on the host delays
// one percent of the reads by a time slice or more.
func BenchmarkReadLatency(b *testing.B) {
	d := start(b, b.TempDir())
	for _, def := range lasting {
		if err := d.write("tracing/kprobe_events", def); err != nil {
			b.Fatal(def, err)
		}
	}
	var all []time.Duration
	for b.Loop() {
		all = append(all, d.readTimes()...)
	}
	slices.Sort(all)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(all[len(all)*p/100].Nanoseconds()), fmt.Sprintf("ns/p%d", p))
	}
}

// BenchmarkWriteLatency measures the median, the 99th percentile and the longest of the writes
// of each kind under TestLoad's load: 64 readers and 16 writers for 10 seconds an iteration.
func BenchmarkWriteLatency(b *testing.B) {
	d := start(b, b.TempDir())
	for _, def := range lasting {
		if err := d.write("tracing/kprobe_events", def); err != nil {
			b.Fatal(def, err)
		}
	}
	l := &run{t: b, d: d, limit: hangLimit, counts: map[string]*atomic.Int64{}, took: map[string][]time.Duration{}}
	for b.Loop() {
		l.begin(10 * time.Second)
		l.join()
	}
	for name, took := range l.took {
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		unit := strings.ReplaceAll(name, " ", "-")
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/p50-"+unit)
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99-"+unit)
		b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms/max-"+unit)
		b.ReportMetric(float64(len(took)), "n-"+unit)
	}
}

// readTimes returns the durations of 4,000 reads by four clients.
func (d *daemon) readTimes() []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	for _, name := range []string{"kprobes/list", "kprobes/enabled", "tracing/kprobe_events", "sys/debug/kprobes-optimization"} {
		wg.Go(func() {
			f, err := os.Open(d.path(name))
			if err != nil {
				d.t.Error(err)
				return
			}
			defer f.Close()
			b := make([]byte, 4096)
			for range 1000 {
				begin := time.Now()
				if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
					d.t.Error(name, err)
					return
				}
				took := time.Since(begin)
				mu.Lock()
				all = append(all, took)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(all) != 4000 {
		d.t.Fatalf("%d reads", len(all))
	}
	return all
}
