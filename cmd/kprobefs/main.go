// Command kprobefs mounts the files that Linux's kprobes show to user space,
// with an emulated kernel behind them.
//
//	kprobefs mount MNT        serve the tree at MNT
//	kprobefs exec -- CMD      run CMD with the files in their usual places
//	kprobefs umount MNT       take the tree away
//	kprobefs check            tell what this machine lacks for that
//
// It is also what `mount -t fuse.kprobefs none MNT -o OPTIONS` calls, and, under
// the name mount.kprobefs, what `mount -t kprobefs none MNT -o OPTIONS` calls.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	sys "github.com/kprobefs/kprobefs/cmd/kprobefs/system"
)

// The main goroutine keeps the main thread: a parent-death signal comes when the
// thread ends that started the child, and signals to the process go to the main
// thread first, so that it must not wait for our own files (see untilSignal).
func init() { runtime.LockOSThread() }

func main() {
	os.Exit(run(os.Args, boot))
}

// run is the program, with its name as args[0]: it returns the exit status.
func run(args []string, boot bootFunc) int {
	p := &program{boot: boot, log: newLog()}
	root := p.command()
	args, err := commandArgs(root, args)
	if err == nil {
		root.SetArgs(args)
		err = root.Execute()
	}
	var e *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.exit()
	}
	fmt.Fprintln(os.Stderr, "kprobefs:", err)
	return 1
}

// program is what the commands share.
type program struct {
	boot bootFunc
	log  *logrus.Logger
	logging
}

const longHelp = `kprobefs shows the control files of Linux's kprobes in any directory, on any
machine: no CONFIG_KPROBES, no virtual machine, no root where a user namespace
can be had. Behind the files runs an emulated x86-64 kernel: probes are set in
its text and are hit by its work, and every access to the files is a system call
of that kernel. It does not trace the kernel of this machine.

  kprobefs exec -- sh
      A shell that finds /sys/kernel/debug/kprobes, /sys/kernel/tracing,
      /proc/sys/debug/kprobes-optimization, /proc/kallsyms and /dev/kmsg of the
      emulated kernel in their usual places. Nothing else on the machine sees them.

  kprobefs mount /mnt
      The same files below /mnt, for everybody, until ^C or 'kprobefs umount /mnt':
      kprobes/  tracing/  sys/  proc/  dev/  machine/

  echo p:mine vfs_read > tracing/kprobe_events
  echo 1 > tracing/events/kprobes/mine/enable
  cat kprobes/list
      What you do with them is what you do on Linux. machine/ has what Linux has
      not: the live text of each function, the state of each probe, calls to any
      function.`

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "kprobefs",
		Short:         "Linux's kprobes files, with an emulated kernel behind them",
		Long:          longHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return p.logging.apply(p.log)
		},
	}
	p.logging.flags(root)
	root.AddCommand(p.mountCommand(), p.execCommand(), umountCommand(), checkCommand(), mountedCommand(), versionCommand(),
		p.insideCommand(), p.supervisedCommand(), lingerCommand(), watchCommand(), tryCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell what program this is and what kernel it emulates",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), versionText())
		},
	}
}

func versionText() string {
	return fmt.Sprintf("%s (%s %s/%s)\nemulates Linux %s, x86_64\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		strings.Join(sys.ReleaseNames(), ", "))
}

// programVersion names this program as its build does.
func programVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return "kprobefs " + info.Main.Version
	}
	return "kprobefs"
}
