package viewers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/look"
)

// The commands insmod, rmmod, lsmod and dmesg do for a mounted tree what the tools of
// these names do below exec. They use the tree's files only.

func insmodCommand() *cobra.Command {
	at := &cli.TreeFlag{}
	c := &cobra.Command{
		Use:   "insmod [--at MNT] FILE [PARAM=VALUE]...",
		Short: "Load a kernel module",
		Long: `Load the module in FILE into the kernel of a mounted tree, with parameters. If it is
refused, the reason and what the kernel has logged about it go to standard error,
and the exit status is 1. Below 'kprobefs exec', insmod(8) does the same.`,
		Example: `  kprobefs insmod --at /mnt mine.ko symbol=vfs_read`,
		Args:    cobra.MinimumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"ko"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: at.Run(func(_ *cobra.Command, dir string, args []string) error {
			return withLog(dir, args[0], func() error { return insmod(dir, args[0], strings.Join(args[1:], " ")) })
		}),
	}
	at.AddTo(c)
	c.Flags().SetInterspersed(false)
	return c
}

// insmod loads a module by the file machine/insmod.
func insmod(tree, name, args string) error {
	object, err := os.ReadFile(name)
	if err != nil {
		return errors.Unwrap(err)
	}
	if strings.ContainsAny(args, "\n\x00") {
		return fmt.Errorf("the parameters have more than one line: %w", syscall.EINVAL)
	}
	f, err := os.OpenFile(filepath.Join(tree, "machine/insmod"), os.O_WRONLY, 0)
	if err != nil {
		return errors.Unwrap(err)
	}
	if _, err := f.Write(append([]byte(args+"\n"), object...)); err != nil {
		_ = f.Close()
		return errors.Unwrap(err)
	}
	if err := f.Close(); err != nil {
		return errors.Unwrap(err)
	}
	return nil
}

// withLog does something with a module. If that fails, the error has the lines that the
// kernel has logged meanwhile.
func withLog(tree, what string, do func() error) error {
	log, err := look.OpenLog(tree, unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(log)
	if _, err := unix.Seek(log, 0, unix.SEEK_END); err != nil {
		return err
	}
	err = do()
	if err == nil {
		return nil
	}
	var said strings.Builder
	_ = look.ReadLog(log, func(r look.LogRecord) error {
		fmt.Fprintf(&said, "\n  the kernel: %s", r.Text)
		return nil
	})
	return fmt.Errorf("%s: %w%s", what, err, said.String())
}

func rmmodCommand() *cobra.Command {
	at := &cli.TreeFlag{}
	c := &cobra.Command{
		Use:   "rmmod [--at MNT] NAME",
		Short: "Unload a kernel module",
		Long: `Unload a module of the kernel of a mounted tree. If that is refused, the reason and
what the kernel has logged about it go to standard error, and the exit status is 1.`,
		Example: `  kprobefs rmmod --at /mnt mine`,
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return loaded(at, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: at.Run(func(_ *cobra.Command, dir string, args []string) error {
			name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(args[0]), ".ko"), "-", "_")
			return withLog(dir, args[0], func() error { return rmmod(dir, name) })
		}),
	}
	at.AddTo(c)
	return c
}

// rmmod unloads a module by its file in machine/modules.
func rmmod(tree, name string) error {
	err := unix.Unlink(filepath.Join(tree, "machine/modules", name+".ko"))
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("the module is not loaded: %w", err)
	}
	return err
}

// loadedModule is a line of proc/modules.
type loadedModule struct{ name, size, refs, users string }

// loaded returns the names of the modules, as completions.
func loaded(f *cli.TreeFlag, args []string) (names []string) {
	dir, err := f.Find()
	if err != nil || len(args) > 0 {
		return nil
	}
	all, _ := listModules(dir)
	for _, m := range all {
		names = append(names, m.name)
	}
	return names
}

func listModules(tree string) ([]loadedModule, error) {
	b, err := os.ReadFile(filepath.Join(tree, "proc/modules"))
	if err != nil {
		return nil, err
	}
	var all []loadedModule
	for line := range strings.Lines(string(b)) {
		if w := strings.Fields(line); len(w) > 3 {
			all = append(all, loadedModule{w[0], w[1], w[2], strings.Trim(w[3], "-,")})
		}
	}
	return all, nil
}

func lsmodCommand() *cobra.Command {
	at := &cli.TreeFlag{}
	c := &cobra.Command{
		Use:               "lsmod [--at MNT]",
		Short:             "List the kernel modules",
		Long:              `List the modules of the kernel of a mounted tree, as lsmod(8) does.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: at.Run(func(c *cobra.Command, dir string, _ []string) error {
			all, err := listModules(dir)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(c.OutOrStdout())
			fmt.Fprintln(out, "Module                  Size  Used by")
			for _, m := range all {
				fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-19s %8s  %s %s", m.name, m.size, m.refs, m.users), " "))
			}
			return out.Flush()
		}),
	}
	at.AddTo(c)
	return c
}

func dmesgCommand() *cobra.Command {
	at, follow := &cli.TreeFlag{}, false
	c := &cobra.Command{
		Use:   "dmesg [--at MNT] [-w]",
		Short: "Show the kernel's log",
		Long: `Show the log of the kernel of a mounted tree, also after a panic. With --follow wait
for more.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: at.Run(func(c *cobra.Command, dir string, _ []string) error {
			flags := unix.O_NONBLOCK
			if follow {
				flags = 0
			}
			log, err := look.OpenLog(dir, flags)
			if err != nil {
				return err
			}
			defer unix.Close(log)
			return look.ReadLog(log, func(r look.LogRecord) error { return printRecord(c.OutOrStdout(), r) })
		}),
	}
	at.AddTo(c)
	c.Flags().BoolVarP(&follow, "follow", "w", false, "wait for more")
	return c
}

func printRecord(out io.Writer, r look.LogRecord) error {
	for line := range strings.SplitSeq(r.Text, "\n") {
		if _, err := fmt.Fprintf(out, "[%5d.%06d] %s\n", r.Usec/1e6, r.Usec%1e6, line); err != nil {
			return err
		}
	}
	return nil
}
