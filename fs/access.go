package fs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Bits of access(2), which each class has in st_mode, too.
const (
	mayExec  = 1
	mayWrite = 2
	mayRead  = 4
)

// owner is the user who has mounted. An ordinary user without CAP_SYS_ADMIN is the emulated
// kernel's root, and the only one who may use the mount. As in an id-mapped mount
// (mount_setattr(2)), this user and root change places in requests and attributes. The
// zero value is for a mount with mount(2) and changes nothing.
type owner struct{ uid, gid uint32 }

// mounter returns the owner of the mounts of this process.
func mounter() owner {
	if mayMount() {
		return owner{}
	}
	return owner{uint32(os.Geteuid()), uint32(os.Getegid())}
}

// user translates a user id of the host to the guest's, and back.
func (o owner) user(id uint32) uint32 { return change(id, o.uid) }

// group does so with group ids.
func (o owner) group(id uint32) uint32 { return change(id, o.gid) }

// change is its own inverse.
func change(id, root uint32) uint32 {
	switch id {
	case 0:
		return root
	case root:
		return 0
	}
	return id
}

// permission is generic_permission. The daemon checks permissions itself, because
// with FUSE's default_permissions each open would need a GETATTR, which would take the
// large size from the inode (see openSize).
func (n *node) permission(c *seqfile.Caller, want uint32) error {
	n.mu.Lock()
	mode, uid, gid := n.mode, n.uid, n.gid
	n.mu.Unlock()
	class := mode
	switch {
	case c.UID == uid:
		class = mode >> 6
	case c.GID == gid || inGroups(c, gid):
		class = mode >> 3
	}
	if class&want == want {
		return nil
	}
	if n.kind != seqfile.ProcSys && n.capable(c, want, mode) {
		return nil
	}
	return fmt.Errorf("%s: mode %04o: %w", n.key.Name, mode, syscall.EACCES)
}

// capable is the part of generic_permission about capabilities. test_perm of /proc/sys
// does not have it.
func (n *node) capable(c *seqfile.Caller, want, mode uint32) bool {
	if n.isDir() {
		return want&mayWrite == 0 && n.hasOver(c, seqfile.CapDACReadSearch) || n.hasOver(c, seqfile.CapDACOverride)
	}
	if want == mayRead && n.hasOver(c, seqfile.CapDACReadSearch) {
		return true
	}
	return (want&mayExec == 0 || mode&0o111 != 0) && n.hasOver(c, seqfile.CapDACOverride)
}

// hasOver is capable_wrt_inode_uidgid: root of another user namespace has its
// capabilities over files whose owner and group it has there.
func (n *node) hasOver(c *seqfile.Caller, capability int) bool {
	if c.Recorded || c.TID == 0 || sameUserNS(c.TID) {
		return c.Capable(capability)
	}
	n.mu.Lock()
	uid, gid := n.uid, n.gid
	n.mu.Unlock()
	return effective(c.TID, capability) && mapped(c.TID, "uid_map", n.rootUser.user(uid)) && mapped(c.TID, "gid_map", n.rootUser.group(gid))
}

// sameUserNS reports whether a thread is in the daemon's user namespace, to which the
// files' ids belong. A thread that cannot be seen counts as in it.
func sameUserNS(tid int) bool {
	theirs, err := proc.Namespace(tid, "user")
	ours, oerr := proc.OwnNamespace("user")
	return err != nil || oerr != nil || theirs == ours
}

// mapped reports whether an id of the daemon's user namespace has one in the thread's.
// A line of the map has an id inside, one outside, and how many follow from them.
func mapped(tid int, file string, id uint32) bool {
	text, err := proc.Read(tid, file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(text) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && uint64(id)-outside < count {
			return true
		}
	}
	return false
}

func inGroups(c *seqfile.Caller, gid uint32) bool {
	if c.GroupsFunc == nil {
		return false
	}
	for _, g := range c.GroupsFunc() {
		if g == gid {
			return true
		}
	}
	return false
}

// owner is inode_owner_or_capable: whether c may change the attributes of n.
func (n *node) owner(c *seqfile.Caller) bool {
	n.mu.Lock()
	uid := n.uid
	n.mu.Unlock()
	return c.UID == uid || n.hasOver(c, seqfile.CapFowner)
}

// wanted returns the access bits for the flags of open(2).
func wanted(flags uint32) uint32 {
	var w uint32
	switch flags & syscall.O_ACCMODE {
	case syscall.O_RDONLY:
		w = mayRead
	case syscall.O_WRONLY:
		w = mayWrite
	default: // O_RDWR, and 3, which is checked like it
		w = mayRead | mayWrite
	}
	if flags&syscall.O_TRUNC != 0 {
		w |= mayWrite
	}
	return w
}

// tgids caches the process of each thread for a second. A thread stays in its process,
// and the kernel does not reuse its id that soon.
type tgids struct {
	mu    sync.Mutex
	known map[int]tgid
}

type tgid struct {
	pid  int
	seen time.Time
}

const tgidLife = time.Second

func (t *tgids) of(tid int) int {
	if tid == 0 {
		return 0
	}
	now := time.Now()
	t.mu.Lock()
	k, ok := t.known[tid]
	t.mu.Unlock()
	if ok && now.Sub(k.seen) < tgidLife {
		return k.pid
	}
	pid := tid // /proc is read without the lock: every request passes here
	if p, err := proc.Process(tid); err == nil {
		pid = p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) > 1024 {
		clear(t.known)
	}
	t.known[tid] = tgid{pid, now}
	return pid
}

// killed reports whether a thread has a pending SIGKILL, which the host's kernel also
// sends to a thread that another signal kills.
func killed(tid int) bool {
	if tid == 0 {
		return false
	}
	for _, name := range []string{"SigPnd", "ShdPnd"} {
		v, ok := proc.Status(tid, name)
		if !ok {
			return true // the thread has ended
		}
		if mask, err := strconv.ParseUint(v, 16, 64); err == nil && mask&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// caller returns the caller of a request.
func (t *Tree) caller(h *fuse.InHeader) *seqfile.Caller {
	tid := int(h.Pid) // the functions below must not use h, which go-fuse reuses
	if t.actors.Load() > 0 {
		if other, ok := t.acting.Load(tid); ok {
			tid = other.(int)
		}
	}
	uid, gid := t.owner.user(h.Uid), t.owner.group(h.Gid)
	return &seqfile.Caller{
		TID: tid, PID: t.tgids.of(tid), UID: uid, GID: gid,
		CommFunc:    func() string { return commOf(tid) },
		CapableFunc: func(c int) bool { return t.capable(tid, uid, c) },
		GroupsFunc:  func() []uint32 { return t.groupsOf(tid) },
	}
}

// ActFor has requests of one thread taken for another's, but for their user and
// group. With 0 they are its own again.
func (t *Tree) ActFor(thread, other int) {
	if other != 0 {
		t.acting.Store(thread, other)
		t.actors.Add(1)
	} else if _, acted := t.acting.LoadAndDelete(thread); acted {
		t.actors.Add(-1)
	}
}

// Ownership is what the options uid=, gid= and mode= of a mount of tracefs or debugfs say.
type Ownership struct {
	UID, GID, Mode *uint32 // as the caller has the ids; nil if there is no such option
	EveryUID       bool    // UID is for all files of a tracefs, as GID is
}

// SetOwnership does what these options do. On debugfs they are for its top directory;
// on tracefs, except for the mode, also for the files that come later.
func (t *Tree) SetOwnership(kind seqfile.Kind, o Ownership) {
	if o.UID != nil {
		uid := t.owner.user(*o.UID)
		o.UID = &uid
	}
	if o.GID != nil {
		gid := t.owner.group(*o.GID)
		o.GID = &gid
	}
	t.inodes.setOwnership(kind, o)
}

// capable is capable() for a thread whose user id in the guest is uid. An ordinary
// user who has mounted has all capabilities in the emulated kernel.
func (t *Tree) capable(tid int, uid uint32, capability int) bool {
	if t.owner != (owner{}) {
		return uid == 0 && sameUserNS(tid)
	}
	return hasCap(tid, uid, capability)
}

func commOf(tid int) string {
	name, err := proc.Comm(tid)
	if err != nil {
		return "unknown"
	}
	return name
}

// hasCap is capable(): whether a thread has a capability in the daemon's user
// namespace. If the thread cannot be seen (it is in another pid namespace), root has
// all capabilities.
func hasCap(tid int, uid uint32, capability int) bool {
	// It is read once: a thread that ends between two looks would be refused what it may do.
	set, ok := proc.Status(tid, "CapEff")
	if tid == 0 || !ok {
		return uid == 0
	}
	return sameUserNS(tid) && has(set, capability)
}

// effective reports whether a thread has a capability in its own user namespace.
func effective(tid, capability int) bool {
	set, _ := proc.Status(tid, "CapEff")
	return has(set, capability)
}

// has reports whether a set of capabilities, as /proc/TID/status shows it, has one.
func has(set string, capability int) bool {
	mask, err := strconv.ParseUint(set, 16, 64)
	return err == nil && mask>>uint(capability)&1 != 0
}

// groupsOf returns a thread's supplementary groups, as ids of the guest.
func (t *Tree) groupsOf(tid int) []uint32 {
	v, _ := proc.Status(tid, "Groups")
	var list []uint32
	for _, f := range strings.Fields(v) {
		if g, err := strconv.ParseUint(f, 10, 32); err == nil {
			list = append(list, t.owner.group(uint32(g)))
		}
	}
	return list
}
