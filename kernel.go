// Package kprobefs is Linux's kprobes for Go programs: an emulated x86-64 kernel, probes
// in its text, and the files by which Linux controls and shows them.
//
// Boot starts a kernel. Register and its siblings set probes whose handlers are Go
// functions; Call runs a function of the kernel, which hits the probes. ReadFile and
// WriteFile use the files (kprobes/list, tracing/kprobe_events, ...), and Mount serves
// them by FUSE. A process may run several kernels; they share nothing.
//
//	k, err := kprobefs.Boot(kprobefs.Options{})
//	...
//	defer k.Close()
//	err = k.Register(&kprobefs.Kprobe{SymbolName: "vfs_read", PreHandler: func(h *kprobefs.Hit) int {
//		log.Print("a read of ", h.Regs.Arg(2), " bytes")
//		return 0
//	}})
//
// This package also connects the parts: the machine (package kernel), the probes
// (kprobes, optimizer), the tracer (kprobes/tracing) and the files (fs). They are fields
// of Kernel for programs that need more than its methods.
package kprobefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/kprobefs/kprobefs/fs/bpffs"
	"github.com/kprobefs/kprobefs/fs/machinefs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/fs/sysfs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/memcg"
	"github.com/kprobefs/kprobefs/kernel/module"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/exports"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/optimizer"
)

// Options choose the kernel. The zero value is Debian's 6.1 on as many vCPUs as the
// host has; OptionsOf gives another release's.
type Options struct {
	CPUs          int             // number of vCPUs; 0 means as many as the host has
	Engine        kernel.Engine   // what executes the guest's code; the zero value is the fastest that the host has
	Clock         kernel.Clock    // nil means real time
	Deterministic bool            // run the vCPUs in turn, by instruction count
	Sequenced     bool            // only who waits for the guest executes it (kernel.Options.Sequenced)
	Seed          uint64          // for random numbers and %p's hashes; 0 means the host's random numbers, or 1 when Deterministic
	Release       Release         // if Linux is 0, it is DefaultRelease; with Kernel its release
	Kernel        *vmlinux.Kernel // the kernel that probes and files show; nil means the one that is booted
	Config        Config          // the kernel's configuration
	Lockdown      Lockdown        // what root may not do
	Watchdog      kernel.Watchdog // stops guest code that does not end
	Console       io.Writer       // what a console shows is written here, each message as a whole; nil means that there is none
	Limit         *memcg.Limit    // what clients may allocate; nil means 1 GiB for tracing and no limit for the rest
	Program       string          // name of the program in proc/version: "kprobefs 0.1"
}

// Kernel is one emulated kernel with its probes.
type Kernel struct {
	Machine *kernel.Machine
	Kprobes *kprobes.Kprobes
	Tracer  *tracing.Tracer
	Modules *module.Loader

	opts      Options
	exports   *exports.Exports
	moduleDir *machinefs.ModuleDir
	pins      *bpffs.FS
	writes    *seqfile.Writes
	view      view
	users     users
	late      lateCalls
	perfTypes map[string]uint32 // of perf_event_open(2), by the names of devices

	treeMu   sync.Mutex
	timeline machinefs.Timeline // takes the machine back, or nil
	tree     seqfile.Dir        // nil until Tree is called

	haltMu sync.Mutex
	halts  []func() // called by halt
}

// Boot boots a machine and adds probes and files. Its errors are kernel.Boot's.
func Boot(o Options) (*Kernel, error) {
	if o.Program == "" {
		o.Program = "kprobefs"
	}
	if o.Release.Linux == 0 {
		o.Release, _ = ParseRelease(DefaultRelease)
	}
	if o.Kernel != nil {
		o.Release, o.Config = ReleaseOf(o.Kernel, o.Config)
	}
	o.Release.Configure(o.Config)
	m, err := kernel.Boot(kernel.Options{
		Image: o.Release.image(), CPUs: o.Config.limit(o.CPUs, min(runtime.NumCPU(), kernel.MaxCPUs)), Clock: o.Clock, Deterministic: o.Deterministic, Sequenced: o.Sequenced, Engine: o.Engine,
		Seed: o.Seed, Cmdline: o.cmdline(), Release: o.Release.Uname(), Version: o.Release.Version(o.Program), Rename: o.Release.rename(),
		TextSymbols: o.Config.NoKallsymsAll, Watchdog: o.Watchdog, Console: o.Console, Linux: o.Release.Linux, NoPreempt: o.Config.NoPreempt,
	})
	if err != nil {
		return nil, fmt.Errorf("boot: %w", err)
	}
	s := &Kernel{Machine: m, opts: o, perfTypes: sysfs.PerfTypes(sysfs.HostPerfTypes(sysfs.EventSources))}
	if s.view, err = viewOf(m, o); err != nil {
		return nil, errors.Join(fmt.Errorf("boot: %w", err), m.Close())
	}
	s.users.closed, s.users.cancel = context.WithCancel(context.Background())
	s.wire()
	s.sayLockdown()
	return s, nil
}

// cmdline returns the contents of /proc/cmdline.
func (o Options) cmdline() string {
	line := "BOOT_IMAGE=" + o.Program
	if o.Lockdown != Unlocked {
		line += " lockdown=" + o.Lockdown.String()
	}
	return line
}

// viewOf returns what probes and files look at.
func viewOf(m *kernel.Machine, o Options) (view, error) {
	if o.Kernel != nil {
		return fileView(m, o)
	}
	return guestView(m, o.Release), nil
}

// wire connects the machine's exits to the probes, and the probes to the machine.
func (k *Kernel) wire() {
	m, v := k.Machine, k.view
	var tables kprobes.Tables = v.tables
	if k.opts.Config.NoFtrace {
		tables = noFtrace{tables}
	}
	conf := kprobes.Config{
		Text: v.text, Symbols: v.symbols, Tables: tables, Ftrace: v.sites, Slots: v.slots, Machine: v.machine, Armed: m.Armed(),
		Going:     func(name string) bool { return k.Modules.Going(name) },
		NoPreempt: k.opts.Config.NoPreempt, NRCPUs: k.opts.Config.NRCPUs, Linux: k.opts.Release.Linux,
	}
	if c := k.opts.Config; !c.NoOptprobes && (c.NoPreempt || k.opts.Release.Linux.Has(release.JumpsWithPreempt)) {
		conf.Optimizer = optimizer.New(optimizer.Config{Symbols: v.symbols, Tables: tables, Slots: v.slots, Linux: k.opts.Release.Linux})
	}
	k.Kprobes = kprobes.New(conf)
	own, names := k.Kprobes.ReleaseCode()
	if len(names) > 0 {
		v.symbols.SetModule("", []abi.Range{own}, names)
	}
	k.Modules = k.newModules()
	k.writes = seqfile.NewWrites(m.Now)
	k.moduleDir = machinefs.NewModuleDir(lockedModules{k.Modules, k}, k.opts.Limit)
	var sites ftracer.Functions
	if !k.opts.Config.NoFtrace {
		sites = functions{v.sites}
	}
	k.Tracer = tracing.New(tracing.Config{
		Kprobes: k.Kprobes, Symbols: v.symbols, Sites: v.tables, Machine: v.machine, Unwinder: v.unwinder, Modules: k.Modules, Files: traceFiles{k}, Host: traceHost{k},
		Memory: v.memory, Armed: m.Armed(), Release: k.opts.Release.Uname(), Linux: k.opts.Release.Linux, Limit: k.opts.Limit,
		TAIOffset: m.Clock().Wall() - m.Clock().Now(), PerfCPUs: perfCPUs(m.CPUs()), PossibleCPUs: possibleCPUs(),
		Tracepoints: v.points, Syscalls: v.syscalls, Functions: sites, BTF: v.btf, RawBTF: v.rawBTF,
	})
	k.pins = bpffs.New(bpffs.Config{Ref: k.Tracer.BPF().Ref, Release: k.Tracer.BPF().Release, Open: k.openPinned})
	k.exports = exports.New(exports.Config{Kprobes: k.Kprobes, Machine: m, Memory: m.Mem(), Sites: m.Sites(), Functions: k.moduleFunctions()})
	v.sites.OnKprobe(k.Kprobes.Ftrace)
	m.SetHandlers(k.handlers())
}

func (k *Kernel) taskDead(task uint64) {
	k.Kprobes.FlushTask(task)
	k.Tracer.Ftrace().FlushGraph(task)
}

// returnsTo is kernel.Handlers.Return: function_graph and return probes replace return
// addresses, in either order. Linux's unwinder looks for the one of function_graph first,
// and ends where the other one has kept return_to_handler.
func (k *Kernel) returnsTo(task, slot, addr uint64) (shown, real uint64) {
	return k.Kprobes.Return(task, slot, k.Tracer.Ftrace().GraphReal(task, slot, addr))
}

func (k *Kernel) lastFrame(ip uint64) bool {
	return k.Kprobes.LastFrame(ip) || k.Tracer.Ftrace().ReturnsToGraph(ip)
}

// Died is closed when the guest's kernel has panicked.
func (k *Kernel) Died() <-chan struct{} { return k.Machine.Died() }

// PanicLog returns the log's records of the panic, and of the oops that led to it, in
// dmesg's form. It may be called once Died is closed.
func (k *Kernel) PanicLog() []string {
	var lines []string
	for _, r := range k.Machine.PanicLog() {
		lines = append(lines, fmt.Sprintf("[%5d.%06d] %s", r.Time/1e9, r.Time%1e9/1e3, r.Text))
	}
	return lines
}

// onHalt has a function called by halt, once.
func (k *Kernel) onHalt(end func()) {
	k.haltMu.Lock()
	defer k.haltMu.Unlock()
	k.halts = append(k.halts, end)
}

// halt stops the background work for the guest: it no longer repeats the host's
// activity, and optimizes no probes. The files stay.
func (k *Kernel) halt() {
	k.haltMu.Lock()
	halts := k.halts
	k.halts = nil
	k.haltMu.Unlock()
	for _, f := range halts {
		f()
	}
	k.Kprobes.Stop()
}

// Close stops the machine. It ends the calls and the waits of the other methods, and waits for
// them; they, and a second Close, fail with ErrClosed. A handler must not call it, and mounts must
// have been unmounted.
func (k *Kernel) Close() error {
	all, err := k.users.close()
	if err != nil {
		return err
	}
	k.halt()
	if !all { // one of them may still read the machine's memory
		return k.Machine.Retire()
	}
	if k.view.vm != nil {
		err = k.view.vm.Close()
	}
	return errors.Join(err, k.Machine.Close())
}

// retire stops the machine and gives its RAM back while its files may be in use.
func (k *Kernel) retire() error {
	k.halt()
	return k.Machine.Retire()
}

// slots adapts a machine's executable memory to package kprobes.
type slots struct {
	m interface {
		AllocSlot(n int) (uint64, error)
		FreeSlot(addr uint64)
	}
}

func (s slots) Alloc(n int) (uint64, error) { return s.m.AllocSlot(n) }
func (s slots) Free(addr uint64)            { s.m.FreeSlot(addr) }

// watched reports whether anybody could see what the guest does.
func (k *Kernel) watched() bool {
	return k.Kprobes.Armed() > 0 || k.Tracer.Listening() || k.view.sites.Listening()
}
