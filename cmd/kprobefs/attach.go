package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/boot"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/exec/space"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
)

// attach connects a supervisor with the process that serves a tree.
func attach(tree string) (*wire.Client, error) {
	calls, theirs, err := wire.NewClient()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	// Where Yama lets only ancestors take descriptors.
	if unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_PTRACER, 0, 0, 0, 0) }()
	}
	f, err := os.OpenFile(filepath.Join(tree, "machine", wire.AttachFile), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(int(theirs.Fd())))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		calls.Close()
		return nil, attachError(tree, err)
	}
	return calls, nil
}

// attachError says what to do about an error of attach.
func attachError(tree string, err error) error {
	why := ""
	switch {
	case errors.Is(err, syscall.EACCES):
		why = ": only the user who has mounted it, and root, may attach"
	case errors.Is(err, syscall.EPERM):
		why = ": the serving process may not take a descriptor of ours (pidfd_getfd(2)); it and exec must be of one user"
	case errors.Is(err, syscall.EXDEV):
		why = ": its serving process is in another PID namespace"
	case errors.Is(err, syscall.ENOENT):
		why = ": it is no whole tree, or of an older kprobefs"
	}
	return fmt.Errorf("--attach %s: %w%s", tree, wire.ErrnoOf(err), why)
}

// checkTree checks whether commands can attach to the tree at a directory, and returns its
// real path.
func checkTree(dir string) (string, error) {
	dir, err := cli.Absolute(dir)
	if err != nil {
		return "", err
	}
	if !fs.Ours(dir) {
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", fmt.Errorf("--attach: %w", err)
		}
	}
	switch { // reading a file would be seen by probes
	case !fs.Ours(dir):
		return "", fmt.Errorf("--attach %s: no kprobefs is mounted there: %w", dir, syscall.EINVAL)
	case !slices.Contains(fs.LiveMounts(), dir):
		return "", fmt.Errorf("--attach %s: no answer: %w", dir, syscall.ETIMEDOUT)
	}
	return dir, nil
}

// checkAttach checks --attach: flags that describe a machine belong to another one.
func (f *execFlags) checkAttach(flags *pflag.FlagSet) (err error) {
	if f.attach == "" {
		return nil
	}
	if f.keep != "" {
		return cli.Misused(fmt.Errorf("--keep is for a new tree, and --attach for one that stays anyway: %w", syscall.EINVAL))
	}
	machine := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&boot.MachineFlags{}).AddTo(machine)
	machine.VisitAll(func(m *pflag.Flag) {
		if flags.Changed(m.Name) && err == nil {
			err = cli.Misused(fmt.Errorf("--%s is for a new kernel, and --attach for one that runs: %w", m.Name, syscall.EINVAL))
		}
	})
	if err == nil {
		f.attach, err = checkTree(f.attach)
	}
	return err
}

// keepNew is the value of --keep without one.
const keepNew = "a new directory"

// keepTree mounts a tree that outlives the command, and has the command attach to it.
func (p *program) keepTree(f *execFlags, command string) (err error) {
	if st, err := os.Stat(command); f.keep == keepNew && err == nil && st.IsDir() {
		return cli.Misused(fmt.Errorf("--keep: %s is no command but a directory; where the tree is to be, write --keep=%s: %w", command, command, syscall.EISDIR))
	}
	m := &mountFlags{MachineFlags: f.MachineFlags, GDBFlag: f.GDBFlag, page: f.page, readyFD: -1}
	if f.keep != keepNew {
		f.attach, err = cli.Absolute(f.keep)
	} else if dir, held, terr := space.TempDir(); terr != nil {
		err = terr
	} else {
		defer held.Close() // the daemon has its own by then
		space.RemoveAbandoned(dir)
		f.attach = dir
		m.remove = true
		defer func() {
			if err != nil {
				_ = os.Remove(f.attach)
			}
		}()
	}
	if err != nil {
		return err
	}
	if err := needProc(); err != nil {
		return err
	}
	if err := p.background(m, f.attach); err != nil {
		var e *cli.ExitError
		return &cli.ExitError{Err: err, Said: errors.As(err, &e) && e.Said} // with the status of exec
	}
	if m.remove {
		fmt.Fprintf(os.Stderr, "kprobefs: the tree is at %s and stays there until 'kprobefs umount %s'\n", f.attach, f.attach)
	}
	return nil
}
