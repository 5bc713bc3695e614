// Package look reads the files of a tree that tell about the emulated kernel's probes, text, trace
// and log, and makes values of them: probes, text and trace have a JSON form, and lines
// for people. All who show these files use it, so that each of them is parsed in one place.
//
// Whole files are read with a ReadFile, of a mounted tree (Files) or of a kernel in the same
// process. What cannot be read so is of a mounted tree only: there, look reads as any other program
// does, so it sees what the user may see, and a probe on the kernel's reading is hit by it.
//
// The text of files is not trusted: a name of a task or a definition may be anything.
package look

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ReadFile reads a file of the tree to its end, by its path in the tree ("machine/probed").
type ReadFile func(name string) ([]byte, error)

// Probe is a probe as `list --json` shows it.
type Probe struct {
	Address string       `json:"address"`
	Kind    string       `json:"kind"` // k, r, or j of a jprobe
	Place   string       `json:"place"`
	Armed   bool         `json:"armed"`
	Flags   []string     `json:"flags"`
	Carried string       `json:"carried_out"`
	Slot    string       `json:"slot,omitempty"`
	Detour  string       `json:"detour,omitempty"`
	NotJump string       `json:"not_jump,omitempty"`
	Missed  uint64       `json:"missed"`
	Hits    *uint64      `json:"hits,omitempty"`
	Events  []ProbeEvent `json:"events"`

	History []Change `json:"-"` // of its address, the oldest first
	Before  int      `json:"-"` // number of changes before these
}

// Change is a change of the state of a probed address.
type Change struct {
	At   float64 `json:"at"` // seconds since boot
	What string  `json:"what"`
}

// ProbeEvent is an event of kprobe_events.
type ProbeEvent struct {
	Name   string `json:"name"`
	Hits   uint64 `json:"hits"`
	Missed uint64 `json:"missed"`
}

// Probes reads the probes of a tree, in the order of kprobes/list.
func Probes(read ReadFile) ([]Probe, error) {
	b, err := read("machine/probed")
	if err != nil {
		return nil, err
	}
	probes := ParseProbes(string(b))
	events, err := probedEvents(read)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EACCES): // no tracing, or not for this user
	case err != nil:
		return nil, err
	}
	addHits(probes, events)
	return probes, nil
}

// ParseProbes reads machine/probed: an object for each line "probe:" of each address.
func ParseProbes(text string) []Probe {
	probes := []Probe{}
	var at Probe
	first := 0 // of the probes at this address
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimSpace(value)
		word, rest, _ := strings.Cut(value, " ")
		switch {
		case !ok:
		case name == "address":
			at = Probe{Address: value, Flags: []string{}, Events: []ProbeEvent{}}
			first = len(probes)
		case name == "symbol":
			at.Place = value
		case name == "armed":
			at.Armed = value == "yes"
		case name == "carried out":
			at.Carried = value
		case name == "slot":
			at.Slot = word
		case name == "jump" && strings.HasPrefix(value, "yes;"):
			at.Detour = value[strings.LastIndexByte(value, ' ')+1:]
		case name == "jump":
			at.NotJump = strings.TrimPrefix(strings.TrimPrefix(value, "no"), ": ")
		case name == "probe":
			var flags string
			p := at
			p.Kind = word
			if _, err := fmt.Sscanf(rest, "missed %d %s", &p.Missed, &flags); err == nil {
				p.Flags = flagNames(flags)
				probes = append(probes, p)
			}
		case name == "history":
			addChange(probes[first:], value)
		}
	}
	return probes
}

// addChange adds a line "history:" to the probes of an address: "SECONDS WHAT", or "N changes
// before these".
func addChange(probes []Probe, line string) {
	at, what, _ := strings.Cut(line, " ")
	before, berr := strconv.Atoi(at)
	seconds, serr := strconv.ParseFloat(at, 64)
	for i := range probes {
		switch {
		case berr == nil && before >= 0 && what == "changes before these":
			probes[i].Before = before
		case serr == nil && seconds >= 0 && seconds < maxSeconds:
			probes[i].History = append(probes[i].History, Change{At: seconds, What: what})
		}
	}
}

// maxSeconds is a time that is no longer a time.Duration.
const maxSeconds = 1 << 33

// FindProbe returns the probe that is meant: by its place, its address, the name of its event, or a
// function at whose start it is. Of several at an address it is the first.
func FindProbe(probes []Probe, name string) (Probe, bool) {
	is := []func(Probe) bool{
		func(p Probe) bool { return p.Place == name || p.Address == strings.TrimPrefix(name, "0x") },
		func(p Probe) bool { return p.Place == placeOf(name) },
		func(p Probe) bool {
			return slices.ContainsFunc(p.Events, func(e ProbeEvent) bool {
				return e.Name == name || e.Name[strings.IndexByte(e.Name, '/')+1:] == name
			})
		},
		func(p Probe) bool { return p.Place == strings.TrimSuffix(placeOf(name), "+0x0")+"+0x4" }, // behind an endbr64
	}
	for _, fits := range is {
		if i := slices.IndexFunc(probes, fits); i >= 0 {
			return probes[i], true
		}
	}
	return Probe{}, false
}

// flagNames returns the words of "[DISABLED][OPTIMIZED]", or none for "-".
func flagNames(text string) []string {
	names := []string{}
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == '[' || r == ']' || r == '-' }) {
		names = append(names, strings.ToLower(f))
	}
	return names
}

// eventPlace is where an event of kprobe_events is: two events with the same one are at the
// same address, or at addresses that have the same name.
type eventPlace struct{ kind, place string }

// tries bounds how often files are read again that have changed meanwhile.
const tries = 5

var errChanging = errors.New("tracing/kprobe_events changes all the time")

// probedEvents reads the events from kprobe_events and kprobe_profile, whose lines are in the same
// order.
func probedEvents(read ReadFile) (map[eventPlace][]ProbeEvent, error) {
	for range tries {
		defined, err := read("tracing/kprobe_events")
		if err != nil {
			return nil, err
		}
		counted, err := read("tracing/kprobe_profile")
		if err != nil {
			return nil, err
		}
		if events, ok := joinEvents(string(defined), string(counted)); ok {
			return events, nil
		}
	}
	return nil, errChanging
}

// joinEvents joins the lines of kprobe_events and kprobe_profile. It fails if they are not of the
// same events.
func joinEvents(defined, counted string) (map[eventPlace][]ProbeEvent, bool) {
	events := map[eventPlace][]ProbeEvent{}
	counts := strings.Split(counted, "\n")
	i := 0
	for line := range strings.Lines(defined) {
		words := strings.Fields(line)
		if len(words) < 2 || i >= len(counts) {
			return nil, false
		}
		head, name, _ := strings.Cut(words[0], ":")
		count := strings.Fields(counts[i])
		i++
		if len(count) != 3 || count[0] != name[strings.IndexByte(name, '/')+1:] {
			return nil, false
		}
		e := ProbeEvent{Name: name}
		var herr, merr error
		e.Hits, herr = strconv.ParseUint(count[1], 10, 64)
		e.Missed, merr = strconv.ParseUint(count[2], 10, 64)
		if herr != nil || merr != nil || head == "" {
			return nil, false
		}
		at := eventPlace{"k", placeOf(words[1])}
		if head[0] == 'r' { // rMAXACTIVE
			at.kind = "r"
		}
		events[at] = append(events[at], e)
	}
	return events, i >= len(counts) || strings.TrimSpace(strings.Join(counts[i:], "")) == ""
}

// placeOf returns the place of a definition as machine/probes names it: SYMBOL+0xOFFSET. An address
// stays as it is.
func placeOf(text string) string {
	if strings.HasPrefix(text, "0x") {
		return text
	}
	text = strings.TrimSuffix(text, "%return")
	symbol, offset, _ := strings.Cut(text, "+")
	n, err := strconv.ParseUint(offset, 0, 64)
	if err != nil && offset != "" {
		return text
	}
	return fmt.Sprintf("%s+%#x", symbol, n)
}

// addHits gives probes the events at their places, and their hits where only one probe and one
// event are there.
func addHits(probes []Probe, events map[eventPlace][]ProbeEvent) {
	addresses := map[eventPlace]int{} // probes of a kind with the same place
	for _, p := range probes {
		addresses[eventPlace{p.Kind, p.Place}]++
	}
	find := func(p Probe) []ProbeEvent {
		named := slices.Concat(events[eventPlace{p.Kind, p.Place}], events[eventPlace{p.Kind, "0x" + p.Address}])
		start := eventPlace{p.Kind, strings.TrimSuffix(p.Place, "+0x4") + "+0x0"}
		if strings.HasSuffix(p.Place, "+0x4") && addresses[start] == 0 {
			named = append(named, events[start]...) // Linux moves a probe on a function's endbr64 behind it
		}
		return named
	}
	for i := range probes {
		p := &probes[i]
		p.Events = append(p.Events, find(*p)...)
		if len(p.Events) == 1 && addresses[eventPlace{p.Kind, p.Place}] == 1 {
			p.Hits = &p.Events[0].Hits
		}
	}
}

// State says in words what a probe's flags say.
func (p Probe) State() string {
	words := []string{"armed"}
	if !p.Armed {
		words[0] = "not armed"
	}
	for _, f := range p.Flags {
		if f == "ftrace" {
			f = "called by ftrace"
		}
		words = append(words, f)
	}
	return strings.Join(words, ", ")
}
