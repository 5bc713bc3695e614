package viewers

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/look"
	"github.com/kprobefs/kprobefs/internal/tour"
)

const longTour = `A lesson on kprobes: what a probe is and how it works, return probes, jump optimization,
what may not be probed, the files of debugfs, the sysctl, and events, in the order of
Linux's document. Each step explains, shows a command, runs it when you press Enter, and
says what to look at in what it prints. You can type commands of your own instead; they
run in the tree's directory.

The lesson starts a machine of its own, as 'kprobefs exec' does, which is gone at its end
($KPROBEFS_RELEASE chooses its release, 4.15 or newer). With --at MNT it uses the one that
is mounted there, and below 'kprobefs exec' the one of that: its probes are events of the
group tour, which are removed at the end, and the switches are set as they were.

STEP is where to begin: a number or a name of --list. The commands of the steps before it
in its chapter are run first, without being shown. --yes runs all commands without asking;
the exit status is 1 if one does not print what the lesson says.`

func tourCommand() *cobra.Command {
	at, list, yes := &cli.TreeFlag{}, false, false
	c := &cobra.Command{
		Use:     "tour [--at MNT] [--list] [--yes] [STEP]",
		Short:   "Take a lesson on kprobes in the terminal",
		Long:    longTour,
		Example: "  kprobefs tour\n  kprobefs tour --list\n  kprobefs tour optimized",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return cli.Beginning(stepNames(), begun), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if list {
				return tour.List(c.OutOrStdout())
			}
			from := 0
			if len(args) > 0 {
				var err error
				if from, err = tour.Find(args[0]); err != nil {
					return cli.Misused(err)
				}
			}
			if at.Dir == "" && os.Getenv(cli.TreeVar) == "" {
				return tourOfOwn(args, yes)
			}
			dir, err := at.Find()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
			defer stop()
			s := cli.NewScreen(c.OutOrStdout())
			return tour.Run(ctx, tour.Config{
				Tree: dir, In: os.Stdin, Out: s, Echo: !cli.IsTerminal(os.Stdin), Yes: yes, Width: textWidth(),
				Paint: func(style look.Style, text string) string { return s.Paint(cli.LookColors[style], text) },
			}, from)
		},
	}
	at.AddTo(c)
	c.Flags().BoolVar(&list, "list", false, "list the steps")
	c.Flags().BoolVar(&yes, "yes", false, "run all commands without asking")
	return c
}

func stepNames() (names []string) {
	for _, s := range tour.Steps {
		names = append(names, s.Name)
	}
	return names
}

// textWidth returns the width of the lesson's text: the terminal's, but no more than can be
// read well.
func textWidth() int {
	const most, least = 80, 20
	ws, err := unix.IoctlGetWinsize(unix.Stdout, unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 {
		return most
	}
	return max(min(int(ws.Col)-1, most), least)
}

// tourOfOwn replaces this process by `kprobefs exec`, which calls the command again with a machine.
// It returns if that fails.
func tourOfOwn(args []string, yes bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := []string{os.Args[0], "exec", "--", self, "tour"}
	if yes {
		argv = append(argv, "--yes")
	}
	err = unix.Exec(self, append(argv, args...), os.Environ())
	return errors.Join(errors.New("the lesson's machine cannot be started"), err)
}
