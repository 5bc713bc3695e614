package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
)

// TreeVar is the environment variable with the mount point of the whole tree.
const TreeVar = "KPROBEFS_MNT"

// TreeFlag is the flag --at.
type TreeFlag struct{ Dir string }

// AddTo adds the flag to a command.
func (f *TreeFlag) AddTo(c *cobra.Command) {
	c.Flags().StringVar(&f.Dir, "at", "", "the directory at which the tree is mounted (default: $"+TreeVar+", or the only one that is mounted)")
	_ = c.MarkFlagDirname("at")
}

// Find returns the directory of the tree.
func (f *TreeFlag) Find() (string, error) {
	dir := f.Dir
	if dir == "" {
		dir = os.Getenv(TreeVar)
	}
	if dir == "" {
		return onlyTree(fs.LiveMounts())
	}
	dir, err := Absolute(dir)
	if err != nil {
		return "", err
	}
	if !fs.Ours(dir) {
		return "", fmt.Errorf("%s: no kprobefs is mounted there; 'kprobefs mounted' lists those that are", dir)
	}
	return dir, nil
}

// Run is the RunE of a command that does something with the tree.
func (f *TreeFlag) Run(do func(c *cobra.Command, tree string, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		dir, err := f.Find()
		if err != nil {
			return err
		}
		return do(c, dir, args)
	}
}

// onlyTree returns the tree among mounts, which may also be parts of trees.
func onlyTree(mounts []string) (string, error) {
	var trees []string
	for _, dir := range mounts {
		if hostview.Exists(filepath.Join(dir, "machine")) {
			trees = append(trees, dir)
		}
	}
	switch len(trees) {
	case 0:
		return "", errors.New("no kprobefs is mounted: 'kprobefs mount DIR' mounts one, and --at DIR names one")
	case 1:
		return trees[0], nil
	}
	return "", fmt.Errorf("several are mounted (%s); name one with --at", strings.Join(trees, ", "))
}
