package kprobefs_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

// TestBytes checks the bytes at a probe: int3, the jump to the detour, the detour
// with the copied instructions and the jump back, and the original bytes after
// unregistering, with all slots freed.
func TestBytes(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	read := func(addr uint64, n int) []byte {
		t.Helper()
		b := make([]byte, n)
		if err := s.Machine.Read(addr, b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	target := func(addr uint64) uint64 { // of the jmp rel32 at addr
		t.Helper()
		b := read(addr, 5)
		if b[0] != 0xe9 {
			t.Fatalf("at %#x: % x, want e9 rel32", addr, b)
		}
		return addr + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(b[1:]))))
	}
	addr := s.Machine.Symbols().LookupName("vfs_read")[0].Addr + 5
	original := read(addr, 16)
	slots := s.Machine.SlotsInUse()

	s.Kprobes.SetOptimization(false)
	p := &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5}
	if err := s.Kprobes.Register(p); err != nil {
		t.Fatal(err)
	}
	if got, want := read(addr, 16), append([]byte{0xcc}, original[1:]...); !bytes.Equal(got, want) {
		t.Errorf("a breakpoint: % x, want % x", got, want)
	}
	slot := s.Kprobes.Points()[0].Slot
	n := s.Kprobes.Points()[0].Length
	if got := read(slot, n+1); !bytes.Equal(got[:n], original[:n]) || got[n] != 0xcc {
		t.Errorf("the slot holds % x, want the instruction % x and cc", got, original[:n])
	}

	s.Kprobes.SetOptimization(true)
	s.Kprobes.WaitOptimizer()
	detour := target(addr)
	if detour < abi.ModulesBase || detour >= abi.ModulesEnd {
		t.Errorf("the jump leads to %#x", detour)
	}
	copied := s.Kprobes.Points()[0].Detour
	if copied <= detour {
		t.Fatalf("the copy is at %#x, the detour at %#x", copied, detour)
	}
	size := 0
	for size < 5 || notJump(read(copied+uint64(size), 1)) {
		size++
	}
	if got := read(copied, size); !bytes.Equal(got, original[:size]) {
		t.Errorf("the detour ends with % x, want the instructions % x", got, original[:size])
	}
	if back := target(copied + uint64(size)); back != addr+uint64(size) {
		t.Errorf("the detour jumps back to %#x, want %#x", back, addr+uint64(size))
	}

	s.Kprobes.Unregister(p)
	s.Kprobes.WaitOptimizer()
	if got := read(addr, 16); !bytes.Equal(got, original) {
		t.Errorf("afterwards % x, want % x", got, original)
	}
	for end := time.Now().Add(10 * time.Second); s.Machine.SlotsInUse() != slots; time.Sleep(time.Millisecond) {
		if time.Now().After(end) { // they are freed after a grace period
			t.Fatalf("%d slots in use, want %d as before", s.Machine.SlotsInUse(), slots)
		}
	}
}

// notJump reports whether b does not begin with a jmp rel32.
func notJump(b []byte) bool { return b[0] != 0xe9 }
