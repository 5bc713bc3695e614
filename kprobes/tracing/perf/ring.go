package perf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Offsets in struct perf_event_mmap_page.
const (
	pageCapabilities = 40
	pageSize         = 72
	pageReserved     = 128 // where it ends
	pageHead         = 1024
	pageTail         = 1032
	pageDataOffset   = 1040
	pageDataSize     = 1048

	capBit0IsDeprecated = 2
)

// Memory is the memory of a ring, which programs map. It belongs to the Event from the
// moment it is handed over.
type Memory interface {
	// Grow makes the memory size bytes large and returns it. It is called once.
	Grow(size int) ([]byte, error)
	Close()
}

// ring is perf_buffer: a page that says how far it is written and read, and the records.
// A program may write anything into all of it; what matters is kept here.
type ring struct {
	memory Memory
	waker
	polled atomic.Bool // there is something to read since the last poll

	mu        sync.Mutex
	refs      int    // events that write to it
	b         []byte // nil once nobody writes to it
	mask      uint64 // data bytes less one; with no data, all bits
	overwrite bool   // the program cannot say how far it has read
	backward  bool
	watermark uint64
	head      uint64
	wakeup    uint64
	events    uint32 // since the last wake-up
	lost      uint64 // records that have not been told of
	scratch   [maxRecord]byte
}

// maxRecord is the largest size of a record: its size has 16 bits.
const maxRecord = 1<<16 - 8

// newRing returns the ring of a mapping of size bytes. It fails with EINVAL if that is not
// a page and a power of two of them.
func newRing(memory Memory, size int, writable bool, a *Attr) (*ring, error) {
	if !ringSize(size) {
		return nil, fmt.Errorf("a ring of %d bytes: %w", size, syscall.EINVAL)
	}
	b, err := memory.Grow(size)
	if err != nil {
		return nil, err
	}
	data := uint64(size - abi.PageSize)
	r := &ring{memory: memory, b: b, mask: data - 1, overwrite: !writable, backward: a.has(flagWriteBackward), refs: 1}
	if a.has(flagWatermark) {
		r.watermark = min(uint64(a.Wakeup), data)
	}
	if r.watermark == 0 {
		r.watermark = data / 2
	}
	le := binary.LittleEndian
	le.PutUint64(b[pageCapabilities:], capBit0IsDeprecated)
	le.PutUint32(b[pageSize:], pageReserved)
	le.PutUint64(b[pageDataOffset:], abi.PageSize)
	le.PutUint64(b[pageDataSize:], data)
	return r, nil
}

func ringSize(size int) bool {
	data := size - abi.PageSize
	return size%abi.PageSize == 0 && data == 0 || size%abi.PageSize == 0 && data > 0 && bits.OnesCount(uint(data)) == 1
}

// word returns a number in the first page that programs read and write meanwhile.
func (r *ring) word(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&r.b[at])) }

// write appends the record that make appends to its argument: perf_output_begin and
// perf_output_end. It returns false if there is no room. lostID is the event's, and tail
// appends the end of a record of lost ones. It runs in handler context.
func (r *ring) write(a *Attr, lostID uint64, tail, record func([]byte) []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.b == nil || len(r.b) == abi.PageSize {
		return true // no room was asked for, so that nothing is lost
	}
	b := r.scratch[:0]
	if r.lost > 0 && !r.overwrite {
		const typeLost = 2
		le := binary.LittleEndian
		b = header(b, typeLost, 0)
		b = le.AppendUint64(b, lostID)
		b = le.AppendUint64(b, r.lost)
		b = finish(tail(b), 0)
	}
	lostLen := len(b)
	b = record(b)
	if len(b) > maxRecord || !r.put(b) {
		r.lost++
		return false
	}
	if lostLen > 0 {
		r.lost = 0
	}
	r.wakeAfter(a)
	return true
}

// put copies records into the ring, if there is room. The caller holds mu.
func (r *ring) put(b []byte) bool {
	size, n := r.mask+1, uint64(len(b))
	if n >= size {
		return false
	}
	if !r.overwrite {
		read := r.word(pageTail).Load()
		// CIRC_SPACE: one byte stays free, and any value of read gives less than size.
		if (read-r.head-1)&r.mask < n && !r.backward || r.backward && (r.head-read-1)&r.mask < n {
			return false
		}
	}
	at := r.head
	if r.backward {
		at -= n
		r.head = at
	} else {
		r.head += n
	}
	data := r.b[abi.PageSize:]
	from := at & r.mask
	k := copy(data[from:], b)
	copy(data, b[k:])
	r.word(pageHead).Store(r.head)
	return true
}

// wakeAfter wakes pollers after a record, as the event's attr says. The caller holds mu.
func (r *ring) wakeAfter(a *Attr) {
	wake := false
	written := r.head
	if r.backward {
		written = -r.head
	}
	if written-r.wakeup > r.watermark {
		r.wakeup += r.watermark
		wake = true
	}
	if !a.has(flagWatermark) && a.Wakeup != 0 {
		if r.events++; r.events >= a.Wakeup {
			r.events = 0
			wake = true
		}
	}
	if wake {
		r.polled.Store(true)
		r.wake()
	}
}

func (r *ring) ref() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refs++
}

// unref is called for each event that no longer writes to it.
func (r *ring) unref() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refs--; r.refs == 0 {
		r.b = nil
		r.memory.Close()
	}
}

// waker wakes those who poll.
type waker struct {
	wakeMu sync.Mutex
	ch     chan struct{}
}

// waits returns a channel that is closed at the next wake.
func (w *waker) waits() <-chan struct{} {
	w.wakeMu.Lock()
	defer w.wakeMu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	return w.ch
}

func (w *waker) wake() {
	w.wakeMu.Lock()
	defer w.wakeMu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
}

// header begins a record; finish writes its size.
func header(b []byte, kind uint32, misc uint16) []byte {
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = binary.LittleEndian.AppendUint16(b, misc)
	return binary.LittleEndian.AppendUint16(b, 0)
}

// finish writes the size of the record that begins at start.
func finish(b []byte, start int) []byte {
	binary.LittleEndian.PutUint16(b[start+6:], uint16(min(len(b)-start, 1<<16-1)))
	return b
}
