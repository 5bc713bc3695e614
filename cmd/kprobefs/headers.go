package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/boot"
)

// headersCommand writes the directory that modules are built in.
func (p *program) headersCommand() *cobra.Command {
	name := ""
	c := &cobra.Command{
		Use:   "headers [flags] DIR",
		Short: "Write what kernel modules are built with",
		Long: `Write the emulated kernel's headers and a build directory of its modules to DIR,
which is created. An ordinary Makefile of a module (obj-m += mine.o) builds with it:

  make -C DIR M=$PWD modules

Files that are there are replaced. It takes gcc 10 or newer, make 4.2 or newer and
binutils. Below 'kprobefs exec' the same directory is /lib/modules/$(uname -r)/build.`,
		Example: `  kprobefs headers ~/build
  kprobefs headers --release 5.10 /tmp/build-5.10`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := kprobefs.ParseRelease(name)
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if strings.ContainsAny(dir, " \t\n:#$%") {
				return fmt.Errorf("%s: make cannot build in a directory whose name has such characters", dir)
			}
			if err := r.WriteHeaders(dir); err != nil {
				return err
			}
			for _, t := range missingTools() {
				fmt.Fprintln(c.ErrOrStderr(), "kprobefs:", t)
			}
			return nil
		},
	}
	boot.ChooseRelease(c.Flags(), &name, "the Linux release to build for: ")
	return c
}

// buildTools are the programs that modules are built with, and Debian's packages that
// have them.
var buildTools = []struct{ program, pkg string }{{"make", "make"}, {"gcc", "gcc"}, {"ld", "binutils"}, {"nm", "binutils"}}

// missingTools returns a line for each program that is missing.
func missingTools() []string {
	var list []string
	for _, t := range buildTools {
		if _, err := exec.LookPath(t.program); err != nil {
			list = append(list, fmt.Sprintf("modules are built with %s, which is not installed: apt-get install %s", t.program, t.pkg))
		}
	}
	return list
}
