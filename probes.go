package kprobefs

import (
	"context"
	"fmt"
	"io"
	"sync"

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
// the probed address. The errors are kprobes.Kprobes.Register's: ENOENT for an
// unknown symbol, EILSEQ for an address inside an instruction, EINVAL for one that must
// not be probed, for a nil p, and for a p that has both an address and a symbol: as on Linux,
// Register sets p.Addr, and who registers p again clears it first. On Linux p would then be disabled,
// since unregister_kprobe leaves KPROBE_FLAG_DISABLED in it; here Flags are only read.
//
// A handler runs on a vCPU, between two guest instructions: it must not wait, and must
// not keep the Hit.
func (k *Kernel) Register(p *Kprobe) error {
	return k.using(func() error { return k.Kprobes.Register(p) })
}

// Unregister is unregister_kprobe. When it returns, no handler of p runs any more.
func (k *Kernel) Unregister(p *Kprobe) error {
	return k.using(func() error { return k.Kprobes.Unregister(p) })
}

// Attach registers p. Closing what it returns unregisters p and clears the address that Register
// has set, so that p can be registered again; the second time it does nothing.
func (k *Kernel) Attach(p *Kprobe) (io.Closer, error) {
	named := p != nil && p.SymbolName != ""
	if err := k.Register(p); err != nil {
		return nil, err
	}
	return &attached{unregister: func() error {
		err := k.Unregister(p)
		if named {
			p.Addr = 0
		}
		return err
	}}, nil
}

// AttachRetprobe does the same with a return probe.
func (k *Kernel) AttachRetprobe(r *Retprobe) (io.Closer, error) {
	named := r != nil && r.Kprobe.SymbolName != ""
	if err := k.RegisterRetprobe(r); err != nil {
		return nil, err
	}
	return &attached{unregister: func() error {
		err := k.UnregisterRetprobe(r)
		if named {
			r.Kprobe.Addr = 0
		}
		return err
	}}, nil
}

// attached is a probe that is registered until Close.
type attached struct {
	once       sync.Once
	unregister func() error
}

func (a *attached) Close() (err error) {
	a.once.Do(func() { err = a.unregister() })
	return err
}

// RegisterRetprobe is register_kretprobe.
func (k *Kernel) RegisterRetprobe(r *Retprobe) error {
	return k.using(func() error { return k.Kprobes.RegisterRetprobe(r) })
}

// UnregisterRetprobe is unregister_kretprobe.
func (k *Kernel) UnregisterRetprobe(r *Retprobe) error {
	return k.using(func() error { return k.Kprobes.UnregisterRetprobe(r) })
}

// RegisterJprobe is register_jprobe. It fails with ENOSYS on a release without jprobes.
func (k *Kernel) RegisterJprobe(j *Jprobe) error {
	return k.using(func() error { return k.Kprobes.RegisterJprobe(j) })
}

// UnregisterJprobe is unregister_jprobe.
func (k *Kernel) UnregisterJprobe(j *Jprobe) error {
	return k.using(func() error { return k.Kprobes.UnregisterJprobe(j) })
}

// Call calls a function of the guest on a kernel thread of vCPU 0 and returns its result.
// It takes up to five arguments, numbers or addresses. It fails with ENOENT when there is
// no such function, with EINVAL for more arguments, and with ctx's error when ctx ends first: a
// function that has been called then runs on until it can be interrupted, and so does a handler,
// but Call returns.
func (k *Kernel) Call(ctx context.Context, function string, args ...uint64) (uint64, error) {
	if ctx == nil {
		return 0, errNoContext
	}
	if k.users.closed.Err() != nil {
		return 0, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%s: %w", function, context.Cause(ctx))
	}
	return k.called(ctx, function, args)
}
