package tracing

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestHistHit: a hit is counted by its key, and variables and a synthetic event are
// passed to a second histogram.
func TestHistHit(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read n=%di:u32 s=+0(%si):string", "p:b vfs_write n=%di:u32")
	a, b := tr.global.findFile("kprobes", "a"), tr.global.findFile("kprobes", "b")
	if _, err := tr.WriteSyntheticEvents([]byte("late u32 sum; char s[]\n")); err != nil {
		t.Fatal(err)
	}
	trigger := func(f *EventFile, text string) {
		t.Helper()
		if err := f.WriteTrigger([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	trigger(a, "hist:keys=n:vals=n:v=n,w=s:sort=n")
	trigger(b, "hist:keys=n:both=$v+n:ss=$w:onmatch(kprobes.a).late($both,$ss)")
	late := tr.global.findFile("synthetic", "late")
	trigger(late, "hist:keys=s,sum")
	if err := late.Enable([]byte("1")); err != nil {
		t.Fatal(err)
	}
	trap := trapWithArgs(f)
	hitA, hitB := f.hitOf(tr.probes[0], trap), f.hitOf(tr.probes[1], trap)
	hits := func() { tr.probes[0].entered(hitA); tr.probes[1].entered(hitB) }
	hits()
	trap.Regs.DI = 7
	hits()
	if n := testing.AllocsPerRun(100, hits); n != 0 {
		t.Errorf("%v allocations for a hit of three histograms", n)
	}
	for _, c := range []struct {
		file *EventFile
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
	if err := tr.ReleaseSynthetic(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removing a synthetic event that is hit: %v", err)
	}
	b.ClearTriggers()
	a.ClearTriggers()
	late.ClearTriggers()
	if err := late.Enable([]byte("0")); err != nil {
		t.Fatal(err)
	}
	if err := tr.ReleaseAll(); err != nil {
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
		_, a := triggerFile(t)
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
		_, a := triggerFile(t)
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

// TestHistLoad: hits on both vCPUs while the table is read and cleared and triggers
// are added and removed. After the last clear the counts are exact.
func TestHistLoad(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read n=%di:u32 s=+0(%si):string")
	a := tr.global.findFile("kprobes", "a")
	trigger := func(text string) {
		t.Helper()
		if err := a.WriteTrigger([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	trigger("hist:keys=s,n:vals=n:v=n,w=s:onmax($v).save(common_pid,common_cpu):size=128")
	const each = 2000
	var wg sync.WaitGroup
	for cpu := range 2 {
		wg.Go(func() {
			trap := trapWithArgs(f)
			trap.CPU = cpu
			hit := f.hitOf(tr.probes[0], trap)
			for i := range each {
				trap.Regs.DI = uint64(i % 200)
				tr.probes[0].entered(hit)
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
	hits, drops := a.triggerList()[0].hist.table.Hits.Load(), a.triggerList()[0].hist.table.Drops.Load()
	if hits+drops != 2*each || strings.Count(text, "hitcount: ") != 128 || drops != 2*each/200*72 {
		t.Errorf("%d hits and %d drops:\n%s", hits, drops, text)
	}
	a.triggerList()[0].hist.table.Clear() // a trigger with variables cannot be written again to clear it
	if text, _ := a.Hist(); !strings.Contains(text, "    Hits: 0\n    Entries: 0\n    Dropped: 0\n") {
		t.Errorf("after clear:\n%s", text)
	}
}

// TestHistMemory: the memory of all tables is limited, and freed when triggers are
// removed.
func TestHistMemory(t *testing.T) {
	tr, _ := newTestTracer(t)
	write(t, tr, "p:a vfs_read n=%di:u32 s=+0(%si):string")
	a := tr.global.findFile("kprobes", "a")
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
	if n := len(a.triggerList()); n != made {
		t.Errorf("%d triggers, %d were made", n, made)
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
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read a=%ax:u64 b=%ax:u64 c=%ax:u64 n=%di:u32 s=+0(%si):string z=+0(%si):string", "p:b vfs_write n=%di:u32 s=+0(%si):string")
	a, b := tr.global.findFile("kprobes", "a"), tr.global.findFile("kprobes", "b")
	for _, keys := range []string{"n", "s", "n,s", "n.sym"} {
		text := []byte("hist:name=shared:keys=" + keys)
		for _, e := range []*EventFile{a, b} {
			if err := e.WriteTrigger(text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		trap := trapWithArgs(f)
		tr.probes[0].entered(f.hitOf(tr.probes[0], trap))
		tr.probes[1].entered(f.hitOf(tr.probes[1], trap))
		if hits := a.triggerList()[0].hist.table.Hits.Load(); hits != 2 {
			t.Errorf("%s: %d hits of two events", text, hits)
		}
		for _, e := range []*EventFile{a, b} {
			if err := e.WriteTrigger(append([]byte("!"), text...)); err != nil {
				t.Error(err)
			}
		}
	}
}
