package space

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Nothing can be created in /proc/sys/kernel, and a host without the stack tracer lacks one of
// our files there. On such a host exec mounts a directory of ours over it, which refuses what
// Linux's refuses: it has our files, and for each other name of the host's an empty one, over
// which exec mounts the host's.

const (
	// kernelKnobs is the directory.
	kernelKnobs = "/proc/sys/kernel"
	// standIn is the name of ours in machine/.
	standIn = "proc-sys-kernel"
)

// Knobs says which files below /proc/sys are ours.
type Knobs struct {
	ours    []string
	covered bool // kernelKnobs itself is a directory of ours
}

// Hosts reports whether a path below /proc/sys is one of the host's files, and its mode as
// view.modeOf does. It does not go through our directory: that would be a request.
func (k Knobs) Hosts(path string) (mode uint64, yes bool) {
	if !hostview.Below(path, []string{"/proc/sys"}) || hostview.Below(path, k.ours) || k.covered && path == kernelKnobs {
		return 0, false
	}
	rest, in := strings.CutPrefix(path, kernelKnobs+"/")
	if !k.covered || !in {
		return hostview.View{}.ModeOf(path, false), true
	}
	name, _, deeper := strings.Cut(rest, "/")
	for _, e := range hostNames() {
		switch {
		case e.Name() != name:
		case !e.IsDir():
			return unix.S_IFREG | 0o644, true
		case !deeper:
			return unix.S_IFDIR | 0o555, true
		}
	}
	if deeper {
		return unix.S_IFREG | 0o644, true
	}
	return abi.CallModeNone, true
}

// hostNames are the entries of the host's directory. The first call must come before it is
// covered.
var hostNames = sync.OnceValue(func() []os.DirEntry {
	entries, err := os.ReadDir(kernelKnobs)
	if err != nil {
		return nil
	}
	return entries
})

// lacksKnob reports whether the host's directory lacks one of the names. It does not look
// there, where a directory of this process may be by now.
func lacksKnob(names []string) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(hostNames(), func(e os.DirEntry) bool { return e.Name() == name })
	}
	return slices.ContainsFunc(names, func(n string) bool { return !has(n) })
}

// WithStandIn adds our directory to those in machine/, if the host lacks one of the files of
// the tree's sys/kernel.
func WithStandIn(machine []*seqfile.Row, tree seqfile.Dir) []*seqfile.Row {
	sys := seqfile.Find(tree, "sys")
	if sys == nil {
		return machine
	}
	ours := seqfile.Find(sys.Dir, "kernel")
	if ours == nil {
		return machine
	}
	rows := seqfile.Table{}
	var names []string
	for _, r := range ours.Dir.Rows() {
		if !r.IsDir() { // directories belong to modules, in /sys/kernel
			rows = append(rows, r)
			names = append(names, r.Name)
		}
	}
	if !lacksKnob(names) {
		return machine
	}
	for _, e := range hostNames() {
		if slices.Contains(names, e.Name()) {
			continue
		}
		r := &seqfile.Row{Name: e.Name(), Mode: 0o555, Dir: seqfile.Table{}}
		if !e.IsDir() {
			r.Mode, r.Dir, r.Open = 0o444, nil, openStandIn
		}
		rows = append(rows, r)
	}
	return append(machine, &seqfile.Row{Name: standIn, Mode: 0o555, Kind: seqfile.ProcSys, At: kernelKnobs, Dir: rows})
}

// openStandIn is the open of a name over which nothing is mounted.
func openStandIn(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return nil, fmt.Errorf("only exec makes a file of this: %w", unix.ENOENT)
}

// coverKnobs mounts our directory over the host's, if the tree has one.
func (ns *Namespace) coverKnobs() error {
	ours := filepath.Join(ns.Tree, "machine", standIn)
	if !hostview.Exists(ours) {
		return nil
	}
	var theirs []string
	for _, e := range hostNames() {
		if !hostview.Exists(filepath.Join(ns.Tree, "sys/kernel", e.Name())) {
			theirs = append(theirs, e.Name())
		}
	}
	if err := unix.Mount(ours, ns.Staging, "", unix.MS_BIND, ""); err != nil { // may hide ns.tree
		return fmt.Errorf("%s: %w", ours, err)
	}
	for _, name := range theirs {
		from := filepath.Join(kernelKnobs, name)
		if err := unix.Mount(from, filepath.Join(ns.Staging, name), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			ns.Log.WithField("file", from).WithError(err).Debug("left out")
		}
	}
	return ns.putOver(ns.Staging, kernelKnobs)
}

// InTree returns the path below the tree of an entry's path.
func InTree(at string) string {
	return strings.TrimPrefix(at, "/") // the tree's dev, proc and sys stand for the root's
}
