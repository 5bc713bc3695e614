package hostview

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/exectest"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// TestWritable: what /proc/TID/maps shows as writable, across mappings that lie side by side.
func TestWritable(t *testing.T) {
	const maps = `1000-2000 r--p 00000000 00:00 0
2000-4000 rw-p 00000000 00:00 0                          [heap]
4000-5000 rwxs 00000000 00:01 7 /a file
6000-7000 rw-p 00000000 00:00 0
7fffffffe000-7ffffffff000 -w-p 00000000 00:00 0
`
	for _, tt := range []struct {
		addr, size uint64
		want       bool
	}{
		{0x1000, 1, false},
		{0x1fff, 2, false},
		{0x2000, 0x3000, true},
		{0x2001, 0x3000, false},
		{0x4fff, 1, true},
		{0x5000, 1, false},
		{0x6000, 0x1000, true},
		{0x5fff, 2, false},
		{0x7fffffffe000, 16, true},
		{0, 1, false},
		{^uint64(0), 8, false},
	} {
		if got := Writable(maps, tt.addr, tt.size); got != tt.want {
			t.Errorf("%d bytes at %#x: %v", tt.size, tt.addr, got)
		}
	}
}

// TestWriteProtected: an answer is not written where the caller may not write.
func TestWriteProtected(t *testing.T) {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	maps, err := proc.Read(os.Getpid(), "maps")
	if err != nil {
		t.Fatal(err)
	}
	if at := exectest.AddrOf(t, &page[0]); Writable(maps, at, 8) {
		t.Error("a page that can be read only is writable")
	}
	word := new([8]byte)
	if !Writable(maps, exectest.AddrOf(t, &word[0]), 8) {
		t.Error("memory of ours is not writable")
	}
}

// TestPageMaps: memory that was never touched, and memory that is not there, cannot be read
// without waiting.
func TestPageMaps(t *testing.T) {
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
	b[0], b[page] = 1, 1
	at := uint64(uintptr(unsafe.Pointer(&b[0])))
	maps := PageMaps{Open: map[int]int{}}
	defer maps.Forget(os.Getpid())
	for _, tt := range []struct {
		addr    uint64
		n, want int
	}{
		{at, 1, 1},
		{at, page, page},
		{at, 2 * page, 2 * page},
		{at, 3 * page, 2 * page},
		{at + uint64(page) + 10, page, page - 10},
		{at + 2*uint64(page), 100, 0},
		{8, 100, 0},
		{1<<63 + 5, 100, 0},
		{at, 0, 0},
	} {
		if got := maps.Present(os.Getpid(), tt.addr, tt.n); got != tt.want {
			t.Errorf("%d of %d bytes at %#x are present, want %d", got, tt.n, tt.addr-at, tt.want)
		}
	}
	if got := maps.Present(1<<30, at, 1); got != 0 {
		t.Errorf("%d bytes of no process are present", got)
	}
}

// TestReadMemory reads strings and arrays of this process.
func TestReadMemory(t *testing.T) {
	text := []byte("a string\x00rest")
	addr := func(b []byte) uint64 { return exectest.AddrOf(t, &b[0]) }
	if got := ReadString(os.Getpid(), addr(text)); string(got) != "a string" {
		t.Errorf("a string: %q", got)
	}
	if got := ReadString(os.Getpid(), 8); got != nil {
		t.Errorf("a string at 8: %q", got)
	}
	vector := make([]byte, 24)
	binary.NativeEndian.PutUint64(vector, addr(text))
	binary.NativeEndian.PutUint64(vector[8:], addr(text)+2)
	if got := ReadVector(os.Getpid(), addr(vector)); len(got) != 2 || string(got[0]) != "a string" || string(got[1]) != "string" {
		t.Errorf("an array: %q", got)
	}
	if got := ReadVector(os.Getpid(), 0); got != nil {
		t.Errorf("no array: %q", got)
	}
	runtime.KeepAlive(text)
	runtime.KeepAlive(vector)
}

// TestMappedAt: the address belongs to the file's code, not of its data or of another file.
func TestMappedAt(t *testing.T) {
	const maps = `55d0c0000000-55d0c0021000 r--p 00000000 08:01 77 /usr/bin/bpftrace
55d0c0021000-55d0c01d4000 r-xp 00021000 08:01 77 /usr/bin/bpftrace
7f0000000000-7f0000001000 r-xp 00000000 08:01 78 /lib/other
`
	for _, tt := range []struct{ ino, offset, want uint64 }{
		{77, 0xc8830, 0x55d0c00c8830},
		{77, 0x1000, 0},
		{77, 0x200000, 0},
		{78, 0x10, 0x7f0000000010},
		{79, 0x10, 0},
	} {
		if got := MappedAt(maps, tt.ino, tt.offset); got != tt.want {
			t.Errorf("%d+%#x: %#x, want %#x", tt.ino, tt.offset, got, tt.want)
		}
	}
	if got := MappedAt("x\n1-2 r-xp\n", 1, 0); got != 0 {
		t.Errorf("no list of mappings: %#x", got)
	}
}
