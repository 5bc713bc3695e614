package fs

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// fsType is the part after "fuse." in /proc/mounts.
const fsType = "kprobefs"

// maxIO is the largest READ and WRITE, bytes: a page below FUSE's limit, as with
// the limit itself splicing to the device fails.
const maxIO = 1<<20 - 4096

// maxReleases is how many closed files the host's kernel may tell us of at a time.
// The default of 12 makes them wait behind whoever reads and writes, and with many
// readers the line grows without end.
const maxReleases = 1 << 12

// MountOptions is what a mount may differ in. The zero value is a usual one.
type MountOptions struct {
	// Source is the first field of /proc/mounts; "": kprobefs. Some programs
	// find tracefs by it.
	Source string
	// Options are passed to mount(2) as they are: "ro", "noexec", ...
	Options []string
	// Private keeps other users than the mounting one out. Root mounts for all
	// otherwise; an ordinary user without a user namespace is always private.
	Private bool
}

// Mount is one mounted face of a Tree.
type Mount struct {
	Dir  string // absolute
	face *face
	done chan struct{}
	once sync.Once
	err  error // of Detach
}

// Mount serves root at dir until it is detached, by Detach or from outside. A
// dead mount of ours that a killed daemon left there is taken away first.
func (t *Tree) Mount(root *seqfile.Row, dir string, o MountOptions) (*Mount, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	unlock := lockPlace(dir)
	defer unlock()
	if err := clearDead(dir); err != nil {
		return nil, err
	}
	f := newFace(t, root)
	fd, err := connect(dir, o)
	if err != nil {
		return nil, mountError(dir, err)
	}
	f.server = newServer(fd, f, t.fuseOptions())
	if err := f.server.init(); err != nil {
		_ = unix.Close(fd)
		_ = Detach(dir)
		return nil, mountError(dir, err)
	}
	m := &Mount{Dir: dir, face: f, done: make(chan struct{})}
	t.releases.join(f)
	go func() {
		defer close(m.done)
		f.server.serve()
		t.releases.leave(f)
		for _, h := range f.handles.all() {
			h.release()
		}
	}()
	return m, nil
}

func (t *Tree) fuseOptions() *fuse.MountOptions {
	return &fuse.MountOptions{
		MaxWrite:      maxIO,
		MaxBackground: maxReleases,
		// An `ls` costs no look-ups that nobody asked for; attributes are not
		// cached anyway.
		DisableReadDirPlus: true,
		EnableLocks:        true,
		ExtraCapabilities:  fuse.CAP_ATOMIC_O_TRUNC,
		Logger:             log.New(t.log.WriterLevel(fuseLogLevel), "", 0),
	}
}

// connect mounts at dir and gives the descriptor of /dev/fuse that serves it:
// with mount(2) as root, else by way of fusermount3, which is setuid. No other
// program may inherit the descriptor: as long as one had it, requests would wait
// for a daemon that is gone.
func connect(dir string, o MountOptions) (fd int, err error) {
	source := o.Source
	if source == "" {
		source = fsType
	}
	if os.Geteuid() != 0 {
		return fusermount(dir, append(slices.Clone(o.Options), "fsname="+escape(source), "subtype="+fsType, fmt.Sprintf("max_read=%d", maxIO)))
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return -1, err
	}
	if fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	flags, data := mountFlags(o.Options)
	data = append(data, fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d,max_read=%d", fd, st.Mode&unix.S_IFMT, os.Geteuid(), os.Getegid(), maxIO))
	if !o.Private {
		data = append(data, "allow_other")
	}
	if err := unix.Mount(source, dir, "fuse."+fsType, flags, strings.Join(data, ",")); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// flagWords are the options that mount(2) takes as bits.
var flagWords = map[string]struct{ set, clear uintptr }{
	"nosuid": {set: unix.MS_NOSUID}, "suid": {clear: unix.MS_NOSUID},
	"nodev": {set: unix.MS_NODEV}, "dev": {clear: unix.MS_NODEV},
	"noexec": {set: unix.MS_NOEXEC}, "exec": {clear: unix.MS_NOEXEC},
}

// mountFlags gives options as mount(2) takes them.
func mountFlags(options []string) (flags uintptr, data []string) {
	flags = unix.MS_NOSUID | unix.MS_NODEV
	for _, o := range options {
		w, ok := flagWords[o]
		if !ok {
			data = append(data, o)
		}
		flags = flags&^w.clear | w.set
	}
	return flags, data
}

// escape keeps commas in the value of an option.
func escape(s string) string { return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(s) }

// fusermount has fusermount3, or fusermount, mount at dir and takes the
// descriptor from it.
func fusermount(dir string, options []string) (int, error) {
	program, err := exec.LookPath("fusermount3")
	if err != nil {
		if program, err = exec.LookPath("fusermount"); err != nil {
			return -1, err
		}
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ends[0])
	theirs := os.NewFile(uintptr(ends[1]), "fusermount")
	defer theirs.Close()
	cmd := exec.Command(program, "-o", strings.Join(options, ","), "--", dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	if out, err := cmd.CombinedOutput(); err != nil {
		return -1, fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return receive(ends[0])
}

// receive takes a descriptor from a socket.
func receive(socket int) (int, error) {
	var data [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data[:], control, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("fusermount sent no descriptor: %w", errors.Join(err, syscall.EPROTO))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("fusermount sent no descriptor: %w", errors.Join(err, syscall.EPROTO))
	}
	return fds[0], nil
}

// mountError says what to do about the usual reasons.
func mountError(dir string, err error) error {
	text := strings.TrimSpace(err.Error())
	hint := ""
	dev, derr := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if derr == nil {
		_ = dev.Close()
	}
	switch {
	case !exists("/dev/fuse"), errors.Is(derr, syscall.ENXIO), errors.Is(derr, syscall.ENODEV):
		hint = "; this machine has no /dev/fuse: load the module (modprobe fuse), or give the container --device /dev/fuse"
	case derr != nil:
		hint = "; /dev/fuse must be readable and writable for this user (chmod 666 /dev/fuse)"
	case errors.Is(err, exec.ErrNotFound), os.Geteuid() != 0 && !errors.Is(err, syscall.ENOENT):
		hint = "; mounting without root needs fusermount3 (package fuse3) and a directory of one's own, or a user namespace (unshare -Urm, or kprobefs exec)"
	case errors.Is(err, syscall.EPERM):
		hint = "; mounting needs CAP_SYS_ADMIN: root, or a user namespace (unshare -Urm, or kprobefs exec)"
	}
	return &hintError{err, fmt.Sprintf("mount on %s: %s%s", dir, text, hint)}
}

// hintError is an error that says more than it wraps.
type hintError struct {
	err  error
	text string
}

func (e *hintError) Error() string { return e.text }
func (e *hintError) Unwrap() error { return e.err }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// clearDead detaches a mount of ours whose daemon is gone: all calls on it give
// ENOTCONN, and nothing could be mounted over it.
func clearDead(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, syscall.ENOTCONN) {
		return nil
	}
	if !mountedOurs(dir) {
		return fmt.Errorf("%s: a dead mount of another filesystem: %w", dir, syscall.ENOTCONN)
	}
	return Detach(dir)
}

// lockTime is how long a mount of this program may take to begin or end.
const lockTime = time.Second

// lockPlace keeps other processes of this program from mounting on dir, and from
// taking away what is dead there: who sees a dead mount must not detach the live
// one that has come since. The lock is one of the directory above. Where that
// cannot be opened there is none.
func lockPlace(dir string) (unlock func()) {
	fd, err := unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	// Others may hold locks of that directory for ever: they are not waited for.
	for end := time.Now().Add(lockTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
	}
	return func() { _ = unix.Close(fd) }
}

// DetachDead takes the mount on dir away if it is ours and its daemon is gone.
func DetachDead(dir string) error {
	unlock := lockPlace(dir)
	defer unlock()
	if !Dead(dir) {
		return nil
	}
	return Detach(dir)
}

// Dead says whether there is a mount of ours on dir whose daemon is gone. A
// request that was on its way when that happened ends with ECONNABORTED, later
// ones with ENOTCONN.
func Dead(dir string) bool {
	_, err := os.Stat(dir)
	if errors.Is(err, syscall.ECONNABORTED) {
		_, err = os.Stat(dir)
	}
	return errors.Is(err, syscall.ENOTCONN) && mountedOurs(dir)
}

// Served says whether there is a mount of ours on dir whose daemon lives. A dead
// one may be taken away by its watcher while we look: then it is there, and the
// directory below it answers.
func Served(dir string) bool { return mountedOurs(dir) && !Dead(dir) && mountedOurs(dir) }

// mountedOurs looks for a mount of our type on dir.
func mountedOurs(dir string) bool {
	for _, m := range mountTable() {
		if m.dir == dir && m.fstype == "fuse."+fsType {
			return true
		}
	}
	return false
}

// mounted is a line of /proc/self/mountinfo.
type mounted struct{ dir, fstype string }

// mountTable lists the mounts of this namespace, in their order; a later one on
// the same place covers an earlier one.
func mountTable() []mounted {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var list []mounted
	for line := range strings.Lines(string(b)) {
		head, tail, _ := strings.Cut(line, " - ")
		f, t := strings.Fields(head), strings.Fields(tail)
		if len(f) > 4 && len(t) > 0 {
			list = append(list, mounted{unescape(f[4]), t[0]})
		}
	}
	return list
}

// MountedOn gives the type of the uppermost filesystem that is mounted on dir
// itself; "": none is.
func MountedOn(dir string) string {
	fstype := ""
	for _, m := range mountTable() {
		if m.dir == dir {
			fstype = m.fstype
		}
	}
	return fstype
}

// DeadMounts lists the mounts of this program whose daemon is gone.
func DeadMounts() []string {
	var dead []string
	for _, m := range mountTable() {
		if m.fstype != "fuse."+fsType {
			continue
		}
		if errors.Is(statSoon(m.dir), syscall.ENOTCONN) {
			dead = append(dead, m.dir)
		}
	}
	return dead
}

// statSoon is stat's error; a daemon that is stopped is not waited for.
func statSoon(dir string) error {
	done := make(chan error, 1)
	go func() {
		_, err := os.Stat(dir)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Second):
		return syscall.ETIMEDOUT
	}
}

// unescape undoes mountinfo's octal for blanks, newlines and backslashes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// Detach takes a mount from its place at once, whoever uses it (umount -l).
func Detach(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == nil || !errors.Is(err, syscall.EPERM) {
		return wrap("unmount "+dir, err)
	}
	out, ferr := exec.Command("fusermount3", "-u", "-z", dir).CombinedOutput()
	if ferr != nil {
		return fmt.Errorf("unmount %s: %w; fusermount3: %w: %s", dir, err, ferr, strings.TrimSpace(string(out)))
	}
	return nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Ours says whether dir is a mount of this program, dead or alive.
func Ours(dir string) bool { return mountedOurs(dir) }

// Inodes is how many inodes the mount's tree holds: those that the host's kernel
// knows, and the fixed directories.
func (m *Mount) Inodes() int {
	t := m.face.tree.inodes
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// Open is how many files and directories of the mount are open.
func (m *Mount) Open() int {
	m.face.handles.mu.Lock()
	defer m.face.handles.mu.Unlock()
	return len(m.face.handles.open)
}

// Done is closed when the mount has ended: no process uses it any more.
func (m *Mount) Done() <-chan struct{} { return m.done }

// Detach takes the mount from its place. Open files and other places where it is
// bound stay usable; the mount ends with them, or with this process. (go-fuse's
// own Unmount waits for them for ever.)
func (m *Mount) Detach() error {
	m.once.Do(func() {
		select {
		case <-m.done:
		default:
			m.err = Detach(m.Dir)
		}
	})
	return m.err
}

// End detaches and gives users grace to end; false: some were still there.
func (m *Mount) End(grace time.Duration) bool {
	if err := m.Detach(); err != nil {
		m.face.tree.log.WithField("err", err).Debug("detach")
	}
	select {
	case <-m.done:
		return true
	case <-time.After(grace):
		return false
	}
}
