package bpf

import (
	"bytes"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// namesPath reports whether a program may call bpf_d_path: iterators, and those at functions where no lock is held that it takes.
func (p *Prog) namesPath() bool {
	if p.kind != ProgTracing || p.attachProg != nil {
		return false
	}
	return p.attachType == traceIter || p.target != nil && p.attachType != traceRawTP && namedAt[p.target.name]
}

// namedAt is btf_allowlist_d_path.
var namedAt = map[string]bool{
	"security_file_permission": true, "security_inode_getattr": true, "security_file_open": true, "security_path_truncate": true,
	"vfs_truncate": true, "vfs_fallocate": true, "dentry_open": true, "vfs_getattr": true, "filp_close": true,
}

// dPath is bpf_d_path: it writes the name of a file in all mounts, as d_path of the kernel does, from the end of the buffer.
func (r *run) dPath(a *[numArgs]uint64) uint64 {
	n := int(uint32(a[2]))
	if n == 0 {
		return 0
	}
	to := r.fetch(a[1], n)
	if to == nil {
		return 0
	}
	path, ok := r.sys.types.pathAt(r.hit.Trap.Mem, a[0])
	if !ok {
		return errno(syscall.EFAULT)
	}
	path = append(path, 0)
	if len(path) > n {
		copy(to, path[len(path)-n:])
		return errno(syscall.ENAMETOOLONG)
	}
	copy(to[n-len(path):], path)
	copy(to, path)
	return uint64(len(path))
}

// Limits of a walk up from a file.
const (
	maxAbove = 4096 // directories and mounts
	maxName  = 256  // bytes of a name
)

// pathAt returns the name of the file to which a struct path of the kernel refers.
func (t *kernelTypes) pathAt(m abi.Memory, addr uint64) (path []byte, ok bool) {
	if t.parsed() == nil {
		return nil, false
	}
	of, dentry, qstr, vfsmount, mount := t.offsets("path"), t.offsets("dentry"), t.offsets("qstr"), t.offsets("vfsmount"), t.offsets("mount")
	if !of.have("mnt", "dentry") || !dentry.have("d_parent", "d_name") || !qstr.have("name") || !vfsmount.have("mnt_root") || !mount.have("mnt", "mnt_parent", "mnt_mountpoint") {
		return nil, false
	}
	failed := false
	read := func(addr uint64) uint64 {
		v, err := m.ReadU64(addr)
		failed = failed || err != nil
		return v
	}
	name := func(at uint64) []byte {
		var b [maxName]byte
		failed = failed || !abi.ReadString(m, read(at+dentry["d_name"]+qstr["name"]), b[:])
		text, _, _ := bytes.Cut(b[:], []byte{0})
		return text
	}
	mnt, at := read(addr+of["mnt"]), read(addr+of["dentry"])
	for range maxAbove {
		parent := read(at + dentry["d_parent"])
		root := at == read(mnt+vfsmount["mnt_root"])
		if failed {
			return nil, false
		}
		if !root && parent != at {
			path = append(append([]byte{'/'}, name(at)...), path...)
			at = parent
			continue
		}
		self := mnt - mount["mnt"]
		above := read(self + mount["mnt_parent"])
		switch {
		case above != self:
			mnt, at = above+mount["mnt"], read(self+mount["mnt_mountpoint"])
		case len(path) == 0 && !root: // of no directory: a pipe or a socket
			path = name(at)
			return path, !failed
		case len(path) == 0:
			return []byte("/"), true
		default:
			return path, !failed
		}
	}
	return nil, false
}
