package host

import (
	"errors"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

func TestPool(t *testing.T) {
	const base = 0x100000
	p := NewPool(base, 8)
	at := func(i uint64) uint64 { return base + i*abi.PageSize }
	alloc := func(n int, want uint64) {
		t.Helper()
		got, err := p.Alloc(n)
		if err != nil || got != want {
			t.Fatalf("Alloc(%d) gave %#x, %v, want %#x", n, got, err, want)
		}
	}
	alloc(1, at(0))
	alloc(3, at(1))
	alloc(4, at(4))
	if _, err := p.Alloc(1); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("a full pool gave %v, want ENOMEM", err)
	}
	p.Free(at(1), 3)
	if _, err := p.Alloc(4); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("a hole of three pages gave four: %v", err)
	}
	alloc(2, at(1))
	alloc(1, at(3))
}
