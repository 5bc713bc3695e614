package fs

import (
	"context"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// Guest runs the host's requests as system calls of the emulated kernel:
// *host.Host. ret is the guest's result, bytes or -errno; out is what the
// caller's buffer then holds. err says that there was no result.
type Guest interface {
	Do(ctx context.Context, c host.Caller, call host.Call, leaf host.Leaf) (ret int64, out []byte, err error)
}

var _ Guest = (*host.Host)(nil)

// direct stands for a machine where there is none: every call comes to its leaf.
type direct struct{}

var _ Guest = direct{}

func (direct) Do(ctx context.Context, _ host.Caller, call host.Call, leaf host.Leaf) (int64, []byte, error) {
	out, n, err := leaf(ctx, leafOf(call.Nr), call.Data, call.Count, 0)
	if err != nil {
		return -int64(errnoOf(err)), nil, nil
	}
	return n, out, nil
}

func leafOf(nr uint64) int {
	switch nr {
	case syscall.SYS_OPENAT:
		return abi.LeafOpen
	case syscall.SYS_READ:
		return abi.LeafRead
	case syscall.SYS_WRITE:
		return abi.LeafWrite
	case syscall.SYS_NEWFSTATAT:
		return abi.LeafStat
	case syscall.SYS_GETDENTS64:
		return abi.LeafReaddir
	case abi.HostFilpClose:
		return abi.LeafFlush
	}
	return abi.LeafRelease
}
