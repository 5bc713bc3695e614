package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/boot"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/space"
	"github.com/kprobefs/kprobefs/internal/exec/supervise"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/internal/served"
)

// The exec command consists of three processes. The first stays in the caller's
// namespaces, and passes on signals and the exit status. The second is root of a
// private namespace: it starts the third, which serves the files, mounts them at their
// places, and runs the command as its child.

// stopGrace bounds the time in which the serving process must end.
const stopGrace = 2500 * time.Millisecond

func (p *program) execCommand() *cobra.Command {
	f := &execFlags{}
	c := &cobra.Command{
		Use:   "exec [flags] [--] CMD [ARG]...",
		Short: "Run a command that finds the files in their usual places",
		Long: `Run CMD in a mount namespace of its own, in which the emulated kernel's files
stand where Linux has them: a debugfs on /sys/kernel/debug, a tracefs on
/sys/kernel/tracing, and /proc/sys/debug, /proc/kallsyms, /proc/modules,
/proc/version, /proc/cmdline, /proc/devices, /proc/misc, /dev/kmsg and some files
of /proc/sys/kernel.
Modules for the emulated kernel are built in /lib/modules/RELEASE/build, and
/boot/config-RELEASE says how it is configured. The rest of the machine does not
see them, and nothing is left when CMD and all that it has started have ended. exec
returns when CMD ends: what that leaves behind keeps its kernel, which runs in the
background until then; --wait=all waits for it. The exit status is CMD's, 126
where CMD may not be executed, 127 where it is not found, 125 where exec itself
fails, and 2 where it is called in a wrong way; signals are passed on to CMD.

insmod, rmmod, modprobe and dmesg act on the emulated kernel, and uname tells its
release, unless --uname=host is given.

With --attach MNT, CMD runs in the kernel of the tree that is mounted at MNT. So
several commands can share a kernel, one after the other and at the same time.
Only the user who has mounted the tree, and root, may attach. When the program that
serves the tree ends, CMD goes on without it: the files give ENOTCONN, and insmod
and dmesg EIO. A panic of that kernel does not change the exit status.

With --keep=MNT, or --keep for a new directory, which is printed, the tree is
mounted as 'kprobefs mount --daemon MNT' does it, and CMD attaches to it: other
commands can, too, and it stays when CMD has ended, until 'kprobefs umount MNT'. An
ordinary user needs fusermount3 for that, or a user namespace (unshare -Urm).

exec below exec is refused: a process can have one supervisor only.

An ordinary user becomes root of a user namespace; /dev/fuse must be open to
them. PATH has /usr/local/sbin, /usr/sbin and /sbin at its end if it lacked them. The whole tree, with machine/, is at $` + cli.TreeVar + `.`,
		Example: `  kprobefs exec -- sh -c 'cat /sys/kernel/debug/kprobes/list'
  kprobefs exec --cpus 2 bash
  kprobefs exec --keep=/mnt -- ./set-probes && kprobefs exec --attach /mnt -- ./test`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			err := f.check(c.Flags())
			if err == nil && f.keep != "" {
				err = p.keepTree(f, args[0])
			}
			if err == nil {
				err = p.exec(f, args)
			}
			return ownFailure(err)
		},
	}
	f.addExecTo(c.Flags())
	for _, name := range timeNames {
		c.Flags().String(name, "", "")
		c.Flags().Lookup(name).NoOptDefVal = "true"
		_ = c.Flags().MarkHidden(name)
	}
	c.Flags().SetInterspersed(false)
	return c
}

// execFlags are the flags of the exec command.
type execFlags struct {
	boot.MachineFlags
	served.GDBFlag
	page   served.PageFlags
	mirror string // what probes see of the command's calls: MirrorAll, MirrorStops, MirrorChanges or MirrorNone
	bpf    string // who answers bpf(2): BPFOurs, BPFHost or BPFNone
	uname  string // whose release uname(2) tells: UnameRelease or UnameHost
	attach string // the directory of a tree that is mounted already, or ""
	keep   string // the directory of a tree that outlives the command, or keepNew; "" means that it does not
	wait   string // what exec waits for: waitCommand or waitAll
}

// check checks the flags before anything is started.
func (f *execFlags) check(flags *pflag.FlagSet) error {
	if err := errors.Join(checkNested(), refuseTime(flags)); err != nil {
		return err
	}
	if err := errors.Join(f.checkAttach(flags), f.page.Parse(), f.GDBFlag.Parse()); err != nil {
		return err
	}
	if f.attach != "" && (f.page.Addr != "" || f.page.Health != "" || f.GDB != "") {
		return cli.Misused(fmt.Errorf("--http, --health and --gdb are for a new kernel, and --attach for one that runs: mount its tree with them: %w", syscall.EINVAL))
	}
	if err := f.Flags.Check(len(f.Modules) > 0, f.GDB); err != nil {
		return err
	}
	_, err := f.Options()
	return err
}

// checkNested fails with EBUSY below another exec. A process can have one supervisor only
// (seccomp(2)): the outer one would answer calls of an inner command for its own kernel,
// while the command sees the files of another one.
func checkNested() error {
	if unix.Mount("none", "/", supervise.SupervisedType, 0, "") != nil {
		return nil
	}
	return fmt.Errorf("this is below 'kprobefs exec' already, which cannot be nested: run CMD as it is; for a second kernel 'kprobefs mount' its tree: %w", unix.EBUSY)
}

func (f *execFlags) addExecTo(flags *pflag.FlagSet) {
	f.MachineFlags.AddTo(flags)
	f.GDBFlag.AddTo(flags)
	f.page.AddTo(flags)
	cli.Choose(flags, &f.mirror, "mirror", wire.MirrorAll, []string{wire.MirrorAll, wire.MirrorStops, wire.MirrorChanges, wire.MirrorNone}, "what probes see of the command's calls outside our files: none; changes, those that open files, and create, rename and end processes; or all, which adds reads, writes, seeks, queries of names and attributes and more, and the host's results; stops is all, by a stop at each call and not only at those that can be seen")
	cli.Choose(flags, &f.wait, "wait", waitCommand, []string{waitCommand, waitAll}, "what exec waits for: command, the end of CMD, whose processes keep their kernel in the background if it leaves some behind; or all, the end of those, too")
	flags.StringVar(&f.attach, "attach", "", "run CMD in the kernel of the tree that is mounted at `MNT`")
	flags.StringVar(&f.keep, "keep", "", "mount the tree at the directory `MNT`, where it stays when CMD has ended")
	flags.Lookup("keep").NoOptDefVal = keepNew
	cli.Choose(flags, &f.bpf, "bpf", supervise.BPFOurs, []string{supervise.BPFOurs, supervise.BPFHost, supervise.BPFNone}, "who answers bpf(2): ours, the emulated kernel; host, but for programs that would be attached to probes; or none, for whom it is not permitted")
	cli.Choose(flags, &f.uname, "uname", supervise.UnameRelease, []string{supervise.UnameRelease, supervise.UnameHost}, "whose release uname(2) tells: release, the emulated kernel's, or host")
}

func (f *execFlags) execArgs() []string {
	return append(slices.Concat(f.MachineFlags.Args(), f.page.Args(), f.GDBFlag.Args()), "--mirror", f.mirror, "--bpf", f.bpf, "--uname", f.uname, "--attach", f.attach, "--wait", f.wait)
}

// identity returns what the supervisor says of the kernel.
func (f *execFlags) identity() (k supervise.Identity, err error) {
	r, err := f.Configured()
	if err != nil {
		return k, err
	}
	return supervise.Identity{Release: r.Uname(), Version: r.BuildVersion(programVersion()), Linux: r.Linux, Hosts: f.uname == supervise.UnameHost}, nil
}

// exec is the first process.
func (p *program) exec(f *execFlags, args []string) error {
	if err := needProc(); err != nil {
		return err
	}
	dir, held, err := space.TempDir()
	if err != nil {
		return err
	}
	defer held.Close()
	space.RemoveAbandoned(dir)
	supervisor, guard, err := supervise.SocketPair()
	if err != nil {
		_ = os.Remove(dir)
		return err
	}
	alive, over, err := startWatcher(guard, "--remove", dir)
	_ = guard.Close()
	if err != nil {
		_ = supervisor.Close()
		_ = os.Remove(dir)
		return err
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer told.Close()
	args = slices.Concat(p.logging.args(), []string{"inside"}, f.execArgs(), []string{dir, "--"}, args)
	cmd := exec.Command(self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{aliveFD - 3: alive, heldFD - 3: held, statusFD - 3: tell, guardFD - 3: supervisor}
	privateNamespace(cmd)
	err, background := runInside(cmd, told)
	if background { // the watcher removes the directory
		_ = alive.Close()
		return err
	}
	over()
	_ = os.Remove(dir)
	if cmd.ProcessState == nil && err != nil {
		return namespaceError(err)
	}
	return err
}

// privateNamespace sets up a command to run in a private mount namespace, and a user
// namespace if the caller is not root.
func privateNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
}

// namespaceRemedy tells what to do when no namespace can be created.
const namespaceRemedy = "run as root, or allow user namespaces: sysctl user.max_user_namespaces, " +
	"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; " +
	"in a container CAP_SYS_ADMIN or another seccomp profile"

func namespaceError(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("a private namespace is refused (%w); %s", err, namespaceRemedy)
	}
	return err
}

// forwarded returns the signals that a command gets, too.
func forwarded() chan os.Signal {
	sig := make(chan os.Signal, 16)
	heed(sig, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	return sig
}

// heed is signal.Notify, but for signals that are ignored: nohup(1) and the shell's & ignore some
// for the command, which inherits that.
func heed(c chan<- os.Signal, signals ...os.Signal) {
	if signals = slices.DeleteFunc(signals, signal.Ignored); len(signals) > 0 { // none would mean all
		signal.Notify(c, signals...)
	}
}

// runForwarding runs a command that gets these signals.
func runForwarding(cmd *exec.Cmd, sig <-chan os.Signal) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	return waitForwarding(cmd, sig)
}

// waitForwarding does the same for a command that runs. It returns the command's exit status as an
// *cli.ExitError.
func waitForwarding(cmd *exec.Cmd, sig <-chan os.Signal) error {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-sig:
				if !fromTerminal(s) {
					_ = cmd.Process.Signal(s)
				}
			case <-done:
				return
			}
		}
	}()
	err := cmd.Wait()
	close(done)
	var e *exec.ExitError
	if errors.As(err, &e) {
		return &cli.ExitError{Err: err, Said: true, Status: e.Sys().(syscall.WaitStatus)}
	}
	return err
}

// fromTerminal reports whether the command has received a signal already: a terminal
// sends it to the whole foreground process group.
func fromTerminal(s os.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT && s != syscall.SIGWINCH {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

func (p *program) insideCommand() *cobra.Command {
	f := &execFlags{}
	c := &cobra.Command{
		Use:    "inside DIR -- CMD [ARG]...",
		Hidden: true,
		Args:   cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, fd := range []int{aliveFD, heldFD, statusFD, guardFD} {
				unix.CloseOnExec(fd)
			}
			return ownFailure(p.inside(f, args[0], args[1:]))
		},
	}
	f.addExecTo(c.Flags())
	c.Flags().SetInterspersed(false)
	return c
}

// inside is the second process. dir is a directory for the tree or, of one that is mounted
// already, for its own use.
func (p *program) inside(f *execFlags, dir string, args []string) (err error) {
	if args[0] == "--" {
		args = args[1:]
	}
	if path := os.Getenv("PATH"); path != "" { // otherwise each program has its own default
		if err := os.Setenv("PATH", rootPath(path)); err != nil {
			return err
		}
	}
	sig := make(chan os.Signal, 1)
	heed(sig, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ns := &space.Namespace{Log: p.log, Tree: dir, Staging: dir}
	tree, err := p.enter(f, ns, sig)
	if err != nil {
		return err
	}
	var sup *supervise.Supervision
	var cmd *exec.Cmd
	defer func() {
		if panicked := tree.end(); panicked {
			err = errPanicked
		}
		sup.Settle()
	}()
	if err := untilSignal(sig, tree.give, func() error {
		if err := errors.Join(tree.place(), ns.Cover()); err != nil {
			return err
		}
		if f.bpf == supervise.BPFOurs {
			ns.CoverTypes()
			ns.CoverBPFFS()
		}
		return nil
	}); err != nil {
		return err
	}
	tree.headers()
	signal.Stop(sig)
	name, err := findCommand(args[0])
	if err != nil {
		return cannotRun(err)
	}
	kernel, err := f.identity()
	if err != nil {
		return err
	}
	made := space.NewPlaces(ns, tree.calls.Made)
	if len(f.Modules) > 0 || f.attach != "" {
		made.Sync()
	}
	go made.Follow(tree.calls.Changed)
	cmd, sup, err = supervise.Command(p.log, name, args, supervise.Supervised{Dirs: ns.Occupied(f.Debugfs()), Calls: tree.calls, Kernel: kernel, Made: made, Knobs: ns.Knobs, BPF: f.bpf, Quiet: tree.sees, Plain: !tree.hello.Plain, Maps: tree.hello.Maps, Guard: os.NewFile(guardFD, "guard")})
	if err != nil {
		return err
	}
	defer sup.End()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), cli.TreeVar+"="+ns.Tree, "TRACEFS_PATH="+hostview.TracefsDir, "DEBUGFS_PATH="+hostview.DebugfsDir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	// A signal that comes when the command has ended (each thread of a parent that is killed may
	// send one) must not end this process before settle: calls that it has received have no answer yet.
	err = runForwarding(cmd, forwarded())
	if cmd.ProcessState == nil && err != nil {
		return cannotRun(err)
	}
	p.leftBehind(f, tree, sup, cmd.ProcessState.Sys().(syscall.WaitStatus))
	return err
}

// execTree is the tree below which a command runs.
type execTree struct {
	calls   *wire.Client
	hello   wire.Hello
	sees    bool         // the serving process sees to calls by itself, without the supervisor
	headers func()       // waits for what modules are built with
	place   func() error // mounts the parts that are not at their places yet
	// background has the serving process go to the background, and reports a panic as end does.
	background func() (panicked bool)
	give       func() // has requests fail that wait for an answer; nil if they cannot be made to
	end        func() (panicked bool)
}

// enter prepares the namespace, and starts the serving process, or attaches to one.
func (p *program) enter(f *execFlags, ns *space.Namespace, sig <-chan os.Signal) (*execTree, error) {
	t := &execTree{place: func() error { return nil }}
	if f.attach != "" {
		ns.Tree = f.attach
		if err := untilSignal(sig, nil, func() error { return t.attach(f) }); err != nil {
			return nil, err
		}
		t.place = func() error { return ns.BindParts(f.Debugfs()) }
		t.end = func() bool { t.calls.Close(); return false }
		t.background = func() bool { return false }
	}
	if err := needSys(); err != nil {
		return nil, err
	}
	if err := ns.Prepare(); err != nil {
		return nil, err
	}
	release, err := f.Configured()
	if err != nil {
		return nil, err
	}
	t.headers = func() {}
	if !f.IsShown() { // a kernel that is only looked at loads no modules
		t.headers = ns.PlaceHeaders(release)
		ns.PlaceConfig(release)
	}
	if f.attach == "" {
		if err := p.startTree(f, t, ns.Tree); err != nil {
			return nil, err
		}
	}
	if t.hello.Blind != "" {
		p.log.WithField("err", t.hello.Blind).Info("reads, writes and closes of the command are not seen")
	}
	return t, nil
}

// sees reports whether the serving process stops the command's threads at their calls.
func (f *execFlags) sees(h wire.Hello) bool {
	return h.Blind == "" && (f.mirror == wire.MirrorAll || f.mirror == wire.MirrorStops)
}

// attach attaches to the serving process, and takes the flags of its machine.
func (t *execTree) attach(f *execFlags) (err error) {
	if t.calls, err = attach(f.attach); err != nil {
		return err
	}
	if t.hello, err = t.calls.Hello(f.mirror); err != nil {
		t.calls.Close()
		return attachError(f.attach, err)
	}
	t.sees = f.sees(t.hello)
	f.Release, f.Config, f.Shown = t.hello.Release, t.hello.Config, t.hello.Shown
	return nil
}

// startTree starts the serving process.
func (p *program) startTree(f *execFlags, t *execTree, dir string) error {
	calls, theirs, err := wire.NewClient()
	if err != nil {
		return err
	}
	server, err := p.serve(f, dir, theirs)
	if err != nil {
		return err
	}
	t.calls = calls
	t.give = func() { _ = server.Process.Kill() }
	t.end = func() bool { return stop(server) == panicStatus }
	t.background = func() bool { return calls.Background(stopGrace) }
	if t.hello, err = calls.Hello(f.mirror); err != nil {
		p.log.WithField("err", err).Debug("calls are not seen")
	} else {
		t.sees = f.sees(t.hello)
	}
	return nil
}

// rootPath returns a PATH with the directories of root's programs, such as insmod, at its
// end: an ordinary user, who is root below exec, may not have them.
func rootPath(path string) string {
	dirs := filepath.SplitList(path)
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// findCommand searches for a command as execvp(3) does. A file in PATH that may not be
// executed is EACCES.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot): // a restriction of Go's
		return path, nil
	case err == nil || !errors.Is(err, exec.ErrNotFound) || name == "" || strings.Contains(name, "/"):
		return path, err
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		at := filepath.Join(dir, name)
		if st, serr := os.Stat(at); serr == nil && !st.IsDir() {
			return "", &os.PathError{Op: "exec", Path: at, Err: syscall.EACCES}
		}
	}
	return "", err
}

// cannotRun returns the error of a command that did not start, with the status that
// shells use: 127 if it does not exist, 126 if it cannot be executed.
func cannotRun(err error) error {
	status := 126
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		status = 127
	}
	return &cli.ExitError{Err: err, Status: syscall.WaitStatus(status << 8)}
}

// untilSignal runs f, which uses the files. If they do not answer, a signal ends that: give
// has requests fail and so f end, or, without it, the end of this process does. f must not
// run on the main thread: the host's kernel would deliver the signal there, where it stays
// pending while the thread waits for a file.
func untilSignal(sig <-chan os.Signal, give func(), f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case s := <-sig:
		if give != nil {
			give()
			<-done
		}
		n, _ := s.(syscall.Signal)
		return &cli.ExitError{Err: errors.New(s.String()), Said: true, Status: syscall.WaitStatus(n)}
	}
}

// stop ends the serving process and returns its exit status.
func stop(server *exec.Cmd) int {
	_ = server.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(stopGrace, func() { _ = server.Process.Kill() })
	defer kill.Stop()
	_ = server.Wait()
	return server.ProcessState.ExitCode()
}

// serve starts the third process, and waits until its files are there.
func (p *program) serve(f *execFlags, dir string, calls *os.File) (*exec.Cmd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	places := []string{"--part", "debugfs=" + hostview.DebugfsDir, "--part", "tracefs=" + hostview.TracefsDir}
	if at := f.Debugfs(); at != "" && hostview.Exists(at) {
		places = append(places, "--part", "debugfs="+at)
	}
	cmd := exec.Command(self, slices.Concat(p.logging.args(), []string{"mount", "--no-watch", "--ready-fd", "3", "--calls-fd", "4"}, f.MachineFlags.Args(), f.page.Args(), f.GDBFlag.Args(), places, []string{dir})...)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{w, calls}
	// In its own group the terminal's ^C does not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = w.Close()
	_ = calls.Close()
	if line, _ := bufio.NewReader(r).ReadString('\n'); line != "ready\n" {
		err := cmd.Wait() // it has printed why
		if err == nil {
			err = errors.New("the serving process ended at once")
		}
		return nil, &cli.ExitError{Err: err, Said: true}
	}
	return cmd, nil
}
