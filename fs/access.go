package fs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// Bits of access(2), which are also those of each class in st_mode.
const (
	mayExec  = 1
	mayWrite = 2
	mayRead  = 4
)

// permission is generic_permission: nil or EACCES. The daemon checks by itself:
// with FUSE's default_permissions every open would cost a GETATTR, which takes
// the size from the inode that readers need (see openSize).
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

// capable is capable_wrt_inode_uidgid's part. Files of /proc/sys have none:
// test_perm looks at the bits only.
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
	if c.TID == 0 || sameUserNS(c.TID) {
		return c.Capable(capability)
	}
	n.mu.Lock()
	uid, gid := n.uid, n.gid
	n.mu.Unlock()
	return effective(c.TID, capability) && mapped(c.TID, "uid_map", uid) && mapped(c.TID, "gid_map", gid)
}

// sameUserNS says whether a thread is in the daemon's user namespace, whose
// users are those that the files know. One that cannot be looked at counts as in it.
func sameUserNS(tid int) bool {
	theirs, err := os.Readlink("/proc/" + strconv.Itoa(tid) + "/ns/user")
	ours, oerr := os.Readlink("/proc/self/ns/user")
	return err != nil || oerr != nil || theirs == ours
}

// mapped says whether an id of the daemon's user namespace is also one of the
// thread's. The third field of a line counts from the second one.
func mapped(tid int, file string, id uint32) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/" + file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
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

// owner says whether c may change the attributes of n: inode_owner_or_capable.
func (n *node) owner(c *seqfile.Caller) bool {
	n.mu.Lock()
	uid := n.uid
	n.mu.Unlock()
	return c.UID == uid || n.hasOver(c, seqfile.CapFowner)
}

// wanted gives the access bits that open(2)'s flags ask for.
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

// tgids remembers for a second which process a thread belongs to: it stays the
// same while the thread lives, and numbers are not used again so soon.
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
	defer t.mu.Unlock()
	if k, ok := t.known[tid]; ok && now.Sub(k.seen) < tgidLife {
		return k.pid
	}
	if len(t.known) > 1024 {
		clear(t.known)
	}
	pid := tid
	if v, ok := statusField(tid, "Tgid:"); ok {
		if p, err := strconv.Atoi(v); err == nil {
			pid = p
		}
	}
	t.known[tid] = tgid{pid, now}
	return pid
}

// statusField reads one line of /proc/TID/status.
func statusField(tid int, name string) (string, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return "", false
	}
	for line := range bytes.Lines(b) {
		if bytes.HasPrefix(line, []byte(name)) {
			return strings.TrimSpace(string(line[len(name):])), true
		}
	}
	return "", false
}

// caller reads the header of a request.
func (t *Tree) caller(h *fuse.InHeader) *seqfile.Caller {
	tid, uid := int(h.Pid), h.Uid // what is asked later must not look at h: go-fuse uses it again
	return &seqfile.Caller{
		TID: tid, PID: t.tgids.of(tid), UID: uid, GID: h.Gid,
		CommFunc:    func() string { return commOf(tid) },
		CapableFunc: func(c int) bool { return hasCap(tid, uid, c) },
		GroupsFunc:  func() []uint32 { return groupsOf(tid) },
	}
}

func commOf(tid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/comm")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSuffix(string(b), "\n")
}

// hasCap is capable(): a capability in the daemon's user namespace, which roots
// of others have not. Where the caller cannot be seen (it is in another pid
// namespace), root has all of them.
func hasCap(tid int, uid uint32, capability int) bool {
	if _, ok := statusField(tid, "CapEff:"); tid == 0 || !ok {
		return uid == 0
	}
	return sameUserNS(tid) && effective(tid, capability)
}

// effective looks for a capability in CapEff, whatever namespace it is for.
func effective(tid, capability int) bool {
	v, _ := statusField(tid, "CapEff:")
	mask, err := strconv.ParseUint(v, 16, 64)
	return err == nil && mask>>uint(capability)&1 != 0
}

func groupsOf(tid int) []uint32 {
	v, _ := statusField(tid, "Groups:")
	var list []uint32
	for _, f := range strings.Fields(v) {
		if g, err := strconv.ParseUint(f, 10, 32); err == nil {
			list = append(list, uint32(g))
		}
	}
	return list
}
