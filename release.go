package kprobefs

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/sysctl"
)

// Release is a kernel that kprobefs can emulate, with all its differences from other
// releases. A package that behaves differently on another release has a Features struct
// whose zero value is 6.1.
type Release struct {
	Name     string // "6.1", the argument of --release
	Image    string // the guest that it boots, a name for guest.Image
	Build    string // the beginning of uname -v: "#1 SMP PREEMPT_DYNAMIC"
	Vermagic string // vermagic of its modules, after uname -r
	Modules  string // the release whose modules it loads; "" means its own
	Config   Config // its default configuration
	Kprobes  kprobes.Features
	Tracing  tracing.Features
	Sysctl   sysctl.Features
	Rename   map[string]string // names of guest functions, by their names in 6.1
	Old      bool              // 2.6: no jump optimization, no kprobes on ftrace, no file kprobes/blacklist
	Debugfs  string            // the path at which it expects debugfs; "" means /sys/kernel/debug
}

// releases are all releases, the newest first. 6.1 behaves as Debian's 6.1 was observed
// to behave.
var releases = []Release{
	{Name: "6.12", Image: "6.12", Build: "#1 SMP PREEMPT_DYNAMIC", Vermagic: "SMP preempt mod_unload modversions", Tracing: tracing612},
	{Name: DefaultRelease, Image: "6.1", Build: "#1 SMP PREEMPT_DYNAMIC", Vermagic: "SMP preempt mod_unload modversions"},
	{
		Name: "5.10", Image: "5.10", Build: "#1 SMP", Vermagic: "SMP mod_unload modversions", Config: Config{NoPreempt: true},
		Rename: map[string]string{
			"arch_rethook_trampoline": "kretprobe_trampoline", "arch_rethook_trampoline_callback": "trampoline_handler", "_printk": "printk",
			"rethook_trampoline_handler": "__kretprobe_trampoline_handler",
		},
		Kprobes: kprobes510, Tracing: tracing510,
	},

	// The following releases behave as their documentation says. They boot 6.1's
	// guest otherwise. They are not preemptible unless CONFIG_PREEMPT=y is set.
	{
		Name: "4.15", Image: "4.15", Modules: "6.1", Build: "#1 SMP",
		Config: Config{NoPreempt: true}, Rename: oldNames,
		Kprobes: kprobes.Features{
			FaultHandlers: true, NoEntryFlag: true, OldInstances: true, StepFaults: true, BreakHandlers: true, TrampolineProbe: true, AnyByte: true,
			NoSwitchTo: true, FewInstances: true, CountNRCPUS: true, ShortWords: true, PreemptNoJumps: true, OuterAgain: true,
		},
		Sysctl: sysctl.Features{OptimizationWord: true},
	},
	{
		Name: "2.6.32", Image: "2.6", Modules: "6.1", Build: "#1 SMP",
		Config: Config{NoPreempt: true, NoOptprobes: true, NoFtrace: true}, Rename: oldNames, Old: true,
		Kprobes: kprobes.Features{
			Jprobes: true, KeepsEnabled: true, FaultHandlers: true, NoEntryFlag: true, OldInstances: true, StepFaults: true, BreakHandlers: true, TrampolineProbe: true, AnyByte: true,
			NoSwitchTo: true, FewInstances: true, CountNRCPUS: true, ShortWords: true, HideFlags: kprobes.FlagOptimized | kprobes.FlagFtrace,
		},
	},
	{
		Name: "2.6.25", Image: "2.6", Modules: "6.1", Build: "#1 SMP", Debugfs: "/debug",
		Config: Config{NoPreempt: true, NoOptprobes: true, NoFtrace: true}, Rename: oldNames, Old: true,
		Kprobes: kprobes.Features{
			Jprobes: true, KeepsEnabled: true, FaultHandlers: true, NoEntryFlag: true, OldInstances: true, StepFaults: true, BreakHandlers: true, TrampolineProbe: true, AnyByte: true,
			NoSwitchTo: true, FewInstances: true, CountNRCPUS: true, ShortWords: true, HideFlags: kprobes.AllFlags,
		},
	},
}

// oldNames are names of functions in the documentation of old releases.
var oldNames = map[string]string{
	"do_execveat_common.constprop.0.isra.0": "do_execve",
	"exc_page_fault":                        "do_page_fault", "_printk": "printk",
}

// rename returns the function that maps names in the image to the release's names, or
// nil if they are the same. Old releases call the functions of system calls sys_open etc.
func (r Release) rename() func(string) string {
	if r.Rename == nil {
		return nil
	}
	return func(name string) string {
		call, ok := strings.CutPrefix(name, "__x64_sys_")
		if ok && r.Kprobes.TrampolineProbe {
			return "sys_" + call
		}
		return cmp.Or(r.Rename[name], name)
	}
}

// kprobes510 and tracing510 are the differences of Debian's 5.10 from its 6.1.
var (
	kprobes510 = kprobes.Features{
		FaultHandlers: true, NoEntryFlag: true, OldInstances: true, ShortWords: true, BareLog: true, AnyAddress: true, ReturnsIRQsOff: true, FewInstances: true,
		Trampoline: "kretprobe_trampoline", TrampolineIP: true, SilentBUG: true,
	}
	tracing510 = tracing.Features{
		AssistFunc: true, OthersRead: true, FourFlags: true, NoPreemptCount: true, NoHist: true, NoEprobes: true, PlainNames: true, LateSymbols: true,
		BadVariable: "Invalid $-valiable specified", NoSymstr: true, OpenString: true, SizedArrays: true, NoTAI: true, NoHashPtr: true,
		StrictTracer: true, AnySize: true, SwapsCPU: true, ShortCmdlines: true, OwnSwitch: true, MaxPID: 32768, BlanksNotTaken: true, SnapshotSaysGlobally: true, RawDataID: 16, ShortErrors: true, PipesSleepOn: true, Static: "5.10", Kretprobed: "kretprobe_trampoline",
	}
)

// tracing612 is the differences of Debian's 6.12 from its 6.1.
var tracing612 = tracing.Features{
	SymbolEINVAL: true, MaxActiveExit: true, LogStringType: true, LongArgE2BIG: true, DerefColumn: true,
	FieldBadVar: true, NotraceAtAddress: true, Char: true, ArgsE2BIG: true,
	NoUprobeSymbols: true, Eventfs: true, ReuseIDs: true, UnsignedChar: true, LocalClock: true, ResizeEBUSY: true,
	LogTriggerFilter: true, LongMarkers: true, NoHitcount: true, PlainVals: true, CommonStacktrace: true, OwnExpansion: true, SortTwo: true, FieldsOption: true, FunctionAddrs: true, TouchedFunctions: true, WholeIndex: true, PipesSleepOn: true, RawEnds: true, SubBuffers: true, KeepFieldHists: true,
	Static: "6.12", Kretprobed: "arch_rethook_trampoline", KretprobedStart: true, HistPad: true, Fprobes: true,
}

// DefaultRelease is the release that is emulated when none is chosen.
const DefaultRelease = "6.1"

// ParseRelease returns the release with a name; "" means 6.1. It fails with EINVAL for
// an unknown name.
func ParseRelease(name string) (Release, error) {
	if name == "" {
		name = DefaultRelease
	}
	for _, r := range releases {
		if r.Name == name {
			return r, nil
		}
	}
	return Release{}, fmt.Errorf("unknown release %q; the releases are %s: %w", name, strings.Join(ReleaseNames(), ", "), syscall.EINVAL)
}

// ReleaseNames returns the names that ParseRelease accepts, the newest first.
func ReleaseNames() []string {
	var names []string
	for _, r := range releases {
		names = append(names, r.Name)
	}
	return names
}

// Check returns EINVAL for a configuration that the release cannot have.
func (r Release) Check(c Config) error {
	if r.Old && (!c.NoOptprobes || !c.NoFtrace) {
		return fmt.Errorf("%s has neither CONFIG_OPTPROBES nor CONFIG_KPROBES_ON_FTRACE: %w", r.Name, syscall.EINVAL)
	}
	return nil
}

// configure adapts uname -v to a configuration that is not the default.
func (r *Release) configure(c Config) {
	if c.NoPreempt == r.Config.NoPreempt {
		return
	}
	if r.Build = "#1 SMP"; !c.NoPreempt {
		r.Build += " PREEMPT"
	}
}

// Uname returns uname -r.
func (r Release) Uname() string {
	if strings.Count(r.Name, ".") == 1 {
		return r.Name + ".0-kprobefs-amd64"
	}
	return r.Name + "-kprobefs-amd64"
}

// BuildVersion returns uname -v, with the name of the program: "kprobefs 0.1".
func (r Release) BuildVersion(program string) string {
	return fmt.Sprintf("%s emulating Linux %s by %s", r.Build, r.Name, program)
}

// Version returns /proc/version in Linux's format, with a newline, as in the guest's
// linux_proc_banner: release, builder and compiler, uname -v.
func (r Release) Version(program string) string {
	return fmt.Sprintf("Linux version %s (kprobefs@guest) (gcc 12.2.0) %s\n", r.Uname(), r.BuildVersion(program))
}

// btf returns a function that loads the types of the guest's functions when they are
// first needed, or nil if the kernel has none. The files are embedded and tested, so
// loading does not fail.
func (r Release) btf() func() *btf.Types {
	text := guest.BTF(r.Image)
	if text == nil {
		return nil
	}
	return sync.OnceValue(func() *btf.Types {
		types, err := btf.Parse(text)
		if err != nil {
			return nil
		}
		return types
	})
}

// modules returns the vermagic of its modules.
func (r Release) modules() string {
	for _, of := range releases {
		if of.Name == r.Modules {
			r = of
		}
	}
	return r.Uname() + " " + r.Vermagic
}

func (r Release) image() []byte { return guest.Image(r.Image) }
