package kernel

import (
	"encoding/binary"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Entry is a file, a directory or a symbolic link that guest code has made in one of its
// filesystems, such as a module's file in debugfs.
type Entry struct {
	Path     string // absolute, in the guest
	Mode     uint32 // S_IFMT and permissions
	UID, GID uint32
	Ino      uint64 // differs between an entry and a later one with its path
	Size     uint64 // st_size, bytes
	Link     string // target of a symbolic link
	AtBoot   bool   // the kernel has made it before its boot was over
}

// Name is the last part of the path.
func (e *Entry) Name() string { return path.Base(e.Path) }

// maxEntries is how many entries guest code may show. It has memory for more, but
// nobody looks at them.
const maxEntries = 1 << 16

// Entries are the names that guest code has made since the machine has booted.
type Entries struct {
	mu sync.Mutex
	of map[string]*Entry   // by path
	in map[string][]*Entry // by the path of the directory, in the order of creation

	watchers []*watcher
}

// watcher is told that entries have changed. Its fields are guarded by Entries.mu.
type watcher struct {
	tell   func(gone []string)
	gone   []string
	more   bool // there is something to tell
	behind bool // a goroutine tells
}

func newEntries() *Entries {
	return &Entries{of: map[string]*Entry{}, in: map[string][]*Entry{}}
}

// In returns the entries of a directory, in the order of creation.
func (t *Entries) In(dir string) []*Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.in[dir])
}

// At returns the entry with a path, or nil.
func (t *Entries) At(path string) *Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[path]
}

// All returns all entries, directories before what is in them.
func (t *Entries) All() []*Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Entry, 0, len(t.of))
	for _, e := range t.of {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *Entry) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// Watch has tell called when entries have come or gone, in a goroutine, with the paths
// of those that have gone since the last call. The calls do not overlap.
func (t *Entries) Watch(tell func(gone []string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, &watcher{tell: tell})
}

// changed notes a change for the watchers; gone is the path of an entry that has gone, or
// "". mu is held.
func (t *Entries) changed(gone string) {
	for _, w := range t.watchers {
		if gone != "" {
			w.gone = append(w.gone, gone)
		}
		w.more = true
		if !w.behind {
			w.behind = true
			go t.catchUp(w)
		}
	}
}

// catchUp tells a watcher about changes until it knows all.
func (t *Entries) catchUp(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for w.more {
		gone := w.gone
		w.gone, w.more = nil, false
		t.mu.Unlock()
		w.tell(gone)
		t.mu.Lock()
	}
	w.behind = false
}

func (t *Entries) add(e *Entry) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.of) >= maxEntries {
		return syscall.ENOSPC
	}
	t.remove(e.Path)
	t.put(e)
	return nil
}

// put needs mu.
func (t *Entries) put(e *Entry) {
	dir := path.Dir(e.Path)
	t.of[e.Path] = e
	t.in[dir] = append(t.in[dir], e)
	t.changed("")
}

// remove removes an entry and all that is below it; mu is held.
func (t *Entries) remove(name string) {
	for _, e := range slices.Clone(t.in[name]) {
		t.remove(e.Path)
	}
	e := t.of[name]
	if e == nil {
		return
	}
	delete(t.of, name)
	dir := path.Dir(name)
	t.in[dir] = slices.DeleteFunc(t.in[dir], func(o *Entry) bool { return o == e })
	if len(t.in[dir]) == 0 {
		delete(t.in, dir)
	}
	t.changed(name)
}

// move gives an entry and all that is below it another path.
func (t *Entries) move(from, to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.below(from, nil)
	t.remove(from)
	t.remove(to)
	for _, e := range all {
		moved := *e
		moved.Path = to + strings.TrimPrefix(e.Path, from)
		t.put(&moved)
	}
}

// below adds an entry and all that is below it to list, directories first; mu is held.
func (t *Entries) below(name string, list []*Entry) []*Entry {
	if e := t.of[name]; e != nil {
		list = append(list, e)
	}
	for _, e := range t.in[name] {
		list = t.below(e.Path, list)
	}
	return list
}

// Entries are the names that guest code has made.
func (m *Machine) Entries() *Entries { return m.entries }

// shownAtBoot reports whether a name that the kernel has made while it booted is shown:
// what the files of modules refer to, their places of pr_debug, and the disk. All later ones are.
func shownAtBoot(name string) bool {
	return name == "/dev/vda" || name == "/proc/devices" || name == "/proc/misc" || name == "/sys/devices/virtual" || name == "/sys/dev/char" ||
		strings.HasPrefix(name, "/sys/class/") || strings.HasPrefix(name, "/sys/devices/virtual/") ||
		strings.HasPrefix(name, "/sys/bus/") || strings.HasPrefix(name+"/", "/sys/devices/platform/") ||
		strings.HasPrefix(name+"/", "/sys/kernel/debug/dynamic_debug/")
}

// hcEntry tells Entries about a name.
func (v *vcpu) hcEntry(addr, _, _ uint64) int64 {
	var b [abi.EntryLen]byte
	if v.m.mem.ReadAt(addr, b[:]) != nil {
		return -int64(syscall.EFAULT)
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	name, err := v.text(word(abi.EntryPath), word(abi.EntryPathLen))
	if err != nil || !path.IsAbs(name) || path.Clean(name) != name {
		return -int64(syscall.EINVAL)
	}
	atBoot := false
	select {
	case <-v.m.booted:
	default:
		if !shownAtBoot(name) {
			return 0
		}
		atBoot = true
	}
	link, err := v.text(word(abi.EntryLink), word(abi.EntryLinkLen))
	if err != nil {
		return -int64(syscall.EFAULT)
	}
	t := v.m.entries
	switch word(abi.EntryOp) {
	case abi.EntryAdd:
		err = t.add(&Entry{
			Path: name, Mode: uint32(word(abi.EntryMode)), UID: uint32(word(abi.EntryUID)), GID: uint32(word(abi.EntryGID)),
			Ino: word(abi.EntryIno), Size: word(abi.EntrySize), Link: link, AtBoot: atBoot,
		})
	case abi.EntryRemove:
		t.mu.Lock()
		t.remove(name)
		t.mu.Unlock()
	case abi.EntryMove:
		t.move(link, name)
	}
	if err != nil {
		return -int64(syscall.ENOSPC)
	}
	return 0
}
