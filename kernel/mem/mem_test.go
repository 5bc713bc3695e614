package mem

import (
	"bytes"
	"errors"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

const va = 0xffffffff81000000

func newMemory(t *testing.T) *Memory {
	t.Helper()
	m, err := New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestMap(t *testing.T) {
	m := newMemory(t)
	for _, tt := range []struct {
		name          string
		va, pa, pages uint64
		p             Perm
		ok            bool
	}{
		{"text", va, 0x1000, 2, Read | Exec, true},
		{"data", 0xffff888000000000, 0, 256, Read | Write, true},
		{"last page", 0xfffffffffffff000, 0, 1, Read, true},
		{"lowest", 0, 0, 1, Read, true},
		{"write and execute", va, 0, 1, Read | Write | Exec, false},
		{"no permission", va, 0, 1, 0, false},
		{"not aligned", va + 1, 0, 1, Read, false},
		{"physical not aligned", va, 1, 1, Read, false},
		{"past the end of RAM", va, 0xff000, 2, Read, false},
		{"far past it", va, 1 << 62, 1, Read, false},
		{"too many", va, 0, 1 << 60, Read, false},
		{"around the end", 0xfffffffffffff000, 0, 2, Read, false},
		{"into the hole", 0x00007ffffffff000, 0, 2, Read, false},
		{"in the hole", 1 << 62, 0, 1, Read, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := m.Map(tt.va, tt.pa, tt.pages, tt.p)
			if ok := err == nil; ok != tt.ok || !ok && !errors.Is(err, syscall.EINVAL) {
				t.Errorf("Map: %v", err)
			}
			if !tt.ok {
				return
			}
			last := tt.va + (tt.pages-1)*PageSize
			pa, p, ok := m.Lookup(last + 5)
			if !ok || pa != tt.pa+(tt.pages-1)*PageSize+5 || p != tt.p {
				t.Errorf("Lookup: %#x %v %v", pa, p, ok)
			}
		})
	}
}

func TestUnmap(t *testing.T) {
	m := newMemory(t)
	m.Map(va, 0, 3, Read|Exec)
	var gone []uint64
	m.OnText(func(pa, n uint64) { gone = append(gone, pa, n) })
	e := m.Epoch()
	m.Unmap(va+PageSize, 1)
	m.Unmap(0x1000, 1<<30) // nothing is mapped
	if _, _, ok := m.Lookup(va + PageSize); ok || m.Epoch() == e {
		t.Error("still mapped, or no new epoch")
	}
	if len(gone) != 2 || gone[0] != PageSize || gone[1] != PageSize {
		t.Errorf("told of %x", gone)
	}
	if err := m.ReadAt(va+PageSize-1, make([]byte, 2)); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("read over the edge: %v", err)
	}
}

func TestAccess(t *testing.T) {
	m := newMemory(t)
	m.Map(va, 0x5000, 1, Read)
	m.Map(va+PageSize, 0x2000, 1, Read|Write)
	m.Map(va+2*PageSize, 0x8000, 1, Read|Exec)
	want := []byte("over the edge")
	if err := m.WriteAt(va+PageSize-4, want); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if err := m.ReadAt(va+PageSize-4, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
	if !bytes.Equal(m.Phys(0x2000, 9), want[4:]) {
		t.Error("the second page's bytes are not at its physical address")
	}
	if err := m.WriteAt(va+2*PageSize-4, want); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("write into text: %v", err)
	}
	if err := m.WriteU64(va+2*PageSize, 1); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("write into text: %v", err)
	}
	for _, a := range []uint64{va + 16, va + 21, va + PageSize - 3} {
		if err := m.WriteU64(a, a); err != nil {
			t.Fatal(err)
		}
		if v, err := m.ReadU64(a); v != a || err != nil {
			t.Errorf("%#x %v", v, err)
		}
	}
	if v, err := m.Add32(va+16, 5); err != nil || v != 0x81000015 {
		t.Errorf("Add32: %#x %v", v, err)
	}
	if _, err := m.Add64(va+3*PageSize, 5); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("Add64: %v", err)
	}
}

func TestPokeText(t *testing.T) {
	m := newMemory(t)
	m.Map(va, 0x5000, 1, Read|Exec)
	m.Map(va+PageSize, 0x9000, 1, Read|Exec)
	var told [][2]uint64
	m.OnText(func(pa, n uint64) { told = append(told, [2]uint64{pa, n}) })
	if err := m.PokeText(va+PageSize-1, []byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[0] != [2]uint64{0x5fff, 1} || told[1] != [2]uint64{0x9000, 2} {
		t.Errorf("told of %x", told)
	}
	if err := m.PokeText(va+2*PageSize-1, []byte{1, 2}); !errors.Is(err, syscall.EFAULT) || len(told) != 2 {
		t.Errorf("poke over the edge: %v", err)
	}
}

func TestPhys(t *testing.T) {
	m := newMemory(t)
	if m.Phys(1<<20, 1) != nil || m.Phys(0, 1<<20+1) != nil || m.Phys(^uint64(0), 2) != nil {
		t.Error("Phys returned bytes that are not RAM")
	}
	if len(m.Phys(1<<20-1, 1)) != 1 {
		t.Error("Phys did not return the last byte")
	}
}

// TestGuards: what lies before and behind RAM, and the memory beside it, cannot be
// accessed. Both are unmapped in the end.
func TestGuards(t *testing.T) {
	m, err := New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := m.Guarded(3 * PageSize)
	if err != nil {
		t.Fatal(err)
	}
	ram := m.Phys(0, m.Size())
	for _, b := range [][]byte{ram, beside} {
		for _, off := range []int{-guard, -1, len(b), len(b) + guard - 1} {
			if !faults(b, off) {
				t.Errorf("the byte at %#x can be read", off)
			}
		}
		for _, off := range []int{0, len(b) - 1} {
			if faults(b, off) {
				t.Errorf("the byte at %#x cannot be read", off)
			}
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if !faults(ram, 0) || faults(beside, 0) {
		t.Error("Close unmaps RAM, and nothing else")
	}
	runtime.KeepAlive(m)
	m = nil
	for range 1000 {
		if runtime.GC(); faults(beside, 0) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the memory beside RAM stays mapped")
}

// faults reports whether the byte at b[off] cannot be read.
func faults(b []byte, off int) (fault bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() != nil }()
	sink = *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), off))
	return false
}

var sink byte
