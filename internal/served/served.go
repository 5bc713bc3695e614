// Package served is what a mount serves: a machine, its files, and gdb.
package served

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/boot"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/space"
)

// Machine is what a mount serves: a machine, and after a panic another one.
type Machine struct {
	Boot    boot.Func
	Options boot.Options
	Log     *logrus.Logger
	Reboots bool                    // after a panic
	Parts   []string                // NAME=DIR, the parts of the tree that are mounted as well
	Show    func(boot.System) error // has the page show another machine

	GDB      Running
	Sys      boot.System // the machine that runs
	Mounts   []*fs.Mount // the mount of the tree, then the mounts of Parts
	Panicked bool        // and was not rebooted

	tree *fs.Tree
}

// closeGrace bounds the time in which the machine must stop.
const closeGrace = time.Second

// Died is closed when the machine has died, unless that has been handled.
func (m *Machine) Died() <-chan struct{} {
	if m.Panicked {
		return nil
	}
	return m.Sys.Died()
}

// HasDied reports whether Died is closed.
func (m *Machine) HasDied() bool {
	select {
	case <-m.Died():
		return true
	default:
		return false
	}
}

// AfterPanic reports a panic and takes the configured action. Files that do not need
// the machine stay usable.
func (m *Machine) AfterPanic() {
	words := m.Sys.PanicLog()
	next := "its log and machine/ can be read, all else is EIO; --panic=reboot would boot it again"
	if m.Reboots {
		next = "it is booted again, without its probes, events, buffers and modules"
	}
	m.Log.Errorf("the emulated kernel has panicked; %s", next)
	for _, line := range words {
		m.Log.Error(line)
	}
	m.Sys.Halt()
	if m.Reboots {
		err := m.reboot()
		if err == nil {
			return
		}
		m.Log.WithField("err", err).Error("the emulated kernel does not boot again")
	}
	m.Panicked = true
}

// reboot boots a new machine for the files.
func (m *Machine) reboot() error {
	next, err := m.Boot(m.Options)
	if err != nil {
		return err
	}
	rows, err := m.rootRows(next)
	if err != nil {
		return errors.Join(err, next.Close())
	}
	roots := map[*fs.Mount]*seqfile.Row{}
	for i, at := range m.Mounts {
		roots[at] = rows[i]
	}
	m.tree.Replace(next.Guest(), roots)
	m.tree.Record(next.Writes())
	m.watchEntries(next)
	old := m.Sys
	m.Sys = next
	m.GDB.Use(next)
	if err := m.Show(next); err != nil {
		m.Log.WithField("err", err).Error("the page")
	}
	go func() { _ = old.Retire() }()
	return nil
}

// Mount mounts the tree at dir, and its parts.
func (m *Machine) Mount(dir string, options []string) error {
	m.tree = fs.New(m.Sys.Guest(), m.Log)
	m.tree.Record(m.Sys.Writes())
	m.Options.Calls.Tree.Store(m.tree)
	m.tree.Bound(m.Options.Limit)
	m.watchEntries(m.Sys)
	rows, err := m.rootRows(m.Sys)
	if err != nil {
		return err
	}
	for i, row := range rows {
		o := fs.MountOptions{Options: options}
		if i > 0 {
			o.Source, dir, _ = strings.Cut(m.Parts[i-1], "=")
		}
		mounted, err := m.tree.Mount(row, dir, o)
		if err != nil {
			return err
		}
		m.Mounts = append(m.Mounts, mounted)
	}
	return nil
}

// watchEntries tells the tree which files of the machine's guest have gone.
func (m *Machine) watchEntries(sys boot.System) {
	if k, ok := sys.(interface {
		WatchEntries(tell func(gone []string))
	}); ok {
		k.WatchEntries(m.tree.Gone)
	}
}

// Close stops the machine.
func (m *Machine) Close() {
	if m.tree != nil {
		m.tree.End()
	}
	closeInTime(m.Sys)
}

// rootRows returns the roots of the mount, which is the whole tree, and of its parts.
func (m *Machine) rootRows(sys boot.System) ([]*seqfile.Row, error) {
	files := sys.Tree()
	tree := m.Options.Calls.WithAttach(files,
		func(machine []*seqfile.Row) []*seqfile.Row { return space.WithStandIn(machine, files) },
		func(machine []*seqfile.Row) []*seqfile.Row { return space.WithConfig(machine, m.Options.Configured()) })
	rows := []*seqfile.Row{{Mode: 0o755, Kind: seqfile.Ours, Dir: tree}}
	for _, part := range m.Parts {
		name, _, _ := strings.Cut(part, "=")
		row, err := partRow(tree, name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// closeInTime stops the machine, whose files may still be read. If that takes too long, the
// process exits anyway.
func closeInTime(s boot.System) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Retire()
	}()
	select {
	case <-done:
	case <-time.After(closeGrace):
	}
}

// partRow returns the root of a part: debugfs with kprobes, tracing and the files of
// modules, or tracing alone as a tracefs.
func partRow(tree seqfile.Dir, name string) (*seqfile.Row, error) {
	tracing := seqfile.Find(tree, "tracing")
	switch {
	case name == "debugfs":
		if debugfs := seqfile.Find(tree, "debugfs"); debugfs != nil {
			return debugfs, nil
		}
		return &seqfile.Row{Mode: 0o700, Kind: seqfile.Debugfs, At: hostview.DebugfsDir, Dir: some(tree, "kprobes", "tracing")}, nil
	case name == "tracefs" && tracing != nil:
		return tracing, nil
	}
	return nil, fmt.Errorf("unknown part %q; the parts are debugfs and tracefs", name)
}

// some returns the rows with these names.
func some(tree seqfile.Dir, names ...string) seqfile.Table {
	var table seqfile.Table
	for _, n := range names {
		if r := seqfile.Find(tree, n); r != nil {
			table = append(table, r)
		}
	}
	return table
}
