package kprobefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/procfs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// newModules creates the module loader, whose events go to the probes.
func (k *Kernel) newModules() *module.Loader {
	m := k.Machine
	exported := exportedBy(m.Image())
	_, own := k.Kprobes.ReleaseCode()
	for _, sym := range own {
		exported[sym.Name] = sym.Addr
	}
	return module.New(module.Config{
		Machine: m, Memory: m.Mem(), Symbols: m.Symbols(), Tables: m.Tables(), Sites: m.Sites(),
		Export:      func(name string) (uint64, bool) { addr := exported[name]; return addr, addr != 0 },
		Call:        k.callModule,
		Func:        k.function,
		Notify:      k.moduleChanged,
		Armed:       m.Armed(),
		TextSymbols: k.opts.Config.NoKallsymsAll,
		Vermagic:    k.opts.Release.vermagic(),
		Own:         k.opts.Release.ownVermagics(),
		Struct:      k.opts.Release.layout,
		ABI:         k.opts.Release.ABI,
	})
}

// Insmod loads a module with arguments, NAME or NAME=VALUE. Its errors are
// module.Loader.Insert's; said is what the kernel has logged meanwhile. It keeps ko.
func (k *Kernel) Insmod(ko []byte, args string) (said []string, err error) {
	if k.view.vm != nil {
		return nil, errOneKernel
	}
	if err := k.users.begin(); err != nil {
		return nil, err
	}
	defer k.users.leave()
	log := k.Machine.Log()
	_, from := log.Bounds()
	err = k.moduleDir.Insert(k.users.closed, ko, module.Options{Args: args})
	_, next := log.Bounds()
	for ; from < next; from++ {
		if r, ok, _, _ := log.Get(from); ok {
			said = append(said, r.Text)
		}
	}
	return said, err
}

// function returns the address of a function of the guest, 0 if there is none.
func (k *Kernel) function(name string) uint64 {
	if syms := k.Machine.Symbols().LookupName(name); len(syms) > 0 {
		return syms[0].Addr
	}
	return 0
}

// exportedBy returns the addresses of the symbols that modules may use; they need not
// be in kallsyms. Of a duplicate name it is the first one's.
func exportedBy(img *image.Image) map[string]uint64 {
	addrs := make(map[string]uint64, len(img.Exports))
	for _, name := range img.Exports {
		addrs[name] = 0
	}
	for _, s := range slices.Backward(img.Symbols) {
		if _, ok := addrs[s.Name]; ok {
			addrs[s.Name] = s.Addr
		}
	}
	return addrs
}

// moduleChanged does the work of the module notifiers of the probes and the tracer.
func (k *Kernel) moduleChanged(e module.Event) {
	switch e.State {
	case module.Coming:
		k.Tracer.ModuleComing(e.Name)
		if err := k.exports.Coming(); err != nil {
			k.Machine.Log().Printk(kernel.LogWarning, "ftrace: %v", err)
		}
	case module.Live:
		_ = k.exports.Gone(e.Init) // EFAULT: a struct that has been removed is not written
		for _, r := range e.Init {
			k.Kprobes.Kill(r.Start, r.End)
		}
	case module.Going:
		_ = k.exports.Gone(append(slices.Clone(e.Core), e.Init...))
		k.Tracer.ModuleGoing(append(slices.Clone(e.Core), e.Init...))
		for _, r := range append(e.Core, e.Init...) {
			k.Kprobes.Kill(r.Start, r.End)
		}
	}
}

// callModule runs an init or exit function on a task created for it, as Linux does on
// the task that loads or unloads. If that task dies, or does not end, other modules can
// still be loaded.
func (k *Kernel) callModule(ctx context.Context, comm string, addr uint64, args ...uint64) (uint64, error) {
	t, err := k.Machine.Host().Kthread(ctx, cmp.Or(host.CommOf(ctx), comm))
	if err != nil {
		return 0, err
	}
	ret, err := t.Func(ctx, addr, 1, args...)
	if errors.Is(err, host.ErrDied) || errors.Is(err, host.ErrStopped) {
		return 0, fmt.Errorf("%w: %w", module.ErrStays, err)
	}
	t.Leave()
	return ret, err
}

// lockedModules is the loader under lockdown: it refuses modules without a signature.
type lockedModules struct {
	*module.Loader
	system *Kernel
}

// Insert is module.Loader's Insert. It fails with EPERM when the kernel is locked down.
func (l lockedModules) Insert(ctx context.Context, ko []byte, o module.Options) (string, error) {
	if err := l.system.lockedDown(Integrity, "unsigned module loading", seqfile.CallerOf(ctx)); err != nil {
		return "", err
	}
	return l.Loader.Insert(ctx, ko, o)
}

// moduleLines returns the lines of /proc/modules.
func (k *Kernel) moduleLines() []procfs.Module {
	var all []procfs.Module
	for _, i := range k.Modules.List() {
		if i.Hidden {
			continue
		}
		all = append(all, procfs.Module{
			Name: i.Name, Size: i.Size, Refs: i.Refs, Users: i.Users, State: string(i.State), Addr: i.Addr, Taints: i.Taints, Permanent: i.Permanent,
		})
	}
	return all
}

// request answers requests of guest code: those about static keys, static calls
// and tracepoints itself, the others go to the probes. It returns 0 or -errno.
func (k *Kernel) request(nr, addr, arg uint64) int64 {
	var err error
	switch nr {
	case abi.KeyUpdate:
		err = k.Machine.UpdateBranches(addr, arg != 0)
	case abi.CallUpdate:
		err = k.Machine.UpdateStaticCall(addr, arg)
	case abi.TracepointUpdate:
		err = k.Machine.UpdateTracepoint(addr, arg)
	case abi.ModuleEvent:
		k.Modules.Entered(addr, arg)
	default:
		return k.exports.Request(nr, addr, arg)
	}
	if err != nil {
		return -int64(syscall.EFAULT)
	}
	return 0
}
