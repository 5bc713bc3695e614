package tracing

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// BufferSizes is how large the buffer of an array and its snapshot are, and the files
// that show and set that. All arrays but those that have a size of their own grow to the
// full size together, when tracing is first used.
//
// Tracer.mu guards it; its exported methods take that lock.
type BufferSizes struct {
	tracer   *Tracer
	main     *ring.Buffer
	snapshot *atomic.Pointer[ring.Buffer] // has the main buffer's size; nil in it if there is none
	readers  *readers                     // while they read trace, no size changes
	expanded *bool                        // ring_buffer_expanded: tracing was used; shared by all arrays unless OwnExpansion
}

// maxSubBuffer is RB_SUBBUF_SIZE_MAX: 128 pages.
const maxSubBuffer = 128 * ring.PageSize

// expand is tracing_update_buffers: the global array's buffer grows to its full size
// when tracing is first used. It fails with ENOMEM if there is not enough memory. The caller
// holds mu.
func (s *BufferSizes) expand() error {
	if *s.expanded {
		return nil
	}
	g := &s.tracer.global.BufferSizes
	page := g.main.PageBytes()
	if err := s.tracer.checkRoom(g.main.CPUs()*ring.PagesFor(page, expandedSize)*page - g.main.Bytes()); err != nil {
		return err
	}
	*s.expanded = true
	g.resizeBuffers(-1, expandedSize)
	return nil
}

// expandFor is expand for what switches something on. To switch something off, which may give
// memory back, needs no buffer.
func (s *BufferSizes) expandFor(on bool) error {
	if err := s.expand(); on {
		return err
	}
	return nil
}

// resize is __tracing_resize_ring_buffer for one vCPU, or for all if cpu is -1. It
// fails with ENOMEM if there is not enough memory. The caller holds mu.
func (s *BufferSizes) resize(cpu int, size uint64) error {
	t := s.tracer
	*s.expanded = true
	cpus := 1
	if cpu < 0 {
		cpus = s.main.CPUs()
	}
	page := s.main.PageBytes()
	want := ring.PagesFor(page, size)
	for i, n := range s.readers.trace {
		if n > 0 && (cpu < 0 || i == cpu && s.main.Pages(i) != want) {
			errno := syscall.ENOMEM
			if t.conf.has[release.ResizeEBUSY] {
				errno = syscall.EBUSY
			}
			return fmt.Errorf("trace is being read: %w", errno)
		}
	}
	more := cpus*want*page - s.main.Bytes()
	if cpu >= 0 {
		more = (want - s.main.Pages(cpu)) * page
	}
	if s.snapshot.Load() != nil {
		more *= 2
	}
	if err := t.checkRoom(more); err != nil {
		return err
	}
	s.resizeBuffers(cpu, size)
	if more < 0 {
		t.conf.Limit.Freed()
	}
	return nil
}

// resizeBuffers gives the buffer and the snapshot room for size bytes of events on one
// vCPU, or on each if cpu is -1. The caller holds mu.
func (s *BufferSizes) resizeBuffers(cpu int, size uint64) {
	pages := ring.PagesFor(s.main.PageBytes(), size)
	s.main.Resize(cpu, pages)
	if b := s.snapshot.Load(); b != nil {
		b.Resize(cpu, pages)
	}
}

// SubBufferSizeKB returns the text of buffer_subbuf_size_kb, the size of a page of the
// buffer.
func (s *BufferSizes) SubBufferSizeKB() string {
	s.tracer.mu.Lock()
	defer s.tracer.mu.Unlock()
	return fmt.Sprintf("%d\n", s.main.PageBytes()>>10)
}

// SetSubBufferSizeKB handles a write to buffer_subbuf_size_kb. The size is rounded up
// to a power of 2, at least 4. The contents of the buffer are lost. It fails with
// EINVAL if the value is 0, more than 512, or not a number, with EBUSY if trace is
// being read, and with ENOMEM if the buffers would be too large.
func (s *BufferSizes) SetSubBufferSizeKB(data []byte) error {
	kb, err := kstrtox.FromUser(data)
	if bytes := kb << 10; err == nil && (bytes == 0 || bytes > maxSubBuffer) {
		err = fmt.Errorf("%d KiB: %w", kb, syscall.EINVAL)
	}
	if err != nil {
		return fmt.Errorf("buffer_subbuf_size_kb: %w", err)
	}
	size := ring.PageSize << bits.Len64((kb<<10-1)/ring.PageSize)
	s.tracer.mu.Lock()
	defer s.tracer.mu.Unlock()
	if size == s.main.PageBytes() {
		return nil
	}
	if s.readers.reading() {
		return fmt.Errorf("trace is being read: %w", syscall.EBUSY)
	}
	need := 0
	for i := range s.main.CPUs() {
		need += size * ring.PagesFor(size, uint64(s.main.Size(i)))
	}
	need -= s.main.Bytes()
	if s.snapshot.Load() != nil {
		need *= 2
	}
	if err := s.tracer.checkRoom(need); err != nil {
		return err
	}
	s.main.SetPageBytes(size)
	if b := s.snapshot.Load(); b != nil {
		b.SetPageBytes(size)
	}
	return nil
}

// BufferSizeKB returns the text of buffer_size_kb of one vCPU, or of all if cpu is -1.
func (s *BufferSizes) BufferSizeKB(cpu int) string {
	s.tracer.mu.Lock()
	defer s.tracer.mu.Unlock()
	size := s.main.Resized(max(cpu, 0))
	for i := range s.main.CPUs() {
		if cpu < 0 && s.main.Resized(i) != size {
			return "X\n"
		}
	}
	if cpu >= 0 {
		return fmt.Sprintf("%d\n", size>>10)
	}
	return s.sizeText(size>>10, expandedSize>>10)
}

// BufferTotalSizeKB returns the text of buffer_total_size_kb.
func (s *BufferSizes) BufferTotalSizeKB() string {
	s.tracer.mu.Lock()
	defer s.tracer.mu.Unlock()
	size := 0
	for i := range s.main.CPUs() {
		size += s.main.Resized(i) >> 10
	}
	return s.sizeText(size, expandedSize>>10*s.main.CPUs())
}

func (s *BufferSizes) sizeText(kb, expanded int) string {
	if *s.expanded {
		return fmt.Sprintf("%d\n", kb)
	}
	return fmt.Sprintf("%d (expanded: %d)\n", kb, expanded)
}

// SetBufferSizeKB handles a write to buffer_size_kb of one vCPU, or of all if cpu is
// -1. It fails with EINVAL if data is 0 or not a number, and with ENOMEM if there is
// not enough memory (Config.Limit).
func (s *BufferSizes) SetBufferSizeKB(cpu int, data []byte) error {
	kb, err := kstrtox.FromUser(data)
	if err == nil && kb == 0 {
		err = fmt.Errorf("a buffer has at least 1 entry: %w", syscall.EINVAL)
	}
	bytes := kb << 10 // wraps at 64 bits, as on Linux
	if bytes > math.MaxUint64-(ring.PageSize-ring.PageHeader) {
		bytes = 0 // rounding up overflows on Linux, which gives the smallest buffer
	}
	if err == nil && bytes > uint64(s.tracer.conf.Limit.Max()) {
		err = fmt.Errorf("%d KiB: %w", kb, syscall.ENOMEM)
	}
	if err != nil {
		return fmt.Errorf("buffer_size_kb: %w", err)
	}
	s.tracer.mu.Lock()
	defer s.tracer.mu.Unlock()
	return s.resize(cpu, bytes)
}
