package kprobefs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/headers"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/module"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// WriteHeaders writes the directory that modules for the release are built in, what
// /lib/modules/$(uname -r)/build is on Linux, to dir, which it creates:
//
//	make -C DIR M=$PWD modules
//
// It replaces the files that are there.
func (r Release) WriteHeaders(dir string) error {
	img, err := image.Load(r.image())
	if err != nil {
		return err
	}
	k := headers.Kernel{
		Release: r.Uname(), Vermagic: r.vermagic(), Layout: module.OwnLayout, Image: r.Image, Config: r.kconfig(), Exports: img.Exports,
		BranchTracking: r.Linux.Has(release.EndbrFunctions),
	}
	// The name is major.minor, and .sublevel if the release has it.
	_, _ = fmt.Sscanf(r.Name(), "%d.%d.%d", &k.Version[0], &k.Version[1], &k.Version[2])
	if !r.Linux.Has(release.NoFaultHandlers) {
		k.Macros = append(k.Macros, "KPROBES_BEFORE_5_11")
	}
	if !r.Linux.Has(release.NoJprobes) {
		k.Exports = append(k.Exports, jprobeCalls...)
	} else {
		k.Macros = append(k.Macros, "NO_JPROBES")
	}
	return k.Write(dir, guest.Headers())
}

// jprobeCalls are what releases with jprobes export in addition to their image
// (kprobes.Kprobes.ReleaseCode).
var jprobeCalls = []string{"jprobe_return", "register_jprobe", "register_jprobes", "unregister_jprobe", "unregister_jprobes"}

// options are what each kernel is configured with, as far as headers and Makefiles of
// modules ask for it.
const options = `CONFIG_64BIT CONFIG_X86 CONFIG_X86_64 CONFIG_SMP CONFIG_SLUB CONFIG_MODULES CONFIG_MODULE_UNLOAD
CONFIG_KALLSYMS CONFIG_KPROBES CONFIG_KRETPROBES CONFIG_KPROBE_EVENTS CONFIG_TRACING CONFIG_FUNCTION_TRACER
CONFIG_STACKTRACE CONFIG_DEBUG_FS CONFIG_PROC_FS CONFIG_SYSFS CONFIG_SYSCTL CONFIG_PRINTK CONFIG_BUG CONFIG_MMU
CONFIG_NET CONFIG_INET CONFIG_HZ_250 CONFIG_HZ=250 CONFIG_NR_CPUS=64 CONFIG_HIGH_RES_TIMERS CONFIG_IRQ_WORK
CONFIG_STACKPROTECTOR CONFIG_STACKPROTECTOR_STRONG CONFIG_GENERIC_BUG CONFIG_BPF CONFIG_BPF_SYSCALL CONFIG_BPF_EVENTS`

// traced are what programs that trace ask for, of which modules know nothing.
const traced = `CONFIG_FTRACE CONFIG_TRACEPOINTS CONFIG_EVENT_TRACING CONFIG_FTRACE_SYSCALLS CONFIG_DYNAMIC_EVENTS
CONFIG_PROBE_EVENTS CONFIG_UPROBES CONFIG_UPROBE_EVENTS CONFIG_NOP_TRACER CONFIG_FUNCTION_GRAPH_TRACER CONFIG_STACK_TRACER
CONFIG_TRACER_SNAPSHOT CONFIG_MODULE_FORCE_LOAD CONFIG_MODULE_FORCE_UNLOAD CONFIG_SECURITY_LOCKDOWN_LSM`

// asked are what such programs ask for, and what not every kernel here has, or none.
const asked = `CONFIG_OPTPROBES CONFIG_KPROBES_ON_FTRACE CONFIG_KALLSYMS_ALL CONFIG_HIST_TRIGGERS CONFIG_SYNTH_EVENTS
CONFIG_FPROBE CONFIG_FPROBE_EVENTS CONFIG_X86_KERNEL_IBT
CONFIG_BPF_SYSCALL CONFIG_BPF_EVENTS CONFIG_BPF_KPROBE_OVERRIDE CONFIG_IKCONFIG CONFIG_IRQSOFF_TRACER
CONFIG_SCHED_TRACER CONFIG_HWLAT_TRACER CONFIG_OSNOISE_TRACER CONFIG_MMIOTRACE CONFIG_BLK_DEV_IO_TRACE
CONFIG_KPROBE_EVENTS_ON_NOTRACE CONFIG_PREEMPT_TRACER`

// WriteConfig writes the configuration of the emulated kernel, in the lines of a .config:
// as far as modules and programs that trace ask for it.
func (r Release) WriteConfig(w io.Writer) error {
	on := append(r.kconfig(), strings.Fields(traced)...)
	if r.Linux.Has(release.HistTriggers) {
		on = append(on, "CONFIG_HIST_TRIGGERS", "CONFIG_SYNTH_EVENTS")
	}
	if r.Linux.Has(release.Fprobes) {
		on = append(on, "CONFIG_FPROBE", "CONFIG_FPROBE_EVENTS")
	}
	if r.Linux.Has(release.EndbrFunctions) {
		on = append(on, "CONFIG_X86_KERNEL_IBT")
	}
	var lines []string
	for _, o := range on {
		if !strings.Contains(o, "=") {
			o += "=y"
		}
		lines = append(lines, o)
	}
	for _, name := range strings.Fields(asked) {
		if !slices.Contains(on, name) {
			lines = append(lines, "# "+name+" is not set")
		}
	}
	slices.SortFunc(lines, func(a, b string) int {
		return strings.Compare(strings.TrimPrefix(a, "# "), strings.TrimPrefix(b, "# "))
	})
	_, err := fmt.Fprintf(w, "#\n# Linux/x86_64 %s, emulated by kprobefs\n#\n%s\n", r.Uname(), strings.Join(lines, "\n"))
	return err
}

// kconfig returns the release's configuration, in the lines of .config that are set.
func (r Release) kconfig() []string {
	list := strings.Fields(options)
	for _, o := range []struct {
		off  bool
		name string
	}{
		{r.Config.NoOptprobes, "CONFIG_OPTPROBES"},
		{r.Config.NoFtrace, "CONFIG_KPROBES_ON_FTRACE"},
		{r.Config.NoFtrace, "CONFIG_DYNAMIC_FTRACE"},
		{r.Config.NoKallsymsAll, "CONFIG_KALLSYMS_ALL"},
		{r.Config.NoPreempt, "CONFIG_PREEMPTION"},
		{!r.Config.NoPreempt, "CONFIG_PREEMPT_VOLUNTARY"},
		{!r.Linux.Has(release.NoInstanceRP), "CONFIG_KRETPROBE_ON_RETHOOK"},
	} {
		if !o.off {
			list = append(list, o.name)
		}
	}
	return list
}
