package tracing

import (
	"bufio"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
)

var errnos = map[string]error{
	"ok": nil, "EINVAL": syscall.EINVAL, "ENOENT": syscall.ENOENT, "EILSEQ": syscall.EILSEQ,
	"EADDRNOTAVAIL": syscall.EADDRNOTAVAIL, "EEXIST": syscall.EEXIST, "EBUSY": syscall.EBUSY,
}

var errorStamp = regexp.MustCompile(`^\[ *\d+\.\d{6}\] `)

// errorText returns the text, the command and the caret's column of an entry of
// error_log.
func errorText(t *testing.T, entry string) (text, command string, column int) {
	t.Helper()
	lines := strings.Split(errorStamp.ReplaceAllString(entry, ""), "\n")
	if len(lines) != 4 {
		t.Fatalf("error_log entry of %d lines: %q", len(lines), entry)
	}
	text, ok := strings.CutPrefix(lines[0], "trace_kprobe: error: ")
	command, ok2 := strings.CutPrefix(lines[1], "  Command: ")
	if !ok || !ok2 || strings.Trim(lines[2], " ") != "^" {
		t.Fatalf("error_log entry: %q", entry)
	}
	return text, command, len(lines[2]) - 1 - len("  Command: ")
}

func TestDefinitions(t *testing.T) {
	file, err := os.Open("testdata/definitions.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		row := strings.Split(s.Text(), "\t")
		if strings.HasPrefix(s.Text(), "# ") {
			continue
		}
		line := strings.ReplaceAll(row[0], `\t`, "\t")
		t.Run(row[0], func(t *testing.T) {
			tr, f := newTestTracer(t)
			testDefinition(t, tr, line, row[1:])
			if row[5] != "" && !slices.Contains(f.takeLog(), row[5]) {
				t.Errorf("the log lacks %q", row[5])
			}
		})
	}
}

func testDefinition(t *testing.T, tr *Tracer, line string, want []string) {
	n, err := tr.WriteKprobeEvents([]byte(line))
	if !errors.Is(err, errnos[want[0]]) || err == nil && n != len(line) {
		t.Fatalf("write: %d, %v, want %s", n, err, want[0])
	}
	if got := strings.TrimSuffix(listing(tr), "\n"); want[1] != "*" && got != want[1] {
		t.Errorf("listing %q, want %q", got, want[1])
	}
	log := tr.global.ErrorLog()
	if want[2] == "" {
		if len(log) != 0 {
			t.Errorf("error_log %q, want none", log)
		}
		return
	}
	if len(log) != 1 {
		t.Fatalf("error_log %q, want one entry", log)
	}
	text, command, column := errorText(t, log[0])
	if strconv.Itoa(column) != want[3] || text != want[2] || command != strings.Join(kstrtox.ArgvSplit(line), " ") {
		t.Errorf("error %q at %d of %q, want %q at %s", text, column, command, want[2], want[3])
	}
}

// TestJoin: duplicates and several probes of an event, as recorded on Linux.
func TestJoin(t *testing.T) {
	tr, _ := newTestTracer(t)
	for _, c := range []struct {
		line, errno, text string
		column            int
	}{
		{"p:a vfs_read", "ok", "", 0},
		{"p:a vfs_read", "EEXIST", "There is already the exact same probe event", 0},
		{"p:a vfs_write", "ok", "", 0},
		{"r:a vfs_open", "EEXIST", "Probe type is different from existing probe", 0},
		{"p:g2/a vfs_read", "ok", "", 0},
		{"p:x 0xffffffff81363790", "ok", "", 0},
		{"p:x 0xffffffff81363795", "EEXIST", "There is already the exact same probe event", 0},
	} {
		tr.global.ClearErrorLog()
		_, err := tr.WriteKprobeEvents([]byte(c.line))
		if !errors.Is(err, errnos[c.errno]) {
			t.Errorf("%s: %v, want %s", c.line, err, c.errno)
		}
		log := tr.global.ErrorLog()
		if (c.text == "") != (len(log) == 0) {
			t.Fatalf("%s: error_log %q", c.line, log)
		}
		if c.text == "" {
			continue
		}
		if text, _, column := errorText(t, log[0]); text != c.text || column != c.column {
			t.Errorf("%s: %q at %d, want %q at %d", c.line, text, column, c.text, c.column)
		}
	}
	want := "p:kprobes/a vfs_read\np:kprobes/a vfs_write\np:g2/a vfs_read\np:kprobes/x 0x(____ptrval____)\n"
	if got := listing(tr); got != want {
		t.Errorf("listing %q, want %q", got, want)
	}
}

// TestRelease: forms of deletion, as recorded on Linux.
func TestRelease(t *testing.T) {
	const a, g2a, b = "p:kprobes/a vfs_read;", "p:g2/a vfs_write;", "r10:kprobes/b vfs_read;"
	for _, c := range []struct{ line, kprobe, dynamic, left, leftDynamic string }{
		{"-:a", "ok", "ok", b, b},
		{"-:kprobes/a", "ok", "ok", g2a + b, g2a + b},
		{"-:g2/a", "ok", "ok", a + b, a + b},
		{"-:g2/", "ok", "ok", a + b, a + b},
		{"-a", "EINVAL", "EINVAL", a + g2a + b, a + g2a + b},
		{"- a", "EINVAL", "EINVAL", a + g2a + b, a + g2a + b},
		{"-:", "EINVAL", "EINVAL", a + g2a + b, a + g2a + b},
		{"-", "EINVAL", "EINVAL", a + g2a + b, a + g2a + b},
		{"-10:kprobes/b", "EINVAL", "EINVAL", a + g2a + b, a + g2a + b},
		{"-:*", "ENOENT", "ENOENT", a + g2a + b, a + g2a + b},
		{"-:a vfs_read", "ok", "ok", g2a + b, g2a + b},
		{"-:a vfs_write", "ok", "ok", a + b, a + b},
		{"-:b vfs_read", "ok", "ok", a + g2a, a + g2a},
		{"-:b vfs_read $retval", "ENOENT", "ENOENT", a + g2a + b, a + g2a + b},
		{"!p:a vfs_read", "EINVAL", "ok", a + g2a + b, g2a + b},
		{"!p:a", "EINVAL", "ok", a + g2a + b, b},
		{"!r:b vfs_read", "EINVAL", "ok", a + g2a + b, a + g2a},
		{"!a", "EINVAL", "EINVAL", a + g2a + b, a + g2a + b},
		{"!", "EINVAL", "EINVAL", a + g2a + b, a + g2a + b},
		{"-:nosuch", "ENOENT", "ENOENT", a + g2a + b, a + g2a + b},
		{"-:a extra args", "ENOENT", "ENOENT", a + g2a + b, a + g2a + b},
		{"-:g2.a", "ENOENT", "ENOENT", a + g2a + b, a + g2a + b},
		{"-:c/a", "ENOENT", "ENOENT", a + g2a + b, a + g2a + b},
	} {
		for dynamic, want := range map[bool][2]string{false: {c.kprobe, c.left}, true: {c.dynamic, c.leftDynamic}} {
			tr, f := newTestTracer(t)
			write(t, tr, "p:a vfs_read", "p:g2/a vfs_write", "r:b vfs_read")
			run := tr.WriteKprobeEvents
			if dynamic {
				run = tr.WriteDynamicEvents
			}
			if _, err := run([]byte(c.line)); !errors.Is(err, errnos[want[0]]) {
				t.Errorf("%q (dynamic_events %v): %v, want %s", c.line, dynamic, err, want[0])
			}
			got := strings.ReplaceAll(listing(tr), "\n", ";")
			if got != want[1] || strings.Count(got, ";") != len(f.probes) {
				t.Errorf("%q (dynamic_events %v): left %q (%d probes), want %q", c.line, dynamic, got, len(f.probes), want[1])
			}
			if len(tr.global.ErrorLog()) != 0 {
				t.Errorf("%q: error_log %q", c.line, tr.global.ErrorLog())
			}
		}
	}
}

func TestBusy(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read", "p:a vfs_write", "p:b vfs_open")
	if err := tr.event("kprobes", "a").Enable([]byte("1\n")); err != nil {
		t.Fatal(err)
	}
	if err := tr.ReleaseKprobes(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("clear while enabled: %v", err)
	}
	if len(all(tr.KprobeEvent)) != 3 {
		t.Errorf("a refused clear left %q", listing(tr))
	}
	// A probe may be deleted if others of its event remain.
	write(t, tr, "-:a vfs_read")
	if _, err := tr.WriteKprobeEvents([]byte("-:a")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("delete while enabled: %v", err)
	}
	if err := tr.event("kprobes", "a").Enable([]byte("0")); err != nil {
		t.Fatal(err)
	}
	if err := tr.ReleaseKprobes(); err != nil || listing(tr) != "" || len(f.probes) != 0 || len(tr.global.Subsystems()) != 1 {
		t.Errorf("clear: %v, left %q, %d probes", err, listing(tr), len(f.probes))
	}
}

// TestWrites: writes of several lines and of parts of lines, as recorded on Linux.
func TestWrites(t *testing.T) {
	long := strings.Repeat("#", 4091)
	for _, c := range []struct {
		name, data, errno string
		n                 int
		left              string
	}{
		{"two lines", "p:a vfs_read\np:b vfs_write\n", "ok", 27, "p:kprobes/a vfs_read\np:kprobes/b vfs_write\n"},
		{"no newline", "p:a vfs_read\np:b vfs_write", "ok", 26, "p:kprobes/a vfs_read\np:kprobes/b vfs_write\n"},
		{"second line bad", "p:a vfs_read\nq\np:b vfs_write\n", "EINVAL", 0, "p:kprobes/a vfs_read\n"},
		{"comments and blanks", "# a comment\n\n  \np:a vfs_read # x\n", "ok", 33, "p:kprobes/a vfs_read\n"},
		{"carriage return", "p:a vfs_read\r\n", "ok", 14, "p:kprobes/a vfs_read\n"},
		{"long line", "p:a vfs_read " + strings.Repeat("#", 5000) + "\n", "EINVAL", 0, ""},
		{"longest line", "p:a vfs_read " + strings.Repeat("#", 4081) + "\n" + "p:b vfs_write\n", "ok", 4109, "p:kprobes/a vfs_read\np:kprobes/b vfs_write\n"},
		{"line across pieces", long + "\np:a vfs_read\n", "ok", 4105, "p:kprobes/a vfs_read\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, f := newTestTracer(t)
			n, err := tr.WriteKprobeEvents([]byte(c.data))
			if !errors.Is(err, errnos[c.errno]) || n != c.n {
				t.Errorf("write: %d, %v, want %d, %s", n, err, c.n, c.errno)
			}
			if listing(tr) != c.left {
				t.Errorf("left %q, want %q", listing(tr), c.left)
			}
			said := slices.Contains(f.takeLog(), "Line length is too long: Should be less than 4094")
			if said != (c.name == "long line") {
				t.Errorf("the log speaks of the line's length: %v", said)
			}
		})
	}
}

func TestModuleProbe(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:m late:mod_func", "r:n late:mod_func", "p:o vfs_read")
	if got := listing(tr); got != "p:kprobes/m late:mod_func\nr:kprobes/n late:mod_func\np:kprobes/o vfs_read\n" {
		t.Errorf("while the module is not loaded: %q", got)
	}
	if err := tr.event("kprobes", "m").Enable([]byte("1")); err != nil {
		t.Fatalf("enable while the module is not loaded: %v", err)
	}
	f.loadModule("late")
	tr.ModuleComing("late")
	addr := f.symbol("late:mod_func")
	f.hit(addr, entered(0, 0, newFakeTask(1, "init")))
	if got := all(tr.KprobeProfile)[0]; !strings.HasSuffix(got, "1               0\n") {
		t.Errorf("profile after a hit in the module: %q", got)
	}
	if _, err := tr.WriteKprobeEvents([]byte("p:q late:nosuch")); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a function that the module does not have: %v", err)
	}
	if got := listing(tr); !strings.Contains(got, "r10:kprobes/n late:mod_func\n") {
		t.Errorf("maxactive once registered: %q", got)
	}
}

func TestSuffixedNotrace(t *testing.T) {
	tr, _ := newTestTracer(t)
	// cold.part.1 has no fentry site, but cold has one, so it is not refused as
	// notrace.
	if tr.withinNotrace(&traceKprobe{place: place{symbol: "cold.part.1"}}) {
		t.Error("cold.part.1 counts as notrace though cold is not")
	}
	if !tr.withinNotrace(&traceKprobe{place: place{symbol: "memcpy"}}) {
		t.Error("memcpy does not count as notrace")
	}
}

func TestHashedAddress(t *testing.T) {
	tr, _ := newTestTracer(t)
	tr.conf.HashPtr = func(addr uint64) uint32 { return uint32(addr * 0x9e3779b97f4a7c15 >> 32) }
	write(t, tr, "p 0xffffffff81363790", "p 0xffffffff81363795")
	lines := all(tr.KprobeEvent)
	form := regexp.MustCompile(`^p:kprobes/p_(0x0{8}[0-9a-f]{8}) (0x0{8}[0-9a-f]{8})\n$`)
	for _, line := range lines {
		if m := form.FindStringSubmatch(line); m == nil || m[1] != m[2] {
			t.Errorf("a probe by address is listed as %q", line)
		}
	}
	if lines[0] == lines[1] {
		t.Errorf("two addresses have one hash: %q", lines[0])
	}
}

func TestErrorLogKeepsEight(t *testing.T) {
	tr, f := newTestTracer(t)
	f.now.Store(3582827 * 1000)
	for i := 1; i <= 10; i++ {
		_, _ = tr.WriteKprobeEvents([]byte("p bad" + strconv.Itoa(i)))
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

func FuzzDefinition(f *testing.F) {
	for _, s := range []string{"p vfs_read", "r10:g/e vfs_read%return", "-:g/", "!p:x vfs_open", "p:a 0x1\n#\n-:a", "p1 :\x00", "p:a+1 vfs_read+0x5 $"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tr, fake := newTestTracer(t)
		n, err := tr.WriteKprobeEvents([]byte(s))
		if err == nil && n != len(s) {
			t.Fatalf("took %d of %d bytes", n, len(s))
		}
		var errno syscall.Errno
		if err != nil && !errors.As(err, &errno) {
			t.Fatalf("an error without errno: %v", err)
		}
		_, _ = tr.WriteDynamicEvents([]byte(s))
		checkConsistent(t, tr, fake)
	})
}

// checkConsistent checks that all events can be deleted by the names in the list, and
// that nothing is left then.
func checkConsistent(t *testing.T, tr *Tracer, fake *fakeKernel) {
	for _, line := range all(tr.KprobeEvent) {
		head, _, _ := strings.Cut(line, " ")
		_, name, _ := strings.Cut(head, ":")
		_, err := tr.WriteKprobeEvents([]byte("-:" + name))
		if err != nil && !errors.Is(err, syscall.ENOENT) || strings.Contains(listing(tr), ":"+name+" ") {
			t.Fatalf("deleting %q: %v", name, err)
		}
	}
	if listing(tr) != "" || len(fake.probes) != 0 || len(tr.global.Subsystems()) != 1 {
		t.Fatalf("left: %q, %d probes", listing(tr), len(fake.probes))
	}
}
