package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/exec/activity"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/perffd"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/internal/inner"
	"github.com/kprobefs/kprobefs/internal/kernelfile"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/memcg"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
)

// system is a running machine and its files: *booted.
type system interface {
	// Tree returns the directory to mount: kprobes, tracing, sys, proc, dev, machine.
	Tree() seqfile.Dir
	// Writes returns the record of writes to the tree.
	Writes() *seqfile.Writes
	// Guest returns the part that makes the files' system calls.
	Guest() fs.Guest
	// Died is closed when the guest has panicked; PanicLog then returns its last log lines.
	Died() <-chan struct{}
	PanicLog() []string
	// Halt stops the background work for a machine that has died. Close stops the
	// machine; Retire does too, but its files may be in use.
	Halt()
	Close() error
	Retire() error
}

// booted is a system with a machine.
type booted struct {
	*kprobefs.Kernel
	inner inner.Kernel
}

func newBooted(k *kprobefs.Kernel) *booted { return &booted{k, inner.Of(k)} }

// Guest returns the part that makes the files' system calls.
func (b *booted) Guest() fs.Guest { return b.Machine.Host() }

func (b *booted) Halt()         { b.inner.Halt() }
func (b *booted) Retire() error { return b.inner.Retire() }

// WatchEntries has tell called with the names of files that modules have removed.
func (b *booted) WatchEntries(tell func(gone []string)) { b.Machine.Entries().Watch(tell) }

// bootOptions describe the kernel to boot.
type bootOptions struct {
	CPUs         int              // number of vCPUs; 0 means as many as this machine has
	Engine       kernel.Engine    // what executes the guest's code
	Release      kprobefs.Release // the kernel release
	Kernel       *vmlinux.Kernel  // the kernel that is shown instead, or nil
	Config       kprobefs.Config  // the kernel's configuration
	Locked       kprobefs.Lockdown
	Watchdog     kernel.Watchdog
	VirtualClock bool         // time advances with the instructions
	Console      io.Writer    // nil means that there is none
	Limit        *memcg.Limit // what clients may allocate
	Log          *logrus.Logger
	Alone        bool         // only processes below a supervisor are seen
	Calls        *wire.Server // through which supervisors report their commands' calls, or nil
}

// configured returns the release as it is configured.
func (o bootOptions) configured() kprobefs.Release {
	r := o.Release
	r.Configure(o.Config)
	r.Config = o.Config
	return r
}

// fields say of a log which kernel is served.
func (o bootOptions) fields() logrus.Fields {
	f := logrus.Fields{"release": o.Release.Name(), "uname": o.Release.Uname(), "engine": o.Engine.String(), "program": programVersion(), "pid": os.Getpid()}
	if o.CPUs > 0 {
		f["cpus"] = o.CPUs
	}
	return f
}

// machineFlags are the flags that describe the machine; exec passes them to its processes.
type machineFlags struct {
	cpus     int
	engine   string
	release  string
	config   []string
	locked   string
	watchdog string
	memory   string
	console  bool
	panics   string // the action when its kernel panics
	modules  []string
	kernelfile.Flags
}

func (f *machineFlags) addTo(flags *pflag.FlagSet) {
	f.Flags.AddTo(flags)
	flags.Var(cpuCount{&f.cpus}, "cpus", "vCPUs of the emulated kernel (default: this machine's)")
	cli.Choose(flags, &f.engine, "engine", kernel.EngineAuto.String(), engineNames, "what executes the emulated kernel's code: native translates it to this machine's, interp interprets it, auto is native where that is possible ('kprobefs check' says so)")
	chooseRelease(flags, &f.release, "the Linux release to emulate: ")
	flags.StringArrayVar(&f.config, "config", nil, "change the kernel's configuration from Debian's, NAME=VALUE: "+strings.Join(kprobefs.ConfigNames(), ", "))
	cli.Choose(flags, &f.panics, "panic", panicStop, panicWords, "when the emulated kernel panics: stop, which keeps its log and machine/ readable, or reboot")
	flags.StringArrayVar(&f.modules, "module", nil, "load this kernel module before the files are there: FILE, or \"FILE PARAM=VALUE...\"; not again after --panic=reboot")
	cli.Choose(flags, &f.locked, "lockdown", kprobefs.Unlocked.String(), lockdownNames, "lock the kernel down: integrity closes debugfs, confidentiality also tracefs")
	flags.StringVar(&f.watchdog, "watchdog", kernel.Watchdog{}.String(), "what to do with guest code that holds a vCPU with interrupts or preemption off, ACTION[:SECONDS]: kill ends its task, panic ends the machine, warn only logs, off disables the watchdog; SECONDS is watchdog_thresh (default 10)")
	flags.BoolVar(&f.console, "console", false, "print the emulated kernel's messages on standard error as on a console: those below the first number of /proc/sys/kernel/printk")
	flags.StringVar(&f.memory, "memory", "", "how much memory clients may make the program hold (buffers, definitions, filters, instances, copies of modules, open files), in bytes or with a suffix K, M or G; beyond it they get ENOMEM. The emulated kernel's own RAM and the program itself are not in it: they take 50 to 230 MiB more, depending on use. What is freed goes back to the host within 10 s (default: half of the memory of the cgroup or this machine, at most 1G)")
}

// args returns the flags as arguments for another process of this program.
func (f *machineFlags) args() []string {
	args := []string{"--cpus", strconv.Itoa(f.cpus), "--engine", f.engine, "--release", f.release, "--panic", f.panics}
	args = append(args, f.Flags.Args()...)
	for _, line := range f.config {
		args = append(args, "--config", line)
	}
	for _, m := range f.modules {
		args = append(args, "--module", m)
	}
	if f.watchdog != "" {
		args = append(args, "--watchdog", f.watchdog)
	}
	if f.console {
		args = append(args, "--console")
	}
	if f.locked != "" {
		args = append(args, "--lockdown", f.locked)
	}
	if f.memory != "" {
		args = append(args, "--memory", f.memory)
	}
	return args
}

// chooseRelease adds the flag --release.
func chooseRelease(flags *pflag.FlagSet, at *string, usage string) {
	names := kprobefs.ReleaseNames()
	cli.Choose(flags, at, "release", kprobefs.DefaultRelease, names, usage+strings.Join(names, ", "))
}

var (
	engineNames   = []string{kernel.EngineAuto.String(), kernel.EngineNative.String(), kernel.EngineInterp.String()}
	lockdownNames = []string{kprobefs.Unlocked.String(), kprobefs.Integrity.String(), kprobefs.Confidentiality.String()}
)

// limit parses --memory.
func (f *machineFlags) limit() (*memcg.Limit, error) {
	if f.memory == "" {
		return memcg.New(memcg.Default()), nil
	}
	n, err := memcg.Parse(f.memory)
	if err != nil {
		return nil, fmt.Errorf("--memory: %w", err)
	}
	return memcg.New(n), nil
}

// debugfs returns the path at which the release expects debugfs, or "" for /sys/kernel/debug.
func (f *machineFlags) debugfs() string {
	r, err := kprobefs.ParseRelease(f.release)
	if err != nil {
		return "" // options reports the error
	}
	return r.Debugfs()
}

// configured returns the release with the configuration that the flags say.
func (f *machineFlags) configured() (r kprobefs.Release, err error) {
	if r, err = kprobefs.ParseRelease(f.release); err != nil {
		return r, err
	}
	c, err := kprobefs.ParseConfig(r.Config, f.config)
	if err != nil {
		return r, err
	}
	if r, c, err = f.Flags.Release(r, c); err != nil {
		return r, err
	}
	r.Configure(c)
	r.Config = c
	return r, nil
}

// hello returns what supervisors learn of the machine that the flags describe.
func (f *machineFlags) hello(r kprobefs.Release) wire.Hello {
	h := wire.Hello{Release: f.release, Config: f.config}
	if f.File != "" {
		h.Release, h.Shown = r.Name(), wire.Shown{Release: r.Kernel, Banner: r.Banner}
	}
	return h
}

// options parses the flags. An invalid value is a usageError, with EINVAL; other errors are
// those of a module's file, and of an engine that this machine cannot have.
func (f *machineFlags) options() (o bootOptions, err error) {
	if o, err = f.parse(); err != nil {
		return o, cli.Misused(err)
	}
	if err := errors.Join(f.findModules(), f.Flags.Find()); err != nil {
		return o, err
	}
	if o.Release, o.Config, err = f.Flags.Release(o.Release, o.Config); err != nil {
		return o, fmt.Errorf("--kernel: %w", err)
	}
	o.Kernel = f.Kernel
	if o.Engine, err = o.Engine.Resolve(); err != nil {
		return o, fmt.Errorf("--engine: %w", err)
	}
	return o, nil
}

// parse parses the flags. It fails with EINVAL for an invalid value.
func (f *machineFlags) parse() (o bootOptions, err error) {
	if err := checkCPUs(f.cpus); err != nil {
		return o, fmt.Errorf("--cpus: %w", err)
	}
	if _, err := parsePanic(f.panics); err != nil {
		return o, err
	}
	if err := f.Flags.Check(len(f.modules) > 0, ""); err != nil {
		return o, err
	}
	o.CPUs = f.cpus
	if f.console {
		o.Console = os.Stderr
	}
	if o.Engine, err = kernel.ParseEngine(f.engine); err != nil {
		return o, fmt.Errorf("--engine: %w", err)
	}
	if o.Limit, err = f.limit(); err != nil {
		return o, err
	}
	if o.Locked, err = kprobefs.ParseLockdown(f.locked); err != nil {
		return o, err
	}
	if o.Watchdog, err = kernel.ParseWatchdog(f.watchdog); err != nil {
		return o, err
	}
	if o.Release, err = kprobefs.ParseRelease(f.release); err != nil {
		return o, err
	}
	if o.Config, err = kprobefs.ParseConfig(o.Release.Config, f.config); err != nil {
		return o, err
	}
	return o, o.Release.Check(o.Config)
}

// findModules makes the names of the modules' files absolute. It fails if one does not
// exist.
func (f *machineFlags) findModules() error {
	for i, m := range f.modules {
		file, args := moduleAndArgs(m)
		path, err := filepath.Abs(file)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return fmt.Errorf("--module: %w", err)
		}
		f.modules[i] = strings.TrimSuffix(path+" "+args, " ")
	}
	return nil
}

// moduleAndArgs parses the value of --module. A file whose name has blanks is meant if
// there is one.
func moduleAndArgs(value string) (file, args string) {
	if hostview.Exists(value) {
		return value, ""
	}
	file, args, _ = strings.Cut(value, " ")
	return file, strings.TrimSpace(args)
}

// loadModules loads the modules of --module. The error has what the kernel has logged.
func (f *machineFlags) loadModules(s system) error {
	k, ok := s.(interface {
		Insmod(ko []byte, args string) (said []string, err error)
	})
	for _, m := range f.modules {
		file, args := moduleAndArgs(m)
		ko, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--module: %w", err)
		}
		if !ok {
			return fmt.Errorf("--module %s: %w", m, errors.ErrUnsupported)
		}
		if said, err := k.Insmod(ko, args); err != nil {
			return fmt.Errorf("--module %s: %w%s", m, wire.ErrnoOf(err), strings.Join(append([]string{""}, said...), "\n  the kernel: "))
		}
	}
	return nil
}

type bootFunc func(bootOptions) (system, error)

// boot boots the machine.
func boot(o bootOptions) (system, error) {
	o.Watchdog.Report = func(line string) { o.Log.Error("the emulated kernel: " + line) }
	var clock kernel.Clock
	if o.VirtualClock {
		clock = kernel.NewVirtualClock(time.Now().UnixNano())
	}
	k, err := kprobefs.Boot(kprobefs.Options{CPUs: o.CPUs, Clock: clock, Engine: o.Engine, Release: o.Release, Kernel: o.Kernel, Config: o.Config, Lockdown: o.Locked, Watchdog: o.Watchdog, Console: o.Console, Limit: o.Limit, Program: programVersion()})
	if err != nil {
		return nil, err
	}
	s := newBooted(k)
	watch := activity.Options{
		Elsewhere: o.Alone,
		Warn:      func(what string, err error) { o.Log.WithField("err", err).Info(what) },
		Lost: func(events uint64) {
			o.Log.WithField("events", events).Warn("the host's kernel has lost process events: probes have not seen these forks, execs and exits")
		},
	}
	if o.Calls != nil {
		watch.State, watch.Mirror = o.Calls.State, o.Calls.Mirror
	}
	a := activity.New(activity.Config{Machine: k.Machine, Probes: k.Kprobes, Tracer: k.Tracer, Modules: s.inner.Modules, Loaded: k.Modules.List, Sites: s.inner.Sites, Elsewhere: s.inner.Elsewhere}, watch)
	s.inner.OnHalt(a.Close)
	descriptors := perffd.New(a, k.Tracer, s.inner.Linux)
	a.Start()
	if o.Calls != nil {
		o.Calls.Follow(&wire.Kernel{Activity: a, Descriptors: descriptors, Entries: k.Machine.Entries()})
	}
	return s, nil
}
