package perf

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
)

// heap is a Memory that no program maps.
type heap struct {
	b      []byte
	closed bool
}

func (h *heap) Grow(size int) ([]byte, error) {
	h.b = make([]byte, size)
	return h.b, nil
}
func (h *heap) Close() { h.closed = true }

// source is attached to nothing: tests call Hit.
type source struct{ attached int }

func (s *source) Attach(*Event) (func(), error) {
	s.attached++
	return func() { s.attached-- }, nil
}

func (s *source) ParseFilter(text string) (*filter.Filter, error) {
	f, err := (&filter.Rules{}).Parse(text, nil)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func testSet() *Set {
	now := int64(0)
	var mu sync.Mutex
	return NewSet(Config{
		CPUs: []int{0, 1, 0},
		Now: func() int64 {
			mu.Lock()
			defer mu.Unlock()
			now++
			return now
		},
		Clock: func(int32) int64 { return 77 },
		Room:  func(int) error { return nil },
	})
}

func hit(vcpu int, tid int32, entry string) *Hit {
	return &Hit{VCPU: vcpu, PID: tid, TID: tid, Time: 5, IP: 0xffffffff81000001, Chain: []uint64{1, 2, 3}, Subject: &filter.Subject{Entry: []byte(entry)}}
}

// records takes the records out of a ring.
func records(t *testing.T, h *heap) (list [][]byte) {
	t.Helper()
	le, data := binary.LittleEndian, h.b[abi.PageSize:]
	head, tail := le.Uint64(h.b[pageHead:]), le.Uint64(h.b[pageTail:])
	for tail < head {
		at := func(i uint64) byte { return data[(tail+i)%uint64(len(data))] }
		size := uint64(at(6)) | uint64(at(7))<<8
		if size < 8 || size > head-tail {
			t.Fatalf("a record of %d bytes at %d, where %d is the head", size, tail, head)
		}
		r := make([]byte, size)
		for i := range r {
			r[i] = at(uint64(i))
		}
		list, tail = append(list, r), tail+size
	}
	le.PutUint64(h.b[pageTail:], tail)
	return list
}

func (s *Set) mustOpen(t *testing.T, a Attr, tid int32, cpu int, group *Event) (*Event, *heap) {
	t.Helper()
	h := &heap{}
	a.MaxStack = maxFrames
	e, err := s.Open(a, &source{}, tid, cpu, group, h)
	if err != nil {
		t.Fatal(err)
	}
	return e, h
}

func (e *Event) counted() uint64 { return e.count.Load() }

// TestEachHitOnce: events of all CPUs count each hit once, however many vCPUs there are.
func TestEachHitOnce(t *testing.T) {
	s := testSet()
	var all []*Event
	for cpu := range 4 {
		e, _ := s.mustOpen(t, Attr{}, -1, cpu, nil)
		all = append(all, e)
	}
	for vcpu := range 3 {
		for _, e := range all {
			e.Hit(hit(vcpu, 9, ""))
		}
	}
	for cpu, want := range []uint64{2, 1, 0, 0} {
		if got := all[cpu].counted(); got != want {
			t.Errorf("CPU %d: %d hits, want %d", cpu, got, want)
		}
	}
}

// TestTasks: an event follows children if it is inherited, and ends with the last of them.
func TestTasks(t *testing.T) {
	s := testSet()
	alone, _ := s.mustOpen(t, Attr{}, 10, -1, nil)
	both, _ := s.mustOpen(t, Attr{Flags: flagInherit}, 10, 0, nil)
	later, _ := s.mustOpen(t, Attr{Flags: flagDisabled | flagEnableOnExec | flagInherit}, 10, -1, nil)
	hits := func(tid int32) {
		for _, e := range []*Event{alone, both, later} {
			e.Hit(hit(0, tid, ""))
		}
	}
	hits(10)
	s.Forked(Task{IDs{11, 11}, IDs{10, 10}})
	s.Executed(IDs{11, 11}, "program")
	hits(11)
	s.Forked(Task{IDs{12, 12}, IDs{11, 11}})
	s.Exited(Task{IDs: IDs{10, 10}})
	s.Exited(Task{IDs: IDs{11, 11}})
	hits(10)
	hits(12)
	if both.Ended() || !alone.Ended() {
		t.Error("ended with its first task, or not")
	}
	s.Exited(Task{IDs: IDs{12, 12}})
	hits(12)
	if !both.Ended() {
		t.Error("not ended with its last task")
	}
	both.Enable(false)
	hits(12)
	if got := [3]uint64{alone.counted(), both.counted(), later.counted()}; got != [3]uint64{1, 3, 2} {
		t.Errorf("counts %v", got)
	}
}

// TestRing: hits are records, or told as lost.
func TestRing(t *testing.T) {
	for _, flags := range []uint64{0, flagSampleIDAll, flagUseClockID} {
		s := testSet()
		e, h := s.mustOpen(t, Attr{Period: 1, Flags: flags, ReadFormat: formatLost, SampleType: sampleIP | sampleTID | sampleTime | sampleCPU | sampleRaw | sampleCallchain}, 10, -1, nil)
		if err := e.Map(2*abi.PageSize, 0, true); err != nil {
			t.Fatal(err)
		}
		samples, lost := 0, uint64(0)
		take := func() {
			for _, r := range records(t, h) {
				switch r[0] {
				case recordSample:
					samples++
				case 2:
					lost += binary.LittleEndian.Uint64(r[16:])
				}
			}
		}
		for i := range 500 {
			e.Hit(hit(0, 10, "0123456789abcdef"[:i%17]))
			if i%200 == 199 {
				take()
			}
		}
		take()
		e.Hit(hit(0, 10, ""))
		take()
		if uint64(samples)+lost != 501 || e.lost.Load() != lost || lost == 0 {
			t.Errorf("flags %#x: %d samples and %d lost, %d said, of 501", flags, samples, lost, e.lost.Load())
		}
		e.Release()
		if !h.closed {
			t.Error("the memory is still held")
		}
	}
}

// TestOverflow: what is called when a sample is due decides whether it is written.
func TestOverflow(t *testing.T) {
	e, h := testSet().mustOpen(t, Attr{Type: TypeSoftware, Config: SoftwareContextSwitches, Period: 2}, -1, 0, nil)
	if err := e.Map(2*abi.PageSize, 0, true); err != nil {
		t.Fatal(err)
	}
	calls, keep := 0, false
	e.OnOverflow(func(_ *abi.Trap, period uint64) bool {
		if calls++; period != 2 {
			t.Errorf("a period of %d", period)
		}
		return keep
	})
	four := func() int {
		for range 4 {
			e.Hit(hit(0, 1, ""))
		}
		return len(records(t, h))
	}
	if got := four(); got != 0 || calls != 2 {
		t.Errorf("%d samples and %d calls for four hits, want 0 and 2", got, calls)
	}
	keep = true
	if got := four(); got != 2 || calls != 4 {
		t.Errorf("%d samples and %d calls, want 2 and 4", got, calls)
	}
	e.OnOverflow(nil)
	if got := four(); got != 2 || calls != 4 {
		t.Errorf("%d samples and %d calls when there is nothing to call, want 2 and 4", got, calls)
	}
}

// TestHostileRing: whatever a program writes into its ring, hits come to an end, and stay in it.
func TestHostileRing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, flags := range []uint64{0, flagWriteBackward, flagWatermark} {
		s := testSet()
		e, h := s.mustOpen(t, Attr{Period: 1, Flags: flags, Wakeup: 1, SampleType: sampleRaw | sampleCallchain}, 10, -1, nil)
		if err := e.Map(3*abi.PageSize, 0, flags&flagWriteBackward == 0); err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			for _, at := range []int{pageHead, pageTail, pageDataOffset, pageDataSize} {
				binary.LittleEndian.PutUint64(h.b[at:], r.Uint64()>>r.IntN(64))
			}
			e.Hit(hit(0, 10, string(make([]byte, r.IntN(3000)))))
			_, _, _ = e.Poll()
		}
		e.Hit(hit(0, 10, string(make([]byte, 100000)))) // no record can be so long
		if e.counted() != 2001 {
			t.Errorf("%d hits", e.counted())
		}
	}
}

// TestMap: only Linux's sizes are mapped, and only once.
func TestMap(t *testing.T) {
	s := testSet()
	e, _ := s.mustOpen(t, Attr{}, 10, -1, nil)
	for _, size := range []uint64{0, 1, 4095, 4097, 4 * abi.PageSize, 1<<63 + abi.PageSize, 1<<64 - 1, 2<<40 + abi.PageSize} {
		if err := e.Map(size, 0, true); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	for _, tt := range []struct {
		size, offset uint64
		want         error
	}{{2 * abi.PageSize, 4096, syscall.EINVAL}, {2 * abi.PageSize, 0, nil}, {2 * abi.PageSize, 0, nil}, {3 * abi.PageSize, 0, syscall.EINVAL}} {
		if err := e.Map(tt.size, tt.offset, true); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	inherited, _ := s.mustOpen(t, Attr{Flags: flagInherit}, 10, -1, nil)
	if err := inherited.Map(2*abi.PageSize, 0, true); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("inherited, any CPU: %v", err)
	}
}

// TestGroup: members count while their leader is on, and are read together.
func TestGroup(t *testing.T) {
	s := testSet()
	leader, _ := s.mustOpen(t, Attr{Flags: flagDisabled, ReadFormat: formatGroup}, 10, -1, nil)
	member, _ := s.mustOpen(t, Attr{ReadFormat: formatGroup}, 10, -1, leader)
	if _, err := s.Open(Attr{}, &source{}, 10, -1, member, &heap{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a group of a member: %v", err)
	}
	member.Hit(hit(0, 10, ""))
	leader.Enable(false)
	member.Hit(hit(0, 10, ""))
	var b [24]byte
	if n, err := leader.Read(b[:]); n != 24 || err != nil || b[0] != 2 || b[8] != 0 || b[16] != 1 {
		t.Errorf("read %d %v: %v", n, err, b)
	}
	if _, err := leader.Read(b[:23]); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a short read: %v", err)
	}
	leader.Release()
	member.Hit(hit(0, 10, ""))
	if n, _ := member.Read(b[:]); n != 16 || b[8] != 2 {
		t.Errorf("alone: %d bytes %v", n, b)
	}
}

// TestTogether has hits, readers and closers at the same time.
func TestTogether(*testing.T) {
	s := testSet()
	h := &heap{}
	a := Attr{Period: 1, Flags: flagInherit | flagComm | flagTask, ReadFormat: formatGroup | formatEnabled, SampleType: sampleRaw, Wakeup: 1, MaxStack: 1}
	e, _ := s.Open(a, &source{}, 10, 0, nil, h)
	other, _ := s.Open(a, &source{}, 10, 0, e, &heap{})
	var all sync.WaitGroup
	for _, do := range []func(i int32){
		func(int32) { e.Hit(hit(0, 10, "entry")) },
		func(int32) { other.Hit(hit(0, 10, "other")) },
		func(int32) { _, _ = e.Read(make([]byte, 100)) },
		func(i int32) { s.Forked(Task{IDs{100 + i, 100 + i}, IDs{10, 10}}) },
		func(i int32) { s.Exited(Task{IDs: IDs{100 + i, 100 + i}}) },
		func(int32) { _, _, _ = e.Poll() },
		func(i int32) {
			if i == 50 {
				_ = e.Map(2*abi.PageSize, 0, true)
				_ = other.SetOutput(e)
			}
			if i == 150 {
				e.Release()
			}
		},
	} {
		all.Go(func() {
			for i := range int32(200) {
				do(i)
			}
		})
	}
	all.Wait()
	other.Release()
}

// FuzzAttr: any bytes are an attr, or an errno.
func FuzzAttr(f *testing.F) {
	b := make([]byte, ourAttr)
	b[0], b[4] = TypeTracepoint, ourAttr
	f.Add(b)
	f.Add(b[:64])
	f.Add([]byte{})
	f.Add(append(b, 0, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAttr(b)
		var errno syscall.Errno
		if err != nil {
			if !errors.As(err, &errno) {
				t.Fatalf("%v has no errno", err)
			}
			return
		}
		s := testSet()
		h := &heap{}
		e, err := s.Open(a, &source{}, 10, -1, nil, h)
		if err != nil {
			t.Fatal(err)
		}
		_ = e.Map(2*abi.PageSize, 0, true)
		s.Executed(IDs{10, 10}, "program")
		e.Enable(false)
		for range 3 {
			e.Hit(hit(0, 10, "an entry"))
		}
		s.Exited(Task{IDs: IDs{10, 10}})
		if h.b != nil && !a.has(flagWriteBackward) {
			records(t, h)
		}
		_, _ = e.Read(make([]byte, 256))
		e.Release()
		if !h.closed && h.b != nil {
			t.Error("the memory is still held")
		}
	})
}
