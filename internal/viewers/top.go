package viewers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/top"
)

const longTop = `Show the probes of a mounted tree's kernel on the terminal as they are, as top(1) shows
processes: how the text is patched for each, its hits and missed hits and how many there
are a second, and why it is a jump or is not.

Enter shows the text of the selected probe's function with the patched bytes, what stood
there, slots and detours; F5 or t the trace, F7 or l the kernel's log; F2 or f a function
by its name. / searches, F4 or \ filters, F6 or < and > choose the column to sort by,
Space enables the selected probe's event or disables it, which is all that is ever
written. F1 or h lists all keys, Esc or q goes back to the probes; there q ends, and F10
ends everywhere.

The tree's files are read as by any program: what the user may not read is said in a
line, and a probe on the kernel's reading counts the screen's too. NO_COLOR in the
environment leaves out colours. Without a terminal that can place text, use 'kprobefs
list', 'text' and 'trace'.`

func topCommand() *cobra.Command {
	at, interval := &cli.TreeFlag{}, time.Second
	c := &cobra.Command{
		Use:               "top [--at MNT] [--interval TIME]",
		Short:             "Show the probes, text, trace and log on the terminal, live",
		Long:              longTop,
		Example:           "  kprobefs top --at /mnt\n  kprobefs top --interval 200ms",
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: at.Run(func(_ *cobra.Command, dir string, _ []string) error {
			if interval < minInterval {
				return cli.Misused(fmt.Errorf("--interval %v: at least %v is needed", interval, minInterval))
			}
			if err := checkTerminal(os.Stdin, os.Stdout); err != nil {
				return err
			}
			return runTop(dir, interval)
		}),
	}
	at.AddTo(c)
	c.Flags().DurationVar(&interval, "interval", time.Second, "the time between two readings of the files")
	_ = c.RegisterFlagCompletionFunc("interval", cobra.NoFileCompletions)
	return c
}

// minInterval keeps the screen from being most of the machine's work.
const minInterval = 50 * time.Millisecond

// checkTerminal fails if the screen cannot be shown.
func checkTerminal(in, out *os.File) error {
	for _, f := range []*os.File{in, out} {
		if !cli.IsTerminal(f) {
			return errors.New("the input and output have to be a terminal; kprobefs list writes the probes once, and kprobefs list --json for programs")
		}
	}
	if term := os.Getenv("TERM"); term == "dumb" || term == "" {
		return fmt.Errorf("TERM=%s is a terminal that cannot place text; use kprobefs list, or set TERM to what the terminal is, as xterm", term)
	}
	return nil
}

// runTop shows the screen until it is ended by a key or a signal.
func runTop(dir string, interval time.Duration) error {
	tcell.SetEncodingFallback(tcell.EncodingFallbackASCII)
	term, err := tcell.NewScreen()
	if err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	if err := term.Init(); err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	defer term.Fini()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	tree := top.NewTree(dir)
	defer tree.Close()
	return top.Run(ctx, term, top.Config{
		Source: tree, Interval: interval, Colors: os.Getenv("NO_COLOR") == "" && term.Colors() > 0,
		Suspend: top.Stop,
	})
}
