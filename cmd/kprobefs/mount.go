package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// endGrace is how long those who use the files are waited for at the end.
const endGrace = 500 * time.Millisecond

// closeGrace is how long the machine may take to stop.
const closeGrace = time.Second

// mountFlags are the flags of the mount command.
type mountFlags struct {
	machineFlags
	options  []string
	daemon   bool
	readyFD  int
	callsFD  int
	faces    []string
	noWatch  bool
	detached bool
	mkdir    bool
	fake     bool
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

To a service manager (Type=notify) it says that it is ready, and that it ends. At
SIGUSR1 it logs what it holds (level info).

Mounted by root the files are there for all users, with Linux's modes. An
ordinary user needs fusermount3, or a user namespace (unshare -Urm).

Should the program be killed, a process that watches it takes the mount away; and
whatever a killed one left is taken away by the next one that mounts there. Other
trees of this program are not touched: each has a kernel of its own.

Options (-o, separated by commas): cpus=N, release=NAME, lockdown=LEVEL, config=NAME=VALUE, ro, and mount(8)'s
usual ones. Others are refused.`,
		Example: `  kprobefs mount /mnt
  kprobefs mount --daemon --cpus 2 /mnt && cat /mnt/kprobes/list
  mount -t fuse.kprobefs none /mnt -o cpus=2`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeDir,
		RunE: func(_ *cobra.Command, args []string) error {
			return p.mount(f, args[0])
		},
	}
	c.Flags().StringArrayVarP(&f.options, "options", "o", nil, "mount options")
	c.Flags().BoolVar(&f.daemon, "daemon", false, "go to the background once the files are there")
	c.Flags().BoolVar(&f.mkdir, "mkdir", false, "make the directory MNT where there is none")
	c.Flags().IntVar(&f.readyFD, "ready-fd", -1, "write a line to this descriptor once the files are there")
	f.addTo(c.Flags())
	c.Flags().StringArrayVar(&f.faces, "face", nil, "mount a part as well, under its Linux name: debugfs=DIR or tracefs=DIR")
	c.Flags().BoolVar(&f.noWatch, "no-watch", false, "")
	c.Flags().IntVar(&f.callsFD, "calls-fd", -1, "")
	c.Flags().BoolVar(&f.detached, "detached", false, "")
	c.Flags().BoolVar(&f.fake, "fake", false, "") // mount(8)'s -f
	for _, hidden := range []string{"no-watch", "calls-fd", "detached", "fake"} {
		_ = c.Flags().MarkHidden(hidden)
	}
	return c
}

// apply takes our own options out of the -o lists and returns those for mount(2).
func (f *mountFlags) apply() ([]string, error) {
	var rest []string
	for _, list := range f.options {
		for o := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(o, "=")
			switch name {
			case "", "rw", "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "_netdev", "nofail",
				"allow_other", "default_permissions", "relatime", "norelatime", "strictatime", "noatime", "atime",
				"diratime", "nodiratime", "async":
				// allow_other is so already; permissions are checked by the daemon;
				// the files have no access times.
			case "cpus":
				n, err := strconv.Atoi(value)
				if err != nil || n < 1 {
					return nil, fmt.Errorf("option %q: not a number of vCPUs", o)
				}
				f.cpus = n
			case "lockdown":
				f.locked = value
			case "release":
				f.release = value
			case "config":
				f.config = append(f.config, value)
			case "ro", "dev", "nodev", "suid", "nosuid", "exec", "noexec":
				rest = append(rest, name)
			default:
				if strings.HasPrefix(name, "x-") || name == "comment" {
					continue // what fstab(5) tells other programs
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
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	machine, err := f.machineFlags.options()
	if err != nil {
		return err
	}
	switch {
	case f.fake:
		return nil
	case f.daemon:
		return p.background(f, dir)
	}
	if f.mkdir && !fs.Ours(dir) { // a dead mount of ours stands on a directory
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if !f.noWatch && fs.Served(dir) {
		return fmt.Errorf("%s: a kprobefs is mounted there: %w; kprobefs umount takes it away", dir, syscall.EBUSY)
	}
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	state := make(chan os.Signal, 1)
	signal.Notify(state, syscall.SIGUSR1)
	machine.Log = p.log
	if f.callsFD >= 0 {
		if machine.Calls, err = newCallServer(f.callsFD); err != nil {
			return err
		}
	}
	sys, err := p.boot(machine)
	if err != nil {
		return err
	}
	defer closeInTime(sys)
	mounts, err := p.mountAll(sys, dir, options, f.faces)
	grace := endGrace
	if f.noWatch {
		grace = 0 // the namespace ends with us
	}
	defer func() { detachAll(mounts, grace) }()
	if err != nil {
		return err
	}
	if !f.noWatch {
		stop, err := watch(mounts)
		if err != nil {
			return err
		}
		defer stop()
	}
	if err := ready(f); err != nil {
		return err
	}
	for ended := false; !ended; {
		select {
		case s := <-end:
			ended = true
			p.log.WithField("signal", s.String()).Info("ending")
		case <-mounts[0].Done():
			ended = true
			p.log.Info("unmounted")
		case <-state:
			p.logState(mounts)
		}
	}
	return notify("STOPPING=1")
}

// logState logs what the program holds: it must not grow with use.
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

func checkCPUs(n int) error {
	if n < 0 {
		return fmt.Errorf("%d vCPUs: at least one is needed", n)
	}
	return nil
}

// closeInTime stops the machine; one that does not stop is left to the exit.
func closeInTime(s system) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Close()
	}()
	select {
	case <-done:
	case <-time.After(closeGrace):
	}
}

// mountAll mounts the tree, and faces of it.
func (p *program) mountAll(sys system, dir string, options, faces []string) ([]*fs.Mount, error) {
	tree := fs.New(sys.Guest(), p.log)
	rows := sys.Tree()
	root := &seqfile.Row{Mode: 0o755, Kind: seqfile.Ours, Dir: rows}
	m, err := tree.Mount(root, dir, fs.MountOptions{Options: options})
	if err != nil {
		return nil, err
	}
	mounts := []*fs.Mount{m}
	for _, face := range faces {
		name, at, _ := strings.Cut(face, "=")
		row, err := faceRow(rows, name)
		if err != nil {
			return mounts, err
		}
		m, err := tree.Mount(row, at, fs.MountOptions{Options: options, Source: name})
		if err != nil {
			return mounts, err
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// faceRow gives the root of a face: a debugfs with kprobes and tracing in it, or
// tracing alone as a tracefs.
func faceRow(tree seqfile.Dir, name string) (*seqfile.Row, error) {
	tracing := seqfile.Find(tree, "tracing")
	switch {
	case name == "debugfs":
		var table seqfile.Table
		for _, n := range []string{"kprobes", "tracing"} {
			if r := seqfile.Find(tree, n); r != nil {
				table = append(table, r)
			}
		}
		return &seqfile.Row{Mode: 0o700, Kind: seqfile.Debugfs, At: "/sys/kernel/debug", Dir: table}, nil
	case name == "tracefs" && tracing != nil:
		return tracing, nil
	}
	return nil, fmt.Errorf("no face %q: there are debugfs and tracefs", name)
}

// detachAll ends all mounts, within the grace time together.
func detachAll(mounts []*fs.Mount, grace time.Duration) {
	for _, m := range mounts {
		_ = m.Detach()
	}
	deadline := time.Now().Add(grace)
	for _, m := range mounts {
		m.End(max(time.Until(deadline), 0))
	}
}

// ready tells who started us that the files are there.
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
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup3(int(null.Fd()), 2, 0)
}

// writeReady writes a line to a descriptor that was handed to us; -1 is none.
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
		Short: "Take a tree away at once, even while it is in use",
		Long: `Take the tree at the directory MNT away at once, even while it is in use: files
that are open, and other places where the tree is bound, stay usable for half a
second, then the program that serves it ends. A tree whose program has been killed
is taken away too. What is no mount of this program is left alone.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeDir,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
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

// completeDir completes an argument with the names of directories.
func completeDir(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
