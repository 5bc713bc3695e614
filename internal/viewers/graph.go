package viewers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/graph"
	"github.com/kprobefs/kprobefs/internal/look"
)

const longGraph = `Draw a picture of what a mounted tree shows, as SVG on standard output or in a file, for
documents and lessons. It is readable in light and dark, says in title and desc what it
shows, and is the same for the same state of the kernel.`

const longLife = `Draw the states of a probe over time, from the history in machine/probed: when it was
registered, armed by int3 or by ftrace, queued for its jump, optimized, disarmed. The
kernel keeps the latest twelve changes of an address, also while no probe is armed there.

PROBE is a place of kprobes/list (vfs_read+0x5, or vfs_read for its start), an address, or
the name of an event (mine, or kprobes/mine).`

const longGraphText = `Draw a function of a mounted tree's kernel as it is in memory. Beside patched
instructions are the slot with the copy that is stepped, and the detour that a jump goes
to, instruction by instruction; arrows show the way of a hit. Only instructions near a
probe are drawn, unless there is none or --all is given.`

func graphCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "graph",
		Short: "Draw a probe's life or a function's text as SVG",
		Long:  longGraph,
		Example: `  kprobefs graph life --at /mnt vfs_read+5 > life.svg
  kprobefs graph text vfs_read -o text.svg`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Misused(fmt.Errorf("what to draw of %s: kprobefs graph life %[1]s, or kprobefs graph text %[1]s", args[0]))
			}
			return cli.Misused(errors.New("what to draw: kprobefs graph life PROBE, or kprobefs graph text FUNCTION"))
		},
	}
	c.AddCommand(graphLifeCommand(), graphTextCommand())
	return c
}

// pictureFlags are the flags of both pictures.
type pictureFlags struct {
	at   cli.TreeFlag
	file string
}

func (f *pictureFlags) addTo(c *cobra.Command) {
	f.at.AddTo(c)
	c.Flags().StringVarP(&f.file, "output", "o", "", "the file that is written (default: standard output)")
}

// write draws a picture and writes it as a whole: a file is not changed if that fails.
func (f *pictureFlags) write(out io.Writer, draw func(io.Writer) error) error {
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		return err
	}
	if f.file != "" {
		return os.WriteFile(f.file, b.Bytes(), 0o666)
	}
	_, err := out.Write(b.Bytes())
	return err
}

func graphLifeCommand() *cobra.Command {
	f := &pictureFlags{}
	c := &cobra.Command{
		Use:     "life [--at MNT] [-o FILE] PROBE",
		Short:   "Draw the states of a probe over time",
		Long:    longLife,
		Example: "  kprobefs graph life --at /mnt mine -o life.svg",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return places(&f.at, args, begun), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: f.at.Run(func(c *cobra.Command, dir string, args []string) error {
			probes, err := look.Probes(look.Files(dir))
			if err != nil {
				return err
			}
			p, ok := look.FindProbe(probes, args[0])
			if !ok {
				return fmt.Errorf("%q: no probe is there, and no event has this name; kprobefs list shows those that there are", args[0])
			}
			return f.write(c.OutOrStdout(), func(w io.Writer) error { return graph.Life(w, p) })
		}),
	}
	f.addTo(c)
	return c
}

// places returns the places of probes that begin with a prefix, as completions.
func places(f *cli.TreeFlag, args []string, begun string) (all []string) {
	dir, err := f.Find()
	if err != nil || len(args) > 0 {
		return nil
	}
	probes, _ := look.Probes(look.Files(dir))
	for _, p := range probes {
		all = append(all, p.Place)
	}
	return cli.Beginning(all, begun)
}

func graphTextCommand() *cobra.Command {
	f, o := &pictureFlags{}, graph.TextOptions{}
	c := &cobra.Command{
		Use:     "text [--at MNT] [-o FILE] [--all] FUNCTION",
		Short:   "Draw a function's text with its detours",
		Long:    longGraphText,
		Example: "  kprobefs graph text --at /mnt vfs_read > text.svg",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return functions(&f.at, args, begun), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: f.at.Run(func(c *cobra.Command, dir string, args []string) error {
			functions, err := look.Functions(look.Files(dir), args[0])
			if err != nil {
				return err
			}
			return f.write(c.OutOrStdout(), func(w io.Writer) error { return graph.Text(w, functions, o) })
		}),
	}
	f.addTo(c)
	c.Flags().BoolVar(&o.All, "all", false, "draw all instructions")
	return c
}
