// Package system builds a whole kprobefs without the mounts: the machine, the
// probes on it, the optimizer, the tracer, and the tree of files over them. It
// is where the packages' small interfaces are met; the command and the tests
// start from it.
package system

import (
	"fmt"
	"os"
	"runtime"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/module"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/exports"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/optimizer"
)

// Options choose what is built. The zero value is Debian's 6.1 on as many vCPUs
// as the host has. Another release comes with its own Config.
type Options struct {
	CPUs          int          // vCPUs; 0: as many as the host has
	Clock         kernel.Clock // nil: real time
	Deterministic bool         // one vCPU after the other, by instruction count
	Seed          uint64       // of random numbers; 0: the host's
	Release       Release      // which kernel; without a name it is 6.1
	Config        Config       // as the kernel was configured
	Lockdown      Lockdown     // what it keeps root from
	Program       string       // who answers, for proc/version: "kprobefs 0.1"
}

// System is one emulated kernel with its probes.
type System struct {
	Machine   *kernel.Machine
	Kprobes   *kprobes.Kprobes
	Optimizer *optimizer.Optimizer // nil without CONFIG_OPTPROBES
	Tracer    *tracing.Tracer
	Modules   *module.Loader

	opts     Options
	exports  *exports.Exports
	activity *Activity // nil: the host's activity does not reach the guest
}

// New boots a machine and puts probes and files over it. Errors are
// kernel.Boot's.
func New(o Options) (*System, error) {
	if o.Program == "" {
		o.Program = "kprobefs"
	}
	if o.Release.Name == "" {
		o.Release, _ = ParseRelease(DefaultRelease)
	}
	o.Release.configure(o.Config)
	m, err := kernel.Boot(kernel.Options{
		Image: o.Release.image(), CPUs: o.Config.limit(o.CPUs, runtime.NumCPU()), Clock: o.Clock, Deterministic: o.Deterministic,
		Seed: o.Seed, Cmdline: o.cmdline(), Release: o.Release.Uname(), Version: o.Release.Version(o.Program), Rename: o.Release.rename(),
		TextSymbols: o.Config.NoKallsymsAll,
	})
	if err != nil {
		return nil, fmt.Errorf("boot: %w", err)
	}
	s := &System{Machine: m, opts: o}
	s.wire()
	s.sayLockdown()
	return s, nil
}

// cmdline is /proc/cmdline.
func (o Options) cmdline() string {
	line := "BOOT_IMAGE=" + o.Program
	if o.Lockdown != Unlocked {
		line += " lockdown=" + o.Lockdown.String()
	}
	return line
}

// wire ties the machine's exits to the probes and back.
func (s *System) wire() {
	m := s.Machine
	var tables kprobes.Tables = m.Tables()
	if s.opts.Config.NoFtrace {
		tables = noFtrace{tables}
	}
	conf := kprobes.Config{
		Text: m, Symbols: m.Symbols(), Tables: tables, Ftrace: m.Sites(), Slots: slots{m}, Machine: m,
		NoPreempt: s.opts.Config.NoPreempt, NRCPUs: s.opts.Config.NRCPUs, Features: s.opts.Release.Kprobes,
	}
	if c := s.opts.Config; !c.NoOptprobes && (c.NoPreempt || !s.opts.Release.Kprobes.PreemptNoJumps) {
		s.Optimizer = optimizer.New(optimizer.Config{
			Text: m, Symbols: m.Symbols(), Tables: tables, Slots: slots{m}, Machine: m, Features: s.opts.Release.Kprobes,
		})
		conf.Optimizer = s.Optimizer
	}
	s.Kprobes = kprobes.New(conf)
	own, names := s.Kprobes.OwnCode()
	if len(names) > 0 {
		m.Symbols().SetModule("", []abi.Range{own}, names)
	}
	s.Modules = s.newModules()
	s.exports = exports.New(exports.Config{Kprobes: s.Kprobes, Machine: m, Memory: m.Mem()})
	var sites tracing.Functions
	if !s.opts.Config.NoFtrace {
		sites = functions{m.Sites()}
	}
	s.Tracer = tracing.New(tracing.Config{
		Functions: sites, Unwind: m.Unwind, UnwindCallback: m.UnwindCallback,
		Kprobes: s.Kprobes, Symbols: m.Symbols(), Sites: m.Tables(), Machine: m, PtrKey: s.opts.Seed, Release: s.opts.Release.Uname(), Features: s.opts.Release.Tracing,
		BTF: s.opts.Release.btf(), Module: s.Modules.Loaded, Tracepoints: m, Syscalls: m.Syscalls(), Memory: m.Mem(),
		TAIOffset: m.Clock().Wall() - m.Clock().Now(), RegularFile: regularFile, Dirs: s.dirs, TaskCPU: host.CPUIn,
	})
	m.Sites().OnKprobe(s.Kprobes.Ftrace)
	m.SetHandlers(kernel.Handlers{
		Int3: s.Kprobes.Int3, Stepped: s.Kprobes.Stepped, Fault: s.Kprobes.Fault, Ftrace: m.Sites().HitRegs,
		Function: m.Sites().Hit, Optimized: s.Kprobes.Optimized, Rethook: s.Kprobes.Rethook, TaskDead: s.Kprobes.FlushTask, RealReturn: s.Kprobes.RealReturn, Trampoline: s.Kprobes.TrampolineProbe(),
		EndAtTrampoline: s.opts.Release.Kprobes.TrampolineIP,
		Tracepoint:      s.Tracer.Tracepoint,
		Probe:           s.exports.Request,
	})
}

// Close stops the machine.
func (s *System) Close() error {
	if s.activity != nil {
		s.activity.Close()
	}
	if s.Optimizer != nil {
		s.Optimizer.Stop()
	}
	return s.Machine.Close()
}

// slots is the machine's executable memory in kprobes' words.
type slots struct{ m *kernel.Machine }

func (s slots) Alloc(n int) (uint64, error) { return s.m.AllocSlot(n) }
func (s slots) Free(addr uint64)            { s.m.FreeSlot(addr) }

// regularFile says whether a path of the host's is that of a regular file.
func regularFile(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return info.Mode().IsRegular(), nil
}
