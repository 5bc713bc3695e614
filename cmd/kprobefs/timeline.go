package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/journal"
	"github.com/kprobefs/kprobefs/internal/boot"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/served"
	"github.com/kprobefs/kprobefs/internal/timeline"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/memcg"
)

// timeFlags are the flags of mount about the machine's time and past.
type timeFlags struct {
	clock         string // clockReal or clockVirtual
	deterministic bool
	record        string // the file to which outside events are written, or ""
	restore       string // the file from which the machine comes, or ""
}

// What --clock takes.
const (
	clockReal    = "real"
	clockVirtual = "virtual"
)

func (f *timeFlags) addTo(flags *pflag.FlagSet) {
	cli.Choose(flags, &f.clock, "clock", clockReal, []string{clockReal, clockVirtual}, "the emulated kernel's time: real, or virtual, which advances with the instructions that are executed and by what is written to machine/clock (+10ms)")
	flags.BoolVar(&f.deterministic, "deterministic", false, "let the machine do the same for the same requests, with a virtual clock: one request after the other, and nothing else from outside; it can be saved with 'kprobefs snapshot' and go back in time (machine/run)")
	flags.StringVar(&f.record, "record", "", "write all that comes from outside to `FILE`, which 'kprobefs replay' plays; implies --deterministic")
	flags.StringVar(&f.restore, "restore", "", "begin with the machine that 'kprobefs snapshot' or --record has written to `FILE`; implies --deterministic")
}

// args returns the flags as arguments for another process of this program.
func (f *timeFlags) args() []string {
	var args []string
	if f.clock != "" { // exec has no such flags
		args = append(args, "--clock", f.clock)
	}
	if f.deterministic {
		args = append(args, "--deterministic")
	}
	if f.record != "" {
		args = append(args, "--record", f.record)
	}
	if f.restore != "" {
		args = append(args, "--restore", f.restore)
	}
	return args
}

// parse makes file names absolute.
func (f *timeFlags) parse() (err error) {
	if f.clock != clockReal && f.clock != clockVirtual {
		return cli.Misused(fmt.Errorf("--clock takes real or virtual, not %q: %w", f.clock, syscall.EINVAL))
	}
	for _, name := range []*string{&f.record, &f.restore} {
		if *name != "" {
			if *name, err = filepath.Abs(*name); err != nil {
				return err
			}
		}
	}
	if f.record != "" && f.record == f.restore {
		return cli.Misused(fmt.Errorf("--record and --restore name the same file: %w", syscall.EINVAL))
	}
	return nil
}

// on reports whether the machine is deterministic.
func (f *timeFlags) on() bool { return f.deterministic || f.record != "" || f.restore != "" }

// fromFile are the flags about what a file of --restore says.
var fromFile = []string{"cpus", "release", "config", "lockdown", "module"}

// checkTime returns an error if the flags of mount do not go with a deterministic machine.
func (f *mountFlags) checkTime(flags *pflag.FlagSet) error {
	if err := f.time.parse(); err != nil || !f.time.on() {
		return err
	}
	refuse := func(name, why string) error {
		return cli.Misused(fmt.Errorf("--%s does not go with a deterministic machine: %s: %w", name, why, syscall.EINVAL))
	}
	switch {
	case f.page.Addr != "":
		return refuse("http", "the page looks at it outside of the order of requests")
	case len(f.parts) > 0:
		return refuse("part", "requests of several mounts have no order")
	case f.callsFD >= 0:
		return refuse("calls-fd", "exec's command makes calls at moments that nobody keeps")
	case f.Panic != boot.PanicStop:
		return refuse("panic="+f.Panic, "another machine would begin without the first one's past")
	case f.Console:
		return refuse("console", "going back would print again; read dev/kmsg")
	}
	if f.time.restore == "" {
		return nil
	}
	for _, name := range fromFile {
		if flags.Changed(name) {
			return cli.Misused(fmt.Errorf("--%s is not for --restore, whose file says what machine it is: leave it out: %w", name, syscall.EINVAL))
		}
	}
	return nil
}

// timeNames are the flags of mount that exec refuses.
var timeNames = []string{"deterministic", "record", "restore", "clock"}

// refuseTime returns an error if one of them is given to exec.
func refuseTime(flags *pflag.FlagSet) error {
	for _, name := range timeNames {
		if flags.Changed(name) {
			return cli.Misused(fmt.Errorf("--%s is for mount: what exec's command does is repeated in the emulated kernel at the moments at which the host does it, and nobody keeps these: %w", name, syscall.EINVAL))
		}
	}
	return nil
}

// header describes the machine of the flags.
func header(o boot.Options, f *boot.MachineFlags) (h journal.Header, err error) {
	h = journal.Header{
		Program: programVersion(), Release: f.Release, CPUs: o.CPUs, Locked: o.Locked.String(), Seed: 1, Wall: timeline.Wall,
		Config: slices.Clone(f.Config), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
	}
	if h.CPUs == 0 {
		h.CPUs = min(runtime.NumCPU(), kernel.MaxCPUs)
	}
	for _, m := range f.Modules {
		file, args := boot.ModuleAndArgs(m)
		ko, err := os.ReadFile(file)
		if err != nil {
			return h, fmt.Errorf("--module: %w", err)
		}
		h.Modules = append(h.Modules, journal.Module{Args: args, File: ko})
	}
	return h, nil
}

// readJournal reads a file of --record or snapshot, and checks that this program can play it.
func readJournal(name string) (h journal.Header, entries []journal.Entry, cut bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return h, nil, false, err
	}
	defer f.Close()
	if h, entries, cut, err = journal.ReadAll(f); err != nil {
		return h, nil, false, fmt.Errorf("%s: %w", name, err)
	}
	if got := programVersion(); h.Program != got {
		return h, nil, false, fmt.Errorf("%s is of %s, and this is %s: only the same version plays it: %w", name, h.Program, got, timeline.ErrFit)
	}
	if h.UID != uint32(os.Geteuid()) || h.GID != uint32(os.Getegid()) {
		return h, nil, false, fmt.Errorf("%s is of a machine whose root was user %d, group %d, and you are %d, %d: %w", name, h.UID, h.GID, os.Geteuid(), os.Getegid(), timeline.ErrFit)
	}
	return h, entries, cut, nil
}

// machineInTime boots the deterministic machine of the flags.
func (p *program) machineInTime(f *mountFlags, o boot.Options) (t *timeline.Timeline, err error) {
	c := timeline.Config{Engine: o.Engine, Limit: o.Limit, Log: p.log}
	var entries []journal.Entry
	if f.time.restore == "" {
		c.Header, err = header(o, &f.MachineFlags)
	} else {
		var cut bool
		if c.Header, entries, cut, err = readJournal(f.time.restore); cut {
			p.log.WithField("file", f.time.restore).Warn("the file ends inside an entry: its program was killed; what is before that is played")
		}
	}
	if err != nil {
		return nil, err
	}
	if t, err = timeline.New(c, entries); err != nil {
		if f.time.restore != "" {
			err = fmt.Errorf("--restore %s: %w", f.time.restore, err)
		}
		return nil, err
	}
	if f.time.record != "" {
		if err := t.Record(f.time.record); err != nil {
			t.Close()
			return nil, fmt.Errorf("--record: %w", err)
		}
	}
	return t, nil
}

// runInTime is run for a deterministic machine.
func (p *program) runInTime(f *mountFlags, dir string, options []string, machine boot.Options) (err error) {
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	serveGDB, endGDB, err := served.ListenForGDB(f.GDB, p.log)
	if err != nil {
		return err
	}
	defer endGDB()
	t, err := p.machineInTime(f, machine)
	if err != nil {
		return err
	}
	defer func() {
		t.Close()
		if t.Lost() != nil {
			err = errors.Join(err, fmt.Errorf("--record: %w", t.Lost()))
		}
	}()
	if f.time.restore != "" {
		t.Disown()
	}
	m, err := t.Mount(dir, fs.MountOptions{Options: options})
	if err != nil {
		return err
	}
	defer func() {
		_ = m.Detach()
		m.End(endGrace)
	}()
	stop, err := watch([]*fs.Mount{m}, f.remove)
	if err != nil {
		return err
	}
	defer stop()
	serveGDB(t.Kernel, t)
	defer endGDB() // first of all: it lets the machine go on
	p.log.WithField("dir", dir).WithField("position", t.Position()).Info("serving a deterministic machine")
	if err := ready(f); err != nil {
		return err
	}
	select {
	case s := <-end:
		p.log.WithField("signal", s.String()).Info("ending")
	case <-m.Done():
		p.log.Info("unmounted")
	case <-m.Detached():
		p.log.Info("unmounted")
	}
	return notify("STOPPING=1")
}

func (p *program) replayCommand() *cobra.Command {
	f := &boot.MachineFlags{}
	c := &cobra.Command{
		Use:   "replay [flags] FILE [NAME...]",
		Short: "Play a recorded run again, and print files of its machine",
		Long: `Boot the machine of FILE, which 'kprobefs mount --record FILE' or 'kprobefs snapshot FILE'
has written, and give it the same requests again, as fast as it can. Each must be taken
at the same instruction and get the same answer; otherwise replay says where they
differ, and ends with status 1. Nothing is mounted, and no privilege is needed.

In the end the files NAME of the tree are printed (default: tracing/trace), as they are in
that machine, and on standard error what was played and a hash of the machine's state.`,
		Example: `  kprobefs replay run.journal
  kprobefs replay run.journal kprobes/list tracing/trace`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return p.replay(f, args[0], args[1:]) },
	}
	cli.Choose(c.Flags(), &f.Engine, "engine", kernel.EngineAuto.String(), boot.EngineNames, "what executes the emulated kernel's code; each comes to the same state")
	return c
}

func (p *program) replay(f *boot.MachineFlags, name string, files []string) error {
	engine, err := kernel.ParseEngine(f.Engine)
	if err != nil {
		return cli.Misused(fmt.Errorf("--engine: %w", err))
	}
	if engine, err = engine.Resolve(); err != nil {
		return fmt.Errorf("--engine: %w", err)
	}
	h, entries, cut, err := readJournal(name)
	if err != nil {
		return err
	}
	if cut {
		fmt.Fprintf(os.Stderr, "kprobefs: %s ends inside an entry: its program was killed; what is before that is played\n", name)
	}
	t, err := timeline.New(timeline.Config{Header: h, Engine: engine, Limit: memcg.New(memcg.Default()), Log: p.log}, entries)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer t.Close()
	if len(files) == 0 {
		files = []string{"tracing/trace"}
	}
	state, err := t.State()
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := t.Kernel().ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(text); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "kprobefs: %d requests played, to instruction %d; state %s\n", t.Requests(), t.Position(), state)
	return nil
}

func snapshotCommand() *cobra.Command {
	var at cli.TreeFlag
	c := &cobra.Command{
		Use:   "snapshot [--at MNT] FILE",
		Short: "Save a mounted deterministic machine, for mount --restore",
		Long: `Write to FILE what brings another machine to the state of the one whose tree is mounted
at MNT: memory, probes, events, buffers, modules. 'kprobefs mount --restore FILE MNT'
goes on from there, on this machine or another one that has the same version of this
program. The machine must have been started with 'kprobefs mount --deterministic'.

FILE is readable for its owner only: it has all that was written to the files. The
machine's state is printed as a hash; two machines with the same hash are in the same state.`,
		Example: `  kprobefs mount --daemon --deterministic --cpus 2 /mnt
  kprobefs snapshot --at /mnt machine.snapshot
  kprobefs umount /mnt && kprobefs mount --daemon --restore machine.snapshot /mnt`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := at.Find()
			if err != nil {
				return err
			}
			return saveSnapshot(dir, args[0])
		},
	}
	at.AddTo(c)
	return c
}

// saveSnapshot copies the snapshot of a tree to a file, and prints the state.
func saveSnapshot(dir, name string) error {
	from, err := os.Open(filepath.Join(dir, "machine", timeline.SnapshotFile))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: its machine was not started with --deterministic, so it cannot be saved: %w", dir, syscall.EOPNOTSUPP)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	if name == "-" {
		return cli.Misused(errors.New("a snapshot is written to a file, as its state is printed on standard output; write ./- for a file with the name -"))
	}
	to, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	_, entries, _, err := readJournal(name)
	if err != nil {
		return err
	}
	last := entries[len(entries)-1]
	_, err = fmt.Fprintf(os.Stdout, "instruction %d, state %s\n", last.Position, last.State)
	return err
}
