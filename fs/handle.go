package fs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// handle is an open file or directory.
type handle struct {
	tree   *Tree
	node   *node
	caller *seqfile.Caller // who opened it
	flags  uint32
	fd     int // the guest's descriptor
	once   sync.Once

	locked atomic.Bool // locks were asked for through it

	mu   sync.Mutex
	file seqfile.File
	dir  []fuse.DirEntry // what READDIR lists

	polled chan struct{} // closed to end the watch for those who poll; nil: none
	over   bool          // the file has ended

	// end and pos say where the host's kernel believes the position to be and
	// where it is: writes to some files do not move it, and O_APPEND begins at
	// the size that it believes in.
	end, pos int64
}

// opened gives the File. There is none when the guest's open came back without
// having reached its file operation, as a probe can make it.
func (h *handle) opened() seqfile.File {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == nil {
		return unopened{}
	}
	return h.file
}

// unopened is what a handle has whose file was never opened.
type unopened struct{}

func (unopened) Read(context.Context, []byte, int64) (int, error)  { return 0, syscall.EIO }
func (unopened) Write(context.Context, []byte, int64) (int, error) { return 0, syscall.EIO }
func (unopened) Release()                                          {}

// Open is open(2) without O_CREAT, or with it on a file that is there.
func (f *face) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	if err := n.permission(c, wanted(in.Flags)); err != nil {
		return f.tree.status(err)
	}
	if in.Flags&syscall.O_DIRECT != 0 {
		return fuse.EINVAL
	}
	h := &handle{tree: f.tree, node: n, caller: c, flags: in.Flags}
	call := n.call(syscall.SYS_OPENAT)
	call.Flags = uint64(in.Flags)
	err = h.open(ctx, call, func(ctx context.Context) (seqfile.File, error) {
		row := n.rowNow()
		if row.Open == nil {
			return nil, fmt.Errorf("%s cannot be opened: %w", row.Name, syscall.ENXIO)
		}
		return row.Open(ctx, &seqfile.OpenInfo{Caller: *c, Flags: in.Flags})
	})
	if err != nil {
		return f.tree.status(err)
	}
	f.opened(h, out)
	return fuse.OK
}

// open runs an open(2) in the guest.
func (h *handle) open(ctx context.Context, call host.Call, open func(context.Context) (seqfile.File, error)) error {
	fd, _, err := h.tree.do(ctx, h.caller, call, func(ctx context.Context, _ []byte, _ int) ([]byte, int, error) {
		file, err := open(ctx)
		h.mu.Lock()
		h.file = file
		h.mu.Unlock()
		return nil, 0, err
	})
	if err != nil {
		h.closeFile()
		return err
	}
	h.fd = fd
	return nil
}

func (f *face) opened(h *handle, out *fuse.OpenOut) {
	out.Fh = f.handles.add(h)
	// Writers do not wait for each other in the host's kernel: one may take long.
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	if h.flags&syscall.O_TRUNC != 0 {
		h.node.truncated() // after this reply; the next open or close makes it large again
		return
	}
	h.node.mu.Lock()
	shrunk := h.node.shrunk
	h.node.mu.Unlock()
	if shrunk {
		f.enlarge(h.node)
	}
}

// truncated is what O_TRUNC leaves behind in an inode: the host's kernel sets its
// own i_size to 0 once the open has succeeded.
func (n *node) truncated() {
	n.touch()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.size = 0
	n.shrunk = true
}

// Create is open(2) with O_CREAT of a name that is not there.
func (f *face) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	ctx, dir, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	if err := dir.mayChange(c, name); err != nil {
		return f.tree.status(err)
	}
	creator, ok := dir.rowNow().Dir.(seqfile.Creator)
	if !ok {
		return f.tree.status(dir.refuse(opCreate))
	}
	h := &handle{tree: f.tree, caller: c, flags: in.Flags}
	call := dir.call(syscall.SYS_OPENAT)
	call.Path, call.Flags, call.Mode = dir.at+"/"+name, uint64(in.Flags), uint64(syscall.S_IFREG|in.Mode)
	err = h.open(ctx, call, func(ctx context.Context) (seqfile.File, error) {
		return creator.Create(ctx, &seqfile.OpenInfo{Caller: *c, Flags: in.Flags}, name)
	})
	if err != nil {
		return f.tree.status(err)
	}
	if h.node = f.tree.inodes.lookup(dir, name); h.node == nil {
		h.release()
		return fuse.ENOENT
	}
	f.entry(h.node, &out.EntryOut)
	f.opened(h, &out.OpenOut)
	return fuse.OK
}

// Read is read(2). A READ without an owner of locks comes from the page cache
// (sendfile, splice, a mapping): where Linux has none of these, it is refused.
func (f *face) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return nil, f.tree.status(err)
	}
	if in.ReadFlags&fuse.READ_LOCKOWNER == 0 && n.kind != seqfile.ProcSys {
		return nil, fuse.EINVAL
	}
	h := f.handles.get(in.Fh)
	if h == nil {
		return nil, fuse.EBADF
	}
	c.FileFlags = in.Flags
	pos := h.position(int64(in.Offset))
	call := n.call(syscall.SYS_READ)
	call.FD, call.Count, call.Into = h.fd, min(int(in.Size), len(buf)), buf
	done := 0 // the guest may come more than once
	ret, data, err := f.tree.do(ctx, c, call, func(ctx context.Context, _ []byte, count int) ([]byte, int, error) {
		p := buf[:min(count, len(buf))]
		got, err := h.opened().Read(ctx, p, pos+int64(done))
		done += got
		return p[:got], got, err
	})
	if err != nil {
		return nil, f.tree.status(err)
	}
	ret = min(ret, len(data))
	h.moved(int64(in.Offset)+int64(ret), pos+int64(ret))
	return fuse.ReadResultData(data[:ret]), fuse.OK
}

// Write is write(2).
func (f *face) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return 0, f.tree.status(err)
	}
	h := f.handles.get(in.Fh)
	if h == nil {
		return 0, fuse.EBADF
	}
	c.FileFlags = in.Flags
	pos := h.position(int64(in.Offset))
	call := n.call(syscall.SYS_WRITE)
	call.FD, call.Data = h.fd, data
	done := 0
	ret, _, err := f.tree.do(ctx, c, call, func(ctx context.Context, data []byte, _ int) ([]byte, int, error) {
		n, err := h.opened().Write(ctx, data, pos+int64(done))
		done += n
		return nil, n, err
	})
	if err != nil {
		return 0, f.tree.status(err)
	}
	after := pos + int64(ret)
	if k, ok := seqfile.As[seqfile.PosKeeper](h.opened()); ok && k.KeepsPos() {
		after = pos
	}
	h.moved(int64(in.Offset)+int64(ret), after)
	return uint32(ret), fuse.OK
}

// position gives the file's position for the one that the host's kernel names.
func (h *handle) position(off int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if off == h.end {
		return h.pos
	}
	if h.flags&syscall.O_APPEND != 0 && off >= openSize {
		return h.pos
	}
	return off
}

func (h *handle) moved(end, pos int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end, h.pos = end, pos
}

// seek is the part of lseek(2) that asks the daemon.
func (h *handle) seek(off int64, whence int) (int64, error) {
	if s, ok := seqfile.As[seqfile.Seeker](h.opened()); ok {
		return s.Seek(off, whence)
	}
	if whence == seqfile.SeekEnd {
		h.node.mu.Lock()
		defer h.node.mu.Unlock()
		return int64(h.node.size) + off, nil
	}
	return 0, fmt.Errorf("no data to seek: %w", syscall.ENXIO)
}

// Lseek is SEEK_DATA and SEEK_HOLE.
func (f *face) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h := f.handles.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	pos, err := h.seek(int64(in.Offset), int(in.Whence))
	out.Offset = uint64(pos)
	return f.tree.status(err)
}

// Flush is each close(2) of a descriptor.
func (f *face) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	h := f.handles.get(in.Fh)
	if err != nil || h == nil {
		return fuse.OK
	}
	call := n.call(abi.HostFilpClose)
	call.FD = h.fd
	_, _, err = f.tree.do(ctx, c, call, func(ctx context.Context, _ []byte, _ int) ([]byte, int, error) {
		if fl, ok := seqfile.As[seqfile.Flusher](h.opened()); ok {
			return nil, 0, fl.Flush(ctx)
		}
		return nil, 0, nil
	})
	f.flushLocks(n, in)
	n.mu.Lock()
	shrunk := n.shrunk
	n.mu.Unlock()
	if shrunk { // those who have the file open would find its end at once (sendfile)
		f.enlarge(n)
	}
	return f.tree.status(err)
}

// Release is the end of the last reference. Nobody waits for it.
func (f *face) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if h := f.handles.remove(in.Fh); h != nil {
		h.release()
	}
}

// release gives the guest's descriptor back and ends the File.
func (h *handle) release() {
	h.releaseLocks()
	call := host.Call{Nr: abi.HostRelease, FD: h.fd}
	_, _, err := h.tree.do(context.Background(), h.caller, call,
		func(context.Context, []byte, int) ([]byte, int, error) {
			h.closeFile()
			return nil, 0, nil
		})
	if err != nil {
		h.tree.log.WithField("err", err).Debug("release")
	}
	h.closeFile()
}

// closeFile ends the File once, however often it is called.
func (h *handle) closeFile() {
	h.once.Do(func() {
		h.mu.Lock()
		h.over = true
		h.mu.Unlock()
		h.watch(nil)
		h.opened().Release()
	})
}
