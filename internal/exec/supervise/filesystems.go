package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
	"github.com/kprobefs/kprobefs/internal/exec/space"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Programs look for tracefs and debugfs by the type that statfs(2) tells, or in
// /proc/mounts, and mount one if they find none: the host's, which would hide ours. Our
// files belong to a FUSE, and no FUSE can tell another type. So the supervisor answers
// these calls, for mounts of ours and in our mount namespace: statfs(2) and fstatfs(2),
// the opens of mounts, mountinfo and mountstats in /proc, and mount(2) of a tracefs or
// debugfs, in whichever namespace.

// statfs is statfs(2). Like the other answers here it returns false for a call that is not about ours.
func (s *supervisor) statfs(c *notify.Caller) bool {
	var at string
	var mounts []hostview.Mount
	var err error
	same := false
	if !c.Take(func(tid int) {
		if same = hostview.SameView(tid); same {
			at, _ = hostview.View{}.Path(tid, hostview.FileName{Dir: unix.AT_FDCWD, Text: string(hostview.ReadString(tid, c.Args[0]))}, s.paths())
			mounts, err = hostview.Mounts(tid)
		}
	}) {
		return false
	}
	switch {
	case err != nil, !same:
		return false
	case s.Made.InProc(at):
		at = filepath.Join(s.Made.Ns.Tree, space.InTree(at))
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
func (s *supervisor) isOurs(at string, mounts []hostview.Mount) bool {
	var on hostview.Mount
	length := -1
	for _, m := range mounts {
		if point := hostview.Unescape(m.Point); len(point) >= length && (point == "/" || hostview.Below(at, []string{point})) {
			on, length = m, len(point)
		}
	}
	return on.Kind == hostview.FuseType || s.Made.Ns.Covered(&on)
}

// fstatfs is fstatfs(2).
func (s *supervisor) fstatfs(c *notify.Caller) bool {
	fd, err := c.Borrow(int(int32(c.Args[0])))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var mounts []hostview.Mount
	return c.Take(func(tid int) { mounts, err = hostview.Mounts(tid) }) && err == nil && s.tellType(c, fd, mounts)
}

// tellType answers statfs(2) and fstatfs(2) of a file of ours, and of a directory that a
// tmpfs of ours covers.
func (s *supervisor) tellType(c *notify.Caller, fd int, mounts []hostview.Mount) bool {
	m, inner := hostview.MountOf(fd, mounts)
	if m == nil {
		return false
	}
	name, _ := m.File(inner)
	if s.Made.Ns.Covered(m) {
		name = hostview.HostFS(hostview.Unescape(m.Point))
	}
	magic, ok := hostview.Magics[name]
	var st unix.Statfs_t
	if !ok || unix.Fstatfs(fd, &st) != nil {
		return false
	}
	st.Type = int64(magic)
	if c.Write(c.Args[1], unsafe.Slice((*byte)(unsafe.Pointer(&st)), unsafe.Sizeof(st))) {
		c.Succeed()
	} else {
		c.Fail(unix.EFAULT)
	}
	return true
}

// openMounts answers a call that opens a list of mounts, if the list has some of ours. It
// returns false for other calls. The caller gets what the list is at that time: reading it
// again gives the same, and poll(2) does not tell of changes.
func (s *supervisor) openMounts(c *notify.Caller, call *calls.Row) bool {
	var text []byte
	var list string
	var o openFlags
	ok := false
	if !c.Take(func(tid int) {
		of := 0
		if of, list = hostview.MountList(tid, s.nameIn(tid, call, c.Args)); list == "" {
			return
		}
		may := func() bool {
			return hostview.SameView(tid) && hostview.MayRead(tid, of) && hostview.SameSpace(of, "mnt")
		}
		if !may() {
			return
		}
		text, ok = s.mountText(of, list)
		if ok = ok && may(); ok { // as before: of is a number, too
			o, ok = flagsOf(tid, call, c.Args)
		}
	}) {
		return false
	}
	if !ok || o.flags&(unix.O_ACCMODE|unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_TRUNC) != unix.O_RDONLY {
		return false
	}
	fd, err := sealedFile(list, text)
	if err != nil {
		c.Fail(unix.ENOMEM)
		return true
	}
	defer unix.Close(fd)
	if errno := c.Give(fd, o.flags); errno != 0 {
		c.Fail(errno)
	}
	return true
}

// mountText returns a list of a thread's mounts with ours as Linux has them: mounts of
// tracefs and debugfs by their types, and without mounts of single files. It returns false
// if it cannot be read, or none is ours.
func (s *supervisor) mountText(tid int, list string) (text []byte, ok bool) {
	const attempts = 5 // the two files may be of different times
	for range attempts {
		mounts, err := hostview.Mounts(tid)
		lines, lerr := os.ReadFile(proc.Path(tid, list))
		if err != nil || lerr != nil {
			return nil, false
		}
		var b bytes.Buffer
		i := 0
		hidden := map[uint64]bool{} // what covers a new proc or sysfs, by ids
		for line := range bytes.Lines(lines) {
			if i < len(mounts) {
				m := &mounts[i]
				if _, covered := s.Made.Ns.Fresh.Covered.Load(m.Parent); covered || hidden[m.Parent] {
					hidden[m.ID] = true
				} else {
					s.writeMount(&b, list, m, line)
				}
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
func (s *supervisor) writeMount(b *bytes.Buffer, list string, m *hostview.Mount, line []byte) {
	name, root := m.File("")
	switch {
	case s.Made.Ns.Covering(m):
		return
	case name == "":
		b.Write(line)
		return
	case !isOwn(name):
		return
	}
	source := name
	if named, ok := s.sources.Load(m.ID); ok {
		source = named.(string)
	}
	switch list {
	case "mounts":
		fmt.Fprintf(b, "%s %s %s %s%s 0 0\n", source, m.Point, name, m.Options, s.ownOptions(name))
	case "mountstats":
		fmt.Fprintf(b, "device %s mounted on %s with fstype %s\n", source, m.Point, name)
	case "mountinfo":
		f := strings.Fields(m.Line)
		optional := m.Optional
		if optional != "" {
			optional += " "
		}
		fmt.Fprintf(b, "%s %s %s %s %s %s %s- %s %s rw%s\n", f[0], f[1], f[2], hostview.Escape(root), m.Point, m.Options, optional, name, source, s.ownOptions(name))
	}
}

// isOwn reports whether a file system is one that lists of mounts show, and that can be mounted.
func isOwn(name string) bool {
	return name == hostview.TraceFS || name == hostview.DebugFS || name == hostview.BPFFS
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

// umount is umount2(2), which is not answered.
func (s *supervisor) umount(c *notify.Caller) bool {
	if target := c.String(0); target != "" {
		s.Made.Ns.Uncover(c, target)
	}
	return false
}

// fsopen answers fsopen(2) of a tracefs or debugfs as a kernel without it, so that
// programs use mount(2).
func (s *supervisor) fsopen(c *notify.Caller) bool {
	name := c.String(0)
	if space.IsFresh(name) {
		s.Made.Ns.Fresh.Expect(c)
	}
	if !isOwn(name) || name == hostview.BPFFS && !s.hasBPFFS() {
		return false
	}
	c.Fail(unix.ENOSYS)
	return true
}

// mountRequest is a mount(2) of a tracefs or debugfs. Its ids and mode are as the caller
// has them.
type mountRequest struct {
	kind, source, target, data string
	flags                      uintptr
}

// mount answers a mount(2) of a tracefs or debugfs, and a remount of ours.
func (s *supervisor) mount(c *notify.Caller) bool {
	const other = unix.MS_BIND | unix.MS_MOVE | unix.MS_SHARED | unix.MS_PRIVATE | unix.MS_SLAVE | unix.MS_UNBINDABLE
	r := mountRequest{source: c.String(0), target: c.String(1), kind: c.String(2), data: c.String(4), flags: uintptr(c.Args[3])}
	if r.kind == SupervisedType {
		c.Succeed()
		return true
	}
	again := r.flags&unix.MS_REMOUNT != 0
	if !again && r.flags&other == 0 && space.IsFresh(r.kind) {
		s.Made.Ns.Fresh.Expect(c)
	}
	if r.flags&other != 0 || !again && (!isOwn(r.kind) || r.kind == hostview.BPFFS && !s.hasBPFFS()) || again && !s.remountsOurs(c, &r) {
		return false
	}
	var errno syscall.Errno
	switch own, ok := s.ownership(r.kind, r.data); {
	case c.Args[1] != 0 && r.target == "":
		errno = unix.ENOENT
	case c.Args[1] == 0:
		errno = unix.EFAULT
	case !c.Capable(unix.CAP_SYS_ADMIN):
		errno = unix.EPERM
	case !ok:
		errno = unix.EINVAL
	default:
		if errno = s.mountFor(c, r); errno == 0 {
			s.own(r.kind, own)
		}
	}
	if errno != 0 {
		c.Fail(errno)
	} else {
		c.Succeed()
	}
	return true
}

// remountsOurs reports whether the mount of a remount is ours, and sets its kind.
func (s *supervisor) remountsOurs(c *notify.Caller, r *mountRequest) bool {
	if r.target == "" {
		return false
	}
	var at string
	var mounts []hostview.Mount
	if !c.Take(func(tid int) {
		if hostview.SameView(tid) {
			mounts, _ = hostview.Mounts(tid)
			at, _ = hostview.View{}.Path(tid, hostview.FileName{Dir: unix.AT_FDCWD, Text: r.target}, s.paths())
		}
	}) || !s.isOurs(at, mounts) {
		return false
	}
	for i := range mounts { // the last one is on top
		if m := &mounts[i]; hostview.Unescape(m.Point) == at {
			r.kind, _ = m.File("")
		}
	}
	return isOwn(r.kind)
}

// ownership parses the options of a mount. It returns false for one that is not valid.
func (s *supervisor) ownership(kind, data string) (o fs.Ownership, ok bool) {
	if kind == hostview.BPFFS {
		return bpffsMode(data)
	}
	strict := kind == hostview.TraceFS && s.Kernel.Linux.Has(release.MountOwner)
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

// bpffsMode parses the options of a mount of bpffs, of which it knows one.
func bpffsMode(data string) (o fs.Ownership, ok bool) {
	const sticky = 0o1000
	mode := uint32(bpffsPlain)
	for option := range strings.SplitSeq(data, ",") {
		if text, is := strings.CutPrefix(option, "mode="); is {
			v, err := strconv.ParseUint(text, 8, 32)
			if err != nil {
				return o, false
			}
			mode = uint32(v)&0o7777 | sticky
		}
	}
	return fs.Ownership{Mode: &mode}, true
}

// bpffsPlain is the mode of a bpffs that is mounted without options, and bpffsFirst the mode of the one that is there from the
// start, as systemd mounts it.
const (
	bpffsPlain = 0o1777
	bpffsFirst = 0o1700
)

// own has the files belong to whom mount options say, and notes the options for the lists
// of mounts.
func (s *supervisor) own(kind string, o fs.Ownership) {
	if o.UID == nil && o.GID == nil && o.Mode == nil {
		return
	}
	s.Calls.Ask(&wire.Message{ID: s.Calls.OwnIDs.Add(1), Question: &wire.Question{Do: wire.DoOwn, Name: kind, Own: o}}, nil, wire.UntilAnswered)
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
	if kind == hostview.BPFFS {
		mode := uint32(bpffsFirst)
		if ok {
			mode = *v.(fs.Ownership).Mode
		}
		if mode == bpffsPlain {
			return ""
		}
		return fmt.Sprintf(",mode=%o", mode&0o777)
	}
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
func (s *supervisor) mountFor(c *notify.Caller, r mountRequest) (errno syscall.Errno) {
	dir, ns, err := c.Place(r.target)
	if err != nil {
		return wire.ErrnoOf(err)
	}
	defer dir.Close()
	if ns != nil {
		defer ns.Close()
	}
	mounts := func() (all []hostview.Mount, err error) {
		if !c.Take(func(tid int) { all, err = hostview.Mounts(tid) }) {
			err = unix.ESRCH
		}
		return all, err
	}
	t := space.Target{Dir: int(dir.Fd()), Path: strings.TrimLeft(r.target, "/")}
	if r.flags&unix.MS_REMOUNT != 0 {
		return t.SetFlags(r.flags)
	}
	err = space.Inside(ns, func() error {
		id, errno := s.bind(t, r.kind, mounts, r.flags)
		if errno != 0 {
			return errno
		}
		if r.source != "" {
			s.sources.Store(id, hostview.Escape(r.source))
		}
		return nil
	})
	if err != nil {
		return wire.ErrnoOf(err)
	}
	return 0
}

// bind mounts the tree's part in the thread's mount namespace, and returns the id of the mount. It fails with EBUSY if
// the same is mounted there.
func (s *supervisor) bind(t space.Target, kind string, mountsOf func() ([]hostview.Mount, error), flags uintptr) (id uint64, errno syscall.Errno) {
	fd, err := t.Open()
	if err != nil {
		return 0, wire.ErrnoOf(err)
	}
	defer unix.Close(fd)
	mounts, err := mountsOf()
	if err != nil {
		return 0, wire.ErrnoOf(err)
	}
	if name, inner := hostview.FileSystem(fd, mounts); name == kind && inner == "/" && kind != hostview.BPFFS {
		return 0, unix.EBUSY
	}
	parts := map[string]string{hostview.TraceFS: "tracing", hostview.DebugFS: "debugfs", hostview.BPFFS: hostview.BPFFS}
	from := filepath.Join(s.Made.Ns.Tree, parts[kind])
	err = unix.Mount(from, "/proc/self/fd/"+strconv.Itoa(fd), "", unix.MS_BIND, "")
	switch {
	case errors.Is(err, unix.ENOENT): // a root directory without our files
		return 0, unix.ENODEV
	case err != nil:
		return 0, wire.ErrnoOf(err)
	}
	if flags&(unix.MS_RDONLY|unix.MS_NOEXEC) != 0 {
		if errno := t.SetFlags(flags); errno != 0 {
			return 0, errno
		}
	}
	if top, err := t.Open(); err == nil {
		_, _, id = hostview.Fdinfo(os.Getpid(), top)
		_ = unix.Close(top)
	}
	return id, 0
}
