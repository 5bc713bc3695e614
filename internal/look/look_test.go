package look

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/internal/look/looktest"
)

// probedText is machine/probed of a machine with three probes at two addresses.
const probedText = `address:     ffffffff81021f40
symbol:      vfs_read+0x0
armed:       yes
flags:       [FTRACE]
carried out: ftrace
jump:        no: a probe at an fentry site is called by ftrace and needs no jump
probe:       k missed 3 [FTRACE]
history:     3 changes before these
history:     0.312079 registered

address:     ffffffff81021f54
symbol:      vfs_read+0x14
armed:       yes
flags:       [OPTIMIZED]
carried out: step
slot:        ffffffffe0000000 (3 bytes)
jump:        yes; its detour has the replaced instructions at ffffffffe000006e
probe:       k missed 0 [DISABLED][OPTIMIZED]
probe:       r missed 0 [OPTIMIZED]
`

// TestParseProbes reads all probes, with their hits where these are known.
func TestParseProbes(t *testing.T) {
	probes := ParseProbes(probedText)
	events, ok := joinEvents("p:kprobes/mine vfs_read\nr8:g/ret vfs_read+20 $retval\np:kprobes/two 0xffffffff81021f54\n",
		"  mine   11   1\n  ret    5   2\n  two    7   0\n")
	if !ok {
		t.Fatal("the events are not joined")
	}
	addHits(probes, events)
	var got []string
	for _, p := range probes {
		hits := "-"
		if p.Hits != nil {
			hits = string(must(json.Marshal(*p.Hits)))
		}
		got = append(got, strings.Join([]string{p.Address, p.Kind, p.Place, p.State(), hits, p.Events[0].Name, p.Slot, p.Detour, p.NotJump}, "|"))
	}
	want := []string{
		"ffffffff81021f40|k|vfs_read+0x0|armed, called by ftrace|11|kprobes/mine|||a probe at an fentry site is called by ftrace and needs no jump",
		"ffffffff81021f54|k|vfs_read+0x14|armed, disabled, optimized|7|kprobes/two|ffffffffe0000000|ffffffffe000006e|",
		"ffffffff81021f54|r|vfs_read+0x14|armed, optimized|5|g/ret|ffffffffe0000000|ffffffffe000006e|",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Change{{At: 0.312079, What: "registered"}}, probes[0].History); d != "" || probes[0].Before != 3 || probes[1].History != nil {
		t.Errorf("the history is %+v, after %d: %s", probes[0].History, probes[0].Before, d)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestHistory: the probes of an address have its history.
func TestHistory(t *testing.T) {
	probes := ParseProbes(probedText + "history:     7 changes before these\nhistory:     12.000718 int3 is written\nhistory:     nonsense\nhistory: -1 x\nhistory: nan x\nhistory: inf x\nhistory: -1 changes before these\n")
	for i, want := range []int{3, 7, 7} {
		p := probes[i]
		if p.Before != want || len(p.History) != 1 || p.Address == "" {
			t.Errorf("%+v", p)
		}
	}
	if got := probes[2].History[0]; got != (Change{At: 12.000718, What: "int3 is written"}) {
		t.Errorf("%+v", got)
	}
}

// TestFindProbe: a probe is found by each of its names.
func TestFindProbe(t *testing.T) {
	probes := []Probe{
		{Address: "ffffffff81000000", Place: "f+0x0", Events: []ProbeEvent{{Name: "kprobes/first"}}},
		{Address: "ffffffff81000014", Place: "f+0x14"},
		{Address: "ffffffff81000104", Place: "g+0x4"},
	}
	for name, want := range map[string]string{
		"f": "f+0x0", "f+0x0": "f+0x0", "f+20": "f+0x14", "f+0x14": "f+0x14", "0xffffffff81000014": "f+0x14",
		"ffffffff81000014": "f+0x14", "first": "f+0x0", "kprobes/first": "f+0x0", "g": "g+0x4",
		"h": "", "": "", "f+1": "", "kprobes": "",
	} {
		if p, ok := FindProbe(probes, name); p.Place != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", name, p.Place, want)
		}
	}
}

// TestJoinEvents: files that were read before and after a change do not fit.
func TestJoinEvents(t *testing.T) {
	for _, c := range [][2]string{
		{"p:kprobes/a f\n", "  b  1 0\n"},
		{"p:kprobes/a f\n", ""},
		{"", "  a  1 0\n"},
		{"p:kprobes/a f\n", "  a  x 0\n"},
		{"nonsense\n", "  a  1 0\n"},
	} {
		if _, ok := joinEvents(c[0], c[1]); ok {
			t.Errorf("%q is joined with %q", c[0], c[1])
		}
	}
}

// TestSeveralAtOnePlace: which of two events of a place has which probe is not known, so no hits
// are shown.
func TestSeveralAtOnePlace(t *testing.T) {
	probes := []Probe{{Kind: "k", Place: "f+0x0"}, {Kind: "k", Place: "f+0x0"}}
	addHits(probes, map[eventPlace][]ProbeEvent{{"k", "f+0x0"}: {{Name: "a/b", Hits: 3}}})
	for _, p := range probes {
		if p.Hits != nil || len(p.Events) != 1 {
			t.Errorf("%+v", p)
		}
	}
}

// TestBehindEndbr: a probe that Linux has moved from a function's start behind its endbr64 has the
// event that names the start.
func TestBehindEndbr(t *testing.T) {
	events := map[eventPlace][]ProbeEvent{{"k", "f+0x0"}: {{Name: "a/b", Hits: 3}}}
	moved := []Probe{{Kind: "k", Place: "f+0x4"}}
	if addHits(moved, events); moved[0].Hits == nil || *moved[0].Hits != 3 {
		t.Errorf("moved: %+v", moved)
	}
	both := []Probe{{Kind: "k", Place: "f+0x0"}, {Kind: "k", Place: "f+0x4"}}
	if addHits(both, events); both[0].Hits == nil || both[1].Hits != nil {
		t.Errorf("not moved: %+v", both)
	}
}

// TestCopies: each copy is at the instruction that it stands for, in functions of the same name.
func TestCopies(t *testing.T) {
	files := map[string]string{"machine/text/vfs_read": looktest.PatchedText, "machine/copies/vfs_read": looktest.PatchedCopies}
	functions, err := Functions(func(name string) ([]byte, error) { return []byte(files[name]), nil }, "vfs_read")
	if err != nil || len(functions) != 2 {
		t.Fatalf("%v: %+v", err, functions)
	}
	jump := functions[0].Instructions[3]
	if was := jump.Was; len(was) != 2 || was[1].Address != "ffffffff81021f54" || was[1].Offset != 0x14 || jump.RegionSize() != 7 {
		t.Errorf("the second replaced instruction is %+v", was)
	}
	if jump.Probe == nil || len(jump.Probe.Copies) != 2 || functions[1].Instructions[0].Probe == nil {
		t.Errorf("the probe there is %+v", jump.Probe)
	}
	if addCopies(functions, "other:\n") || addCopies(functions, "vfs_read:\n") {
		t.Error("copies of other functions are taken")
	}
}

// TestParseRecord: what is before an entry is not taken for it.
func TestParseRecord(t *testing.T) {
	const entry = "             cat-7591    [001] .....     2.462309: mine: (vfs_read+0x0/0x110) a=1\n"
	for _, before := range []string{"", "CPU:1 [LOST EVENTS]\n", "##### CPU 1 buffer started ####\n"} {
		if e := ParseRecord(before + entry + " => vfs_read\n"); e.Event != "mine" || e.Comm != "cat" || len(e.More) != 1 || len(e.Lines) != 2 {
			t.Errorf("%q: %+v", before, e)
		}
	}
	if e := ParseRecord("# tracer: nop\n"); e.Event != "" || e.Text != "# tracer: nop" {
		t.Errorf("%+v", e)
	}
}

// TestParseLogRecord: the escaped bytes of a record of the log are those that the kernel escapes.
func TestParseLogRecord(t *testing.T) {
	for _, c := range []struct {
		in   string
		want LogRecord
	}{
		{"6,12,3376381,-;one\n", LogRecord{3376381, "one"}},
		{"4,1,5,-;a\\x0ab\\x5cx\\x09\n", LogRecord{5, "a\nb\\x\t"}},
		{"4,1,5,-;\\x7fELF \\xzz \\x\n", LogRecord{5, "\\x7fELF \\xzz \\x"}},
		{"4,1,5,-;a;b\n", LogRecord{5, "a;b"}},
		{"nonsense", LogRecord{}},
	} {
		if got := parseLogRecord([]byte(c.in)); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.in, got, c.want)
		}
	}
}

// FuzzLook: no text of a tree ends who reads it, and what is made of it has a JSON form.
func FuzzLook(f *testing.F) {
	f.Add(probedText, "p:kprobes/mine vfs_read\n", "  mine 1 0\n")
	f.Add(probedText+"history: inf registered\nhistory: -1 changes before these\n", "", traceText)
	f.Add(looktest.PatchedText, looktest.PatchedCopies, "CPU:1 [LOST 4 EVENTS]\n")
	f.Add("* 0  +0x0 cc  # was: ; \n", ":\n+0x armed yes flags - carried\n+ \n", "CPU:99999999999999999999 [LOST 1 EVENTS]\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		probes := ParseProbes(a)
		if events, ok := joinEvents(b, c); ok {
			addHits(probes, events)
		}
		var changes []Change
		for _, p := range probes {
			changes = append(changes, p.History...)
			if p.Hits != nil && len(p.Events) != 1 {
				t.Errorf("%+v", p)
			}
		}
		functions, _ := ParseFunctions(a, b)
		entries, _ := latest(strings.NewReader(c), 2)
		if _, err := json.Marshal([]any{probes, changes, functions, ParseRecord(c), entries}); err != nil {
			t.Error(err)
		}
	})
}

// TestMachine reads machine/optimizer and proc/modules.
func TestMachine(t *testing.T) {
	files := map[string]string{
		"machine/optimizer": "on:          yes\nscheduled:   no\nto jump:     2\n             f+0x3\n             m:g+0x0\nto int3:     1\n             h+0x1\nto free:     4\n",
		"proc/modules":      "mine 16384 1 other, Live 0xffffffffc0000000 (O)\nother 4096 0 - Unloading 0x0\n",
	}
	read := func(name string) ([]byte, error) { return []byte(files[name]), nil }
	q, err := Optimizer(read)
	if d := cmp.Diff(Queues{On: true, ToJump: []string{"f+0x3", "m:g+0x0"}, ToInt3: []string{"h+0x1"}, ToFree: 4}, q); err != nil || d != "" {
		t.Error(err, d)
	}
	modules, err := Modules(read)
	want := []Module{{"mine", 16384, 1, []string{"other"}, "Live"}, {"other", 4096, 0, []string{}, "Unloading"}}
	if d := cmp.Diff(want, modules); err != nil || d != "" {
		t.Error(err, d)
	}
}

const traceText = `# tracer: nop
# entries-in-buffer/entries-written: 3/9   #P:2
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
CPU:1 [LOST 4 EVENTS]
             cat-7591    [001] .....     2.462309: mine: (vfs_read+0x0/0x110) a=1
           a-1 b-7593    [000] d..1.     2.478319: <stack trace>
 => vfs_read
 => ksys_read
            more-5       [001] ....     3.000000: vfs_read <-ksys_read
             cat-9999    [001] .....     9.000000: mine: was not there at the start
`

// TestLatest: the trace ends with the entries of the start, and the latest of them are kept.
func TestLatest(t *testing.T) {
	for limit, want := range map[int]string{9: "1 cat a-1 b more", 2: "a-1 b more", 1: "more"} {
		all, err := latest(strings.NewReader(traceText), limit)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range all {
			if e.Lost != nil {
				e.Comm = "1"
			}
			names = append(names, e.Comm)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("the latest %d are %q, want %q", limit, got, want)
		}
	}
	all, _ := latest(strings.NewReader(traceText), 9)
	if d := cmp.Diff([]string{" => vfs_read", " => ksys_read"}, all[2].More); d != "" {
		t.Error(d)
	}
}
