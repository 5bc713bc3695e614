package main

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
	maps := pageMaps{open: map[int]int{}}
	defer maps.forget(os.Getpid())
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
		if got := maps.present(os.Getpid(), tt.addr, tt.n); got != tt.want {
			t.Errorf("%d of %d bytes at %#x are present, want %d", got, tt.n, tt.addr-at, tt.want)
		}
	}
	if got := maps.present(1<<30, at, 1); got != 0 {
		t.Errorf("%d bytes of no process are present", got)
	}
}
