// Package viewers has the commands that are about a mounted tree, and do with its files what any program can: list, text,
// trace, top, graph and tour show what is in them, insmod, rmmod, lsmod and dmesg do what the tools of these names do below exec, and
// mounted finds the trees.
package viewers

import "github.com/spf13/cobra"

// Commands returns the commands. needProc fails where no /proc is mounted.
func Commands(needProc func() error) []*cobra.Command {
	return []*cobra.Command{
		listCommand(), textCommand(), traceCommand(), topCommand(), graphCommand(), tourCommand(),
		insmodCommand(), rmmodCommand(), lsmodCommand(), dmesgCommand(), mountedCommand(needProc),
	}
}
