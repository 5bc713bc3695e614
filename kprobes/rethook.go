package kprobes

import (
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Rethook is a struct rethook whose user is not a return probe: fprobes, which
// learn of a function's entry in another way, hook its return with it.
type Rethook struct {
	hits *Hits
	pool *instancePool
}

// NewRethook is rethook_alloc, for the given number of calls at a time, each with
// dataSize bytes of data. exit is called at the returns, in handler context; changes
// that it makes to the registers are ignored. NewRethook fails with EINVAL for no calls
// or too much data, and with ENOENT when the guest has no trampoline.
func (k *Kprobes) NewRethook(calls int, dataSize uint64, exit func(ri *Instance, t *abi.Trap)) (*Rethook, error) {
	if calls <= 0 || dataSize > maxRetData {
		return nil, errf(syscall.EINVAL, "%d calls with %d bytes of data", calls, dataSize)
	}
	if err := k.returning.find(); err != nil {
		return nil, err
	}
	pool := newPool(nil, calls, dataSize, len(k.cpus))
	pool.exit = exit
	return &Rethook{&k.Hits, pool}, nil
}

// Get is rethook_try_get: it returns an instance for a call of the task that has just
// begun, to be passed to Hook, or nil when all are in use. Handlers may call it.
func (r *Rethook) Get(t *abi.Trap) *Instance {
	ri := r.pool.get(t.CPU)
	if ri != nil {
		ri.Task = t.Task
	}
	return ri
}

// Hook is rethook_hook: the call that has just begun will return through the
// trampoline. Handlers may call it.
func (r *Rethook) Hook(ri *Instance, t *abi.Trap) {
	if !r.hits.returning.hook(ri, t) {
		r.pool.put(ri)
	}
}

// Stop is rethook_free: calls that are still in the function return without calling exit.
func (r *Rethook) Stop() { r.pool.dead.Store(true) }
