package tracing

import (
	"errors"
	"syscall"
	"testing"
)

// TestReaders: one trace_pipe consumes an entry, and readers of trace of one vCPU are counted there.
func TestReaders(t *testing.T) {
	r := newReaders(2)
	for _, c := range []struct {
		cpu  int
		open bool
		want error
	}{
		{0, true, nil},
		{0, true, syscall.EBUSY},
		{1, true, nil}, // another vCPU's
		{-1, true, syscall.EBUSY},
		{0, false, nil},
		{-1, true, syscall.EBUSY}, // there is still vCPU 1's
		{1, false, nil},
		{-1, true, nil},
		{1, true, syscall.EBUSY},
		{-1, false, nil},
		{1, true, nil},
	} {
		var err error
		if c.open {
			err = r.openPipe(c.cpu)
		} else {
			r.setPiped(c.cpu, false)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("trace_pipe of %d, open %v: %v, want %v", c.cpu, c.open, err, c.want)
		}
	}
	r.count(1, 1)
	r.count(-1, 1)
	if r.trace[0] != 1 || r.trace[1] != 2 || !r.reading() {
		t.Errorf("read by %d", r.trace)
	}
	r.count(-1, -1)
	r.count(1, -1)
	if r.reading() {
		t.Error("read by nobody")
	}
}
