package hist_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracertest"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// TestHistHit: a hit is counted by its key, and variables and a synthetic event are
// passed to a second histogram.
func TestHistHit(t *testing.T) {
	tr, f := tracertest.New(t)
	tracertest.Define(t, tr, "p:a vfs_read n=%di:u32 s=+0(%si):string", "p:b vfs_write n=%di:u32")
	a, b := tracertest.File(tr, "kprobes", "a"), tracertest.File(tr, "kprobes", "b")
	if _, err := tr.Definitions().WriteSyntheticEvents([]byte("late u32 sum; char s[]\n")); err != nil {
		t.Fatal(err)
	}
	trigger := func(f *tracing.EventFile, text string) { t.Helper(); tracertest.WriteTrigger(t, f, text) }
	trigger(a, "hist:keys=n:vals=n:v=n,w=s:sort=n")
	trigger(b, "hist:keys=n:both=$v+n:ss=$w:onmatch(kprobes.a).late($both,$ss)")
	late := tracertest.File(tr, "synthetic", "late")
	trigger(late, "hist:keys=s,sum")
	if err := late.Enable([]byte("1")); err != nil {
		t.Fatal(err)
	}
	trap := tracingtest.TrapWithArgs(f)
	hitA, hitB := f.HitOf(f.Probes[0], trap), f.HitOf(f.Probes[1], trap)
	hits := func() { f.Probes[0].PreHandler(hitA); f.Probes[1].PreHandler(hitB) }
	hits()
	trap.Regs.DI = 7
	hits()
	if n := testing.AllocsPerRun(100, hits); n != 0 {
		t.Errorf("%v allocations for a hit of three histograms", n)
	}
	for _, c := range []struct {
		file *tracing.EventFile
		want string
	}{
		{a, "{ n:          7 } hitcount:        102  n:        714\n{ n: 4294967196 } hitcount:          1  n: 4294967196\n\nTotals:\n    Hits: 103\n    Entries: 2\n    Dropped: 0\n"},
		{b, "{ n: 4294967196 } hitcount:          1\n{ n:          7 } hitcount:        102\n\nTotals:\n    Hits: 103\n    Entries: 2\n    Dropped: 0\n"},
	} {
		if text, _ := c.file.Hist(); !strings.HasSuffix(text, "#\n\n"+c.want) {
			t.Errorf("hist:\n%swant\n%s", text, c.want)
		}
	}
	if text, _ := late.Hist(); !strings.Contains(text, ", sum:         14 } hitcount:        102\n") {
		t.Errorf("hist of the synthetic event:\n%s", text)
	}
	if err := a.WriteTrigger([]byte("!hist:keys=n:vals=n:v=n,w=s:sort=n")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removing a histogram that is referred to: %v", err)
	}
	if err := tr.Definitions().ReleaseSynthetic(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removing a synthetic event that is hit: %v", err)
	}
	b.ClearTriggers()
	a.ClearTriggers()
	late.ClearTriggers()
	if err := late.Enable([]byte("0")); err != nil {
		t.Fatal(err)
	}
	if err := tr.Definitions().ReleaseAll(); err != nil {
		t.Error(err)
	}
}

// TestHistDivision: Linux's division by a number that is not a power of two rounds up
// small dividends.
func TestHistDivision(t *testing.T) {
	for _, c := range []struct {
		expr string
		want string
	}{{"10/3", "4"}, {"9/3", "3"}, {"10/3*3", "12"}, {"16-8-4-2", "2"}, {"64/8/4/2", "1"}, {"4+6/2-2", "5"}, {"5-7", "18446744073709551614"}} {
		_, a := tracertest.TriggerFile(t)
		if err := a.WriteTrigger([]byte("hist:keys=n:x=" + c.expr)); err != nil {
			t.Fatal(err)
		}
		if lines, _ := a.Triggers(); !strings.Contains(lines[0], ":x="+c.want+":") {
			t.Errorf("%s: %q, want %s", c.expr, lines[0], c.want)
		}
	}
}

// FuzzHistTrigger: errors of the parser have an errno, and accepted commands can be
// shown and removed.
func FuzzHistTrigger(f *testing.F) {
	for _, seed := range []string{
		"keys=n", "keys=n.log2,common_cpu:vals=n.hex:sort=n.descending", "keys=n:v=n+1,w=-(n)/3:size=128:name=x:pause if n > 3",
		"keys=n:v=n:onmax($v).save(n,common_pid)", "keys=n.buckets=3:clock=mono:t=common_timestamp.usecs", "keys=n:onmatch(kprobes.b).x($v)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, a := tracertest.TriggerFile(t)
		if err := a.WriteTrigger([]byte("hist:" + text)); err != nil {
			var errno syscall.Errno
			if !errors.As(err, &errno) {
				t.Errorf("%q: %v has no errno", text, err)
			}
			return
		}
		if _, err := a.Triggers(); err != nil {
			t.Error(err)
		}
		if _, err := a.Hist(); err != nil {
			t.Error(err)
		}
		a.ClearTriggers()
		if a.Enabled() {
			t.Errorf("%q: still there", text)
		}
	})
}

// counts returns the totals at the end of the text of hist.
func counts(t *testing.T, text string) (hits, drops int) {
	t.Helper()
	entries := 0
	_, totals, _ := strings.Cut(text, "\nTotals:\n")
	if _, err := fmt.Sscanf(totals, "    Hits: %d\n    Entries: %d\n    Dropped: %d\n", &hits, &entries, &drops); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return hits, drops
}

// TestHistLoad: hits on both vCPUs while the table is read and triggers are added and
// removed. The counts are exact.
func TestHistLoad(t *testing.T) {
	tr, f := tracertest.New(t)
	tracertest.Define(t, tr, "p:a vfs_read n=%di:u32 s=+0(%si):string")
	a := tracertest.File(tr, "kprobes", "a")
	trigger := func(text string) { t.Helper(); tracertest.WriteTrigger(t, a, text) }
	trigger("hist:keys=s,n:vals=n:v=n,w=s:onmax($v).save(common_pid,common_cpu):size=128")
	const each = 2000
	var wg sync.WaitGroup
	for cpu := range 2 {
		wg.Go(func() {
			trap := tracingtest.TrapWithArgs(f)
			trap.CPU = cpu
			hit := f.HitOf(f.Probes[0], trap)
			for i := range each {
				trap.Regs.DI = uint64(i % 200)
				f.Probes[0].PreHandler(hit)
			}
		})
	}
	for range 20 {
		if _, err := a.Hist(); err != nil {
			t.Error(err)
		}
		trigger("hist:keys=common_pid if n > 1000")
		trigger("!hist:keys=common_pid if n > 1000")
	}
	wg.Wait()
	text, err := a.Hist()
	if err != nil {
		t.Fatal(err)
	}
	hits, drops := counts(t, text)
	if hits+drops != 2*each || strings.Count(text, "hitcount: ") != 128 || drops != 2*each/200*72 {
		t.Errorf("%d hits and %d drops:\n%s", hits, drops, text)
	}
}

// TestHistClear: clear empties the table, also between hits of other vCPUs.
func TestHistClear(t *testing.T) {
	tr, f := tracertest.New(t)
	tracertest.Define(t, tr, "p:a vfs_read n=%di:u32")
	a := tracertest.File(tr, "kprobes", "a")
	trigger := func(text string) { t.Helper(); tracertest.WriteTrigger(t, a, text) }
	trigger("hist:keys=n")
	var wg sync.WaitGroup
	for cpu := range 2 {
		wg.Go(func() {
			trap := tracingtest.TrapWithArgs(f)
			trap.CPU = cpu
			hit := f.HitOf(f.Probes[0], trap)
			for i := range 1000 {
				trap.Regs.DI = uint64(i % 100)
				f.Probes[0].PreHandler(hit)
			}
		})
	}
	for range 20 {
		trigger("hist:keys=n:clear")
	}
	wg.Wait()
	trigger("hist:keys=n:clear")
	if text, _ := a.Hist(); !strings.Contains(text, "    Hits: 0\n    Entries: 0\n    Dropped: 0\n") {
		t.Errorf("after clear:\n%s", text)
	}
}

// TestHistInstance: an instance that has a histogram with variables cannot be removed, as
// recorded on Linux (hist_instance.txtar). One without variables is removed with it.
func TestHistInstance(t *testing.T) {
	tr, _ := tracertest.New(t)
	tracertest.Define(t, tr, "p:a vfs_read n=%di:u32")
	if err := tr.MakeInstance("i"); err != nil {
		t.Fatal(err)
	}
	var a *tracing.EventFile
	for _, s := range tr.Instances()[0].Subsystems() {
		for _, f := range s.Events {
			if f.Name == "a" {
				a = f
			}
		}
	}
	for _, text := range []string{"hist:keys=n:vv=n:name=x", "hist:keys=n"} {
		if err := a.WriteTrigger([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.RemoveInstance("i"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removing an instance with a variable: %v", err)
	}
	if err := a.WriteTrigger([]byte("!hist:keys=n:vv=n:name=x")); err != nil {
		t.Fatal(err)
	}
	if err := tr.RemoveInstance("i"); err != nil {
		t.Errorf("removing an instance without variables: %v", err)
	}
	if err := tracertest.File(tr, "kprobes", "a").WriteTrigger([]byte("hist:keys=n:ww=n:name=x")); err != nil {
		t.Errorf("a name that only the removed instance had: %v", err)
	}
}

// TestHistMemory: the memory of all tables is limited, and freed when triggers are
// removed.
func TestHistMemory(t *testing.T) {
	tr, _ := tracertest.New(t)
	tracertest.Define(t, tr, "p:a vfs_read n=%di:u32 s=+0(%si):string")
	a := tracertest.File(tr, "kprobes", "a")
	names := []string{"v", "w", "x", "y", "z"}
	text := func(name string) []byte {
		return []byte("hist:keys=n:size=131072:" + name + "=s,2" + name + "=s,3" + name + "=s if n > 3")
	}
	made := 0
	var err error
	for _, name := range names {
		if err = a.WriteTrigger(text(name)); err != nil {
			break
		}
		made++
	}
	if !errors.Is(err, syscall.ENOMEM) || made < 2 {
		t.Fatalf("%d tables of 131072 elements with three strings, then %v", made, err)
	}
	if lines, _ := a.Triggers(); len(lines) != made {
		t.Errorf("%d triggers, %d were made", len(lines), made)
	}
	if err := a.WriteTrigger(append([]byte("!"), text(names[0])...)); err != nil {
		t.Error(err)
	}
	if err := a.WriteTrigger(text(names[made])); err != nil {
		t.Errorf("after one was removed: %v", err)
	}
}

// TestHistNamedShort: a named histogram reads members at the offsets of its first
// event; an entry of another event may be shorter.
func TestHistNamedShort(t *testing.T) {
	tr, f := tracertest.New(t)
	tracertest.Define(t, tr, "p:a vfs_read a=%ax:u64 b=%ax:u64 c=%ax:u64 n=%di:u32 s=+0(%si):string z=+0(%si):string", "p:b vfs_write n=%di:u32 s=+0(%si):string")
	a, b := tracertest.File(tr, "kprobes", "a"), tracertest.File(tr, "kprobes", "b")
	for _, keys := range []string{"n", "s", "n,s", "n.sym"} {
		text := []byte("hist:name=shared:keys=" + keys)
		for _, e := range []*tracing.EventFile{a, b} {
			if err := e.WriteTrigger(text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		trap := tracingtest.TrapWithArgs(f)
		f.Probes[0].PreHandler(f.HitOf(f.Probes[0], trap))
		f.Probes[1].PreHandler(f.HitOf(f.Probes[1], trap))
		shown, _ := a.Hist()
		if hits, _ := counts(t, shown); hits != 2 {
			t.Errorf("%s: %d hits of two events", text, hits)
		}
		for _, e := range []*tracing.EventFile{a, b} {
			if err := e.WriteTrigger(append([]byte("!"), text...)); err != nil {
				t.Error(err)
			}
		}
	}
}
