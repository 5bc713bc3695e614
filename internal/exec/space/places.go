package space

import (
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
)

// A module may make files in /dev, /sys and /proc while the command runs. Like the files
// that are there from the start they are mounted at their usual places: the directory is
// covered with a tmpfs that has what was there, and the new name (namespace.need). That
// is done only when the first module comes, and before its insmod returns.
//
// /proc itself cannot be covered, since processes come and go in it: supervise/procnames.go.

// Places are the entries that are at their usual places.
type Places struct {
	Ns   *Namespace
	list func() ([]wire.Entry, error) // of all entries

	mu     sync.Mutex
	placed map[string]wire.Entry // by the path that was mounted, or created
	hidden map[string]bool       // paths that the host has, too

	paths atomic.Pointer[[]string]        // of placed
	names atomic.Pointer[map[string]bool] // in /proc, where nothing can be placed
}

// NewPlaces returns the places of a namespace, at which nothing is yet.
func NewPlaces(ns *Namespace, list func() ([]wire.Entry, error)) *Places {
	p := &Places{Ns: ns, list: list, placed: map[string]wire.Entry{}, hidden: map[string]bool{}}
	names := p.missing()
	p.names.Store(&names)
	return p
}

// missing returns the files of the tree that the host's /proc lacks, such as modules.
func (p *Places) missing() map[string]bool {
	names := map[string]bool{}
	for _, b := range binds {
		if filepath.Dir(b.to) == hostview.ProcDir && !hostview.Exists(b.to) && hostview.Exists(filepath.Join(p.Ns.Tree, b.from)) {
			names[b.to] = true
		}
	}
	return names
}

// Sync puts the present entries at their places, and removes those that have gone.
func (p *Places) Sync() {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, err := p.list()
	if err != nil {
		return // the server has gone
	}
	want := map[string]wire.Entry{}
	for _, e := range list {
		want[e.Path] = e
	}
	for at, e := range p.placed {
		if want[e.Path] != e {
			p.remove(at)
		}
	}
	names := p.missing()
	for _, e := range list {
		if top, ok := topOfProc(e.Path); ok && !hostview.Exists(top) {
			names[top] = true
		} else if err := p.place(e); err != nil {
			p.Ns.Log.WithFields(logrus.Fields{"file": e.Path, "err": err}).Info("not at its usual place")
		}
	}
	paths := slices.Sorted(maps.Keys(p.placed))
	p.paths.Store(&paths)
	p.names.Store(&names)
}

// topOfProc returns the name in /proc that a path begins with, and whether it does.
func topOfProc(at string) (string, bool) {
	rest, ok := strings.CutPrefix(at, hostview.ProcDir+"/")
	name, _, _ := strings.Cut(rest, "/")
	return hostview.ProcDir + "/" + name, ok
}

// AnyInProc reports whether modules have made names in /proc itself.
func (p *Places) AnyInProc() bool {
	names := p.names.Load()
	return names != nil && len(*names) > 0
}

// InProc reports whether a path begins with such a name.
func (p *Places) InProc(at string) bool {
	top, ok := topOfProc(at)
	return ok && (*p.names.Load())[top]
}

// place makes an entry, or the first directory on its way that the host lacks, visible.
func (p *Places) place(e wire.Entry) error {
	dir := "/"
	parts := strings.Split(strings.TrimPrefix(e.Path, "/"), "/")
	for i, name := range parts {
		at, last := path.Join(dir, name), i == len(parts)-1
		if _, there := p.placed[at]; there {
			return nil
		}
		if !hostview.Exists(at) {
			return p.add(at, dir, e, last)
		}
		if last && !e.Dir {
			return p.hide(at, e)
		}
		dir = at
	}
	return nil
}

// add covers a directory, unless it is covered, and adds the name at to it.
func (p *Places) add(at, dir string, e wire.Entry, last bool) error {
	if dir == "/" || dir == hostview.ProcDir {
		return errors.ErrUnsupported
	}
	if err := p.cover(dir); err != nil {
		return err
	}
	link := last && e.Link != ""
	err := p.Ns.change(dir, func() error {
		if link {
			return os.Symlink(e.Link, at)
		}
		return makePlace(at, e.Dir || !last)
	})
	if err != nil {
		return err
	}
	p.placed[at] = e
	if link {
		return nil
	}
	return p.bind(at)
}

// hide mounts a file over one of the host's.
func (p *Places) hide(at string, e wire.Entry) error {
	if e.Link != "" {
		return unix.EEXIST
	}
	p.placed[at], p.hidden[at] = e, true
	return p.bind(at)
}

func (p *Places) bind(at string) error {
	return unix.Mount(filepath.Join(p.Ns.Tree, InTree(at)), at, "", unix.MS_BIND, "")
}

// cover covers a directory with a tmpfs, unless it is covered.
func (p *Places) cover(dir string) error {
	if p.Ns.hasCovered(dir) {
		return nil
	}
	staging, held, err := TempDir()
	if err != nil {
		return err
	}
	defer held.Close()
	defer os.Remove(staging)
	return p.Ns.coverWith(staging, dir)
}

// remove removes a name that was placed.
func (p *Places) remove(at string) {
	e := p.placed[at]
	delete(p.placed, at)
	if e.Link == "" || at != e.Path {
		_ = unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	if p.hidden[at] {
		delete(p.hidden, at)
		return
	}
	if err := p.Ns.change(filepath.Dir(at), func() error { return os.Remove(at) }); err != nil {
		p.Ns.Log.WithFields(logrus.Fields{"file": at, "err": err}).Debug("not removed")
	}
}

// Dirs returns the paths of what was placed.
func (p *Places) Dirs() []string {
	if all := p.paths.Load(); all != nil {
		return *all
	}
	return nil
}

// Follow calls sync when entries have changed.
func (p *Places) Follow(changed <-chan struct{}) {
	for range changed {
		p.Sync()
	}
}
