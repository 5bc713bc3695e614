package kprobefs

import (
	"context"
	"errors"
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
	if err := k.users.begin(); err != nil {
		return nil, err
	}
	defer k.users.leave()
	root := &seqfile.Row{Name: "/", Mode: 0o755, Kind: seqfile.Ours, At: "/", Dir: k.Tree()}
	tree := fs.New(k.Machine.Host(), nil)
	tree.Record(k.writes)
	k.Machine.Entries().Watch(tree.Gone)
	return tree.Mount(root, dir, fs.MountOptions{})
}

// ReadFile reads a file of the tree to its end, such as "kprobes/list", without a mount. It
// is not a system call of the guest, so the read hits no probe. The error is an
// *fs.PathError with Linux's errno. Of a file without an end, such as "tracing/trace_pipe", it
// returns when the kernel is closed.
func (k *Kernel) ReadFile(name string) ([]byte, error) {
	return k.ReadFileContext(context.Background(), name)
}

// ReadFileContext is ReadFile until the end of ctx: it then returns what it has read, and ctx's error.
func (k *Kernel) ReadFileContext(ctx context.Context, name string) (text []byte, err error) {
	err = k.withFile(ctx, name, os.O_RDONLY, func(ctx context.Context, f seqfile.File) error {
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(ctx, buf, int64(len(text)))
			if err != nil {
				return pathError("read", name, err)
			}
			if n == 0 {
				return nil
			}
			text = append(text, buf[:n]...)
		}
	})
	return text, err
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
	return k.withFile(context.Background(), name, flags, func(ctx context.Context, f seqfile.File) error {
		for off := 0; ; {
			n, err := f.Write(ctx, []byte(text[off:]), int64(off))
			k.wrote(name, text[off:], n, err)
			if err != nil {
				return pathError("write", name, err)
			}
			if off += n; off >= len(text) {
				break
			}
		}
		if flusher, ok := seqfile.As[seqfile.Flusher](f); ok {
			return pathError("close", name, flusher.Flush(ctx))
		}
		return nil
	})
}

// wrote records a write of this process.
func (k *Kernel) wrote(name, text string, n int, err error) {
	x := seqfile.Written{PID: os.Getpid(), UID: uint32(os.Getuid()), Comm: "kprobefs", File: k.inGuest(name), Bytes: n}
	if err != nil && !errors.As(err, &x.Err) {
		x.Err = syscall.EIO
	}
	k.writes.Add(x, []byte(text))
}

// inGuest returns the guest's path of a file of the tree.
func (k *Kernel) inGuest(name string) string {
	at, row := "/", &seqfile.Row{Dir: k.Tree()}
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if row.Dir == nil {
			break
		}
		if row = seqfile.Find(row.Dir, part); row == nil {
			break
		}
		if at = path.Join(at, part); row.At != "" {
			at = row.At
		}
	}
	return at
}

// withFile opens a file, runs do, and closes the file. The context of do ends with ctx, or when the
// kernel is closed.
func (k *Kernel) withFile(ctx context.Context, name string, flags int, do func(context.Context, seqfile.File) error) error {
	if ctx == nil {
		return errNoContext
	}
	return k.using(func() error {
		within, cancel := k.until(ctx)
		defer cancel()
		f, err := k.open(within, name, flags)
		if err != nil {
			return k.because(ctx, pathError("open", name, err))
		}
		defer f.Release()
		return k.because(ctx, do(within, f))
	})
}

// open opens a file as root.
func (k *Kernel) open(ctx context.Context, name string, flags int) (seqfile.File, error) {
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
	return row.Open(ctx, &seqfile.OpenInfo{Flags: uint32(flags)})
}

// pathError wraps err, if it is not nil, in an *fs.PathError.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &iofs.PathError{Op: op, Path: name, Err: err}
}
