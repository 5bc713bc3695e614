package dynevent

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// fakeValues are the values of a hit of a synthetic event.
type fakeValues struct {
	number uint64
	text   string
}

func (v *fakeValues) Number(int) uint64 { return v.number }
func (v *fakeValues) Text(int) []byte   { return []byte(v.text) }

func (v *fakeValues) PutStack(_ int, room []byte) int {
	binary.LittleEndian.PutUint64(room, 0)
	return 8
}

// TestSynthHit: a hit of a synthetic event records numbers and strings, and an eprobe on
// the event gets its entry. What is in use cannot be deleted.
func TestSynthHit(t *testing.T) {
	r, o := newTestRegistry(t)
	for _, line := range []string{"s:late u32 n; s8 m; char s[]; char c[4]", "e:g/e synthetic.late x=$n:x8 t=$s:string if n > 5"} {
		if _, err := r.WriteDynamicEvents([]byte(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	late, e := o.event(t, "synthetic", "late"), o.event(t, "g", "e")
	e.enable(t, true)
	trap := tracingtest.TrapWithArgs(o.kernel)
	s := r.Synth("late")
	s.Hit(trap, 2, &fakeValues{3, "few"})
	s.Hit(trap, 2, &fakeValues{0x107, "many"})
	if got, want := late.line(), "late: n=263 m=7 s=many c=many\n"; got != want {
		t.Errorf("the event: %q, want %q", got, want)
	}
	if got, want := e.line(), "e: (synthetic.late) x=0x7 t=\"many\"\n"; e.committed != 1 || got != want {
		t.Errorf("the eprobe: %d hits, %q, want %q", e.committed, got, want)
	}
	for _, refused := range []func() error{
		r.ReleaseSynthetic, // an eprobe is attached
		func() error { _, err := r.WriteDynamicEvents([]byte("-:g/e")); return err }, // on
	} {
		if err := refused(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("deleting what is in use: %v", err)
		}
	}
	e.enable(t, false)
	s.Hit(trap, 2, &fakeValues{9, "x"})
	if e.committed != 1 {
		t.Errorf("%d hits of an eprobe that is off", e.committed)
	}
	if _, err := r.WriteDynamicEvents([]byte("-:g/e")); err != nil {
		t.Fatal(err)
	}
	s.Hold(1)
	if err := r.ReleaseSynthetic(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("deleting an event that an action hits: %v", err)
	}
	s.Hold(-1)
	if err := r.ReleaseSynthetic(); err != nil || len(o.events) != 0 {
		t.Errorf("%v, left: %v", err, o.events)
	}
}
