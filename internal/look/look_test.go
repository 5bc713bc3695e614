package look

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// probedText is machine/probed of a machine with three probes at two addresses.
const probedText = `address:     ffffffff81021f40
symbol:      vfs_read+0x0
armed:       yes
flags:       [FTRACE]
carried out: ftrace
jump:        no: a probe at an fentry site is called by ftrace and needs no jump
probe:       k missed 3 [FTRACE]
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
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestHistory: the probes of an address have its history.
func TestHistory(t *testing.T) {
	probes := ParseProbes(probedText + "history:     7 changes before these\nhistory:     12.000718 int3 is written\nhistory:     nonsense\nhistory: -1 x\n")
	for i, want := range []int{0, 7, 7} {
		p := probes[i]
		if p.Before != want || len(p.History) != 1 || p.Address == "" {
			t.Errorf("%+v", p)
		}
	}
	if got := probes[2].History[0]; got != (Change{12000718 * time.Microsecond, "int3 is written"}) {
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

func TestParseRecord(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Record
	}{
		{"6,12,3376381,-;one\n", Record{3376381, "one"}},
		{"4,1,5,-;a\\x0ab\\x5cx\\x09\n", Record{5, "a\nb\\x\t"}},
		{"4,1,5,-;\\x7fELF \\xzz \\x\n", Record{5, "\\x7fELF \\xzz \\x"}},
		{"4,1,5,-;a;b\n", Record{5, "a;b"}},
		{"nonsense", Record{}},
	} {
		if got := parseRecord([]byte(c.in)); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.in, got, c.want)
		}
	}
}

// FuzzProbes: no text of a tree's files ends the program, nor an event that is at no probe.
func FuzzProbes(f *testing.F) {
	f.Add(probedText, "p:kprobes/mine vfs_read\n", "  mine 1 0\n")
	f.Fuzz(func(t *testing.T, probed, defined, counted string) {
		probes := ParseProbes(probed)
		events, ok := joinEvents(defined, counted)
		if !ok {
			return
		}
		addHits(probes, events)
		for _, p := range probes {
			if p.Hits != nil && len(p.Events) != 1 {
				t.Errorf("%+v", p)
			}
		}
	})
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
