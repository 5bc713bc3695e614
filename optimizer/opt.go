// Package optimizer makes the jumps of optimized probes. It behaves like Linux 6.1's
// arch/x86/kernel/kprobes/opt.c.
//
// Eligibility (check.go) is decided once, when a probe is registered, by decoding the
// whole function; each refusal has a reason. A detour (detour.go) is x86 code in guest
// memory, begun by package trampoline: it saves the registers, calls the guest's
// optimized_callback, restores the registers, executes the instructions that the jump
// replaces, and jumps back.
//
// Package kprobes (its optimize.go) decides when a jump is written and removed, under
// the lock that guards its probes.
package optimizer

import (
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/trampoline"
	"github.com/kprobefs/kprobefs/kprobes"
)

const jumpSize = trampoline.BranchSize

// Config is the argument of New.
type Config struct {
	Symbols kprobes.Symbols
	Tables  kprobes.Tables
	Slots   kprobes.Slots
	Linux   release.Version // whose rules hold; 0 means release.Default
}

// Optimizer prepares the jumps of one kernel. Only one goroutine may use it at a time:
// package kprobes holds its lock.
type Optimizer struct {
	cfg   Config
	has   release.Set
	text  []byte // buffer of checkFunction
	known [knownFunctions]function
}

var _ kprobes.Optimizer = (*Optimizer)(nil)

// New returns an optimizer.
func New(c Config) *Optimizer { return &Optimizer{cfg: c, has: c.Linux.Set()} }

// original reads text as it is without probes; it fails where there is no text.
type original func(addr uint64, p []byte) error

// Prepare decides whether a jump is safe at addr, and makes its detour. The error is a
// *Refusal.
func (o *Optimizer) Prepare(addr uint64, text func(addr uint64, p []byte) error) (*kprobes.Detour, error) {
	if err := o.checkFunction(addr, text); err != nil {
		return nil, err
	}
	region, ins, err := o.region(addr, text)
	if err != nil {
		return nil, err
	}
	callback := o.cfg.Symbols.LookupName(trampoline.Optimized)
	if len(callback) == 0 {
		return nil, refuse(NoCallback, 0)
	}
	at, err := o.cfg.Slots.Alloc(detourSize(len(region)))
	if err != nil {
		return nil, &Refusal{Reason: TooFar, Cause: err}
	}
	d, err := build(addr, region, ins, at, callback[0].Addr)
	if err != nil {
		o.cfg.Slots.Free(at)
		return nil, &Refusal{Reason: TooFar, Cause: err}
	}
	return d, nil
}

// Free frees the memory of a detour.
func (o *Optimizer) Free(d *kprobes.Detour) { o.cfg.Slots.Free(d.Addr) }
