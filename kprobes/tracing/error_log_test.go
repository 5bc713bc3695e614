package tracing

import (
	"strconv"
	"testing"
)

func TestErrorLogKeepsEight(t *testing.T) {
	tr, f := newTestTracer(t)
	f.Clock.Store(3582827 * 1000)
	for i := 1; i <= 10; i++ {
		_, _ = tr.definitions.WriteKprobeEvents([]byte("p bad" + strconv.Itoa(i)))
	}
	log := tr.global.ErrorLog()
	want := "[    3.582827] trace_kprobe: error: Invalid probed address or symbol\n  Command: p bad3\n             ^\n"
	if len(log) != 8 || log[0] != want {
		t.Errorf("%d entries, first %q, want %q", len(log), log[0], want)
	}
	tr.global.ClearErrorLog()
	if len(tr.global.ErrorLog()) != 0 {
		t.Error("the log is not empty after clearing")
	}
}
