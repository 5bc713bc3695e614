package ftracer

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// words is memory of 8-byte words.
type words map[uint64]uint64

func (w words) ReadU64(addr uint64) (uint64, error) { return w[addr], nil }
func (w words) WriteU64(addr, v uint64) error       { w[addr] = v; return nil }
func (w words) ReadAt(_ uint64, b []byte) error     { clear(b); return nil }
func (w words) WriteAt(addr uint64, b []byte) error { return nil }

func graphTrap() *abi.Trap {
	return &abi.Trap{Mem: words{}, Regs: &abi.Regs{Flags: abi.FlagIF}, Task: abi.DirectMap, Now: func() int64 { return 1 }}
}

// TestGraphReturnUnknown has guest code go to return_to_handler by itself: it goes on at
// 0, where it faults, and not at return_to_handler for ever.
func TestGraphReturnUnknown(t *testing.T) {
	tr := newTracers(release.Linux6_1, nil)
	tr.graph.trampoline = abi.TextBase
	const slot = 0x1000
	trap := graphTrap()
	trap.Arg = slot
	if err := trap.Mem.WriteU64(slot, abi.TextBase); err != nil {
		t.Fatal(err)
	}
	tr.GraphReturn(trap)
	if v, err := trap.Mem.ReadU64(slot); v != 0 || err != nil {
		t.Errorf("goes on at %#x, %v; want 0", v, err)
	}
}

// TestGraphDepths has a task enter more functions than are watched, and return from them
// in an order that hostile code chooses.
func TestGraphDepths(t *testing.T) {
	tr := newTracers(release.Linux6_1, nil)
	a := tr.NewArray(fakeTrace{})
	tr.graph.trampoline = abi.TextBase + 0x100
	a.graph.on.Store(true)
	a.graph.round.Add(1)
	trap := graphTrap()
	hit := func(slot, ret uint64) bool {
		trap.Regs.SP, trap.Regs.IP = slot, abi.TextBase
		if err := trap.Mem.WriteU64(slot, ret); err != nil {
			t.Fatal(err)
		}
		a.graphHit(trap)
		v, _ := trap.Mem.ReadU64(slot)
		return v == tr.graph.trampoline
	}
	const top = 0x8000
	for i := range uint64(maxGraph + 10) {
		if got := hit(top-8*i, 0x100+i); got != (i < maxGraph) {
			t.Fatalf("call %d is watched: %v", i, got)
		}
	}
	for _, i := range []uint64{49, 48, 10} { // those above 10 have been left otherwise
		trap.Arg = top - 8*i
		if real := tr.GraphReal(trap.Task, trap.Arg, tr.graph.trampoline); real != 0x100+i {
			t.Errorf("an unwinder is told %#x of call %d", real, i)
		}
		tr.GraphReturn(trap)
		if v, _ := trap.Mem.ReadU64(trap.Arg); v != 0x100+i {
			t.Errorf("call %d returns to %#x", i, v)
		}
	}
	if n := tr.graph.tasks.Of(trap.Task).n.Load(); n != 10 {
		t.Errorf("%d calls are left", n)
	}
	tr.FlushGraph(trap.Task)
	if tr.GraphReal(trap.Task, top, tr.graph.trampoline) != tr.graph.trampoline {
		t.Error("calls of a task that has died are known")
	}
}

// TestGraphSlotTwice has two arrays watch the same call.
func TestGraphSlotTwice(t *testing.T) {
	tr := newTracers(release.Linux6_1, nil)
	tr.graph.trampoline = abi.TextBase + 0x100
	b := tr.NewArray(fakeTrace{})
	trap := graphTrap()
	const slot = 0x8000
	trap.Regs.SP, trap.Arg = slot, slot
	if err := trap.Mem.WriteU64(slot, 0x77); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Array{tr.NewArray(fakeTrace{}), b} {
		a.graph.on.Store(true)
		a.graph.round.Add(1)
		a.graphHit(trap)
	}
	if real := tr.GraphReal(trap.Task, slot, tr.graph.trampoline); real != 0x77 {
		t.Errorf("an unwinder is told %#x", real)
	}
	tr.GraphReturn(trap)
	if v, _ := trap.Mem.ReadU64(slot); v != 0x77 || tr.graph.tasks.Of(trap.Task).n.Load() != 0 {
		t.Errorf("returns to %#x", v)
	}
}
