package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/anoninode"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/space"
	"github.com/kprobefs/kprobefs/kernel"
)

// finding is the result of one check of the machine.
type finding struct {
	part   string // partExec or partMount if only that command needs it
	what   string // "/dev/fuse"
	err    error  // what is missing, or nil
	remedy string // how to repair err
	note   string // further information, printed when err is nil
}

// The parts of check, which --for asks for.
const (
	partExec  = "exec"
	partMount = "mount"
)

// print writes a finding as a line, with a second line for the remedy.
func (f finding) print(w io.Writer) {
	what := f.what
	if f.part != "" {
		what = f.part + ": " + what
	}
	switch {
	case f.err != nil:
		fmt.Fprintf(w, "lacks  %s: %v\n       remedy: %s\n", what, f.err, f.remedy)
	case f.note != "":
		fmt.Fprintf(w, "ok     %s: %s\n", what, f.note)
	default:
		fmt.Fprintf(w, "ok     %s\n", what)
	}
}

func checkCommand() *cobra.Command {
	part := ""
	c := &cobra.Command{
		Use:   "check [--for exec|mount] [MNT]",
		Short: "Report what this machine lacks, and how to repair it",
		Long: `Check whether 'kprobefs mount' and 'kprobefs exec' can work here: /proc and /dev/fuse
for both; for mount the right to mount, or fusermount3 for an ordinary user, and
whether a tree can be mounted at the directory MNT; for exec a private namespace in
which FUSE can be mounted, /sys, and a directory for the tree. Each thing that is
missing comes with a remedy. It also says what executes the kernel's code, what perf
can do below exec, and where trees are whose program has ended. Nothing is changed.

The exit status is 0 if mount can work, else 1. With --for=exec it tells whether exec
can work. --for also leaves out what only the other command needs.`,
		Example: `  kprobefs check
  kprobefs check --for mount /mnt
  kprobefs check --for exec && kprobefs exec -- ./test`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.CompleteDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			mount := []finding{checkMount()}
			for _, dir := range args {
				mount = append(mount, checkPlace(dir))
			}
			list := slices.Concat([]finding{checkProc(), checkDevice()}, decisive(mount),
				decisive([]finding{checkExec(), checkSys(), checkTemp(), checkPerf()}), []finding{checkEngine()})
			return report(cmd.OutOrStdout(), list, part)
		},
	}
	cli.Choose(c.Flags(), &part, "for", "", []string{partExec, partMount}, "check what this command needs: exec or mount")
	return c
}

// decisive returns the findings of a part. If its first one, about the mount itself, is that
// something is missing, nothing else there is said to be right.
func decisive(part []finding) []finding {
	if part[0].err == nil {
		return part
	}
	return slices.DeleteFunc(part, func(f finding) bool { return f.err == nil })
}

// report prints the findings that a part needs, all for "". If anything is missing for the part,
// which is mount for "", the exit status is 1.
func report(w io.Writer, list []finding, part string) error {
	decides := part
	if part == "" {
		decides = partMount
	}
	var missing error
	for _, f := range list {
		if f.part != "" && part != "" && f.part != part {
			continue
		}
		f.print(w)
		if f.part == "" || f.part == decides {
			missing = errors.Join(missing, f.err)
		}
	}
	for _, dir := range fs.DeadMounts() { // in nobody's way
		fmt.Fprintf(w, "dead   %s: a mount of a kprobefs that has ended\n       remedy: kprobefs umount %s\n", dir, dir)
	}
	if missing != nil {
		return &cli.ExitError{Err: missing, Said: true}
	}
	return nil
}

// procRemedy tells how to repair an error of needProc.
const procRemedy = "mount -t proc proc /proc; with bwrap: --proc /proc"

// needProc checks for the host's /proc, with which this program starts itself again,
// finds its mounts, and identifies its callers.
func needProc() error {
	if err := checkProc().err; err != nil {
		return fmt.Errorf("no /proc is mounted here: %w; %s", err, procRemedy)
	}
	return nil
}

func checkProc() finding {
	_, err := os.Readlink(self)
	return finding{what: "/proc", err: errors.Unwrap(err), remedy: procRemedy}
}

// checkSys checks for the directories that exec mounts on, or copies.
func checkSys() finding {
	_, err := os.Stat("/sys/kernel")
	return finding{part: partExec, what: "/sys/kernel", err: errors.Unwrap(err), remedy: "mount -t sysfs sysfs /sys; with bwrap: --ro-bind /sys /sys"}
}

// needSys fails if exec cannot mount anything in /sys/kernel.
func needSys() error {
	if f := checkSys(); f.err != nil {
		return fmt.Errorf("there is no /sys/kernel to mount the files in: %w; %s", f.err, f.remedy)
	}
	return nil
}

// checkTemp checks for a directory in which exec can make the one for its tree.
func checkTemp() finding {
	f := finding{part: partExec, what: "a directory for the tree"}
	dir, held, err := space.TempDir()
	if err != nil {
		f.err, f.remedy = err, "TMPDIR=DIR, a directory that can be written; in a container: a tmpfs at /tmp"
		return f
	}
	defer held.Close()
	f.note = filepath.Dir(dir)
	_ = os.Remove(dir)
	return f
}

// fuseDevice is the number of /dev/fuse.
var fuseDevice = unix.Mkdev(10, 229)

// openDevice opens /dev/fuse. It fails with ENODEV if that is another device or a file.
func openDevice() error {
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dev.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != fuseDevice {
		return &os.PathError{Op: "open", Path: "/dev/fuse", Err: syscall.ENODEV}
	}
	return nil
}

// checkDevice checks whether /dev/fuse can be opened. fusermount3 opens it as the user, too.
func checkDevice() finding {
	f := finding{what: "/dev/fuse"}
	if err := openDevice(); err != nil {
		f.err, f.remedy = errors.Unwrap(err), deviceRemedy(err)
	}
	return f
}

// deviceRemedy tells how to repair an error of opening /dev/fuse.
func deviceRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES):
		return "chmod 666 /dev/fuse (as root)"
	case errors.Is(err, syscall.EPERM):
		return "this container may not use the device: start it with --device /dev/fuse"
	case errors.Is(err, syscall.ENOENT):
		return "modprobe fuse (as root); in a container: start it with --device /dev/fuse"
	case errors.Is(err, syscall.ENODEV) && hostview.Exists("/dev/fuse"):
		return "modprobe fuse, or mknod /dev/fuse c 10 229 if that is another device (as root); in a container: start it with --device /dev/fuse"
	}
	return "modprobe fuse (as root)"
}

// checkEngine says what executes the emulated kernel's code here. The interpreter can
// do so everywhere: nothing is missing without the native engine.
func checkEngine() finding {
	f := finding{what: "engine", note: "native"}
	if _, err := kernel.EngineNative.Resolve(); err != nil {
		f.note = fmt.Sprintf("interp, a tenth as fast (%v)", err)
	}
	return f
}

// checkPerf says what perf can do below exec. Nothing else depends on it.
func checkPerf() finding {
	f := finding{part: partExec, what: "perf", note: "counts and records our events"}
	switch mappable, err := anoninode.Try(); {
	case err != nil:
		f.note = fmt.Sprintf("counts the host's events only (%v)", err)
		if os.Geteuid() != 0 {
			f.note = "counts and records our events, in the namespace of exec"
		}
	case !mappable:
		f.note = "counts and records our events; a descriptor is exchanged while it is mapped (no FUSE passthrough)"
	}
	return f
}

// checkExec tries what exec needs: a private namespace in which FUSE can be mounted.
func checkExec() finding {
	f := finding{part: partExec, what: "a private namespace with a FUSE mount"}
	cmd := exec.Command(self, "try-mount", "--exec")
	privateNamespace(cmd)
	f.try(cmd)
	return f
}

// try runs try-mount.
func (f *finding) try(cmd *exec.Cmd) {
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
	case cmd.ProcessState == nil && errors.Is(err, os.ErrNotExist): // /proc/self/exe or /dev/null
		f.err, f.remedy = err, "a /proc and a /dev; with bwrap: --proc /proc --dev /dev"
	case cmd.ProcessState == nil:
		f.err, f.remedy = err, namespaceRemedy
	default:
		f.err = errors.New(strings.TrimPrefix(strings.TrimSpace(string(out)), "kprobefs: "))
		f.remedy = "see /dev/fuse above; in a container give CAP_SYS_ADMIN and --security-opt apparmor=unconfined"
	}
}

// checkMount checks what a mount in the caller's namespace needs: for root, what mount(2) does in
// a copy of the namespace, and for others fusermount3.
func checkMount() finding {
	f := finding{part: partMount, what: "CAP_SYS_ADMIN, or fusermount3"}
	if os.Geteuid() != 0 {
		f.note, f.remedy, f.err = checkFusermount()
		return f
	}
	if !mayMount() {
		f.err = errors.New("root without CAP_SYS_ADMIN may not mount")
		f.remedy = "in a container: --cap-add SYS_ADMIN; or below unshare -Urm"
		return f
	}
	cmd := exec.Command(self, "try-mount")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if f.try(cmd); f.err == nil {
		f.note = "this process may mount"
	}
	return f
}

const elseAsRoot = "; or mount as root, or below unshare -Urm"

// checkFusermount checks whether fusermount3, which must become root, can mount for this user.
func checkFusermount() (path, remedy string, err error) {
	if path, err = exec.LookPath("fusermount3"); err != nil {
		return "", "apt-get install fuse3" + elseAsRoot, err
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", "apt-get install --reinstall fuse3", err
	}
	var in unix.Statfs_t
	_ = unix.Statfs(path, &in)
	_, nameless := user.LookupId(strconv.Itoa(os.Getuid()))
	noNew, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	bounded, berr := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN, 0, 0, 0)
	switch {
	case st.Mode&unix.S_ISUID == 0 || st.Uid != 0:
		return "", "chmod u+s " + path + " (as root)" + elseAsRoot, fmt.Errorf("%s is not set-user-ID root", path)
	case in.Flags&unix.ST_NOSUID != 0:
		return "", "mount -o remount,suid (as root)" + elseAsRoot, fmt.Errorf("%s is on a filesystem that is mounted with nosuid", path)
	case noNew == 1:
		return "", "in a container: without --security-opt no-new-privileges" + elseAsRoot, fmt.Errorf("this process may not get privileges (no_new_privs), which %s needs", path)
	case berr == nil && bounded == 0:
		return "", "in a container: --cap-add SYS_ADMIN" + elseAsRoot, fmt.Errorf("CAP_SYS_ADMIN is dropped, also for %s", path)
	case nameless != nil: // fusermount3: could not determine username
		return "", "a line for it in /etc/passwd; or below unshare -Urm", fmt.Errorf("uid %d has no name, without which fusermount3 does not mount", os.Getuid())
	}
	if err := openDevice(); err != nil {
		return "", deviceRemedy(err), fmt.Errorf("/dev/fuse: %w", errors.Unwrap(err))
	}
	return path, "", nil
}

// mayMount reports whether this process has CAP_SYS_ADMIN.
func mayMount() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&hdr, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// checkPlace checks whether a tree can be mounted on dir, or is.
func checkPlace(dir string) finding {
	f := finding{part: partMount, what: dir}
	abs, err := cli.Absolute(dir)
	if err != nil {
		f.err, f.remedy = err, "name a directory"
		return f
	}
	st, err := os.Stat(abs)
	mounted := fs.MountedOn(abs)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.err, f.remedy = syscall.ENOENT, "mkdir -p "+dir+", or mount --mkdir"
	case errors.Is(err, syscall.ENOTCONN) && fs.Ours(abs):
		f.note = "a kprobefs that has ended left its mount here; mounting removes it"
	case err != nil:
		f.err, f.remedy = errors.Unwrap(err), "umount -l "+dir+" (as root)"
	case !st.IsDir():
		f.err, f.remedy = syscall.ENOTDIR, "take another place"
	case fs.Ours(abs):
		f.note = "a kprobefs is mounted here; kprobefs umount " + dir + " removes it"
	case os.Geteuid() != 0 && !mayCover(abs, st):
		f.err, f.remedy = fmt.Errorf("fusermount3 mounts only on a directory that is writable for uid %d and, with the sticky bit, its own", os.Getuid()), "take a directory of your own"
	case mounted != "":
		f.note = fmt.Sprintf("the mount of type %s will be covered", mounted)
	}
	return f
}

// mayCover reports whether fusermount3 mounts on a directory for this user.
func mayCover(dir string, st os.FileInfo) bool {
	own, ok := st.Sys().(*syscall.Stat_t)
	sticky := st.Mode()&os.ModeSticky != 0
	return unix.Access(dir, unix.W_OK) == nil && (!sticky || ok && int(own.Uid) == os.Getuid())
}

// tryCommand is the command that checkExec and checkMount run in a new namespace.
func tryCommand() *cobra.Command {
	forExec := false
	c := &cobra.Command{
		Use:    "try-mount",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return tryMount(forExec) },
	}
	c.Flags().BoolVar(&forExec, "exec", false, "")
	return c
}

// tryMount mounts a FUSE that nobody serves; it disappears with the namespace. It covers /proc,
// which is there and is a mount also in a chroot, whose root may be none; exec needs that it is.
func tryMount(forExec bool) error {
	if forExec {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make / private: %w", err)
		}
	}
	if err := unix.Mount("", hostview.ProcDir, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make %s private: %w", hostview.ProcDir, err)
	}
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", dev.Fd(), os.Geteuid(), os.Getegid())
	if err := unix.Mount("kprobefs", hostview.ProcDir, "fuse.kprobefs", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return fmt.Errorf("mount of FUSE: %w", err)
	}
	return nil
}
