package tracing

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// TestEnableValues: values for the file enable, as recorded on Linux.
func TestEnableValues(t *testing.T) {
	tr, _ := newTestTracer(t)
	write(t, tr, "p:a vfs_read", "p:b vfs_write")
	e := tr.event("kprobes", "a")
	for _, c := range []struct {
		write string
		errno error
		want  string
	}{
		{"1", nil, "1"},
		{"0", nil, "0"},
		{"2", syscall.EINVAL, "0"},
		{"-1", syscall.EINVAL, "0"},
		{"x", syscall.EINVAL, "0"},
		{"", syscall.EINVAL, "0"},
		{" 1", syscall.EINVAL, "0"},
		{"1 ", syscall.EINVAL, "0"},
		{"01", nil, "1"},
		{"0x1", syscall.EINVAL, "1"},
		{"yes", syscall.EINVAL, "1"},
		{"on", syscall.EINVAL, "1"},
		{"Y", syscall.EINVAL, "1"},
		{"1\n", nil, "1"},
	} {
		err := e.Enable([]byte(c.write))
		if got, _ := e.EnableText(); !errors.Is(err, c.errno) || got != c.want+"\n" {
			t.Errorf("event %q: %v, shows %q, want %v, %q", c.write, err, got, c.errno, c.want)
		}
	}
	for _, c := range []struct {
		write string
		errno error
		want  string
	}{
		{"2", syscall.EINVAL, "X"}, {"1", nil, "1"}, {"x", syscall.EINVAL, "1"}, {"0", nil, "0"},
	} {
		err := tr.global.EnableSystem("kprobes", []byte(c.write))
		if got, _ := tr.global.SystemEnableText("kprobes"); !errors.Is(err, c.errno) || got != c.want+"\n" {
			t.Errorf("group %q: %v, shows %q, want %v, %q", c.write, err, got, c.errno, c.want)
		}
	}
}

func TestEnableAll(t *testing.T) {
	tr, f := newTestTracer(t)
	check := func(after, all string) {
		t.Helper()
		if got := tr.global.EnableAllText(); got != all+"\n" {
			t.Errorf("after %s: events/enable is %q, want %q", after, got, all)
		}
	}
	check("boot", "0")
	write(t, tr, "p:a vfs_read", "p:g/b vfs_write")
	check("definitions", "0")
	enable(t, tr, "kprobes", "a", "1")
	check("one enabled", "X")
	if err := tr.global.EnableAll([]byte("1")); err != nil {
		t.Fatal(err)
	}
	check("all enabled", "1")
	enable(t, tr, "g", "b", "0")
	check("one disabled", "X")
	if err := tr.global.EnableAll([]byte("0")); err != nil {
		t.Fatal(err)
	}
	check("all disabled", "0")
	for p, on := range f.Armed {
		if on {
			t.Errorf("%s is still armed", p.SymbolName)
		}
	}
}

// TestDisableWaits: disabling an event waits for running handlers.
func TestDisableWaits(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read")
	enable(t, tr, "kprobes", "a", "1")
	if len(f.Synced) != 0 {
		t.Error("enabling waits for handlers")
	}
	enable(t, tr, "kprobes", "a", "0")
	if len(f.Synced) != 1 || f.Synced[0] {
		t.Errorf("disabling waited with probes armed: %v", f.Synced)
	}
}

func TestEnableRefused(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read", "p:a vfs_write")
	f.Refuse = syscall.ENODEV
	e := tr.event("kprobes", "a")
	if err := e.Enable([]byte("1")); !errors.Is(err, syscall.ENODEV) || e.Enabled() {
		t.Errorf("enable: %v, enabled %v", err, e.Enabled())
	}
	if log := f.TakeLog(); len(log) != 1 || log[0] != "event trace: Could not enable event a" {
		t.Errorf("log %q", log)
	}
}

func TestJoinsEnabled(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read")
	enable(t, tr, "kprobes", "a", "1")
	write(t, tr, "p:a vfs_write")
	f.Hit(f.Symbol("vfs_write"), tracingtest.Entered(0, 1, tracingtest.NewTask(1, "init")))
	if len(traceLines(tr)) != 1 || !strings.Contains(traceText(tr), "a: (vfs_write+0x0/0x3f0)") {
		t.Errorf("a probe that joined an enabled event:\n%s", traceText(tr))
	}
}

// TestSetEvent: writes to set_event with the results of Linux.
func TestSetEvent(t *testing.T) {
	tr, _ := newTestTracer(t)
	write(t, tr, "p:a vfs_read", "p:b vfs_write", "r:g2/c vfs_open", "p:a vfs_open")
	if got := strings.Join(tr.global.AvailableEvents(), ""); got != "g2:c\nkprobes:b\nkprobes:a\n" {
		t.Errorf("available_events %q", got)
	}
	for _, c := range []struct {
		write    string
		errno    error
		set      string
		all, sys string
	}{
		{"kprobes\n", nil, "kprobes:b kprobes:a ", "X", "1"},
		{"!kprobes\n", nil, "", "0", "0"},
		{"kprobes:*\n", nil, "kprobes:b kprobes:a ", "X", "1"},
		{"kprobes:\n", nil, "kprobes:b kprobes:a ", "X", "1"},
		{"*:a\n", nil, "kprobes:b kprobes:a ", "X", "1"},
		{"a b\n", nil, "kprobes:b kprobes:a ", "X", "1"},
		{"!a\n", nil, "kprobes:b ", "X", "X"},
		{"nosuch\n", syscall.EINVAL, "kprobes:b ", "X", "X"},
		{"kprobes:nosuch\n", syscall.EINVAL, "kprobes:b ", "X", "X"},
		{" a\n", nil, "kprobes:b kprobes:a ", "X", "1"},
		{"a \n", nil, "kprobes:b kprobes:a ", "X", "1"},
		{"!:\n", nil, "", "0", "0"},
		{"\n", nil, "", "0", "0"},
		{"a\n", nil, "kprobes:a ", "X", "X"},
	} {
		_, err := tr.global.WriteSetEvent([]byte(c.write))
		set := strings.ReplaceAll(strings.Join(tr.global.SetEvents(), ""), "\n", " ")
		sys, _ := tr.global.SystemEnableText("kprobes")
		if !errors.Is(err, c.errno) || set != c.set || tr.global.EnableAllText() != c.all+"\n" || sys != c.sys+"\n" {
			t.Errorf("%q: %v, set_event %q, enable %q, kprobes/enable %q", c.write, err, set, tr.global.EnableAllText(), sys)
		}
	}
	tr.global.ClearSetEvent()
	if len(tr.global.SetEvents()) != 0 {
		t.Errorf("after clearing: %q", tr.global.SetEvents())
	}
}

// TestRemovalClearsTrace: as on Linux, deleting an event that was ever enabled clears
// the buffer.
func TestRemovalClearsTrace(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:b vfs_write", "p:never vfs_open")
	enable(t, tr, "kprobes", "b", "1")
	f.Hit(f.Symbol("vfs_write"), tracingtest.Entered(0, 1, tracingtest.NewTask(1, "init")))
	enable(t, tr, "kprobes", "b", "0")
	write(t, tr, "-:never")
	if got := traceText(tr); !strings.Contains(got, "b: (vfs_write") {
		t.Errorf("the entry went with another event:\n%s", got)
	}
	write(t, tr, "-:b")
	if got := traceText(tr); got != emptyTrace {
		t.Errorf("the entry stayed:\n%s", got)
	}
}

func TestGone(t *testing.T) {
	tr, _ := newTestTracer(t)
	write(t, tr, "p:a vfs_read")
	e := tr.event("kprobes", "a")
	write(t, tr, "-:a", "p:a vfs_read")
	if again := tr.event("kprobes", "a"); again.ID == e.ID || again.Gen == e.Gen {
		t.Errorf("ids %d and %d, generations %d and %d", e.ID, again.ID, e.Gen, again.Gen)
	}
	_, err1 := e.EnableText()
	_, err2 := e.Format()
	_, err3 := e.IDText()
	_, err4 := tr.global.SystemEnableText("nosuch")
	for _, err := range []error{err1, err2, err3, err4, e.Enable([]byte("1"))} {
		if !errors.Is(err, syscall.ENODEV) {
			t.Errorf("a deleted event: %v", err)
		}
	}
}

func TestHiddenNames(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:kprobes/enable vfs_read", "p:format vfs_read", "p:header_page/x vfs_read")
	want := []string{"Could not create tracefs 'enable' directory", "Failed to create system directory header_page"}
	if log := f.TakeLog(); strings.Join(log, "|") != strings.Join(want, "|") {
		t.Errorf("log %q, want %q", log, want)
	}
	if !tr.event("kprobes", "enable").Hidden || tr.event("kprobes", "format").Hidden || !tr.global.Subsystems()[2].Hidden {
		t.Error("the wrong ones are hidden")
	}
}

func TestEventTypesRunOut(t *testing.T) {
	tr, _ := newTestTracer(t)
	write(t, tr, "p:a vfs_read")
	tr.nextType = maxEventType
	write(t, tr, "p:b vfs_read", "p:c vfs_read")
	if b, c := tr.event("kprobes", "b").ID, tr.event("kprobes", "c").ID; b != maxEventType || c != tr.conf.firstEvent()+1 {
		t.Errorf("the last number and the one after it: %d, %d", b, c)
	}
}

func TestFormat(t *testing.T) {
	tr, _ := newTestTracer(t)
	write(t, tr, "p:myp kernel_clone", "r:myr kernel_clone")
	const common = `format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

`
	for name, want := range map[string]string{
		"myp": "name: myp\nID: 1338\n" + common +
			"\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: \"(%lx)\", REC->__probe_ip\n",
		"myr": "name: myr\nID: 1339\n" + common +
			"\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n" +
			"\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n\n" +
			"print fmt: \"(%lx <- %lx)\", REC->__probe_func, REC->__probe_ret_ip\n",
	} {
		if got, err := tr.event("kprobes", name).Format(); err != nil || got != want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

func TestHeaderFiles(t *testing.T) {
	tr, _ := newTestTracer(t)
	const page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n" +
		"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n" +
		"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n" +
		"\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n"
	if got := tr.Global().HeaderPage(); got != page {
		t.Errorf("header_page:\n%s", got)
	}
	const event = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n" +
		"\tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n"
	if got := ring.HeaderEvent(); got != event {
		t.Errorf("header_event:\n%s", got)
	}
}

// TestSubsystems: a list of events does not change with the events, and the next one has
// them as they came, in each array; an ID leads to its event as long as there is one.
func TestSubsystems(t *testing.T) {
	tr, _ := newTestTracer(t)
	if err := tr.MakeInstance("foo"); err != nil {
		t.Fatal(err)
	}
	arrays := []*Array{tr.global, tr.Instances()[0]}
	list := func(a *Array) (text string) {
		for _, s := range a.Subsystems() {
			if strings.HasPrefix(s.Name, "my") {
				text += " " + s.Name + ":"
				for _, f := range s.Events {
					text += f.Name
					if f.array != a {
						t.Errorf("%s of another array is listed", f.Name)
					}
				}
			}
		}
		return text
	}
	var earlier [][]Subsystem
	var was []string
	for _, step := range []struct{ line, want string }{
		{"p:my/a vfs_read", " my:a"},
		{"p:my/b vfs_read", " my:ab"},
		{"p:my2/c vfs_read", " my:ab my2:c"},
		{"p:my/d vfs_read", " my:abd my2:c"},
		{"-:my/b", " my:ad my2:c"},
		{"p:my/e vfs_read", " my:ade my2:c"},
		{"-:my2/c", " my:ade"},
		{"-:my/a", " my:de"},
		{"p:my2/f vfs_read", " my:de my2:f"},
		{"-:my/e", " my:d my2:f"},
		{"-:my/d", " my2:f"},
		{"p:my/g vfs_read", " my2:f my:g"},
	} {
		write(t, tr, step.line)
		for _, a := range arrays {
			if got := list(a); got != step.want {
				t.Errorf("after %q:%s, want%s", step.line, got, step.want)
			}
		}
		earlier = append(earlier, tr.global.Subsystems())
		was = append(was, step.want)
	}
	for i, systems := range earlier {
		tr.global.systems.Store(&systems)
		if got := list(tr.global); got != was[i] {
			t.Errorf("list %d has become%s, was%s", i, got, was[i])
		}
	}
	f, g := tr.event("my2", "f"), tr.event("my", "g")
	if f == nil || g == nil || tr.events.get(f.ID) != f.Event || tr.events.get(g.ID) != g.Event {
		t.Errorf("the IDs do not lead to their events")
	}
	n, id := len(tr.global.files), f.ID
	write(t, tr, "-:my2/f")
	if tr.events.get(id) != nil || len(tr.global.files) != n-1 {
		t.Errorf("ID %d leads to an event that is gone; %d events, want %d", id, len(tr.global.files), n-1)
	}
}

// BenchmarkDefine creates and removes an event, among 5,000 others.
func BenchmarkDefine(b *testing.B) {
	tr, _ := newTestTracer(b)
	for i := range 5000 {
		write(b, tr, fmt.Sprintf("p:e%d vfs_read", i))
	}
	for b.Loop() {
		write(b, tr, "p:one_more vfs_read", "-:one_more")
	}
}
