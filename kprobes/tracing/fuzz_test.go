package tracing

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
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
		fake := tracingtest.New()
		sites := fakeFunctions{[]uint64{fake.Symbol("vfs_open"), fake.Symbol("vfs_read")}}
		tr := New(Config{Kprobes: fake, Symbols: fake, Sites: fake, Machine: fake, Unwinder: fake, Modules: fake, Files: fake, Host: fake, Memory: tracingtest.NewMemory(fake), Functions: sites})
		names := len(tr.namesInUse)
		if _, err := tr.definitions.WriteKprobeEvents([]byte("p:base vfs_read n=%di:u32 s=+0(%si):string\n")); err != nil {
			t.Fatal(err)
		}
		var errno syscall.Errno
		if err := write(tr, text); err != nil && !errors.As(err, &errno) {
			t.Fatalf("an error without errno: %v", err)
		}
		check(t, tr)
		if err := tr.definitions.ReleaseAll(); err != nil || len(fake.Probes) != 0 || len(tr.namesInUse) != names {
			t.Fatalf("%v, left: %d probes, names %v", err, len(fake.Probes), tr.namesInUse)
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
			e := tr.global.ftrace.EditFunctions(notrace, false)
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
			for _, l := range tr.global.ftrace.FunctionFilter(notrace) {
				if !strings.HasSuffix(l, "\n") {
					t.Fatalf("a line without an end: %q", l)
				}
			}
			tr.global.ftrace.EditFunctions(notrace, true).Close()
		}
		// Commands remain when the sets are cleared. Each can be removed by the line
		// that shows it.
		for range 64 {
			lines := tr.global.ftrace.FunctionFilter(false)
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
			e := tr.global.ftrace.EditFunctions(false, false)
			if _, err := e.Write([]byte(line + "\n")); err != nil {
				t.Fatalf("removing %q: %v", lines[i], err)
			}
			e.Close()
		}
	})
}

// pidText returns what a file of pids shows.
func pidText(a *Array, which PIDFile) string {
	line := a.PIDs(which).Lines()
	var b []byte
	for i, ok := 0, true; ok; i++ {
		b, ok = line(b, i)
	}
	return string(b)
}

func FuzzPIDs(f *testing.F) {
	fuzzWrites(f, []string{"1", "1 2 3\n", " 07 0x10\x005", "-1", "1073741824", "99999999999999999999", "1 x 2", "\x00", "2147483647"},
		func(tr *Tracer, text string) error {
			var errs []error
			for which := range PIDFile(len(tr.global.pids.lists)) {
				before := pidText(tr.global, which)
				n, err := tr.global.PIDs(which).Write([]byte(text))
				if n < 0 || n > len(text) {
					return errors.New("it consumed more than the whole text")
				}
				if err != nil && before != pidText(tr.global, which) {
					return errors.New("a refused write has changed the list")
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		}, func(t *testing.T, tr *Tracer) {
			for which := range PIDFile(len(tr.global.pids.lists)) {
				text := pidText(tr.global, which)
				tr.global.PIDs(which).Clear()
				if text != "no pid\n" {
					if _, err := tr.global.PIDs(which).Write([]byte(text)); err != nil {
						t.Fatalf("its own list %q: %v", text, err)
					}
				}
				if again := pidText(tr.global, which); again != text {
					t.Fatalf("%q written back is %q", text, again)
				}
				tr.global.PIDs(which).Clear()
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
