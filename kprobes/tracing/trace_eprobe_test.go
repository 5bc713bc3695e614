package tracing

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// TestEprobe: an event probe is hit with the event that it is attached to if its
// filter passes, and records values of that event's fields.
func TestEprobe(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read n=%di:u32 s=+0(%si):string")
	if _, err := tr.definitions.WriteSyntheticEvents([]byte("ev u32 n; char s[]\n")); err != nil {
		t.Fatal(err)
	}
	a := tr.global.findFile("kprobes", "a", false)
	if err := a.WriteTrigger([]byte("hist:keys=common_pid:vv=n:onchange($vv).ev($vv,s)")); err == nil {
		t.Fatal("a parameter of one byte was accepted")
	}
	if err := a.WriteTrigger([]byte("hist:keys=common_pid:vv=n:ss=s:onchange($vv).ev($vv,$ss)")); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.definitions.WriteDynamicEvents([]byte("e:g/e synthetic.ev x=$n:x8 s=$s:string if n > 5\n")); err != nil {
		t.Fatal(err)
	}
	e, ev := tr.global.findFile("g", "e", false), tr.global.findFile("synthetic", "ev", false)
	if err := e.Enable([]byte("1")); err != nil {
		t.Fatal(err)
	}
	if text, _ := ev.EnableText(); text != "0*\n" {
		t.Errorf("the attached event's enable is %q", text)
	}
	trap := tracingtest.TrapWithArgs(f)
	hit := f.HitOf(f.Probes[0], trap)
	for _, n := range []uint64{3, 0x107, 5, 9} {
		trap.Regs.DI = n
		f.Probes[0].PreHandler(hit)
	}
	var lines []string
	for r := tr.global.Trace(-1); ; {
		line, ok := r.Next(nil)
		if !ok {
			break
		}
		if _, text, ok := strings.Cut(string(line), ": e: "); ok {
			lines = append(lines, text)
		}
	}
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "(synthetic.ev) x=0x7 s=") || !strings.HasPrefix(lines[1], "(synthetic.ev) x=0x9 s=") {
		t.Errorf("hits: %q", lines)
	}
	if n := testing.AllocsPerRun(100, func() { trap.Regs.DI++; f.Probes[0].PreHandler(hit) }); n != 0 {
		t.Errorf("%v allocations for a hit", n)
	}
	if _, err := tr.definitions.WriteDynamicEvents([]byte("-:ev\n")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("deleting an event with an eprobe: %v", err)
	}
	if err := e.Enable([]byte("0")); err != nil {
		t.Fatal(err)
	}
	a.ClearTriggers()
	for _, line := range []string{"-:g/e synthetic/ev x=$n:x8", "-:ev", "-:a"} {
		if _, err := tr.definitions.WriteDynamicEvents([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
