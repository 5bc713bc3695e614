package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/supervise"
)

// checkNested fails with EBUSY below another exec. A process can have one supervisor only
// (seccomp(2)): the outer one would answer calls of an inner command for its own kernel,
// while the command sees the files of another one.
func checkNested() error {
	if unix.Mount("none", "/", supervise.SupervisedType, 0, "") != nil {
		return nil
	}
	return fmt.Errorf("this is below 'kprobefs exec' already, which cannot be nested: run CMD as it is; for a second kernel 'kprobefs mount' its tree: %w", unix.EBUSY)
}

// lingerCommand allows the calls of processes that have outlived their supervisor. Its descriptor 3 is the
// filter's listener, and 4, if it has one, the memory with the calls that the supervisor has not answered.
func lingerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "linger",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			memory := os.NewFile(4, "pending")
			if _, err := memory.Stat(); err != nil {
				memory = nil
			}
			supervise.AllowAll(3, memory)
		},
	}
}

// supervisedCommand is the process that becomes the command. Its descriptor 3
// is the way to the supervisor.
func (p *program) supervisedCommand() *cobra.Command {
	var kernel supervise.Identity
	uname, quiet, plain := "", false, false
	c := &cobra.Command{
		Use:    "supervised FILE -- ARGV...",
		Hidden: true,
		Args:   cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			unix.CloseOnExec(3)
			kernel.Hosts = uname == supervise.UnameHost
			if err := supervise.FilterSelf(kernel, quiet, plain); err != nil {
				p.log.WithField("err", err).Debug("no supervisor")
			}
			_ = unix.Close(3)
			err := syscall.Exec(args[0], args[1:], os.Environ())
			if errors.Is(err, syscall.ENOENT) && hostview.Exists(args[0]) {
				err = errors.New("its interpreter does not exist")
			}
			return cannotRun(fmt.Errorf("%s: %w", args[0], err))
		},
	}
	c.Flags().StringVar(&uname, "uname", "", "")
	c.Flags().BoolVar(&quiet, "quiet", false, "")
	c.Flags().BoolVar(&plain, "plain", false, "")
	return c
}
