// Package fs serves a tree of seqfile rows through FUSE. It is the only package
// that knows go-fuse.
//
// A Tree holds the inodes. Mount serves one of its directories; several mounts may
// serve directories of the same Tree. Each request that is a system call on a file
// (OPEN, READ, WRITE, GETATTR, READDIR, FLUSH, RELEASE) goes to the Guest as that
// system call of the caller. When the guest comes to the file's operation, the row's
// File does it (host.FileOp).
//
// Files of debugfs, tracefs and proc have size 0. For clients to find them as on
// Linux, this filesystem differs from others:
//   - a look-up gives a file a large size, but stat(2) shows 0 (see enlarge);
//   - a READ by the page cache is refused, so that sendfile(2) and splice(2) fail
//     and programs fall back to read(2), as they do on debugfs, except for a file
//     with pages (seqfile.Row.Paged), which the page cache gets one by one;
//   - OPEN carries O_TRUNC, since truncate(2) must not clear what `>` clears;
//   - permissions are checked here, because FUSE's default_permissions would undo the
//     first point, and nothing is cached, because a cached look-up is not checked.
//
// Locks: inodes.mu, then node.mu; server.writing, server.taking, releases.mu;
// handles.mu, handle.mu, turns.mu and the one of the table of advisory locks alone.
package fs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs/fs/locks"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/memcg"
	"github.com/kprobefs/kprobefs/kernel/wait"
)

// nameMax is NAME_MAX, bytes.
const nameMax = 255

// Tree holds the inodes of all mounts, and the guest that their files use.
type Tree struct {
	boot   atomic.Pointer[boot]
	log    *logrus.Logger
	owner  owner
	tgids  tgids
	inodes *inodes
	top    atomic.Pointer[node] // the root of the first mount
	locks  locks.Table
	acting sync.Map     // see ActFor: thread ids by the id of the thread that acts
	actors atomic.Int64 // how many there are

	sequence *Sequence // if requests have an order, else nil
	releases releases
	files    atomic.Int64 // number of open files of all mounts
	limit    *memcg.Limit // nil means no limit
	writes   atomic.Pointer[seqfile.Writes]
}

// New returns a Tree without mounts. With a nil guest, requests go straight to their
// files. With a nil log, nothing is logged.
func New(guest Guest, log *logrus.Logger) *Tree {
	if guest == nil {
		guest = direct{}
	}
	if log == nil {
		log = logrus.New()
		log.SetLevel(logrus.PanicLevel)
	}
	o := mounter()
	t := &Tree{log: log, owner: o, tgids: tgids{known: map[int]tgid{}}, inodes: newInodes(o)}
	t.inodes.stale = t.invalidate
	t.releases.stopped = func() bool { return t.boot.Load().Waits() }
	t.put(guest)
	return t
}

// Bound sets the limit of the memory that clients can make the daemon hold with
// files, inodes, locks, pending requests and the content of files. Requests that need
// more fail with ENOMEM. It must be called before the first Mount.
func (t *Tree) Bound(l *memcg.Limit) { t.limit = l }

// Record has writes recorded from now on. Markers of the trace are not: programs write many of them,
// and the trace has them.
func (t *Tree) Record(w *seqfile.Writes) { t.writes.Store(w) }

// wrote records a write.
func (t *Tree) wrote(n *node, c *seqfile.Caller, data []byte, bytes int, err error) {
	if t.sequence != nil && !c.Recorded {
		return // a write to machine/run, which is not played again
	}
	w := t.writes.Load()
	if fops := n.rowNow().FOps; w == nil || fops == abi.FOpsMarker || fops == abi.FOpsRawMarker {
		return
	}
	x := seqfile.Written{PID: c.PID, UID: c.UID, Comm: c.Comm(), File: n.at, Bytes: bytes}
	if err != nil {
		x.Err = errnoOf(err)
	}
	w.Add(x, data)
}

// invalidate has the host's kernel forget a name that a directory no longer has. It
// would hold the inode until memory is short. If the name exists again, the next
// look-up finds the new inode.
func (t *Tree) invalidate(dir *node, name string) {
	for _, f := range t.releases.all() {
		if t.inodes.known(dir, name) == nil {
			f.server.invalidate(f.fuseID(dir), name)
		}
	}
}

// Gone tells the tree that guest code has removed the files at these paths of the guest:
// the host's kernel is made to forget them.
func (t *Tree) Gone(paths []string) { t.inodes.goneFrom(paths) }

// filesystem is one mount: a directory of the tree as the root of a filesystem.
type filesystem struct {
	fuse.RawFileSystem // answers ENOSYS to what is not here
	tree               *Tree
	root               *node
	server             *server
	handles            handles
}

var _ fuse.RawFileSystem = (*filesystem)(nil)

func newFilesystem(t *Tree, root *seqfile.Row) *filesystem {
	return &filesystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		tree:          t,
		root:          t.inodes.root(root),
		handles:       handles{open: map[uint64]*handle{}, total: &t.files},
	}
}

func (f *filesystem) String() string { return "kprobefs" }

// node returns the inode of a request.
func (f *filesystem) node(h *fuse.InHeader) *node {
	if h.NodeId == fuse.FUSE_ROOT_ID {
		return f.root
	}
	return f.tree.inodes.get(h.NodeId)
}

// request is a request's context: it ends when the caller gets a signal. Who asks for
// Done is going to wait.
type request struct {
	context.Context
	cancel <-chan struct{}
	waits  func()
}

func (r request) Done() <-chan struct{} {
	r.waits()
	return r.cancel
}

func (r request) Err() error {
	select {
	case <-r.cancel:
		return context.Canceled
	default:
		return nil
	}
}

// waits returns what is to be called when the request with a number is going to wait.
func (f *filesystem) waits(id uint64) func() {
	return func() {
		if f.server != nil { // else a test without a mount
			f.server.waits(id)
		}
	}
}

// begin waits until files closed before the request are released (releases), and
// returns the request's context, inode and caller.
func (f *filesystem) begin(cancel <-chan struct{}, h *fuse.InHeader) (context.Context, *node, *seqfile.Caller, error) {
	waits := f.waits(h.Unique)
	f.tree.releases.wait(f, cancel, waits)
	n := f.node(h)
	if n == nil {
		return nil, nil, nil, fmt.Errorf("inode %d: %w", h.NodeId, syscall.ESTALE)
	}
	if fl := f.flow(h.Unique); fl != nil {
		c := fl.seqCaller(f.tree, h)
		return seqfile.WithCaller(wait.With(request{context.Background(), cancel, waits}, fl), c), n, c, nil
	}
	c := f.tree.caller(h)
	ctx := host.WithKilled(request{context.Background(), cancel, waits}, func() bool { return killed(c.TID) })
	return seqfile.WithCaller(ctx, c), n, c, nil
}

// flow returns the request with a number if requests have an order and it has its turn, else nil.
func (f *filesystem) flow(id uint64) *flow {
	if f.tree.sequence == nil {
		return nil
	}
	return f.tree.sequence.flowOf(id)
}

// Lookup looks up one name. It is not a system call, so the guest does not see it.
func (f *filesystem) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	_, dir, c, err := f.begin(cancel, h)
	if err != nil {
		return f.tree.status(err)
	}
	if err := dir.search(c, name); err != nil {
		return f.tree.status(err)
	}
	if f.tree.inodes.known(dir, name) == nil {
		if err := f.tree.roomForNames(); err != nil {
			return f.tree.status(err)
		}
	}
	n, id := f.tree.inodes.lookup(dir, name)
	if n == nil {
		return fuse.ENOENT
	}
	f.entry(n, id, out)
	return fuse.OK
}

// search checks that c may look up name in a directory.
func (n *node) search(c *seqfile.Caller, name string) error {
	if !n.isDir() {
		return fmt.Errorf("%s: %w", n.key.Name, syscall.ENOTDIR)
	}
	if err := n.permission(c, mayExec); err != nil {
		return err
	}
	if n.kind == seqfile.BPFFS && strings.Contains(name, ".") {
		return fmt.Errorf("%s: names with dots are reserved: %w", name, syscall.EPERM)
	}
	if len(name) > nameMax {
		if n.kind == seqfile.ProcSys || n.kind == seqfile.Proc {
			return fmt.Errorf("%d bytes of name: %w", len(name), syscall.ENOENT)
		}
		return fmt.Errorf("%d bytes of name: %w", len(name), syscall.ENAMETOOLONG)
	}
	return nil
}

func (f *filesystem) entry(n *node, id uint64, out *fuse.EntryOut) {
	*out = fuse.EntryOut{NodeId: id, Generation: 1}
	n.attr(&out.Attr)
	n.large(&out.Attr)
}

// large sets a regular file's size to one at which the page cache asks for its
// content.
func (n *node) large(a *fuse.Attr) {
	if n.isDir() || n.key.Link != "" {
		return
	}
	a.Size = n.openSize()
	n.mu.Lock()
	n.shrunk = false
	n.mu.Unlock()
}

// openSize is the size that the page cache must believe in.
func (n *node) openSize() uint64 {
	if n.paged {
		return pagedSize
	}
	return openSize
}

func (f *filesystem) Forget(id, lookups uint64) { f.tree.inodes.forget(id, lookups) }

// enlarge makes the host's kernel keep a large i_size for n, which it knows by the number
// id, by a notice that one byte was stored at a large offset. The kernel takes a GETATTR
// reply of size 0 that follows as older than the inode: stat(2) shows 0, but i_size stays
// large. The offset of each notice must be larger than the one before.
func (f *filesystem) enlarge(n *node, id uint64) {
	n.mu.Lock()
	n.stored++
	off := int64(n.openSize() + n.stored)
	n.shrunk = false
	n.mu.Unlock()
	if f.server == nil { // a test without a mount
		return
	}
	// The notice fails if the kernel no longer has the inode. Then it keeps no size.
	f.server.storeByte(id, off)
}

func (f *filesystem) fuseID(n *node) uint64 {
	if n == f.root {
		return fuse.FUSE_ROOT_ID
	}
	return n.id
}

func (f *filesystem) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	if in.Flags()&fuse.FUSE_GETATTR_FH != 0 && !n.isDir() {
		return f.tree.status(f.seekEnd(n, in.Fh(), out))
	}
	if n.kind == seqfile.BPFFS && n.key.Link != "" { // the guest has no such link
		n.attr(&out.Attr)
		return fuse.OK
	}
	if f.tree.sequence != nil && (n.rowNow().WithoutGuest || f.flow(in.Unique) == nil) {
		n.attr(&out.Attr)
		if !n.isDir() {
			f.enlarge(n, in.NodeId)
		}
		return fuse.OK
	}
	// Attributes and names do not come from the guest, so they outlast it.
	_, _, err = f.tree.boot.Load().do(ctx, c, n.call(abi.SysNewfstatat), true,
		func(context.Context, host.Op) (int, error) {
			n.attr(&out.Attr)
			return 0, nil
		})
	if err != nil {
		return f.tree.status(err)
	}
	n.attr(&out.Attr) // also when the guest did not come to the operation
	if !n.isDir() && n.key.Link == "" {
		f.enlarge(n, in.NodeId)
	}
	return fuse.OK
}

// seekEnd answers a GETATTR with a file handle. The host's kernel sends it only for
// lseek(SEEK_END): a GETATTR of fstat(2) has no handle.
func (f *filesystem) seekEnd(n *node, fh uint64, out *fuse.AttrOut) error {
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

// shrink notes that the host's kernel now has a small i_size.
func (n *node) shrink() {
	n.mu.Lock()
	n.shrunk = true
	n.mu.Unlock()
}

// call returns a guest call on n's path.
func (n *node) call(nr uint64) host.Call {
	return host.Call{Nr: nr, Path: n.at, Mode: uint64(n.key.FileMode()), FOps: n.rowNow().FOps}
}

func (f *filesystem) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	_, n, c, err := f.begin(cancel, &in.InHeader)
	if err == nil && in.Mask != 0 {
		err = n.permission(c, in.Mask&7)
	}
	return f.tree.status(err)
}

// SetAttr is chmod, chown, truncate and utimens.
func (f *filesystem) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	_, n, c, err := f.begin(cancel, &in.InHeader)
	if err == nil {
		if in.Valid&(fuse.FATTR_UID|fuse.FATTR_GID) != 0 {
			f.tree.inodes.made(n)
		}
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
		n.uid = n.rootUser.user(uid)
	}
	if gid, ok := in.GetGID(); ok {
		n.gid = n.rootUser.group(gid)
	}
	if size, ok := in.GetSize(); ok {
		if n.kind != seqfile.ProcSys && n.kind != seqfile.Proc && n.kind != seqfile.Devtmpfs && n.kind != seqfile.Sysfs {
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
	if n.row.Keep != nil {
		n.row.Keep(n.mode, n.uid, n.gid)
	}
	return nil
}

// maySetattr is setattr_prepare and the checks of n's kind of filesystem.
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

// OpenDir is open(2) of a directory.
func (f *filesystem) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	if err := f.tree.mayOpen(c); err != nil {
		return f.tree.status(err)
	}
	h := f.newHandle(n, c, in.Flags)
	call := n.call(abi.SysOpenat)
	call.Flags, call.FOps = uint64(in.Flags), abi.FOpsDir
	h.fd, _, err = h.do(ctx, c, call, func(context.Context, host.Op) (int, error) {
		return 0, n.permission(c, mayRead)
	})
	if err != nil {
		return f.tree.status(err)
	}
	out.Fh = f.handles.add(h)
	return fuse.OK
}

func (f *filesystem) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	h := f.handles.get(in.Fh)
	if err != nil || h == nil {
		return f.tree.status(errors.Join(err, syscall.EBADF))
	}
	if err := f.tree.roomForNames(); err != nil {
		return f.tree.status(err)
	}
	call := n.call(abi.SysGetdents64)
	call.FD, call.Files, call.Count, call.FOps = h.fd, h.owner(), int(in.Size), abi.FOpsDir
	_, _, err = h.do(ctx, c, call, func(context.Context, host.Op) (int, error) {
		for _, e := range h.entries(f.tree, in.Offset) {
			if !out.AddDirEntry(e) {
				break
			}
		}
		return 0, nil
	})
	return f.tree.status(err)
}

// entries returns the directory's entries from off on. "." and ".." come first, since
// procps' sysctl skips the first two entries whatever their names are.
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
	default: // in the order of creation
	}
	for _, c := range nodes {
		list = append(list, fuse.DirEntry{Name: c.key.Name, Ino: c.id, Mode: c.key.FileMode()})
	}
	for i := range list {
		list[i].Off = uint64(i + 1)
	}
	return list
}

func (f *filesystem) ReleaseDir(in *fuse.ReleaseIn) {
	if h := f.handles.remove(in.Fh); h != nil {
		h.release(f.releaseContext(in))
	}
}

// FsyncDir does nothing with simple_dir_operations; directories of proc do not have it.
func (f *filesystem) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	if n := f.node(&in.InHeader); n != nil && (n.kind == seqfile.Proc || n.kind == seqfile.ProcSys) {
		return fuse.EINVAL
	}
	return fuse.OK
}

// StatFs is simple_statfs, except for the type, which is FUSE's.
func (f *filesystem) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Bsize: blockSize, Frsize: blockSize, NameLen: nameMax}
	return fuse.OK
}

// GetXAttr returns EOPNOTSUPP each time. After ENOSYS the host's kernel would no longer
// ask, and return ENODATA for access control lists.
func (f *filesystem) GetXAttr(<-chan struct{}, *fuse.InHeader, string, []byte) (uint32, fuse.Status) {
	return 0, fuse.Status(syscall.EOPNOTSUPP)
}

func (f *filesystem) ListXAttr(<-chan struct{}, *fuse.InHeader, []byte) (uint32, fuse.Status) {
	return 0, fuse.OK
}

// Fsync fails with EINVAL, as nothing here is written to a disk, unless the file is the guest's
// own.
func (f *filesystem) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	if h := f.handles.get(in.Fh); h != nil && h.guest {
		return f.fsyncGuest(cancel, h, in)
	}
	return fuse.EINVAL
}

func (f *filesystem) Fallocate(<-chan struct{}, *fuse.FallocateIn) fuse.Status {
	return fuse.Status(syscall.EOPNOTSUPP)
}

func (f *filesystem) CopyFileRange(<-chan struct{}, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.EXDEV
}

// maxFiles is fs.file-max: how many files all processes without CAP_SYS_ADMIN may
// have open together. The guest has memory for a third more, so that root can still
// open files.
const maxFiles = 1 << 16

// room returns ENOMEM if the daemon may not hold a little more for c.
func (t *Tree) room(c *seqfile.Caller) error { return t.limit.Small(c.UID == 0) }

// roomForNames returns ENOMEM if the daemon may not hold more inodes, which stay as long as
// their directory or the host's kernel has them. It leaves root's reserve alone, also for
// root: a search through the whole tree must not take what a file is opened and written with.
func (t *Tree) roomForNames() error { return t.limit.Small(false) }

// mayOpen returns ENFILE or ENOMEM if c may not open one more file.
func (t *Tree) mayOpen(c *seqfile.Caller) error {
	if err := t.room(c); err != nil {
		return err
	}
	if t.files.Load() < maxFiles || c.Capable(seqfile.CapSysAdmin) {
		return nil
	}
	return fmt.Errorf("%d files are open: %w", maxFiles, syscall.ENFILE)
}

// handles are the open files of a mount.
type handles struct {
	total *atomic.Int64 // of all mounts

	mu    sync.Mutex
	last  uint64
	apart uint64 // the last number of a handle that has been opened outside of the order of requests
	open  map[uint64]*handle
}

// apart is in the numbers of handles that are opened outside of the order of requests, so that the other
// numbers do not depend on them.
const apart = 1 << 62

func (t *handles) add(h *handle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total.Add(1)
	if s := h.tree.sequence; s != nil && h.node != nil && s.apart[h.node.id] != nil {
		t.apart++
		t.open[apart|t.apart] = h
		return apart | t.apart
	}
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
	if h != nil {
		delete(t.open, fh)
		t.total.Add(-1)
	}
	return h
}

// any reports whether a file is open.
func (t *handles) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open) > 0
}

// all removes and returns all handles, at the end of a mount.
func (t *handles) all() []*handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*handle, 0, len(t.open))
	for _, h := range t.open {
		list = append(list, h)
	}
	clear(t.open)
	t.total.Add(-int64(len(list)))
	return list
}
