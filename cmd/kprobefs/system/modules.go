package system

import (
	"context"
	"slices"
	"sync"

	"github.com/kprobefs/kprobefs/fs/procfs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// newModules makes the loader of modules and lets the probes hear of them.
func (s *System) newModules() *module.Loader {
	m := s.Machine
	exported := exportedBy(m.Image())
	_, own := s.Kprobes.OwnCode()
	for _, sym := range own {
		exported[sym.Name] = sym.Addr
	}
	var initCall uint64
	if syms := m.Symbols().LookupName("do_one_initcall"); len(syms) > 0 {
		initCall = syms[0].Addr
	}
	return module.New(module.Config{
		Machine: m, Symbols: m.Symbols(), Tables: m.Tables(), Sites: m.Sites(),
		Export:      func(name string) (uint64, bool) { addr := exported[name]; return addr, addr != 0 },
		Call:        (&insmod{machine: m}).call,
		InitCall:    initCall,
		Notify:      s.moduleChanged,
		TextSymbols: s.opts.Config.NoKallsymsAll,
		Vermagic:    s.opts.Release.modules(),
	})
}

// exportedBy is where the symbols are that modules may use, which need not be in
// kallsyms. A name that there is twice is the first one's.
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

// moduleChanged is the module notifiers of the probes and the tracer.
func (s *System) moduleChanged(e module.Event) {
	switch e.State {
	case module.Coming:
		s.Tracer.ModuleComing(e.Name)
	case module.Live:
		_ = s.exports.Gone(e.Init) // EFAULT: a struct that is no longer there is not written
		for _, r := range e.Init {
			s.Kprobes.Kill(r.Start, r.End)
		}
	case module.Going:
		_ = s.exports.Gone(append(slices.Clone(e.Core), e.Init...))
		s.Tracer.ModuleGoing(append(slices.Clone(e.Core), e.Init...))
		for _, r := range append(e.Core, e.Init...) {
			s.Kprobes.Kill(r.Start, r.End)
		}
	}
}

// insmod is the task that init and exit functions run on, one after the other.
type insmod struct {
	machine *kernel.Machine

	mu   sync.Mutex // held while a function runs
	task *host.Task
}

func (i *insmod) call(ctx context.Context, addr uint64, args ...uint64) (uint64, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.task == nil {
		t, err := i.machine.Host().Kthread(ctx, "insmod")
		if err != nil {
			return 0, err
		}
		i.task = t
	}
	return i.task.Func(ctx, addr, 1, args...)
}

// lockedModules is the loader under lockdown: what is not signed is not loaded.
type lockedModules struct {
	*module.Loader
	system *System
}

// Load is module.Loader's; EPERM: the kernel is locked down.
func (l lockedModules) Load(ctx context.Context, ko []byte) (string, error) {
	if err := l.system.lockedDown(Integrity, "unsigned module loading", seqfile.CallerOf(ctx)); err != nil {
		return "", err
	}
	return l.Loader.Load(ctx, ko)
}

// moduleLines is /proc/modules.
func (s *System) moduleLines() []procfs.Module {
	var all []procfs.Module
	for _, i := range s.Modules.List() {
		all = append(all, procfs.Module{
			Name: i.Name, Size: i.Size, Refs: i.Refs, Users: i.Users, State: string(i.State), Addr: i.Addr, Taints: i.Taints,
		})
	}
	return all
}
