package viewers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/look"
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

func listCommand() *cobra.Command {
	at, asJSON := &cli.TreeFlag{}, false
	c := &cobra.Command{
		Use:               "list [--at MNT] [--json]",
		Short:             "List the probes, their hits, and why they are no jumps",
		Long:              longList,
		Example:           "  kprobefs list --at /mnt\n  kprobefs list --json | jq '.[] | select(.armed) | .place'",
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: at.Run(func(c *cobra.Command, dir string, _ []string) error {
			probes, err := look.Probes(look.Files(dir))
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(c.OutOrStdout(), probes)
			}
			return printProbes(cli.NewScreen(c.OutOrStdout()), probes)
		}),
	}
	at.AddTo(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write a JSON array of objects")
	return c
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printProbes writes a table. A line has one colour, which does not count for its columns' widths.
func printProbes(s cli.Screen, probes []look.Probe) error {
	if len(probes) == 0 {
		if s.Terminal() { // a program gets as many lines as there are probes
			fmt.Fprintln(s, "There are no probes.")
		}
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", p.Address, p.Kind, p.Place, p.State(), hits, p.Missed, strings.Join(names, ","), why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	out := bufio.NewWriter(s)
	for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		c := cli.Bold
		if i > 0 {
			c = cli.LookColors[probes[i-1].Style()]
		}
		fmt.Fprintln(out, s.Paint(c, strings.TrimRight(line, " ")))
	}
	return out.Flush()
}
