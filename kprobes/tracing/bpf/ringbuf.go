package bpf

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// Parts of a ring buffer's memory, which programs of user space map: the position that they write,
// the position of the last record's end, and the data, twice, so that a record that goes over the
// end lies at one piece. (Linux maps the same pages twice; here they are written twice.)
const (
	ringConsumer = 0
	ringProducer = pageSize
	ringData     = 2 * pageSize
)

// Bits of a record's length, and the size of its header in bytes.
const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
)

// Flags of bpf_ringbuf_submit, discard and output.
const (
	ringNoWakeup    = 1
	ringForceWakeup = 2
)

// ringbuf is a map of type BPF_MAP_TYPE_RINGBUF, of which user space writes only the position up to which it has read, or of
// type BPF_MAP_TYPE_USER_RINGBUF, of which it writes all but that.
type ringbuf struct {
	memory perf.Memory
	b      []byte
	size   int  // of the data, bytes: a power of two
	user   bool // user space writes the records

	mu      sync.Mutex
	changed chan struct{} // closed when there is something to read
}

// newRingbuf makes the memory for size bytes of data.
func newRingbuf(s *System, size int, user bool) (*ringbuf, error) {
	memory, err := s.conf.Memory()
	if err != nil {
		return nil, err
	}
	b, err := memory.Grow(ringData + 2*size)
	if err != nil {
		memory.Close()
		return nil, err
	}
	return &ringbuf{memory: memory, b: b, size: size, user: user, changed: make(chan struct{})}, nil
}

func (g *ringbuf) word(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&g.b[at])) }

// record returns n bytes of the data.
func (g *ringbuf) record(off, n int) []byte {
	if off+n > 2*g.size {
		return nil
	}
	return g.b[ringData+off : ringData+off+n]
}

// reserve returns the offset in the data of a new record of n bytes, which nobody reads yet. It
// returns false if there is no room. The caller holds System.mem.
func (g *ringbuf) reserve(n uint64) (int, bool) {
	length := (n + ringHeader + 7) &^ 7
	if n >= ringDiscard || length > uint64(g.size) {
		return 0, false
	}
	consumed, produced := g.word(ringConsumer).Load(), g.word(ringProducer).Load()
	if produced+length-consumed > uint64(g.size-1) {
		return 0, false
	}
	at := int(produced) & (g.size - 1)
	g.header(at, uint32(n)|ringBusy)
	g.word(ringProducer).Store(produced + length)
	return at + ringHeader, true
}

// header writes a record's length, in both places.
func (g *ringbuf) header(at int, length uint32) {
	for _, at := range []int{at, (at + g.size) % (2 * g.size)} {
		(*atomic.Uint32)(unsafe.Pointer(&g.b[ringData+at])).Store(length)
	}
}

// commit lets a record be read, or skipped. The caller holds System.mem.
func (g *ringbuf) commit(at int, flags uint64, discard bool) {
	at -= ringHeader
	head := (*atomic.Uint32)(unsafe.Pointer(&g.b[ringData+at])).Load() &^ uint32(ringBusy)
	n := int(head &^ uint32(ringDiscard))
	if at+ringHeader+n > 2*g.size {
		return
	}
	for i := at + ringHeader; i < at+ringHeader+n; i++ {
		g.b[ringData+(i+g.size)%(2*g.size)] = g.b[ringData+i]
	}
	if discard {
		head |= ringDiscard
	}
	g.header(at, head)
	consumed := g.word(ringConsumer).Load() & uint64(g.size-1)
	if flags&ringForceWakeup != 0 || consumed == uint64(at) && flags&ringNoWakeup == 0 {
		g.wake()
	}
}

func (g *ringbuf) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.changed)
	g.changed = make(chan struct{})
}

// query is bpf_ringbuf_query.
func (g *ringbuf) query(what uint64) uint64 {
	consumed, produced := g.word(ringConsumer).Load(), g.word(ringProducer).Load()
	switch what {
	case 0:
		return produced - consumed
	case 1:
		return uint64(g.size)
	case 2:
		return consumed
	case 3:
		return produced
	}
	return 0
}

// mayWrite reports whether user space may write a part of the memory: ringbuf_map_mmap_kern and ringbuf_map_mmap_user.
func (g *ringbuf) mayWrite(size, offset uint64) bool {
	if g.user {
		return offset != ringConsumer
	}
	return offset == ringConsumer && size == pageSize
}

// poll reports whether there is a record to read, or room for one, and returns a channel that is closed when that may have
// changed.
func (g *ringbuf) poll() (in, out bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.word(ringProducer).Load() - g.word(ringConsumer).Load()
	if g.user {
		return false, full < uint64(g.size), g.changed
	}
	return full != 0, false, g.changed
}

// peek is __bpf_user_ringbuf_peek. It returns the offset in the data and the length of user space's next record. It fails with ENODATA
// if there is none, with EAGAIN after it has skipped one that was discarded, with EINVAL if the positions or the length make
// no sense, and with E2BIG. User space can change all that it reads at any time.
func (g *ringbuf) peek() (at, n int, err error) {
	produced, consumed := g.word(ringProducer).Load(), g.word(ringConsumer).Load()
	if produced%8 != 0 {
		return 0, 0, syscall.EINVAL
	}
	if consumed >= produced {
		return 0, 0, syscall.ENODATA
	}
	mask := uint64(g.size - 1)
	head := (*atomic.Uint32)(unsafe.Pointer(&g.b[ringData+int(consumed&mask&^7)])).Load()
	length := head &^ uint32(ringBusy|ringDiscard)
	total := ringTotal(length)
	switch {
	case total > produced-consumed:
		return 0, 0, syscall.EINVAL
	case total > uint64(g.size) || length > maxDynptr:
		return 0, 0, syscall.E2BIG
	case head&ringDiscard != 0:
		g.word(ringConsumer).Store(consumed + total)
		return 0, 0, syscall.EAGAIN
	case head&ringBusy != 0:
		return 0, 0, syscall.ENODATA
	}
	return int((consumed + ringHeader) & mask), int(length), nil
}

// ringTotal is how many bytes a record takes in the ring.
func ringTotal(length uint32) uint64 { return (uint64(length) + ringHeader + 7) &^ 7 }

// take says that user space's record of a length has been read.
func (g *ringbuf) take(length int) {
	consumed := g.word(ringConsumer)
	consumed.Store(consumed.Load() + ringTotal(uint32(length)))
}
