package fs

import (
	"context"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// Guest makes the system calls of the host's processes in the emulated kernel. A
// *host.Host is one.
type Guest interface {
	// Do returns the result of the guest's system call, a count or -errno, and the
	// data of a read. err means that there is no result: host.ErrStopped when the
	// guest has stopped, and Stopped is closed.
	Do(ctx context.Context, c host.Caller, call host.Call, op host.FileOp) (ret int64, out []byte, err error)
	// OnAwaitClosed sets a function that waits until the files whose last close(2) has
	// returned are released, and reports whether they are.
	OnAwaitClosed(wait func(ctx context.Context) bool)
	Stopped() <-chan struct{}
	// Waits reports whether a debugger has stopped the machine, so that a call would wait.
	Waits() bool
}

var _ Guest = (*host.Host)(nil)

// direct is the Guest of a Tree without a machine: it runs each call's FileOp at once.
type direct struct{}

var _ Guest = direct{}

func (direct) OnAwaitClosed(func(context.Context) bool) {}

func (direct) Do(ctx context.Context, _ host.Caller, call host.Call, op host.FileOp) (int64, []byte, error) {
	n, err := directly(ctx, call, op)
	if err != nil {
		return -int64(errnoOf(err)), nil, nil
	}
	return int64(n), call.Into[:min(n, len(call.Into))], nil
}

// directly runs the FileOp of a call without a guest.
func directly(ctx context.Context, call host.Call, op host.FileOp) (int, error) {
	buf := call.Data
	if call.Nr == abi.SysRead {
		buf = call.Into[:call.Count]
	}
	return op(ctx, host.Op{Kind: opOf(call.Nr), Buf: buf})
}

func (direct) Stopped() <-chan struct{} { return nil }
func (direct) Waits() bool              { return false }

// opOf returns the operation that a system call comes to.
func opOf(nr uint64) int {
	switch nr {
	case abi.SysOpenat:
		return abi.OpOpen
	case abi.SysRead:
		return abi.OpRead
	case abi.SysWrite:
		return abi.OpWrite
	case abi.SysNewfstatat:
		return abi.OpStat
	case abi.SysGetdents64:
		return abi.OpReaddir
	case abi.HostFilpClose:
		return abi.OpFlush
	}
	return abi.OpRelease
}
