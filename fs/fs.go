// Package fs serves a tree of seqfile rows through FUSE. It is the only package
// that knows go-fuse.
//
// A Tree holds the inodes; Mount serves one of its directories, and several
// mounts may serve parts of the same Tree (its faces). Each request that Linux
// would see as a system call on a file (OPEN, READ, WRITE, GETATTR, READDIR,
// FLUSH, RELEASE) goes to the Guest as that system call of the caller, and the
// row's File answers when the guest comes to its file operation.
//
// What is unusual here, because the files stand for ones of debugfs, tracefs and
// proc, which have size 0, and clients must find them as on Linux:
//   - look-ups say that a file is large, stat(2) says 0 (see node.enlarge);
//   - a READ by the page cache is refused, so that sendfile(2) and splice(2) fail
//     and programs fall back to read(2), as they do on debugfs;
//   - OPEN carries O_TRUNC, since truncate(2) must not clear what `>` clears;
//   - permissions are checked here, as FUSE's default_permissions undoes the first
//     point, and nothing is cached, or a look-up would go by unchecked.
//
// Locks: inodes.mu, then node.mu; server.writing, server.taking, releases.mu;
// handles.mu, handle.mu, server.mu and the one of the table of advisory locks alone.
package fs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs/fs/locks"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// nameMax is NAME_MAX, bytes.
const nameMax = 255

// Tree is the inodes of all mounts, and the guest behind them.
type Tree struct {
	guest  Guest
	log    *logrus.Logger
	tgids  tgids
	inodes *inodes
	locks  locks.Table

	releases releases
}

// New makes a Tree without mounts. A nil guest takes every request straight to
// its file; a nil log drops what would be logged.
func New(guest Guest, log *logrus.Logger) *Tree {
	if guest == nil {
		guest = direct{}
	}
	if log == nil {
		log = logrus.New()
		log.SetLevel(logrus.PanicLevel)
	}
	return &Tree{guest: guest, log: log, tgids: tgids{known: map[int]tgid{}}, inodes: newInodes()}
}

// face is one mount: a directory of the tree as the root of a filesystem.
type face struct {
	fuse.RawFileSystem // answers ENOSYS to what is not here
	tree               *Tree
	root               *node
	server             *server
	handles            handles
}

var _ fuse.RawFileSystem = (*face)(nil)

func newFace(t *Tree, root *seqfile.Row) *face {
	return &face{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		tree:          t,
		root:          t.inodes.root(root),
		handles:       handles{open: map[uint64]*handle{}},
	}
}

func (f *face) String() string { return "kprobefs" }

// node gives the inode that a request is about.
func (f *face) node(h *fuse.InHeader) *node {
	if h.NodeId == fuse.FUSE_ROOT_ID {
		return f.root
	}
	return f.tree.inodes.get(h.NodeId)
}

// request is a request's context: it ends when the caller gets a signal.
type request struct {
	context.Context
	cancel <-chan struct{}
}

func (r request) Done() <-chan struct{} { return r.cancel }

func (r request) Err() error {
	select {
	case <-r.cancel:
		return context.Canceled
	default:
		return nil
	}
}

// begin finds the inode and the caller of a request, and makes its context, when
// the files are closed that were before it came.
func (f *face) begin(cancel <-chan struct{}, h *fuse.InHeader) (context.Context, *node, *seqfile.Caller, error) {
	f.tree.releases.wait(f, cancel)
	n := f.node(h)
	if n == nil {
		return nil, nil, nil, fmt.Errorf("inode %d: %w", h.NodeId, syscall.ESTALE)
	}
	c := f.tree.caller(h)
	return seqfile.WithCaller(request{context.Background(), cancel}, c), n, c, nil
}

// leaf is the host's part of a call, without the numbers that the guest gives:
// the host's kernel knows the position better (pread, lseek).
type leaf func(ctx context.Context, data []byte, count int) (out []byte, n int, err error)

// do runs a call in the guest.
func (t *Tree) do(ctx context.Context, c *seqfile.Caller, call host.Call, l leaf) (int, []byte, error) {
	ret, out, err := t.guest.Do(ctx, host.Caller{TID: c.TID, PID: c.PID, Comm: c.Comm}, call,
		func(ctx context.Context, _ int, data []byte, count int, _ int64) ([]byte, int64, error) {
			out, n, err := l(ctx, data, count)
			return out, int64(n), t.leafError(err)
		})
	if err != nil {
		return 0, nil, err
	}
	if ret < 0 {
		return 0, nil, clamp(syscall.Errno(-ret))
	}
	return int(ret), out, nil
}

// Lookup is the search of one name; it is no system call.
func (f *face) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	_, dir, c, err := f.begin(cancel, h)
	if err != nil {
		return f.tree.status(err)
	}
	if err := dir.search(c, name); err != nil {
		return f.tree.status(err)
	}
	n := f.tree.inodes.lookup(dir, name)
	if n == nil {
		return fuse.ENOENT
	}
	f.entry(n, out)
	return fuse.OK
}

// search says whether c may look for name in a directory.
func (n *node) search(c *seqfile.Caller, name string) error {
	if !n.isDir() {
		return fmt.Errorf("%s: %w", n.key.Name, syscall.ENOTDIR)
	}
	if err := n.permission(c, mayExec); err != nil {
		return err
	}
	if len(name) > nameMax {
		if n.kind == seqfile.ProcSys || n.kind == seqfile.Proc {
			return fmt.Errorf("%d bytes of name: %w", len(name), syscall.ENOENT)
		}
		return fmt.Errorf("%d bytes of name: %w", len(name), syscall.ENAMETOOLONG)
	}
	return nil
}

func (f *face) entry(n *node, out *fuse.EntryOut) {
	*out = fuse.EntryOut{NodeId: n.id, Generation: 1}
	n.attr(&out.Attr)
	n.large(&out.Attr)
}

// large gives a regular file the size that lets the page cache ask for its
// content.
func (n *node) large(a *fuse.Attr) {
	if n.isDir() {
		return
	}
	a.Size = openSize
	n.mu.Lock()
	n.shrunk = false
	n.mu.Unlock()
}

func (f *face) Forget(id, lookups uint64) { f.tree.inodes.forget(id, lookups) }

// enlarge makes the host's kernel keep a large i_size for n, through a notice
// that one byte was stored far behind. A GETATTR reply of size 0 that follows is
// then taken as older than the inode: stat(2) sees 0, the inode stays large. Each
// notice must lie behind the one before.
func (f *face) enlarge(n *node) {
	n.mu.Lock()
	n.stored++
	off := int64(openSize + n.stored)
	n.shrunk = false
	n.mu.Unlock()
	if f.server == nil { // served to nobody's kernel, as in a test
		return
	}
	// The notice fails if the inode is not cached any more; then nothing is to keep.
	f.server.storeByte(f.fuseID(n), off)
}

func (f *face) fuseID(n *node) uint64 {
	if n == f.root {
		return fuse.FUSE_ROOT_ID
	}
	return n.id
}

func (f *face) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	if in.Flags()&fuse.FUSE_GETATTR_FH != 0 && !n.isDir() {
		return f.tree.status(f.seekEnd(n, in.Fh(), out))
	}
	_, _, err = f.tree.do(ctx, c, n.call(syscall.SYS_NEWFSTATAT),
		func(context.Context, []byte, int) ([]byte, int, error) {
			n.attr(&out.Attr)
			return nil, 0, nil
		})
	if err != nil {
		return f.tree.status(err)
	}
	n.attr(&out.Attr) // also when the guest did not come to its leaf
	if !n.isDir() {
		f.enlarge(n)
	}
	return fuse.OK
}

// seekEnd answers the GETATTR with a file handle, which the host's kernel sends
// for lseek(SEEK_END) alone: fstat(2) comes without one.
func (f *face) seekEnd(n *node, fh uint64, out *fuse.AttrOut) error {
	if h := f.handles.get(fh); h != nil {
		pos, err := h.seek(0, seqfile.SeekEnd)
		if err != nil {
			return err
		}
		n.attr(&out.Attr)
		out.Attr.Size = uint64(pos)
		n.shrink()
		return nil
	}
	n.attr(&out.Attr)
	n.shrink()
	return nil
}

// shrink notes that the host's kernel now believes in a small size.
func (n *node) shrink() {
	n.mu.Lock()
	n.shrunk = true
	n.mu.Unlock()
}

// call begins a guest call that names n's path.
func (n *node) call(nr uint64) host.Call {
	return host.Call{Nr: nr, Path: n.at, Mode: uint64(n.key.FileMode()), FOps: n.rowNow().FOps}
}

func (f *face) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	_, n, c, err := f.begin(cancel, &in.InHeader)
	if err == nil && in.Mask != 0 {
		err = n.permission(c, in.Mask&7)
	}
	return f.tree.status(err)
}

// SetAttr is chmod, chown, truncate and utimens.
func (f *face) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	_, n, c, err := f.begin(cancel, &in.InHeader)
	if err == nil {
		err = n.setattr(c, in)
	}
	if err != nil {
		return f.tree.status(err)
	}
	n.attr(&out.Attr)
	n.large(&out.Attr)
	return fuse.OK
}

func (n *node) setattr(c *seqfile.Caller, in *fuse.SetAttrIn) error {
	if err := n.maySetattr(c, in); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if mode, ok := in.GetMode(); ok {
		n.mode = mode
	}
	if uid, ok := in.GetUID(); ok {
		n.uid = uid
	}
	if gid, ok := in.GetGID(); ok {
		n.gid = gid
	}
	if size, ok := in.GetSize(); ok {
		if n.kind != seqfile.ProcSys && n.kind != seqfile.Proc && n.kind != seqfile.Devtmpfs {
			n.size = size
		}
		n.mtime = time.Now()
	}
	if t, ok := in.GetATime(); ok {
		n.atime = t
	}
	if t, ok := in.GetMTime(); ok {
		n.mtime = t
	}
	n.ctime = time.Now()
	return nil
}

// maySetattr is setattr_prepare, and what a filesystem forbids besides.
func (n *node) maySetattr(c *seqfile.Caller, in *fuse.SetAttrIn) error {
	const modes = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID
	if in.Valid&modes != 0 && n.kind == seqfile.ProcSys {
		return fmt.Errorf("modes of /proc/sys are fixed: %w", syscall.EPERM)
	}
	if in.Valid&modes != 0 && !n.owner(c) {
		return fmt.Errorf("%s: not the owner: %w", n.key.Name, syscall.EPERM)
	}
	if ask := n.rowNow().SetAttr; ask != nil && in.Valid&modes != 0 {
		if err := ask(c); err != nil {
			return err
		}
	}
	if in.Valid&(fuse.FATTR_UID|fuse.FATTR_GID) != 0 && c.UID != 0 {
		return fmt.Errorf("%s: chown: %w", n.key.Name, syscall.EPERM)
	}
	if in.Valid&fuse.FATTR_SIZE != 0 && in.Valid&fuse.FATTR_FH == 0 {
		if err := n.permission(c, mayWrite); err != nil {
			return err
		}
	}
	times := in.Valid & (fuse.FATTR_ATIME | fuse.FATTR_MTIME)
	now := in.Valid & (fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW)
	if times == 0 || in.Valid&fuse.FATTR_SIZE != 0 || n.owner(c) {
		return nil
	}
	if now != 0 {
		return n.permission(c, mayWrite)
	}
	return fmt.Errorf("%s: not the owner: %w", n.key.Name, syscall.EPERM)
}

// OpenDir reads a directory: what is listed is what it held now.
func (f *face) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	h := &handle{tree: f.tree, node: n, caller: c, flags: in.Flags}
	call := n.call(syscall.SYS_OPENAT)
	call.Flags, call.FOps = uint64(in.Flags), abi.FOpsDir
	h.fd, _, err = f.tree.do(ctx, c, call, func(context.Context, []byte, int) ([]byte, int, error) {
		return nil, 0, n.permission(c, mayRead)
	})
	if err != nil {
		return f.tree.status(err)
	}
	out.Fh = f.handles.add(h)
	return fuse.OK
}

func (f *face) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	h := f.handles.get(in.Fh)
	if err != nil || h == nil {
		return f.tree.status(errors.Join(err, syscall.EBADF))
	}
	call := n.call(syscall.SYS_GETDENTS64)
	call.FD, call.Count, call.FOps = h.fd, int(in.Size), abi.FOpsDir
	_, _, err = f.tree.do(ctx, c, call, func(context.Context, []byte, int) ([]byte, int, error) {
		for _, e := range h.entries(f.tree, in.Offset) {
			if !out.AddDirEntry(e) {
				break
			}
		}
		return nil, 0, nil
	})
	return f.tree.status(err)
}

// entries gives what READDIR lists from off on: "." and ".." first, since procps'
// sysctl skips two entries without a look at their names.
func (h *handle) entries(t *Tree, off uint64) []fuse.DirEntry {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dir == nil || off == 0 {
		h.dir = t.entries(h.node)
	}
	if off > uint64(len(h.dir)) {
		return nil
	}
	return h.dir[off:]
}

func (t *Tree) entries(n *node) []fuse.DirEntry {
	up := n.id
	if n.parent != nil {
		up = n.parent.id
	}
	list := []fuse.DirEntry{
		{Name: ".", Ino: n.id, Mode: syscall.S_IFDIR},
		{Name: "..", Ino: up, Mode: syscall.S_IFDIR},
	}
	nodes := t.inodes.list(n)
	switch n.kind {
	case seqfile.Debugfs, seqfile.Tracefs, seqfile.Ours:
		slices.Reverse(nodes) // dcache_readdir: the newest first
	case seqfile.ProcSys:
		slices.SortFunc(nodes, func(a, b *node) int { return strings.Compare(a.key.Name, b.key.Name) })
	default: // as they were made
	}
	for _, c := range nodes {
		list = append(list, fuse.DirEntry{Name: c.key.Name, Ino: c.id, Mode: c.key.FileMode()})
	}
	for i := range list {
		list[i].Off = uint64(i + 1)
	}
	return list
}

func (f *face) ReleaseDir(in *fuse.ReleaseIn) {
	if h := f.handles.remove(in.Fh); h != nil {
		h.release()
	}
}

// FsyncDir does nothing where directories are simple_dir_operations, and is
// unknown to those of proc.
func (f *face) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	if n := f.node(&in.InHeader); n != nil && (n.kind == seqfile.Proc || n.kind == seqfile.ProcSys) {
		return fuse.EINVAL
	}
	return fuse.OK
}

// StatFs is simple_statfs, but for the type, which the host's kernel gives.
func (f *face) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Bsize: blockSize, Frsize: blockSize, NameLen: nameMax}
	return fuse.OK
}

// GetXAttr says each time that there are no extended attributes. After an ENOSYS
// the host's kernel would not ask again, but say ENODATA for the access list.
func (f *face) GetXAttr(<-chan struct{}, *fuse.InHeader, string, []byte) (uint32, fuse.Status) {
	return 0, fuse.Status(syscall.EOPNOTSUPP)
}

func (f *face) ListXAttr(<-chan struct{}, *fuse.InHeader, []byte) (uint32, fuse.Status) {
	return 0, fuse.OK
}

func (f *face) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.EINVAL }

func (f *face) Fallocate(<-chan struct{}, *fuse.FallocateIn) fuse.Status {
	return fuse.Status(syscall.EOPNOTSUPP)
}

func (f *face) CopyFileRange(<-chan struct{}, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.EXDEV
}

// handles are the open files of a mount.
type handles struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*handle
}

func (t *handles) add(h *handle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.open[t.last] = h
	return t.last
}

func (t *handles) get(fh uint64) *handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[fh]
}

func (t *handles) remove(fh uint64) *handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.open[fh]
	delete(t.open, fh)
	return h
}

// any says whether a file is open.
func (t *handles) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open) > 0
}

// all gives what is open, for the end of a mount.
func (t *handles) all() []*handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*handle, 0, len(t.open))
	for _, h := range t.open {
		list = append(list, h)
	}
	clear(t.open)
	return list
}
