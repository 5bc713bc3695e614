package fs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// boot is the guest that files use from one boot of the machine to the next, or to
// the end of the tree.
type boot struct {
	Guest
	tree *Tree
	over chan struct{} // closed when another boot takes its place
}

func (t *Tree) newBoot(g Guest) *boot { return &boot{g, t, make(chan struct{})} }

// errOver is the error of files that were opened in an earlier boot.
var errOver = fmt.Errorf("the file belongs to a machine that has been replaced: %w", syscall.EIO)

func (b *boot) isOver() bool {
	select {
	case <-b.over:
		return true
	default:
		return false
	}
}

// ends returns a channel that is closed when a file can no longer be used: when the
// guest has stopped or, for a file that stays usable (seqfile.Row.UsableAfterPanic),
// when the boot is over.
func (b *boot) ends(usable bool) <-chan struct{} {
	if usable {
		return b.over
	}
	return b.Stopped()
}

// do makes a call in the guest, with op as the file's operation. Once the guest has
// stopped, the operations of files that last run without it, and also while a debugger
// has stopped it, except for opens and releases, which are about the guest's descriptor. The positions in op are
// the guest's and not used, since only the host's kernel knows about lseek(2) and
// pread(2).
func (b *boot) do(ctx context.Context, c *seqfile.Caller, call host.Call, usable bool, op host.FileOp) (n int, out []byte, err error) {
	if b.isOver() {
		return 0, nil, errOver
	}
	came := false // op has run, and returned n and err
	part := func(ctx context.Context, o host.Op) (int, error) {
		oc := &opContext{Context: ctx, ends: b.ends(usable)}
		defer oc.end()
		n, err = op(oc, o)
		err, came = b.tree.errno(err), true
		return n, err
	}
	if usable && call.Nr != abi.SysOpenat && call.Nr != abi.HostRelease && b.waits() {
		_, _ = directly(ctx, call, part)
		return n, call.Into[:min(n, len(call.Into))], err
	}
	ret, got, failed := b.Do(ctx, host.Caller{TID: c.TID, PID: c.PID, Comm: c.Comm}, call, part)
	switch {
	case failed == nil && ret < 0:
		return 0, nil, clamp(syscall.Errno(-ret))
	case failed == nil:
		return int(ret), got, nil
	case !usable || !errors.Is(failed, host.ErrStopped):
		return 0, nil, failed
	case !came:
		_, _ = directly(ctx, call, part)
	}
	if b.isOver() {
		return 0, nil, errOver
	}
	return n, call.Into[:min(n, len(call.Into))], err
}

// waits reports whether files answer without the machine, because a debugger has stopped it. Where requests have an order,
// what is done for them must not depend on that.
func (b *boot) waits() bool { return b.tree.sequence == nil && b.Waits() }

// do makes a call on the file as boot.do does, or none if the file does not go through the guest.
func (h *handle) do(ctx context.Context, c *seqfile.Caller, call host.Call, op host.FileOp) (n int, out []byte, err error) {
	if !h.withoutGuest {
		return h.boot.do(ctx, c, call, h.usableAfterPanic, op)
	}
	if h.boot.isOver() {
		return 0, nil, errOver
	}
	oc := &opContext{Context: ctx, ends: h.boot.ends(h.usableAfterPanic)}
	defer oc.end()
	n, err = directly(oc, call, op)
	return n, call.Into[:min(n, len(call.Into))], h.tree.errno(err)
}

// opContext is the context of a FileOp, which also ends when the file can no longer be
// used. Only an operation that waits for Done pays for that.
type opContext struct {
	context.Context
	ends <-chan struct{} // nil means never

	mu         sync.Mutex
	done, over chan struct{} // made by the first Done
}

// Done is closed when the caller is interrupted, or when the file can no longer be used.
func (c *opContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		done, over := make(chan struct{}), make(chan struct{})
		c.done, c.over = done, over
		go func() {
			select {
			case <-c.Context.Done():
			case <-c.ends:
			case <-over:
				return
			}
			close(done)
		}()
	}
	return c.done
}

// Err returns an error when Done is closed or about to be.
func (c *opContext) Err() error {
	select {
	case <-c.ends:
		return context.Canceled
	default:
		return c.Context.Err()
	}
}

func (c *opContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		close(c.over)
	}
}

// Replace has the files use another guest, after a new boot of the machine. roots has
// the new root of each mount of the tree. A new row takes the place of the old one with
// its name; files without a new row are gone. Files that are open give EIO from now on.
func (t *Tree) Replace(guest Guest, roots map[*Mount]*seqfile.Row) {
	for m, row := range roots {
		t.inodes.renew(m.fs.root, row)
	}
	close(t.put(guest).over)
}

// put has the files use a guest, and returns the boot before.
func (t *Tree) put(guest Guest) (old *boot) {
	guest.OnAwaitClosed(func(ctx context.Context) bool { return t.releases.wait(nil, ctx.Done(), func() {}) })
	return t.boot.Swap(t.newBoot(guest))
}

// End makes all files give EIO for ever.
func (t *Tree) End() {
	last := t.newBoot(direct{})
	close(last.over)
	if old := t.boot.Swap(last); !old.isOver() {
		close(old.over)
	}
}

// renew sets new rows in a node and those below it.
func (t *inodes) renew(n *node, row *seqfile.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewAll(n, row)
}

// renewAll needs mu.
func (t *inodes) renewAll(n *node, row *seqfile.Row) {
	if n.row == row { // it is in more than one directory
		return
	}
	delete(t.byRow, n.added)
	n.added = row
	t.byRow[row] = n
	n.take(row)
	for name, c := range n.children {
		next := seqfile.Find(row.Dir, name)
		if next != nil && c.standsFor(next) {
			t.renewAll(c, next)
			continue
		}
		c.disconnect()
		t.drop(n, c)
	}
}

// disconnect makes opens of a removed node and those below it fail: they belong to a
// machine that has been replaced.
func (n *node) disconnect() {
	row := *n.key
	row.Open = func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) { return nil, errOver }
	n.mu.Lock()
	n.row = &row
	n.mu.Unlock()
	for _, c := range n.children {
		c.disconnect()
	}
}
