package kprobefs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/debugfs"
	"github.com/kprobefs/kprobefs/fs/devfs"
	"github.com/kprobefs/kprobefs/fs/guestfs"
	"github.com/kprobefs/kprobefs/fs/machinefs"
	"github.com/kprobefs/kprobefs/fs/procfs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/fs/sysfs"
	"github.com/kprobefs/kprobefs/fs/tracefs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/sysctl"
)

// Guest returns the part of the machine that makes the files' system calls.
func (k *Kernel) Guest() fs.Guest { return k.Machine.Host() }

// Tree returns the directory to mount: kprobes, tracing, sys, proc, dev and machine, and
// debug where the release expects kprobes there.
func (k *Kernel) Tree() seqfile.Dir {
	m := k.Machine
	rows := sysctl.Config{
		Printk: m.Printk, SetFtrace: m.Sites().SetEnabled, SetStackTracer: k.Tracer.StackTracer,
		SetKptrRestrict: m.SetKptrRestrict, Taints: m.Taints, SetTaints: m.AddTaints,
		ConsoleLevels: m.Log().ConsoleLevels, SetConsoleLevels: m.Log().SetConsoleLevels,
		Release: k.opts.Release.Uname(), Version: k.opts.Release.BuildVersion(k.opts.Program), Linux: k.opts.Release.Linux,
	}
	if k.Kprobes.HasOptprobes() {
		rows.Optimization, rows.SetOptimization = k.Kprobes.Optimization, k.Kprobes.SetOptimization
	}
	table := sysctl.New(rows)
	show := func(c *seqfile.Caller) bool {
		return procfs.ShowValue(table.Int("kernel/kptr_restrict"), table.Int("kernel/perf_event_paranoid"), c)
	}
	probes := debugfs.Kprobes(debugfs.Config{
		Probes: k.Kprobes, ShowAddr: show, ParseBool: k.Kprobes.ParseEnabled,
		NoBlacklist: !k.Kprobes.Has(release.BlacklistFile),
		LockedDown:  func(c *seqfile.Caller) error { return k.lockedDown(Integrity, "debugfs access", c) },
	})
	files := &guestfs.Files{Source: m.Entries(), Open: k.openGuest}
	tracing := k.tracing()
	proc := procfs.Proc(procfs.Config{
		Symbols: m.Symbols().All, Modules: k.moduleLines, ShowAddr: show,
		Version: strings.TrimSuffix(k.opts.Release.Version(k.opts.Program), "\n"), Cmdline: k.opts.cmdline(), Log: m.Log(),
	})
	proc.Dir = files.Over(proc.At, proc.Dir.Rows)
	dev := devfs.Dev(m.Log())
	dev.Dir = files.Over(dev.At, dev.Dir.Rows)
	tree := seqfile.Table{
		probes,
		tracing,
		k.sys(table, files, show),
		proc,
		dev,
		{
			Name: "debugfs", Mode: 0o700, Kind: seqfile.Debugfs, At: "/sys/kernel/debug",
			Dir: files.Over("/sys/kernel/debug", seqfile.Table{probes, tracing}.Rows),
		},
		machinefs.Machine(machinefs.Config{
			Symbols: m.Symbols(), Read: m.Read, Original: k.Kprobes.Original, Points: k.Kprobes.Points, Queues: k.Kprobes.Queues, ShowAddr: show,
			CPUs: m.CPUs(), CallOn: m.CallOn, About: k.about, More: k.moreFiles(),
			Debugger: m.Debugger(), Image: k.opts.Release.image(),
		}),
	}
	if at := k.opts.Release.Debugfs(); at != "" {
		probes.At = at + "/kprobes"
		tree = append(tree, &seqfile.Row{
			Name: strings.TrimPrefix(at, "/"), Mode: 0o755, Kind: seqfile.Debugfs, At: at, Dir: seqfile.Table{probes},
		})
	}
	return tree
}

// sys returns the directory with /proc/sys, and what modules have in sysfs.
func (k *Kernel) sys(table *sysctl.Table, files *guestfs.Files, show func(*seqfile.Caller) bool) *seqfile.Row {
	sys := procfs.Sys(table)
	rows := sys.Dir.(seqfile.Table)
	if kern := seqfile.Find(rows, "kernel"); kern != nil {
		kern.Dir = files.Over("/sys/kernel", kern.Dir.Rows)
	}
	bus := sysfs.Bus(PerfTypes(HostPerfTypes(EventSources)))
	bus.At, bus.Dir = "/sys/bus", files.Over("/sys/bus", bus.Dir.Rows)
	rows = append(rows, bus,
		sysfs.Modules(sysfs.Config{Modules: k.Modules.List, Files: files, ShowAddr: show, Printk: k.Machine.Printk}))
	for _, name := range []string{"class", "dev", "devices"} {
		at := "/sys/" + name
		rows = append(rows, &seqfile.Row{Name: name, Mode: 0o755, Kind: seqfile.Sysfs, At: at, Dir: files.Over(at, nil)})
	}
	sys.Dir = files.Over("/sys", rows.Rows)
	return sys
}

// openGuest opens a file of guest code for ReadFile and WriteFile, which make no system
// calls.
func (k *Kernel) openGuest(string) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
		return nil, fmt.Errorf("a file of guest code is read through a mount only: %w", syscall.EOPNOTSUPP)
	}
}

// tracing returns tracefs. It is empty when the kernel is locked down to confidentiality.
func (k *Kernel) tracing() *seqfile.Row {
	row := tracefs.Tracing(k.Tracer)
	if k.opts.Lockdown >= Confidentiality {
		row.Dir = seqfile.Table{}
	}
	return row
}

func (k *Kernel) about() string {
	text := fmt.Sprintf("release %s\ncpus %d\ninstructions %d\nslots %d\n",
		k.opts.Release.Uname(), k.Machine.CPUs(), k.Machine.Retired(), k.Machine.SlotsInUse())
	select {
	case <-k.Died():
		text += "panic " + k.Machine.Panic() + "\n"
	default:
	}
	return text
}

// moreFiles returns the files of modules, and machine/clock on a machine with a virtual
// clock.
func (k *Kernel) moreFiles() []*seqfile.Row {
	rows := k.moduleDir.Files()
	if c, ok := k.Machine.Clock().(*kernel.VirtualClock); ok {
		rows = append(rows, clockFile(c))
	}
	return rows
}

// clockFile shows the nanoseconds since boot. A write advances the clock by a number of
// nanoseconds.
func clockFile(c *kernel.VirtualClock) *seqfile.Row {
	v := seqfile.Value{
		Get: func(context.Context) (string, error) { return strconv.FormatInt(c.Now(), 10) + "\n", nil },
		Set: func(_ context.Context, p []byte) (int, error) {
			ns, err := strconv.ParseInt(strings.TrimSpace(string(p)), 10, 64)
			if err != nil || ns < 0 {
				return 0, fmt.Errorf("machine/clock takes the number of nanoseconds to advance by: %w", syscall.EINVAL)
			}
			c.Advance(time.Duration(ns))
			return len(p), nil
		},
	}
	return &seqfile.Row{Name: "clock", Mode: 0o644, Open: func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) { return v, nil }}
}
