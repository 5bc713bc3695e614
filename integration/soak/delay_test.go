package soak

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// delay is a delay that users can see, as measured on Linux (Debian's 6.1, two CPUs,
// HZ=250).
type delay struct {
	what  string
	linux time.Duration // duration on Linux
	least time.Duration // minimum, from the five jiffies of its timer
	runs  []time.Duration
	begin time.Time // beginning of the last round
}

const delayRounds = 10

// patience is how much longer than on Linux the fastest of all rounds may take. A
// measurement is one to twenty system calls on the files, for which processes are
// scheduled about 50 times; with 20 other processes on the CPU each of these may take
// 60 ms. A bug (a timer that is not set, a lost kick of the optimizer) causes a delay
// of seconds, or one that does not end. BenchmarkKnobDelays measures the delays.
const patience = 3 * time.Second

// TestKnobDelays: a probe becomes a jump, or a breakpoint again, at least five
// jiffies after its cause, as on Linux, and all delays end.
func TestKnobDelays(t *testing.T) {
	for _, w := range knobDelays(t, start(t, t.TempDir())) {
		w.check(t)
	}
}

// BenchmarkKnobDelays logs the shortest of these delays, and those on Linux.
func BenchmarkKnobDelays(b *testing.B) {
	d := start(b, b.TempDir())
	var all []*delay
	for b.Loop() {
		all = knobDelays(b, d)
	}
	for i, w := range all {
		name := fmt.Sprintf("%02d-%s", i, strings.ReplaceAll(w.what, " ", "-"))
		b.ReportMetric(float64(w.best().Microseconds()), "us/"+name)
		b.ReportMetric(float64(w.linux.Microseconds()), "us/"+name+"-on-Linux")
	}
}

// knobDelays goes through a probe's states in each round.
func knobDelays(t testing.TB, d *daemon) []*delay {
	t.Helper()
	p := &probed{d}
	const jiffies5 = 20 * time.Millisecond
	var (
		define   = &delay{what: "a definition", linux: 3 * time.Millisecond}
		arm      = &delay{what: "enabling an event", linux: 3 * time.Millisecond}
		jump     = &delay{what: "the jump after that", linux: 230 * time.Millisecond, least: jiffies5}
		knobOff  = &delay{what: "optimization=0", linux: 33 * time.Millisecond}
		knobOn   = &delay{what: "optimization=1", linux: 200 * time.Microsecond}
		knobJump = &delay{what: "the jump after that", linux: 230 * time.Millisecond, least: jiffies5}
		allOff   = &delay{what: "enabled=0", linux: time.Millisecond}
		allOn    = &delay{what: "enabled=1", linux: time.Millisecond}
		allJump  = &delay{what: "the jump after that", linux: 230 * time.Millisecond, least: jiffies5}
		disarm   = &delay{what: "disabling an event", linux: 3 * time.Millisecond}
		unjump   = &delay{what: "[OPTIMIZED] after that", linux: 22 * time.Millisecond, least: jiffies5}
		remove   = &delay{what: "removing a definition", linux: 110 * time.Millisecond}
	)
	for range delayRounds {
		define.takes(func() { p.write(t, "tracing/kprobe_events", "p:delay vfs_read+5") })
		arm.takes(func() { p.write(t, "tracing/events/kprobes/delay/enable", "1") })
		p.is(t, "cc", "[OPTIMIZED]")
		jump.since(arm, func() { p.becomes(t, "e9") })
		knobOff.takes(func() { p.write(t, "sys/debug/kprobes-optimization", "0") })
		p.is(t, "cc", "")
		knobOn.takes(func() { p.write(t, "sys/debug/kprobes-optimization", "1") })
		p.is(t, "cc", "[OPTIMIZED]")
		knobJump.since(knobOn, func() { p.becomes(t, "e9") })
		allOff.takes(func() { p.write(t, "kprobes/enabled", "0") })
		p.is(t, "", "")
		allOn.takes(func() { p.write(t, "kprobes/enabled", "1") })
		p.is(t, "cc", "[OPTIMIZED]")
		allJump.since(allOn, func() { p.becomes(t, "e9") })
		disarm.takes(func() { p.write(t, "tracing/events/kprobes/delay/enable", "0") })
		p.is(t, "e9", "[DISABLED][OPTIMIZED]")
		unjump.since(disarm, func() { p.marked(t, "[DISABLED]") })
		remove.takes(func() { p.write(t, "tracing/kprobe_events", "-:delay") })
		time.Sleep(3 * jiffies5) // a pending run of the optimizer would also handle the next change
	}
	return []*delay{define, arm, jump, knobOff, knobOn, knobJump, allOff, allOn, allJump, disarm, unjump, remove}
}

func (w *delay) takes(f func()) {
	w.begin = time.Now()
	f()
	w.runs = append(w.runs, time.Since(w.begin))
}

// since measures from the beginning of another delay.
func (w *delay) since(other *delay, f func()) {
	f()
	w.runs = append(w.runs, time.Since(other.begin))
}

func (w *delay) best() time.Duration { return slices.Min(w.runs) }

func (w *delay) check(t *testing.T) {
	t.Helper()
	best := w.best()
	t.Logf("%-24s %10v at best, on Linux %v", w.what, best.Round(10*time.Microsecond), w.linux)
	if limit := w.linux + patience; best > limit {
		t.Errorf("%s takes %v, want at most %v", w.what, best, limit)
	}
	if best < w.least {
		t.Errorf("%s takes %v, which is less than five jiffies", w.what, best)
	}
}

// probed is vfs_read+5, which has one probe.
type probed struct{ d *daemon }

func (p *probed) write(t testing.TB, name, text string) {
	t.Helper()
	if err := p.d.write(name, text); err != nil {
		t.Fatalf("%s to %s: %v", text, name, err)
	}
}

// text returns the first byte of its text, or "" if no probe has changed it.
func (p *probed) text(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(p.d.path("machine/text/vfs_read"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == "*" && f[2] == "+0x5" {
			return f[3]
		}
	}
	return ""
}

// marks returns the end of the probe's line in kprobes/list.
func (p *probed) marks(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(p.d.path("kprobes/list"))
	if err != nil {
		t.Fatal(err)
	}
	_, marks, ok := strings.Cut(strings.TrimSuffix(string(b), "\n"), "vfs_read+0x5    ")
	if !ok {
		t.Fatalf("list: %q", b)
	}
	return marks
}

// is checks the state at once. On a slow machine, "cc" may have become "e9".
func (p *probed) is(t testing.TB, text, marks string) {
	t.Helper()
	if got := p.marks(t); got != marks && !(marks == "[DISABLED][OPTIMIZED]" && got == "[DISABLED]") {
		t.Errorf("list says %q, want %q", got, marks)
	}
	if got := p.text(t); got != text && !(text == "cc" && got == "e9" && marks != "") && !(text == "e9" && got == "") {
		t.Errorf("text is %q, want %q", got, text)
	}
}

// becomes waits until the text begins with this byte.
func (p *probed) becomes(t testing.TB, text string) {
	t.Helper()
	within(t, hangLimit, "text becomes "+text, func() bool { return p.text(t) == text })
}

func (p *probed) marked(t testing.TB, marks string) {
	t.Helper()
	within(t, hangLimit, "list says "+marks, func() bool { return p.marks(t) == marks })
}
