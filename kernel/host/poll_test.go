package host

import (
	"testing"
	"time"
)

// TestPoll: a thread polls for longer where that is enough, and not where it is not.
func TestPoll(t *testing.T) {
	var p Poll
	if p.Again(time.Now().Add(-time.Nanosecond)) {
		t.Error("it polls")
	}
	for _, step := range []struct{ waited, window time.Duration }{
		{maxPoll / 2, minPoll},
		{maxPoll / 2, 2 * minPoll},
		{0, 2 * minPoll},
		{maxPoll, 4 * minPoll},
		{maxPoll, maxPoll},
		{maxPoll, maxPoll},
		{time.Second, 2 * minPoll},
		{time.Second, minPoll},
		{time.Second, 0},
		{time.Second, 0},
	} {
		if p.Waited(step.waited); p.window != step.window {
			t.Fatalf("after a wait of %v it polls for %v, want %v", step.waited, p.window, step.window)
		}
	}
}
