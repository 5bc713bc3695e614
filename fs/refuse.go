package fs

import (
	"context"
	"fmt"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// op is a change of a directory.
type op int

const (
	opCreate op = iota // creat, mknod of a regular file
	opMkdir            // mkdir, symlink, link, mkfifo
	opRename
	opRemove // unlink, rmdir
)

// refusals are the errors of the operations that a filesystem's inodes do not have.
// Look-ups in proc never leave a negative dentry, so that each new name gives ENOENT.
var refusals = map[seqfile.Kind][4]syscall.Errno{
	seqfile.Ours:     {syscall.EACCES, syscall.EPERM, syscall.EPERM, syscall.EPERM},
	seqfile.Debugfs:  {syscall.EACCES, syscall.EPERM, syscall.EPERM, syscall.EPERM},
	seqfile.Tracefs:  {syscall.EACCES, syscall.EPERM, syscall.EPERM, syscall.EPERM},
	seqfile.Devtmpfs: {syscall.EACCES, syscall.EPERM, syscall.EPERM, syscall.EPERM},
	seqfile.Sysfs:    {syscall.EACCES, syscall.EPERM, syscall.EPERM, syscall.EPERM},
	seqfile.BPFFS:    {syscall.EACCES, syscall.EPERM, syscall.EPERM, syscall.EPERM},
	seqfile.Proc:     {syscall.ENOENT, syscall.ENOENT, syscall.ENOENT, syscall.EPERM},
	seqfile.ProcSys:  {syscall.ENOENT, syscall.ENOENT, syscall.ENOENT, syscall.EACCES},
}

func (n *node) refuse(o op) error {
	e, ok := refusals[n.kind]
	if !ok {
		e = refusals[seqfile.Ours]
	}
	return fmt.Errorf("%s cannot be changed: %w", n.at, e[o])
}

// mayChange checks that c may add or remove a name. In proc, ENOENT comes before
// EACCES.
func (n *node) mayChange(c *seqfile.Caller, name string) error {
	if err := n.search(c, name); err != nil {
		return err
	}
	if n.kind == seqfile.Proc || n.kind == seqfile.ProcSys {
		return nil
	}
	return n.permission(c, mayWrite|mayExec)
}

// change changes a directory with act, which returns false if the directory does not
// have the operation.
func (f *filesystem) change(cancel <-chan struct{}, h *fuse.InHeader, name string, o op,
	act func(context.Context, seqfile.Dir) (bool, error),
) fuse.Status {
	ctx, dir, c, err := f.begin(cancel, h)
	if err != nil {
		return f.tree.status(err)
	}
	if err := dir.mayChange(c, name); err != nil {
		return f.tree.status(err)
	}
	if o != opRemove {
		if err := f.tree.roomForNames(); err != nil {
			return f.tree.status(err)
		}
	}
	done, err := act(ctx, dir.rowNow().Dir)
	if !done {
		err = dir.refuse(o)
	}
	if err == nil && o == opRemove {
		f.tree.inodes.dropStale(dir, name)
	}
	return f.tree.status(err)
}

func refused(context.Context, seqfile.Dir) (bool, error) { return false, nil }

func (f *filesystem) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, _ *fuse.EntryOut) fuse.Status {
	o := opMkdir
	if in.Mode&syscall.S_IFMT == syscall.S_IFREG {
		o = opCreate
	}
	return f.change(cancel, &in.InHeader, name, o, refused)
}

func (f *filesystem) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	st := f.change(cancel, &in.InHeader, name, opMkdir, func(ctx context.Context, d seqfile.Dir) (bool, error) {
		if maker, ok := d.(seqfile.Maker); ok {
			return true, maker.Make(ctx, name, in.Mode, "")
		}
		m, ok := d.(seqfile.Mkdirer)
		if !ok {
			return false, nil
		}
		return true, m.Mkdir(ctx, name)
	})
	if st != fuse.OK {
		return st
	}
	return f.Lookup(cancel, &in.InHeader, name, out)
}

func (f *filesystem) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	st := f.change(cancel, h, name, opMkdir, func(ctx context.Context, d seqfile.Dir) (bool, error) {
		m, ok := d.(seqfile.Maker)
		if !ok {
			return false, nil
		}
		return true, m.Make(ctx, name, 0, target)
	})
	if st != fuse.OK {
		return st
	}
	return f.Lookup(cancel, h, name, out)
}

func (f *filesystem) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, _ *fuse.EntryOut) fuse.Status {
	return f.change(cancel, &in.InHeader, name, opMkdir, refused)
}

func (f *filesystem) Rename(cancel <-chan struct{}, in *fuse.RenameIn, name, to string) fuse.Status {
	into := f.tree.inodes.get(in.Newdir)
	if in.Newdir == fuse.FUSE_ROOT_ID {
		into = f.root
	}
	st := f.change(cancel, &in.InHeader, name, opRename, func(ctx context.Context, d seqfile.Dir) (bool, error) {
		m, ok := d.(seqfile.Maker)
		if !ok || into == nil {
			return false, nil
		}
		if err := into.mayChange(seqfile.CallerOf(ctx), to); err != nil {
			return true, err
		}
		return true, m.Rename(ctx, name, into.rowNow().Dir, to, in.Flags)
	})
	if st == fuse.OK {
		f.tree.inodes.dropStale(f.node(&in.InHeader), name)
	}
	return st
}

func (f *filesystem) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.change(cancel, h, name, opRemove, func(ctx context.Context, d seqfile.Dir) (bool, error) {
		u, ok := d.(seqfile.Unlinker)
		if !ok {
			return false, nil
		}
		return true, u.Unlink(ctx, name)
	})
}

func (f *filesystem) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.change(cancel, h, name, opRemove, func(ctx context.Context, d seqfile.Dir) (bool, error) {
		m, ok := d.(seqfile.Mkdirer)
		if !ok {
			return false, nil
		}
		return true, m.Rmdir(ctx, name)
	})
}

// Tmpfile is O_TMPFILE.
func (f *filesystem) Tmpfile(_ <-chan struct{}, in *fuse.CreateIn, _ *fuse.CreateOut) fuse.Status {
	if n := f.node(&in.InHeader); n != nil && (n.kind == seqfile.Proc || n.kind == seqfile.ProcSys) {
		return fuse.EACCES
	}
	return fuse.Status(syscall.EOPNOTSUPP)
}
