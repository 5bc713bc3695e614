package fs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// The parts of FUSE's protocol that go-fuse keeps to itself: linux/fuse.h.
const (
	opForget      = 2
	opGetxattr    = 22
	opListxattr   = 23
	opRead        = 15
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
	notifyStore        = 4
)

// server is the daemon's end of a mount. It reads requests and has go-fuse's
// ProtocolServer take them apart and call the face. go-fuse's own loop would do,
// but it answers POLL with ENOSYS; from then on the host's kernel takes every file for
// always ready, so that who polls one never hears of what comes, nor of the end
// of the daemon.
type server struct {
	fd    int
	proto *fuse.ProtocolServer
	face  *face
	loops sync.WaitGroup

	readers atomic.Int32  // loops that wait for a request
	reading chan struct{} // full while one of them does so in poll(2)
	taking  sync.Mutex    // held for reads, which do not wait
	large   sync.Pool     // *[]byte of largeBuf
	medium  sync.Pool     // of mediumBuf

	mu      sync.Mutex
	workers []*worker // the loops that there are
	dead    bool      // the connection has ended

	writing sync.RWMutex // fd is open while it is held
	closed  bool
}

// worker is a loop: it reads a request and answers it. When it is the last one
// to read it leaves another in its place first.
type worker struct {
	request atomic.Uint64 // the number of the one that it answers; 0: none
	in, out [smallBuf]byte
}

const (
	smallBuf  = 8 << 10
	mediumBuf = 136 << 10 // for the 128 KiB that most programs read at most
	largeBuf  = maxIO + smallBuf
)

func newServer(fd int, f *face, o *fuse.MountOptions) *server {
	s := &server{fd: fd, face: f, proto: fuse.NewProtocolServer(f, o), reading: make(chan struct{}, 1)}
	s.large.New = func() any { b := make([]byte, largeBuf); return &b }
	s.medium.New = func() any { b := make([]byte, mediumBuf); return &b }
	return s
}

// maxReaders is how many loops may wait for a request.
func maxReaders() int32 { return int32(max(2, min(runtime.GOMAXPROCS(0), 16))) }

// init answers the first request, INIT: until then who uses the mount waits for
// it and cannot be killed.
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

func (s *server) loop() {
	defer s.loops.Done()
	w := &worker{}
	s.join(w)
	defer s.leave(w)
	for s.readers.Add(1) <= maxReaders() {
		b := s.large.Get().(*[]byte)
		n, over, err := s.next(*b)
		last := s.readers.Add(-1) == 0
		if err != nil {
			s.large.Put(b)
			s.end(err)
			return
		}
		in := (*b)[:n]
		if op := opcode(in); last && op != opForget && op != opBatchForget { // those come in crowds and cost little
			s.loops.Add(1)
			go s.loop()
		}
		if n <= smallBuf {
			in = w.in[:copy(w.in[:], in)]
			s.large.Put(b)
			s.answer(w, in)
			over()
			continue
		}
		s.answer(w, in)
		over()
		s.large.Put(b)
	}
	s.readers.Add(-1)
}

// next waits for a request; over is to be called when it has been answered.
func (s *server) next(b []byte) (n int, over func(), err error) {
	s.reading <- struct{}{}
	defer func() { <-s.reading }()
	for {
		n, over, err = s.take(b)
		if !errors.Is(err, unix.EAGAIN) {
			return n, over, err
		}
		s.ready(-1)
	}
}

// take reads the next request, if there is one: EAGAIN. A RELEASE is noted before
// anyone can see that it is no longer there to be read.
func (s *server) take(b []byte) (n int, over func(), err error) {
	s.taking.Lock()
	defer s.taking.Unlock()
	n, err = s.read(b)
	if err == nil && opcode(b) == opRelease {
		return n, s.face.tree.releases.begin(), nil
	}
	return n, func() {}, err
}

// caughtUp waits until all requests have been taken that are there, or cancel.
func (s *server) caughtUp(cancel <-chan struct{}) {
	for end := time.Now().Add(closing); s.unread() && time.Now().Before(end); {
		select {
		case <-time.After(20 * time.Microsecond): // the loops are about to
		case <-cancel:
			return
		}
	}
}

// unread says whether a request is there that has not been taken.
func (s *server) unread() bool {
	s.writing.RLock()
	defer s.writing.RUnlock()
	s.taking.Lock()
	defer s.taking.Unlock()
	return !s.closed && s.ready(0)
}

// ready waits for a request, for so many milliseconds, or the end of the connection.
func (s *server) ready(ms int) bool {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, ms)
	return err == nil && fds[0].Revents&unix.POLLIN != 0
}

// read gives the next request. ENOENT is one that was interrupted before it came.
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

func (s *server) join(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = append(s.workers, w)
}

func (s *server) leave(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = slices.DeleteFunc(s.workers, func(o *worker) bool { return o == w })
}

// end is the end of the connection: ENODEV when the mount is gone. What still
// waits is interrupted, until nothing is left.
func (s *server) end(err error) {
	if !errors.Is(err, unix.ENODEV) {
		s.face.tree.log.WithField("err", err).Error("reading from /dev/fuse")
	}
	s.mu.Lock()
	first := !s.dead
	s.dead = true
	s.mu.Unlock()
	if first {
		s.loops.Go(s.interruptAll)
	}
}

func (s *server) interruptAll() {
	for wait := time.Microsecond; ; wait = min(2*wait, 50*time.Millisecond) {
		waiting := false
		s.mu.Lock()
		workers := slices.Clone(s.workers)
		s.mu.Unlock()
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

// interrupt makes up the request by which the host's kernel would tell that a
// caller has got a signal.
func (s *server) interrupt(id uint64) {
	var in [inHeaderSize + 8]byte
	binary.NativeEndian.PutUint32(in[0:], uint32(len(in)))
	binary.NativeEndian.PutUint32(in[4:], opInterrupt)
	binary.NativeEndian.PutUint64(in[inHeaderSize:], id)
	var out [outHeaderSize]byte
	_, _ = s.proto.HandleRequest([][]byte{in[:]}, [][]byte{out[:]})
}

// answer does a request and writes what came of it.
func (s *server) answer(w *worker, in []byte) {
	w.request.Store(unique(in))
	defer w.request.Store(0)
	out := w.out[:]
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
		s.write(out[:s.poll(in, out)])
		return
	}
	n, status := s.proto.HandleRequest([][]byte{in}, [][]byte{out})
	if status != fuse.OK {
		n = failure(in, out, syscall.Errno(status))
	}
	if n > 0 {
		s.write(out[:n])
	}
}

// replySize is how many bytes the answer may have; requests for bytes say so.
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

// failure makes the answer that a request has failed.
func failure(in, out []byte, e syscall.Errno) int {
	return reply(out, unique(in), -int32(e), 0)
}

// reply fills in the header of an answer with n bytes behind it.
func reply(out []byte, id uint64, status int32, n int) int {
	binary.NativeEndian.PutUint32(out[0:], uint32(outHeaderSize+n))
	binary.NativeEndian.PutUint32(out[4:], uint32(status))
	binary.NativeEndian.PutUint64(out[8:], id)
	return outHeaderSize + n
}

// write hands the host's kernel an answer or a notice. It fails when the kernel
// has lost interest: the caller, the inode or the mount is gone.
func (s *server) write(out []byte) {
	s.writing.RLock()
	defer s.writing.RUnlock()
	for !s.closed {
		if _, err := unix.Write(s.fd, out); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// notify sends a notice: they have no number, and their kind stands for the status.
func (s *server) notify(kind int32, words []uint64, data []byte) {
	var out [outHeaderSize + 64]byte
	b := out[:outHeaderSize]
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	b = append(b, data...)
	reply(b, 0, kind, len(b)-outHeaderSize)
	s.write(b)
}

// storeByte tells the host's kernel that the page cache of an inode holds a byte at off.
func (s *server) storeByte(inode uint64, off int64) {
	s.notify(notifyStore, []uint64{inode, uint64(off), 1}, []byte{0}) // 1: the size, with padding
}

// poll answers poll(2), select(2) and epoll(7). A request with
// pollScheduleNotify comes from one who will sleep if nothing is ready.
func (s *server) poll(in, out []byte) int {
	if len(in) < inHeaderSize+24 {
		return failure(in, out, syscall.EINVAL)
	}
	args := in[inHeaderSize:]
	h := s.face.handles.get(binary.NativeEndian.Uint64(args))
	ready := uint32(seqfile.PollAlways)
	if h != nil {
		if p, ok := seqfile.As[seqfile.Poller](h.opened()); ok {
			ready = h.poll(s, p, binary.NativeEndian.Uint64(args[8:]), args[16]&pollScheduleNotify != 0)
		}
	}
	binary.NativeEndian.PutUint64(out[outHeaderSize:], uint64(ready))
	return reply(out, unique(in), 0, 8)
}

// poll looks at what is ready; with sleeps it lets the host's kernel know, by
// its number kh for the open file, when that may have changed.
func (h *handle) poll(s *server, p seqfile.Poller, kh uint64, sleeps bool) uint32 {
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
		case <-stop:
		}
	}()
	return ready
}

// watch makes stop the end of what is watched for those who poll h: there is
// one watch, the last one. nil: none.
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
