package tracing

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// The targets here write arbitrary text to the files of tracing and check that it is
// accepted or fails with an errno, that everything accepted can be shown and removed
// again, and that nothing is left afterwards.

// fuzzWrites makes a fuzz target for a file. It calls write with each input on a new
// Tracer, and then check.
func fuzzWrites(f *testing.F, seeds []string, write func(tr *Tracer, text string) error, check func(t *testing.T, tr *Tracer)) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tr, fake := newTestTracer(t)
		tr.conf.Functions = fakeFunctions{[]uint64{fake.symbol("vfs_read"), fake.symbol("vfs_open")}}
		names := len(tr.namesInUse)
		if _, err := tr.WriteKprobeEvents([]byte("p:base vfs_read n=%di:u32 s=+0(%si):string\n")); err != nil {
			t.Fatal(err)
		}
		var errno syscall.Errno
		if err := write(tr, text); err != nil && !errors.As(err, &errno) {
			t.Fatalf("an error without errno: %v", err)
		}
		check(t, tr)
		for range len(tr.dynamic) + 1 { // an event is deleted after those that use it
			_ = tr.ReleaseAll()
		}
		if len(tr.dynamic) != 0 || len(fake.probes) != 0 || len(tr.namesInUse) != names {
			t.Fatalf("left: %d events, %d probes, names %v", len(tr.dynamic), len(fake.probes), tr.namesInUse)
		}
	})
}

// listed checks that dynamic_events shows all definitions in a form that can be written.
func listed(t *testing.T, tr *Tracer) []string {
	t.Helper()
	lines := all(tr.DynamicEvent)
	if len(lines) != len(tr.dynamic) {
		t.Fatalf("%d events, %d lines: %q", len(tr.dynamic), len(lines), lines)
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
	}, func(tr *Tracer, text string) error {
		_, err := tr.WriteUprobeEvents([]byte(text))
		return err
	}, func(t *testing.T, tr *Tracer) {
		listed(t, tr)
		if a, b := len(tr.UprobeEvents()), len(tr.UprobeProfile()); a != b {
			t.Fatalf("%d events, %d lines of profile", a, b)
		}
		if err := tr.ReleaseUprobes(); err != nil || len(tr.UprobeEvents()) != 0 {
			t.Fatalf("%v, left: %q", err, tr.UprobeEvents())
		}
	})
}

func FuzzEprobeDefinition(f *testing.F) {
	fuzzWrites(f, []string{
		"e kprobes/base", "e:g/x kprobes.base n=$n:x8 s=$s:string if n > 5", "e kprobes/base a=+4($s):u32 b=$comm", "e:base kprobes/base $n", "e:x kprobes/none",
		"e:a kprobes/base if", "e:a kprobes/base x=$n if s ~ \"*a\"\n-:a", "e:x eprobes/x", "e:x sched/sched_switch $prev_pid",
	}, func(tr *Tracer, text string) error {
		_, err := tr.WriteDynamicEvents([]byte(text))
		return err
	}, func(t *testing.T, tr *Tracer) { listed(t, tr) })
}

func FuzzSynthetic(f *testing.F) {
	fuzzWrites(f, []string{
		"ev u32 n; char s[]", "ev u64 a; s8 b[4]; pid_t p", "!ev", "ev", "ev char c[16];\nev2 unsigned long l;\n!ev", "ev const char *p", "ev u32 n[0]", "s:synthetic/ev u32 n",
		"ev __data_loc char[] s; gfp_t g", "ev bool b;;", "ev u32 n n", "ev struct a b",
	}, func(tr *Tracer, text string) error {
		_, err := tr.WriteSyntheticEvents([]byte(text))
		_, also := tr.WriteDynamicEvents([]byte("s:" + text))
		return errors.Join(err, also)
	}, func(t *testing.T, tr *Tracer) {
		listed(t, tr)
		for _, line := range tr.SyntheticEvents() {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			file := tr.event("synthetic", name)
			if file == nil {
				t.Fatalf("%q has no event of the name %q", line, name)
			}
			if text, err := file.Format(); err != nil || !strings.Contains(text, "name: "+name+"\n") {
				t.Fatalf("the format of %q is %q, %v", name, text, err)
			}
		}
		if err := tr.ReleaseSynthetic(); err != nil || len(tr.SyntheticEvents()) != 0 {
			t.Fatalf("%v, left: %q", err, tr.SyntheticEvents())
		}
	})
}

func FuzzFunctionFilter(f *testing.F) {
	fuzzWrites(f, []string{
		"vfs_read", "vfs_*", "!vfs_read vfs_open", "vfs_read:traceon:3", "!vfs_read:traceoff:0", "vfs_*:stacktrace", "*:mod:x", ":mod:x", "vfs_read:enable_event:kprobes:base:2",
		"!*:enable_event:kprobes:base", "vfs_read:dump", "vfs_read:snapshot:1", "vfs_open:cpudump", "*[!a]?", "0x1",
	}, func(tr *Tracer, text string) error {
		var errs []error
		for _, notrace := range []bool{false, true} {
			e := tr.global.EditFunctions(notrace, false)
			for rest := []byte(text); len(rest) > 0; {
				n, err := e.Write(rest)
				if n == 0 || err != nil {
					errs = append(errs, err)
					break
				}
				rest = rest[n:]
			}
			e.Close()
		}
		return errors.Join(errs...)
	}, func(t *testing.T, tr *Tracer) {
		for _, notrace := range []bool{false, true} {
			for _, l := range tr.global.FunctionFilter(notrace) {
				if !strings.HasSuffix(l, "\n") {
					t.Fatalf("a line without an end: %q", l)
				}
			}
			tr.global.EditFunctions(notrace, true).Close()
		}
		// Commands remain when the sets are cleared. Each can be removed by the line
		// that shows it.
		for range 64 {
			lines := tr.global.FunctionFilter(false)
			i := 0
			for i < len(lines) && strings.HasPrefix(lines[i], "#") {
				i++
			}
			if i == len(lines) {
				return
			}
			line := "!" + undo(lines[i], 1)
			if strings.Contains(lines[i], ":count=") {
				line += ":0" // any count: it removes the command that has counts
			}
			e := tr.global.EditFunctions(false, false)
			if _, err := e.Write([]byte(line + "\n")); err != nil {
				t.Fatalf("removing %q: %v", lines[i], err)
			}
			e.Close()
		}
	})
}

func FuzzPIDs(f *testing.F) {
	fuzzWrites(f, []string{"1", "1 2 3\n", " 07 0x10\x005", "-1", "1073741824", "99999999999999999999", "1 x 2", "\x00", "2147483647"},
		func(tr *Tracer, text string) error {
			var errs []error
			for which := range PIDFile(len(tr.global.pids)) {
				before := strings.Join(tr.global.PIDs(which), "")
				n, err := tr.global.WritePIDs(which, []byte(text))
				if n < 0 || n > len(text) {
					return errors.New("it consumed more than the whole text")
				}
				if err != nil && before != strings.Join(tr.global.PIDs(which), "") {
					return errors.New("a refused write has changed the list")
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		}, func(t *testing.T, tr *Tracer) {
			for which := range PIDFile(len(tr.global.pids)) {
				lines := tr.global.PIDs(which)
				tr.global.ClearPIDs(which)
				if text := strings.Join(lines, ""); text != "no pid\n" {
					if _, err := tr.global.WritePIDs(which, []byte(text)); err != nil {
						t.Fatalf("its own list %q: %v", text, err)
					}
				}
				if again := tr.global.PIDs(which); strings.Join(again, "") != strings.Join(lines, "") {
					t.Fatalf("%q written back is %q", lines, again)
				}
				tr.global.ClearPIDs(which)
			}
		})
}

func FuzzTraceOptions(f *testing.F) {
	fuzzWrites(f, []string{"raw", "nooverwrite", " nohex ", "stacktrace\n", "test_nop_refuse", "nofunc_stack_trace", "nono", "no", "event-fork\x00", "bin\nraw"},
		func(tr *Tracer, text string) error {
			before := tr.global.TraceOptions()
			err := tr.global.WriteTraceOptions([]byte(text))
			if err != nil && tr.global.TraceOptions() != before {
				return errors.New("a refused write has changed an option")
			}
			return err
		}, func(t *testing.T, tr *Tracer) {
			text := tr.global.TraceOptions()
			for word := range strings.FieldsSeq(text) {
				if err := tr.global.WriteTraceOptions([]byte(word)); err != nil && !strings.HasSuffix(word, "test_nop_refuse") {
					t.Fatalf("%q of its own text: %v", word, err)
				}
			}
			if got := tr.global.TraceOptions(); got != text {
				t.Fatalf("written back:\n%s\nwas\n%s", got, text)
			}
		})
}

func FuzzTrigger(f *testing.F) {
	fuzzWrites(f, []string{
		"traceoff", "traceon:3 if n > 2", "!traceoff", "stacktrace:0x10", "snapshot:1", "enable_event:kprobes:base:2", "disable_event:kprobes:base if s == \"a\"",
		"enable_hist:kprobes:base", "hist:keys=n", "!hist:keys=n", "dump", "traceoff:", "traceoff if", " \ttraceoff:1 if n&1\n",
	}, func(tr *Tracer, text string) error {
		return tr.global.findFile("kprobes", "base").WriteTrigger([]byte(text))
	}, func(t *testing.T, tr *Tracer) {
		file := tr.global.findFile("kprobes", "base")
		if _, err := file.Triggers(); err != nil {
			t.Fatal(err)
		}
		file.ClearTriggers() // those with hist
		for range 8 {
			lines, _ := file.Triggers()
			if len(lines) == 0 || strings.HasPrefix(lines[0], "#") {
				return
			}
			if err := file.WriteTrigger([]byte("!" + undo(lines[0], 0))); err != nil {
				t.Fatalf("removing %q: %v", lines[0], err)
			}
		}
		lines, _ := file.Triggers()
		t.Fatalf("left: %q", lines)
	})
}

// undo returns a command as it is written to remove it: without count and filter. at
// is the index of its name among the fields.
func undo(line string, at int) string {
	fields := strings.Split(strings.TrimSpace(line), ":")
	n := at + 1
	if len(fields) > n+1 && (strings.HasSuffix(fields[at], "_event") || strings.HasSuffix(fields[at], "_hist")) {
		n += 2
	}
	return strings.Join(fields[:min(n, len(fields))], ":")
}
