package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/wait"
)

// handle is an open file or directory.
type handle struct {
	tree             *Tree
	node             *node
	boot             *boot           // the boot of the machine when it was opened
	usableAfterPanic bool            // the node's
	caller           *seqfile.Caller // of open(2)
	flags            uint32
	withoutGuest     bool   // calls do not go through the guest: the node's, or the machine was stopped by a debugger
	fd               int    // the guest's descriptor, of the process that opened it
	guest            bool   // the file is the guest's own
	mode             uint64 // its f_mode (abi.FMode*) there
	once             sync.Once

	locked atomic.Bool // it may have advisory locks

	mu       sync.Mutex
	closer   *seqfile.Caller // of the last close(2) of a descriptor, or nil
	borrowed map[int]int     // number of descriptors that a process has borrowed (ioctl.go)
	file     seqfile.File
	dir      []fuse.DirEntry // entries of a directory

	spliced page

	polled chan struct{} // closed to end the wait for a Poller, or nil
	over   bool          // the file has ended

	// end is the position that the host's kernel has after the last read or write,
	// and pos the one that Linux would have. They differ because writes to some
	// files do not move the position, and because O_APPEND starts at i_size.
	end, pos int64
}

// owner is the process that opened the file. Its children, and processes that it has
// sent the descriptor to, may have the file open as well.
func (h *handle) owner() int { return cmp.Or(h.caller.PID, h.caller.TID, -1) }

func (f *filesystem) newHandle(n *node, c *seqfile.Caller, flags uint32) *handle {
	h := &handle{tree: f.tree, node: n, boot: f.tree.boot.Load(), caller: c, flags: flags}
	if n != nil {
		h.usableAfterPanic = n.usableAfterPanic || n.isDir() // names do not come from the guest
		h.withoutGuest = n.rowNow().WithoutGuest || h.usableAfterPanic && h.boot.waits()
	}
	return h
}

// opened returns the File. It is unopened if the guest's open(2) has succeeded without
// the file's open operation, which a probe can cause.
func (h *handle) opened() seqfile.File {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == nil {
		return unopened{}
	}
	return h.file
}

// unopened is the File of a handle whose open operation was skipped.
type unopened struct{}

func (unopened) Read(context.Context, []byte, int64) (int, error)  { return 0, syscall.EIO }
func (unopened) Write(context.Context, []byte, int64) (int, error) { return 0, syscall.EIO }
func (unopened) Release()                                          {}

// Open is open(2) of a file that exists.
func (f *filesystem) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return f.tree.status(err)
	}
	if err := n.permission(c, wanted(in.Flags)); err != nil {
		f.tree.refusedOpen(n, c, in.Flags, err, nil)
		return f.tree.status(err)
	}
	if in.Flags&syscall.O_DIRECT != 0 {
		return fuse.EINVAL
	}
	if err := f.tree.mayOpen(c); err != nil {
		return f.tree.status(err)
	}
	h := f.newHandle(n, c, in.Flags)
	call := n.call(abi.SysOpenat)
	call.Flags = uint64(in.Flags)
	if n.rowNow().Guest {
		if err := h.openGuest(ctx, call); err != nil {
			return f.tree.status(err)
		}
		f.opened(h, in.NodeId, out)
		return fuse.OK
	}
	var why error // of the file; the guest returns only its errno
	err = h.open(ctx, call, func(ctx context.Context) (file seqfile.File, err error) {
		defer func() { why = err }()
		row := n.rowNow()
		if row.Open == nil {
			return nil, fmt.Errorf("%s cannot be opened: %w", row.Name, syscall.ENXIO)
		}
		return row.Open(ctx, &seqfile.OpenInfo{Caller: *c, Flags: in.Flags})
	})
	if err != nil {
		f.tree.refusedOpen(n, c, in.Flags, err, why)
		return f.tree.status(err)
	}
	f.opened(h, in.NodeId, out)
	return fuse.OK
}

// open runs an open(2) in the guest.
func (h *handle) open(ctx context.Context, call host.Call, open func(context.Context) (seqfile.File, error)) error {
	fd, _, err := h.do(ctx, h.caller, call, func(ctx context.Context, _ host.Op) (int, error) {
		file, err := open(ctx)
		h.mu.Lock()
		h.file = file
		h.mu.Unlock()
		return 0, err
	})
	if err != nil {
		h.closeFile()
		return err
	}
	h.fd = fd
	return nil
}

// opened makes the reply to an open of the inode that the host's kernel knows as id.
func (f *filesystem) opened(h *handle, id uint64, out *fuse.OpenOut) {
	out.Fh = f.handles.add(h)
	// One write may take long, and must not keep others waiting in the host's kernel.
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES | h.seekFlags()
	if h.flags&syscall.O_TRUNC != 0 {
		h.node.truncated() // after this reply; the next open or close makes it large again
		return
	}
	h.node.mu.Lock()
	shrunk := h.node.shrunk
	h.node.mu.Unlock()
	if shrunk {
		f.enlarge(h.node, id)
	}
}

// truncated notes an open with O_TRUNC, after which the host's kernel sets its i_size
// to 0.
func (n *node) truncated() {
	n.touch()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kind != seqfile.Sysfs {
		n.size = 0
	}
	n.shrunk = true
}

// Create is open(2) with O_CREAT of a file that does not exist.
func (f *filesystem) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
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
	if err := f.tree.mayOpen(c); err != nil {
		return f.tree.status(err)
	}
	h := f.newHandle(nil, c, in.Flags)
	h.usableAfterPanic = dir.usableAfterPanic
	call := dir.call(abi.SysOpenat)
	call.Path, call.Flags, call.Mode = dir.at+"/"+name, uint64(in.Flags), uint64(syscall.S_IFREG|in.Mode)
	err = h.open(ctx, call, func(ctx context.Context) (seqfile.File, error) {
		return creator.Create(ctx, &seqfile.OpenInfo{Caller: *c, Flags: in.Flags}, name)
	})
	if err != nil {
		return f.tree.status(err)
	}
	n, id := f.tree.inodes.lookup(dir, name)
	if h.node = n; n == nil {
		h.release(ctx)
		return fuse.ENOENT
	}
	f.entry(n, id, &out.EntryOut)
	f.opened(h, id, &out.OpenOut)
	return fuse.OK
}

// Read is read(2). A READ without a lock owner comes from the page cache, for
// sendfile, splice or mmap. It is refused where Linux has none of these, and answered
// by the file alone where it is mappable. (Host kernels
// before 6.5 splice by reads with a lock owner.)
func (f *filesystem) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return nil, f.tree.status(err)
	}
	cached := in.ReadFlags&fuse.READ_LOCKOWNER == 0 && n.kind != seqfile.ProcSys
	mapped := cached && n.rowNow().Mappable
	if cached && !n.paged && !mapped {
		return nil, fuse.EINVAL
	}
	h := f.handles.get(in.Fh)
	if h == nil {
		return nil, fuse.EBADF
	}
	if mapped {
		got, err := h.opened().Read(ctx, buf[:min(int(in.Size), len(buf))], int64(in.Offset))
		return fuse.ReadResultData(buf[:got]), f.tree.status(err)
	}
	c.FileFlags = in.Flags
	if cached {
		got, err := h.splice(ctx, int64(in.Offset), buf[:min(int(in.Size), len(buf))])
		return fuse.ReadResultData(got), f.tree.status(err)
	}
	if h.guest {
		got, err := h.readGuest(ctx, c, int64(in.Offset), buf[:min(int(in.Size), len(buf))])
		if err != nil {
			return nil, f.tree.status(err)
		}
		return fuse.ReadResultData(got), fuse.OK
	}
	pos := h.position(int64(in.Offset))
	call := n.call(abi.SysRead)
	call.FD, call.Files, call.Count, call.Into = h.fd, h.owner(), min(int(in.Size), len(buf)), buf
	done := 0 // the guest may read more than once
	ret, data, err := h.do(ctx, c, call, func(ctx context.Context, op host.Op) (int, error) {
		p := buf[:min(len(op.Buf), len(buf))] // op.Buf is cleared with its machine
		got, err := h.opened().Read(ctx, p, pos+int64(done))
		done += got
		return copy(op.Buf, p[:got]), err
	})
	if err != nil {
		return nil, f.tree.status(err)
	}
	ret = min(ret, len(data))
	h.moved(int64(in.Offset)+int64(ret), pos+int64(ret))
	return fuse.ReadResultData(data[:ret]), fuse.OK
}

// page is what splice(2) has read last.
type page struct {
	mu   sync.Mutex
	off  int64 // its position
	data []byte
}

// splice is splice(2): the page cache asks for one page, to which the file's next page
// goes. It may ask again for the last one, if it had no room to keep it. The guest does
// not see it.
func (h *handle) splice(ctx context.Context, off int64, b []byte) ([]byte, error) {
	s, ok := seqfile.As[seqfile.Splicer](h.opened())
	if !ok || len(b) != splicePage {
		return nil, fmt.Errorf("splice of %d bytes: %w", len(b), syscall.EINVAL)
	}
	h.spliced.mu.Lock()
	defer h.spliced.mu.Unlock()
	if off == h.spliced.off && len(h.spliced.data) > 0 {
		return h.spliced.data, nil
	}
	h.mu.Lock()
	end := h.end
	h.mu.Unlock()
	if end%splicePage != 0 || off < end {
		return nil, fmt.Errorf("splice at %d, where the last read has ended at %d: %w", off, end, syscall.EINVAL)
	}
	oc := &opContext{Context: ctx, ends: h.boot.ends(h.usableAfterPanic)}
	defer oc.end()
	n, err := s.Splice(oc, b)
	if err != nil || n == 0 {
		return nil, err
	}
	clear(b[n:])
	h.spliced.off, h.spliced.data = off, append(h.spliced.data[:0], b...)
	h.moved(off+splicePage, off+splicePage)
	return b, nil
}

// readNothing is called after an empty reply to a READ, which the page cache takes for the
// end of the file: it would not ask for a page again. It must see the end once, before the
// file is made large again; if it comes too late, it finds a page without entries.
func (f *filesystem) readNothing(id uint64) {
	if n := f.tree.inodes.get(id); n != nil && n.paged {
		time.AfterFunc(endTime, func() { f.enlarge(n, id) })
	}
}

// endTime is for how long a file that is spliced seems to have ended.
const endTime = 100 * time.Millisecond

// splicePage is the size of pages of the ring buffer in bytes, and has to be
// as in the host's page cache.
const splicePage = 4096

// Write is write(2).
func (f *filesystem) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	if err != nil {
		return 0, f.tree.status(err)
	}
	h := f.handles.get(in.Fh)
	if h == nil {
		return 0, fuse.EBADF
	}
	c.FileFlags = in.Flags
	c.CommFunc = sync.OnceValue(c.CommFunc) // the guest's task has it, and the record of writes
	if h.guest {
		done, err := h.writeGuest(ctx, c, int64(in.Offset), data)
		f.tree.wrote(n, c, data, done, err)
		f.tree.refused("a write is refused", n, c, data, err, nil)
		return uint32(done), f.tree.status(err)
	}
	pos := h.position(int64(in.Offset))
	call := n.call(abi.SysWrite)
	call.FD, call.Files, call.Data = h.fd, h.owner(), data
	done := 0
	var why error // of the file; the guest returns only its errno
	ret, _, err := h.do(ctx, c, call, func(ctx context.Context, op host.Op) (int, error) {
		n, err := h.opened().Write(ctx, op.Buf, pos+int64(done))
		done, why = done+n, err
		return n, err
	})
	f.tree.wrote(n, c, data, ret, err)
	if err != nil {
		f.tree.refused("a write is refused", n, c, data, err, why)
		return 0, f.tree.status(err)
	}
	after := pos + int64(ret)
	if k, ok := seqfile.As[seqfile.PosKeeper](h.opened()); ok && k.KeepsPos() {
		after = pos
	}
	h.moved(int64(in.Offset)+int64(ret), after)
	return uint32(ret), fuse.OK
}

// loggedText is how much of a refused write is logged, bytes.
const loggedText = 200

// refusedOpen logs an open(2) for writing that has failed, as refused does.
func (t *Tree) refusedOpen(n *node, c *seqfile.Caller, flags uint32, err, why error) {
	if wanted(flags)&mayWrite != 0 {
		t.refused("an open for writing is refused", n, c, nil, err, why)
	}
}

// refused logs what has failed: err is what the caller gets, and why, if it is not nil,
// the error of the file with its reason.
func (t *Tree) refused(what string, n *node, c *seqfile.Caller, data []byte, err, why error) {
	if err == nil || !t.log.IsLevelEnabled(logrus.DebugLevel) {
		return
	}
	if errors.Is(why, errnoOf(err)) {
		err = why
	}
	t.log.WithFields(logrus.Fields{
		"file": n.at, "text": string(data[:min(len(data), loggedText)]), "err": err, "errno": unix.ErrnoName(errnoOf(err)),
		"comm": c.Comm(), "tid": c.TID, "uid": c.UID,
	}).Debug(what)
}

// position returns the position that Linux would have where the host's kernel has off.
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

// seek does the kinds of lseek(2) for which the host's kernel asks the daemon.
func (h *handle) seek(off int64, whence int) (int64, error) {
	if h.guest {
		return h.seekGuest(context.Background(), h.caller, off, whence)
	}
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
func (f *filesystem) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h := f.handles.get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	pos, err := h.seek(int64(in.Offset), int(in.Whence))
	out.Offset = uint64(pos)
	return f.tree.status(err)
}

// Flush is close(2) of a descriptor.
func (f *filesystem) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	ctx, n, c, err := f.begin(cancel, &in.InHeader)
	h := f.handles.get(in.Fh)
	if err != nil || h == nil {
		return fuse.OK
	}
	if h.returned(c) {
		f.flushLocks(n, in)
		return fuse.OK
	}
	call := n.call(abi.HostFilpClose)
	call.FD, call.Files = h.fd, h.owner()
	_, _, err = h.do(ctx, c, call, func(ctx context.Context, _ host.Op) (int, error) {
		if fl, ok := seqfile.As[seqfile.Flusher](h.opened()); ok {
			return 0, fl.Flush(ctx)
		}
		return 0, nil
	})
	f.flushLocks(n, in)
	n.mu.Lock()
	shrunk := n.shrunk
	n.mu.Unlock()
	if shrunk { // sendfile on other descriptors of the file would return 0
		f.enlarge(n, in.NodeId)
	}
	return f.tree.status(err)
}

// Release is the release of an open file. The host's kernel does not wait for it.
func (f *filesystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if h := f.handles.remove(in.Fh); h != nil {
		h.release(f.releaseContext(in))
	}
}

// releaseContext returns the context of a RELEASE, which nobody interrupts.
func (f *filesystem) releaseContext(in *fuse.ReleaseIn) context.Context {
	if fl := f.flow(in.Unique); fl != nil {
		return wait.With(context.Background(), fl)
	}
	return context.Background()
}

// release closes the guest's descriptor and the File. As on Linux it is part of the
// last close(2), whose caller is known from the last FLUSH.
func (h *handle) release(ctx context.Context) {
	h.releaseLocks()
	h.mu.Lock()
	closer := cmp.Or(h.closer, h.caller)
	h.mu.Unlock()
	call := host.Call{Nr: abi.HostRelease, FD: h.fd, Files: h.owner()}
	_, _, err := h.do(ctx, closer, call,
		func(context.Context, host.Op) (int, error) {
			h.closeFile()
			return 0, nil
		})
	if err != nil {
		h.tree.log.WithField("err", err).Debug("release")
	}
	h.closeFile()
}

// closeFile releases the File the first time it is called.
func (h *handle) closeFile() {
	h.once.Do(func() {
		h.mu.Lock()
		h.over = true
		h.mu.Unlock()
		h.watch(nil)
		h.opened().Release()
	})
}
