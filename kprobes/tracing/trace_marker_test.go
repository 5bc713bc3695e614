package tracing

import (
	"strings"
	"testing"
)

// TestMarkerTriggers: a write to trace_marker runs the triggers of ftrace/print. A
// snapshot taken by a trigger contains the entry.
func TestMarkerTriggers(t *testing.T) {
	tr, _ := newTestTracer(t)
	a := tr.global
	file := a.findFile("ftrace", "print", true)
	if _, err := tr.definitions.WriteSyntheticEvents([]byte("late s32 pid; char who[]\n")); err != nil {
		t.Fatal(err)
	}
	late := a.findFile("synthetic", "late", false)
	if err := late.Enable([]byte("1")); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`snapshot if buf == "two"`, "hist:keys=common_pid.execname:pp=common_pid:onmatch(ftrace.print).late($pp,$pp)", "hist:keys=common_pid.execname"} {
		if err := file.WriteTrigger([]byte(text)); (err != nil) != strings.Contains(text, "$pp,$pp") {
			t.Fatalf("%s: %v", text, err)
		}
	}
	task := Task{PID: 7, TGID: 7, CPU: 0, Comm: func() string { return "writer" }}
	for _, text := range []string{"one", "two\n", "two", "three"} {
		if _, err := a.WriteMarker(task, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	texts := func(r *TraceReader) string {
		var all []string
		for {
			line, ok := r.Next(nil)
			if !ok {
				return strings.Join(all, " ")
			}
			if fields := strings.Fields(string(line)); len(fields) > 0 && line[0] != '#' {
				all = append(all, fields[len(fields)-1])
			}
		}
	}
	if trace, snapshot := texts(a.Trace(-1)), texts(a.Snapshot(-1)); trace != "three" || snapshot != "one two two" {
		t.Errorf("trace has %q, snapshot %q", trace, snapshot)
	}
	if text, _ := file.Hist(); !strings.Contains(text, "common_pid: writer          [         7] } hitcount:          4\n") {
		t.Errorf("hist:\n%s", text)
	}
}
