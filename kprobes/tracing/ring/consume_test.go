package ring

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
)

// TestReaderPage: a page that a reader has begun is not overwritten, and the reader
// is told of lost events at the right place.
func TestReaderPage(t *testing.T) {
	b := New(1, 3, PageSize)
	for n := range 10 {
		b.Write(0, int64(n), numbered(n))
	}
	if r, lost, ok := b.Consume(-1, nil); !ok || lost != 0 || r.Time != 0 {
		t.Fatalf("first: %+v, %d, %v", r, lost, ok)
	}
	const n = 6 * perPage
	for i := 10; i < n; i++ {
		b.Write(0, int64(i), numbered(i))
	}
	s := b.Stats(0)
	if s.Entries+s.Overrun+s.Read != n || s.Overrun != 2*perPage || s.Bytes != 20*s.Entries {
		t.Errorf("stats %+v", s)
	}
	for i := range uint64(4*perPage - 1) {
		r, lost, ok := b.Consume(-1, nil)
		if !ok {
			t.Fatalf("%d events, want %d", i, 4*perPage-1)
		}
		got := int(binary.LittleEndian.Uint64(r.Data[8:]))
		want, wantLost := int(i)+1, uint64(0)
		if i >= perPage-1 {
			want += 2 * perPage
		}
		if i == perPage-1 {
			wantLost = 2 * perPage
		}
		if got != want || lost != wantLost {
			t.Fatalf("event %d after %d lost, want %d after %d", got, lost, want, wantLost)
		}
	}
	if !b.Empty(-1) {
		t.Error("something is left")
	}
}

// TestReadPage: a full page of which nothing was read is returned as a whole,
// otherwise as many events as fit.
func TestReadPage(t *testing.T) {
	b := New(1, 4, PageSize)
	var p []byte
	if ok, empty := b.ReadPage(0, &p, PageSize); ok || !empty {
		t.Error("a page of nothing")
	}
	for n := range perPage + 5 {
		b.Write(0, int64(100+n), numbered(n))
	}
	for _, c := range []struct {
		size, commit int
		stamp        uint64
		ok           bool
	}{
		{PageHeader, 0, 0, false},
		{PageHeader + 19, 0, 0, false},
		{PageHeader + 20, 20, 100, true},
		{PageHeader + 59, 40, 100, true},
		{PageSize, 20 * (perPage - 3), 102, true},
		{PageSize, 100, 100 + perPage, true},
		{PageSize, 0, 0, false},
	} {
		left := b.Stats(0).Entries
		ok, empty := b.ReadPage(0, &p, c.size)
		if ok != c.ok || empty != (left == 0) {
			t.Fatalf("%d bytes, %d events: %v, empty %v", c.size, left, ok, empty)
		}
		if ok && (binary.LittleEndian.Uint64(p[8:]) != uint64(c.commit) || binary.LittleEndian.Uint64(p[:]) != c.stamp) {
			t.Errorf("%d bytes: commit %d at %d, want %d at %d", c.size, binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint64(p[:]), c.commit, c.stamp)
		}
	}
	if s := b.Stats(0); s.Read != perPage+5 || s.Entries != 0 || s.Bytes != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestPageBytes: the page size of a buffer is changed. The counters still include the
// events of the old pages, which cannot be read any more.
func TestPageBytes(t *testing.T) {
	b := New(1, 26, PageSize)
	for n := range 3 * perPage {
		b.Write(0, int64(n), numbered(n))
	}
	b.SetPageBytes(4 * PageSize)
	if n, s := b.Pages(0), b.Stats(0); n != 7 || s.Entries != 3*perPage || !b.Empty(0) {
		t.Errorf("%d pages, stats %+v, empty %v", n, s, b.Empty(0))
	}
	if _, ok := b.Iterate(0).Next(); ok {
		t.Error("there is an event in empty pages")
	}
	for n := range 5 * perPage {
		b.Write(0, int64(1000+n), numbered(n))
	}
	var p []byte
	const perLarge = (4*PageSize - PageHeader) / 20
	if ok, _ := b.ReadPage(0, &p, 4*PageSize); !ok || len(p) != 4*PageSize || binary.LittleEndian.Uint64(p[8:]) != 20*perLarge+8 { // with what fills it
		t.Errorf("a page of %d bytes, commit %d", len(p), binary.LittleEndian.Uint64(p[8:]))
	}
	seen, it := 0, b.Iterate(0)
	for r, ok := it.Next(); ok; r, ok = it.Next() {
		if r.Time != int64(1000+perLarge+seen) {
			t.Fatalf("event %d: time %d", seen, r.Time)
		}
		seen++
	}
	if s := b.Stats(0); seen != 5*perPage-perLarge || s.Entries != uint64(3*perPage+seen) || s.Read != perLarge {
		t.Errorf("%d events are left, stats %+v", seen, s)
	}
	b.Reset(0)
	if s := b.Stats(0); s.Entries != 0 || s.Bytes != 0 {
		t.Errorf("after a reset: %+v", s)
	}
}

// TestConsumeLosesNothing: with a writer on each vCPU and a reader, every event
// is read, overrun, or left in the buffer.
func TestConsumeLosesNothing(t *testing.T) {
	const cpus, events = 2, 20000
	b := New(cpus, 3, PageSize)
	var writers sync.WaitGroup
	for cpu := range cpus {
		writers.Go(func() {
			for i := range events {
				b.Write(cpu, int64(i), numbered(i))
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	var read, told uint64
	last := [cpus]int{-1, -1}
	page := make([]byte, 0, PageSize)
	take := func() bool {
		r, lost, ok := b.Consume(-1, page)
		if !ok {
			return false
		}
		n := int(binary.LittleEndian.Uint64(r.Data[8:]))
		if n != last[r.CPU]+1+int(lost) || r.Time != int64(n) {
			t.Fatalf("vCPU %d: event %d at %d after %d with %d lost", r.CPU, n, r.Time, last[r.CPU], lost)
		}
		last[r.CPU], read, told = n, read+1, told+lost
		return true
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		for take() {
		}
	}
	var overrun, left uint64
	for cpu := range cpus {
		s := b.Stats(cpu)
		overrun, left = overrun+s.Overrun, left+s.Entries
	}
	if left != 0 || told != overrun || read+overrun != cpus*events {
		t.Errorf("read %d, overrun %d, told %d, left %d of %d", read, overrun, told, left, cpus*events)
	}
}

// TestCopyPages: copies have what is in the buffer and was not consumed, in order, and take nothing.
func TestCopyPages(t *testing.T) {
	b := New(1, 4, PageSize)
	for n := range 2*perPage + 5 {
		b.Write(0, int64(n), numbered(n))
	}
	page := make([]byte, PageHeader+59)
	if ok, _ := b.ReadPage(0, &page, len(page)); !ok { // two events
		t.Fatal("nothing to read")
	}
	for range 2 {
		var got []int
		err := b.CopyPages(0, func(page []byte) error {
			r, err := newPageReader(page)
			for {
				data, time, ok := r.next()
				if !ok {
					return err
				}
				n := int(binary.LittleEndian.Uint64(data[8:]))
				if got = append(got, n); time != int64(n) {
					t.Errorf("%d has the time %d", n, time)
				}
			}
		})
		if want := numbers(b); err != nil || len(want) != 2*perPage+3 || !slices.Equal(got, want) {
			t.Fatalf("%v\n%d\n%d", err, got, want)
		}
	}
	stop := errors.New("stop")
	if err := b.CopyPages(0, func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}
