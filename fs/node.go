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

// node is an inode. All mounts of a Tree share it, so that a chmod through one
// face is seen through the others.
type node struct {
	id     uint64 // FUSE's number and st_ino
	key    *seqfile.Row
	parent *node // nil: a root
	kind   seqfile.Kind
	at     string // where it stands in the guest
	others bool   // everybody may read what is in it, as far as its owner may

	// Guarded by inodes.mu.
	children map[string]*node
	refs     uint64 // look-ups that the host's kernel holds, over all mounts
	gone     bool   // its row has left the directory

	posix, flock locks.File  // guarded by the Tree's locks
	locked       atomic.Bool // there have been locks in posix

	mu       sync.Mutex
	row      *seqfile.Row // the newest: dynamic directories make rows anew
	mode     uint32
	uid, gid uint32
	size     uint64 // what truncate(2) left in st_size; reads do not care
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

// nlink is 1 for files, for directories of /proc/sys and where the row says so, 2 and the number of
// directories inside for others.
func (n *node) nlink() uint32 {
	row := n.rowNow()
	if !row.IsDir() || n.kind == seqfile.ProcSys || row.OneLink {
		return 1
	}
	links := uint32(2)
	for _, r := range row.Dir.Rows() {
		if r.IsDir() {
			links++
		}
	}
	return links
}

// attr fills in what stat(2) shows.
func (n *node) attr(a *fuse.Attr) {
	links := n.nlink()
	n.mu.Lock()
	defer n.mu.Unlock()
	*a = fuse.Attr{
		Ino:     n.id,
		Mode:    n.key.FileMode()&syscall.S_IFMT | n.mode,
		Nlink:   links,
		Size:    n.size,
		Owner:   fuse.Owner{Uid: n.uid, Gid: n.gid},
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
	mu    sync.Mutex
	next  uint64
	byID  map[uint64]*node
	byRow map[*seqfile.Row]*node
}

func newInodes() *inodes {
	// 1 is FUSE's name for whatever a mount has at its root.
	return &inodes{next: 2, byID: map[uint64]*node{}, byRow: map[*seqfile.Row]*node{}}
}

func (t *inodes) get(id uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// root gives the node of a row that is mounted, and numbers what is below it in
// the order of creation, as debugfs does: a directory, then what is in it.
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
	table, ok := n.key.Dir.(seqfile.Table)
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
	now := time.Now()
	n := &node{
		id: t.next, key: row, row: row, parent: parent,
		kind: row.Kind, at: row.At, others: row.OthersRead,
		mode: row.Mode, uid: row.UID, gid: row.GID,
		atime: now, mtime: now, ctime: now,
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
		if parent.others && !row.IsDir() {
			n.mode |= row.Mode & 0o400 >> 6
		}
	} else if n.at == "" {
		n.at = "/"
	}
	t.next++
	t.byID[n.id], t.byRow[row] = n, n
	return n
}

// child gives the node of one of dir's rows; mu is held.
func (t *inodes) child(dir *node, row *seqfile.Row) *node {
	c := dir.children[row.Name]
	if c != nil && (c.key == row || c.key.Gen == row.Gen && c.isDir() == row.IsDir()) {
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

// drop takes a node out of its directory; mu is held. It lives on while the
// host's kernel knows it.
func (t *inodes) drop(dir, c *node) {
	delete(dir.children, c.key.Name)
	delete(t.byRow, c.key)
	c.gone = true
	for _, cc := range c.children {
		t.drop(c, cc)
	}
	t.release(c)
}

// release forgets a node that nobody needs; mu is held.
func (t *inodes) release(n *node) {
	if n.gone && n.refs == 0 {
		delete(t.byID, n.id)
	}
}

// lookup finds a name in a directory as it is now, nil: none. It counts as a
// reference of the host's kernel.
func (t *inodes) lookup(dir *node, name string) *node {
	row := seqfile.Find(dir.rowNow().Dir, name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if row == nil {
		if c := dir.children[name]; c != nil {
			t.drop(dir, c)
		}
		return nil
	}
	c := t.child(dir, row)
	c.refs++
	return c
}

func (t *inodes) forget(id, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.byID[id]; c != nil {
		c.refs -= min(n, c.refs)
		t.release(c)
	}
}

// list gives a directory's nodes as they are now. Of rows with the same name the first
// is found by it, and stands there again for each of the others.
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
