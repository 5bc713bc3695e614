package system

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
	"github.com/kprobefs/kprobefs/sysctl"
)

// Guest takes the files' system calls.
func (s *System) Guest() fs.Guest { return s.Machine.Host() }

// Tree is the directory that is mounted: kprobes, tracing, sys, proc, dev and
// machine; and a place for kprobes where the release expects it (debug).
func (s *System) Tree() seqfile.Dir {
	m := s.Machine
	rows := sysctl.Config{
		Printk: m.Printk, SetFtrace: m.Sites().SetEnabled, SetStackTracer: s.Tracer.StackTracer,
		Release: s.opts.Release.Uname(), Version: s.opts.Release.BuildVersion(s.opts.Program), Features: s.opts.Release.Sysctl,
	}
	if s.Optimizer != nil {
		rows.Optimization, rows.SetOptimization = s.Optimizer.Allowed, s.Optimizer.SetAllowed
	}
	table := sysctl.New(rows)
	show := func(c *seqfile.Caller) bool {
		return procfs.ShowValue(table.Int("kernel/kptr_restrict"), table.Int("kernel/perf_event_paranoid"), c)
	}
	probes := debugfs.Kprobes(debugfs.Config{
		Probes: s.Kprobes, ShowAddr: show, ParseBool: s.opts.Release.Kprobes.ParseEnabled,
		NoBlacklist: s.opts.Release.Old,
		LockedDown:  func(c *seqfile.Caller) error { return s.lockedDown(Integrity, "debugfs access", c) },
	})
	tree := seqfile.Table{
		probes,
		s.tracing(),
		procfs.Sys(table),
		procfs.Proc(procfs.Config{
			Symbols: m.Symbols().All, Modules: s.moduleLines, ShowAddr: show,
			Version: strings.TrimSuffix(s.opts.Release.Version(s.opts.Program), "\n"), Cmdline: s.opts.cmdline(),
		}),
		devfs.Dev(m.Log()),
		machinefs.Machine(machinefs.Config{
			Symbols: m.Symbols(), Read: m.Read, Original: s.original, Points: s.Kprobes.Points,
			CPUs: m.CPUs(), CallOn: m.CallOn, About: s.about, More: s.moreFiles(),
		}),
	}
	if at := s.opts.Release.Debugfs; at != "" {
		probes.At = at + "/kprobes"
		tree = append(tree, &seqfile.Row{
			Name: strings.TrimPrefix(at, "/"), Mode: 0o755, Kind: seqfile.Debugfs, At: at, Dir: seqfile.Table{probes},
		})
	}
	return tree
}

// tracing is tracefs. Nothing is made in it where the kernel keeps what it knows
// to itself.
func (s *System) tracing() *seqfile.Row {
	row := tracefs.Tracing(s.Tracer)
	if s.opts.Lockdown >= Confidentiality {
		row.Dir = seqfile.Table{}
	}
	return row
}

// original reads text as it is without probes.
func (s *System) original(addr uint64, p []byte) error {
	s.Kprobes.Lock()
	defer s.Kprobes.Unlock()
	return s.Kprobes.Original(addr, p)
}

func (s *System) about() string {
	return fmt.Sprintf("release %s\ncpus %d\ninstructions %d\nslots %d\n",
		s.opts.Release.Uname(), s.Machine.CPUs(), s.Machine.Retired(), s.Machine.SlotsInUse())
}

// moreFiles are the modules, and what only some machines have: a virtual clock
// can be advanced.
func (s *System) moreFiles() []*seqfile.Row {
	rows := []*seqfile.Row{machinefs.ModulesDir(lockedModules{s.Modules, s})}
	if c, ok := s.Machine.Clock().(*kernel.VirtualClock); ok {
		rows = append(rows, clockFile(c))
	}
	return rows
}

// clockFile shows the nanoseconds since boot; a number written to it moves the
// clock forward by as many.
func clockFile(c *kernel.VirtualClock) *seqfile.Row {
	v := seqfile.Value{
		Get: func(context.Context) (string, error) { return strconv.FormatInt(c.Now(), 10) + "\n", nil },
		Set: func(_ context.Context, p []byte) (int, error) {
			ns, err := strconv.ParseInt(strings.TrimSpace(string(p)), 10, 64)
			if err != nil || ns < 0 {
				return 0, fmt.Errorf("machine/clock takes nanoseconds to go forward: %w", syscall.EINVAL)
			}
			c.Advance(time.Duration(ns))
			return len(p), nil
		},
	}
	return &seqfile.Row{Name: "clock", Mode: 0o644, Open: func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) { return v, nil }}
}
