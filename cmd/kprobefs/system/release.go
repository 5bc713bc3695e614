package system

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

// Release is a kernel that kprobefs can be, and all in which it differs from
// others: a package that does something else on another release says so in a field
// of its Features, whose zero value is 6.1's.
type Release struct {
	Name     string // "6.1", as --release has it
	Image    string // the guest that it boots, a name for guest.Image
	Build    string // how uname -v begins: "#1 SMP PREEMPT_DYNAMIC"
	Vermagic string // what modules are built for, after uname -r; "": they are those of the release that its image is
	Config   Config // as it was configured
	Kprobes  kprobes.Features
	Tracing  tracing.Features
	Sysctl   sysctl.Features
	Rename   map[string]string // what functions of the guest are called, by 6.1's names
	Old      bool              // 2.6: no jump optimization, no probes by ftrace, no file kprobes/blacklist
	Debugfs  string            // where it expects debugfs; "": /sys/kernel/debug
}

// releases are all that there are, the newest first. 6.1 does what was observed on
// Debian's 6.1.
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

	// These follow their documents, and boot 6.1's guest. They are not preemptible
	// unless CONFIG_PREEMPT=y says so.
	{
		Name: "4.15", Image: "6.1", Build: "#1 SMP",
		Config: Config{NoPreempt: true}, Rename: oldNames,
		Kprobes: kprobes.Features{
			FaultHandlers: true, StepFaults: true, BreakHandlers: true, TrampolineProbe: true, AnyByte: true,
			NoSwitchTo: true, FewInstances: true, CountNRCPUS: true, ShortWords: true, PreemptNoJumps: true, OuterAgain: true,
		},
		Sysctl: sysctl.Features{OptimizationWord: true},
	},
	{
		Name: "2.6.32", Image: "6.1", Build: "#1 SMP",
		Config: Config{NoPreempt: true, NoOptprobes: true, NoFtrace: true}, Rename: oldNames, Old: true,
		Kprobes: kprobes.Features{
			Jprobes: true, FaultHandlers: true, StepFaults: true, BreakHandlers: true, TrampolineProbe: true, AnyByte: true,
			NoSwitchTo: true, FewInstances: true, CountNRCPUS: true, ShortWords: true, HideFlags: kprobes.FlagOptimized | kprobes.FlagFtrace,
		},
	},
	{
		Name: "2.6.25", Image: "6.1", Build: "#1 SMP", Debugfs: "/debug",
		Config: Config{NoPreempt: true, NoOptprobes: true, NoFtrace: true}, Rename: oldNames, Old: true,
		Kprobes: kprobes.Features{
			Jprobes: true, FaultHandlers: true, StepFaults: true, BreakHandlers: true, TrampolineProbe: true, AnyByte: true,
			NoSwitchTo: true, FewInstances: true, CountNRCPUS: true, ShortWords: true, HideFlags: kprobes.AllFlags,
		},
	},
}

// oldNames are the names that the documents give functions.
var oldNames = map[string]string{
	"kernel_clone": "do_fork", "do_execveat_common.constprop.0.isra.0": "do_execve",
	"exc_page_fault": "do_page_fault", "_printk": "printk",
}

// rename is what the release calls a function of its image; nil: what that does. Those
// that follow their documents call the functions of system calls sys_open and so on.
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

// kprobes510 and tracing510 are what Debian's 5.10 does otherwise than its 6.1.
var (
	kprobes510 = kprobes.Features{
		FaultHandlers: true, ShortWords: true, BareLog: true, AnyAddress: true, ReturnsIRQsOff: true, FewInstances: true,
		Trampoline: "kretprobe_trampoline", TrampolineIP: true, SilentBUG: true,
	}
	tracing510 = tracing.Features{
		AssistFunc: true, OthersRead: true, FourFlags: true, NoPreemptCount: true, NoHist: true, NoEprobes: true, PlainNames: true, LateSymbols: true,
		BadVariable: "Invalid $-valiable specified", NoSymstr: true, OpenString: true, SizedArrays: true, NoTAI: true, NoHashPtr: true,
		StrictTracer: true, AnySize: true, SwapsCPU: true, ShortCmdlines: true, OwnSwitch: true, MaxPID: 32768, BlanksNotTaken: true, SnapshotSaysGlobally: true, RawDataID: 16, ShortErrors: true, PipesSleepOn: true, Static: "5.10", Kretprobed: "kretprobe_trampoline",
	}
)

// tracing612 is what Debian's 6.12 does otherwise than its 6.1.
var tracing612 = tracing.Features{
	SymbolEINVAL: true, MaxActiveExit: true, LogStringType: true, LongArgE2BIG: true, DerefColumn: true,
	FieldBadVar: true, NotraceAtAddress: true, Char: true, ArgsE2BIG: true,
	NoUprobeSymbols: true, Eventfs: true, ReuseIDs: true, UnsignedChar: true, LocalClock: true, ResizeEBUSY: true,
	LogTriggerFilter: true, LongMarkers: true, NoHitcount: true, PlainVals: true, CommonStacktrace: true, OwnExpansion: true, SortTwo: true, FieldsOption: true, FunctionAddrs: true, TouchedFunctions: true, PipesSleepOn: true, RawEnds: true, SubBuffers: true, KeepFieldHists: true,
	Static: "6.12", Kretprobed: "arch_rethook_trampoline", KretprobedStart: true, HistPad: true, Fprobes: true,
}

// DefaultRelease is the release of a kernel of which nothing else is said.
const DefaultRelease = "6.1"

// ParseRelease gives a release by its name; "" is 6.1. EINVAL, with the names that
// there are, for any other.
func ParseRelease(name string) (Release, error) {
	if name == "" {
		name = DefaultRelease
	}
	for _, r := range releases {
		if r.Name == name {
			return r, nil
		}
	}
	return Release{}, fmt.Errorf("unknown release %q; there are %s: %w", name, strings.Join(ReleaseNames(), ", "), syscall.EINVAL)
}

// ReleaseNames gives the names that ParseRelease knows, the newest first.
func ReleaseNames() []string {
	var names []string
	for _, r := range releases {
		names = append(names, r.Name)
	}
	return names
}

// Check is EINVAL for a configuration that the release did not have.
func (r Release) Check(c Config) error {
	if r.Old && (!c.NoOptprobes || !c.NoFtrace) {
		return fmt.Errorf("%s has neither CONFIG_OPTPROBES nor CONFIG_KPROBES_ON_FTRACE: %w", r.Name, syscall.EINVAL)
	}
	return nil
}

// configure has uname -v say how the kernel is configured, where that is otherwise.
func (r *Release) configure(c Config) {
	if c.NoPreempt == r.Config.NoPreempt {
		return
	}
	if r.Build = "#1 SMP"; !c.NoPreempt {
		r.Build += " PREEMPT"
	}
}

// Uname is uname -r.
func (r Release) Uname() string {
	if strings.Count(r.Name, ".") == 1 {
		return r.Name + ".0-kprobefs-amd64"
	}
	return r.Name + "-kprobefs-amd64"
}

// BuildVersion is uname -v, with the program that answers: "kprobefs 0.1".
func (r Release) BuildVersion(program string) string {
	return fmt.Sprintf("%s emulating Linux %s by %s", r.Build, r.Name, program)
}

// Version is /proc/version in Linux's format, with its end of line, as the guest's
// linux_proc_banner has it: release, who built it and with what, uname -v.
func (r Release) Version(program string) string {
	return fmt.Sprintf("Linux version %s (kprobefs@guest) (gcc 12.2.0) %s\n", r.Uname(), r.BuildVersion(program))
}

// btf gives the types of the guest's functions when they are first asked for; nil:
// its kernel has none. They are checked in and tested: all can be read.
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

// modules is the vermagic of its modules.
func (r Release) modules() string {
	for _, of := range releases {
		if r.Vermagic == "" && of.Name == r.Image {
			r = of
		}
	}
	return r.Uname() + " " + r.Vermagic
}

func (r Release) image() []byte { return guest.Image(r.Image) }
