// Package anoninode makes descriptors of files that no directory has, as Linux's
// anon_inodes: the program that gets one may read, poll, map and close it, and send it
// ioctl(2)s.
//
// They are files of a FUSE mount of its own that is attached nowhere (fsmount(2)). FUSE
// brings read, ioctl and poll to this process. A mapping must show memory that this process
// changes: so each file is opened as a passthrough to a memfd (FOPEN_PASSTHROUGH), but with
// FOPEN_DIRECT_IO, which leaves reads with us. Mapping then maps the memfd, and the host's
// kernel does no more. Passthrough needs Linux 6.9 and root of the initial user namespace;
// without it files cannot be mapped (ENODEV), all else works.
//
// No request waits, so that a server of a few lines does: it answers each request where it
// reads it, except for ioctls, which may read the caller's memory.
package anoninode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// File is what such a descriptor refers to. Its methods are called by several goroutines.
type File interface {
	// Read is read(2). It must not wait.
	Read(p []byte) (int, error)
	// Ioctl is ioctl(2) of a thread. in is what arg points to and out what it will point
	// to, where the command's number says so (_IOW, _IOR).
	Ioctl(tid int, cmd uint32, arg uint64, in, out []byte) error
	// Poll returns the events for which the file is ready, and a channel that is closed
	// when they may have changed.
	Poll() (ready uint32, changed <-chan struct{})
	// Release is called when the last descriptor is closed.
	Release()
}

// Reader is a File whose reading depends on who reads, and may take time. It is opened for reading only.
type Reader interface {
	// ReadIn is read(2) of a thread.
	ReadIn(tid int, p []byte) (int, error)
}

// Opcodes and constants of FUSE.
const (
	opLookup  = 1
	opForget  = 2
	opGetattr = 3
	opOpen    = 14
	opRead    = 15
	opStatfs  = 17
	opRelease = 18
	opFlush   = 25
	opInit    = 26
	opIntr    = 36
	opDestroy = 38
	opIoctl   = 39
	opPoll    = 40
	opBatch   = 42 // BATCH_FORGET

	inHeader  = 40
	outHeader = 16

	initExt     = 1 << 30
	passthrough = 1 << 5 // FUSE_PASSTHROUGH, in flags2

	fopenDirectIO    = 1
	fopenStream      = 1 << 4
	fopenNoFlush     = 1 << 5
	fopenPassthrough = 1 << 7

	pollSchedule = 1 // FUSE_POLL_SCHEDULE_NOTIFY
	notifyPoll   = 1 // FUSE_NOTIFY_POLL

	backingOpen  = 0x4010e501 // FUSE_DEV_IOC_BACKING_OPEN
	backingClose = 0x4004e502 // FUSE_DEV_IOC_BACKING_CLOSE

	rootID    = 1
	bufSize   = 1<<17 + 4096
	maxWrite  = 4096
	ioctlHead = 32
)

// FS is a connection to the host's kernel.
type FS struct {
	dev  int    // /dev/fuse
	stop [2]int // a pipe whose writing end is closed to end serve

	opening sync.RWMutex // against use of root after it was closed
	root    int          // the root directory, or -1
	name    string
	able    bool        // files can be mapped
	refused atomic.Bool // the host's kernel has let a file have no backing

	mnt uint64 // the number of the mount

	taking    sync.Mutex   // held while it is looked for a request, until it is known which
	releasing atomic.Int64 // files whose last descriptor is closed, and whose Release has not returned

	writing sync.RWMutex // against use of dev after it was closed
	closed  bool

	mu    sync.Mutex
	last  uint64
	files map[uint64]*inode // by number

	released <-chan struct{} // of serve: closed when the Release before the next request has returned
}

// inode is one file; it is opened once.
type inode struct {
	file    File
	backing int32  // its number, or 0
	reads   Reader // the file, if it is one, or nil
	once    sync.Once

	mu     sync.Mutex
	polled chan struct{} // closed to end the wait for its Poll
}

// New connects. name is what /proc/PID/fd shows of the files.
func New(name string) (*FS, error) {
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	root, err := mount(dev)
	if err != nil {
		_ = unix.Close(dev)
		return nil, fmt.Errorf("a mount without a place: %w", err)
	}
	f := &FS{dev: dev, root: root, name: name, last: rootID, files: map[uint64]*inode{}, released: over}
	err = unix.Pipe2(f.stop[:], unix.O_CLOEXEC)
	if err == nil {
		if err = f.init(); err != nil {
			_, _ = unix.Close(f.stop[0]), unix.Close(f.stop[1])
		}
	}
	if err != nil {
		_ = unix.Close(root)
		_ = unix.Close(dev)
		return nil, fmt.Errorf("FUSE: %w", err)
	}
	go f.serve()
	f.mnt, _ = fdinfo("/proc/self/fdinfo/"+strconv.Itoa(root), "mnt_id:")
	return f, nil
}

// Try reports whether there can be descriptors here, and whether they can be mapped.
func Try() (mappable bool, err error) {
	f, err := New("")
	if err != nil {
		return false, err
	}
	defer f.Close()
	if !f.able {
		return false, nil
	}
	memory, err := unix.MemfdCreate("try", unix.MFD_CLOEXEC)
	if err != nil {
		return false, err
	}
	defer unix.Close(memory)
	id, refused := f.register(memory) // to those who are not root of the machine
	if refused == nil {
		f.unregister(id)
	}
	return refused == nil, nil
}

// mount returns the root of a mount that is attached nowhere.
func mount(dev int) (int, error) {
	ctx, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ctx)
	for _, o := range [][2]string{
		{"source", "kprobefs"},
		{"fd", strconv.Itoa(dev)},
		{"rootmode", "40000"},
		{"user_id", strconv.Itoa(os.Geteuid())},
		{"group_id", strconv.Itoa(os.Getegid())},
	} {
		if err := unix.FsconfigSetString(ctx, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("%s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigSetFlag(ctx, "allow_other"); err != nil {
		return -1, err
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, err
	}
	return unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

// fdinfo returns a number of /proc/PID/fdinfo/FD.
func fdinfo(path, field string) (uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return number(string(b), field)
}

// Mappable reports whether the files that were opened with a backing can be mapped.
func (f *FS) Mappable() bool { return f.able && !f.refused.Load() }

// init answers FUSE's first request.
func (f *FS) init() error {
	b := make([]byte, bufSize)
	n, err := f.read(b)
	if err != nil {
		return err
	}
	if n < inHeader+16 || word32(b, 4) != opInit {
		return syscall.EPROTO
	}
	flags, flags2 := word32(b, inHeader+12), uint32(0)
	if flags&initExt != 0 && n >= inHeader+20 {
		flags2 = word32(b, inHeader+16)
	}
	f.able = flags2&passthrough != 0
	out := make([]byte, outHeader+64)
	body := out[outHeader:]
	binary.NativeEndian.PutUint32(body[0:], 7)
	binary.NativeEndian.PutUint32(body[4:], min(word32(b, inHeader+4), 40))
	binary.NativeEndian.PutUint32(body[12:], flags&initExt)
	binary.NativeEndian.PutUint16(body[16:], 64)
	binary.NativeEndian.PutUint16(body[18:], 48)
	binary.NativeEndian.PutUint32(body[20:], maxWrite)
	binary.NativeEndian.PutUint32(body[24:], 1)
	if f.able {
		binary.NativeEndian.PutUint32(body[32:], passthrough)
		binary.NativeEndian.PutUint32(body[36:], 1) // max_stack_depth
	}
	f.reply(out, word64(b, 8), 0)
	return nil
}

// Open returns a descriptor of a file. Mappings of it show backing, which may be -1; its
// size must not shrink. Then the file belongs to the FS: Release is called, also if Open
// fails.
func (f *FS) Open(file File, backing int) (*os.File, error) {
	n := &inode{file: file}
	n.reads, _ = file.(Reader)
	if backing >= 0 && f.able {
		if id, err := f.register(backing); err == nil {
			n.backing = id
		} else {
			f.refused.Store(true)
		}
	}
	f.mu.Lock()
	f.last++
	id := f.last
	f.files[id] = n
	f.mu.Unlock()
	f.opening.RLock()
	access := unix.O_RDWR
	if n.reads != nil {
		access = unix.O_RDONLY
	}
	fd, err := -1, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) { // a signal of Go's scheduler came before the request was read
		fd, err = unix.Openat(f.root, strconv.FormatUint(id, 10)+"."+f.nameOf(file), access|unix.O_CLOEXEC, 0)
	}
	f.opening.RUnlock()
	if err != nil {
		f.release(id)
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.name), nil
}

// Named is a File with a name of its own in /proc/PID/fd.
type Named interface{ Name() string }

func (f *FS) nameOf(file File) string {
	if n, ok := file.(Named); ok {
		return n.Name()
	}
	return f.name
}

// register tells the host's kernel of a file to map.
func (f *FS) register(fd int) (int32, error) {
	m := struct {
		fd      int32
		flags   uint32
		padding uint64
	}{fd: int32(fd)}
	f.writing.RLock()
	defer f.writing.RUnlock()
	if f.closed {
		return 0, syscall.ENODEV
	}
	id, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(f.dev), backingOpen, uintptr(unsafe.Pointer(&m)))
	if errno != 0 {
		return 0, errno
	}
	return int32(id), nil
}

func (f *FS) unregister(id int32) {
	f.writing.RLock()
	defer f.writing.RUnlock()
	if !f.closed {
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(f.dev), backingClose, uintptr(unsafe.Pointer(&id)))
	}
}

// Find returns the file of a process's descriptor, or nil if it is none of this FS.
func (f *FS) Find(pid, fd int) File {
	path := fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd)
	b, err := os.ReadFile(path)
	if err != nil || f.mnt == 0 {
		return nil
	}
	mnt, err := number(string(b), "mnt_id:")
	ino, err2 := number(string(b), "ino:")
	if err != nil || err2 != nil || mnt != f.mnt {
		return nil
	}
	if n := f.inode(ino); n != nil {
		return n.file
	}
	return nil
}

// Close ends the connection. Descriptors that are still open give ENOTCONN.
func (f *FS) Close() {
	f.opening.Lock()
	_ = unix.Close(f.root)
	f.root = -1
	f.opening.Unlock()
	_ = unix.Close(f.stop[1])
}

func (f *FS) inode(id uint64) *inode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[id]
}

// release ends a file.
func (f *FS) release(id uint64) {
	f.mu.Lock()
	n := f.files[id]
	delete(f.files, id)
	f.mu.Unlock()
	if n == nil {
		return
	}
	n.watch(nil)
	if n.backing != 0 {
		f.unregister(n.backing)
	}
	n.once.Do(n.file.Release)
}

// read waits for a request.
func (f *FS) read(b []byte) (int, error) {
	for {
		n, err := f.take(b)
		switch {
		case errors.Is(err, unix.EAGAIN):
			if err := f.wait(); err != nil {
				return 0, err
			}
			continue
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT):
			continue
		case err == nil && n < inHeader:
			err = syscall.EPROTO
		}
		return n, err
	}
}

// take reads the next request, or returns EAGAIN. A RELEASE is counted before it can be seen
// that it has left the queue.
func (f *FS) take(b []byte) (int, error) {
	f.taking.Lock()
	defer f.taking.Unlock()
	n, err := unix.Read(f.dev, b)
	if err == nil && n >= inHeader && word32(b, 4) == opRelease {
		f.releasing.Add(1)
	}
	return n, err
}

// wait waits for a request, or for Close, and then returns ENODEV.
func (f *FS) wait() error {
	fds := []unix.PollFd{{Fd: int32(f.dev), Events: unix.POLLIN}, {Fd: int32(f.stop[0])}}
	_, _ = unix.Poll(fds, -1)
	if fds[1].Revents != 0 {
		return syscall.ENODEV
	}
	return nil
}

// unread reports whether a request is queued.
func (f *FS) unread() bool {
	f.writing.RLock()
	defer f.writing.RUnlock()
	f.taking.Lock()
	defer f.taking.Unlock()
	fds := []unix.PollFd{{Fd: int32(f.dev), Events: unix.POLLIN}}
	if f.closed {
		return false
	}
	_, err := unix.Poll(fds, 0)
	return err == nil && fds[0].Revents&unix.POLLIN != 0
}

// Settle waits until Release has returned for all files whose last descriptor was closed
// before: on Linux close(2) waits for that. It does not wait longer than a second.
func (f *FS) Settle() {
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		if !f.unread() && f.releasing.Load() == 0 {
			return
		}
	}
}

// serve answers requests until the connection has ended.
func (f *FS) serve() {
	b := make([]byte, bufSize)
	for {
		n, err := f.read(b)
		if err != nil {
			break
		}
		f.answer(b[:n])
	}
	f.writing.Lock()
	f.closed = true
	_ = unix.Close(f.dev)
	f.writing.Unlock()
	_ = unix.Close(f.stop[0])
	f.mu.Lock()
	var ids []uint64
	for id := range f.files {
		ids = append(ids, id)
	}
	f.mu.Unlock()
	for _, id := range ids {
		f.release(id)
	}
}

func word32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
func word64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }

// over is a closed channel.
var over = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// answer answers a request. b is used again when it returns.
func (f *FS) answer(b []byte) {
	unique, id, body := word64(b, 8), word64(b, 16), b[inHeader:]
	n := f.inode(id)
	switch op := word32(b, 4); op {
	case opForget, opBatch, opIntr:
	case opLookup:
		f.lookup(unique, body)
	case opGetattr:
		out := make([]byte, outHeader+16+attrSize)
		putAttr(out[outHeader+16:], id)
		f.reply(out, unique, 0)
	case opOpen:
		f.open(unique, n)
	case opRead:
		tid := int(word32(b, 32))
		if n != nil && n.reads != nil {
			released, body := f.released, append([]byte(nil), body...)
			go func() {
				<-released
				f.readFile(unique, tid, n, body)
			}()
			return
		}
		f.afterReleases(body, func(body []byte) { f.readFile(unique, tid, n, body) })
	case opIoctl:
		tid, released, in := int(word32(b, 32)), f.released, append([]byte(nil), body...)
		go func() {
			<-released
			f.ioctl(unique, n, tid, in)
		}()
	case opPoll:
		f.afterReleases(body, func(body []byte) { f.poll(unique, n, body) })
	case opRelease:
		f.reply(make([]byte, outHeader), unique, 0)
		before, done := f.released, make(chan struct{})
		f.released = done
		go func() {
			defer f.releasing.Add(-1)
			defer close(done)
			<-before
			f.release(id)
		}()
	case opFlush, opDestroy:
		f.reply(make([]byte, outHeader), unique, 0)
	case opStatfs:
		f.reply(make([]byte, outHeader+80), unique, 0)
	default:
		f.fail(unique, syscall.ENOSYS)
	}
}

// afterReleases has a request answered when the files that were closed before it are
// released: on Linux close(2) waits for that, so a group's member that is read after the
// close of its leader is alone. It does not wait itself.
func (f *FS) afterReleases(body []byte, answer func(body []byte)) {
	select {
	case <-f.released:
		answer(body)
	default:
		released, body := f.released, append([]byte(nil), body...)
		go func() {
			<-released
			answer(body)
		}()
	}
}

const attrSize = 88

// putAttr writes struct fuse_attr.
func putAttr(b []byte, id uint64) {
	mode, links := uint32(unix.S_IFREG|0o600), uint32(1)
	if id == rootID {
		mode, links = unix.S_IFDIR|0o700, 2
	}
	binary.NativeEndian.PutUint64(b[0:], id)
	binary.NativeEndian.PutUint32(b[60:], mode)
	binary.NativeEndian.PutUint32(b[64:], links)
	binary.NativeEndian.PutUint32(b[80:], 4096)
}

// lookup finds a file by its name, which begins with its number.
func (f *FS) lookup(unique uint64, body []byte) {
	end := 0
	for end < len(body) && body[end] >= '0' && body[end] <= '9' {
		end++
	}
	id, err := strconv.ParseUint(string(body[:end]), 10, 64)
	if err != nil || f.inode(id) == nil {
		f.fail(unique, syscall.ENOENT)
		return
	}
	out := make([]byte, outHeader+40+attrSize)
	binary.NativeEndian.PutUint64(out[outHeader:], id)
	putAttr(out[outHeader+40:], id)
	f.reply(out, unique, 0)
}

func (f *FS) open(unique uint64, n *inode) {
	if n == nil {
		f.fail(unique, syscall.ENXIO)
		return
	}
	out := make([]byte, outHeader+16)
	flags := uint32(fopenDirectIO | fopenNoFlush)
	if n.reads != nil {
		flags |= fopenStream // without a position
	}
	if n.backing != 0 {
		flags |= fopenPassthrough
		binary.NativeEndian.PutUint32(out[outHeader+12:], uint32(n.backing))
	}
	binary.NativeEndian.PutUint32(out[outHeader+8:], flags)
	f.reply(out, unique, 0)
}

func (f *FS) readFile(unique uint64, tid int, n *inode, body []byte) {
	if n == nil || len(body) < 20 {
		f.fail(unique, syscall.EBADF)
		return
	}
	out := make([]byte, outHeader+min(int(word32(body, 16)), maxRead))
	got, err := n.read(tid, out[outHeader:])
	if err != nil {
		f.fail(unique, errnoOf(err))
		return
	}
	f.reply(out[:outHeader+got], unique, 0)
}

// read reads for a thread.
func (n *inode) read(tid int, p []byte) (int, error) {
	if n.reads != nil {
		return n.reads.ReadIn(tid, p)
	}
	return n.file.Read(p)
}

// maxRead bounds the size of a reply.
const maxRead = 1 << 16

func (f *FS) ioctl(unique uint64, n *inode, tid int, body []byte) {
	if n == nil || len(body) < ioctlHead {
		f.fail(unique, syscall.EBADF)
		return
	}
	cmd, arg := word32(body, 12), word64(body, 16)
	size, outSize := int(word32(body, 24)), min(int(word32(body, 28)), maxRead)
	in := body[ioctlHead:]
	in = in[:min(size, len(in))]
	out := make([]byte, outHeader+16+outSize)
	if err := n.file.Ioctl(tid, cmd, arg, in, out[outHeader+16:]); err != nil {
		f.fail(unique, errnoOf(err))
		return
	}
	f.reply(out, unique, 0)
}

func (f *FS) poll(unique uint64, n *inode, body []byte) {
	if n == nil || len(body) < 24 {
		f.fail(unique, syscall.EBADF)
		return
	}
	out := make([]byte, outHeader+8)
	ready, changed := n.file.Poll()
	if word32(body, 16)&pollSchedule != 0 {
		stop := make(chan struct{})
		n.watch(stop)
		kh := word64(body, 8)
		go func() {
			select {
			case <-changed:
				notice := make([]byte, outHeader+8)
				binary.NativeEndian.PutUint64(notice[outHeader:], kh)
				f.reply(notice, 0, notifyPoll)
			case <-stop:
			}
		}()
	}
	binary.NativeEndian.PutUint32(out[outHeader:], ready)
	f.reply(out, unique, 0)
}

// watch makes stop end the wait for the Poll, and ends the one before it.
func (n *inode) watch(stop chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.polled != nil {
		close(n.polled)
	}
	n.polled = stop
}

func (f *FS) fail(unique uint64, e syscall.Errno) {
	f.reply(make([]byte, outHeader), unique, -int32(e))
}

// errnoOf returns the errno of an error, EIO if it has none.
func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return syscall.EIO
}

// reply writes the header of a reply, and sends it. An error means that the caller has
// been killed.
func (f *FS) reply(out []byte, unique uint64, status int32) {
	binary.NativeEndian.PutUint32(out[0:], uint32(len(out)))
	binary.NativeEndian.PutUint32(out[4:], uint32(status))
	binary.NativeEndian.PutUint64(out[8:], unique)
	f.writing.RLock()
	defer f.writing.RUnlock()
	for !f.closed {
		if _, err := unix.Write(f.dev, out); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// Readable is what Poll returns when there is something to read.
const Readable = unix.POLLIN | 0x40 // POLLRDNORM
