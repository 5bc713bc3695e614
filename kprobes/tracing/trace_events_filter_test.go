package tracing

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

func TestFilterTexts(t *testing.T) {
	file, err := os.Open("testdata/filters.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	errno := map[string]error{"ok": nil, "EINVAL": syscall.EINVAL, "EPERM": syscall.EPERM, "ENOENT": syscall.ENOENT, "ESRCH": syscall.ESRCH}
	for s := bufio.NewScanner(file); s.Scan(); {
		if strings.HasPrefix(s.Text(), "# ") {
			continue
		}
		row := strings.Split(s.Text(), "\t")
		t.Run(row[0], func(t *testing.T) {
			tr, _ := newTestTracer(t)
			write(t, tr, "p:o vfs_open")
			e := tr.event("kprobes", "o")
			if err := e.SetFilter([]byte(row[0])); !errors.Is(err, errno[row[1]]) {
				t.Errorf("write: %v, want %s", err, row[1])
			}
			want := strings.ReplaceAll(row[2], `\n`, "\n")
			if got, _ := e.FilterText(); got != want {
				t.Errorf("shows\n%swant\n%s", got, want)
			}
			if (len(tr.global.ErrorLog()) != 0) != (row[1] != "ok") {
				t.Errorf("error_log %q", tr.global.ErrorLog())
			}
			if err := e.SetFilter([]byte("0\n")); err != nil {
				t.Errorf("removing it: %v", err)
			}
			if got, _ := e.FilterText(); got != "none\n" {
				t.Errorf("after removing it: %q", got)
			}
		})
	}
}

// TestFilterErrorLog: the columns are those that Linux printed.
func TestFilterErrorLog(t *testing.T) {
	for text, want := range map[string]string{
		"bogus == 1":    "event filter parse error: error: Field not found\n  Command: bogus == 1\n                 ^\n",
		"common_pid":    "event filter parse error: error: Invalid operator\n  Command: common_pid\n                      ^\n",
		"common_pid ==": "event filter parse error: error: Invalid value (did you forget quotes)?\n  Command: common_pid ==\n                         ^\n",
		"":              "event filter parse error: error: Error\n  Command: \n           ^\n",
		"none":          "event filter parse error: error: Field not found\n  Command: none\n                ^\n",
	} {
		tr, _ := newTestTracer(t)
		write(t, tr, "p:o vfs_open")
		_ = tr.event("kprobes", "o").SetFilter([]byte(text))
		if got := errorStamp.ReplaceAllString(strings.Join(tr.global.ErrorLog(), ""), ""); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestFilterHits: the first rows were recorded on Linux.
func TestFilterHits(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:o vfs_open")
	enable(t, tr, "kprobes", "o", "1")
	e := tr.event("kprobes", "o")
	for filter, want := range map[string]bool{
		`COMM == "cat"`: true, `COMM != "cat"`: false, `comm ~ "c*"`: true, `comm ~ "*a*"`: true, `comm ~ "*t"`: false,
		`comm ~ "c?t"`: true, `comm ~ "[a-d]at"`: true, `common_pid > 0`: true, `common_pid < 0`: false, `__probe_ip == 0`: false,
		`!(COMM == "cat")`: false, `COMM == "cat" && CPU >= 0 || common_pid == 0`: true,
		`common_pid == 4294967339`: true, `common_pid == -1`: false, `CPU == 1`: true, `cpu < 1`: false, `common_cpu & 1`: true,
		`common_type == 1338`: true, `common_type == 66874`: true, `common_flags & 1`: false, `common_preempt_count == 0`: true,
		`__probe_ip == 0xffffffff81360af0`: true, `__probe_ip >= 18446744073709551615`: false, `__probe_ip & 0xf`: false,
		`CPU == 0 || CPU == 1 && COMM == "x"`: false, `(CPU == 0 || CPU == 1) && COMM == "cat"`: true,
		`CPU == 0 && CPU == 0 || COMM == "cat"`: true, `!CPU == 0 && !COMM == "x"`: true, `!!CPU == 1`: true, `!(CPU == 1 || CPU == 0)`: false,
		`comm ~ "!c*"`: false, `comm ~ "cat"`: true, `comm == "ca"`: false, `comm ~ "*[b-z]*"`: true, `comm ~ "[!c]*t"`: false, `comm ~ "c\at"`: true,
	} {
		if err := e.SetFilter([]byte(filter)); err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		tr.global.ClearTrace(-1)
		f.Hit(f.Symbol("vfs_open"), tracingtest.Entered(1, 1, tracingtest.NewTask(43, "cat")))
		if got := strings.Contains(traceText(tr), " o: ("); got != want {
			t.Errorf("%s: recorded %v", filter, got)
		}
		if got := tr.global.buffer.Stats(1).Entries == 1; got != want {
			t.Errorf("%s: counted %v", filter, got)
		}
	}
	// A refused filter passes everything.
	_ = e.SetFilter([]byte("bogus == 1"))
	tr.global.ClearTrace(-1)
	f.Hit(f.Symbol("vfs_open"), tracingtest.Entered(1, 1, tracingtest.NewTask(43, "cat")))
	if !strings.Contains(traceText(tr), " o: (") {
		t.Error("a refused filter filters")
	}
}

func TestSystemFilter(t *testing.T) {
	tr, _ := newTestTracer(t)
	write(t, tr, "p:o vfs_open", "r:r vfs_read")
	const bad = "\n^\nparse_error: Couldn't find or set field in one of a subsystem's events\n\n"
	for _, c := range []struct{ write, o, r string }{
		{"common_pid == 1", "common_pid == 1\n", "common_pid == 1\n"},
		{"__probe_ip == 0", "__probe_ip == 0\n", "__probe_ip == 0" + bad},
		{"bogus == 1", "bogus == 1" + bad, "bogus == 1" + bad},
		{"0", "none\n", "none\n"},
		{"__probe_func == 1", "__probe_func == 1" + bad, "__probe_func == 1\n"},
	} {
		if err := tr.global.SetSystemFilter("kprobes", []byte(c.write)); err != nil {
			t.Errorf("%q: %v", c.write, err)
		}
		o, _ := tr.event("kprobes", "o").FilterText()
		r, _ := tr.event("kprobes", "r").FilterText()
		if all, _ := tr.global.SystemFilterText("kprobes"); o != c.o || r != c.r || all != systemFilterText {
			t.Errorf("%q: o %q, r %q, the group's %q", c.write, o, r, all)
		}
	}
	if err := tr.global.SetSystemFilter("nosuch", []byte("0")); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("no such group: %v", err)
	}
	if err := tr.global.SetSystemFilter("kprobes", make([]byte, 4096)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a page: %v", err)
	}
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{`COMM == "cat" && (CPU == 0 || !common_pid < -5)`, "((((", `comm ~ "[!a-"`, "0", "! =", "a && || b"} {
		f.Add(s)
	}
	tr, _ := newTestTracer(f)
	write(f, tr, "p:o vfs_open")
	e := tr.event("kprobes", "o")
	f.Fuzz(func(t *testing.T, s string) {
		err := e.SetFilter([]byte(s))
		var errno syscall.Errno
		if err != nil && !errors.As(err, &errno) {
			t.Fatalf("an error without errno: %v", err)
		}
		if parsed := e.filter.Load(); parsed != nil {
			parsed.Passes(&filter.Subject{Entry: make([]byte, 16), Comm: &[abi.TaskCommLen]byte{'c', 'a', 't'}})
		}
	})
}
