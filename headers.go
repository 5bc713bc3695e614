package kprobefs

import (
	"fmt"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/headers"
	"github.com/kprobefs/kprobefs/kernel/image"
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
		Release: r.Uname(), Vermagic: r.ownVermagics()[0], Image: r.Image, Config: r.kconfig(), Exports: img.Exports,
		BranchTracking: r.Image == "6.12",
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
const options = `CONFIG_64BIT CONFIG_X86 CONFIG_X86_64 CONFIG_SMP CONFIG_MODULES CONFIG_MODULE_UNLOAD
CONFIG_KALLSYMS CONFIG_KPROBES CONFIG_KRETPROBES CONFIG_KPROBE_EVENTS CONFIG_TRACING CONFIG_FUNCTION_TRACER
CONFIG_STACKTRACE CONFIG_DEBUG_FS CONFIG_PROC_FS CONFIG_SYSFS CONFIG_SYSCTL CONFIG_PRINTK CONFIG_BUG CONFIG_MMU
CONFIG_NET CONFIG_INET CONFIG_HZ_250 CONFIG_HZ=250 CONFIG_NR_CPUS=64 CONFIG_HIGH_RES_TIMERS CONFIG_IRQ_WORK
CONFIG_STACKPROTECTOR CONFIG_STACKPROTECTOR_STRONG CONFIG_GENERIC_BUG`

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
