package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/exec/space"
)

// panicStatus is the exit status of exec and mount when the emulated kernel has
// panicked and was not rebooted, whatever the command's status is. Shells, env(1),
// timeout(1), xargs(1) and sysexits.h use other numbers.
const panicStatus = 119

// The actions when the emulated kernel panics.
const (
	panicStop   = "stop"
	panicReboot = "reboot"
)

var panicWords = []string{panicStop, panicReboot}

// errPanicked is returned after the panic has been reported.
var errPanicked = &cli.ExitError{Err: errors.New("the emulated kernel has panicked"), Said: true, Status: panicStatus << 8}

// served is what a mount serves: a machine, and after a panic another one.
type served struct {
	boot    bootFunc
	options bootOptions
	log     *logrus.Logger
	reboots bool // after a panic

	gdb      nowRunning
	sys      system
	page     *pageServer // nil if no page is asked for
	tree     *fs.Tree
	parts    []string // NAME=DIR
	mounts   []*fs.Mount
	panicked bool // and was not rebooted
}

// died is closed when the machine has died, unless that has been handled.
func (s *served) died() <-chan struct{} {
	if s.panicked {
		return nil
	}
	return s.sys.Died()
}

// hasDied reports whether died is closed.
func (s *served) hasDied() bool {
	select {
	case <-s.died():
		return true
	default:
		return false
	}
}

// afterPanic reports a panic and takes the configured action. Files that do not need
// the machine stay usable.
func (s *served) afterPanic() {
	words := s.sys.PanicLog()
	next := "its log and machine/ can be read, all else is EIO; --panic=reboot would boot it again"
	if s.reboots {
		next = "it is booted again, without its probes, events, buffers and modules"
	}
	s.log.Errorf("the emulated kernel has panicked; %s", next)
	for _, line := range words {
		s.log.Error(line)
	}
	s.sys.Halt()
	if s.reboots {
		err := s.reboot()
		if err == nil {
			return
		}
		s.log.WithField("err", err).Error("the emulated kernel does not boot again")
	}
	s.panicked = true
}

// reboot boots a new machine for the files.
func (s *served) reboot() error {
	next, err := s.boot(s.options)
	if err != nil {
		return err
	}
	rows, err := s.rootRows(next)
	if err != nil {
		return errors.Join(err, next.Close())
	}
	roots := map[*fs.Mount]*seqfile.Row{}
	for i, m := range s.mounts {
		roots[m] = rows[i]
	}
	s.tree.Replace(next.Guest(), roots)
	s.tree.Record(next.Writes())
	s.watchEntries(next)
	old := s.sys
	s.sys = next
	s.gdb.use(next)
	if err := s.page.show(next); err != nil {
		s.log.WithField("err", err).Error("the page")
	}
	go func() { _ = old.Retire() }()
	return nil
}

// mount mounts the tree at dir, and its parts.
func (s *served) mount(dir string, options []string) error {
	s.tree = fs.New(s.sys.Guest(), s.log)
	s.tree.Record(s.sys.Writes())
	s.options.Calls.Tree.Store(s.tree)
	s.tree.Bound(s.options.Limit)
	s.watchEntries(s.sys)
	rows, err := s.rootRows(s.sys)
	if err != nil {
		return err
	}
	for i, row := range rows {
		o := fs.MountOptions{Options: options}
		if i > 0 {
			o.Source, dir, _ = strings.Cut(s.parts[i-1], "=")
		}
		m, err := s.tree.Mount(row, dir, o)
		if err != nil {
			return err
		}
		s.mounts = append(s.mounts, m)
	}
	return nil
}

// watchEntries tells the tree which files of the machine's guest have gone.
func (s *served) watchEntries(sys system) {
	if k, ok := sys.(interface {
		WatchEntries(tell func(gone []string))
	}); ok {
		k.WatchEntries(s.tree.Gone)
	}
}

// close stops the machine.
func (s *served) close() {
	if s.tree != nil {
		s.tree.End()
	}
	closeInTime(s.sys)
}

// rootRows returns the roots of the mount, which is the whole tree, and of its parts.
func (s *served) rootRows(sys system) ([]*seqfile.Row, error) {
	files := sys.Tree()
	tree := s.options.Calls.WithAttach(files,
		func(machine []*seqfile.Row) []*seqfile.Row { return space.WithStandIn(machine, files) },
		func(machine []*seqfile.Row) []*seqfile.Row { return space.WithConfig(machine, s.options.configured()) })
	rows := []*seqfile.Row{{Mode: 0o755, Kind: seqfile.Ours, Dir: tree}}
	for _, part := range s.parts {
		name, _, _ := strings.Cut(part, "=")
		row, err := partRow(tree, name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// parsePanic parses the value of --panic.
func parsePanic(word string) (reboots bool, err error) {
	switch word {
	case "", panicStop:
		return false, nil
	case panicReboot:
		return true, nil
	}
	return false, fmt.Errorf("--panic %q: the values are %s", word, strings.Join(panicWords, " and "))
}
