package fs_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/integration/model"
	"github.com/kprobefs/kprobefs/kernel"
)

// unmounted is a kernel whose tree is not mounted: it makes the requests that the
// host's kernel would make, one at a time. Its clock is fast, since sequences would
// otherwise mostly wait for grace periods and the optimizer.
type unmounted struct {
	fs  fuse.RawFileSystem
	tid uint32
}

// newUnmounted boots one. Requests go directly to the files, not through system calls
// of the guest: soak.TestMountedSequences does that.
func newUnmounted(t testing.TB) *unmounted {
	t.Helper()
	clock := kernel.NewVirtualClock(1_700_000_000_000_000_000)
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2, Seed: 1, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				// Not a Go timer: in an idle process these are a millisecond late,
				// which would make up most of the test's time.
				_ = unix.Nanosleep(&unix.Timespec{Nsec: 20_000}, nil)
				clock.Advance(10 * time.Millisecond)
			}
		}
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		close(stop)
		wg.Wait()
	})
	root := &seqfile.Row{Name: "/", Mode: 0o755, Dir: s.Tree(), Kind: seqfile.Ours, At: "/"}
	return &unmounted{fs: fs.NewFilesystem(fs.New(nil, nil), root), tid: uint32(os.Getpid())}
}

// TestSequences executes random sequences of operations and compares with the model.
func TestSequences(t *testing.T) {
	u := newUnmounted(t)
	rapid.Check(t, func(r *rapid.T) { model.Sequence(r, u) })
}

// FuzzSequences executes sequences made from the fuzzer's bytes.
func FuzzSequences(f *testing.F) {
	for seed := range byte(8) {
		b := make([]byte, 1<<10) // about ten operations
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
		f.Add(b)
	}
	u := newUnmounted(f)
	f.Fuzz(rapid.MakeFuzz(func(r *rapid.T) { model.Sequence(r, u) }))
}

func (u *unmounted) header(node uint64) fuse.InHeader {
	return fuse.InHeader{NodeId: node, Caller: fuse.Caller{Pid: u.tid}}
}

// errno returns the error that a system call would return.
func errno(s fuse.Status) error {
	if s.Ok() {
		return nil
	}
	return syscall.Errno(s)
}

// Open looks up the names of the path and opens the last one.
func (u *unmounted) Open(name string, flags int) (model.File, error) {
	node := uint64(fuse.FUSE_ROOT_ID)
	for part := range strings.SplitSeq(name, "/") {
		h := u.header(node)
		var out fuse.EntryOut
		s := u.fs.Lookup(nil, &h, part, &out)
		u.forget(node)
		if !s.Ok() {
			return nil, errno(s)
		}
		node = out.NodeId
	}
	in := fuse.OpenIn{InHeader: u.header(node), Flags: uint32(flags)}
	var out fuse.OpenOut
	if s := u.fs.Open(nil, &in, &out); !s.Ok() {
		u.forget(node)
		return nil, errno(s)
	}
	return &openFile{u: u, node: node, fh: out.Fh, flags: in.Flags}, nil
}

func (u *unmounted) forget(node uint64) {
	if node != fuse.FUSE_ROOT_ID {
		u.fs.Forget(node, 1)
	}
}

// openFile is an open file of the host's kernel.
type openFile struct {
	u        *unmounted
	node, fh uint64
	flags    uint32
	pos      int64
}

func (o *openFile) Read(p []byte) (int, error) {
	n, err := o.Pread(p, o.pos)
	o.pos += int64(n)
	return n, err
}

func (o *openFile) Pread(p []byte, off int64) (int, error) {
	in := fuse.ReadIn{
		InHeader: o.u.header(o.node), Fh: o.fh, Offset: uint64(off), Size: uint32(len(p)),
		ReadFlags: fuse.READ_LOCKOWNER, Flags: o.flags,
	}
	res, s := o.u.fs.Read(nil, &in, p)
	if !s.Ok() {
		return 0, errno(s)
	}
	b, s := res.Bytes(p)
	n := copy(p, b)
	res.Done()
	return n, errno(s)
}

func (o *openFile) Write(p []byte) (int, error) {
	in := fuse.WriteIn{InHeader: o.u.header(o.node), Fh: o.fh, Offset: uint64(o.pos), Size: uint32(len(p)), Flags: o.flags}
	n, s := o.u.fs.Write(nil, &in, p)
	o.pos += int64(n)
	return int(n), errno(s)
}

func (o *openFile) SeekTo(pos int64) error {
	o.pos = pos
	return nil
}

func (o *openFile) Close() error {
	s := o.u.fs.Flush(nil, &fuse.FlushIn{InHeader: o.u.header(o.node), Fh: o.fh})
	o.u.fs.Release(nil, &fuse.ReleaseIn{InHeader: o.u.header(o.node), Fh: o.fh})
	o.u.forget(o.node)
	return errno(s)
}
