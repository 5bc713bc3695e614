// Package guestfs shows the files that guest code has made in its own filesystems, such
// as modules make in debugfs, proc, sysfs and /dev.
package guestfs

import (
	"context"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Source has the entries: a *kernel.Entries.
type Source interface {
	In(dir string) []*kernel.Entry
	At(path string) *kernel.Entry
}

// Files makes rows of a Source's entries.
type Files struct {
	Source Source
	// Open opens the file with a path for those who make no system calls.
	Open func(path string) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error)
}

// Dir is a directory with rows of its own, and the entries that guest code has made at
// a path.
type Dir struct {
	files *Files
	at    string
	own   func() []*seqfile.Row // may be nil
}

var (
	_ seqfile.Dir    = (*Dir)(nil)
	_ seqfile.Finder = (*Dir)(nil)
)

// Over returns the directory at a path of the guest: own rows, which may be nil, and the
// entries there.
func (f *Files) Over(at string, own func() []*seqfile.Row) *Dir {
	return &Dir{files: f, at: at, own: own}
}

// Rows returns the own rows, then the entries in the order of creation. An entry with the
// name of an own row is left out.
func (d *Dir) Rows() []*seqfile.Row {
	var rows []*seqfile.Row
	if d.own != nil {
		rows = slices.Clone(d.own())
	}
	named := make(map[string]bool, len(rows))
	for _, r := range rows {
		named[r.Name] = true
	}
	for _, e := range d.files.Source.In(d.at) {
		if !named[e.Name()] {
			rows = append(rows, d.files.Row(e))
		}
	}
	return rows
}

// Find returns the row with a name, or nil.
func (d *Dir) Find(name string) *seqfile.Row {
	if d.own != nil {
		if r := seqfile.Find(seqfile.Table(d.own()), name); r != nil {
			return r
		}
	}
	if e := d.files.Source.At(d.at + "/" + name); e != nil {
		return d.files.Row(e)
	}
	return nil
}

// Row is an entry as a row. A device is shown as a regular file: the host's kernel would
// open its own device in place of ours.
func (f *Files) Row(e *kernel.Entry) *seqfile.Row {
	r := &seqfile.Row{Name: e.Name(), Mode: e.Mode & 0o7777, UID: e.UID, GID: e.GID, Kind: kindOf(e.Path), At: e.Path, Gen: e.Ino, Size: e.Size}
	switch e.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		r.Dir, r.Size = f.Over(e.Path, nil), 0
	case syscall.S_IFLNK:
		r.Link = e.Link
	default:
		r.Guest, r.FOps = true, abi.FOpsGuest
		if f.Open != nil {
			r.Open = f.Open(e.Path)
		}
	}
	return r
}

// kindOf returns the filesystem of a path.
func kindOf(path string) seqfile.Kind {
	for _, k := range []struct {
		at   string
		kind seqfile.Kind
	}{
		{"/sys/kernel/debug/", seqfile.Debugfs},
		{"/sys/", seqfile.Sysfs},
		{"/proc/sys/", seqfile.ProcSys},
		{"/proc/", seqfile.Proc},
		{"/dev/", seqfile.Devtmpfs},
	} {
		if strings.HasPrefix(path, k.at) {
			return k.kind
		}
	}
	return seqfile.Inherit
}
