package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/boot"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/exec/mirror"
	"github.com/kprobefs/kprobefs/internal/exec/space"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/internal/served"
)

// endGrace is how long the end waits for users of the files.
const endGrace = 500 * time.Millisecond

// mountFlags are the flags of the mount command.
type mountFlags struct {
	boot.MachineFlags
	page     served.PageFlags
	time     timeFlags
	options  []string
	daemon   bool
	readyFD  int
	callsFD  int
	parts    []string
	noWatch  bool
	detached bool
	mkdir    bool
	remove   bool // the directory in the end
	fake     bool
	served.GDBFlag
}

func (p *program) mountCommand() *cobra.Command {
	f := &mountFlags{readyFD: -1, callsFD: -1}
	c := &cobra.Command{
		Use:   "mount [flags] MNT",
		Short: "Serve the tree at a directory until it is unmounted or ^C",
		Long: `Serve the tree at the directory MNT: kprobes/ (debugfs), tracing/ (tracefs), sys/
(/proc/sys), proc/, dev/ and machine/. The program stays in the foreground until
SIGINT, SIGTERM or 'kprobefs umount MNT'; with --daemon it returns when the files
are there, or with the reason and a status that is not 0.

It tells a service manager (Type=notify) when it is ready and when it ends. On
SIGUSR1 it logs the sizes of what it holds (level info).

Mounted by root, or with CAP_SYS_ADMIN, the files are there for all users, with
Linux's modes. Another user needs fusermount3, or a user namespace (unshare -Urm);
the files are then theirs, to whom they answer as to root, and nobody else may enter; with
-o allow_other others may, which fusermount3 refuses unless /etc/fuse.conf has
user_allow_other. To them the files answer as to an ordinary user.

If the program is killed, a process that watches it unmounts the tree; a tree that
is left nevertheless is unmounted by the next kprobefs that mounts there. Other trees
of this program are not affected: each has its own kernel.

When the emulated kernel panics, its last messages go to standard error. With
--panic=stop, the default, its log (dev/kmsg) and machine/ can still be read and
names be listed; requests to all other files fail with EIO, and the program ends,
when it is told to, with status ` + strconv.Itoa(panicStatus) + `. With --panic=reboot the machine boots again
behind the same mount, without probes, events, buffers and modules; files that
were open give EIO.

At the start one line says what is served where (level info), and writes that are
refused are logged with the reason (level debug). With --daemon the log goes to
--log-file, and nowhere without it.

With --kernel the tree shows a kernel's file, which is not booted: see
docs/guide/kernel.md and 'kprobefs call'.

With --http a browser on this machine, or at the end of a tunnel, sees the probes, the
code, the trace and the machine while they change. The page needs the token that is in its
URL; with --http-write it can also switch and define probes. /healthz and /readyz
need no token, and /metrics is for Prometheus. --health answers those two elsewhere.

Options (-o, separated by commas): cpus=N, release=NAME, memory=SIZE, lockdown=LEVEL,
watchdog=ACTION[:SECONDS], config=NAME=VALUE, module=FILE, kernel=FILE, symbols=FILE,
panic=stop|reboot, ro, allow_other, and mount(8)'s usual ones. Others are refused.`,
		Example: `  kprobefs mount /mnt
  kprobefs mount --daemon --cpus 2 /mnt && cat /mnt/kprobes/list
  mount -t fuse.kprobefs none /mnt -o cpus=2`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.CompleteDir,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.checkTime(c.Flags()); err != nil {
				return err
			}
			return p.mount(f, args[0])
		},
	}
	c.Flags().StringArrayVarP(&f.options, "options", "o", nil, "mount options")
	c.Flags().BoolVar(&f.daemon, "daemon", false, "go to the background once the files are there")
	c.Flags().BoolVar(&f.mkdir, "mkdir", false, "create the directory MNT if it does not exist")
	c.Flags().IntVar(&f.readyFD, "ready-fd", -1, "write a line to this descriptor once the files are there")
	f.MachineFlags.AddTo(c.Flags())
	f.page.AddTo(c.Flags())
	f.time.addTo(c.Flags())
	c.Flags().StringArrayVar(&f.parts, "part", nil, "also mount this part of the tree, under its Linux name: debugfs=DIR or tracefs=DIR")
	f.GDBFlag.AddTo(c.Flags())
	c.Flags().BoolVar(&f.noWatch, "no-watch", false, "")
	c.Flags().IntVar(&f.callsFD, "calls-fd", -1, "")
	c.Flags().BoolVar(&f.detached, "detached", false, "")
	c.Flags().BoolVar(&f.remove, "remove", false, "")
	c.Flags().BoolVar(&f.fake, "fake", false, "") // mount(8)'s -f
	for _, hidden := range []string{"no-watch", "calls-fd", "detached", "remove", "fake"} {
		_ = c.Flags().MarkHidden(hidden)
	}
	return c
}

// machineOptions are the options that describe the machine. All take a value.
var machineOptions = []string{"cpus", "lockdown", "watchdog", "memory", "release", "panic", "config", "module", "kernel", "symbols", "cpu"}

// apply removes our options from the -o lists and returns those for mount(2).
func (f *mountFlags) apply() ([]string, error) {
	var rest []string
	for _, list := range f.options {
		for o := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(o, "=")
			if value == "" && slices.Contains(machineOptions, name) {
				return nil, fmt.Errorf("option %q: the value is empty: %w", name, syscall.EINVAL)
			}
			switch name {
			case "", "rw", "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "_netdev", "nofail",
				"default_permissions", "relatime", "norelatime", "strictatime", "noatime", "atime",
				"diratime", "nodiratime", "async":
				// The daemon checks permissions, and the files have no access times.
			case "cpus":
				n, err := strconv.Atoi(value)
				if err != nil || n < 1 {
					return nil, fmt.Errorf("option %q: not a number of vCPUs", o)
				}
				f.CPUs = n
			case "lockdown":
				f.Lockdown = value
			case "watchdog":
				f.Watchdog = value
			case "memory":
				f.Memory = value
			case "release":
				f.Release = value
			case "kernel":
				f.File = value
			case "symbols":
				f.Symbols = value
			case "cpu":
				f.CPU = value
			case "panic":
				f.Panic = value
			case "config":
				f.Config = append(f.Config, value)
			case "module":
				f.Modules = append(f.Modules, value)
			case "ro", "allow_other", "dev", "nodev", "suid", "nosuid", "exec", "noexec":
				rest = append(rest, name)
			default:
				if strings.HasPrefix(name, "x-") || name == "comment" {
					continue // options in fstab(5) for other programs
				}
				return nil, fmt.Errorf("unknown mount option %q", o)
			}
		}
	}
	return rest, nil
}

func (p *program) mount(f *mountFlags, dir string) error {
	options, err := f.apply()
	if err != nil {
		return cli.Misused(err)
	}
	if dir, err = cli.Absolute(dir); err != nil {
		return err
	}
	if err := errors.Join(needProc(), f.page.Parse()); err != nil {
		return err
	}
	if err := f.Flags.Check(len(f.Modules) > 0, f.GDB); err != nil {
		return err
	}
	machine, err := f.MachineFlags.Options()
	if err != nil {
		return err
	}
	machine.Program = programVersion()
	if err := f.GDBFlag.Parse(); err != nil {
		return err
	}
	switch {
	case f.fake:
		return nil
	case f.daemon:
		return p.daemon(f, dir)
	}
	if err := f.place(dir); err != nil {
		return err
	}
	if f.time.on() {
		return p.runInTime(f, dir, options, machine)
	}
	machine.VirtualClock = f.time.clock == clockVirtual
	return p.run(f, dir, options, machine)
}

// place creates the directory if --mkdir is set. It fails with EBUSY if a kprobefs is
// mounted there.
func (f *mountFlags) place(dir string) error {
	if f.mkdir && !fs.Ours(dir) { // a dead mount of ours covers a directory
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if !f.noWatch && fs.Served(dir) {
		return fmt.Errorf("%s: a kprobefs is mounted there: %w; kprobefs umount removes it", dir, syscall.EBUSY)
	}
	return nil
}

// run boots the machine, mounts its files at dir and serves them until a signal
// or an unmount ends it.
func (p *program) run(f *mountFlags, dir string, options []string, machine boot.Options) (err error) {
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	state := make(chan os.Signal, 1)
	signal.Notify(state, syscall.SIGUSR1)
	machine.Log = p.log
	if machine.Calls, err = wire.NewServer(f.Hello(machine.Release), mirror.New(p.log)); err != nil {
		return err
	}
	if f.callsFD >= 0 {
		machine.Alone = true
		if err := machine.Calls.Connect(f.callsFD, os.Getppid()); err != nil {
			return err
		}
	}
	serveGDB, endGDB, err := served.ListenForGDB(f.GDB, p.log)
	if err != nil {
		return err
	}
	defer endGDB()
	live := &served.Machine{Boot: p.boot, Options: machine, Log: p.log, Parts: f.parts}
	shown, err := served.NewPageServer(&f.page, machine.Program)
	if err != nil {
		return err
	}
	defer shown.Close()
	live.Show = shown.Show
	if live.Reboots, err = boot.ParsePanic(f.Panic); err != nil {
		return err
	}
	if live.Sys, err = p.boot(machine); err != nil {
		return err
	}
	defer live.Close()
	if err := errors.Join(f.LoadModules(live.Sys), live.Show(live.Sys)); err != nil {
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		machine.Limit.Guide()
	}
	if f.remove {
		held, err := space.HoldDir(dir)
		if err != nil {
			return err
		}
		defer held.Close()
	}
	err = live.Mount(dir, options)
	mounts := live.Mounts
	grace := endGrace
	if f.noWatch {
		grace = 0 // the namespace ends with this process
	}
	defer func() {
		detachAll(mounts, grace)
		if f.remove {
			_ = os.Remove(dir)
		}
	}()
	if err != nil {
		return err
	}
	if !f.noWatch {
		stop, err := watch(mounts, f.remove)
		if err != nil {
			return err
		}
		defer stop()
	}
	if live.GDB.Use(live.Sys) {
		serveGDB(live.GDB.Load, nil)
	}
	defer endGDB() // first of all: it lets the machine go on
	p.log.WithFields(machine.Fields()).WithField("dir", dir).Info("serving")
	if err := f.tellPage(shown); err != nil {
		return err
	}
	if err := ready(f); err != nil {
		return err
	}
	var detached <-chan struct{}
	if !f.noWatch {
		detached = live.Mounts[0].Detached()
	}
	p.follow(live, end, state, detached)
	if live.HasDied() { // just before the end: nobody will ask for another machine
		live.Reboots = false
		live.AfterPanic()
	}
	shown.Close()
	if err := notify("STOPPING=1"); err != nil {
		return err
	}
	if live.Panicked {
		return errPanicked
	}
	return nil
}

// follow returns when a signal or an unmount ends the program, also one after which other
// mount namespaces still have the tree (detached). It logs the program's
// state on request, and handles a panic of the machine.
func (p *program) follow(live *served.Machine, end, state <-chan os.Signal, detached <-chan struct{}) {
	for {
		select {
		case s := <-end:
			p.log.WithField("signal", s.String()).Info("ending")
			return
		case <-live.Mounts[0].Done():
			p.log.Info("unmounted")
			return
		case <-detached:
			p.log.Info("unmounted")
			return
		case <-live.Died():
			live.AfterPanic()
		case answer := <-live.Options.Calls.Background:
			if live.HasDied() {
				live.AfterPanic()
			}
			if err := withoutOutput(2); err != nil {
				p.log.WithField("err", err).Error("standard error stays open")
			}
			answer <- live.Panicked
		case <-state:
			p.logState(live.Mounts)
		}
	}
}

// logState logs the sizes of what the program holds; they must not grow with use.
func (p *program) logState(mounts []*fs.Mount) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	open := 0
	for _, m := range mounts {
		open += m.Open()
	}
	p.log.WithFields(logrus.Fields{
		"goroutines": runtime.NumGoroutine(), "heap": mem.HeapAlloc, "inodes": mounts[0].Inodes(), "open": open,
	}).Info("state")
}

// detachAll ends all mounts, within the grace time in total.
func detachAll(mounts []*fs.Mount, grace time.Duration) {
	for _, m := range mounts {
		_ = m.Detach()
	}
	deadline := time.Now().Add(grace)
	for _, m := range mounts {
		m.End(max(time.Until(deadline), 0))
	}
}

// ready tells the process that started this one that the files are there.
func ready(f *mountFlags) error {
	if err := notify("READY=1"); err != nil {
		return err
	}
	if err := writeReady(f.readyFD); err != nil {
		return err
	}
	if !f.detached {
		return nil
	}
	return withoutOutput(2)
}

// tellPage begins to serve the page, if there is one, and prints where it is. In the background
// standard error is only for failures: the process that has started this one prints it.
func (f *mountFlags) tellPage(s *served.PageServer) error {
	if s == nil {
		return nil
	}
	where := s.Serve()
	if where == "" {
		return nil
	}
	if f.detached && f.readyFD >= 0 {
		_, err := unix.Write(f.readyFD, []byte(pagePrefix+where+"\n"))
		return err
	}
	fmt.Fprintln(os.Stderr, "kprobefs: the page: "+where)
	return nil
}

// writeReady writes a line to a descriptor that was passed to this process, unless it is -1.
func writeReady(fd int) error {
	if fd < 0 {
		return nil
	}
	pipe := os.NewFile(uintptr(fd), "ready-fd")
	if _, err := pipe.WriteString("ready\n"); err != nil {
		return fmt.Errorf("--ready-fd %d: %w", fd, err)
	}
	if fd > 2 {
		return pipe.Close()
	}
	return nil
}

func umountCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "umount MNT",
		Short: "Unmount a tree at once, even while it is in use",
		Long: `Unmount the tree at the directory MNT at once, even while it is in use: open files,
and other places where the tree is bound, stay usable for half a second, then the
program that serves it ends. A tree whose program has been killed is unmounted, too.
Mounts of other programs are not touched.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.CompleteDir,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := cli.Absolute(args[0])
			if err != nil {
				return err
			}
			if !fs.Ours(dir) {
				return fmt.Errorf("%s: no kprobefs is mounted there: %w", dir, errors.Join(syscall.EINVAL))
			}
			return fs.Detach(dir)
		},
	}
}
