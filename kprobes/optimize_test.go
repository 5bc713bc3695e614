package kprobes

import (
	"testing"
	"time"
)

// fakeTimer remembers what is to be called, and whether that was stopped.
type fakeTimer struct{ started, stopped int }

func (f *fakeTimer) AfterFunc(d time.Duration, _ func()) func() bool {
	if d != OptimizeDelay {
		panic("another delay")
	}
	f.started++
	return func() bool { f.stopped++; return true }
}

// TestJumpQueue: the work is scheduled once for all that waits, again for what has come while it
// ran, and never after the end.
func TestJumpQueue(t *testing.T) {
	timer := &fakeTimer{}
	q := &jumpQueue{timer: timer, run: func() {}}
	a, b, c := &point{addr: 1}, &point{addr: 2}, &point{addr: 3}
	q.add(a, toJump)
	q.add(b, toInt3)
	q.discard(func() {})
	if timer.started != 1 || q.waiting() != 2 || !q.pending() {
		t.Fatalf("scheduled %d times for %d", timer.started, q.waiting())
	}
	if s := q.state(); len(s.Jumps) != 1 || s.Jumps[0] != 1 || len(s.Breakpoints) != 1 || s.Breakpoints[0] != 2 || s.Garbage != 1 || !s.Scheduled || !s.On {
		t.Errorf("shows %+v", s)
	}
	if !q.begin() || q.state().Scheduled {
		t.Error("the work that runs is scheduled")
	}
	before := q.serial
	q.add(c, toJump) // while the work waits
	if pts := q.toJump.upTo(before); len(pts) != 1 || pts[0] != a {
		t.Errorf("a point that came later gets its jump in this round: %v", pts)
	}
	if pts := q.losing(); len(pts) != 1 || pts[0] != b {
		t.Errorf("%v lose their jump", pts)
	}
	q.remove(b)
	q.remove(b) // waits for nothing
	q.lost()
	if n := len(q.takeGarbage()); n != 1 || len(q.takeGarbage()) != 0 {
		t.Errorf("%d to free", n)
	}
	q.remove(a)
	if q.waiting() != 1 {
		t.Errorf("%d wait", q.waiting())
	}
	started := timer.started
	q.end() // it is scheduled for c already
	if timer.started != started {
		t.Error("scheduled twice")
	}
	q.stop()
	if q.begin() || q.pending() || timer.stopped == 0 {
		t.Error("there is work after the end")
	}
	q.begin()
	q.discard(func() {})
	if timer.started != started {
		t.Error("scheduled after the end")
	}
}
