package fs

import (
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kprobefs/kprobefs/fs/locks"
	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// Blocks of stat(2), bytes.
const (
	procBlockSize = 1024
	blockSize     = 4096
)

// openSize is the size that a look-up gives regular files. The page cache must
// believe in something to read: with 0, sendfile(2) returns 0 and busybox' cat
// prints nothing, where Linux answers EINVAL and cat falls back to read(2).
const openSize = 1 << 30

// pagedSize is the same for files that are spliced: what has been read of them in all may
// not exceed it.
const pagedSize = 1 << 60

// node is an inode. All mounts of a Tree share it, so that a chmod through one is
// seen through the others.
type node struct {
	id               uint64       // st_ino, and FUSE's number unless it is paged
	key              *seqfile.Row // its row's name, type, mode and Gen, which do not change
	parent           *node        // nil for a root
	kind             seqfile.Kind
	at               string // path in the guest
	paged            bool   // seqfile.Row.Paged
	others           bool   // all users may read the files in it that the owner may read
	rootUser         owner  // user of the host that is the guest's root
	usableAfterPanic bool   // seqfile.Row.UsableAfterPanic

	// Guarded by inodes.mu.
	added    *seqfile.Row // its key in byRow
	children map[string]*node
	refs     uint64 // look-ups that the host's kernel holds, over all mounts
	gone     bool   // its row has left the directory

	posix, flock locks.File  // guarded by the Tree's locks
	locked       atomic.Bool // posix has been used

	mu       sync.Mutex
	row      *seqfile.Row // the newest one: dynamic directories make new rows
	mode     uint32
	uid, gid uint32 // as the guest has them
	maker    owner  // to whom what is made below belongs, in eventfs
	size     uint64 // st_size, as set by truncate(2); reads do not depend on it
	atime    time.Time
	mtime    time.Time
	ctime    time.Time
	stored   uint64 // store notifications so far
	shrunk   bool   // the host's kernel has a small i_size in its inode
}

func (n *node) rowNow() *seqfile.Row {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.row
}

func (n *node) isDir() bool { return n.key.IsDir() }

// nlink is st_nlink: 1 for files, for directories of /proc/sys and where the row says
// so, else 2 plus the number of subdirectories.
func (n *node) nlink() uint32 {
	row := n.rowNow()
	if !row.IsDir() || n.kind == seqfile.ProcSys || row.Eventfs {
		return 1
	}
	return 2 + uint32(seqfile.Dirs(row.Dir))
}

// attr fills in the attributes for stat(2).
func (n *node) attr(a *fuse.Attr) {
	links := n.nlink()
	n.mu.Lock()
	defer n.mu.Unlock()
	*a = fuse.Attr{
		Ino:     n.id,
		Mode:    n.key.FileMode()&syscall.S_IFMT | n.mode,
		Nlink:   links,
		Size:    n.size,
		Owner:   fuse.Owner{Uid: n.rootUser.user(n.uid), Gid: n.rootUser.group(n.gid)},
		Blksize: blockSize,
	}
	if n.kind == seqfile.Proc || n.kind == seqfile.ProcSys {
		a.Blksize = procBlockSize
	}
	a.SetTimes(&n.atime, &n.mtime, &n.ctime)
}

// touch sets mtime and ctime, as a truncating open does.
func (n *node) touch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mtime = time.Now()
	n.ctime = n.mtime
}

// inodes is the table of all nodes.
type inodes struct {
	owner owner

	mu    sync.Mutex
	next  uint64
	byID  map[uint64]*node // a paged node by each number that a look-up has given it
	byRow map[*seqfile.Row]*node

	tracefs Ownership // of files that are made

	// stale is called, in a goroutine of its own, when a directory no longer has a
	// name that the host's kernel knows.
	stale func(dir *node, name string)
}

func newInodes(o owner) *inodes {
	// 1 is FUSE_ROOT_ID, the root of each mount.
	return &inodes{owner: o, next: 2, byID: map[uint64]*node{}, byRow: map[*seqfile.Row]*node{}, stale: func(*node, string) {}}
}

func (t *inodes) get(id uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// root returns the node of a row that is mounted. Nodes below it get their inode
// numbers in the order in which debugfs creates files: a directory, then its content.
func (t *inodes) root(row *seqfile.Row) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byRow[row]
	if n == nil {
		n = t.add(nil, row)
	}
	t.number(n)
	return n
}

func (t *inodes) number(n *node) {
	table, ok := n.rowNow().Dir.(seqfile.Table)
	if !ok {
		return
	}
	for _, r := range table {
		if c := t.child(n, r); c.isDir() {
			t.number(c)
		}
	}
}

// add makes a node; mu is held.
func (t *inodes) add(parent *node, row *seqfile.Row) *node {
	key := &seqfile.Row{Name: row.Name, Mode: row.Mode, Gen: row.Gen, Link: row.Link}
	if row.IsDir() {
		key.Dir = seqfile.Table(nil)
	}
	n := &node{
		id: t.next, key: key, added: row, parent: parent,
		kind: row.Kind, at: row.At, paged: row.Paged, others: row.OthersRead, rootUser: t.owner, usableAfterPanic: row.UsableAfterPanic,
		children: map[string]*node{},
	}
	if parent != nil {
		if n.kind == seqfile.Inherit {
			n.kind = parent.kind
		}
		if n.at == "" {
			n.at = path.Join(parent.at, row.Name)
		}
		n.others = n.others || parent.others
		n.usableAfterPanic = n.usableAfterPanic || row.At == "" && parent.usableAfterPanic
	} else if n.at == "" {
		n.at = "/"
	}
	n.take(row)
	switch {
	case n.kind != seqfile.Tracefs:
	case parent.inherited():
		n.inherit(parent)
	default:
		n.own(t.tracefs)
	}
	t.next++
	t.byID[n.id], t.byRow[row] = n, n
	return n
}

// take sets the node's attributes as a new node for a row has them.
func (n *node) take(row *seqfile.Row) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.row = row
	n.mode, n.uid, n.gid, n.size = row.Mode, row.UID, row.GID, row.Size
	n.maker = owner{n.uid, n.gid}
	if n.parent != nil && n.parent.others && !row.IsDir() {
		n.mode |= row.Mode & 0o400 >> 6
	}
	n.atime, n.mtime, n.ctime = now, now, now
}

// setOwnership sets the owners and modes that mount options say.
func (t *inodes) setOwnership(kind seqfile.Kind, o Ownership) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := Ownership{}
	if kind == seqfile.Tracefs {
		if o.GID != nil {
			all.GID, t.tracefs.GID = o.GID, o.GID
		}
		if o.UID != nil && o.EveryUID {
			all.UID, t.tracefs.UID = o.UID, o.UID
		}
	}
	for _, n := range t.byID {
		switch {
		case n.kind != kind:
		case n.at == "/sys/kernel/debug" || n.at == "/sys/kernel/tracing" || n.at == "/sys/fs/bpf":
			n.own(o)
		default:
			n.own(all)
		}
	}
}

// own gives a node its owner and mode.
func (n *node) own(o Ownership) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if o.UID != nil {
		n.uid, n.maker.uid = *o.UID, *o.UID
	}
	if o.GID != nil {
		n.gid, n.maker.gid = *o.GID, *o.GID
	}
	if o.Mode != nil {
		n.mode = *o.Mode
	}
}

// inherit gives a new node of tracefs its owner, its directory's. A node is made when it
// is first looked up, its file may be older: made has been called before the directory's owner
// was changed.
func (n *node) inherit(dir *node) {
	dir.mu.Lock()
	of := owner{dir.uid, dir.gid}
	if dir.row.Eventfs {
		of = dir.maker
	}
	dir.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.uid, n.gid, n.maker = of.uid, of.gid, of
}

// inherited reports whether n is a directory of tracefs whose owner new files in it get. The
// uppermost one is not: its files are as old as the file system.
func (n *node) inherited() bool {
	return n != nil && n.isDir() && n.kind == seqfile.Tracefs && n.parent != nil && n.parent.kind == seqfile.Tracefs
}

// made makes the nodes of all files that are below a directory of tracefs now, so that they
// keep their owners when the directory's changes.
func (t *inodes) made(dir *node) {
	if !dir.inherited() || dir.rowNow().Eventfs {
		return
	}
	for _, n := range t.list(dir) {
		t.made(n)
	}
}

// standsFor reports whether a row with the node's name is the same file.
func (n *node) standsFor(row *seqfile.Row) bool {
	return n.key.Gen == row.Gen && n.isDir() == row.IsDir() && n.key.Link == row.Link
}

// child returns the node of one of dir's rows; mu is held.
func (t *inodes) child(dir *node, row *seqfile.Row) *node {
	c := dir.children[row.Name]
	if c != nil && c.standsFor(row) {
		c.mu.Lock()
		c.row = row
		c.mu.Unlock()
		return c
	}
	if c != nil {
		t.drop(dir, c)
	}
	if c = t.byRow[row]; c == nil {
		c = t.add(dir, row)
	}
	dir.children[row.Name] = c
	return c
}

// drop takes a node out of its directory, and has the host's kernel forget it. The
// node stays until the kernel does. mu is held.
func (t *inodes) drop(dir, c *node) {
	if c.refs > 0 {
		go t.stale(dir, c.key.Name)
	}
	t.remove(dir, c)
}

// remove takes a node and all that is below it out of the tree; mu is held.
func (t *inodes) remove(dir, c *node) {
	delete(dir.children, c.key.Name)
	delete(t.byRow, c.added)
	c.gone = true
	for _, cc := range c.children {
		t.remove(c, cc)
	}
	t.release(c)
}

// release forgets a node that is gone and has no references; mu is held.
func (t *inodes) release(n *node) {
	if n.gone && n.refs == 0 {
		delete(t.byID, n.id)
	}
}

// lookup returns the node of a name in a directory, or nil, and FUSE's number of it. The
// node gets a reference of the host's kernel.
//
// The number of a paged node is a new one each time, which makes it another inode for the
// host's kernel: what splice(2) has read stays in the page cache, and another open file
// must not find it there.
func (t *inodes) lookup(dir *node, name string) (n *node, id uint64) {
	row := seqfile.Find(dir.rowNow().Dir, name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if row == nil {
		if c := dir.children[name]; c != nil {
			t.drop(dir, c)
		}
		return nil, 0
	}
	c := t.child(dir, row)
	c.refs++
	if !c.paged {
		return c, c.id
	}
	id = t.next
	t.next++
	t.byID[id] = c
	return c, id
}

func (t *inodes) forget(id, n uint64) {
	if c := t.unref(id, n); c != nil {
		t.dropStale(c.parent, c.key.Name)
	}
}

// unref drops n references of the host's kernel. It returns the node if these were the
// last ones and its row may have left the directory.
func (t *inodes) unref(id, n uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byID[id]
	if c == nil {
		return nil
	}
	c.refs -= min(n, c.refs)
	if id != c.id {
		delete(t.byID, id)
	}
	t.release(c)
	if c.refs > 0 || c.gone || c.parent == nil {
		return nil
	}
	if _, fixed := c.parent.rowNow().Dir.(seqfile.Table); fixed {
		return nil
	}
	return c
}

// dropStale drops the node of a name that its directory no longer has.
func (t *inodes) dropStale(dir *node, name string) {
	c := t.known(dir, name)
	if c == nil || seqfile.Find(dir.rowNow().Dir, name) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir.children[name] == c {
		t.drop(dir, c)
	}
}

// goneFrom drops the nodes of names that guest code has removed, given by their paths in the
// guest.
func (t *inodes) goneFrom(paths []string) {
	set := make(map[string]bool, len(paths))
	for _, p := range paths {
		set[p] = true
	}
	var nodes []*node
	t.mu.Lock()
	for _, n := range t.byID {
		if n.parent != nil && !n.gone && set[n.at] {
			nodes = append(nodes, n)
		}
	}
	t.mu.Unlock()
	for _, n := range nodes {
		t.dropStale(n.parent, n.key.Name)
	}
}

// known returns the node of a name that was looked up or listed, or nil.
func (t *inodes) known(dir *node, name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return dir.children[name]
}

// list returns the nodes of a directory. The first of several rows with the same name
// takes the place of the others, since only it can be looked up.
func (t *inodes) list(dir *node) []*node {
	rows := dir.rowNow().Dir.Rows()
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*node, 0, len(rows))
	named := make(map[string]*node, len(rows))
	for _, r := range rows {
		if named[r.Name] == nil {
			named[r.Name] = t.child(dir, r)
		}
		list = append(list, named[r.Name])
	}
	return list
}
