package kprobefs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/fs/debugfs"
	"github.com/kprobefs/kprobefs/fs/devfs"
	"github.com/kprobefs/kprobefs/fs/guestfs"
	"github.com/kprobefs/kprobefs/fs/machinefs"
	"github.com/kprobefs/kprobefs/fs/procfs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/fs/sysfs"
	"github.com/kprobefs/kprobefs/fs/tracefs"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
	"github.com/kprobefs/kprobefs/sysctl"
)

// Writes returns the record of writes that machine/writes shows. Who serves the tree adds to it
// (fs.Tree.Record).
func (k *Kernel) Writes() *seqfile.Writes { return k.writes }

// Tree returns the directory to mount: kprobes, tracing, sys, proc, dev and machine, and
// debug where the release expects kprobes there. It is the same one at each call, so all who
// use it share the values that only files have, such as sys/kernel/kptr_restrict.
func (k *Kernel) Tree() seqfile.Dir {
	k.treeMu.Lock()
	defer k.treeMu.Unlock()
	if k.tree == nil {
		k.tree = k.newTree()
	}
	return k.tree
}

func (k *Kernel) newTree() seqfile.Dir {
	m := k.Machine
	table := sysctl.New(sysctl.Config{
		Kernel: sysctls{k}, NoOptprobes: !k.Kprobes.HasOptprobes(),
		Release: k.opts.Release.Uname(), Version: k.opts.Release.BuildVersion(k.opts.Program), Linux: k.opts.Release.Linux,
	})
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
		Symbols: k.view.symbols.All, Modules: k.moduleLines, ShowAddr: show,
		Version: strings.TrimSuffix(k.opts.Release.Version(k.opts.Program), "\n"), Cmdline: k.opts.cmdline(), Log: m.Log(),
	})
	proc.Dir = files.Over(proc.At, proc.Dir.Rows)
	dev := devfs.Dev(m.Log())
	dev.Dir = files.Over(dev.At, dev.Dir.Rows)
	var now func() int64
	if m.Sequenced() { // what files show must not depend on the host
		now = m.Now
	}
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
		machinefs.Machine(k.machineFiles(machinefs.Config{
			Original: k.Kprobes.Original, Points: k.Kprobes.Points, Queues: k.Kprobes.Queues, ShowAddr: show,
			CPUs: m.CPUs(), Writes: k.writes, Now: now, About: k.about, More: k.moreFiles(),
		})),
	}
	if k.opts.Release.Linux.Has(release.BPFCalls) {
		tree = append(tree, k.pins.Row())
	}
	if at := k.opts.Release.Debugfs(); at != "" {
		probes.At = at + "/kprobes"
		tree = append(tree, &seqfile.Row{
			Name: strings.TrimPrefix(at, "/"), Mode: 0o755, Kind: seqfile.Debugfs, At: at, Dir: seqfile.Table{probes},
		})
	}
	return tree
}

// sysctls is what the files below /proc/sys act on.
type sysctls struct{ k *Kernel }

var _ sysctl.Kernel = sysctls{}

func (s sysctls) Printk(level int, format string, args ...any) {
	s.k.Machine.Printk(level, format, args...)
}
func (s sysctls) Optimization() bool            { return s.k.Kprobes.Optimization() }
func (s sysctls) SetOptimization(on bool)       { s.k.Kprobes.SetOptimization(on) }
func (s sysctls) SetFtrace(on bool) error       { return s.k.view.sites.SetEnabled(on) }
func (s sysctls) SetStackTracer(on bool) error  { return s.k.Tracer.Ftrace().StackTracer(on) }
func (s sysctls) SetKptrRestrict(v int) error   { return s.k.Machine.SetKptrRestrict(v) }
func (s sysctls) ConsoleLevels() []int          { return s.k.Machine.Log().ConsoleLevels() }
func (s sysctls) SetConsoleLevels(levels []int) { s.k.Machine.Log().SetConsoleLevels(levels) }
func (s sysctls) Taints() uint64                { return s.k.Machine.Taints() }
func (s sysctls) SetTaints(bits uint64)         { s.k.Machine.AddTaints(bits) }

// sys returns the directory with /proc/sys, and what modules have in sysfs.
func (k *Kernel) sys(table *sysctl.Table, files *guestfs.Files, show func(*seqfile.Caller) bool) *seqfile.Row {
	sys := procfs.Sys(table)
	rows := sys.Dir.(seqfile.Table)
	if kern := seqfile.Find(rows, "kernel"); kern != nil {
		if raw := k.view.rawBTF; raw != nil {
			kern.Dir = append(slices.Clip(kern.Dir.(seqfile.Table)), sysfs.Types(raw))
		}
		kern.Dir = files.Over("/sys/kernel", files.Over("/proc/sys/kernel", kern.Dir.Rows).Rows)
	}
	if debug := seqfile.Find(rows, "debug"); debug != nil {
		debug.Dir = files.Over("/proc/sys/debug", debug.Dir.Rows)
	}
	bus := sysfs.Bus(k.perfTypes)
	bus.At, bus.Dir = "/sys/bus", files.Over("/sys/bus", bus.Dir.Rows)
	rows = append(rows, bus,
		sysfs.Modules(sysfs.Config{Modules: k.Modules.List, Files: files, ShowAddr: show, Printk: k.Machine.Printk}))
	for _, name := range []string{"class", "dev", "devices"} {
		at := "/sys/" + name
		rows = append(rows, &seqfile.Row{Name: name, Mode: 0o755, Kind: seqfile.Sysfs, At: at, Dir: files.Over(at, files.Over("/proc"+at, nil).Rows)})
	}
	sys.Dir = files.Over("/sys", files.Over("/proc/sys", rows.Rows).Rows)
	return sys
}

// openGuest opens a file of guest code for ReadFile and WriteFile, which make no system
// calls.
func (k *Kernel) openGuest(string) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
		return nil, fmt.Errorf("a file of guest code is read through a mount only: %w", syscall.EOPNOTSUPP)
	}
}

// openPinned opens the file of an object of bpf(2).
func (k *Kernel) openPinned(object any, _ *seqfile.OpenInfo) (seqfile.File, error) {
	it, err := k.Tracer.BPF().OpenPinned(object)
	if err != nil {
		return nil, err
	}
	return &pinnedIterator{it, k.Tracer.BPF()}, nil
}

// pinnedIterator is an open file of an iterator's link.
type pinnedIterator struct {
	it     *bpf.Iterator
	system *bpf.System
}

// Read implements seqfile.File: the position is the iterator's own.
func (f *pinnedIterator) Read(ctx context.Context, p []byte, _ int64) (int, error) {
	c := seqfile.CallerOf(ctx)
	task := bpf.Task{IDs: perf.IDs{PID: int32(c.PID), TID: int32(c.TID)}}
	if c.CommFunc != nil {
		task.Comm = c.CommFunc()
	}
	return f.it.Read(task, p)
}

// Write implements seqfile.File.
func (f *pinnedIterator) Write(context.Context, []byte, int64) (int, error) {
	return 0, fmt.Errorf("an iterator is read only: %w", syscall.EINVAL)
}

// Release implements seqfile.File.
func (f *pinnedIterator) Release() { f.system.Release(f.it) }

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
		k.opts.Release.Uname(), k.Machine.CPUs(), k.view.retired(), k.view.inUse())
	if k.view.vm != nil {
		text += "text file\n"
	}
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
	var rows []*seqfile.Row
	if k.view.vm == nil {
		rows = k.moduleDir.Files()
	}
	if k.Machine.Virtual() != nil {
		rows = append(rows, k.clockFile())
	}
	return rows
}

// UseTimeline makes machine/run take the machine back with t. A tree that was returned before does
// not have it.
func (k *Kernel) UseTimeline(t machinefs.Timeline) {
	k.treeMu.Lock()
	defer k.treeMu.Unlock()
	k.timeline, k.tree = t, nil
}

// clockFile shows the nanoseconds since boot. A write advances the clock: by a number of nanoseconds, or by a
// duration as +10ms.
func (k *Kernel) clockFile() *seqfile.Row {
	v := seqfile.Value{
		Get: func(context.Context) (string, error) { return strconv.FormatInt(k.Machine.Now(), 10) + "\n", nil },
		Set: func(_ context.Context, p []byte) (int, error) {
			d, err := parseAdvance(strings.TrimSpace(string(p)))
			if err != nil {
				return 0, err
			}
			k.Machine.Advance(d)
			return len(p), nil
		},
	}
	return &seqfile.Row{Name: "clock", Mode: 0o644, WithoutGuest: true, Open: func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) { return v, nil }}
}

// maxAdvance bounds one move of the clock.
const maxAdvance = 24 * time.Hour

// parseAdvance parses what is written to machine/clock.
func parseAdvance(text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimPrefix(text, "+"))
	if ns, nerr := strconv.ParseInt(text, 10, 64); nerr == nil {
		d, err = time.Duration(ns), nil
	}
	if err != nil || d < 0 || d > maxAdvance {
		return 0, fmt.Errorf("machine/clock takes a number of nanoseconds, or a duration as +10ms or +1s, up to %v, not %q: %w", maxAdvance, text, syscall.EINVAL)
	}
	return d, nil
}
