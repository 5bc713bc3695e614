package mirror

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// maxMirrored is how many bytes of a call's data the guest gets.
const maxMirrored = 16 << 10

// maxVectorLen is UIO_MAXIOV, the largest number of parts that a call takes.
const maxVectorLen = 1024

// callMemory collects what the arguments of a thread's call point to.
type callMemory struct {
	host.Memory
	tid     int
	written []writtenPart
	// present, if not nil, returns how many of n bytes from addr on can be read without
	// waiting. Then nothing else is read, and absent says that something was not.
	present func(addr uint64, n int) int
	absent  bool
}

// writtenPart is memory that a call may write.
type writtenPart struct {
	at, size int
	addr     uint64
	record   bool // it is written whole, or not at all
	item     int  // the result counts items of this size, in bytes; 0 where it counts bytes
}

// add makes room for size bytes of the thread's memory, of which the first have the content b.
func (m *callMemory) add(b []byte, size int) (at int) {
	m.Data = append(m.Data, make([]byte, -len(m.Data)&7)...)
	at = len(m.Data)
	m.Data = append(m.Data, b[:min(len(b), size)]...)
	m.Data = append(m.Data, make([]byte, size-min(len(b), size))...)
	return at
}

// left limits a size to the room that is left.
func (m *callMemory) left(size uint64) int {
	return int(min(size, uint64(max(maxMirrored-len(m.Data), 0))))
}

// tail is how much is read of the memory after that which a call reads, in bytes: a probe
// may read a string there, which ends somewhere.
const tail = 256

// read adds memory that the call reads, and reports whether there is any.
func (m *callMemory) read(addr, size uint64) (at int, ok bool) {
	n := m.left(size)
	if n == 0 || addr == 0 {
		return 0, false
	}
	b := m.get(addr, n, n+tail)
	if len(b) == 0 {
		return 0, false
	}
	return m.add(b, max(n, len(b))), true
}

// get reads n bytes of the program's memory, or up to most.
func (m *callMemory) get(addr uint64, n, most int) []byte {
	if m.present != nil {
		if most = m.present(addr, most); most < n {
			m.absent = true
			return nil
		}
	}
	return proc.ReadMemory(m.tid, addr, make([]byte, most))
}

// write adds memory that the call writes.
func (m *callMemory) write(addr, size uint64, record bool) (at int, ok bool) {
	n := m.left(size)
	if n == 0 || addr == 0 {
		return 0, false
	}
	at = m.add(nil, n)
	m.written = append(m.written, writtenPart{at: at, size: n, addr: addr, record: record})
	return at, true
}

// readRecord adds a record that the call reads and writes.
func (m *callMemory) readRecord(addr, size uint64) (at int, ok bool) {
	n := m.left(size)
	if at, ok = m.read(addr, uint64(n)); ok {
		m.written = append(m.written, writtenPart{at: at, size: n, addr: addr, record: true})
	}
	return at, ok
}

// writeSized adds memory that the call writes, whose size is an int in the program's memory.
func (m *callMemory) writeSized(addr, size uint64) (at int, ok bool) {
	if addr == 0 || size == 0 {
		return 0, false
	}
	b := m.get(size, calls.SizeofInt, calls.SizeofInt)
	if len(b) < calls.SizeofInt {
		return 0, false
	}
	return m.write(addr, uint64(binary.NativeEndian.Uint32(b)), true)
}

// message adds a struct msghdr and the memory that it refers to.
func (m *callMemory) message(addr uint64, writes bool) (at int, ok bool) {
	b := m.get(addr, calls.SizeofMsghdr, calls.SizeofMsghdr)
	if len(b) < calls.SizeofMsghdr {
		return 0, false
	}
	at = m.add(b, calls.SizeofMsghdr)
	m.messageParts(b, at, addr, writes)
	return at, true
}

// messages adds an array of struct mmsghdr, of n messages, and the memory that they refer to.
func (m *callMemory) messages(addr, n uint64, writes bool) (at int, ok bool) {
	const most = 64
	size := int(min(n, most)) * calls.SizeofMmsghdr
	b := m.get(addr, size, size)
	if size == 0 || len(b) < size {
		return 0, false
	}
	at = m.add(b, size)
	for i := 0; i < size; i += calls.SizeofMmsghdr {
		m.messageParts(b[i:], at+i, addr+uint64(i), writes)
		m.written = append(m.written, writtenPart{at: at + i + calls.SizeofMsghdr, size: calls.SizeofInt, addr: addr + uint64(i) + calls.SizeofMsghdr, record: true})
	}
	return at, true
}

// messageParts adds what the struct msghdr b refers to, which is at place at, and at addr in
// the program.
func (m *callMemory) messageParts(b []byte, at int, addr uint64, writes bool) {
	// Where the fields of struct msghdr are.
	const name, nameLen, iov, iovLen, control, controlLen = 0, 8, 16, 24, 32, 40
	field := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	part := func(off int, n uint64) {
		to, ok := 0, false
		if writes {
			to, ok = m.write(field(off), n, true)
		} else {
			to, ok = m.read(field(off), n)
		}
		if ok {
			m.Refs = append(m.Refs, host.Ref{At: at + off, To: to})
		}
	}
	if to, ok := m.vector(field(iov), field(iovLen), writes); ok {
		m.Refs = append(m.Refs, host.Ref{At: at + iov, To: to})
	}
	part(name, uint64(binary.NativeEndian.Uint32(b[nameLen:])))
	part(control, field(controlLen))
	if writes {
		m.written = append(m.written, writtenPart{at: at + nameLen, size: calls.SizeofInt, addr: addr + nameLen, record: true},
			writtenPart{at: at + controlLen, size: calls.SizeofMsghdr - controlLen, addr: addr + controlLen, record: true})
	}
}

// vector adds an array of struct iovec and the memory that it refers to.
func (m *callMemory) vector(addr, length uint64, writes bool) (at int, ok bool) {
	const size = 16
	if length == 0 || length > maxVectorLen {
		return 0, false
	}
	n := int(length * size)
	b := m.get(addr, n, n)
	if len(b) < n {
		return 0, false
	}
	at = m.add(b, len(b))
	for i := 0; i < len(b); i += size {
		base, n := binary.NativeEndian.Uint64(b[i:]), binary.NativeEndian.Uint64(b[i+8:])
		var to int
		if writes {
			to, ok = m.write(base, n, false)
		} else {
			to, ok = m.read(base, n)
		}
		if !ok {
			to = at // the guest's own address, of which it uses nothing
		}
		if base != 0 {
			m.Refs = append(m.Refs, host.Ref{At: at + i, To: to})
		}
	}
	return at, true
}

// items adds an array of n items of a size in bytes, of which the call writes as many as it
// returns, or with read all.
func (m *callMemory) items(addr, size, n uint64, read bool) (at int, ok bool) {
	n = min(n, maxMirrored/size)
	if read {
		return m.readRecord(addr, n*size)
	}
	if at, ok = m.write(addr, n*size, false); ok {
		m.written[len(m.written)-1].item = int(size)
	}
	return at, ok
}

// futexTimes reports whether the fourth argument of a futex(2) points to a time.
func futexTimes(op uint64) bool {
	const wait, lockPI, waitBitset, waitRequeuePI, lockPI2 = 0, 6, 9, 11, 13
	const private, realtime = 128, 256
	switch uint32(op) &^ (private | realtime) {
	case wait, lockPI, waitBitset, waitRequeuePI, lockPI2:
		return true
	}
	return false
}

// arguments adds what the arguments of a call point to.
func (m *callMemory) arguments(row *calls.Row, args [6]uint64) {
	for i, a := range row.Args {
		m.argument(a, i, args)
	}
}

// argument adds what an argument points to.
func (m *callMemory) argument(a calls.Argument, i int, args [6]uint64) {
	var at int
	var ok bool
	switch a.Kind {
	case calls.IsIn:
		at, ok = m.read(args[i], args[a.Size])
	case calls.IsOut:
		at, ok = m.write(args[i], args[a.Size], false)
	case calls.IsInRecord:
		at, ok = m.read(args[i], uint64(a.Size))
	case calls.IsOutRecord:
		at, ok = m.write(args[i], uint64(a.Size), true)
	case calls.IsInOutRecord:
		at, ok = m.readRecord(args[i], uint64(a.Size))
	case calls.IsOutSized:
		at, ok = m.writeSized(args[i], args[a.Size])
	case calls.IsInVector, calls.IsOutVector:
		at, ok = m.vector(args[i], args[a.Size], a.Kind == calls.IsOutVector)
	case calls.IsInMessage, calls.IsOutMessage:
		at, ok = m.message(args[i], a.Kind == calls.IsOutMessage)
	case calls.IsOutItems:
		at, ok = m.items(args[i], uint64(a.Size), args[i+1], false)
	case calls.IsInItems:
		at, ok = m.items(args[i], uint64(a.Size), args[i+1], true)
	case calls.IsBits:
		at, ok = m.readRecord(args[i], (uint64(uint32(args[0]))+63)/64*8)
	case calls.IsTimeout:
		if futexTimes(args[1]) {
			at, ok = m.read(args[i], calls.SizeofTimespec)
		}
	case calls.IsInMessages, calls.IsOutMessages:
		at, ok = m.messages(args[i], args[a.Size], a.Kind == calls.IsOutMessages)
	case calls.IsName, calls.IsLink, calls.IsText:
		var text []byte
		if text = m.text(args[i]); text != nil {
			at, ok = m.add(append(text, 0), len(text)+1), true
		}
	case calls.IsValue, calls.IsFD, calls.IsDir, calls.IsOpenFlags, calls.IsAtFlags:
	}
	if ok {
		m.Args[i] = 1 + at
	}
}

// changed returns what the call has written: ret bytes in all, or whole records.
func (m *callMemory) changed(ret int64) (all []host.Written) {
	for _, w := range m.written {
		n := int64(w.size)
		switch {
		case w.item > 0:
			n = min(n, ret*int64(w.item))
		case !w.record:
			n = min(n, ret)
			ret -= n
		}
		if ret < 0 || n <= 0 {
			continue
		}
		all = append(all, host.Written{At: w.at, Data: m.get(w.addr, int(n), int(n))})
	}
	return all
}

// awaitChanged is changed in another thread than the tracing one, which may wait for memory.
func (m *callMemory) awaitChanged(ret int64) []host.Written {
	m.present = nil
	return m.changed(ret)
}

// text reads a string.
func (m *callMemory) text(addr uint64) []byte {
	if m.present == nil {
		return hostview.ReadString(m.tid, addr)
	}
	b := proc.ReadMemory(m.tid, addr, make([]byte, m.present(addr, unix.PathMax)))
	n := bytes.IndexByte(b, 0)
	m.absent = m.absent || n < 0
	return b[:max(n, 0)]
}

// path resolves the name among the arguments of a call to the path of a file and its mode.
func (m *callMemory) path(c *calls.Row, at hostview.View, args [6]uint64, dirs []string, base *string) (path string, mode uint64) {
	i := c.Name()
	if i < 0 {
		return "", 0
	}
	text := m.text(args[i])
	if len(text) == 0 {
		return "", 0
	}
	return at.Path(m.tid, hostview.FileName{Dir: c.Dir(args), Text: string(text), Link: c.Link(args), Base: base}, dirs)
}
