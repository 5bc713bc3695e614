package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs/fs"
)

// CommandArgs converts the arguments that the program was called with to the ones of our
// commands; args[0] is the name under which it was called.
func CommandArgs(root *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if IsHelper(args) {
		return HelperArgs(args[1:])
	}
	return MountArgs(root, args[1:])
}

// IsHelper reports whether mount(8) calls the program as a helper.
func IsHelper(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"mount.kprobefs", "mount.fuse.kprobefs"}, filepath.Base(args[0]))
}

// HelperArgs converts the arguments that mount(8) passes to its helpers, `SOURCE MNT
// [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE.SUBTYPE]`, to the mount command's.
func HelperArgs(args []string) ([]string, error) {
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
			// -n: there is no mtab; -s: unknown options are refused nevertheless.
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

// MountArgs converts the arguments that mount(8) passes through mount.fuse3,
// `SOURCE MNT -o OPTIONS` or `MNT -o OPTIONS`, to the mount command's. There
// always are options. Arguments without them, or whose last one is not a directory, are a
// misspelt command, and must not mount anything.
func MountArgs(root *cobra.Command, args []string) ([]string, error) {
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
			return args, nil
		default:
			dirs = append(dirs, a)
		}
	}
	if len(dirs) == 0 || len(dirs) > 2 || slices.Contains(names, dirs[0]) || len(flags) == 0 {
		return args, nil
	}
	dir := dirs[len(dirs)-1]
	if err := fs.MountPlace(dir); err != nil {
		why := fmt.Sprintf("unknown command %q", dirs[0])
		if _, _, unknown := root.Find(dirs[:1]); unknown != nil { // cobra finds the root for some words, such as a line feed
			why = strings.TrimSpace(unknown.Error())
		}
		return nil, fmt.Errorf("%s\n\nNor can this be mount(8)'s [SOURCE] MNT -o OPTIONS: %w", why, err)
	}
	return append(append([]string{"mount", "--daemon"}, flags...), dir), nil
}
