package dynevent

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

var errnos = map[string]error{
	"ok": nil, "EINVAL": syscall.EINVAL, "ENOENT": syscall.ENOENT, "EILSEQ": syscall.EILSEQ,
	"EADDRNOTAVAIL": syscall.EADDRNOTAVAIL, "EEXIST": syscall.EEXIST, "EBUSY": syscall.EBUSY,
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
			r, o := newTestRegistry(t)
			testDefinition(t, r, o, line, row[1:])
			if row[5] != "" && !slices.Contains(o.kernel.TakeLog(), row[5]) {
				t.Errorf("the log lacks %q", row[5])
			}
		})
	}
}

// hashed is an address in a listing, which the recording has as (____ptrval____): each boot has other hashes.
var hashed = regexp.MustCompile("0x0{8}[0-9a-f]{8}")

func testDefinition(t *testing.T, r *Registry, o *fakeOwner, line string, want []string) {
	n, err := r.WriteKprobeEvents([]byte(line))
	if !errors.Is(err, errnos[want[0]]) || err == nil && n != len(line) {
		t.Fatalf("write: %d, %v, want %s", n, err, want[0])
	}
	got := hashed.ReplaceAllString(strings.TrimSuffix(listing(r), "\n"), "0x(____ptrval____)")
	if want[1] != "*" && got != want[1] {
		t.Errorf("listing %q, want %q", got, want[1])
	}
	if want[2] == "" {
		if len(o.errors) != 0 {
			t.Errorf("error_log %+v, want none", o.errors)
		}
		return
	}
	e := o.logged(t)
	if strconv.Itoa(e.column) != want[3] || e.text != want[2] || e.command != strings.Join(kstrtox.ArgvSplit(line), " ") {
		t.Errorf("error %q at %d of %q, want %q at %s", e.text, e.column, e.command, want[2], want[3])
	}
}

// TestJoin: duplicates and several probes of an event, as recorded on Linux.
func TestJoin(t *testing.T) {
	r, o := newTestRegistry(t)
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
		o.errors = nil
		_, err := r.WriteKprobeEvents([]byte(c.line))
		if !errors.Is(err, errnos[c.errno]) {
			t.Errorf("%s: %v, want %s", c.line, err, c.errno)
		}
		if (c.text == "") != (len(o.errors) == 0) {
			t.Fatalf("%s: error_log %+v", c.line, o.errors)
		}
		if c.text == "" {
			continue
		}
		if e := o.logged(t); e.text != c.text || e.column != c.column {
			t.Errorf("%s: %q at %d, want %q at %d", c.line, e.text, e.column, c.text, c.column)
		}
	}
	want := fmt.Sprintf("p:kprobes/a vfs_read\np:kprobes/a vfs_write\np:g2/a vfs_read\np:kprobes/x 0x%016x\n", o.kernel.HashPtr(0xffffffff81363790))
	if got := listing(r); got != want {
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
			r, o := newTestRegistry(t)
			write(t, r, "p:a vfs_read", "p:g2/a vfs_write", "r:b vfs_read")
			run := r.WriteKprobeEvents
			if dynamic {
				run = r.WriteDynamicEvents
			}
			if _, err := run([]byte(c.line)); !errors.Is(err, errnos[want[0]]) {
				t.Errorf("%q (dynamic_events %v): %v, want %s", c.line, dynamic, err, want[0])
			}
			got := strings.ReplaceAll(listing(r), "\n", ";")
			if got != want[1] || strings.Count(got, ";") != len(o.kernel.Probes) {
				t.Errorf("%q (dynamic_events %v): left %q (%d probes), want %q", c.line, dynamic, got, len(o.kernel.Probes), want[1])
			}
			if len(o.errors) != 0 {
				t.Errorf("%q: error_log %+v", c.line, o.errors)
			}
		}
	}
}

func TestBusy(t *testing.T) {
	r, o := newTestRegistry(t)
	write(t, r, "p:a vfs_read", "p:a vfs_write", "p:b vfs_open")
	o.event(t, "kprobes", "a").enable(t, true)
	if err := r.ReleaseKprobes(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("clear while enabled: %v", err)
	}
	if len(tracingtest.Lines(r.KprobeEvent)) != 3 {
		t.Errorf("a refused clear left %q", listing(r))
	}
	// A probe may be deleted if others of its event remain.
	write(t, r, "-:a vfs_read")
	if _, err := r.WriteKprobeEvents([]byte("-:a")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("delete while enabled: %v", err)
	}
	o.event(t, "kprobes", "a").enable(t, false)
	if err := r.ReleaseKprobes(); err != nil || listing(r) != "" || len(o.kernel.Probes) != 0 || len(o.events) != 0 {
		t.Errorf("clear: %v, left %q, %d probes", err, listing(r), len(o.kernel.Probes))
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
			r, o := newTestRegistry(t)
			n, err := r.WriteKprobeEvents([]byte(c.data))
			if !errors.Is(err, errnos[c.errno]) || n != c.n {
				t.Errorf("write: %d, %v, want %d, %s", n, err, c.n, c.errno)
			}
			if listing(r) != c.left {
				t.Errorf("left %q, want %q", listing(r), c.left)
			}
			said := slices.Contains(o.kernel.TakeLog(), "Line length is too long: Should be less than 4094")
			if said != (c.name == "long line") {
				t.Errorf("the log speaks of the line's length: %v", said)
			}
		})
	}
}

func TestModuleProbe(t *testing.T) {
	r, o := newTestRegistry(t)
	write(t, r, "p:m late:mod_func", "r:n late:mod_func", "p:o vfs_read")
	if got := listing(r); got != "p:kprobes/m late:mod_func\nr:kprobes/n late:mod_func\np:kprobes/o vfs_read\n" {
		t.Errorf("while the module is not loaded: %q", got)
	}
	o.event(t, "kprobes", "m").enable(t, true)
	f := o.kernel
	f.LoadModule("late")
	r.ModuleComing("late")
	addr := f.Symbol("late:mod_func")
	f.Hit(addr, tracingtest.Entered(0, 0, tracingtest.NewTask(1, "init")))
	if got := tracingtest.Lines(r.KprobeProfile)[0]; !strings.HasSuffix(got, "1               0\n") {
		t.Errorf("profile after a hit in the module: %q", got)
	}
	if _, err := r.WriteKprobeEvents([]byte("p:q late:nosuch")); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a function that the module does not have: %v", err)
	}
	if got := listing(r); !strings.Contains(got, "r10:kprobes/n late:mod_func\n") {
		t.Errorf("maxactive once registered: %q", got)
	}
}

func TestSuffixedNotrace(t *testing.T) {
	r, _ := newTestRegistry(t)
	// cold.part.1 has no fentry site, but cold has one, so it is not refused as
	// notrace.
	if r.withinNotrace(&traceKprobe{place: place{symbol: "cold.part.1"}}) {
		t.Error("cold.part.1 counts as notrace though cold is not")
	}
	if !r.withinNotrace(&traceKprobe{place: place{symbol: "memcpy"}}) {
		t.Error("memcpy does not count as notrace")
	}
}

func TestHashedAddress(t *testing.T) {
	r, _ := newTestRegistry(t)
	write(t, r, "p 0xffffffff81363790", "p 0xffffffff81363795")
	lines := tracingtest.Lines(r.KprobeEvent)
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

func FuzzDefinition(f *testing.F) {
	for _, s := range []string{"p vfs_read", "r10:g/e vfs_read%return", "-:g/", "!p:x vfs_open", "p:a 0x1\n#\n-:a", "p1 :\x00", "p:a+1 vfs_read+0x5 $"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, o := newTestRegistry(t)
		n, err := r.WriteKprobeEvents([]byte(s))
		if err == nil && n != len(s) {
			t.Fatalf("took %d of %d bytes", n, len(s))
		}
		var errno syscall.Errno
		if err != nil && !errors.As(err, &errno) {
			t.Fatalf("an error without errno: %v", err)
		}
		_, _ = r.WriteDynamicEvents([]byte(s))
		checkConsistent(t, r, o)
	})
}

// checkConsistent checks that all events can be deleted by the names in the list, and
// that nothing is left then.
func checkConsistent(t *testing.T, r *Registry, o *fakeOwner) {
	for _, line := range tracingtest.Lines(r.KprobeEvent) {
		head, _, _ := strings.Cut(line, " ")
		_, name, _ := strings.Cut(head, ":")
		_, err := r.WriteKprobeEvents([]byte("-:" + name))
		if err != nil && !errors.Is(err, syscall.ENOENT) || strings.Contains(listing(r), ":"+name+" ") {
			t.Fatalf("deleting %q: %v", name, err)
		}
	}
	if listing(r) != "" || len(o.kernel.Probes) != 0 || len(o.events) != 0 {
		t.Fatalf("left: %q, %d probes", listing(r), len(o.kernel.Probes))
	}
}
