package main

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

	"github.com/kprobefs/kprobefs/kernel"
)

// A module may make files in /dev, /sys and /proc while the command runs. Like the files
// that are there from the start they are mounted at their usual places: the directory is
// covered with a tmpfs that has what was there, and the new name (namespace.need). That
// is done only when the first module comes, and before its insmod returns.
//
// /proc itself cannot be covered, since processes come and go in it: procnames.go.

// madeEntry is a file, directory or symbolic link of a module.
type madeEntry struct {
	Path string // in the guest, where the command looks for it
	Dir  bool
	Link string // target of a symbolic link
	Ino  uint64 // differs between an entry and a later one with its path
}

// elsewhere are the directories whose files are at their places anyway.
var elsewhere = []string{debugfsDir, tracefsDir, "/sys/module"}

// madeEntries returns those of the entries that are not there from the start.
func madeEntries(all []*kernel.Entry) []madeEntry {
	list := []madeEntry{}
	for _, e := range all {
		if !e.AtBoot && !below(e.Path, elsewhere) {
			list = append(list, madeEntry{e.Path, e.Mode&unix.S_IFMT == unix.S_IFDIR, e.Link, e.Ino})
		}
	}
	return list
}

// inTree returns the path below the tree of an entry's path.
func inTree(at string) string {
	return strings.TrimPrefix(at, "/") // the tree's dev, proc and sys stand for those of the root
}

// places are the entries that are at their usual places.
type places struct {
	ns   *namespace
	list func() ([]madeEntry, error) // of all entries

	mu     sync.Mutex
	placed map[string]madeEntry // by the path that was mounted, or created
	hidden map[string]bool      // paths that the host has, too

	paths atomic.Pointer[[]string]        // those of placed
	names atomic.Pointer[map[string]bool] // in /proc, where nothing can be placed
}

func newPlaces(ns *namespace, list func() ([]madeEntry, error)) *places {
	p := &places{ns: ns, list: list, placed: map[string]madeEntry{}, hidden: map[string]bool{}}
	names := p.missing()
	p.names.Store(&names)
	return p
}

// missing returns the files of the tree that the host's /proc lacks, such as modules.
func (p *places) missing() map[string]bool {
	names := map[string]bool{}
	for _, b := range binds {
		if filepath.Dir(b.to) == procDir && !exists(b.to) && exists(filepath.Join(p.ns.tree, b.from)) {
			names[b.to] = true
		}
	}
	return names
}

// sync puts the present entries at their places, and removes those that have gone.
func (p *places) sync() {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, err := p.list()
	if err != nil {
		return // the server has gone
	}
	want := map[string]madeEntry{}
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
		if top, ok := topOfProc(e.Path); ok && !exists(top) {
			names[top] = true
		} else if err := p.place(e); err != nil {
			p.ns.log.WithFields(logrus.Fields{"file": e.Path, "err": err}).Info("not at its usual place")
		}
	}
	paths := slices.Sorted(maps.Keys(p.placed))
	p.paths.Store(&paths)
	p.names.Store(&names)
}

// topOfProc returns the name in /proc that a path begins with, and whether it does.
func topOfProc(at string) (string, bool) {
	rest, ok := strings.CutPrefix(at, procDir+"/")
	name, _, _ := strings.Cut(rest, "/")
	return procDir + "/" + name, ok
}

// anyInProc reports whether modules have made names in /proc itself.
func (p *places) anyInProc() bool {
	names := p.names.Load()
	return names != nil && len(*names) > 0
}

// inProc reports whether a path begins with such a name.
func (p *places) inProc(at string) bool {
	top, ok := topOfProc(at)
	return ok && (*p.names.Load())[top]
}

// place makes an entry, or the first directory on its way that the host lacks, visible.
func (p *places) place(e madeEntry) error {
	dir := "/"
	parts := strings.Split(strings.TrimPrefix(e.Path, "/"), "/")
	for i, name := range parts {
		at, last := path.Join(dir, name), i == len(parts)-1
		if _, there := p.placed[at]; there {
			return nil
		}
		if !exists(at) {
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
func (p *places) add(at, dir string, e madeEntry, last bool) error {
	if dir == "/" || dir == procDir {
		return errors.ErrUnsupported
	}
	if err := p.cover(dir); err != nil {
		return err
	}
	link := last && e.Link != ""
	err := p.ns.change(dir, func() error {
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
func (p *places) hide(at string, e madeEntry) error {
	if e.Link != "" {
		return unix.EEXIST
	}
	p.placed[at], p.hidden[at] = e, true
	return p.bind(at)
}

func (p *places) bind(at string) error {
	return unix.Mount(filepath.Join(p.ns.tree, inTree(at)), at, "", unix.MS_BIND, "")
}

// cover covers a directory with a tmpfs, unless it is covered.
func (p *places) cover(dir string) error {
	if p.ns.hasCovered(dir) {
		return nil
	}
	staging, held, err := tempDir()
	if err != nil {
		return err
	}
	defer held.Close()
	defer os.Remove(staging)
	return p.ns.coverWith(staging, dir)
}

// remove removes a name that was placed.
func (p *places) remove(at string) {
	e := p.placed[at]
	delete(p.placed, at)
	if e.Link == "" || at != e.Path {
		_ = unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	if p.hidden[at] {
		delete(p.hidden, at)
		return
	}
	if err := p.ns.change(filepath.Dir(at), func() error { return os.Remove(at) }); err != nil {
		p.ns.log.WithFields(logrus.Fields{"file": at, "err": err}).Debug("not removed")
	}
}

// dirs returns the paths of what was placed.
func (p *places) dirs() []string {
	if all := p.paths.Load(); all != nil {
		return *all
	}
	return nil
}

// follow calls sync when entries have changed.
func (p *places) follow(changed <-chan struct{}) {
	for range changed {
		p.sync()
	}
}
