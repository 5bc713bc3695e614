package host

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// File is what a descriptor of a program refers to.
type File struct {
	ID    uint64 // tells it from other files; 0 means that the descriptor is not open
	Name  string // its path, or what the host calls it: "pipe:[1]"
	Mode  uint64 // type and permissions
	Rdev  uint64 // of a device: major << 20 | minor; of a socket: family << 24 | type << 16 | protocol
	Flags uint64 // of open(2), as they are on x86-64; of a socket with O_CLOEXEC
	Pos   int64
	Sock  Sock
}

// Sock is what the host's kernel says of a socket of TCP. The zero value says nothing.
type Sock struct {
	State       uint32 // as in the kernel: 1 is TCP_ESTABLISHED; 0 means that nothing is said
	Unread      uint32 // bytes that the program has not read
	Local, Peer SockAddr
	Srtt        uint32 // eight times the round trip time, in microseconds
	Acked, Rcvd uint64 // bytes that the other side has acknowledged, and that it has sent
}

// SockAddr is an address of IPv6, or one of IPv4 in the first 4 bytes, and a port.
type SockAddr struct {
	IP   [16]byte
	Port uint16
}

// Mirror is a system call that the host's kernel makes while the guest's task waits in
// it: a probe at its beginning is hit before it is made, and one at its return, with the
// host's result, after that.
type Mirror struct {
	Syscall // without Head
	Files   [abi.MirrorFiles]Descriptor
	Cwd     string // from where a name is looked up; "" if that does not matter
	Memory  Memory // what the arguments point to that are not in Text
	// Polled are descriptors that the call waits for. Ready is what the one is ready for by
	// which it waits, if any.
	Polled []Polled
	Ready  uint32

	// Reached is called once, when the guest has come to the point where the call is made,
	// or has ended without coming there.
	Reached func()
	// Made waits until the host's kernel has made the call. It returns the result.
	Made func() Made
	// Signal, if not nil, is called in handler context with each signal that the guest sends the thread in the call.
	Signal func(Signal)
	// Refuse, if not nil, is called in handler context when a program has left out a function of the guest in the call.
	Refuse func()
	// Returned, if not nil, is called with the result when the call that Host.Mirror makes has returned, before Reached if the guest
	// has not come to that point.
	Returned func(ret int64)
}

// Descriptor is a descriptor that a call is about. The zero value is none.
type Descriptor struct {
	Arg  int // 1 + the index of the argument that it is
	File File
}

// Polled is a descriptor that a call waits for.
type Polled struct {
	FD    int
	File  File
	Ready uint32 // EPOLL* for which it is ready
}

// Memory is a part of a program's memory.
type Memory struct {
	Data []byte
	Args [6]int // 1 + the place in Data to which an argument points, or 0
	Refs []Ref  // pointers in Data
}

// Ref is a pointer in Memory: the 8 bytes at the place At refer to the place To.
type Ref struct{ At, To int }

// Made is the result of a call.
type Made struct {
	Ret     int64
	Written []Written             // the memory that has changed
	Files   [abi.MirrorFiles]File // what was opened
	// Polled, if not nil, takes the place of Mirror.Polled, of which it has at most the length.
	Polled []Polled
}

// Written is new content of Memory.
type Written struct {
	At   int
	Data []byte
}

// mirrorFiles makes the number of a table of descriptors from a process's. It is
// a table of its own: the guest chooses the descriptors of our files.
const mirrorFiles = abi.MirrorTable

// Mirroring reports whether calls of Mirror are under way.
func (h *Host) Mirroring() bool { return h.mirrors.Load() > 0 }

// Mirror makes a call of c in the guest. It returns its result there when it has ended.
func (h *Host) Mirror(c Caller, m *Mirror) (int64, error) {
	reach := sync.OnceFunc(m.Reached)
	defer reach()
	h.tables.Store(c.files(), true)
	h.mirrors.Add(1)
	defer h.mirrors.Add(-1)
	ctx := context.Background()
	t, err := h.takeNext(ctx, c)
	if err != nil {
		return 0, err
	}
	r, err := t.mirrorRequest(c, m)
	defer t.release(r)
	if err != nil {
		return 0, err
	}
	ret, err := t.run(ctx, r, t.mirrorOp(m, reach))
	if m.Returned != nil && err == nil {
		m.Returned(ret)
	}
	return ret, err
}

// mirrorRequest returns the request for a mirrored call, also if it cannot be described.
func (t *Task) mirrorRequest(c Caller, m *Mirror) (*request, error) {
	r := t.request(m.Nr)
	r.args, r.mode, r.fops, r.files = m.Args, m.Mode, abi.FOpsOther, c.files()|mirrorFiles
	t.mirror.Store(m)
	return r, t.describe(r, m)
}

// mirrorOp is the FileOp of a mirrored call.
func (t *Task) mirrorOp(m *Mirror, reached func()) FileOp {
	return func(_ context.Context, op Op) (int, error) {
		if op.Kind != abi.OpMade {
			return 0, syscall.EINVAL
		}
		reached()
		made := m.Made()
		t.setMade(m, made)
		return int(made.Ret), nil
	}
}

// setMade tells the guest what the host's kernel has done.
func (t *Task) setMade(m *Mirror, made Made) {
	for _, w := range made.Written {
		if room := min(len(m.Memory.Data), t.bufPages*abi.PageSize) - w.At; w.At >= 0 && room > 0 {
			copy(t.h.g.Phys(t.bufPA+uint64(w.At), uint64(room)), w.Data)
		}
	}
	for i, f := range made.Files {
		if f.ID != 0 {
			t.describeFile(t.mirrorFile(i), f)
		}
	}
	if made.Polled != nil {
		t.describePolled(m, made.Polled[:min(len(made.Polled), len(m.Polled))])
	}
}

// MirrorRun is a mirrored call that has come to the point where the host's kernel makes it,
// on a vCPU that was borrowed.
type MirrorRun struct {
	t     *Task
	r     *request
	v     VCPU
	m     *Mirror
	reach func() // calls m.Reached once
	ended func(ret int64)
}

// StartMirror is the beginning of Mirror without waiting, for a caller that must not wait
// for others: at most the guest's code is executed up to the host's part, for maxLoan.
// Then it returns a MirrorRun, whose End is the rest, in place of m.Made. Where the guest's
// task is not free, or no vCPU is idle, it does nothing and returns false. Where the guest
// takes longer, or its task dies, it returns no MirrorRun: the call is then made as by
// Mirror. ended is called with the call's result in the guest when it has returned there.
func (h *Host) StartMirror(c Caller, m *Mirror, ended func(ret int64)) (*MirrorRun, bool) {
	t, _ := h.takeIdle(c.TID)
	if t == nil {
		return nil, false
	}
	if t.slot < 0 || m.size() >= t.bufPages*abi.PageSize { // room is made by Mirror
		h.put(t)
		return nil, false
	}
	v, ready := t.borrow()
	if v == nil {
		h.put(t)
		return nil, false
	}
	h.tables.Store(c.files(), true)
	h.mirrors.Add(1)
	run := &MirrorRun{t: t, v: v, m: m, reach: sync.OnceFunc(m.Reached), ended: ended}
	var err error
	if run.r, err = t.mirrorRequest(c, m); err != nil {
		v.Return()
		run.over(-int64(errno(err)))
		return nil, true
	}
	if err = t.submitOn(v, ready, run.r); err != nil {
		run.over(-int64(errno(err)))
		return nil, true
	}
	e, more := run.next()
	if !more {
		return nil, true
	}
	if !e.lent || e.op != abi.OpMade {
		go run.goOn(e)
		return nil, true
	}
	run.r.lent = v
	v.Suspend(run.r.take)
	run.reach()
	return run, true
}

// End tells the guest what the host's kernel has done, and executes the rest of the call
// as StartMirror does its beginning.
func (run *MirrorRun) End(made Made) {
	t, r := run.t, run.r
	t.setMade(run.m, made)
	_ = t.h.g.WriteU64(t.addr+abi.CallOpRet, uint64(made.Ret))
	if !r.resume(run.v, t.answer(r, opDone)) {
		go run.await()
		return
	}
	if e, more := run.next(); more {
		go run.goOn(e)
	}
}

// next executes the guest's code up to the call's next event. more is false if that was its
// end, or if a goroutine sees to the rest because the guest takes longer.
func (run *MirrorRun) next() (e event, more bool) {
	if !run.v.Run(run.r.due) {
		go run.await()
		return event{}, false
	}
	e = <-run.r.events
	if e.ended {
		run.v.Return()
		run.over(e.ret)
	}
	return e, !e.ended
}

// goOn handles an event, and waits for the end of the call.
func (run *MirrorRun) goOn(e event) {
	ctx, op := context.Background(), run.t.mirrorOp(run.m, run.reach)
	ret, ended, lent := run.t.onLent(ctx, run.v, run.r, e, op)
	if lent {
		ret, ended = run.t.runOn(ctx, run.v, run.r, op)
	}
	if ended {
		run.over(ret)
	} else {
		run.await()
	}
}

// await waits for the end of the call.
func (run *MirrorRun) await() {
	ret, err := run.t.await(context.Background(), run.r, run.t.mirrorOp(run.m, run.reach))
	if err != nil {
		ret = -int64(errno(err))
	}
	run.over(ret)
}

// over puts the task back.
func (run *MirrorRun) over(ret int64) {
	run.t.release(run.r)
	run.t.h.mirrors.Add(-1)
	run.ended(ret)
	run.reach()
}

// forgetTable has the descriptors of a process closed when its last thread ends, which may be this one. Another thread's
// next call tells of its descriptor again.
func (t *Task) forgetTable(ctx context.Context, c Caller) error {
	if _, had := t.h.tables.LoadAndDelete(c.files()); !had {
		return nil
	}
	t.h.mirrors.Add(1)
	defer t.h.mirrors.Add(-1)
	r := newRequest(abi.HostForget)
	r.args[0] = c.files() | mirrorFiles
	_, err := t.run(ctx, r, nil)
	return err
}

// mirrorAt is where a task's struct host_mirror is in the first page of its window.
const mirrorAt = 2048

// maxCwd is more than the length of a path that has room after it.
const maxCwd = abi.PageSize - mirrorAt - abi.MirrorSize

// describe writes the call's struct host_mirror and its data.
func (t *Task) describe(r *request, m *Mirror) error {
	if err := t.needWindow(); err != nil {
		return err
	}
	if m.size() == 0 {
		if err := t.setStrings(r, m.Syscall); err != nil {
			return err
		}
	} else if err := t.setMemory(r, m); err != nil {
		return err
	}
	b := t.h.g.Phys(t.pathPA+mirrorAt, abi.MirrorSize)
	clear(b)
	for i, f := range m.Files {
		fd := ^uint64(0)
		if f.Arg > 0 {
			fd = uint64(int64(int32(m.Args[f.Arg-1])))
		}
		binary.LittleEndian.PutUint64(b[i*abi.MirrorFileSize+abi.MirrorFD:], fd)
		t.describeFile(t.mirrorFile(i), f.File)
	}
	binary.LittleEndian.PutUint64(b[abi.MirrorReady:], uint64(m.Ready))
	if m.Cwd != "" && len(m.Cwd) < maxCwd {
		text := t.pathPA + mirrorAt + abi.MirrorSize
		to := t.h.g.Phys(text, uint64(len(m.Cwd)+1))
		to[copy(to, m.Cwd)] = 0
		binary.LittleEndian.PutUint64(b[abi.MirrorCwd:], abi.DirectMap+text)
	}
	if len(m.Polled) > 0 {
		binary.LittleEndian.PutUint64(b[abi.MirrorPolled:], abi.DirectMap+t.bufPA+m.polledAt())
		t.describePolled(m, m.Polled)
	}
	r.mirror = t.pathPA + mirrorAt
	return nil
}

// polledAt is where Polled is in the user buffer: after the memory.
func (m *Mirror) polledAt() uint64 { return uint64(len(m.Memory.Data)+8) &^ 7 }

// size is what a call needs of the user buffer, in bytes.
func (m *Mirror) size() int {
	if len(m.Polled) == 0 {
		return len(m.Memory.Data)
	}
	return int(m.polledAt()) + len(m.Polled)*abi.PolledSize
}

// setMemory puts the memory of a call into the user buffer, and its addresses into the
// arguments.
func (t *Task) setMemory(r *request, call *Mirror) error {
	m, size := &call.Memory, call.size()
	if size > MaxIO {
		return fmt.Errorf("%d bytes of a mirrored call: %w", size, syscall.EINVAL)
	}
	if err := t.growBuf(size + 1); err != nil {
		return fmt.Errorf("%d bytes of a mirrored call: %w", size, err)
	}
	b := t.h.g.Phys(t.bufPA, uint64(size/abi.PageSize+1)*abi.PageSize)
	clear(b[copy(b, m.Data):])
	for _, ref := range m.Refs {
		if ref.At >= 0 && ref.At+8 <= len(m.Data) {
			binary.LittleEndian.PutUint64(b[ref.At:], t.bufVA+uint64(ref.To))
		}
	}
	for i, at := range m.Args {
		if at > 0 {
			r.args[i] = t.bufVA + uint64(at-1)
		}
	}
	return nil
}

// mirrorFile is the place of a file in the struct host_mirror.
func (t *Task) mirrorFile(i int) []byte {
	return t.h.g.Phys(t.pathPA+mirrorAt+uint64(i)*abi.MirrorFileSize, abi.MirrorFileSize)
}

// describePolled writes the descriptors that a call waits for, for which there is room.
func (t *Task) describePolled(m *Mirror, all []Polled) {
	for i, p := range all {
		b := t.h.g.Phys(t.bufPA+m.polledAt()+uint64(i)*abi.PolledSize, abi.PolledSize)
		binary.LittleEndian.PutUint64(b[abi.MirrorFD:], uint64(int64(p.FD)))
		t.describeFile(b[:abi.MirrorFileSize], p.File)
		binary.LittleEndian.PutUint64(b[abi.PolledReady:], uint64(p.Ready))
	}
	binary.LittleEndian.PutUint64(t.h.g.Phys(t.pathPA+mirrorAt+abi.MirrorPolledN, 8), uint64(len(all)))
}

// describeFile writes a file into b, of MirrorFileSize bytes.
func (t *Task) describeFile(b []byte, f File) {
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(b[off:], v) }
	put(abi.MirrorFile, f.ID)
	put(abi.MirrorMode, f.Mode)
	put(abi.MirrorRdev, f.Rdev)
	put(abi.MirrorFlags, f.Flags)
	put(abi.MirrorPos, uint64(f.Pos))
	describeSock(b[abi.MirrorSock:abi.MirrorSock+abi.SockSize], &f.Sock)
	name := b[abi.MirrorName:abi.MirrorSock]
	text := f.Name
	if i := strings.LastIndexByte(text, '/'); i > 0 && text[0] == '/' && len(text) >= len(name) {
		text = text[i:]
	}
	clear(name[copy(name[:len(name)-1], text):])
}

func describeSock(b []byte, s *Sock) {
	clear(b)
	binary.LittleEndian.PutUint32(b[abi.SockState:], s.State)
	binary.LittleEndian.PutUint32(b[abi.SockUnread:], s.Unread)
	binary.BigEndian.PutUint16(b[abi.SockSport:], s.Local.Port)
	binary.BigEndian.PutUint16(b[abi.SockDport:], s.Peer.Port)
	binary.LittleEndian.PutUint32(b[abi.SockSrtt:], s.Srtt)
	copy(b[abi.SockSaddr:], s.Local.IP[:])
	copy(b[abi.SockDaddr:], s.Peer.IP[:])
	binary.LittleEndian.PutUint64(b[abi.SockAcked:], s.Acked)
	binary.LittleEndian.PutUint64(b[abi.SockReceived:], s.Rcvd)
}
