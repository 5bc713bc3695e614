package trigger_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracertest"
)

// TestTriggerCommands: lines with the results of Linux 6.1 (trigger.txtar).
func TestTriggerCommands(t *testing.T) {
	for _, c := range []struct {
		write string
		errno syscall.Errno
		list  string
	}{
		{"traceoff", 0, "traceoff:unlimited"},
		{" traceoff:3 ", 0, "traceoff:count=3"},
		{"traceoff:0x10", 0, "traceoff:count=16"},
		{"traceoff:", 0, "traceoff:unlimited"},
		{"traceoff:3:4", 0, "traceoff:count=3"},
		{"traceoff:-1", syscall.EINVAL, ""},
		{"traceoff:3x", syscall.EINVAL, ""},
		{"traceoff:99999999999999999999", syscall.ERANGE, ""},
		{"traceoff+1", syscall.EINVAL, ""},
		{"traceoff  if  n == 1 ", 0, "traceoff:unlimited if  n == 1"},
		{"traceoff:3  if n==1 && n>0", 0, "traceoff:count=3 if n==1 && n>0"},
		{"traceoff if", syscall.EINVAL, ""},
		{"traceoff n == 1", syscall.EINVAL, ""},
		{"traceoff if bogus==1", syscall.EINVAL, ""},
		{"!nosuch", syscall.EINVAL, ""},
		{"!", syscall.EINVAL, ""},
		{"!traceoff", 0, ""},
		{"enable_event:kprobes:b:3:4", 0, "enable_event:kprobes:b:count=3"},
		{"enable_event:kprobes:a", 0, "enable_event:kprobes:a:unlimited"},
		{"enable_event:kprobes", syscall.EINVAL, ""},
		{"enable_event:kprobes:", syscall.EINVAL, ""},
		{"enable_event:kprobes:nosuch", syscall.EINVAL, ""},
		{"enable_event", syscall.EINVAL, ""},
		{"disable_event:kprobes:b:3 if n == 1", 0, "disable_event:kprobes:b:count=3 if n == 1"},
	} {
		_, file := tracertest.TriggerFile(t)
		empty, _ := file.Triggers()
		available := empty[0]
		err := file.WriteTrigger([]byte(c.write))
		if c.errno == 0 && err != nil || c.errno != 0 && !errors.Is(err, c.errno) {
			t.Errorf("%q: %v, want %v", c.write, err, c.errno)
		}
		lines, _ := file.Triggers()
		got := strings.Join(lines, "")
		if want := c.list + "\n"; c.list == "" && got != available || c.list != "" && got != want {
			t.Errorf("%q: lists %q, want %q", c.write, got, want)
		}
	}
}

// TestTriggerSoftMode: an event with a trigger is armed without being recorded, and
// so is an event that a trigger may enable.
func TestTriggerSoftMode(t *testing.T) {
	tr, a := tracertest.TriggerFile(t)
	b := tracertest.File(tr, "kprobes", "b")
	write := func(f *tracing.EventFile, text string, want error) {
		t.Helper()
		if err := f.WriteTrigger([]byte(text)); !errors.Is(err, want) {
			t.Fatalf("%q: %v, want %v", text, err, want)
		}
	}
	show := func(want string) {
		t.Helper()
		x, _ := a.EnableText()
		y, _ := b.EnableText()
		if got := strings.ReplaceAll(x+y, "\n", " "); got != want {
			t.Fatalf("enable: %q, want %q", got, want)
		}
	}
	write(a, "enable_event:kprobes:b", nil)
	show("0* 0* ")
	write(a, "disable_event:kprobes:b", syscall.EEXIST)
	write(a, "traceoff", nil)
	write(a, "traceon", syscall.EEXIST)
	if err := a.Enable([]byte("1")); err != nil {
		t.Fatal(err)
	}
	show("1* 0* ")
	if _, err := tr.Definitions().WriteKprobeEvents([]byte("-:b")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removing an event that a trigger enables: %v", err)
	}
	if err := a.Enable([]byte("0")); err != nil {
		t.Fatal(err)
	}
	show("0* 0* ")
	write(a, "!traceon:7 if nonsense", nil)
	write(a, "!disable_event:kprobes:b", nil)
	show("0 0 ")
	if err := tr.Definitions().ReleaseKprobes(); err != nil {
		t.Error(err)
	}
}

// FuzzTrigger: a text for the file trigger is accepted or fails with an errno. All that is
// accepted can be removed by the line that shows it.
func FuzzTrigger(f *testing.F) {
	for _, s := range []string{
		"traceoff", "traceon:3 if n > 2", "!traceoff", "stacktrace:0x10", "snapshot:1", "enable_event:kprobes:b:2", "disable_event:kprobes:a if s == \"a\"",
		"enable_hist:kprobes:b", "hist:keys=n", "!hist:keys=n", "dump", "traceoff:", "traceoff if", " \ttraceoff:1 if n&1\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tr, file := tracertest.TriggerFile(t)
		var errno syscall.Errno
		if err := file.WriteTrigger([]byte(text)); err != nil && !errors.As(err, &errno) {
			t.Fatalf("an error without errno: %v", err)
		}
		file.ClearTriggers() // those with hist
		lines, err := file.Triggers()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(lines[0], "#") {
			if err := file.WriteTrigger([]byte("!" + undo(lines[0]))); err != nil {
				t.Fatalf("removing %q: %v", lines[0], err)
			}
		}
		if lines, _ = file.Triggers(); !strings.HasPrefix(lines[0], "#") {
			t.Fatalf("left: %q", lines)
		}
		if err := tr.Definitions().ReleaseAll(); err != nil {
			t.Error(err)
		}
	})
}

// undo returns a command as it is written to remove it: without count and filter.
func undo(line string) string {
	fields := strings.Split(strings.TrimSpace(line), ":")
	n := 1
	if len(fields) > 2 && (strings.HasSuffix(fields[0], "_event") || strings.HasSuffix(fields[0], "_hist")) {
		n = 3
	}
	return strings.Join(fields[:min(n, len(fields))], ":")
}
