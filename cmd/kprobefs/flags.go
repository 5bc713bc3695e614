package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/kernelfile"
	"github.com/kprobefs/kprobefs/kernel"
)

// internal reports whether a command is called by this program itself, which gives all flags
// that are needed.
func internal(c *cobra.Command) bool {
	own := c.Hidden
	for _, name := range []string{"no-watch", "detached"} {
		own = own || c.Flags().Changed(name)
	}
	return own
}

// completions complete the values of flags that are no choice, by the flag's name.
var completions = map[string]cobra.CompletionFunc{
	"config":   completeConfig,
	"watchdog": cli.CompleteWords(kernel.WatchdogActions()),
	"cpus":     cobra.NoFileCompletions,
	"memory":   cobra.NoFileCompletions,
	"ready-fd": cobra.NoFileCompletions,
	"http":     cobra.NoFileCompletions,
	"module": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{"ko"}, cobra.ShellCompDirectiveFilterFileExt
	},
	"kernel":  cli.CompleteFiles,
	"cpu":     cli.CompleteWords([]string{kernelfile.DefaultCPU, "baseline", "host"}),
	"symbols": cli.CompleteFiles,
	"gdb": func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return cli.Beginning([]string{"127.0.0.1:", "[::1]:", "unix:"}, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	},
	"attach": cli.CompleteDirs,
	"keep":   cli.CompleteDirs,
	"at":     cli.CompleteDirs,
}

// completeConfig completes a line of --config. A number follows NR_CPUS=.
func completeConfig(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	how := cobra.ShellCompDirectiveNoFileComp
	lines := cli.Beginning(kprobefs.ConfigLines(), begun)
	if len(lines) == 1 && strings.HasSuffix(lines[0], "=") {
		how |= cobra.ShellCompDirectiveNoSpace
	}
	return lines, how
}

// panicStatus is the exit status of exec and mount when the emulated kernel has
// panicked and was not rebooted, whatever the command's status is. Shells, env(1),
// timeout(1), xargs(1) and sysexits.h use other numbers.
const panicStatus = 119

// errPanicked is returned after the panic has been reported.
var errPanicked = &cli.ExitError{Err: errors.New("the emulated kernel has panicked"), Said: true, Status: panicStatus << 8}

// ownStatus is the exit status of exec when it fails itself, before CMD has started, as in
// env(1), timeout(1) and nohup(1), and in docker run.
const ownStatus = 125

// ownFailure gives an error of exec itself its status. What has one already keeps it: the
// command's, or what tells of a command that cannot be executed, of a panic or of a wrong usage.
func ownFailure(err error) error {
	var e *cli.ExitError
	var u *cli.UsageError
	switch {
	case err == nil, errors.As(err, &u), errors.As(err, &e) && e.Status != 0:
		return err
	case e != nil:
		return &cli.ExitError{Err: e.Err, Said: e.Said, Status: ownStatus << 8}
	}
	return &cli.ExitError{Err: err, Status: ownStatus << 8}
}
