package kprobefs

import (
	"context"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

type (
	// Kprobe is struct kprobe.
	Kprobe = kprobes.Kprobe
	// Retprobe is struct kretprobe.
	Retprobe = kprobes.Retprobe
	// Jprobe is struct jprobe, on the releases 2.6.25 and 2.6.32.
	Jprobe = kprobes.Jprobe
	// Hit is the argument of a handler: registers, memory, CPU, task.
	Hit = kprobes.Hit
	// Instance is struct kretprobe_instance.
	Instance = kprobes.Instance
	// Regs is struct pt_regs.
	Regs = abi.Regs
)

// The flags of a probe, with Linux's values.
const (
	FlagGone      = kprobes.FlagGone
	FlagDisabled  = kprobes.FlagDisabled
	FlagOptimized = kprobes.FlagOptimized
	FlagFtrace    = kprobes.FlagFtrace
)

// Register is register_kprobe: from now on p's handlers are called when a vCPU reaches
// the probed address. The errors are those of kprobes.Kprobes.Register: ENOENT for an
// unknown symbol, EILSEQ for an address inside an instruction, EINVAL for one that must
// not be probed.
//
// A handler runs on a vCPU, between two guest instructions: it must not wait, and must
// not keep the Hit.
func (k *Kernel) Register(p *Kprobe) error { return k.Kprobes.Register(p) }

// Unregister is unregister_kprobe. When it returns, no handler of p runs any more.
func (k *Kernel) Unregister(p *Kprobe) error { return k.Kprobes.Unregister(p) }

// RegisterRetprobe is register_kretprobe.
func (k *Kernel) RegisterRetprobe(r *Retprobe) error { return k.Kprobes.RegisterRetprobe(r) }

// UnregisterRetprobe is unregister_kretprobe.
func (k *Kernel) UnregisterRetprobe(r *Retprobe) error { return k.Kprobes.UnregisterRetprobe(r) }

// RegisterJprobe is register_jprobe. It fails with ENOSYS on a release without jprobes.
func (k *Kernel) RegisterJprobe(j *Jprobe) error { return k.Kprobes.RegisterJprobe(j) }

// UnregisterJprobe is unregister_jprobe.
func (k *Kernel) UnregisterJprobe(j *Jprobe) error { return k.Kprobes.UnregisterJprobe(j) }

// Call calls a function of the guest on a kernel thread of vCPU 0 and returns its result.
// It takes up to six arguments, numbers or addresses. It fails with ENOENT when there is
// no such function, and with ctx's error when ctx ends first.
func (k *Kernel) Call(ctx context.Context, function string, args ...uint64) (uint64, error) {
	return k.Machine.Call(ctx, function, args...)
}
