package ring

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPageFormat compares a page with the kernel's format (header_page and
// header_event): a small event, one after more than 27 bits of time, and one of more
// than 112 bytes.
func TestPageFormat(t *testing.T) {
	b := New(1, 2, PageSize)
	large := bytes.Repeat([]byte{7}, 113)
	b.Write(0, 1000, []byte("12345678"))
	b.Write(0, 1005, []byte("abcde"))
	b.Write(0, 1005+3<<27+9, []byte("late"))
	b.Write(0, 1005+3<<27+10, large)

	u32 := binary.LittleEndian.AppendUint32
	u64 := binary.LittleEndian.AppendUint64
	body := append(u32(nil, 2), "12345678"...)
	body = append(u32(body, 2|5<<5), "abcde\x00\x00\x00"...)
	body = u32(u32(body, 30|9<<5), 3)
	body = append(u32(body, 1), "late"...)
	body = append(u32(u32(body, 1<<5), 116+4), large...)
	body = append(body, 0, 0, 0)
	want := append(u64(u64(nil, 1000), uint64(len(body))), body...)
	page := make([]byte, PageSize)
	if _, _, ok := b.cpus[0].copyPage(pagePlace{}, b.cpus[0].end(), page); !ok {
		t.Fatal("no page")
	}
	if diff := cmp.Diff(want, page[:len(want)]); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	var got []string
	for it := b.Iterate(-1); ; {
		r, ok := it.Next()
		if !ok {
			break
		}
		got = append(got, fmt.Sprint(r.Time, len(r.Data)))
	}
	if diff := cmp.Diff([]string{"1000 8", "1005 8", fmt.Sprint(1005+3<<27+9, " 4"), fmt.Sprint(1005+3<<27+10, " 116")}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// numbered returns the n-th of a sequence of 16-byte events.
func numbered(n int) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 8), uint64(n))
}

func numbers(b *Buffer) (got []int) {
	for it := b.Iterate(-1); ; {
		r, ok := it.Next()
		if !ok {
			return got
		}
		got = append(got, int(binary.LittleEndian.Uint64(r.Data[8:])))
	}
}

// perPage is the number of these events that fit into a page.
const perPage = pageData / 20

func TestOverwrite(t *testing.T) {
	b := New(1, 3, PageSize)
	for n := range 4*perPage + 1 {
		b.Write(0, int64(n), numbered(n))
	}
	got := numbers(b)
	s := b.Stats(0)
	if s.Entries != 2*perPage+1 || s.Overrun != 2*perPage || s.Dropped != 0 || s.Bytes != 20*s.Entries || s.Oldest != 2*perPage {
		t.Errorf("stats %+v", s)
	}
	if len(got) != int(s.Entries) || got[0] != 2*perPage || got[len(got)-1] != 4*perPage {
		t.Errorf("%d events, %d to %d", len(got), got[0], got[len(got)-1])
	}
	b.Reset(-1)
	if s := b.Stats(0); s.Entries+s.Overrun+s.Dropped+s.Read+s.Bytes != 0 || len(numbers(b)) != 0 {
		t.Errorf("after a reset: %+v, %d events", s, len(numbers(b)))
	}
}

func TestNoOverwrite(t *testing.T) {
	b := New(1, 2, PageSize)
	b.overwrite.Store(false)
	for n := range 2*perPage + 5 {
		if ok := b.Write(0, int64(n), numbered(n)); ok != (n < 2*perPage) {
			t.Fatalf("event %d: %v", n, ok)
		}
	}
	if s := b.Stats(0); s.Entries != 2*perPage || s.Overrun != 0 || s.Dropped != 5 {
		t.Errorf("stats %+v", s)
	}
	if got := numbers(b); len(got) != 2*perPage || got[0] != 0 {
		t.Errorf("%d events from %d", len(got), got[0])
	}
}

func TestResize(t *testing.T) {
	b := New(1, 4, PageSize)
	n := 0
	fill := func(events int) {
		for range events {
			b.Write(0, int64(n), numbered(n))
			n++
		}
	}
	fill(5*perPage + 3) // pages 2 to 5 are left, the last one with 3 events
	for _, c := range []struct {
		pages, first int
		overrun      uint64
	}{{4, 2 * perPage, 2 * perPage}, {9, 2 * perPage, 2 * perPage}, {2, 4 * perPage, 4 * perPage}, {3, 4 * perPage, 4 * perPage}} {
		old := slices.Clone(b.cpus[0].pages)
		b.Resize(-1, c.pages)
		kept := 0
		for _, p := range b.cpus[0].pages {
			if slices.Contains(old, p) {
				kept++
			}
		}
		if kept != min(len(old), c.pages) {
			t.Errorf("from %d to %d pages: %d are the old ones, the rest takes memory beside them", len(old), c.pages, kept)
		}
		fill(1)
		got, s := numbers(b), b.Stats(0)
		if len(got) != n-c.first || got[0] != c.first || got[len(got)-1] != n-1 || s.Overrun != c.overrun || s.Entries != uint64(len(got)) {
			t.Errorf("%d pages: %d events, %d to %d, stats %+v", c.pages, len(got), got[0], got[len(got)-1], s)
		}
	}
}

func TestClockGoesBack(t *testing.T) {
	b := New(1, 2, PageSize)
	for n, now := range []int64{500, 400, 600} {
		b.Write(0, now, numbered(n))
	}
	var got []int64
	for it := b.Iterate(-1); ; {
		r, ok := it.Next()
		if !ok {
			break
		}
		got = append(got, r.Time)
	}
	if diff := cmp.Diff([]int64{500, 500, 600}, got); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
}

func TestMerge(t *testing.T) {
	b := New(3, 2, PageSize)
	for n, cpu := range []int{2, 0, 1, 1, 0, 2, 2, 0} {
		b.Write(cpu, int64(100+n), numbered(n))
	}
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7}, numbers(b)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestConcurrent writes from two vCPUs while readers iterate. A reader sees a vCPU's
// events without gaps or repetition up to the newest one, and each event is in the
// buffer or counted as lost.
func TestConcurrent(t *testing.T) {
	const events = 20000
	b := New(2, 4, PageSize)
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for cpu := range b.CPUs() {
		writers.Go(func() {
			for n := range events {
				b.Write(cpu, int64(n), numbered(n))
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					checkRuns(t, b)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	for cpu := range b.CPUs() {
		if s := b.Stats(cpu); s.Entries+s.Overrun != events {
			t.Errorf("cpu %d: %+v", cpu, s)
		}
	}
	checkRuns(t, b)
}

// TestConcurrentChanges: two writers write to a vCPU's buffer, like the vCPU and a
// write to trace_marker, while the buffer is read, resized and swapped. No event is
// lost, and pages are valid.
func TestConcurrentChanges(t *testing.T) {
	const events = 10000
	for _, overwrite := range []bool{true, false} {
		b, other := New(1, 4, PageSize), New(1, 4, PageSize)
		b.overwrite.Store(overwrite)
		other.overwrite.Store(overwrite)
		var writers, others sync.WaitGroup
		var over atomic.Bool
		for range 2 {
			writers.Go(func() {
				for n := range events {
					b.Write(0, int64(n), numbered(n))
				}
			})
		}
		until := func(f func(n int)) {
			others.Go(func() {
				for n := 0; !over.Load(); n++ {
					f(n)
				}
			})
		}
		var page []byte
		until(func(int) { b.Consume(0, nil) })
		until(func(int) { b.ReadPage(0, &page, PageSize) })
		until(func(n int) { b.Resize(-1, 2+n%4) })
		until(func(int) { b.Swap(other) })
		until(func(int) {
			for it := b.Iterate(-1); ; {
				r, ok := it.Next()
				if !ok {
					return
				}
				if n := binary.LittleEndian.Uint64(r.Data[8:]); len(r.Data) != 16 || n >= events {
					t.Errorf("an event of %d bytes, number %d", len(r.Data), n)
				}
			}
		})
		writers.Wait()
		over.Store(true)
		others.Wait()
		var sum Stats
		for _, s := range []Stats{b.Stats(0), other.Stats(0)} {
			sum.Entries, sum.Overrun, sum.Dropped, sum.Read = sum.Entries+s.Entries, sum.Overrun+s.Overrun, sum.Dropped+s.Dropped, sum.Read+s.Read
		}
		if n := sum.Entries + sum.Overrun + sum.Dropped + sum.Read; n != 2*events {
			t.Errorf("overwrite %v: %d of %d events: %+v", overwrite, n, 2*events, sum)
		}
		for _, b := range []*Buffer{b, other} {
			left := b.Stats(0)
			for range left.Entries {
				if _, _, ok := b.Consume(0, nil); !ok {
					t.Fatalf("overwrite %v: %+v, and no more to read", overwrite, left)
				}
			}
			if s := b.Stats(0); s.Entries != 0 || s.Bytes != 0 {
				t.Errorf("overwrite %v: all read: %+v", overwrite, s)
			}
		}
	}
}

func checkRuns(t *testing.T, b *Buffer) {
	last := map[int]int{}
	for it := b.Iterate(-1); ; {
		r, ok := it.Next()
		if !ok {
			return
		}
		n := int(binary.LittleEndian.Uint64(r.Data[8:]))
		if before, seen := last[r.CPU]; seen && n <= before {
			t.Errorf("cpu %d: %d after %d", r.CPU, n, before)
			return
		}
		last[r.CPU] = n
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte{})
	b := New(1, 2, PageSize)
	b.Write(0, 1, numbered(1))
	b.Write(0, 1<<40, bytes.Repeat([]byte{1}, 200))
	seed := make([]byte, PageSize)
	b.cpus[0].copyPage(pagePlace{}, b.cpus[0].end(), seed)
	f.Add(seed[:300])
	f.Fuzz(func(t *testing.T, page []byte) {
		r, err := newPageReader(page)
		if err != nil {
			return
		}
		for range PageSize {
			if _, _, ok := r.next(); !ok {
				return
			}
		}
		if len(page) <= PageSize {
			t.Error("a page of more events than bytes")
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	buf := New(1, PagesFor(PageSize, 1408<<10), PageSize)
	data := numbered(1)
	b.ReportAllocs()
	for n := range b.N {
		buf.Write(0, int64(n), data)
	}
}

// TestIterateMore: an iterator at its end continues with new events, also on other
// pages, concurrently with a consuming reader, and after the buffer was cleared.
func TestIterateMore(t *testing.T) {
	b := New(2, 3, PageSize)
	next := 0
	write := func(n int) {
		for range n {
			b.Write(next%2, int64(1000*next), numbered(next))
			next++
		}
	}
	it := b.Iterate(-1)
	read := func(from, to int) {
		t.Helper()
		for n := from; n < to; n++ {
			r, ok := it.Next()
			if !ok || binary.LittleEndian.Uint64(r.Data[8:]) != uint64(n) || r.Time != int64(1000*n) || r.CPU != n%2 {
				t.Fatalf("event %d: %+v, %v", n, r, ok)
			}
		}
		if r, ok := it.Next(); ok {
			t.Fatalf("%+v after %d", r, to)
		}
		it.More()
	}
	read(0, 0)
	write(5)
	it.More()
	read(0, 5)
	write(2*perPage + 1)
	it.More()
	read(5, next)
	before := next
	write(3)
	b.Consume(-1, nil)
	it.More()
	read(before, next)
	before = next
	b.Reset(-1)
	write(2)
	it.More()
	read(before, next)

	// The other buffer's pages have the same numbers but other events.
	other := New(2, 3, PageSize)
	for b.cpus[0].tail != other.cpus[0].tail {
		other.Reset(-1)
	}
	before = next
	b, other = other, b
	write(6)
	b, other = other, b
	b.Swap(other)
	it.More()
	read(before, next)
}
