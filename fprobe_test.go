package kprobefs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs"
)

// define writes lines to dynamic_events, each of which must succeed.
func define(t *testing.T, s *kprobefs.Kernel, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := s.Tracer.Definitions().WriteDynamicEvents([]byte(line + "\n")); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
}

// enable enables or disables an event of the global array.
func enable(t *testing.T, s *kprobefs.Kernel, group, name, value string) {
	t.Helper()
	for _, sub := range s.Tracer.Global().Subsystems() {
		for _, f := range sub.Events {
			if f.Group == group && f.Name == name {
				if err := f.Enable([]byte(value)); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
	t.Fatalf("no event %s/%s", group, name)
}

// lines returns the number of lines of the trace that contain the text.
func lines(s *kprobefs.Kernel, text string) (n int) {
	var b []byte
	for r, more := s.Tracer.Global().Trace(-1), true; more; {
		b, more = r.Next(b)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestFprobeInstances: the returns of up to maxactive calls at a time are seen; the
// default is two for each vCPU and function. A call that is in the function when the
// probe is removed returns normally.
func TestFprobeInstances(t *testing.T) {
	s := bootRelease(t, "6.12")
	ctx := context.Background()
	load(t, s, "6.12/kprobe_target")
	call := func() {
		t.Helper()
		if got, err := s.Machine.Call(ctx, "kprobe_target_fact", 10); err != nil || got != 3628800 {
			t.Fatalf("kprobe_target_fact(10) = %d, %v", got, err)
		}
	}
	for _, tt := range []struct {
		def  string
		want int
	}{
		{"f:x kprobe_target_fact%return $retval n=$arg1", 2},
		{"f5:x kprobe_target_fact%return $retval n=$arg1", 5},
		{"f64:x kprobe_target_fact%return $retval n=$arg1", 10},
		{"f:x kprobe_target_fac*%return $retval n=$arg1", 2},
		{"f:x kprobe_target_fact n=$arg1", 10},
	} {
		define(t, s, tt.def)
		call()
		enable(t, s, "fprobes", "x", "1")
		before := lines(s, " x: ")
		call()
		enable(t, s, "fprobes", "x", "0")
		if got := lines(s, " x: ") - before; got != tt.want {
			t.Errorf("%s: %d hits, want %d", tt.def, got, tt.want)
		}
		if ret := strings.Contains(tt.def, "%return"); ret && lines(s, "<- kprobe_target_fact) arg1=0x375f00 n=0xa") != 1 || lines(s, " n=0x9") != 1 {
			t.Errorf("%s: wrong values", tt.def)
		}
		call()
		define(t, s, "-:x")
	}
	call()
	define(t, s, "f:x kprobe_target_fact")
	enable(t, s, "fprobes", "x", "1")
	if err := s.Modules.Delete(ctx, "kprobe_target"); err != nil {
		t.Fatal(err)
	}
	load(t, s, "6.12/kprobe_target")
	before := lines(s, " x: ")
	call()
	if got := lines(s, " x: ") - before; got != 0 {
		t.Errorf("%d hits of a function of a module that was unloaded and loaded again", got)
	}
	enable(t, s, "fprobes", "x", "0")
	define(t, s, "-:x")
}

// TestProbestubs: a tracepoint's event and a probe on the tracepoint record the same
// hits, in any order of enabling and disabling. In the end the sites are nops.
func TestProbestubs(t *testing.T) {
	s := bootRelease(t, "6.12")
	work := func(event, probe bool) {
		t.Helper()
		events, probes := lines(s, " kmalloc: "), lines(s, " t: (__probestub_kmalloc+0x4/")
		ptr, err := s.Machine.Call(context.Background(), "__kmalloc", 12345, 0xcc0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Machine.Call(context.Background(), "kfree", ptr); err != nil {
			t.Fatal(err)
		}
		if got := lines(s, " kmalloc: ") - events; (got > 0) != event {
			t.Errorf("%d hits of the event", got)
		}
		if got := lines(s, " t: (__probestub_kmalloc+0x4/") - probes; (got > 0) != probe {
			t.Errorf("%d hits of the probe", got)
		}
		if probe && lines(s, " t: (__probestub_kmalloc+0x4/0x10) bytes_req=12345") == 0 {
			t.Error("the size is missing")
		}
	}
	work(false, false)
	define(t, s, "t:t kmalloc bytes_req ptr")
	work(false, false)
	enable(t, s, "tracepoints", "t", "1")
	work(false, true)
	enable(t, s, "kmem", "kmalloc", "1")
	work(true, true)
	enable(t, s, "tracepoints", "t", "0")
	define(t, s, "-:t")
	work(true, false)
	define(t, s, "t:t kmalloc bytes_req")
	enable(t, s, "tracepoints", "t", "1")
	work(true, true)
	enable(t, s, "kmem", "kmalloc", "0")
	work(false, true)
	enable(t, s, "tracepoints", "t", "0")
	define(t, s, "-:t")
	work(false, false)
}
