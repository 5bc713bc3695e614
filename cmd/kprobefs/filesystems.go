package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Programs look for tracefs and debugfs by the type that statfs(2) tells, or in
// /proc/mounts, and mount one if they find none: the host's, which would hide ours. Our
// files are those of a FUSE, and no FUSE can tell another type. So the supervisor answers
// these calls, for mounts of ours and in our mount namespace: statfs(2) and fstatfs(2),
// the opens of mounts, mountinfo and mountstats in /proc, and mount(2) of a tracefs or
// debugfs, in whichever namespace.

// The file systems of Linux that files of ours are in, by their names in /proc/filesystems.
const (
	traceFS = "tracefs"
	debugFS = "debugfs"
	procFS  = "proc"
	sysFS   = "sysfs"
	devFS   = "devtmpfs"
)

// magics are their numbers in struct statfs.
var magics = map[string]uint32{
	traceFS: unix.TRACEFS_MAGIC, debugFS: unix.DEBUGFS_MAGIC, procFS: unix.PROC_SUPER_MAGIC,
	sysFS: unix.SYSFS_MAGIC, devFS: unix.TMPFS_MAGIC,
}

// fuseType is the type of our mounts on the host.
const fuseType = "fuse.kprobefs"

// treeSource is the source of a mount of the whole tree; that of a mount of a part is the
// file system's name.
const treeSource = "kprobefs"

// hostMount is a line of /proc/PID/mountinfo.
type hostMount struct {
	line                           string
	id                             uint64
	root, point                    string // escaped: a blank is \040
	options, optional, kind, super string
	source                         string
}

// parseMount parses a line of mountinfo. It returns false if it is not one.
func parseMount(line string) (m hostMount, ok bool) {
	head, tail, _ := strings.Cut(line, " - ")
	f, g := strings.Fields(head), strings.Fields(tail)
	if len(f) < 6 || len(g) < 3 {
		return m, false
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	return hostMount{line, id, f[3], f[4], f[5], strings.Join(f[6:], " "), g[0], strings.Join(g[2:], " "), g[1]}, err == nil
}

// unescape returns a path of mountinfo as it is, and escape the reverse.
func unescape(p string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(p)
}

func escape(p string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(p)
}

// file says which file system of Linux a file is in whose path below the mount point is
// rel, and its path there. It returns "" if the mount is not one of ours, or the file not
// one of Linux.
func (m *hostMount) file(rel string) (name, inner string) {
	if m.kind != fuseType {
		return "", ""
	}
	at := path.Join("/", unescape(m.root), rel)
	switch m.source {
	case traceFS:
		return traceFS, at
	case debugFS:
	case treeSource:
		if rest, ok := cutDir(at, "/tracing"); ok {
			return traceFS, rest
		}
		rest, ok := cutDir(at, "/debugfs")
		if !ok && below(at, []string{"/kprobes"}) {
			rest, ok = at, true
		}
		if !ok {
			return m.bound(at), at
		}
		at = rest
	default:
		return "", ""
	}
	if rest, ok := cutDir(at, "/tracing"); ok {
		return traceFS, rest
	}
	return debugFS, at
}

// bound returns the file system that a file of the tree is mounted over, or stands for.
func (m *hostMount) bound(at string) string {
	point := ""
	if m.root != "/" {
		point = unescape(m.point)
	}
	switch {
	case below(point, []string{"/proc"}):
		return procFS
	case below(point, []string{"/sys"}): // in the tree that is /proc/sys, too
		return sysFS
	case below(point, []string{"/dev"}), below(at, []string{"/dev"}):
		return devFS
	case below(at, []string{"/proc"}):
		return procFS
	}
	return ""
}

// cutDir returns the path below a directory.
func cutDir(at, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(at, dir)
	return path.Join("/", rest), ok && (rest == "" || rest[0] == '/')
}

// mountsOfThread returns the mounts that a thread sees.
func mountsOfThread(tid int) ([]hostMount, error) {
	text, err := os.ReadFile(proc.Path(tid, "mountinfo"))
	if err != nil {
		return nil, err
	}
	var all []hostMount
	for line := range strings.Lines(string(text)) {
		if m, ok := parseMount(strings.TrimSuffix(line, "\n")); ok {
			all = append(all, m)
		}
	}
	return all, nil
}

// fileSystem says which file system of Linux a file is in that this process has opened,
// and its path there.
func fileSystem(fd int, mounts []hostMount) (name, inner string) {
	m, inner := mountOf(fd, mounts)
	if m == nil {
		return "", ""
	}
	return m.file(inner)
}

// mountOf returns the mount of a file that this process has opened, or nil, and the
// file's path below the mount point.
func mountOf(fd int, mounts []hostMount) (m *hostMount, inner string) {
	_, _, id := fdinfo(os.Getpid(), fd)
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, ""
	}
	for i := range mounts {
		if mounts[i].id == id {
			return &mounts[i], strings.TrimPrefix(at, unescape(mounts[i].point))
		}
	}
	return nil, ""
}

// hostFS says which of the file systems of magics the host has at a path, or "".
func hostFS(at string) string {
	for _, f := range []struct{ dir, name string }{{procDir, procFS}, {"/sys", sysFS}, {"/dev", devFS}} {
		if below(at, []string{f.dir}) {
			return f.name
		}
	}
	return ""
}

// answerPlace answers a call about file systems. It returns false for one that is not
// about ours.
func (s *supervisor) answerPlace(c *caller) bool {
	switch c.nr {
	case unix.SYS_MOUNT:
		return s.mount(c)
	case unix.SYS_FSOPEN:
		return s.fsopen(c)
	case unix.SYS_STATFS:
		return s.statfs(c)
	case unix.SYS_FSTATFS:
		return s.fstatfs(c)
	}
	return false
}

// placeCalls are the calls that answerPlace answers.
var placeCalls = []uint32{unix.SYS_MOUNT, unix.SYS_FSOPEN, unix.SYS_STATFS, unix.SYS_FSTATFS}

// pathOf is a call whose first argument is a path.
var pathOf = tracedCall{name: 0, dir: -1, text: -1}

// statfs is statfs(2).
func (s *supervisor) statfs(c *caller) bool {
	var at string
	var mounts []hostMount
	var err error
	same := false
	if !c.take(func(tid int) {
		if same = s.sameView(tid); same {
			at, _ = hostPath(view{}, tid, &pathOf, c.args, string(readString(tid, c.args[0])), s.paths())
			mounts, err = mountsOfThread(tid)
		}
	}) {
		return false
	}
	switch {
	case err != nil, !same:
		return false
	case s.made.inProc(at):
		at = filepath.Join(s.made.ns.tree, inTree(at))
	case !s.isOurs(at, mounts):
		return false
	}
	fd, errno := s.openFor(c, at, openFlags{flags: unix.O_PATH})
	if errno != 0 {
		return false // the host's kernel says the same
	}
	defer unix.Close(fd)
	return s.tellType(c, fd, mounts)
}

// isOurs reports whether a path without symbolic links leads to a file of ours, or to a
// directory that has a name more than the host's.
func (s *supervisor) isOurs(at string, mounts []hostMount) bool {
	var on hostMount
	length := -1
	for _, m := range mounts {
		if point := unescape(m.point); len(point) >= length && (point == "/" || below(at, []string{point})) {
			on, length = m, len(point)
		}
	}
	return on.kind == fuseType || s.made.ns.covered(&on)
}

// sameView reports whether a thread sees the files where this process sees them.
func (s *supervisor) sameView(tid int) bool {
	root, err := os.Readlink(proc.Path(tid, "root"))
	return err == nil && root == "/" && sameSpace(tid, "mnt")
}

// fstatfs is fstatfs(2).
func (s *supervisor) fstatfs(c *caller) bool {
	fd, err := c.borrow(int(int32(c.args[0])))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var mounts []hostMount
	return c.take(func(tid int) { mounts, err = mountsOfThread(tid) }) && err == nil && s.tellType(c, fd, mounts)
}

// tellType answers statfs(2) and fstatfs(2) of a file of ours, and of a directory that a
// tmpfs of ours covers.
func (s *supervisor) tellType(c *caller, fd int, mounts []hostMount) bool {
	m, inner := mountOf(fd, mounts)
	if m == nil {
		return false
	}
	name, _ := m.file(inner)
	if s.made.ns.covered(m) {
		name = hostFS(unescape(m.point))
	}
	magic, ok := magics[name]
	var st unix.Statfs_t
	if !ok || unix.Fstatfs(fd, &st) != nil {
		return false
	}
	st.Type = int64(magic)
	if c.write(c.args[1], unsafe.Slice((*byte)(unsafe.Pointer(&st)), unsafe.Sizeof(st))) {
		c.succeed()
	} else {
		c.fail(unix.EFAULT)
	}
	return true
}

// openMounts answers a call that opens a list of mounts, if the list has some of ours. It
// returns false for other calls. The caller gets what the list is at that time: reading it
// again gives the same, and poll(2) does not tell of changes.
func (s *supervisor) openMounts(c *caller, call *tracedCall) bool {
	var text []byte
	var list string
	var o openFlags
	ok := false
	if !c.take(func(tid int) {
		of := 0
		if of, list = mountList(tid, s.nameIn(tid, call, c.args)); list == "" {
			return
		}
		may := func() bool { return s.sameView(tid) && mayRead(tid, of) && sameSpace(of, "mnt") }
		if !may() {
			return
		}
		text, ok = s.mountText(of, list)
		if ok = ok && may(); ok { // as before: of is a number, too
			o, ok = flagsOf(tid, call, c.args)
		}
	}) {
		return false
	}
	if !ok || o.flags&(unix.O_ACCMODE|unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_TRUNC) != unix.O_RDONLY {
		return false
	}
	fd, err := sealedFile(list, text)
	if err != nil {
		c.fail(unix.ENOMEM)
		return true
	}
	defer unix.Close(fd)
	if errno := c.give(fd, o.flags); errno != 0 {
		c.fail(errno)
	}
	return true
}

// mountList says of which thread and which of the lists a path is, or "". self is a
// thread's own process.
func mountList(tid int, at string) (of int, list string) {
	if at == "/etc/mtab" {
		target, err := os.Readlink(at)
		if err != nil {
			return 0, ""
		}
		at = target
		if !filepath.IsAbs(at) {
			at = filepath.Join("/etc", at)
		}
	}
	parts := strings.Split(strings.TrimPrefix(at, procDir+"/"), "/")
	list = parts[len(parts)-1]
	switch {
	case !strings.HasPrefix(at, procDir+"/") || list != "mounts" && list != "mountinfo" && list != "mountstats":
		return 0, ""
	case len(parts) == 1 && list == "mounts", len(parts) == 2 && (parts[0] == "self" || parts[0] == "thread-self"):
		return tid, list
	case len(parts) == 2, len(parts) == 4 && parts[1] == "task":
		of, err := strconv.Atoi(parts[len(parts)-2])
		if err != nil || !sameSpace(tid, "pid") {
			return 0, ""
		}
		return of, list
	}
	return 0, ""
}

// mayRead reports whether a thread may read such files of another one.
func mayRead(tid, of int) bool {
	uid := fsID(tid, "Uid")
	return tid == of || uid == 0 || uid == fsID(of, "Uid")
}

// mountText returns a list of a thread's mounts with ours as Linux has them: those of
// tracefs and debugfs by their types, and without those of single files. It returns false
// if it cannot be read, or none is ours.
func (s *supervisor) mountText(tid int, list string) (text []byte, ok bool) {
	const attempts = 5 // the two files may be of different times
	for range attempts {
		mounts, err := mountsOfThread(tid)
		lines, lerr := os.ReadFile(proc.Path(tid, list))
		if err != nil || lerr != nil {
			return nil, false
		}
		var b bytes.Buffer
		i := 0
		for line := range bytes.Lines(lines) {
			if i < len(mounts) {
				s.writeMount(&b, list, &mounts[i], line)
			}
			i++
		}
		if i == len(mounts) {
			return b.Bytes(), !bytes.Equal(b.Bytes(), lines)
		}
	}
	return nil, false
}

// writeMount writes the line of a mount, which the host's kernel shows as line, unless it only
// makes room for our files.
func (s *supervisor) writeMount(b *bytes.Buffer, list string, m *hostMount, line []byte) {
	name, root := m.file("")
	switch {
	case s.made.ns.covering(m):
		return
	case name == "":
		b.Write(line)
		return
	case name != traceFS && name != debugFS:
		return
	}
	source := name
	if named, ok := s.sources.Load(m.id); ok {
		source = named.(string)
	}
	switch list {
	case "mounts":
		fmt.Fprintf(b, "%s %s %s %s%s 0 0\n", source, m.point, name, m.options, s.ownOptions(name))
	case "mountstats":
		fmt.Fprintf(b, "device %s mounted on %s with fstype %s\n", source, m.point, name)
	case "mountinfo":
		f := strings.Fields(m.line)
		optional := m.optional
		if optional != "" {
			optional += " "
		}
		fmt.Fprintf(b, "%s %s %s %s %s %s %s- %s %s rw%s\n", f[0], f[1], f[2], escape(root), m.point, m.options, optional, name, source, s.ownOptions(name))
	}
}

// sealedFile returns a descriptor for reading of a file in memory that nobody can change.
func sealedFile(name string, text []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return -1, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return -1, err
	}
	return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// fsopen answers fsopen(2) of a tracefs or debugfs as a kernel without it, so that
// programs use mount(2).
func (s *supervisor) fsopen(c *caller) bool {
	switch c.string(0) {
	case traceFS, debugFS:
		c.fail(unix.ENOSYS)
		return true
	}
	return false
}

// mountRequest is a mount(2) of a tracefs or debugfs. Its ids and mode are as the caller
// has them.
type mountRequest struct {
	kind, source, target, data string
	flags                      uintptr
}

// mount answers a mount(2) of a tracefs or debugfs, and a remount of ours.
func (s *supervisor) mount(c *caller) bool {
	const other = unix.MS_BIND | unix.MS_MOVE | unix.MS_SHARED | unix.MS_PRIVATE | unix.MS_SLAVE | unix.MS_UNBINDABLE
	r := mountRequest{source: c.string(0), target: c.string(1), kind: c.string(2), data: c.string(4), flags: uintptr(c.args[3])}
	if r.kind == supervisedType {
		c.succeed()
		return true
	}
	again := r.flags&unix.MS_REMOUNT != 0
	if r.flags&other != 0 || !again && r.kind != traceFS && r.kind != debugFS || again && !s.remountsOurs(c, &r) {
		return false
	}
	var errno syscall.Errno
	switch own, ok := s.ownership(r.kind, r.data); {
	case c.args[1] != 0 && r.target == "":
		errno = unix.ENOENT
	case c.args[1] == 0:
		errno = unix.EFAULT
	case !c.capable(unix.CAP_SYS_ADMIN):
		errno = unix.EPERM
	case !ok:
		errno = unix.EINVAL
	default:
		if errno = s.mountFor(c, r); errno == 0 {
			s.own(r.kind, own)
		}
	}
	if errno != 0 {
		c.fail(errno)
	} else {
		c.succeed()
	}
	return true
}

// remountsOurs reports whether the mount of a remount is ours, and sets its kind.
func (s *supervisor) remountsOurs(c *caller, r *mountRequest) bool {
	if r.target == "" {
		return false
	}
	var at string
	var mounts []hostMount
	if !c.take(func(tid int) {
		if s.sameView(tid) {
			mounts, _ = mountsOfThread(tid)
			at, _ = hostPath(view{}, tid, &pathOf, [6]uint64{}, r.target, s.paths())
		}
	}) || !s.isOurs(at, mounts) {
		return false
	}
	for i := range mounts { // the last one is on top
		if m := &mounts[i]; unescape(m.point) == at {
			r.kind, _ = m.file("")
		}
	}
	return r.kind == traceFS || r.kind == debugFS
}

// ownership parses the options of a mount. It returns false for one that is not valid.
func (s *supervisor) ownership(kind, data string) (o fs.Ownership, ok bool) {
	strict := kind == traceFS && s.kernel.linux.Has(release.MountOwner)
	o.EveryUID = strict
	for option := range strings.SplitSeq(data, ",") {
		name, text, _ := strings.Cut(option, "=")
		at, base := &o.UID, 10
		switch name {
		case "":
			continue
		case "uid":
		case "gid":
			at = &o.GID
		case "mode":
			at, base = &o.Mode, 8
		default:
			if strict {
				return o, false
			}
			continue
		}
		if strict { // kstrtouint allows a sign
			text = strings.TrimPrefix(text, "+")
		}
		v, err := strconv.ParseUint(text, base, 32)
		switch {
		case err != nil && !strict:
			return fs.Ownership{}, true // the rest is not looked at, and what was before it not done
		case err != nil || base == 10 && v == 1<<32-1:
			return o, false
		}
		n := uint32(v)
		if base == 8 {
			n &= 0o7777
		}
		*at = &n
	}
	return o, true
}

// own has the files belong to whom mount options say, and notes the options for the lists
// of mounts.
func (s *supervisor) own(kind string, o fs.Ownership) {
	if o.UID == nil && o.GID == nil && o.Mode == nil {
		return
	}
	s.calls.ask(&callMessage{ID: s.calls.ownIDs.Add(1), Question: &question{Do: doOwn, Name: kind, Own: o}}, nil, untilAnswered)
	if was, ok := s.owned.Load(kind); ok && !o.EveryUID {
		was := was.(fs.Ownership)
		for _, v := range []struct{ now, before **uint32 }{{&o.UID, &was.UID}, {&o.GID, &was.GID}} { // the mode is not kept
			if *v.now == nil {
				*v.now = *v.before
			}
		}
	}
	s.owned.Store(kind, o)
}

// ownOptions returns the options that lists of mounts show, each behind a comma.
func (s *supervisor) ownOptions(kind string) string {
	v, ok := s.owned.Load(kind)
	if !ok {
		return ""
	}
	o, text := v.(fs.Ownership), ""
	if o.UID != nil && *o.UID != 0 {
		text += fmt.Sprintf(",uid=%d", *o.UID)
	}
	if o.GID != nil && *o.GID != 0 {
		text += fmt.Sprintf(",gid=%d", *o.GID)
	}
	if o.Mode != nil && *o.Mode != 0o700 {
		text += fmt.Sprintf(",mode=%o", *o.Mode)
	}
	return text
}

// mountFor mounts ours for a caller, or changes the flags of a mount of ours. It fails with
// ESRCH if the caller waits no more.
func (s *supervisor) mountFor(c *caller, r mountRequest) (errno syscall.Errno) {
	dir, space, err := c.place(r.target)
	if err != nil {
		return errnoOf(err)
	}
	defer dir.Close()
	if space != nil {
		defer space.Close()
	}
	mounts := func() (all []hostMount, err error) {
		if !c.take(func(tid int) { all, err = mountsOfThread(tid) }) {
			err = unix.ESRCH
		}
		return all, err
	}
	t := mountTarget{int(dir.Fd()), strings.TrimLeft(r.target, "/")}
	if r.flags&unix.MS_REMOUNT != 0 {
		return t.setFlags(r.flags)
	}
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine, as its namespace is changed
		id, errno := s.bind(t, space, r.kind, mounts, r.flags)
		if r.source != "" && errno == 0 {
			s.sources.Store(id, escape(r.source))
		}
		done <- errno
	}()
	return <-done
}

// mountTarget is a path, as seen from a directory.
type mountTarget struct {
	dir  int // a descriptor
	path string
}

func (t mountTarget) open() (int, error) {
	return unix.Openat(t.dir, cmp.Or(t.path, "."), unix.O_PATH|unix.O_CLOEXEC, 0)
}

// setFlags sets the flags of a mount of ours.
func (t mountTarget) setFlags(flags uintptr) syscall.Errno {
	const always = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV // the last two as the tree
	top, err := t.open()
	if err != nil {
		return errnoOf(err)
	}
	defer unix.Close(top)
	if err := unix.Mount("", "/proc/self/fd/"+strconv.Itoa(top), "", always|flags&(unix.MS_RDONLY|unix.MS_NOEXEC), ""); err != nil {
		return errnoOf(err)
	}
	return 0
}

// bind mounts the tree's part in another mount namespace or, if space is nil, in this process's, and
// returns the id of the mount. It fails with EBUSY if the same is mounted there. Its thread cannot
// be used any more.
func (s *supervisor) bind(t mountTarget, space *os.File, kind string, mountsOf func() ([]hostMount, error), flags uintptr) (id uint64, errno syscall.Errno) {
	if space != nil {
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(int(space.Fd()), unix.CLONE_NEWNS)); err != nil {
			return 0, errnoOf(err)
		}
	}
	fd, err := t.open()
	if err != nil {
		return 0, errnoOf(err)
	}
	defer unix.Close(fd)
	mounts, err := mountsOf()
	if err != nil {
		return 0, errnoOf(err)
	}
	if name, inner := fileSystem(fd, mounts); name == kind && inner == "/" {
		return 0, unix.EBUSY
	}
	from := filepath.Join(s.made.ns.tree, "tracing")
	if kind == debugFS {
		from = filepath.Join(s.made.ns.tree, "debugfs")
	}
	err = unix.Mount(from, "/proc/self/fd/"+strconv.Itoa(fd), "", unix.MS_BIND, "")
	switch {
	case errors.Is(err, unix.ENOENT): // a root directory without our files
		return 0, unix.ENODEV
	case err != nil:
		return 0, errnoOf(err)
	}
	if flags&(unix.MS_RDONLY|unix.MS_NOEXEC) != 0 {
		if errno := t.setFlags(flags); errno != 0 {
			return 0, errno
		}
	}
	if top, err := t.open(); err == nil {
		_, _, id = fdinfo(os.Getpid(), top)
		_ = unix.Close(top)
	}
	return id, 0
}
