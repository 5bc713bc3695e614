package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// fsType is the filesystem type in /proc/mounts, without "fuse.".
const fsType = "kprobefs"

// maxIO is the largest READ and WRITE, bytes. It is a page less than FUSE's limit, with
// which splicing to the device fails.
const maxIO = 1<<20 - 4096

// maxReleases is how many RELEASE requests the host's kernel may send at a time. With
// the default of 12 they would queue without end while many processes read and write.
const maxReleases = 1 << 12

// MountOptions are the options of a mount. The zero value has the defaults.
type MountOptions struct {
	// Source is the first field in /proc/mounts, by which some programs find
	// tracefs. The default is kprobefs.
	Source string
	// Options are passed to mount(2), or to fusermount3, as they are: "ro", "noexec", ...
	Options []string
	// Private keeps out users other than the one who mounts. Mounts of an ordinary
	// user without a user namespace are private unless Options have "allow_other", which
	// fusermount3 refuses where /etc/fuse.conf has no user_allow_other.
	Private bool
}

// allowOther is the option that lets other users in. Root and root of a user namespace may
// always give it.
const allowOther = "allow_other"

// Mount is a mounted directory of a Tree.
type Mount struct {
	Dir  string // absolute
	fs   *filesystem
	done chan struct{}
	once sync.Once
	err  error // of Detach

	connection *connection // of a Sequence, else nil
}

// Mount serves root at dir until the mount ends. It first detaches a mount that a
// killed daemon has left there.
func (t *Tree) Mount(root *seqfile.Row, dir string, o MountOptions) (*Mount, error) {
	dir, unlock, err := t.place(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	f := newFilesystem(t, root)
	t.top.CompareAndSwap(nil, f.root)
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
	m := &Mount{Dir: dir, fs: f, done: make(chan struct{})}
	t.releases.join(f)
	go func() {
		defer close(m.done)
		f.server.serve()
		t.releases.leave(f)
		for _, h := range f.handles.all() {
			h.release(context.Background())
		}
	}()
	return m, nil
}

// place prepares a directory for a mount, and returns its absolute path. unlock must be called after the mount.
func (t *Tree) place(dir string) (abs string, unlock func(), err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	unlock = lockPlace(dir)
	if err := clearDead(dir); err != nil {
		unlock()
		return "", nil, err
	}
	if err := MountPlace(dir); err != nil {
		unlock()
		return "", nil, mountError(dir, err)
	}
	return dir, unlock, nil
}

func (t *Tree) fuseOptions() *fuse.MountOptions {
	return &fuse.MountOptions{
		MaxWrite:      maxIO,
		MaxBackground: maxReleases,
		// The page cache must not ask ahead for what a file that is spliced does not have
		// yet, and who waits for it must be interruptible.
		MaxReadAhead: 1,
		SyncRead:     true,
		// READDIRPLUS would look up each entry, and its attributes would not be cached.
		DisableReadDirPlus: true,
		EnableLocks:        true,
		ExtraCapabilities:  fuse.CAP_ATOMIC_O_TRUNC,
		Logger:             log.New(t.log.WriterLevel(fuseLogLevel), "", 0),
	}
}

// connect mounts at dir and returns the descriptor of /dev/fuse. It uses mount(2) as
// root or with CAP_SYS_ADMIN, and else fusermount3, which is setuid. No other program may
// inherit the descriptor, or requests would wait for a daemon that has ended.
func connect(dir string, o MountOptions) (fd int, err error) {
	source := o.Source
	if source == "" {
		source = fsType
	}
	if !mayMount() {
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
	if !o.Private && !slices.Contains(data, allowOther) {
		data = append(data, allowOther)
	}
	mount := func() error { return unix.Mount(source, dir, "fuse."+fsType, flags, strings.Join(data, ",")) }
	if err := asAdmin(mount); err != nil {
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

// mountFlags splits options into the flags and the data of mount(2).
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

// escape escapes commas in the value of an option.
func escape(s string) string { return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(s) }

// fusermount mounts at dir with fusermount3 or fusermount, and returns the descriptor
// that it sends.
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

// receive receives a descriptor from a socket.
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

// mountError adds what to do about the usual reasons of err.
func mountError(dir string, err error) error {
	text := strings.TrimSpace(err.Error())
	hint := ""
	dev, derr := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if derr == nil {
		_ = dev.Close()
	}
	switch {
	case strings.Contains(text, "user_allow_other"): // fusermount3 says what to do
	case !exists("/dev/fuse"), errors.Is(derr, syscall.ENXIO), errors.Is(derr, syscall.ENODEV):
		hint = "; this machine has no /dev/fuse: load the module (modprobe fuse), or give the container --device /dev/fuse"
	case derr != nil:
		hint = "; /dev/fuse must be readable and writable for this user (chmod 666 /dev/fuse)"
	case errors.Is(err, exec.ErrNotFound), !mayMount() && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR):
		hint = "; mounting without root needs fusermount3 (package fuse3) and a directory of one's own, or a user namespace (unshare -Urm, or kprobefs exec)"
	case errors.Is(err, syscall.ENOENT):
		hint = "; make the directory first: mkdir -p " + dir
	case errors.Is(err, syscall.EPERM):
		hint = "; mounting needs CAP_SYS_ADMIN: root, or a user namespace (unshare -Urm, or kprobefs exec)"
	}
	return &hintError{err, fmt.Sprintf("mount on %s: %s%s", dir, text, hint)}
}

// hintError is an error with a text of its own.
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

// MountPlace returns an error if no tree can be mounted at dir: ENOTDIR for a file,
// over which mount(2) would succeed, or the error of stat(2). A dead mount of ours is
// allowed, since Mount detaches it.
func MountPlace(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, syscall.ENOTCONN) && mountedOurs(dir):
		return nil
	case err != nil:
		return err
	case !st.IsDir():
		return &os.PathError{Op: "stat", Path: dir, Err: syscall.ENOTDIR}
	}
	return nil
}

// clearDead detaches a mount of ours whose daemon has ended. All calls on it give
// ENOTCONN, also mount(2).
func clearDead(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, syscall.ENOTCONN) {
		return nil
	}
	if !mountedOurs(dir) {
		return fmt.Errorf("%s: a dead mount of another filesystem: %w", dir, syscall.ENOTCONN)
	}
	return Detach(dir)
}

// lockTime is how long to wait for another process that mounts or unmounts.
const lockTime = time.Second

// lockPlace keeps other processes of this program from mounting on dir and from
// detaching a dead mount there: in between, a live one might replace the dead one that
// they have seen. It locks the parent directory, if that can be opened.
func lockPlace(dir string) (unlock func()) {
	fd, err := unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	// Other programs may hold a lock of that directory for ever.
	for end := time.Now().Add(lockTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
	}
	return func() { _ = unix.Close(fd) }
}

// DetachDead detaches the mount on dir if it is ours and its daemon has ended.
func DetachDead(dir string) error {
	unlock := lockPlace(dir)
	defer unlock()
	if !Dead(dir) {
		return nil
	}
	return Detach(dir)
}

// Dead reports whether there is a mount of ours on dir whose daemon has ended. A
// request that was pending at that time gives ECONNABORTED, later ones ENOTCONN.
func Dead(dir string) bool {
	_, err := os.Stat(dir)
	if errors.Is(err, syscall.ECONNABORTED) {
		_, err = os.Stat(dir)
	}
	return errors.Is(err, syscall.ENOTCONN) && mountedOurs(dir)
}

// Served reports whether there is a mount of ours on dir whose daemon runs. It looks
// for the mount twice, since a watcher may detach a dead one before Dead's stat(2),
// which the directory below would then answer.
func Served(dir string) bool { return mountedOurs(dir) && !Dead(dir) && mountedOurs(dir) }

// mountedOurs reports whether a mount of our type is on dir.
func mountedOurs(dir string) bool {
	for _, m := range mountTable() {
		if m.dir == dir && m.fstype == "fuse."+fsType {
			return true
		}
	}
	return false
}

// mounted is a line of mountinfo.
type mounted struct {
	id, dir, fstype string
	device          string // MAJOR:MINOR
	root            string // the directory of the filesystem that is mounted
	source          string
	data            []string // the filesystem's options
}

// mountTable returns the mounts of this namespace in their order. A later one on the
// same directory covers an earlier one.
func mountTable() []mounted { return mountTableOf("self") }

// mountTableOf returns the mounts of the namespace of a process.
func mountTableOf(process string) []mounted {
	f, err := os.Open("/proc/" + process + "/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	infos, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return nil
	}
	list := make([]mounted, len(infos))
	for i, m := range infos {
		list[i] = mounted{
			strconv.Itoa(m.ID), m.Mountpoint, m.FSType, fmt.Sprintf("%d:%d", m.Major, m.Minor), m.Root, m.Source, strings.Split(m.VFSOptions, ","),
		}
	}
	return list
}

// TreeMount is a mount of a whole tree.
type TreeMount struct {
	Dir    string // in its mount namespace
	Device string // MAJOR:MINOR, the same for each mount of the tree in all mount namespaces
	UID    int    // the user who has mounted it, in the user namespace of the mount
}

// Trees lists the whole trees, dead or alive, in the mount namespace of a process, 0 for this
// process. Parts of trees, binds of their files, and what another mount covers are left out.
func Trees(pid int) []TreeMount {
	process := "self"
	if pid != 0 {
		process = strconv.Itoa(pid)
	}
	table := mountTableOf(process)
	var trees []TreeMount
	for i, m := range table {
		covered := slices.ContainsFunc(table[i+1:], func(later mounted) bool { return later.dir == m.dir })
		if covered || m.fstype != "fuse."+fsType || m.root != "/" || m.source != fsType {
			continue
		}
		t := TreeMount{Dir: m.dir, Device: m.device}
		for _, o := range m.data {
			if id, ok := strings.CutPrefix(o, "user_id="); ok {
				t.UID, _ = strconv.Atoi(id)
			}
		}
		trees = append(trees, t)
	}
	return trees
}

// MountedOn returns the type of the topmost filesystem that is mounted on dir itself,
// or "".
func MountedOn(dir string) string {
	fstype := ""
	for _, m := range mountTable() {
		if m.dir == dir {
			fstype = m.fstype
		}
	}
	return fstype
}

// LiveMounts lists the mounts of this program whose daemon answers.
func LiveMounts() []string {
	var live []string
	for _, m := range mountTable() {
		if m.fstype == "fuse."+fsType && statSoon(m.dir) == nil {
			live = append(live, m.dir)
		}
	}
	return live
}

// DeadMounts lists the mounts of this program whose daemon has ended.
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

// statSoon returns the error of stat(2), or ETIMEDOUT after a second, as with a daemon
// that is stopped.
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

// Detach detaches a mount at once, even if it is in use (umount -l).
func Detach(dir string) error {
	err := asAdmin(func() error { return unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) })
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

// Ours reports whether dir is a mount of this program, dead or alive.
func Ours(dir string) bool { return mountedOurs(dir) }

// Inodes is the number of inodes of the mount's tree: those that the host's kernel
// knows, and the rows of fixed directories.
func (m *Mount) Inodes() int {
	t := m.fs.tree.inodes
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// Open is the number of open files and directories of the mount.
func (m *Mount) Open() int {
	m.fs.handles.mu.Lock()
	defer m.fs.handles.mu.Unlock()
	return len(m.fs.handles.open)
}

// Done is closed when the mount has ended, and no process uses it any more.
func (m *Mount) Done() <-chan struct{} { return m.done }

// Detached returns a channel that is closed when the mount is no longer in this process's
// mount namespace. Bind mounts of it and open files may still use it.
func (m *Mount) Detached() <-chan struct{} {
	gone := make(chan struct{})
	id := ""
	for _, l := range mountTable() { // the last one is on top
		if l.dir == m.Dir {
			id = l.id
		}
	}
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil || id == "" {
		return gone
	}
	go func() {
		defer unix.Close(fd)
		for slices.ContainsFunc(mountTable(), func(l mounted) bool { return l.id == id }) {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, -1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
		}
		close(gone)
	}()
	return gone
}

// Detach detaches the mount. Open files and bind mounts of it stay usable, and the
// mount ends with the last of them, or with this process.
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

// End detaches the mount and waits at most grace for its end. It returns false if
// processes still use it.
func (m *Mount) End(grace time.Duration) bool {
	if err := m.Detach(); err != nil {
		m.fs.tree.log.WithField("err", err).Debug("detach")
	}
	select {
	case <-m.done:
		return true
	case <-time.After(grace):
		return false
	}
}
