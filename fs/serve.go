package fs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// The parts of FUSE's protocol (linux/fuse.h) that go-fuse does not export.
const (
	opForget      = 2
	opGetxattr    = 22
	opListxattr   = 23
	opRead        = 15
	opWrite       = 16
	opRelease     = 18
	opReaddir     = 28
	opInterrupt   = 36
	opIoctl       = 39
	opPoll        = 40
	opBatchForget = 42

	inHeaderSize  = 40
	outHeaderSize = 16

	pollScheduleNotify = 1
	notifyPoll         = 1
	notifyInvalEntry   = 3
	notifyStore        = 4
)

// server is the daemon's end of a mount. It reads requests; go-fuse's ProtocolServer
// decodes them and calls the filesystem. go-fuse's own loop is not used because it
// answers POLL with ENOSYS. From then on the host's kernel takes all files as always
// ready, and poll(2) misses new data and the end of the daemon.
type server struct {
	fd    int
	proto *fuse.ProtocolServer
	fs    *filesystem
	turns turns

	sequence *Sequence // if requests have an order, else nil

	loops sync.WaitGroup

	taking sync.Mutex // held for read(2), which does not block
	large  sync.Pool  // of *[]byte, largeBuf bytes
	medium sync.Pool  // of *[]byte, mediumBuf bytes

	writing sync.RWMutex // held to keep fd open
	closed  bool
}

const (
	smallBuf  = 8 << 10
	mediumBuf = 136 << 10 // few programs read more than 128 KiB at once
	largeBuf  = maxIO + smallBuf
)

func newServer(fd int, f *filesystem, o *fuse.MountOptions) *server {
	s := &server{fd: fd, fs: f, proto: fuse.NewProtocolServer(f, o)}
	s.turns.spins = runtime.GOMAXPROCS(0) > 1 && runtime.NumCPU() > 1
	s.large.New = func() any { b := make([]byte, largeBuf); return &b }
	s.medium.New = func() any { b := make([]byte, mediumBuf); return &b }
	return s
}

// init answers INIT, the first request. Until then processes that use the mount wait
// and cannot be killed.
func (s *server) init() error {
	w := &worker{}
	if err := unix.SetNonblock(s.fd, true); err != nil {
		return err
	}
	n, _, err := s.next(w.in[:])
	if err != nil {
		return fmt.Errorf("FUSE's INIT: %w", err)
	}
	s.answer(w, w.in[:n])
	return nil
}

// serve answers requests until the mount has ended.
func (s *server) serve() {
	s.loops.Add(1)
	s.loop()
	s.loops.Wait()
	s.writing.Lock()
	defer s.writing.Unlock()
	s.closed = true
	_ = unix.Close(s.fd)
}

// loop answers requests. It reads one after the other as long as it leads (turns).
func (s *server) loop() {
	defer s.loops.Done()
	w := &worker{wake: make(chan struct{}, 1)}
	s.turns.join(w)
	defer s.turns.leave(w)
	for leads := true; leads; leads = s.turns.answered(w) || s.turns.wait(w) {
		b := s.large.Get().(*[]byte)
		n, over, err := s.next(*b)
		if err != nil {
			s.large.Put(b)
			s.end(err)
			return
		}
		s.lead(w)
		in := (*b)[:n]
		if n <= smallBuf {
			in = w.in[:copy(w.in[:], in)]
			s.large.Put(b)
		}
		s.answer(w, in)
		over()
		if n > smallBuf {
			s.large.Put(b)
		}
	}
}

// next waits for a request. over must be called when it has been answered.
func (s *server) next(b []byte) (n int, over func(), err error) {
	wait := spin{t: &s.turns}
	n, over, err = s.take(b)
	for ; errors.Is(err, unix.EAGAIN); n, over, err = s.take(b) {
		if !wait.again() {
			s.ready(-1)
		}
	}
	wait.over()
	return n, over, err
}

// take reads the next request, or returns EAGAIN. A RELEASE is added to the releases
// pending before another goroutine can see that it has left the queue.
func (s *server) take(b []byte) (n int, over func(), err error) {
	s.taking.Lock()
	defer s.taking.Unlock()
	n, err = s.read(b)
	if err == nil && opcode(b) == opRelease {
		return n, s.fs.tree.releases.begin(), nil
	}
	return n, func() {}, err
}

// caughtUp waits until all queued requests have been read, releasePatience at most, or for
// cancel, and then returns false. It calls waits before it waits.
func (s *server) caughtUp(cancel <-chan struct{}, waits func()) bool {
	if !s.unread() {
		return true
	}
	waits()
	for end := time.Now().Add(releasePatience); s.unread() && time.Now().Before(end); {
		select {
		case <-time.After(20 * time.Microsecond): // the loops are reading them
		case <-cancel:
			return false
		}
	}
	return true
}

// unread reports whether a request is queued.
func (s *server) unread() bool {
	s.writing.RLock()
	defer s.writing.RUnlock()
	s.taking.Lock()
	defer s.taking.Unlock()
	return !s.closed && s.ready(0)
}

// ready waits at most ms milliseconds for a request, and reports whether there is one.
func (s *server) ready(ms int) bool {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, ms)
	return err == nil && fds[0].Revents&unix.POLLIN != 0
}

// read reads the next request. ENOENT means that one was interrupted before that.
func (s *server) read(b []byte) (int, error) {
	for {
		n, err := unix.Read(s.fd, b)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT):
		case err == nil && n < inHeaderSize:
			return 0, unix.EINVAL
		default:
			return n, err
		}
	}
}

func opcode(in []byte) uint32 { return binary.NativeEndian.Uint32(in[4:]) }
func unique(in []byte) uint64 { return binary.NativeEndian.Uint64(in[8:]) }

// end handles the end of the connection, with ENODEV when the mount is gone. It
// interrupts the requests that still wait.
func (s *server) end(err error) {
	if !errors.Is(err, unix.ENODEV) {
		s.fs.tree.log.WithField("err", err).Error("reading from /dev/fuse")
	}
	if s.turns.end() {
		s.loops.Go(s.interruptAll)
	}
}

func (s *server) interruptAll() {
	for wait := time.Microsecond; ; wait = min(2*wait, 50*time.Millisecond) {
		waiting := false
		workers := s.turns.all()
		for _, w := range workers {
			if id := w.request.Load(); id != 0 {
				s.interrupt(id)
				waiting = true
			}
		}
		if !waiting && len(workers) == 0 {
			return
		}
		time.Sleep(wait)
	}
}

// interrupt makes the request that the host's kernel sends when a caller gets a
// signal.
func (s *server) interrupt(id uint64) {
	var in [inHeaderSize + 8]byte
	binary.NativeEndian.PutUint32(in[0:], uint32(len(in)))
	binary.NativeEndian.PutUint32(in[4:], opInterrupt)
	binary.NativeEndian.PutUint64(in[inHeaderSize:], id)
	var out [outHeaderSize]byte
	_, _ = s.proto.HandleRequest([][]byte{in[:]}, [][]byte{out[:]})
}

// answer serves a request and writes the reply.
func (s *server) answer(w *worker, in []byte) {
	w.request.Store(unique(in))
	defer w.request.Store(0)
	out := w.out[:]
	if holds(opcode(in)) {
		if s.fs.tree.limit.Small(s.fs.tree.owner.user(binary.NativeEndian.Uint32(in[24:])) == 0) != nil {
			s.send(w, out[:failure(in, out, syscall.ENOMEM)])
			return
		}
	}
	if n := replySize(in); n > smallBuf {
		pool := &s.large
		if n <= mediumBuf {
			pool = &s.medium
		}
		b := pool.Get().(*[]byte)
		defer pool.Put(b)
		out = *b
	}
	if opcode(in) == opPoll {
		s.send(w, out[:s.poll(in, out)])
		return
	}
	n, status := s.proto.HandleRequest([][]byte{in}, [][]byte{out})
	if status != fuse.OK {
		n = failure(in, out, syscall.Errno(status))
	}
	if n > 0 {
		s.send(w, out[:n])
	}
	if opcode(in) == opRead && n == outHeaderSize {
		s.fs.readNothing(binary.NativeEndian.Uint64(in[16:]))
	}
}

// send is write for the reply to w's request.
func (s *server) send(w *worker, out []byte) {
	if w.flow != nil {
		w.flow.replied(out)
		if w.flow.told {
			return
		}
	}
	if w.direct != nil {
		w.direct.write(out)
		return
	}
	s.write(out)
}

// holds reports whether a request may take long and hold memory: reads and writes can
// wait in their file.
func holds(op uint32) bool { return op == opRead || op == opWrite }

// replySize is the maximal size of the reply to a request for data, or 0.
func replySize(in []byte) int {
	at := 0
	switch opcode(in) {
	case opRead, opReaddir:
		at = inHeaderSize + 16
	case opGetxattr, opListxattr:
		at = inHeaderSize
	case opIoctl:
		at = inHeaderSize + 28
	}
	if at == 0 || len(in) < at+4 {
		return 0
	}
	return int(binary.NativeEndian.Uint32(in[at:])) + outHeaderSize + 512
}

// failure writes an error reply to out and returns its size.
func failure(in, out []byte, e syscall.Errno) int {
	return reply(out, unique(in), -int32(e), 0)
}

// reply writes the header of a reply with n bytes of data to out, and returns the
// reply's size.
func reply(out []byte, id uint64, status int32, n int) int {
	binary.NativeEndian.PutUint32(out[0:], uint32(outHeaderSize+n))
	binary.NativeEndian.PutUint32(out[4:], uint32(status))
	binary.NativeEndian.PutUint64(out[8:], id)
	return outHeaderSize + n
}

// write sends the host's kernel a reply or a notice. An error means that the caller,
// the inode or the mount is gone, and is ignored.
func (s *server) write(out []byte) {
	s.writing.RLock()
	defer s.writing.RUnlock()
	for !s.closed {
		if _, err := unix.Write(s.fd, out); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// notify sends a notice: a reply with number 0 and the kind as its status.
func (s *server) notify(kind int32, words []uint64, data []byte) {
	b := make([]byte, outHeaderSize, outHeaderSize+64)
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	b = append(b, data...)
	reply(b, 0, kind, len(b)-outHeaderSize)
	s.write(b)
}

// storeByte tells the host's kernel that the page cache of an inode holds a byte at off.
func (s *server) storeByte(inode uint64, off int64) {
	s.notify(notifyStore, []uint64{inode, uint64(off), 1}, []byte{0}) // the size 1, and padding
}

// invalidate tells the host's kernel that a directory may no longer have a name. It
// waits for calls that change the directory, so a goroutine that serves such a call
// must not wait for it.
func (s *server) invalidate(dir uint64, name string) {
	s.notify(notifyInvalEntry, []uint64{dir, uint64(len(name))}, append([]byte(name), 0))
}

// poll answers poll(2), select(2) and epoll(7). With pollScheduleNotify the caller
// sleeps if the file is not ready.
func (s *server) poll(in, out []byte) int {
	if len(in) < inHeaderSize+24 {
		return failure(in, out, syscall.EINVAL)
	}
	args := in[inHeaderSize:]
	h := s.fs.handles.get(binary.NativeEndian.Uint64(args))
	ready := uint32(seqfile.PollAlways)
	if h != nil && h.guest {
		ready = h.pollGuest(s, binary.NativeEndian.Uint64(args[8:]), args[16]&pollScheduleNotify != 0)
	} else if h != nil {
		if p, ok := seqfile.As[seqfile.Poller](h.opened()); ok {
			ready = h.poll(s, p, binary.NativeEndian.Uint64(args[8:]), args[16]&pollScheduleNotify != 0)
		}
	}
	binary.NativeEndian.PutUint64(out[outHeaderSize:], uint64(ready))
	return reply(out, unique(in), 0, 8)
}

// poll returns the events for which the file is ready. If the caller sleeps, poll
// has the host's kernel, which knows the open file as kh, ask again when they change.
func (h *handle) poll(s *server, p seqfile.Poller, kh uint64, sleeps bool) uint32 {
	ends := h.boot.ends(h.usableAfterPanic)
	select {
	case <-ends:
		return seqfile.PollIn | seqfile.PollLost // a read gives the error
	default:
	}
	if !sleeps {
		ready, _, end := p.Poll()
		end()
		return ready
	}
	stop := make(chan struct{})
	h.watch(stop)
	ready, changed, end := p.Poll()
	go func() {
		defer end()
		select {
		case <-changed:
			s.notify(notifyPoll, []uint64{kh}, nil)
		case <-ends:
			s.notify(notifyPoll, []uint64{kh}, nil)
		case <-stop:
		}
	}()
	return ready
}

// watch makes stop the channel that ends the wait for h's Poller, and ends the wait
// before it. A nil stop only ends that.
func (h *handle) watch(stop chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.polled != nil {
		close(h.polled)
	}
	h.polled = stop
	if h.over && stop != nil {
		close(stop)
		h.polled = nil
	}
}
