package tracing

import (
	"encoding/binary"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/memcg"
)

func TestParseCPUMask(t *testing.T) {
	for _, c := range []struct {
		text  string
		cpus  int
		want  string
		errno error
	}{
		{"3\n", 2, "11", nil},
		{"0", 2, "00", nil},
		{"2", 2, "01", nil},
		{"4", 2, "", syscall.EOVERFLOW},
		{"00000003", 2, "11", nil},
		{"000000003", 2, "", syscall.EOVERFLOW},
		{"0,3", 2, "", syscall.EOVERFLOW},
		{",3,", 2, "11", nil},
		{",", 2, "00", nil},
		{"0x1", 2, "", syscall.EINVAL},
		{"-1", 2, "", syscall.EINVAL},
		{"1,00000000", 33, strings.Repeat("0", 32) + "1", nil},
		{"1 1", 33, "1" + strings.Repeat("0", 31) + "1", nil},
	} {
		mask, err := parseCPUMask(c.text, c.cpus)
		got := ""
		for _, on := range mask {
			got += string(rune('0' + bit(on)))
		}
		if !errors.Is(err, c.errno) || got != c.want {
			t.Errorf("%q: %s, %v, want %s, %v", c.text, got, err, c.want, c.errno)
		}
	}
}

// TestReaderPage: what a reader has begun to read is not overrun, and it is told
// of the loss where it is.
func TestReaderPage(t *testing.T) {
	b := NewRingBuffer(1, 3)
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
	if !b.empty(-1) {
		t.Error("something is left")
	}
}

// TestReadPage: a page is given whole when it is full and untouched, else as far as
// the reader has room.
func TestReadPage(t *testing.T) {
	b := NewRingBuffer(1, 4)
	var p []byte
	if ok, empty := b.ReadPage(0, &p, pageSize); ok || !empty {
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
		{pageHeader, 0, 0, false},
		{pageHeader + 19, 0, 0, false},
		{pageHeader + 20, 20, 100, true},
		{pageHeader + 59, 40, 100, true},
		{pageSize, 20 * (perPage - 3), 102, true},
		{pageSize, 100, 100 + perPage, true},
		{pageSize, 0, 0, false},
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

// TestPageBytes: a buffer gets pages of another size. The counters keep what was in
// the old ones, which no reader finds.
func TestPageBytes(t *testing.T) {
	b := NewRingBuffer(1, 26)
	for n := range 3 * perPage {
		b.Write(0, int64(n), numbered(n))
	}
	b.setPageBytes(4 * pageSize)
	if n, s := b.count(0), b.Stats(0); n != 7 || s.Entries != 3*perPage || !b.empty(0) {
		t.Errorf("%d pages, stats %+v, empty %v", n, s, b.empty(0))
	}
	if _, ok := b.Iterate(0).Next(); ok {
		t.Error("there is an event in empty pages")
	}
	for n := range 5 * perPage {
		b.Write(0, int64(1000+n), numbered(n))
	}
	var p []byte
	const perLarge = (4*pageSize - pageHeader) / 20
	if ok, _ := b.ReadPage(0, &p, 4*pageSize); !ok || len(p) != 4*pageSize || binary.LittleEndian.Uint64(p[8:]) != 20*perLarge+8 { // with what fills it
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

func TestInstances(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(tr.global.WriteTraceOptions([]byte("sym-addr")))
	must(tr.MakeInstance("foo"))
	if err := tr.MakeInstance("foo"); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a second one: %v", err)
	}
	a := tr.Instances()[0]
	if !a.has(optSymAddr) || a.BufferSizeKB(-1) != "1410 (expanded: 1408)\n" {
		t.Errorf("options %x, size %q", a.options.Load(), a.BufferSizeKB(-1))
	}
	must(a.files[tr.event("kprobes", "a").Event].Enable([]byte("1")))
	f.hit(f.symbol("vfs_read"), entered(0, 1, newFakeTask(1, "init")))
	if a.buffer.Stats(0).Entries != 1 || tr.global.buffer.Stats(0).Entries != 0 {
		t.Error("the hit is not where it belongs")
	}
	if err := tr.ReleaseKprobes(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("delete while an instance wants hits: %v", err)
	}
	must(a.Get())
	if err := tr.RemoveInstance("foo"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("remove while open: %v", err)
	}
	a.Put()
	must(tr.RemoveInstance("foo"))
	if err := a.Get(); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("open what is gone: %v", err)
	}
	must(tr.ReleaseKprobes())
	if err := tr.RemoveInstance("foo"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("remove again: %v", err)
	}
}

// TestSnapshotSwaps: hits that go on meanwhile are in one of the two.
func TestSnapshotSwaps(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read")
	enable(t, tr, "kprobes", "a", "1")
	const hits = 2000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range hits {
			f.hit(f.symbol("vfs_read"), entered(0, 1, newFakeTask(1, "init")))
		}
	}()
	for range 20 {
		if err := tr.global.WriteSnapshot(-1, []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if n := tr.global.buffer.Stats(0).Entries + tr.global.snapshot.Load().Stats(0).Entries; n != hits {
		t.Errorf("%d of %d hits", n, hits)
	}
	if err := tr.global.WriteSnapshot(0, []byte("1")); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("of one vCPU: %v", err)
	}
}

func TestPIDs(t *testing.T) {
	tr, _ := newTestTracer(t)
	a := tr.global
	for _, c := range []struct {
		write string
		errno error
		want  string
	}{
		{"2 1\n", nil, "1 2"},
		{"x", syscall.EINVAL, "1 2"},
		{"3 x", syscall.EINVAL, "1 2"},
		{"0x10 010", nil, "1 2 8 16"},
		{"1073741824", syscall.EPERM, "1 2 8 16"},
		{"\n", nil, "1 2 8 16"},
	} {
		_, err := a.WritePIDs(SetEventPID, []byte(c.write))
		got := strings.Join(strings.Fields(strings.Join(a.PIDs(SetEventPID), "")), " ")
		if !errors.Is(err, c.errno) || got != c.want {
			t.Errorf("%q: %v, %q, want %v, %q", c.write, err, got, c.errno, c.want)
		}
	}
	if a.ignores(8) || !a.ignores(9) {
		t.Error("the wrong tasks are ignored")
	}
	tr.Forked(8, 9)
	if !a.ignores(9) {
		t.Error("a child is taken without event-fork")
	}
	if err := a.WriteTraceOptions([]byte("event-fork")); err != nil {
		t.Fatal(err)
	}
	tr.Forked(8, 9)
	tr.Exited(8)
	if a.ignores(9) || !a.ignores(8) {
		t.Error("event-fork does not follow")
	}
	a.ClearPIDs(SetEventPID)
	if a.ignores(8) || len(a.PIDs(SetEventPID)) != 0 {
		t.Error("an empty list ignores")
	}
}

// TestExpansion: an event in an instance gives the global array its full size on 6.1;
// on 6.12 it does not, as recorded there.
func TestExpansion(t *testing.T) {
	for _, own := range []bool{false, true} {
		f := newFakeKernel()
		tr := New(Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Module: f.moduleLoaded, Features: Features{OwnExpansion: own}})
		write(t, tr, "p:a vfs_read")
		if err := tr.MakeInstance("i"); err != nil {
			t.Fatal(err)
		}
		a := tr.Instances()[0]
		sizes := func() string { return tr.Global().BufferSizeKB(-1) + a.BufferSizeKB(-1) }
		before := sizes()
		if err := a.EnableSystem("kprobes", []byte("1")); err != nil {
			t.Fatal(err)
		}
		want := [2]string{"7 (expanded: 1408)\n1410 (expanded: 1408)\n", "1410\n1410\n"}
		if own {
			want = [2]string{"7 (expanded: 1408)\n1410\n", "7 (expanded: 1408)\n1410\n"}
		}
		if got := [2]string{before, sizes()}; got != want {
			t.Errorf("own %v: %q, want %q", own, got, want)
		}
	}
}

// TestLimit: where there is no memory left, nothing is made that would take some, and
// what gives some back goes on.
func TestLimit(t *testing.T) {
	f := newFakeKernel()
	tr := New(Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Module: f.moduleLoaded, Limit: memcg.New(1)})
	global := tr.Global()
	_, definition := tr.WriteKprobeEvents([]byte("p:x vfs_read\n"))
	for what, err := range map[string]error{
		"instance":   tr.MakeInstance("i"),
		"buffer":     global.SetBufferSizeKB(-1, []byte("4096\n")),
		"snapshot":   global.WriteSnapshot(-1, []byte("1\n")),
		"definition": definition,
	} {
		if !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %v, want ENOMEM", what, err)
		}
	}
	tr.mu.Lock()
	err := global.resize(-1, 1)
	tr.mu.Unlock()
	if err != nil {
		t.Errorf("a smaller buffer: %v", err)
	}
}
