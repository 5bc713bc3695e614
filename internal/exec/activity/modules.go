package activity

import (
	"context"
	"errors"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// asCaller returns a context in which a module's functions run on tasks that are named as
// the caller is.
func asCaller(ctx context.Context, by host.Caller) context.Context {
	comm := "unknown"
	if by.Comm != nil {
		comm = by.Comm()
	}
	ctx = seqfile.WithCaller(ctx, &seqfile.Caller{PID: by.PID, TID: by.TID, CommFunc: func() string { return comm }})
	return host.WithComm(ctx, comm)
}

// InitModule is init_module(2) of a program whose permission was checked. It keeps ko. Its
// errors are module.Loader.Insert's, EPERM when the kernel is locked down, ENOMEM
// beyond the limit of memory, and ErrOops.
func (a *Activity) InitModule(ctx context.Context, by host.Caller, ko []byte, o module.Options) error {
	return oopsed(a.modules.Insert(killedWith(ctx, asCaller(ctx, by)), ko, o))
}

// killedWith returns a context in which the function of a module gets SIGKILL when ctx,
// its insmod's or rmmod's, ends: it goes on, but its waits may end.
func killedWith(ctx, as context.Context) context.Context { return host.WithKill(as, ctx.Done()) }

// DeleteModule is delete_module(2) of such a program. Its errors are
// module.Loader.Remove's, and ErrOops. A device of the module that has been closed before the call
// does not keep the module in use: FUSE's RELEASE may come after it.
func (a *Activity) DeleteModule(ctx context.Context, by host.Caller, name string, force bool) error {
	a.host.AwaitClosed(ctx)
	return oopsed(a.modules.Remove(killedWith(ctx, asCaller(ctx, by)), name, force))
}

// ErrOops means that the task which made a call has died in it. On Linux its process would
// have been killed.
var ErrOops = errors.New("the task has died in the call")

func oopsed(err error) error {
	if errors.Is(err, host.ErrDied) {
		return errors.Join(ErrOops, err)
	}
	return err
}

// Syslog is syslog(2) of such a program: see kernel.Log.Syslog.
func (a *Activity) Syslog(ctx context.Context, action, size int, null bool) (text []byte, ret int, err error) {
	return a.log.Syslog(ctx, action, size, null)
}
