// Command kprobefs mounts the files by which Linux shows kprobes to user space, served by
// an emulated kernel.
//
//	kprobefs mount MNT        serve the tree at MNT
//	kprobefs exec -- CMD      run CMD with the files in their usual places
//	kprobefs umount MNT       unmount the tree
//	kprobefs insmod FILE      load a kernel module; rmmod, lsmod, dmesg
//	kprobefs check            report what this machine lacks for that
//
// `mount -t fuse.kprobefs none MNT -o OPTIONS` also calls it and, under the name
// mount.kprobefs, so does `mount -t kprobefs none MNT -o OPTIONS`.
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

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/boot"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/kernelfile"
	"github.com/kprobefs/kprobefs/internal/viewers"
)

// The main goroutine keeps the main thread, for two reasons: a parent-death signal is
// sent when the thread that started the child ends, and signals to the process go to the
// main thread first, so it must not wait for our own files (see untilSignal).
func init() { runtime.LockOSThread() }

func main() {
	os.Exit(run(os.Args, boot.Machine))
}

// run is the whole program, with its name as args[0]. It returns the exit status.
func run(args []string, machine boot.Func) int {
	p := &program{boot: machine, log: newLog()}
	root := p.command()
	called, err := cli.CommandArgs(root, args)
	if err == nil {
		root.SetArgs(called)
		err = root.Execute()
	}
	var e *cli.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Exit()
	}
	fmt.Fprintln(os.Stderr, "kprobefs:", strings.TrimSpace(err.Error()))
	var u *cli.UsageError
	switch {
	case !errors.As(err, &u):
		if p.started {
			return 1
		}
	case u.Usage != "":
		fmt.Fprint(os.Stderr, "\n", u.Usage)
	}
	if cli.IsHelper(args) {
		return 1 // mount(8): an incorrect invocation; 2 is a system error
	}
	return cli.UsageStatus
}

// program holds what the commands share.
type program struct {
	boot    boot.Func
	log     *logrus.Logger
	started bool // a command's arguments are right, and it does its work
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
      function.

Each flag has an environment variable with its default, whose name is KPROBEFS_ and
the flag's in capital letters: KPROBEFS_RELEASE=5.10, KPROBEFS_LOG_LEVEL=info. A flag
that can be given several times takes a value from each line of its variable.`

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "kprobefs",
		Short:         "Linux's kprobes files, with an emulated kernel behind them",
		Long:          longHelp,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			p.started = true
			if !internal(c) {
				if err := errors.Join(cli.CheckEmpty(c), cli.FromEnvironment(c)); err != nil {
					return err
				}
			}
			err := p.logging.apply(p.log)
			if c.Name() == "exec" {
				err = ownFailure(err)
			}
			return err
		},
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(cli.WithUsage)
	p.logging.flags(root)
	root.AddCommand(viewers.Commands(needProc)...)
	root.AddCommand(p.mountCommand(), p.execCommand(), p.headersCommand(), umountCommand(), checkCommand(),
		kernelfile.Why(), kernelfile.Call(), p.replayCommand(), snapshotCommand(), versionCommand(),
		p.insideCommand(), p.supervisedCommand(), lingerCommand(), watchCommand(), tryCommand())
	for _, c := range root.Commands() {
		if takes := c.Args; takes != nil {
			c.Args = func(c *cobra.Command, args []string) error { return cli.WithUsage(c, takes(c, args)) }
		}
	}
	cli.CompleteFlags(root, completions)
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of the program and the kernels that it emulates",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), versionText())
		},
	}
}

// Of what Linux's documents of kprobes name, these architectures are not emulated, and
// these options cannot be switched off.
const (
	otherArchitectures = "i386, ppc64, sparc64, ia64, arm, ppc, mips, s390, parisc, loongarch"
	fixedOptions       = "CONFIG_KPROBES, CONFIG_MODULES, CONFIG_MODULE_UNLOAD, CONFIG_KALLSYMS"
)

func versionText() string {
	return fmt.Sprintf(`%s (%s %s/%s)
emulates Linux %s, x86_64
does not emulate %s
has %s always on; --config changes %s
`, programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		strings.Join(kprobefs.ReleaseNames(), ", "), otherArchitectures, fixedOptions, strings.Join(kprobefs.ConfigNames(), ", "))
}

// version is what the linker is told (-X main.version=v1.2.3) where the sources do not have
// git's records, or "".
var version string

// programVersion returns this program's name and version, as recorded in the build.
func programVersion() string {
	if version != "" {
		return "kprobefs " + version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return "kprobefs " + info.Main.Version
	}
	return "kprobefs"
}
