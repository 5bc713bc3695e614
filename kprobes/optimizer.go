package kprobes

import (
	"errors"
	"slices"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
)

// maxOptimized is how many bytes before an address an optimized region that
// covers it may begin: 4 bytes of the jump and a last instruction of 15.
const maxOptimized = 4 + insn.MaxLen

// noOptimizer is a kernel without CONFIG_OPTPROBES.
type noOptimizer struct{}

var (
	_ Optimizer = noOptimizer{}

	errNoOptprobes = errors.New("this kernel has no jump optimization")
)

func (noOptimizer) Attach(*Kprobes)            {}
func (noOptimizer) Prepare(*Point) error       { return errNoOptprobes }
func (noOptimizer) Optimize(*Point)            {}
func (noOptimizer) Unoptimize(*Point, bool)    {}
func (noOptimizer) Within(*Point, uint64) bool { return false }
func (noOptimizer) Queued(*Point) bool         { return false }
func (noOptimizer) Release(*Point)             {}
func (noOptimizer) Kill(*Point)                {}
func (noOptimizer) Wait()                      {}

// Lock takes the probes' lock: under it the optimizer changes points from its
// own goroutine. What else is said here to be for the optimizer is called with
// the lock held.
func (k *Kprobes) Lock() { k.mu.Lock() }

// Unlock gives the probes' lock back.
func (k *Kprobes) Unlock() { k.mu.Unlock() }

// AllDisarmed says whether kprobes/enabled is 0. For the optimizer.
func (k *Kprobes) AllDisarmed() bool { return k.allOff }

// Poke writes text, later if more is to come. For the optimizer.
func (k *Kprobes) Poke(patches ...abi.Patch) error {
	if k.batch == nil {
		return k.cfg.Text.Poke(patches...)
	}
	for _, p := range patches {
		_ = k.poke(nil, p) // takes it into the batch
	}
	return nil
}

// PointsWithin gives the points in [start, end). For the optimizer.
func (k *Kprobes) PointsWithin(start, end uint64) []*Point {
	return slices.Clone(k.table.within(start, end))
}

// Each calls f for every point, in the order of the table. For the optimizer.
func (k *Kprobes) Each(f func(*Point)) {
	for b := range k.table.heads {
		for pt := k.table.heads[b].Load(); pt != nil; pt = pt.next.Load() {
			f(pt)
		}
	}
}

// Unoptimized is called when the jump of pt has become an int3 again: it takes
// the int3 away from a disabled point, and a point that nobody uses out of the
// table. For the optimizer.
func (k *Kprobes) Unoptimized(pt *Point) (dropped bool) {
	if pt.Disabled() {
		_ = k.disarmInt3(pt) // fails only where the text is gone
	}
	if pt.Unused() {
		k.table.remove(pt)
		return true
	}
	return false
}

// Free gives back the slot of a point that Unoptimized dropped, once no vCPU
// can be in it. It needs no lock. For the optimizer.
func (k *Kprobes) Free(pt *Point) { k.freeCode(pt) }

// Original reads text at addr as it would be without probes: with the
// instructions that breakpoints and jumps replaced, and nops at fentry sites.
// For the optimizer.
func (k *Kprobes) Original(addr uint64, p []byte) error { return k.original(addr, p) }
