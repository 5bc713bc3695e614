// Package boot makes a machine from the flags that describe it: of mount, exec, call and replay.
package boot

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

// System is a running machine and its files: *Booted.
type System interface {
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

// Booted is a System with a machine.
type Booted struct {
	*kprobefs.Kernel
	inner inner.Kernel
}

func newBooted(k *kprobefs.Kernel) *Booted { return &Booted{k, inner.Of(k)} }

// Guest returns the part that makes the files' system calls.
func (b *Booted) Guest() fs.Guest { return b.Machine.Host() }

// Halt stops the background work for a machine that has died.
func (b *Booted) Halt() { b.inner.Halt() }

// Retire stops the machine, whose files may be in use.
func (b *Booted) Retire() error { return b.inner.Retire() }

// WatchEntries has tell called with the names of files that modules have removed.
func (b *Booted) WatchEntries(tell func(gone []string)) { b.Machine.Entries().Watch(tell) }

// Options describe the kernel to boot.
type Options struct {
	Program      string           // this program's name and version
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

// Configured returns the release as it is configured.
func (o Options) Configured() kprobefs.Release {
	r := o.Release
	r.Configure(o.Config)
	r.Config = o.Config
	return r
}

// Fields say in a log which kernel is served.
func (o Options) Fields() logrus.Fields {
	f := logrus.Fields{"release": o.Release.Name(), "uname": o.Release.Uname(), "engine": o.Engine.String(), "program": o.Program, "pid": os.Getpid()}
	if o.CPUs > 0 {
		f["cpus"] = o.CPUs
	}
	return f
}

// MachineFlags are the flags that describe the machine; exec passes them to its processes.
type MachineFlags struct {
	CPUs     int
	Engine   string
	Release  string
	Config   []string
	Lockdown string
	Watchdog string
	Memory   string
	Console  bool
	Panic    string   // the action when its kernel panics: PanicStop or PanicReboot
	Modules  []string // files with arguments
	kernelfile.Flags
}

// AddTo adds the flags to a command's.
func (f *MachineFlags) AddTo(flags *pflag.FlagSet) {
	f.Flags.AddTo(flags)
	flags.Var(cpuCount{&f.CPUs}, "cpus", "vCPUs of the emulated kernel (default: this machine's)")
	cli.Choose(flags, &f.Engine, "engine", kernel.EngineAuto.String(), EngineNames, "what executes the emulated kernel's code: native translates it to this machine's, interp interprets it, auto is native where that is possible ('kprobefs check' says so)")
	ChooseRelease(flags, &f.Release, "the Linux release to emulate: ")
	flags.StringArrayVar(&f.Config, "config", nil, "change the kernel's configuration from Debian's, NAME=VALUE: "+strings.Join(kprobefs.ConfigNames(), ", "))
	cli.Choose(flags, &f.Panic, "panic", PanicStop, panicWords, "when the emulated kernel panics: stop, which keeps its log and machine/ readable, or reboot")
	flags.StringArrayVar(&f.Modules, "module", nil, "load this kernel module before the files are there: FILE, or \"FILE PARAM=VALUE...\"; not again after --panic=reboot")
	cli.Choose(flags, &f.Lockdown, "lockdown", kprobefs.Unlocked.String(), lockdownNames, "lock the kernel down: integrity closes debugfs, confidentiality also tracefs")
	flags.StringVar(&f.Watchdog, "watchdog", kernel.Watchdog{}.String(), "what to do with guest code that holds a vCPU with interrupts or preemption off, ACTION[:SECONDS]: kill ends its task, panic ends the machine, warn only logs, off disables the watchdog; SECONDS is watchdog_thresh (default 10)")
	flags.BoolVar(&f.Console, "console", false, "print the emulated kernel's messages on standard error as on a console: those below the first number of /proc/sys/kernel/printk")
	flags.StringVar(&f.Memory, "memory", "", "how much memory clients may make the program hold (buffers, definitions, filters, instances, copies of modules, open files), in bytes or with a suffix K, M or G; beyond it they get ENOMEM. The emulated kernel's own RAM and the program itself are not in it: they take 50 to 230 MiB more, depending on use. What is freed goes back to the host within 10 s (default: half of the memory of the cgroup or this machine, at most 1G)")
}

// Args returns the flags as arguments for another process of this program.
func (f *MachineFlags) Args() []string {
	args := []string{"--cpus", strconv.Itoa(f.CPUs), "--engine", f.Engine, "--release", f.Release, "--panic", f.Panic}
	args = append(args, f.Flags.Args()...)
	for _, line := range f.Config {
		args = append(args, "--config", line)
	}
	for _, m := range f.Modules {
		args = append(args, "--module", m)
	}
	if f.Watchdog != "" {
		args = append(args, "--watchdog", f.Watchdog)
	}
	if f.Console {
		args = append(args, "--console")
	}
	if f.Lockdown != "" {
		args = append(args, "--lockdown", f.Lockdown)
	}
	if f.Memory != "" {
		args = append(args, "--memory", f.Memory)
	}
	return args
}

// ChooseRelease adds the flag --release.
func ChooseRelease(flags *pflag.FlagSet, at *string, usage string) {
	names := kprobefs.ReleaseNames()
	cli.Choose(flags, at, "release", kprobefs.DefaultRelease, names, usage+strings.Join(names, ", "))
}

// EngineNames are the values of --engine.
var EngineNames = []string{kernel.EngineAuto.String(), kernel.EngineNative.String(), kernel.EngineInterp.String()}

var lockdownNames = []string{kprobefs.Unlocked.String(), kprobefs.Integrity.String(), kprobefs.Confidentiality.String()}

// limit parses --memory.
func (f *MachineFlags) limit() (*memcg.Limit, error) {
	if f.Memory == "" {
		return memcg.New(memcg.Default()), nil
	}
	n, err := memcg.Parse(f.Memory)
	if err != nil {
		return nil, fmt.Errorf("--memory: %w", err)
	}
	return memcg.New(n), nil
}

// Debugfs returns the path at which the release expects debugfs, or "" for /sys/kernel/debug.
func (f *MachineFlags) Debugfs() string {
	r, err := kprobefs.ParseRelease(f.Release)
	if err != nil {
		return "" // Options reports the error
	}
	return r.Debugfs()
}

// Configured returns the release with the configuration that the flags say.
func (f *MachineFlags) Configured() (r kprobefs.Release, err error) {
	if r, err = kprobefs.ParseRelease(f.Release); err != nil {
		return r, err
	}
	c, err := kprobefs.ParseConfig(r.Config, f.Config)
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

// Hello returns what supervisors learn of the machine that the flags describe.
func (f *MachineFlags) Hello(r kprobefs.Release) wire.Hello {
	h := wire.Hello{Release: f.Release, Config: f.Config}
	if f.File != "" {
		h.Release, h.Shown = r.Name(), wire.Shown{Release: r.Kernel, Banner: r.Banner}
	}
	return h
}

// Options parses the flags. An invalid value is a cli.UsageError, with EINVAL; other errors are
// of a module's file, and of an engine that this machine cannot have.
func (f *MachineFlags) Options() (o Options, err error) {
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
func (f *MachineFlags) parse() (o Options, err error) {
	if err := checkCPUs(f.CPUs); err != nil {
		return o, fmt.Errorf("--cpus: %w", err)
	}
	if _, err := ParsePanic(f.Panic); err != nil {
		return o, err
	}
	if err := f.Flags.Check(len(f.Modules) > 0, ""); err != nil {
		return o, err
	}
	o.CPUs = f.CPUs
	if f.Console {
		o.Console = os.Stderr
	}
	if o.Engine, err = kernel.ParseEngine(f.Engine); err != nil {
		return o, fmt.Errorf("--engine: %w", err)
	}
	if o.Limit, err = f.limit(); err != nil {
		return o, err
	}
	if o.Locked, err = kprobefs.ParseLockdown(f.Lockdown); err != nil {
		return o, err
	}
	if o.Watchdog, err = kernel.ParseWatchdog(f.Watchdog); err != nil {
		return o, err
	}
	if o.Release, err = kprobefs.ParseRelease(f.Release); err != nil {
		return o, err
	}
	if o.Config, err = kprobefs.ParseConfig(o.Release.Config, f.Config); err != nil {
		return o, err
	}
	return o, o.Release.Check(o.Config)
}

// findModules makes the names of the modules' files absolute. It fails if one does not
// exist.
func (f *MachineFlags) findModules() error {
	for i, m := range f.Modules {
		file, args := ModuleAndArgs(m)
		path, err := filepath.Abs(file)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return fmt.Errorf("--module: %w", err)
		}
		f.Modules[i] = strings.TrimSuffix(path+" "+args, " ")
	}
	return nil
}

// ModuleAndArgs parses the value of --module. A file whose name has blanks is meant if
// there is one.
func ModuleAndArgs(value string) (file, args string) {
	if hostview.Exists(value) {
		return value, ""
	}
	file, args, _ = strings.Cut(value, " ")
	return file, strings.TrimSpace(args)
}

// LoadModules loads the modules of --module. The error has what the kernel has logged.
func (f *MachineFlags) LoadModules(s System) error {
	k, ok := s.(interface {
		Insmod(ko []byte, args string) (said []string, err error)
	})
	for _, m := range f.Modules {
		file, args := ModuleAndArgs(m)
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

// Func boots a machine.
type Func func(Options) (System, error)

// Machine boots the machine.
func Machine(o Options) (System, error) {
	o.Watchdog.Report = func(line string) { o.Log.Error("the emulated kernel: " + line) }
	var clock kernel.Clock
	if o.VirtualClock {
		clock = kernel.NewVirtualClock(time.Now().UnixNano())
	}
	k, err := kprobefs.Boot(kprobefs.Options{CPUs: o.CPUs, Clock: clock, Engine: o.Engine, Release: o.Release, Kernel: o.Kernel, Config: o.Config, Lockdown: o.Locked, Watchdog: o.Watchdog, Console: o.Console, Limit: o.Limit, Program: o.Program})
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

// The actions when the emulated kernel panics.
const (
	PanicStop   = "stop"
	PanicReboot = "reboot"
)

var panicWords = []string{PanicStop, PanicReboot}

// ParsePanic parses the value of --panic.
func ParsePanic(word string) (reboots bool, err error) {
	switch word {
	case "", PanicStop:
		return false, nil
	case PanicReboot:
		return true, nil
	}
	return false, fmt.Errorf("--panic %q: the values are %s", word, strings.Join(panicWords, " and "))
}

// cpuCount is the value of --cpus. checkCPUs checks its range, also of -o cpus=.
type cpuCount struct{ at *int }

func (c cpuCount) String() string { return strconv.Itoa(*c.at) }
func (c cpuCount) Type() string   { return "int" }

func (c cpuCount) Set(word string) error {
	n, err := strconv.Atoi(word)
	if err != nil {
		return fmt.Errorf("a number from 1 to %d is expected", kernel.MaxCPUs)
	}
	*c.at = n
	return nil
}

// checkCPUs checks whether a kernel can have n vCPUs; 0 means as many as this machine.
func checkCPUs(n int) error {
	if n < 0 || n > kernel.MaxCPUs {
		return fmt.Errorf("%d CPUs: the emulated kernel can have 1 to %d", n, kernel.MaxCPUs)
	}
	return nil
}
