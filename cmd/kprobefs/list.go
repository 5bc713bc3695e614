package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

const longList = `List the probes of a mounted tree's kernel: the address, k for a probe or r for a return
probe, the place, the state, and why a breakpoint is not replaced by a jump. HITS is
known of a probe that an event of kprobe_events defines, unless several probes of the
same kind are at the address; a module's handler is not counted. MISSED are the hits
that were not handled, because another probe was being handled.

The state is armed or not armed: whether the text has a breakpoint, jump or call for
the probe now. It is followed by: optimized (or about to be, as in kprobes/list),
called by ftrace, disabled (the probe, not the others at its address), gone (its code
is).

Hits can be read by those who may read the tree's tracing directory. Addresses are
zeros for those to whom /proc/kallsyms hides them. --json writes an array of objects
with address, kind, place, armed, flags, carried_out, slot, detour, not_jump, missed,
events (name, hits, missed of each event at this place), and hits where it is known.`

// listedProbe is a probe as `list --json` shows it.
type listedProbe struct {
	Address string        `json:"address"`
	Kind    string        `json:"kind"` // k, r, or j of a jprobe
	Place   string        `json:"place"`
	Armed   bool          `json:"armed"`
	Flags   []string      `json:"flags"`
	Carried string        `json:"carried_out"`
	Slot    string        `json:"slot,omitempty"`
	Detour  string        `json:"detour,omitempty"`
	NotJump string        `json:"not_jump,omitempty"`
	Missed  uint64        `json:"missed"`
	Hits    *uint64       `json:"hits,omitempty"`
	Events  []probedEvent `json:"events"`
}

// probedEvent is an event of kprobe_events.
type probedEvent struct {
	Name   string `json:"name"`
	Hits   uint64 `json:"hits"`
	Missed uint64 `json:"missed"`
}

func listCommand() *cobra.Command {
	at, asJSON := &treeFlag{}, false
	c := &cobra.Command{
		Use:               "list [--at MNT] [--json]",
		Short:             "List the probes, their hits, and why they are no jumps",
		Long:              longList,
		Example:           "  kprobefs list --at /mnt\n  kprobefs list --json | jq '.[] | select(.armed) | .place'",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: at.run(func(c *cobra.Command, dir string, _ []string) error {
			probes, err := listProbes(dir)
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(c.OutOrStdout(), probes)
			}
			return printProbes(newScreen(c.OutOrStdout()), probes)
		}),
	}
	at.addTo(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write a JSON array of objects")
	return c
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// listProbes reads the probes of a tree, in the order of kprobes/list.
func listProbes(tree string) ([]listedProbe, error) {
	b, err := os.ReadFile(filepath.Join(tree, "machine/probed"))
	if err != nil {
		return nil, err
	}
	probes := parseProbed(string(b))
	events, err := probedEvents(tree)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EACCES): // no tracing, or not for this user
	case err != nil:
		return nil, err
	}
	addHits(probes, events)
	return probes, nil
}

// parseProbed reads machine/probed: an object for each line "probe:" of each address.
func parseProbed(text string) []listedProbe {
	probes := []listedProbe{}
	var at listedProbe
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimSpace(value)
		first, rest, _ := strings.Cut(value, " ")
		switch {
		case !ok:
		case name == "address":
			at = listedProbe{Address: value, Flags: []string{}, Events: []probedEvent{}}
		case name == "symbol":
			at.Place = value
		case name == "armed":
			at.Armed = value == "yes"
		case name == "carried out":
			at.Carried = value
		case name == "slot":
			at.Slot = first
		case name == "jump" && strings.HasPrefix(value, "yes;"):
			at.Detour = value[strings.LastIndexByte(value, ' ')+1:]
		case name == "jump":
			at.NotJump = strings.TrimPrefix(strings.TrimPrefix(value, "no"), ": ")
		case name == "probe":
			var flags string
			p := at
			p.Kind = first
			if _, err := fmt.Sscanf(rest, "missed %d %s", &p.Missed, &flags); err == nil {
				p.Flags = flagNames(flags)
				probes = append(probes, p)
			}
		}
	}
	return probes
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
func probedEvents(tree string) (map[eventPlace][]probedEvent, error) {
	for range tries {
		defined, err := os.ReadFile(filepath.Join(tree, "tracing/kprobe_events"))
		if err != nil {
			return nil, err
		}
		counted, err := os.ReadFile(filepath.Join(tree, "tracing/kprobe_profile"))
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
func joinEvents(defined, counted string) (map[eventPlace][]probedEvent, bool) {
	events := map[eventPlace][]probedEvent{}
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
		e := probedEvent{Name: name}
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
func addHits(probes []listedProbe, events map[eventPlace][]probedEvent) {
	addresses := map[eventPlace]int{} // probes of a kind with the same place
	for _, p := range probes {
		addresses[eventPlace{p.Kind, p.Place}]++
	}
	find := func(p listedProbe) []probedEvent {
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

// state says in words what a probe's flags say.
func (p listedProbe) state() string {
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

// color returns the colour of a probe's line.
func (p listedProbe) color() color {
	flags := strings.Join(p.Flags, " ")
	switch {
	case strings.Contains(flags, "gone"):
		return red
	case !p.Armed || strings.Contains(flags, "disabled"):
		return dim
	case strings.Contains(flags, "optimized"):
		return magenta
	case strings.Contains(flags, "ftrace"):
		return cyan
	}
	return yellow
}

// printProbes writes a table. A line has one colour, which does not count for its columns' widths.
func printProbes(s screen, probes []listedProbe) error {
	if len(probes) == 0 {
		return nil
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "ADDRESS\tKIND\tPLACE\tSTATE\tHITS\tMISSED\tEVENT\tNO JUMP BECAUSE")
	for _, p := range probes {
		hits, names := "-", []string{}
		if p.Hits != nil {
			hits = strconv.FormatUint(*p.Hits, 10)
		}
		for _, e := range p.Events {
			names = append(names, e.Name)
		}
		if len(names) == 0 {
			names = []string{"-"}
		}
		why := p.NotJump
		if why == "" {
			why = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", p.Address, p.Kind, p.Place, p.state(), hits, p.Missed, strings.Join(names, ","), why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	out := bufio.NewWriter(s)
	for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		c := bold
		if i > 0 {
			c = probes[i-1].color()
		}
		fmt.Fprintln(out, s.paint(c, strings.TrimRight(line, " ")))
	}
	return out.Flush()
}
