package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/anoninode"
	"github.com/kprobefs/kprobefs/kernel"
)

// finding is the result of one check of the machine.
type finding struct {
	what   string // "/dev/fuse"
	err    error  // what is missing, or nil
	remedy string // how to repair err
	note   string // further information, printed when err is nil
}

// print writes a finding as a line, with a second line for the remedy.
func (f finding) print(w io.Writer) {
	switch {
	case f.err != nil:
		fmt.Fprintf(w, "lacks  %s: %v\n       remedy: %s\n", f.what, f.err, f.remedy)
	case f.note != "":
		fmt.Fprintf(w, "ok     %s: %s\n", f.what, f.note)
	default:
		fmt.Fprintf(w, "ok     %s\n", f.what)
	}
}

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [MNT]",
		Short: "Report what this machine lacks, and how to repair it",
		Long: `Check whether 'kprobefs exec' and 'kprobefs mount MNT' can work here: /proc, /sys, /dev/fuse, a
private namespace in which a mount is allowed, fusermount3 for mounts of an
ordinary user, and whether something is in the way at the directory MNT. Each
thing that is missing comes with a remedy. It also says what executes the kernel's
code, and what perf can do below exec. Nothing is changed.

The exit status is 0 if nothing is missing, else 1.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			list := []finding{checkProc(), checkSys(), checkDevice(), checkExec(), checkMount(), checkEngine(), checkPerf()}
			for _, dir := range args {
				list = append(list, checkPlace(dir))
			}
			for _, dir := range fs.DeadMounts() {
				list = append(list, finding{
					what: dir, err: errors.New("a mount of a kprobefs that has ended"), remedy: "kprobefs umount " + dir,
				})
			}
			return report(cmd.OutOrStdout(), list)
		},
	}
}

// report prints all findings. If anything is missing, the exit status is 1.
func report(w io.Writer, list []finding) error {
	var missing error
	for _, f := range list {
		f.print(w)
		missing = errors.Join(missing, f.err)
	}
	if missing != nil {
		return &exitError{err: missing, said: true}
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
	return finding{what: "exec: /sys/kernel", err: errors.Unwrap(err), remedy: "mount -t sysfs sysfs /sys; with bwrap: --ro-bind /sys /sys"}
}

func checkDevice() finding {
	f := finding{what: "/dev/fuse"}
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		_ = dev.Close()
		return f
	}
	f.err = errors.Unwrap(err)
	f.remedy = deviceRemedy(err)
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
	f := finding{what: "exec: perf", note: "counts and records our events"}
	switch mappable, err := anoninode.Try(); {
	case err != nil:
		f.note = fmt.Sprintf("counts the host's events only (%v)", err)
		if os.Geteuid() != 0 {
			f.note = "counts our events; records need root"
		}
	case !mappable:
		f.note = "counts our events; records need Linux 6.9, with CONFIG_FUSE_PASSTHROUGH, and root"
	}
	return f
}

// checkExec tries what exec needs: a private namespace in which FUSE can be mounted.
func checkExec() finding {
	f := finding{what: "exec: a private namespace with a FUSE mount"}
	cmd := exec.Command(self, "try-mount")
	privateNamespace(cmd)
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
	return f
}

// checkMount checks what a mount in the caller's namespace needs.
func checkMount() finding {
	f := finding{what: "mount: CAP_SYS_ADMIN, or fusermount3"}
	if mayMount() {
		f.note = "this process may mount"
		return f
	}
	path, err := exec.LookPath("fusermount3")
	if err != nil {
		f.err, f.remedy = err, "apt-get install fuse3; or mount as root, or below unshare -Urm"
		return f
	}
	st, err := os.Stat(path)
	_, nameless := user.LookupId(strconv.Itoa(os.Getuid()))
	switch {
	case err != nil:
		f.err, f.remedy = err, "apt-get install --reinstall fuse3"
	case nameless != nil: // fusermount3: could not determine username
		f.err = fmt.Errorf("uid %d has no name, without which fusermount3 does not mount", os.Getuid())
		f.remedy = "a line for it in /etc/passwd; or below unshare -Urm"
	case st.Mode()&os.ModeSetuid == 0:
		f.err = fmt.Errorf("%s is not set-user-ID root", path)
		f.remedy = "chmod u+s " + path + " (as root); or mount as root, or below unshare -Urm"
	default:
		f.note = path
	}
	return f
}

// mayMount reports whether this process has CAP_SYS_ADMIN.
func mayMount() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&hdr, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// checkPlace checks whether a tree can be mounted on dir.
func checkPlace(dir string) finding {
	f := finding{what: dir}
	abs, err := absolute(dir)
	if err != nil {
		f.err, f.remedy = err, "name a directory"
		return f
	}
	st, err := os.Stat(abs)
	mounted := fs.MountedOn(abs)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.err, f.remedy = syscall.ENOENT, "mkdir -p "+dir
	case errors.Is(err, syscall.ENOTCONN) && fs.Ours(abs):
		f.note = "a kprobefs that has ended left its mount here; mounting removes it"
	case err != nil:
		f.err, f.remedy = errors.Unwrap(err), "umount -l "+dir+" (as root)"
	case !st.IsDir():
		f.err, f.remedy = syscall.ENOTDIR, "take another place"
	case fs.Ours(abs):
		f.err, f.remedy = errors.New("a kprobefs is mounted here"), "kprobefs umount "+dir
	case mounted != "":
		f.err = fmt.Errorf("a mount of type %s is in the way: it would be covered", mounted)
		f.remedy = "umount " + dir + ", or take another place"
	}
	return f
}

// mountedCommand is for the probes of a container, whose image has no shell.
func mountedCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mounted MNT",
		Short: "Tell by the exit status whether the tree is served at MNT",
		Long: `Open and read a file of the tree at the directory MNT. The exit status is 0 when
it answers, else 1: no kprobefs is mounted there, or it has ended, or it hangs (for
three seconds).`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeDir,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := absolute(args[0])
			if err != nil {
				return err
			}
			return answers(dir)
		},
	}
}

// answerTime bounds the time in which a tree must answer.
const answerTime = 3 * time.Second

// answers reads a file that everybody may read.
func answers(dir string) error {
	if !fs.Ours(dir) {
		return fmt.Errorf("%s: no kprobefs is mounted there", dir)
	}
	done := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(filepath.Join(dir, "proc/version"))
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(answerTime):
		return fmt.Errorf("%s: no answer: %w", dir, syscall.ETIMEDOUT)
	}
}

// tryCommand is the command that checkExec runs in a new namespace.
func tryCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "try-mount",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return tryMount() },
	}
}

// tryMount mounts a FUSE that nobody serves; it disappears with the namespace.
func tryMount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	dir, err := tempDir()
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	data := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", dev.Fd(), os.Geteuid(), os.Getegid())
	if err := unix.Mount("kprobefs", dir, "fuse.kprobefs", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return fmt.Errorf("mount of FUSE: %w", err)
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}
