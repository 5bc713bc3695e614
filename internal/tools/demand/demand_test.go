package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// minimum is the part of the demand that must be here, in percent of the weight.
const minimum = 80

// A row must say what is so: one that is not here any more, and one that is here by now.
func TestTable(t *testing.T) {
	rows, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	now := slices.Clone(rows)
	if err := lookHere(now); err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		if r.Here != now[i].Here {
			t.Errorf("%s %s: the table says that it is here: %v (make demand-page writes it anew)", r.Kind, r.Text, r.Here)
		}
	}
	if !reflect.DeepEqual(rows, sorted(slices.Clone(rows))) {
		t.Error("the table is not sorted")
	}
	here, all := Coverage(now)
	t.Logf("%d of a weight of %d is here: %.1f %%", here, all, 100*float64(here)/float64(all))
	if 100*here < minimum*all {
		t.Errorf("less than %d %% of the demand is here: %d of %d", minimum, here, all)
	}
}

// Each name that is not here has a reason, and a reason ends with the last name that needs it.
func TestReasons(t *testing.T) {
	rows, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := Reasons()
	if err != nil {
		t.Fatal(err)
	}
	used := make([]bool, len(reasons))
	for _, r := range rows {
		if !r.Counts() {
			continue
		}
		i := slices.IndexFunc(reasons, func(re Reason) bool { return re.matches(r.Name) })
		switch {
		case i < 0 && !r.Here:
			t.Errorf("%s %s (weight %d) is not here, and absent.txt has no reason", r.Kind, r.Text, r.Weight())
		case i >= 0 && r.Here:
			t.Errorf("%s %s is here, but absent.txt says why it is not: %s", r.Kind, r.Text, reasons[i].Why)
		case i >= 0:
			used[i] = true
		}
	}
	for i, re := range reasons {
		if !used[i] {
			t.Errorf("absent.txt: nothing is left for %q %q", re.Names, re.Why)
		}
	}
}

func TestPage(t *testing.T) {
	rows, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := Reasons()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(pageFile)))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != Page(rows, reasons) {
		t.Errorf("%s is old: make demand-page", pageFile)
	}
}

func TestNamesIn(t *testing.T) {
	l := &Linux{
		Functions: map[string]bool{"vfs_read": true, "vfs_open": true, "schedule": true, "kernel_clone": true, "set_event": true, "__x64_sys_kill": true, "kill": true},
		Events: map[string]map[string]bool{
			"sched:sched_switch": {"next_pid": true, "prev_comm": true},
			"kmem:kmalloc":       {"bytes_req": true, "call_site": true},
		},
	}
	l.index()
	for _, c := range []struct {
		name, text string
		want       []Name
	}{
		{"bcc", `b.attach_kretprobe(event="vfs_open", fn_name="x")`, []Name{{Function, "vfs_open"}}},
		{"bcc that is gone", `b.attach_kprobe(event=b"old_read", fn_name="x")`, []Name{{Function, "old_read"}}},
		{"bcc by pattern", `b.attach_kprobe(event_re="^vfs_.*", fn_name="x")`, nil},
		{"bcc one of several", `b.attach_kprobe(event_re="^vfs_read$|^vfs_read\.isra\.\d$", fn_name="x")`, []Name{{Function, "vfs_read"}}},
		{"bcc name by macro", `KFUNC_PROBE(FNNAME, int x)`, nil},
		{"bcc call", `fn = b.get_syscall_fnname("kill")`, []Name{{Function, "__x64_sys_kill"}}},
		{"bcc event", "TRACEPOINT_PROBE(sched, sched_switch) {\n\tu32 p = args->next_pid, q = args->other;\n}\n", []Name{{Event, "sched:sched_switch"}, {Field, "sched:sched_switch.next_pid"}}},
		{"bpftrace", "kprobe:vfs_read, kprobe:vfs_w*\n{ @[comm] = count(); }", []Name{{Function, "vfs_read"}}},
		{"bpftrace event", "tracepoint:sched:sched_switch\n/args->prev_comm != \"x\"/\n{\n\t@ = args.next_pid;\n}\nBEGIN { args->none }", []Name{{Event, "sched:sched_switch"}, {Field, "sched:sched_switch.next_pid"}, {Field, "sched:sched_switch.prev_comm"}}},
		{"definition", `echo 'r:mine vfs_read $retval' >> kprobe_events`, []Name{{Function, "vfs_read"}}},
		{"filter", `echo schedule:traceoff > set_ftrace_filter`, []Name{{Function, "schedule"}}},
		{"filter by pattern", `echo 'vfs_read*' '*_open' > set_ftrace_filter`, nil},
		{"trigger", `# echo 'hist:keys=call_site:vals=bytes_req' > events/kmem/kmalloc/trigger`, []Name{{Event, "kmem:kmalloc"}, {Field, "kmem:kmalloc.bytes_req"}, {Field, "kmem:kmalloc.call_site"}}},
		{"trace-cmd", `# trace-cmd record -e sched_switch -l vfs_open kill`, []Name{{Event, "sched:sched_switch"}, {Function, "vfs_open"}}},
		{"output", "  bash-1  [000] 1.5: vfs_read <-ksys_read\n => schedule\n", nil},
		{"program", "tp_btf/sched_switch\nkprobe/vfs_read\nkprobe/handle_entry", []Name{{Event, "sched:sched_switch"}, {Function, "vfs_read"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []Name
			for n := range NamesIn(c.text, l) {
				got = append(got, n)
			}
			byName := func(a, b Name) int {
				return slices.Compare([]string{string(a.Kind), a.Text}, []string{string(b.Kind), b.Text})
			}
			slices.SortFunc(got, byName)
			slices.SortFunc(c.want, byName)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestProgramText(t *testing.T) {
	b := []byte("\x7fELF\x00kprobe/vfs_read\x00fentry/dummy_open\x00xfs_file_open\x00.relkprobe/vfs_read\x00")
	if got, want := programText(b), "kprobe/vfs_read\nkprobe/vfs_read\nkprobe/xfs_file_open"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
