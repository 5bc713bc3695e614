package kprobefs

import (
	"context"
	iofs "io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// Mount serves the tree at a directory, by FUSE. A thread that waits for one of the files
// cannot serve it: use the files in another process. Unmount before Close.
func (k *Kernel) Mount(dir string) (*fs.Mount, error) {
	root := &seqfile.Row{Name: "/", Mode: 0o755, Kind: seqfile.Ours, At: "/", Dir: k.Tree()}
	tree := fs.New(k.Guest(), nil)
	k.WatchEntries(tree.Gone)
	return tree.Mount(root, dir, fs.MountOptions{})
}

// WatchEntries has tell called after guest code has made files or removed them, with the
// paths of those that have gone since the last call. The calls do not overlap.
func (k *Kernel) WatchEntries(tell func(gone []string)) { k.Machine.Entries().Watch(tell) }

// ReadFile reads a file of the tree to its end, such as "kprobes/list", without a mount. It
// is not a system call of the guest, so the read hits no probe. The error is an
// *fs.PathError with Linux's errno.
func (k *Kernel) ReadFile(name string) ([]byte, error) {
	f, err := k.open(name, os.O_RDONLY)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	defer f.Release()
	var text []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(context.Background(), buf, int64(len(text)))
		if err != nil {
			return text, pathError("read", name, err)
		}
		if n == 0 {
			return text, nil
		}
		text = append(text, buf[:n]...)
	}
}

// WriteFile truncates a file of the tree and writes to it, as "> name" does in a shell:
// the events in "tracing/kprobe_events" are deleted.
func (k *Kernel) WriteFile(name, text string) error {
	return k.write(name, text, os.O_WRONLY|os.O_TRUNC)
}

// AppendFile writes to a file of the tree, as ">> name" does in a shell.
func (k *Kernel) AppendFile(name, text string) error {
	return k.write(name, text, os.O_WRONLY|os.O_APPEND)
}

func (k *Kernel) write(name, text string, flags int) error {
	f, err := k.open(name, flags)
	if err != nil {
		return pathError("open", name, err)
	}
	defer f.Release()
	for off := 0; ; {
		n, err := f.Write(context.Background(), []byte(text[off:]), int64(off))
		if err != nil {
			return pathError("write", name, err)
		}
		if off += n; off >= len(text) {
			break
		}
	}
	if flusher, ok := seqfile.As[seqfile.Flusher](f); ok {
		return pathError("close", name, flusher.Flush(context.Background()))
	}
	return nil
}

// open opens a file as root.
func (k *Kernel) open(name string, flags int) (seqfile.File, error) {
	row := &seqfile.Row{Dir: k.Tree()}
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if row.Dir == nil {
			return nil, syscall.ENOTDIR
		}
		if row = seqfile.Find(row.Dir, part); row == nil {
			return nil, syscall.ENOENT
		}
	}
	if row.Open == nil {
		return nil, syscall.EISDIR
	}
	return row.Open(context.Background(), &seqfile.OpenInfo{Flags: uint32(flags)})
}

// pathError wraps err, if it is not nil, in an *fs.PathError.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &iofs.PathError{Op: op, Path: name, Err: err}
}
