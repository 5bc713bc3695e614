// Package space puts the files of a tree at the places that they have on Linux, in the private mount namespace
// of a command.
package space

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/sysfs"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
)

// binds are the files and directories of the tree that are mounted over the host's.
// In addition there are all files of sys/kernel.
var binds = []struct{ from, to string }{
	{"sys/debug", "/proc/sys/debug"},
	{"proc/kallsyms", "/proc/kallsyms"},
	{"proc/modules", "/proc/modules"},
	{"proc/version", "/proc/version"},
	{"proc/cmdline", "/proc/cmdline"},
	{"proc/kmsg", "/proc/kmsg"},
	{"machine/" + configRow, configFile},
	{"proc/devices", "/proc/devices"},
	{"proc/misc", "/proc/misc"},
	{"dev/kmsg", "/dev/kmsg"},
	{"sys/module", "/sys/module"},
	{"debugfs/dynamic_debug", "/proc/dynamic_debug"},
}

// Namespace is the private mount namespace of a command.
type Namespace struct {
	Log     *logrus.Logger
	Tree    string   // where the whole tree is mounted
	Staging string   // a directory at which something is mounted until it is moved to its place
	placed  []string // what placeEventSources has covered
	Knobs   Knobs
	Fresh   Fresh
	Covers  sync.Map // by the directory that coverWith has covered, the mount's number
}

// Prepare makes the namespace private, unmounts the host's tracefs and debugfs (tools
// would find them in /proc/mounts and trace the host), and makes sure that the
// directories to mount on exist.
func (ns *Namespace) Prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	for _, dir := range mountsOf("tracefs", "debugfs") {
		// In a user namespace this is refused; then our mount covers it.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			ns.Log.WithFields(logrus.Fields{"dir": dir, "err": err}).Debug("umount of the host's")
		}
	}
	return ns.need("/sys/kernel", true, "debug", "tracing")
}

// mountsOf returns the mount points of filesystems of these types, the last one first.
func mountsOf(types ...string) []string {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 && slices.Contains(types, f[2]) {
			dirs = append(dirs, f[1])
		}
	}
	slices.Reverse(dirs)
	return dirs
}

// BindParts bind-mounts the parts of a tree that is mounted already at the places that they
// have on Linux; more is another path of debugfs, or "".
func (ns *Namespace) BindParts(more string) error {
	places := []struct{ from, to string }{{"debugfs", hostview.DebugfsDir}, {"tracing", hostview.TracefsDir}}
	if more != "" && hostview.Exists(more) {
		places = append(places, struct{ from, to string }{more, more})
	}
	for _, p := range places {
		if err := unix.Mount(filepath.Join(ns.Tree, p.from), p.to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", p.to, err)
		}
	}
	return nil
}

// Cover bind-mounts files of the tree over the host's.
func (ns *Namespace) Cover() error {
	list := slices.Clone(binds)
	if err := errors.Join(ns.need("/proc/sys", true, "debug"), ns.need("/dev", false, "kmsg"), ns.coverKnobs()); err != nil {
		return err
	}
	knobs, err := os.ReadDir(filepath.Join(ns.Tree, "sys/kernel"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	ns.Knobs.ours = []string{"/proc/sys/debug"}
	for _, k := range knobs {
		ns.Knobs.ours = append(ns.Knobs.ours, filepath.Join(kernelKnobs, k.Name()))
	}
	if ns.hasCovered(kernelKnobs) {
		ns.Knobs.covered = true
		knobs = nil
	}
	for _, k := range knobs {
		if !k.IsDir() { // a directory is a module's, in /sys/kernel
			list = append(list, struct{ from, to string }{"sys/kernel/" + k.Name(), filepath.Join(kernelKnobs, k.Name())})
		}
	}
	for _, b := range list {
		from := filepath.Join(ns.Tree, b.from)
		if !hostview.Exists(from) {
			continue
		}
		if err := unix.Mount(from, b.to, "", unix.MS_BIND, ""); err != nil {
			// A file of /proc that the host lacks (modules, kallsyms) cannot be added.
			ns.Log.WithFields(logrus.Fields{"file": b.to, "err": err}).Info("not covered")
		}
	}
	ns.placeEventSources()
	return nil
}

// hostTypes is where a kernel shows its types as BTF.
const hostTypes = "/sys/kernel/btf"

// CoverTypes covers the host's types, by which programs of bpf(2) would be fitted to the host's structures, with
// the emulated kernel's. An old release has none.
func (ns *Namespace) CoverTypes() {
	from := filepath.Join(ns.Tree, "sys/kernel/btf")
	var err error
	switch {
	case hostview.Exists(from):
		if err = ns.need(filepath.Dir(hostTypes), true, filepath.Base(hostTypes)); err == nil {
			err = unix.Mount(from, hostTypes, "", unix.MS_BIND, "")
		}
	case hostview.Exists(hostTypes):
		err = ns.emptyTypes()
	}
	if err != nil {
		ns.Log.WithFields(logrus.Fields{"file": hostTypes, "err": err}).Info("not covered")
	}
}

// CoverBPFFS mounts the bpffs of the emulated kernel at its place. An old release has none.
func (ns *Namespace) CoverBPFFS() {
	from := filepath.Join(ns.Tree, hostview.BPFFS)
	if !hostview.Exists(from) {
		return
	}
	err := ns.need(filepath.Dir(hostview.BPFFSDir), true, filepath.Base(hostview.BPFFSDir))
	if err == nil {
		err = unix.Mount(from, hostview.BPFFSDir, "", unix.MS_BIND, "")
	}
	if err != nil {
		ns.Log.WithFields(logrus.Fields{"file": hostview.BPFFSDir, "err": err}).Info("not covered")
	}
}

// emptyTypes covers the host's types with an empty directory.
func (ns *Namespace) emptyTypes() error {
	cover, err := ns.tmpfs()
	if err != nil {
		return err
	}
	if err := ns.putOver(cover, hostTypes); err != nil {
		return err
	}
	return ns.protect(hostTypes, unix.MS_RDONLY)
}

// placeEventSources has /sys/bus/event_source show our kprobe and uprobe. Most hosts have both,
// with our numbers, and need no change.
func (ns *Namespace) placeEventSources() {
	for name, kind := range sysfs.PerfTypes(sysfs.HostPerfTypes(sysfs.EventSources)) {
		at := filepath.Join(sysfs.EventSources, name)
		if text, err := os.ReadFile(filepath.Join(at, "type")); err == nil {
			if strings.TrimSpace(string(text)) == strconv.Itoa(int(kind)) {
				continue
			}
			if at, err = filepath.EvalSymlinks(filepath.Join(at, "type")); err != nil {
				continue
			}
		} else if err := ns.need(sysfs.EventSources, true, name); err != nil {
			ns.Log.WithFields(logrus.Fields{"file": at, "err": err}).Info("not there")
			continue
		}
		from := strings.TrimPrefix(filepath.Join(sysfs.EventSources, name), "/")
		if filepath.Base(at) == "type" {
			from = filepath.Join(from, "type")
		}
		if err := unix.Mount(filepath.Join(ns.Tree, from), at, "", unix.MS_BIND, ""); err != nil {
			ns.Log.WithFields(logrus.Fields{"file": at, "err": err}).Info("not covered")
			continue
		}
		ns.placed = append(ns.placed, at)
	}
}

// Occupied returns the paths at which files of the tree may be mounted; more is another
// path of debugfs, or "".
func (ns *Namespace) Occupied(more string) []string {
	places := append([]string{ns.Tree, hostview.DebugfsDir, hostview.TracefsDir, hostview.BPFFSDir, "/proc/sys", "/sys/module", "/dev/kmsg"}, ns.placed...)
	if more != "" {
		places = append(places, more)
	}
	return places
}

// need makes names exist in a directory in which nothing can be created, such as /sys
// and /proc: it covers the directory with a tmpfs that has bind mounts of all present
// entries, and the names. It does nothing if they exist.
func (ns *Namespace) need(dir string, dirs bool, names ...string) error {
	missing := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return hostview.Exists(filepath.Join(dir, n)) })
	if len(missing) == 0 {
		return nil
	}
	if !ns.hasCovered(dir) {
		if err := ns.coverWith(ns.Staging, dir); err != nil {
			return err
		}
	}
	return ns.change(dir, func() error {
		for _, n := range missing {
			if err := makePlace(filepath.Join(dir, n), dirs); err != nil {
				return err
			}
		}
		return nil
	})
}

// hasCovered reports whether a directory is covered.
func (ns *Namespace) hasCovered(dir string) bool {
	_, covered := ns.Covers.Load(dir)
	return covered
}

// coverWith covers a directory with a tmpfs that has what is there. The tmpfs is mounted at
// a directory copyDir until it is complete.
func (ns *Namespace) coverWith(copyDir, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := mountTmpfs(copyDir); err != nil {
		return err
	}
	for _, e := range entries {
		if err := bindEntry(filepath.Join(dir, e.Name()), filepath.Join(copyDir, e.Name()), e); err != nil {
			ns.Log.WithFields(logrus.Fields{"file": filepath.Join(dir, e.Name()), "err": err}).Debug("left out")
		}
	}
	if err := ns.putOver(copyDir, dir); err != nil {
		return err
	}
	return ns.protect(dir, unix.MS_RDONLY)
}

// putOver moves the mount of a directory that is to cover another one.
func (ns *Namespace) putOver(from, dir string) error {
	if err := unix.Mount(from, dir, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("cover %s: %w", dir, err)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the covered %s: %w", dir, err)
	}
	defer unix.Close(fd)
	_, _, id := hostview.Fdinfo(os.Getpid(), fd)
	ns.Covers.Store(dir, id)
	return nil
}

// change calls do, which adds entries to a covered directory or removes some.
func (ns *Namespace) change(dir string, do func() error) error {
	if err := ns.protect(dir, 0); err != nil {
		return err
	}
	return errors.Join(do(), ns.protect(dir, unix.MS_RDONLY))
}

// protect lets nobody create files in a covered directory of /proc or /sys, as on Linux, if
// the flag is MS_RDONLY, and everybody if it is 0. What is mounted there can be written to
// with either.
func (ns *Namespace) protect(dir string, flag uintptr) error {
	if kind := hostview.HostFS(dir); kind != hostview.ProcFS && kind != hostview.SysFS {
		return nil
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|coverFlags|flag, ""); err != nil {
		return fmt.Errorf("remount the covered %s: %w", dir, err)
	}
	return nil
}

// coverFlags are the flags of the mounts that cover directories.
const coverFlags = unix.MS_NOSUID | unix.MS_NODEV

// Covering reports whether a mount covers a directory, or is of an entry that the
// directory had before.
func (ns *Namespace) Covering(m *hostview.Mount) bool {
	return ns.Covered(m) || m.Root != "/" && ns.hasCovered(filepath.Dir(hostview.Unescape(m.Point)))
}

// Covered reports whether a mount covers a directory.
func (ns *Namespace) Covered(m *hostview.Mount) bool {
	id, ok := ns.Covers.Load(hostview.Unescape(m.Point))
	return ok && id == m.ID
}

// tmpfs mounts an empty tmpfs, to be moved to its place.
func (ns *Namespace) tmpfs() (string, error) {
	return ns.Staging, mountTmpfs(ns.Staging)
}

func mountTmpfs(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", coverFlags, "mode=755"); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	return nil
}

func bindEntry(from, to string, e os.DirEntry) error {
	if e.Type()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	if err := makePlace(to, e.IsDir()); err != nil {
		return err
	}
	return unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}

func makePlace(path string, dir bool) error {
	if dir {
		return os.Mkdir(path, 0o755)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}
