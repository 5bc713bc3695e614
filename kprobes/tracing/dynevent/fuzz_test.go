package dynevent

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// The targets here write arbitrary text to the files of dynamic events and check that it
// is accepted or fails with an errno, that everything accepted can be shown and removed
// again, and that nothing is left afterwards.

// fuzzWrites makes a fuzz target for a file. It calls write with each input on a new
// Registry, and then check.
func fuzzWrites(f *testing.F, seeds []string, write func(r *Registry, text string) error, check func(t *testing.T, r *Registry)) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, o := newFprobeRegistry(t)
		if _, err := r.WriteKprobeEvents([]byte("p:base vfs_read n=%di:u32 s=+0(%si):string\n")); err != nil {
			t.Fatal(err)
		}
		var errno syscall.Errno
		if err := write(r, text); err != nil && !errors.As(err, &errno) {
			t.Fatalf("an error without errno: %v", err)
		}
		check(t, r)
		for range len(r.list) + 1 { // an event is deleted after those that use it
			_ = r.ReleaseAll()
		}
		if len(r.list) != 0 || len(o.kernel.Probes) != 0 || len(o.events) != 0 {
			t.Fatalf("left: %d definitions, %d probes, events %v", len(r.list), len(o.kernel.Probes), o.events)
		}
	})
}

// listed checks that dynamic_events shows all definitions in a form that can be written.
func listed(t *testing.T, r *Registry) []string {
	t.Helper()
	lines := tracingtest.Lines(r.DynamicEvent)
	if len(lines) != len(r.list) {
		t.Fatalf("%d events, %d lines: %q", len(r.list), len(lines), lines)
	}
	for _, l := range lines {
		if !strings.HasSuffix(l, "\n") || strings.Count(l, "\n") != 1 || strings.Contains(l, "\x00") {
			t.Fatalf("a line that cannot be parsed: %q", l)
		}
	}
	return lines
}

func FuzzUprobeDefinition(f *testing.F) {
	fuzzWrites(f, []string{
		"p /bin/sh:0x10", "p:g/e /bin/sh:16(8) a=%ax:u32", "r:back /bin/sh:0x100 $retval", "-:g/e", "p:x /bin/sh:0x1%return", "p /bin:0x1",
		"p:a /bin/sh:0x10 +8(%di):string @+0x10", "p:a /bin/sh:\np:a /bin/sh:1\n-:a", "p:a \\:0:0", "r5:a /bin/sh:1 +u8($stack3)",
	}, func(r *Registry, text string) error {
		_, err := r.WriteUprobeEvents([]byte(text))
		return err
	}, func(t *testing.T, r *Registry) {
		listed(t, r)
		if a, b := len(r.UprobeEvents()), len(r.UprobeProfile()); a != b {
			t.Fatalf("%d events, %d lines of profile", a, b)
		}
		if err := r.ReleaseUprobes(); err != nil || len(r.UprobeEvents()) != 0 {
			t.Fatalf("%v, left: %q", err, r.UprobeEvents())
		}
	})
}

func FuzzEprobeDefinition(f *testing.F) {
	fuzzWrites(f, []string{
		"e kprobes/base", "e:g/x kprobes.base n=$n:x8 s=$s:string if n > 5", "e kprobes/base a=+4($s):u32 b=$comm", "e:base kprobes/base $n", "e:x kprobes/none",
		"e:a kprobes/base if", "e:a kprobes/base x=$n if s ~ \"*a\"\n-:a", "e:x eprobes/x", "e:x sched/sched_switch $prev_pid",
	}, func(r *Registry, text string) error {
		_, err := r.WriteDynamicEvents([]byte(text))
		return err
	}, func(t *testing.T, r *Registry) { listed(t, r) })
}

func FuzzSynthetic(f *testing.F) {
	fuzzWrites(f, []string{
		"ev u32 n; char s[]", "ev u64 a; s8 b[4]; pid_t p", "!ev", "ev", "ev char c[16];\nev2 unsigned long l;\n!ev", "ev const char *p", "ev u32 n[0]", "s:synthetic/ev u32 n",
		"ev __data_loc char[] s; gfp_t g", "ev bool b;;", "ev u32 n n", "ev struct a b",
	}, func(r *Registry, text string) error {
		_, err := r.WriteSyntheticEvents([]byte(text))
		_, also := r.WriteDynamicEvents([]byte("s:" + text))
		return errors.Join(err, also)
	}, func(t *testing.T, r *Registry) {
		listed(t, r)
		for _, line := range r.SyntheticEvents() {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			s := r.Synth(name)
			if s == nil || len(s.fields) == 0 {
				t.Fatalf("%q has no event of the name %q with fields", line, name)
			}
		}
		if err := r.ReleaseSynthetic(); err != nil || len(r.SyntheticEvents()) != 0 {
			t.Fatalf("%v, left: %q", err, r.SyntheticEvents())
		}
	})
}
