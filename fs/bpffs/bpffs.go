// Package bpffs is the file system of the objects of bpf(2): kernel/bpf/inode.c. A file of it keeps a map, a
// program or a link, until it is removed. It is all in memory, and ends with the kernel.
package bpffs

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// At is the path where Linux has it mounted.
const At = "/sys/fs/bpf"

// Modes of what is made.
const (
	modeRoot   = 0o1700 // as systemd mounts it
	modeLink   = 0o777
	modePinned = 0o600
	modeSticky = 0o1777
)

// Config is what the files are about.
type Config struct {
	// Ref takes a reference to an object, and Release gives it back.
	Ref, Release func(object any)
	// Open is open(2) of the file of an object. It fails with EIO for those that have nothing to read.
	Open func(object any, o *seqfile.OpenInfo) (seqfile.File, error)
}

// FS is the file system.
type FS struct {
	Config
	root *Dir

	mu  sync.Mutex // guards all directories
	gen uint64     // files that were made
}

// New returns an empty file system.
func New(c Config) *FS {
	f := &FS{Config: c}
	f.root = &Dir{fs: f}
	return f
}

// Row is its root, under the name bpf.
func (f *FS) Row() *seqfile.Row {
	return &seqfile.Row{Name: "bpf", Mode: modeRoot, Kind: seqfile.BPFFS, At: At, Dir: f.root}
}

// Dir is a directory.
type Dir struct {
	fs   *FS
	gone bool // it was removed
	list []*file
}

var (
	_ seqfile.Finder   = (*Dir)(nil)
	_ seqfile.Counter  = (*Dir)(nil)
	_ seqfile.Unlinker = (*Dir)(nil)
	_ seqfile.Mkdirer  = (*Dir)(nil)
	_ seqfile.Maker    = (*Dir)(nil)
)

// file is a name in a directory.
type file struct {
	row    *seqfile.Row
	object any // nil if it is a directory or a link
}

// Rows implements seqfile.Dir. The newest file is the first, as in other directories in memory.
func (d *Dir) Rows() []*seqfile.Row {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	rows := make([]*seqfile.Row, len(d.list))
	for i, x := range d.list {
		rows[len(rows)-1-i] = x.row
	}
	return rows
}

// Find implements seqfile.Finder.
func (d *Dir) Find(name string) *seqfile.Row {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if i := d.index(name); i >= 0 {
		return d.list[i].row
	}
	return nil
}

// Dirs implements seqfile.Counter.
func (d *Dir) Dirs() (n int) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	for _, x := range d.list {
		if x.row.IsDir() {
			n++
		}
	}
	return n
}

// index returns where a name is, or -1. The caller holds mu.
func (d *Dir) index(name string) int {
	for i, x := range d.list {
		if x.row.Name == name {
			return i
		}
	}
	return -1
}

// Object returns what a file keeps, with a reference, or nil if there is no such file or it keeps nothing.
func (d *Dir) Object(name string) any {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	i := d.index(name)
	if i < 0 || d.list[i].object == nil {
		return nil
	}
	d.fs.Ref(d.list[i].object)
	return d.list[i].object
}

// Pin makes a file of an object, which keeps a reference to it. mask has the bits of the mode that it does not get.
func (d *Dir) Pin(c *seqfile.Caller, name string, mask uint32, object any) error {
	row := &seqfile.Row{Name: name, Mode: modePinned &^ mask, UID: c.UID, GID: c.GID, WithoutGuest: true, FOps: abi.FOpsSeq}
	row.Open = func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) { return d.fs.Open(object, o) }
	if err := d.add(&file{row, object}); err != nil {
		return err
	}
	d.fs.Ref(object)
	return nil
}

// add gives a file its number. It fails with EEXIST, and with ENOENT if the directory was removed.
func (d *Dir) add(x *file) error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	switch {
	case d.gone:
		return fmt.Errorf("%s: its directory is gone: %w", x.row.Name, syscall.ENOENT)
	case d.index(x.row.Name) >= 0:
		return fmt.Errorf("%s: %w", x.row.Name, syscall.EEXIST)
	}
	d.fs.gen++
	row := x.row
	row.Gen = d.fs.gen
	row.Keep = d.fs.keeper(x)
	d.list = append(d.list, x)
	return nil
}

// keeper returns what gives a file another mode and owner.
func (f *FS) keeper(x *file) func(mode, uid, gid uint32) {
	return func(mode, uid, gid uint32) {
		f.mu.Lock()
		defer f.mu.Unlock()
		row := *x.row // who looks at the old row may still have it
		row.Mode, row.UID, row.GID = mode, uid, gid
		x.row = &row
	}
}

// Mkdir implements seqfile.Mkdirer, for those who say no mode.
func (d *Dir) Mkdir(ctx context.Context, name string) error { return d.Make(ctx, name, 0o755, "") }

// Make implements seqfile.Maker.
func (d *Dir) Make(ctx context.Context, name string, mode uint32, target string) error {
	c := seqfile.CallerOf(ctx)
	row := &seqfile.Row{Name: name, Mode: mode & modeSticky, UID: c.UID, GID: c.GID}
	if target != "" {
		row.Mode, row.Link = modeLink, target
	} else {
		row.Dir = &Dir{fs: d.fs}
	}
	return d.add(&file{row: row})
}

// Rmdir implements seqfile.Mkdirer. It fails with ENOTEMPTY.
func (d *Dir) Rmdir(_ context.Context, name string) error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	i := d.index(name)
	if i < 0 {
		return fmt.Errorf("%s: %w", name, syscall.ENOENT)
	}
	sub, ok := d.list[i].row.Dir.(*Dir)
	switch {
	case !ok:
		return fmt.Errorf("%s: %w", name, syscall.ENOTDIR)
	case len(sub.list) > 0:
		return fmt.Errorf("%s: %w", name, syscall.ENOTEMPTY)
	}
	sub.gone = true
	d.remove(i)
	return nil
}

// Unlink implements seqfile.Unlinker. It may end what the file has kept.
func (d *Dir) Unlink(_ context.Context, name string) error {
	d.fs.mu.Lock()
	i := d.index(name)
	var object any
	err := error(nil)
	switch {
	case i < 0:
		err = syscall.ENOENT
	case d.list[i].row.IsDir():
		err = syscall.EISDIR
	default:
		object = d.list[i].object
		d.remove(i)
	}
	d.fs.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if object != nil {
		d.fs.Release(object)
	}
	return nil
}

// remove takes a name out. The caller holds mu.
func (d *Dir) remove(i int) { d.list = append(d.list[:i:i], d.list[i+1:]...) }

// Rename implements seqfile.Maker. It is simple_rename: another file of the new name is removed, and a
// directory only if it is empty. It fails with EINVAL for other flags than RENAME_NOREPLACE.
func (d *Dir) Rename(_ context.Context, name string, into seqfile.Dir, to string, flags uint32) error {
	const noReplace = 1 << 0 // RENAME_NOREPLACE
	dir, ok := into.(*Dir)
	switch {
	case !ok:
		return fmt.Errorf("%s: %w", to, syscall.EXDEV)
	case flags&^noReplace != 0:
		return fmt.Errorf("flags %#x: %w", flags, syscall.EINVAL)
	}
	object, err := d.rename(name, dir, to, flags)
	if err == nil && object != nil {
		d.fs.Release(object)
	}
	return err
}

// rename returns what was kept by a file that has gone.
func (d *Dir) rename(name string, dir *Dir, to string, flags uint32) (object any, err error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	i := d.index(name)
	if i < 0 || dir.gone {
		return nil, fmt.Errorf("%s: %w", name, syscall.ENOENT)
	}
	x := d.list[i]
	if sub, ok := x.row.Dir.(*Dir); ok && sub.has(dir) {
		return nil, fmt.Errorf("%s into itself: %w", name, syscall.EINVAL)
	}
	if k := dir.index(to); k >= 0 {
		old := dir.list[k]
		sub, isDir := old.row.Dir.(*Dir)
		switch {
		case old == x:
			return nil, nil
		case flags != 0:
			return nil, fmt.Errorf("%s: %w", to, syscall.EEXIST)
		case isDir && !x.row.IsDir():
			return nil, fmt.Errorf("%s: %w", to, syscall.EISDIR)
		case !isDir && x.row.IsDir():
			return nil, fmt.Errorf("%s: %w", to, syscall.ENOTDIR)
		case isDir && len(sub.list) > 0:
			return nil, fmt.Errorf("%s: %w", to, syscall.ENOTEMPTY)
		case isDir:
			sub.gone = true
		}
		object = old.object
		dir.remove(k)
	}
	d.remove(d.index(name))
	row := *x.row
	row.Name, x.row = to, &row
	dir.list = append(dir.list, x)
	return object, nil
}

// has reports whether a directory is d or below it. The caller holds mu.
func (d *Dir) has(dir *Dir) bool {
	if d == dir {
		return true
	}
	for _, x := range d.list {
		if sub, ok := x.row.Dir.(*Dir); ok && sub.has(dir) {
			return true
		}
	}
	return false
}
