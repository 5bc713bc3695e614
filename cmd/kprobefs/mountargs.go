package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// commandArgs gives the arguments of our commands for those that the program was
// called with; args[0] is the name it was called by.
func commandArgs(root *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	switch filepath.Base(args[0]) {
	case "mount.kprobefs", "mount.fuse.kprobefs":
		return helperArgs(args[1:])
	}
	return mountArgs(root, args[1:]), nil
}

// helperArgs turns those that mount(8) gives its helpers, `SOURCE MNT [-sfnv]
// [-N NAMESPACE] [-o OPTIONS] [-t TYPE.SUBTYPE]`, into those of the mount command.
func helperArgs(args []string) ([]string, error) {
	var dirs, flags []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case (a == "-o" || a == "-t" || a == "-N") && i+1 < len(args):
			if i++; a == "-o" {
				flags = append(flags, "-o", args[i])
			} else if a == "-N" {
				return nil, fmt.Errorf("-N %s: use nsenter(1)", args[i])
			}
		case strings.HasPrefix(a, "-o"):
			flags = append(flags, a)
		case a == "-f":
			flags = append(flags, "--fake")
		case len(a) > 1 && strings.Trim(a, "-nsv") == "":
			// -n: there is no mtab; -s: unknown options are refused all the same.
		case strings.HasPrefix(a, "-"):
			return nil, fmt.Errorf("unknown flag %q; mount.kprobefs takes SOURCE MNT [-o OPTIONS]", a)
		default:
			dirs = append(dirs, a)
		}
	}
	if len(dirs) != 2 {
		return nil, fmt.Errorf("mount.kprobefs takes SOURCE MNT [-o OPTIONS], not %q", args)
	}
	return append(append([]string{"mount", "--daemon"}, flags...), dirs[1]), nil
}

// mountArgs turns the arguments that mount(8) passes through mount.fuse3,
// `SOURCE MNT -o OPTIONS` or `MNT -o OPTIONS`, into those of the mount command.
func mountArgs(root *cobra.Command, args []string) []string {
	names := []string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	var dirs, flags []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-o" && i+1 < len(args):
			flags = append(flags, "-o", args[i+1])
			i++
		case strings.HasPrefix(a, "-o"):
			flags = append(flags, a)
		case strings.HasPrefix(a, "-"):
			return args
		default:
			dirs = append(dirs, a)
		}
	}
	if len(dirs) == 0 || len(dirs) > 2 || slices.Contains(names, dirs[0]) || len(dirs) == 1 && len(flags) == 0 {
		return args
	}
	return append(append([]string{"mount", "--daemon"}, flags...), dirs[len(dirs)-1])
}
