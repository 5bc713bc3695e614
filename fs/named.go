package fs

import (
	"fmt"
	"path"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// Thread returns a thread as the caller of a request: with the user and the group by which it uses files, which it has as
// the host's ids.
func (t *Tree) Thread(tid int, uid, gid uint32) *seqfile.Caller {
	return t.caller(&fuse.InHeader{Caller: fuse.Caller{Owner: fuse.Owner{Uid: uid, Gid: gid}, Pid: uint32(tid)}})
}

// MayMake returns the directory of a path from the tree's root in which a caller makes a file by another call than one of
// files. It fails as mknod(2) does.
func (t *Tree) MayMake(c *seqfile.Caller, at string) (seqfile.Dir, error) {
	dir, err := t.walk(c, path.Dir(at))
	if err != nil {
		return nil, err
	}
	name := path.Base(at)
	if err := dir.search(c, name); err != nil {
		return nil, err
	}
	if seqfile.Find(dir.rowNow().Dir, name) != nil {
		return nil, fmt.Errorf("%s: %w", at, syscall.EEXIST)
	}
	return dir.rowNow().Dir, dir.mayChange(c, name)
}

// MayOpen returns the directory of a path from the tree's root whose last name a caller opens by another call than one of
// files, with the flags of open(2).
func (t *Tree) MayOpen(c *seqfile.Caller, at string, flags uint32) (seqfile.Dir, error) {
	n, err := t.walk(c, at)
	if err != nil {
		return nil, err
	}
	if n.parent == nil {
		return nil, fmt.Errorf("%s: %w", at, syscall.EACCES)
	}
	return n.parent.rowNow().Dir, n.permission(c, wanted(flags))
}

// walk looks up a path from the root of the tree, which was mounted first.
func (t *Tree) walk(c *seqfile.Caller, at string) (*node, error) {
	n := t.top.Load()
	if n == nil {
		return nil, fmt.Errorf("no mount: %w", syscall.ENOENT)
	}
	for name := range strings.SplitSeq(strings.Trim(at, "/"), "/") {
		if name == "" || name == "." {
			continue
		}
		if err := n.search(c, name); err != nil {
			return nil, err
		}
		row := seqfile.Find(n.rowNow().Dir, name)
		if row == nil {
			return nil, fmt.Errorf("%s: %w", at, syscall.ENOENT)
		}
		t.inodes.mu.Lock()
		n = t.inodes.child(n, row)
		t.inodes.mu.Unlock()
	}
	return n, nil
}
