package fs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/journal"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kernel/wait"
)

// A deterministic machine (kernel.Options.Sequenced) takes one request after the other, in the order in which the
// host's kernel has queued them. A request is served to its end, or to where it waits for something, and the machine
// is executed until it is idle, before the next one begins. So the machine's state depends on the requests and their
// order alone. Both are kept, with who made the requests, and can be played to another machine.
//
// A request that waits (wait.For, or for a guest that sleeps) goes on as soon as what it waits for has happened,
// before others begin; of several the one that has waited longest.
//
// Requests about machine/run and machine/vmlinux are not among them, nor is stat(2) and access(2) of the directories above it, nor a
// look for a name that machine/ does not have (gdb looks for vmlinux-gdb.py): they work while the machine is stopped, and do not
// touch it. The same is true of advisory locks.

// SequencedMachine is what a Sequence needs of the machine: *kernel.Machine.
type SequencedMachine interface {
	// Enter and Leave enclose what needs the machine.
	Enter()
	Leave()
	// Settle executes the machine until it is idle.
	Settle(wait.Parker)
	// Retired is the number of executed instructions.
	Retired() uint64
}

// ErrDiverged means that a journal does not fit the machine to which it is played.
var ErrDiverged = errors.New("the machine does not do what the journal says")

// Sequence serves the requests of one tree in their order.
type Sequence struct {
	tree   *Tree
	fs     *filesystem
	server *server
	m      SequencedMachine
	record func(journal.Entry)
	apart  map[uint64]*node // the files that do without the machine, by their numbers
	dir    *node            // the directory that they are in

	played chan struct{} // closed when the script is at its end, or does not fit

	mu      sync.Mutex
	changed *sync.Cond
	script  []journal.Entry
	failed  error // the reason why the script does not fit
	live    bool  // requests are taken from the queue
	ended   bool
	queue   []*flow
	parked  []*flow
	running *flow
	breaks  []uint64          // requests that have been interrupted while they ran
	outside map[uint64]bool   // requests that have no turn
	numbers map[thread]uint32 // of threads
	last    uint32
	most    int // how many numbers there may be before ended threads are forgotten
}

// thread is a thread of the host. A number is used again, but not with the same start.
type thread struct {
	tid   int
	start uint64
}

// firstNumber is the number of the first thread that makes a request.
const firstNumber = 1000

// flow is a request on its way.
type flow struct {
	q      *Sequence
	unique uint64
	in     []byte
	caller journal.Caller
	began  bool
	ended  bool
	told   bool // its caller has got the answer already, before the machine went back
	hash   uint64
	ctx    context.Context // while it waits
	ready  func() bool
	resume chan bool
	paused chan struct{}
}

var _ wait.Parker = (*flow)(nil)

// Sequence makes the tree, which must have no mounts yet, a deterministic machine's. It plays a script of entries
// to it, and then closes the channel that Played returns. record, which may be nil, is called with each entry, also with those
// of the script.
func (t *Tree) Sequence(root *seqfile.Row, m SequencedMachine, script []journal.Entry, record func(journal.Entry)) *Sequence {
	f := newFilesystem(t, root)
	q := &Sequence{
		tree: t, fs: f, m: m, script: script, record: record, last: firstNumber,
		outside: map[uint64]bool{}, apart: map[uint64]*node{}, numbers: map[thread]uint32{}, played: make(chan struct{}),
	}
	if record == nil {
		q.record = func(journal.Entry) {}
	}
	q.changed = sync.NewCond(&q.mu)
	f.server = newServer(-1, f, t.fuseOptions())
	f.server.closed = true
	f.server.sequence, q.server = q, f.server
	t.sequence = q
	q.keep()
	go q.serve()
	return q
}

// keep has the nodes of the files that do without the machine stay for ever: look-ups of them are not in the journal.
func (q *Sequence) keep() {
	const forEver = 1 << 40
	hold := func(dir *node, name string) *node {
		n, _ := q.tree.inodes.lookup(dir, name)
		if n != nil {
			n.refs += forEver
		}
		return n
	}
	if q.dir = hold(q.fs.root, "machine"); q.dir == nil {
		return
	}
	for _, name := range withoutMachine {
		if n := hold(q.dir, name); n != nil {
			q.apart[n.id] = n
		}
	}
}

// withoutMachine are the files of machine/ that are served while the machine is stopped, and do not touch it: run stops it,
// and debuggers read vmlinux.
var withoutMachine = []string{"run", "vmlinux"}

// Played is closed when the script has been played.
func (q *Sequence) Played() <-chan struct{} { return q.played }

// Err returns why the script does not fit the machine, or nil.
func (q *Sequence) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// GoLive has requests of mounts served from now on; what is left of the script is forgotten.
func (q *Sequence) GoLive() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.live, q.script = true, nil
	q.changed.Broadcast()
}

// End ends the service: requests that wait get no answer.
func (q *Sequence) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.changed.Broadcast()
}

// serve gives turns.
func (q *Sequence) serve() {
	for {
		f, goesOn := q.next()
		if f == nil {
			return
		}
		q.turn(f, goesOn)
	}
}

// next returns the request that has the next turn, or nil at the end. goesOn is what Park returns to one that has waited.
func (q *Sequence) next() (f *flow, goesOn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for told := false; !q.ended; q.changed.Wait() {
		for i, f := range q.parked {
			goesOn = f.ready()
			if goesOn || f.ctx.Err() != nil {
				q.parked = slices.Delete(q.parked, i, i+1)
				q.running = f
				return f, goesOn
			}
		}
		if f := q.scripted(); f != nil {
			q.running = f
			return f, false
		}
		if !told {
			select {
			case <-q.played:
			default:
				close(q.played)
			}
			told = true
		}
		if q.live && len(q.queue) > 0 {
			f := q.queue[0]
			q.queue = q.queue[1:]
			q.running = f
			return f, false
		}
	}
	for _, f := range q.parked {
		f.resume <- false // its answer goes nowhere
	}
	q.parked = nil
	return nil, false
}

// scripted returns the script's next request, or nil at the script's end; mu is held.
func (q *Sequence) scripted() *flow {
	if len(q.script) == 0 {
		return nil
	}
	e := q.script[0]
	if at := q.m.Retired(); e.Kind != journal.Request || e.Position != at {
		q.diverge("the next entry is a %q at instruction %d, and the machine waits for a request at instruction %d", byte(e.Kind), e.Position, at)
		return nil
	}
	q.script = q.script[1:]
	f := q.newFlow(e.Data, e.Caller)
	f.told = slices.ContainsFunc(q.script, func(a journal.Entry) bool { return a.Kind == journal.Answer && a.Unique == f.unique })
	return f
}

// Script returns what is left of the script.
func (q *Sequence) Script() []journal.Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.script)
}

// diverge ends the script; mu is held.
func (q *Sequence) diverge(format string, args ...any) {
	q.failed = fmt.Errorf(format+": %w", append(args, ErrDiverged)...)
	q.script = nil
}

func (q *Sequence) newFlow(in []byte, c journal.Caller) *flow {
	return &flow{q: q, unique: unique(in), in: in, caller: c, resume: make(chan bool, 1), paused: make(chan struct{}, 1)}
}

// turn serves f until it has been answered or waits, and executes the machine until it is idle.
func (q *Sequence) turn(f *flow, goesOn bool) {
	q.m.Enter()
	defer q.m.Leave()
	if f.began {
		f.resume <- goesOn
	} else {
		f.began = true
		q.record(journal.Entry{Kind: journal.Request, Position: q.m.Retired(), Unique: f.unique, Data: f.in, Caller: f.caller})
		go f.serve()
	}
	<-f.paused
	q.mu.Lock()
	q.running = nil
	q.mu.Unlock()
	if f.ended {
		q.answered(f)
	}
	q.m.Settle(nil)
}

// serve answers the request.
func (f *flow) serve() {
	w := &worker{flow: f}
	f.q.server.answer(w, f.in)
	f.ended = true
	f.paused <- struct{}{}
}

// answered records f's answer, or compares it with the script's.
func (q *Sequence) answered(f *flow) {
	e := journal.Entry{Kind: journal.Answer, Position: q.m.Retired(), Unique: f.unique, Hash: f.hash}
	q.mu.Lock()
	if len(q.script) > 0 {
		if want := q.script[0]; want.Kind != e.Kind || want.Position != e.Position || want.Unique != e.Unique || want.Hash != e.Hash {
			q.diverge("request %d (operation %d) was answered with %#x at instruction %d, the journal has %q %d, %#x, %d",
				f.unique, opcode(f.in), f.hash, e.Position, byte(want.Kind), want.Unique, want.Hash, want.Position)
		} else {
			q.script = q.script[1:]
		}
	}
	q.mu.Unlock()
	q.record(e)
}

// replied notes what the answer is: the status, and data that does not contain times.
func (f *flow) replied(out []byte) {
	h := fnv.New64a()
	_, _ = h.Write(out[4:8])
	switch opcode(f.in) {
	case opRead, opWrite, opIoctl:
		_, _ = h.Write(out[outHeaderSize:])
	}
	f.hash = h.Sum64()
}

// Park implements wait.Parker.
func (f *flow) Park(ctx context.Context, ready func() bool) bool {
	f.ctx, f.ready = ctx, ready
	f.q.mu.Lock()
	f.q.parked = append(f.q.parked, f)
	f.q.mu.Unlock()
	f.paused <- struct{}{}
	return <-f.resume
}

// Boundary implements wait.Parker: the caller's interrupt takes effect between two bursts.
func (f *flow) Boundary() {
	if f.q.interrupted(f) {
		f.q.server.interrupt(f.unique)
	}
}

// interrupted reports whether f was interrupted just now.
func (q *Sequence) interrupted(f *flow) bool {
	e := journal.Entry{Kind: journal.Interrupt, Position: q.m.Retired(), Unique: f.unique}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.script) > 0 {
		if next := q.script[0]; next.Kind != e.Kind || next.Position != e.Position || next.Unique != e.Unique {
			return false
		}
		q.script = q.script[1:]
	} else {
		i := slices.Index(q.breaks, f.unique)
		if i < 0 {
			return false
		}
		q.breaks = slices.Delete(q.breaks, i, i+1)
	}
	q.record(e)
	return true
}

// accept takes a request that has been read from the host's kernel.
func (q *Sequence) accept(c *connection, in []byte) {
	if opcode(in) == opInterrupt {
		q.interrupt(in)
		return
	}
	if q.hasNoTurn(in) {
		q.mu.Lock()
		q.outside[unique(in)] = true
		q.mu.Unlock()
		go func() {
			q.server.answer(&worker{direct: c}, in)
			q.mu.Lock()
			delete(q.outside, unique(in))
			q.mu.Unlock()
		}()
		return
	}
	f := q.newFlow(in, q.identify(in))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, f)
	q.changed.Broadcast()
}

// hasNoTurn reports whether a request does without the machine: it is about machine/run or machine/vmlinux, or an advisory lock.
func (q *Sequence) hasNoTurn(in []byte) bool {
	const opGetLk, opSetLkw = 31, 33
	op, id := opcode(in), binary.NativeEndian.Uint64(in[16:])
	if op >= opGetLk && op <= opSetLkw {
		return true
	}
	switch {
	case q.dir == nil:
		return false
	case op == opLookup:
		name := strings.TrimRight(string(in[inHeaderSize:]), "\x00")
		return id == fuse.FUSE_ROOT_ID && name == "machine" || id == q.dir.id && (slices.Contains(withoutMachine, name) || seqfile.Find(q.dir.rowNow().Dir, name) == nil)
	case (op == opGetattr || op == opAccess) && (id == fuse.FUSE_ROOT_ID || id == q.dir.id):
		return true
	}
	return q.apart[id] != nil && op != opForget && op != opBatchForget
}

// interrupt handles the host's kernel's message that the caller of a request has got a signal.
func (q *Sequence) interrupt(in []byte) {
	if len(in) < inHeaderSize+8 {
		return
	}
	id := binary.NativeEndian.Uint64(in[inHeaderSize:])
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.outside[id]:
		go q.server.interrupt(id)
	case q.running != nil && q.running.unique == id, slices.ContainsFunc(q.script, func(e journal.Entry) bool { return e.Kind == journal.Request && e.Unique == id }):
		q.breaks = append(q.breaks, id)
	case slices.ContainsFunc(q.parked, func(f *flow) bool { return f.unique == id }):
		q.queue = append(q.queue, q.newFlow(in, journal.Caller{}))
	default:
		i := slices.IndexFunc(q.queue, func(f *flow) bool { return f.unique == id })
		if i < 0 || opcode(q.queue[i].in) == opRelease || opcode(q.queue[i].in) == opInterrupt {
			return
		}
		f := q.queue[i]
		q.queue = slices.Delete(q.queue, i, i+1)
		var out [outHeaderSize]byte
		q.server.write(out[:failure(f.in, out[:], syscall.EINTR)])
	}
	q.changed.Broadcast()
}

// identify asks the host who makes a request.
func (q *Sequence) identify(in []byte) (c journal.Caller) {
	tid := int(binary.NativeEndian.Uint32(in[32:]))
	switch opcode(in) {
	case opForget, opBatchForget:
		return c
	}
	if tid == 0 {
		return c
	}
	caps, visible := proc.Status(tid, "CapEff")
	c.Visible = visible
	c.Caps, _ = strconv.ParseUint(caps, 16, 64)
	c.Comm = commOf(tid)
	c.Inside = sameUserNS(tid)
	c.Groups = q.tree.groupsOf(tid)
	pid, err := proc.Process(tid)
	if err != nil {
		pid = tid
	}
	if q.meetsGuest(in) {
		c.PID = q.number(pid)
		c.TID = q.number(tid)
	}
	return c
}

// Requests that fs.go does not name.
const (
	opLookup  = 1
	opGetattr = 3
	opAccess  = 34
)

// meetsGuest reports whether a request may become a call of the guest, so that its caller has a task there. The threads of
// a program that only looks, such as 'kprobefs snapshot', have no numbers.
func (q *Sequence) meetsGuest(in []byte) bool {
	if op := opcode(in); op == opLookup || op == opAccess {
		return false
	}
	n := q.tree.inodes.get(binary.NativeEndian.Uint64(in[16:]))
	return n == nil || !n.rowNow().WithoutGuest
}

// number returns the number that a thread of the host has in the machine: they are given in the order in which the
// threads are first seen, so that they do not depend on what else the host does.
func (q *Sequence) number(tid int) uint32 {
	stat, _ := proc.ReadStat(tid)
	key := thread{tid, stat.Start}
	n, ok := q.numbers[key]
	if !ok {
		if len(q.numbers) >= max(q.most, leastThreads) {
			q.forget()
		}
		n = q.last
		q.last++
		q.numbers[key] = n
	}
	return n
}

// leastThreads is how many threads have numbers before it is looked which of them have ended.
const leastThreads = 1024

// forget drops the numbers of threads that have ended, which nobody asks for again.
func (q *Sequence) forget() {
	maps.DeleteFunc(q.numbers, func(t thread, _ uint32) bool {
		stat, _ := proc.ReadStat(t.tid)
		return stat.Start != t.start
	})
	q.most = 2 * len(q.numbers)
}

// flowOf returns the request that has the turn if it has this number, else nil.
func (q *Sequence) flowOf(id uint64) *flow {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running != nil && q.running.unique == id {
		return q.running
	}
	return nil
}

// seqCaller returns the caller of a request as the journal has it.
func (f *flow) seqCaller(t *Tree, h *fuse.InHeader) *seqfile.Caller {
	c := f.caller
	uid, gid := t.owner.user(h.Uid), t.owner.group(h.Gid)
	return &seqfile.Caller{
		TID: int(c.TID), PID: int(c.PID), UID: uid, GID: gid, Recorded: true,
		CommFunc: func() string { return c.Comm },
		CapableFunc: func(capability int) bool {
			if t.owner != (owner{}) {
				return uid == 0 && c.Inside
			}
			if !c.Visible {
				return uid == 0
			}
			return c.Inside && c.Caps>>uint(capability)&1 != 0
		},
		GroupsFunc: func() []uint32 { return c.Groups },
	}
}

// Numbers continues the numbers of threads after a journal's.
func (q *Sequence) Numbers(entries []journal.Entry) {
	for _, e := range entries {
		if e.Kind == journal.Request {
			q.last = max(q.last, e.Caller.TID+1, e.Caller.PID+1)
		}
	}
}

// Mount serves the root of the tree at dir, once the script has been played.
func (q *Sequence) Mount(dir string, o MountOptions) (*Mount, error) {
	dir, unlock, err := q.tree.place(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	fd, err := connect(dir, o)
	if err != nil {
		return nil, mountError(dir, err)
	}
	c := &connection{fd: fd, q: q}
	m := &Mount{Dir: dir, fs: q.fs, done: make(chan struct{}), connection: c}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	q.server.attach(fd)
	go func() {
		defer close(m.done)
		c.serve()
	}()
	return m, nil
}

// Follow has the mount's requests served by another Sequence, whose machine is at an earlier moment of the same
// run. Answers of the first one are no longer given. With again, what is left of q's script is played before further
// requests are served; who has got an answer in the first run gets none.
func (m *Mount) Follow(q *Sequence, again bool) {
	c := m.connection
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.q
	old.server.detach()
	old.mu.Lock()
	waiting := old.queue
	old.queue, old.ended = nil, true
	old.changed.Broadcast()
	numbers, last := old.numbers, old.last
	old.mu.Unlock()
	q.server.attach(c.fd)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range waiting {
		f.q = q
	}
	q.queue, q.live = append(q.queue, waiting...), true
	q.numbers, q.last = numbers, max(q.last, last)
	if !again {
		q.script = nil
	}
	c.q = q
	q.changed.Broadcast()
}

// Disown closes, in the order of requests, all open files of a machine that goes on elsewhere, and ends all waits: the
// programs that had them are not there.
func (q *Sequence) Disown() {
	const opReleaseDir, first = 29, 1 << 60
	q.mu.Lock()
	defer q.mu.Unlock()
	id := uint64(first)
	for _, e := range q.parked {
		id++
		var in [inHeaderSize + 8]byte
		putHeader(in[:], opInterrupt, id)
		binary.NativeEndian.PutUint64(in[inHeaderSize:], e.unique)
		q.queue = append(q.queue, q.newFlow(in[:], journal.Caller{}))
	}
	for _, fh := range q.fs.handles.numbers() {
		id++
		var in [inHeaderSize + 24]byte
		op := uint32(opRelease)
		if h := q.fs.handles.get(fh); h.node != nil && h.node.isDir() {
			op = opReleaseDir
		}
		putHeader(in[:], op, id)
		binary.NativeEndian.PutUint64(in[inHeaderSize:], fh)
		q.queue = append(q.queue, q.newFlow(in[:], journal.Caller{}))
	}
	q.changed.Broadcast()
}

// putHeader begins a request about the root, which is by nobody.
func putHeader(in []byte, op uint32, id uint64) {
	binary.NativeEndian.PutUint32(in[0:], uint32(len(in)))
	binary.NativeEndian.PutUint32(in[4:], op)
	binary.NativeEndian.PutUint64(in[8:], id)
	binary.NativeEndian.PutUint64(in[16:], fuse.FUSE_ROOT_ID)
}

// numbers returns the numbers of the handles, in their order.
func (t *handles) numbers() []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.open))
}

// attach has answers and notices written to fd.
func (s *server) attach(fd int) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.fd, s.closed = fd, false
}

// detach ends that.
func (s *server) detach() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.closed = true
}

// connection is the device from which requests for a Sequence come.
type connection struct {
	fd int

	mu sync.Mutex
	q  *Sequence // changes when the machine goes back
}

// serve reads requests until the mount has ended.
func (c *connection) serve() {
	b := make([]byte, largeBuf)
	for {
		n, err := unix.Read(c.fd, b)
		switch {
		case errors.Is(err, unix.EAGAIN):
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, -1)
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT):
		case err != nil || n < inHeaderSize:
			c.end()
			return
		default:
			c.mu.Lock()
			c.q.accept(c, slices.Clone(b[:n]))
			c.mu.Unlock()
		}
	}
}

// write writes an answer: if the machine has gone back meanwhile, its server no longer does.
func (c *connection) write(out []byte) {
	c.mu.Lock()
	s := c.q.server
	c.mu.Unlock()
	s.write(out)
}

// end closes the device.
func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.q.server.detach()
	_ = unix.Close(c.fd)
}
