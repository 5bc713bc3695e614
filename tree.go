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
	"github.com/kprobefs/kprobefs/fs/machinefs"
	"github.com/kprobefs/kprobefs/fs/procfs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
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
	tree := seqfile.Table{
		probes,
		k.tracing(),
		procfs.Sys(table),
		procfs.Proc(procfs.Config{
			Symbols: m.Symbols().All, Modules: k.moduleLines, ShowAddr: show,
			Version: strings.TrimSuffix(k.opts.Release.Version(k.opts.Program), "\n"), Cmdline: k.opts.cmdline(),
		}),
		devfs.Dev(m.Log()),
		machinefs.Machine(machinefs.Config{
			Symbols: m.Symbols(), Read: m.Read, Original: k.Kprobes.Original, Points: k.Kprobes.Points, ShowAddr: show,
			CPUs: m.CPUs(), CallOn: m.CallOn, About: k.about, More: k.moreFiles(),
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
